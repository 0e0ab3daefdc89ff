"""What CONTRIBUTING.md names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_paths_exist():
    named = set(re.findall(r"(?<![\w/.])(?:tests|tools|docs|diffkern)/[\w/.]*\w", TEXT))
    assert len(named) > 20
    assert not [path for path in sorted(named) if not (ROOT / path).exists()]


@pytest.mark.parametrize(
    "recipe",
    [
        "operation",
        "operation on tiles",
        "derivative rule",
        "effect",
        "accumulation",
        "object",
        "pass",
        "target",
        "dialect",
    ],
)
def test_recipes_are_there(recipe):
    assert re.search(rf"^- \*\*An? {recipe}\*\*", TEXT, re.MULTILINE)
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("recipes_*.rst")]
    assert sum(bool(re.search(rf"^\*\*An? {recipe}\*\*", page, re.MULTILINE)) for page in pages) == 1
