"""The public names of diffkern, with their types. Written by tools/typing_stub.py."""

from typing import Any, TypeVar, overload

from typing_extensions import Self, TypeAlias, dataclass_transform

from diffkern._version import __version__ as __version__
from diffkern.compiler.stores import clear_kernel_cache as clear_kernel_cache
from diffkern.compiler.stores import clear_lto_cache as clear_lto_cache
from diffkern.errors import AutodiffError as AutodiffError
from diffkern.errors import CompileError as CompileError
from diffkern.errors import CudaError as CudaError
from diffkern.errors import KernelError as KernelError
from diffkern.errors import KernelRuntimeError as KernelRuntimeError
from diffkern.errors import KernelSyntaxError as KernelSyntaxError
from diffkern.errors import KernelTypeError as KernelTypeError
from diffkern.errors import LaunchError as LaunchError
from diffkern.errors import MisuseError as MisuseError
from diffkern.errors import NonFiniteError as NonFiniteError
from diffkern.interop.jax import jax_callable as jax_callable
from diffkern.interop.jax import jax_kernel as jax_kernel
from diffkern.interop.public import device_from_jax as device_from_jax
from diffkern.interop.public import device_from_torch as device_from_torch
from diffkern.interop.public import device_to_jax as device_to_jax
from diffkern.interop.public import device_to_torch as device_to_torch
from diffkern.interop.public import dtype_from_jax as dtype_from_jax
from diffkern.interop.public import dtype_from_torch as dtype_from_torch
from diffkern.interop.public import dtype_to_jax as dtype_to_jax
from diffkern.interop.public import dtype_to_torch as dtype_to_torch
from diffkern.interop.public import from_dlpack as from_dlpack
from diffkern.interop.public import from_jax as from_jax
from diffkern.interop.public import from_torch as from_torch
from diffkern.interop.public import stream_from_torch as stream_from_torch
from diffkern.interop.public import stream_to_torch as stream_to_torch
from diffkern.interop.public import to_dlpack as to_dlpack
from diffkern.interop.public import to_jax as to_jax
from diffkern.interop.public import to_torch as to_torch
from diffkern.interop.public import torch_function as torch_function
from diffkern.kernels.decorator import kernel as kernel
from diffkern.kernels.kernel import Kernel as Kernel
from diffkern.lang.dtypes import dtype_from_numpy as dtype_from_numpy
from diffkern.lang.dtypes import dtype_to_numpy as dtype_to_numpy
from diffkern.lang.func import constant as constant
from diffkern.lang.func import func as func
from diffkern.lang.patterns import Float as Float
from diffkern.lang.patterns import Int as Int
from diffkern.lang.patterns import Scalar as Scalar
from diffkern.lang.queries import BvhQuery as BvhQuery
from diffkern.lang.queries import BvhQueryTiled as BvhQueryTiled
from diffkern.lang.queries import HashGridQuery as HashGridQuery
from diffkern.lang.queries import MeshQuery as MeshQuery
from diffkern.lang.queries import MeshQueryAABBTiled as MeshQueryAABBTiled
from diffkern.lang.queries import MeshQueryPoint as MeshQueryPoint
from diffkern.lang.queries import MeshQueryRay as MeshQueryRay
from diffkern.lang.rules import adjoint as adjoint
from diffkern.lang.rules import func_grad as func_grad
from diffkern.lang.rules import func_replay as func_replay
from diffkern.lang.static import static as static
from diffkern.lang.textures import TextureAddressMode as TextureAddressMode
from diffkern.lang.textures import TextureFilterMode as TextureFilterMode
from diffkern.optim.linear.solve import linear_solve as linear_solve
from diffkern.runtime.arrays.array import array as array
from diffkern.runtime.arrays.array_copy import clone as clone
from diffkern.runtime.arrays.array_copy import copy as copy
from diffkern.runtime.arrays.create import empty as empty
from diffkern.runtime.arrays.create import empty_like as empty_like
from diffkern.runtime.arrays.create import from_numpy as from_numpy
from diffkern.runtime.arrays.create import full as full
from diffkern.runtime.arrays.create import full_like as full_like
from diffkern.runtime.arrays.create import ones as ones
from diffkern.runtime.arrays.create import ones_like as ones_like
from diffkern.runtime.arrays.create import zeros as zeros
from diffkern.runtime.arrays.create import zeros_like as zeros_like
from diffkern.runtime.effects.custom_operation import CustomOperation as CustomOperation
from diffkern.runtime.effects.custom_operation import custom_operation as custom_operation
from diffkern.runtime.effects.no_grad import no_grad as no_grad
from diffkern.runtime.effects.tangents import Tangents as Tangents
from diffkern.runtime.effects.tape import Tape as Tape
from diffkern.runtime.launch.module_options import get_module_options as get_module_options
from diffkern.runtime.launch.module_options import set_module_options as set_module_options
from diffkern.runtime.memory.device import Device as Device
from diffkern.runtime.memory.device import ScopedDevice as ScopedDevice
from diffkern.runtime.memory.device import get_cuda_device as get_cuda_device
from diffkern.runtime.memory.device import get_cuda_device_count as get_cuda_device_count
from diffkern.runtime.memory.device import get_cuda_devices as get_cuda_devices
from diffkern.runtime.memory.device import get_device as get_device
from diffkern.runtime.memory.device import get_devices as get_devices
from diffkern.runtime.memory.device import get_preferred_device as get_preferred_device
from diffkern.runtime.memory.device import init as init
from diffkern.runtime.memory.device import is_cpu_available as is_cpu_available
from diffkern.runtime.memory.device import is_cuda_available as is_cuda_available
from diffkern.runtime.memory.device import is_device_available as is_device_available
from diffkern.runtime.memory.device import is_peer_access_enabled as is_peer_access_enabled
from diffkern.runtime.memory.device import is_peer_access_supported as is_peer_access_supported
from diffkern.runtime.memory.device import set_device as set_device
from diffkern.runtime.memory.device import set_peer_access_enabled as set_peer_access_enabled
from diffkern.runtime.memory.stream import Event as Event
from diffkern.runtime.memory.stream import ScopedStream as ScopedStream
from diffkern.runtime.memory.stream import Stream as Stream
from diffkern.runtime.memory.stream import get_event_elapsed_time as get_event_elapsed_time
from diffkern.runtime.memory.stream import get_stream as get_stream
from diffkern.runtime.memory.stream import record_event as record_event
from diffkern.runtime.memory.stream import set_stream as set_stream
from diffkern.runtime.memory.stream import synchronize as synchronize
from diffkern.runtime.memory.stream import synchronize_device as synchronize_device
from diffkern.runtime.memory.stream import synchronize_event as synchronize_event
from diffkern.runtime.memory.stream import synchronize_stream as synchronize_stream
from diffkern.runtime.memory.stream import wait_event as wait_event
from diffkern.runtime.memory.stream import wait_stream as wait_stream
from diffkern.runtime.observe.config import config as config
from diffkern.runtime.observe.config import detect_anomaly as detect_anomaly
from diffkern.runtime.observe.timer import ScopedTimer as ScopedTimer
from diffkern.runtime.observe.trace import ScopedTrace as ScopedTrace
from diffkern.runtime.records.graph import Graph as Graph
from diffkern.runtime.records.graph import ScopedCapture as ScopedCapture
from diffkern.runtime.records.graph import capture_begin as capture_begin
from diffkern.runtime.records.graph import capture_end as capture_end
from diffkern.runtime.records.graph import capture_if as capture_if
from diffkern.runtime.records.graph import capture_launch as capture_launch
from diffkern.runtime.records.graph import capture_while as capture_while
from diffkern.runtime.records.launch import launch as launch
from diffkern.runtime.records.launch import launch_tiled as launch_tiled
from diffkern.runtime.records.record import Launch as Launch
from diffkern.runtime.records.sequence import Sequence as Sequence
from diffkern.runtime.records.sequence import record as record
from diffkern.runtime.rollouts.checkpoint import checkpoint as checkpoint
from diffkern.shipping.ahead import compile_kernels as compile
from diffkern.shipping.ahead import force_load as force_load
from diffkern.shipping.ship import load_directory as load
from diffkern.spatial.bvh import Bvh as Bvh
from diffkern.spatial.hash_grid import HashGrid as HashGrid
from diffkern.spatial.isosurface import MarchingCubes as MarchingCubes
from diffkern.spatial.isosurface import SurfaceNets as SurfaceNets
from diffkern.spatial.mesh import Mesh as Mesh
from diffkern.spatial.sparse_surface import lipschitz_octree as lipschitz_octree
from diffkern.spatial.sparse_surface import sparse_marching_cubes as sparse_marching_cubes
from diffkern.spatial.sparse_surface import sparse_marching_cubes_from_cells as sparse_marching_cubes_from_cells
from diffkern.spatial.texture import Texture as Texture
from diffkern.spatial.texture import Texture1D as Texture1D
from diffkern.spatial.texture import Texture2D as Texture2D
from diffkern.spatial.texture import Texture3D as Texture3D
from diffkern.spatial.volume import Volume as Volume
from diffkern.transforms.higher import grad as grad
from diffkern.transforms.higher import hvp as hvp
from diffkern.transforms.higher import jvp as jvp
from diffkern.transforms.higher import value_and_grad as value_and_grad
from diffkern.transforms.higher import vjp as vjp
from diffkern.transforms.implicit import fixed_point as fixed_point
from diffkern.transforms.implicit import root as root
from diffkern.transforms.indexed import indexedarray as indexedarray
from diffkern.transforms.indexed import indexedarray1d as indexedarray1d
from diffkern.transforms.indexed import indexedarray2d as indexedarray2d
from diffkern.transforms.indexed import indexedarray3d as indexedarray3d
from diffkern.transforms.indexed import indexedarray4d as indexedarray4d
from diffkern.transforms.jacobians import hessian as hessian
from diffkern.transforms.jacobians import jacobian as jacobian
from diffkern.transforms.mapping import map_arrays as map
from diffkern.transforms.matmul import matmul as matmul
from diffkern.tuning.tune import Tuned as Tuned
from diffkern.tuning.tune import TuningRow as TuningRow
from diffkern.tuning.tune import tune as tune
from diffkern import cuda as cuda
from diffkern.interop import jax as jax
from diffkern import optim as optim
from diffkern import sparse as sparse
from diffkern import testing as testing
from diffkern import types as types
from diffkern import utils as utils

_T = TypeVar("_T")

@dataclass_transform()
def struct(cls: type[_T]) -> type[_T]: ...

class _Composite:
    def __init__(self, *components: Any, **named: Any) -> None: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Any: ...
    def __add__(self, other: Self) -> Self: ...
    def __sub__(self, other: Self) -> Self: ...
    def __neg__(self) -> Self: ...
    def __pos__(self) -> Self: ...
    def __rmul__(self, other: float) -> Self: ...
    def __truediv__(self, other: float) -> Self: ...

class _Vector(_Composite):
    x: Any
    y: Any
    z: Any
    w: Any
    @overload
    def __mul__(self, other: float) -> Self: ...
    @overload
    def __mul__(self, other: _Matrix) -> Any: ...
    def __matmul__(self, other: _Matrix) -> Any: ...

class _Matrix(_Composite):
    @overload
    def __mul__(self, other: float) -> Self: ...
    @overload
    def __mul__(self, other: _Composite) -> Any: ...
    def __matmul__(self, other: _Composite) -> Any: ...


int8: TypeAlias = int
int16: TypeAlias = int
int32: TypeAlias = int
int64: TypeAlias = int
uint8: TypeAlias = int
uint16: TypeAlias = int
uint32: TypeAlias = int
uint64: TypeAlias = int
float16: TypeAlias = float
bfloat16: TypeAlias = float
float32: TypeAlias = float
float64: TypeAlias = float
bool_: TypeAlias = bool
E: float
e: float
INF: float
inf: float
NAN: float
nan: float
PI: float
pi: float
HALF_PI: float
half_pi: float
TAU: float
tau: float
PHI: float
phi: float
LOG2E: float
log2e: float
LOG10E: float
log10e: float
LN2: float
ln2: float
LN10: float
ln10: float
ANY: Any
class array1d(array[_T]): ...
class array2d(array[_T]): ...
class array3d(array[_T]): ...
class array4d(array[_T]): ...
class complex64(_Vector): ...
class complex128(_Vector): ...
class vec2(_Vector): ...
vec2f: TypeAlias = vec2
class vec2d(_Vector): ...
class vec2h(_Vector): ...
class vec2b(_Vector): ...
class vec2ub(_Vector): ...
class vec2s(_Vector): ...
class vec2us(_Vector): ...
class vec2i(_Vector): ...
class vec2ui(_Vector): ...
vec2u: TypeAlias = vec2ui
class vec2l(_Vector): ...
class vec2ul(_Vector): ...
class mat22(_Matrix): ...
mat22f: TypeAlias = mat22
class mat22d(_Matrix): ...
class mat22h(_Matrix): ...
class vec3(_Vector): ...
vec3f: TypeAlias = vec3
class vec3d(_Vector): ...
class vec3h(_Vector): ...
class vec3b(_Vector): ...
class vec3ub(_Vector): ...
class vec3s(_Vector): ...
class vec3us(_Vector): ...
class vec3i(_Vector): ...
class vec3ui(_Vector): ...
vec3u: TypeAlias = vec3ui
class vec3l(_Vector): ...
class vec3ul(_Vector): ...
class mat33(_Matrix): ...
mat33f: TypeAlias = mat33
class mat33d(_Matrix): ...
class mat33h(_Matrix): ...
class vec4(_Vector): ...
vec4f: TypeAlias = vec4
class vec4d(_Vector): ...
class vec4h(_Vector): ...
class vec4b(_Vector): ...
class vec4ub(_Vector): ...
class vec4s(_Vector): ...
class vec4us(_Vector): ...
class vec4i(_Vector): ...
class vec4ui(_Vector): ...
vec4u: TypeAlias = vec4ui
class vec4l(_Vector): ...
class vec4ul(_Vector): ...
class mat44(_Matrix): ...
mat44f: TypeAlias = mat44
class mat44d(_Matrix): ...
class mat44h(_Matrix): ...
class quat(_Vector): ...
quatf: TypeAlias = quat
class quatd(_Vector): ...
class quath(_Vector): ...
class transform(_Vector): ...
transformf: TypeAlias = transform
class transformd(_Vector): ...
class transformh(_Vector): ...
class spatial_vector(_Vector): ...
spatial_vectorf: TypeAlias = spatial_vector
class spatial_vectord(_Vector): ...
class spatial_vectorh(_Vector): ...
class spatial_matrix(_Matrix): ...
spatial_matrixf: TypeAlias = spatial_matrix
class spatial_matrixd(_Matrix): ...
class spatial_matrixh(_Matrix): ...
def bvh_get_group_root(id: Any, group: Any) -> Any:
    """bvh_get_group_root(id, group)

    The node with the boxes of a group below it, for the argument root of queries; -1 (all boxes) if there is none.

    Parameters
    ----------
    id : uint64
    group : int32

    Returns
    -------
    int32

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.bvh_get_group_root(tree, i)
    """

def bvh_query_aabb(id: Any, low: Any, high: Any, root: Any = ...) -> Any:
    """bvh_query_aabb(id, low, high, root=-1)

    A query of a Bvh for the boxes that meet a box, borders included: ``while bvh_query_next(query, i)`` goes through their indices, in no set order, and so does ``for i in query``. With a root from bvh_get_group_root, it finds only boxes of that group.

    Parameters
    ----------
    id : uint64
    low : vec3
    high : vec3
    root : int32

    Returns
    -------
    BvhQuery

    Notes
    -----
    Derivative: none, the results are integers; values read at these indices are differentiated as usual.

    Examples
    --------
    .. code-block:: python

        s, j = dk.bvh_query_aabb(tree, u - w[i], u + w[i]), 0
        while dk.bvh_query_next(s, j):
            q[j] = 1
    """

def bvh_query_capsule(id: Any, start: Any, dir: Any, radius: Any, root: Any = ...) -> Any:
    """bvh_query_capsule(id, start, dir, radius, root=-1)

    A query of a Bvh for the boxes that a ray meets once they are enlarged by a radius on each side. These are all boxes that come within the radius of the ray, and some near their corners that do not. Pass p1 - p0 and 1.0 to bvh_query_next for the capsule between two points.

    Parameters
    ----------
    id : uint64
    start : vec3
    dir : vec3
    radius : float
    root : int32

    Returns
    -------
    BvhQuery

    Notes
    -----
    Derivative: none, the results are integers.

    Examples
    --------
    .. code-block:: python

        s, j = dk.bvh_query_capsule(tree, u, w[i], 0.1), 0
        while dk.bvh_query_next(s, j, 1.0):
            q[j] = 1
    """

def bvh_query_next(query: Any, index: Any, max_dist: Any = ...) -> bool:
    """bvh_query_next(query, index, max_dist=inf)

    True if there is another box; the second argument is then set to its index. max_dist is how far a ray or a capsule goes, in lengths of its direction. It may decrease from call to call, but not increase. Other queries ignore it.

    Parameters
    ----------
    query : BvhQuery
    index : int32
    max_dist : float

    Returns
    -------
    bool

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        s, j = dk.bvh_query_ray(tree, u, w[i]), 0
        while dk.bvh_query_next(s, j):
            q[j] = 1
    """

def bvh_query_ray(id: Any, start: Any, dir: Any, root: Any = ...) -> Any:
    """bvh_query_ray(id, start, dir, root=-1)

    A query of a Bvh for the boxes that a ray meets, in no set order. bvh_query_next takes how far the ray goes.

    Parameters
    ----------
    id : uint64
    start : vec3
    dir : vec3
    root : int32

    Returns
    -------
    BvhQuery

    Notes
    -----
    Derivative: none, the results are integers.

    Examples
    --------
    .. code-block:: python

        s, j = dk.bvh_query_ray(tree, u, w[i]), 0
        while dk.bvh_query_next(s, j, 2.0):
            q[j] = 1
    """

def bvh_query_sphere(id: Any, center: Any, radius: Any, root: Any = ...) -> Any:
    """bvh_query_sphere(id, center, radius, root=-1)

    A query of a Bvh for the boxes that meet a sphere; with a negative radius, for those that contain its centre.

    Parameters
    ----------
    id : uint64
    center : vec3
    radius : float
    root : int32

    Returns
    -------
    BvhQuery

    Notes
    -----
    Derivative: none, the results are integers.

    Examples
    --------
    .. code-block:: python

        for j in dk.bvh_query_sphere(tree, u, 0.5):
            q[j] = 1
    """

def angle(z: Any) -> float:
    """angle(z)

    The angle of a complex number, atan2(y, x), in [-pi, pi].

    Parameters
    ----------
    z : complex number

    Returns
    -------
    float

    Notes
    -----
    Derivative: i z / abs(z) ** 2.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.angle(dk.complex(x[i], 2.0))
    """

def conj(z: Any) -> Any:
    """conj(z)

    The complex conjugate x - i y.

    Parameters
    ----------
    z : complex number

    Returns
    -------
    complex number

    Notes
    -----
    Derivative: a cotangent is conjugated.

    Examples
    --------
    .. code-block:: python

        z = dk.conj(dk.complex(x[i], 2.0))
        y[i] = z.imag
    """

