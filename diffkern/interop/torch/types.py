"""PyTorch's names for element types, devices and streams, and ours for PyTorch's.

Each function takes a type, device or stream of one side and returns that of the other, or raises an error if there is
none.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from diffkern.interop.torch.place import as_external, current_stream, gpu_of, stream_of
from diffkern.ir import types as T
from diffkern.lang.dtypes import COMPOSITES, SCALARS, CompositeType, DType, resolve_dtype
from diffkern.runtime.memory.device import Device, get_device
from diffkern.runtime.memory.stream import Stream, get_stream

__all__ = [
    "device_from_torch", "device_to_torch", "dtype_from_torch", "dtype_is_compatible", "dtype_to_torch", "same_bits",
    "scalar_from_torch", "stream_from_torch", "stream_to_torch", "torch_of",
]  # fmt: skip

_NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64",
)  # fmt: skip
_TO: Mapping[T.Scalar, torch.dtype] = {T.SCALARS[name]: getattr(torch, name) for name in _NAMES}
_FROM: Mapping[torch.dtype, T.Scalar] = {theirs: ours for ours, theirs in _TO.items()}


def torch_of(scalar: T.Scalar) -> torch.dtype:
    """Return PyTorch's type of a scalar."""
    return _TO[scalar]


def scalar_from_torch(dtype: torch.dtype) -> T.Scalar | None:
    """Return the scalar for a type of PyTorch, or None."""
    return _FROM.get(dtype)


def same_bits(theirs: torch.dtype, ours: T.Scalar) -> bool:
    """Return whether a tensor's elements can be read as a type: the same one, an integer's other sign,
    a bool's byte.
    """
    # Of types that diffkern has none for, nothing is known.
    found = _FROM.get(theirs)
    if found is None or found == ours:
        return found is not None
    integers = (T.Kind.INT, T.Kind.UINT)
    if found == T.BOOL:
        return ours in (T.INT8, T.UINT8)
    return found.kind in integers and ours.kind in integers and found.bits == ours.bits


def dtype_to_torch(dtype: Any) -> torch.dtype:
    """Return PyTorch's type of an element type: of a vector or matrix that of its components.

    Parameters
    ----------
    dtype
        ``dk.float32``, ``dk.vec3``, ``float``, …

    Raises
    ------
    TypeError
        If it is no element type.
    """
    element = resolve_dtype(dtype)
    found = _TO[T.scalar_of(element)]
    return found.to_complex() if T.is_complex(element) else found


def dtype_from_torch(torch_dtype: torch.dtype) -> DType | CompositeType:
    """Return the scalar type for a type of PyTorch.

    Raises
    ------
    TypeError
        If diffkern has none: quantised and 8-bit floating-point types, and complex ones of 16-bit floats.
    """
    # Complex numbers are vectors of two, which diffkern has of these floats only.
    if torch_dtype.is_complex and torch_dtype.to_real() in (torch.float32, torch.float64):
        return COMPOSITES[str(torch_dtype).removeprefix("torch.")]
    found = _FROM.get(torch_dtype)
    if found is None:
        raise TypeError(f"diffkern has no type for {torch_dtype}; convert the tensor with .to()")
    return SCALARS[found.name]


def dtype_is_compatible(torch_dtype: torch.dtype, dtype: Any) -> bool:
    """Return whether tensors of a type can be seen as arrays of an element type without a copy."""
    element = dtype.ir if isinstance(dtype, (DType, CompositeType)) else resolve_dtype(dtype)
    return same_bits(torch_dtype, T.scalar_of(element))


def device_from_torch(torch_device: torch.device | str) -> Device:
    """Return the device for a device of PyTorch.

    Raises
    ------
    ValueError
        If diffkern does not run there.
    """
    device = torch.device(torch_device)
    # PyTorch may number the CPU, of which there is one.
    return get_device("cpu" if device.type == "cpu" else str(device))


def device_to_torch(device: Any = None) -> str:
    """Return PyTorch's name of a device: ``"cpu"``, ``"cuda:0"``."""
    return str(get_device(device))


def stream_from_torch(stream_or_device: Any = None) -> Stream:
    """Return PyTorch's stream as a diffkern stream: a stream itself, or the current one of a device.

    PyTorch works on the CPU at once and in order, so for the CPU that is the default stream.

    Parameters
    ----------
    stream_or_device : torch.device, str or torch.cuda.Stream, optional
        A device of PyTorch, or one of its streams; diffkern's current device by default.
    """
    handle = getattr(stream_or_device, "cuda_stream", None)
    where = get_device() if stream_or_device is None else stream_or_device
    device = torch.device(str(where)) if isinstance(where, (str, Device)) else getattr(where, "device", where)
    gpu = gpu_of(device)
    if gpu is None:
        return _default_stream()
    return current_stream(gpu) if handle is None else stream_of(gpu, int(handle))


@functools.cache
def _default_stream() -> Stream:
    made = Stream("cpu")
    made.is_default = True
    return made


def stream_to_torch(stream_or_device: Any = None) -> Any:
    """Return a stream, or the current one of a device, as PyTorch's.

    Work of a CPU stream is waited for, as PyTorch has no streams there.

    Returns
    -------
    torch.cuda.Stream or None
        None for the CPU.
    """
    stream = stream_or_device if isinstance(stream_or_device, Stream) else get_stream(stream_or_device)
    if stream.device.is_cuda:
        return as_external(stream)  # type: ignore[arg-type]  # a GPU's streams are of that class
    # What PyTorch does next on the CPU begins at once.
    stream.synchronize()
    return None
