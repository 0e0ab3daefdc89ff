"""Types that meet: weak literals, promotion, conversion on stores, and what merges after branches and loops.

In: terms. Out: IR values of one type, or an error that says which conversion to write. The rules are those of NumPy's
NEP 50 with one addition: an integer that meets a float becomes that float (int32 * float32 is float32).
"""

from __future__ import annotations

import ast
import math

from diffkern.frontend.context import Context
from diffkern.frontend.terms import Const, Term, Val, View, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Value

__all__ = [
    "as_bool",
    "convert",
    "default_type",
    "explicit_cast",
    "is_number",
    "join",
    "promote",
    "scalar_term",
    "unify",
    "value",
]


def default_type(const: Const) -> T.Scalar:
    """The type of a literal that meets no other type: bool, int32 (int64 where it does not fit), float32."""
    if isinstance(const.value, bool):
        return T.BOOL
    if isinstance(const.value, float):
        return T.FLOAT32
    return next((t for t in (T.INT32, T.INT64, T.UINT64) if fits(const.value, t)), T.INT64)


def fits(number: int, t: T.Scalar) -> bool:
    """Whether an integer lies in the range of an integer type."""
    if t.kind is T.Kind.UINT:
        return 0 <= number < 1 << t.bits
    return -(1 << (t.bits - 1)) <= number < 1 << (t.bits - 1)


def literal(cx: Context, const: Const, to: T.Scalar, node: ast.AST) -> Value:
    """A literal as a constant of a type it can take without loss of meaning."""
    number = const.value
    if to.is_integer:
        if isinstance(number, float):
            cx.type_error(
                node,
                f"the float {number} cannot become {to}",
                f"write {int(number) if math.isfinite(number) else 0}, or int(...) to drop the fraction",
            )
        if not fits(number, to):
            cx.type_error(node, f"{number} does not fit in {to}", "use a wider type, for example dk.int64(...)")
    out = cx.b.const(number, to)
    if to.is_integer and number >= 0:
        cx.nonneg.add(out)
    return out


def value(cx: Context, term: Term, node: ast.AST) -> Value:
    """A term as an IR value; literals take their default type."""
    if isinstance(term, Val):
        return term.value
    if isinstance(term, Const):
        return literal(cx, term, default_type(term), node)
    if isinstance(term, View):
        cx.type_error(node, f"{describe(term)} is used as a value", "index it, as in a[i]; whole arrays are not values")
    cx.type_error(node, f"{describe(term)} is used as a value", "use a number, a vector or a matrix here")


def is_number(term: Term) -> bool:
    """Whether a term is a scalar."""
    return isinstance(term, Const) or (isinstance(term, Val) and isinstance(term.type, T.Scalar))


def scalar_term(cx: Context, term: Term, node: ast.AST, what: str) -> Const | Val:
    """A term that must be a number or a bool."""
    if isinstance(term, Const) or (isinstance(term, Val) and isinstance(term.type, T.Scalar)):
        return term
    cx.type_error(node, f"{what} must be a number, not {describe(term)}", tile_remedy(term))


def tile_remedy(term: Term, otherwise: str | None = None) -> str | None:
    """What to write where a tile stands and a number is wanted; ``otherwise`` for what is no tile."""
    if not isinstance(term, Val) or not isinstance(term.value.type, T.Tile):
        return otherwise
    first = f"[{', '.join('0' * term.value.type.ndim)}]"
    return f"take one of its elements, as in tile{first}" + (
        "" if term.value.type.size == 1 else "; dk.tile_map applies a function to all"
    )


# -- promotion ---------------------------------------------------------------------------------------------------------

_INTS = (T.INT8, T.INT16, T.INT32, T.INT64)


