"""Reverse mode: what it needs, what it refuses and where, and each form of statement against differences."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.ad.activity import Activity
from diffkern.ad.adjoint import Derivative
from diffkern.ad.cotangents import CotangentMap
from diffkern.ad.loops import StackBudget
from diffkern.compiler import pipeline
from diffkern.errors import AutodiffError
from diffkern.frontend.statements import lowering
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Region, Value, walk
from diffkern.ir.types import FLOAT16, FLOAT32, FLOAT64, INT32, UINT32, Array, Type, Vec
from diffkern.ir.verify import verify
from diffkern.ir.views import For
from diffkern.opt.sink import guard_singular
from diffkern.targets.cpu.compiler import STACK_BYTES
from diffkern.testing.gradcheck import Vjp, check_function, check_vjp
from diffkern.testing.programs import Interpreted

D1 = Array(FLOAT64, 1)
D2 = Array(FLOAT64, 2)
I1 = Array(INT32, 1)
Kernel = Callable[..., Any]


def adjoint(function: Kernel, *types: Type, active: tuple[int, ...] | None = None) -> Derivative:
    fn = pipeline.prepare(lowering.lower(function, types))
    d = pipeline.differentiate(fn, range(len(types)) if active is None else active)
    verify(d.fn)
    return d


def line_of(function: Kernel, text: str) -> int:
    """The line of a function's source that holds a text."""
    lines, first = inspect.getsourcelines(function)
    (found,) = (first + k for k, line in enumerate(lines) if text in line)
    return found


# -- what an adjoint needs ---------------------------------------------------------------------------------------------


def test_nested_loops_add_to_one_array_of_cotangents() -> None:
    """A loop that had an array of its own would have to add it to the one around, element by element."""

    def form(x: dk.array2d[dk.float64], y: dk.array[dk.float64]):
        i = dk.tid()
        a = dk.zeros(12, dtype=dk.float64)
        for j in range(12):
            a[j] = x[i, j]
        s = dk.float64(0.0)
        for j in range(12):
            for k in range(j):
                s += a[j] * a[k]
        y[i] = s

    fn = pipeline.prepare(pipeline.lower_kernel(form, (D2, D1)))
    names = [op.name for op in walk(pipeline.differentiate(fn, (0, 1)).fn.body)]
    assert "tile_add_at" in names
    assert "tile_map" not in names


def test_overwritten_inputs_are_saved_only_if_they_are_needed() -> None:
    def square(x, y):
        i = dk.tid()
        y[i] = y[i] * y[i] + x[i]

    def scale(x, y):
        i = dk.tid()
        y[i] = y[i] * 2.0 + x[i]

    assert (adjoint(square, D1, D1).saved, adjoint(square, D1, D1).adjoint.final) == ((1,), ())
    assert (adjoint(scale, D1, D1).saved, adjoint(scale, D1, D1).adjoint.final) == ((), ())


def test_contents_after_the_launch_are_read_where_they_serve() -> None:
    def recurrence(y, n):
        i = dk.tid()
        for k in range(1, n):
            y[i, k] = dk.sin(y[i, k - 1])

    d = adjoint(recurrence, D2, INT32)
    assert (d.saved, d.adjoint.final) == ((), (0,))


def test_parameters_of_the_adjoint() -> None:
    def f(x, y, a):
        i = dk.tid()
        y[i] = y[i] * y[i] * a * x[i]

    d = adjoint(f, D1, D1, FLOAT64)
    assert d.fn.param_names == ("x", "y", "a", "saved_y", "ct_x", "ct_y", "ct_a")
    assert d.fn.params[-1].type == Array(FLOAT64, 1)
    assert adjoint(f, D1, D1, FLOAT64, active=(1,)).fn.param_names == ("x", "y", "a", "saved_y", "ct_y")


def test_integers_and_inactive_parameters_have_no_cotangent() -> None:
    def f(x, p, y):
        i = dk.tid()
        y[i] = x[p[i]] * float(p[i])

    assert adjoint(f, D1, I1, D1).cotangents == (0, 2)


def test_constants_overwrite_cotangents() -> None:
    def f(x, y):
        i = dk.tid()
        y[i] = x[i]
        if x[i] > 1.0:
            y[i] = 3.0

    d = adjoint(f, D1, D1)
    (branch,) = (op for op in walk(d.fn.body) if op.name == "if")
    assert [op.name for op in branch.regions[0].ops if op.name != "const"] == ["store"]


