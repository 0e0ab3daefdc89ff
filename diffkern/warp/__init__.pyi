"""The names of diffkern.warp, with their types. Written by tools/typing_stub.py."""

from collections.abc import Callable, Sequence
from typing import Any, Generic
from typing import overload as _overload

from diffkern.kernels.kernel import Kernel as _Kernel
from diffkern.runtime.arrays.array import array as _array
from typing_extensions import TypeVar, dataclass_transform

_T = TypeVar("_T")
_E = TypeVar("_E", default=Any)
_A = TypeVar("_A", default=Any)

@_overload
def kernel(f: Callable[..., Any]) -> _Kernel: ...
@_overload
def kernel(f: None = None, **options: Any) -> Callable[[Callable[..., Any]], _Kernel]: ...

@_overload
@dataclass_transform()
def struct(c: type[_T]) -> type[_T]: ...
@_overload
@dataclass_transform()
def struct(c: None = None, *, module: Any = ...) -> Callable[[type[_T]], type[_T]]: ...

class array(_array[_E, _A]):
    def __init__(
        self, data: Any = ..., dtype: Any = ..., shape: int | Sequence[int] | None = ..., strides: Any = ...,
        ptr: int | None = ..., capacity: int | None = ..., device: Any = ..., pinned: bool = ..., copy: bool = ...,
        deleter: Any = ..., ndim: int | None = ..., grad: Any = ..., requires_grad: bool = ..., **options: Any,
    ) -> None: ...

class array1d(array[_E]): ...
class array2d(array[_E]): ...
class array3d(array[_E]): ...
class array4d(array[_E]): ...

class ref(Generic[_E]):
    """A parameter of a func that the func changes; in the func it is a variable of that type."""

    def __getattr__(self, name: str) -> Any: ...