def eig3(A: Any, Q: Any = ..., d: Any = ...) -> Any:
    """eig3(A)

    Q, of determinant 1, and d, ascending, with A = Q diag(d) Q^T for a symmetric A; eig3(A, Q, d) sets variables. Only the symmetric part of a matrix that is not symmetric is used.

    Parameters
    ----------
    A : mat33

    Returns
    -------
    mat33 and vec3

    Notes
    -----
    Derivative: Q (diag(ct_d) + F) Q^T, where F divides the antisymmetric part of Q^T ct_Q by differences of eigenvalues.

    At kinks: F is 0 where eigenvalues are equal.

    Examples
    --------
    .. code-block:: python

        Q, d = dk.eig3(m @ k)
        w[i] = d
    """

def qr3(A: Any, Q: Any = ..., R: Any = ...) -> Any:
    """qr3(A)

    Q, a rotation, and R, an upper triangle, with A = Q R; qr3(A, Q, R) sets variables. The last element of the diagonal of R has the sign of the determinant of A, the others are not negative.

    Parameters
    ----------
    A : mat33

    Returns
    -------
    mat33 and mat33

    Notes
    -----
    Derivative: that of the orthogonalization of the columns, for A of full rank.

    Examples
    --------
    .. code-block:: python

        Q, R = dk.qr3(m)
        w[i] = dk.get_diag(R)
    """

def svd2(A: Any, U: Any = ..., s: Any = ..., V: Any = ...) -> Any:
    """svd2(A)

    U, s and V with A = U diag(s) V^T, s not negative and descending; svd2(A, U, s, V) sets variables. A column of U and the same column of V may both change their sign.

    Parameters
    ----------
    A : mat22

    Returns
    -------
    mat22 and vec2 and mat22

    Notes
    -----
    Derivative: that of the factors.

    At kinks: parts that would be divided by the difference or the sum of two equal singular values are 0, which keeps correct everything that does not depend on the choice of equal columns.

    Examples
    --------
    .. code-block:: python

        U, s, V = dk.svd2(dk.mat22(u[0], u[1], x[i], 1.0))
        y[i] = s[0]
    """

def svd3(A: Any, U: Any = ..., s: Any = ..., V: Any = ...) -> Any:
    """svd3(A)

    U, s and V with A = U diag(s) V^T, both of determinant 1; svd3(A, U, s, V) sets variables. The absolute values of s descend, and the last has the sign of the determinant of A.

    Parameters
    ----------
    A : mat33

    Returns
    -------
    mat33 and vec3 and mat33

    Notes
    -----
    Derivative: that of the factors.

    At kinks: parts that would be divided by a difference or a sum of two singular values that is 0 are 0, which keeps correct everything that does not depend on the choice of equal columns.

    Examples
    --------
    .. code-block:: python

        U, s, V = dk.svd3(m)
        w[i] = s
    """

def hash_grid_point_id(id: Any, index: Any) -> Any:
    """hash_grid_point_id(id, index)

    The index of a point by its place in the order of the cells, in which neighbouring threads find the same points; -1 where the grid has none.

    Parameters
    ----------
    id : uint64
    index : int32

    Returns
    -------
    int32

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.hash_grid_point_id(grid, i)
    """

def hash_grid_query(id: Any, point: Any, max_dist: Any, group: Any = ...) -> Any:
    """hash_grid_query(id, point, max_dist)

    A query of a HashGrid for the points near one: ``for j in query`` goes through their indices, in no set order. These are all points of the cells that meet the box from point - max_dist to point + max_dist: no distance is checked, and as space is folded onto the cells, some may be far away. With a group as one more argument, only points of that group are found, if the grid was built with groups.

    Parameters
    ----------
    id : uint64
    point : vec3
    max_dist : float

    Returns
    -------
    HashGridQuery

    Notes
    -----
    Derivative: none, the results are integers; values read at these indices are differentiated as usual. The adjoint goes through the same query again.

    Examples
    --------
    .. code-block:: python

        for j in dk.hash_grid_query(grid, u, 0.5):
            q[j] = 1
    """

def hash_grid_query_next(query: Any, index: Any) -> bool:
    """hash_grid_query_next(query, index)

    True if there is another point; the second argument is then set to its index: for ``while`` instead of ``for``.

    Parameters
    ----------
    query : HashGridQuery
    index : int32

    Returns
    -------
    bool

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        s, j = dk.hash_grid_query(grid, u, 0.5), 0
        while dk.hash_grid_query_next(s, j):
            q[j] = 1
    """

def mesh_eval_face_normal(id: Any, face: Any) -> Any:
    """mesh_eval_face_normal(id, face)

    The unit normal of a face, to the side from which its vertices go round counterclockwise.

    Parameters
    ----------
    id : uint64
    face : int32

    Returns
    -------
    vec3f

    Notes
    -----
    Derivative: with respect to the points of the mesh.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.mesh_eval_face_normal(mesh, 0)
    """

def mesh_eval_position(id: Any, face: Any, u: Any, v: Any) -> Any:
    """mesh_eval_position(id, face, u, v)

    The position of a place of a face: u times its first vertex, v times its second, 1 - u - v times its third.

    Parameters
    ----------
    id : uint64
    face : int32
    u : float
    v : float

    Returns
    -------
    vec3f

    Notes
    -----
    Derivative: with respect to u, v and the points of the mesh.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.mesh_eval_position(mesh, 0, x[i], y[i])
    """

def mesh_eval_velocity(id: Any, face: Any, u: Any, v: Any) -> Any:
    """mesh_eval_velocity(id, face, u, v)

    The velocity of a place of a face, as of mesh_eval_position; zero if the mesh has none.

    Parameters
    ----------
    id : uint64
    face : int32
    u : float
    v : float

    Returns
    -------
    vec3f

    Notes
    -----
    Derivative: with respect to u, v and the velocities of the mesh.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.mesh_eval_velocity(mesh, 0, x[i], y[i])
    """

def mesh_get(id: Any) -> Any:
    """mesh_get(id)

    A Mesh in a kernel: its points, velocities and indices are read by index and have a shape.

    Parameters
    ----------
    id : uint64

    Returns
    -------
    MeshData

    Notes
    -----
    Derivative: of points and velocities that are read, with respect to those of the mesh.

    Examples
    --------
    .. code-block:: python

        m = dk.mesh_get(mesh)
        w[i] = m.points[m.indices[0]]
    """

def mesh_get_bvh(id: Any) -> Any:
    """mesh_get_bvh(id)

    The id of the tree of a Mesh's faces, for bvh_query_aabb and similar queries, whose results are then faces.

    Parameters
    ----------
    id : uint64

    Returns
    -------
    uint64

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        s = dk.bvh_query_aabb(dk.mesh_get_bvh(mesh), u, w[i])
    """

def mesh_get_group_root(id: Any, group: Any) -> Any:
    """mesh_get_group_root(id, group)

    The node with the faces of a group below it, for the argument root of queries; -1 (all faces) if there is none.

    Parameters
    ----------
    id : uint64
    group : int32

    Returns
    -------
    int32

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.mesh_get_group_root(mesh, i)
    """

def mesh_get_index(id: Any, index: Any) -> Any:
    """mesh_get_index(id, index)

    The point of a corner of a face: corners 3 f, 3 f + 1 and 3 f + 2 are those of face f.

    Parameters
    ----------
    id : uint64
    index : int32

    Returns
    -------
    int32

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.mesh_get_index(mesh, 3 * i)
    """

def mesh_get_point(id: Any, index: Any) -> Any:
    """mesh_get_point(id, index)

    The position of a corner of a face: corners 3 f, 3 f + 1 and 3 f + 2 are those of face f.

    Parameters
    ----------
    id : uint64
    index : int32

    Returns
    -------
    vec3f

    Notes
    -----
    Derivative: with respect to the points of the mesh.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.mesh_get_point(mesh, 3 * i)
    """

def mesh_get_velocity(id: Any, index: Any) -> Any:
    """mesh_get_velocity(id, index)

    The velocity of a corner of a face; zero if the mesh has none.

    Parameters
    ----------
    id : uint64
    index : int32

    Returns
    -------
    vec3f

    Notes
    -----
    Derivative: with respect to the velocities of the mesh.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.mesh_get_velocity(mesh, 3 * i)
    """

def mesh_query_aabb(id: Any, low: Any, high: Any) -> Any:
    """mesh_query_aabb(id, low, high)

    A query of a Mesh for the faces whose boxes meet a box: ``while mesh_query_next(query, f)`` goes through them.

    Parameters
    ----------
    id : uint64
    low : vec3
    high : vec3

    Returns
    -------
    MeshQuery

    Notes
    -----
    Derivative: none, the results are integers.

    Examples
    --------
    .. code-block:: python

        s, j = dk.mesh_query_aabb(mesh, u, w[i]), 0
        while dk.mesh_query_next(s, j):
            q[j] = 1
    """

def mesh_query_aabb_next(query: Any, index: Any) -> bool:
    """mesh_query_aabb_next(query, index)

    The same as mesh_query_next.

    Parameters
    ----------
    query : MeshQuery
    index : int32

    Returns
    -------
    bool

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        s, j = dk.mesh_query_aabb(mesh, u, w[i]), 0
        while dk.mesh_query_aabb_next(s, j):
            q[j] = 1
    """

def mesh_query_furthest_point_no_sign(id: Any, point: Any, min_dist: Any) -> Any:
    """mesh_query_furthest_point_no_sign(id, point, min_dist)

    The place of a Mesh furthest from a point, further than min_dist, which is a vertex. Faces without area are left out.

    Parameters
    ----------
    id : uint64
    point : vec3
    min_dist : float

    Returns
    -------
    MeshQueryPoint

    Notes
    -----
    Derivative: none, u and v are 0 or 1.

    Examples
    --------
    .. code-block:: python

        h = dk.mesh_query_furthest_point_no_sign(mesh, u, 0.0)
        w[i] = dk.mesh_eval_position(mesh, h.face, h.u, h.v)
    """

def mesh_query_next(query: Any, index: Any) -> bool:
    """mesh_query_next(query, index)

    True if there is another face; the second argument is then set to its number.

    Parameters
    ----------
    query : MeshQuery
    index : int32

    Returns
    -------
    bool

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        s, j = dk.mesh_query_aabb(mesh, u, w[i]), 0
        while dk.mesh_query_next(s, j):
            q[j] = 1
    """

def mesh_query_point(id: Any, point: Any, max_dist: Any) -> Any:
    """mesh_query_point(id, point, max_dist)

    As mesh_query_point_no_sign, and ``sign`` is negative inside the mesh: where two of three rays along the axes first meet the back of a face.

    Parameters
    ----------
    id : uint64
    point : vec3
    max_dist : float

    Returns
    -------
    MeshQueryPoint

    Notes
    -----
    Derivative: of u and v, with respect to the point and the points of the mesh; sign has none.

    At kinks: where another face, edge or vertex becomes the nearest.

    Examples
    --------
    .. code-block:: python

        h = dk.mesh_query_point(mesh, u, 10.0)
        y[i] = h.sign
    """

def mesh_query_point_no_sign(id: Any, point: Any, max_dist: Any) -> Any:
    """mesh_query_point_no_sign(id, point, max_dist)

    The place of a Mesh nearest to a point, nearer than max_dist: ``result`` says whether there is one; ``face``, ``u`` and ``v`` where, for mesh_eval_position. Faces without area are left out.

    Parameters
    ----------
    id : uint64
    point : vec3
    max_dist : float

    Returns
    -------
    MeshQueryPoint

    Notes
    -----
    Derivative: of u and v, with respect to the point and the points of the mesh.

    At kinks: where another face, edge or vertex becomes the nearest.

    Examples
    --------
    .. code-block:: python

        h = dk.mesh_query_point_no_sign(mesh, u, 10.0)
        w[i] = dk.mesh_eval_position(mesh, h.face, h.u, h.v)
    """

def mesh_query_point_sign_normal(id: Any, point: Any, max_dist: Any, epsilon: Any = ...) -> Any:
    """mesh_query_point_sign_normal(id, point, max_dist, epsilon=0.001)

    As mesh_query_point_no_sign, and ``sign`` is negative inside the mesh: behind the normals of the faces that meet at the place, weighted by their angles there. epsilon, in mean edges of the face, is how near an edge or a vertex counts as the place.

    Parameters
    ----------
    id : uint64
    point : vec3
    max_dist : float
    epsilon : float32

    Returns
    -------
    MeshQueryPoint

    Notes
    -----
    Derivative: of u and v, with respect to the point and the points of the mesh; sign has none.

    At kinks: where another face, edge or vertex becomes the nearest.

    Examples
    --------
    .. code-block:: python

        h = dk.mesh_query_point_sign_normal(mesh, u, 10.0)
        y[i] = h.sign
    """

def mesh_query_point_sign_parity(id: Any, point: Any, max_dist: Any, n_sample: Any = ..., perturbation_scale: Any = ...) -> Any:
    """mesh_query_point_sign_parity(id, point, max_dist, n_sample=1, perturbation_scale=0.1)

    As mesh_query_point_no_sign, and ``sign`` is negative inside the mesh: where most of n_sample rays meet an odd number of faces. The rays differ by perturbation_scale from one direction.

    Parameters
    ----------
    id : uint64
    point : vec3
    max_dist : float
    n_sample : int32
    perturbation_scale : float32

    Returns
    -------
    MeshQueryPoint

    Notes
    -----
    Derivative: of u and v, with respect to the point and the points of the mesh; sign has none.

    At kinks: where another face, edge or vertex becomes the nearest.

    Examples
    --------
    .. code-block:: python

        h = dk.mesh_query_point_sign_parity(mesh, u, 10.0)
        y[i] = h.sign
    """

def mesh_query_point_sign_winding_number(id: Any, point: Any, max_dist: Any, accuracy: Any = ..., threshold: Any = ...) -> Any:
    """mesh_query_point_sign_winding_number(id, point, max_dist, accuracy=2.0, threshold=0.5)

    As mesh_query_point_no_sign, and ``sign`` is negative inside the mesh: where it goes around the point more often than threshold, also with holes. For a Mesh with support_winding_number, faces further away than accuracy times their extent are taken together; for any other, every face is added up.

    Parameters
    ----------
    id : uint64
    point : vec3
    max_dist : float
    accuracy : float32
    threshold : float32

    Returns
    -------
    MeshQueryPoint

    Notes
    -----
    Derivative: of u and v, with respect to the point and the points of the mesh; sign has none.

    At kinks: where another face, edge or vertex becomes the nearest.

    Examples
    --------
    .. code-block:: python

        h = dk.mesh_query_point_sign_winding_number(mesh, u, 10.0)
        y[i] = h.sign
    """

def mesh_query_ray(id: Any, start: Any, dir: Any, max_t: Any, t: Any = ..., u: Any = ..., v: Any = ..., sign: Any = ..., normal: Any = ..., face: Any = ..., root: Any = ...) -> Any:
    """mesh_query_ray(id, start, dir, max_t, root=-1)

    The first face of a Mesh that a ray hits, before max_t: ``result`` says whether there is one, ``t`` where on the ray, in lengths of dir, ``face``, ``u`` and ``v`` where in the mesh, ``normal`` is the face's, and ``sign`` is positive if it is hit from its front.

    Parameters
    ----------
    id : uint64
    start : vec3
    dir : vec3
    max_t : float
    root : int32 or float

    Returns
    -------
    MeshQueryRay

    Notes
    -----
    Derivative: of t, u, v and normal, with respect to start, dir and the points of the mesh; sign has none.

    At kinks: where another face becomes the first.

    Examples
    --------
    .. code-block:: python

        h = dk.mesh_query_ray(mesh, u, w[i], 100.0)
        y[i] = h.t
    """

def mesh_query_ray_anyhit(id: Any, start: Any, dir: Any, max_t: Any, root: Any = ...) -> bool:
    """mesh_query_ray_anyhit(id, start, dir, max_t, root=-1)

    True if a ray hits a Mesh before max_t, in lengths of dir.

    Parameters
    ----------
    id : uint64
    start : vec3
    dir : vec3
    max_t : float
    root : int32

    Returns
    -------
    bool

    Notes
    -----
    Derivative: none.

    Examples
    --------
    .. code-block:: python

        q[i] = int(dk.mesh_query_ray_anyhit(mesh, u, w[i], 100.0))
    """

def mesh_query_ray_count_intersections(id: Any, start: Any, dir: Any, root: Any = ...) -> Any:
    """mesh_query_ray_count_intersections(id, start, dir, root=-1)

    The number of faces of a Mesh that a ray hits.

    Parameters
    ----------
    id : uint64
    start : vec3
    dir : vec3
    root : int32

    Returns
    -------
    int32

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.mesh_query_ray_count_intersections(mesh, u, w[i])
    """

def mesh_query_sphere(id: Any, center: Any, radius: Any) -> Any:
    """mesh_query_sphere(id, center, radius)

    A query of a Mesh for the faces that meet a sphere, in no set order.

    Parameters
    ----------
    id : uint64
    center : vec3
    radius : float

    Returns
    -------
    MeshQuery

    Notes
    -----
    Derivative: none, the results are integers.

    Examples
    --------
    .. code-block:: python

        s, j = dk.mesh_query_sphere(mesh, u, 0.5), 0
        while dk.mesh_query_next(s, j):
            q[j] = 1
    """

def curlnoise(state: Any, xy: Any, octaves: Any = ..., lacunarity: Any = ..., gain: Any = ...) -> Any:
    """curlnoise(state, xy, octaves=1, lacunarity=2.0, gain=0.5)

    A field without divergence at a point of two to four coordinates: the curl of one field of noise, or of three. Octave k has the frequency lacunarity ** k and the weight gain ** k. The fourth coordinate is time. The state chooses the field, and is not advanced.

    Parameters
    ----------
    state : uint32
    xy : vec2 or vec3 or vec4
    octaves : uint32
    lacunarity : float
    gain : float

    Returns
    -------
    vec2

    Notes
    -----
    Derivative: that with respect to the coordinates, lacunarity and gain: second derivatives of the noise.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42)
        w[i] = dk.curlnoise(state, u, 2)
    """

def noise(state: Any, x: Any) -> float:
    """noise(state, x)

    Gradient noise at a point of one to four coordinates. The state chooses the field, and is not advanced.

    Parameters
    ----------
    state : uint32
    x : float or vec2 or vec3 or vec4

    Returns
    -------
    float

    Notes
    -----
    Derivative: that with respect to the coordinates, which is continuous.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42)
        y[i] = dk.noise(state, dk.vec2(x[i], 0.5))
    """

def pnoise(state: Any, xyzt: Any, px: Any, py: Any = ..., pz: Any = ..., pt: Any = ...) -> float:
    """pnoise(state, x, px)

    Gradient noise that repeats: after px along x, and so on for each coordinate; a period of 0 does not repeat.

    Parameters
    ----------
    state : uint32
    x : float or vec2 or vec3 or vec4
    px : int32

    Returns
    -------
    float

    Notes
    -----
    Derivative: that with respect to the coordinates, which is continuous.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42)
        y[i] = dk.pnoise(state, dk.vec2(x[i], 0.5), 3, 5)
    """

