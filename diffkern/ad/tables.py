"""Derivatives of numbers that a kernel finds by an id, such as texels and the vertices of a mesh.

``fetch(values, table, index)`` reads a number at an address. The table, three words of memory, says where what belongs
to it is: 0 where an adjoint adds the cotangents of the numbers; 1 where their tangents are; 2 the table of these.
An address of 0 stands for what nobody wants, or what is zero; so does the table's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.types import UINT64, Type

__all__ = ["clear_tangent", "cotangents_of", "tangent_of"]


def cotangents_of(b: Builder, table: Value) -> Value:
    """Return the address of the cotangents of a table, 0 where there are none."""
    return _unless_zero(b, table, lambda: [b.one("peek", table, b.i32(0), type=UINT64)])[0]


def tangent_of(b: Builder, op: Op, table: Value, index: Value) -> Value:
    """Return the tangent of a number that is fetched.

    Raises
    ------
    AutodiffError
        If it was fetched in a program of forward mode: a table has room for one direction.
    """
    if op.attrs.get("along"):
        raise AutodiffError(
            "what a kernel finds by an id is differentiated twice in forward mode",
            loc=op.loc,
            remedy="take one of the two derivatives on a tape around the other, as dk.hvp does",
        )
    values, of_tangents = _unless_zero(b, table, lambda: [b.one("peek", table, b.i32(k), type=UINT64) for k in (1, 2)])
    given = {key: v for key, v in op.attrs.items() if key == "type"}
    return _unless_zero(b, values, lambda: [b.one("fetch", values, of_tangents, index, along=True, **given)])[0]


def clear_tangent(b: Builder, table: Value, index: Value, t: Type) -> None:
    """Set the tangent of a number that is written to zero, where there is one."""
    values, of_tangents = _unless_zero(b, table, lambda: [b.one("peek", table, b.i32(k), type=UINT64) for k in (1, 2)])
    written = Region()
    with b.into(written):
        b.op("poke", values, of_tangents, index, b.zero(t))
    b.if_(b.one("ne", values, b.zero(UINT64)), written, Region())


def _unless_zero(b: Builder, address: Value, make: Callable[[], Sequence[Value]]) -> tuple[Value, ...]:
    """Return values that are made where an address is not 0, and zeros where it is."""
    found, nothing = Region(), Region()
    with b.into(found):
        found.yields = tuple(make())
    with b.into(nothing):
        nothing.yields = tuple(b.zero(v.type) for v in found.yields)
    return b.if_(b.one("ne", address, b.zero(UINT64)), found, nothing)
