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