def test_loops_without_state_need_no_stack() -> None:
    def total(x, y, n):
        i = dk.tid()
        s = 0.0
        for k in range(n):
            s += x[k] * x[k]
        y[i] = s

    def state(x, y, n):
        i = dk.tid()
        s = x[i]
        for k in range(n):
            s = dk.sin(s)
        y[i] = s

    assert not any(op.name.startswith("stack") for op in walk(adjoint(total, D1, D1, INT32).fn.body))
    stacks = [op.attrs["type"] for op in walk(adjoint(state, D1, D1, INT32).fn.body) if op.name == "stack_new"]
    assert [t.fields for t in stacks] == [(INT32, FLOAT64), (FLOAT64,)]  # starts of segments, and each state of one


def test_nested_stacks_share_the_budget() -> None:
    def f(x, y, n):
        i = dk.tid()
        s = x[i]
        for _ in range(n):
            for _ in range(n):
                s = dk.sin(s)
            for _ in range(n):
                s = dk.cos(s)
        y[i] = s

    stacks = [op.attrs["type"] for op in walk(adjoint(f, D1, D1, INT32).fn.body) if op.name == "stack_new"]
    slots = STACK_BYTES // 2 // 16
    starts = slots // 4  # of the segments of an inner loop, beside every state of one
    assert sorted((t.level, t.slots) for t in stacks) == [(0, slots), *[(1, starts)] * 2, *[(2, slots)] * 2]


def test_slots_of_a_budget() -> None:
    assert StackBudget(1024).slots_for([INT32, FLOAT32]) == 64
    assert StackBudget(8).slots_for([INT32, Vec(FLOAT64, 3)]) == 2
    assert StackBudget(1024, 5).slots_for([INT32]) == 5


# -- refusals ----------------------------------------------------------------------------------------------------------


def lost_value(x, y, n):
    i = dk.tid()
    for k in range(n):
        y[i, k % 2] = dk.sin(y[i, k % 3]) * x[i]  # here


def neighbour(x, y, n):
    i = dk.tid()
    y[i, 0] = x[i] * y[i + 1, 0]  # here


def returned_sum(x, y, n):
    i = dk.tid()
    before = dk.atomic_add(x, 0, 1.0)  # here
    y[i, 0] = before * 2.0


def mixed(x, y, n):
    i = dk.tid()
    y[i, 0] = x[i]
    dk.atomic_add(y, 0, n, x[i])  # here


def two_kinds(x, y, n):
    i = dk.tid()
    dk.atomic_max(y, 0, n, x[i])  # here
    dk.atomic_add(y, 0, 0, x[i])


def exchange(x, y, n):
    i = dk.tid()
    dk.atomic_exch(y, i, 0, x[i])  # here


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lost_value, "the gradient needs this value of y, which the kernel overwrites"),
        (neighbour, "another thread of the same launch may write"),
        (returned_sum, r"value returned by atomic_add|value that atomic_add returned|may write"),
        (mixed, "both stored to and updated|stored to and updated atomically"),
        (two_kinds, "atomics of different kinds"),
        (exchange, "atomic_exch has no derivative"),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_refusals_name_the_line_and_a_remedy(function: Kernel, message: str) -> None:
    if function is exchange and not hasattr(dk, "atomic_exch"):
        pytest.skip("the language has no atomic_exch")
    with pytest.raises(AutodiffError, match=message) as caught:
        adjoint(function, D1, D2, INT32)
    assert f"{line_of(function, '# here')}" in str(caught.value)
    assert "help:" in str(caught.value)


def hidden(x, t, u, y, n):
    i = dk.tid()
    for k in range(n):
        t[i, k] = x[i] * float(k)
    for k in range(n):
        u[i, k] = t[i, k] * 2.0  # here
    for k in range(n):
        y[i] += u[i, k]


def test_a_path_through_arrays_without_gradient_is_refused() -> None:
    with pytest.raises(AutodiffError, match="t carries active values inside the kernel but has no gradient") as caught:
        adjoint(hidden, D1, D2, D2, D1, INT32, active=(0, 3))
    assert f"{line_of(hidden, '# here')}" in str(caught.value)
    adjoint(hidden, D1, D2, D2, D1, INT32)
    adjoint(hidden, D1, D2, D2, D1, INT32, active=(3,))


def test_entry_contents_of_an_array_without_gradient_are_harmless() -> None:
    def f(x, t, y):
        i = dk.tid()
        a = t[i]
        t[i] = x[i] * a
        y[i] = a * x[i]

    d = adjoint(f, D1, D1, D1, active=(0, 2))
    assert d.saved == (1,)


def test_the_winner_among_rounded_elements() -> None:
    def f(x, y):
        i = dk.tid()
        dk.atomic_max(y, 0, x[i])

    assert adjoint(f, Array(FLOAT32, 1), Array(FLOAT16, 1)).saved == (1,)


