"""The IR itself: builder, printer, verifier, cloner."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from diffkern.errors import Loc
from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner, clone_function, free_values, substitute
from diffkern.ir.nodes import Function, Op, Region, Value, count_ops, walk
from diffkern.ir.ops.row import TypeRuleError
from diffkern.ir.printer import to_text
from diffkern.ir.types import BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, Array, Mat, Stack, Vec, scalar_of, value_type
from diffkern.ir.verify import InvalidIR, verify

F1 = Array(FLOAT32, 1)


def loop_function() -> tuple[Function, Op]:
    """``y[i] = sum over k < n of x[i]``; the function and its loop."""
    x, y, n = Value(F1, "x"), Value(F1, "y"), Value(INT32, "n")
    b = Builder()
    i = b.one("tid", axis=0, hint="i")
    body = Region((Value(INT32, "k"), Value(FLOAT32, "s")))
    with b.into(body):
        body.yields = (b.add(body.params[1], b.one("load", x, i, wrap=(False,))),)
    (total,) = b.for_(b.i32(0), n, b.i32(1), [b.const(0.0, FLOAT32)], body, ("s",))
    b.op("store", y, i, total, wrap=(False,))
    fn = Function("sums", (x, y, n), b.region, tid_arity=1)
    (loop,) = (op for op in walk(fn.body) if op.name == "for")
    return fn, loop


def test_printer_text() -> None:
    fn, _ = loop_function()
    assert to_text(fn) == (
        "kernel sums(%x: array1d<float32,C>, %y: array1d<float32,C>, %n: int32) tid=1 {\n"
        "  %i: int32 = tid {axis=0}\n"
        "  %4: int32 = const {type=int32, value=0}\n"
        "  %5: int32 = const {type=int32, value=1}\n"
        "  %6: float32 = const {type=float32, value=0.0}\n"
        "  for %4, %n, %5, %6 {\n"
        "    body(%k: int32, %s: float32):\n"
        "      %9: float32 = load %x, %i {wrap=(False)}\n"
        "      %10: float32 = add %s, %9\n"
        "      yield %10\n"
        "  } -> %s.1: float32\n"
        "  store %y, %i, %s.1 {wrap=(False)}\n"
        "}\n"
    )


def test_printer_marks_undefined_values() -> None:
    fn, _ = loop_function()
    fn.body.ops.append(Op("neg", (Value(FLOAT32, "ghost"),), (Value(FLOAT32),), {}, (), None))
    assert "<undefined %ghost:float32>" in to_text(fn)


def test_builder_infers_types_and_refuses_what_does_not_fit() -> None:
    b = Builder(loc=Loc("file.py", 3, 0))
    a, c = b.const(1, FLOAT32), b.const(2, FLOAT64)
    assert a.type == FLOAT32
    assert b.region.ops[0].attrs["value"] == 1.0
    assert b.region.ops[0].loc == Loc("file.py", 3, 0)
    assert b.one("lt", a, a).type == BOOL
    with pytest.raises(TypeRuleError, match="operands of one type"):
        b.add(a, c)
    with pytest.raises(ValueError, match="takes 2 operands, not 1"):
        b.op("add", a)
    assert b.cast(a, FLOAT32) is a
    assert b.zero(Vec(FLOAT32, 3)).type == Vec(FLOAT32, 3)
    with pytest.raises(TypeError, match="no constant"):
        b.zero(F1)


def test_builder_restores_region_and_position() -> None:
    b = Builder(loc=Loc("file.py", 1, 0))
    outer, inner = b.region, Region()
    with b.into(inner), b.at(Loc("file.py", 2, 0)):
        b.i32(1)
    b.i32(2)
    assert [op.loc for op in inner.ops] == [Loc("file.py", 2, 0)]
    assert [op.loc for op in outer.ops] == [Loc("file.py", 1, 0)]


def test_types_are_values_with_a_fixed_spelling() -> None:
    assert str(Array(Mat(FLOAT32, 2, 3), 2, "A")) == "array2d<mat2x3<float32>,A>"
    assert Vec(FLOAT32, 3) == Vec(FLOAT32, 3)
    assert Mat(FLOAT32, 1, 11) != Mat(FLOAT32, 11, 1)
    assert value_type(Vec(FLOAT16, 2)) == Vec(FLOAT32, 2)
    assert scalar_of(Array(Vec(FLOAT64, 2), 1)) == FLOAT64
    with pytest.raises(TypeError, match="no single scalar"):
        scalar_of(Stack((FLOAT32,), 2))


def _twice(fn: Function, loop: Op) -> None:
    fn.body.ops.append(fn.body.ops[0])


def _before_definition(fn: Function, loop: Op) -> None:
    fn.body.ops.insert(0, Op("neg", (fn.body.ops[0].result,), (Value(INT32),), {}, (), Loc("file.py", 9, 0)))


def _out_of_scope(fn: Function, loop: Op) -> None:
    inner = loop.regions[0].ops[0].result
    fn.body.ops.append(Op("neg", (inner,), (Value(FLOAT32),), {}, (), None))


def _undefined(fn: Function, loop: Op) -> None:
    loop.regions[0].yields = (Value(FLOAT32, "ghost"),)


def _result_type(fn: Function, loop: Op) -> None:
    fn.body.ops[0].results = (Value(FLOAT32),)


def _operand_count(fn: Function, loop: Op) -> None:
    add = loop.regions[0].ops[1]
    add.operands = add.operands[:1]


def _operand_type(fn: Function, loop: Op) -> None:
    loop.operands = (fn.params[0], *loop.operands[1:])


def _yield_count(fn: Function, loop: Op) -> None:
    loop.regions[0].yields *= 2


def _param_type(fn: Function, loop: Op) -> None:
    loop.regions[0].params[0].type = FLOAT32


def _stray_region(fn: Function, loop: Op) -> None:
    fn.body.ops[0].regions = (Region(),)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_twice, "defined twice"),
        (_before_definition, r"neg \(line 9\) uses .*never defined"),
        (_out_of_scope, "not visible here"),
        (_undefined, "yield of for uses .*never defined"),
        (_result_type, "has results"),
        (_operand_count, "has 1 operands, not 2"),
        (_operand_type, "bounds and step must be integers"),
        (_yield_count, "regions take"),
        (_param_type, "regions take"),
        (_stray_region, "regions take"),
    ],
)
def test_verifier_finds(spoil: Callable[[Function, Op], None], message: str) -> None:
    fn, loop = loop_function()
    verify(fn)
    spoil(fn, loop)
    with pytest.raises(InvalidIR, match=message):
        verify(fn)


@pytest.mark.parametrize("fault", ["branch types", "condition type", "while condition"])
def test_verifier_checks_control_flow(fault: str) -> None:
    b = Builder()
    cond, one, two = b.const(True, BOOL), b.const(1.0, FLOAT32), b.const(2, INT32)
    if fault == "while condition":
        p, q = Value(FLOAT32), Value(FLOAT32)
        b.while_([one], Region((p,), [], (p,)), Region((q,), [], (q,)))
    else:
        b.if_(cond, Region((), [], (one,)), Region((), [], (two if fault == "branch types" else one,)))
        if fault == "condition type":
            b.region.ops[-1].operands = (two,)
    with pytest.raises(InvalidIR):
        verify(Function("f", (), b.region))


def test_clone_shares_nothing_and_says_the_same() -> None:
    fn, _ = loop_function()
    before = to_text(fn)
    copy = clone_function(fn)
    verify(copy)
    assert to_text(copy) == before
    assert not set(walk(copy.body)) & set(walk(fn.body))
    copy.body.ops.clear()
    assert to_text(fn) == before


def test_inlining_binds_parameters() -> None:
    fn, loop = loop_function()
    b = Builder(fn.body)
    start = b.const(5.0, FLOAT32)
    (out,) = Cloner(b).inline(loop.regions[0], (b.i32(0), start))
    verify(fn)
    added = fn.body.ops[-1]
    assert added.result is out
    assert added.operands[0] is start


def test_substitution_follows_chains_into_regions() -> None:
    fn, loop = loop_function()
    b = Builder(Region())
    other, last = b.const(1.0, FLOAT32), b.const(2.0, FLOAT32)
    fn.body.ops[:0] = b.region.ops
    carried = loop.regions[0].yields[0]
    substitute(fn.body, {carried: other, other: last})
    assert loop.regions[0].yields == (last,)
    verify(fn)


def test_free_values_in_order_of_use() -> None:
    _, loop = loop_function()
    assert [v.name for v in free_values(loop.regions[0])] == ["x", "i"]
    assert count_ops(loop.regions[0]) == 2
