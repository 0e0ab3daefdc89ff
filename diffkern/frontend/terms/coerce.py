"""Combination of types: weak literals, promotion, conversion on stores, and merging after branches and loops.

Terms become IR values of one type, or an error that says which conversion to write. The rules are those of NumPy's
NEP 50 with one addition: an integer combined with a float becomes that float (int32 * float32 is float32).
"""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Mapping
from typing import Any, Final

from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import (
    NARROW,
    WEAK,
    WEAK_COMPLEX,
    WEAK_FLOAT,
    WEAK_INT,
    Const,
    Static,
    Term,
    Val,
    View,
    describe,
    nullness,
    presence,
)
from diffkern.frontend.terms.weak import fits
from diffkern.ir import types as T
from diffkern.ir.nodes import Value

__all__ = [
    "as_bool",
    "convert",
    "default_type",
    "explicit_cast",
    "is_number",
    "join",
    "numba_common",
    "own_value",
    "promote",
    "scalar_term",
    "unify",
    "value",
    "weak_type",
    "widened",
]


def default_type(const: Const) -> T.Scalar:
    """Return the type of a literal that is combined with no other type: bool, int32 (int64 if it does not fit),
    float32.
    """
    if isinstance(const.value, bool):
        return T.BOOL
    if isinstance(const.value, float):
        return T.FLOAT32
    return next((t for t in (T.INT32, T.INT64, T.UINT64) if fits(const.value, t)), T.INT64)


def weak_type(const: Const) -> T.Scalar:
    """Return the type of a literal that has met no other type yet."""
    if isinstance(const.value, bool):
        return T.BOOL
    return WEAK_FLOAT if isinstance(const.value, float) else WEAK_INT


def default(t: T.Element) -> Any:
    """Return the type that a value takes if it needs one, and nothing it has met decides."""
    return _DEFAULTS.get(t, t)


_DEFAULTS: Final[Mapping[T.Element, T.Element]] = {
    WEAK_FLOAT: T.FLOAT32,
    WEAK_INT: T.INT32,
    WEAK_COMPLEX: T.complex_number(T.FLOAT32),
}


def literal(cx: Context, const: Const, to: T.Scalar, node: ast.AST) -> Value:
    """Return a literal as a constant of a type that it can take without loss of meaning."""
    number = const.value
    if to.is_integer:
        if isinstance(number, float):
            cx.type_error(
                node,
                f"the float {number} cannot become {to}",
                f"write {int(number) if math.isfinite(number) else 0}, or int(...) to drop the fraction",
            )
        # A weak integer may be any that some integer type holds: what it meets decides.
        if not (fits(number, to) or (to == WEAK_INT and (fits(number, T.INT64) or fits(number, T.UINT64)))):
            cx.type_error(node, f"{number} does not fit in {to}", "use a wider type, for example dk.int64(...)")
    elif isinstance(number, int) and abs(number) > sys.float_info.max:
        cx.type_error(node, f"an integer beyond all floats cannot become {to}", "write math.inf, or a smaller number")
    out = cx.b.const(number, to)
    if to.is_integer and number >= 0:
        cx.nonneg.add(out)
    return out


def value(cx: Context, term: Term, node: ast.AST) -> Value:
    """Return a term as an IR value; literals and values made of them take their default type."""
    if isinstance(term, Val):
        # Nothing else decides on the type any more.
        return cx.b.cast(term.value, default(term.type)) if term.type in WEAK else term.value
    if isinstance(term, Const):
        return literal(cx, term, default_type(term), node)
    if isinstance(term, View):
        cx.type_error(node, f"{describe(term)} is used as a value", "index it, as in a[i]; whole arrays are not values")
    cx.type_error(node, f"{describe(term)} is used as a value", "use a number, a vector or a matrix here")


def own_value(cx: Context, term: Const | Val, node: ast.AST) -> Value:
    """Return a number as an IR value of its own type, which is weak for a literal."""
    return term.value if isinstance(term, Val) else literal(cx, term, weak_type(term), node)


def is_number(term: Term) -> bool:
    """Return whether a term is a scalar."""
    return isinstance(term, Const) or (isinstance(term, Val) and isinstance(term.type, T.Scalar))


