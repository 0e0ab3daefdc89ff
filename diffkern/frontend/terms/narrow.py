"""Numbers of float16 and bfloat16 as values: computed with in float32, rounded where they are named or converted.

While a kernel is lowered, such a value has the type ``HALF`` or ``BRAIN`` (:mod:`terms`), so that conversions, merged
variables and parameters distinguish it from float32. :func:`widen` then changes a lowered body in place: these values
become float32, and a conversion to the narrow type becomes the operation that rounds.
"""

from __future__ import annotations

from collections.abc import Iterator

from diffkern.frontend.terms.terms import NARROW
from diffkern.ir import types as T
from diffkern.ir.builder import Builder
from diffkern.ir.clone import substitute
from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.ops.composite import PARTS
from diffkern.ir.ops.memory import ELEMENT_LOADS
from diffkern.ir.ops.scalar import CASTS, LITERALS
from diffkern.ir.views import is_branch

__all__ = ["held", "stored", "widen"]

_STORED = {held: stored for stored, held in NARROW.items()}
_HAVE_TYPES = {"construct": "type", "cast": "to"}


def held(t: T.Element) -> T.Element:
    """Return the type of a value of an element type: numbers of float16 and bfloat16 are distinct from float32."""
    narrow = NARROW.get(T.scalar_of(t))
    return t if narrow is None else T.with_scalar(t, narrow)


def stored(t: T.Element) -> T.Element:
    """Return the element type as which a value's type is written."""
    scalar = _STORED.get(T.scalar_of(t))
    return t if scalar is None else T.with_scalar(t, scalar)


def widen(body: Region) -> None:
    """Change the values of float16 and bfloat16 of a lowered body to float32, rounded where that is asked for."""
    regions = list(_regions(body))
    if not any(_is_narrow(v.type) for region in regions for v in _values(region)):
        return
    exact: set[Value] = set()
    same: dict[Value, Value] = {}
    # Three walks: the rewriting looks at the narrow types, which must all be there until it is done.
    for region in regions:
        region.ops[:] = [made for op in region.ops for made in _widened(op, exact, same)]
    for region in regions:
        for v in _values(region):
            v.type = _wide(v.type)
    for region in regions:
        for op in region.ops:
            _retype(op)
        substitute(region, same)


def _regions(region: Region) -> Iterator[Region]:
    """Yield a region and all in it, also the functions of maps; outer regions first."""
    yield region
    for op in region.ops:
        body = op.attrs.get("body")
        for sub in (*op.regions, body) if isinstance(body, Region) else op.regions:
            yield from _regions(sub)


def _values(region: Region) -> Iterator[Value]:
    yield from region.params
    for op in region.ops:
        yield from op.results


def _is_narrow(t: T.Type) -> bool:
    return isinstance(t, (T.Scalar, T.Vec, T.Mat)) and T.scalar_of(t) in _STORED


def _wide(t: T.Type) -> T.Type:
    return T.with_scalar(t, T.FLOAT32) if isinstance(t, (T.Scalar, T.Vec, T.Mat)) and _is_narrow(t) else t


def _widened(op: Op, exact: set[Value], same: dict[Value, Value]) -> list[Op]:
    """Return the operations that an operation becomes; a conversion between float32 and a narrow type becomes none."""
    if op.name in ELEMENT_LOADS and isinstance(array := op.operands[0].type, T.Array):
        # A loaded element is exact: it was rounded when it was stored.
        if T.scalar_of(array) in T.STORAGE_ONLY:
            exact.add(op.result)
        return [op]
    if op.name in PARTS and all(v in exact for v in op.operands):
        exact.add(op.result)
    if op.name in LITERALS and (rounds := _STORED.get(op.attrs["type"])) is not None:
        exact.add(op.result)
        number = Value(T.FLOAT32)
        const = Op("const", (), (number,), {**op.attrs, "type": T.FLOAT32}, (), op.loc)
        return [const, Op(f"round_{rounds}", (number,), op.results, {}, (), op.loc)]
    if op.name not in CASTS:
        return [op]
    (source,), to = op.operands, T.scalar_of(op.result.type)
    floats = T.scalar_of(source.type) in (T.FLOAT32, *_STORED)
    # From a narrow type to float32: the value is a float32 already.
    if to not in _STORED:
        if to == T.FLOAT32 and floats:
            same[op.result] = source
            return []
        return [op]
    exact.add(op.result)
    # Rounding a number that is exact in the type changes nothing.
    if floats and source in exact:
        same[op.result] = source
        return []
    operand, before = source, []
    # Rounding to float32 first would round twice, and could go to the wrong neighbour.
    if T.scalar_of(source.type) == T.FLOAT64:
        b = Builder(loc=op.loc)
        parts = [_rounded_to_odd(b, x) for x in b.components(source)]
        operand, before = b.construct(_wide(op.result.type), parts), b.region.ops
    elif not floats:
        operand = Value(_wide(op.result.type))
        before = [Op("cast", (source,), (operand,), {"to": operand.type}, (), op.loc)]
    return [*before, Op(f"round_{_STORED[to]}", (operand,), op.results, {}, (), op.loc)]


def _rounded_to_odd(b: Builder, x: Value) -> Value:
    """Return a float64 as a float32 that is rounded to a narrower type as the float64 would be.

    A number between two of float32 becomes the one whose last bit is 1: then it is between the same numbers of the
    narrower type, and on the same side of the middle (Boldo and Melquiond, "Emulation of FMA and correctly rounded
    sums", 2008).
    """
    near = b.cast(x, T.FLOAT32)
    again = b.cast(near, T.FLOAT64)
    bits = b.one("bits_of_float32", near)
    one, none = b.const(1, T.UINT32), b.const(0, T.UINT32)
    away = b.one("gt", b.one("abs", again), b.one("abs", x))
    below = b.sub(bits, b.select(away, one, none))
    odd = b.one("float32_of_bits", b.one("or", below, one))
    # The bits have no derivative: what is added is 0, and varies with the number.
    odd = b.add(odd, b.sub(near, b.one("float32_of_bits", bits)))
    exact = b.one("or", b.one("eq", again, x), b.one("not", b.one("isfinite", near)))
    return b.select(exact, near, odd)


def _retype(op: Op) -> None:
    """Make attributes name the types of the results."""
    if is_branch(op):
        op.attrs = {**op.attrs, "types": tuple(r.type for r in op.results)}
    name = _HAVE_TYPES.get(op.name)
    if name is not None and _is_narrow(op.attrs[name]):
        op.attrs = {**op.attrs, name: _wide(op.attrs[name])}
