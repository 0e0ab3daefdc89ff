"""Differentiable kernels in Python: write the primal, get a readable adjoint and parallel native code for both."""

from __future__ import annotations

import importlib
from typing import Any

from diffkern._version import __version__
from diffkern.build.ahead import compile_kernels as compile  # noqa: A004, F401  (`import *` keeps the built-in)
from diffkern.build.ahead import force_load
from diffkern.build.ship import load_directory as load
from diffkern.build.stores import clear_kernel_cache, clear_lto_cache
from diffkern.errors import (
    AutodiffError,
    CompileError,
    CudaError,
    KernelError,
    KernelRuntimeError,
    KernelSyntaxError,
    KernelTypeError,
    LaunchError,
    MisuseError,
)
from diffkern.interop.public import (
    device_from_jax,
    device_from_torch,
    device_to_jax,
    device_to_torch,
    dtype_from_jax,
    dtype_from_torch,
    dtype_to_jax,
    dtype_to_torch,
    from_dlpack,
    from_jax,
    from_torch,
    stream_from_torch,
    stream_to_torch,
    to_dlpack,
    to_jax,
    to_torch,
    torch_function,
)
from diffkern.kernel import Kernel, kernel
from diffkern.lang import public_names as _public_names
from diffkern.lang.called import Called as _Called
from diffkern.lang.called import KnownToNumba as _KnownToNumba
from diffkern.lang.called import set_evaluator as _set_evaluator
from diffkern.lang.called import set_numba_type as _set_numba_type
from diffkern.lang.dtypes import dtype_from_numpy, dtype_to_numpy
from diffkern.lang.func import constant, func
from diffkern.runtime.array import array, clone, copy
from diffkern.runtime.config import config
from diffkern.runtime.create import (
    empty,
    empty_like,
    from_numpy,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from diffkern.runtime.cuda.elementwise import set_source as _set_source
from diffkern.runtime.device import (
    Device,
    ScopedDevice,
    get_cuda_device,
    get_cuda_device_count,
    get_cuda_devices,
    get_device,
    get_devices,
    get_preferred_device,
    init,
    is_cpu_available,
    is_cuda_available,
    is_device_available,
    is_peer_access_enabled,
    is_peer_access_supported,
    set_device,
    set_peer_access_enabled,
)
from diffkern.runtime.graph import (
    Graph,
    ScopedCapture,
    capture_begin,
    capture_end,
    capture_if,
    capture_launch,
    capture_while,
)
from diffkern.runtime.launch import launch, launch_tiled
from diffkern.runtime.module_options import get_module_options, set_module_options
from diffkern.runtime.record import Launch
from diffkern.runtime.sequence import Sequence, record
from diffkern.runtime.stream import (
    Event,
    ScopedStream,
    Stream,
    get_event_elapsed_time,
    get_stream,
    record_event,
    set_stream,
    synchronize,
    synchronize_device,
    synchronize_event,
    synchronize_stream,
    wait_event,
    wait_stream,
)
from diffkern.runtime.structs import struct
from diffkern.runtime.tape import Tape
from diffkern.runtime.timer import ScopedTimer


def _elementwise(name: str, ndim: int) -> Kernel:
    """Return one of the kernels that the run time needs for arrays on a GPU; they are loaded when they are needed."""
    from diffkern.elementwise import find

    return find(name, ndim)


_set_source(_elementwise)


def _evaluate(called: _Called, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Evaluate what Python calls of a func besides its value."""
    from diffkern.evaluate import evaluate

    return evaluate(called, args, kwargs)


def _numba_type(known: _KnownToNumba) -> Any:
    """Tell numba, which asks, the type of a func, a kernel, or a form of one."""
    from diffkern.interop.numba import type_of

    return type_of(known)


_set_evaluator(_evaluate)
_set_numba_type(_numba_type)

_language = _public_names()
globals().update(_language)

# What belongs to other frameworks is imported when it is first asked for: the module, and the name in it or "". So are
# the built-in functions, with the operation table that tells them.
_LAZY = {
    "jax": ("diffkern.interop.jax", ""),
    "jax_callable": ("diffkern.interop.jax", "jax_callable"),
    "jax_kernel": ("diffkern.interop.jax", "jax_kernel"),
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        place, inside = _LAZY[name]
        module = importlib.import_module(place)
        value = getattr(module, inside) if inside else module
    else:
        known = importlib.import_module("diffkern.lang.intrinsics").INTRINSICS
        if name == "__all__":
            value = [*_names, *known]
        elif name in known:
            value = known[name]
        else:
            raise AttributeError(f"module 'diffkern' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})


__all__ = [
    "AutodiffError",
    "CompileError",
    "CudaError",
    "Device",
    "Event",
    "Graph",
    "Kernel",
    "KernelError",
    "KernelRuntimeError",
    "KernelSyntaxError",
    "KernelTypeError",
    "Launch",
    "LaunchError",
    "MisuseError",
    "ScopedCapture",
    "ScopedDevice",
    "ScopedStream",
    "ScopedTimer",
    "Sequence",
    "Stream",
    "Tape",
    "__version__",
    "array",
    "capture_begin",
    "capture_end",
    "capture_if",
    "capture_launch",
    "capture_while",
    "clear_kernel_cache",
    "clear_lto_cache",
    "clone",
    "config",
    "constant",
    "copy",
    "device_from_jax",
    "device_from_torch",
    "device_to_jax",
    "device_to_torch",
    "dtype_from_jax",
    "dtype_from_numpy",
    "dtype_from_torch",
    "dtype_to_jax",
    "dtype_to_numpy",
    "dtype_to_torch",
    "empty",
    "empty_like",
    "force_load",
    "from_dlpack",
    "from_jax",
    "from_numpy",
    "from_torch",
    "full",
    "full_like",
    "func",
    "get_cuda_device",
    "get_cuda_device_count",
    "get_cuda_devices",
    "get_device",
    "get_devices",
    "get_event_elapsed_time",
    "get_module_options",
    "get_preferred_device",
    "get_stream",
    "init",
    "is_cpu_available",
    "is_cuda_available",
    "is_device_available",
    "is_peer_access_enabled",
    "is_peer_access_supported",
    "jax_callable",
    "jax_kernel",
    "kernel",
    "launch",
    "launch_tiled",
    "load",
    "ones",
    "ones_like",
    "record",
    "record_event",
    "set_device",
    "set_module_options",
    "set_peer_access_enabled",
    "set_stream",
    "stream_from_torch",
    "stream_to_torch",
    "struct",
    "synchronize",
    "synchronize_device",
    "synchronize_event",
    "synchronize_stream",
    "to_dlpack",
    "to_jax",
    "to_torch",
    "torch_function",
    "wait_event",
    "wait_stream",
    "zeros",
    "zeros_like",
]
_names = [*__all__, *(name for name in _language if name not in __all__ and name != "bool")]
del __all__  # `import *` asks `__getattr__` for it, which adds the built-in functions; it keeps Python's bool
