"""Checks of launches of ``cuda.jit`` kernels, given as ``kernel[blocks, threads]`` or as a kernel and ``dim``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diffkern import cuda
from diffkern.errors import MisuseError
from diffkern.testing import RaceError, find_races, gradcheck, verify_races


@cuda.jit
def turned(x, y):
    tile = cuda.shared.array((2, 2), dtype=cuda.float64)
    i, j = cuda.grid(2)
    tile[cuda.threadIdx.x, cuda.threadIdx.y] = x[i, j]
    cuda.syncthreads()
    y[i, j] = tile[cuda.threadIdx.y, cuda.threadIdx.x] * x[i, j]


@cuda.jit
def racing(x, y):
    y[0] = x[cuda.grid(1)]


BLOCKS, THREADS = (2, 1), (2, 2)


def square() -> np.ndarray:
    return np.arange(1.0, 9.0).reshape(4, 2)


@pytest.mark.parametrize(("kernel", "dim"), [(turned[BLOCKS, THREADS], None), (turned, (BLOCKS, THREADS))], ids=str)
def test_a_launcher_is_checked(kernel: Any, dim: Any) -> None:
    verify_races(kernel, dim, [square(), np.zeros((4, 2))])
    assert gradcheck(kernel, dim, [square()], [np.zeros((4, 2))])


def test_races_of_a_launcher() -> None:
    given = [np.ones(4), np.zeros(1)]
    with pytest.raises(RaceError, match="racing"):
        verify_races(racing[2, 2], inputs=given)
    of = racing[2, 2]
    assert len(find_races(of, inputs=given)) == len(find_races(of.kernel, of.dim, given)) == 1


@pytest.mark.parametrize("check", [verify_races, gradcheck])
def test_dimensions_that_do_not_fit(check: Any) -> None:
    given = [square(), np.zeros((4, 2))]
    with pytest.raises(MisuseError, match=r"has 2 axes") as caught:
        check(turned, (4, 2), given)
    assert "turned[blocks, threads]" in str(caught.value)
    with pytest.raises(MisuseError, match="leave dim out"):
        check(turned[BLOCKS, THREADS], (4, 2), given)
    with pytest.raises(MisuseError, match="pass dim"):
        check(turned, None, given)
