"""The matrix product that a tile operation computes, by sizes, dtypes and the layout of the factors."""

from __future__ import annotations

from diffkern.ir.nodes import Op, Value
from diffkern.ir.types import Tile, scalar_of
from diffkern.process.dataclass import dataclass

__all__ = ["TileProduct", "factor_type", "product_of"]

_HALVES = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class TileProduct:
    """A matrix product ``c = a @ b``.

    Attributes
    ----------
    m, n, k
        Sizes: ``m x k`` times ``k x n``.
    a, b
        The type both factors are multiplied in, see :func:`factor_type`. ``tf32`` is float32 that is rounded to 10 bits
        in the product.
    c
        The type the product is summed in, float64 or float32, whatever type it is stored in afterwards.
    columns_a, columns_b
        Whether a factor is stored column by column, as the transpose of a row-major tile is.
    """

    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    columns_a: bool = False
    columns_b: bool = False


def product_of(op: Op) -> TileProduct:
    """Return the product that a ``tile_matmul`` computes."""
    a, b = op.operands[:2]
    m, n = _shape(op.result)
    k = _shape(a)[0 if op.attrs["trans_a"] else 1]
    left, right, result = (scalar_of(v.type).name for v in (a, b, op.result))
    factor = factor_type(left, right, result, op.attrs.get("precision", "default"))
    sum_ = "float64" if factor == "float64" else "float32"
    return TileProduct(m, n, k, factor, factor, sum_, op.attrs["trans_a"], op.attrs["trans_b"])


def factor_type(a: str, b: str, result: str, precision: str) -> str:
    """Return the type that both factors of a product are multiplied in.

    Tensor cores multiply elements of one type. In the adjoint of a product of halves that is summed in float32, one
    factor is a half and one float32. The gradient is a half again, so tf32 serves, which has the range of float32 and
    as many bits as float16.

    Parameters
    ----------
    a, b, result
        Types of the tiles.
    precision
        ``"tf32"`` lets float32 be multiplied with 10 bits of its fraction.
    """
    if "float64" in (a, b, result):
        return "float64"
    if a == b and a in _HALVES:
        return a
    if precision == "tf32" or (result in _HALVES and (a in _HALVES or b in _HALVES)):
        return "tf32"
    return "float32"


def _shape(v: Value) -> tuple[int, ...]:
    assert isinstance(v.type, Tile)
    return v.type.shape
