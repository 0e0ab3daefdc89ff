"""The examples of Numba programs that call diffkern's funcs: on the CPU, and in numba's CUDA simulator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import require

EXAMPLES = Path(__file__).parents[3] / "examples"


def run(name, *arguments, **environment):
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
    return ended.stdout


def test_springs_settle_in_a_parallel_loop():
    assert "dE/dhardening" in run("numba_njit_parallel.py", "--springs", "2000")


def test_paths_take_gradients_in_the_simulator():
    require("numba.cuda")
    shown = run("numba_monte_carlo_cuda.py", "--paths", "48", NUMBA_ENABLE_CUDASIM="1")
    assert "of 48 paths" in shown
    assert "rho" in shown


def test_the_monte_carlo_compiles_for_a_gpu():
    require("numba.cuda", "cuda.bindings")
    sys.path.insert(0, str(EXAMPLES))
    try:
        import numba_monte_carlo_cuda as example
    finally:
        sys.path.remove(str(EXAMPLES))
    from numba import cuda
    from numba.cuda.types import float64, void

    types = void(float64, float64, float64, float64[:, ::1], float64[::1])
    code, _ = cuda.compile(example.simulate.py_func, types, cc=(9, 0), output="ptx", device=False, abi="numba")
    assert not [line for line in code.splitlines() if line.strip().startswith("call")]
    assert ".local" not in code
