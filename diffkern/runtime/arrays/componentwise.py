"""Operators of arrays: ``a + b``, ``2.0 * a``, ``-a``, ``a += b``, element by element.

They return new arrays, or change the left operand in place. Each is a kernel made by
:mod:`diffkern.transforms.mapping`, which tapes and sequences record, so that gradients flow through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from diffkern.process.late import MATMUL, OPERATED
from diffkern.runtime.arrays.compared import Compared

__all__ = ["Componentwise"]

if TYPE_CHECKING:
    from diffkern.runtime.arrays.array import array


def _applied(name: str, *operands: Any, out: array | None = None) -> Any:
    return OPERATED(name, operands, out)


def _is_array(value: Any) -> bool:
    """Return whether a value is an array with memory of its own; sparse matrices have products that they know."""
    return isinstance(value, (Componentwise, np.ndarray)) or hasattr(value, "__dlpack__")


_REFLECTED: Final[Mapping[Any, str]] = {
    np.add: "__radd__", np.subtract: "__rsub__", np.multiply: "__rmul__", np.true_divide: "__rtruediv__",
    np.floor_divide: "__rfloordiv__", np.remainder: "__rmod__", np.power: "__rpow__", np.matmul: "__rmatmul__",
    np.bitwise_and: "__rand__", np.bitwise_or: "__ror__", np.bitwise_xor: "__rxor__",
    np.less: "__gt__", np.less_equal: "__ge__", np.greater: "__lt__", np.greater_equal: "__le__",
    np.equal: "__eq__", np.not_equal: "__ne__",
}  # fmt: skip
"""The functions that NumPy's operators call, with the operator of what stands on the right."""


class Componentwise(Compared):
    """The arithmetic operators of arrays, and their comparisons."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Compute with NumPy's arrays; but what is NumPy's on the left of an operator is treated like on the right.

        Otherwise ``np.float32(2.0) * a`` and ``x.numpy() + a`` would be NumPy arrays, through which no gradient flows.
        Arrays of Warp's dialect give NumPy's arrays beside one on the left, as in Warp.
        """
        rule = _REFLECTED.get(ufunc)
        if rule is not None and method == "__call__" and not kwargs:
            left = inputs[0]
            if isinstance(left, np.generic) or (isinstance(left, np.ndarray) and not self.in_warps_dialect):
                found = getattr(self, rule)(left)
                if found is not NotImplemented:
                    return found
        given = [np.asarray(v) if isinstance(v, Componentwise) else v for v in inputs]
        return getattr(ufunc, method)(*given, **kwargs)

    def __add__(self, other: Any) -> Any:
        return _applied("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _applied("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _applied("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _applied("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return _applied("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _applied("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _applied("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _applied("div", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _applied("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _applied("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        return _applied("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _applied("mod", other, self)

    def __pow__(self, other: Any) -> Any:
        return _applied("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _applied("pow", other, self)

    def __matmul__(self, other: Any) -> Any:
        return MATMUL(self, other) if _is_array(other) else NotImplemented

    def __rmatmul__(self, other: Any) -> Any:
        return MATMUL(other, self) if _is_array(other) else NotImplemented

    def __imatmul__(self, other: Any) -> Any:
        return MATMUL(self, other, self)

    def __neg__(self) -> Any:
        return _applied("neg", self)

    def __pos__(self) -> Any:
        return _applied("pos", self)

    def __iadd__(self, other: Any) -> Any:
        return _applied("add", self, other, out=self)  # type: ignore[arg-type]

    def __isub__(self, other: Any) -> Any:
        return _applied("sub", self, other, out=self)  # type: ignore[arg-type]

    def __imul__(self, other: Any) -> Any:
        return _applied("mul", self, other, out=self)  # type: ignore[arg-type]

    def __itruediv__(self, other: Any) -> Any:
        return _applied("div", self, other, out=self)  # type: ignore[arg-type]

    def __ifloordiv__(self, other: Any) -> Any:
        return _applied("floordiv", self, other, out=self)  # type: ignore[arg-type]

    def __imod__(self, other: Any) -> Any:
        return _applied("mod", self, other, out=self)  # type: ignore[arg-type]

    def __ipow__(self, other: Any) -> Any:
        return _applied("pow", self, other, out=self)  # type: ignore[arg-type]
