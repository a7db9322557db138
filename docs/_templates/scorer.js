// Sphinx's own scores, but for one: a heading that holds what is searched for counts as much as an
// entry of the index. The headings of the page of errors are PyTorch's messages.
var Scorer = {
  score: ([, , , , score, , kind]) => (kind === "title" ? 7 * score : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// A message that is pasted says more than its heading: the name of the error before it, numbers and
// shapes in it, advice after it. The longest heading that it quotes is then what is searched for.
const QUOTED_FROM = 20; // letters: a shorter one, such as "The loss", may be there by chance

const quotes = (message, heading) =>
  new RegExp(heading.split("…").map(_escapeRegExp).join(".*")).test(message);

const headingIn = (message) =>
  Object.keys(Search._index.alltitles)
    .filter((heading) => heading.length >= QUOTED_FROM)
    .filter((heading) => quotes(message.toLowerCase(), heading.toLowerCase()))
    .sort((one, other) => other.length - one.length)[0];

const searchAsGiven = Search._performSearch;
Search._performSearch = (query, ...terms) => searchAsGiven(headingIn(query) ?? query, ...terms);
