"""The changelog and the entries that wait for the next release: names, lengths, links."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).parents[2]
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
