"""Debug programs by numba-cuda: their checks in the simulator, and that they compile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import require

import diffkern as dk

require("cuda.bindings.nvjitlink", "cuda.bindings.nvvm", "nvidia", "numba_cuda")

f1, i1 = dk.array(dtype=float), dk.array(dtype=int)


@dk.kernel(compiler="numba")
def searched(x: f1, y: dk.array(dtype=dk.vec2), q: i1, s: int):
    i = dk.tid()
    t = 0.0
    for j in range(0, q[i], s):
        t += x[i + j] * x[-1]
    while t > q[i] // s:
        t -= x[q[i]]
    y[i] = dk.vec2(t, y[i + 1][0])
    x[0] += t


@dk.kernel(compiler="numba")
def scaled(x: f1, y: f1):
    i = dk.tid()
    for k in range(3):
        y[i] = y[i] + x[i + k] * x[i]


def test_the_checks_of_the_cpu_hold_in_the_simulator() -> None:
    here = Path(__file__).parent
    # A launch has as many axes as a kernel asks for; the two cases with more are of generated code alone.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not dims1 and not dims2",
               str(here / "checks_in_simulator.py")]  # fmt: skip
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    assert "8 passed" in ended.stdout


def test_debug_programs_compile() -> None:
    made = [dk.compile(searched, target="sm_90", mode="debug", compiler=c).manifest.checks for c in ("numba", "llvm")]
    assert made[0] is not None
    assert sorted(map(str, made[0].sites)) == sorted(map(str, made[1].sites))
    assert made[0].stamps == made[1].stamps
    assert dk.compile(scaled, target="sm_90", mode="debug", adjoint=True).manifest.checks