def bit_count(x: Any) -> Any:
    """bit_count(x)

    The number of bits that are set; of negative integers in two's complement, so 32 of -1 as an int32.

    Parameters
    ----------
    x : int32 or int8 or int16 or int64 or uint8 or uint16 or uint32 or uint64

    Returns
    -------
    int32

    Notes
    -----
    Derivative: none, no floats come back.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.bit_count(p[i])
    """

def div_approx(a: Any, b: Any) -> Any:
    """div_approx(a, b)

    The quotient a / b, which may be less exact on a GPU; here it is not.

    Parameters
    ----------
    a : any type
    b : any type

    Returns
    -------
    Any

    Notes
    -----
    Derivative: 1 / b and -a / b ** 2.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.div_approx(x[i], 3.0)
    """

def erfcinv(x: Any) -> float:
    """erfcinv(x)

    The inverse of erfc on [0, 2]: infinite at its ends, NaN outside of them.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: -sqrt(pi) / 2 * exp(r * r).

    At kinks: infinite at 0 and 2.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.erfcinv(x[i])
    """

def erfinv(x: Any) -> float:
    """erfinv(x)

    The inverse of erf: infinite at 1 and -1, NaN outside of them.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: sqrt(pi) / 2 * exp(r * r).

    At kinks: infinite at -1 and 1.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.erfinv(0.5 * x[i])
    """

def inverse_approx(m: Any) -> Any:
    """inverse_approx(m)

    The inverse of a matrix, which may be less exact on a GPU; here it is not.

    Parameters
    ----------
    m : square

    Returns
    -------
    square

    Notes
    -----
    Derivative: -r^T C r^T for a cotangent C.

    Examples
    --------
    .. code-block:: python

        e[i] = dk.inverse_approx(m)
    """

def lower_bound(arr: Any, begin: Any, end: Any = ..., value: Any = ...) -> Any:
    """lower_bound(arr, value)

    The first index of an ascending array whose element is at least the value; the last index if there is none. Called as lower_bound(arr, begin, end, value) it searches from begin to end - 1.

    Parameters
    ----------
    arr : dk.array1d
    value : any type or int

    Returns
    -------
    int32

    Notes
    -----
    Derivative: none, no floats come back.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.lower_bound(p, 2)
    """

def closest_point_edge_edge(p1: Any, q1: Any, p2: Any, q2: Any, epsilon: Any) -> Any:
    """closest_point_edge_edge(p1, q1, p2, q2, epsilon)

    The closest points of the edges from p1 to q1 and from p2 to q2: (s, t, distance). The points are p1 + s * (q1 - p1) and p2 + t * (q2 - p2). An edge whose squared length is at most epsilon is a point, and its weight 0.

    Parameters
    ----------
    p1 : vec3
    q1 : vec3
    p2 : vec3
    q2 : vec3
    epsilon : float

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: that of the formula.

    At kinks: between parallel and other edges, and where a closest point reaches the end of its edge.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.closest_point_edge_edge(u, v, 2.0 * u, w[i], 1e-6)
    """

def intersect_tri_tri(v0: Any, v1: Any, v2: Any, u0: Any, u1: Any, u2: Any) -> Any:
    """intersect_tri_tri(v0, v1, v2, u0, u1, u2)

    1 if two triangles meet, also in one plane or at a border, else 0.

    Parameters
    ----------
    v0 : vec3
    v1 : vec3
    v2 : vec3
    u0 : vec3
    u1 : vec3
    u2 : vec3

    Returns
    -------
    int32

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.intersect_tri_tri(u, w[i], u + w[i], w[i], u - w[i], u)
    """

def quat_between_vectors(a: Any, b: Any) -> Any:
    """quat_between_vectors(a, b)

    The shortest rotation that takes the direction of a to that of b; the identity for opposite ones.

    Parameters
    ----------
    a : vec3
    b : vec3

    Returns
    -------
    quat

    Notes
    -----
    Derivative: that of normalize(quat(cross(a, b), 1 + dot(a, b))) with a and b of length 1.

    At kinks: 0 for opposite ones.

    Examples
    --------
    .. code-block:: python

        r = dk.quat_between_vectors(u, v)
        w[i] = dk.quat_rotate(r, u)
    """

def quat_from_axis_angle(axis: Any, angle: Any) -> Any:
    """quat_from_axis_angle(axis, angle)

    The rotation by an angle about an axis, which is not normalized: (axis * sin(angle / 2), cos(angle / 2)).

    Parameters
    ----------
    axis : vec3
    angle : float

    Returns
    -------
    quat

    Notes
    -----
    Derivative: that of the formula.

    Examples
    --------
    .. code-block:: python

        r = dk.quat_from_axis_angle(dk.normalize(u), x[i])
        w[i] = dk.quat_rotate(r, u)
    """

def quat_from_euler(e: Any, i: Any, j: Any, k: Any) -> Any:
    """quat_from_euler(e, i, j, k)

    The rotation about the fixed axes i, j and k, one after the other, by e[i], e[j] and e[k].

    Parameters
    ----------
    e : vec3
    i : int
    j : int
    k : int

    Returns
    -------
    quat

    Notes
    -----
    Derivative: that of the formula.

    Examples
    --------
    .. code-block:: python

        r = dk.quat_from_euler(u, 0, 1, 2)
        y[i] = r.w
    """

def quat_from_matrix(m: Any) -> Any:
    """quat_from_matrix(m)

    The quaternion of a rotation matrix, or of the rotation in the upper left of a 4 x 4 one; of length 1.

    Parameters
    ----------
    m : mat33 or mat44

    Returns
    -------
    quat

    Notes
    -----
    Derivative: that of the formula of the branch: of the trace where it is not negative, else of the greatest diagonal element.

    Examples
    --------
    .. code-block:: python

        r = dk.quat_from_matrix(dk.quat_to_matrix(dk.quat_rpy(x[i], 0.0, 0.5)))
        y[i] = r.w
    """

def quat_identity(dtype: Any = ...) -> Any:
    """quat_identity(dtype=float)

    The quaternion (0, 0, 0, 1), which rotates nothing.

    Parameters
    ----------
    dtype : type of float

    Returns
    -------
    quat

    Notes
    -----
    Derivative: none, it is constant.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.quat_identity(dtype=dk.float32).w
    """

def quat_inverse(q: Any) -> Any:
    """quat_inverse(q)

    The conjugate (-x, -y, -z, w), which is the inverse of a quaternion of length 1.

    Parameters
    ----------
    q : quat

    Returns
    -------
    quat

    Notes
    -----
    Derivative: the signs of the components.

    Examples
    --------
    .. code-block:: python

        r = dk.quat_inverse(dk.quat_rpy(x[i], 0.2, 0.3))
        w[i] = dk.quat_rotate(r, u)
    """

def quat_rotate(q: Any, v: Any) -> Any:
    """quat_rotate(q, v)

    The vector rotated: v * (2 * w ** 2 - 1) + 2 * u * dot(u, v) + 2 * w * cross(u, v).

    Parameters
    ----------
    q : quat
    v : vec3

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: that of the formula, with respect to four free numbers.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.quat_rotate(dk.quat_rpy(x[i], 0.2, 0.3), u)
    """

def quat_rotate_inv(q: Any, v: Any) -> Any:
    """quat_rotate_inv(q, v)

    The vector rotated back: as quat_rotate, with -2 * w * cross(u, v).

    Parameters
    ----------
    q : quat
    v : vec3

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: that of the formula, with respect to four free numbers.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.quat_rotate_inv(dk.quat_rpy(x[i], 0.2, 0.3), u)
    """

def quat_rpy(roll: Any, pitch: Any, yaw: Any) -> Any:
    """quat_rpy(roll, pitch, yaw)

    The rotation about x by roll, then about y by pitch, then about z by yaw, about fixed axes.

    Parameters
    ----------
    roll : float
    pitch : float
    yaw : float

    Returns
    -------
    quat

    Notes
    -----
    Derivative: that of the formula.

    Examples
    --------
    .. code-block:: python

        r = dk.quat_rpy(x[i], 0.2, 0.3)
        w[i] = dk.quat_rotate(r, u)
    """

def quat_slerp(a: Any, b: Any, t: Any) -> Any:
    """quat_slerp(a, b, t)

    The rotation at t of the shortest way from a (t = 0) to b (t = 1), at constant speed.

    Parameters
    ----------
    a : quat
    b : quat
    t : float

    Returns
    -------
    quat

    Notes
    -----
    Derivative: that of the formula.

    At kinks: exists where a and b are equal, too.

    Examples
    --------
    .. code-block:: python

        r = dk.quat_slerp(dk.quat_identity(), dk.quat_rpy(1.0, 0.2, 0.3), x[i])
        w[i] = dk.quat_rotate(r, u)
    """

def quat_to_axis_angle(q: Any, axis: Any = ..., angle: Any = ...) -> Any:
    """quat_to_axis_angle(q)

    The axis, of length 1, and the angle in [0, pi] of a rotation; quat_to_axis_angle(q, axis, angle) sets variables. Both are 0 where u is 0.

    Parameters
    ----------
    q : quat

    Returns
    -------
    vec3 and float

    Notes
    -----
    Derivative: that of the formulas.

    At kinks: 0 where u is 0.

    Examples
    --------
    .. code-block:: python

        axis, angle = dk.quat_to_axis_angle(dk.quat_rpy(x[i], 0.0, 0.5))
        y[i] = angle
    """

def quat_to_euler(q: Any, i: Any, j: Any, k: Any) -> Any:
    """quat_to_euler(q, i, j, k)

    The angles that quat_from_euler takes, up to whole turns; where axes i and k coincide, e[i] is 0. If i is k, the third angle is that of the axis which is neither.

    Parameters
    ----------
    q : quat
    i : int
    j : int
    k : int

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: that of the formulas of the branch.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.quat_to_euler(dk.quat_rpy(x[i], 0.2, 0.3), 0, 1, 2)
    """

def quat_to_matrix(q: Any) -> Any:
    """quat_to_matrix(q)

    The matrix that rotates as quat_rotate does.

    Parameters
    ----------
    q : quat

    Returns
    -------
    mat33

    Notes
    -----
    Derivative: that of the formula.

    Examples
    --------
    .. code-block:: python

        e[i] = dk.quat_to_matrix(dk.quat_rpy(x[i], 0.0, 0.5))
    """

def quat_to_rpy(q: Any) -> Any:
    """quat_to_rpy(q)

    The angles roll, pitch and yaw that quat_rpy takes; pitch is in [-pi / 2, pi / 2].

    Parameters
    ----------
    q : quat

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: that of the formulas.

    At kinks: 0 for pitch at its bounds.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.quat_to_rpy(dk.quat_rpy(x[i], 0.2, 0.3))
    """

def quat_twist(axis: Any, q: Any) -> Any:
    """quat_twist(axis, q)

    The part of a rotation that is about an axis of length 1: normalize(quat(axis * dot(u, axis), w)).

    Parameters
    ----------
    axis : vec3
    q : quat

    Returns
    -------
    quat

    Notes
    -----
    Derivative: that of the formula.

    At kinks: 0 for a half turn about an axis perpendicular to this one, whose twist is the identity.

    Examples
    --------
    .. code-block:: python

        r = dk.quat_twist(dk.normalize(u), dk.quat_rpy(x[i], 0.2, 0.3))
        y[i] = r.w
    """

def quat_twist_angle(axis: Any, q: Any) -> float:
    """quat_twist_angle(axis, q)

    The angle of the part of a rotation that is about an axis of length 1: 2 * atan2(abs(dot(u, axis)), w).

    Parameters
    ----------
    axis : vec3
    q : quat

    Returns
    -------
    float

    Notes
    -----
    Derivative: that of the formula.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.quat_twist_angle(dk.normalize(u), dk.quat_rpy(x[i], 0.2, 0.3))
    """

def quat_twist_angle_signed(axis: Any, q: Any) -> float:
    """quat_twist_angle_signed(axis, q)

    The angle of the part of a rotation that is about an axis of length 1, with its sign: 2 * atan2(dot(u, axis), w).

    Parameters
    ----------
    axis : vec3
    q : quat

    Returns
    -------
    float

    Notes
    -----
    Derivative: that of the formula.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.quat_twist_angle_signed(dk.normalize(u), dk.quat_rpy(x[i], 0.2, 0.3))
    """

def poisson(state: Any, lam: Any) -> Any:
    """poisson(state, lam)

    A random number of events where lam are expected: by factors below 10, by transformed rejection from there on.

    Parameters
    ----------
    state : uint32
    lam : float32

    Returns
    -------
    uint32

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        q[i] = int(dk.poisson(state, 4.0))
    """

def rand_init(seed: Any, offset: Any = ...) -> Any:
    """rand_init(seed)

    A state made of a seed, and of an offset if there is one: each thread passes its index for draws of its own.

    Parameters
    ----------
    seed : uint32

    Returns
    -------
    uint32

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        y[i] = dk.randf(state)
    """

def randf(state: Any, low: Any = ..., high: Any = ...) -> Any:
    """randf(state, low=0.0, high=1.0)

    A random number of [low, high), evenly distributed.

    Parameters
    ----------
    state : uint32
    low : float32
    high : float32

    Returns
    -------
    float32

    Notes
    -----
    Derivative: 1 - r and r with respect to low and high, for the same draw r of [0, 1).

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        y[i] = dk.randf(state, -1.0, 1.0)
    """

def randi(state: Any, low: Any = ..., high: Any = ...) -> Any:
    """randi(state)

    A random integer, any of its type, or of those from low to high - 1.

    Parameters
    ----------
    state : uint32

    Returns
    -------
    int32

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        q[i] = dk.randi(state, 0, 10)
    """

def randn(state: Any) -> Any:
    """randn(state)

    A random number, normally distributed with mean 0 and variance 1 (Box and Muller); two draws.

    Parameters
    ----------
    state : uint32

    Returns
    -------
    float32

    Notes
    -----
    Derivative: none, it depends on no float.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        y[i] = x[i] + 0.1 * dk.randn(state)
    """

def randu(state: Any, low: Any = ..., high: Any = ...) -> Any:
    """randu(state)

    A random unsigned integer, any of its type, or of those from low to high - 1.

    Parameters
    ----------
    state : uint32

    Returns
    -------
    uint32

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        q[i] = int(dk.randu(state, 0, 10))
    """

def sample_cdf(state: Any, cdf: Any) -> Any:
    """sample_cdf(state, cdf)

    A random index, distributed by an array of cumulative probabilities: the first that reaches a draw from [0, 1).

    Parameters
    ----------
    state : uint32
    cdf : dk.array1d

    Returns
    -------
    int32

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        q[i] = dk.sample_cdf(state, x)
    """

def sample_triangle(state: Any) -> Any:
    """sample_triangle(state)

    The first two barycentric coordinates of a random point of a triangle.

    Parameters
    ----------
    state : uint32

    Returns
    -------
    vec2

    Notes
    -----
    Derivative: none, it depends on no float.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        y[i] = dk.sample_triangle(state).x
    """

def sample_unit_cube(state: Any) -> Any:
    """sample_unit_cube(state)

    A random point of the cube of side 1 about the origin.

    Parameters
    ----------
    state : uint32

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: none, it depends on no float.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        w[i] = dk.sample_unit_cube(state)
    """

def sample_unit_disk(state: Any) -> Any:
    """sample_unit_disk(state)

    A random point inside of the unit circle.

    Parameters
    ----------
    state : uint32

    Returns
    -------
    vec2

    Notes
    -----
    Derivative: none, it depends on no float.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        y[i] = dk.sample_unit_disk(state).x
    """

def sample_unit_hemisphere(state: Any) -> Any:
    """sample_unit_hemisphere(state)

    A random point inside of the half of the unit sphere where z is positive.

    Parameters
    ----------
    state : uint32

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: none, it depends on no float.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        w[i] = dk.sample_unit_hemisphere(state)
    """

def sample_unit_hemisphere_surface(state: Any) -> Any:
    """sample_unit_hemisphere_surface(state)

    A random point of the half of the unit sphere where z is positive.

    Parameters
    ----------
    state : uint32

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: none, it depends on no float.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        w[i] = dk.sample_unit_hemisphere_surface(state)
    """

def sample_unit_ring(state: Any) -> Any:
    """sample_unit_ring(state)

    A random point of the unit circle.

    Parameters
    ----------
    state : uint32

    Returns
    -------
    vec2

    Notes
    -----
    Derivative: none, it depends on no float.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        y[i] = dk.sample_unit_ring(state).x
    """

def sample_unit_sphere(state: Any) -> Any:
    """sample_unit_sphere(state)

    A random point inside of the unit sphere.

    Parameters
    ----------
    state : uint32

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: none, it depends on no float.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        w[i] = dk.sample_unit_sphere(state)
    """

def sample_unit_sphere_surface(state: Any) -> Any:
    """sample_unit_sphere_surface(state)

    A random point of the unit sphere.

    Parameters
    ----------
    state : uint32

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: none, it depends on no float.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        w[i] = dk.sample_unit_sphere_surface(state)
    """

def sample_unit_square(state: Any) -> Any:
    """sample_unit_square(state)

    A random point of the square of side 1 about the origin.

    Parameters
    ----------
    state : uint32

    Returns
    -------
    vec2

    Notes
    -----
    Derivative: none, it depends on no float.

    Examples
    --------
    .. code-block:: python

        state = dk.rand_init(42, i)
        y[i] = dk.sample_unit_square(state).x
    """

def spatial_adjoint(r: Any, s: Any) -> Any:
    """spatial_adjoint(r, s)

    The matrix of blocks [[r, 0], [s, r]], which changes the frame of a spatial vector.

    Parameters
    ----------
    r : mat33
    s : mat33

    Returns
    -------
    spatial_matrix

    Notes
    -----
    Derivative: the blocks of a cotangent, of r both together.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.spatial_adjoint(m, k)[0, 0]
    """

def spatial_bottom(a: Any) -> Any:
    """spatial_bottom(a)

    The last three components.

    Parameters
    ----------
    a : spatial_vector

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: a cotangent goes to the last three components.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.spatial_bottom(dk.spatial_vector(u, v))
    """

def spatial_cross(a: Any, b: Any) -> Any:
    """spatial_cross(a, b)

    The cross product of motions: (cross(a_top, b_top), cross(a_bottom, b_top) + cross(a_top, b_bottom)).

    Parameters
    ----------
    a : spatial_vector
    b : spatial_vector

    Returns
    -------
    spatial_vector

    Notes
    -----
    Derivative: that of the formula.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.spatial_cross(dk.spatial_vector(u, v), dk.spatial_vector(v, v))[0]
    """

def spatial_cross_dual(a: Any, b: Any) -> Any:
    """spatial_cross_dual(a, b)

    The cross product of a motion and a force. It is (cross(a_top, b_top) + cross(a_bottom, b_bottom), cross(a_top, b_bottom)).

    Parameters
    ----------
    a : spatial_vector
    b : spatial_vector

    Returns
    -------
    spatial_vector

    Notes
    -----
    Derivative: that of the formula.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.spatial_cross_dual(dk.spatial_vector(u, v), dk.spatial_vector(v, v))[0]
    """