def scalar_term(cx: Context, term: Term, node: ast.AST, what: str) -> Const | Val:
    """Return a term that must be a number or a bool."""
    if isinstance(term, Const) or (isinstance(term, Val) and isinstance(term.type, T.Scalar)):
        return term
    cx.type_error(node, f"{what} must be a number, not {describe(term)}", tile_remedy(term, _by_component(term)))


def _why_none(term: Static) -> str:
    return f": {term.name} returns nothing" if term.name.endswith("(...)") else ""


def _by_component(term: Term) -> str | None:
    """Return the remedy for a vector, a matrix or an array where a number is wanted."""
    if isinstance(term, View):
        return "index the array, one index for each axis" if term.spans else None
    if isinstance(term, Val) and T.is_complex(term.value.type):
        return "take its parts, z.real and z.imag, or abs(z)"
    if isinstance(term, Val) and isinstance(term.type, (T.Vec, T.Mat)):
        name = _composite_name(term.type)
        first, last = (
            ("0, 0", f"{term.type.shape[0] - 1}, {term.type.shape[-1] - 1}")
            if isinstance(term.type, T.Mat)
            else ("0", str(term.type.size - 1))
        )
        return f"take its components one by one, as in {name}(f(v[{first}]), ..., f(v[{last}]))"
    if isinstance(term, Static):
        return "give it a value: a number, or what a function returns"
    return None


def tile_remedy(term: Term, otherwise: str | None = None) -> str | None:
    """Return the remedy for a tile where a number is wanted; ``otherwise`` if it is no tile."""
    if not isinstance(term, Val) or not isinstance(term.value.type, T.Tile):
        return otherwise
    first = f"[{', '.join('0' * term.value.type.ndim)}]"
    return f"take one of its elements, as in tile{first}" + (
        "" if term.value.type.size == 1 else "; dk.tile_map applies a function to all"
    )


# -- promotion ---------------------------------------------------------------------------------------------------------

_NARROW = frozenset(NARROW.values())
_INTS = (T.INT8, T.INT16, T.INT32, T.INT64)


def promote(a: T.Scalar, b: T.Scalar) -> T.Scalar | None:
    """Return the type in which two strongly typed numbers are combined, or None if there is none."""
    if a == b:
        return a
    if a in _NARROW and b in _NARROW:
        return T.FLOAT32
    if T.BOOL in (a, b):
        return None
    if a.is_float or b.is_float:
        floats = [t for t in (a, b) if t.is_float]
        # An integer becomes that float, however many digits it has.
        return max(floats, key=lambda t: t.bits)
    if a.kind is b.kind:
        # Of one kind, the wider one holds both.
        return max(a, b, key=lambda t: t.bits)
    # The smallest signed type that holds both; there is none for uint64.
    unsigned, signed = (a, b) if a.kind is T.Kind.UINT else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    return next((t for t in _INTS if t.bits > unsigned.bits), None)


def common(cx: Context, a: Const | Val, b: Const | Val, node: ast.AST, what: str) -> T.Scalar:
    """Return the scalar type in which two operands (scalars, or the components of composites) are combined."""
    ta, tb = _scalar_type(a), _scalar_type(b)
    weak_a, weak_b = ta in WEAK, tb in WEAK
    if cx.layout is not None and ta != tb:
        return numba_common(ta, tb)
    if T.BOOL in (ta, tb) and ta != tb:
        cx.type_error(
            node,
            f"{what} of {describe(a)} and {describe(b)}",
            "convert the bool first: int(b), float(b) or where(b, 1.0, 0.0)",
        )
    if weak_a != weak_b:
        weak, strong = (ta, tb) if weak_a else (tb, ta)
        if strong.is_float or weak.is_integer:
            return strong
        # A float literal and an integer: nothing but the default has chosen the width of the result.
        return WEAK_FLOAT if is_number(a) and is_number(b) else T.FLOAT32
    if weak_a and weak_b:
        return WEAK_FLOAT if WEAK_FLOAT in (ta, tb) else WEAK_INT
    found = promote(ta, tb)
    if found is None:
        cx.type_error(node, f"no integer type holds both {ta} and {tb}", "convert one of them, as in dk.int64(x)")
    return found


