"""Kernels whose threads work together: on the CPU against NumPy, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from block_corpus import BLOCKS

import diffkern as dk
from diffkern.analysis.blocks import shared_bytes
from diffkern.compiler.compilation import Compilation
from diffkern.ir.nodes import walk
from diffkern.ir.verify import verify
from diffkern.lower.fission import to_blocks
from diffkern.printing import executor

f1, m1 = dk.array(dtype=float), dk.array(dtype=dk.mat44)


def wrapped(kernel: dk.Kernel, arguments: list[Any]) -> list[Any]:
    """The arguments with arrays of vectors declared as such."""
    given = []
    for a, p in zip(arguments, kernel.parameters, strict=True):
        vectors = isinstance(a, np.ndarray) and getattr(p.annotation, "dtype", None) is dk.vec3
        given.append(dk.array(a, dtype=dk.vec3, copy=False) if vectors else a)
    return given


@pytest.mark.parametrize("mode", ["release", "debug"])
@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_on_the_cpu(name: str, mode: str) -> None:
    case = BLOCKS[name]
    kernel = dk.kernel(case.kernel.func, mode=mode)
    arguments = case.arguments()
    expected = case.expected(*[np.copy(a) for a in arguments])
    dk.launch(kernel, dim=case.dim, inputs=wrapped(kernel, arguments), block_dim=case.block_dim)
    for found, wanted in zip(arguments, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_a_block_as_a_thread_is_valid(name: str) -> None:
    kernel = BLOCKS[name].kernel
    fn = Compilation(kernel.func, kernel.argument_types()).forward
    verify(fn)
    blocks = to_blocks(fn)
    verify(blocks)
    names = {op.name for op in walk(blocks.body)}
    assert not names & {"barrier", "tid", "block_thread"}
    assert blocks.tid_arity == 0


def test_many_blocks_in_several_chunks() -> None:
    x = np.random.default_rng(0).standard_normal(64 * 4096).astype(np.float32)
    y = np.zeros(4096, np.float32)
    dk.launch(BLOCKS["sum_by_halves"].kernel, dim=x.size, inputs=[x, y], block_dim=64)
    np.testing.assert_allclose(y, x.reshape(4096, 64).sum(axis=1), rtol=1e-4, atol=1e-4)


def test_the_default_block_has_256_threads() -> None:
    @dk.kernel
    def length(n: dk.array(dtype=int)):  # type: ignore[valid-type]
        n[dk.tid()] = dk.block_dim() * 1000 + dk.block_index()

    n = np.zeros(512, np.int32)
    length[512](n)
    assert n.tolist() == [256000] * 256 + [256001] * 256


def test_records_keep_the_block_dim() -> None:
    case = BLOCKS["reversed_in_blocks"]
    x, y = case.arguments()
    record = dk.launch(case.kernel, dim=12, inputs=[x, y], block_dim=4, record_cmd=True)
    record.launch()
    np.testing.assert_array_equal(y, case.expected(x, y)[1])
    record.set_dim(8)
    y[:] = 0
    record.launch()
    np.testing.assert_array_equal(y[:8], x[:8].reshape(2, 4)[:, ::-1].ravel())
    assert not y[8:].any()


@pytest.mark.parametrize(
    ("dim", "block_dim", "message"),
    [
        (13, 4, "blocks of 4, and dim=.*13.* is not whole blocks"),
        (12, 0, "block_dim is a number from 1 to 1024, not 0"),
        (2048, 2048, "block_dim is a number from 1 to 1024"),
        ((3, 4), 4, r"grid of 2 axes, and the kernel asks tid\(\) for 1 axis"),
    ],
)
def test_launches_that_are_not_whole_blocks(dim: Any, block_dim: int, message: str) -> None:
    x = np.zeros(4096, np.float32)
    with pytest.raises(dk.LaunchError, match=message):
        dk.launch(BLOCKS["reversed_in_blocks"].kernel, dim=dim, inputs=[x, x.copy()], block_dim=block_dim)


def test_other_kernels_ignore_the_block_dim() -> None:
    @dk.kernel
    def fill(x: f1):
        x[dk.tid()] = 1.0

    x = np.zeros(13, np.float32)
    dk.launch(fill, dim=13, inputs=[x], block_dim=4)
    assert x.all()


# -- refused -----------------------------------------------------------------------------------------------------------


def refused(function: Any, message: str, line: str) -> None:
    kernel = dk.kernel(function)
    with pytest.raises(dk.KernelError, match=message) as caught:
        kernel.source()
    assert line in str(caught.value)


def test_a_barrier_that_some_threads_may_miss() -> None:
    def under_condition(x: f1):
        i = dk.tid()
        if x[i] > 0.0:
            dk.syncthreads()

    refused(under_condition, "may miss this barrier: the condition in line", "dk.syncthreads()")

    def in_loop(x: f1, n: dk.array(dtype=int)):  # type: ignore[valid-type]
        i = dk.tid()
        for _k in range(n[i]):
            dk.syncthreads()
        x[i] = 0.0

    refused(in_loop, "may miss this barrier: the loop in line", "dk.syncthreads()")

    def after_return(x: f1, n: int):
        i = dk.tid()
        if i >= n:
            return
        dk.syncthreads()
        x[i] = 0.0

    refused(after_return, "may miss this barrier", "dk.syncthreads()")

    def carried(x: f1):
        k = dk.thread_index()
        while k > 0:
            dk.syncthreads()
            k = k - 1
        x[dk.tid()] = 0.0

    refused(carried, "may miss this barrier: the loop in line", "dk.syncthreads()")


def test_shared_arrays_that_cannot_be_made() -> None:
    def in_branch(x: f1, n: int):
        if n > 0:
            s = dk.shared_array(4, float)
            s[0] = x[0]

    refused(in_branch, "a shared array is made inside a loop or under a condition", "dk.shared_array(4, float)")

    def too_large(x: f1):
        s = dk.shared_array((100, 200), float)
        s[0, 0] = x[0]

    refused(too_large, "shared arrays of 80000 bytes; a block has 49152", "too_large")

    def unknown(x: f1, n: int):
        s = dk.shared_array(n, float)
        s[0] = x[0]

    refused(unknown, "the shape of a shared array is known when the kernel is compiled", "dk.shared_array(n, float)")

    def no_dtype(x: f1):
        s = dk.shared_array(4, 5)
        s[0] = x[0]

    refused(no_dtype, "the number 5 is no dtype", "dk.shared_array(4, 5)")


def test_a_block_that_works_on_tiles() -> None:
    """On the CPU it is one thread, and has gradients."""

    @dk.kernel
    def scaled(x: f1, y: f1):
        i = dk.tid()
        t = dk.tile_load(x, shape=4, offset=i * 4)
        dk.tile_store(y, t * float(1 + dk.block_dim()), offset=i * 4)

    x, y = dk.ones(8, dtype=float, requires_grad=True), dk.zeros(8, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch_tiled(scaled, dim=[2], inputs=[x, y], block_dim=64)
    tape.backward(grads={y: dk.ones_like(y)})
    assert y.numpy().tolist() == [2.0] * 8
    assert x.grad.numpy().tolist() == [2.0] * 8

    def mixed(x: f1, y: f1):
        t = dk.tile_load(x, shape=4)
        dk.syncthreads()
        dk.tile_store(y, t)

    refused(mixed, "work one by one here, and as a whole on the tile in line", "dk.syncthreads()")


def test_the_source_for_one_thread_says_where_it_can_run() -> None:
    kernel = BLOCKS["reversed_in_blocks"].kernel
    source = kernel.source()
    assert "s = shared_array((16,), float32)" in source
    assert "syncthreads()" in source
    fn = Compilation(kernel.func, kernel.argument_types()).forward
    with pytest.raises(RuntimeError, match="run it in numba's CUDA simulator"):
        executor.run(fn, BLOCKS["reversed_in_blocks"].arguments(), 12)


def test_debug_names_the_shared_array_and_the_thread() -> None:
    @dk.kernel(mode="debug")
    def outside(x: f1):
        t = dk.thread_index()
        s = dk.shared_array(4, float)
        s[t + 1] = x[dk.tid()]

    with pytest.raises(
        dk.KernelRuntimeError, match=r"thread 3: index 4 is out of bounds for axis 0 of shared array 's'"
    ):
        dk.launch(outside, dim=4, inputs=[np.zeros(4, np.float32)], block_dim=4)


def test_what_is_kept_across_barriers_has_a_limit() -> None:
    def greedy(x: m1, y: m1):  # type: ignore[valid-type]
        i = dk.tid()
        a, b, c, d, e = x[i], x[i] * 2.0, x[i] * 3.0, x[i] * 4.0, x[i] * 5.0
        f, g, h, k, m = x[i] * 6.0, x[i] * 7.0, x[i] * 8.0, x[i] * 9.0, x[i] * 10.0
        n, o, p, q, r = x[i] * 11.0, x[i] * 12.0, x[i] * 13.0, x[i] * 14.0, x[i] * 15.0
        s, t = x[i] * 16.0, x[i] * 17.0
        dk.syncthreads()
        y[i] = a + b + c + d + e + f + g + h + k + m + n + o + p + q + r + s + t

    z = dk.zeros(256, dtype=dk.mat44)
    with pytest.raises(dk.CompileError, match="needs 1114112 bytes for what the threads of a block keep"):
        dk.launch(dk.kernel(greedy), dim=256, inputs=[z, z])


def test_bytes_of_shared_arrays() -> None:
    kernel = BLOCKS["vectors_under_a_condition"].kernel
    assert shared_bytes(Compilation(kernel.func, kernel.argument_types()).forward) == 8 * 12