def spatial_dot(a: Any, b: Any) -> float:
    """spatial_dot(a, b)

    The sum of the products of the six components.

    Parameters
    ----------
    a : spatial_vector
    b : spatial_vector

    Returns
    -------
    float

    Notes
    -----
    Derivative: b and a.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.spatial_dot(dk.spatial_vector(u, v), dk.spatial_vector(v, u))
    """

def spatial_top(a: Any) -> Any:
    """spatial_top(a)

    The first three components.

    Parameters
    ----------
    a : spatial_vector

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: a cotangent goes to the first three components.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.spatial_top(dk.spatial_vector(u, v))
    """

def velocity_at_point(qd: Any, r: Any) -> Any:
    """velocity_at_point(qd, r)

    The velocity of the point r of a body that moves with the spatial velocity qd: bottom + cross(top, r).

    Parameters
    ----------
    qd : spatial_vector
    r : vec3

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: that of the formula.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.velocity_at_point(dk.spatial_vector(u, v), u)
    """

def texture_sample(tex: Any, u: Any, v: Any = ..., w: Any = ..., dtype: Any = ..., lod: Any = ...) -> Any:
    """texture_sample(tex, uv, dtype, lod=-1.0)

    The value of a texture at coordinates: a number for a Texture1D, a vec2 for a Texture2D, a vec3 for a Texture3D, or two or three numbers. The dtype, float, vec2f or vec4f, says how many channels are read; those that the texture does not have are zero. Texel i of n is at (i + 0.5) / n, and at i + 0.5 without normalized coordinates. A texture with mip levels is sampled at the level `lod`, a float.

    Parameters
    ----------
    tex : Texture1D or Texture2D or Texture3D
    uv : float32 or vec2 or vec3
    dtype : float, vec2f or vec4f or float32
    lod : float or float, vec2f or vec4f or float32

    Returns
    -------
    Any

    Notes
    -----
    Derivative: with respect to the coordinates, the level and, on a tape, the texels (the texture's `texels`).

    At kinks: at centres of texels with linear filtering, and where the address mode sets in; the derivative is that of the cell found, towards larger coordinates. With closest filtering the derivative with respect to coordinates is zero.

    Examples
    --------
    .. code-block:: python

        u = dk.texture_sample(picture, dk.vec2(0.25, 0.5), dtype=float)
    """

def tile_bvh_query_aabb(id: Any, low: Any, high: Any) -> Any:
    """tile_bvh_query_aabb(id, low, high)

    A query of a Bvh, shared by all threads of a block, for the boxes that meet a box. All pass the same arguments. ``while tile_query_valid(query): i = untile(tile_bvh_query_next(query))`` gives each thread an index at a time, in no set order, or -1; each box is the result of one thread, once.

    Parameters
    ----------
    id : uint64
    low : vec3
    high : vec3

    Returns
    -------
    BvhQueryTiled

    Notes
    -----
    Derivative: none, the results are integers.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_bvh_query_aabb(tree, u, v)
        while dk.tile_query_valid(s):
            j = dk.untile(dk.tile_bvh_query_next(s))
            if j >= 0:
                q[j] = 1
    """

def tile_bvh_query_next(query: Any) -> Any:
    """tile_bvh_query_next(query)

    A tile of as many integers as a block has threads: for each an index of a box that the query asks for, or -1.

    Parameters
    ----------
    query : BvhQueryTiled

    Returns
    -------
    Any

    Notes
    -----
    Derivative: none, they are integers.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_bvh_query_aabb(tree, u, v)
        while dk.tile_query_valid(s):
            t = dk.tile_bvh_query_next(s)
            q[0] = dk.untile(t)
    """

def tile_bvh_query_ray(id: Any, start: Any, dir: Any) -> Any:
    """tile_bvh_query_ray(id, start, dir)

    A query of a Bvh, shared by all threads of a block, for the boxes that a ray of any length meets.

    Parameters
    ----------
    id : uint64
    start : vec3
    dir : vec3

    Returns
    -------
    BvhQueryTiled

    Notes
    -----
    Derivative: none, the results are integers.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_bvh_query_ray(tree, u, v)
        while dk.tile_query_valid(s):
            j = dk.untile(dk.tile_bvh_query_next(s))
            if j >= 0:
                q[j] = 1
    """

def tile_mesh_query_aabb(id: Any, low: Any, high: Any) -> Any:
    """tile_mesh_query_aabb(id, low, high)

    A query of a Mesh, shared by all threads of a block, for the faces whose boxes meet a box.

    Parameters
    ----------
    id : uint64
    low : vec3
    high : vec3

    Returns
    -------
    MeshQueryAABBTiled

    Notes
    -----
    Derivative: none, the results are integers.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_mesh_query_aabb(mesh, u, v)
        while dk.tile_query_valid(s):
            j = dk.untile(dk.tile_mesh_query_aabb_next(s))
            if j >= 0:
                q[j] = 1
    """

def tile_mesh_query_aabb_next(query: Any) -> Any:
    """tile_mesh_query_aabb_next(query)

    A tile of as many integers as a block has threads: for each a face that the query asks for, or -1.

    Parameters
    ----------
    query : MeshQueryAABBTiled

    Returns
    -------
    Any

    Notes
    -----
    Derivative: none, they are integers.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_mesh_query_aabb(mesh, u, v)
        while dk.tile_query_valid(s):
            t = dk.tile_mesh_query_aabb_next(s)
            q[0] = dk.untile(t)
    """

def tile_query_valid(query: Any) -> bool:
    """tile_query_valid(query)

    True if there may be further results, so that all threads of the block go on.

    Parameters
    ----------
    query : BvhQueryTiled or MeshQueryAABBTiled

    Returns
    -------
    bool

    Notes
    -----
    Derivative: none.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_bvh_query_aabb(tree, u, v)
        while dk.tile_query_valid(s):
            t = dk.tile_bvh_query_next(s)
            q[0] = dk.untile(t)
    """

def transform_compose(position: Any, rotation: Any, scale: Any) -> Any:
    """transform_compose(position, rotation, scale)

    The matrix that scales along the axes, then rotates, then translates.

    Parameters
    ----------
    position : vec3
    rotation : quat
    scale : vec3

    Returns
    -------
    mat44

    Notes
    -----
    Derivative: that of the formula.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.transform_compose(u, dk.quat_rpy(x[i], 0.2, 0.3), v)[0, 0]
    """

def transform_decompose(m: Any) -> Any:
    """transform_decompose(m)

    Position, rotation and scale of which transform_compose makes a matrix; a column of zeros is left as it is.

    Parameters
    ----------
    m : mat44

    Returns
    -------
    vec3 and quat and vec3

    Notes
    -----
    Derivative: that of the norms of the columns and of quat_from_matrix; a column of zeros has none.

    Examples
    --------
    .. code-block:: python

        p, r, s = dk.transform_decompose(dk.transform_compose(u, dk.quat_rpy(x[i], 0.2, 0.3), v))
        w[i] = s
    """

def transform_from_matrix(m: Any) -> Any:
    """transform_from_matrix(m)

    The transform of a matrix whose upper left is a rotation.

    Parameters
    ----------
    m : mat44

    Returns
    -------
    transform

    Notes
    -----
    Derivative: that of quat_from_matrix; the last column goes to the translation.

    Examples
    --------
    .. code-block:: python

        t = dk.transform(u, dk.quat_identity())
        w[i] = dk.transform_from_matrix(dk.transform_to_matrix(t)).p
    """

def transform_get_rotation(t: Any) -> Any:
    """transform_get_rotation(t)

    The rotation t.q.

    Parameters
    ----------
    t : transform

    Returns
    -------
    quat

    Notes
    -----
    Derivative: a cotangent goes to the rotation.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.transform_get_rotation(dk.transform(u, dk.quat_identity())).w
    """

def transform_get_translation(t: Any) -> Any:
    """transform_get_translation(t)

    The translation t.p.

    Parameters
    ----------
    t : transform

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: a cotangent goes to the translation.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.transform_get_translation(dk.transform(u, dk.quat_identity()))
    """

def transform_identity(dtype: Any = ...) -> Any:
    """transform_identity(dtype=float)

    The transform that leaves points where they are.

    Parameters
    ----------
    dtype : type of float

    Returns
    -------
    transform

    Notes
    -----
    Derivative: none, it is constant.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.transform_identity(dtype=dk.float32).p
    """

def transform_inverse(t: Any) -> Any:
    """transform_inverse(t)

    The transform that undoes t, whose rotation has length 1.

    Parameters
    ----------
    t : transform

    Returns
    -------
    transform

    Notes
    -----
    Derivative: that of -quat_rotate(quat_inverse(q), p) and quat_inverse(q).

    Examples
    --------
    .. code-block:: python

        w[i] = dk.transform_inverse(dk.transform(u, dk.quat_rpy(x[i], 0.2, 0.3))).p
    """

def transform_multiply(a: Any, b: Any) -> Any:
    """transform_multiply(a, b)

    First b, then a: the same as a * b.

    Parameters
    ----------
    a : transform
    b : transform

    Returns
    -------
    transform

    Notes
    -----
    Derivative: that of a.p + quat_rotate(a.q, b.p) and a.q * b.q.

    Examples
    --------
    .. code-block:: python

        t = dk.transform(u, dk.quat_rpy(x[i], 0.2, 0.3))
        w[i] = dk.transform_multiply(t, t).p
    """

def transform_point(t: Any, x: Any) -> Any:
    """transform_point(t, x)

    A point transformed: quat_rotate(t.q, x) + t.p; by a matrix without a perspective division.

    Parameters
    ----------
    t : transform or mat44
    x : vec3

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: that of the formula.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.transform_point(dk.transform(u, dk.quat_rpy(x[i], 0.2, 0.3)), v)
    """

def transform_set_rotation(t: Any, q: Any) -> Any:
    """transform_set_rotation(t, q)

    Replace the rotation of a variable; of an element of an array write ``a[i].q = q``.

    Parameters
    ----------
    t : transform
    q : quat

    Notes
    -----
    Derivative: a cotangent of the rotation goes to q.

    Examples
    --------
    .. code-block:: python

        t = dk.transform_identity()
        dk.transform_set_rotation(t, dk.quat_rpy(x[i], 0.2, 0.3))
        y[i] = t.q.w
    """

def transform_set_translation(t: Any, p: Any) -> Any:
    """transform_set_translation(t, p)

    Replace the translation of a variable; of an element of an array write ``a[i].p = p``.

    Parameters
    ----------
    t : transform
    p : vec3

    Notes
    -----
    Derivative: a cotangent of the translation goes to p.

    Examples
    --------
    .. code-block:: python

        t = dk.transform_identity()
        dk.transform_set_translation(t, u)
        w[i] = t.p
    """

def transform_to_matrix(t: Any) -> Any:
    """transform_to_matrix(t)

    The matrix that does to points (x, y, z, 1) what the transform does.

    Parameters
    ----------
    t : transform

    Returns
    -------
    mat44

    Notes
    -----
    Derivative: that of quat_to_matrix; the translation goes to the last column.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.transform_to_matrix(dk.transform(u, dk.quat_rpy(x[i], 0.2, 0.3)))[0, 0]
    """

def transform_twist(t: Any, x: Any) -> Any:
    """transform_twist(t, x)

    A spatial velocity in the frame of the transform: (R w, R v + cross(p, R w)).

    Parameters
    ----------
    t : transform
    x : spatial_vector

    Returns
    -------
    spatial_vector

    Notes
    -----
    Derivative: that of the formula.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.transform_twist(dk.transform(u, dk.quat_rpy(x[i], 0.2, 0.3)), dk.spatial_vector(u, v))[0]
    """

def transform_vector(t: Any, x: Any) -> Any:
    """transform_vector(t, x)

    A direction transformed: quat_rotate(t.q, x); by a matrix without its last column.

    Parameters
    ----------
    t : transform or mat44
    x : vec3

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: that of the formula.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.transform_vector(dk.transform(u, dk.quat_rpy(x[i], 0.2, 0.3)), v)
    """

def transform_wrench(t: Any, x: Any) -> Any:
    """transform_wrench(t, x)

    A spatial force in the frame of the transform: (R torque + cross(p, R f), R f).

    Parameters
    ----------
    t : transform
    x : spatial_vector

    Returns
    -------
    spatial_vector

    Notes
    -----
    Derivative: that of the formula.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.transform_wrench(dk.transform(u, dk.quat_rpy(x[i], 0.2, 0.3)), dk.spatial_vector(u, v))[0]
    """

def volume_index_to_world(id: Any, uvw: Any) -> Any:
    """volume_index_to_world(id, uvw)

    The place in the world of a place in the index space of a Volume.

    Parameters
    ----------
    id : uint64
    uvw : vec3

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: that of the linear map.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.volume_index_to_world(volume, u)
    """

def volume_index_to_world_dir(id: Any, uvw: Any) -> Any:
    """volume_index_to_world_dir(id, uvw)

    The direction in the world of a direction in the index space of a Volume.

    Parameters
    ----------
    id : uint64
    uvw : vec3

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: that of the linear map.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.volume_index_to_world_dir(volume, u)
    """

def volume_lookup(id: Any, i: Any, j: Any, k: Any, dtype: Any) -> Any:
    """volume_lookup(id, i, j, k, dtype)

    The value of a voxel of a Volume, by the id of the volume. The dtype is that of the volume; of another type zero comes back.

    Parameters
    ----------
    id : uint64
    i : int32
    j : int32
    k : int32
    dtype : float, float64, vec3f, vec3d, vec4f, vec4d, int32, uint32 or int64

    Returns
    -------
    Any

    Notes
    -----
    Derivative: on a tape with respect to the values of the volume.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.volume_lookup(volume, 1, 2, 3, dtype=float)
    """

def volume_lookup_f(id: Any, i: Any, j: Any, k: Any) -> Any:
    """volume_lookup_f(id, i, j, k)

    The value of a voxel of a Volume of float32.

    Parameters
    ----------
    id : uint64
    i : int32
    j : int32
    k : int32

    Returns
    -------
    float32

    Notes
    -----
    Derivative: on a tape with respect to the values of the volume.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.volume_lookup_f(volume, 1, 2, 3)
    """

def volume_lookup_i(id: Any, i: Any, j: Any, k: Any) -> Any:
    """volume_lookup_i(id, i, j, k)

    The value of a voxel of a Volume of int32.

    Parameters
    ----------
    id : uint64
    i : int32
    j : int32
    k : int32

    Returns
    -------
    int32

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.volume_lookup_i(volume, 1, 2, 3)
    """

def volume_lookup_index(id: Any, i: Any, j: Any, k: Any) -> Any:
    """volume_lookup_index(id, i, j, k)

    The index of a voxel among those that a Volume has, in the order of get_voxels(); -1 if it has not got it.

    Parameters
    ----------
    id : uint64
    i : int32
    j : int32
    k : int32

    Returns
    -------
    int32

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.volume_lookup_index(volume, 1, 2, 3)
    """

def volume_lookup_v(id: Any, i: Any, j: Any, k: Any) -> Any:
    """volume_lookup_v(id, i, j, k)

    The value of a voxel of a Volume of vec3f.

    Parameters
    ----------
    id : uint64
    i : int32
    j : int32
    k : int32

    Returns
    -------
    vec3f

    Notes
    -----
    Derivative: on a tape with respect to the values of the volume.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.volume_lookup_v(volume, 1, 2, 3)
    """

def volume_sample(id: Any, uvw: Any, sampling_mode: Any, dtype: Any) -> Any:
    """volume_sample(id, uvw, sampling_mode, dtype)

    The value of a Volume at a place in index space, by the id of the volume. sampling_mode is Volume.CLOSEST or Volume.LINEAR; integers are of the closest voxel. The dtype is that of the volume; of another type zero comes back.

    Parameters
    ----------
    id : uint64
    uvw : vec3
    sampling_mode : int32
    dtype : float, float64, vec3f, vec3d, vec4f, vec4d, int32, uint32 or int64

    Returns
    -------
    Any

    Notes
    -----
    Derivative: with respect to the place and, on a tape, the values of the volume.

    At kinks: at the voxels; the derivative there is that towards larger coordinates. That of the closest voxel with respect to the place is zero.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.volume_sample(volume, dk.vec3(0.25, 0.5, 1.0), dk.Volume.LINEAR, dtype=float)
    """

def volume_sample_f(id: Any, uvw: Any, sampling_mode: Any) -> Any:
    """volume_sample_f(id, uvw, sampling_mode)

    The value of a Volume of float32 at a place in index space, as volume_sample.

    Parameters
    ----------
    id : uint64
    uvw : vec3
    sampling_mode : int32

    Returns
    -------
    float32

    Notes
    -----
    Derivative: with respect to the place and, on a tape, the values of the volume.

    At kinks: as of volume_sample.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.volume_sample_f(volume, dk.vec3(0.25, 0.5, 1.0), dk.Volume.LINEAR)
    """

def volume_sample_grad(id: Any, uvw: Any, sampling_mode: Any, grad: Any, dtype: Any) -> Any:
    """volume_sample_grad(id, uvw, sampling_mode, grad, dtype)

    The value of a Volume at a place in index space, as volume_sample; grad, a variable, is set to its derivative with respect to the place: a vector for a number, a matrix with a column for each axis for a vector.

    Parameters
    ----------
    id : uint64
    uvw : vec3
    sampling_mode : int32
    grad : any type
    dtype : float, float64, vec3f, vec3d, vec4f or vec4d

    Notes
    -----
    Derivative: of both, with respect to the place and, on a tape, the values of the volume.

    At kinks: as of volume_sample.

    Examples
    --------
    .. code-block:: python

        g = dk.vec3(0.0)
        y[i] = dk.volume_sample_grad(volume, dk.vec3(0.25, 0.5, 1.0), dk.Volume.LINEAR, g, dtype=float)
    """

def volume_sample_grad_f(id: Any, uvw: Any, sampling_mode: Any, grad: Any) -> Any:
    """volume_sample_grad_f(id, uvw, sampling_mode, grad)

    The value of a Volume of float32 at a place in index space; grad, a variable, is set to its derivative with respect to the place.

    Parameters
    ----------
    id : uint64
    uvw : vec3
    sampling_mode : int32
    grad : any type

    Returns
    -------
    float32

    Notes
    -----
    Derivative: of both, with respect to the place and, on a tape, the values of the volume.

    At kinks: as of volume_sample.

    Examples
    --------
    .. code-block:: python

        g = dk.vec3(0.0)
        y[i] = dk.volume_sample_grad_f(volume, dk.vec3(0.25, 0.5, 1.0), dk.Volume.LINEAR, g)
    """

def volume_sample_grad_index(id: Any, uvw: Any, sampling_mode: Any, voxel_data: Any, background: Any, grad: Any) -> Any:
    """volume_sample_grad_index(id, uvw, sampling_mode, voxel_data, background, grad)

    The value at a place in index space that an array has at the indices of a Volume's voxels, as volume_sample_index; grad, a variable, is set to its derivative with respect to the place.

    Parameters
    ----------
    id : uint64
    uvw : vec3
    sampling_mode : int32
    voxel_data : dk.array1d
    background : any type
    grad : any type

    Notes
    -----
    Derivative: of both, with respect to the place, the array and the background.

    At kinks: as of volume_sample.

    Examples
    --------
    .. code-block:: python

        g = dk.vec3(0.0)
        y[i] = dk.volume_sample_grad_index(volume, dk.vec3(0.25, 0.5, 1.0), dk.Volume.LINEAR, x, 0.0, g)
    """

