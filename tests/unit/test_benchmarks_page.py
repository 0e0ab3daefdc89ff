"""The page on performance: rows of scripts, their order, tables that are those of the files, and scripts that fail."""

from __future__ import annotations

import importlib
import json
import re
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="the benchmarks are not beside the tests")


@pytest.fixture(scope="module")
def page():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        names = "figures", "render", "runs", "scripts", "__main__"
        yield SimpleNamespace(**{name.strip("_"): importlib.import_module(f"benchmarks.page.{name}") for name in names})


@pytest.fixture
def scripted(page, tmp_path, monkeypatch):
    """Return what makes a script of a text; it is one that the page knows."""
    monkeypatch.setattr(page.scripts, "FOLDER", tmp_path)

    def make(name, body):
        head = "import json, sys\nout = sys.argv[sys.argv.index('--json') + 1]\n"
        (tmp_path / name).write_text(head + textwrap.dedent(body), encoding="utf-8")
        return page.scripts.Script(name, "work")

    return make


ROW = {
    "name": "a", "top": "warp", "bottom": "diffkern", "top_s": 2e-3, "bottom_s": 1e-3, "ratio_min": 1.6,
    "ratio_median": 2.0, "ratio_max": 2.5, "error": "", "only": "", "unlike": "",
}  # fmt: skip


def row(page, case, ratio, peer="Warp"):
    return page.figures.Row(case, peer, 1e-3, 2e-3, ratio, ratio, ratio, "wall", f"python x.py --only {case}")


def figures(page, *rows, **more):
    part = page.figures.Part("2026-11-30", 1.0, 1.0, rows=rows, **more)
    return page.figures.Figures("CPU", "a command", "abc", "a machine", {"numpy": "2.0"}, {"x.py": part})


def test_slower_rows_come_first_and_rows_alone_at_the_end(page):
    rows = row(page, "fast", 30.0), row(page, "alone", None, ""), row(page, "slow", 0.5), row(page, "even", 1.0)
    text = page.render.text(figures(page, *rows))
    assert re.findall(r'^   "(\w+)"', text, re.MULTILINE) == ["slow", "even", "fast", "alone"]
    assert "3 rows have another library beside diffkern, which is slower in 1 of them" in text
    assert '"slow","Warp","1 ms","2 ms","0.50","0.50 to 0.50","wall","``python x.py --only slow``"' in text
    assert "2026-11-30 by ``a command`` on commit abc: a machine; numpy 2.0." in text


@pytest.mark.parametrize(("value", "shown"), [(0.999, "0.99"), (0.0123, "0.012"), (1.04, "1.0"), (99.6, "100")])
def test_a_slower_row_never_looks_even(page, value, shown):
    assert page.render.number(value) == shown


def test_a_row_that_has_diffkern_on_top_is_turned_around(page):
    script = page.scripts.Script("x.py", "work")
    given = {**ROW, "top": "diffkern", "bottom": "jax", "only": "one case"}
    (found,), _ = page.runs.figures_of(script, [given])
    assert (found.case, found.peer, found.own_s, found.peer_s) == ("work: a", "JAX", 2e-3, 1e-3)
    assert (found.ratio, found.low, found.high) == pytest.approx((0.5, 0.4, 0.625))
    assert found.command == 'python benchmarks/x.py --only "one case"'


def test_rows_of_diffkern_beside_itself_are_none_of_the_table(page):
    script = page.scripts.Script("limit", "work", positional=True)
    own = [{**ROW, "top": "lanes=False"}, {**ROW, "top": "diffkern"}, {**ROW, "bottom": "launches by hand"}]
    assert page.runs.figures_of(script, own) == ([], [])
    (alone,), _ = page.runs.figures_of(script, [{**ROW, "top": "diffkern", "bottom": "-", "ratio_median": None}])
    assert (alone.peer, alone.ratio, alone.command) == ("", None, "python benchmarks/limit a")


def test_what_has_another_result_is_left_out_with_the_reason(page):
    wrong = [{**ROW, "error": "differ\n by 3"}, {**ROW, "unlike": "zero in Warp"}]
    rows, left_out = page.runs.figures_of(page.scripts.Script("x.py", "work"), wrong)
    assert not rows
    assert [(one.case, one.reason) for one in left_out] == [
        ("work: a, beside Warp", "differ by 3"), ("work: a, beside Warp", "zero in Warp"),
    ]  # fmt: skip


