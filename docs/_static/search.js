// Search, and suggestions while one types, over the index that Sphinx writes. A page is as good an
// answer as its best phrase: its title, a heading, a keyword, a name. Rare words count more, words
// that only make a question count nothing, and the text decides among pages with equal phrases.
"use strict";

const WEIGHTS = { // of phrases, by what they are
  title: 1, keyword: 1, name: 1, object: 1, heading: 0.75, claim: 0.7, term: 0.7, member: 0.6,
};
const OF_TEXT = 0.5;
const SAME = 1.2; // a phrase that is the query
const LAST = /^(ledger|changelog|404|reference\/gallery|tutorial\/errata|how-to\/index)/;
const OF_QUESTIONS = new Set(
  `get use using pytorch torch work works need want mean means make way happen happens still instead
  without vs versus difference explain understand actually problem question tell give s t re ve don
  doesn isn won didn would just really exactly anyone something`.split(/\s+/),
);
const OF_CHINESE_QUESTIONS = new RegExp(
  "为什么|为何|是什么意思|什么意思|什么是|是什么|是啥|什么时候|怎么办|怎么回事|怎么样|怎么|怎样|如何|请问|" +
    "哪里|哪个|应该|可以|能不能|是不是|有没有|一下|吗|呢|啊|的|了|我",
  "g",
);
const ROOT = document.documentElement.dataset.content_root;

const load = (file) =>
  new Promise((onload) => document.head.append(
    Object.assign(document.createElement("script"), { src: ROOT + file, onload }),
  ));

// Chinese is cut into pairs of characters, as chinese_search.py cuts it.
const pairsOf = (run) =>
  /^[\u4e00-\u9fff]{2}/.test(run) ? [...run].slice(1).map((c, n) => run[n] + c) : [run];

const cut = (text) =>
  text.split(/([\u4e00-\u9fff]+)|[^\p{L}\p{N}]+/u).filter(Boolean).flatMap(pairsOf);

// The words of a text that say what it is about, in the form in which the index has them.
const wordsOf = (text) => {
  const names = text.toLowerCase().match(/[a-z]+_[a-z_]+/g) ?? []; // zero_grad is more than its parts
  const words = cut(text.toLowerCase().replace(OF_CHINESE_QUESTIONS, " "));
  const telling = words.filter((word) => !stopwords.has(word) && !OF_QUESTIONS.has(word));
  const stemmer = new Stemmer();
  const stems = (telling.length ? telling : words).map((word) => stemmer.stemWord(word));
  return new Set([...names, ...stems]);
};

const squeezed = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");

// The number of letters to change, leave out, put in or swap.
const distance = (one, other) => {
  let before = [], last = [...Array(other.length + 1).keys()];
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (one[i - 1] !== other[j - 1]));
      if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1])
        row[j] = Math.min(row[j], before[j - 2] + 1);
    }
    [before, last] = [last, row];
  }
  return last[other.length];
};

// Whatever names a page or a place on it: [page, kind, text, anchor].
const phrasesOf = ({ docnames, alltitles, indexentries, objects }) => [
  ...docnames.map((name, page) => [page, "name", name.replace(/^(.*\/)?(index$)?/, ""), ""]),
  ...Object.entries(alltitles).flatMap(([text, places]) =>
    places.map(([page, anchor]) => [page, anchor ? "heading" : "title", text, anchor ?? ""])),
  ...Object.entries(indexentries).flatMap(([text, places]) =>
    places.map(([page, anchor]) => [page, anchor.split("-")[0] || "keyword", text, anchor])),
  ...Object.entries(objects).flatMap(([prefix, members]) =>
    members.map(([page, , , , name]) =>
      [page, prefix === "leafgrad" ? "object" : "member", name, `${prefix}.${name}`])),
].filter(([, kind]) => kind in WEIGHTS);

