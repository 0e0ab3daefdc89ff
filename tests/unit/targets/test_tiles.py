"""Tiles as machine code: halves, memory beyond the stack, debug mode, edges of registers in matrix products."""

from __future__ import annotations

import re

import numpy as np
import pytest
from compiling import compile_function

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.compiler.pipeline import optimise, prepare
from diffkern.contracts.options import Variant
from diffkern.ir.nodes import walk
from diffkern.lower.tiles.serial import lower_tiles
from diffkern.targets.cpu.kernel import longest_loop

f1 = dk.array(dtype=float)
f2 = dk.array(dtype=float, ndim=2)
f3 = dk.array(dtype=float, ndim=3)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 1), (5, 7, 3), (12, 32, 9), (13, 33, 17), (25, 65, 2), (64, 64, 64), (3, 100, 1)]
)
@pytest.mark.parametrize("dtype", [dk.float32, dk.float64])
def test_products_of_all_sizes(m: int, n: int, k: int, dtype: type) -> None:
    @dk.kernel
    def product(a, at, b, c, d):
        x = dk.tile_load(a, shape=(m, k))
        y = dk.tile_load(b, shape=(k, n))
        dk.tile_store(c, dk.tile_matmul(x, y))
        z = dk.tile_load(d, shape=(m, n))
        dk.tile_matmul(dk.tile_transpose(dk.tile_load(at, shape=(k, m))), y, z)
        dk.tile_store(d, z)

    rng = np.random.default_rng(m * n * k)
    numpy_type = np.float32 if dtype is dk.float32 else np.float64
    a, b = rng.normal(size=(m, k)).astype(numpy_type), rng.normal(size=(k, n)).astype(numpy_type)
    c, d = np.zeros((m, n), numpy_type), rng.normal(size=(m, n)).astype(numpy_type)
    expected = a.astype(np.float64) @ b
    sums = d + expected
    product[1](a, np.ascontiguousarray(a.T), b, c, d)
    tolerance = 1e-5 if dtype is dk.float32 else 1e-13
    np.testing.assert_allclose(c, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(d, sums, rtol=tolerance, atol=tolerance)


def test_halves_are_summed_in_float32_and_rounded_once() -> None:
    @dk.kernel
    def half(a: dk.array2d(dtype=dk.float16), b: dk.array2d(dtype=dk.float16), c: dk.array2d(dtype=dk.float16),
             d: f2):  # fmt: skip
        x = dk.tile_load(a, shape=(16, 40))
        y = dk.tile_load(b, shape=(40, 16))
        dk.tile_store(c, dk.tile_matmul(x, y) * 0.5)
        total = dk.tile_zeros(shape=(16, 16), dtype=float)
        dk.tile_matmul(x, y, total)
        dk.tile_store(d, total)

    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=s).astype(np.float16) for s in ((16, 40), (40, 16)))
    c, d = np.zeros((16, 16), np.float16), np.zeros((16, 16), np.float32)
    half[1](a, b, c, d)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(d, exact, rtol=1e-5, atol=1e-5)
    rounded = (d.astype(np.float16).astype(np.float32) * np.float32(0.5)).astype(np.float16)
    np.testing.assert_array_equal(c, rounded)


def test_conversion_rounds_where_a_tile_is_made() -> None:
    @dk.kernel
    def convert(x: f1, y: f1, z: f1):
        t = dk.tile_astype(dk.tile_load(x, shape=4), dtype=dk.bfloat16)
        dk.tile_store(y, dk.tile_astype(t, dtype=float))
        dk.tile_store(z, dk.tile_astype(dk.tile_full(shape=4, value=0.1, dtype=dk.float16), dtype=float))

    x, y, z = np.array([1.001, -3.14159, 1e-3, 70000.0], np.float32), np.zeros(4, np.float32), np.zeros(4, np.float32)
    convert[1](x, y, z)
    assert (y != x).all()
    np.testing.assert_allclose(y, x, rtol=2.0**-8)
    np.testing.assert_array_equal(z, np.full(4, np.float16(0.1), np.float32))


def test_tiles_beyond_the_stack() -> None:
    @dk.kernel
    def large(x: f2, y: f2):
        i = dk.tid()
        t = dk.tile_load(x, shape=(1024, 1024), offset=(i * 1024, 0))
        u = dk.tile_transpose(t) + 1.0
        dk.tile_store(y, u @ t, offset=(i * 1024, 0))

    rng = np.random.default_rng(0)
    x = rng.normal(size=(2048, 1000)).astype(np.float32)
    y = np.zeros((2048, 1024), np.float32)
    large[2](x, y)
    padded = np.zeros((1024, 1024), np.float32)
    padded[:, :1000] = x[1024:]
    expected = (padded.T.astype(np.float64) + 1.0) @ padded
    np.testing.assert_allclose(y[1024:], expected, rtol=1e-3, atol=1e-2)
    code = compile_function(Compilation(large.func, large.argument_types()).forward, "large")
    assert "@malloc" in code.llvm_ir()
    assert "@free" in code.llvm_ir()


