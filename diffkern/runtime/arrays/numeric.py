"""NumPy-like conversions: ``float(a)``, ``a.item()``, ``a.sum()``, ``a.astype(dk.float64)``.

They give Python numbers or new arrays. Sums, means, extremes and conversions are launches, which tapes and sequences
record, so that gradients flow through them. What gives a Python value (``item``, ``all``, ``argmax``, a text) reads the
elements: no gradient flows through it, and a recording refuses it for what its steps write.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from diffkern.errors import LaunchError, MisuseError, described
from diffkern.ir.structs import Stored, Struct
from diffkern.ir.types import FLOAT64, STORAGE_ONLY, Scalar, scalar_of
from diffkern.process.late import CONVERTED, EXTREME, TOTAL
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array_text import values_of

__all__ = ["Numeric"]

_OF_NUMPY: Final = frozenset({"axis", "dtype", "out", "keepdims", "initial", "where"})
"""The words with which NumPy's functions call methods of arrays."""

if TYPE_CHECKING:
    import builtins


class Numeric:
    """The part of an array that converts it to numbers."""

    __slots__ = ()

    if TYPE_CHECKING:
        shape: tuple[int, ...]
        _element: Stored

        @property
        def ndim(self) -> int: ...
        @property
        def size(self) -> int: ...
        @property
        def dtype(self) -> Any: ...
        @property
        def in_warps_dialect(self) -> bool: ...
        def __getitem__(self, key: Any) -> Any: ...
        def _nested(self) -> builtins.list[Any]: ...
        def _host(self) -> np.ndarray[Any, Any]: ...

    @brief
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

    def __complex__(self) -> complex:
        return complex(self._number("complex", (bool, int, float, complex)))

    def __index__(self) -> int:
        return operator.index(self._number("an index", (int,)))

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if self.size != 1:
            raise TypeError(
                f"the format {spec!r} is for one number, not for {described(self)}; take one with item(index), or "
                "write {a} for all"
            )
        return format(self.item(), spec)

    def _number(self, wanted: str, kinds: tuple[type, ...] = (bool, int, float)) -> Any:
        value = self.item() if self.size == 1 else None
        if not isinstance(value, kinds):
            called = wanted if " " in wanted else f"{wanted}()"
            raise TypeError(
                f"{called} is for arrays of one number, not for {described(self)}; take one with item(index)"
            )
        return value

    def tolist(self) -> builtins.list[Any]:
        """Return the elements as nested Python lists, also in Warp's dialect, where :meth:`list` gives a flat one."""
        return self._nested()

    def sum(self, axis: int | None = None, **others: Any) -> Any:
        """Add up the elements, all of them or along an axis; tapes record it.

        Parameters
        ----------
        axis : int, optional
            The axis along which elements are added.
        **others
            What ``np.sum(a)`` passes beside the axis, at its defaults.

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
        if others:
            return self._called_by_numpy("sum", axis=axis, **others)
        return self._without(axis, TOTAL(self, axis))

    def _called_by_numpy(self, name: str, **given: Any) -> Any:
        """Return a reduction that is called as NumPy's functions call methods, ``np.sum(a)`` as ``a.sum(out=None)``."""
        unknown = given.keys() - _OF_NUMPY
        if unknown:
            raise TypeError(f"{name}() got an unexpected keyword argument {min(unknown)!r}")
        if self.in_warps_dialect:
            # As in Warp, whose arrays have no such method: NumPy computes with the elements.
            return getattr(np, name)(np.asarray(self), **given)
        axis = given.pop("axis", None)
        if axis is not None and name in ("all", "any"):
            given["axis"] = axis
        asked = [f"{word}={value!r}" for word, value in given.items() if value is not None and value is not False]
        if asked:
            raise MisuseError(
                f"np.{name} of {described(self)} does not take {', '.join(asked)}",
                remedy=f"np.{name}(x.numpy(), ...) computes with NumPy, without a gradient",
            )
        return getattr(self, name)() if axis is None else getattr(self, name)(axis)

    def _without(self, axis: int | None, reduced: Any) -> Any:
        """Return what was reduced along an axis in a shape without that axis."""
        if axis is None or self.ndim == 1:
            return reduced
        return reduced.reshape(tuple(n for k, n in enumerate(self.shape) if k != axis % self.ndim))

    def mean(self, axis: int | None = None, **others: Any) -> Any:
        """Return the mean of the elements, of all of them or along an axis; tapes record it.

        Parameters
        ----------
        axis : int, optional
            The axis along which the mean is taken.
        **others
            What ``np.mean(a)`` passes beside the axis, at its defaults.

        Returns
        -------
        array
            As of :meth:`sum`; of integers and bools it is float64, and of no elements NaN.

        Raises
        ------
        LaunchError
            If there is no such axis, or the elements are structs.
        """
        if others:
            return self._called_by_numpy("mean", axis=axis, **others)
        element = self._element
        if isinstance(element, Struct):
            raise LaunchError(
                f"mean() is for arrays of numbers, not for {described(self)}", remedy="take a field, as in a.field('x')"
            )
        whole = isinstance(element, Scalar) and not element.is_float
        # A sum of half numbers exceeds their range where the mean does not.
        is_half = element in STORAGE_ONLY
        added = (self.astype(np.float64) if whole else self.astype(np.float32) if is_half else self).sum(axis)
        count = self.size if axis is None else self.shape[axis]
        mean = added / (np.float64(count) if whole or scalar_of(element) == FLOAT64 else float(count))
        return mean.astype(self.dtype) if is_half else mean

    def max(self, axis: int | None = None, **others: Any) -> Any:
        """Return the greatest element, of all or along an axis; tapes record it.

        Parameters
        ----------
        axis : int, optional
            The axis along which elements are compared.
        **others
            What ``np.max(a)`` passes beside the axis, at its defaults.

        Returns
        -------
        array
            As of :meth:`sum`. A NaN among the elements is the result. The gradient goes to the element that was
            found: of equal ones to the first.

        Raises
        ------
        LaunchError
            If there is no such axis, no element, or no order of them.
        """
        if others:
            return self._called_by_numpy("max", axis=axis, **others)
        return self._without(axis, EXTREME(self, axis, True))

    def min(self, axis: int | None = None, **others: Any) -> Any:
        """Return the least element, of all or along an axis, as :meth:`max` does; tapes record it.

        Parameters
        ----------
        axis : int, optional
            The axis along which elements are compared.
        **others
            What ``np.min(a)`` passes beside the axis, at its defaults.

        Returns
        -------
        array
            As of :meth:`max`.

        Raises
        ------
        LaunchError
            If there is no such axis, no element, or no order of them.
        """
        if others:
            return self._called_by_numpy("min", axis=axis, **others)
        return self._without(axis, EXTREME(self, axis, False))

    def argmax(self) -> int:
        """Return the place of the greatest element, counted along the flattened array; of equal ones the first.

        Raises
        ------
        ValueError
            If there is no element.
        LaunchError
            If the elements have no order, or a recording that is open has written them.
        """
        return int(self._place("argmax"))

    def argmin(self) -> int:
        """Return the place of the least element, as :meth:`argmax` does.

        Raises
        ------
        ValueError
            If there is no element.
        LaunchError
            If the elements have no order, or a recording that is open has written them.
        """
        return int(self._place("argmin"))

    def all(self, **others: Any) -> bool:
        """Return whether no element is False or zero.

        Parameters
        ----------
        **others
            What ``np.all(a)`` passes, at its defaults.

        Raises
        ------
        LaunchError
            If the elements are no numbers, or a recording that is open has written them.
        """
        if others:
            return self._called_by_numpy("all", **others)  # type: ignore[no-any-return]
        return bool(np.all(self._numbers("all")))

    def any(self, **others: Any) -> bool:
        """Return whether an element is neither False nor zero.

        Parameters
        ----------
        **others
            What ``np.any(a)`` passes, at its defaults.

        Raises
        ------
        LaunchError
            If the elements are no numbers, or a recording that is open has written them.
        """
        if others:
            return self._called_by_numpy("any", **others)  # type: ignore[no-any-return]
        return bool(np.any(self._numbers("any")))

    def _place(self, wanted: str) -> Any:
        if not self.size:
            raise ValueError(f"{wanted}() of {described(self)}: it has no element")
        return getattr(np, wanted)(self._numbers(wanted))

    def _numbers(self, wanted: str) -> np.ndarray[Any, Any]:
        """Return the elements on the host, read for a method that is named."""
        if not isinstance(self._element, Scalar):
            raise LaunchError(
                f"{wanted}() is for arrays of numbers, not for {described(self)}",
                remedy="take one field or component, or compute with .numpy()",
            )
        return values_of(self._host(), self._element)

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
