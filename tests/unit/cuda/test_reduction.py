"""``cuda.reduce``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.fake_driver.driver import FakeDriver

from diffkern import cuda


@cuda.reduce
def add(a, b):  # type: ignore[no-untyped-def]
    return a + b


@cuda.Reduce
def larger(a, b):  # type: ignore[no-untyped-def]
    return a if a > b else b


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
def test_sums(size: int, dtype: Any) -> None:
    x = (np.arange(size) % 2).astype(dtype)
    expected = x.sum(dtype=dtype)
    assert add(x) == add(cuda.to_device(x)) == expected
    assert type(add(x)) is dtype
    assert add(x, init=3) == expected + dtype(3)


def test_other_functions() -> None:
    x = np.cos(np.arange(700.0))
    assert larger(x) == x.max()
    assert larger(x, init=2.5) == 2.5
    assert larger(-x[:1], init=-9.0) == -1.0


def test_parts_and_results() -> None:
    x = np.arange(10.0)
    assert add(x, size=4) == 6.0
    assert add(x[::3]) == 18.0
    assert add(np.zeros(0), init=4.0) == 4.0
    res = cuda.to_device(np.zeros(2))
    assert add(cuda.to_device(x), res=res, stream=cuda.stream()) is None
    assert res.copy_to_host().tolist() == [45, 0]
    with pytest.raises(TypeError, match="one axis"):
        add(np.zeros((2, 2)))


def test_on_a_gpu(driver: FakeDriver) -> None:
    x = np.arange(300.0)
    assert add(x) == add(cuda.to_device(x)) == x.sum()
