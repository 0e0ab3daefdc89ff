"""``cast(x, dtype)``: the same bits as another type.

A number, a vector, a matrix or a struct, and a type of the same size, give a value of that type. Bytes are laid out as
in memory: components one after the other, fields of structs where C aligns them, with zeros between.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, NoReturn, TypeAlias

from diffkern.frontend.statements import arguments
from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import NARROW, Const, Rec, Static, Term, Val, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.ir.structs import FieldType, Struct
from diffkern.lang import definition_of, resolve_dtype

__all__ = ["CALLS"]

_Stored: TypeAlias = "T.Scalar | T.Vec | T.Mat | Struct"
_STORED: Final = {held: stored for stored, held in NARROW.items()}


class _Piece(NamedTuple):
    """An unsigned integer, and its first bit."""

    value: Value
    start: int


def _cast(cx: Context, name: str, node: ast.Call) -> Term:
    node = arguments.in_order(cx, "cast", name, node)
    if len(node.args) != 2:
        cx.type_error(
            node, f"{name} takes a value and a type, not {len(node.args)} arguments", f"write {name}(x, dk.uint32)"
        )
    term, to = cx.expr(node.args[0]), _type(cx, cx.expr(node.args[1]), name, node)
    if isinstance(term, Const):
        term = Val(coerce.value(cx, term, node))
    source = _type_of(cx, term, name, node)
    have, want = _size(source), _size(to)
    if have != want:
        remedy = "both have the same number of bytes; a conversion is written as in dk.float64(x)"
        cx.type_error(node, f"{name} of {_named(source)} ({have} bytes) to {_named(to)} ({want} bytes)", remedy)
    pieces = list(_pieces(cx, term, source, 0, node))
    return _made(cx, to, 0, pieces)


def _type(cx: Context, term: Term, name: str, node: ast.Call) -> _Stored:
    if isinstance(term, Static):
        definition = definition_of(term.obj)
        if definition is not None:
            return definition.type
        try:
            found = resolve_dtype(term.obj)
        except TypeError:
            found = None
        if isinstance(found, (T.Scalar, T.Vec, T.Mat)):
            return found
    cx.type_error(node, f"{name} to {describe(term)}", f"name a type, as in {name}(x, dk.int32)")


def _type_of(cx: Context, term: Term, name: str, node: ast.Call) -> _Stored:
    if isinstance(term, Rec):
        return term.struct
    if not isinstance(term, Val) or not isinstance(term.type, (T.Scalar, T.Vec, T.Mat)):
        _refuse(cx, name, term, node)
    scalar = coerce.default(T.scalar_of(term.type))
    # A weak literal takes its default type, and a 16-bit float counts with its stored size, not with float32's.
    return T.with_scalar(term.type, _STORED.get(scalar, scalar))


def _refuse(cx: Context, name: str, term: Term, node: ast.Call) -> NoReturn:
    cx.type_error(node, f"{name} of {describe(term)}", "it takes a number, a vector, a matrix or a struct")


# -- where bytes stand -------------------------------------------------------------------------------------------------


def _named(t: _Stored) -> str:
    return t.name if isinstance(t, Struct) else str(t)


def _alignment(t: FieldType) -> int:
    if isinstance(t, Struct):
        return max((_alignment(inner) for _, inner in t.fields), default=1)
    return T.scalar_of(t).itemsize if isinstance(t, (T.Scalar, T.Vec, T.Mat)) else 8


def _fields(t: Struct) -> Iterator[tuple[FieldType, int]]:
    """Yield the fields, and the first byte of each."""
    at = 0
    for _, inner in t.fields:
        at += -at % _alignment(inner)
        yield inner, at
        at += _size(inner)


def _size(t: FieldType) -> int:
    """Return the bytes of a type; for an array among the fields, as many as its descriptor has."""
    if isinstance(t, Struct):
        end = max((at + _size(inner) for inner, at in _fields(t)), default=0)
        return end + -end % _alignment(t)
    if isinstance(t, (T.Scalar, T.Vec, T.Mat)):
        return T.scalar_of(t).itemsize * (1 if isinstance(t, T.Scalar) else t.size)
    return 64


# -- from values to bits and back --------------------------------------------------------------------------------------


def _pieces(cx: Context, term: Term, t: FieldType, at: int, node: ast.Call) -> Iterator[_Piece]:
    """Yield the bits of a value that starts at a byte."""
    if isinstance(t, Struct) and isinstance(term, Rec):
        for item, (inner, offset) in zip(term.items, _fields(t), strict=True):
            yield from _pieces(cx, item, inner, at + offset, node)
        return
    if not isinstance(t, (T.Scalar, T.Vec, T.Mat)) or not isinstance(term, (Const, Val)):
        cx.type_error(node, f"cast of a struct with {describe(term)}", "its fields must be numbers, vectors, matrices")
    value, scalar = coerce.value(cx, term, node), T.scalar_of(t)
    components = [value] if isinstance(value.type, T.Scalar) else cx.b.components(value)
    for k, component in enumerate(components):
        yield _Piece(_to_bits(cx, component, scalar), 8 * (at + k * scalar.itemsize))


def _unsigned(bits: int) -> T.Scalar:
    return {8: T.UINT8, 16: T.UINT16, 32: T.UINT32, 64: T.UINT64}[bits]


def _to_bits(cx: Context, value: Value, t: T.Scalar) -> Value:
    if t.is_float:
        return cx.b.one(f"bits_of_{t}", cx.b.cast(value, T.value_type(t)))
    return cx.b.cast(value, _unsigned(8 * t.itemsize))


def _made(cx: Context, t: FieldType, at: int, pieces: list[_Piece]) -> Term:
    """Return the value of a type that starts at a byte."""
    if isinstance(t, Struct):
        return Rec(t, tuple(_made(cx, inner, at + offset, pieces) for inner, offset in _fields(t)))
    assert isinstance(t, (T.Scalar, T.Vec, T.Mat))
    scalar, count = T.scalar_of(t), 1 if isinstance(t, T.Scalar) else t.size
    found = [_from_bits(cx, _gathered(cx, at + k * scalar.itemsize, scalar, pieces), scalar) for k in range(count)]
    if isinstance(t, T.Scalar):
        return Val(found[0])
    return Val(cx.b.construct(T.with_scalar(t, T.scalar_of(found[0].type)), found))


def _gathered(cx: Context, at: int, t: T.Scalar, pieces: list[_Piece]) -> Value:
    """Return the bits of a number that starts at a byte."""
    b, bits, start = cx.b, 8 * t.itemsize, 8 * at
    out: Value | None = None
    for value, first in pieces:
        held = T.scalar_of(value.type)
        # A piece that does not overlap the number; padding thus stays 0.
        if first >= start + bits or first + held.bits <= start:
            continue
        part = b.one("shr", value, b.const(start - first, held)) if first < start else value
        # Cast before shifting up: the upper bits would be lost in the narrower type.
        part = b.cast(part, _unsigned(bits))
        if first > start:
            part = b.one("shl", part, b.const(first - start, _unsigned(bits)))
        out = part if out is None else b.one("or", out, part)
    return b.const(0, _unsigned(bits)) if out is None else out


def _from_bits(cx: Context, bits: Value, t: T.Scalar) -> Value:
    if t.is_float:
        return cx.b.cast(cx.b.one(f"{t}_of_bits", bits), NARROW.get(t, t))
    if t == T.BOOL:
        return cx.b.one("ne", bits, cx.b.const(0, T.scalar_of(bits.type)))
    return cx.b.cast(bits, t)


CALLS: Final[Mapping[str, Callable[[Context, str, ast.Call], Term]]] = {"cast": _cast}
