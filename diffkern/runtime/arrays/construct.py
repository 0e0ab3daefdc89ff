"""Construction of arrays from data: another array, one of NumPy or another library, nested lists, or an address.

The result is a new array on the device that was named, or one over the memory of the data.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from diffkern.errors import described
from diffkern.ir.structs import Stored, Struct, holds_arrays
from diffkern.ir.types import INT8, UINT8, is_complex
from diffkern.lang.structs import definition_of
from diffkern.lang.values import CompositeValue
from diffkern.runtime.arrays.addresses import around, beside, note
from diffkern.runtime.arrays.array import _given, _make, array, new, wrap
from diffkern.runtime.arrays.array_copy import check_copied
from diffkern.runtime.arrays.complexes import as_parts
from diffkern.runtime.arrays.convert import (
    as_numpy,
    bfloat16_as_bits,
    component_shape,
    element_of,
    in_place,
    stored_type,
)
from diffkern.runtime.arrays.operation import Copy
from diffkern.runtime.arrays.recast import Recast, are_same_numbers, is_injective
from diffkern.runtime.memory.device import CPU, Device, get_device
from diffkern.runtime.memory.memory import byte_range

__all__ = ["at_address", "from_data"]


def from_data(
    data: Any, element: Stored | None, shape: tuple[int, ...] | None, copy: bool, device: Any, pinned: bool
) -> array:
    if not isinstance(data, (array, np.ndarray)) and hasattr(data, "__cuda_array_interface__"):
        data = _given(data, element)
    place = get_device(device)
    if isinstance(data, array):
        # Data on a GPU that stay there are not copied to the host, as the general path below does.
        if data.device is not CPU and (place is data.device or device is None):
            return _from_device(data, element, shape, copy)
        if not copy and place is not CPU:
            raise ValueError(f"{described(data)} lies on {data.device}; an array on {place} is made with copy=True")
    elif not copy and device is not None and place is not CPU:
        raise ValueError(f"host memory is no memory of {place}; make the array with copy=True")
    if element is None:
        element = _struct_of(data)
    if isinstance(element, Struct) and holds_arrays(element):
        return _pointing(data, element, shape, copy, place, pinned)
    source = data._host() if isinstance(data, array) else _as_numpy(data, element)
    if source.dtype.kind == "V":
        source, element = bfloat16_as_bits(source, element)
    if not (isinstance(data, array) and is_complex(data._element)):
        # Complex elements of an array of diffkern come as pairs already.
        source, element = as_parts(source, element)
    if element is None:
        if isinstance(data, array):
            element = data._element
        elif isinstance(data, CompositeValue):
            element = data.ir
        elif (known := element_of(source.dtype.newbyteorder("="))) is not None:
            element = known
        else:
            raise TypeError(f"no element type for NumPy's {source.dtype!r}; convert the data, or state a dtype")
    inner = component_shape(element)
    if shape is not None:
        if copy is False and not source.flags.c_contiguous:
            raise ValueError("copy=False with another shape needs contiguous data")
        source = source.reshape((*shape, *inner))
    elif source.ndim == len(inner) and source.shape == inner:
        # One vector or matrix is an array of one element: there are no arrays without axes.
        source = source.reshape((1, *source.shape))
    if inner and copy and source.shape[-len(inner) :] != inner:
        source = _in_components(source, inner)
    if inner and source.shape[-len(inner) :] != inner:
        raise ValueError(f"the last axes of data of shape {source.shape} must be the components {inner} of {element}")
    if not copy and isinstance(data, array) and source.size:
        return _shared(data, source, element)
    if not copy:
        made = wrap(source, element)
        note(made)  # whose address is known to who gave the data
        return made
    made = new(source.shape[: source.ndim - len(inner)], element, False, place, pinned)
    made._memory.assign(made, made._stored(source))
    return made


def _shared(data: array, source: np.ndarray[Any, Any], element: Stored) -> array:
    """Return a view of an array of the host whose elements have the shape and type that NumPy shows them with."""
    if source.shape == data._data.shape and element == data._element:
        return data._derive(lambda view: view[...])
    low, high = byte_range(source)
    place = Place(low, high, source.ctypes.data - low, source.shape, source.dtype, source.strides)
    return _part_of(data, place, element)


def _pointing(
    data: Any, element: Struct, shape: tuple[int, ...] | None, copy: bool, place: Device, pinned: bool
) -> array:
    """Return an array of structs whose fields are arrays."""
    # Such elements are addresses. Only instances of the struct tell which arrays they point to, and keep them alive.
    if isinstance(data, (array, np.ndarray)) or not copy:
        raise TypeError(f"an array of {element.name}, which has array fields, is made of a list of {element.name}")
    nested: Any = data
    extents: list[int] = []
    while isinstance(nested, (list, tuple)):
        extents.append(len(nested))
        nested = nested[0] if nested else None
    made = new(tuple(extents) or (1,), element, True, place, pinned)
    if made.size:
        made._overwrite(made._stored(data))
    return made if shape is None else made.reshape(shape)


def _in_components(source: np.ndarray[Any, Any], inner: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return numbers with axes of components split off, if the last axes hold the components of whole elements."""
    size = math.prod(inner)
    if not source.size:
        return source.reshape((*source.shape[:1], *inner))
    # Components as one flat axis, or as the two axes of a matrix of another shape with as many components.
    for axes in (1, 2):
        if source.ndim >= axes and math.prod(source.shape[-axes:]) == size:
            return source.reshape((*(source.shape[:-axes] or (1,)), *inner))
    whole, rest = divmod(source.shape[-1] if source.ndim else 0, size)
    return source if not source.ndim or rest else source.reshape((*source.shape[:-1], whole, *inner))


