"""Straight code with loaded addresses or wide elements: lanes are chosen unasked, and change nothing but the time.

Each form of access with each kind of work, forwards and backwards, bit by bit against the same threads one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk

F32, F64, V3 = dk.array(dtype=float), dk.array(dtype=dk.float64), dk.array(dtype=dk.vec3)
M33 = dk.array(dtype=dk.mat33)
I32, I64, U32 = dk.array(dtype=int), dk.array(dtype=dk.int64), dk.array(dtype=dk.uint32)
PLACES = 23
COUNTS = (1, 7, 8, 9, 64, 333)


def gathered(x: F32, at: I32, y: F32):
    i = dk.tid()
    y[i] = dk.exp(x[at[i]])


def gathered_long(x: F64, at: I64, y: F64):
    i = dk.tid()
    y[i] = dk.sqrt(x[at[i]]) / (1.0 + x[at[i]])


def gathered_from_the_end(x: F32, at: I32, y: F32):
    i = dk.tid()
    y[i] = dk.log(x[at[i] - 23])


def gathered_unsigned(x: F32, at: U32, y: F32):
    i = dk.tid()
    y[i] = dk.sin(x[at[i]]) * x[i % 23]


def scattered(x: F32, at: I32, y: F32):
    i = dk.tid()
    y[at[i]] = dk.exp(x[i])


def added(x: F32, at: I32, y: F32):
    i = dk.tid()
    dk.atomic_add(y, at[i], dk.tanh(x[i]))


def added_double(x: F64, at: I64, y: F64):
    i = dk.tid()
    y[at[i]] += dk.pow(x[i], 1.5)


def greatest(x: F32, at: I32, y: F32):
    i = dk.tid()
    dk.atomic_max(y, at[i], dk.cos(x[i]) / x[i])


def springs(x: V3, at: I32, y: V3):
    i = dk.tid()
    d = x[at[i]] - x[at[i] - 1]
    f = (dk.length(d) - 1.0) * d / (dk.length(d) + 0.1)
    dk.atomic_add(y, at[i], f)
    dk.atomic_sub(y, at[i] - 1, f)


def twice(x: F32, at: I32, y: F32):
    i = dk.tid()
    y[at[i]] = dk.exp(x[at[i]]) + 1.0 / x[at[at[i] % 8] % 23]


def chosen(x: F32, at: I32, y: F32):
    i = dk.tid()
    v = dk.where(at[i] > 11, dk.exp(x[at[i]]), dk.sqrt(x[i % 23]))
    dk.atomic_add(y, at[i], v)


def inverted(x: M33, at: I32, y: M33):
    i = dk.tid()
    y[i] = dk.inverse(x[i]) * x[i] + x[i] * float(at[i % 8])


def counted(x: F32, at: I32, y: F32):
    i = dk.tid()
    k = dk.atomic_add(y, at[i], 1.0)
    y[int(k) + 23 + at[i] * 400] = dk.exp(x[i % 23])


ALL: list[Callable[..., None]] = [
    gathered, gathered_long, gathered_from_the_end, gathered_unsigned, scattered, added, added_double, greatest,
    springs, twice, chosen, inverted, counted,
]  # fmt: skip
OTHER_ORDER = {gathered_unsigned}
"""Kernels whose adjoints add to an element at two places: all lanes come to the first before the second."""
IN_ORDER = {scattered, twice}
"""Kernels whose threads must not meet: their places are all different."""


def _arguments(func: Callable[..., None], n: int) -> tuple[Any, Any, Any]:
    """The arguments of a launch of n threads, the same for each call."""
    rng = np.random.default_rng(n)
    long, element = func in (gathered_long, added_double), {springs: dk.vec3, inverted: dk.mat33}.get(func)
    real, whole = (np.float64, np.int64) if long else (np.float32, np.int32)
    whole = np.uint32 if func is gathered_unsigned else whole
    places = max(PLACES, n if func in IN_ORDER else 0)
    at = rng.permutation(places)[: max(n, 8)] if func in IN_ORDER else rng.integers(0, PLACES, max(n, 8))
    shape = (max(places, n), *(element.shape if element else ()))
    size = {counted: PLACES * 401 + 400}.get(func, max(places, n))
    x = dk.array(rng.uniform(0.3, 2.0, shape).astype(real), dtype=element, requires_grad=True)
    return x, dk.array(at.astype(whole)), dk.zeros(size, dtype=element or real, requires_grad=True)


def _bits(a: Any) -> bytes:
    return a.numpy().tobytes()


@pytest.mark.lanes_choice("it compares what is chosen unasked with threads one by one")
@pytest.mark.parametrize("func", ALL, ids=lambda f: f.__name__)
def test_values_and_gradients_are_those_of_threads_one_by_one(func):
    # One chunk runs in one thread, so that sums have one order; products and sums are rounded each by itself.
    kernels = dk.kernel(func, fuse_fp=False), dk.kernel(func, fuse_fp=False, lanes=False)
    for n in COUNTS:
        found = []
        for kernel in kernels:
            x, at, y = _arguments(func, n)
            with dk.Tape() as tape:
                kernel[n](x, at, y)
            if func is not counted:
                y.grad.fill_(0.7)
                tape.backward()
            found.append((_bits(y), _bits(x.grad)))
        if func in OTHER_ORDER:
            assert found[0][0] == found[1][0]
            lanes, single = (np.frombuffer(gradient, np.float32) for _, gradient in found)
            np.testing.assert_allclose(lanes, single, rtol=1e-6)
        else:
            assert found[0] == found[1], n


@pytest.mark.lanes_choice("it reads what is chosen")
@pytest.mark.parametrize(
    ("func", "forward", "adjoint"),
    [
        (gathered, True, True),
        (added, True, True),
        (springs, False, True),
        (chosen, True, False),
        (inverted, True, True),
    ],
)
def test_the_estimate_decides(func, forward, adjoint):
    kernel = dk.kernel(func)
    for is_adjoint, lanes in ((False, forward), (True, adjoint)):
        said = kernel.report(adjoint=is_adjoint).splitlines()[0]
        assert said.endswith("by estimate") is lanes, said


@pytest.mark.lanes_choice("it reads what is chosen")
def test_what_only_moves_numbers_is_left_to_llvm():
    @dk.kernel
    def moved(x: F32, at: I32, y: F32):
        i = dk.tid()
        y[i] = 2.0 * x[at[i]] + 1.0

    @dk.kernel
    def backwards(x: F32, y: F32):
        i = dk.tid()
        y[332 - i] = dk.exp(x[i])

    for kernel in (moved, backwards):
        assert "is left to LLVM" in kernel.report()
