"""The built-in functions: the ops that each one becomes.

A built-in's key (:func:`diffkern.lang.lowering_key`) and the call give its result. Numbers are handled here and in
:mod:`library_vector` by functions of lowered arguments; ``where`` and the atomics look at the syntax themselves.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from diffkern.frontend.builtins import (
    atomics,
    bits,
    blocks,
    composed,
    construct,
    exponents,
    local,
    output,
    rules,
    warps,
)
from diffkern.frontend.builtins import library_vector as vector
from diffkern.frontend.numba import CALLS as NUMBA_CALLS
from diffkern.frontend.statements import arguments, branch
from diffkern.frontend.terms import arith, coerce, views
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import WEAK_FLOAT, Const, RecView, Static, Term, Tup, Val, View, describe
from diffkern.frontend.tiles.tile_maps import map_any
from diffkern.frontend.tiles.tile_terms import is_tile
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.ir.ops.scalar import QUESTIONS
from diffkern.ir.ops.table import all_ops
from diffkern.lang.intrinsics import INTERNAL, INTRINSICS
from diffkern.lang.library import COMPOSED

__all__ = ["apply", "fold", "lower_builtin", "thread_index"]

Handler: TypeAlias = Callable[[Context, Sequence[Term], ast.Call], Term]
Lazy: TypeAlias = Callable[[Context, str, ast.Call], Term]


def lower_builtin(cx: Context, key: str, name: str, node: ast.Call) -> Term:
    """Lower a call of a built-in; ``name`` is its spelling in the kernel."""
    lazy = _LAZY.get(key)
    # Before the arguments are lowered: these built-ins decide which of them are evaluated, and how.
    if lazy is None or key in _NAMED:
        node = arguments.in_order(cx, key, name, node)
    if lazy is not None:
        return lazy(cx, name, node)
    row = _TABLE.get(key) or vector.TABLE.get(key)
    if row is None:
        cx.type_error(node, f"{name} cannot be used in this way in a kernel", "call it on the host, before the launch")
    count, handler = row
    if count is not None and len(node.args) != count:
        remedy = (
            "for decimals write round(x * 100.0) / 100.0" if name.endswith("round") else "see the page on the language"
        )
        cx.type_error(node, f"{name} takes {count} argument{'s' * (count != 1)}, not {len(node.args)}", remedy)
    terms = [cx.expr(arg) for arg in node.args]
    for term in terms:
        if isinstance(term, Val) and isinstance(term.value.type, T.Tile) and key != "len":
            cast = f"dk.tile_astype(tile, dtype={name})"
            every = cast if key in ("float", "int", "bool") else f"dk.tile_map({name}, tile)"
            said = coerce.tile_remedy(term) if term.value.type.size == 1 else f"write {every} for all elements"
            cx.type_error(node, f"{name} of {describe(term)}", said)
    if (found := composed.of_complex(cx, key, name, terms, node)) is not None:
        return found
    # Literals first: their function is a literal again, as weak as they are.
    return fold(cx, key, terms, node) or handler(cx, terms, node)


def apply(cx: Context, key: str, name: str, terms: Sequence[Term], node: ast.Call) -> Term:
    """Lower a call of a built-in whose arguments are lowered already."""
    if key in COMPOSED:
        return composed.apply(cx, COMPOSED[key], name, terms, node)
    if (found := composed.of_complex(cx, key, name, terms, node)) is not None:
        return found
    if key in _TRUE_SIDE and len(terms) == 3:
        return _chosen(cx, terms, node, name, _TRUE_SIDE[key])
    row = _TABLE.get(key) or vector.TABLE.get(key)
    if row is None or (row[0] is not None and row[0] != len(terms)):
        cx.type_error(node, f"{name} cannot be applied to {len(terms)} values here", "call it in a @dk.func")
    return fold(cx, key, terms, node) or row[1](cx, terms, node)


# -- numbers -----------------------------------------------------------------------------------------------------------


def as_float(cx: Context, term: Term, node: ast.AST, what: str) -> Val:
    """Return a number as a float; one made of an integer is as weak as a literal."""
    scalar = coerce.scalar_term(cx, term, node, what)
    if isinstance(scalar, Const):
        if isinstance(scalar.value, bool):
            cx.type_error(node, f"{what} must be a number, not a bool", "write float(b)")
        return Val(cx.b.const(float(scalar.value), WEAK_FLOAT))
    if scalar.type == T.BOOL:
        cx.type_error(node, f"{what} must be a number, not a bool", "write float(b)")
    if T.scalar_of(scalar.type).is_float:
        return scalar
    # The precision is decided by what the result is combined with.
    return Val(cx.b.cast(scalar.value, WEAK_FLOAT))


def _of_floats(op: str) -> Handler:
    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        what = f"the argument of {op}" if len(args) == 1 else f"an argument of {op}"
        first, *others = (as_float(cx, a, node, what) for a in args)
        if not others:
            clamped = cx.dialect.clamped_cosines and op in ("acos", "asin")
            return Val(cx.b.one(op, _cosine(cx, first.value) if clamped else first.value))
        return Val(cx.b.one(op, *coerce.unify(cx, first, others[0], node, op)))

    return handler


def _cosine(cx: Context, x: Value) -> Value:
    """Return a number in [-1, 1]; the nearest end for other numbers and the ends themselves, without a derivative; -1
    for NaN.
    """
    b, t = cx.b, x.type
    assert isinstance(t, T.Scalar)
    # The ends are constants, so that their derivative is 0 where that of acos is infinite.
    end = b.select(b.one("gt", x, b.const(0.0, t)), b.const(1.0, t), b.const(-1.0, t))
    return b.select(b.one("lt", b.one("abs", x), b.const(1.0, t)), x, end)


def _to_int(op: str, of_literal: Callable[[float], int]) -> Handler:
    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        arg = coerce.scalar_term(cx, args[0], node, f"the argument of {op}")
        if not (isinstance(arg, Val) and T.scalar_of(arg.type).is_float):
            if isinstance(arg, Val):
                return arg
            # Computed now, as a literal of Python's own.
            return Const(of_literal(arg.value))
        x = as_float(cx, arg, node, f"the argument of {op}")
        # Python's functions return integers, numba's those of 64 bits.
        return Val(cx.b.cast(cx.b.one(op, x.value), T.INT32 if cx.layout is None else T.INT64))

    return handler


def _test(op: str) -> Handler:
    of_a_number = _of_floats(op)

    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        arg = args[0]
        if isinstance(arg, Val) and isinstance(arg.value.type, (T.Vec, T.Mat)) and arg.value.type.dtype.is_float:
            return Val(vector.tests(cx, op, arg.value))
        return of_a_number(cx, args, node)

    return handler


def _sign(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    arg = args[0]
    if isinstance(arg, Val) and isinstance(arg.value.type, (T.Vec, T.Mat)):
        parts = [_by_sign(cx, Val(c), node, "sign", below=-1, above=1) for c in cx.b.components(arg.value)]
        return Val(cx.b.construct(arg.type, [part.value for part in parts]))
    return _by_sign(cx, args[0], node, "sign", below=-1, above=1)


def _step(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    return _by_sign(cx, args[0], node, "step", below=1, above=0)


def _by_sign(cx: Context, term: Term, node: ast.AST, what: str, below: int, above: int) -> Val:
    x = coerce.scalar_term(cx, term, node, f"the argument of {what}")
    v = coerce.own_value(cx, x, node)
    t = T.scalar_of(v.type)
    if t == T.BOOL:
        cx.type_error(node, f"the argument of {what} must be a number, not a bool", "write int(b)")
    # Unsigned numbers are never negative.
    if t.kind is T.Kind.UINT:
        return Val(cx.b.const(above, t))
    negative = cx.b.one("lt", v, cx.b.const(0, t))
    return Val(cx.b.select(negative, cx.b.const(below, t), cx.b.const(above, t)))


def _stop_gradient(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    return rules.without_derivative(cx, args[0], node)


def _nonzero(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    v = coerce.own_value(cx, coerce.scalar_term(cx, args[0], node, "the argument of nonzero"), node)
    t = T.scalar_of(v.type)
    return Val(cx.b.select(cx.b.one("ne", v, cx.b.const(0, t)), cx.b.const(1, t), cx.b.const(0, t)))


def _frac(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    x = as_float(cx, args[0], node, "the argument of frac")
    return Val(cx.b.sub(x.value, cx.b.one("trunc", x.value)))


def _scaled(factor: float) -> Handler:
    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        arg = coerce.scalar_term(cx, args[0], node, "the angle")
        return arith.binary(cx, "mul", arg, Const(factor), node)

    return handler


def _operator(op: str) -> Handler:
    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        return arith.binary(cx, op, args[0], args[1], node)

    return handler


def _lerp(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    a, b, t = args
    # By products, so that the ends are exact: a + t * (b - a) at t = 1 may differ from b.
    left = arith.binary(cx, "mul", a, arith.binary(cx, "sub", Const(1.0), t, node), node)
    return arith.binary(cx, "add", left, arith.binary(cx, "mul", b, t, node), node)


def _smoothstep(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    lo, hi, x = args
    span = arith.binary(cx, "sub", hi, lo, node)
    t: Term = arith.binary(cx, "div", arith.binary(cx, "sub", x, lo, node), span, node)
    t = vector.clamp(cx, (t, Const(0.0), Const(1.0)), node)
    falling = arith.binary(cx, "sub", Const(3.0), arith.binary(cx, "mul", Const(2.0), t, node), node)
    return arith.binary(cx, "mul", arith.binary(cx, "mul", t, t, node), falling, node)


def _bool(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    return coerce.as_bool(cx, args[0], node)


def _cast(to: T.Scalar, numbas: T.Scalar) -> Handler:
    """Return the lowering of a conversion by Python's name of a type; numba keeps the type of numbers of that kind."""

    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        arg = coerce.scalar_term(cx, args[0], node, f"the argument of {to}")
        if cx.layout is None:
            return coerce.explicit_cast(cx, arg, to, node)
        # A literal is converted in any case: T.BOOL is neither a float nor an integer.
        t = T.scalar_of(arg.type) if isinstance(arg, Val) else T.BOOL
        kept = t.is_float if to.is_float else t.is_integer
        return arg if kept else coerce.explicit_cast(cx, arg, numbas, node)

    return handler


