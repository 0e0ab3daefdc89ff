"""What atomic updates return: in launches on one thread the threads' updates in order, on several each number once."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.native import pool

INTEGERS = (dk.int8, dk.int16, dk.int32, dk.int64, dk.uint8, dk.uint16, dk.uint32, dk.uint64)
FLOATS = (dk.float16, dk.float32, dk.float64)
KINDS = ("add", "sub", "min", "max", "exch", "cas", "and", "or", "xor")
MANY = 1 << 18


@pytest.fixture
def threads():
    before = pool.num_threads()
    yield pool.set_num_threads
    pool.set_num_threads(before)


def updated(old: Any, kind: str, value: Any, dtype: type) -> Any:
    """The number that replaces one; integers wrap around."""
    with np.errstate(over="ignore"):
        if kind in ("add", "sub"):
            return dtype(old + value if kind == "add" else old - value)
        if kind in ("min", "max"):
            return min(old, value) if kind == "min" else max(old, value)
        if kind in ("exch", "cas"):
            return value if kind == "exch" or old == dtype(1) else old
        return {"and": old & value, "or": old | value, "xor": old ^ value}[kind]


@dk.kernel(enable_backward=False)
def of_numbers(x, at, y, out):
    i = dk.tid()
    k = at[i]
    out[0, i] = dk.atomic_add(y, 0, k, x[i])
    out[1, i] = dk.atomic_sub(y, 1, k, x[i])
    out[2, i] = dk.atomic_min(y, 2, k, x[i])
    out[3, i] = dk.atomic_max(y, 3, k, x[i])
    out[4, i] = dk.atomic_exch(y, 4, k, x[i])
    out[5, i] = dk.atomic_cas(y, 5, k, y.dtype(1), x[i])


@dk.kernel(enable_backward=False)
def of_bits(x, at, y, out):
    i = dk.tid()
    k = at[i]
    out[6, i] = dk.atomic_and(y, 6, k, x[i])
    out[7, i] = dk.atomic_or(y, 7, k, x[i])
    out[8, i] = dk.atomic_xor(y, 8, k, x[i])


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("count", [1, 2])
def test_every_update_returns_what_was_there(dtype: Any, count: int, threads: Any) -> None:
    n, numpy, rng = 37, np.dtype(str(dtype)).type, np.random.default_rng(1)
    kinds = KINDS if dtype in INTEGERS else KINDS[:6]
    # Numbers of all bits; floats are multiples of a half, whose sums are exact.
    x = (
        rng.integers(-128, 127, n).astype("int8").astype(numpy)
        if dtype in INTEGERS
        else numpy(rng.integers(-9, 9, n) / 2)
    )
    x[rng.random(n) < 0.3] = 1
    at, y = rng.integers(0, 3, n), np.ones((len(kinds), 3), numpy)
    threads(count)
    held, out = dk.array(y, dtype=dtype), dk.zeros((len(kinds), n), dtype=dtype)
    # A launch of so few kernel threads is one chunk, which goes through them in order.
    for kernel in (of_numbers, of_bits)[: 1 + (dtype in INTEGERS)]:
        dk.launch(kernel, n, [dk.array(x, dtype=dtype), dk.array(at, dtype=int), held, out])
    wanted = np.empty((len(kinds), n), numpy)
    for row, kind in enumerate(kinds):
        for i in range(n):
            wanted[row, i] = y[row, at[i]]
            y[row, at[i]] = updated(y[row, at[i]], kind, x[i], numpy)
    np.testing.assert_array_equal(out.numpy(), wanted)
    np.testing.assert_array_equal(held.numpy(), y)


@dk.kernel(enable_backward=False)
def number(step: int, counter: dk.array(dtype=int), taken: dk.array(dtype=int)):
    dk.atomic_add(taken, dk.atomic_add(counter, 0, step), 1)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("step", [1, -1])
def test_each_number_is_given_once(count: int, step: int, threads: Any) -> None:
    # Numbers below zero count from the end.
    threads(count)
    counter, taken = dk.zeros(1, dtype=int), dk.zeros(MANY, dtype=int)
    for _ in range(3):
        dk.launch(number, MANY, [step, counter, taken])
        assert counter.numpy()[0] == step * MANY
        counter.zero_()
    assert (taken.numpy() == 3).all()


@pytest.mark.parametrize("count", [1, 2])
def test_two_host_threads_count_together(count: int, threads: Any) -> None:
    threads(count)
    counter, taken = dk.zeros(1, dtype=int), dk.zeros(8 * MANY, dtype=int)

    def launch_some() -> None:
        for _ in range(4):
            dk.launch(number, MANY, [1, counter, taken])

    other = threading.Thread(target=launch_some)
    other.start()
    launch_some()
    other.join()
    assert counter.numpy()[0] == 8 * MANY
    assert (taken.numpy() == 1).all()
