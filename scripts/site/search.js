/* How the site's search ranks what it finds: a page that explains stands before the members that have the
   word in their name.  Sphinx adds the number of each kind that fits. */
var Scorer = { // not const: Sphinx's own script declares it, too
  // What is found, with its number: what users are shown to do comes before how it is made.
  score: ([page, , , , number]) =>
    number + (/^(start|how-to)\//.test(page) ? 5 : /^inside\//.test(page) ? -3 : 0),

  // A member whose name is the word, or has it in it; then by its kind.
  objNameMatch: 4,
  objPartialMatch: 1,
  objPrio: { 0: 0, 1: 0, 2: -5 },
  objPrioDefault: 0,

  // The title of a page or of a section of it.
  title: 15,
  partialTitle: 10,

  // The text of a page.
  term: 5,
  partialTerm: 2,
};
