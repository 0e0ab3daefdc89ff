"""The gallery: each program has a page with a figure and a notebook that is the program, and the page is light."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import require

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "docs" / "gallery"


@pytest.fixture(scope="module")
def gallery():
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "docs" / "_ext" / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["gallery"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["gallery"]


@pytest.fixture(scope="module")
def pages(gallery, tmp_path_factory):
    place = tmp_path_factory.mktemp("pages")
    gallery.write(place)
    return place


def test_there_are_results_and_figures_of_at_least_sixteen_programs(gallery):
    results = json.loads((GALLERY / "results.json").read_text(encoding="utf-8"))
    assert set(results) <= set(gallery.PROGRAMS)
    assert len(results) >= 16
    for name, result in results.items():
        assert (ROOT / "examples" / f"{name}.py").is_file()
        assert result["printed"]
        assert any("gradcheck" in line or "Gradient" in line for line in result["printed"]), name
        assert result["processor_seconds"] > 0
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", result["measured"])
        assert result["processor"]
        assert (GALLERY / f"{name}.jpg").stat().st_size < 250_000


def test_the_page_loads_less_than_three_megabytes(pages):
    images = [line.split()[-1] for line in (pages / "cards.inc").read_text().splitlines() if ":img-top:" in line]
    assert len(images) >= 16
    assert sum((ROOT / "docs" / image).stat().st_size for image in images) < 1_000_000


def test_every_figure_belongs_to_a_program(gallery):
    for path in GALLERY.glob("*.jpg"):
        assert path.stem.removesuffix("_thumbnail") in gallery.PROGRAMS


def test_a_page_has_one_time(gallery):
    results = json.loads((GALLERY / "results.json").read_text(encoding="utf-8"))
    for name, result in results.items():
        shown = gallery.page(name, gallery.PROGRAMS[name], result).partition("``diffkern demo")[2]
        times = re.findall(r"\b\d[\d.]* ?(?:s|seconds?|minutes?)\b", shown.partition(":download:")[0])
        assert times == [f"{result['processor_seconds']} seconds"], name


def test_a_notebook_has_all_of_its_program(gallery, pages):
    for path in pages.glob("*.ipynb"):
        book = json.loads(path.read_text(encoding="utf-8"))
        assert book["nbformat"] == 4
        assert book["cells"][0]["cell_type"] == "markdown"
        written, code = split([cell for cell in book["cells"] if cell["cell_type"] == "code"])
        for name, text in written.items():
            assert text == (ROOT / "examples" / name).read_text(encoding="utf-8").rstrip("\n")
        program = ast.parse((ROOT / "examples" / f"{path.stem}.py").read_text(encoding="utf-8"))
        *found, run = ast.parse("\n".join(code[:-1])).body
        wanted = program.body[1:-1]  # without the docstring, and without what runs it
        assert [ast.dump(node) for node in found] == [ast.dump(node) for node in wanted], path.stem
        assert ast.unparse(run).startswith("main(['--out', ")
        assert code[0].startswith("from __future__")
        imported = {node.names[0].name for node in program.body if isinstance(node, ast.Import)}
        assert {Path(name).stem for name in written} == imported & set(gallery.PROGRAMS)


def split(cells):
    """What the cells of a notebook write to files, by name, and the other cells."""
    code = ["".join(cell["source"]) for cell in cells]
    written = [cell.removeprefix("%%writefile ").partition("\n") for cell in code if cell.startswith("%%writefile ")]
    return {name: text for name, _, text in written}, [cell for cell in code if not cell.startswith("%%")]


SHELL = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in json.load(sys.stdin):
    shell.run_cell(cell, store_history=True).raise_error()
"""


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tile_nbody", ["--bodies", "20", "--steps", "2"]),
        pytest.param("flood_torch", ["--quick"], marks=pytest.mark.slow),
    ],
)
def test_a_notebook_runs(pages, tmp_path, name, options):
    for needed in ("matplotlib", "IPython", *(["torch"] if name == "flood_torch" else [])):
        require(needed)
    book = json.loads((pages / f"{name}.ipynb").read_text(encoding="utf-8"))
    *cells, run, figure = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    run = run.replace("[", f"[*{options!r}, ")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "-c", SHELL], input=json.dumps([*cells, run, figure]), cwd=tmp_path, env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / f"{name}.png").is_file()


def test_tool_names_what_fails(gallery, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("gallery_tool", ROOT / "tools" / "gallery.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    monkeypatch.setattr(tool, "run", lambda name, program: None)
    assert tool.main(["heat", "fluid"]) == 1
    assert "failed: heat, fluid" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        tool.main(["heet"])
    assert "no program of the gallery: heet" in capsys.readouterr().err
