"""Folding, unrolling, sharing, dead code, hoisting: what they do to the text, and that the meaning stays."""

from __future__ import annotations

import numpy as np
import pytest
from passes_harness import D1, I1, after, assert_same, body, lowered, names

import diffkern as dk
from diffkern.analysis.work import thread_cost
from diffkern.compiler import pipeline
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Region, Value, walk
from diffkern.ir.types import BOOL, FLOAT32, FLOAT64, INT8, INT32, INT64, UINT8, Array, Scalar
from diffkern.ir.verify import verify
from diffkern.opt.cse import eliminate_common
from diffkern.opt.dce import eliminate
from diffkern.opt.fold import fold
from diffkern.opt.hoist import hoist_integers
from diffkern.opt.unroll import unroll

X = np.linspace(0.2, 1.9, 8)


def folded(name: str, values: list[float], t: Scalar, **attrs: object) -> object:
    """The constant that an op on constants becomes, or None."""
    b = Builder()
    out = b.one(name, *(b.const(v, t) for v in values), **attrs)
    target = Value(Array(out.type, 1), "y")
    b.op("store", target, b.i32(0), out, wrap=(False,))
    fn = fold(Function("f", (target,), b.region))
    verify(fn)
    value = fn.body.ops[-1].operands[-1]
    (op,) = (op for op in fn.body.ops if value in op.results)
    return op.attrs["value"] if op.name == "const" else None


@pytest.mark.parametrize(
    ("name", "values", "t", "expected"),
    [
        ("add", [100, 100], INT8, -56),
        ("add", [200, 100], UINT8, 44),
        ("neg", [-128], INT8, -128),
        ("floordiv", [-7, 2], INT32, -4),
        ("mod", [-7, 2], INT32, 1),
        ("mod", [7, -2], INT32, -1),
        ("floordiv", [7, 0], INT32, None),
        ("div", [1.0, 4.0], FLOAT64, 0.25),
        ("div", [1.0, 0.0], FLOAT64, None),
        ("add", [0.1, 0.2], FLOAT32, float(np.float32(0.1) + np.float32(0.2))),
        ("mul", [1e30, 1e30], FLOAT32, np.inf),
        ("max", [float("nan"), 1.0], FLOAT64, None),
        ("eq", [16777217.0, 16777216.0], FLOAT32, True),
        ("xor", [6, 3], INT32, 5),
        ("not", [True], BOOL, False),
        ("and", [True, False], BOOL, False),
    ],
)
def test_constants_fold_as_they_would_be_computed(name: str, values: list[float], t: Scalar, expected: object) -> None:
    assert folded(name, values, t) == expected


@pytest.mark.parametrize(
    ("value", "t", "to", "expected"),
    [
        (0.1, FLOAT32, FLOAT64, float(np.float32(0.1))),
        (300, INT32, UINT8, 44),
        (1.5, FLOAT64, INT32, None),
        (3, INT32, FLOAT64, 3.0),
        (2, INT32, BOOL, True),
    ],
)
def test_casts_of_constants(value: float, t: Scalar, to: Scalar, expected: object) -> None:
    assert folded("cast", [value], t, to=to) == expected


def test_only_exact_identities_of_floats_are_used() -> None:
    def f(x, y):
        i = dk.tid()
        a = x[i]
        b = -a
        y[i] = (a * 1.0) / 1.0 + 0.0 * a + 0.0 - (-b)

    fn = lowered(f, D1, D1)
    out = after(fn, fold, eliminate)
    assert names(out).count("mul") == 1
    assert names(out).count("div") == 0
    assert names(out).count("neg") == 0
    assert names(out).count("add") == 2
    assert_same(fn, out, (8,), [X, X])


def test_conditions_known_at_compile_time_disappear() -> None:
    def f(x, y):
        i = dk.tid()
        s = x[i]
        if 1 < 2:
            s = s + 1.0
        else:
            s = s / 0.0
        for k in range(3, 3):
            s = s * s
        if s > 0.0:
            pass
        y[i] = s

    fn = lowered(f, D1, D1)
    out = after(fn, fold, eliminate)
    assert names(out) == ["tid", "load", "const", "add", "store"]
    assert_same(fn, out, (8,), [X, X])


