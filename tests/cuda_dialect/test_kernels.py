"""Kernels in numba's spelling do what they do in numba's simulator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from . import kernels

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    file = tmp_path_factory.mktemp("simulated") / "results.npz"
    own = {"NUMBA_ENABLE_CUDASIM": "1", "KERNELS_OF": "numba.cuda", "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, str(HERE / "kernels.py"), str(file)]
    done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return np.load(file)


@pytest.mark.parametrize("name", kernels.CASES)
def test_results_are_those_of_the_simulator(name, simulated):
    for k, found in enumerate(kernels.results(name)):
        np.testing.assert_allclose(found, simulated[f"{name}-{k}"], rtol=1e-12, atol=1e-12, err_msg=f"array {k}")