def promote(a: T.Scalar, b: T.Scalar) -> T.Scalar | None:
    """The type in which two strongly typed numbers are combined, or None if there is none."""
    if a == b:
        return a
    if T.BOOL in (a, b):
        return None
    if a.is_float or b.is_float:
        floats = [t for t in (a, b) if t.is_float]
        return max(floats, key=lambda t: t.bits)
    if a.kind is b.kind:
        return max(a, b, key=lambda t: t.bits)
    unsigned, signed = (a, b) if a.kind is T.Kind.UINT else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    return next((t for t in _INTS if t.bits > unsigned.bits), None)


def common(cx: Context, a: Const | Val, b: Const | Val, node: ast.AST, what: str) -> T.Scalar:
    """The scalar type in which two operands (scalars, or the components of composites) are combined."""
    ta, tb = _scalar_type(a), _scalar_type(b)
    weak_a, weak_b = _is_weak(a), _is_weak(b)
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
        return T.FLOAT32  # a float literal and an integer
    if weak_a and weak_b and ta.is_integer and tb.is_integer and not (isinstance(a, Val) and isinstance(b, Val)):
        return max(ta, tb, key=lambda t: t.bits)
    found = promote(ta, tb)
    if found is None:
        cx.type_error(node, f"no integer type holds both {ta} and {tb}", "convert one of them, as in dk.int64(x)")
    return found


def _scalar_type(term: Const | Val) -> T.Scalar:
    return default_type(term) if isinstance(term, Const) else T.scalar_of(term.type)


def _is_weak(term: Const | Val) -> bool:
    return term.weak if isinstance(term, Val) else not isinstance(term.value, bool)


def to_scalar(cx: Context, term: Const | Val, to: T.Scalar, node: ast.AST) -> Value:
    """An operand with another scalar type: a literal becomes a constant of it, a value is cast."""
    if isinstance(term, Const):
        return literal(cx, term, to, node)
    target = T.with_scalar(term.type, to)
    out = cx.b.cast(term.value, target)
    if term.value in cx.nonneg and _value_bits(to) >= _value_bits(T.scalar_of(term.type)):
        cx.nonneg.add(out)
    return out


def _value_bits(t: T.Scalar) -> int:
    """How many bits of an integer type say how large a number is; 0 for other types."""
    return t.bits - (t.kind is T.Kind.INT) if t.is_integer else 0


def unify(cx: Context, a: Const | Val, b: Const | Val, node: ast.AST, what: str) -> tuple[Value, Value, bool]:
    """Two operands as values of one scalar type, and whether the result is weak.

    A float made of an integer and a literal is weak as well: nothing but the default has chosen its width.
    """
    t = common(cx, a, b, node, what)
    weak = all(_is_weak(x) or (t.is_float and _scalar_type(x).is_integer) for x in (a, b))
    return to_scalar(cx, a, t, node), to_scalar(cx, b, t, node), weak


# -- conversion --------------------------------------------------------------------------------------------------------


def implicit(source: T.Scalar, to: T.Scalar) -> bool:
    """Whether a value may be stored in another type unasked: nothing is lost but the last digits of an integer."""
    if source == to:
        return True
    if T.BOOL in (source, to):
        return False
    if to.is_float:
        return source.is_integer or source.bits <= to.bits
    if source.is_float:
        return False
    if source.kind is to.kind:
        return source.bits <= to.bits
    return source.kind is T.Kind.UINT and source.bits < to.bits


def convert(cx: Context, term: Term, to: T.Element, node: ast.AST, what: str) -> Value:
    """A term as a value of the type that a store or a parameter takes; ``what`` names that place in errors."""
    if isinstance(term, Const):
        if not isinstance(to, T.Scalar):
            cx.type_error(node, f"{what} takes {to}, not {describe(term)}", _constructor_hint(to))
        if isinstance(term.value, bool) != (to == T.BOOL):
            cx.type_error(node, f"{what} takes {to}, not {describe(term)}", f"write {_cast_spelling(to)}(...)")
        return literal(cx, term, to, node)
    if not isinstance(term, Val):
        cx.type_error(node, f"{what} takes {to}, not {describe(term)}")
    if term.type == to:
        return term.value
    if isinstance(term.value.type, T.Tile) or str(to).startswith("tile<"):
        same = "tiles must have the same shape and dtype"
        remedy = same if str(to).startswith("tile<") else tile_remedy(term)
        cx.type_error(node, f"{what} takes {to}, not {term.type}", remedy)
    if T.with_scalar(term.type, T.BOOL) != T.with_scalar(to, T.BOOL):
        cx.type_error(node, f"{what} takes {to}, not {term.type}", _constructor_hint(to))
    source, target = T.scalar_of(term.type), T.scalar_of(to)
    weak_int = term.weak and source.is_integer and target.is_integer
    if not (implicit(source, target) or weak_int):
        cx.type_error(node, f"{what} takes {to}, not {term.type}", f"convert it: {_cast_spelling(to)}(...)")
    return to_scalar(cx, term, target, node)


