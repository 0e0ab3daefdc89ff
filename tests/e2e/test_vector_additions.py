"""Vectors that threads of a GPU add to shared elements, and negative indices, executed as PTX.

From sm_90 two or four float32 are added with one instruction. The numbers are integers, so that no order matters.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from conftest import require
from support.ptx.programs import PtxProgram, execute, ptx_of

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant

require("cuda.bindings.nvjitlink", "nvidia")

vec5 = dk.types.vector(5, float)
vec6 = dk.types.vector(6, float)


@dk.kernel
def scatter(at: dk.array(dtype=int), x: dk.array(dtype=Any), y: dk.array(dtype=Any)):
    i = dk.tid()
    dk.atomic_add(y, at[i], x[i])


@dk.kernel
def take_away(at: dk.array(dtype=int), x: dk.array(dtype=Any), y: dk.array(dtype=Any)):
    i = dk.tid()
    dk.atomic_sub(y, at[i], x[i])


@dk.kernel
def corner(at: dk.array2d(dtype=int), x: dk.array2d(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[at[i, 0], at[i, 1]]


@dk.kernel
def deep(at: dk.array(dtype=dk.int64), x: dk.array3d(dtype=dk.vec2), y: dk.array(dtype=dk.vec2)):
    i = dk.tid()
    y[i] = x[at[i], -1, at[i]]


RED = "red.relaxed.gpu.global.add"
SHAPES = {
    dk.vec2: {f"{RED}.v2.f32": 1},
    dk.vec3: {f"{RED}.v2.f32": 1, f"{RED}.f32": 1},
    dk.vec4: {f"{RED}.v4.f32": 1},
    vec5: {f"{RED}.v2.f32": 2, f"{RED}.f32": 1},
    vec6: {f"{RED}.v2.f32": 3},
    dk.mat22: {f"{RED}.v4.f32": 1},
    dk.mat33: {f"{RED}.v2.f32": 4, f"{RED}.f32": 1},
    dk.quat: {f"{RED}.v4.f32": 1},
}
N, ROOMS = 70, 9


def ptx(kernel: Any, element: Any, arch: str = "sm_90") -> str:
    given = (dk.array(dtype=int), dk.array(dtype=element), dk.array(dtype=element))
    fn = Compilation(kernel.func, kernel.argument_types(*given), Variant(target=arch)).fn
    return ptx_of(fn, arch=arch)[0]


def parts(element: Any) -> tuple[int, ...]:
    return tuple(np.shape(element()))


def aligned(shape: tuple[int, ...], skew: int) -> Any:
    """Zeros that begin a number of bytes after a multiple of 16."""
    nbytes = 4 * int(np.prod(shape))
    room = np.zeros(nbytes + 32, np.uint8)
    start = -room.ctypes.data % 16 + skew
    return room[start : start + nbytes].view(np.float32).reshape(shape)


def check(kernel: Any, element: Any, sign: int, skew: int = 0, arch: str = "sm_90", strided: bool = False) -> None:
    rng = np.random.default_rng(len(parts(element)))
    at = rng.integers(-ROOMS, ROOMS, N).astype(np.int32)
    x = rng.integers(-9, 9, (N, *parts(element))).astype(np.float32)
    y = aligned(((2 if strided else 1) * ROOMS, *parts(element)), skew)
    y[:] = rng.integers(-9, 9, y.shape)
    whole, expected = y, y.copy()
    y, part = (y[::2], expected[::2]) if strided else (y, expected)
    np.add.at(part, at, sign * x)
    given = [dk.array(a, dtype=t, copy=False) for a, t in ((at, int), (x, element), (y, element))]
    types = kernel.argument_types(*given)
    fn = Compilation(kernel.func, types, Variant(target=arch)).fn
    PtxProgram(fn, arch=arch, block_dim=32).run((N,), [at, x, y], memory=[whole])
    np.testing.assert_array_equal(whole, expected)


@pytest.mark.parametrize(("element", "expected"), SHAPES.items(), ids=str)
def test_instructions(element, expected):
    found = Counter(re.findall(r"\bred[.a-z0-9]+", ptx(scatter, element)))
    assert found == Counter(expected)


def test_older_architectures_add_numbers_one_by_one():
    assert set(re.findall(r"\bred[.a-z0-9]+", ptx(scatter, dk.vec4, "sm_80"))) == {f"{RED}.f32"}


@pytest.mark.parametrize("element", SHAPES, ids=str)
def test_sums(element):
    check(scatter, element, 1)


@pytest.mark.parametrize("element", [dk.vec3, dk.mat33], ids=str)
@pytest.mark.parametrize("skew", [4, 8, 12])
def test_elements_of_odd_numbers_begin_anywhere(element, skew):
    check(scatter, element, 1, skew)


@pytest.mark.parametrize("element", [dk.vec2, dk.vec3, dk.vec4], ids=str)
def test_differences_and_strides(element):
    check(take_away, element, -1)
    check(scatter, element, 1, strided=True)


def test_on_an_older_architecture():
    check(scatter, dk.vec3, 1, arch="sm_80")


def test_negative_indices_of_several_axes():
    rng = np.random.default_rng(1)
    at = rng.integers([-5, -7], [5, 7], (40, 2)).astype(np.int32)
    x, y = rng.uniform(size=(5, 7)).astype(np.float32), np.zeros(40, np.float32)
    for array in (x, np.repeat(x, 2, axis=1)[:, ::2], x[::-1], np.asfortranarray(x)):
        execute(corner, 40, [at, array, y], block_dim=32)
        np.testing.assert_array_equal(y, array[at[:, 0], at[:, 1]])


def test_negative_indices_of_64_bits():
    at = np.arange(-3, 3)
    x = np.arange(3 * 4 * 5 * 2, dtype=np.float32).reshape(3, 4, 5, 2)
    y = np.zeros((6, 2), np.float32)
    execute(deep, 6, [at, x, y], block_dim=32)
    np.testing.assert_array_equal(y, x[at, -1, at])
