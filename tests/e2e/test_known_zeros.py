"""Gradients on a GPU that are known to be zero: executed PTX stores what it would add, and fills are left out.

That elements are not read is seen by contents that the run time does not know of: numbers written past it into memory
that it takes for zero.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import require
from support.fake_driver.driver import FakeDriver, fake_cuda

import diffkern as dk
from diffkern.contracts import abi

require("cuda.bindings.nvjitlink", "nvidia")
G = "cuda:0"
N = 11
F = dk.array(dtype=float)
F2 = dk.array(dtype=float, ndim=2)


@dk.kernel
def squared(x: F, s: float, y: F):
    i = dk.tid()
    y[i] = s * x[i] * x[i]


@dk.kernel
def mixed(x: dk.array(dtype=dk.vec3), h: dk.array(dtype=dk.float16), d: dk.array(dtype=dk.float64), y: F):
    i = dk.tid()
    y[i] = dk.dot(x[i], x[i]) * float(h[i]) + float(d[i] * d[i])


@dk.kernel
def plane(x: F2, y: F2):
    i, j = dk.tid()
    y[i, j] = x[i, j] * x[i, j]


@pytest.fixture(scope="module")
def driver() -> Iterator[FakeDriver]:
    with fake_cuda(run="ptx") as made:
        yield made


def numbers(n: int = N) -> Any:
    return np.linspace(0.5, 1.5, n).astype(np.float32)


def made(values: Any, dtype: Any = float, grad: bool = True) -> Any:
    return dk.array(values, dtype=dtype, device=G, requires_grad=grad)


def zeros(n: int = N, grad: bool = True) -> Any:
    return dk.zeros(n, dtype=float, device=G, requires_grad=grad)


def spoil(*arrays: Any) -> None:
    """Write past the run time: it goes on to take the gradients for zero."""
    dk.synchronize()
    for a in arrays:
        size = a.grad._data.nbytes
        ctypes.memmove(a.grad._memory.address, np.full(size // 2, 1.0, np.float16).tobytes(), size)


def swept(run: Any, seeds: Any, spoiled: tuple[Any, ...] = ()) -> None:
    with dk.Tape() as tape:
        run()
    spoil(*spoiled)
    tape.backward(grads=seeds)


def gradient(a: Any) -> Any:
    return a.grad.numpy().astype(np.float64)


def bits(driver: FakeDriver) -> list[int]:
    return [launched.block[abi.GPU_BITS] & ~abi.ONE_ROUND for launched in driver.launches]


def test_elements_of_each_type_are_not_read(driver: FakeDriver) -> None:
    rng = np.random.default_rng(1)
    x, h, d = rng.uniform(0.5, 1, (N, 3)), rng.uniform(0.5, 1, N).astype(np.float16), rng.uniform(0.5, 1, N)
    arrays = made(x.astype(np.float32), dk.vec3), made(h, dk.float16), made(d, dk.float64)
    y, seed = zeros(), made(numbers(), grad=False)
    expected = [2 * x * (h * numbers())[:, None], (x * x).sum(1) * numbers(), 2 * d * numbers()]
    for _ in range(3):  # as single operations, then compiled
        swept(lambda: dk.launch(mixed, N, inputs=[*arrays, y]), {y: seed}, arrays)
        for a, right in zip(arrays, expected, strict=True):
            np.testing.assert_allclose(gradient(a), right, rtol=2e-3 if a is arrays[1] else 1e-5)
            a.grad.zero_()


def test_several_axes(driver: FakeDriver) -> None:
    values = numbers(35).reshape(5, 7)
    x, y = made(values), made(values)
    seed = made(np.ones_like(values), grad=False)
    for _ in range(3):
        swept(lambda: dk.launch(plane, (5, 7), inputs=[x, y]), {y: seed}, (x,))
        np.testing.assert_allclose(gradient(x), 2 * values, rtol=1e-6)
        x.grad.zero_()


@pytest.mark.parametrize("way", ["tapes", "one tape"])
def test_what_is_not_zero_is_added_to(driver: FakeDriver, way: str) -> None:
    x, y, seed = made(numbers()), zeros(), made(np.ones(N, np.float32), grad=False)
    right = np.zeros(N)
    for k in range(9):
        with dk.Tape() as tape:
            dk.launch(squared, N, inputs=[x, 1.0 + k, y])
            if way == "one tape":  # the second adjoint finds what the first one has added
                dk.launch(squared, N, inputs=[x, 1.0 + k, y])
        driver.launches.clear()
        tape.backward(grads={y: seed})
        right += 2 * (1.0 + k) * numbers()
        np.testing.assert_allclose(gradient(x), right, rtol=1e-6)
        if k in (2, 3, 5, 7):
            tape.zero()
            right[:] = 0
        elif k == 4:
            x.grad.fill_(3.0)
            right[:] = 3
        elif k == 6:
            x.grad[2:5].zero_()  # a part
            right[2:5] = 0


def test_bits_of_an_adjoint(driver: FakeDriver) -> None:
    with dk.Tape() as tape:
        dk.launch(squared, N, inputs=[made(numbers()), 1.0, zeros()])
    (launch,) = tape.launches
    program = launch.adjoint(frozenset((0, 2)))
    grid = program.grid(N)
    assert program.zeroed == (0,)  # what it sets to zero it reads
    assert [program.bits_of_zeros(grid, known) for known in ([0], [0, 2], [2], [])] == [1, 1, 0, 0]
    # A thread that is repeated finds what it has added.
    assert program.bits_of_zeros(replace(grid, dims=(N, 3, 1, 1)), [0]) == 0


def chain(count: int) -> tuple[Any, Any, Any]:
    """Two launches by way of an array without a gradient, of `count` threads each."""
    x, between, z = made(numbers()), zeros(grad=False), zeros()

    def run() -> None:
        dk.launch(squared, count, inputs=[x, 1.0, between])
        dk.launch(squared, count, inputs=[between, 1.0, z])

    return x, z, run


@pytest.mark.parametrize("count", [N, N - 2])
def test_temporary_gradients(driver: FakeDriver, count: int) -> None:
    """Their fill is left out where the threads overwrite them as a whole."""
    x, z, run = chain(count)
    seed = made(np.ones(N, np.float32), grad=False)
    right = np.where(np.arange(N) < count, 4 * numbers() ** 3, 0)
    fills = []
    for _ in range(4):
        driver.calls.clear()
        driver.launches.clear()
        swept(run, {z: seed})
        dk.synchronize()
        fills.append(driver.names().count("fill"))
        np.testing.assert_allclose(gradient(x), right, rtol=1e-6)
        x.grad.zero_()
    assert bits(driver)[-2:] == [1, 1]
    assert (fills[-1] < fills[0]) == (count == N)


def test_one_array_and_arrays_that_overlap(driver: FakeDriver) -> None:
    values = numbers(2 * N)
    for start in (0, 3, N):
        whole = made(values)
        x, y = whole[:N], whole[start : start + N]
        out, seed = zeros(), made(np.ones(N, np.float32), grad=False)
        right = np.zeros(2 * N)
        right[:N] += 2 * values[:N] * 3
        right[start : start + N] += 2 * values[start : start + N]
        for _ in range(3):
            swept(lambda x=x, y=y, out=out: dk.launch(two, N, inputs=[x, y, out]), {out: seed})
            np.testing.assert_allclose(gradient(whole), right, rtol=1e-6)
            whole.grad.zero_()


@dk.kernel
def two(x: F, y: F, out: F):
    i = dk.tid()
    out[i] = 3.0 * x[i] * x[i] + y[i] * y[i]


def test_sequences_and_graphs_read_what_they_add_to(driver: FakeDriver) -> None:
    """They run again, and find other contents."""
    x, y, seed = made(numbers()), zeros(), made(np.ones(N, np.float32), grad=False)
    with dk.record(run=False) as sequence:
        swept(lambda: dk.launch(squared, N, inputs=[x, 1.0, y]), {y: seed})
    for k in range(3):
        sequence.replay()
        np.testing.assert_allclose(gradient(x), 2 * (k + 1) * numbers(), rtol=1e-6)
    x.grad.zero_()
    graph = sequence.capture()
    for k in range(3):
        graph.launch()
        np.testing.assert_allclose(gradient(x), 2 * (k + 1) * numbers(), rtol=1e-6)
    x.grad.zero_()
    record = dk.launch(squared, N, inputs=[x, 1.0, y], record_cmd=True).adjoint()
    for k in range(3):
        y.grad.assign(np.ones(N, np.float32))
        record.launch()
        np.testing.assert_allclose(gradient(x), 2 * (k + 1) * numbers(), rtol=1e-6)