def test_loops_over_unsigned_integers() -> None:
    b = Builder()
    x, n = Value(D1, "x"), Value(UINT32, "n")
    i = b.one("tid", axis=0)
    s = b.one("load", x, i, wrap=(False,))
    body = Region((Value(UINT32, "k"), Value(FLOAT64, "s")))
    with b.into(body):
        body.yields = (b.one("sin", body.params[1]),)
    (out,) = b.for_(b.const(0, UINT32), n, b.const(1, UINT32), [s], body)
    b.op("store", x, i, out, wrap=(False,))
    swept = pipeline.differentiate(pipeline.prepare(Function("f", (x, n), b.region, tid_arity=1)), [0]).adjoint.fn
    loops = [op for op in walk(swept.body) if op.name == "for"]
    assert loops
    assert {For(op).start.type for op in loops} == {INT32}  # iterations are numbered in a signed type, downwards too


def test_a_loop_of_more_trips_than_its_adjoint_can_number() -> None:
    def f(x):
        i = dk.tid()
        s = x[i]
        for _ in range(-2147483647, 2147483647):
            s = dk.sin(s)
        x[i] = s

    with pytest.raises(AutodiffError, match=r"fewer than 2\*\*31 trips") as caught:
        adjoint(f, Array(FLOAT32, 1))
    assert caught.value.loc is not None


# -- pieces ------------------------------------------------------------------------------------------------------------


def test_activity_is_varied_and_useful() -> None:
    def f(x, y, z):
        i = dk.tid()
        a = x[i] * 2.0
        b = z[i] * 3.0
        c = dk.sin(a)
        y[i] = a + b
        z[i] = c

    fn = lowering.lower(f, [D1, D1, D1])
    found = Activity(fn, fn.params[:2])
    by_name = {r.name: r for op in walk(fn.body) for r in op.results}
    assert [found.active(by_name[n]) for n in "abc"] == [True, False, False]


def test_activity_reaches_a_fixpoint_round_a_loop() -> None:
    def f(x, y, n):
        i = dk.tid()
        a = 1.0
        b = 1.0
        c = 1.0
        for _ in range(n):
            c = b
            b = a
            a = x[i]
        y[i] = c

    fn = lowering.lower(f, [D1, D1, INT32])
    found = Activity(fn, fn.params[:2])
    (loop,) = (op for op in walk(fn.body) if op.name == "for")
    assert all(found.active(p) for p in loop.regions[0].params[1:])


def test_components_are_collected_without_zero_vectors() -> None:
    b = Builder()
    v = Value(Vec(FLOAT32, 2), "v")
    cts = CotangentMap(b)
    one = b.const(1.0, FLOAT32)
    cts.add_component(v, 0, one)
    cts.add_component(v, 1, one)
    cts.add_component(v, 1, one)
    whole = cts.take(v)
    assert whole is not None
    assert [op.name for op in b.region.ops] == ["const", "add", "construct"]
    assert cts.take(v) is None
    cts.add(v, whole)
    cts.add_component(v, 0, one)
    assert cts.remaining() == [v]
    cts.take(v)
    assert [op.name for op in b.region.ops[3:]] == ["extract", "add", "insert"]


def test_components_that_are_zero_are_not_added_to() -> None:
    """A component that was replaced has no cotangent but what was read of it before."""
    b = Builder()
    v = Value(Vec(FLOAT32, 3), "v")
    cts, one = CotangentMap(b), b.const(1.0, FLOAT32)
    of_result = b.construct(v.type, [one, one, one])
    cts.add_others(v, 1, of_result)
    before = len(b.region.ops)
    cts.add_component(v, 1, one)
    assert cts.take(v) is not None
    assert [op.name for op in b.region.ops[before:]] == ["insert"]
    # The same of two replaced ones; the third is added to.
    cts.add_others(v, 0, of_result)
    rest = cts.take(v)
    assert rest is not None
    cts.add_others(v, 1, rest)
    before = len(b.region.ops)
    for k in range(3):
        cts.add_component(v, k, one)
    cts.take(v)
    assert [op.name for op in b.region.ops[before:]] == ["insert", "insert", "extract", "add", "insert"]


# -- forms of statements -----------------------------------------------------------------------------------------------


def carried_through(x, y, n):
    i = dk.tid()
    a = x[i]
    b = x[i] * 2.0
    c = b
    for _ in range(n):
        t = a
        a = b
        b = t * c
        c = x[i]
    y[i] = a * b + c


def same_value_twice(x, y, n):
    i = dk.tid()
    a = x[i]
    if a > 0.8:
        b = a
        c = a
    else:
        b = a * a
        c = a
    for _ in range(n):
        b = c
        c = c * b
    y[i] = a + b * c


