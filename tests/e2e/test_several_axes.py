"""Launches of several axes on a GPU, executed as PTX: each thread has its index, and groups of elements are right."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from conftest import require
from support.fake_driver.driver import fake_cuda
from support.ptx.programs import PtxProgram, vjp_of

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.testing.adjoints import Vjp
from diffkern.testing.programs import CompiledFunction

require("cuda.bindings.nvjitlink", "nvidia")

A2, A3, A4 = (dk.array(dtype=float, ndim=n) for n in (2, 3, 4))


@dk.kernel
def two(x: A2, a: float, y: A2):
    i, j = dk.tid()
    y[i, j] = a * x[i, j] * x[i, j] + y[i, j]


@dk.kernel
def three(x: A3, a: float, y: A3):
    i, j, k = dk.tid()
    y[i, j, k] = a * x[i, j, k] * x[i, j, k] + y[i, j, k]


@dk.kernel
def four(x: A4, a: float, y: A4):
    i, j, k, m = dk.tid()
    y[i, j, k, m] = a * x[i, j, k, m] * x[i, j, k, m] + y[i, j, k, m]


@dk.kernel
def counted(x: A2, a: float, y: A2):
    i, j = dk.tid()
    y[i, j] = float(i * 100 + j) * x[i, j] + a


@dk.kernel
def with_bias(x: A2, bias: dk.array(dtype=float), y: A2):
    i, j = dk.tid()
    y[i, j] = x[i, j] * bias[j] + bias[i]


@dk.kernel
def of_vectors(x: dk.array(dtype=dk.vec3, ndim=2), a: float, y: A2):
    i, j = dk.tid()
    y[i, j] = a * dk.dot(x[i, j], x[i, j])


@dk.kernel
def turned(x: A2, a: float, y: A2):
    i, j = dk.tid()
    y[j, i] = a * x[j, i]


@dk.kernel
def stencil(x: A2, a: float, y: A2):
    i, j = dk.tid()
    if 0 < j and j < x.shape[1] - 1:
        y[i, j] = x[i, j - 1] + a * x[i, j + 1]


@functools.cache
def programs(kernel: Any, compiler: str = "llvm", arch: str = "sm_90") -> tuple[CompiledFunction, PtxProgram]:
    here, there = (Compilation(kernel.func, kernel.argument_types(), v).fn for v in (Variant(), Variant(target=arch)))
    return CompiledFunction(here), PtxProgram(there, compiler, arch)


def made(kernel: Any, dim: tuple[int, ...], larger: int = 0, skew: int = 0) -> list[Any]:
    """Arguments for a launch, whose arrays are longer than it along the last axis and begin `skew` elements late."""
    rng, out = np.random.default_rng(sum(dim)), []
    for t in kernel.argument_types():
        if not hasattr(t, "ndim"):
            out.append(np.float32(0.7))
            continue
        shape = (*dim[:-1], dim[-1] + larger) if t.ndim == len(dim) else (max(dim),)
        shape += (3,) * (t.dtype.itemsize == 12)
        room = np.zeros(int(np.prod(shape)) + 8, np.float32)
        start = (-room.ctypes.data % 16) // 4 + skew
        values = room[start : start + int(np.prod(shape))].reshape(shape)
        values[:] = rng.uniform(0.5, 2.0, shape)
        out.append(values)
    return out


def check(kernel: Any, dim: tuple[int, ...], by: tuple[str, ...] = (), **given: Any) -> None:
    """Compare what the GPU's program leaves with what the CPU's does, in blocks and grids of several sizes."""
    blocks, block_dim = given.pop("blocks", None), given.pop("block_dim", 32)
    here, there = programs(kernel, *by)
    found, expected = made(kernel, dim, **given), made(kernel, dim, **given)
    here.run(dim[::-1] if kernel is turned else dim, expected)
    there.blocks, there.block_dim = blocks, block_dim
    there.run(dim[::-1] if kernel is turned else dim, found)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-7)


@pytest.mark.parametrize("dim", [(1, 1), (1, 4), (4, 1), (3, 5), (4, 8), (7, 13), (33, 4)], ids=str)
def test_two_axes(dim):
    for kernel in (two, counted, with_bias, of_vectors):
        check(kernel, dim)
    check(two, dim, larger=1)
    check(two, dim, skew=1)
    check(stencil, dim, block_dim=3)
    check(turned, dim)


@pytest.mark.parametrize(
    ("kernel", "dim"), [(three, (2, 3, 5)), (three, (5, 1, 4)), (four, (2, 3, 4, 5)), (four, (1, 3, 2, 8))], ids=str
)
def test_more_axes(kernel, dim):
    check(kernel, dim)
    check(kernel, dim, larger=4, block_dim=3)
    check(kernel, dim, skew=2, blocks=1, block_dim=3)


def test_grids_of_few_threads_go_round():
    for kernel in (two, counted, stencil):
        for blocks, block_dim in ((1, 3), (2, 5), (1, 256)):
            check(kernel, (9, 12), blocks=blocks, block_dim=block_dim)
            check(kernel, (9, 12), larger=3, blocks=blocks, block_dim=block_dim)


@pytest.mark.parametrize("by", [("llvm", "sm_80"), pytest.param(("numba", "sm_90"), marks=pytest.mark.full)], ids=str)
def test_other_compilers_and_architectures(by):
    if by[0] == "numba":
        require("numba.cuda")
    check(counted, (5, 8), by=by, block_dim=3)
    check(stencil, (5, 7), by=by, blocks=1)


@pytest.mark.parametrize("kernel", [two, counted, with_bias])
def test_gradients(kernel):
    fn = Compilation(kernel.func, kernel.argument_types(), Variant(target="sm_90")).fn
    here, there = Vjp(fn), vjp_of(fn, block_dim=32)
    for dim, larger in (((5, 8), 0), ((3, 7), 0), ((4, 4), 4)):
        point = here.arguments(made(kernel, dim, larger))
        weights = here.weights(point, np.random.default_rng(3))
        expected = here.gradients(dim, point, weights)
        for i, gradient in there.gradients(dim, point, weights).items():
            np.testing.assert_allclose(gradient, expected[i], rtol=1e-5)


def test_accesses_of_groups_are_wide():
    for kernel, is_wide in ((two, True), (with_bias, True), (four, True), (turned, False), (stencil, False)):
        assert (".v4." in programs(kernel)[1].text) == is_wide, kernel
    assert "div." not in "".join(programs(kernel)[1].text for kernel in (two, four, counted, stencil))


@dk.kernel
def grown(x: A2, y: A2):
    i, j = dk.tid()
    y[i, j] = 2.0 * x[i, j] + 1.0


@pytest.mark.parametrize("way", ["launched", "recorded", "changed", "taped"])
def test_arrays_that_share_memory_are_taken_element_by_element_by_the_same_grid(way):
    values = np.random.default_rng(4).normal(size=(4, 256)).astype(np.float32)
    with fake_cuda(run="ptx", races=False):
        shared = dk.array(values, device="cuda:0", requires_grad=way == "taped")
        inputs = {"inputs": [shared], "outputs": [shared]}
        if way == "launched":
            dk.launch(grown, values.shape, **inputs)
        elif way == "taped":
            with dk.Tape() as tape:
                dk.launch(grown, values.shape, **inputs)
            tape.backward(grads={shared: dk.ones(values.shape, device="cuda:0")})
            np.testing.assert_array_equal(shared.grad.numpy(), 2.0)
        else:
            other = dk.zeros(values.shape, device="cuda:0")
            outputs = [shared if way == "recorded" else other]
            record = dk.launch(grown, values.shape, inputs=[shared], outputs=outputs, record_cmd=True)
            record.set_param_at_index(1, shared)
            record.launch()
        np.testing.assert_array_equal(shared.numpy(), 2.0 * values + 1.0)


def test_an_empty_launch_may_have_an_extent_of_any_size():
    with fake_cuda(run="ptx"):
        y = dk.zeros((1, 1), device="cuda:0")
        dk.launch(grown, (0, 2**32), inputs=[y], outputs=[y])
        np.testing.assert_array_equal(y.numpy(), 0.0)
