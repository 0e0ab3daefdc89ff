// The menu of versions: leads to the same page of another version, or to its first page if that has no such page.
(function () {
  "use strict";
  const menu = document.getElementById("versions");
  const { here, page, root } = menu.dataset;
  for (const { name, pages } of DIFFKERN_VERSIONS) {
    const option = document.createElement("option");
    option.textContent = name;
    option.value = `${root}${name}/${pages.includes(page) ? page : "index.html"}`;
    option.selected = name === here;
    menu.append(option);
  }
  menu.addEventListener("change", () => { window.location.href = menu.value; });
})();