__version__: str
from diffkern.errors import AutodiffError as AutodiffError
from diffkern import Bvh as Bvh
from diffkern import BvhQuery as BvhQuery
from diffkern import BvhQueryTiled as BvhQueryTiled
from diffkern.warp.enumerations import CaptureMode as CaptureMode
from diffkern.errors import CompileError as CompileError
from diffkern.errors import CudaError as CudaError
from diffkern import CustomOperation as CustomOperation
from diffkern.warp.config import DeterministicMode as DeterministicMode
from diffkern import Device as Device
from diffkern.warp.devices import DeviceLike as DeviceLike
from diffkern import E as E
from diffkern import Event as Event
from diffkern import Float as Float
from diffkern.lang.func import Func as Function
from diffkern.warp.opaque import GLTextureResource as GLTextureResource
from diffkern import Graph as Graph
from diffkern import HALF_PI as HALF_PI
from diffkern import HashGrid as HashGrid
from diffkern import HashGridQuery as HashGridQuery
from diffkern import INF as INF
from diffkern import Int as Int
from diffkern.warp.enumerations import JaxCallableGraphMode as JaxCallableGraphMode
from diffkern.warp.enumerations import JaxModulePreloadMode as JaxModulePreloadMode
from diffkern.warp.declare import Kernel as Kernel
from diffkern.errors import KernelError as KernelError
from diffkern.errors import KernelRuntimeError as KernelRuntimeError
from diffkern.errors import KernelSyntaxError as KernelSyntaxError
from diffkern.errors import KernelTypeError as KernelTypeError
from diffkern import LN10 as LN10
from diffkern import LN2 as LN2
from diffkern import LOG10E as LOG10E
from diffkern import LOG2E as LOG2E
from diffkern.warp.loggers import LOG_DEBUG as LOG_DEBUG
from diffkern.warp.loggers import LOG_ERROR as LOG_ERROR
from diffkern.warp.loggers import LOG_INFO as LOG_INFO
from diffkern.warp.loggers import LOG_WARNING as LOG_WARNING
from diffkern import Launch as Launch
from diffkern.errors import LaunchError as LaunchError
from diffkern.warp.loggers import Logger as Logger
from diffkern.warp.enumerations import MemoryKind as MemoryKind
from diffkern import Mesh as Mesh
from diffkern import MeshQuery as MeshQuery
from diffkern.lang.queries import MeshQuery as MeshQueryAABB
from diffkern import MeshQueryAABBTiled as MeshQueryAABBTiled
from diffkern import MeshQueryPoint as MeshQueryPoint
from diffkern import MeshQueryRay as MeshQueryRay
from diffkern.errors import MisuseError as MisuseError
from diffkern.warp.modules import Module as Module
from diffkern import NAN as NAN
from diffkern import NonFiniteError as NonFiniteError
from diffkern import PHI as PHI
from diffkern import PI as PI
from diffkern.warp.opaque import RegisteredGLBuffer as RegisteredGLBuffer
from diffkern import Scalar as Scalar
from diffkern.warp.capturing import ScopedCapture as ScopedCapture
from diffkern.warp.devices import ScopedCudaProfiler as ScopedCudaProfiler
from diffkern import ScopedDevice as ScopedDevice
from diffkern.warp.loggers import ScopedLogLevel as ScopedLogLevel
from diffkern.warp.loggers import ScopedLogger as ScopedLogger
from diffkern.warp.tracking import ScopedMemoryTracker as ScopedMemoryTracker
from diffkern.warp.pools import ScopedMempool as ScopedMempool
from diffkern.warp.pools import ScopedMempoolAccess as ScopedMempoolAccess
from diffkern.warp.pools import ScopedPeerAccess as ScopedPeerAccess
from diffkern import ScopedStream as ScopedStream
from diffkern import ScopedTimer as ScopedTimer
from diffkern import ScopedTrace as ScopedTrace
from diffkern import Stream as Stream
from diffkern import TAU as TAU
from diffkern.warp.enumerations import TIMING_ALL as TIMING_ALL
from diffkern.warp.enumerations import TIMING_GRAPH as TIMING_GRAPH
from diffkern.warp.enumerations import TIMING_KERNEL as TIMING_KERNEL
from diffkern.warp.enumerations import TIMING_KERNEL_BUILTIN as TIMING_KERNEL_BUILTIN
from diffkern.warp.enumerations import TIMING_MEMCPY as TIMING_MEMCPY
from diffkern.warp.enumerations import TIMING_MEMSET as TIMING_MEMSET
from diffkern import Tangents as Tangents
from diffkern import Tape as Tape
from diffkern import Texture as Texture
from diffkern import Texture1D as Texture1D
from diffkern import Texture2D as Texture2D
from diffkern import Texture3D as Texture3D
from diffkern import TextureAddressMode as TextureAddressMode
from diffkern import TextureFilterMode as TextureFilterMode
from diffkern.warp.enumerations import TextureResourceFlags as TextureResourceFlags
from diffkern import Tuned as Tuned
from diffkern import TuningRow as TuningRow
from diffkern import Volume as Volume
from diffkern.errors import KernelError as WarpCodegenAttributeError
from diffkern.errors import KernelError as WarpCodegenError
from diffkern.errors import KernelError as WarpCodegenIndexError
from diffkern.errors import KernelError as WarpCodegenKeyError
from diffkern.errors import KernelError as WarpCodegenTypeError
from diffkern.errors import KernelError as WarpCodegenValueError
from diffkern.errors import KernelError as WarpDeterminismError
from diffkern import abs as abs
from diffkern import acos as acos
from diffkern import acosh as acosh
from diffkern import add as add
from diffkern import adjoint as adjoint
from diffkern import angle as angle
from diffkern import argmax as argmax
from diffkern import argmin as argmin
from diffkern import asin as asin
from diffkern import asinh as asinh
from diffkern import atan as atan
from diffkern import atan2 as atan2
from diffkern import atanh as atanh
from diffkern import atomic_add as atomic_add
from diffkern import atomic_and as atomic_and
from diffkern import atomic_cas as atomic_cas
from diffkern import atomic_exch as atomic_exch
from diffkern import atomic_max as atomic_max
from diffkern import atomic_min as atomic_min
from diffkern import atomic_or as atomic_or
from diffkern import atomic_sub as atomic_sub
from diffkern import atomic_xor as atomic_xor
from diffkern import bfloat16 as bfloat16
from diffkern import bit_and as bit_and
from diffkern import bit_count as bit_count
from diffkern import bit_or as bit_or
from diffkern import bit_xor as bit_xor
from diffkern import block_dim as block_dim
from diffkern import block_index as block_index
from builtins import breakpoint as breakpoint
from diffkern import bvh_get_group_root as bvh_get_group_root
from diffkern import bvh_query_aabb as bvh_query_aabb
from diffkern import tile_bvh_query_aabb as bvh_query_aabb_tiled
from diffkern import bvh_query_capsule as bvh_query_capsule
from diffkern import bvh_query_next as bvh_query_next
from diffkern import tile_bvh_query_next as bvh_query_next_tiled
from diffkern import bvh_query_ray as bvh_query_ray
from diffkern import tile_bvh_query_ray as bvh_query_ray_tiled
from diffkern import bvh_query_sphere as bvh_query_sphere
from diffkern.warp.pools import can_access as can_access
from diffkern.warp.capturing import capture_begin as capture_begin
from diffkern.warp.capturing import capture_debug_dot_print as capture_debug_dot_print
from diffkern import capture_end as capture_end
from diffkern import capture_if as capture_if
from diffkern import capture_launch as capture_launch
from diffkern import capture_while as capture_while
from diffkern import cast as cast
from diffkern import cbrt as cbrt
from diffkern import ceil as ceil
from diffkern import checkpoint as checkpoint
from diffkern import clamp as clamp
from diffkern.warp.exchange import clear_jax_callable_graph_cache as clear_jax_callable_graph_cache
from diffkern import clear_kernel_cache as clear_kernel_cache
from diffkern import clear_lto_cache as clear_lto_cache
from diffkern.warp.creation import clone as clone
from diffkern import closest_point_edge_edge as closest_point_edge_edge
from diffkern import complex as complex
from diffkern import complex128 as complex128
from diffkern import complex64 as complex64
from diffkern import conj as conj
from diffkern import constant as constant
from diffkern.warp.arrays import copy as copy
from diffkern import copysign as copysign
from diffkern import cos as cos
from diffkern import cosh as cosh
from diffkern import cross as cross
from diffkern.warp.devices import cuda_profiler_start as cuda_profiler_start
from diffkern.warp.devices import cuda_profiler_stop as cuda_profiler_stop
from diffkern import curlnoise as curlnoise
from diffkern import custom_operation as custom_operation
from diffkern import cw_div as cw_div
from diffkern import cw_mul as cw_mul
from diffkern import ddot as ddot
from diffkern import degrees as degrees
from diffkern import detect_anomaly as detect_anomaly
from diffkern import determinant as determinant
from diffkern import device_from_jax as device_from_jax
from diffkern import device_from_torch as device_from_torch
from diffkern import device_to_jax as device_to_jax
from diffkern import device_to_torch as device_to_torch
from diffkern import diag as diag
from diffkern import digamma as digamma
from diffkern import div as div
from diffkern import div_approx as div_approx
from diffkern import dot as dot
from diffkern import dtype_from_jax as dtype_from_jax
from diffkern import dtype_from_numpy as dtype_from_numpy
from diffkern import dtype_from_torch as dtype_from_torch
from diffkern import dtype_to_jax as dtype_to_jax
from diffkern import dtype_to_numpy as dtype_to_numpy
from diffkern import dtype_to_torch as dtype_to_torch
from diffkern import e as e
from diffkern import eig3 as eig3
from diffkern.warp.creation import empty as empty
from diffkern.warp.creation import empty_like as empty_like
from diffkern import erf as erf
from diffkern import erfc as erfc
from diffkern import erfcinv as erfcinv
from diffkern import erfinv as erfinv
from diffkern import exp as exp
from diffkern import exp2 as exp2
from diffkern import expect_eq as expect_eq
from diffkern import expect_near as expect_near
from diffkern import expect_neq as expect_neq
from diffkern import expm1 as expm1
from diffkern.warp.opaque import fabricarray as fabricarray
from diffkern.warp.opaque import fabricarrayarray as fabricarrayarray
from diffkern import fixed_point as fixed_point
from diffkern.warp.arrays import fixedarray as fixedarray
from builtins import float as float
from diffkern import float16 as float16
from diffkern import float32 as float32
from diffkern import float64 as float64
from diffkern import floor as floor
from diffkern import floordiv as floordiv
from diffkern.warp.modules import force_load as force_load
from diffkern import frac as frac
from diffkern.warp.exchange import from_dlpack as from_dlpack
from diffkern.warp.exchange import from_jax as from_jax
from diffkern.warp.creation import from_numpy as from_numpy
from diffkern.warp.arrays import from_ptr as from_ptr
from diffkern.warp.exchange import from_torch as from_torch
from diffkern.warp.creation import full as full
from diffkern.warp.creation import full_like as full_like
from diffkern.warp.declare import func as func
from diffkern import func_grad as func_grad
from diffkern.warp.snippets import func_native as func_native
from diffkern import func_replay as func_replay
from diffkern import gamma as gamma
from diffkern import get_cuda_device as get_cuda_device
from diffkern import get_cuda_device_count as get_cuda_device_count
from diffkern import get_cuda_devices as get_cuda_devices
from diffkern.warp.devices import get_cuda_driver_version as get_cuda_driver_version
from diffkern.warp.devices import get_cuda_supported_archs as get_cuda_supported_archs
from diffkern.warp.devices import get_cuda_toolkit_version as get_cuda_toolkit_version
from diffkern import get_device as get_device
from diffkern import get_devices as get_devices
from diffkern import get_diag as get_diag
from diffkern import get_event_elapsed_time as get_event_elapsed_time
from diffkern.warp.loggers import get_logger as get_logger
from diffkern.warp.pools import get_mempool_release_threshold as get_mempool_release_threshold
from diffkern.warp.pools import get_mempool_used_mem_current as get_mempool_used_mem_current
from diffkern.warp.pools import get_mempool_used_mem_high as get_mempool_used_mem_high
from diffkern.warp.modules import get_module as get_module
from diffkern.warp.modules import get_module_options as get_module_options
from diffkern import get_preferred_device as get_preferred_device
from diffkern import get_stream as get_stream
from diffkern.warp.devices import get_suggested_block_size as get_suggested_block_size
from diffkern import grad as grad
from diffkern import half_pi as half_pi
from diffkern.warp.types import handle as handle
from diffkern import hash_grid_point_id as hash_grid_point_id
from diffkern import hash_grid_query as hash_grid_query
from diffkern import hash_grid_query_next as hash_grid_query_next
from diffkern import hessian as hessian
from diffkern import hvp as hvp
from diffkern import hypot as hypot
from diffkern import identity as identity
from diffkern import indexedarray as indexedarray
from diffkern import indexedarray1d as indexedarray1d
from diffkern import indexedarray2d as indexedarray2d
from diffkern import indexedarray3d as indexedarray3d
from diffkern import indexedarray4d as indexedarray4d
from diffkern.warp.opaque import indexedfabricarray as indexedfabricarray
from diffkern.warp.opaque import indexedfabricarrayarray as indexedfabricarrayarray
from diffkern import inf as inf
from diffkern import init as init
from builtins import int as int
from diffkern import int16 as int16
from diffkern import int32 as int32
from diffkern import int64 as int64
from diffkern import int8 as int8
from diffkern import intersect_tri_tri as intersect_tri_tri
from diffkern import inverse as inverse
from diffkern import inverse_approx as inverse_approx
from diffkern import invert as invert
from diffkern.warp.devices import is_conditional_graph_supported as is_conditional_graph_supported
from diffkern import is_cpu_available as is_cpu_available
from diffkern.warp.devices import is_cubql_available as is_cubql_available
from diffkern import is_cuda_available as is_cuda_available
from diffkern import is_device_available as is_device_available
from diffkern.warp.pools import is_mempool_access_enabled as is_mempool_access_enabled
from diffkern.warp.pools import is_mempool_access_supported as is_mempool_access_supported
from diffkern.warp.pools import is_mempool_enabled as is_mempool_enabled
from diffkern.warp.pools import is_mempool_supported as is_mempool_supported
from diffkern import is_peer_access_enabled as is_peer_access_enabled
from diffkern import is_peer_access_supported as is_peer_access_supported
from diffkern import isfinite as isfinite
from diffkern import isinf as isinf
from diffkern import isnan as isnan
from diffkern import jacobian as jacobian
from diffkern.warp.exchange import jax_callable as jax_callable
from diffkern.warp.exchange import jax_kernel as jax_kernel
from diffkern import jvp as jvp
from diffkern.warp.launching import launch as launch
from diffkern.warp.launching import launch_tiled as launch_tiled
from builtins import len as len
from diffkern import length as length
from diffkern import length_sq as length_sq
from diffkern import lerp as lerp
from diffkern import lgamma as lgamma
from diffkern import linear_solve as linear_solve
from diffkern import ln10 as ln10
from diffkern import ln2 as ln2
from diffkern.warp.modules import load_module as load_module
from diffkern import log as log
from diffkern import log10 as log10
from diffkern import log10e as log10e
from diffkern import log1p as log1p
from diffkern import log2 as log2
from diffkern import log2e as log2e
from diffkern import lower_bound as lower_bound
from diffkern import lshift as lshift
from diffkern.warp.launching import map_arrays as map
from diffkern import mat22 as mat22
from diffkern import mat22d as mat22d
from diffkern import mat22f as mat22f
from diffkern import mat22h as mat22h
from diffkern import mat33 as mat33
from diffkern import mat33d as mat33d
from diffkern import mat33f as mat33f
from diffkern import mat33h as mat33h
from diffkern import mat44 as mat44
from diffkern import mat44d as mat44d
from diffkern import mat44f as mat44f
from diffkern import mat44h as mat44h
from diffkern import matmul as matmul
from diffkern import matrix as matrix
from diffkern import matrix_from_cols as matrix_from_cols
from diffkern import matrix_from_rows as matrix_from_rows
from diffkern import max as max
from diffkern import mesh_eval_face_normal as mesh_eval_face_normal
from diffkern import mesh_eval_position as mesh_eval_position
from diffkern import mesh_eval_velocity as mesh_eval_velocity
from diffkern import mesh_get as mesh_get
from diffkern import mesh_get_bvh as mesh_get_bvh
from diffkern import mesh_get_group_root as mesh_get_group_root
from diffkern import mesh_get_index as mesh_get_index
from diffkern import mesh_get_point as mesh_get_point
from diffkern import mesh_get_velocity as mesh_get_velocity
from diffkern import mesh_query_aabb as mesh_query_aabb
from diffkern import mesh_query_aabb_next as mesh_query_aabb_next
from diffkern import tile_mesh_query_aabb_next as mesh_query_aabb_next_tiled
from diffkern import tile_mesh_query_aabb as mesh_query_aabb_tiled
from diffkern import mesh_query_furthest_point_no_sign as mesh_query_furthest_point_no_sign
from diffkern import mesh_query_next as mesh_query_next
from diffkern import mesh_query_point as mesh_query_point
from diffkern import mesh_query_point_no_sign as mesh_query_point_no_sign
from diffkern import mesh_query_point_sign_normal as mesh_query_point_sign_normal
from diffkern import mesh_query_point_sign_parity as mesh_query_point_sign_parity
from diffkern import mesh_query_point_sign_winding_number as mesh_query_point_sign_winding_number
from diffkern import mesh_query_ray as mesh_query_ray
from diffkern import mesh_query_ray_anyhit as mesh_query_ray_anyhit
from diffkern import mesh_query_ray_count_intersections as mesh_query_ray_count_intersections
from diffkern import mesh_query_sphere as mesh_query_sphere
from diffkern import min as min
from diffkern import mod as mod
from diffkern import mul as mul
from diffkern import nan as nan
from diffkern import neg as neg
from diffkern import no_grad as no_grad
from diffkern import noise as noise
from diffkern import nonzero as nonzero
from diffkern import norm_huber as norm_huber
from diffkern import norm_l1 as norm_l1
from diffkern import norm_l2 as norm_l2
from diffkern import norm_pseudo_huber as norm_pseudo_huber
from diffkern import normalize as normalize
from diffkern.warp.creation import ones as ones
from diffkern.warp.creation import ones_like as ones_like
from diffkern import outer as outer
from diffkern.warp.declare import overload as overload
from diffkern import phi as phi
from diffkern import pi as pi
from diffkern import pnoise as pnoise
from diffkern import poisson as poisson
from diffkern import pos as pos
from diffkern import pow as pow
from builtins import print as print
from diffkern.warp.diagnostics import print_diagnostics as print_diagnostics
from diffkern.warp.tracking import print_memory_report as print_memory_report
from diffkern import printf as printf
from diffkern import qr3 as qr3
from diffkern import quat as quat
from diffkern import quat_between_vectors as quat_between_vectors
from diffkern import quat_from_axis_angle as quat_from_axis_angle
from diffkern import quat_from_euler as quat_from_euler
from diffkern import quat_from_matrix as quat_from_matrix
from diffkern import quat_identity as quat_identity
from diffkern import quat_inverse as quat_inverse
from diffkern import quat_rotate as quat_rotate
from diffkern import quat_rotate_inv as quat_rotate_inv
from diffkern import quat_rpy as quat_rpy
from diffkern import quat_slerp as quat_slerp
from diffkern import quat_to_axis_angle as quat_to_axis_angle
from diffkern import quat_to_euler as quat_to_euler
from diffkern import quat_to_matrix as quat_to_matrix
from diffkern import quat_to_rpy as quat_to_rpy
from diffkern import quat_twist as quat_twist
from diffkern import quat_twist_angle as quat_twist_angle
from diffkern import quat_twist_angle_signed as quat_twist_angle_signed
from diffkern import quatd as quatd
from diffkern import quaternion as quaternion
from diffkern import quatf as quatf
from diffkern import quath as quath
from diffkern import radians as radians
from diffkern import rand_init as rand_init
from diffkern import randf as randf
from diffkern import randi as randi
from diffkern import randn as randn
from diffkern import randu as randu
from builtins import range as range
from diffkern import record_event as record_event
from builtins import reversed as reversed
from diffkern import rint as rint
from diffkern import root as root
from diffkern import round as round
from diffkern import rshift as rshift
from diffkern import rsqrt as rsqrt
from diffkern import sample_cdf as sample_cdf
from diffkern import sample_triangle as sample_triangle
from diffkern import sample_unit_cube as sample_unit_cube
from diffkern import sample_unit_disk as sample_unit_disk
from diffkern import sample_unit_hemisphere as sample_unit_hemisphere
from diffkern import sample_unit_hemisphere_surface as sample_unit_hemisphere_surface
from diffkern import sample_unit_ring as sample_unit_ring
from diffkern import sample_unit_sphere as sample_unit_sphere
from diffkern import sample_unit_sphere_surface as sample_unit_sphere_surface
from diffkern import sample_unit_square as sample_unit_square
from diffkern import select as select
from diffkern import set_device as set_device
from diffkern.warp.loggers import set_logger as set_logger
from diffkern.warp.pools import set_mempool_access_enabled as set_mempool_access_enabled
from diffkern.warp.pools import set_mempool_enabled as set_mempool_enabled
from diffkern.warp.pools import set_mempool_release_threshold as set_mempool_release_threshold
from diffkern.warp.modules import set_module_options as set_module_options
from diffkern.warp.pools import set_peer_access_enabled as set_peer_access_enabled
from diffkern import set_stream as set_stream
from diffkern import shared_array as shared_array
from diffkern import sign as sign
from diffkern import sin as sin
from diffkern import sinh as sinh
from diffkern import skew as skew
from diffkern import smooth_normalize as smooth_normalize
from diffkern import smoothstep as smoothstep
from diffkern import spatial_adjoint as spatial_adjoint
from diffkern import spatial_bottom as spatial_bottom
from diffkern import spatial_cross as spatial_cross
from diffkern import spatial_cross_dual as spatial_cross_dual
from diffkern import spatial_dot as spatial_dot
from diffkern import spatial_matrix as spatial_matrix
from diffkern import spatial_matrixd as spatial_matrixd
from diffkern import spatial_matrixf as spatial_matrixf
from diffkern import spatial_matrixh as spatial_matrixh
from diffkern import spatial_top as spatial_top
from diffkern import spatial_vector as spatial_vector
from diffkern import spatial_vectord as spatial_vectord
from diffkern import spatial_vectorf as spatial_vectorf
from diffkern import spatial_vectorh as spatial_vectorh
from diffkern import sqrt as sqrt
from diffkern import static as static
from diffkern import step as step
from diffkern import stop_gradient as stop_gradient
from diffkern import stream_from_torch as stream_from_torch
from diffkern import stream_to_torch as stream_to_torch
from diffkern import sub as sub
from diffkern import svd2 as svd2
from diffkern import svd3 as svd3
from diffkern import synchronize as synchronize
from diffkern import synchronize_device as synchronize_device
from diffkern import synchronize_event as synchronize_event
from diffkern import synchronize_stream as synchronize_stream
from diffkern import syncthreads as syncthreads
from diffkern import tan as tan
from diffkern import tanh as tanh
from diffkern import tau as tau
from diffkern import texture_sample as texture_sample
from diffkern import thread_index as thread_index
from diffkern import tid as tid
from diffkern import tile as tile
from diffkern import tile_add_inplace as tile_add_inplace
from diffkern import tile_arange as tile_arange
from diffkern import tile_argmax as tile_argmax
from diffkern import tile_argmin as tile_argmin
from diffkern import tile_assign as tile_assign
from diffkern import tile_astype as tile_astype
from diffkern import tile_atomic_add as tile_atomic_add
from diffkern import tile_atomic_add_indexed as tile_atomic_add_indexed
from diffkern import tile_axpy as tile_axpy
from diffkern import tile_bit_and_inplace as tile_bit_and_inplace
from diffkern import tile_bit_or_inplace as tile_bit_or_inplace
from diffkern import tile_bit_xor_inplace as tile_bit_xor_inplace
from diffkern import tile_broadcast as tile_broadcast
from diffkern import tile_bvh_query_aabb as tile_bvh_query_aabb
from diffkern import tile_bvh_query_next as tile_bvh_query_next
from diffkern import tile_bvh_query_ray as tile_bvh_query_ray
from diffkern import tile_cholesky as tile_cholesky
from diffkern import tile_cholesky_inplace as tile_cholesky_inplace
from diffkern import tile_cholesky_solve as tile_cholesky_solve
from diffkern import tile_cholesky_solve_inplace as tile_cholesky_solve_inplace
from diffkern import tile_diag_add as tile_diag_add
from diffkern import tile_dot as tile_dot
from diffkern import tile_empty as tile_empty
from diffkern import tile_extract as tile_extract
from diffkern import tile_fft as tile_fft
from diffkern import tile_from_thread as tile_from_thread
from diffkern import tile_full as tile_full
from diffkern import tile_ifft as tile_ifft
from diffkern import tile_load as tile_load
from diffkern import tile_load_indexed as tile_load_indexed
from diffkern import tile_lower_solve as tile_lower_solve
from diffkern import tile_lower_solve_inplace as tile_lower_solve_inplace
from diffkern import tile_map as tile_map
from diffkern import tile_matmul as tile_matmul
from diffkern import tile_max as tile_max
from diffkern import tile_mesh_query_aabb as tile_mesh_query_aabb
from diffkern import tile_mesh_query_aabb_next as tile_mesh_query_aabb_next
from diffkern import tile_min as tile_min
from diffkern import tile_ones as tile_ones
from diffkern import tile_query_valid as tile_query_valid
from diffkern import tile_randf as tile_randf
from diffkern import tile_randi as tile_randi
from diffkern import tile_reduce as tile_reduce
from diffkern import tile_reshape as tile_reshape
from diffkern import tile_scan_exclusive as tile_scan_exclusive
from diffkern import tile_scan_inclusive as tile_scan_inclusive
from diffkern import tile_scan_max_inclusive as tile_scan_max_inclusive
from diffkern import tile_scan_min_inclusive as tile_scan_min_inclusive
from diffkern import tile_scatter_add as tile_scatter_add
from diffkern import tile_scatter_masked as tile_scatter_masked
from diffkern import tile_slice_indexed as tile_slice_indexed
from diffkern import tile_sort as tile_sort
from diffkern import tile_squeeze as tile_squeeze
from diffkern import tile_stack as tile_stack
from diffkern import tile_stack_clear as tile_stack_clear
from diffkern import tile_stack_count as tile_stack_count
from diffkern import tile_stack_pop as tile_stack_pop
from diffkern import tile_stack_push as tile_stack_push
from diffkern import tile_store as tile_store
from diffkern import tile_store_indexed as tile_store_indexed
from diffkern import tile_sub_inplace as tile_sub_inplace
from diffkern import tile_sum as tile_sum
from diffkern import tile_transpose as tile_transpose
from diffkern import tile_upper_solve as tile_upper_solve
from diffkern import tile_upper_solve_inplace as tile_upper_solve_inplace
from diffkern import tile_view as tile_view
from diffkern import tile_zeros as tile_zeros
from diffkern import to_dlpack as to_dlpack
from diffkern import to_jax as to_jax
from diffkern import to_torch as to_torch
from diffkern import torch_function as torch_function
from diffkern import trace as trace
from diffkern import transform as transform
from diffkern import transform_compose as transform_compose
from diffkern import transform_decompose as transform_decompose
from diffkern.warp.utils import transform_expand as transform_expand
from diffkern import transform_from_matrix as transform_from_matrix
from diffkern import transform_get_rotation as transform_get_rotation
from diffkern import transform_get_translation as transform_get_translation
from diffkern import transform_identity as transform_identity
from diffkern import transform_inverse as transform_inverse
from diffkern import transform_multiply as transform_multiply
from diffkern import transform_point as transform_point
from diffkern import transform_set_rotation as transform_set_rotation
from diffkern import transform_set_translation as transform_set_translation
from diffkern import transform_to_matrix as transform_to_matrix
from diffkern import transform_twist as transform_twist
from diffkern import transform_vector as transform_vector
from diffkern import transform_wrench as transform_wrench
from diffkern import transformation as transformation
from diffkern import transformd as transformd
from diffkern import transformf as transformf
from diffkern import transformh as transformh
from diffkern import transpose as transpose
from diffkern import trunc as trunc
from diffkern import tune as tune
from diffkern import uint16 as uint16
from diffkern import uint32 as uint32
from diffkern import uint64 as uint64
from diffkern import uint8 as uint8
from diffkern import unot as unot
from diffkern import untile as untile
from diffkern import value_and_grad as value_and_grad
from diffkern import vec2 as vec2
from diffkern import vec2b as vec2b
from diffkern import vec2d as vec2d
from diffkern import vec2f as vec2f
from diffkern import vec2h as vec2h
from diffkern import vec2i as vec2i
from diffkern import vec2l as vec2l
from diffkern import vec2s as vec2s
from diffkern import vec2u as vec2u
from diffkern import vec2ub as vec2ub
from diffkern import vec2ui as vec2ui
from diffkern import vec2ul as vec2ul
from diffkern import vec2us as vec2us
from diffkern import vec3 as vec3
from diffkern import vec3b as vec3b
from diffkern import vec3d as vec3d
from diffkern import vec3f as vec3f
from diffkern import vec3h as vec3h
from diffkern import vec3i as vec3i
from diffkern import vec3l as vec3l
from diffkern import vec3s as vec3s
from diffkern import vec3u as vec3u
from diffkern import vec3ub as vec3ub
from diffkern import vec3ui as vec3ui
from diffkern import vec3ul as vec3ul
from diffkern import vec3us as vec3us
from diffkern import vec4 as vec4
from diffkern import vec4b as vec4b
from diffkern import vec4d as vec4d
from diffkern import vec4f as vec4f
from diffkern import vec4h as vec4h
from diffkern import vec4i as vec4i
from diffkern import vec4l as vec4l
from diffkern import vec4s as vec4s
from diffkern import vec4u as vec4u
from diffkern import vec4ub as vec4ub
from diffkern import vec4ui as vec4ui
from diffkern import vec4ul as vec4ul
from diffkern import vec4us as vec4us
from diffkern import vector as vector
from diffkern import velocity_at_point as velocity_at_point
from diffkern import vjp as vjp
from diffkern import volume_index_to_world as volume_index_to_world
from diffkern import volume_index_to_world_dir as volume_index_to_world_dir
from diffkern import volume_lookup as volume_lookup
from diffkern import volume_lookup_f as volume_lookup_f
from diffkern import volume_lookup_i as volume_lookup_i
from diffkern import volume_lookup_index as volume_lookup_index
from diffkern import volume_lookup_v as volume_lookup_v
from diffkern import volume_sample as volume_sample
from diffkern import volume_sample_f as volume_sample_f
from diffkern import volume_sample_grad as volume_sample_grad
from diffkern import volume_sample_grad_f as volume_sample_grad_f
from diffkern import volume_sample_grad_index as volume_sample_grad_index
from diffkern import volume_sample_i as volume_sample_i
from diffkern import volume_sample_index as volume_sample_index
from diffkern import volume_sample_v as volume_sample_v
from diffkern import volume_store as volume_store
from diffkern import volume_store_f as volume_store_f
from diffkern import volume_store_i as volume_store_i
from diffkern import volume_store_v as volume_store_v
from diffkern import volume_voxel_count as volume_voxel_count
from diffkern import volume_world_to_index as volume_world_to_index
from diffkern import volume_world_to_index_dir as volume_world_to_index_dir
from diffkern import wait_event as wait_event
from diffkern import wait_stream as wait_stream
from diffkern import where as where
from diffkern.warp.creation import zeros as zeros
from diffkern.warp.creation import zeros_like as zeros_like
from diffkern.warp import autograd as autograd
from diffkern.warp import config as config
from diffkern.warp import examples as examples
from diffkern.warp import fem as fem
from diffkern.warp import geometry as geometry
from diffkern.warp import optim as optim
from diffkern.warp import render as render
from diffkern.warp import sparse as sparse
from diffkern.warp import types as types
from diffkern.warp import utils as utils

