"""Names of ``numba.cuda`` that ``diffkern.cuda`` does not have, or has with another meaning.

For a public name of ``numba.cuda`` the tables say what to write instead, or what differs. A test compares them with
Numba's own names, and the table in the documentation is made of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["DIFFERENT", "INSTEAD", "INTERNAL", "OWN", "absence"]

DIFFERENT: Final[Mapping[str, str]] = {
    "Reduce": "runs as two launches, so that tapes take it; the order of the terms is another",
    "bool": "is diffkern's type, as all types here are; they name elements of arrays as NumPy's types do",
    "close": "waits for the devices; arrays stay usable",
    "const": "may have up to 1 MiB, in global memory: the contents are part of the program",
    "defer_cleanup": "does nothing: memory is given back without waiting for the device",
    "detect": "names the CPU where there is no GPU, and returns True",
    "device_array": "has 1 to 4 axes; records have a class made by dk.struct as dtype",
    "get_current_device": "is the CPU where there is no GPU, with the compute capability (0, 0)",
    "is_available": "is True: kernels run everywhere; dk.is_cuda_available() asks for a GPU",
    "jit": "checks types at the first launch; the signature of a device function says nothing",
    "local": "has its arrays in the memory of the block, which they count towards",
    "managed_array": "is page-locked memory; launches on a GPU copy it",
    "mapped": "on a GPU the arrays are copied at the beginning and at the end of the block",
    "mapped_array": "is page-locked memory; launches on a GPU copy it, those on the CPU work in place",
    "per_thread_default_stream": "is the default stream: there is one for all threads",
    "pinned": "does nothing; copies from other memory wait for the device",
    "reduce": "runs as two launches, so that tapes take it; the order of the terms is another",
    "shfl_down_sync": "takes the mask of all lanes, and the whole block takes part",
    "shfl_sync": "takes the mask of all lanes, and the whole block takes part",
    "shfl_up_sync": "takes the mask of all lanes, and the whole block takes part",
    "shfl_xor_sync": "takes the mask of all lanes, and the whole block takes part",
    "stream": "is the default stream on the CPU: its work is done when a call returns",
}
"""The difference of each name from numba's."""

_SCALAR: Final = "use the scalar type"
_NARROW: Final = "vectors have elements of 32 or 64 bits: use int32x2 and its like, or an array with one axis more"
_ROWS: Final = (
    (
        "Archive CUSource Cubin Fatbin LTOIR LinkableCode Object PTXSource declare_device extending",
        "diffkern compiles kernels alone: write what is linked as a Python function with device=True",
    ),
    (
        "BaseCUDAMemoryManager HostOnlyCUDAMemoryManager set_memory_manager",
        "memory comes from the driver's pool of the device",
    ),
    ("MappedMemory MemoryPointer PinnedMemory", "array.ptr is the address"),
    (
        "GetIpcHandleMixin IpcHandle open_ipc_array",
        "memory is not shared between processes: copy_to_host() and a shared file or pipe do",
    ),
    ("In InOut Out", "pass the array itself: arguments that a kernel does not write are not copied back"),
    (
        "compile compile_all compile_for_current_device compile_ptx compile_ptx_for_current_device",
        "kernel.source() and diffkern inspect --ptx show what is made, diffkern compile makes it ahead of time",
    ),
    (
        "ldca ldcg ldcs ldcv ldlu stcg stcs stwb stwt",
        "index the array: what a kernel only reads is loaded by way of the read-only cache by itself",
    ),
    ("vectorize guvectorize", "write a kernel in which each thread computes an element"),
    ("match_all_sync match_any_sync eq_sync", "compare what shfl_sync brings from the other lanes"),
    ("cg grid_group GridGroup", "there is no barrier of a whole grid: split the kernel in two launches"),
    ("c8 c16 complex64 complex128", "keep real and imaginary parts, or a vec2, and write out the product"),
    ("char1 uchar1 short1 ushort1 int1 uint1 long1 ulong1 longlong1 ulonglong1 float1 double1", _SCALAR),
    ("int8x1 uint8x1 int16x1 uint16x1 int32x1 uint32x1 int64x1 uint64x1 float32x1 float64x1", _SCALAR),
    ("char2 char3 char4 uchar2 uchar3 uchar4 short2 short3 short4 ushort2 ushort3 ushort4", _NARROW),
    ("int8x2 int8x3 int8x4 uint8x2 uint8x3 uint8x4 int16x2 int16x3 int16x4 uint16x2 uint16x3 uint16x4", _NARROW),
    (
        "uint64x2 uint64x3 uint64x4 ulong2 ulong3 ulong4 ulonglong2 ulonglong3 ulonglong4",
        "use int64x2 and its like, or an array with one axis more",
    ),
    ("CudaSupportError", "errors of the driver are diffkern.CudaError"),
    ("KernelRuntimeError", "errors of a running kernel are diffkern.KernelRuntimeError, with debug=True"),
    ("activemask", "pass the mask of all lanes, 0xffffffff"),
    ("cuda_error is_supported_version", "the first use of a GPU says what is missing"),
    ("lanemask_lt", "write (1 << cuda.laneid) - 1"),
    ("libdevice", "call the function of the math module of the same name"),
    ("literal_unroll", "write the loop over a tuple as it is: for v in (a, b, c)"),
    ("nanosleep", "a thread cannot wait for time: split the kernel in two launches"),
    ("runtime", "diffkern.get_cuda_devices() tells the devices, diffkern.__version__ the version"),
    ("threadfence_system", "what the host sees is in order when the launch has run: synchronize"),
)

INSTEAD: Final[Mapping[str, str]] = {name: text for names, text in _ROWS for name in names.split()}
"""The replacement for each missing name."""

OWN: Final = frozenset({"CudaKernel", "DeviceArray", "Launcher"})
"""Names that Numba's module does not have: the classes of what others return."""

INTERNAL: Final = frozenset(
    "Dim3 HAS_NUMBA alias config_default_cc deferred_type dim3 ffi ffi_forced_object implementation none "
    "numba_cuda_default_ptx_cc optional prepare_shape_strides_dtype void".split()
)
"""Names in Numba's module that belong to its compiler."""


def absence(name: str) -> str:
    """Return the message for a name that ``diffkern.cuda`` does not have."""
    if name in INSTEAD:
        return f"diffkern.cuda has no {name!r}; {INSTEAD[name]}"
    if name in INTERNAL:
        return f"diffkern.cuda has no {name!r}, which belongs to Numba's compiler"
    return f"module 'diffkern.cuda' has no attribute {name!r}"
