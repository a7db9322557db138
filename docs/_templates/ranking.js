// What Sphinx's search finds, in the order in which a reader wants it: the page that is called so,
// then headings and symptoms that say it, then text; what only counts or collects comes last.
// Where it finds nothing, words are taken as misspelt, and then any of them will do.
const LAST = /^(ledger|changelog|reference\/(gallery|coming-from)|tutorial\/errata)/;
const BY_NAME = 150; // as many points as a page gets that is called what is searched for
const BY_HEADING = 90;
const BY_SYMPTOM = 120;
const QUOTED_FROM = 20; // letters: a shorter heading, such as "The loss", may be there by chance
const ENOUGH = 0.6; // of the words of a query stand in a symptom
const LEAST = 0.2; // of the words of a symptom stand in a query

const stems = (words) => words.map((word) => new Stemmer().stemWord(word));

const split = (text) => splitQuery(text.toLowerCase().replace(/_/g, " ")); // as the index was cut

const asWords = (text) => stems(split(text).filter((word) => !stopwords.has(word)));

const asName = (text) => stems(split(text)).join("");

const shareOf = (words, others) =>
  words.length ? words.filter((word) => others.includes(word)).length / words.length : 0;

let query = "";
let asked = [];

const nameScore = (page) => {
  const name = page.split("/").pop();
  if (asName(name) === asName(query)) return BY_NAME;
  const names = asWords(name);
  const called = [...names, ...asWords(titleOf(page))];
  return (shareOf(asked, called) * (shareOf(names, asked) + shareOf(called, asked)) * BY_NAME) / 4;
};

var Scorer = {
  score: ([page, , anchor, , score, , kind]) => {
    if (kind === "index") return anchor ? score : 0; // a symptom, which `bySymptom` weighs
    const weight = LAST.test(page) ? 0.1 : kind === "title" ? 7 : 1;
    return weight * score + nameScore(page);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

const titleOf = (page) => Search._index.titles[Search._index.docnames.indexOf(page)];

const result = (file, title, anchor, score, kind) => {
  const { docnames, filenames } = Search._index;
  return [docnames[file], title, anchor, null, score, filenames[file], kind];
};

// Symptoms stand in the index without a place on their page: what someone types who has them.
const bySymptom = () =>
  Object.entries(Search._index.indexentries).flatMap(([symptom, places]) => {
    const words = asWords(symptom);
    const [ofQuery, ofSymptom] = [shareOf(asked, words), shareOf(words, asked)];
    if (ofQuery < ENOUGH || ofSymptom < LEAST) return [];
    const score = (BY_SYMPTOM * ofQuery * (1 + ofSymptom)) / 2;
    return places
      .filter(([, anchor]) => !anchor)
      .map(([file]) => result(file, Search._index.titles[file], "", score, "text"));
  });

// A message that is pasted says more than its heading: the name of the error before it, numbers and
// shapes in it, advice after it. One that is half remembered says less.
const isQuoted = (message, heading) =>
  (heading.length >= QUOTED_FROM &&
    new RegExp(heading.split("…").map(_escapeRegExp).join(".*")).test(message)) ||
  (asked.length > 1 && message.length >= QUOTED_FROM / 2 && heading.includes(message));

const byHeading = () =>
  Object.entries(Search._index.alltitles)
    .filter(([heading]) => isQuoted(query.toLowerCase().trim(), heading.toLowerCase()))
    .flatMap(([heading, places]) =>
      places
        .filter(([, anchor]) => anchor)
        .map(([file, anchor]) => {
          const title = `${Search._index.titles[file]} > ${heading}`;
          return result(file, title, `#${anchor}`, BY_HEADING + heading.length / 10, "title");
        }),
    );

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

const asMeant = (word) => {
  const known = Object.keys({ ...Search._index.terms, ...Search._index.titleterms });
  if (word.length < 4 || known.some((term) => term.includes(word))) return word;
  const most = word.length < 8 ? 1 : 2;
  const near = known
    .filter((term) => Math.abs(term.length - word.length) <= most)
    .map((term) => [distance(word, term), term])
    .filter(([changes]) => changes <= most)
    .sort(([fewer], [more]) => fewer - more);
  return near[0]?.[1] ?? word;
};

const byAnyWord = (words, excluded) => {
  const pages = new Map();
  for (const word of words)
    for (const found of Search.performTermsSearch(new Set([word]), excluded)) {
      const [place, title, anchor, text, , ...more] = found;
      const score = Scorer.score(found) + (pages.get(place)?.[4] ?? 0);
      pages.set(place, [place, title, anchor, text, score, ...more]);
    }
  return [...pages.values()];
};

const searchAsGiven = Search._performSearch;

const search = (given, words, ...more) => {
  query = given;
  asked = asWords(query);
  return [...searchAsGiven(query, words, ...more), ...bySymptom(), ...byHeading()];
};

Search._performSearch = (given, words, excluded, ...more) => {
  let found = search(given, words, excluded, ...more);
  if (!found.length) {
    const meant = new Set([...words].map(asMeant));
    found = search([...meant].join(" "), meant, excluded, ...more);
    if (!found.length) found = byAnyWord(meant, excluded);
  }
  const best = new Map();
  for (const one of found) {
    const place = `${one[0]}${one[2]}`;
    if (!(best.get(place)?.[4] >= one[4])) best.set(place, one);
  }
  return [...best.values()].sort(_orderResultsByScoreThenName);
};