def volume_sample_i(id: Any, uvw: Any) -> Any:
    """volume_sample_i(id, uvw)

    The value of a Volume of int32 at the voxel closest to a place in index space.

    Parameters
    ----------
    id : uint64
    uvw : vec3

    Returns
    -------
    int32

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.volume_sample_i(volume, dk.vec3(0.25, 0.5, 1.0))
    """

def volume_sample_index(id: Any, uvw: Any, sampling_mode: Any, voxel_data: Any, background: Any) -> Any:
    """volume_sample_index(id, uvw, sampling_mode, voxel_data, background)

    The value at a place in index space that an array has at the indices of a Volume's voxels (volume_lookup_index), and the background where there is no voxel.

    Parameters
    ----------
    id : uint64
    uvw : vec3
    sampling_mode : int32
    voxel_data : dk.array1d
    background : any type

    Returns
    -------
    Any

    Notes
    -----
    Derivative: with respect to the place, the array and the background.

    At kinks: as of volume_sample.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.volume_sample_index(volume, dk.vec3(0.25, 0.5, 1.0), dk.Volume.LINEAR, x, 0.0)
    """

def volume_sample_v(id: Any, uvw: Any, sampling_mode: Any) -> Any:
    """volume_sample_v(id, uvw, sampling_mode)

    The value of a Volume of vec3f at a place in index space, as volume_sample.

    Parameters
    ----------
    id : uint64
    uvw : vec3
    sampling_mode : int32

    Returns
    -------
    vec3f

    Notes
    -----
    Derivative: with respect to the place and, on a tape, the values of the volume.

    At kinks: as of volume_sample.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.volume_sample_v(volume, dk.vec3(0.25, 0.5, 1.0), dk.Volume.LINEAR)
    """

def volume_store(id: Any, i: Any, j: Any, k: Any, value: Any) -> Any:
    """volume_store(id, i, j, k, value)

    Store a value to a voxel of a Volume, if the tile of the voxel exists and values of the volume have the type of this one. Of several threads that store to one voxel, one decides its value.

    Parameters
    ----------
    id : uint64
    i : int32
    j : int32
    k : int32
    value : int32 or uint32 or int64 or float64 or float or vec3 or vec4

    Returns
    -------
    Any

    Notes
    -----
    Derivative: on a tape, that of the voxel passes to the value.

    Examples
    --------
    .. code-block:: python

        dk.volume_store(volume, 1, 2, 3, 4.0)
    """

def volume_store_f(id: Any, i: Any, j: Any, k: Any, value: Any) -> Any:
    """volume_store_f(id, i, j, k, value)

    Store a number to a voxel of a Volume of float32, as volume_store.

    Parameters
    ----------
    id : uint64
    i : int32
    j : int32
    k : int32
    value : float

    Returns
    -------
    Any

    Notes
    -----
    Derivative: on a tape, that of the voxel passes to the value.

    Examples
    --------
    .. code-block:: python

        dk.volume_store_f(volume, 1, 2, 3, 4.0)
    """

def volume_store_i(id: Any, i: Any, j: Any, k: Any, value: Any) -> Any:
    """volume_store_i(id, i, j, k, value)

    Store an integer to a voxel of a Volume of int32, as volume_store.

    Parameters
    ----------
    id : uint64
    i : int32
    j : int32
    k : int32
    value : int32

    Returns
    -------
    Any

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        dk.volume_store_i(volume, 1, 2, 3, 4)
    """

def volume_store_v(id: Any, i: Any, j: Any, k: Any, value: Any) -> Any:
    """volume_store_v(id, i, j, k, value)

    Store a vector to a voxel of a Volume of vec3f, as volume_store.

    Parameters
    ----------
    id : uint64
    i : int32
    j : int32
    k : int32
    value : vec3

    Returns
    -------
    Any

    Notes
    -----
    Derivative: on a tape, that of the voxel passes to the value.

    Examples
    --------
    .. code-block:: python

        dk.volume_store_v(volume, 1, 2, 3, dk.vec3(1.0, 2.0, 3.0))
    """

def volume_voxel_count(id: Any) -> Any:
    """volume_voxel_count(id)

    The number of voxels of a Volume that have an index.

    Parameters
    ----------
    id : uint64

    Returns
    -------
    int32

    Notes
    -----
    Derivative: none, it is an integer.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.volume_voxel_count(volume)
    """

def volume_world_to_index(id: Any, xyz: Any) -> Any:
    """volume_world_to_index(id, xyz)

    The place in the index space of a Volume of a place in the world.

    Parameters
    ----------
    id : uint64
    xyz : vec3

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: that of the linear map.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.volume_world_to_index(volume, u)
    """

def volume_world_to_index_dir(id: Any, xyz: Any) -> Any:
    """volume_world_to_index_dir(id, xyz)

    The direction in the index space of a Volume of a direction in the world.

    Parameters
    ----------
    id : uint64
    xyz : vec3

    Returns
    -------
    vec3

    Notes
    -----
    Derivative: that of the linear map.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.volume_world_to_index_dir(volume, u)
    """

def norm_huber(v: Any, delta: Any = ...) -> float:
    """norm_huber(v, delta=1.0)

    Half the squared length where the length is at most delta, else delta * (length - delta / 2).

    Parameters
    ----------
    v : vector
    delta : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: v where the length is at most delta, else delta * v / length; with respect to delta, 0 and length - delta.

    At kinks: exists everywhere; 0 where v is 0.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.norm_huber(u, 2.0)
    """

def norm_l1(v: Any) -> float:
    """norm_l1(v)

    The sum of the absolute values.

    Parameters
    ----------
    v : vector

    Returns
    -------
    float

    Notes
    -----
    Derivative: the signs of the components.

    At kinks: 0 for a component that is 0.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.norm_l1(u)
    """

def norm_l2(v: Any) -> float:
    """norm_l2(v)

    The length.

    Parameters
    ----------
    v : vector

    Returns
    -------
    float

    Notes
    -----
    Derivative: v / r.

    At kinks: 0 where v is 0.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.norm_l2(u)
    """

def norm_pseudo_huber(v: Any, delta: Any = ...) -> float:
    """norm_pseudo_huber(v, delta=1.0)

    delta * sqrt(1 + dot(v, v) / delta ** 2), a smooth norm_huber.

    Parameters
    ----------
    v : vector
    delta : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: v / sqrt(1 + dot(v, v) / delta ** 2) / delta; with respect to delta, the inverse of that root.

    At kinks: exists everywhere; 0 where v is 0.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.norm_pseudo_huber(u, 2.0)
    """

def smooth_normalize(v: Any, delta: Any = ...) -> Any:
    """smooth_normalize(v, delta=1.0)

    v / norm_pseudo_huber(v, delta).

    Parameters
    ----------
    v : vector
    delta : float

    Returns
    -------
    vector

    Notes
    -----
    Derivative: that of the quotient.

    At kinks: exists everywhere; 1 / delta where v is 0.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.smooth_normalize(u, 2.0)
    """

def add(a: Any, b: Any) -> Any:
    """add(a, b)

    a + b.

    Parameters
    ----------
    a, b : number, vector, matrix or quaternion

    Returns
    -------
    Of their type.

    Notes
    -----
    Derivative: 1 with respect to each.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.add(x[i], 1.0)
    """

def sub(a: Any, b: Any) -> Any:
    """sub(a, b)

    a - b.

    Parameters
    ----------
    a, b : number, vector, matrix or quaternion

    Returns
    -------
    Of their type.

    Notes
    -----
    Derivative: 1 and -1.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.sub(x[i], 1.0)
    """

def neg(x: Any) -> Any:
    """neg(x)

    -x.

    Parameters
    ----------
    x : number, vector, matrix or quaternion

    Returns
    -------
    Of its type.

    Notes
    -----
    Derivative: -1.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.neg(x[i])
    """

def mul(a: Any, b: Any) -> Any:
    """mul(a, b)

    a * b.

    Parameters
    ----------
    a, b : float or int, or vectors, matrices and quaternions, as ``a * b`` takes them

    Returns
    -------
    Of the same type.

    Notes
    -----
    Derivative: b with respect to a, a with respect to b.

    Examples
    --------
    >>> dk.mul(0.5, 1.5)
    0.75
    """

def div(a: Any, b: Any) -> Any:
    """div(a, b)

    a / b.

    Parameters
    ----------
    a, b : float, int, or one of the two a vector, matrix or quaternion

    Returns
    -------
    float

    Notes
    -----
    Derivative: 1/b with respect to a, -r/b with respect to b, where r is the result.

    At kinks: Not finite at b = 0. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    >>> dk.div(0.5, 1.5)
    0.3333333333333333
    """

def floordiv(a: Any, b: Any) -> Any:
    """floordiv(a, b)

    a // b, rounded down as in Python.

    Parameters
    ----------
    a, b : float or int, or vectors of them

    Returns
    -------
    Of the same type.

    Notes
    -----
    Derivative: 0 everywhere.

    At kinks: 0 at the jumps as well.

    Examples
    --------
    >>> dk.floordiv(0.5, 1.5)
    0.0
    """

def mod(a: Any, b: Any) -> Any:
    """mod(a, b)

    a % b, with the sign of b as in Python.

    Parameters
    ----------
    a, b : float or int, or vectors of them

    Returns
    -------
    Of the same type.

    Notes
    -----
    Derivative: 1 with respect to a, -floor(a/b) with respect to b.

    At kinks: The formula, at the jumps as well.

    Examples
    --------
    >>> dk.mod(0.5, 1.5)
    0.5
    """

def abs(x: Any) -> Any:
    """abs(x)

    Absolute value; of a vector or matrix, of each component.

    Parameters
    ----------
    x : number, vector or matrix

    Returns
    -------
    Of its type.

    Notes
    -----
    Derivative: The sign of x.

    At kinks: 0 at x = 0.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.abs(x[i])
    """

def min(*a: Any) -> Any:
    """min(a, b, ...)

    The smallest; of vectors, component by component; of one vector, its smallest component.

    Parameters
    ----------
    a, b, ... : number, vector or matrix

    Returns
    -------
    Of their type; of one vector a number.

    Notes
    -----
    Derivative: 1 for the element that was taken, 0 for the others.

    At kinks: Of equal ones the first is taken. Where one is NaN, that is the result and has the derivative.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.min(x[i], 1.0)
    """

def max(*a: Any) -> Any:
    """max(a, b, ...)

    The largest; of vectors, component by component; of one vector, its largest component.

    Parameters
    ----------
    a, b, ... : number, vector or matrix

    Returns
    -------
    Of their type; of one vector a number.

    Notes
    -----
    Derivative: 1 for the element that was taken, 0 for the others.

    At kinks: Of equal ones the first is taken. Where one is NaN, that is the result and has the derivative.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.max(x[i], 1.0)
    """

def pow(x: Any, y: Any) -> float:
    """pow(x, y)

    x to the power y.

    Parameters
    ----------
    x, y : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: y*pow(x, y - 1) (0 where y == 0) with respect to x, r*log(x) (0 where x == 0) with respect to y, where r is the result.

    At kinks: With respect to x, infinite at x = 0 for y < 1; with respect to y, NaN for x < 0. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    >>> dk.pow(0.5, 1.5)
    0.3535533905932738
    """

def atan2(y: Any, x: Any) -> float:
    """atan2(y, x)

    The angle of the point (x, y).

    Parameters
    ----------
    y, x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: x/(y*y + x*x) (0 where abs(y) + abs(x) == 0) with respect to y, -y/(y*y + x*x) (0 where abs(y) + abs(x) == 0) with respect to x.

    At kinks: 0 at the origin.

    Examples
    --------
    >>> dk.atan2(0.5, 1.5)
    0.3217505543966422
    """

def hypot(x: Any, y: Any) -> float:
    """hypot(x, y)

    sqrt(x*x + y*y), also where the squares overflow or vanish.

    Parameters
    ----------
    x, y : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: x/r (0 where r == 0) with respect to x, y/r (0 where r == 0) with respect to y, where r is the result.

    At kinks: 0 at the origin.

    Examples
    --------
    >>> dk.hypot(0.5, 1.5)
    1.5811388300841898
    """

def copysign(x: Any, y: Any) -> float:
    """copysign(x, y)

    x with the sign of y.

    Parameters
    ----------
    x, y : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 1 with respect to x if its sign bit is that of y, else -1; 0 with respect to y.

    At kinks: At 0.0 and -0.0 the sign bits decide as well.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.copysign(x[i], -1.0)
    """

def sqrt(x: float) -> float:
    """sqrt(x)

    Square root.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 0.5/r, where r is the result.

    At kinks: Infinite at x = 0, but 0 of the root of a sum of squares. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    >>> dk.sqrt(0.5)
    0.7071067811865476
    """

def rsqrt(x: float) -> float:
    """rsqrt(x)

    One over the square root.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: -0.5*r*r*r, where r is the result.

    At kinks: Infinite at x = 0. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    >>> dk.rsqrt(0.5)
    1.414213562373095
    """

def cbrt(x: float) -> float:
    """cbrt(x)

    Cube root.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 1/(3*r*r), where r is the result.

    At kinks: Infinite at x = 0. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    >>> dk.cbrt(0.5)
    0.7937005259840998
    """

def exp(x: float) -> float:
    """exp(x)

    e to the power x.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: r, where r is the result.

    Examples
    --------
    >>> dk.exp(0.5)
    1.6487212707001282
    """

def exp2(x: float) -> float:
    """exp2(x)

    2 to the power x.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: log(2)*r, where r is the result.

    Examples
    --------
    >>> dk.exp2(0.5)
    1.4142135623730951
    """

def expm1(x: float) -> float:
    """expm1(x)

    exp(x) - 1, accurate near 0.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: r + 1, where r is the result.

    Examples
    --------
    >>> dk.expm1(0.5)
    0.6487212707001282
    """

def log(x: float) -> float:
    """log(x)

    Natural logarithm.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 1/x.

    At kinks: Infinite at x = 0. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    >>> dk.log(0.5)
    -0.6931471805599453
    """

def log2(x: float) -> float:
    """log2(x)

    Logarithm to base 2.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 1/(log(2)*x).

    At kinks: Infinite at x = 0. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    >>> dk.log2(0.5)
    -1.0
    """

def log10(x: float) -> float:
    """log10(x)

    Logarithm to base 10.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 1/(log(10)*x).

    At kinks: Infinite at x = 0. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    >>> dk.log10(0.5)
    -0.3010299956639812
    """

def log1p(x: float) -> float:
    """log1p(x)

    log(1 + x), accurate near 0.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 1/(1 + x).

    At kinks: Infinite at x = -1. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    >>> dk.log1p(0.5)
    0.4054651081081644
    """

def sin(x: float) -> float:
    """sin(x)

    Sine.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: cos(x).

    Examples
    --------
    >>> dk.sin(0.5)
    0.479425538604203
    """

def cos(x: float) -> float:
    """cos(x)

    Cosine.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: -sin(x).

    Examples
    --------
    >>> dk.cos(0.5)
    0.8775825618903728
    """

def tan(x: float) -> float:
    """tan(x)

    Tangent.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 1 + r*r, where r is the result.

    Examples
    --------
    >>> dk.tan(0.5)
    0.5463024898437905
    """

def asin(x: float) -> float:
    """asin(x)

    Inverse sine.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: rsqrt((1 - x)*(1 + x)).

    At kinks: Infinite at x = -1 and x = 1. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    >>> dk.asin(0.5)
    0.5235987755982989
    """

def acos(x: float) -> float:
    """acos(x)

    Inverse cosine.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: -rsqrt((1 - x)*(1 + x)).

    At kinks: Infinite at x = -1 and x = 1. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    >>> dk.acos(0.5)
    1.0471975511965979
    """

def atan(x: float) -> float:
    """atan(x)

    Inverse tangent.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 1/(1 + x*x).

    Examples
    --------
    >>> dk.atan(0.5)
    0.4636476090008061
    """

def sinh(x: float) -> float:
    """sinh(x)

    Hyperbolic sine.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: cosh(x).

    Examples
    --------
    >>> dk.sinh(0.5)
    0.5210953054937474
    """

def cosh(x: float) -> float:
    """cosh(x)

    Hyperbolic cosine.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: sinh(x).

    Examples
    --------
    >>> dk.cosh(0.5)
    1.1276259652063807
    """

def tanh(x: float) -> float:
    """tanh(x)

    Hyperbolic tangent.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: (1 - r)*(1 + r), where r is the result.

    Examples
    --------
    >>> dk.tanh(0.5)
    0.46211715726000974
    """

def asinh(x: float) -> float:
    """asinh(x)

    Inverse hyperbolic sine.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: rsqrt(1 + x*x).

    Examples
    --------
    >>> dk.asinh(0.5)
    0.48121182505960347
    """

def acosh(x: float) -> float:
    """acosh(x)

    Inverse hyperbolic cosine.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: rsqrt((x - 1)*(x + 1)).

    At kinks: Infinite at x = 1. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    >>> dk.acosh(1.5)
    0.9624236501192069
    """

def atanh(x: float) -> float:
    """atanh(x)

    Inverse hyperbolic tangent.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 1/((1 - x)*(1 + x)).

    At kinks: Infinite at x = -1 and x = 1. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    >>> dk.atanh(0.5)
    0.5493061443340548
    """

def erf(x: float) -> float:
    """erf(x)

    Error function.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: (2/sqrt(pi))*exp(-x*x).

    Examples
    --------
    >>> dk.erf(0.5)
    0.5204998778130465
    """

def erfc(x: float) -> float:
    """erfc(x)

    Complementary error function.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: -(2/sqrt(pi))*exp(-x*x).

    Examples
    --------
    >>> dk.erfc(0.5)
    0.4795001221869535
    """

def gamma(x: float) -> float:
    """gamma(x)

    Gamma function, whose value at n + 1 is the factorial of n.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: r*digamma(x), where r is the result.

    At kinks: NaN at negative integers, where the value is as well; not finite at 0, where that is infinite. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    >>> dk.gamma(0.5)
    1.7724538509055159
    """

def lgamma(x: float) -> float:
    """lgamma(x)

    Logarithm of the absolute value of the gamma function.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: digamma(x).

    At kinks: NaN at negative integers, and infinite at 0; the value is infinite at all of them. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    >>> dk.lgamma(0.5)
    0.5723649429247004
    """

def digamma(x: float) -> float:
    """digamma(x)

    The derivative of lgamma.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: The trigamma function; derivatives of all orders up to 100 follow.

    At kinks: Infinite at 0 and at negative integers, where the value is infinite and NaN. A cotangent that is exactly zero stays zero there.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.digamma(x[i])
    """

def floor(x: Any) -> float:
    """floor(x)

    The largest integer not above x, as a float.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 0 everywhere.

    At kinks: 0 at the jumps as well.

    Examples
    --------
    >>> dk.floor(0.5)
    0.0
    """

def ceil(x: Any) -> float:
    """ceil(x)

    The smallest integer not below x, as a float.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 0 everywhere.

    At kinks: 0 at the jumps as well.

    Examples
    --------
    >>> dk.ceil(0.5)
    1.0
    """

