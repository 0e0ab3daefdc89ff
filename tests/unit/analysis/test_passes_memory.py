"""Index ranges, promotion of memory to values, sinking, dependences, relations of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from passes_harness import D1, D2, I1, after, assert_same, body, lowered, names, wraps

import diffkern as dk
from diffkern.analysis.affine import AffineForms
from diffkern.analysis.conflicts import Conflict
from diffkern.analysis.dependence import LoadSource, classify_loads
from diffkern.analysis.threads import Distance, Never, relate
from diffkern.compiler import pipeline
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Region, Value, walk
from diffkern.ir.types import FLOAT16, FLOAT32, FLOAT64, INT32, UINT32, Array
from diffkern.opt.cse import eliminate_common
from diffkern.opt.dce import eliminate
from diffkern.opt.promote import promote
from diffkern.opt.ranges import clear_wraps
from diffkern.opt.sink import sink_into_branches

X = np.linspace(0.2, 1.9, 8)
Y = np.linspace(1.5, -0.7, 8)
U1 = Array(UINT32, 1)


def share(fn: Function) -> Function:
    return eliminate_common(fn, loads=True)


# -- ranges ------------------------------------------------------------------------------------------------------------


def flags(function: Callable[..., Any], *types: Any, array: str = "x") -> list[bool]:
    """Whether each load from a one-dimensional array still wraps."""
    fn = after(lowered(function, *types), eliminate_common, clear_wraps)
    loads = [op for op in walk(fn.body) if op.name == "load" and op.operands[0].name == array]
    return [op.attrs["wrap"][0] for op in loads]


def test_conditions_bound_indices_inside_their_branch_only() -> None:
    def f(x, y):
        i = dk.tid()
        s = 0.0
        if i > 0:
            s = x[i - 1]
        else:
            s = x[i - 1]
        if i >= 2 and x[i - 2] > 0.0:
            s += x[i - 2]
        if not (i < 3):
            s += x[i - 3] * x[i - 4]
        if i != 0:
            s += x[i - 1]
        y[i] = s + x[i - 1]

    assert flags(f, D1, D1) == [False, True, False, False, False, True, False, True]


def test_bounds_of_loop_variables() -> None:
    def f(x, y, n):
        i = dk.tid()
        s = 0.0
        for k in range(1, n):
            s += x[k - 1] * x[k - 2]
        for k in range(n, 0, -1):
            s += x[k - 1] * x[k - 2]
        for k in range(n):
            s += x[k] * x[n - k]
        y[i] = s

    assert flags(f, D1, D1, INT32) == [False, True, False, True, False, True]


def test_values_that_shrink_in_a_loop_lose_their_bound_in_its_condition_too() -> None:
    def f(x, y):
        i = dk.tid()
        k = 3
        j = 3
        while x[k] > 0.0 and x[j] > 0.0:
            k -= 1
            j += 1
        y[i] = x[k] * x[j]

    assert flags(f, D1, D1) == [True, False, True, False]


def test_differences_from_what_is_bounded_above() -> None:
    def f(x, y, n):
        i = dk.tid()
        s = 0.0
        for k in range(8):
            for j in range(k):
                s += x[7 - k] * x[6 - k] * x[k + 6 - j] * x[k + 5 - j] * x[j * (13 - j) // 2]
        for k in range(n):
            s += x[100 - k]
        y[i] = s

    assert flags(f, D1, D1, INT32) == [False, True, False, True, False, True]


def test_casts_keep_bounds_only_if_they_keep_values() -> None:
    def f(x, p, y):
        i = dk.tid()
        u = p[i]
        y[i] = x[dk.int32(u)] * x[dk.int64(u)] * x[u]

    fn = after(lowered(f, D1, U1, D1), clear_wraps)
    loads = [op for op in walk(fn.body) if op.name == "load" and op.operands[0].name == "x"]
    assert [op.attrs["wrap"] for op in loads] == [(True,), (False,), (False,)]


def test_meaning_with_negative_indices_stays() -> None:
    def f(x, y, n):
        i = dk.tid()
        s = x[i - 1] * x[-1]
        k = n
        while x[k] > 0.3 and k > -6:
            s += x[k]
            k -= 1
        y[i - 3] = s

    fn = lowered(f, D1, D1, INT32)
    out = after(fn, eliminate_common, clear_wraps)
    assert_same(fn, out, (8,), [X, Y, 2])


# -- promotion ---------------------------------------------------------------------------------------------------------


def promoted(function: Callable[..., Any], *types: Any) -> tuple[Function, Function]:
    fn = lowered(function, *types)
    normal = after(fn, share, clear_wraps)
    return fn, after(normal, promote, eliminate)


def test_promotion_of_an_element_updated_under_a_condition() -> None:
    def f(x, y, n):
        i = dk.tid()
        for k in range(n):
            if x[i] > 1.0:
                y[i] = y[i] * x[i]

    fn, out = promoted(f, D1, D1, INT32)
    assert body(out) == [
        "%i: int32 = tid {axis=0}",
        "%4: int32 = const {type=int32, value=0}",
        "%5: int32 = const {type=int32, value=1}",
        "%6: int32 = shape %y {axis=0}",
        "%7: int64 = cast %6 {to=int64}",
        "%8: int64 = cast %i {to=int64}",
        "%9: int64 = const {type=int64, value=0}",
        "%10: bool = ge %8, %9",
        "%11: bool = lt %8, %7",
        "%12: bool = and %10, %11",
        "if %12 {",
        "  then:",
        "    %y.1: float64 = load %y, %i {wrap=(False)}",
        "    yield %y.1",
        "  else:",
        "    %14: float64 = const {type=float64, value=0.0}",
        "    yield %14",
        "} -> %y.2: float64",
        "for %4, %n, %5, %y.2 {",
        "  body(%k: int32, %y.3: float64):",
        "    %18: float64 = load %x, %i {wrap=(False)}",
        "    %19: float64 = const {type=float64, value=1.0}",
        "    %20: bool = gt %18, %19",
        "    if %20 {",
        "      then:",
        "        %21: float64 = mul %y.3, %18",
        "        store %y, %i, %21 {wrap=(False)}",
        "        yield %21",
        "      else:",
        "        yield %y.3",
        "    } -> %y.4: float64",
        "    yield %y.4",
        "} -> %y.5: float64",
    ]
    for n in (0, 1, 5):
        assert_same(fn, out, (8,), [X, Y, n])


def two_elements(x, y, n):
    i = dk.tid()
    for k in range(n):
        y[i, 0] = y[i, 0] + x[i] * y[i, 1]
        y[i, 1] = y[i, 1] * y[i, 0]
    y[i, 2] = y[i, 0] * y[i, 1]


def aliasing_in_loop(x, y, n):
    i = dk.tid()
    for k in range(n):
        y[i, 0] = y[i, 0] + x[i]
        y[i, k] = y[i, k] * y[i, 0]
    y[i, 1] = y[i, 0]


def negative_alias(x, y, n):
    i = dk.tid()
    y[i, 3] = x[i]
    y[i, n - 6] = 2.0 * y[i, 3]
    y[i, 0] = y[i, 3] + y[i, n - 6]


def one_branch_stores(x, y, n):
    i = dk.tid()
    if x[i] > 1.0:
        y[i, n] = x[i]
    y[i, n] = dk.sin(y[i, n])


def both_branches_store(x, y, n):
    i = dk.tid()
    a = y[i, 0]
    if x[i] > 1.0:
        y[i, 0] = x[i]
        y[i, 1] = y[i, 0] + a
    else:
        y[i, 1] = -a
    y[i, 2] = y[i, 0] * y[i, 1]


def until(x, y, n):
    i = dk.tid()
    while y[i, 0] < 2.0 and x[i] > 0.0:
        y[i, 0] = y[i, 0] + x[i]
        y[i, 1] = y[i, 1] + y[i, 0]


def nested(x, y, n):
    i = dk.tid()
    for a in range(n):
        y[i, a + 1] = dk.sin(y[i, a])
        for b in range(a):
            y[i, a + 1] = y[i, a + 1] * x[i] + y[i, b]


def beyond_the_end(x, y, n):
    i = dk.tid()
    for k in range(n):
        if n < 4:
            y[i, n + 2] = y[i, n + 2] * x[i]
    if n > 100:
        y[i, n] = 1.0
    if n > 100:
        y[i, 0] = y[i, n]


def leaves_early(x, y, n):
    i = dk.tid()
    for k in range(n):
        y[i, 0] = y[i, 0] * x[i]
        if y[i, 0] < 0.3:
            y[i, 1] = y[i, 0]
            return
    y[i, 0] = y[i, 0] + y[i, 1]


KERNELS = [
    two_elements, aliasing_in_loop, negative_alias, one_branch_stores, both_branches_store, until, nested,
    beyond_the_end, leaves_early,
]  # fmt: skip


@pytest.mark.parametrize("function", KERNELS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [0, 1, 3, 4])
def test_promotion_keeps_the_meaning(function: Callable[..., Any], n: int) -> None:
    y = np.random.default_rng(n).uniform(0.2, 1.8, (8, 6))
    fn, out = promoted(function, D1, D2, INT32)
    assert_same(fn, out, (8,), [X, y, n])
    assert_same(fn, pipeline.prepare(fn), (8,), [X, y, n])


def test_known_elements_are_not_loaded_again() -> None:
    _, out = promoted(two_elements, D1, D2, INT32)
    assert names(out).count("load") == 3  # y[i, 0], y[i, 1], x[i]
    _, out = promoted(aliasing_in_loop, D1, D2, INT32)
    assert [op.operands[0].name for op in walk(out.body) if op.name == "load"].count("y") == 3


def test_arrays_that_round_their_elements_are_left_alone() -> None:
    def f(x):
        i = dk.tid()
        x[i] = x[i] * 1.1
        x[i] = x[i] * 1.1

    _, out = promoted(f, Array(FLOAT16, 1))
    assert names(out).count("load") == 2


# -- sinking -----------------------------------------------------------------------------------------------------------


def test_sinking_into_the_branch_and_guards_around_a_loop() -> None:
    def f(x, y, n):
        i = dk.tid()
        r = 1.0 / x[i]
        s = dk.sqrt(x[i])
        if x[i] > 0.0:
            y[i] = s
        for k in range(n):
            if k > 2:
                y[i] = r

    fn = lowered(f, D1, D1, INT32)
    out = after(fn, share, sink_into_branches, eliminate)
    assert body(out) == [
        "%i: int32 = tid {axis=0}",
        "%4: float64 = load %x, %i {wrap=(False)}",
        "%5: float64 = const {type=float64, value=1.0}",
        "%r: float64 = div %5, %4 {guarded=True}",
        "%7: float64 = const {type=float64, value=0.0}",
        "%8: bool = gt %4, %7",
        "if %8 {",
        "  then:",
        "    %s: float64 = sqrt %4",
        "    store %y, %i, %s {wrap=(False)}",
        "  else:",
        "}",
        "%10: int32 = const {type=int32, value=0}",
        "%11: int32 = const {type=int32, value=1}",
        "for %10, %n, %11 {",
        "  body(%k: int32):",
        "    %13: int32 = const {type=int32, value=2}",
        "    %14: bool = gt %k, %13",
        "    if %14 {",
        "      then:",
        "        store %y, %i, %r {wrap=(False)}",
        "      else:",
        "    }",
        "}",
    ]
    assert_same(fn, out, (8,), [X, Y, 4])


def test_choices_between_computed_values_become_branches() -> None:
    def f(x, y):
        i = dk.tid()
        r = dk.log(x[i])
        s = x[i] * 2.0
        t = -s
        y[i] = dk.where(x[i] > 1.0, r, s)
        x[i] = dk.where(x[i] > 1.0, s, t)

    fn = lowered(f, D1, D1)
    out = after(fn, share, sink_into_branches, eliminate)
    assert names(out).count("if") == 1
    assert names(out).count("select") == 1
    assert [op.name for op in walk(out.body) if op.name in ("if", "log")] == ["if", "log"]
    assert_same(fn, out, (8,), [X, Y])


def test_preparation_does_not_undo_sinking() -> None:
    def f(x, y):
        i = dk.tid()
        t = dk.sqrt(x[i])
        if t > 0.5:
            y[i] = t
        else:
            y[i] = 0.0

    out = pipeline.prepare(lowered(f, D1, D1))
    (branch,) = (op for op in walk(out.body) if op.name == "if")
    assert "sqrt" in [op.name for op in branch.regions[0].ops]


def test_long_straight_code_does_not_exhaust_the_interpreter() -> None:
    x = Value(D1, "x")
    b = Builder()
    i = b.one("tid", axis=0)
    s = b.one("load", x, i, wrap=(False,))
    cond = b.one("gt", s, b.const(0.0, FLOAT64))
    for _ in range(3000):
        s = b.one("sqrt", s)
    (out,) = b.if_(cond, Region(yields=(s,)), Region(yields=(b.const(0.0, FLOAT64),)))
    b.op("store", x, i, out, wrap=(False,))
    after(Function("deep", (x,), b.region, tid_arity=1), sink_into_branches)


# -- dependence --------------------------------------------------------------------------------------------------------


def sources(function: Callable[..., Any], *types: Any, array: str = "y") -> list[LoadSource]:
    fn = pipeline.prepare(lowered(function, *types))
    facts = classify_loads(fn)
    return [facts[op].source for op in walk(fn.body) if op.name == "load" and op.operands[0].name == array]


def test_recurrences_read_final_contents_and_reading_ahead_reads_entry_contents() -> None:
    def forward(x, y, n):
        i = dk.tid()
        for k in range(1, n):
            y[i, k] = dk.sin(y[i, k - 1]) * x[i]

    def ahead(x, y, n):
        i = dk.tid()
        for k in range(n):
            y[i, k] = dk.sin(y[i, k + 1]) * x[i]

    def backward(x, y, n):
        i = dk.tid()
        for k in range(n, 0, -1):
            y[i, k] = dk.sin(y[i, k - 1]) * x[i]

    assert sources(forward, D1, D2, INT32) == [LoadSource.FINAL]
    assert sources(ahead, D1, D2, INT32) == [LoadSource.ENTRY]
    assert sources(backward, D1, D2, INT32) == [LoadSource.ENTRY]


def test_a_step_of_two_separates_elements_only_from_a_common_start() -> None:
    def same(x, y, n):
        i = dk.tid()
        for k in range(0, n, 2):
            x[i] += dk.sin(y[i, k + 1])
            y[i, k] = x[i]

    def varying(x, y, n):
        i = dk.tid()
        for j in range(n):
            for k in range(j, n, 2):
                x[i] += dk.sin(y[i, k + 1])
                y[i, k] = x[i]

    assert sources(same, D1, D2, INT32) == [LoadSource.ENTRY]
    assert sources(varying, D1, D2, INT32) == [LoadSource.UNKNOWN]


def test_exclusive_branches_within_one_iteration() -> None:
    def f(x, y, n):
        i = dk.tid()
        for k in range(n):
            if x[i] > float(k):
                y[i, k] = x[i]
            else:
                x[i] += dk.sin(y[i, k])

    def across(x, y, n):
        i = dk.tid()
        k = 0
        while k < n:
            if x[i] > float(k):
                y[i, k] = x[i]
            else:
                x[i] += dk.sin(y[i, k])
            k += 1

    assert sources(f, D1, D2, INT32) == [LoadSource.ENTRY]
    assert sources(across, D1, D2, INT32) == [LoadSource.UNKNOWN]


def test_other_threads() -> None:
    def neighbour(x, y):
        i = dk.tid()
        y[i] = x[i] * y[i + 1]

    def atomically(x, y):
        i = dk.tid()
        dk.atomic_add(y, i, x[i] * y[0])

    def rows(x, y):
        i = dk.tid()
        y[i, 1] = x[i] * y[i, 0]

    assert sources(neighbour, D1, D1) == [LoadSource.RACING]
    assert sources(atomically, D1, D1) == [LoadSource.RACING]
    assert sources(rows, D1, D2) == [LoadSource.ENTRY]


# -- threads and conflicts ---------------------------------------------------------------------------------------------


def test_relations_of_accesses() -> None:
    def f(x, n):
        i = dk.tid()
        x[i + 1] = x[i] + x[i + n] + x[2 * i] + x[2 * i + 1] + x[2 * i + 4] + x[n] + x[n + 1] + x[i * i]

    fn = after(lowered(f, D1, INT32), share, clear_wraps)
    for op in walk(fn.body):
        if "wrap" in op.attrs:
            op.attrs = {**op.attrs, "wrap": (False,)}
    forms = AffineForms(fn)
    at_i, at_in, even, odd, later, fixed, fixed1, square = (op for op in walk(fn.body) if op.name == "load")
    (store,) = (op for op in walk(fn.body) if op.name == "store")
    assert relate(forms, at_i, at_i) == Distance({0: (0, 0)})
    assert relate(forms, at_i, store) == Distance({0: (1, 1)})
    assert relate(forms, at_i, at_in) == Distance({})
    assert relate(forms, even, odd) == Never()
    assert relate(forms, even, later) == Distance({0: (2, 2)})
    assert relate(forms, fixed, fixed1) == Never()
    assert relate(forms, fixed, fixed) == Distance({})
    assert relate(forms, square, square) == Distance({})


def conflicts(function: Callable[..., Any], *types: Any) -> list[Conflict]:
    fn = pipeline.prepare(lowered(function, *types))
    d = pipeline.differentiate(fn, range(len(types)))
    return list(d.conflicts)


def test_classes_of_conflicts() -> None:
    def one_to_one(x, y):
        i = dk.tid()
        y[i] = x[i] * x[i]

    def stencil(x, y):
        i = dk.tid()
        if i > 0:
            y[i] = x[i - 1] * x[i + 1]

    def gather(x, p, y):
        i = dk.tid()
        y[i] = x[p[i]] * x[i]

    def uniform(x, y):
        i = dk.tid()
        y[i] = x[0] * x[1]

    assert [c.kind for c in conflicts(one_to_one, D1, D1)] == ["none", "none"]
    assert conflicts(stencil, D1, D1)[0] == Conflict("bounded", ((-2, 2),))
    assert conflicts(gather, D1, I1, D1)[0].kind == "general"
    assert conflicts(uniform, D1, D1)[0].kind == "reduce"


def test_unused_axes_of_the_thread_index_make_conflicts() -> None:
    def rows(x, y):
        i, j = dk.tid()
        y[i, j] = x[i] * x[i]

    def cells(x, y):
        i, j = dk.tid()
        y[i, j] = x[i, j] * x[i, j + 1]

    assert conflicts(rows, D1, D2)[0].kind == "general"
    assert conflicts(cells, D2, D2)[0] == Conflict("bounded", ((0, 0), (-1, 1)))


def test_wraps_are_never_taken_for_disjoint() -> None:
    def f(x, y):
        i = dk.tid()
        y[i] = x[i - 1] * x[i]

    assert wraps(lowered(f, D1, D1)) == [(True,), (False,)]
    assert conflicts(f, D1, D1)[0].kind == "general"


def test_relations_through_loop_variables_with_constant_bounds() -> None:
    """Segments of a flat array are one thread's own; a window is shared with neighbours; a longer loop overlaps."""

    def related(scale: int, lo: int, hi: int) -> object:
        x = Value(Array(FLOAT32, 1), "x")
        b = Builder()
        i = b.one("tid", axis=0)
        body = Region((Value(INT32, "k"),))
        with b.into(body):
            at = b.add(b.mul(i, b.i32(scale)), body.params[0])
            b.op("store", x, at, b.const(1.0, FLOAT32), wrap=(False,))
        b.for_(b.i32(lo), b.i32(hi), b.i32(1), (), body)
        fn = Function("f", (x,), b.region, tid_arity=1)
        (store,) = [op for op in walk(fn.body) if op.name == "store"]
        return relate(AffineForms(fn), store, store)

    assert related(8, 0, 8) == Distance({0: (0, 0)})
    assert related(8, 0, 9) == Distance({0: (-1, 1)})
    assert related(1, -9, 10) == Distance({0: (-18, 18)})
    assert related(-2, 0, 3) == Distance({0: (-1, 1)})
