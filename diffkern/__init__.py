"""Differentiable kernels in Python: write the primal, get a readable adjoint and parallel native code for both."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

import diffkern.runtime.construct  # lets dk.array take data
import diffkern.runtime.graph  # noqa: F401  lets sequences become graphs
from diffkern._version import __version__ as __version__
from diffkern.decorator import kernel as kernel
from diffkern.kernel import Kernel as Kernel
from diffkern.lang import public_names as _public_names
from diffkern.lang.called import Called as _Called
from diffkern.lang.called import KnownToNumba as _KnownToNumba
from diffkern.lang.called import set_evaluator as _set_evaluator
from diffkern.lang.called import set_numba_type as _set_numba_type
from diffkern.runtime.cuda.elementwise import set_source as _set_source

if TYPE_CHECKING:
    from collections.abc import Mapping


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

_MODULES: Final[Mapping[str, str]] = {
    "build.ahead": "compile_kernels=compile force_load",
    "build.ship": "load_directory=load",
    "build.stores": "clear_kernel_cache clear_lto_cache",
    "errors": (
        "AutodiffError CompileError CudaError KernelError KernelRuntimeError KernelSyntaxError "
        "KernelTypeError LaunchError MisuseError"
    ),
    "interop.public": (
        "device_from_jax device_from_torch device_to_jax device_to_torch dtype_from_jax dtype_from_torch "
        "dtype_to_jax dtype_to_torch from_dlpack from_jax from_torch stream_from_torch stream_to_torch "
        "to_dlpack to_jax to_torch torch_function"
    ),
    "lang.dtypes": "dtype_from_numpy dtype_to_numpy",
    "lang.func": "constant func",
    "runtime.array": "array clone copy",
    "runtime.config": "config",
    "runtime.create": "empty empty_like from_numpy full full_like ones ones_like zeros zeros_like",
    "runtime.device": (
        "Device ScopedDevice get_cuda_device get_cuda_device_count get_cuda_devices get_device get_devices "
        "get_preferred_device init is_cpu_available is_cuda_available is_device_available "
        "is_peer_access_enabled is_peer_access_supported set_device set_peer_access_enabled"
    ),
    "runtime.graph": "Graph ScopedCapture capture_begin capture_end capture_if capture_launch capture_while",
    "runtime.launch": "launch launch_tiled",
    "runtime.module_options": "get_module_options set_module_options",
    "runtime.record": "Launch",
    "runtime.sequence": "Sequence record",
    "runtime.stream": (
        "Event ScopedStream Stream get_event_elapsed_time get_stream record_event set_stream synchronize "
        "synchronize_device synchronize_event synchronize_stream wait_event wait_stream"
    ),
    "runtime.structs": "struct",
    "runtime.tape": "Tape",
    "runtime.timer": "ScopedTimer",
    "interop.jax": "jax_callable jax_kernel",
}
"""What is imported when it is first asked for: public names by module, ``name=public`` where they differ.

So are the built-in functions, with the operation table that tells them. ``diffkern.kernel`` is a module as well, whose
import would hide the decorator, so that one is here from the start.
"""

_PLACES: Final = {
    public or name: (f"diffkern.{module}", name)
    for module, names in _MODULES.items()
    for name, _, public in (entry.partition("=") for entry in names.split())
}

_PACKAGES: Final = {"cuda": "diffkern.cuda", "jax": "diffkern.interop.jax", "testing": "diffkern.testing"}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        module, inside = _PLACES[name]
        value = getattr(importlib.import_module(module), inside)
    elif name in _PACKAGES:
        value = importlib.import_module(_PACKAGES[name])
    else:
        known = importlib.import_module("diffkern.lang.intrinsics").INTRINSICS
        if name == "__all__":  # not `compile` and `bool`: `import *` keeps Python's
            value = sorted({"__version__", "Kernel", "kernel", *_PLACES, *_language, *known} - {"bool", "compile"})
        elif name in known:
            value = known[name]
        else:
            raise AttributeError(f"module 'diffkern' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES, *_PACKAGES, *__getattr__("__all__")})