def test_memory_is_what_is_alive_not_the_sum() -> None:
    @dk.kernel
    def chain(x: f2, y: f2):
        t = dk.tile_load(x, shape=(32, 32))
        for k in range(3):
            u = t @ t
            v = u @ t
            w = v @ u
            t = w @ w
        dk.tile_store(y, t)

    fn = lower_tiles(Compilation(chain.func, chain.argument_types()).forward)
    buffers = [op.result.type for op in walk(fn.body) if op.name == "buffer_new"]
    # A product's factors and its result: three tiles, where five are named.
    assert sum(b.itemsize for b in buffers) <= 4 * 32 * 32 * 4


def test_a_map_that_is_read_once_has_no_memory() -> None:
    @dk.kernel
    def sums(x: f1, y: f1):
        t = dk.tile_load(x, shape=64)
        dk.tile_store(y, dk.tile_sum((t * 2.0 + 1.0) * t))

    fn = lower_tiles(Compilation(sums.func, sums.argument_types()).forward)
    buffers = [op.result.type for op in walk(fn.body) if op.name == "buffer_new"]
    assert sorted(b.size for b in buffers) == [1, 64]


def test_rows_of_tiles_are_moved_in_vectors() -> None:
    """Also on the way for tiles that reach beyond the array: that one is short, not fast."""

    @dk.kernel
    def scaled(a: f2, b: f2, c: f2):
        i = dk.tid()
        x = dk.tile_load(a, shape=(32, 32), offset=(i * 32, 0))
        y = dk.tile_load(b, shape=(32, 32), offset=(i * 32, 0))
        dk.tile_store(c, dk.tile_matmul(x, y) * x, offset=(i * 32, 0))

    fn = Compilation(scaled.func, scaled.argument_types(*[np.zeros((64, 32), np.float32)] * 3)).forward
    code = compile_function(fn, "scaled", target="x86-64-v3").llvm_ir()
    body = code[code.index("define void @scaled(") :].partition("\n}")[0]
    assert "memcheck" not in body  # no tile overlaps another, or an array
    assert len(re.findall(r"(load|store) float\b", body)) <= 8
    assert len(body.splitlines()) < 600


@pytest.mark.parametrize("n", [3, 40])
def test_blocks_that_overlap_and_share_a_factor(n: int) -> None:
    """Few blocks that all meet in x are one chunk, which needs no copy of what they all add to."""

    @dk.kernel
    def rows(x: f2, w: f2, y: f2):
        i = dk.tid()
        t = dk.tile_load(x, shape=(24, 32), offset=(i, 0)) @ dk.tile_load(w, shape=(32, 32))
        dk.tile_store(y, dk.tile_reshape(dk.tile_sum(t, axis=0), shape=(1, 32)), offset=(i, 0))

    rng = np.random.default_rng(n)
    x = dk.array(rng.normal(size=(n + 23, 32)).astype(np.float32), requires_grad=True)
    w = dk.array(rng.normal(size=(32, 32)).astype(np.float32), requires_grad=True)
    y = dk.zeros((n, 32), requires_grad=True)
    with dk.Tape() as tape:
        dk.launch_tiled(rows, dim=[n], inputs=[x, w], outputs=[y], block_dim=32)
    ct = rng.normal(size=(n, 32)).astype(np.float32)
    tape.backward(grads={y: dk.array(ct)})
    windows = np.lib.stride_tricks.sliding_window_view(x.numpy().astype(np.float64), 24, axis=0)
    np.testing.assert_allclose(w.grad.numpy(), windows.sum(-1).T @ ct, rtol=1e-4, atol=1e-3)
    expected = np.zeros((n + 23, 32))
    for i in range(n):
        expected[i : i + 24] += ct[i].astype(np.float64) @ w.numpy().T
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_a_long_kernel_of_short_loops_is_vectorised() -> None:
    """What the vectoriser's time grows with is its longest loop, not the kernel."""

    @dk.func
    def wave(x: float):
        return dk.sin(x) * x

    @dk.func
    def often(t):
        t = dk.tile_map(wave, t @ t)
        t = dk.tile_map(wave, t @ t)
        t = dk.tile_map(wave, t @ t)
        return dk.tile_map(wave, t @ t)

    @dk.kernel
    def long(x: f2, y: f2):
        t = dk.tile_load(x, shape=(16, 16))
        dk.tile_store(y, often(often(t)))

    @dk.kernel
    def short_tiles(x: f1, y: f1):
        t = dk.tile_load(x, shape=2)
        dk.tile_store(y, dk.tile_map(wave, t + t[0]))

    def of(k: dk.Kernel) -> tuple[float, int]:
        fn = lower_tiles(optimise(prepare(Compilation(k.func, k.argument_types()).forward)))
        return longest_loop(fn), sum(1 for _ in walk(fn.body))

    share, size = of(long)
    assert size > 100
    assert share * size < 20
    share, size = of(short_tiles)  # its loops are unrolled, so the one over the threads is vectorised
    assert share == 1.0


