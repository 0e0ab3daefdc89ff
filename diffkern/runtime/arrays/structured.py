"""Arrays of structs: the elements lie one after the other as in C, and each field is a strided array over them.

The ``numpy()`` of such an array is structured, and its :meth:`StructuredArray.field` views are arrays like any other,
with a view of the gradient as their gradient.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from diffkern.errors import described
from diffkern.ir.structs import Stored, Struct, StructArray, holds_arrays
from diffkern.ir.structs import leaves as leaves_of
from diffkern.ir.types import Array
from diffkern.lang.structs import class_of, definition_of
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.convert import as_numpy, stored_type
from diffkern.runtime.arrays.structs import arrays_in, element_values, from_element

__all__ = ["StructuredArray"]


_LONG = 2**31


class StructuredArray(array):
    """An array of structs. ``dk.array(…, dtype=S)``, ``dk.zeros(n, dtype=S)`` and their like make it."""

    __slots__ = ()

    _element: Struct

    @property
    def dtype(self) -> type:
        """The struct's class."""
        return class_of(self._element)

    def _summary(self) -> str:
        return f"array(shape={self.shape}, dtype={self._element.name})"

    def field(self, path: str) -> array:
        """Return the view of one field of all elements; ``"pose.x"`` is a field of a nested struct.

        Raises
        ------
        AttributeError
            If there is no such field.
        """
        element: Stored = self._element
        for name in path.split("."):
            known = dict(element.fields) if isinstance(element, Struct) else {}
            if name not in known:
                raise AttributeError(f"{self._element.name} has no field {path!r}")
            field = known[name]
            if isinstance(field, (Array, StructArray)):
                raise AttributeError(
                    f"the field {path!r} of {described(self)} is an array of each element: take it from one"
                )
            element = field
        return self._part(tuple(path.split(".")), element)

    def _part(self, path: tuple[str, ...], element: Stored) -> array:
        def view(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            for name in path:
                data = data[name]
            return data

        return self._derive(view, element)

    def _leaves(self) -> builtins.list[array]:
        return [self._part(path, leaf.held.dtype) for path, leaf in leaves_of(self._type)]  # type: ignore[union-attr]

    def _value(self, element: Any) -> Any:
        return from_element(self._element, element, self._memory.pointed or {})

    def _stored(self, values: Any) -> np.ndarray[Any, Any]:
        """Return structs, nested lists of them, or values in NumPy's equally structured form, as they are stored."""
        stored = stored_type(self._element)
        if isinstance(values, (np.ndarray, np.void)):
            if holds_arrays(self._element):
                raise TypeError(f"addresses of arrays are not taken from NumPy: assign {self._element.name}, or a list")
            given = as_numpy(values)
            if given.dtype.names != stored.names:
                raise TypeError(f"values of NumPy's {given.dtype} are not structs {self._element.name}")
            return given.astype(stored, casting="same_kind", copy=False)
        out = np.zeros(_shape(values), dtype=stored)
        _fill(out, values, self._element)
        if holds_arrays(self._element):
            self._keep(values)
        return out

    def _keep(self, values: Any) -> None:
        """Keep the arrays that elements point to alive for as long as this memory."""
        if isinstance(values, (list, tuple)):
            for value in values:
                self._keep(value)
            return
        for held in arrays_in(values):
            if held._memory.device is not self._memory.device:
                raise ValueError(
                    f"an element of {described(self)} on {self.device} cannot hold {described(held)} on {held.device}"
                )
            if max(held.shape) >= _LONG:
                raise ValueError(
                    f"an element of {described(self)} cannot hold {described(held)}: an extent is 2**31 or more"
                )
            known = self._memory.pointed
            if known is None:
                known = self._memory.pointed = {}
            # Never removed: a kernel on its way, or another view, may still follow an address that an element had.
            known.setdefault(held._packed, held)

    # -- what others see: addresses are not given away to be changed -----------------------------------------------

    def _lent(self) -> np.ndarray[Any, Any]:
        if not holds_arrays(self._element):
            return super()._lent()
        # A user's write to a descriptor would be an address that nothing keeps alive.
        made = self._data.copy()
        made.flags.writeable = False
        return made

    @property
    def __array_interface__(self) -> dict[str, Any]:
        self._check_shared()
        return super().__array_interface__

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._check_shared()
        return super().__cuda_array_interface__

    def _check_shared(self) -> None:
        if holds_arrays(self._element):
            raise AttributeError(f"the memory of {described(self)} is not shared: its elements point to arrays")


def _shape(values: Any) -> tuple[int, ...]:
    if isinstance(values, (list, tuple)):
        return (len(values), *(_shape(values[0]) if values else ()))
    return ()


def _fill(out: np.ndarray[Any, Any], values: Any, struct: Struct) -> None:
    if isinstance(values, (list, tuple)):
        if not out.ndim or len(values) != len(out):
            raise ValueError(f"the nested lists of {struct.name} are not of equal length")
        for k, value in enumerate(values):
            _fill(out[k : k + 1].reshape(out.shape[1:]), value, struct)
        return
    definition = definition_of(type(values))
    if definition is None or definition.type != struct:
        raise TypeError(f"an element must be a {struct.name}, not {described(values)}")
    if out.ndim:
        raise ValueError(f"the nested lists of {struct.name} are not of equal length")
    out[...] = element_values(values)