def numba_common(a: T.Scalar, b: T.Scalar) -> T.Scalar:
    """Return numba's type of the combination of two numbers of different types; a bool is an integer."""
    a, b = (WEAK_INT if t == T.BOOL else t for t in (a, b))
    if a in WEAK and b in WEAK:
        return WEAK_FLOAT if WEAK_FLOAT in (a, b) else WEAK_INT
    if a in WEAK or b in WEAK:
        weak, strong = (a, b) if a in WEAK else (b, a)
        return strong if strong.is_float or weak.is_integer else weak
    return promote(a, b) or T.FLOAT64


def _scalar_type(term: Const | Val) -> T.Scalar:
    return weak_type(term) if isinstance(term, Const) else T.scalar_of(term.type)


def to_scalar(cx: Context, term: Const | Val, to: T.Scalar, node: ast.AST) -> Value:
    """Return an operand with another scalar type: a literal becomes a constant of it, a value is cast."""
    if isinstance(term, Const):
        return literal(cx, term, to, node)
    target = T.with_scalar(term.type, to)
    out = cx.b.cast(term.value, target)
    # A cast to a type with as many value bits keeps a number non-negative.
    if term.value in cx.nonneg and _value_bits(to) >= _value_bits(T.scalar_of(term.type)):
        cx.nonneg.add(out)
    return out


def _value_bits(t: T.Scalar) -> int:
    """Return how many bits of an integer type hold the magnitude; 0 for other types."""
    return t.bits - (t.kind is T.Kind.INT) if t.is_integer else 0


def unify(cx: Context, a: Const | Val, b: Const | Val, node: ast.AST, what: str) -> tuple[Value, Value]:
    """Return two operands as values of one scalar type."""
    t = common(cx, a, b, node, what)
    return to_scalar(cx, a, t, node), to_scalar(cx, b, t, node)


def widened(cx: Context, *terms: Const | Val) -> tuple[Const | Val, ...]:
    """Return the operands of an operator: in numba's spelling bools and narrow integers have 64 bits there.

    Unsigned ones stay unsigned if all are; a literal is signed.
    """
    if cx.layout is None:
        return terms
    unsigned = all(isinstance(t, Val) and T.scalar_of(t.type).kind is T.Kind.UINT for t in terms)
    return tuple(_widened(cx, t, T.UINT64 if unsigned else T.INT64) for t in terms)


def _widened(cx: Context, term: Const | Val, wide: T.Scalar) -> Const | Val:
    if isinstance(term, Const) or not isinstance(term.type, T.Scalar):
        return term
    t = term.type
    if t in WEAK or t.is_float or t.bits == 64:
        return term
    out = cx.b.cast(term.value, wide)
    if term.value in cx.nonneg or t == T.BOOL or t.kind is T.Kind.UINT:
        cx.nonneg.add(out)
    return Val(out)


# -- conversion --------------------------------------------------------------------------------------------------------


def implicit(source: T.Scalar, to: T.Scalar) -> bool:
    """Return whether a value may be stored in another type implicitly: only the last digits of an
    integer may be lost.
    """
    if source == to:
        return True
    if T.BOOL in (source, to):
        return False
    if to.is_float:
        return source.is_integer or source.bits <= to.bits or (to in _NARROW and source == T.FLOAT32)
    if source.is_float:
        return False
    if source.kind is to.kind:
        return source.bits <= to.bits
    return source.kind is T.Kind.UINT and source.bits < to.bits


