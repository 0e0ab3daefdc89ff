"""The operations of ``emitter.py`` on NumPy arrays.

The arrays have at least one dimension. ``mad`` is not fused, so the results are, bit for bit, those of the compiled
form on a target without fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from diffkern.vecmath.emitter import (
    FLOAT_OF,
    INT_OF,
    TABLES,
    BinaryName,
    CompareName,
    IntName,
    Kind,
    LogicName,
    UnaryName,
)

Array = npt.NDArray[Any]
DTYPES: dict[Kind, type[np.generic]] = {
    "f32": np.float32,
    "f64": np.float64,
    "i32": np.int32,
    "i64": np.int64,
    "bool": np.bool_,
}
_UNSIGNED: dict[Kind, type[np.generic]] = {"i32": np.uint32, "i64": np.uint64}
_SPLITTER: dict[Kind, float] = {"f32": 4097.0, "f64": 134217729.0}
_FLOAT: dict[BinaryName, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
}
_INTEGER: dict[IntName, Callable[[Array, Array], Array]] = {
    "iadd": np.add,
    "isub": np.subtract,
    "iand": np.bitwise_and,
    "ior": np.bitwise_or,
    "ixor": np.bitwise_xor,
    "shl": np.left_shift,
}
_COMPARE: dict[CompareName, Callable[[Array, Array], Array]] = {
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
}
_UNARY: dict[UnaryName, Callable[[Array], Array]] = {"neg": np.negative, "abs": np.abs, "sqrt": np.sqrt}
_LOGIC: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


class NumpyEmitter:
    """Evaluates operations immediately.

    Parameters
    ----------
    out_of_line
        Evaluates the out-of-line function with a given name on an array.
    """

    fuses = False

    def __init__(self, out_of_line: Callable[[str, Array], Array]) -> None:
        self._out_of_line = out_of_line

    def const(self, kind: Kind, value: float) -> Array:
        return np.array([value], dtype=DTYPES[kind])

    def binary(self, name: BinaryName, kind: Kind, a: Array, b: Array) -> Array:
        return _FLOAT[name](a, b)

    def unary(self, name: UnaryName, kind: Kind, a: Array) -> Array:
        return _UNARY[name](a)

    def mad(self, kind: Kind, a: Array, b: Array, c: Array) -> Array:
        return np.add(np.multiply(a, b), c)

    def product_error(self, kind: Kind, a: Array, b: Array, product: Array) -> Array:
        splitter = self.const(kind, _SPLITTER[kind])
        a_high = a * splitter - (a * splitter - a)
        b_high = b * splitter - (b * splitter - b)
        a_low, b_low = a - a_high, b - b_high
        error: Array = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
        return error

    def copysign(self, kind: Kind, a: Array, b: Array) -> Array:
        return np.copysign(a, b)

    def integer(self, name: IntName, kind: Kind, a: Array, b: Array) -> Array:
        if name == "shr":
            unsigned = _UNSIGNED[kind]
            return np.right_shift(a.view(unsigned), b.view(unsigned)).view(DTYPES[kind])
        return _INTEGER[name](a, b)

    def compare(self, name: CompareName, kind: Kind, a: Array, b: Array) -> Array:
        return _COMPARE[name](a, b)

    def logic(self, name: LogicName, a: Array, b: Array) -> Array:
        return _LOGIC[name](a, b)

    def select(self, condition: Array, a: Array, b: Array) -> Array:
        return np.where(condition, a, b)

    def to_bits(self, kind: Kind, a: Array) -> Array:
        return np.ascontiguousarray(a).view(DTYPES[INT_OF[kind]])

    def from_bits(self, kind: Kind, a: Array) -> Array:
        return np.ascontiguousarray(a).view(DTYPES[FLOAT_OF[kind]])

    def widen(self, a: Array) -> Array:
        return a.astype(np.float64)

    def narrow(self, a: Array) -> Array:
        return a.astype(np.float32)

    def lookup(self, table: str, index: Array) -> Array:
        values = np.array(TABLES[table]())
        return values[index]

    def rare(self, condition: Array, name: str, kind: Kind, x: Array, fast: Array) -> Array:
        out: Array = np.array(np.broadcast_arrays(fast, x)[0])
        where = np.broadcast_to(condition, out.shape)
        if where.any():
            out[where] = self._out_of_line(name, np.broadcast_to(x, out.shape)[where])
        return out
