"""Examples at a reduced size: each checks its gradient, comes near to what it looks for, and draws it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from conftest import require

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
    assert "gradcheck of " in capsys.readouterr().out


@pytest.mark.full
def test_arms_reach_their_poses(out: str) -> None:
    millimetres, degrees = example("robot_arm").main(["--arms", "6", "--steps", "250", "--out", out])
    assert millimetres < 5.0
    assert degrees < 3.0


@pytest.mark.full
def test_the_place_of_a_picture_is_found(out: str) -> None:
    assert example("terrain").main(["--size", "48", "--steps", "150", "--out", out]) < 0.05


@pytest.mark.slow
def test_options_are_priced_as_the_market_does(out: str) -> None:
    arguments = ["--paths", "4000", "--maturities", "2", "--steps", "10", "--out", out]
    off, apart = example("heston").main(arguments)
    assert off < 0.2
    assert apart < 1.5


@pytest.mark.full
def test_scans_are_brought_together(out: str) -> None:
    before, after = example("registration").main(["--points", "500", "--steps", "150", "--out", out])
    assert before > 20.0
    assert after < 1.0


@pytest.mark.slow
def test_the_ground_is_found(out: str) -> None:
    arguments = ["--size", "40", "--shots", "2", "--steps", "150", "--rounds", "10", "--out", out]
    less, _ = example("seismic").main(arguments)
    assert less > 2.0


@pytest.mark.slow
def test_spots_come_to_look_like_the_photograph(out: str) -> None:
    arguments = ["--every", "8", "--spots", "200", "--steps", "25", "--out", out]
    first, last = example("splats").main(arguments)
    assert last > first + 3.0


@pytest.mark.slow
def test_the_ball_comes_nearer_to_its_goal(out: str) -> None:
    before, after = example("billiards").main(["--games", "16", "--rounds", "40", "--out", out])
    assert after < 0.8 * before


@pytest.mark.full
def test_the_body_learns_to_walk(out: str) -> None:
    arguments = ["--across", "14", "--steps", "150", "--rounds", "6", "--out", out]
    before, after = example("soft_body").main(arguments)
    assert abs(before) < 0.003
    assert after > 0.005


@pytest.mark.slow
def test_the_torch_is_followed(out: str) -> None:
    arguments = ["--size", "32", "--steps", "100", "--knots", "13", "--rounds", "60", "--out", out]
    off, power = example("heat").main(arguments)
    assert off < 0.015
    assert power < 0.1


def test_heat_is_animated(tmp_path: Path) -> None:
    file = tmp_path / "heat.gif"
    example("heat").main(["--size", "16", "--steps", "4", "--knots", "3", "--rounds", "2", "--out", str(file)])
    assert file.read_bytes().startswith(b"GIF")


@pytest.mark.slow
def test_the_smoke_takes_its_shape(out: str) -> None:
    before, after = example("fluid").main(["--size", "32", "--steps", "15", "--rounds", "30", "--out", out])
    assert after < 0.4 * before


@pytest.mark.full
def test_the_cloth_is_known_by_its_motion(out: str) -> None:
    arguments = ["--size", "9", "--every", "2", "--steps", "400", "--rounds", "40", "--out", out]
    millimetres, error = example("cloth").main(arguments)
    assert millimetres < 15.0
    assert error < 1.0


@pytest.mark.slow
def test_the_ground_is_measured_from_photographs(out: str) -> None:
    before, after = example("bundle").main(["--lines", "2", "--shots", "4", "--points", "300", "--out", out])
    assert before > 100.0
    assert after < 5.0  # the photographs' places are known to that


@pytest.mark.full
def test_the_scene_is_found(out: str) -> None:
    before, after = example("sdf").main(["--size", "32", "--steps", "120", "--out", out])
    assert after < 0.5 * before


@pytest.mark.full
def test_the_mesh_gets_the_outlines(out: str) -> None:
    before, after = example("mesh").main(["--size", "24", "--rings", "12", "--steps", "40", "--out", out])
    assert after < 0.4 * before


@pytest.mark.full
def test_the_photograph_is_learned(out: str) -> None:
    require("sklearn")
    arguments = ["--every", "8", "--entries", "256", "--places", "1024", "--steps", "100", "--out", out]
    first, last = example("neural_field").main(arguments)
    assert last > first + 10.0
