"""Control flow, the thread loop, loop stacks: compiled against Python."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_harness import Compiled, agree, i32, kernel, load, store, tids

from diffkern.ir.nodes import Region, Value
from diffkern.ir.types import BOOL, FLOAT32, FLOAT64, INT8, INT32, INT64, UINT8, Array, Mat, Stack, Vec

F1, I1 = Array(FLOAT32, 1), Array(INT32, 1)


def region(b, params, body):
    """A region with named parameters whose yields ``body`` returns."""
    r = Region(params=tuple(Value(t, n) for n, t in params.items()))
    with b.into(r):
        r.yields = tuple(body(*r.params))
    return r


def for_loop(b, lo, hi, step, init, body, names=(), index="k"):
    params = {index: lo.type} | {n: v.type for n, v in zip(names or map(str, range(len(init))), init, strict=True)}
    return b.for_(lo, hi, step, init, region(b, params, body), names)


@pytest.mark.parametrize("t", [INT32, INT64, INT8, UINT8], ids=str)
def test_for_visits_what_range_visits(t):
    """The sum of k * (position + 1) over range(lo, hi, step), steps of 0 and the ends of the type among them."""
    dtype = np.dtype(t.name)

    def body(b, lo, hi, step, out):
        (i,) = tids(b)
        args = [load(b, a, i) for a in (lo, hi, step)]

        def trip(k, s, n):
            weight = b.cast(b.add(n, b.const(1, INT64)), INT64)
            return [b.add(s, b.mul(b.cast(k, INT64), weight)), b.add(n, b.const(1, INT64))]

        zero = b.const(0, INT64)
        s, n = for_loop(b, *args, [zero, zero], trip, ["s", "n"])
        store(b, out, i, b.add(s, n))

    ints = Array(t, 1)
    fn = kernel({"lo": ints, "hi": ints, "step": ints, "out": Array(INT64, 1)}, body)
    info = np.iinfo(dtype)
    cases = [(a, z, s) for a in (0, 3, 10) for z in (0, 1, 10, 11) for s in (0, 1, 2, 3)]
    cases += [(info.max - 5, info.max, s) for s in (1, 2, 4, info.max)] + [(0, info.max, info.max)]
    if info.min:
        cases += [(a, z, s) for a in (0, 3, 10) for z in (-1, 0, 10, -12) for s in (-1, -2, -3)]
        cases += [(info.min + 5, info.min, -2), (info.min, info.max, info.max), (info.max, info.min, info.min)]
        cases += [(info.min, info.min + 3, 1)]
    lo, hi, step = (np.array(c, dtype) for c in zip(*cases, strict=True))
    out = agree(fn, [lo, hi, step, np.zeros(len(cases), np.int64)], len(cases))[-1]
    want = []
    for a, z, s in cases:
        visited = list(range(a, z, s)) if s else []
        want.append(sum(k * (n + 1) for n, k in enumerate(visited)) + len(visited))
    assert [k % 2**64 for k in out.tolist()] == [k % 2**64 for k in want]


def test_nested_loops_branches_and_while():
    """Collatz steps of n, added up over a nested loop, with branches that update several values."""

    def body(b, x, out):
        (i,) = tids(b)
        zero = i32(b, 0)

        def outer(k, total, biggest):
            def cond(n, steps):
                return [b.one("gt", n, i32(b, 1))]

            def advance(n, steps):
                odd = b.one("eq", b.one("mod", n, i32(b, 2)), i32(b, 1))
                then = region(b, {}, lambda: [b.add(b.mul(n, i32(b, 3)), i32(b, 1))])
                orelse = region(b, {}, lambda: [b.one("floordiv", n, i32(b, 2))])
                (m,) = b.if_(odd, then, orelse, ["n"])
                return [m, b.add(steps, i32(b, 1))]

            start = b.add(load(b, x, i), k)
            types = {"n": INT32, "steps": INT32}
            _, steps = b.while_([start, zero], region(b, types, cond), region(b, types, advance), ["n", "steps"])
            more = b.one("gt", steps, biggest)
            new, same = region(b, {}, lambda: [steps, k]), region(b, {}, lambda: [biggest, i32(b, -1)])
            top, at = b.if_(more, new, same, ["biggest", "at"])
            return [b.add(total, b.add(steps, at)), top]

        total, biggest = for_loop(b, zero, i32(b, 5), i32(b, 1), [zero, zero], outer, ["total", "biggest"])
        store(b, out, i, b.add(total, b.mul(biggest, i32(b, 1000))))

    fn = kernel({"x": I1, "out": I1}, body)
    x = np.array([1, 2, 3, 7, 27, 97], np.int32)
    out = agree(fn, [x, np.zeros(6, np.int32)], 6)[-1]
    assert out[0] == (0 + 1 + 7 + 2 + 5) + (-1 + 1 + 2 - 1 - 1) + 7000


def test_while_that_never_runs_and_unused_results():
    def body(b, x, out):
        (i,) = tids(b)
        v = load(b, x, i)
        cond = region(b, {"v": FLOAT32}, lambda v: [b.one("lt", v, b.const(0.0, FLOAT32))])
        (v,) = b.while_([v], cond, region(b, {"v": FLOAT32}, lambda v: [b.mul(v, b.const(-0.5, FLOAT32))]), ["v"])
        store(b, out, i, v)

    agree(kernel({"x": F1, "out": F1}, body), [np.array([1, 2, -3], np.float32), np.zeros(3, np.float32)], 3)


def test_swap_in_a_loop_is_simultaneous():
    def body(b, n, out):
        (i,) = tids(b)
        a, c = b.const(1, INT32), b.const(2, INT32)
        a, c = for_loop(b, i32(b, 0), load(b, n, i), i32(b, 1), [a, c], lambda k, a, c: [c, b.add(a, k)], ["a", "c"])
        store(b, out, i, b.add(b.mul(a, i32(b, 1000)), c))

    agree(kernel({"n": I1, "out": I1}, body), [np.arange(6, dtype=np.int32), np.zeros(6, np.int32)], 6)


def test_store_in_one_branch_only():
    def body(b, x, out):
        (i,) = tids(b)
        then = Region()
        with b.into(then):
            store(b, out, i, load(b, x, i))
        b.if_(b.one("gt", load(b, x, i), b.const(0.0, FLOAT32)), then, Region())

    x = np.random.default_rng(0).standard_normal(50).astype(np.float32)
    agree(kernel({"x": F1, "out": F1}, body), [x, np.zeros(50, np.float32)], 50)


@pytest.mark.parametrize("chunk", [1, 3, 7, 64, 1000])
@pytest.mark.parametrize("dims", [(13,), (5, 7), (3, 4, 5), (2, 3, 4, 5), (1, 9), (9, 1), (4, 1, 3, 1)])
def test_threads_of_every_arity_in_chunks(dims, chunk):
    for arity in range(5):

        def body(b, out):
            parts = tids(b, arity)
            total = i32(b, 1)
            for k, p in enumerate(parts):
                total = b.add(total, b.mul(p, i32(b, 10 ** (k + 1))))
            b.op("accumulate", out, *(parts or [i32(b, 0)]), total, mode="plain", wrap=(False,) * max(arity, 1))

        fn = kernel({"out": Array(INT32, max(arity, 1))}, body, tid=arity)
        shape = (*dims, 1, 1, 1)[:arity] if arity else (1,)
        agree(fn, [np.zeros(shape, np.int32)], dims, chunk=chunk)


def test_an_empty_launch_does_nothing():
    def body(b, out):
        store(b, out, *tids(b, 2), b.const(1.0, FLOAT32))

    fn = kernel({"out": Array(FLOAT32, 2)}, body, tid=2)
    Compiled(fn)([np.zeros((0, 3), np.float32)], (0, 3))
    Compiled(fn)([np.zeros((3, 0), np.float32)], (3, 0))


def test_composites_carried_by_loops_and_branches():
    v, m = Vec(FLOAT64, 2), Mat(FLOAT64, 2, 2)

    def body(b, x, turn, n, out):
        (i,) = tids(b)
        rotation = load(b, turn, i)

        def trip(k, p, total):
            q = b.one("matvec", rotation, p)
            then = region(b, {}, lambda: [b.add(total, q)])
            (total,) = b.if_(b.one("lt", k, i32(b, 3)), then, region(b, {}, lambda: [total]), ["total"])
            return [q, total]

        p, total = for_loop(b, i32(b, 0), n, i32(b, 1), [load(b, x, i), b.zero(v)], trip, ["p", "total"])
        store(b, out, i, b.add(p, total))

    fn = kernel({"x": Array(v, 1), "turn": Array(m, 1), "n": INT32, "out": Array(v, 1)}, body)
    rng = np.random.default_rng(0)
    x, turn = rng.standard_normal((9, 2)), rng.standard_normal((9, 2, 2))
    out = agree(fn, [x, turn, 7, np.zeros((9, 2))], 9, ulp=2**20)[-1]
    p, total = x, 0
    for k in range(7):
        p = np.einsum("nij,nj->ni", turn, p)
        total = total + p * (k < 3)
    np.testing.assert_allclose(out, p + total, rtol=1e-12)


def test_loop_stacks_keep_scalars_composites_and_bools():
    v = Vec(FLOAT32, 3)
    outer, inner = Stack((FLOAT32, v, BOOL, INT8), 5, level=0), Stack((FLOAT64,), 3, level=1)

    def body(b, x, out):
        (i,) = tids(b)
        stack = b.one("stack_new", type=outer)

        def push(k, a):
            vec = b.one("construct", a, load(b, x, k), b.cast(k, FLOAT32), type=v)
            b.op("stack_set", stack, k, a, vec, b.one("gt", a, b.const(1.0, FLOAT32)), b.cast(k, INT8))
            return [b.add(a, load(b, x, k))]

        (a,) = for_loop(b, i32(b, 0), i32(b, 5), i32(b, 1), [b.cast(i, FLOAT32)], push, ["a"])

        def pop(k, total):
            small = b.one("stack_new", type=inner)
            slot = b.sub(i32(b, 4), k)
            b.op("stack_set", small, i32(b, 2), b.cast(k, FLOAT64))
            a, vec, flag, short = (b.one("stack_get", stack, slot, field=f) for f in range(4))
            d = b.cast(b.one("stack_get", small, i32(b, 2), field=0), FLOAT32)
            term = b.select(flag, b.one("dot", vec, vec), b.add(a, b.cast(short, FLOAT32)))
            return [b.add(b.mul(total, b.const(0.5, FLOAT32)), b.add(term, d))]

        (total,) = for_loop(b, i32(b, 0), i32(b, 5), i32(b, 1), [a], pop, ["total"])
        store(b, out, i, total)

    fn = kernel({"x": F1, "out": F1}, body)
    x = np.random.default_rng(1).uniform(0, 1, 5).astype(np.float32)
    agree(fn, [x, np.zeros(20, np.float32)], 20, ulp=64)
