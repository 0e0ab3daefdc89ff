"""The JAX examples run, their gradients agree with differences, and they find what they look for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import require

require("jax", "optax", "matplotlib", "tqdm")

ROOT = Path(__file__).parents[3]


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("sysid_jax.py", ["--quick", "--out", "found.png"]), ("sharded_jax.py", ["--iterations", "100"])],
)
def test_example(name, arguments, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Gradient check" in done.stdout
    if "--out" in arguments:
        assert (tmp_path / "found.png").stat().st_size > 20_000
