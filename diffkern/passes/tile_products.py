"""Which matrix products of tiles does a function compute?

In: a function with tiles, forward or adjoint. Out: each different product of it, by sizes, dtypes and how the factors
lie. What nobody wants is not there: a forward has its own products alone, and an adjoint those of active factors.
"""

from __future__ import annotations

from dataclasses import dataclass

from diffkern.ir.nodes import Function, Value, walk
from diffkern.ir.types import Tile, scalar_of


@dataclass(frozen=True, slots=True)
class TileProduct:
    """``c = a @ b``, ``m x k`` times ``k x n``, a factor transposed where it lies column by column."""

    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    columns_a: bool
    columns_b: bool


def tile_products(fn: Function) -> list[TileProduct]:
    """The different products, in program order."""
    found: dict[TileProduct, None] = {}
    for op in walk(fn.body):
        if op.name == "tile_matmul":
            a, b = op.operands[:2]
            m, n = _shape(op.result)
            k = _shape(a)[0 if op.attrs["trans_a"] else 1]
            dtype_a, dtype_b, dtype_c = (scalar_of(v.type).name for v in (a, b, op.result))
            columns_a, columns_b = op.attrs["trans_a"], op.attrs["trans_b"]
            found[TileProduct(m, n, k, dtype_a, dtype_b, dtype_c, columns_a, columns_b)] = None
    return list(found)


def _shape(v: Value) -> tuple[int, ...]:
    assert isinstance(v.type, Tile)
    return v.type.shape
