"""Tiles of what the threads of a block hold: forward and adjoint, run on the host, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import require
from on_host import HostCuda, cpu_harness
from thread_tiles import ordered, softmax

import diffkern as dk
import diffkern.warp as wp
from diffkern.analysis.cuda_plan import finalize_updates
from diffkern.analysis.tile_threads import needs_rows
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.errors import KernelError
from diffkern.ir.nodes import Function
from diffkern.lower.tiles.block import lower_tiles_for_blocks
from diffkern.runtime.launch.schedule import check_whole_blocks

f1 = dk.array(dtype=float)
f2 = dk.array(dtype=float, ndim=2)
v1 = dk.array(dtype=dk.vec3)


def forward(kernel: dk.Kernel, threads: int) -> Function:
    return Compilation(kernel.func, kernel.argument_types(), Variant(target="sm_90", block_dim=threads)).forward


def run(fn: Function, arguments: list[Any], n: int, threads: int, grid: int = 2) -> None:
    lowered = lower_tiles_for_blocks(fn)
    assert lowered.threads == threads
    HostCuda(lowered, grid=grid, threads=threads).launch(cpu_harness.pack(lowered, arguments, (n,), 0, 0))


def gradient(kernel: dk.Kernel, active: set[int], arguments: list[Any], cts: list[Any], n: int, threads: int) -> None:
    types = kernel.argument_types()
    d = Compilation(kernel.func, types, Variant(target="sm_90", active=frozenset(active), block_dim=threads)).adjoint
    finalize_updates(d.fn, d.buffers, d.conflicts)
    saved = [arguments[k] for k in d.saved]
    run(d.fn, [*arguments, *saved, *cts], n, threads)


@pytest.mark.parametrize("threads", [8, 40])
def test_a_softmax_of_what_threads_hold(threads: int) -> None:
    n = 3 * threads
    rng = np.random.default_rng(threads)
    x, s, y = rng.normal(size=n).astype(np.float32), np.array([0.7, 1.3], np.float32), np.zeros(n, np.float32)
    weights = np.where(np.arange(n) % 2, 0.0, rng.normal(size=n))

    def exact(x: Any, s: Any) -> Any:
        e = np.exp(x * s[0] * s[1]).reshape(-1, threads)
        return (e / e.sum(1, keepdims=True)).reshape(-1)

    run(forward(softmax, threads), [x, s, y], n, threads)
    np.testing.assert_allclose(y, np.where(np.arange(n) % 2, 0.0, exact(x, s)), rtol=1e-5)
    cts = [np.zeros(n, np.float32), np.zeros(2, np.float32), weights.astype(np.float32)]
    gradient(softmax, {0, 1, 2}, [x, s, y], cts, n, threads)
    for found, k in ((cts[0], 0), (cts[1], 1)):
        np.testing.assert_allclose(found, differences(lambda *a: exact(*a) @ weights, [x, s], k), rtol=1e-3, atol=1e-4)
    assert not cts[2][::2].any()


def differences(function: Any, arguments: list[Any], k: int) -> Any:
    """Central differences of a function in float64."""
    at = [np.asarray(a, np.float64) for a in arguments]
    out = np.zeros_like(at[k])
    for place in np.ndindex(out.shape):
        values = []
        for step in (1e-5, -1e-5):
            moved = [a.copy() for a in at]
            moved[k][place] += step
            values.append(function(*moved))
        out[place] = (values[0] - values[1]) / 2e-5
    return out


@dk.kernel
def layer(x: v1, w: f2, y: f1, z: f1):
    """A layer of a network whose inputs the threads hold, and a tile of one element that is set by its number."""
    i = dk.tid()
    t = dk.tile(x[i])
    h = dk.tile_map(dk.tanh, dk.tile_load(w, shape=(3, 3)) @ t)
    v = dk.untile(h)
    few = dk.tile_zeros(shape=2, dtype=float)
    few[1] = dk.tile_sum(h)[0] * w[1, 1]
    y[i] = v[0] * v[1] - v[2] + few[1] * x[i][0]
    dk.tile_store(z, few)


def test_a_layer_of_what_threads_hold() -> None:
    threads, n = 6, 6  # one block: z is written once
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(n, 3)).astype(np.float32), rng.normal(size=(3, 3)).astype(np.float32)
    y, z = np.zeros(n, np.float32), np.zeros(2, np.float32)
    weights, weight_z = rng.normal(size=n), 0.8

    def exact(x: Any, w: Any) -> Any:
        h = np.tanh(w @ x.T)
        few = h.sum() * w[1, 1]
        return h[0] * h[1] - h[2] + few * x[:, 0], few

    def loss(x: Any, w: Any) -> Any:
        y, few = exact(x, w)
        return y @ weights + few * weight_z

    run(forward(layer, threads), [x, w, y, z], n, threads)
    np.testing.assert_allclose(y, exact(x, w)[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(z, [0.0, exact(x, w)[1]], rtol=1e-4)
    cts = [np.zeros_like(x), np.zeros_like(w), weights.astype(np.float32), np.array([0.0, weight_z], np.float32)]
    gradient(layer, {0, 1, 2, 3}, [x, w, y, z], cts, n, threads)
    for k in (0, 1):
        np.testing.assert_allclose(cts[k], differences(loss, [x, w], k), rtol=1e-3, atol=1e-4)


@wp.kernel(module="unique")
def least(x: wp.array[wp.vec3], y: wp.array[wp.vec3]):
    i = wp.tid()
    t = wp.tile(x[i], preserve_type=True)
    y[i] = wp.tile_reduce(wp.min, t)[0] * float(i + 1)


@pytest.mark.parametrize("threads", [6, 40])
def test_the_least_of_vectors_that_threads_hold(threads: int) -> None:
    n = 2 * threads
    x = np.random.default_rng(threads).permutation(3 * n).reshape(n, 3).astype(np.float32)
    y, scale = np.zeros_like(x), np.arange(1.0, n + 1.0, dtype=np.float32)[:, None]
    blocks = x.reshape(2, threads, 3)
    smallest = np.repeat(blocks.min(axis=1), threads, axis=0)
    run(forward(least, threads), [x, y], n, threads)
    np.testing.assert_array_equal(y, smallest * scale)
    cts = [np.zeros_like(x), np.ones_like(y)]
    gradient(least, {0, 1}, [x, y], cts, n, threads)
    totals = np.repeat(scale.reshape(2, threads).sum(axis=1), threads)[:, None]
    np.testing.assert_array_equal(cts[0], np.where(x == smallest, totals, 0.0))


def test_threads_write_for_themselves() -> None:
    threads, n = 16, 48
    x = np.random.default_rng(2).permutation(n).astype(np.float32)
    y, count = np.zeros(n, np.float32), np.zeros(1, np.int32)
    run(forward(ordered, threads), [x, y, count], n, threads)
    base = np.repeat(np.arange(0, n, threads), threads)
    np.testing.assert_array_equal(y, np.argsort(x.reshape(-1, threads), axis=1).reshape(-1) + base + 100.0 * threads)
    assert count[0] == n


def test_threads_that_differ_in_what_they_do_to_tiles_are_refused() -> None:
    @dk.kernel
    def some(x: f1):
        i = dk.tid()
        t = dk.tile(x[i])
        if i > 3:
            x[i] = dk.tile_sum(t)[0]

    @dk.kernel
    def elsewhere(x: f1):
        i = dk.tid()
        x[i] = dk.untile(dk.tile(x[i]) + dk.tile_load(x, shape=8, offset=i))

    with pytest.raises(KernelError, match=r"the condition in line .* depends on the thread"):
        lower_tiles_for_blocks(forward(some, 8))
    with pytest.raises(KernelError, match="numbers that differ between them"):
        lower_tiles_for_blocks(forward(elsewhere, 8))


@dk.kernel
def of_rows(x: f2, n: dk.array(dtype=int), y: f2):
    i, j = dk.tid()
    total = dk.tile(0.0)
    for k in range(n[i]):
        total += dk.tile_load(x, shape=(1, 1), offset=(i, k))[0, 0] * dk.tile(float(j + 1))
    y[i, j] = dk.untile(total)


@dk.kernel
def of_columns(x: f2, n: dk.array(dtype=int), y: f2):
    i, j = dk.tid()
    y[i, j] = dk.untile(dk.tile(x[i, j])) + dk.tile_load(x, shape=(1, 1), offset=(i, n[j]))[0, 0]


def test_indices_along_the_first_axes_are_those_of_a_block_in_a_row() -> None:
    threads = 4
    fn = forward(of_rows, threads)
    assert needs_rows(fn)
    assert not needs_rows(forward(softmax, threads))
    x, n = np.arange(9, dtype=np.float32).reshape(3, 3), np.int32([2, 0, 3])
    y = np.zeros((3, 4), np.float32)
    lowered = lower_tiles_for_blocks(fn)
    HostCuda(lowered, grid=2, threads=threads).launch(cpu_harness.pack(lowered, [x, n, y], (3, 4), 0, 0))
    sums = [x[i, : n[i]].sum() for i in range(3)]
    np.testing.assert_array_equal(y, np.outer(sums, np.arange(1, 5)))
    with pytest.raises(KernelError, match=r"(?s)numbers that differ between them.*the last of dk.tid"):
        lower_tiles_for_blocks(forward(of_columns, threads))


def test_a_launch_whose_blocks_lie_in_several_rows_is_refused() -> None:
    check_whole_blocks((6, 4), 2, 4, rows=True)
    check_whole_blocks((6, 4), 2, 8)
    with pytest.raises(ValueError, match=r"blocks of several rows: launch it with launch_tiled, or pass a block_dim"):
        check_whole_blocks((6, 4), 2, 8, rows=True)


def test_a_program_says_that_it_needs_rows() -> None:
    require("cuda.bindings", "nvidia")
    assert dk.compile(of_rows, target="sm_90", block_dim=32).manifest.rows
    assert not dk.compile(softmax, target="sm_90", block_dim=64).manifest.rows


def test_source_shows_the_threads_of_a_block() -> None:
    source = softmax.source(target="cuda")
    assert "i = index(cuda.grid(1))\n    while i < dim[0]:\n" in source
    assert "cuda.shared.array(256, float32)" in source
    assert "cuda.shared.array(256, float32)" in softmax.adjoint_source(target="cuda")


def test_programs_are_for_their_number_of_threads() -> None:
    require("cuda.bindings", "nvidia")
    made = dk.compile(softmax, target="sm_90", block_dim=64)
    adjoint = dk.compile(softmax, target="sm_90", block_dim=64, adjoint=True)
    for program in (made, adjoint):
        assert (program.manifest.block_dim, program.manifest.block_dim_fixed) == (64, True)
        assert program.manifest.blockwise
        assert not program.manifest.tiled
        assert program.manifest.resources.spill_bytes == 0
    assert made.shared_bytes <= 2 * 64 * 4 + 32 * 4  # the numbers, their exponentials, and the sums of warps


def test_an_adjoint_without_them_still_counts_blocks() -> None:
    """What the threads hold has no gradient here; the tile has one for each block, not for each thread."""

    @dk.kernel
    def both(x: f1, w: f1, y: f1):
        i = dk.tid()
        x[i] = float(int(dk.untile(dk.tile(x[i]))))
        t = dk.tile_load(w, shape=2)
        dk.tile_atomic_add(y, t * t)

    threads, n = 4, 12
    arguments = [np.ones(n, np.float32), np.array([2.0, 3.0], np.float32), np.zeros(2, np.float32)]
    run(forward(both, threads), arguments, n, threads)
    np.testing.assert_array_equal(arguments[2], [12.0, 27.0])
    cts = [np.zeros(2, np.float32), np.ones(2, np.float32)]
    gradient(both, {1, 2}, arguments, cts, n, threads)
    np.testing.assert_array_equal(cts[0], [12.0, 18.0])
