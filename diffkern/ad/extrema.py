"""Atomic minima and maxima on the way of derivatives: one contribution wins, and has the derivative of the element.

Of equal numbers the one that was there before wins, then the one that came first; none of the others has a part in it.
Reverse mode finds the winner of an element by its final number. Forward mode knows it only when all threads have run,
so each thread that has the least number so far *holds* the element's tangent, looks whether its number still is the
least, and only then puts its own tangent there; whoever comes later with a smaller number has its turn afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Final

from diffkern.ad.cotangents import ct_name
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.types import BFLOAT16, FLOAT16, Element, Scalar, Vec, is_shared, scalar_of, value_type
from diffkern.ir.views import Access
from diffkern.ops.memory import HELD, WON

__all__ = ["check_extremum", "forward_extremum", "given_tangent", "reverse_extremum"]


def check_extremum(op: Op) -> None:
    """Refuse atomic extrema without a derivative."""
    array = Access(op).array
    if is_shared(array.type):
        raise AutodiffError(
            f"atomic_{op.attrs['kind'].removeprefix('f')} on a shared array has no derivative", loc=op.loc,
            remedy="compare the elements one with another, as in a reduction by halves, or use a global array",
        )  # fmt: skip


def reverse_extremum(
    b: Builder, op: Op, value: Value, array: Value, entry_array: Value, buffer: Value, index: Sequence[Value]
) -> Value:
    """The winner takes a component's cotangent, the old content first in a tie, and leaves zero for the rest.

    In arrays of float16 and bfloat16 those tie whose values are rounded to the same number.
    """
    wrap = Access(op).wrap
    final = b.one("load", array, *index, wrap=wrap)
    entry = b.one("load", entry_array, *index, wrap=wrap)
    wins = [
        b.one("and", b.one("eq", _rounded(b, array, v), last), b.one("ne", first, last))
        for v, last, first in zip(*(b.components(x) for x in (value, final, entry)), strict=True)
    ]
    taken, left = Region(), Region()
    with b.into(taken):
        taken.yields = (_taken(b, buffer, index, wrap, wins),)
    with b.into(left):
        left.yields = (b.zero(value.type),)
    some = functools.reduce(lambda x, y: b.one("or", x, y), wins)
    (ct,) = b.if_(some, taken, left, (ct_name(Access(op).value),))
    return ct


def forward_extremum(
    b: Builder, op: Op, value: Value, tangent: Value, old: Value, arrays: tuple[Value, Value], index: Sequence[Value]
) -> None:
    """Let the winner put its tangent beside the element.

    Parameters
    ----------
    b : Builder
        Stands behind the update of the element.
    op : Op
        The update.
    value, tangent, old : Value
        The number that it is made with, the tangent of that, and what the element was before.
    arrays : (Value, Value)
        The array, and that of its tangents.
    index : sequence of Value
        Where the element is.
    """
    kind, wrap = op.attrs["kind"], Access(op).wrap
    array, twin = arrays
    t = value_type(twin.type.dtype)  # type: ignore[union-attr]
    numbers = [_rounded(b, array, v) for v in b.components(value)]
    first, zero, held, won = (b.const(x, scalar_of(t)) for x in (0.0, 0.0, HELD, WON))
    taken = [
        b.select(_is_better(b, kind, v, was), held, zero) for v, was in zip(numbers, b.components(old), strict=True)
    ]
    seen = b.one("atomic", twin, *index, b.construct(t, taken), kind="take", wrap=wrap)
    # An update again, which leaves the element as it is: it sees the latest.
    now = b.one("atomic", array, *index, value, kind=kind, opaque=True, pair=op.attrs["pair"], wrap=wrap)
    state = [
        b.select(b.one("and", b.one("ne", h, first), b.one("eq", v, last)), won, h)
        for h, v, last in zip(taken, numbers, b.components(now), strict=True)
    ]
    given = [*b.components(seen), *state, *numbers, *b.components(tangent)]
    b.one("atomic", twin, *index, _four(b, t, given), kind="give", pair=op.attrs["pair"], wrap=wrap)


def given_tangent(b: Builder, value: Value, tangent: Value) -> Value:
    """What is given back beside `value`, whose tangent is given, as a tangent of a tangent: the same thread wins."""
    own, along = b.components(value), b.components(tangent)
    size = len(own) // 4
    return b.construct(value.type, [*along[:size], *own[size : 3 * size], *along[3 * size :]])


def _four(b: Builder, t: Element, parts: Sequence[Value]) -> Value:
    """Four numbers for each component of an element."""
    return b.construct(Vec(scalar_of(t), len(parts)), parts)


def _is_better(b: Builder, kind: str, value: Value, old: Value) -> Value:
    """Whether a number takes the place of an old one that is another."""
    better = b.one("lt" if kind.endswith("min") else "gt", value, old)
    if not kind.startswith("f"):
        return better
    number, nothing = b.one("eq", value, value), b.one("ne", old, old)  # a NaN is passed over
    return b.one("or", better, b.one("and", number, nothing))


def _rounded(b: Builder, array: Value, value: Value) -> Value:
    """A number as the array holds it."""
    name = _ROUNDED.get(scalar_of(array.type))
    return value if name is None else b.one(name, value)


_ROUNDED: Final[Mapping[Scalar, str]] = {FLOAT16: "round_float16", BFLOAT16: "round_bfloat16"}
"""What makes numbers of those that are stored in narrow types."""


def _taken(b: Builder, buffer: Value, index: Sequence[Value], wrap: tuple[bool, ...], wins: Sequence[Value]) -> Value:
    """Those components of an element of a cotangent that are won, which become 0; 0 for the others."""
    t = value_type(buffer.type.dtype)  # type: ignore[union-attr]
    if isinstance(t, Scalar):
        return b.one("atomic", buffer, *index, b.zero(t), kind="exch", wrap=wrap)
    zero, one = b.zero(t.dtype), b.full(t.dtype, 1.0)
    left = b.construct(t, [b.select(won, zero, one) for won in wins])
    old = b.one("atomic", buffer, *index, left, kind="keep", wrap=wrap)
    parts = zip(wins, b.components(old), strict=True)
    return b.construct(t, [b.select(won, ct, zero) for won, ct in parts])