def _negate(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    return arith.negate(cx, args[0], node)


def _pos(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    if isinstance(args[0], Val) and isinstance(args[0].value.type, (T.Vec, T.Mat)):
        return args[0]
    return coerce.scalar_term(cx, args[0], node, "the argument of pos")


def _invert(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    return arith.invert(cx, args[0], node)


def _not(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    test = coerce.as_bool(cx, args[0], node)
    return Const(not test.value) if isinstance(test, Const) else Val(cx.b.one("not", test.value))


def _len(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    arg = args[0]
    if isinstance(arg, View) and arg.spans:
        return views.length(cx, arg, node)
    if isinstance(arg, RecView) and arg.ndim:
        return views.length(cx, arg.first, node)
    if isinstance(arg, Tup):
        return Const(len(arg.items))
    if isinstance(arg, Val) and isinstance(arg.value.type, (T.Vec, T.Mat, T.Tile)):
        return Const(arg.value.type.shape[0])
    cx.type_error(node, f"len of {describe(arg)}", "len takes an array, a vector, a tile or a tuple")


_Row: TypeAlias = tuple[int | None, Handler]


def _of_rows() -> Iterator[tuple[str, _Row]]:
    """Yield the built-ins that are functions of floats, and those that are operators."""
    for op, row in all_ops().items():
        if row.built_in is not None and row.built_in.of_floats:
            yield op, (row.arity, _of_floats(op))
        elif row.built_in is not None and row.family == "scalar" and row.arity == 2 and not row.chooses:
            yield row.built_in.name or op, (2, _operator(op))


def _peek(t: T.Scalar) -> Handler:
    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        address = coerce.convert(cx, args[0], T.UINT64, node, "the address")
        is_long = isinstance(args[1], Val) and args[1].type == T.INT64
        index = coerce.convert(cx, args[1], T.INT64 if is_long else T.INT32, node, "the index")
        return Val(cx.b.one("peek", address, index, type=t))

    return handler


def _place(cx: Context, args: Sequence[Term], node: ast.Call) -> tuple[Value, Value, Value]:
    address, cotangents = (coerce.convert(cx, arg, T.UINT64, node, "the address") for arg in args[:2])
    return address, cotangents, coerce.convert(cx, args[2], T.INT32, node, "the index")


def _fetch(t: T.Scalar) -> Handler:
    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        attrs: dict[str, Any] = {} if t == T.FLOAT32 else {"type": t}
        return Val(cx.b.one("fetch", *_place(cx, args, node), **attrs))

    return handler


def _poke(t: T.Scalar) -> Handler:
    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        cx.b.op("poke", *_place(cx, args, node), coerce.convert(cx, args[3], t, node, "the value"))
        return Static(None, "poke(...)")

    return handler


_TABLE: Final[Mapping[str, _Row]] = {
    "fetch": (3, _fetch(T.FLOAT32)),
    **dict(_of_rows()),
    "int_floor": (1, _to_int("floor", math.floor)),
    "int_ceil": (1, _to_int("ceil", math.ceil)),
    "int_trunc": (1, _to_int("trunc", math.trunc)),
    "int_round": (1, _to_int("rint", round)),
    **{op: (1, _test(op)) for op in sorted(QUESTIONS)},
    "sign": (1, _sign),
    "sign_or_zero": (1, exponents.sign_or_zero),
    "divmod": (2, exponents.divided),
    "frexp": (1, exponents.fraction_and_exponent),
    "ldexp": (2, exponents.scaled_by_power),
    "step": (1, _step),
    "nonzero": (1, _nonzero),
    "stop_gradient": (1, _stop_gradient),
    "frac": (1, _frac),
    "degrees": (1, _scaled(180.0 / math.pi)),
    "radians": (1, _scaled(math.pi / 180.0)),
    "lerp": (3, _lerp),
    "smoothstep": (3, _smoothstep),
    "float": (1, _cast(T.FLOAT32, T.FLOAT64)),
    "int": (1, _cast(T.INT32, T.INT64)),
    "bool": (1, _bool),
    "neg": (1, _negate),
    "pos": (1, _pos),
    "invert": (1, _invert),
    "unot": (1, _not),
    "len": (1, _len),
    **{name: (2, _peek(T.SCALARS[name.removeprefix("peek_")])) for name in INTERNAL if name.startswith("peek_")},
    **{name: (3, _fetch(T.SCALARS[name.removeprefix("fetch_")])) for name in INTERNAL if name.startswith("fetch_")},
    **{name: (4, _poke(T.SCALARS[name.removeprefix("poke_")])) for name in INTERNAL if name.startswith("poke_")},
    **warps.TABLE,
}


# -- built-ins that look at the syntax ---------------------------------------------------------------------------------


_TRUE_SIDE: Final = {"where": 1, "select": 2}
"""Which argument is the one that is taken where the condition holds."""


def _where(cx: Context, name: str, node: ast.Call, then_at: int = _TRUE_SIDE["where"]) -> Term:
    if len(node.args) != 3 or node.keywords:
        cx.type_error(
            node,
            f"{name} takes 3 arguments, not {len(node.args) + len(node.keywords)}",
            "pass the condition and two values",
        )
    then, orelse = node.args[then_at], node.args[3 - then_at]
    cond = cx.expr(node.args[0])
    if is_tile(cond):
        # Both sides are needed: each is taken for some elements.
        sides = [cx.expr(arg) for arg in node.args[1:]]
        return map_any(cx, (cond, *sides), lambda terms: _chosen(cx, terms, node, name, then_at), node, name)
    return branch.choose(cx, cond, lambda: cx.expr(then), lambda: cx.expr(orelse), node, name)


def _chosen(cx: Context, terms: Sequence[Term], node: ast.Call, name: str, then_at: int) -> Term:
    """Return one of two values that are lowered already."""
    return branch.choose(cx, terms[0], lambda: terms[then_at], lambda: terms[3 - then_at], node, name)


def _select(cx: Context, name: str, node: ast.Call) -> Term:
    return _where(cx, name, node, _TRUE_SIDE["select"])


def _range(cx: Context, name: str, node: ast.Call) -> Term:
    cx.syntax_error(node, f"{name}(...) stands outside a for statement", "write for i in range(...)")


def _tid(cx: Context, name: str, node: ast.Call) -> Term:
    return thread_index(cx, 1, node)


def thread_index(cx: Context, count: int, node: ast.Call) -> Term:
    """Lower ``tid()`` as one value, or as a tuple of ``count``."""
    if node.args or node.keywords:
        cx.type_error(node, "tid takes no arguments", "write i = dk.tid(), or i, j = dk.tid()")
    if count > 4:
        cx.type_error(node, f"tid has at most 4 components, not {count}", "compute further indices with // and %")
    if cx.tid is not None and cx.tid[0] != count and not cx.dialect.first_axes:
        cx.type_error(
            node,
            f"tid() gives {count} here and {cx.tid[0]} in line {cx.tid[1].line}",
            "a launch has one number of dimensions: unpack the same number everywhere",
        )
    # With fewer components than elsewhere the index is along the first axes; the largest number is the kernel's.
    if cx.tid is None or cx.tid[0] < count:
        cx.tid = (count, cx.loc(node))
    results = [cx.b.one("tid", axis=axis) for axis in range(count)]
    cx.nonneg.update(results)
    return Val(results[0]) if count == 1 else Tup(tuple(Val(v) for v in results))


def _breakpoint(cx: Context, name: str, node: ast.Call) -> Term:
    """Lower the place where a debugger stops in the Python program made from the kernel; compiled code ignores it."""
    if node.args or node.keywords:
        cx.type_error(node, f"{name} takes no arguments", "leave them out")
    cx.b.op("breakpoint")
    return Static(None, f"{name}(...)")


_NAMED: Final = frozenset({"where", "select", *atomics.CALLS})
"""Those among them whose arguments may be given by name."""

_LAZY: Final[Mapping[str, Lazy]] = {
    "breakpoint": _breakpoint,
    "where": _where,
    "select": _select,
    "range": _range,
    "tid": _tid,
    **bits.CALLS,
    **blocks.CALLS,
    **construct.CALLS,
    **NUMBA_CALLS,
    **output.CALLS,
    **atomics.CALLS,
    **local.CALLS,
}


# -- functions of literals ---------------------------------------------------------------------------------------------
# Functions of literals: the result is a literal again, computed in double precision.
#
# The name of a built-in and literals give a literal, or None for a function that has no row here.


_OF_ANY_NUMBER: Final = frozenset({"sign", "step", "nonzero"})
"""Functions whose result has the type of the argument."""


def fold(cx: Context, name: str, terms: Sequence[Term], node: ast.AST) -> Const | None:
    """Return a function of literals as a literal."""
    numbers = [t.value for t in terms if isinstance(t, Const) and not isinstance(t.value, bool)]
    if len(numbers) != len(terms):
        return None
    try:
        row = all_ops().get(name)
        if name == "frac" or (row is not None and row.built_in is not None and row.built_in.of_floats):
            return Const(INTRINSICS[name](*map(float, numbers)))
        if name in _OF_ANY_NUMBER:
            return Const(type(numbers[0])(INTRINSICS[name](*numbers)))
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        remedy = "write numbers for which it has a value"
        cx.type_error(node, f"{name}({', '.join(map(str, numbers))}): {error}", remedy)
    return None
