"""The corpus through the whole CUDA run time on the fake driver: the test that runs on a GPU, where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from device_checks import check_case
from grad.corpus import CASES
from runtime_cuda_kernels import square
from support.fake_driver import driver as fake_cuda

import diffkern as dk
from diffkern.testing.gradcheck import GradientError, gradcheck

NAMES = [name for name in sorted(CASES) if not CASES[name].options and name != "loops.long_contraction"]


@pytest.mark.parametrize("name", NAMES[::9])
def test_case(driver, name):
    check_case(CASES[name], "cuda:0")
    assert "copy_to_host" in driver.names()


def test_gradcheck_on_a_device(driver, monkeypatch):
    x, y = np.linspace(0.5, 1.5, 9, dtype=np.float32), np.zeros(9, np.float32)
    gradcheck(square, 9, [x, y, 2.0], device="cuda:0")
    assert driver.launches
    # A GPU that does nothing: the kernel's results are missing there.
    dk.get_device("cuda:0")._functions.clear()
    square.forget_programs()
    monkeypatch.setattr(fake_cuda, "executor", lambda image, name: lambda block: None)
    with pytest.raises(GradientError, match=r"array 'y' on cuda:0 differs from the CPU's"):
        gradcheck(square, 9, [x, y, 2.0], device="cuda:0")
