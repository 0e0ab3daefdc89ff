"""MuJoCo Warp, as it is published, with diffkern.warp in Warp's place: gradients against differences of MuJoCo."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOAL, WITH_CONTACTS = 1e-5, 1e-4

if importlib.util.find_spec("mujoco_warp") is None and (
    sys.version_info < (3, 11) or os.environ.get("DIFFKERN_REQUIRE_ALL") != "1"
):
    pytest.skip("mujoco-warp is not installed", allow_module_level=True)


def run(place: Path, *command: str) -> str:
    """Run a program of the project in a process of its own, where ``warp`` may be led elsewhere."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    line = [sys.executable, *command]
    done = subprocess.run(line, capture_output=True, text=True, env=environment, cwd=place, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compare(place: Path, model: str, steps: int, states: int) -> None:
    """Assert that gradients are those of MuJoCo, or within what its own ones move under noise."""
    arguments = ["--models", model, "--steps", str(steps), "--states", str(states), "--json", "rows.json"]
    run(place, str(ROOT / "tools" / "neighbours" / "gradients.py"), *arguments)
    (row,) = json.loads((place / "rows.json").read_text(encoding="utf-8"))
    goal = WITH_CONTACTS if row["contacts"] else GOAL
    for variable, (most, median) in row["errors"].items():
        assert median <= (5.0 * goal if variable == "geom_friction" else goal), variable
        assert most <= goal or row["explained"].get(variable, 0) == states or variable == "geom_friction", variable
    assert row["errors"]["qpos"][1] > 0.0


@pytest.mark.slow
def test_a_pendulum(tmp_path: Path) -> None:
    compare(tmp_path, "pendulum", 2, 2)


@pytest.mark.full
@pytest.mark.parametrize("steps", [1, 10])
@pytest.mark.parametrize(
    "model", ["arm, Euler", "arm, RK4", "tendons", "box, elliptic", "sphere, pyramidal", "humanoid"]
)
def test_models(tmp_path: Path, model: str, steps: int) -> None:
    compare(tmp_path, model, steps, 4)


@pytest.mark.full
def test_an_arm_is_identified(tmp_path: Path) -> None:
    printed = run(
        tmp_path, str(ROOT / "examples" / "mujoco_arm.py"), "--motions", "4", "--steps", "40", "--rounds", "5"
    )
    off = float(printed.split("at most ")[1].split(" %")[0])
    assert off < 2.0
    assert (tmp_path / "mujoco_arm.png").stat().st_size > 10_000


@pytest.mark.full
def test_a_humanoid_is_steered(tmp_path: Path) -> None:
    printed = run(tmp_path, str(ROOT / "examples" / "mujoco_humanoid.py"), "--steps", "60", "--rounds", "6")
    before, after = (float(part) for part in printed.split("loss ")[1].split(" with")[0].split(" -> "))
    assert after < 0.9 * before
    assert (tmp_path / "mujoco_humanoid.png").stat().st_size > 10_000
