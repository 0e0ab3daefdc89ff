"""Funcs, their derivatives and threads of kernels in numba's CUDA simulator, which is chosen when numba is imported."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import numba_funcs as funcs
import numpy as np
import pytest
from conftest import require
from numba_funcs import CASES
from test_host import differences

import diffkern as dk

require("numba.cuda")


@functools.cache
def found():
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__).with_name("simulated.py"))],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("name", CASES)
def test_threads_call_derivatives(name):
    value, partials = found()[name]
    for k, point in enumerate(CASES[name].points):
        wanted = differences(CASES[name].python, point)
        assert value[k] == pytest.approx(CASES[name].python(*point), rel=1e-12)
        np.testing.assert_allclose(partials[k][: np.size(wanted)], np.ravel(wanted), rtol=2e-6, atol=1e-8)


def test_threads_of_a_kernel_are_its_launch():
    y, ct_x, _ = found()["diffuse"]
    a, b = dk.array(np.cos(np.arange(6, dtype=np.float32)), requires_grad=True), dk.zeros(6, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(funcs.diffuse, dim=6, inputs=[a, b, 0.3])
    tape.backward(grads={b: dk.array(np.arange(6, dtype=np.float32))})
    np.testing.assert_allclose(y, b.numpy(), rtol=1e-6)
    np.testing.assert_allclose(ct_x, a.grad.numpy(), rtol=1e-5)


def test_errors_are_those_of_python():
    assert "product takes 2 arguments (x, y), not 1" in found()["refused"]
