"""An array from data: of another array, of NumPy or another library, or nested lists.

In: what ``dk.array`` was given. Out: a new array, or one over the memory of the data, on the device that was named.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from diffkern.ir.structs import Stored, Struct
from diffkern.lang.dtypes import CompositeValue
from diffkern.lang.structs import definition_of
from diffkern.runtime.array import _given, array, new, wrap
from diffkern.runtime.convert import as_numpy, bfloat16_as_bits, component_shape, element_of
from diffkern.runtime.device import CPU, get_device
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
            raise ValueError(f"{data!r} lies on {data.device}; an array on {place} is made with copy=True")
    elif not copy and device is not None and place is not CPU:
        raise ValueError(f"host memory is no memory of {place}; make the array with copy=True")
    if element is None:
        element = _struct_of(data)
    source = data._host() if isinstance(data, array) else _as_numpy(data, element)
    if source.dtype.kind == "V":
        source, element = bfloat16_as_bits(source, element)
    if element is None:
        if isinstance(data, array):
            element = data._element
        elif isinstance(data, CompositeValue) and data.composite is not None:
            element = data.composite.ir
        elif (known := element_of(source.dtype.newbyteorder("="))) is not None:
            element = known
        else:
            raise TypeError(f"no element type for NumPy's {source.dtype!r}; convert the data, or state a dtype")
    inner = component_shape(element)
    if shape is not None:
        if copy is False and not source.flags.c_contiguous:
            raise ValueError("copy=False with another shape needs contiguous data")
        source = source.reshape((*shape, *inner))
    elif source.ndim == len(inner):
        source = source.reshape((1, *source.shape))
    if inner and source.shape[-len(inner) :] != inner:
        raise ValueError(f"the last axes of data of shape {source.shape} must be the components {inner} of {element}")
    if not copy:
        return wrap(source, element)
    made = new(source.shape[: source.ndim - len(inner)], element, False, place, pinned)
    made._memory.assign(made, made._stored(source))
    return made


def _from_device(data: array, element: Stored | None, shape: tuple[int, ...] | None, copy: bool) -> array:
    """Return an array over or with the elements of one on a GPU, without a way by the host where types agree."""
    if element is not None and element != data._element:
        if copy:
            return _from_data(data._host(), element, shape, True, data.device, False)
        raise TypeError(f"{data!r} has no elements of type {element}")
    part = data if shape is None else data.reshape(shape)
    if not copy:
        return part._derive(lambda view: view[...])
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


array._from_data = staticmethod(_from_data)