def _cast_spelling(t: T.Element) -> str:
    names: dict[T.Element, str] = {T.FLOAT32: "float", T.INT32: "int", T.BOOL: "bool"}
    if t in names:
        return names[t]
    return f"dk.{t}" if isinstance(t, T.Scalar) else _composite_name(t)


def _composite_name(t: T.Composite) -> str:
    suffix = {"float32": "", "float64": "d", "int32": "i", "uint32": "u", "int64": "l"}.get(t.dtype.name, "")
    return "dk." + ("vec" if isinstance(t, T.Vec) else "mat") + "".join(map(str, t.shape)) + suffix


def _constructor_hint(t: T.Element) -> str:
    if isinstance(t, T.Scalar):
        return "take one component, as in v[0], or a length"
    return f"make one with {_composite_name(t)}(...)"


def explicit_cast(cx: Context, term: Term, to: T.Scalar, node: ast.AST) -> Const | Val:
    """``float(x)``, ``dk.int64(x)`` and so on: any scalar to any scalar, or a composite component by component."""
    if isinstance(term, Const):
        if to == T.BOOL:
            return Const(bool(term.value))
        number = float(term.value) if to.is_float else term.value
        if isinstance(number, float) and to.is_integer:
            if not math.isfinite(number):
                cx.type_error(node, f"{number} cannot become {to}")
            number = math.trunc(number)
        return Val(literal(cx, Const(number if to.is_float else int(number)), to, node))
    if not isinstance(term, Val):
        cx.type_error(node, f"{describe(term)} cannot be converted to {to}")
    if to in T.STORAGE_ONLY:
        cx.type_error(node, f"{to} is a storage type", "compute in dk.float32; storing to such an array rounds")
    if to == T.BOOL:
        return as_bool(cx, term, node)
    return Val(to_scalar(cx, term, to, node))


def as_bool(cx: Context, term: Term, node: ast.AST) -> Const | Val:
    """The truth of a number: not equal to zero."""
    if isinstance(term, Const):
        return Const(bool(term.value))
    if not isinstance(term, Val) or not isinstance(term.type, T.Scalar):
        remedy = tile_remedy(term, "compare numbers, as in x[i] > 0.0")
        cx.type_error(node, f"{describe(term)} is used as a condition", remedy)
    if term.type == T.BOOL:
        return term
    return Val(cx.b.one("ne", term.value, cx.b.const(0, term.type)))


# -- merging -----------------------------------------------------------------------------------------------------------


def join(a: T.Element, weak_a: bool, b: T.Element, weak_b: bool) -> tuple[T.Element, bool] | None:
    """The type of a variable that has one type on one path and another on the other, or None if they do not fit.

    Only literals give way: to a number that is not one, and ints to floats.
    """
    if a == b:
        return a, weak_a and weak_b
    if not isinstance(a, T.Scalar) or not isinstance(b, T.Scalar) or T.BOOL in (a, b):
        return None
    if weak_a and weak_b:
        if a.is_float or b.is_float:
            return T.FLOAT32, True
        return max(a, b, key=lambda t: t.bits), True
    if weak_a == weak_b:
        return None
    weak, strong = (a, b) if weak_a else (b, a)
    return (strong, False) if weak.is_integer or strong.is_float else None