def result_as_start(x, y, n):
    i = dk.tid()
    s = x[i]
    for _ in range(n):
        s = s * x[i]
    t = s
    for _ in range(n):
        t = t * s
    y[i] = t + s


def stores_in_branches_in_loops(x, y, n):
    i = dk.tid()
    for k in range(n):
        if x[i] > 0.7 + 0.1 * float(k):
            y[i] = y[i] * x[i]
        else:
            y[i] = dk.sin(y[i])
            x[i] = x[i] * 1.1


def while_in_for(x, y, n):
    i = dk.tid()
    s = x[i]
    for k in range(n):
        w = s
        while w < 2.0 + float(k):
            w = w + 0.4 + 0.1 * w * w * x[i]
        s = s * 0.5 + dk.sin(w)
    y[i] = s


def breaks(x, y, n):
    i = dk.tid()
    s = x[i]
    for k in range(n):
        if s > 2.5:
            break
        if k == 1:
            continue
        s = s * 1.3 + x[i]
        for _ in range(k):
            s = s + x[i] * s
    y[i] = s


def steps(x, y, n):
    i = dk.tid()
    s = x[i]
    for k in range(9, -n, -3):
        s = s * x[i] + 0.1 * float(k)
    for k in range(n, 11, n + 1):
        s = dk.sin(s) + 0.1 * float(k)
    for k in range(3, n - 8):
        s = s / 0.0
    y[i] = s


def atomic_extremes(x, y, n):
    i = dk.tid()
    dk.atomic_max(y, i, 0.9)
    dk.atomic_max(y, i, x[i] * x[i])


def untaken(x, y, n):
    i = dk.tid()
    r = 1.0 / (x[i] - x[i])
    s = dk.sqrt(x[i] * 0.0)
    for k in range(n):
        if k > 50:
            y[i] = y[i] + r * r
        q = dk.log(x[i] * float(k))
        y[i] = y[i] * x[i] + dk.where(k > 0, q, 0.0)
        if k < 0:
            y[i] = s


FORMS = [
    carried_through, same_value_twice, result_as_start, stores_in_branches_in_loops, while_in_for, breaks, steps,
    atomic_extremes, untaken,
]  # fmt: skip


@pytest.mark.parametrize("slots", [None, 2, 3])
@pytest.mark.parametrize("function", FORMS, ids=lambda f: f.__name__)
def test_forms_of_statements(function: Kernel, slots: int | None) -> None:
    fn = lowering.lower(function, [D1, D1, INT32])
    rng = np.random.default_rng(5)
    args = [rng.uniform(0.4, 1.3, 4), rng.uniform(0.4, 1.3, 4), 5]
    check_function(fn, (4,), args, engine=Interpreted, slots=slots, float32=False)


@pytest.mark.parametrize("trips", [0, 1, 2, 7, 40])
@pytest.mark.parametrize("slots", [2, 4])
def test_checkpoints_for_any_number_of_trips(trips: int, slots: int) -> None:
    def f(x, y, n):
        i = dk.tid()
        s = x[i]
        t = y[i]
        for k in range(n):
            u = s * 0.9 + dk.sin(t)
            t = t * 0.5 + s * s * 0.1
            s = u
        y[i] = s * t

    fn = lowering.lower(f, [D1, D1, INT32])
    args = [np.array([0.3, 0.9]), np.array([0.2, -0.6]), trips]
    few = Vjp(fn, Interpreted, slots=slots)
    many = Vjp(fn, Interpreted)
    weights = {0: np.zeros(2), 1: np.ones(2)}
    a, b = few.gradients((2,), args, weights), many.gradients((2,), args, weights)
    for k in a:
        np.testing.assert_array_equal(a[k], b[k])


def test_guarded_rules_pass_on_everything_but_zero() -> None:
    b = Builder()
    x = Value(D1, "x")
    i = b.one("tid", axis=0)
    v = b.one("load", x, i, wrap=(False,))
    r = b.one("div", b.const(1.0, FLOAT64), v)
    b.op("store", x, i, b.one("mul", r, v), wrap=(False,))
    vjp = Vjp(Function("f", (x,), b.region, tid_arity=1), Interpreted)
    vjp.adjoint = pipeline.differentiate(guard_singular(vjp.fn), {0})
    vjp.adjoint_program = Interpreted(vjp.adjoint.fn)
    assert any(op.name == "eq" for op in walk(vjp.adjoint.fn.body))
    check_vjp(vjp, (3,), [np.array([0.5, -1.0, 2.0])])