const Search = {
  // Sphinx's file calls this with what it holds.
  setIndex(index) {
    const { docnames, titles } = index;
    this.pages = docnames.map((name, n) => ({ name, title: titles[n], words: new Set() }));
    this.phrases = phrasesOf(index).map((phrase) => [...phrase, wordsOf(phrase[2])]);
    for (const [page, , , , words] of this.phrases)
      for (const word of words) this.pages[page].words.add(word);
    for (const [term, pages] of Object.entries({ ...index.titleterms, ...index.terms }))
      for (const page of [pages].flat())
        for (const word of [term, ...cut(term)]) this.pages[page].words.add(word);
    const found = {};
    for (const { words } of this.pages) for (const word of words) found[word] = (found[word] ?? 0) + 1;
    this.rarity = new Map(
      Object.entries(found).map(([word, count]) => [word, Math.log(1 + titles.length / count)]),
    );
  },

  // A word that no page has: one that begins so, as it is being typed, or the nearest by letters.
  // People rarely mistype the first letter.
  meant(word) {
    if (this.rarity.has(word) || word.length < 3) return word;
    const most = word.length < 8 ? 1 : 2;
    const cost = (other) =>
      other.startsWith(word) ? other.length / 100
      : other[0] !== word[0] || Math.abs(other.length - word.length) > most ? Infinity
      : distance(word, other);
    const near = [...this.rarity.keys()].map((other) => [cost(other), other]);
    const [changes, other] = near.reduce((best, one) => (one[0] < best[0] ? one : best));
    return changes <= most ? other : word;
  },

  // Pages, best first: each with the place on it that its best phrase names.
  find(query) {
    const whole = squeezed(query);
    const asked = [...wordsOf(query)].map((word) => this.meant(word));
    const sum = (words) => [...words].reduce((all, word) => all + (this.rarity.get(word) ?? 0), 0);
    const shared = (words) => sum(asked.filter((word) => words.has(word)));
    const all = sum(asked) || 1;
    const best = this.pages.map(() => ({ score: 0 }));
    for (const [page, kind, text, anchor, words] of this.phrases) {
      const alike = squeezed(text) === whole ? SAME : shared(words) / Math.sqrt(all * sum(words) || 1);
      const score = WEIGHTS[kind] * alike;
      if (score > best[page].score) best[page] = { score, kind, text, anchor };
    }
    return this.pages
      .map(({ name, title, words }, n) => {
        const { score, kind, text, anchor = "" } = best[n];
        const late = LAST.test(name) && score < 1 ? 0.4 : 1;
        return {
          name,
          title: /heading|term|claim/.test(kind) ? `${title} › ${text}` : title,
          place: `${ROOT}${name}.html${anchor && `#${anchor}`}`,
          score: late * (score + (OF_TEXT * shared(words)) / all),
        };
      })
      .filter(({ score }) => score > 0.25)
      .sort((one, other) => other.score - one.score);
  },
};

let loaded;
const prepare = () =>
  (loaded ??= load("_static/language_data.js").then(() =>
    Promise.all([load("searchindex.js"), load("_static/summaries.js")])));

const show = async (query, list, most) => {
  await prepare();
  const found = query.trim() ? Search.find(query).slice(0, most) : [];
  list.replaceChildren(...found.map(({ name, title, place }) => {
    const item = document.createElement("li");
    item.innerHTML = "<a></a><p></p>";
    Object.assign(item.firstChild, { textContent: title, href: place });
    item.lastChild.textContent = summaries[name];
    return item;
  }));
  return found.length;
};

const box = document.querySelector(".sidebar-search");
const suggestions = document.createElement("ul");
document.querySelector("#searchbox")?.append(suggestions);
box?.addEventListener("focus", prepare);
box?.addEventListener("input", () => show(box.value, suggestions, 5));

const given = new URLSearchParams(location.search).get("q");
const results = document.querySelector("ul.search");
if (results && given) {
  for (const one of document.querySelectorAll("[name=q]")) one.value = given;
  show(given, results, 20).then((count) => {
    document.querySelector("#search-results").hidden = !count;
    document.querySelector("#search-nothing").hidden = count;
  });
}
