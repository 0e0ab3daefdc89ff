"""Widening: every floating-point type of a function becomes float64.

A function as lowered (constants still carry the full Python value that the user wrote) is changed in place to compute
in float64 throughout: parameters, array elements, constants, casts, loop stacks, all of them fresh values.
``diffkern.testing`` differentiates the widened function to tell a wrong derivative from rounding.
"""

from __future__ import annotations

from typing import Any

from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.memory import READS_BY_ADDRESS
from diffkern.ir.types import (
    FLOAT64,
    Array,
    Buffer,
    Element,
    Mat,
    Scalar,
    Stack,
    Tile,
    Type,
    Vec,
    scalar_of,
    with_scalar,
)


def widened(t: Type) -> Type:
    """Return the type with float64 in the place of every floating-point scalar; others are returned as they are."""
    if isinstance(t, Tile):
        return Tile(_element(t.dtype, FLOAT64), t.shape)
    if isinstance(t, Buffer):
        return Buffer(_element(t.dtype, FLOAT64), t.size)
    if isinstance(t, Stack):
        fields = tuple(widened(f) for f in t.fields)
        return Stack(fields, t.slots, t.level)  # type: ignore[arg-type]
    return _with_floats(t, FLOAT64)


def _with_floats(t: Scalar | Vec | Mat | Array, scalar: Scalar) -> Type:
    if isinstance(t, Array):
        return Array(_element(t.dtype, scalar), t.ndim, t.layout)
    return _element(t, scalar)


def _element(t: Element, scalar: Scalar) -> Element:
    return with_scalar(t, scalar) if scalar_of(t).is_float else t


def _attr(value: Any) -> Any:
    if isinstance(value, (Scalar, Vec, Mat, Array, Stack, Tile)):
        return widened(value)
    if isinstance(value, Region):
        return _Widener(Builder(), {}).region(value)
    if isinstance(value, tuple):
        return tuple(map(_attr, value))
    return value


class _Widener(Cloner):
    def emit(self, op: Op, operands: tuple[Value, ...], regions: tuple[Region, ...]) -> Op:
        results = tuple(Value(widened(r.type), r.name) for r in op.results)
        attrs = {name: _attr(value) for name, value in op.attrs.items()}
        name = op.name
        # Rounding to a narrow type would bring back what widening is to remove.
        if name.startswith("round_"):  # to float16 or bfloat16
            name, attrs = "cast", {"to": results[0].type}
        if name in READS_BY_ADDRESS:
            # What an id finds lies in memory as narrow as before; its value is widened.
            (read,), (result,) = op.results, results
            narrow = Value(read.type)
            copy = Op(name, operands, (narrow,), op.attrs, regions, op.loc)
            cast = Op("cast", (narrow,), (result,), {"to": result.type}, (), op.loc)
            self.b.region.ops += [copy, cast]
        else:
            copy = Op(name, operands, results, attrs, regions, op.loc)
            self.b.region.ops.append(copy)
        self.env.update(zip(op.results, results, strict=True))
        return copy

    def region(self, region: Region) -> Region:
        copy = Region(tuple(Value(widened(p.type), p.name) for p in region.params))
        self.env.update(zip(region.params, copy.params, strict=True))
        with self.b.into(copy):
            self.ops(region.ops)
        copy.yields = self.values(region.yields)
        return copy


def widen(fn: Function) -> Function:
    """Make a function compute in float64 instead of float16, bfloat16 or float32, in place; return it."""
    params = tuple(Value(widened(p.type), p.name) for p in fn.params)
    cloner = _Widener(Builder(), dict(zip(fn.params, params, strict=True)))
    fn.params, fn.body = params, cloner.region(fn.body)
    return fn
