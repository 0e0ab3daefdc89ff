"""An array from data: of another array, of NumPy or another library, or nested lists.

In: what ``dk.array`` was given, which may be an address of the CPU. Out: a new array, or one over the memory of the
data, on the device that was named.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffkern.errors import described
from diffkern.ir.structs import Stored, Struct, holds_arrays
from diffkern.ir.types import is_complex
from diffkern.lang.annotations import ArrayOf
from diffkern.lang.structs import definition_of
from diffkern.lang.values import CompositeValue
from diffkern.runtime.array import _given, array, new, wrap
from diffkern.runtime.array_copy import check_copied
from diffkern.runtime.complexes import as_parts
from diffkern.runtime.convert import as_numpy, bfloat16_as_bits, component_shape, element_of, stored_type
from diffkern.runtime.device import CPU, Device, get_device
from diffkern.runtime.operation import Copy

__all__: list[str] = []


def _from_data(
    data: Any, element: Stored | None, shape: tuple[int, ...] | None, copy: bool, device: Any, pinned: bool
) -> array:
    if not isinstance(data, (array, np.ndarray)) and hasattr(data, "__cuda_array_interface__"):
        data = _given(data, element)
    place = get_device(device)
    if isinstance(data, array):
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
        source = source.reshape((1, *source.shape))
    if inner and copy and source.shape[-len(inner) :] != inner:
        source = _in_components(source, inner)
    if inner and source.shape[-len(inner) :] != inner:
        raise ValueError(f"the last axes of data of shape {source.shape} must be the components {inner} of {element}")
    if not copy:
        return wrap(source, element)
    made = new(source.shape[: source.ndim - len(inner)], element, False, place, pinned)
    made._memory.assign(made, made._stored(source))
    return made


def _pointing(
    data: Any, element: Struct, shape: tuple[int, ...] | None, copy: bool, place: Device, pinned: bool
) -> array:
    """Return an array of structs whose fields are arrays."""
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
    """Numbers whose last axes hold as many as components, or several times so many, with the axes of components."""
    size = math.prod(inner)
    if not source.size:
        return source.reshape((*source.shape[:1], *inner))
    for axes in (1, 2):
        if source.ndim >= axes and math.prod(source.shape[-axes:]) == size:
            return source.reshape((*(source.shape[:-axes] or (1,)), *inner))
    whole, rest = divmod(source.shape[-1] if source.ndim else 0, size)
    return source if not source.ndim or rest else source.reshape((*source.shape[:-1], whole, *inner))


def _from_device(data: array, element: Stored | None, shape: tuple[int, ...] | None, copy: bool) -> array:
    """Return an array over or with the elements of one on a GPU, without a way by the host where types agree."""
    if element is not None and element != data._element:
        if copy:
            return _from_data(data._host(), element, shape, True, data.device, False)
        raise TypeError(f"{described(data)} has no elements of type {element}")
    part = data if shape is None else data.reshape(shape)
    if not copy:
        return part._derive(lambda view: view[...])
    check_copied(part)
    made = new(part.shape, part._element, False, data._memory.device)
    Copy(made, part).execute()
    return made


def _struct_of(data: Any) -> Struct | None:
    """The type of the first of the structs in nested lists, or None if they hold something else."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    definition = definition_of(type(data))
    return None if definition is None else definition.type


def _as_numpy(data: Any, element: Stored | None) -> np.ndarray[Any, Any]:
    if isinstance(element, Struct) and not isinstance(data, np.ndarray):
        return new((1,), element, zero=True)._stored(data)
    return as_numpy(data)


def _at(
    ptr: int,
    shape: tuple[int, ...],
    element: Stored,
    strides: Sequence[int] | None,
    capacity: int | None,
    deleter: Callable[[int, int], Any] | None,
) -> array:
    """Return an array over memory of the CPU."""
    inner, stored = component_shape(element), stored_type(element)
    whole = np.empty((1,) * len(shape) + inner, stored)
    steps = None if strides is None else (*strides, *whole.strides[len(shape) :])
    ends = sum((n - 1) * s for n, s in zip(shape, strides or (), strict=bool(strides))) if strides else 0
    size = stored.itemsize * math.prod(inner) * (1 if strides else math.prod(shape)) + ends
    if capacity is not None and size > capacity:
        raise ValueError(f"{shape} elements of {element} take {size} bytes, and there are {capacity}")
    if not size or not ptr:
        return new(shape, element, True)
    memory = (ctypes.c_byte * size).from_address(ptr)
    data: Any = memoryview(memory)
    made = wrap(np.ndarray((*shape, *inner), stored, data, strides=steps), element)
    if deleter is not None:
        weakref.finalize(made, deleter, ptr, size)
    return made


array._at = staticmethod(_at)
array._from_data = staticmethod(_from_data)
ArrayOf.make = array