def test_nested_constant_loops_unroll_completely() -> None:
    def f(x, y):
        i = dk.tid()
        s = x[i]
        for a in range(3):
            t = s
            for b in range(a):
                t = t * x[i] + float(b)
            s = s + t
        y[i] = s

    fn = lowered(f, D1, D1)
    out = after(fn, unroll)
    assert "for" not in names(out)
    assert_same(fn, out, (8,), [X, X])


def test_loops_with_negative_steps_and_swapped_values_unroll() -> None:
    def f(x, y):
        i = dk.tid()
        a = x[i]
        b = 0.5 * x[i]
        for k in range(7, 0, -3):
            c = a
            a = b
            b = c + float(k)
        y[i] = a - 2.0 * b

    fn = lowered(f, D1, D1)
    out = after(fn, unroll)
    assert "for" not in names(out)
    assert_same(fn, out, (8,), [X, X])


@pytest.mark.parametrize("trips", [9, 100])
def test_long_loops_stay(trips: int) -> None:
    def f(x, y):
        i = dk.tid()
        s = x[i]
        for _ in range(trips):
            s = s * 0.5
        y[i] = s

    out = after(lowered(f, D1, D1), unroll)
    assert names(out).count("for") == 1


def test_equal_computations_get_one_value() -> None:
    def f(x, y):
        i = dk.tid()
        a = x[i] * 2.0
        b = 2.0 * x[i]
        if a > 1.0:
            y[i] = dk.sin(a) + dk.sin(b)
        else:
            y[i] = dk.sin(a)

    fn = lowered(f, D1, D1)
    assert names(after(fn, eliminate_common)).count("load") == 2
    out = after(fn, lambda g: eliminate_common(g, loads=True))
    assert names(out).count("load") == 1
    assert names(out).count("mul") == 1
    assert names(out).count("sin") == 2  # one in each branch: neither is visible in the other
    assert_same(fn, out, (8,), [X, X])


def test_loads_from_written_arrays_are_not_shared() -> None:
    def f(x):
        i = dk.tid()
        a = x[i]
        x[i] = a + 1.0
        x[i] = x[i] * a

    fn = lowered(f, D1)
    out = after(fn, lambda g: eliminate_common(g, loads=True))
    assert names(out).count("load") == 2
    assert_same(fn, out, (8,), [X])


def test_constants_of_different_kinds_stay_apart() -> None:
    b = Builder()
    y = Value(Array(FLOAT64, 1), "y")
    zero, minus, same = b.const(0.0, FLOAT64), b.const(-0.0, FLOAT64), b.const(0.0, FLOAT64)
    for k, v in enumerate((zero, minus, same)):
        b.op("store", y, b.const(k, INT64), v, wrap=(False,))
    fn = eliminate_common(Function("f", (y,), b.region))
    verify(fn)
    stored = [op.operands[-1] for op in walk(fn.body) if op.name == "store"]
    assert stored[0] is stored[2]
    assert stored[0] is not stored[1]


def test_dead_results_and_carried_values_go() -> None:
    def f(x, y, n):
        i = dk.tid()
        used = x[i]
        unused = x[i]
        shadow = 1.0
        for k in range(n):
            shadow = shadow + unused
            unused = unused * shadow
            used = used + 1.0
            if used > 2.0:
                shadow = 0.0
                used = used * 0.5
        y[i] = used

    fn = lowered(f, D1, D1, INT32)
    out = after(fn, eliminate)
    (loop,) = (op for op in walk(out.body) if op.name == "for")
    assert len(loop.results) == 1
    assert [len(op.results) for op in walk(out.body) if op.name == "if"] == [1]
    assert_same(fn, out, (8,), [X, X, 5])


def test_what_a_while_condition_needs_is_kept() -> None:
    def f(x, y):
        i = dk.tid()
        count = 0
        s = x[i]
        waste = s
        while s < 10.0 and count < 5:
            s = s * 2.0
            waste = waste + s
            count += 1
        y[i] = 1.0

    fn = lowered(f, D1, D1)
    assert names(after(fn, eliminate)) == ["tid", "const", "store"]  # a loop without effect is taken to end

    def g(x, y):
        i = dk.tid()
        count = 0
        s = x[i]
        waste = s
        while s < 10.0 and count < 5:
            y[i] = s
            s = s * 2.0
            waste = waste + s
            count += 1

    fn = lowered(g, D1, D1)
    out = after(fn, eliminate)
    (loop,) = (op for op in walk(out.body) if op.name == "while")
    assert len(loop.results) == 2
    assert_same(fn, out, (8,), [X, X])


