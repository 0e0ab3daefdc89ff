"""Warp's names: ``import diffkern.warp as wp`` in a program written for NVIDIA Warp.

The objects are those of :mod:`diffkern`, under the rules of Warp where the two differ
(:data:`diffkern.lang.dialects.WARP`): decorators of this module mark what they decorate. Names that programs for Warp
alone need are defined in the modules of this package; everything is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from diffkern.warp.namespaces import install as _older_modules

if TYPE_CHECKING:
    from collections.abc import Mapping

_MODULES: Final[Mapping[str, str]] = {
    "builtins": "breakpoint float int len print range reversed",
    "diffkern.errors": (
        "AutodiffError CompileError CudaError KernelError KernelRuntimeError KernelSyntaxError KernelTypeError "
        "LaunchError MisuseError KernelError=WarpCodegenAttributeError KernelError=WarpCodegenError "
        "KernelError=WarpCodegenIndexError KernelError=WarpCodegenKeyError KernelError=WarpCodegenTypeError "
        "KernelError=WarpCodegenValueError KernelError=WarpDeterminismError"
    ),
    "diffkern.lang.func": "Func=Function",
    "diffkern.lang.queries": "MeshQuery=MeshQueryAABB",
    "diffkern": (
        "tile_bvh_query_aabb=bvh_query_aabb_tiled tile_bvh_query_next=bvh_query_next_tiled "
        "tile_bvh_query_ray=bvh_query_ray_tiled tile_mesh_query_aabb=mesh_query_aabb_tiled "
        "tile_mesh_query_aabb_next=mesh_query_aabb_next_tiled"
    ),
    "diffkern.lang.annotations": "ref",
    "diffkern.warp.arrays": "array array1d array2d array3d array4d copy fixedarray from_ptr",
    "diffkern.warp.capturing": "ScopedCapture capture_begin capture_debug_dot_print",
    "diffkern.warp.config": "DeterministicMode",
    "diffkern.warp.creation": "clone empty empty_like from_numpy full full_like ones ones_like zeros zeros_like",
    "diffkern.warp.declare": "Kernel func kernel overload struct",
    "diffkern.warp.devices": (
        "DeviceLike ScopedCudaProfiler cuda_profiler_start cuda_profiler_stop get_cuda_driver_version "
        "get_cuda_supported_archs get_cuda_toolkit_version get_suggested_block_size is_conditional_graph_supported "
        "is_cubql_available"
    ),
    "diffkern.warp.diagnostics": "print_diagnostics",
    "diffkern.warp.enumerations": (
        "CaptureMode JaxCallableGraphMode JaxModulePreloadMode MemoryKind TIMING_ALL TIMING_GRAPH TIMING_KERNEL "
        "TIMING_KERNEL_BUILTIN TIMING_MEMCPY TIMING_MEMSET TextureResourceFlags"
    ),
    "diffkern.warp.exchange": (
        "clear_jax_callable_graph_cache from_dlpack from_jax from_torch jax_callable jax_kernel"
    ),
    "diffkern.warp.isosurfaces": "IsoSurfaceMarchingCubes=MarchingCubes",
    "diffkern.warp.launching": "launch launch_tiled map_arrays=map",
    "diffkern.warp.loggers": (
        "LOG_DEBUG LOG_ERROR LOG_INFO LOG_WARNING Logger ScopedLogLevel ScopedLogger get_logger set_logger"
    ),
    "diffkern.warp.modules": ("Module force_load get_module get_module_options load_module set_module_options"),
    "diffkern.warp.opaque": (
        "GLTextureResource RegisteredGLBuffer fabricarray fabricarrayarray indexedfabricarray indexedfabricarrayarray"
    ),
    "diffkern.warp.pools": (
        "ScopedMempool ScopedMempoolAccess ScopedPeerAccess can_access get_mempool_release_threshold "
        "get_mempool_used_mem_current get_mempool_used_mem_high is_mempool_access_enabled is_mempool_access_supported "
        "is_mempool_enabled is_mempool_supported set_mempool_access_enabled set_mempool_enabled "
        "set_mempool_release_threshold set_peer_access_enabled"
    ),
    "diffkern.warp.tracking": "ScopedMemoryTracker print_memory_report",
    "diffkern.warp.types": "handle matrix=mat vector=vec",
    "diffkern.warp.snippets": "func_native",
    "diffkern.warp.utils": "transform_expand",
}
"""The modules of names that are not those of :mod:`diffkern`, with ``name=public`` where the two differ."""

_SUBMODULES: Final = frozenset({
    "_src", "autograd", "config", "examples", "fem", "geometry", "optim", "render", "sparse", "types", "utils",
})  # fmt: skip
"""Modules of this package that programs know."""

_NATIVE: Final = frozenset({
    "ANY", "Sequence", "SurfaceNets", "bool_", "compile", "cuda", "lipschitz_octree", "load", "record",
    "sparse_marching_cubes", "sparse_marching_cubes_from_cells", "testing",
})  # fmt: skip
"""Names of :mod:`diffkern` that Warp does not have."""

_RENAMED: Final = {
    "MarchingCubes": "wp.geometry.IsoSurfaceMarchingCubes", "mat": "wp.types.matrix", "vec": "wp.types.vector",
}  # fmt: skip
"""Older names, which warn when they are asked for, and what Warp calls them now."""

_PLACES: Final = {
    public or name: (module, name)
    for module, names in _MODULES.items()
    for name, _, public in (entry.partition("=") for entry in names.split())
}

_OLDER: Final = _older_modules()
"""Modules of older releases of Warp, by name."""


def __getattr__(name: str) -> Any:
    if name == "__all__":
        value: Any = sorted({*_PLACES, *_of_diffkern()} - {*_RENAMED})
    elif name in _PLACES:
        module, inside = _PLACES[name]
        value = getattr(importlib.import_module(module), inside)
        if (now := _RENAMED.get(name)) is not None:
            loggers = importlib.import_module(f"{__name__}.loggers")
            loggers.log_warning(f"wp.{name} is deprecated. Use {now} instead.", DeprecationWarning, stacklevel=2)
            return value
    elif name in _SUBMODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    elif name in _OLDER:
        value = _OLDER[name]
    elif name == "__version__":
        value = importlib.import_module(f"{__name__}.config").version
    elif name == "__instead__":
        value = importlib.import_module(f"{__name__}.opaque").INSTEAD
    elif name == "__absent_kinds__":
        value = importlib.import_module(f"{__name__}.opaque").KINDS
    elif name.startswith("_") or name in _NATIVE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        try:
            value = getattr(importlib.import_module("diffkern"), name)
        except AttributeError:
            raise AttributeError(_missing(name)) from None
    globals()[name] = value
    return value


def _missing(name: str) -> str:
    """Say that a name is missing, and what to take instead."""
    remedy = importlib.import_module(f"{__name__}.opaque").INSTEAD.get(name)
    said = f"module {__name__!r} has no attribute {name!r}"
    return said if remedy is None else f"{said}: Warp has {name}, and diffkern does not; {remedy}"


def _of_diffkern() -> list[str]:
    everything = importlib.import_module("diffkern").__all__
    return [name for name in everything if name not in _NATIVE and not name.startswith("_")]


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES, *_SUBMODULES, *_of_diffkern()} - {*_RENAMED})
