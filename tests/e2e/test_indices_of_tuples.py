"""Indices of shapes, tuples, vectors and matrices: constants are checked at once, others by debug programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp

WEIGHTS = (2.0, 3.0, 5.0)


@dk.kernel
def by_variable(x: dk.array2d(dtype=float), v: dk.vec3, m: dk.mat22, n: int, k: int, y: dk.array(dtype=float)):
    if k == 0:
        y[0] = float(x.shape[n])
    if k == 1:
        y[0] = WEIGHTS[n]
    if k == 2:
        y[0] = v[n]
    if k == 3:
        y[0] = m[n, 1]
    if k == 4:
        w = v
        w[n] = 9.0
        y[0] = w[0] + w[1] + w[2]


LENGTHS = (2, 3, 3, 2, 3)
INSIDE = [lambda n: (3.0, 4.0)[n], lambda n: WEIGHTS[n], lambda n: (1.0, 2.0, 3.0)[n], lambda n: (2.0, 4.0)[n]]


def run(n: int, k: int) -> float:
    y = dk.zeros(1, dtype=float)
    by_variable[1](dk.zeros((3, 4), dtype=float), dk.vec3(1.0, 2.0, 3.0), dk.mat22(1.0, 2.0, 3.0, 4.0), n, k, y)
    return float(y.numpy()[0])


@pytest.mark.parametrize("mode", ["release", "debug"])
@pytest.mark.parametrize("k", range(4))
def test_inside(monkeypatch: pytest.MonkeyPatch, mode: Any, k: int) -> None:
    monkeypatch.setattr(dk.config, "mode", mode)
    for n in range(-LENGTHS[k], LENGTHS[k]):
        assert run(n, k) == INSIDE[k](n)


@pytest.mark.parametrize("k", range(5))
def test_debug_programs_report_the_others(monkeypatch: pytest.MonkeyPatch, k: int) -> None:
    monkeypatch.setattr(dk.config, "mode", "debug")
    for n in (-LENGTHS[k] - 1, LENGTHS[k], 2**31 - 1, -(2**31)):
        with pytest.raises(dk.KernelRuntimeError, match=f"index is out of bounds for .* of {LENGTHS[k]}") as info:
            run(n, k)
        assert "test_indices_of_tuples.py" in str(info.value)


@pytest.mark.parametrize("t", [np.int8, np.uint8, np.uint32, np.int64, np.uint64])
def test_debug_programs_see_every_type_of_index(t: Any) -> None:
    @dk.kernel(mode="debug")
    def k(x: dk.array2d(dtype=float), n, y: dk.array(dtype=int)):
        y[0] = x.shape[n]

    x, y = dk.zeros((3, 4), dtype=float), dk.zeros(1, dtype=int)
    k[1](x, t(1), y)
    assert y.list() == [4]
    largest = int(np.iinfo(t).max)
    for n in (2, largest, *([2**32, 2**32 + 1] if largest > 2**33 else [])):
        with pytest.raises(dk.KernelRuntimeError, match="out of bounds for a tuple of 2"):
            k[1](x, t(n), y)


CONSTANTS = [2, -3, np.int32(2), np.int64(-3), np.uint8(7), 10**6]


@pytest.mark.parametrize("dialect", [dk, wp], ids=["native", "warp"])
@pytest.mark.parametrize("n", CONSTANTS, ids=repr)
def test_a_constant_is_an_error_with_the_line(dialect: Any, n: Any) -> None:
    @dialect.kernel
    def k(x: dk.array2d(dtype=float), y: dk.array(dtype=int)):
        pair = x.shape[0], x.shape[1]
        y[0] = pair[n]

    with pytest.raises(dk.KernelTypeError, match=rf"index {int(n)} of a tuple of 2") as info:
        dk.launch(k, 1, [dk.zeros((3, 4), dtype=float)], [dk.zeros(1, dtype=int)])
    assert info.value.loc is not None


@pytest.mark.parametrize("n", CONSTANTS, ids=repr)
def test_shapes_have_zeros_behind_their_last_axis_in_warps_dialect(n: Any) -> None:
    def extent(x: dk.array2d(dtype=float), y: dk.array(dtype=int)):
        y[0] = x.shape[n]

    x, y = dk.zeros((3, 4), dtype=float), dk.ones(1, dtype=int)
    with pytest.raises(dk.KernelTypeError, match=rf"index {int(n)} of a tuple of 2"):
        dk.launch(dk.kernel(extent), 1, [x], [y])
    if n == 2:
        wp.launch(wp.kernel(extent), 1, [x], [y])
        assert y.list() == [0]
    else:
        with pytest.raises(dk.KernelTypeError, match=rf"index {int(n)} of a tuple"):
            wp.launch(wp.kernel(extent), 1, [x], [y])


@pytest.mark.parametrize("n", [0, np.int32(1), np.int64(-1), np.uint8(1)], ids=repr)
def test_constants_with_types(n: Any) -> None:
    @dk.kernel
    def k(x: dk.array2d(dtype=float), v: dk.vec2, y: dk.array(dtype=float)):
        y[0] = float(x.shape[n]) + v[n]

    y = dk.zeros(1, dtype=float)
    k[1](dk.zeros((3, 4), dtype=float), dk.vec2(0.25, 0.5), y)
    assert y.list() == [(3, 4)[n] + (0.25, 0.5)[n]]
