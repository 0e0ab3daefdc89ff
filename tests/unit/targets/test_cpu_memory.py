"""Arrays, atomics and partial sums: compiled against Python and NumPy."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from cpu_harness import Compiled, agree, both, i32, kernel, load, store, tids

from diffkern.ir.nodes import Region
from diffkern.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    SCALARS,
    UINT8,
    UINT32,
    Array,
    Mat,
    Vec,
    value_type,
)
from diffkern.targets.cpu import object_code

F1, I1 = Array(FLOAT32, 1), Array(INT32, 1)


@pytest.mark.parametrize("layout", ["C", "A"])
@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_element_addresses(ndim, layout):
    """Every element is copied with its coordinates reversed in the strided case."""
    shape = (3, 4, 5, 6)[:ndim]

    def body(b, x, y):
        index = tids(b, ndim)
        store(b, y, *index, b.mul(load(b, x, *index), b.const(2.0, FLOAT32)))

    a = Array(FLOAT32, ndim, layout)
    fn = kernel({"x": a, "y": a}, body, tid=ndim)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    y = np.zeros(shape, np.float32)
    if layout == "A":
        x = np.asfortranarray(x)[::-1]
        big = np.zeros([2 * n for n in shape], np.float32)
        y = big[tuple(slice(1, None, 2) for _ in shape)]
    Compiled(fn)([x, y], shape, chunk=7)
    np.testing.assert_array_equal(y, 2 * x)


def test_composite_elements_with_strides():
    v = Vec(FLOAT32, 3)

    def body(b, x, y):
        (i,) = tids(b)
        store(b, y, i, b.neg(load(b, x, i)))

    fn = kernel({"x": Array(v, 1, "A"), "y": Array(v, 1)}, body)
    x = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)[::2]
    y = np.zeros((10, 3), np.float32)
    Compiled(fn)([x, y], 10)
    np.testing.assert_array_equal(y, -x)


def test_negative_indices_wrap():
    def body(b, x, y):
        (i,) = tids(b)
        store(b, y, i, load(b, x, b.sub(i, i32(b, 3)), wrap=True))

    x = np.arange(10, dtype=np.float32)
    out = agree(kernel({"x": F1, "y": F1}, body), [x, np.zeros(10, np.float32)], 10)[-1]
    np.testing.assert_array_equal(out, np.roll(x, 3))


@pytest.mark.parametrize("t", [INT16, INT32, INT64, UINT8, UINT32], ids=str)
def test_index_types(t):
    def body(b, x, k, y):
        (i,) = tids(b)
        store(b, y, i, load(b, x, load(b, k, i)))

    k = np.random.default_rng(0).integers(0, 100, 50).astype(t.name)
    agree(
        kernel({"x": F1, "k": Array(t, 1), "y": F1}, body),
        [np.arange(100, dtype=np.float32), k, np.zeros(50, "f4")],
        50,
    )


def test_index_arithmetic_of_int32_is_exact():
    """The compiled code computes an index in 64 bits; within bounds that is the same."""

    def body(b, x, n, y):
        (i,) = tids(b)
        k = b.sub(b.mul(b.add(i, n), i32(b, 2)), b.mul(n, i32(b, 2)))
        store(b, y, i, load(b, x, b.add(b.neg(b.neg(k)), b.cast(b.cast(i32(b, 1), INT64), INT32))))

    agree(kernel({"x": F1, "n": INT32, "y": F1}, body), [np.arange(41, dtype="f4"), 1000, np.zeros(20, "f4")], 20)


@pytest.mark.parametrize("t", SCALARS.values(), ids=str)
def test_every_dtype_is_loaded_and_stored(t):
    def body(b, x, y, p):
        (i,) = tids(b)
        v = load(b, x, i)
        if t.is_float:
            v = b.mul(v, p)
        store(b, y, i, v)

    fn = kernel({"x": Array(t, 1), "y": Array(t, 1), "p": value_type(t)}, body)
    rng = np.random.default_rng(0)
    if t == BFLOAT16:
        x = np.arange(2**16, dtype=np.uint16)
    elif t == FLOAT16:
        x = np.arange(2**16, dtype=np.uint16).view(np.float16)
    else:
        x = (rng.standard_normal(1000) * 100).astype(t.name)
    for p in (1.0, 0.3, 1e-3) if t.is_float else (1,):
        compiled, python = both(fn, [x, np.zeros_like(x), p], len(x))
        a, b = compiled[1], python[1]
        if t == BFLOAT16:
            nan = (x & 0x7FFF) > 0x7F80
            assert ((a[nan] & 0x7FFF) > 0x7F80).all()
            a, b = a[~nan], b[~nan]
        np.testing.assert_array_equal(a, b)


def test_half_rounds_to_even_and_overflows_to_infinity():
    def body(b, x, y):
        (i,) = tids(b)
        store(b, y, i, load(b, x, i))

    fn = kernel({"x": F1, "y": Array(FLOAT16, 1)}, body)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    near = np.arange(2**15, dtype=np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        x = np.concatenate([x, near, np.nextafter(near, np.float32(9e9)), (near[1:] + near[:-1]) / 2])
        y = np.zeros(len(x), np.float16)
        Compiled(fn)([x, y], len(x))
        np.testing.assert_array_equal(y, x.astype(np.float16))


def test_parameters_by_value():
    m = Mat(FLOAT64, 2, 2)

    def body(b, flag, k, f, v, half, mat, out):
        (i,) = tids(b)
        total = b.add(b.cast(b.cast(flag, INT32), FLOAT64), b.cast(k, FLOAT64))
        total = b.add(total, b.add(b.cast(f, FLOAT64), b.cast(b.extract(v, 2), FLOAT64)))
        store(b, out, i, b.add(b.add(total, b.cast(half, FLOAT64)), b.one("trace", mat)))

    types = {"flag": BOOL, "k": INT16, "f": FLOAT32, "v": Vec(INT32, 3), "half": FLOAT32, "mat": m}
    fn = kernel({**types, "out": Array(FLOAT64, 1)}, body)
    args = [True, -3, 1.5, [1, 2, 30], 0.25, [[100, 5], [6, 200]], np.zeros(2)]
    assert agree(fn, args, 2)[-1].tolist() == [1 - 3 + 1.5 + 30 + 0.25 + 300] * 2


def narrowest_atomic(monkeypatch, bits):
    """Let code be emitted as for a target that compares and swaps integers of so many bits or more."""
    here = object_code.machine()
    other = replace(here, isa=replace(here.isa, atomic_bits=bits))
    monkeypatch.setattr(object_code, "machine", lambda name="native": other)


ATOMIC_TYPES = [FLOAT32, FLOAT64, INT32, INT64, UINT32, FLOAT16, Vec(FLOAT32, 3)]


@pytest.mark.parametrize("t", ATOMIC_TYPES, ids=str)
@pytest.mark.parametrize("kind", ["add", "sub", "min", "max", "exch"])
def test_atomics_return_the_old_value(kind, t):
    check_atomics(kind, t)


@pytest.mark.parametrize("t", [INT8, UINT8, INT16, FLOAT16], ids=str)
@pytest.mark.parametrize("kind", ["add", "sub", "min", "max", "exch"])
def test_atomics_on_the_word_around_an_element(monkeypatch, kind, t):
    """As code for GPUs updates narrow elements."""
    narrowest_atomic(monkeypatch, 32)
    check_atomics(kind, t)


def check_atomics(kind, t):
    def body(b, x, k, y, old):
        (i,) = tids(b)
        was = b.one("atomic", y, load(b, k, i), load(b, x, i), kind=kind, wrap=(False,))
        store(b, old, i, was)

    a = Array(t, 1)
    fn = kernel({"x": a, "k": I1, "y": a, "old": a}, body)
    rng = np.random.default_rng(0)
    shape = (60, 3) if isinstance(t, Vec) else (60,)
    dtype = t.dtype.name if isinstance(t, Vec) else t.name
    x = rng.integers(0, 50, shape).astype(dtype)
    args = [x, rng.integers(0, 5, 60).astype(np.int32), np.full((5, *shape[1:]), 7, dtype), np.zeros(shape, dtype)]
    agree(fn, args, 60)


@pytest.mark.parametrize("by_word", [False, True])
def test_atomics_of_concurrent_threads_lose_nothing(monkeypatch, by_word):
    narrowest_atomic(monkeypatch, 32 if by_word else 8)

    def body(b, y, z):
        (i,) = tids(b)
        k = b.one("mod", i, i32(b, 3))
        b.op("atomic", y, k, b.const(1.0, FLOAT32), kind="add", wrap=(False,))
        b.op("accumulate", z, k, b.const(1.0, FLOAT32), mode="atomic", wrap=(False,))

    entry = Compiled(kernel({"y": F1, "z": Array(FLOAT16, 1)}, body))
    y, z = np.zeros(3, np.float32), np.zeros(3, np.float16)
    threads = [threading.Thread(target=entry, args=([y, z], 600)) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert y.tolist() == [600.0] * 3
    assert z.tolist() == [600.0] * 3


@pytest.mark.parametrize("t", [FLOAT16, BFLOAT16], ids=str)
@pytest.mark.parametrize("start", [1, 2])
@pytest.mark.parametrize("length", [4, 5])
def test_atomic_additions_to_halves_leave_their_neighbours(t, start, length):
    """A neighbour in the same 32 bits may be no number at all: here one that arithmetic would change."""

    def body(b, k, x, y):
        (i,) = tids(b)
        b.op("accumulate", y, load(b, k, i), load(b, x, i), mode="atomic", wrap=(False,))

    fn = kernel({"k": I1, "x": F1, "y": Array(t, 1)}, body)
    rng = np.random.default_rng(start)
    k, x = rng.integers(0, length, 60).astype(np.int32), rng.integers(-2, 3, 60).astype(np.float32)
    memory = np.full(16, 0x7C01 if t == FLOAT16 else 0x7F81, np.uint16)
    whole = memory.view(np.float16) if t == FLOAT16 else memory
    y = whole[start : start + length]
    y[:] = 0
    Compiled(fn)([k, x, y], 60)
    bits = y if t == FLOAT16 else (y.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(bits.astype(np.float32), np.bincount(k, x, length).astype(np.float32))
    assert (np.delete(memory, np.s_[start : start + length]) == (0x7C01 if t == FLOAT16 else 0x7F81)).all()


@pytest.mark.parametrize("mode", ["plain", "atomic", "reduce"])
def test_accumulate_modes(mode):
    v = Vec(FLOAT32, 2)

    def body(b, x, y, z):
        (i,) = tids(b)
        n = b.one("shape", y, axis=0)
        b.op("accumulate", y, b.sub(n, i32(b, 1)), load(b, x, i), mode=mode, wrap=(False,))
        b.op("accumulate", z, i32(b, -2), b.cast(i, FLOAT64), mode=mode, wrap=(True,))

    fn = kernel({"x": Array(v, 1), "y": Array(v, 1), "z": Array(FLOAT64, 1)}, body)
    x = np.random.default_rng(0).integers(-5, 5, (100, 2)).astype(np.float32)
    for chunk in (100, 7, 1):
        args = agree(fn, [x, np.ones((3, 2), np.float32), np.ones(4)], 100, chunk=chunk)
        np.testing.assert_array_equal(args[1][2], x.sum(0) + 1)
        assert args[2].tolist() == [1, 1, 4951, 1]
    assert Compiled(fn).object.sites == (3 if mode == "reduce" else 0)


def test_atomics_to_a_uniform_address_are_summed_per_chunk():
    def body(b, x, total, count):
        (i,) = tids(b)
        then = Region()
        with b.into(then):
            b.op("atomic", total, i32(b, 0), load(b, x, i), kind="add", wrap=(False,))
            b.op("atomic", count, i32(b, 1), i32(b, 1), kind="sub", wrap=(False,))
        b.if_(b.one("gt", load(b, x, i), b.const(0.0, FLOAT32)), then, Region())

    fn = kernel({"x": F1, "total": F1, "count": I1}, body)
    compiled = Compiled(fn)
    assert compiled.object.sites == 2
    assert "lock" not in compiled.object.assembly().partition("_finish")[0]
    x = np.random.default_rng(0).integers(-9, 9, 1000).astype(np.float32)
    args = agree(fn, [x, np.zeros(1, np.float32), np.zeros(2, np.int32)], 1000, chunk=64)
    assert args[1][0] == x[x > 0].sum()
    assert args[2].tolist() == [0, -(x > 0).sum()]


def test_a_thread_that_reads_the_sum_gets_an_atomic():
    def body(b, x, total):
        (i,) = tids(b)
        b.op("atomic", total, i32(b, 0), load(b, x, i), kind="add", wrap=(False,))
        store(b, x, i, load(b, total, i32(b, 0)))

    fn = kernel({"x": F1, "total": F1}, body)
    assert Compiled(fn).object.sites == 0
    agree(fn, [np.arange(10, dtype=np.float32), np.zeros(1, np.float32)], 10)


def test_a_sum_no_thread_reaches_leaves_the_array_alone():
    """The site's element does not exist, and no thread goes there."""

    def body(b, n, total):
        then = Region()
        with b.into(then):
            b.op("atomic", total, n, b.const(1.0, FLOAT32), kind="add", wrap=(False,))
        b.if_(b.one("lt", n, b.one("shape", total, axis=0)), then, Region())

    fn = kernel({"n": INT32, "total": F1}, body)
    assert Compiled(fn).object.sites == 1
    agree(fn, [2**30, np.zeros(1, np.float32)], 100, chunk=10)


def test_partial_sums_do_not_depend_on_the_order_of_chunks():
    def body(b, x, total):
        (i,) = tids(b)
        b.op("accumulate", total, i32(b, 0), load(b, x, i), mode="reduce", wrap=(False,))

    entry = Compiled(kernel({"x": F1, "total": F1}, body))
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    results = set()
    for _ in range(3):
        total = np.zeros(1, np.float32)
        entry([x, total], 1000, chunk=64)
        results.add(total[0])
    assert len(results) == 1
    np.testing.assert_allclose(results.pop(), x.sum(), rtol=1e-5)
