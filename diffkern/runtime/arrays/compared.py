"""Comparisons of arrays: ``a == b``, ``a < 2.0``, ``(a > 0.0) & (b > 0.0)``, and what an array is as a condition.

Element by element, as NumPy compares, they give a new array of bool; each is a kernel, which sequences record. Arrays
made by names of :mod:`diffkern.warp` are told apart by identity, as in Warp. The hash is that of the object in either
dialect, so that arrays are keys of dictionaries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from diffkern.errors import MisuseError, described
from diffkern.ir.structs import Stored, Struct
from diffkern.lang.values import CompositeValue
from diffkern.process.late import OPERATED
from diffkern.process.tracebacks import brief

__all__ = ["Compared"]

_COMPARABLE = (bool, int, float, complex, np.generic, np.ndarray, CompositeValue, list, tuple)


class Compared:
    """The part of an array that compares it, and combines what comparisons give."""

    __slots__ = ()

    if TYPE_CHECKING:
        shape: tuple[int, ...]

        @property
        def size(self) -> int: ...
        @property
        def in_warps_dialect(self) -> bool: ...
        def item(self, *index: int) -> Any: ...

    def __eq__(self, other: object) -> Any:
        return self._compared("equal", other)

    def __ne__(self, other: object) -> Any:
        return self._compared("not_equal", other)

    __hash__ = object.__hash__

    def __lt__(self, other: Any) -> Any:
        return self._compared("less", other)

    def __le__(self, other: Any) -> Any:
        return self._compared("less_equal", other)

    def __gt__(self, other: Any) -> Any:
        return self._compared("greater", other)

    def __ge__(self, other: Any) -> Any:
        return self._compared("greater_equal", other)

    def __and__(self, other: Any) -> Any:
        return self._compared("bitwise_and", other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return self._compared("bitwise_or", other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return self._compared("bitwise_xor", other)

    __rxor__ = __xor__

    def __invert__(self) -> Any:
        # Of a bool it is `not`, as in NumPy; Python's own ~ of True is -2.
        is_bool = getattr(_element(self), "name", "") == "bool"
        return self._compared("logical_not" if is_bool else "bitwise_invert")

    def __abs__(self) -> Any:
        return OPERATED("abs", (self,), None)

    @brief
    def _compared(self, name: str, *others: Any) -> Any:
        """Return an operator applied to the elements, or NotImplemented for what is compared by identity."""
        for other in others:
            if isinstance(other, Compared):
                by_identity = self.in_warps_dialect or other.in_warps_dialect
            else:
                by_identity = self.in_warps_dialect or not isinstance(other, _COMPARABLE)
            if by_identity:
                return NotImplemented
        operands = (self, *others)
        for held in operands:
            if isinstance(_element(held), Struct):
                raise MisuseError(
                    f"elements of {described(held)} are structs, which are not compared",
                    remedy="compare a field, as in a.field('x') == b.field('x'), or a is b for the arrays themselves",
                )
        return OPERATED(name, operands, None)

    @brief
    def __bool__(self) -> bool:
        if self.in_warps_dialect:
            return bool(self.shape[0])
        if self.size != 1:
            raise MisuseError(
                f"{described(self)} is no condition: it has {self.size} elements",
                remedy="write (a == b).all() or .any(); a is b asks for the same array, and a.size for elements",
            )
        return bool(self.item())


def _element(held: Any) -> Stored | None:
    """Return the element type of an array, also of one seen through index arrays; None of anything else."""
    found: Stored | None = getattr(getattr(held, "data", held), "_element", None)
    return found
