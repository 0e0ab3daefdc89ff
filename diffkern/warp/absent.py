"""Names of Warp that diffkern does not have, each with its replacement.

:data:`INSTEAD` is quoted by the errors and listed in the documentation; :data:`KINDS` tells functions from classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["INSTEAD", "KINDS"]

KINDS: Final[Mapping[str, str]] = {}
"""Features that diffkern does not have, by the prefix of their functions' names."""

_BY_REASON: Final[Mapping[str, str]] = {
    "pass the array itself and an index; kernels have no addresses": "address_of address view index indexref",
    "read and write elements by index, as in a[i] = x": (
        "load store array_store extract assign assign_copy assign_inplace add_inplace sub_inplace bit_and_inplace "
        "bit_or_inplace bit_xor_inplace transform_add_inplace transform_sub_inplace transform_set_rotation_copy "
        "transform_set_translation_copy"
    ),
    "write it as an expression: it stands for syntax": "iter_next slice tuple",
    "take tile_matmul, tile_cholesky and tile_cholesky_solve": (
        "dense_chol dense_chol_batched dense_gemm dense_gemm_batched dense_solve dense_solve_batched dense_subs"
    ),
    "exchange arrays by DLPack: from_dlpack(tensor)": (
        "device_from_paddle device_to_paddle dtype_from_paddle dtype_to_paddle from_paddle stream_from_paddle to_paddle"
    ),
    "share arrays between processes by multiprocessing's shared memory, wrapped with from_numpy": (
        "event_from_ipc_handle from_ipc_handle"
    ),
    "compile ahead with diffkern compile, and load with diffkern.load": (
        "compile_aot_module load_aot_module build_experimental ModuleBuildOptions"
    ),
    "record with diffkern.record, or capture with ScopedCapture": ("capture_load capture_load_from_bytes capture_save"),
    "memory comes from the CUDA driver's own pool; hand arrays of another allocator over with from_dlpack": (
        "Allocator CudaManagedAllocator ScopedAllocator get_device_allocator set_cuda_allocator set_device_allocator"
    ),
    "measure with ScopedTimer(synchronize=True) or events, and NVIDIA's profilers": (
        "TimingResult timing_begin timing_end timing_print"
    ),
    "register the buffer with the CUDA driver, and wrap it by __cuda_array_interface__": (
        "map_cuda_device unmap_cuda_device"
    ),
    "look at the compiled kernel: diffkern.compile(kernel, target=...) has registers, shared memory and code": (
        "get_cuda_kernel_properties get_cuda_max_cluster_dim get_cpu_kernel_cache_key"
    ),
}


def _names() -> dict[str, str]:
    return {name: remedy for remedy, names in _BY_REASON.items() for name in names.split()}


INSTEAD: Final[Mapping[str, str]] = _names()
"""The replacement for each missing name."""
