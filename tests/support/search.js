// Print page and anchor, as JSON, of what Sphinx's search finds first in built pages: node search.js DIRECTORY QUERY...
"use strict";
const fs = require("fs");
const vm = require("vm");

const [directory, ...queries] = process.argv.slice(2);
const nothing = () => {};
const context = vm.createContext({
  addEventListener: nothing,
  document: { addEventListener: nothing, readyState: "loading", getElementById: nothing, documentElement: { dataset: {} } },
  location: { search: "" },
  localStorage: {},
  DOCUMENTATION_OPTIONS: {},
  SPHINX_HIGHLIGHT_ENABLED: false,
  URLSearchParams,
  console,
});
context.window = context;
for (const name of ["_static/doctools.js", "_static/language_data.js", "_static/searchtools.js", "searchindex.js"]) {
  vm.runInContext(fs.readFileSync(`${directory}/${name}`, "utf8"), context);
}
for (const query of queries) {
  context.query = query;
  const found = vm.runInContext("Search._performSearch(...Search._parseQuery(query))", context);
  // The page shows the results from the last to the first.
  const [page, , anchor] = found.at(-1);
  console.log(JSON.stringify([page, anchor]));
}
