"""The examples of tiles do what they say: digits are read, systems solved, energy kept."""

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


@pytest.mark.slow
def test_most_digits_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require("sklearn")
    file = tmp_path / "digits.png"
    assert example("tile_mlp").main(["--out", str(file)]) >= 0.95
    assert file.stat().st_size > 10_000
    assert "test digits read right" in capsys.readouterr().out


def test_systems_are_solved() -> None:
    solved, gradient = example("tile_cholesky").main(["--count", "50"])
    assert solved < 1e-5
    assert gradient < 1e-5


def test_energy_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--bodies", "150", "--steps", "50", "--out", str(tmp_path / "cluster.png")]
    assert example("tile_nbody").main(arguments) < 1e-4
    assert "gradcheck of accelerate: 20 elements" in capsys.readouterr().out
