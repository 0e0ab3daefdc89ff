"""Turn parameters by value into arrays of one element, for callers whose values only the kernel can read.

Scalar, vector and matrix parameters of a function become one-dimensional arrays that every thread reads at index 0, in
place. Types of storage only (float16, bfloat16) are passed in the type of their values.
"""

from __future__ import annotations

from diffkern.ir.builder import Builder
from diffkern.ir.clone import substitute
from diffkern.ir.nodes import Function, Value
from diffkern.ir.types import Array, Mat, Scalar, Vec, value_type

__all__ = ["values_by_reference"]


def values_by_reference(fn: Function) -> Function:
    """Replace parameters by value, in place; return the function."""
    b = Builder()
    b.loc = fn.loc
    zero: Value | None = None
    params: list[Value] = []
    read: dict[Value, Value] = {}
    for p in fn.params:
        if not isinstance(p.type, (Scalar, Vec, Mat)):
            params.append(p)
            continue
        held = Value(Array(value_type(p.type), 1), p.name)
        zero = b.i32(0) if zero is None else zero
        read[p] = b.one("load", held, zero, wrap=(False,))
        params.append(held)
    substitute(fn.body, read)
    fn.body.ops[:0] = b.region.ops
    fn.params = tuple(params)
    return fn