def convert(cx: Context, term: Term, to: T.Element, node: ast.AST, what: str) -> Value:
    """Return a term as a value of the type of a store or a parameter; ``what`` names that place in errors."""
    if cx.layout is not None and isinstance(to, T.Scalar) and is_number(term):
        return _numba_convert(cx, term, to, node)  # type: ignore[arg-type]
    if T.is_complex(to) and is_number(term):
        assert isinstance(term, (Const, Val))
        part = convert(cx, term, T.scalar_of(to), node, what)
        return cx.b.construct(to, [part, cx.b.zero(part.type)])
    if isinstance(term, Const):
        if not isinstance(to, T.Scalar):
            cx.type_error(node, f"{what} takes {to}, not {describe(term)}", _constructor_hint(to))
        # True is an int for Python; here a bool and a number are different types in both directions.
        if isinstance(term.value, bool) != (to == T.BOOL):
            cx.type_error(node, f"{what} takes {to}, not {describe(term)}", f"write {_cast_spelling(to)}(...)")
        return literal(cx, term, to, node)
    if isinstance(term, Static) and term.obj is None:
        cx.type_error(node, f"{what} takes {to}, not None{_why_none(term)}", "end the @dk.func with return ...")
    if not isinstance(term, Val):
        cx.type_error(node, f"{what} takes {to}, not {describe(term)}", _by_component(term))
    if term.type == to:
        return term.value
    if isinstance(term.value.type, T.Tile) or str(to).startswith("tile<"):
        same = "tiles must have the same shape and dtype"
        remedy = same if str(to).startswith("tile<") else tile_remedy(term)
        cx.type_error(node, f"{what} takes {to}, not {term.type}", remedy)
    if T.with_scalar(term.type, T.BOOL) != T.with_scalar(to, T.BOOL):
        if T.is_complex(term.type) and isinstance(to, T.Scalar):
            cx.type_error(
                node,
                f"{what} takes {to}, not {term.type}: the result of this expression is a complex number",
                "take a part of it, z.real or z.imag, or abs(z); or make the array of dk.complex64",
            )
        cx.type_error(node, f"{what} takes {to}, not {term.type}", _constructor_hint(to))
    source, target = T.scalar_of(term.type), T.scalar_of(to)
    # A value computed from literals alone still gives way, unless a fraction or a truth value would be lost.
    weak = source in WEAK and (source.is_integer or target.is_float) and target != T.BOOL
    if not (implicit(source, target) or weak):
        cx.type_error(node, f"{what} takes {to}, not {term.type}", f"convert it: {_cast_spelling(to)}(...)")
    return to_scalar(cx, term, target, node)


def _numba_convert(cx: Context, term: Const | Val, to: T.Scalar, node: ast.AST) -> Value:
    """Return a number as any other type, by numba's rules for stores and assignments."""
    if isinstance(term, Val) and term.type == to:
        return term.value
    if isinstance(term, Const) and isinstance(term.value, bool) and to != T.BOOL:
        term = Const(int(term.value))
    if to in WEAK and isinstance(term, Const):
        return literal(cx, Const(float(term.value)) if to.is_float else term, to, node)
    made = explicit_cast(cx, term, to, node)
    return made.value if isinstance(made, Val) else literal(cx, made, to, node)


def _cast_spelling(t: T.Element) -> str:
    names: dict[T.Element, str] = {T.FLOAT32: "float", T.INT32: "int", T.BOOL: "bool"}
    if t in names:
        return names[t]
    return f"dk.{t}" if isinstance(t, T.Scalar) else _composite_name(t)


def _composite_name(t: T.Composite) -> str:
    if T.is_complex(t):
        return f"dk.{t}"
    suffix = {"float32": "", "float64": "d", "int32": "i", "uint32": "u", "int64": "l"}.get(t.dtype.name, "")
    return "dk." + ("vec" if isinstance(t, T.Vec) else "mat") + "".join(map(str, t.shape)) + suffix


def _constructor_hint(t: T.Element) -> str:
    if isinstance(t, T.Scalar):
        return "take one component, as in v[0], or a length"
    return f"make one with {_composite_name(t)}(...)"