def trunc(x: Any) -> float:
    """trunc(x)

    x without its fraction, as a float.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 0 everywhere.

    At kinks: 0 at the jumps as well.

    Examples
    --------
    >>> dk.trunc(0.5)
    0.0
    """

def round(x: Any) -> float:
    """round(x)

    The nearest integer, halves away from zero, as a float.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 0 everywhere.

    At kinks: 0 at the jumps as well.

    Examples
    --------
    >>> dk.round(0.5)
    1.0
    """

def rint(x: Any) -> float:
    """rint(x)

    The nearest integer, halves to even, as a float.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 0 everywhere.

    At kinks: 0 at the jumps as well.

    Examples
    --------
    >>> dk.rint(0.5)
    0.0
    """

def bit_and(a: Any, b: Any) -> Any:
    """bit_and(a, b)

    a & b.

    Parameters
    ----------
    a, b : int or bool, or vectors or matrices of them

    Returns
    -------
    Of the same type.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    >>> dk.bit_and(6, 3)
    2
    """

def bit_or(a: Any, b: Any) -> Any:
    """bit_or(a, b)

    a | b.

    Parameters
    ----------
    a, b : int or bool, or vectors or matrices of them

    Returns
    -------
    Of the same type.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    >>> dk.bit_or(6, 3)
    7
    """

def bit_xor(a: Any, b: Any) -> Any:
    """bit_xor(a, b)

    a ^ b.

    Parameters
    ----------
    a, b : int or bool, or vectors or matrices of them

    Returns
    -------
    Of the same type.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    >>> dk.bit_xor(6, 3)
    5
    """

def unot(x: Any) -> Any:
    """unot(x)

    Logical not.

    Parameters
    ----------
    x : bool

    Returns
    -------
    bool

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    >>> dk.unot(True)
    False
    """

def invert(x: Any) -> Any:
    """invert(x)

    Bitwise complement of an integer.

    Parameters
    ----------
    x : int, or vectors or matrices of them

    Returns
    -------
    Of the same type.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    >>> dk.invert(6)
    -7
    """

def lshift(a: Any, b: Any) -> Any:
    """lshift(a, b)

    a << b.

    Parameters
    ----------
    a, b : int, or vectors or matrices of them

    Returns
    -------
    Of the same type.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    >>> dk.lshift(6, 3)
    48
    """

def rshift(a: Any, b: Any) -> Any:
    """rshift(a, b)

    a >> b.

    Parameters
    ----------
    a, b : int, or vectors or matrices of them

    Returns
    -------
    Of the same type.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    >>> dk.rshift(6, 3)
    0
    """

def isnan(x: Any) -> bool:
    """isnan(x)

    Whether x, or a component, is not a number.

    Parameters
    ----------
    x : float, or a vector, matrix or quaternion

    Returns
    -------
    bool

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    >>> dk.isnan(0.5)
    False
    """

def isinf(x: Any) -> bool:
    """isinf(x)

    Whether x, or a component, is infinite.

    Parameters
    ----------
    x : float, or a vector, matrix or quaternion

    Returns
    -------
    bool

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    >>> dk.isinf(0.5)
    False
    """

def isfinite(x: Any) -> bool:
    """isfinite(x)

    Whether x, or every component, is finite.

    Parameters
    ----------
    x : float, or a vector, matrix or quaternion

    Returns
    -------
    bool

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    >>> dk.isfinite(0.5)
    True
    """

def cw_mul(a: Any, b: Any) -> Any:
    """cw_mul(a, b)

    The product, component by component.

    Parameters
    ----------
    a, b : vector or matrix of floats

    Returns
    -------
    Of their type.

    Notes
    -----
    Derivative: b and a, by component.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.cw_mul(u, v)
    """

def cw_div(a: Any, b: Any) -> Any:
    """cw_div(a, b)

    The quotient, component by component.

    Parameters
    ----------
    a, b : vector or matrix of floats

    Returns
    -------
    Of their type.

    Notes
    -----
    Derivative: 1 / b and -a / b**2, by component.

    At kinks: Not finite where a component of b is 0.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.cw_div(u, v)
    """

def dot(a: Any, b: Any) -> float:
    """dot(a, b)

    The scalar product of two vectors.

    Parameters
    ----------
    a, b : vector of floats, of one length

    Returns
    -------
    float

    Notes
    -----
    Derivative: b and a.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.dot(u, v)
    """

def cross(a: Any, b: Any) -> Any:
    """cross(a, b)

    The vector product of two vectors of length 3.

    Parameters
    ----------
    a, b : vector of three floats

    Returns
    -------
    A vector of three floats.

    Notes
    -----
    Derivative: A cotangent c goes on as cross(b, c) and cross(c, a).

    Examples
    --------
    .. code-block:: python

        w[i] = dk.cross(u, v)
    """

def length(a: Any) -> float:
    """length(a)

    The Euclidean norm of a vector.

    Parameters
    ----------
    a : vector of floats

    Returns
    -------
    float

    Notes
    -----
    Derivative: a / length(a).

    At kinks: 0 for the zero vector.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.length(u)
    """

def length_sq(a: Any) -> float:
    """length_sq(a)

    The square of the Euclidean norm.

    Parameters
    ----------
    a : vector of floats

    Returns
    -------
    float

    Notes
    -----
    Derivative: 2 * a.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.length_sq(u)
    """

def normalize(a: Any) -> Any:
    """normalize(a)

    a / length(a); zero for the zero vector.

    Parameters
    ----------
    a : vector of floats

    Returns
    -------
    Of its type.

    Notes
    -----
    Derivative: (I - n n^T) / length(a) for the result n.

    At kinks: 0 for the zero vector.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.normalize(u)
    """

def outer(a: Any, b: Any) -> Any:
    """outer(a, b)

    The matrix with component (i, j) = a[i] * b[j].

    Parameters
    ----------
    a, b : vector of floats

    Returns
    -------
    A matrix with a row for each component of a.

    Notes
    -----
    Derivative: A cotangent C goes on as C b and C^T a.

    Examples
    --------
    .. code-block:: python

        e[i] = dk.outer(u, v)
    """

def transpose(a: Any) -> Any:
    """transpose(a)

    The transposed matrix.

    Parameters
    ----------
    a : matrix of floats

    Returns
    -------
    A matrix.

    Notes
    -----
    Derivative: A cotangent is transposed.

    Examples
    --------
    .. code-block:: python

        e[i] = dk.transpose(m)
    """

def trace(a: Any) -> float:
    """trace(a)

    The sum of the diagonal.

    Parameters
    ----------
    a : square matrix of floats

    Returns
    -------
    float

    Notes
    -----
    Derivative: The identity matrix.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.trace(m)
    """

def determinant(a: Any) -> float:
    """determinant(a)

    The determinant of a square matrix.

    Parameters
    ----------
    a : square matrix of floats

    Returns
    -------
    float

    Notes
    -----
    Derivative: The matrix of cofactors.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.determinant(m)
    """

def inverse(a: Any) -> Any:
    """inverse(a)

    The inverse of a square matrix.

    Parameters
    ----------
    a : square matrix of floats

    Returns
    -------
    A matrix.

    Notes
    -----
    Derivative: A cotangent C goes on as -R^T C R^T for the result R.

    At kinks: Not finite for a singular matrix.

    Examples
    --------
    .. code-block:: python

        e[i] = dk.inverse(m)
    """

def tid() -> Any:
    """tid()

    The thread's index: one value, or as many as are unpacked (at most 4).

    Returns
    -------
    int, or as many as are unpacked.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        j = dk.tid()
    """

def sign(x: Any) -> Any:
    """sign(x)

    -1 where x < 0, else 1.

    Parameters
    ----------
    x : float or int, or a vector or matrix

    Returns
    -------
    Of its type.

    Notes
    -----
    Derivative: 0.

    At kinks: 0 at x = 0 as well, where the value is 1.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.sign(x[i])
    """

def cast(x: Any, dtype: Any) -> Any:
    """cast(x, dtype)

    The value of another type that has the same bits as x.

    Parameters
    ----------
    x : number, vector, matrix or struct
    dtype : type of as many bytes

    Returns
    -------
    A value of the type dtype.

    Notes
    -----
    Derivative: None: bits are no number that changes smoothly.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.cast(x[i], dk.int32)
    """

def stop_gradient(x: Any) -> Any:
    """stop_gradient(x)

    x, as if it did not depend on anything.

    Parameters
    ----------
    x : number, vector, matrix, quaternion or struct

    Returns
    -------
    x.

    Notes
    -----
    Derivative: 0.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.stop_gradient(x[i]) * x[i]
    """

def nonzero(x: Any) -> Any:
    """nonzero(x)

    1 where x is not zero, else 0.

    Parameters
    ----------
    x : float or int

    Returns
    -------
    Of its type.

    Notes
    -----
    Derivative: 0.

    At kinks: 0 at x = 0 as well.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.nonzero(x[i])
    """

def step(x: Any) -> Any:
    """step(x)

    1 where x < 0, else 0.

    Parameters
    ----------
    x : float or int

    Returns
    -------
    Of its type.

    Notes
    -----
    Derivative: 0.

    At kinks: 0 at x = 0 as well.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.step(x[i])
    """

def frac(x: Any) -> float:
    """frac(x)

    x - trunc(x).

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 1.

    At kinks: 1 at integers as well, where the value jumps.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.frac(x[i])
    """

def degrees(x: Any) -> float:
    """degrees(x)

    Radians to degrees.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 180 / pi.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.degrees(x[i])
    """

def radians(x: Any) -> float:
    """radians(x)

    Degrees to radians.

    Parameters
    ----------
    x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: pi / 180.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.radians(x[i])
    """

def pos(x: Any) -> Any:
    """pos(x)

    x.

    Parameters
    ----------
    x : number, vector, matrix or quaternion

    Returns
    -------
    x.

    Notes
    -----
    Derivative: 1.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.pos(x[i])
    """

def clamp(x: Any, low: Any, high: Any) -> Any:
    """clamp(x, low, high)

    min(max(x, low), high).

    Parameters
    ----------
    x, low, high : float or int, or vectors or matrices

    Returns
    -------
    Of their type.

    Notes
    -----
    Derivative: 1 with respect to the one that comes back, 0 with respect to the others.

    At kinks: At a bound x comes back.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.clamp(x[i], 0.0, 1.0)
    """

def lerp(a: Any, b: Any, t: Any) -> Any:
    """lerp(a, b, t)

    a * (1 - t) + b * t.

    Parameters
    ----------
    a, b : float, vector or matrix
    t : float

    Returns
    -------
    Of the type of a and b.

    Notes
    -----
    Derivative: 1 - t, t and b - a.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.lerp(x[i], 1.0, 0.25)
    """

def smoothstep(a: Any, b: Any, x: Any) -> float:
    """smoothstep(a, b, x)

    A smooth step from 0 at a to 1 at b.

    Parameters
    ----------
    a, b, x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 6 * t * (1 - t) / (b - a) with respect to x, for t the place of x between the bounds.

    At kinks: 0 at the bounds and outside of them.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.smoothstep(0.0, 1.0, x[i])
    """

def where(cond: Any, value_if_true: Any, value_if_false: Any) -> Any:
    """where(cond, value_if_true, value_if_false)

    value_if_true where the condition holds, else value_if_false; only the chosen one is evaluated. Of a tile of conditions, element by element, with both evaluated; they may be tiles of its shape.

    Parameters
    ----------
    cond : bool
    value_if_true, value_if_false : number, vector, matrix, quaternion or struct

    Returns
    -------
    Of the type of the two.

    Notes
    -----
    Derivative: 1 with respect to the chosen one, exactly 0 with respect to the other.

    At kinks: What is not chosen has exactly 0, also where it is infinite or NaN.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.where(x[i] > 0.5, x[i], 0.0)
    """

def select(cond: Any, value_if_false: Any, value_if_true: Any) -> Any:
    """select(cond, value_if_false, value_if_true)

    value_if_true where the condition holds, else value_if_false.

    Parameters
    ----------
    cond : bool
    value_if_false, value_if_true : number, vector, matrix, quaternion or struct

    Returns
    -------
    Of the type of the two.

    Notes
    -----
    Derivative: 1 with respect to the chosen one, exactly 0 with respect to the other.

    At kinks: What is not chosen has exactly 0, also where it is infinite or NaN.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.select(x[i] > 0.5, 0.0, x[i])
    """

def ddot(a: Any, b: Any) -> float:
    """ddot(a, b)

    The sum of the products of the components of two matrices.

    Parameters
    ----------
    a, b : matrix of floats, of one shape

    Returns
    -------
    float

    Notes
    -----
    Derivative: b and a.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.ddot(m, k)
    """

def diag(vec: Any) -> Any:
    """diag(vec)

    The matrix with a vector as its diagonal.

    Parameters
    ----------
    vec : vector of floats

    Returns
    -------
    A square matrix.

    Notes
    -----
    Derivative: The diagonal of a cotangent.

    Examples
    --------
    .. code-block:: python

        e[i] = dk.diag(u)
    """

def get_diag(mat: Any) -> Any:
    """get_diag(mat)

    The diagonal of a matrix.

    Parameters
    ----------
    mat : square matrix of floats

    Returns
    -------
    A vector.

    Notes
    -----
    Derivative: A cotangent goes to the diagonal.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.get_diag(m)
    """

def skew(vec: Any) -> Any:
    """skew(vec)

    The matrix whose product with w is cross(vec, w).

    Parameters
    ----------
    vec : vector of three floats

    Returns
    -------
    A matrix of three rows and columns.

    Notes
    -----
    Derivative: Differences of opposite components of a cotangent.

    Examples
    --------
    .. code-block:: python

        e[i] = dk.skew(u)
    """

def argmin(a: Any) -> Any:
    """argmin(a)

    Where the smallest component of a vector stands.

    Parameters
    ----------
    a : vector of numbers

    Returns
    -------
    uint32: the first of equals; NaN is skipped.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        q[i] = int(dk.argmin(u))
    """

def argmax(a: Any) -> Any:
    """argmax(a)

    Where the greatest component of a vector stands.

    Parameters
    ----------
    a : vector of numbers

    Returns
    -------
    uint32: the first of equals; NaN is skipped.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        q[i] = int(dk.argmax(u))
    """

def identity(n: Any, dtype: Any = ...) -> Any:
    """identity(n, dtype=float)

    The identity matrix.

    Parameters
    ----------
    n : int, a literal
    dtype : type of float, optional

    Returns
    -------
    A square matrix.

    Notes
    -----
    Derivative: None: it is constant.

    Examples
    --------
    .. code-block:: python

        e[i] = dk.identity(n=3, dtype=dk.float32)
    """

def vector(*args: Any, **options: Any) -> Any:
    """vector(x, ..., length=None, dtype=None)

    The vector of the given components.

    Parameters
    ----------
    x, ... : all components, numbers or vectors, or one for all
    length : int, a literal, optional
    dtype : scalar type, optional

    Returns
    -------
    A vector; without components, zeros.

    Notes
    -----
    Derivative: Each component has its part of a cotangent.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.vector(x[i], 1.0, 2.0)
    """

def matrix(*args: Any, **options: Any) -> Any:
    """matrix(x, ..., shape, dtype=None)

    The matrix of the given components, row by row.

    Parameters
    ----------
    x, ... : all components, the rows, or one number for all
    shape : tuple of two ints, literals
    dtype : scalar type, optional

    Returns
    -------
    A matrix; without components, zeros.

    Notes
    -----
    Derivative: Each component has its part of a cotangent.

    Examples
    --------
    .. code-block:: python

        e[i] = dk.matrix(u, v, u, shape=(3, 3))
    """

def quaternion(*args: Any, **options: Any) -> Any:
    """quaternion(x, ..., dtype=None)

    The quaternion of the given components x, y, z, w.

    Parameters
    ----------
    x, ... : four numbers, or a vector of three and a number
    dtype : type of floats, optional

    Returns
    -------
    A quaternion.

    Notes
    -----
    Derivative: Each component has its part of a cotangent.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.quaternion(u, x[i]).w
    """

def transformation(p: Any, q: Any = ..., dtype: Any = ...) -> Any:
    """transformation(p, q, dtype=None)

    The transform of a translation and a rotation.

    Parameters
    ----------
    p : vector of three floats
    q : quaternion, optional
    dtype : type of floats, optional

    Returns
    -------
    A transform.

    Notes
    -----
    Derivative: Each component has its part of a cotangent.

    Examples
    --------
    .. code-block:: python

        w[i] = dk.transformation(u).p
    """

def complex(re: Any, im: Any = ...) -> Any:
    """complex(re, im=0.0)

    The complex number of a real and an imaginary part.

    Parameters
    ----------
    re : float
    im : float, optional

    Returns
    -------
    A complex number, as wide as its parts.

    Notes
    -----
    Derivative: Each component has its part of a cotangent.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.abs(dk.complex(x[i], 2.0))
    """

def matrix_from_rows(*r: Any) -> Any:
    """matrix_from_rows(r0, r1, ...)

    The matrix with the given rows.

    Parameters
    ----------
    r0, r1, ... : vector of floats, all of one length

    Returns
    -------
    A matrix.

    Notes
    -----
    Derivative: Each row has its part of a cotangent.

    Examples
    --------
    .. code-block:: python

        e[i] = dk.matrix_from_rows(u, v, u)
    """

def matrix_from_cols(*c: Any) -> Any:
    """matrix_from_cols(c0, c1, ...)

    The matrix with the given columns.

    Parameters
    ----------
    c0, c1, ... : vector of floats, all of one length

    Returns
    -------
    A matrix.

    Notes
    -----
    Derivative: Each column has its part of a cotangent.

    Examples
    --------
    .. code-block:: python

        e[i] = dk.matrix_from_cols(u, v, u)
    """

def atomic_add(*args: Any, **options: Any) -> Any:
    """atomic_add(arr, i, [j, ...] value)

    Add to an element at once; returns the old value.

    Parameters
    ----------
    arr : array
    i, ... : int
    value : float, int, vector or matrix

    Returns
    -------
    The old value.

    Notes
    -----
    Derivative: With respect to value, the cotangent of the element; the old value has none.

    Examples
    --------
    .. code-block:: python

        dk.atomic_add(y, 0, x[i])
    """

def atomic_sub(*args: Any, **options: Any) -> Any:
    """atomic_sub(arr, i, [j, ...] value)

    Subtract from an element at once; returns the old value.

    Parameters
    ----------
    arr : array
    i, ... : int
    value : float, int, vector or matrix

    Returns
    -------
    The old value.

    Notes
    -----
    Derivative: With respect to value, the negative cotangent of the element; the old value has none.

    Examples
    --------
    .. code-block:: python

        dk.atomic_sub(y, 0, x[i])
    """

def atomic_min(*args: Any, **options: Any) -> Any:
    """atomic_min(arr, i, [j, ...] value)

    Take the minimum with an element at once; returns the old value.

    Parameters
    ----------
    arr : array
    i, ... : int
    value : float, int, vector or matrix

    Returns
    -------
    The old value.

    Notes
    -----
    Derivative: Each component of the cotangent of the element goes to the value that supplied it.

    At kinks: Of threads with the same number one has the cotangent; none, if it was there before.

    Examples
    --------
    .. code-block:: python

        dk.atomic_min(y, 0, x[i])
    """

