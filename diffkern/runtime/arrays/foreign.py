"""Arrays of other libraries as arguments of launches, without a copy.

They become arrays over the same memory. The library is recognized by the type; nothing is imported that the caller has
not imported already.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from diffkern.ir.structs import Stored
from diffkern.process.late import GPU
from diffkern.runtime.arrays.array import _given, array, wrap
from diffkern.runtime.arrays.convert import component_shape
from diffkern.runtime.memory import dlpack
from diffkern.runtime.memory.device import get_cuda_device

__all__ = ["adopt", "adopt_dlpack", "is_foreign_tensor", "place_of"]

# Libraries whose arrays are more than memory (gradients, versions), and what turns those into arrays here. The modules
# stand above this one; they are loaded when the first such array is passed.
_ADAPTERS = {"torch": "diffkern.interop.torch.passed"}
# Arrays that never change once they are made, whatever their memory says.
_IMMUTABLE = ("jax", "jaxlib")
_loaded: dict[str, Any] = {}


def is_foreign_tensor(value: Any) -> bool:
    """Return whether a value belongs to a library that has an adapter."""
    return _library(value) in _ADAPTERS and hasattr(value, "__dlpack__")


def adopt(value: Any, element: Stored | None) -> array | None:
    """Return an array over the memory of an object, with elements of a given type or its own; None if it is no array.

    Raises
    ------
    TypeError, ValueError, BufferError
        If it is an array, but kernels cannot work on its memory.
    """
    # The order of protocols matters: many objects have several. An adapter knows of gradients and versions, CUDA's
    # interface of streams; NumPy's is the last, as some libraries copy to the host for it.
    if isinstance(value, np.ndarray):
        return _given(value, element)
    library = _library(value)
    if library in _ADAPTERS and hasattr(value, "__dlpack__"):
        found: array = _adapter(library).as_argument(value, element)
        return found
    if library in _IMMUTABLE and hasattr(value, "aval") and not hasattr(value, "__dlpack_device__"):
        raise TypeError("JAX is tracing it, so it has no memory; call the kernel through dk.jax_kernel")
    if hasattr(value, "__cuda_array_interface__"):
        return _given(value, element)
    if hasattr(value, "__dlpack__") and (library in _IMMUTABLE or not hasattr(value, "__array_interface__")):
        return adopt_dlpack(value, element)
    if hasattr(value, "__array_interface__") or isinstance(value, (memoryview, bytearray)):
        return _given(value, element)
    return None


def place_of(value: Any) -> Any:
    """Return an array over the memory of an array of another library; other values unchanged."""
    library = _library(value)
    if library in _ADAPTERS and hasattr(value, "__dlpack__"):
        return _adapter(library).as_place(value)
    return adopt(value, None) if isinstance(value, np.ndarray) else value


def adopt_dlpack(value: Any, element: Stored | None) -> array:
    """Return an array over the memory of an object with DLPack's protocol, or of a capsule."""
    # JAX dispatches asynchronously and its exports on the CPU do not wait.
    if _library(value) in _IMMUTABLE and hasattr(value, "block_until_ready"):
        value.block_until_ready()
    taken = dlpack.take(value, _stream_on)
    taken.read_only = taken.read_only or _library(value) in _IMMUTABLE
    element = taken.element if element is None else element
    # A scalar of a library without axes is an array of one element here.
    if len(taken.shape) == len(component_shape(element)):
        taken.shape, taken.strides = (1, *taken.shape), None if taken.strides is None else (0, *taken.strides)
    if taken.kind in dlpack.ON_HOST:
        return wrap(taken.numpy(), element)
    made: array = GPU.value.over_address(
        get_cuda_device(taken.number), taken.address, taken.shape, taken.stored, taken.strides, element, taken.owner,
        taken.read_only,
    )  # fmt: skip
    return made


def _stream_on(ordinal: int) -> int:
    """Return the current stream of a GPU in DLPack's notation: 1 for the default one."""
    return get_cuda_device(ordinal).stream.cuda_stream or 1


def _adapter(library: str) -> Any:
    """Return the module that converts the arrays of a library."""
    found = _loaded.get(library)
    if found is None:
        found = _loaded[library] = importlib.import_module(_ADAPTERS[library])
    return found


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0]
