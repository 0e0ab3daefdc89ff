"""Views of an array: parts, other shapes and axes, other element types, and assignments to parts.

An index, a shape, an order of axes or an element type gives an array over the same memory, whose gradient is the same
view of the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from diffkern.errors import described
from diffkern.ir.structs import Stored, Struct, carries_gradient
from diffkern.ir.types import BFLOAT16, Mat, Vec
from diffkern.lang.dtypes import bfloat16_values, composite_type
from diffkern.lang.structs import resolve_type
from diffkern.process.late import INDEXED_ARRAY
from diffkern.runtime.arrays.array_copy import copy
from diffkern.runtime.arrays.convert import as_shape, component_shape, stored_type
from diffkern.runtime.arrays.recast import Recast, are_same_numbers
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.state import is_handled, note_read
from diffkern.runtime.memory.stream import drain

if TYPE_CHECKING:
    from diffkern.runtime.arrays.array import array

__all__ = ["Viewable"]


class Viewable:
    """The part of an array that makes views of it."""

    __slots__ = ()

    if TYPE_CHECKING:
        _data: np.ndarray[Any, Any]
        _element: Stored
        _memory: Memory
        shape: tuple[int, ...]

        @property
        def ndim(self) -> int: ...
        @property
        def size(self) -> int: ...
        def _derive(self, view: Any, element: Stored | None = None) -> array: ...
        def _is_like(self, other: array) -> bool: ...
        def _stored(self, values: Any) -> np.ndarray[Any, Any]: ...
        def contiguous(self) -> array: ...

    def __getitem__(self, index: Any) -> Any:
        """Return a view for integers, slices and an ellipsis; a value where no axis is left. None is a new axis.

        Arrays of integers, with slices and integers for other axes, give an indexed array.
        """
        parts: tuple[Any, ...] = index if isinstance(index, tuple) else (index,)
        if any(isinstance(part, Viewable) for part in parts):
            if any(part is Ellipsis or part is None for part in parts):
                raise TypeError(
                    f"an array is indexed by index arrays, slices and integers together, not by {described(parts)}"
                )
            # Slices and integers are applied first, as a view; index arrays then select along the axes that are left.
            cut = tuple(slice(None) if isinstance(part, Viewable) else part for part in parts)
            view = self if all(part == slice(None) for part in cut) else self[cut]
            along = [part for part in parts if not isinstance(part, (int, np.integer))]
            return INDEXED_ARRAY(view, [part if isinstance(part, Viewable) else None for part in along])
        for part in parts:
            known = isinstance(part, (int, np.integer, slice)) or part is Ellipsis or part is None
            if isinstance(part, bool) or not known:
                raise TypeError(
                    f"an array is indexed by integers, slices, None and '...', not {described(part)}; use .numpy()"
                )
        # Components are not elements, so the index must not reach into them.
        if len(parts) - sum(part is Ellipsis or part is None for part in parts) > self.ndim:
            raise IndexError(f"too many indices for an array of {self.ndim} axes")
        full = parts if any(part is Ellipsis for part in parts) else (*parts, Ellipsis)
        full = (*full, *(slice(None),) * len(component_shape(self._element)))
        # The shape of the result decides: reading one element waits for pending work, and views do not.
        if not self._is_element(self._data[full]):
            return self._derive(lambda data: data[full])
        note_read(self)
        drain()
        return self._value(self._memory.contents(self._data[full]))

    def _is_element(self, part: Any) -> bool:
        """Return whether a part of the data has no axis left but those of components."""
        return bool(part.ndim == len(component_shape(self._element)))

    def _value(self, element: Any) -> Any:
        """Return an element, as NumPy gives it, as a value of its own."""
        if isinstance(self._element, (Vec, Mat)):
            numbers = bfloat16_values(element) if self._element.dtype == BFLOAT16 else element.copy()
            return composite_type(self._element).wrap(numbers)
        return element[()]

    def __setitem__(self, index: Any, value: Any) -> None:
        """Assign an array, or a value to every element, of a part.

        Under a tape, assigning an array is a copy that gradients flow through; anything else is a constant.
        """
        parts = index if isinstance(index, tuple) else (index,)
        # A slice instead of an integer keeps the axis, so that one element is a view as well.
        kept = tuple(
            slice(k, None if k == -1 else k + 1) if isinstance(k, (int, np.integer)) and not isinstance(k, bool) else k
            for k in parts
        )
        view = self[kept]
        target = self._data[parts] if Ellipsis in parts else self._data[(*parts, Ellipsis)]
        if isinstance(value, Viewable):
            value = cast("array", value)
            destination: array = view.flatten() if self._is_element(target) else self[index]
            if destination._is_like(value):
                copy(destination, value)
                return
            # Broadcasting goes through the host, which a tape would take for a constant: the gradient would be lost
            # silently.
            if is_handled() and carries_gradient(value._element):
                raise ValueError(
                    f"under a tape {described(value)} cannot be assigned to a part of shape {destination.shape}: "
                    "only a copy between equal shapes and types is recorded; write a kernel that stores what you want"
                )
            view.assign(np.broadcast_to(value._host(), target.shape).reshape(view._data.shape))
        else:
            view._overwrite(np.broadcast_to(self._stored(value), target.shape).reshape(view._data.shape))

    def reshape(self, *extents: Any, shape: Any = None) -> array:
        """Return a view with another shape of as many elements; one extent may be -1.

        For an array that is not contiguous it is a view of a contiguous copy, through which gradients flow.

        Parameters
        ----------
        *extents : int or sequence of int
            The shape, as one sequence or extent by extent.
        shape : int or sequence of int, optional
            The same by name.

        Raises
        ------
        TypeError
            If both are given, or neither is.
        """
        if (shape is None) is not bool(extents):
            raise TypeError("reshape() takes extents, or shape=")
        given: Any = shape if shape is not None else extents[0] if len(extents) == 1 else extents
        given = (given,) if isinstance(given, (int, np.integer)) else given
        whole = self.contiguous()
        full = (*(int(extent) for extent in given), *component_shape(self._element))
        # NumPy cannot infer an extent of an empty array.
        if full.count(-1) and not self.size:
            full = (*as_shape([0 if n == -1 else n for n in full[: len(given)]]), *full[len(given) :])
        return whole._derive(lambda data: data.reshape(full))

    def flatten(self) -> array:
        """Return a view with one axis; for an array that is not contiguous, a copy of it."""
        return self.reshape(self.size)

    def transpose(self, axes: Sequence[int] | None = None) -> array:
        """Return a view with the axes in another order, reversed by default.

        Parameters
        ----------
        axes : sequence of int, optional
            For each axis of the view, the axis of this array.
        """
        order = tuple(range(self.ndim))[::-1] if axes is None else tuple(axes)
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"the axes of {described(self)} in another order are not {order}")
        full = (*order, *range(self.ndim, self._data.ndim))
        return self._derive(lambda data: data.transpose(full))

    @property
    def T(self) -> array:
        """A view with the axes in reverse order."""
        return self.transpose()

    @property
    def mT(self) -> array:
        """A view with the last two axes exchanged, which transposes each matrix of a batch."""
        if self.ndim < 2:
            raise ValueError(f"{described(self)} has one axis, and is no matrix")
        return self.transpose((*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))

    def view(self, dtype: Any) -> array:
        """Return a view of the same memory as elements of another type of the same size.

        Vectors and matrices are viewed as numbers too, with their components as last axes, and numbers as vectors and
        matrices whose components the last axes are. Its gradient is the same view of the gradient if the elements
        consist of numbers of the same type; as other numbers no gradient goes through it.
        """
        element = resolve_type(dtype)
        inner, stored = component_shape(element), stored_type(element)
        size = stored.itemsize * math.prod(inner)
        if isinstance(element, Struct) or isinstance(self._element, Struct):
            raise ValueError(f"{described(self)} cannot be viewed as elements of {element}")
        if size != self._item_bytes():
            return self._by_component(element)

        def as_element(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            if data.dtype.itemsize != stored.itemsize and not data.flags.c_contiguous:
                raise ValueError(f"only a contiguous array can be viewed as elements of {element}; use contiguous()")
            if data.dtype.itemsize != stored.itemsize:
                return data.reshape(-1).view(stored).reshape(*self.shape, *inner)
            strides = data.strides[: self.ndim] + np.empty(inner, stored).strides
            return np.lib.stride_tricks.as_strided(data.view(stored), (*self.shape, *inner), strides)

        return self._derive(Recast(as_element, are_same_numbers(self._element, element)), element)

    def _by_component(self, element: Stored) -> array:
        """Return vectors viewed as numbers, or numbers as vectors; matrices likewise."""
        inner, own = component_shape(element), component_shape(self._element)
        stored = stored_type(element)
        same = self._data.dtype.itemsize == stored.itemsize
        shape = self.shape[self.ndim - len(inner) :] if not own else ()
        if not same or bool(inner) == bool(own) or (inner and shape != inner):
            why = "they are not of the same size" if not inner else f"its last axes are not {inner}"
            raise ValueError(f"{described(self)} cannot be viewed as elements of {element}: {why}")
        # A kernel loads the components of an element from one address, so that they have to be next to each other.
        contiguous = np.empty(inner, stored).strides
        if inner and self._data.strides[self.ndim - len(inner) :] != contiguous:
            raise ValueError(f"only an array whose last axes are contiguous can be viewed as elements of {element}")

        def as_element(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            # A single vector is an array with one element.
            return (data if data.ndim > len(inner) else data[None]).view(stored)

        return self._derive(Recast(as_element, are_same_numbers(self._element, element)), element)

    def _item_bytes(self) -> int:
        return stored_type(self._element).itemsize * math.prod(component_shape(self._element))

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, as NumPy calls them."""
        return self.capacity

    @property
    def capacity(self) -> int:
        """Bytes of the elements."""
        return self.size * self._item_bytes()
