"""One table says what has run on which GPU; no page says so elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from gpu_runs import CLAIM, TABLE, table  # noqa: E402

PAGES = [
    *sorted((ROOT / "docs").rglob("*.rst")),
    *(ROOT / name for name in ("README.md", "benchmarks/README.md", "CHANGELOG.md")),
]


def test_no_page_says_what_has_run_on_a_gpu():
    found = [
        f"{page.relative_to(ROOT)}: {' '.join(said.group().split())}"
        for page in PAGES
        for said in CLAIM.finditer(page.read_text(encoding="utf-8"))
    ]
    assert not found, "docs/gpu_runs.csv has a row for each run, and docs/gpu_not_run.txt a line for what has not run"


@pytest.mark.parametrize(
    ("text", "is_claim"),
    [
        ("It has not yet been run on a GPU.", True), ("The suite passes on an H200.", True),
        ("Nothing here has\nrun on a GPU yet.", True), ("built without a GPU and has not yet run on one", True),
        ("None of these programs has run on any NVIDIA GPU", True), ("It runs on a GPU.", False),
        ("A kernel that ran on the CPU", False), ("what has run on which GPU", False),
    ],
)  # fmt: skip
def test_what_a_claim_is(text, is_claim):
    assert bool(CLAIM.search(text)) is is_claim


def test_the_table_is_current():
    assert TABLE.read_text(encoding="utf-8") == table(), "run: python tools/gpu_runs.py"
