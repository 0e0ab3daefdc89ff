"""Memory that tiles are lowered to for a target, after differentiation: buffers of one thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffkern.ir.ops.row import Diff, Effect, OpDef, TypeRuleError
from diffkern.ir.types import SHARED, Array, Buffer, Scalar, Type, value_type

Attrs = Mapping[str, Any]


def _buffer(t: Type) -> Buffer:
    if not isinstance(t, Buffer):
        raise TypeRuleError(f"needs a buffer, not {t}")
    return t


def _index(t: Type) -> None:
    if not (isinstance(t, Scalar) and t.is_integer):
        raise TypeRuleError(f"an index must be an integer, not {t}")


def _new(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return (_buffer(attrs["type"]),)


def _get(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    _index(types[1])
    return (value_type(_buffer(types[0]).dtype),)


def _set(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    _index(types[1])
    want = value_type(_buffer(types[0]).dtype)
    if types[2] != want:
        raise TypeRuleError(f"takes {want}, not {types[2]}")
    return ()


def _matmul(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    m, n, k = attrs["m"], attrs["n"], attrs["k"]
    dtype = _buffer(types[0]).dtype
    for t, size in zip(types, (m * n, m * k, k * n), strict=True):
        if _buffer(t).dtype != dtype or _buffer(t).size < size:
            raise TypeRuleError(f"needs {size} elements of {dtype}, not {t}")
    return ()


def _product(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    m, n, k = attrs["m"], attrs["n"], attrs["k"]
    sides = (attrs["c"], m * n), (attrs["a"], m * k), (attrs["b"], k * n)
    for t, (kind, size) in zip(types, sides, strict=True):
        # tf32 is a way of multiplying, not of storing: its operands lie in memory as float32.
        held = "float32" if kind == "tf32" else kind
        if isinstance(t, Array) and t.layout == SHARED and t.ndim == 1 and t.dtype.name == held:  # type: ignore[union-attr]
            continue
        if _buffer(t).dtype.name != held or _buffer(t).size < size:  # type: ignore[union-attr]
            raise TypeRuleError(f"needs {size} elements of {held}, not {t}")
    return ()


ROWS = (
    OpDef("buffer_new", "buffer", 0, _new, Effect.STACK_WRITE, Diff.INTERNAL, attrs={"type": Buffer}),
    # (buffer, index) and (buffer, index, value). aligned: the alignment of the place in bytes
    OpDef("buffer_get", "buffer", 2, _get, Effect.STACK_READ, Diff.INTERNAL, optional={"aligned": int}),
    OpDef("buffer_set", "buffer", 3, _set, Effect.STACK_WRITE, Diff.INTERNAL, optional={"aligned": int}),
    # (buffer, index, value): may be done by any thread of a block at any time; kind as in an atomic update
    OpDef("buffer_add", "buffer", 3, _set, Effect.STACK_WRITE, Diff.INTERNAL, optional={"kind": str}),
    # (c, a, b): row-major c = a @ b, or c += a @ b. trans_a: a is stored k × m
    OpDef(
        "buffer_matmul", "buffer", 3, _matmul, Effect.STACK_WRITE, Diff.INTERNAL,
        attrs={"m": int, "n": int, "k": int, "trans_a": bool, "add": bool},
    ),
    # The same computed by all threads of a block, on buffers or shared arrays; a factor is stored row by row or column
    # by column. a, b, c: the types in which they are multiplied and summed
    OpDef(
        "buffer_product", "buffer", 3, _product, Effect.STACK_WRITE, Diff.INTERNAL,
        attrs={
            "m": int, "n": int, "k": int, "add": bool,
            "a": str, "b": str, "c": str, "columns_a": bool, "columns_b": bool,
        },
    ),
)  # fmt: skip

NEW_BUFFERS = frozenset(row.name for row in ROWS if row.arity == 0)
BUFFER_READS = frozenset(row.name for row in ROWS if row.effect is Effect.STACK_READ)
BUFFER_UPDATES = frozenset(row.name for row in ROWS if "kind" in row.optional)
BUFFER_PRODUCTS = frozenset(row.name for row in ROWS if row.infer is _product)
PLACES = frozenset(row.name for row in ROWS if "aligned" in row.optional)
"""The plain accesses of elements."""
