"""The Python spelling: golden files, and that it runs as it reads."""

from __future__ import annotations

import linecache
import os
import traceback
from pathlib import Path

import numpy as np
import pytest
from source_cases import CASES, F1, f32, load, region, store, tid
from support.clashes import ClashCollector

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Value
from diffkern.ir.types import BFLOAT16, FLOAT32, INT32, Array, Vec
from diffkern.ir.verify import verify
from diffkern.printing.executor import load_source, run
from diffkern.printing.python import to_python

GOLDEN = Path(__file__).parents[2] / "golden" / "source"


def function(params, body, *, arity=1, name="k"):
    values = tuple(Value(t, n) for n, t in params.items())
    b = Builder()
    body(b, *values)
    fn = Function(name, values, b.region, tid_arity=arity)
    verify(fn)
    return fn


@pytest.mark.parametrize("name", CASES)
def test_golden_source(name):
    """Set DIFFKERN_UPDATE_GOLDEN=1 to accept new text."""
    fn = CASES[name]()
    verify(fn)
    text = to_python(fn, header=[f"{name}: the Python spelling"])
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("DIFFKERN_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_the_source_of_a_function_is_the_same_every_time():
    for build in CASES.values():
        assert to_python(build()) == to_python(build())


def test_float32_stays_float32():
    """Every literal of the source is weak beside an operand, or typed."""

    def body(b, x, y):
        i = tid(b)
        v = load(b, x, i)
        parts = [
            b.mul(v, f32(b, 0.1)),
            b.add(b.mul(f32(b, 0.1), f32(b, 0.3)), v),
            b.one("pow", v, f32(b, 1.7)),
            b.select(b.one("lt", v, f32(b, 0.5)), f32(b, 0.1), f32(b, 0.2)),
            b.one("min", f32(b, 0.7), f32(b, 0.9)),
            b.one("sqrt", f32(b, 2.0)),
            b.neg(f32(b, 0.3)),
        ]
        for k, part in enumerate(parts):
            store(b, y, b.i32(k), b.div(part, f32(b, 3.0)))

    fn = function({"x": F1, "y": Array(FLOAT32, 1)}, body)
    seen = []

    class Spy(np.ndarray):
        def __setitem__(self, index, value):
            seen.append(type(value))
            super().__setitem__(index, value)

    x = np.array([0.3], np.float32)
    run(fn, [x, np.zeros(7, np.float32).view(Spy)], 1)
    assert seen == [np.float32] * 7


def test_a_kernel_named_like_a_primitive():
    def body(b, x):
        i = tid(b)
        store(b, x, i, b.one("sin", load(b, x, i)))

    fn = function({"x": F1}, body, name="sin")
    assert "def sin_kernel(tid, x):" in to_python(fn)
    x = np.ones(3, np.float32)
    run(fn, [x], 3)
    np.testing.assert_array_equal(x, np.sin(np.ones(3, np.float32)))


def test_a_load_is_not_moved_past_a_store():
    def body(b, x, y):
        i = tid(b)
        before = load(b, x, i)
        store(b, x, i, b.mul(load(b, x, i), f32(b, 2.0)))
        store(b, y, i, b.add(before, load(b, x, i)))

    x, y = np.ones(2, np.float32), np.zeros(2, np.float32)
    run(function({"x": F1, "y": F1}, body), [x, y], 2)
    assert y.tolist() == [3.0, 3.0]


def test_a_loop_that_reads_the_old_value_of_the_variable_it_sets():
    """The inner loop's result goes to the outer loop's variable, whose old value the inner loop reads."""

    def body(b, y):
        def outer(k, s):
            inner = region(b, {"j": INT32, "s": FLOAT32}, lambda j, t: [b.add(t, s)])
            return list(b.for_(b.i32(0), b.i32(3), b.i32(1), [f32(b, 0.0)], inner, ["s"]))

        r = region(b, {"k": INT32, "s": FLOAT32}, outer)
        (s,) = b.for_(b.i32(0), b.i32(2), b.i32(1), [f32(b, 1.0)], r, ["s"])
        store(b, y, tid(b), s)

    y = np.zeros(1, np.float32)
    run(function({"y": F1}, body), [y], 1)
    assert y[0] == 9.0


def test_an_arm_that_sets_a_variable_before_its_old_value_is_read():
    def body(b, x, y):
        def trip(k, s):
            def then():
                new = b.one("mul", s, f32(b, 2.0), hint="s")
                b.op("accumulate", y, b.i32(0), b.add(new, s), mode="plain", wrap=(False,))
                return [new]

            orelse = region(b, {}, lambda: [f32(b, 5.0)])
            return list(b.if_(b.one("lt", k, b.i32(2)), region(b, {}, then), orelse, ["s"]))

        r = region(b, {"k": INT32, "s": FLOAT32}, trip)
        (s,) = b.for_(b.i32(0), b.i32(3), b.i32(1), [load(b, x, tid(b))], r, ["s"])
        store(b, x, tid(b), s)

    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    run(function({"x": F1, "y": F1}, body), [x, y], 1)
    assert (x[0], y[0]) == (5.0, 3.0 + 6.0)


def test_composites_are_values():
    v = Vec(FLOAT32, 2)

    def body(b, x, y):
        i = tid(b)
        a = load(b, x, i)
        store(b, x, i, b.zero(v))
        c = b.one("insert", a, f32(b, 9.0), index=0)
        store(b, y, i, b.add(a, c))

    x, y = np.ones((1, 2), np.float32), np.zeros((1, 2), np.float32)
    run(function({"x": Array(v, 1), "y": Array(v, 1)}, body), [x, y], 1)
    assert y.tolist() == [[10.0, 2.0]]


def test_tracebacks_show_the_generated_source():
    def body(b, x):
        store(b, x, b.add(tid(b), b.i32(7)), f32(b, 1.0))

    with pytest.raises(IndexError) as caught:
        run(function({"x": F1}, body), [np.zeros(2, np.float32)], 2)
    assert "x[i + 7] = 1.0" in "".join(traceback.format_exception(caught.value))


def test_load_source_registers_its_lines():
    f = load_source("def f(tid):\n    return tid + 1\n", "f")
    assert f(1) == 2
    assert linecache.getline(f.__code__.co_filename, 2) == "    return tid + 1\n"


def test_a_bfloat16_array_is_given_as_bits():
    def body(b, x):
        i = tid(b)
        store(b, x, i, b.mul(load(b, x, i), f32(b, 2.0)))

    bits = (np.array([1.0, -3.0], np.float32).view(np.uint32) >> 16).astype(np.uint16)
    run(function({"x": Array(BFLOAT16, 1)}, body), [bits], 2)
    assert (bits.astype(np.uint32) << 16).view(np.float32).tolist() == [2.0, -6.0]


@pytest.mark.parametrize(
    ("args", "dim", "message"),
    [
        ([], 1, "takes 1 arguments, not 0"),
        ([np.zeros((2, 2), np.float32)], 1, "has shape"),
        ([np.zeros(2, np.float32)], (1, 1, 1, 1, 1), "at most 4 axes"),
    ],
)
def test_wrong_launches_are_refused(args, dim, message):
    fn = function({"x": F1}, lambda b, x: store(b, x, tid(b), f32(b, 1.0)))
    with pytest.raises(ValueError, match=message):
        run(fn, args, dim)


def accumulating(offsets, mode):
    def body(b, x):
        for k in offsets:
            b.op("accumulate", x, b.add(tid(b), b.i32(k)), f32(b, 1.0), mode=mode, wrap=(False,))

    return function({"ct_x": F1}, body)


def conflicts(fn, args, dim, **options):
    """The first clash on each element, in the order of their addresses."""
    collector = ClashCollector()
    run(fn, args, dim, observer=collector, **options)
    found = {}
    for clash in collector.clashes():
        found.setdefault(clash.second.address, clash)
    return [found[address] for address in sorted(found)]


def test_each_site_alone_is_disjoint_but_not_their_union():
    args = lambda: [np.zeros(12, np.float32)]  # noqa: E731
    assert not conflicts(accumulating([0], "plain"), args(), 10)
    assert not conflicts(accumulating([2], "plain"), args(), 10)
    found = conflicts(accumulating([0, 2], "plain"), args(), 10)
    assert [c.second.index for c in found] == [(k,) for k in range(2, 10)]
    assert "ct_x[2]: plain by thread 0" in str(found[0])
    assert not conflicts(accumulating([0, 2], "atomic"), args(), 10)


def test_an_atomic_does_not_excuse_a_plain_access():
    def body(b, x):
        i = tid(b)
        b.op("accumulate", x, i, f32(b, 1.0), mode="plain", wrap=(False,))
        b.op("atomic", x, b.i32(0), f32(b, 1.0), kind="add", wrap=(False,))

    fn = function({"x": F1}, body)
    for order in (range(4), range(3, -1, -1)):
        found = conflicts(fn, [np.zeros(4, np.float32)], 4, order=order)
        assert [c.second.index for c in found] == [(0,)]


def test_two_parameters_that_share_a_buffer_conflict():
    def body(b, x, y):
        i = tid(b)
        store(b, x, i, f32(b, 1.0))
        store(b, y, i, f32(b, 2.0))

    buffer = np.zeros(5, np.float32)
    found = conflicts(function({"x": F1, "y": F1}, body), [buffer[1:], buffer[:4]], 4)
    assert len(found) == 3


def test_line_comments_follow_the_primal():
    text = to_python(CASES["springs"]())
    assert "    # 4: stretch = dk.length(pos[i] - pos[j]) - x[e]\n    stretch = length(" in text
