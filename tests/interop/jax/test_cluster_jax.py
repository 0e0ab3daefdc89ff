"""The example for several processes with JAX: two processes on a CPU, which print what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import require

require("jax", "optax")

ROOT = Path(__file__).parents[3]


@pytest.mark.full
def test_two_processes_find_what_one_finds(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    command = [sys.executable, str(ROOT / "examples" / "cluster_jax.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (ROOT / "docs" / "clusters.rst").read_text(encoding="utf-8")
    _, block = page.split("$ python examples/cluster_jax.py\n")
    shown = re.findall(r"^   (process .*)\n", block.split("\n\n")[0] + "\n", re.MULTILINE)
    assert len(shown) == 2
    # Where Python does not buffer, the lines of two processes may run into one another.
    assert sorted(re.findall(r"process \d of .*?wind -?\d\.\d\d", done.stdout)) == shown
