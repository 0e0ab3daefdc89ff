"""Arrays of other libraries on a GPU, by ``__cuda_array_interface__`` (version 3, and earlier without streams).

An object with the interface (of CuPy, numba, PyTorch) becomes an array over the same memory that keeps the object
alive. The current stream of its device waits for the present work of the object's stream.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from diffkern.ir.structs import Stored, Struct
from diffkern.ir.types import scalar_of
from diffkern.runtime.arrays.array import _make, array
from diffkern.runtime.arrays.convert import component_shape, element_of, stored_type
from diffkern.runtime.cuda.context import CudaDevice
from diffkern.runtime.cuda.devices import devices
from diffkern.runtime.cuda.memory import DeviceView, foreign
from diffkern.runtime.cuda.stream import CudaStream
from diffkern.runtime.memory.device import gpu_named

__all__ = ["imported", "let_wait", "over_address", "wait_for"]


def imported(value: Any, element: Stored | None) -> array:
    """Return an array over the memory of an object with ``__cuda_array_interface__``.

    Raises
    ------
    TypeError
        If kernels cannot work on its elements.
    """
    given = value.__cuda_array_interface__
    address, read_only = given["data"]
    strides = given.get("strides")
    if given.get("mask") is not None:
        raise TypeError("arrays with a mask have no counterpart")
    device = _device_of(value, int(address or 0))
    made = over_address(
        device, address, tuple(given["shape"]), np.dtype(given["typestr"]), strides, element, value, bool(read_only)
    )
    # Before version 3 of the interface there was no stream, and the exporter has to have synchronized.
    stream = given.get("stream")
    if stream is not None:
        wait_for(device, int(stream))
    return made


def over_address(
    device: CudaDevice,
    address: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    strides: tuple[int, ...] | None,
    element: Stored | None,
    owner: Any,
    read_only: bool = False,
) -> array:
    """Return an array over memory of a GPU that another library owns; `owner` is kept alive as long as it is used.

    Parameters
    ----------
    device : CudaDevice
        The device of the memory.
    address : int
        The address of the first element.
    shape, dtype, strides
        As of a NumPy array; strides in bytes, None for contiguous elements.
    element : element type, optional
        The element type of the array; its components are the last axes.
    owner
        The object that keeps the memory alive.
    read_only : bool, optional
        Whether kernels may not write to it.
    """
    if element is None:
        element = element_of(dtype)
        if element is None:
            raise TypeError(f"no element type for {dtype!r}")
    inner = component_shape(element)
    if dtype != stored_type(element):
        named = element.name if isinstance(element, Struct) else scalar_of(element)
        raise TypeError(f"elements of type {dtype.str!r} are not {named}")
    if inner and tuple(shape[len(shape) - len(inner) :]) != inner:
        raise TypeError(f"the last axes of shape {shape} are not the components {inner} of {element}")
    view = DeviceView.over(address, shape, dtype, strides)
    if inner and view.size and not view[(0,) * (view.ndim - len(inner))].flags.c_contiguous:
        raise TypeError(f"the components of each {element} are not next to each other in memory")
    if address % dtype.alignment:
        raise TypeError("the elements are not aligned in memory")
    made = _make(view, element, foreign(device, address, view.nbytes, owner), not read_only)  # type: ignore[arg-type]
    # With strides the elements span more bytes than they have.
    if made._memory.address and made._range[1] - made._range[0] > made._memory.nbytes:
        made._memory.nbytes = made._range[1] - made._range[0]
    return made


def wait_for(device: CudaDevice, stream: int) -> None:
    """Make the current stream of a device wait for the present work of a driver's stream (1 is the default stream)."""
    if stream == 2:
        # The default stream of this thread is not one that diffkern uses; its work is waited for here.
        device.synchronize()
        return
    other = CudaStream(device, cuda_stream=0 if stream == 1 else stream, non_blocking=True)
    mine = device.stream
    if other.cuda_stream != mine.cuda_stream:
        mine.wait_event(other.record_event())


def let_wait(device: CudaDevice, stream: int | None) -> None:
    """Make another library's stream wait for the current one of a device, as DLPack asks for it.

    Parameters
    ----------
    device : CudaDevice
        The device of the memory.
    stream : int or None
        None and 1 for the default stream, 2 for that of the thread, -1 for none, else the driver's handle.
    """
    if stream == -1:
        return
    if stream == 0:
        raise BufferError("stream 0 is ambiguous in DLPack; pass 1 for the default stream, or 2 for the thread's own")
    if stream == 2:
        device.synchronize()
        return
    other = CudaStream(device, cuda_stream=0 if stream in (None, 1) else stream, non_blocking=True)
    mine = device.stream
    if other.cuda_stream != mine.cuda_stream:
        other.wait_event(mine.record_event())


def _device_of(value: Any, address: int) -> CudaDevice:
    """Return the GPU with an object's memory: as the driver says of the address, or else as the object says.

    For an array without elements, or if neither knows, it is the only GPU or the current one.
    """
    known = devices()
    ordinal = known[0].driver.device_of(address) if known and address else None
    where = getattr(value, "device", None)
    for name in ("index", "id"):
        ordinal = getattr(where, name, None) if ordinal is None else ordinal
    if isinstance(ordinal, int) and 0 <= ordinal < len(known):
        return known[ordinal]
    found: CudaDevice = gpu_named("cuda")
    return found