def test_debug_mode_finds_nothing_in_checked_tiles() -> None:
    @dk.kernel(mode="debug")
    def edges(x: f1, y: f1, k: int):
        i = dk.tid()
        t = dk.tile_load(x, shape=8, offset=i * 8 - 3)
        t[k] = t[k + 1] + 1.0
        dk.tile_store(y, t, offset=i * 8 - 3)

    x, y = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    edges[2](x, y, 100)
    np.testing.assert_array_equal(y, x)


def test_results_do_not_depend_on_the_number_of_chunks() -> None:
    @dk.kernel
    def loss(x: f2, w: f2, total: f1):
        i = dk.tid()
        t = dk.tile_load(x, shape=(8, 16), offset=(i * 8, 0))
        e = dk.tile_map(dk.tanh, t @ dk.tile_load(w, shape=(16, 16)))
        dk.tile_atomic_add(total, dk.tile_sum(e * e))

    rng = np.random.default_rng(5)
    x, w = rng.normal(size=(800, 16)).astype(np.float32), rng.normal(size=(16, 16)).astype(np.float32)
    found = []
    for _ in range(2):
        arrays = [dk.array(x, requires_grad=True), dk.array(w, requires_grad=True)]
        total = dk.zeros(1, dtype=float, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch_tiled(loss, dim=[100], inputs=arrays, outputs=[total], block_dim=64)
        tape.backward(total)
        found.append([total.numpy().copy(), *(a.grad.numpy().copy() for a in arrays)])
    for first, second in zip(*found, strict=True):
        np.testing.assert_array_equal(first, second)
    t = np.tanh(x.astype(np.float64) @ w)
    ct = 2.0 * t * (1.0 - t * t)
    np.testing.assert_allclose(found[0][1], ct @ w.T, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found[0][2], x.T @ ct, rtol=1e-3, atol=1e-3)


def test_the_report_names_what_a_tile_kernel_stores() -> None:
    @dk.kernel
    def power(x: f1, y: f1, n: int):
        t = dk.tile_load(x, shape=4)
        p = t
        for k in range(n):
            p = p * t
        dk.tile_store(y, p)

    d = Compilation(power.func, power.argument_types(), Variant(active=frozenset({0, 1}))).adjoint
    stacks = [op.attrs["type"] for op in walk(d.fn.body) if op.name == "stack_new"]
    # One has the states from which segments begin, with their numbers; the other keeps every state of a segment.
    assert [[str(f) for f in s.fields] for s in stacks] == [["int32", "tile<float32, 4>"], ["tile<float32, 4>"]]
    assert "is stored up to" in power.adjoint_report()


@pytest.mark.parametrize("size", [32, 33, 257, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_a_sort_keeps_the_order_of_equal_keys_and_puts_nan_last(size: int, dtype: type) -> None:
    @dk.kernel
    def ordered(x, v: dk.array(dtype=int), y, z: dk.array(dtype=int)):
        keys = dk.tile_load(x, shape=size)
        numbers = dk.tile_load(v, shape=size)
        dk.tile_sort(keys, numbers)
        dk.tile_store(y, keys)
        dk.tile_store(z, numbers)

    rng = np.random.default_rng(size)
    x = rng.integers(0, size // 3, size).astype(dtype)
    if dtype is np.float32:
        x[rng.integers(0, size, 5)] = np.nan
    v, y, z = np.arange(size, dtype=np.int32), np.zeros_like(x), np.zeros(size, np.int32)
    ordered[1](x, v, y, z)
    order = np.argsort(x, kind="stable")
    np.testing.assert_array_equal(y, x[order])
    np.testing.assert_array_equal(z, order)
