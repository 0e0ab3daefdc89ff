// Scores of Sphinx's search: an object of exactly this name comes before pages that only contain the word, and a name of
// diffkern before that of a dialect, and a function before a method of arrays. Words that a reader may look for are
// index entries of the pages.
var Scorer = {
  objNameMatch: 200,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, title, anchor, description, score]) =>
    (page === "reference/cuda" && anchor.startsWith("#diffkern.cuda.")) || anchor.startsWith("#diffkern.array.")
      ? score - 3
      : score,
};