def test_stores_in_branches_keep_their_conditions() -> None:
    def f(x, y):
        i = dk.tid()
        if x[i] > 1.0:
            y[i] = x[i]

    fn = lowered(f, D1, D1)
    assert names(after(fn, eliminate)) == names(fn)


def test_integers_move_out_of_loops_and_branches() -> None:
    def f(x, y, n):
        i = dk.tid()
        s = 0.0
        for k in range(n):
            if k > 1:
                s += x[i + 1] * x[(i + k) % 3]
        y[i] = s

    fn = lowered(f, D1, D1, INT32)
    out = after(fn, hoist_integers, eliminate_common)
    (branch,) = (op for op in walk(out.body) if op.name == "if")
    assert [op.name for op in branch.regions[0].ops] == ["load", "load", "mul", "add"]
    assert "add" in [op.name for op in out.body.ops]  # i + 1 left the loop
    assert_same(fn, out, (6,), [X, X, 4])


def test_hoisting_keeps_definitions_before_uses() -> None:
    def f(x, y, n):
        i = dk.tid()
        s = 0.0
        for a in range(n):
            for b in range(n):
                c = a * 2
                d = c + b
                e = d - i
                if e > 0:
                    s += x[(c + 1) % 8] + x[(e * d + i) % 8]
        y[i] = s

    fn = lowered(f, D1, D1, INT32)
    out = after(fn, hoist_integers, eliminate_common, eliminate)
    assert_same(fn, out, (8,), [X, X, 3])


def test_golden_after_all_simplifications() -> None:
    def f(x, y):
        i = dk.tid()
        s = 0.0
        for k in range(2):
            s = s + x[i] * float(k + 1)
        y[i] = s

    fn = lowered(f, D1, D1)
    out = after(fn, fold, unroll, eliminate_common, eliminate)
    assert body(out) == [
        "%i: int32 = tid {axis=0}",
        "%3: float64 = const {type=float64, value=0.0}",
        "%4: float64 = load %x, %i {wrap=(False)}",
        "%s: float64 = add %3, %4",
        "%6: float64 = load %x, %i {wrap=(False)}",
        "%7: float64 = const {type=float64, value=2.0}",
        "%8: float64 = mul %6, %7",
        "%s.1: float64 = add %s, %8",
        "store %y, %i, %s.1 {wrap=(False)}",
    ]
    assert_same(fn, out, (8,), [X, X])


def test_cost_counts_loops_and_mathematics() -> None:
    def cheap(x, y):
        i = dk.tid()
        y[i] = x[i] + 1.0

    def dear(x, y, n):
        i = dk.tid()
        s = x[i]
        for k in range(n):
            s = dk.sin(s)
        y[i] = s

    assert thread_cost(lowered(cheap, D1, D1)) < 10.0
    assert thread_cost(lowered(dear, D1, D1, INT32)) > 100.0


def test_prepared_functions_mean_the_same() -> None:
    def f(x, y, p, n):
        i = dk.tid()
        for k in range(n):
            if x[i] > 0.9 and p[i] % 2 == 0:
                y[i] = y[i] * x[i] + float(k)
            elif p[i] > 3:
                y[i] -= 0.5
            p[i] = p[i] + 1
            x[i] = dk.where(y[i] > 1.0, dk.sqrt(y[i]), x[i])

    fn = lowered(f, D1, D1, I1, INT32)
    args = [X, X[::-1].copy(), np.arange(8), 5]
    assert_same(fn, after(pipeline.prepare(fn)), (8,), args)
    assert_same(fn, after(fn, pipeline.optimise), (8,), args)


def test_region_yields_of_dead_branches() -> None:
    b = Builder()
    cond = b.const(True, BOOL)
    y = Value(Array(FLOAT64, 1), "y")
    one, two = b.const(1.0, FLOAT64), b.const(2.0, FLOAT64)
    b.if_(cond, Region(yields=(one,)), Region(yields=(two,)))
    fn = eliminate(Function("f", (y,), b.region))
    assert fn.body.ops == []
