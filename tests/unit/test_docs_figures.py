"""The figure of measured ratios shows what the file of figures says; built pages load nothing from the network."""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
with (DOCS / "ratios.csv").open(newline="", encoding="utf-8") as file:
    RATIOS = list(csv.DictReader(file))


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def drawn():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        figure = tool("ratios_figure")
        yield figure, figure.held.read(figure.held.RESULTS / "cpu.json").rows()


@pytest.mark.parametrize("one", RATIOS, ids=lambda one: f"{one['case']}, {one['library']}")
def test_a_case_of_the_figure_is_measured(one, drawn):
    kind = one["case"].partition(":")[0]
    cases = {row.case for row in drawn[1] if row.peer == one["library"] and row.case.startswith(f"{kind}:")}
    assert one["case"] in cases


def test_the_figure_has_every_ratio(drawn):
    figure, rows = drawn
    shown = (DOCS / "ratios.svg").read_text(encoding="utf-8")
    for point in figure.table(rows):
        for text in point.values():
            assert f">{text}<" in shown, f"{text} is not in docs/ratios.svg; run: python tools/ratios_figure.py"


def test_the_figure_has_the_slowest_cases(drawn):
    figure, rows = drawn
    slower = [row for row in rows if row.ratio is not None and row.ratio < 1.0]
    last = [point["label"] for point in figure.table(rows) if point["group"].endswith("in which diffkern is slower")]
    assert last == [row.case for row in slower[: figure.SLOWEST]]


def test_what_a_page_loads_from_the_network_is_found(tmp_path):
    offline = tool("docs_offline")
    page = tmp_path / "page.html"
    page.write_text(
        '<link rel="canonical" href="https://a.org/"><link rel="stylesheet" href="https://b.org/s.css">'
        '<a href="https://c.org/">c</a><script src="//d.org/x.js"></script><script src="_static/x.js"></script>',
        encoding="utf-8",
    )
    style = tmp_path / "style.css"
    style.write_text("a { background: url(x.png) } @font-face { src: url('https://e.org/f.woff') }", encoding="utf-8")
    assert offline.loaded_from_outside(page) == ["https://b.org/s.css", "//d.org/x.js"]
    assert offline.loaded_from_outside(style) == ["https://e.org/f.woff"]
