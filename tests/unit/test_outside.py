"""Results of published benchmarks: they come back as written, slower rows come first, and a rerun is compared."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def _benchmarks_are_found():
    sys.path.insert(0, str(ROOT))
    yield
    sys.path.remove(str(ROOT))


@pytest.fixture
def outside():
    return importlib.import_module("benchmarks.outside.results")


@pytest.fixture
def results(outside):
    rows = [
        outside.Row("fast", "forward", {"diffkern": 1e-3, "JAX": 2e-3, "PyTorch": 4e-3}, 1e-12, "jax"),
        outside.Row("slow", "gradient", {"diffkern": 3e-3, "JAX": 1e-3}, 2e-9, "jax", "a reason"),
        outside.Row("slower", "gradient", {"diffkern": 4e-3, "JAX": 1e-3}, None, "harness", "another reason"),
        outside.Row(
            "alone", "forward", {"diffkern": 1e-3}, 0.0, "numpy", notes={"published Futhark": 5e-3, "lines": 7.0}
        ),
    ]
    return outside.collect("gradbench", "https://example.org", "a command", rows, [outside.Exclusion("x", "why")])


def test_results_come_back(outside, results, tmp_path):
    outside.write(results, tmp_path)
    assert outside.read("gradbench", tmp_path) == results
    assert outside.benchmarks(tmp_path) == ["gradbench"]


def test_gradients_by_the_number_of_steps_come_back_and_have_a_table(outside, results, tmp_path):
    horizons = (outside.HorizonRow("balls", 8, 0.0, None, None), outside.HorizonRow("balls", 16, 2.5, 1.25, 0.5))
    outside.write(replace(results, horizons=horizons), tmp_path)
    read = outside.read("gradbench", tmp_path)
    assert read.horizons == horizons
    text = importlib.import_module("benchmarks.outside.tables").page([read])
    assert "     - 16\n     - 2.5\n     - 1.2500\n     - 0.5000\n" in text


def test_tables_have_slower_rows_first_with_their_causes(results):
    text = importlib.import_module("benchmarks.outside.tables").page([results])
    places = [text.index(f"* - {name}\n") for name in ("slower", "slow", "fast", "alone", "x")]
    assert places == sorted(places)
    assert "a reason" in text
    assert "diffkern is slower in 2, 67%" in text
    assert "Futhark 5" in text
    assert "lines 7" in text


def test_the_page_is_made_from_the_results(capsys):
    spec = importlib.util.spec_from_file_location("outside_page", ROOT / "tools" / "outside_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.text() == module.TABLES.read_text(encoding="utf-8"), "run python tools/outside_page.py"
    assert module.FIGURE.is_file()


def test_every_slower_row_has_its_cause(outside):
    tables = importlib.import_module("benchmarks.outside.tables")
    for name in outside.benchmarks():
        rows = outside.read(name).rows
        slower = [row for row in rows if tables.is_slower(row)]
        assert all(row.cause for row in slower), [row.program for row in slower if not row.cause]


def test_the_figure_has_every_benchmark(results, tmp_path):
    pytest.importorskip("matplotlib")
    importlib.import_module("benchmarks.outside.figure").draw([results], tmp_path / "figure.svg")
    assert "gradbench, 3 rows" in (tmp_path / "figure.svg").read_text(encoding="utf-8")


def test_a_rerun_is_compared(outside, results):
    faults = importlib.import_module("benchmarks.outside.rerun").faults
    assert not [*faults(results, results)]
    fast, slow, *others = results.rows
    assert not [*faults(results, replace(results, rows=()))], "a small run has fewer rows"
    wrong = replace(fast, difference=1e-3)
    assert "1.0e-03" in next(faults(results, replace(results, rows=(wrong,))))
    assert [*faults(results, replace(results, rows=(replace(fast, difference=float("nan")),)))]
    late = replace(fast, seconds={**fast.seconds, "diffkern": 5e-3})
    assert "times the time" in next(faults(results, replace(results, rows=(late,))))
    assert not [*faults(results, replace(results, rows=(replace(slow, seconds={"diffkern": 9.0, "JAX": 1e-3}),)))]
    gone = replace(results, rows=tuple(others), excluded=(outside.Exclusion("fast", "fails"),))
    assert [*faults(results, gone)] == ["fast: excluded now, measured before"]