def atomic_max(*args: Any, **options: Any) -> Any:
    """atomic_max(arr, i, [j, ...] value)

    Take the maximum with an element at once; returns the old value.

    Parameters
    ----------
    arr : array
    i, ... : int
    value : float, int, vector or matrix

    Returns
    -------
    The old value.

    Notes
    -----
    Derivative: Each component of the cotangent of the element goes to the value that supplied it.

    At kinks: Of threads with the same number one has the cotangent; none, if it was there before.

    Examples
    --------
    .. code-block:: python

        dk.atomic_max(y, 0, x[i])
    """

def atomic_exch(*args: Any, **options: Any) -> Any:
    """atomic_exch(arr, i, [j, ...] value)

    Replace an element at once; returns the old value.

    Parameters
    ----------
    arr : array
    i, ... : int
    value : float, int, vector or matrix

    Returns
    -------
    The old value.

    Notes
    -----
    Derivative: None: a kernel that exchanges floats is refused when it is differentiated.

    Examples
    --------
    .. code-block:: python

        dk.atomic_exch(q, 0, p[i])
    """

def printf(*args: Any, **options: Any) -> Any:
    """printf(text, *values)

    Print a text with values in its fields, as C's printf does.

    Parameters
    ----------
    text : str, constant
    values : number, one for each field

    Notes
    -----
    Derivative: None: adjoints print nothing.

    Examples
    --------
    .. code-block:: python

        dk.printf("x[%d] = %g\n", i, x[i])
    """

def expect_eq(a: Any, b: Any) -> Any:
    """expect_eq(a, b)

    Print both where they are not equal.

    Parameters
    ----------
    a, b : number, vector or matrix, both of one type

    Notes
    -----
    Derivative: None: adjoints print nothing.

    Examples
    --------
    .. code-block:: python

        dk.expect_eq(p[i], p[i])
    """

def expect_neq(a: Any, b: Any) -> Any:
    """expect_neq(a, b)

    Print both where they are equal.

    Parameters
    ----------
    a, b : number, vector or matrix, both of one type

    Notes
    -----
    Derivative: None: adjoints print nothing.

    Examples
    --------
    .. code-block:: python

        dk.expect_neq(p[i], p[i] + 1)
    """

def expect_near(a: Any, b: Any, tolerance: Any = ...) -> Any:
    """expect_near(a, b, tolerance=1e-6)

    Print both where they are further apart than the tolerance.

    Parameters
    ----------
    a, b : number, vector or matrix, both of one type
    tolerance : float, optional

    Notes
    -----
    Derivative: None: adjoints print nothing.

    Examples
    --------
    .. code-block:: python

        dk.expect_near(x[i], x[i], 1e-3)
    """

def atomic_cas(*args: Any, **options: Any) -> Any:
    """atomic_cas(arr, i, [j, ...] compare, value)

    Replace an element at once if it equals compare; returns the old value.

    Parameters
    ----------
    arr : array of numbers
    i, ... : int
    compare, value : float or int

    Returns
    -------
    The old value.

    Notes
    -----
    Derivative: None: a kernel that replaces floats is refused when it is differentiated.

    Examples
    --------
    .. code-block:: python

        dk.atomic_cas(q, 0, 0, p[i])
    """

def atomic_and(*args: Any, **options: Any) -> Any:
    """atomic_and(arr, i, [j, ...] value)

    Combine the bits of an element by and at once; returns the old value.

    Parameters
    ----------
    arr : array of integers, vectors or matrices of them
    i, ... : int
    value : of the elements' type

    Returns
    -------
    The old value.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        dk.atomic_and(q, 0, p[i])
    """

def atomic_or(*args: Any, **options: Any) -> Any:
    """atomic_or(arr, i, [j, ...] value)

    Combine the bits of an element by or at once; returns the old value.

    Parameters
    ----------
    arr : array of integers, vectors or matrices of them
    i, ... : int
    value : of the elements' type

    Returns
    -------
    The old value.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        dk.atomic_or(q, 0, p[i])
    """

def atomic_xor(*args: Any, **options: Any) -> Any:
    """atomic_xor(arr, i, [j, ...] value)

    Combine the bits of an element by xor at once; returns the old value.

    Parameters
    ----------
    arr : array of integers, vectors or matrices of them
    i, ... : int
    value : of the elements' type

    Returns
    -------
    The old value.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        dk.atomic_xor(q, 0, p[i])
    """

def shared_array(shape: Any, dtype: Any = ...) -> Any:
    """shared_array(shape, dtype=float)

    An array that the threads of a block share; its contents are undefined.

    Parameters
    ----------
    shape : int or tuple of int, literals
    dtype : type of number, optional

    Returns
    -------
    An array of the block.

    Notes
    -----
    Derivative: Elements carry their cotangents.

    Examples
    --------
    .. code-block:: python

        s = dk.shared_array(shape=4, dtype=dk.float32)
    """

def syncthreads() -> None:
    """syncthreads()

    Wait until all threads of the block are here; what they wrote is seen afterwards.

    Notes
    -----
    Derivative: None; the adjoint waits in its place.

    Examples
    --------
    .. code-block:: python

        dk.syncthreads()
    """

def block_dim() -> int:
    """block_dim()

    Number of threads of a block.

    Returns
    -------
    int

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.block_dim()
    """

def thread_index() -> int:
    """thread_index()

    The thread's index in its block.

    Returns
    -------
    int

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.thread_index()
    """

def block_index() -> int:
    """block_index()

    Which block of the launch the thread belongs to.

    Returns
    -------
    int

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        q[i] = dk.block_index()
    """

def tile(x: Any, preserve_type: Any = ...) -> Any:
    """tile(x, preserve_type=False)

    A tile of what the threads of the block hold; on the CPU a block is a thread.

    Parameters
    ----------
    x : number, vector or matrix
    preserve_type : bool, optional

    Returns
    -------
    A tile whose last axis is the block's threads.

    Notes
    -----
    Derivative: Cotangents go where the elements came from.

    Examples
    --------
    .. code-block:: python

        s = dk.tile(x[i])
    """

def untile(a: Any) -> Any:
    """untile(a)

    The element of a tile that belongs to this thread of the block.

    Parameters
    ----------
    a : tile whose last axis is the block's threads

    Returns
    -------
    A number or vector.

    Notes
    -----
    Derivative: Cotangents go where the elements came from.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.untile(dk.tile(x[i]))
    """

def tile_from_thread(shape: Any, value: Any, thread_idx: Any, storage: Any = ...) -> Any:
    """tile_from_thread(shape, value, thread_idx, storage='register')

    A tile of what one thread of the block holds.

    Parameters
    ----------
    shape : int or tuple of int, literals
    value : number, vector or matrix
    thread_idx : int
    storage : str, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: The thread takes the sum of the cotangents.

    Examples
    --------
    .. code-block:: python

        dk.tile_store(c, dk.tile_from_thread((4, 4), x[i], 0))
    """

def tile_randi(*args: Any, **options: Any) -> Any:
    """tile_randi(shape, rng, [min, max], storage='register')

    Random integers, each the first draw of a generator of its own; the state rng is not advanced.

    Parameters
    ----------
    shape : int or tuple of int, literals
    rng : uint32
    min, max : int, optional
    storage : str, optional

    Returns
    -------
    A tile of int32.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_randi(4, dk.rand_init(7, i), 0, 10)
    """

def tile_randf(*args: Any, **options: Any) -> Any:
    """tile_randf(shape, rng, [min, max], storage='register')

    Random numbers of [0, 1), or of [min, max), drawn as by tile_randi.

    Parameters
    ----------
    shape : int or tuple of int, literals
    rng : uint32
    min, max : float, optional
    storage : str, optional

    Returns
    -------
    A tile of float32.

    Notes
    -----
    Derivative: 1 - r and r with respect to min and max, for the draws r of [0, 1).

    Examples
    --------
    .. code-block:: python

        dk.tile_store(y, dk.tile_randf(4, dk.rand_init(7, i), 0.0, x[0]))
    """

def tile_zeros(shape: Any, dtype: Any = ..., storage: Any = ...) -> Any:
    """tile_zeros(shape, dtype=float, storage='register')

    A tile of zeros.

    Parameters
    ----------
    shape : int or tuple of int, literals
    dtype : type of number, optional
    storage : str, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: None: it is constant.

    Examples
    --------
    .. code-block:: python

        dk.tile_store(c, dk.tile_zeros(shape=(4, 4), dtype=float))
    """

def tile_empty(shape: Any, dtype: Any = ..., storage: Any = ...) -> Any:
    """tile_empty(shape, dtype=float, storage='register')

    A tile of zeros.

    Parameters
    ----------
    shape : int or tuple of int, literals
    dtype : type of number, optional
    storage : str, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: None: it is constant.

    Examples
    --------
    .. code-block:: python

        dk.tile_store(c, dk.tile_empty(shape=(4, 4), dtype=float))
    """

def tile_ones(shape: Any, dtype: Any = ..., storage: Any = ...) -> Any:
    """tile_ones(shape, dtype=float, storage='register')

    A tile of ones.

    Parameters
    ----------
    shape : int or tuple of int, literals
    dtype : type of number, optional
    storage : str, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: None: it is constant.

    Examples
    --------
    .. code-block:: python

        dk.tile_store(c, dk.tile_ones(shape=(4, 4), dtype=float))
    """

def tile_full(shape: Any, value: Any, dtype: Any = ..., storage: Any = ...) -> Any:
    """tile_full(shape, value, dtype=None, storage='register')

    A tile of one value.

    Parameters
    ----------
    shape : int or tuple of int, literals
    value : number
    dtype : type of number, optional
    storage : str, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: With respect to value, the sum of the cotangents.

    Examples
    --------
    .. code-block:: python

        dk.tile_store(c, dk.tile_full(shape=(4, 4), value=x[0], dtype=float))
    """

def tile_arange(*args: Any, **options: Any) -> Any:
    """tile_arange([start,] stop, [step], dtype=None, storage='register')

    A tile of evenly spaced numbers.

    Parameters
    ----------
    start, stop, step : number
    dtype : type of number, optional
    storage : str, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: None: it is constant.

    Examples
    --------
    .. code-block:: python

        dk.tile_store(y, dk.tile_arange(4, dtype=float))
    """

def tile_load(a: Any, shape: Any, offset: Any = ..., storage: Any = ..., bounds_check: Any = ..., aligned: Any = ...) -> Any:
    """tile_load(a, shape, offset=None, storage='register', bounds_check=True, aligned=False)

    A tile of an array; what lies outside the array is 0.

    Parameters
    ----------
    a : array
    shape : int or tuple of int, literals
    offset : tuple of int, optional
    storage : str, optional
    bounds_check, aligned : bool, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: Cotangents go where the elements came from.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        dk.tile_store(c, s)
    """

def tile_store(a: Any, t: Any, offset: Any = ..., bounds_check: Any = ..., aligned: Any = ...) -> Any:
    """tile_store(a, t, offset=None, bounds_check=True, aligned=False)

    Write a tile to an array; what lies outside the array is left out.

    Parameters
    ----------
    a : array
    t : tile
    offset : tuple of int, optional
    bounds_check, aligned : bool, optional

    Notes
    -----
    Derivative: The tile takes the cotangents of what it overwrites.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        dk.tile_store(c, s)
    """

def tile_atomic_add(a: Any, t: Any, offset: Any = ..., bounds_check: Any = ..., aligned: Any = ...) -> Any:
    """tile_atomic_add(a, t, offset=None, bounds_check=True, aligned=False)

    Add a tile to an array, each element at once; returns the old elements.

    Parameters
    ----------
    a : array
    t : tile
    offset : tuple of int, optional
    bounds_check, aligned : bool, optional

    Returns
    -------
    A tile of the old elements.

    Notes
    -----
    Derivative: The tile takes the cotangents of the elements; the old ones have none.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        dk.tile_atomic_add(c, s)
    """

def tile_load_indexed(a: Any, indices: Any, shape: Any, offset: Any = ..., axis: Any = ..., storage: Any = ...) -> Any:
    """tile_load_indexed(a, indices, shape, offset=None, axis=0, storage='register')

    A tile of an array, along an axis of the elements that indices name; 0 outside the array.

    Parameters
    ----------
    a : array
    indices : tile of int of one axis
    shape : int or tuple of int, literals
    offset : tuple of int, optional
    axis : int, literal, optional
    storage : str, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: Cotangents are added where the elements stand.

    Examples
    --------
    .. code-block:: python

        r = dk.tile_load(x, shape=4)
        dk.tile_store(y, dk.tile_load_indexed(x, dk.tile_arange(3, -1, -1), shape=4))
    """

def tile_store_indexed(a: Any, indices: Any, t: Any, offset: Any = ..., axis: Any = ...) -> Any:
    """tile_store_indexed(a, indices, t, offset=None, axis=0)

    Write a tile to an array, along an axis where indices say, no two of them equal.

    Parameters
    ----------
    a : array
    indices : tile of int of one axis
    t : tile
    offset : tuple of int, optional
    axis : int, literal, optional

    Notes
    -----
    Derivative: The tile takes the cotangents of what it overwrites.

    Examples
    --------
    .. code-block:: python

        r = dk.tile_load(x, shape=4)
        dk.tile_store_indexed(y, dk.tile_arange(3, -1, -1), r)
    """

def tile_atomic_add_indexed(a: Any, indices: Any, t: Any, offset: Any = ..., axis: Any = ...) -> Any:
    """tile_atomic_add_indexed(a, indices, t, offset=None, axis=0)

    Add a tile to an array, along an axis where indices say; returns the old elements.

    Parameters
    ----------
    a : array
    indices : tile of int of one axis
    t : tile
    offset : tuple of int, optional
    axis : int, literal, optional

    Returns
    -------
    A tile of the old elements.

    Notes
    -----
    Derivative: The tile takes the cotangents of the elements; the old ones have none.

    Examples
    --------
    .. code-block:: python

        r = dk.tile_load(x, shape=4)
        dk.tile_atomic_add_indexed(y, dk.tile_arange(3, -1, -1), r)
    """

def tile_slice_indexed(t: Any, indices: Any) -> Any:
    """tile_slice_indexed(t, indices)

    t[indices, :]: what a tile of indices takes along an axis of a tile.

    Parameters
    ----------
    t : tile
    indices : tile of int of one axis, for the first axis of t

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: Cotangents are added where the elements stood.

    Examples
    --------
    .. code-block:: python

        r = dk.tile_load(x, shape=4)
        k = dk.tile_arange(3, -1, -1)
        dk.tile_store(y, r[k])
    """

def tile_scatter_add(*args: Any, **options: Any) -> Any:
    """tile_scatter_add(a, i, [j, ...] value, has_value, atomic=True)

    Add what each thread has to the element of the tile a that the thread names.

    Parameters
    ----------
    a : tile
    i, ... : int
    value : number, vector or matrix
    has_value : bool
    atomic : bool, optional

    Notes
    -----
    Derivative: value takes the cotangent of its element, if has_value.

    Examples
    --------
    .. code-block:: python

        r = dk.tile_load(x, shape=4)
        dk.tile_scatter_add(r, 0, x[i], True)
        dk.tile_store(y, r)
    """

def tile_scatter_masked(*args: Any, **options: Any) -> Any:
    """tile_scatter_masked(a, i, [j, ...] value, has_value)

    Write what each thread has to the element of the tile a that the thread names.

    Parameters
    ----------
    a : tile
    i, ... : int
    value : number, vector or matrix
    has_value : bool

    Notes
    -----
    Derivative: value takes the cotangent of its element, if has_value; what was overwritten has none.

    Examples
    --------
    .. code-block:: python

        r = dk.tile_load(x, shape=4)
        dk.tile_scatter_masked(r, 0, x[i], i < 4)
        dk.tile_store(y, r)
    """

def tile_bit_and_inplace(*args: Any, **options: Any) -> Any:
    """tile_bit_and_inplace(a, i, [j, ...] value)

    Combine the bits of an element of the tile a by and.

    Parameters
    ----------
    a : tile
    i, ... : int
    value : int

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        t = dk.tile_arange(4)
        dk.tile_bit_and_inplace(t, 1, 3)
        q[i] = dk.tile_extract(t, 1)
    """

def tile_bit_or_inplace(*args: Any, **options: Any) -> Any:
    """tile_bit_or_inplace(a, i, [j, ...] value)

    Combine the bits of an element of the tile a by or.

    Parameters
    ----------
    a : tile
    i, ... : int
    value : int

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        t = dk.tile_arange(4)
        dk.tile_bit_or_inplace(t, 1, 3)
        q[i] = dk.tile_extract(t, 1)
    """

def tile_bit_xor_inplace(*args: Any, **options: Any) -> Any:
    """tile_bit_xor_inplace(a, i, [j, ...] value)

    Combine the bits of an element of the tile a by xor.

    Parameters
    ----------
    a : tile
    i, ... : int
    value : int

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        t = dk.tile_arange(4)
        dk.tile_bit_xor_inplace(t, 1, 3)
        q[i] = dk.tile_extract(t, 1)
    """

def tile_stack(capacity: Any, dtype: Any) -> Any:
    """tile_stack(capacity, dtype)

    An empty stack that the threads of a block share.

    Parameters
    ----------
    capacity : int, literal
    dtype : type

    Returns
    -------
    A stack.

    Notes
    -----
    Derivative: None: it is constant.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_stack(8, float)
    """

def tile_stack_push(s: Any, value: Any, has_value: Any) -> Any:
    """tile_stack_push(s, value, has_value)

    Push what each thread has; returns the item's place, or -1 for none.

    Parameters
    ----------
    s : stack
    value : element
    has_value : bool

    Returns
    -------
    An int32.

    Notes
    -----
    Derivative: Items carry their cotangents.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_stack(8, float)
        q[i] = dk.tile_stack_push(s, x[i], True)
    """

def tile_stack_pop(s: Any) -> Any:
    """tile_stack_pop(s)

    Pop an item for each thread; returns it and its place, which is -1 where there is none.

    Parameters
    ----------
    s : stack

    Returns
    -------
    A tuple of an element and an int32.

    Notes
    -----
    Derivative: Items carry their cotangents.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_stack(8, float)
        dk.tile_stack_push(s, x[i], True)
        item, place = dk.tile_stack_pop(s)
    """

def tile_stack_clear(s: Any) -> Any:
    """tile_stack_clear(s)

    Make a stack empty.

    Parameters
    ----------
    s : stack

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_stack(8, float)
        dk.tile_stack_clear(s)
    """

def tile_stack_count(s: Any) -> Any:
    """tile_stack_count(s)

    How many items are on a stack.

    Parameters
    ----------
    s : stack

    Returns
    -------
    An int32.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_stack(8, float)
        q[i] = dk.tile_stack_count(s)
    """

def tile_view(t: Any, offset: Any, shape: Any = ...) -> Any:
    """tile_view(t, offset, shape=None)

    A part of a tile.

    Parameters
    ----------
    t : tile
    offset : tuple of int
    shape : tuple of int, literals, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: Cotangents go where the elements came from.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        dk.tile_store(c, dk.tile_view(s, offset=(0, 0), shape=(2, 2)))
    """

