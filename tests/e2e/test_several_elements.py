"""Threads of a GPU that take several neighbouring elements, executed as PTX: results are the CPU's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import require
from support.ptx.programs import execute, ptx_of, vjp_of

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import CompiledFunction

require("cuda.bindings.nvjitlink", "nvidia")


@dk.kernel
def scaled(x: dk.array(dtype=float), a: float, c: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = a * x[i] * x[i] + c[1] * y[i]


@dk.kernel
def step(x: dk.array(dtype=dk.vec3), v: dk.array(dtype=dk.vec3), m: dk.array(dtype=float), dt: float):
    i = dk.tid()
    v[i] = v[i] * m[i]
    x[i] = x[i] + v[i] * dt


@dk.kernel
def doubled(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = 2.0 * dk.float64(x[i]) + dk.float64(i)


@dk.kernel
def narrow(x: dk.array(dtype=dk.float16), flags: dk.array(dtype=bool), n: dk.array(dtype=dk.int8)):
    i = dk.tid()
    x[i] = x[i] * dk.float16(1.1)
    flags[i] = float(x[i]) > 1.0
    n[i] = dk.int8(i) + n[i]


@dk.kernel
def second_component(v: dk.array(dtype=dk.vec3), x: dk.array(dtype=float)):
    i = dk.tid()
    v[i][1] = x[i]


@dk.kernel
def own_and_first(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] + x[0]


@dk.kernel
def shifted(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i + 1]


RNG = np.random.default_rng(5)


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.uniform(0.5, 2.0, shape).astype(dtype)


def made(kernel: Any, n: int, skew: int = 0) -> list[Any]:
    """Arguments, whose arrays begin a number of elements after an address that is aligned for all accesses."""

    def aligned(values: Any) -> Any:
        room = np.zeros(values.nbytes + 64 + skew * values.strides[0], np.uint8)
        start = -room.ctypes.data % 16 + skew * values.strides[0]
        view = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
        view[:] = values
        return view

    numbers = floats(n)
    given = {
        scaled: [numbers, np.float32(0.7), floats(2), floats(n)],
        step: [floats(n, 3), floats(n, 3), numbers, np.float32(0.1)],
        doubled: [floats(n, dtype=np.float64), floats(n, dtype=np.float64)],
        narrow: [floats(n, dtype=np.float16), np.zeros(n, bool), np.arange(n).astype(np.int8)],
        second_component: [floats(n, 3), numbers],
        own_and_first: [numbers, floats(n)],
    }[kernel]
    return [aligned(a) if isinstance(a, np.ndarray) else a for a in given]


def check(kernel: Any, n: int, skew: int = 0, dim: Any = None, **given: Any) -> None:
    found = made(kernel, n, skew)
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in found]
    fn = Compilation(kernel.func, kernel.argument_types(*found), Variant(target="native")).fn
    CompiledFunction(fn).run(dim or (n,), expected)
    execute(kernel, dim or n, found, **given)
    for a, b in zip(found, expected, strict=True):
        # The two processors may round a product and a sum together at different places.
        rtol = 2 * np.finfo(a.dtype).eps if np.asarray(a).dtype.kind == "f" else 0
        np.testing.assert_allclose(a, b, rtol=rtol)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 129])
def test_sizes(n):
    check(scaled, n, block_dim=32)


@pytest.mark.parametrize("kernel", [step, doubled, narrow, second_component, own_and_first])
def test_types(kernel):
    check(kernel, 71, block_dim=32)


@pytest.mark.parametrize("kernel", [scaled, step, narrow])
def test_arrays_that_begin_anywhere(kernel):
    check(kernel, 37, skew=1, block_dim=32, blocks=1)


def test_a_grid_of_few_threads_goes_round():
    check(scaled, 100, block_dim=3, blocks=2)
    check(step, 41, block_dim=5, blocks=1)


def test_threads_that_are_repeated_do_so_one_element_at_a_time():
    check(scaled, 9, dim=(9, 3), block_dim=32)


def test_a_launch_of_no_threads():
    check(scaled, 0)


@pytest.mark.parametrize("kernel", [scaled, step])
def test_gradients(kernel):
    fn = Compilation(kernel.func, kernel.argument_types(*made(kernel, 2)), Variant(target="sm_90")).fn
    here, there = Vjp(fn), vjp_of(fn, block_dim=32)
    point = here.arguments(made(kernel, 27))
    weights = here.weights(point, np.random.default_rng(3))
    expected = here.gradients((27,), point, weights)
    for i, gradient in there.gradients((27,), point, weights).items():
        np.testing.assert_allclose(gradient, expected[i], rtol=1e-6)


@pytest.mark.parametrize("kernel", [scaled, step, doubled, narrow, second_component])
def test_accesses_are_wide(kernel):
    fn = Compilation(kernel.func, kernel.argument_types(), Variant(target="sm_90")).fn
    text, _ = ptx_of(fn)
    assert ".v2." in text if kernel is doubled else ".v4." in text


@pytest.mark.parametrize("kernel", [own_and_first, shifted])
def test_other_elements_are_taken_one_by_one(kernel):
    fn = Compilation(kernel.func, kernel.argument_types(), Variant(target="sm_90")).fn
    text, _ = ptx_of(fn)
    assert ".v4." not in text


def test_a_program_says_how_many_threads_one_is_worth():
    assert dk.compile(doubled, target="sm_90").manifest.resources.elements == 2
    assert dk.compile(shifted, target="sm_90").manifest.resources.elements == 1