def test_scripts_that_fail_are_named_and_the_others_go_on(page, scripted, tmp_path, monkeypatch):
    written = f"json.dump({{'rows': [{ROW!r}]}}, open(out, 'w'))\n"
    made = [
        scripted("breaks.py", "raise RuntimeError('no luck')"), scripted("works.py", written),
        scripted("late.py", written + "sys.exit('a part is missing')"), scripted("silent.py", ""),
    ]  # fmt: skip
    monkeypatch.setattr(page.scripts, "SCRIPTS", made)
    monkeypatch.setattr(page.scripts, "chosen", lambda: [*made, scripted("other.py", written)])
    said: list[str] = []
    begun = page.figures.Figures("CPU", "a command", "abc", "a machine", {})
    found = page.main.measure(begun, made, tmp_path / "cpu.json", quick=True, say=said.append)
    assert [len(part.rows) for part in found.parts.values()] == [0, 1, 1, 0]
    assert [(one.case, one.reason) for one in found.left_out()] == [
        ("breaks.py", "RuntimeError: no luck (exit status 1)"),
        ("late.py", "not all of it: a part is missing (exit status 1)"),
        ("silent.py", "it wrote no figures"), ("other.py", "it did not run"),
    ]  # fmt: skip
    assert page.figures.read(tmp_path / "cpu.json") == found
    assert any("no luck" in line for line in said)
    assert "All with few readings" in page.render.text(found)


def test_a_script_that_takes_too_long_is_stopped(page, scripted):
    part = page.runs.run(scripted("waits.py", "while True: pass"), quick=True, patience=0.2)
    assert [(one.case, one.reason) for one in part.left_out] == [("waits.py", "it took more than 0.2 seconds")]


def test_what_is_measured_is_kept_by_an_interruption(page, scripted, tmp_path, monkeypatch):
    made = [scripted("works.py", f"json.dump({{'rows': [{ROW!r}]}}, open(out, 'w'))"), scripted("next.py", "")]
    run = page.runs.run

    def interrupted(script, **more):
        if script.name == "next.py":
            raise KeyboardInterrupt
        return run(script, **more)

    monkeypatch.setattr(page.runs, "run", interrupted)
    monkeypatch.setattr(page.scripts, "chosen", lambda: made)
    begun = page.figures.Figures("CPU", "a command", "abc", "a machine", {})
    with pytest.raises(KeyboardInterrupt):
        page.main.measure(begun, made, tmp_path / "cpu.json", quick=True, say=lambda _: None)
    kept = page.figures.read(tmp_path / "cpu.json")
    assert len(kept.rows()) == 1
    assert kept.missing == ("next.py",)


def test_figures_of_another_commit_are_not_kept(page, tmp_path):
    path = tmp_path / "cpu.json"
    old = replace(page.main.begun(path, keep=False, at="abc"), parts=figures(page, row(page, "a", 2.0)).parts)
    page.figures.write(old, path)
    assert page.main.begun(path, keep=True, at="abc").rows() == old.rows()
    assert page.main.begun(path, keep=False, at="def").rows() == []
    with pytest.raises(ValueError, match=r"cpu\.json cannot be kept: its commit is abc, and now def"):
        page.main.begun(path, keep=True, at="def")


def test_a_table_that_is_not_that_of_its_file_is_found(page, tmp_path):
    for device in page.main.DEVICES:
        page.figures.write(figures(page, row(page, device, 2.0)), tmp_path / f"{device}.json")
        text = page.render.text(page.figures.read(tmp_path / f"{device}.json"))
        (tmp_path / f"performance_{device}.inc").write_text(text, encoding="utf-8")
    assert page.main.outdated(tmp_path, tmp_path) == []
    (tmp_path / "performance_gpu.inc").write_text("another", encoding="utf-8")
    assert page.main.outdated(tmp_path, tmp_path) == [tmp_path / "performance_gpu.inc"]


def test_the_tables_of_the_documentation_are_those_of_the_files(page):
    assert not page.main.outdated(), "run: python -m benchmarks.page --render"


def test_every_row_says_how_it_is_measured_again(page):
    for device in page.main.DEVICES:
        for each in page.figures.read(page.main.results_of(device)).rows():
            path = each.command.split()[1]
            assert each.command.startswith("python benchmarks/")
            assert (ROOT / path).exists(), each.command


def test_scripts_are_there_and_can_be_named(page):
    names = [script.name for script in page.scripts.chosen()]
    assert {script.name for script in page.scripts.SCRIPTS} - set(names) <= {"meshes.py"}
    assert [script.name for script in page.scripts.chosen(["tiles", "cpu.py"])] == ["cpu.py", "tiles.py"]
    with pytest.raises(ValueError, match="there is no script 'tile'; there are "):
        page.scripts.chosen(["tile"])


def test_readings_that_are_not_in_pairs_have_a_range(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    harness = importlib.import_module("harness")
    try:
        found = harness.row_of_readings("a", "torch", "diffkern", [4.0, 6.0], [1.0, 2.0, 2.0], "b")
        assert (found.ratio_min, found.ratio_median, found.ratio_max) == (2.0, 2.5, 6.0)
        assert json.loads(json.dumps(harness.without_nan(vars(found) | {"target": ""})))["only"] == "b"
        (alone,) = harness.rows_beside("a", [1.0, 3.0], {})
        assert (alone.top, alone.bottom, alone.top_s) == ("diffkern", "-", 2.0)
    finally:
        sys.modules.pop("harness", None)
