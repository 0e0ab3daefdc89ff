"""Derivatives of atomic minima and maxima: one contribution wins, and has the derivative of the element.

Of equal numbers the one that was there before wins, then the one that came first; the derivative of the others is zero.
Reverse mode finds the winner of an element by its final number. Forward mode knows the winner only when all threads
have run, so each thread that has the least number so far *holds* the element's tangent, checks whether its number still
is the least, and only then stores its own tangent; a thread that arrives later with a smaller number does the same
afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Final

from diffkern.ad.cotangents import ct_name
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.ops.memory import HELD, WON
from diffkern.ir.types import BFLOAT16, FLOAT16, Element, Scalar, Vec, is_shared, scalar_of, value_type
from diffkern.ir.views import Access

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
    """Return the cotangent of the winner, the old content first in a tie, and leave zero for the others.

    In arrays of float16 and bfloat16 values tie if they are rounded to the same number.
    """
    wrap = Access(op).wrap
    final = b.one("load", array, *index, wrap=wrap)
    entry = b.one("load", entry_array, *index, wrap=wrap)
    # Won: the element holds this number now, and did not hold it at entry. If it did, the old content won the tie and
    # keeps the cotangent.
    wins = [
        b.one("and", b.one("eq", _rounded(b, array, v), last), b.one("ne", first, last))
        for v, last, first in zip(*(b.components(x) for x in (value, final, entry)), strict=True)
    ]
    # Losing threads, which are almost all, skip the atomic exchange.
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
    """Store the winner's tangent beside the element.

    Parameters
    ----------
    b : Builder
        Positioned behind the update of the element.
    op : Op
        The update.
    value, tangent, old : Value
        The operand of the update, its tangent, and the element's value before the update.
    arrays : (Value, Value)
        The array, and that of its tangents.
    index : sequence of Value
        The index of the element.
    """
    kind, wrap = op.attrs["kind"], Access(op).wrap
    array, twin = arrays
    t = value_type(twin.type.dtype)  # type: ignore[union-attr]
    numbers = [_rounded(b, array, v) for v in b.components(value)]
    # The marker HELD in the tangent says that its holder has not decided yet; components that are not better stay
    # untouched.
    first, zero, held, won = (b.const(x, scalar_of(t)) for x in (0.0, 0.0, HELD, WON))
    taken = [
        b.select(_is_better(b, kind, v, was), held, zero) for v, was in zip(numbers, b.components(old), strict=True)
    ]
    seen = b.one("atomic", twin, *index, b.construct(t, taken), kind="take", wrap=wrap)
    # An update again, which leaves the element as it is: it sees the latest.
    now = b.one("atomic", array, *index, value, kind=kind, opaque=True, pair=op.attrs["pair"], wrap=wrap)
    # WON only if no smaller number has arrived since; otherwise the holder gives the old tangent back, and the thread
    # with the smaller number has its turn.
    state = [
        b.select(b.one("and", b.one("ne", h, first), b.one("eq", v, last)), won, h)
        for h, v, last in zip(taken, numbers, b.components(now), strict=True)
    ]
    given = [*b.components(seen), *state, *numbers, *b.components(tangent)]
    b.one("atomic", twin, *index, _four(b, t, given), kind="give", pair=op.attrs["pair"], wrap=wrap)


def given_tangent(b: Builder, value: Value, tangent: Value) -> Value:
    """Return the operand of a ``give`` for second tangents, so that the same thread wins as for the first.

    `value` is the operand of the ``give`` of first tangents, and `tangent` its tangent.
    """
    own, along = b.components(value), b.components(tangent)
    size = len(own) // 4
    return b.construct(value.type, [*along[:size], *own[size : 3 * size], *along[3 * size :]])


def _four(b: Builder, t: Element, parts: Sequence[Value]) -> Value:
    """Return a vector with four numbers for each component of an element."""
    return b.construct(Vec(scalar_of(t), len(parts)), parts)


def _is_better(b: Builder, kind: str, value: Value, old: Value) -> Value:
    """Return whether a number replaces an old one that is different."""
    better = b.one("lt" if kind.endswith("min") else "gt", value, old)
    if not kind.startswith("f"):
        return better
    # fmin and fmax ignore NaN: any number replaces a NaN, and a NaN replaces nothing.
    number, nothing = b.one("eq", value, value), b.one("ne", old, old)
    return b.one("or", better, b.one("and", number, nothing))


def _rounded(b: Builder, array: Value, value: Value) -> Value:
    """Return a number rounded to the array's type."""
    name = _ROUNDED.get(scalar_of(array.type))
    return value if name is None else b.one(name, value)


_ROUNDED: Final[Mapping[Scalar, str]] = {FLOAT16: "round_float16", BFLOAT16: "round_bfloat16"}
"""The op that rounds to each narrow storage type."""


def _taken(b: Builder, buffer: Value, index: Sequence[Value], wrap: tuple[bool, ...], wins: Sequence[Value]) -> Value:
    """Return the components of a cotangent's element that were won, 0 for the others, and clear them in the buffer."""
    t = value_type(buffer.type.dtype)  # type: ignore[union-attr]
    if isinstance(t, Scalar):
        return b.one("atomic", buffer, *index, b.zero(t), kind="exch", wrap=wrap)
    # A vector is not exchanged as a whole, as some of its components may be those of other threads: "keep" zeroes only
    # the components whose operand is 0, the won ones, and returns the old contents.
    zero, one = b.zero(t.dtype), b.full(t.dtype, 1.0)
    left = b.construct(t, [b.select(won, zero, one) for won in wins])
    old = b.one("atomic", buffer, *index, left, kind="keep", wrap=wrap)
    parts = zip(wins, b.components(old), strict=True)
    return b.construct(t, [b.select(won, ct, zero) for won, ct in parts])