def _from_device(data: array, element: Stored | None, shape: tuple[int, ...] | None, copy: bool) -> array:
    """Return an array over or with the elements of one on a GPU, without a detour over the host if the types agree."""
    if element is not None and element != data._element:
        if copy:
            return from_data(data._host(), element, shape, True, data.device, False)
        raise TypeError(f"{described(data)} has no elements of type {element}")
    part = data if shape is None else data.reshape(shape)
    if not copy:
        return part._derive(lambda view: view[...])
    check_copied(part)
    made = new(part.shape, part._element, False, data._memory.device)
    Copy(made, part).execute()
    return made


def _struct_of(data: Any) -> Struct | None:
    """Return the type of the first struct in nested lists, or None if they hold something else."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    definition = definition_of(type(data))
    return None if definition is None else definition.type


def _as_numpy(data: Any, element: Stored | None) -> np.ndarray[Any, Any]:
    if isinstance(element, Struct) and not isinstance(data, np.ndarray):
        return new((1,), element, zero=True)._stored(data)
    return as_numpy(data)


def at_address(
    ptr: int,
    shape: tuple[int, ...],
    element: Stored,
    strides: Sequence[int] | None,
    capacity: int | None,
    deleter: Callable[[int, int], Any] | None,
    device: Any,
    has_own: bool,
) -> array:
    """Return an array over memory that is given by its address; `has_own` says that it gets a gradient of its own."""
    inner, stored = component_shape(element), stored_type(element)
    item = stored.itemsize * math.prod(inner)
    steps = _row_major(shape, item) if strides is None else tuple(map(int, strides))
    if len(steps) != len(shape):
        raise ValueError(f"there are {len(steps)} strides for {len(shape)} axes")
    # Negative strides reach below the address, so that the bytes in use begin `before` bytes in front of it.
    ends = [(n - 1) * step for n, step in zip(shape, steps, strict=True)]
    before, size = -sum(end for end in ends if end < 0), item + sum(map(abs, ends))
    if not math.prod(shape) or not ptr:
        return new(shape, element, True, get_device(device) if device is not None else CPU)
    if capacity is not None and size > capacity:
        raise ValueError(f"{shape} elements of {element} take {size} bytes, and there are {capacity}")
    low = int(ptr) - before
    place = Place(low, low + size, before, (*shape, *inner), stored, (*steps, *_row_major(inner, stored.itemsize)))
    made = _within(place, element, None if device is None else get_device(device), has_own)
    # Tied to this array and not its memory: a view of an existing array has that one's memory.
    if deleter is not None:
        weakref.finalize(made, deleter, ptr, size)
    return made


def _row_major(shape: Sequence[int], size: int) -> tuple[int, ...]:
    return tuple(size * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


class Place(NamedTuple):
    """The place of elements in memory: bounds of their bytes, offset of the first element, and NumPy layout."""

    low: int
    high: int
    first: int
    shape: tuple[int, ...]
    stored: np.dtype[Any]
    strides: tuple[int, ...]

    def within(self, data: np.ndarray[Any, Any], start: int) -> np.ndarray[Any, Any]:
        """Return the elements as a view of contiguous data in which their bytes begin at an offset."""
        whole = data.reshape(-1).view(np.uint8)
        made: np.ndarray[Any, Any] = np.ndarray(
            self.shape,
            self.stored,
            whole,
            start + self.first,
            self.strides,
        )
        return made

    def at_address(self) -> np.ndarray[Any, Any]:
        """Return the elements in place, in host memory."""
        memory: Any = memoryview((ctypes.c_byte * (self.high - self.low)).from_address(self.low))
        return np.ndarray(self.shape, self.stored, memory, self.first, self.strides)


def _within(place: Place, element: Stored, device: Device | None, has_own: bool) -> array:
    """Return the array of the elements at a place: a view of the array around them, or one over foreign memory."""
    # Memory of diffkern's own has a version and perhaps a gradient. A view keeps both; a second memory over the same
    # bytes would make changes through one invisible to the other.
    held = around(place.low, place.high)
    if held is None and (other := beside(place.low, place.high)) is not None:
        raise ValueError(
            f"{place.high - place.low} bytes from this address on begin or end within {described(other)}, and do not "
            "lie in it as a whole"
        )
    if held is not None and device is not None and device is not held.device:
        raise ValueError(f"this address lies in {described(held)} on {held.device}, which is no memory of {device}")
    if held is not None and not _is_raw(held, element) and not (has_own and held.grad is None):
        return _part_of(held, place, element)
    if (device if held is None else held.device) not in (None, CPU):
        made = _given(_Address(place, held), element)
    else:
        made = wrap(place.at_address(), element)
    made._owner = held  # type: ignore[attr-defined]  # which is kept alive
    return made


def _is_raw(held: array, element: Stored) -> bool:
    """Return whether an array is a buffer of bytes in which other arrays, independent of it, are laid out."""
    return held._element != element and held._element in (INT8, UINT8)


class _Address:
    """Memory of a GPU as an object with the interface by which libraries pass such memory to each other."""

    def __init__(self, place: Place, held: array | None) -> None:
        self._held = held
        self.__cuda_array_interface__ = {
            "shape": place.shape, "typestr": place.stored.str, "strides": place.strides, "version": 3,
            "data": (place.low + place.first, False),
        }  # fmt: skip


def _part_of(held: array, place: Place, element: Stored) -> array:
    """Return elements within an array as a view of it."""
    # A strided view has no contiguous bytes to index into; its parent may, and has the gradient.
    while held._type.layout != "C" and held._grad is None and held._parent is not None:
        held = held._parent
    start, item = place.low - held._range[0], stored_type(element).itemsize
    if held._type.layout != "C":
        # Between its elements lie others, which its gradient knows nothing of.
        data = place.at_address() if held.device is CPU else _given(_Address(place, held), element)._data
        made = _make(data, element, held._memory, held._writable)
        made._parent, made._view = held, Recast(lambda _: place.at_address(), False)
        return made
    # Structs mix types, so that a shifted view shows the same numbers only from one whole struct to the next.
    is_even = not isinstance(element, Struct) or not any(n % item for n in (start + place.first, *place.strides))
    keeps = are_same_numbers(held._element, element) and is_even
    recast = Recast(lambda data: place.within(data, start), keeps)
    data = recast(held._data)
    # Checked on a stand-in where the data are on a GPU, as only type and alignment matter.
    in_place(data if isinstance(data, np.ndarray) else data._shadow, element)
    made = held._derive(recast, element)
    # Where several indices are one element, the same view of the gradient would be written by several threads: no
    # gradient goes through it.
    if not is_injective(made):
        recast.keeps_numbers = False
    return made