def tile_assign(dst: Any, src: Any, offset: Any = ...) -> Any:
    """tile_assign(dst, src, offset=None)

    Replace a part of the tile dst by the tile src.

    Parameters
    ----------
    dst, src : tile
    offset : tuple of int, optional

    Notes
    -----
    Derivative: Cotangents go where the elements came from.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        z = dk.tile_zeros(shape=(4, 4), dtype=float)
        dk.tile_assign(z, s, offset=(0, 0))
        dk.tile_store(c, z)
    """

def tile_extract(*t: Any) -> Any:
    """tile_extract(t, i, ...)

    An element of a tile.

    Parameters
    ----------
    t : tile
    i, ... : int

    Returns
    -------
    A number.

    Notes
    -----
    Derivative: Cotangents go where the elements came from.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        y[i] = dk.tile_extract(s, 1, 2)
    """

def tile_transpose(a: Any) -> Any:
    """tile_transpose(a)

    The transposed tile.

    Parameters
    ----------
    a : tile of two axes

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: Cotangents go where the elements came from.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        dk.tile_store(c, dk.tile_transpose(s))
    """

def tile_broadcast(a: Any, shape: Any) -> Any:
    """tile_broadcast(a, shape)

    The tile extended to a shape, as NumPy does.

    Parameters
    ----------
    a : tile
    shape : tuple of int, literals

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: The sum of the cotangents of its copies.

    Examples
    --------
    .. code-block:: python

        r = dk.tile_load(x, shape=4)
        dk.tile_store(c, dk.tile_broadcast(r, shape=(4, 4)))
    """

def tile_reshape(t: Any, shape: Any) -> Any:
    """tile_reshape(t, shape)

    The same elements in another shape.

    Parameters
    ----------
    t : tile
    shape : tuple of int, literals

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: Cotangents go where the elements came from.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        t = dk.tile_reshape(s, shape=(2, 8))
    """

def tile_squeeze(t: Any, axis: Any = ...) -> Any:
    """tile_squeeze(t, axis=None)

    The tile without axes of extent 1.

    Parameters
    ----------
    t : tile
    axis : int or tuple of int, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: Cotangents go where the elements came from.

    Examples
    --------
    .. code-block:: python

        t = dk.tile_squeeze(dk.tile_load(a, shape=(1, 4)))
    """

def tile_astype(t: Any, dtype: Any) -> Any:
    """tile_astype(t, dtype)

    The elements converted to another type of number.

    Parameters
    ----------
    t : tile
    dtype : type of number

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: 1, between floats.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        t = dk.tile_astype(s, dtype=dk.float64)
    """

def tile_map(*args: Any, **options: Any) -> Any:
    """tile_map(op, a, [b, ...])

    A function of the elements of one or more tiles of one shape.

    Parameters
    ----------
    op : function of numbers
    a, b, ... : tile, of one shape

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: That of the function, element by element.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        dk.tile_store(c, dk.tile_map(dk.sin, s))
    """

def tile_dot(a: Any, b: Any) -> Any:
    """tile_dot(a, b)

    The sum of the products of the elements, as a tile of shape (1,).

    Parameters
    ----------
    a, b : tile, of one shape

    Returns
    -------
    A tile of shape (1,).

    Notes
    -----
    Derivative: b and a.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        y[i] = dk.tile_extract(dk.tile_dot(s, s), 0)
    """

def tile_axpy(alpha: Any, src: Any, dest: Any) -> Any:
    """tile_axpy(alpha, src, dest)

    Add alpha * src to the tile dest.

    Parameters
    ----------
    alpha : number
    src, dest : tile, of one shape

    Notes
    -----
    Derivative: As that of dest + alpha * src.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        t = dk.tile_zeros(shape=(4, 4), dtype=float)
        dk.tile_axpy(2.0, s, t)
        dk.tile_store(c, t)
    """

def tile_add_inplace(a: Any, b: Any) -> Any:
    """tile_add_inplace(a, b)

    Add the tile b to the tile a.

    Parameters
    ----------
    a, b : tile, of one shape

    Notes
    -----
    Derivative: As that of the function that makes a new tile.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        t = dk.tile_ones(shape=(4, 4), dtype=float)
        dk.tile_add_inplace(t, s)
        dk.tile_store(c, t)
    """

def tile_sub_inplace(a: Any, b: Any) -> Any:
    """tile_sub_inplace(a, b)

    Subtract the tile b from the tile a.

    Parameters
    ----------
    a, b : tile, of one shape

    Notes
    -----
    Derivative: As that of the function that makes a new tile.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        t = dk.tile_ones(shape=(4, 4), dtype=float)
        dk.tile_sub_inplace(t, s)
        dk.tile_store(c, t)
    """

def tile_sum(a: Any, axis: Any = ...) -> Any:
    """tile_sum(a, axis=None)

    The sum of the elements, of all as a tile of shape (1,).

    Parameters
    ----------
    a : tile
    axis : int, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: 1 for each element.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        y[i] = dk.tile_extract(dk.tile_sum(s), 0)
    """

def tile_min(a: Any, axis: Any = ...) -> Any:
    """tile_min(a, axis=None)

    The smallest element, of all as a tile of shape (1,); of vectors each component's.

    Parameters
    ----------
    a : tile
    axis : int, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: 1 for the element that was taken, 0 for the others.

    At kinks: Of equal ones the first is taken.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        y[i] = dk.tile_extract(dk.tile_min(s), 0)
    """

def tile_max(a: Any, axis: Any = ...) -> Any:
    """tile_max(a, axis=None)

    The greatest element, of all as a tile of shape (1,); of vectors each component's.

    Parameters
    ----------
    a : tile
    axis : int, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: 1 for the element that was taken, 0 for the others.

    At kinks: Of equal ones the first is taken.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        y[i] = dk.tile_extract(dk.tile_max(s), 0)
    """

def tile_reduce(op: Any, a: Any, axis: Any = ...) -> Any:
    """tile_reduce(op, a, axis=None)

    All elements combined by a function of two.

    Parameters
    ----------
    op : function of two numbers
    a : tile
    axis : int, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: That of the function, along the chain of its calls.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        y[i] = dk.tile_extract(dk.tile_reduce(dk.max, s), 0)
    """

def tile_argmin(a: Any) -> Any:
    """tile_argmin(a)

    Where the smallest element stands in row-major order, as a tile of shape (1,).

    Parameters
    ----------
    a : tile

    Returns
    -------
    A tile of one int32.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        q[i] = dk.tile_extract(dk.tile_argmin(s), 0)
    """

def tile_argmax(a: Any) -> Any:
    """tile_argmax(a)

    Where the greatest element stands in row-major order, as a tile of shape (1,).

    Parameters
    ----------
    a : tile

    Returns
    -------
    A tile of one int32.

    Notes
    -----
    Derivative: None: no floats come back.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        q[i] = dk.tile_extract(dk.tile_argmax(s), 0)
    """

def tile_scan_inclusive(a: Any) -> Any:
    """tile_scan_inclusive(a)

    The sums of the elements up to each one, in row-major order.

    Parameters
    ----------
    a : tile

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: The sum of the later cotangents, its own included.

    Examples
    --------
    .. code-block:: python

        r = dk.tile_load(x, shape=4)
        dk.tile_store(y, dk.tile_scan_inclusive(r))
    """

def tile_scan_exclusive(a: Any) -> Any:
    """tile_scan_exclusive(a)

    The sums of the elements before each one, in row-major order.

    Parameters
    ----------
    a : tile

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: The sum of the later cotangents.

    Examples
    --------
    .. code-block:: python

        r = dk.tile_load(x, shape=4)
        dk.tile_store(y, dk.tile_scan_exclusive(r))
    """

def tile_scan_max_inclusive(a: Any) -> Any:
    """tile_scan_max_inclusive(a)

    The greatest of the elements up to each one, in row-major order.

    Parameters
    ----------
    a : tile

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: A cotangent goes to the element that is the extremum.

    At kinks: Of equal ones the first is taken.

    Examples
    --------
    .. code-block:: python

        r = dk.tile_load(x, shape=4)
        dk.tile_store(y, dk.tile_scan_max_inclusive(r))
    """

def tile_scan_min_inclusive(a: Any) -> Any:
    """tile_scan_min_inclusive(a)

    The smallest of the elements up to each one, in row-major order.

    Parameters
    ----------
    a : tile

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: A cotangent goes to the element that is the extremum.

    At kinks: Of equal ones the first is taken.

    Examples
    --------
    .. code-block:: python

        r = dk.tile_load(x, shape=4)
        dk.tile_store(y, dk.tile_scan_min_inclusive(r))
    """

def tile_fft(inout: Any) -> Any:
    """tile_fft(inout)

    Make the rows of a tile of complex numbers, as vec2, their Fourier transforms.

    Parameters
    ----------
    inout : tile of vec2 or vec2d, of any length

    Notes
    -----
    Derivative: tile_ifft of a cotangent.

    Examples
    --------
    .. code-block:: python

        t = dk.tile_zeros(shape=8, dtype=dk.vec2)
        t[0] = dk.vec2(x[i], 0.0)
        dk.tile_fft(t)
    """

def tile_ifft(inout: Any) -> Any:
    """tile_ifft(inout)

    The inverse of tile_fft, times the length of a row.

    Parameters
    ----------
    inout : tile of vec2 or vec2d, of any length

    Notes
    -----
    Derivative: tile_fft of a cotangent.

    Examples
    --------
    .. code-block:: python

        t = dk.tile_zeros(shape=8, dtype=dk.vec2)
        t[0] = dk.vec2(x[i], 0.0)
        dk.tile_ifft(t)
    """

def tile_sort(keys: Any, values: Any) -> Any:
    """tile_sort(keys, values)

    Sort both tiles by the keys, ascending; equal keys keep their order.

    Parameters
    ----------
    keys, values : tile of one axis, of one length

    Notes
    -----
    Derivative: Cotangents go back where the elements stood.

    Examples
    --------
    .. code-block:: python

        r = dk.tile_load(x, shape=4)
        t = dk.tile_arange(4, dtype=int)
        dk.tile_sort(r, t)
        dk.tile_store(y, r)
    """

def tile_matmul(*args: Any, **options: Any) -> Any:
    """tile_matmul(a, b, [out], alpha=1.0, beta=1.0, precision='default')

    The matrix product; with out, out = alpha * a @ b + beta * out.

    Parameters
    ----------
    a, b : tile of two axes
    out : tile, optional
    alpha, beta : number, optional
    precision : str, optional

    Returns
    -------
    A tile; with out, nothing.

    Notes
    -----
    Derivative: alpha * C b^T and alpha * a^T C for a cotangent C.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        dk.tile_store(c, dk.tile_matmul(s, s))
    """

def tile_diag_add(a: Any, d: Any) -> Any:
    """tile_diag_add(a, d)

    The square tile a with the elements of d added to its diagonal.

    Parameters
    ----------
    a : tile, square
    d : tile of one axis

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: 1; for d the diagonal of a cotangent.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        dk.tile_store(c, dk.tile_diag_add(s, dk.tile_load(x, shape=4)))
    """

def tile_cholesky(A: Any, fill_mode: Any = ...) -> Any:
    """tile_cholesky(A, fill_mode='lower')

    The factor L with L @ L^T = A, or U with U^T @ U = A.

    Parameters
    ----------
    A : tile, symmetric and positive definite
    fill_mode : 'lower' or 'upper', optional

    Returns
    -------
    A tile, a triangle.

    Notes
    -----
    Derivative: A symmetric matrix, from two triangular solves.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        s = dk.tile_matmul(dk.tile_transpose(s), s)
        s = dk.tile_diag_add(s, dk.tile_ones(shape=4, dtype=float))
        dk.tile_store(c, dk.tile_cholesky(s))
    """

def tile_cholesky_solve(L: Any, y: Any, fill_mode: Any = ...) -> Any:
    """tile_cholesky_solve(L, y, fill_mode='lower')

    The solution x of A x = y, for the factor of A.

    Parameters
    ----------
    L : tile, a triangle
    y : tile of one or two axes
    fill_mode : 'lower' or 'upper', optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: Solves with the same factor; of the factor, an outer product.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        s = dk.tile_matmul(dk.tile_transpose(s), s)
        s = dk.tile_diag_add(s, dk.tile_ones(shape=4, dtype=float))
        r = dk.tile_load(x, shape=4)
        l = dk.tile_cholesky(s)
        dk.tile_store(y, dk.tile_cholesky_solve(l, r))
    """

def tile_lower_solve(L: Any, y: Any) -> Any:
    """tile_lower_solve(L, y)

    The solution z of L z = y for a lower triangle L.

    Parameters
    ----------
    L : tile, a triangle
    y : tile of one or two axes

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: A solve with the transposed factor; of the factor, an outer product.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        s = dk.tile_matmul(dk.tile_transpose(s), s)
        s = dk.tile_diag_add(s, dk.tile_ones(shape=4, dtype=float))
        r = dk.tile_load(x, shape=4)
        l = dk.tile_cholesky(s)
        dk.tile_store(y, dk.tile_lower_solve(l, r))
    """

def tile_upper_solve(U: Any, z: Any) -> Any:
    """tile_upper_solve(U, z)

    The solution x of U x = z for an upper triangle U.

    Parameters
    ----------
    U : tile, a triangle
    z : tile of one or two axes

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: A solve with the transposed factor; of the factor, an outer product.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        s = dk.tile_matmul(dk.tile_transpose(s), s)
        s = dk.tile_diag_add(s, dk.tile_ones(shape=4, dtype=float))
        r = dk.tile_load(x, shape=4)
        l = dk.tile_cholesky(s)
        dk.tile_store(y, dk.tile_upper_solve(dk.tile_transpose(l), r))
    """

def tile_cholesky_inplace(A: Any, fill_mode: Any = ...) -> Any:
    """tile_cholesky_inplace(A, fill_mode='lower')

    Make the tile A its factor.

    Parameters
    ----------
    A : tile, symmetric and positive definite
    fill_mode : 'lower' or 'upper', optional

    Notes
    -----
    Derivative: As that of the function that makes a new tile.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        s = dk.tile_matmul(dk.tile_transpose(s), s)
        s = dk.tile_diag_add(s, dk.tile_ones(shape=4, dtype=float))
        dk.tile_cholesky_inplace(s)
        dk.tile_store(c, s)
    """

def tile_cholesky_solve_inplace(L: Any, y: Any, fill_mode: Any = ...) -> Any:
    """tile_cholesky_solve_inplace(L, y, fill_mode='lower')

    Make the tile y the solution x of A x = y.

    Parameters
    ----------
    L : tile, a triangle
    y : tile of one or two axes
    fill_mode : 'lower' or 'upper', optional

    Notes
    -----
    Derivative: As that of the function that makes a new tile.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        s = dk.tile_matmul(dk.tile_transpose(s), s)
        s = dk.tile_diag_add(s, dk.tile_ones(shape=4, dtype=float))
        r = dk.tile_load(x, shape=4)
        l = dk.tile_cholesky(s)
        dk.tile_cholesky_solve_inplace(l, r)
        dk.tile_store(y, r)
    """

def tile_lower_solve_inplace(L: Any, y: Any) -> Any:
    """tile_lower_solve_inplace(L, y)

    Make the tile y the solution z of L z = y.

    Parameters
    ----------
    L : tile, a triangle
    y : tile of one or two axes

    Notes
    -----
    Derivative: As that of the function that makes a new tile.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        s = dk.tile_matmul(dk.tile_transpose(s), s)
        s = dk.tile_diag_add(s, dk.tile_ones(shape=4, dtype=float))
        r = dk.tile_load(x, shape=4)
        l = dk.tile_cholesky(s)
        dk.tile_lower_solve_inplace(l, r)
        dk.tile_store(y, r)
    """

def tile_upper_solve_inplace(U: Any, z: Any) -> Any:
    """tile_upper_solve_inplace(U, z)

    Make the tile z the solution x of U x = z.

    Parameters
    ----------
    U : tile, a triangle
    z : tile of one or two axes

    Notes
    -----
    Derivative: As that of the function that makes a new tile.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        s = dk.tile_matmul(dk.tile_transpose(s), s)
        s = dk.tile_diag_add(s, dk.tile_ones(shape=4, dtype=float))
        r = dk.tile_load(x, shape=4)
        l = dk.tile_cholesky(s)
        dk.tile_upper_solve_inplace(dk.tile_transpose(l), r)
        dk.tile_store(y, r)
    """

__all__ = [
    "ANY",
    "AutodiffError",
    "Bvh",
    "BvhQuery",
    "BvhQueryTiled",
    "CompileError",
    "CudaError",
    "CustomOperation",
    "Device",
    "E",
    "Event",
    "Float",
    "Graph",
    "HALF_PI",
    "HashGrid",
    "HashGridQuery",
    "INF",
    "Int",
    "Kernel",
    "KernelError",
    "KernelRuntimeError",
    "KernelSyntaxError",
    "KernelTypeError",
    "LN10",
    "LN2",
    "LOG10E",
    "LOG2E",
    "Launch",
    "LaunchError",
    "MarchingCubes",
    "Mesh",
    "MeshQuery",
    "MeshQueryAABBTiled",
    "MeshQueryPoint",
    "MeshQueryRay",
    "MisuseError",
    "NAN",
    "NonFiniteError",
    "PHI",
    "PI",
    "Scalar",
    "ScopedCapture",
    "ScopedDevice",
    "ScopedStream",
    "ScopedTimer",
    "ScopedTrace",
    "Sequence",
    "Stream",
    "SurfaceNets",
    "TAU",
    "Tangents",
    "Tape",
    "Texture",
    "Texture1D",
    "Texture2D",
    "Texture3D",
    "TextureAddressMode",
    "TextureFilterMode",
    "Tuned",
    "TuningRow",
    "Volume",
    "__version__",
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
    "bool_",
    "bvh_get_group_root",
    "bvh_query_aabb",
    "bvh_query_capsule",
    "bvh_query_next",
    "bvh_query_ray",
    "bvh_query_sphere",
    "capture_begin",
    "capture_end",
    "capture_if",
    "capture_launch",
    "capture_while",
    "cast",
    "cbrt",
    "ceil",
    "checkpoint",
    "clamp",
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
    "fixed_point",
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
    "from_torch",
    "full",
    "full_like",
    "func",
    "func_grad",
    "func_replay",
    "gamma",
    "get_cuda_device",
    "get_cuda_device_count",
    "get_cuda_devices",
    "get_device",
    "get_devices",
    "get_diag",
    "get_event_elapsed_time",
    "get_module_options",
    "get_preferred_device",
    "get_stream",
    "grad",
    "half_pi",
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
    "inf",
    "init",
    "int16",
    "int32",
    "int64",
    "int8",
    "intersect_tri_tri",
    "inverse",
    "inverse_approx",
    "invert",
    "is_cpu_available",
    "is_cuda_available",
    "is_device_available",
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
    "length",
    "length_sq",
    "lerp",
    "lgamma",
    "linear_solve",
    "lipschitz_octree",
    "ln10",
    "ln2",
    "load",
    "log",
    "log10",
    "log10e",
    "log1p",
    "log2",
    "log2e",
    "lower_bound",
    "lshift",
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
    "phi",
    "pi",
    "pnoise",
    "poisson",
    "pos",
    "pow",
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
    "record",
    "record_event",
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
    "sparse_marching_cubes",
    "sparse_marching_cubes_from_cells",
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
