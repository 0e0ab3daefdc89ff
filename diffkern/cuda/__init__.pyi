"""The names of diffkern.cuda, with their types. Written by tools/typing_stub.py."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

from typing_extensions import TypeAlias

import diffkern
from diffkern.cuda.jit import CudaKernel as CudaKernel, Launcher as Launcher

_F = TypeVar("_F", bound=Callable[..., Any])

@overload
def jit(func_or_sig: Callable[..., Any]) -> CudaKernel: ...
@overload
def jit(func_or_sig: Any = None, *, device: Literal[True], **options: Any) -> Callable[[_F], _F]: ...
@overload
def jit(
    func_or_sig: Any = None, device: Literal[False] = False, **options: Any
) -> Callable[[Callable[..., Any]], CudaKernel]: ...

from diffkern.cuda.host import DeviceArray as DeviceArray
from diffkern.cuda.host import MemoryInfo as MemoryInfo
from diffkern.cuda.host import Reduce as Reduce
from diffkern.cuda.host import as_cuda_array as as_cuda_array
from diffkern.cuda.host import close as close
from diffkern.cuda.host import current_context as current_context
from diffkern.cuda.host import default_stream as default_stream
from diffkern.cuda.host import defer_cleanup as defer_cleanup
from diffkern.cuda.host import detect as detect
from diffkern.cuda.host import device_array as device_array
from diffkern.cuda.host import device_array_like as device_array_like
from diffkern.cuda.host import event as event
from diffkern.cuda.host import event_elapsed_time as event_elapsed_time
from diffkern.cuda.host import external_stream as external_stream
from diffkern.cuda.host import from_cuda_array_interface as from_cuda_array_interface
from diffkern.cuda.host import get_current_device as get_current_device
from diffkern.cuda.host import gpus as gpus
from diffkern.cuda.host import is_available as is_available
from diffkern.cuda.host import is_bfloat16_supported as is_bfloat16_supported
from diffkern.cuda.host import is_cuda_array as is_cuda_array
from diffkern.cuda.host import is_float16_supported as is_float16_supported
from diffkern.cuda.host import is_fp8_supported as is_fp8_supported
from diffkern.cuda.host import legacy_default_stream as legacy_default_stream
from diffkern.cuda.host import list_devices as list_devices
from diffkern.cuda.host import managed_array as managed_array
from diffkern.cuda.host import mapped as mapped
from diffkern.cuda.host import mapped_array as mapped_array
from diffkern.cuda.host import mapped_array_like as mapped_array_like
from diffkern.cuda.host import per_thread_default_stream as per_thread_default_stream
from diffkern.cuda.host import pinned as pinned
from diffkern.cuda.host import pinned_array as pinned_array
from diffkern.cuda.host import pinned_array_like as pinned_array_like
from diffkern.cuda.host import profile_start as profile_start
from diffkern.cuda.host import profile_stop as profile_stop
from diffkern.cuda.host import profiling as profiling
from diffkern.cuda.host import reduce as reduce
from diffkern.cuda.host import require_context as require_context
from diffkern.cuda.host import select_device as select_device
from diffkern.cuda.host import stream as stream
from diffkern.cuda.host import synchronize as synchronize
from diffkern.cuda.host import to_device as to_device
def grid(ndim: Any) -> Any: ...
def gridsize(ndim: Any) -> Any: ...
def syncthreads() -> Any: ...
def syncthreads_count(predicate: Any) -> Any: ...
def syncthreads_and(predicate: Any) -> Any: ...
def syncthreads_or(predicate: Any) -> Any: ...
def syncwarp(mask: Any = ...) -> Any: ...
def threadfence() -> Any: ...
def threadfence_block() -> Any: ...
def shfl_sync(mask: Any, value: Any, lane: Any) -> Any: ...
def shfl_up_sync(mask: Any, value: Any, delta: Any) -> Any: ...
def shfl_down_sync(mask: Any, value: Any, delta: Any) -> Any: ...
def shfl_xor_sync(mask: Any, value: Any, bits: Any) -> Any: ...
def all_sync(mask: Any, predicate: Any) -> Any: ...
def any_sync(mask: Any, predicate: Any) -> Any: ...
def ballot_sync(mask: Any, predicate: Any) -> Any: ...
def fma(a: Any, b: Any, c: Any) -> Any: ...
def cbrt(x: Any) -> Any: ...
def popc(x: Any) -> Any: ...
def clz(x: Any) -> Any: ...
def ffs(x: Any) -> Any: ...
def brev(x: Any) -> Any: ...
def selp(condition: Any, a: Any, b: Any) -> Any: ...
laneid: int
warpsize: int
class shared:
    @staticmethod
    def array(shape: Any, dtype: Any) -> Any: ...
class local:
    @staticmethod
    def array(shape: Any, dtype: Any) -> Any: ...
class atomic:
    @staticmethod
    def add(array: Any, index: Any, value: Any) -> Any: ...
    @staticmethod
    def and_(array: Any, index: Any, value: Any) -> Any: ...
    @staticmethod
    def cas(array: Any, index: Any, old: Any, value: Any) -> Any: ...
    @staticmethod
    def compare_and_swap(array: Any, old: Any, value: Any) -> Any: ...
    @staticmethod
    def dec(array: Any, index: Any, top: Any) -> Any: ...
    @staticmethod
    def exch(array: Any, index: Any, value: Any) -> Any: ...
    @staticmethod
    def inc(array: Any, index: Any, top: Any) -> Any: ...
    @staticmethod
    def max(array: Any, index: Any, value: Any) -> Any: ...
    @staticmethod
    def min(array: Any, index: Any, value: Any) -> Any: ...
    @staticmethod
    def or_(array: Any, index: Any, value: Any) -> Any: ...
    @staticmethod
    def sub(array: Any, index: Any, value: Any) -> Any: ...
    @staticmethod
    def xor(array: Any, index: Any, value: Any) -> Any: ...
class const:
    @staticmethod
    def array_like(array: Any) -> Any: ...
class threadIdx:
    x: int
    y: int
    z: int
class blockIdx:
    x: int
    y: int
    z: int
class blockDim:
    x: int
    y: int
    z: int
class gridDim:
    x: int
    y: int
    z: int
bool_: TypeAlias = bool
boolean: TypeAlias = bool
b1: TypeAlias = bool
int8: TypeAlias = diffkern.int8
char: TypeAlias = diffkern.int8
i1: TypeAlias = diffkern.int8
uint8: TypeAlias = diffkern.uint8
byte: TypeAlias = diffkern.uint8
uchar: TypeAlias = diffkern.uint8
u1: TypeAlias = diffkern.uint8
int16: TypeAlias = diffkern.int16
short: TypeAlias = diffkern.int16
i2: TypeAlias = diffkern.int16
uint16: TypeAlias = diffkern.uint16
ushort: TypeAlias = diffkern.uint16
u2: TypeAlias = diffkern.uint16
int32: TypeAlias = diffkern.int32
intc: TypeAlias = diffkern.int32
i4: TypeAlias = diffkern.int32
uint32: TypeAlias = diffkern.uint32
uintc: TypeAlias = diffkern.uint32
u4: TypeAlias = diffkern.uint32
int64: TypeAlias = diffkern.int64
int_: TypeAlias = diffkern.int64
intp: TypeAlias = diffkern.int64
long_: TypeAlias = diffkern.int64
longlong: TypeAlias = diffkern.int64
ssize_t: TypeAlias = diffkern.int64
i8: TypeAlias = diffkern.int64
uint64: TypeAlias = diffkern.uint64
uint: TypeAlias = diffkern.uint64
uintp: TypeAlias = diffkern.uint64
ulong: TypeAlias = diffkern.uint64
ulonglong: TypeAlias = diffkern.uint64
size_t: TypeAlias = diffkern.uint64
u8: TypeAlias = diffkern.uint64
bfloat16: TypeAlias = diffkern.bfloat16
float32: TypeAlias = diffkern.float32
f4: TypeAlias = diffkern.float32
float64: TypeAlias = diffkern.float64
double: TypeAlias = diffkern.float64
f8: TypeAlias = diffkern.float64
float32x2: TypeAlias = diffkern.vec2
float2: TypeAlias = diffkern.vec2
float32x3: TypeAlias = diffkern.vec3
float3: TypeAlias = diffkern.vec3
float32x4: TypeAlias = diffkern.vec4
float4: TypeAlias = diffkern.vec4
float64x2: TypeAlias = diffkern.vec2d
double2: TypeAlias = diffkern.vec2d
float64x3: TypeAlias = diffkern.vec3d
double3: TypeAlias = diffkern.vec3d
float64x4: TypeAlias = diffkern.vec4d
double4: TypeAlias = diffkern.vec4d
int32x2: TypeAlias = diffkern.vec2i
int2: TypeAlias = diffkern.vec2i
int32x3: TypeAlias = diffkern.vec3i
int3: TypeAlias = diffkern.vec3i
int32x4: TypeAlias = diffkern.vec4i
int4: TypeAlias = diffkern.vec4i
uint32x2: TypeAlias = diffkern.vec2ui
uint2: TypeAlias = diffkern.vec2ui
uint32x3: TypeAlias = diffkern.vec3ui
uint3: TypeAlias = diffkern.vec3ui
uint32x4: TypeAlias = diffkern.vec4ui
uint4: TypeAlias = diffkern.vec4ui
int64x2: TypeAlias = diffkern.vec2l
long2: TypeAlias = diffkern.vec2l
longlong2: TypeAlias = diffkern.vec2l
int64x3: TypeAlias = diffkern.vec3l
long3: TypeAlias = diffkern.vec3l
longlong3: TypeAlias = diffkern.vec3l
int64x4: TypeAlias = diffkern.vec4l
long4: TypeAlias = diffkern.vec4l
longlong4: TypeAlias = diffkern.vec4l

__all__ = [
    "CudaKernel",
    "DeviceArray",
    "Launcher",
    "MemoryInfo",
    "Reduce",
    "all_sync",
    "any_sync",
    "as_cuda_array",
    "atomic",
    "b1",
    "ballot_sync",
    "bfloat16",
    "blockDim",
    "blockIdx",
    "bool",
    "bool_",
    "boolean",
    "brev",
    "byte",
    "cbrt",
    "char",
    "close",
    "clz",
    "const",
    "current_context",
    "default_stream",
    "defer_cleanup",
    "detect",
    "device_array",
    "device_array_like",
    "double",
    "double2",
    "double3",
    "double4",
    "event",
    "event_elapsed_time",
    "external_stream",
    "f4",
    "f8",
    "ffs",
    "float2",
    "float3",
    "float32",
    "float32x2",
    "float32x3",
    "float32x4",
    "float4",
    "float64",
    "float64x2",
    "float64x3",
    "float64x4",
    "fma",
    "from_cuda_array_interface",
    "get_current_device",
    "gpus",
    "grid",
    "gridDim",
    "gridsize",
    "i1",
    "i2",
    "i4",
    "i8",
    "int16",
    "int2",
    "int3",
    "int32",
    "int32x2",
    "int32x3",
    "int32x4",
    "int4",
    "int64",
    "int64x2",
    "int64x3",
    "int64x4",
    "int8",
    "int_",
    "intc",
    "intp",
    "is_available",
    "is_bfloat16_supported",
    "is_cuda_array",
    "is_float16_supported",
    "is_fp8_supported",
    "jit",
    "laneid",
    "legacy_default_stream",
    "list_devices",
    "local",
    "long2",
    "long3",
    "long4",
    "long_",
    "longlong",
    "longlong2",
    "longlong3",
    "longlong4",
    "managed_array",
    "mapped",
    "mapped_array",
    "mapped_array_like",
    "per_thread_default_stream",
    "pinned",
    "pinned_array",
    "pinned_array_like",
    "popc",
    "profile_start",
    "profile_stop",
    "profiling",
    "reduce",
    "require_context",
    "select_device",
    "selp",
    "shared",
    "shfl_down_sync",
    "shfl_sync",
    "shfl_up_sync",
    "shfl_xor_sync",
    "short",
    "size_t",
    "ssize_t",
    "stream",
    "synchronize",
    "syncthreads",
    "syncthreads_and",
    "syncthreads_count",
    "syncthreads_or",
    "syncwarp",
    "threadIdx",
    "threadfence",
    "threadfence_block",
    "to_device",
    "u1",
    "u2",
    "u4",
    "u8",
    "uchar",
    "uint",
    "uint16",
    "uint2",
    "uint3",
    "uint32",
    "uint32x2",
    "uint32x3",
    "uint32x4",
    "uint4",
    "uint64",
    "uint8",
    "uintc",
    "uintp",
    "ulong",
    "ulonglong",
    "ushort",
    "warpsize",
]
