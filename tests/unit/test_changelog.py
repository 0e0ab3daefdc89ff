"""The changelog and the entries that wait for the next release: names, lengths, links."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import diffkern

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import changelog  # noqa: E402


def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("changelog_page", ROOT / "docs" / "_ext" / "changelog_page.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


FRAGMENTS = sorted(path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
KINDS = [kind["directory"] for kind in SETTINGS["type"]]
LONGEST = 300


def problem(name: str, text: str) -> str:
    """Return what is wrong with an entry, empty for nothing."""
    if not re.fullmatch(rf"[a-z0-9][a-z0-9_-]*\.({'|'.join(KINDS)})\.md", name):
        return "is not called SLUG.KIND.md with a KIND of changelog.d/README.md"
    told = " ".join(text.split())
    if not told or told.startswith(("-", "*", "#")):
        return "is a sentence or two, without a bullet or a heading"
    if len(told) > LONGEST:
        return f"has {len(told)} characters; more than {LONGEST} belong on a page"
    gone = [target for target in re.findall(r"\]\((docs/[^)#]+)", told) if not (ROOT / target).exists()]
    return f"links to what is not there: {gone}" if gone else ""


def test_entries_follow_the_rule():
    found = {path.name: problem(path.name, path.read_text(encoding="utf-8")) for path in FRAGMENTS}
    assert not {name: told for name, told in found.items() if told}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mesh.md", "A sentence."), ("mesh.feature.md", "A sentence."), ("Mesh.added.md", "A sentence."),
        ("mesh.added.md", "- A bullet."), ("mesh.added.md", " \n"), ("mesh.fixed.md", "word " * 70),
        ("mesh.added.md", "See [a page](docs/nowhere.rst)."),
    ],
)  # fmt: skip
def test_what_breaks_the_rule_is_seen(name, text):
    assert problem(name, text)


def test_kinds_are_those_of_the_rule():
    rule = (ROOT / "changelog.d" / "README.md").read_text(encoding="utf-8")
    assert sorted(KINDS) == sorted(re.findall(r"^\| `(\w+)` \|", rule, re.MULTILINE))
    assert SETTINGS["start_string"].rstrip() in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


BEFORE = f"""# Changelog

{changelog.MARK}
## 2.0.0 (2031-02-03)

### Added

- One.

### Fixed

Values:

- A number.

## 1.0.0 (2030-01-01)

### Changed

- Old.
"""


def test_entries_are_folded_into_a_section_that_is_there():
    entries = {"Added": ["Two."], "Changed": ["Three."], "Fixed": ["Four."]}
    folded = changelog.fold(BEFORE, "2.0.0", "", entries)
    below = folded.partition(changelog.MARK)[2]
    assert below.startswith(
        "\n## 2.0.0 (2031-02-03)\n\n### Added\n\n- One.\n- Two.\n\n### Changed\n\n- Three.\n\n### Fixed\n\n"
        "Values:\n\n- A number.\n\nBesides:\n\n- Four.\n\n## 1.0.0"
    )
    again = changelog.fold(folded, "2.0.0", "", {"Fixed": ["Five."]})
    assert "Besides:\n\n- Four.\n- Five.\n\n## 1.0.0" in again


def test_a_new_version_begins_a_section():
    below = changelog.fold(BEFORE, "2.1.0", "2031-03-03", {"Removed": ["Gone."]}).partition(changelog.MARK)[2]
    assert below.startswith("\n## 2.1.0 (2031-03-03)\n\n### Removed\n\n- Gone.\n\n## 2.0.0")
    assert changelog.fold(BEFORE, "2.1.0", "2031-03-03", {}) == BEFORE


def test_entries_are_read_by_kind(tmp_path):
    (tmp_path / "b.fixed.md").write_text("Two\nlines.\n")
    (tmp_path / "a.fixed.md").write_text("One.")
    (tmp_path / "c.added.md").write_text("New.")
    (tmp_path / "README.md").write_text("The rule.")
    assert changelog.read(tmp_path) == {"Added": ["New."], "Fixed": ["One.", "Two lines."]}


def test_releases_have_dates_and_short_entries():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition(changelog.MARK)[2]
    headings = re.findall(r"^## (.*)", text, re.MULTILINE)
    assert headings[0].startswith(f"{diffkern.__version__} (20")
    assert not [line for line in text.splitlines() if len(line) > LONGEST]
    linked = set(re.findall(r"\]\((docs/[^)#]+)", text))
    assert len(linked) > 20
    assert not [target for target in sorted(linked) if not (ROOT / target).exists()]


def test_the_page_has_links_and_code():
    source = "**[Tiles `t`](docs/tiles.rst)** and **bold**: `a|b` | `c`s [out](https://x.org)\n\n## 1.0\n"
    assert list(page().lines(source)) == [
        r":doc:`Tiles t </tiles>`\  and **bold**: ``a|b``\  \| ``c``\ s `out <https://x.org>`__\ ",
        "", "", "1.0", "---", "",
    ]  # fmt: skip
