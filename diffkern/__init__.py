"""Differentiable kernels in Python: write the primal, get a readable adjoint and parallel native code for both."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, Final

from diffkern._version import __version__ as __version__
from diffkern.kernels.decorator import kernel as kernel
from diffkern.kernels.kernel import Kernel as Kernel
from diffkern.lang import COMPOSITES as _COMPOSITES
from diffkern.lang import public_names as _public_names
from diffkern.process.free_threading import warn_without_lock as _warn_without_lock

if TYPE_CHECKING:
    from collections.abc import Mapping


_warn_without_lock()

_NAMED_TYPES: Final = frozenset(_COMPOSITES)
_language = _public_names()
globals().update(_language)

_MODULES: Final[Mapping[str, str]] = {
    "shipping.ahead": "compile_kernels=compile force_load",
    "shipping.ship": "load_directory=load",
    "compiler.stores": "clear_kernel_cache clear_lto_cache",
    "errors": (
        "AutodiffError CompileError CudaError KernelError KernelRuntimeError KernelSyntaxError "
        "KernelTypeError LaunchError MisuseError NonFiniteError"
    ),
    "transforms.indexed": "indexedarray indexedarray1d indexedarray2d indexedarray3d indexedarray4d",
    "interop.public": (
        "device_from_jax device_from_torch device_to_jax device_to_torch dtype_from_jax dtype_from_torch "
        "dtype_to_jax dtype_to_torch from_dlpack from_jax from_torch stream_from_torch stream_to_torch "
        "to_dlpack to_jax to_torch torch_function"
    ),
    "lang.dtypes": "dtype_from_numpy dtype_to_numpy",
    "lang.func": "constant func",
    "transforms.higher": "grad hvp jvp value_and_grad vjp",
    "optim.linear.solve": "linear_solve",
    "transforms.implicit": "fixed_point root",
    "transforms.jacobians": "hessian jacobian",
    "transforms.mapping": "map_arrays=map",
    "transforms.matmul": "matmul",
    "tuning.tune": "Tuned TuningRow tune",
    "lang.rules": "adjoint func_grad func_replay",
    "lang.patterns": "Float Int Scalar",
    "lang.static": "static",
    "lang.queries": "BvhQuery BvhQueryTiled HashGridQuery MeshQuery MeshQueryAABBTiled MeshQueryPoint MeshQueryRay",
    "runtime.effects.custom_operation": "CustomOperation custom_operation",
    "runtime.arrays.array": "array",
    "runtime.arrays.array_copy": "clone copy",
    "runtime.rollouts.checkpoint": "checkpoint",
    "runtime.observe.config": "config detect_anomaly",
    "runtime.arrays.create": "empty empty_like from_numpy full full_like ones ones_like zeros zeros_like",
    "runtime.memory.device": (
        "Device ScopedDevice get_cuda_device get_cuda_device_count get_cuda_devices get_device get_devices "
        "get_preferred_device init is_cpu_available is_cuda_available is_device_available "
        "is_peer_access_enabled is_peer_access_supported set_device set_peer_access_enabled"
    ),
    "runtime.records.graph": "Graph ScopedCapture capture_begin capture_end capture_if capture_launch capture_while",
    "runtime.records.launch": "launch launch_tiled",
    "runtime.launch.module_options": "get_module_options set_module_options",
    "runtime.records.record": "Launch",
    "runtime.records.sequence": "Sequence record",
    "runtime.memory.stream": (
        "Event ScopedStream Stream get_event_elapsed_time get_stream record_event set_stream synchronize "
        "synchronize_device synchronize_event synchronize_stream wait_event wait_stream"
    ),
    "runtime.arrays.structs": "struct",
    "runtime.effects.no_grad": "no_grad",
    "runtime.effects.tangents": "Tangents",
    "runtime.effects.tape": "Tape",
    "runtime.observe.timer": "ScopedTimer",
    "runtime.observe.trace": "ScopedTrace",
    "interop.jax": "jax_callable jax_kernel",
    "spatial.bvh": "Bvh",
    "spatial.hash_grid": "HashGrid",
    "spatial.isosurface": "MarchingCubes SurfaceNets",
    "lang.textures": "TextureAddressMode TextureFilterMode",
    "spatial.mesh": "Mesh",
    "spatial.sparse_surface": "lipschitz_octree sparse_marching_cubes sparse_marching_cubes_from_cells",
    "spatial.texture": "Texture Texture1D Texture2D Texture3D",
    "spatial.volume": "Volume",
}
"""Public names by module, imported when first used, with ``name=public`` where they differ. Built-in functions are
imported in the same way, with the operation table that lists them."""

_PLACES: Final = {
    public or name: (f"diffkern.{module}", name)
    for module, names in _MODULES.items()
    for name, _, public in (entry.partition("=") for entry in names.split())
}

_PACKAGES: Final = {
    "cuda": "diffkern.cuda",
    "jax": "diffkern.interop.jax",
    "optim": "diffkern.optim",
    "sparse": "diffkern.sparse",
    "testing": "diffkern.testing",
    "types": "diffkern.types",
    "utils": "diffkern.utils",
}

_ELSEWHERE: Final[Mapping[str, str]] = {
    "mean": "write x.mean() of an array, dk.tile_sum(t) in a kernel with tiles",
    "relu": "write dk.max(v, 0.0) of a number, dk.map(lambda v: dk.max(v, 0.0), x) of an array",
    "sigmoid": "write 1.0 / (1.0 + dk.exp(-v)) of a number, dk.map with that function of an array",
    "softmax": "write a kernel with dk.tile_max, dk.tile_map(dk.exp, t) and dk.tile_sum, as the page on tiles does",
    "sum": "write x.sum() of an array, dk.tile_sum(t) of a tile, and a loop or s[0] += v in other kernels",
    "tensor": "write dk.array(values)",
}
"""Functions that other libraries have, with what to write here."""


def __getattr__(name: str) -> Any:
    if name in _NAMED_TYPES:
        value = _COMPOSITES[name]
    elif name in _PLACES:
        module, inside = _PLACES[name]
        value = getattr(importlib.import_module(module), inside)
    elif name in _PACKAGES:
        value = importlib.import_module(_PACKAGES[name])
    else:
        known = importlib.import_module("diffkern.lang.intrinsics").INTRINSICS
        if name == "__all__":  # not `bool`, `compile` and `map`: `import *` keeps Python's
            public = {*_PLACES, *_NAMED_TYPES, *_language, *known} - {"bool", "compile", "map"}
            value = sorted({"__version__", "Kernel", "kernel", *public})
        elif name in known:
            value = known[name]
        else:
            # With the module, of whose names Python then suggests one.
            said, instead = f"module 'diffkern' has no attribute {name!r}", _ELSEWHERE.get(name)
            said = said if instead is None else f"{said}; {instead}"
            raise AttributeError(said, name=name, obj=sys.modules[__name__])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES, *_PACKAGES, *__getattr__("__all__")})
