"""Examples of solvers and of rays: each checks its gradient, reaches what is known of its solution, and draws it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def out(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    yield str(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert "gradcheck of " in printed
    assert "differences of the whole function" in printed


@pytest.mark.full
def test_a_section_that_resists_twisting_becomes_a_disk(out: str) -> None:
    order, by_disk = example("torsion").main(["--rings", "8", "--rounds", "8", "--out", out])
    assert 1.6 < order < 2.1
    assert 0.995 < by_disk < 1.0  # no section is stiffer than a disk; that of the square is 0.883


def test_a_cantilever_is_that_of_an_independent_program(out: str) -> None:
    before, after = example("cantilever").main(["--columns", "24", "--rows", "12", "--rounds", "15", "--out", out])
    # By elements, filter and criterion written in NumPy with SciPy's direct solver.
    assert before == pytest.approx(15.624771488, rel=1e-6)
    assert after == pytest.approx(4.206526892, rel=1e-5)


@pytest.mark.full
def test_a_cloth_is_known_by_its_swing(out: str) -> None:
    arguments = ["--size", "9", "--steps", "16", "--rounds", "6", "--out", out]
    millimetres, error = example("drape").main(arguments)
    assert millimetres < 0.6  # the marks are seen to 0.2 mm along each axis
    assert error < 0.2


@pytest.mark.full
def test_a_thing_is_found_in_depth_images(out: str) -> None:
    millimetres, degrees = example("pose").main(["--size", "32", "--rounds", "12", "--out", out])
    assert millimetres < 2.0
    assert degrees < 0.5


@pytest.mark.full
def test_a_ball_is_wrapped_around_a_scan(out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    before, after = example("wrap").main(["--rings", "12", "--steps", "120", "--out", out])
    assert before > 0.2
    assert after < 0.03