__all__ = [
    "AutodiffError",
    "Bvh",
    "BvhQuery",
    "BvhQueryTiled",
    "CaptureMode",
    "CompileError",
    "CudaError",
    "CustomOperation",
    "DeterministicMode",
    "Device",
    "DeviceLike",
    "E",
    "Event",
    "Float",
    "Function",
    "GLTextureResource",
    "Graph",
    "HALF_PI",
    "HashGrid",
    "HashGridQuery",
    "INF",
    "Int",
    "JaxCallableGraphMode",
    "JaxModulePreloadMode",
    "Kernel",
    "KernelError",
    "KernelRuntimeError",
    "KernelSyntaxError",
    "KernelTypeError",
    "LN10",
    "LN2",
    "LOG10E",
    "LOG2E",
    "LOG_DEBUG",
    "LOG_ERROR",
    "LOG_INFO",
    "LOG_WARNING",
    "Launch",
    "LaunchError",
    "Logger",
    "MemoryKind",
    "Mesh",
    "MeshQuery",
    "MeshQueryAABB",
    "MeshQueryAABBTiled",
    "MeshQueryPoint",
    "MeshQueryRay",
    "MisuseError",
    "Module",
    "NAN",
    "NonFiniteError",
    "PHI",
    "PI",
    "RegisteredGLBuffer",
    "Scalar",
    "ScopedCapture",
    "ScopedCudaProfiler",
    "ScopedDevice",
    "ScopedLogLevel",
    "ScopedLogger",
    "ScopedMemoryTracker",
    "ScopedMempool",
    "ScopedMempoolAccess",
    "ScopedPeerAccess",
    "ScopedStream",
    "ScopedTimer",
    "ScopedTrace",
    "Stream",
    "TAU",
    "TIMING_ALL",
    "TIMING_GRAPH",
    "TIMING_KERNEL",
    "TIMING_KERNEL_BUILTIN",
    "TIMING_MEMCPY",
    "TIMING_MEMSET",
    "Tangents",
    "Tape",
    "Texture",
    "Texture1D",
    "Texture2D",
    "Texture3D",
    "TextureAddressMode",
    "TextureFilterMode",
    "TextureResourceFlags",
    "Tuned",
    "TuningRow",
    "Volume",
    "WarpCodegenAttributeError",
    "WarpCodegenError",
    "WarpCodegenIndexError",
    "WarpCodegenKeyError",
    "WarpCodegenTypeError",
    "WarpCodegenValueError",
    "WarpDeterminismError",
    "abs",
    "acos",
    "acosh",
    "add",
    "adjoint",
    "angle",
    "argmax",
    "argmin",
    "array",
    "array1d",
    "array2d",
    "array3d",
    "array4d",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_exch",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_sub",
    "atomic_xor",
    "bfloat16",
    "bit_and",
    "bit_count",
    "bit_or",
    "bit_xor",
    "block_dim",
    "block_index",
    "breakpoint",
    "bvh_get_group_root",
    "bvh_query_aabb",
    "bvh_query_aabb_tiled",
    "bvh_query_capsule",
    "bvh_query_next",
    "bvh_query_next_tiled",
    "bvh_query_ray",
    "bvh_query_ray_tiled",
    "bvh_query_sphere",
    "can_access",
    "capture_begin",
    "capture_debug_dot_print",
    "capture_end",
    "capture_if",
    "capture_launch",
    "capture_while",
    "cast",
    "cbrt",
    "ceil",
    "checkpoint",
    "clamp",
    "clear_jax_callable_graph_cache",
    "clear_kernel_cache",
    "clear_lto_cache",
    "clone",
    "closest_point_edge_edge",
    "complex",
    "complex128",
    "complex64",
    "config",
    "conj",
    "constant",
    "copy",
    "copysign",
    "cos",
    "cosh",
    "cross",
    "cuda_profiler_start",
    "cuda_profiler_stop",
    "curlnoise",
    "custom_operation",
    "cw_div",
    "cw_mul",
    "ddot",
    "degrees",
    "detect_anomaly",
    "determinant",
    "device_from_jax",
    "device_from_torch",
    "device_to_jax",
    "device_to_torch",
    "diag",
    "digamma",
    "div",
    "div_approx",
    "dot",
    "dtype_from_jax",
    "dtype_from_numpy",
    "dtype_from_torch",
    "dtype_to_jax",
    "dtype_to_numpy",
    "dtype_to_torch",
    "e",
    "eig3",
    "empty",
    "empty_like",
    "erf",
    "erfc",
    "erfcinv",
    "erfinv",
    "exp",
    "exp2",
    "expect_eq",
    "expect_near",
    "expect_neq",
    "expm1",
    "fabricarray",
    "fabricarrayarray",
    "fixed_point",
    "fixedarray",
    "float",
    "float16",
    "float32",
    "float64",
    "floor",
    "floordiv",
    "force_load",
    "frac",
    "from_dlpack",
    "from_jax",
    "from_numpy",
    "from_ptr",
    "from_torch",
    "full",
    "full_like",
    "func",
    "func_grad",
    "func_native",
    "func_replay",
    "gamma",
    "get_cuda_device",
    "get_cuda_device_count",
    "get_cuda_devices",
    "get_cuda_driver_version",
    "get_cuda_supported_archs",
    "get_cuda_toolkit_version",
    "get_device",
    "get_devices",
    "get_diag",
    "get_event_elapsed_time",
    "get_logger",
    "get_mempool_release_threshold",
    "get_mempool_used_mem_current",
    "get_mempool_used_mem_high",
    "get_module",
    "get_module_options",
    "get_preferred_device",
    "get_stream",
    "get_suggested_block_size",
    "grad",
    "half_pi",
    "handle",
    "hash_grid_point_id",
    "hash_grid_query",
    "hash_grid_query_next",
    "hessian",
    "hvp",
    "hypot",
    "identity",
    "indexedarray",
    "indexedarray1d",
    "indexedarray2d",
    "indexedarray3d",
    "indexedarray4d",
    "indexedfabricarray",
    "indexedfabricarrayarray",
    "inf",
    "init",
    "int",
    "int16",
    "int32",
    "int64",
    "int8",
    "intersect_tri_tri",
    "inverse",
    "inverse_approx",
    "invert",
    "is_conditional_graph_supported",
    "is_cpu_available",
    "is_cubql_available",
    "is_cuda_available",
    "is_device_available",
    "is_mempool_access_enabled",
    "is_mempool_access_supported",
    "is_mempool_enabled",
    "is_mempool_supported",
    "is_peer_access_enabled",
    "is_peer_access_supported",
    "isfinite",
    "isinf",
    "isnan",
    "jacobian",
    "jax_callable",
    "jax_kernel",
    "jvp",
    "kernel",
    "launch",
    "launch_tiled",
    "len",
    "length",
    "length_sq",
    "lerp",
    "lgamma",
    "linear_solve",
    "ln10",
    "ln2",
    "load_module",
    "log",
    "log10",
    "log10e",
    "log1p",
    "log2",
    "log2e",
    "lower_bound",
    "lshift",
    "map",
    "mat22",
    "mat22d",
    "mat22f",
    "mat22h",
    "mat33",
    "mat33d",
    "mat33f",
    "mat33h",
    "mat44",
    "mat44d",
    "mat44f",
    "mat44h",
    "matmul",
    "matrix",
    "matrix_from_cols",
    "matrix_from_rows",
    "max",
    "mesh_eval_face_normal",
    "mesh_eval_position",
    "mesh_eval_velocity",
    "mesh_get",
    "mesh_get_bvh",
    "mesh_get_group_root",
    "mesh_get_index",
    "mesh_get_point",
    "mesh_get_velocity",
    "mesh_query_aabb",
    "mesh_query_aabb_next",
    "mesh_query_aabb_next_tiled",
    "mesh_query_aabb_tiled",
    "mesh_query_furthest_point_no_sign",
    "mesh_query_next",
    "mesh_query_point",
    "mesh_query_point_no_sign",
    "mesh_query_point_sign_normal",
    "mesh_query_point_sign_parity",
    "mesh_query_point_sign_winding_number",
    "mesh_query_ray",
    "mesh_query_ray_anyhit",
    "mesh_query_ray_count_intersections",
    "mesh_query_sphere",
    "min",
    "mod",
    "mul",
    "nan",
    "neg",
    "no_grad",
    "noise",
    "nonzero",
    "norm_huber",
    "norm_l1",
    "norm_l2",
    "norm_pseudo_huber",
    "normalize",
    "ones",
    "ones_like",
    "outer",
    "overload",
    "phi",
    "pi",
    "pnoise",
    "poisson",
    "pos",
    "pow",
    "print",
    "print_diagnostics",
    "print_memory_report",
    "printf",
    "qr3",
    "quat",
    "quat_between_vectors",
    "quat_from_axis_angle",
    "quat_from_euler",
    "quat_from_matrix",
    "quat_identity",
    "quat_inverse",
    "quat_rotate",
    "quat_rotate_inv",
    "quat_rpy",
    "quat_slerp",
    "quat_to_axis_angle",
    "quat_to_euler",
    "quat_to_matrix",
    "quat_to_rpy",
    "quat_twist",
    "quat_twist_angle",
    "quat_twist_angle_signed",
    "quatd",
    "quaternion",
    "quatf",
    "quath",
    "radians",
    "rand_init",
    "randf",
    "randi",
    "randn",
    "randu",
    "range",
    "record_event",
    "ref",
    "reversed",
    "rint",
    "root",
    "round",
    "rshift",
    "rsqrt",
    "sample_cdf",
    "sample_triangle",
    "sample_unit_cube",
    "sample_unit_disk",
    "sample_unit_hemisphere",
    "sample_unit_hemisphere_surface",
    "sample_unit_ring",
    "sample_unit_sphere",
    "sample_unit_sphere_surface",
    "sample_unit_square",
    "select",
    "set_device",
    "set_logger",
    "set_mempool_access_enabled",
    "set_mempool_enabled",
    "set_mempool_release_threshold",
    "set_module_options",
    "set_peer_access_enabled",
    "set_stream",
    "shared_array",
    "sign",
    "sin",
    "sinh",
    "skew",
    "smooth_normalize",
    "smoothstep",
    "spatial_adjoint",
    "spatial_bottom",
    "spatial_cross",
    "spatial_cross_dual",
    "spatial_dot",
    "spatial_matrix",
    "spatial_matrixd",
    "spatial_matrixf",
    "spatial_matrixh",
    "spatial_top",
    "spatial_vector",
    "spatial_vectord",
    "spatial_vectorf",
    "spatial_vectorh",
    "sqrt",
    "static",
    "step",
    "stop_gradient",
    "stream_from_torch",
    "stream_to_torch",
    "struct",
    "sub",
    "svd2",
    "svd3",
    "synchronize",
    "synchronize_device",
    "synchronize_event",
    "synchronize_stream",
    "syncthreads",
    "tan",
    "tanh",
    "tau",
    "texture_sample",
    "thread_index",
    "tid",
    "tile",
    "tile_add_inplace",
    "tile_arange",
    "tile_argmax",
    "tile_argmin",
    "tile_assign",
    "tile_astype",
    "tile_atomic_add",
    "tile_atomic_add_indexed",
    "tile_axpy",
    "tile_bit_and_inplace",
    "tile_bit_or_inplace",
    "tile_bit_xor_inplace",
    "tile_broadcast",
    "tile_bvh_query_aabb",
    "tile_bvh_query_next",
    "tile_bvh_query_ray",
    "tile_cholesky",
    "tile_cholesky_inplace",
    "tile_cholesky_solve",
    "tile_cholesky_solve_inplace",
    "tile_diag_add",
    "tile_dot",
    "tile_empty",
    "tile_extract",
    "tile_fft",
    "tile_from_thread",
    "tile_full",
    "tile_ifft",
    "tile_load",
    "tile_load_indexed",
    "tile_lower_solve",
    "tile_lower_solve_inplace",
    "tile_map",
    "tile_matmul",
    "tile_max",
    "tile_mesh_query_aabb",
    "tile_mesh_query_aabb_next",
    "tile_min",
    "tile_ones",
    "tile_query_valid",
    "tile_randf",
    "tile_randi",
    "tile_reduce",
    "tile_reshape",
    "tile_scan_exclusive",
    "tile_scan_inclusive",
    "tile_scan_max_inclusive",
    "tile_scan_min_inclusive",
    "tile_scatter_add",
    "tile_scatter_masked",
    "tile_slice_indexed",
    "tile_sort",
    "tile_squeeze",
    "tile_stack",
    "tile_stack_clear",
    "tile_stack_count",
    "tile_stack_pop",
    "tile_stack_push",
    "tile_store",
    "tile_store_indexed",
    "tile_sub_inplace",
    "tile_sum",
    "tile_transpose",
    "tile_upper_solve",
    "tile_upper_solve_inplace",
    "tile_view",
    "tile_zeros",
    "to_dlpack",
    "to_jax",
    "to_torch",
    "torch_function",
    "trace",
    "transform",
    "transform_compose",
    "transform_decompose",
    "transform_expand",
    "transform_from_matrix",
    "transform_get_rotation",
    "transform_get_translation",
    "transform_identity",
    "transform_inverse",
    "transform_multiply",
    "transform_point",
    "transform_set_rotation",
    "transform_set_translation",
    "transform_to_matrix",
    "transform_twist",
    "transform_vector",
    "transform_wrench",
    "transformation",
    "transformd",
    "transformf",
    "transformh",
    "transpose",
    "trunc",
    "tune",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "unot",
    "untile",
    "value_and_grad",
    "vec2",
    "vec2b",
    "vec2d",
    "vec2f",
    "vec2h",
    "vec2i",
    "vec2l",
    "vec2s",
    "vec2u",
    "vec2ub",
    "vec2ui",
    "vec2ul",
    "vec2us",
    "vec3",
    "vec3b",
    "vec3d",
    "vec3f",
    "vec3h",
    "vec3i",
    "vec3l",
    "vec3s",
    "vec3u",
    "vec3ub",
    "vec3ui",
    "vec3ul",
    "vec3us",
    "vec4",
    "vec4b",
    "vec4d",
    "vec4f",
    "vec4h",
    "vec4i",
    "vec4l",
    "vec4s",
    "vec4u",
    "vec4ub",
    "vec4ui",
    "vec4ul",
    "vec4us",
    "vector",
    "velocity_at_point",
    "vjp",
    "volume_index_to_world",
    "volume_index_to_world_dir",
    "volume_lookup",
    "volume_lookup_f",
    "volume_lookup_i",
    "volume_lookup_index",
    "volume_lookup_v",
    "volume_sample",
    "volume_sample_f",
    "volume_sample_grad",
    "volume_sample_grad_f",
    "volume_sample_grad_index",
    "volume_sample_i",
    "volume_sample_index",
    "volume_sample_v",
    "volume_store",
    "volume_store_f",
    "volume_store_i",
    "volume_store_v",
    "volume_voxel_count",
    "volume_world_to_index",
    "volume_world_to_index_dir",
    "wait_event",
    "wait_stream",
    "where",
    "zeros",
    "zeros_like",
]