def explicit_cast(cx: Context, term: Term, to: T.Scalar, node: ast.AST) -> Const | Val:
    """Convert by ``float(x)``, ``dk.int64(x)`` and so on: any scalar to any scalar, or a composite component by
    component.
    """
    if isinstance(term, Const):
        if to == T.BOOL:
            return Const(bool(term.value))
        number = float(term.value) if to.is_float else term.value
        if isinstance(number, float) and to.is_integer:
            if not math.isfinite(number):
                cx.type_error(node, f"{number} cannot become {to}", "write a number that the type holds")
            number = math.trunc(number)
        elif to.is_integer and cx.dialect.integers_wrap:
            number = T.wrap_integer(int(number), to)
        return Val(literal(cx, Const(number if to.is_float else int(number)), to, node))
    if not isinstance(term, Val):
        cx.type_error(node, f"{describe(term)} cannot be converted to {to}", "convert a number, as in float(x)")
    if to == T.BOOL:
        return as_bool(cx, term, node)
    if to.is_integer and isinstance(term.type, T.Scalar) and term.value in cx.quotients:
        return Val(cx.b.cast(cx.b.one("truncdiv", *cx.quotients[term.value]), to))  # no rounding through floats
    return Val(to_scalar(cx, rounded(cx, term), to, node))


def rounded(cx: Context, term: Val) -> Val:
    """Return the converted term: in Warp's dialect a number of float16 or bfloat16 is rounded to its type first."""
    narrow = isinstance(term.type, (T.Scalar, T.Vec, T.Mat)) and T.scalar_of(term.type) in _NARROW
    if not (narrow and cx.dialect.narrow_elements):
        return term
    # Not by `Builder.cast`, which leaves out a cast to the same type: it is the rounding.
    return Val(cx.b.one("cast", term.value, to=term.type))


def as_bool(cx: Context, term: Term, node: ast.AST) -> Const | Val:
    """Return the truth of a number: not equal to zero; that of an array: not null."""
    if isinstance(term, Const):
        return Const(bool(term.value))
    null = nullness(term)
    if null is not None:
        return Const(not null)
    present = presence(term)
    if present is not None:
        return Val(present)
    if isinstance(term, View) and term.array.outer:
        outer, wrap = term.outer
        return Val(cx.b.one("points", term.base, *outer, wrap=wrap))
    if not isinstance(term, Val) or not isinstance(term.type, T.Scalar):
        remedy = tile_remedy(term, "compare numbers, as in x[i] > 0.0")
        if isinstance(term, Val) and isinstance(term.value.type, T.Tile) and term.value.type.size > 1:
            remedy = f"{remedy}; dk.where(tile, a, b) chooses for each, and & | ~ combine tiles of conditions"
        cx.type_error(node, f"{describe(term)} is used as a condition", remedy)
    if term.type == T.BOOL:
        return term
    return Val(cx.b.one("ne", term.value, cx.b.const(0, term.type)))


# -- merging -----------------------------------------------------------------------------------------------------------


def join(a: T.Element, b: T.Element, *, numba: bool = False) -> T.Element | None:
    """Return the type of a variable with one type on one path and another on the other, or None if they do not fit.

    Only literals give way: to a number that is not one, and ints to floats; and float16 and bfloat16 to float32, as
    which they are computed with, in vectors and matrices as well. In `numba`'s spelling every number does.
    """
    if a == b:
        return a
    if T.is_complex(a) or T.is_complex(b):
        return _join_complex(a, b)
    if not numba and {T.scalar_of(a), T.scalar_of(b)} <= {*_NARROW, T.FLOAT32}:
        wide = T.with_scalar(a, T.FLOAT32)
        return wide if wide == T.with_scalar(b, T.FLOAT32) else None
    if not isinstance(a, T.Scalar) or not isinstance(b, T.Scalar):
        return None
    if numba:
        return numba_common(a, b)
    if T.BOOL in (a, b):
        return None
    if a in WEAK and b in WEAK:
        return WEAK_FLOAT
    if (a in WEAK) == (b in WEAK):
        return None
    weak, strong = (a, b) if a in WEAK else (b, a)
    return strong if weak.is_integer or strong.is_float else None


def _join_complex(a: T.Element, b: T.Element) -> T.Element | None:
    """Like :func:`join`, for a complex number with another number; literals of real ones give way too."""
    if a in WEAK and b in WEAK:
        return WEAK_COMPLEX
    weak, strong = (a, b) if a in WEAK else (b, a)
    return strong if weak in WEAK and T.is_complex(strong) else None
