"""The figure of measured ratios shows what the tables of the pages say; built pages load nothing from the network."""

from __future__ import annotations

import csv
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
with (DOCS / "ratios.csv").open(newline="", encoding="utf-8") as file:
    RATIOS = list(csv.DictReader(file))


def rows_of(page: str) -> dict[str, list[str]]:
    """The cells of each row of the page's tables by the first one, with 'the same' written out."""
    text = (DOCS / f"{page}.rst").read_text(encoding="utf-8")
    rows: dict[str, list[str]] = {}
    last = ""
    for row in re.findall(r"^   \* - (.*\n(?:     .*\n)*)", text, re.MULTILINE):
        first, *cells = (cell.strip() for cell in re.split(r"^     - ?", row, flags=re.MULTILINE))
        if first.startswith("the same, "):
            first = f"{last.rsplit(', ', 1)[0]}, {first.removeprefix('the same, ')}"
        else:
            last = first
        rows.setdefault(first, cells)
    return rows


@pytest.mark.parametrize("row", RATIOS, ids=lambda row: f"{row['page']}: {row['label']}, {row['library']}")
def test_a_ratio_of_the_figure_stands_in_its_table(row):
    cells = rows_of(row["page"])[row["row"]]
    shown = [cell.rsplit("(", 1)[-1].rstrip(")") for cell in cells]
    assert row["shown"] in shown


def test_the_figure_has_every_ratio():
    figure = (DOCS / "ratios.svg").read_text(encoding="utf-8")
    for text in {row[key] for row in RATIOS for key in ("group", "label", "library", "shown")}:
        assert f">{text}<" in figure, f"{text} is not in docs/ratios.svg; run: python tools/ratios_figure.py"


def ratios_of(page: str) -> dict[str, list[str]]:
    """How many times as long other libraries take, as the tables of a page say it, by row."""
    found: dict[str, list[str]] = {}
    for row, cells in rows_of(page).items():
        if page == "performance" and len(cells) == 4:  # Warp, diffkern, ratio, range
            found[row] = [cells[2]]
        elif page == "adbench" and len(cells) == 8:  # three of diffkern, two each of JAX and PyTorch
            found[row] = [cells[4], cells[6]]
        elif page == "adbench":
            found[row] = [c.rsplit("(", 1)[1].rstrip(")") for c in cells if "(" in c]
    return {row: [c for c in cells if re.fullmatch(r"[\d.]+", c)] for row, cells in found.items()}


@pytest.mark.parametrize("page", ["performance", "adbench"])
def test_the_figure_has_every_case_in_which_diffkern_is_slower(page):
    ratios = ratios_of(page)
    assert sum(map(len, ratios.values())) > 15
    slower = {(row, ratio) for row, cells in ratios.items() for ratio in cells if float(ratio) < 1.0}
    assert slower <= {(row["row"], row["shown"]) for row in RATIOS}


def test_what_a_page_loads_from_the_network_is_found(tmp_path):
    spec = importlib.util.spec_from_file_location("docs_offline", ROOT / "tools" / "docs_offline.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = tmp_path / "page.html"
    page.write_text(
        '<link rel="canonical" href="https://a.org/"><link rel="stylesheet" href="https://b.org/s.css">'
        '<a href="https://c.org/">c</a><script src="//d.org/x.js"></script><script src="_static/x.js"></script>',
        encoding="utf-8",
    )
    style = tmp_path / "style.css"
    style.write_text("a { background: url(x.png) } @font-face { src: url('https://e.org/f.woff') }", encoding="utf-8")
    assert tool.loaded_from_outside(page) == ["https://b.org/s.css", "//d.org/x.js"]
    assert tool.loaded_from_outside(style) == ["https://e.org/f.woff"]
