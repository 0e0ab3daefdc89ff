"""No launch whose indices are known before it runs reads or writes outside of an array, however large they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.extreme_indices import Extreme, case
from support.fuzz import load_module

import diffkern as dk

SOURCE = """\
import diffkern as dk


@dk.kernel
def extreme(x: dk.array(dtype=float, ndim={ndim}), y: dk.array(dtype=float)):
    i = dk.tid()
    {statement}
"""
FEW, ALL = range(60), range(60, 500)


def check(extreme: Extreme, directory: Path) -> bool:
    """Launch; return whether the launch was refused."""
    kernel = load_module(SOURCE.format(ndim=len(extreme.shape), statement=extreme.statement), str(directory)).extreme
    margin = 300  # elements in front of and behind what is passed
    around = np.arange(2 * margin + int(np.prod(extreme.shape)), dtype=np.float32)
    x = around[margin : margin + int(np.prod(extreme.shape))].reshape(extreme.shape)
    held = np.array(x)
    y = np.zeros(extreme.threads, np.float32)
    if not extreme.fits:
        with pytest.raises(dk.LaunchError, match="outside its shape"):
            dk.launch(kernel, extreme.threads, [x, y])
        assert np.array_equal(x, held)
        return True
    dk.launch(kernel, extreme.threads, [x, y])
    threads = range(0, extreme.threads, max(1, extreme.threads // 1000))
    elements = extreme.elements(threads)
    rows = held if len(extreme.shape) == 1 else held[:, 1] if extreme.axis == 0 else held[1]
    if extreme.is_store:
        rows[elements] = 7.0
        assert np.array_equal(x, held)
    else:
        np.testing.assert_array_equal(y[:: threads.step], rows[elements])
    assert np.array_equal(around[:margin], np.arange(margin))
    return False


@pytest.mark.parametrize("seed", FEW)
def test_some_extreme_indices(seed: int, tmp_path: Path) -> None:
    check(case(seed), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("seed", ALL)
def test_more_extreme_indices(seed: int, tmp_path: Path) -> None:
    check(case(seed), tmp_path)


def test_both_kinds_are_common() -> None:
    fits = [case(seed).fits for seed in (*FEW, *ALL)]
    assert 100 <= sum(fits) <= 400
