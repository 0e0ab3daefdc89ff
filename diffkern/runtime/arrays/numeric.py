"""NumPy-like conversions: ``float(a)``, ``a.item()``, ``a.sum()``, ``a.astype(dk.float64)``.

They give Python numbers or new arrays. Sums and conversions are launches, which tapes and sequences record, so that
gradients flow through them.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from diffkern.errors import described
from diffkern.process.late import CONVERTED, TOTAL

__all__ = ["Numeric"]

if TYPE_CHECKING:
    import builtins


class Numeric:
    """The part of an array that converts it to numbers."""

    __slots__ = ()

    if TYPE_CHECKING:
        shape: tuple[int, ...]

        @property
        def ndim(self) -> int: ...
        @property
        def size(self) -> int: ...
        def __getitem__(self, key: Any) -> Any: ...
        def _nested(self) -> builtins.list[Any]: ...

    def item(self, *index: int) -> Any:
        """Return one element as a Python value.

        Parameters
        ----------
        *index : int
            One for each axis; none for an array with one element.

        Returns
        -------
        int, float, bool, complex or list
            The element; a vector or a matrix as (nested) lists.

        Raises
        ------
        ValueError
            If no index is given and there is more than one element, or their numbers differ.
        IndexError
            If there is no such element.
        """
        if not index:
            if self.size != 1:
                raise ValueError(f"{described(self)} has {self.size} elements; item() is for one: pass an index")
            index = (0,) * self.ndim
        elif len(index) != self.ndim:
            raise ValueError(f"{described(self)} has {self.ndim} axes, and {len(index)} indices were passed")
        pairs = [*zip(map(operator.index, index), self.shape, strict=True)]
        if not all(-extent <= k < extent for k, extent in pairs):
            raise IndexError(f"{described(self)} has no element {index[0] if len(index) == 1 else index}")
        # A slice of one element keeps the conversions of arrays (bfloat16, complex numbers) in one place.
        one = self[tuple(slice(k % extent, k % extent + 1) for k, extent in pairs)]._nested()
        for _ in index:
            one = one[0]
        return one

    def __float__(self) -> float:
        return float(self._number("float"))

    def __int__(self) -> int:
        return int(self._number("int"))

    def _number(self, wanted: str) -> Any:
        value = self.item() if self.size == 1 else None
        if not isinstance(value, (bool, int, float)):
            raise TypeError(
                f"{wanted}() is for arrays of one number, not for {described(self)}; take one with item(index)"
            )
        return value

    def sum(self, axis: int | None = None) -> Any:
        """Add up the elements, all of them or along an axis; tapes record it.

        Parameters
        ----------
        axis : int, optional
            The axis along which elements are added.

        Returns
        -------
        array
            Of shape ``(1,)``, or that of the array without the axis; of the same element type, with a gradient if the
            array has one.

        Raises
        ------
        LaunchError
            If there is no such axis.
        """
        added = TOTAL(self, axis)
        if axis is None or self.ndim == 1:
            return added
        return added.reshape(tuple(n for k, n in enumerate(self.shape) if k != axis % self.ndim))

    def astype(self, dtype: Any) -> Any:
        """Return a copy with elements of another type; tapes record it.

        Parameters
        ----------
        dtype : type
            ``float``, ``dk.float64``, ``np.int32``, ``dk.vec3d`` for an array of ``dk.vec3``, …

        Returns
        -------
        array
            Of the same shape on the same device, with a gradient if the array has one and both types can.

        Raises
        ------
        LaunchError
            If elements of one type do not become those of the other.
        """
        return CONVERTED(self, dtype)
