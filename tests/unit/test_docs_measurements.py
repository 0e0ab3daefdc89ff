"""Every time and every ratio on a page stands in a section that says when it was measured, and with which command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted([*DOCS.glob("*.rst"), *(DOCS / "reference").glob("*.rst")])
NUMBER = r"(?<![\w.`-])\d[\d.,]*(?:(?: to| and|,) [\d.]+)?"
TIME = r"µs|us|ms|(?:micro|milli)?seconds?|minutes?|hours?|s"
RATIO = r"[×x] (?:as|faster|slower)|times (?:as|the|less|more|longer|faster|slower)|of the time"
FIGURE = re.compile(rf"{NUMBER} ?(?:{TIME}|{RATIO}|%)(?![\w`])")
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
DATE = re.compile(rf"20\d\d-\d\d-\d\d|\b\d{{1,2}} (?:{MONTHS})")
PROGRAM = r"\bpython |\bdiffkern |benchmarks/|tools/"
COMMAND = re.compile(rf"``[^`]*(?:{PROGRAM})[^`]*``|\$ \w+|^   (?:python|diffkern) ", re.MULTILINE)
HEADING = re.compile(r"^(?=\S.*\n([=~-])\1{2,}\n)", re.MULTILINE)
CODE = re.compile(r"^( *)\.\. code-block:: (?!console|sh).*\n(?:\n|\1 +.*\n)*", re.MULTILINE)
INCLUDE = re.compile(r"^\.\. include:: (\S+)", re.MULTILINE)
OPTION = re.compile(r"^ +:\w+:.*\n", re.MULTILINE)

# Figures that are no measurements, by page: limits, sizes, the world that is simulated.
NOT_MEASURED = {
    "adbench": ["20 ms", "0.3 s"],  # how long a reading is
    "cpu_threads": ["50 us", "50 us, and at most 1 ms", "1 ms"],  # when a launch wakes other threads
    "gpu": ["15 minutes"],  # a limit
    "neighbours": ["150 seconds"],  # a limit
}


def sections(page: Path) -> list[str]:
    """The sections of a page, without programs, with what they include."""
    text = OPTION.sub("", CODE.sub("", page.read_text(encoding="utf-8")))
    text = INCLUDE.sub(lambda found: included(DOCS / found[1]), text)
    ends = [*(found.start() for found in HEADING.finditer(text)), len(text)]
    return [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False) if begin < end]


def included(path: Path) -> str:
    """The text of a file; the gallery's cards are written when Sphinx begins, and are tested with the gallery."""
    return path.read_text(encoding="utf-8") if path.is_file() and path.parent.name != "pages" else ""


def undated(section: str, known: list[str]) -> list[str]:
    """The figures of a section that has no date or no command."""
    found = [m.group() for m in FIGURE.finditer(section) if " ".join(m.group().split()) not in known]
    return found if not (DATE.search(section) and COMMAND.search(section)) else []


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ("It took 3.7 ms.", True), ("It is 1.2 to 1.4 times as fast.", True),
        ("It takes 20 seconds (2026-11-29).", True), ("It took 12 % more (``python benchmarks/x.py``).", True),
        ("It took 3.7 ms (``benchmarks/x.py``, 2026-11-29).", False), ("``-7 % 3`` is 2; ``sm_90 s``", False),
        ("A grid of 4 × 256 and 3 arrays.", False),
    ],
)  # fmt: skip
def test_what_a_figure_without_a_date_is(text, is_wrong):
    assert bool(undated(text, [])) is is_wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_figures_have_a_date_and_a_command(page):
    known = NOT_MEASURED.get(page.stem, [])
    wrong = {section.partition("\n")[0]: found for section in sections(page) if (found := undated(section, known))}
    assert not wrong, "say when and with which command this was measured, in the same section, or leave the figure out"
