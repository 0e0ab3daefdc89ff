"""The public names of diffkern, with their types. Written by tools/typing_stub.py."""

from typing import Any, TypeVar, overload

from typing_extensions import Self, TypeAlias, dataclass_transform

from diffkern._version import __version__ as __version__
from diffkern.build.ahead import compile_kernels as compile
from diffkern.build.ahead import force_load as force_load
from diffkern.build.ship import load_directory as load
from diffkern.build.stores import clear_kernel_cache as clear_kernel_cache
from diffkern.build.stores import clear_lto_cache as clear_lto_cache
from diffkern.decorator import kernel as kernel
from diffkern.errors import AutodiffError as AutodiffError
from diffkern.errors import CompileError as CompileError
from diffkern.errors import CudaError as CudaError
from diffkern.errors import KernelError as KernelError
from diffkern.errors import KernelRuntimeError as KernelRuntimeError
from diffkern.errors import KernelSyntaxError as KernelSyntaxError
from diffkern.errors import KernelTypeError as KernelTypeError
from diffkern.errors import LaunchError as LaunchError
from diffkern.errors import MisuseError as MisuseError
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
from diffkern.kernel import Kernel as Kernel
from diffkern.lang.dtypes import dtype_from_numpy as dtype_from_numpy
from diffkern.lang.dtypes import dtype_to_numpy as dtype_to_numpy
from diffkern.lang.func import constant as constant
from diffkern.lang.func import func as func
from diffkern.runtime.array import array as array
from diffkern.runtime.array import clone as clone
from diffkern.runtime.array import copy as copy
from diffkern.runtime.config import config as config
from diffkern.runtime.create import empty as empty
from diffkern.runtime.create import empty_like as empty_like
from diffkern.runtime.create import from_numpy as from_numpy
from diffkern.runtime.create import full as full
from diffkern.runtime.create import full_like as full_like
from diffkern.runtime.create import ones as ones
from diffkern.runtime.create import ones_like as ones_like
from diffkern.runtime.create import zeros as zeros
from diffkern.runtime.create import zeros_like as zeros_like
from diffkern.runtime.device import Device as Device
from diffkern.runtime.device import ScopedDevice as ScopedDevice
from diffkern.runtime.device import get_cuda_device as get_cuda_device
from diffkern.runtime.device import get_cuda_device_count as get_cuda_device_count
from diffkern.runtime.device import get_cuda_devices as get_cuda_devices
from diffkern.runtime.device import get_device as get_device
from diffkern.runtime.device import get_devices as get_devices
from diffkern.runtime.device import get_preferred_device as get_preferred_device
from diffkern.runtime.device import init as init
from diffkern.runtime.device import is_cpu_available as is_cpu_available
from diffkern.runtime.device import is_cuda_available as is_cuda_available
from diffkern.runtime.device import is_device_available as is_device_available
from diffkern.runtime.device import is_peer_access_enabled as is_peer_access_enabled
from diffkern.runtime.device import is_peer_access_supported as is_peer_access_supported
from diffkern.runtime.device import set_device as set_device
from diffkern.runtime.device import set_peer_access_enabled as set_peer_access_enabled
from diffkern.runtime.graph import Graph as Graph
from diffkern.runtime.graph import ScopedCapture as ScopedCapture
from diffkern.runtime.graph import capture_begin as capture_begin
from diffkern.runtime.graph import capture_end as capture_end
from diffkern.runtime.graph import capture_if as capture_if
from diffkern.runtime.graph import capture_launch as capture_launch
from diffkern.runtime.graph import capture_while as capture_while
from diffkern.runtime.launch import launch as launch
from diffkern.runtime.launch import launch_tiled as launch_tiled
from diffkern.runtime.module_options import get_module_options as get_module_options
from diffkern.runtime.module_options import set_module_options as set_module_options
from diffkern.runtime.record import Launch as Launch
from diffkern.runtime.sequence import Sequence as Sequence
from diffkern.runtime.sequence import record as record
from diffkern.runtime.stream import Event as Event
from diffkern.runtime.stream import ScopedStream as ScopedStream
from diffkern.runtime.stream import Stream as Stream
from diffkern.runtime.stream import get_event_elapsed_time as get_event_elapsed_time
from diffkern.runtime.stream import get_stream as get_stream
from diffkern.runtime.stream import record_event as record_event
from diffkern.runtime.stream import set_stream as set_stream
from diffkern.runtime.stream import synchronize as synchronize
from diffkern.runtime.stream import synchronize_device as synchronize_device
from diffkern.runtime.stream import synchronize_event as synchronize_event
from diffkern.runtime.stream import synchronize_stream as synchronize_stream
from diffkern.runtime.stream import wait_event as wait_event
from diffkern.runtime.stream import wait_stream as wait_stream
from diffkern.runtime.tape import Tape as Tape
from diffkern.runtime.timer import ScopedTimer as ScopedTimer
from diffkern import cuda as cuda
from diffkern.interop import jax as jax
from diffkern import testing as testing

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
class vec2(_Vector): ...
class mat22(_Matrix): ...
class vec3(_Vector): ...
class mat33(_Matrix): ...
class vec4(_Vector): ...
class mat44(_Matrix): ...
vec2f: TypeAlias = vec2
mat22f: TypeAlias = mat22
vec3f: TypeAlias = vec3
mat33f: TypeAlias = mat33
vec4f: TypeAlias = vec4
mat44f: TypeAlias = mat44
class vec2d(_Vector): ...
class mat22d(_Matrix): ...
class vec3d(_Vector): ...
class mat33d(_Matrix): ...
class vec4d(_Vector): ...
class mat44d(_Matrix): ...
class vec2h(_Vector): ...
class mat22h(_Matrix): ...
class vec3h(_Vector): ...
class mat33h(_Matrix): ...
class vec4h(_Vector): ...
class mat44h(_Matrix): ...
class vec2i(_Vector): ...
class vec3i(_Vector): ...
class vec4i(_Vector): ...
class vec2u(_Vector): ...
class vec3u(_Vector): ...
class vec4u(_Vector): ...
class vec2l(_Vector): ...
class vec3l(_Vector): ...
class vec4l(_Vector): ...
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
def add(a: Any, b: Any) -> Any:
    """add(a, b)

    a + b.

    Parameters
    ----------
    a, b : number, vector or matrix

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
    a, b : number, vector or matrix

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
    x : number, vector or matrix

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
    a, b : float or int

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
    a, b : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 1/b with respect to a, -r/b with respect to b, where r is the result.

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
    a, b : float or int

    Returns
    -------
    Of the same type.

    Notes
    -----
    Derivative: 0 everywhere.

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
    a, b : float or int

    Returns
    -------
    Of the same type.

    Notes
    -----
    Derivative: 1 with respect to a, -floor(a/b) with respect to b.

    Examples
    --------
    >>> dk.mod(0.5, 1.5)
    0.5
    """

def abs(x: Any) -> Any:
    """abs(x)

    Absolute value; of a vector, of each component.

    Parameters
    ----------
    x : number or vector

    Returns
    -------
    Of its type.

    Notes
    -----
    Derivative: The sign of x, and 0 at 0.

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
    a, b, ... : number or vector

    Returns
    -------
    Of their type; of one vector a number.

    Notes
    -----
    Derivative: 1 for the element that was taken, the first of equal ones; 0 for the others.

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
    a, b, ... : number or vector

    Returns
    -------
    Of their type; of one vector a number.

    Notes
    -----
    Derivative: 1 for the element that was taken, the first of equal ones; 0 for the others.

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

    Examples
    --------
    >>> dk.atan2(0.5, 1.5)
    0.3217505543966422
    """

def hypot(x: Any, y: Any) -> float:
    """hypot(x, y)

    sqrt(x*x + y*y).

    Parameters
    ----------
    x, y : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: x/r (0 where r == 0) with respect to x, y/r (0 where r == 0) with respect to y, where r is the result.

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
    Derivative: sign(x) times the sign of y with respect to x, so 0 at x = 0; 0 with respect to y.

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
    Derivative: -0.5*r/x, where r is the result.

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
    a, b : int or bool

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
    a, b : int or bool

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
    a, b : int or bool

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
    x : int

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
    a, b : int

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
    a, b : int

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

    Whether x is not a number.

    Parameters
    ----------
    x : float

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

    Whether x is infinite.

    Parameters
    ----------
    x : float

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

    Whether x is neither infinite nor not a number.

    Parameters
    ----------
    x : float

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
    Derivative: a / length(a), and 0 for the zero vector.

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
    Derivative: (I - n n^T) / length(a) for the result n; 0 for the zero vector.

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

def transpose(m: Any) -> Any:
    """transpose(m)

    The transposed matrix.

    Parameters
    ----------
    m : matrix of floats

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

def trace(m: Any) -> float:
    """trace(m)

    The sum of the diagonal.

    Parameters
    ----------
    m : square matrix of floats

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

def determinant(m: Any) -> float:
    """determinant(m)

    The determinant of a square matrix.

    Parameters
    ----------
    m : square matrix of floats

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

def inverse(m: Any) -> Any:
    """inverse(m)

    The inverse of a square matrix.

    Parameters
    ----------
    m : square matrix of floats

    Returns
    -------
    A matrix.

    Notes
    -----
    Derivative: A cotangent C goes on as -R^T C R^T for the result R; not finite for a singular matrix.

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
    x : float or int

    Returns
    -------
    Of its type.

    Notes
    -----
    Derivative: 0.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.sign(x[i])
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
    x : number, vector or matrix

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

def clamp(x: Any, lo: Any, hi: Any) -> Any:
    """clamp(x, lo, hi)

    min(max(x, lo), hi).

    Parameters
    ----------
    x, lo, hi : float or int

    Returns
    -------
    Of their type.

    Notes
    -----
    Derivative: 1 with respect to the one that comes back, x at a bound; 0 with respect to the others.

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

def smoothstep(lo: Any, hi: Any, x: Any) -> float:
    """smoothstep(lo, hi, x)

    A smooth step from 0 at lo to 1 at hi.

    Parameters
    ----------
    lo, hi, x : float

    Returns
    -------
    float

    Notes
    -----
    Derivative: 6 * t * (1 - t) / (hi - lo) with respect to x, for t the place of x between the bounds; 0 outside of them.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.smoothstep(0.0, 1.0, x[i])
    """

def where(condition: Any, a: Any, b: Any) -> Any:
    """where(condition, a, b)

    a where the condition holds, else b; only the chosen one is evaluated.

    Parameters
    ----------
    condition : bool
    a, b : number, vector, matrix or struct

    Returns
    -------
    Of the type of a and b.

    Notes
    -----
    Derivative: 1 with respect to the chosen one, exactly 0 with respect to the other.

    Examples
    --------
    .. code-block:: python

        y[i] = dk.where(x[i] > 0.5, x[i], 0.0)
    """

def select(condition: Any, if_false: Any, if_true: Any) -> Any:
    """select(condition, if_false, if_true)

    if_true where the condition holds, else if_false.

    Parameters
    ----------
    condition : bool
    if_false, if_true : number, vector, matrix or struct

    Returns
    -------
    Of the type of the two.

    Notes
    -----
    Derivative: 1 with respect to the chosen one, exactly 0 with respect to the other.

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

def diag(v: Any) -> Any:
    """diag(v)

    The matrix with a vector as its diagonal.

    Parameters
    ----------
    v : vector of floats

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

def get_diag(m: Any) -> Any:
    """get_diag(m)

    The diagonal of a matrix.

    Parameters
    ----------
    m : square matrix of floats

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

def skew(v: Any) -> Any:
    """skew(v)

    The matrix whose product with w is cross(v, w).

    Parameters
    ----------
    v : vector of three floats

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
    """atomic_add(array, i, [j, ...] value)

    Add to an element at once; returns the old value.

    Parameters
    ----------
    array : array
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
    """atomic_sub(array, i, [j, ...] value)

    Subtract from an element at once; returns the old value.

    Parameters
    ----------
    array : array
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
    """atomic_min(array, i, [j, ...] value)

    Take the minimum with an element at once; returns the old value.

    Parameters
    ----------
    array : array
    i, ... : int
    value : float or int

    Returns
    -------
    The old value.

    Notes
    -----
    Derivative: The cotangent of the element goes to the value that supplied it.

    Examples
    --------
    .. code-block:: python

        dk.atomic_min(y, 0, x[i])
    """

def atomic_max(*args: Any, **options: Any) -> Any:
    """atomic_max(array, i, [j, ...] value)

    Take the maximum with an element at once; returns the old value.

    Parameters
    ----------
    array : array
    i, ... : int
    value : float or int

    Returns
    -------
    The old value.

    Notes
    -----
    Derivative: The cotangent of the element goes to the value that supplied it.

    Examples
    --------
    .. code-block:: python

        dk.atomic_max(y, 0, x[i])
    """

def atomic_exch(*args: Any, **options: Any) -> Any:
    """atomic_exch(array, i, [j, ...] value)

    Replace an element at once; returns the old value.

    Parameters
    ----------
    array : array
    i, ... : int
    value : float or int

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

    The smallest element, of all as a tile of shape (1,).

    Parameters
    ----------
    a : tile
    axis : int, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: 1 for the element that was taken, the first of equal ones; 0 for the others.

    Examples
    --------
    .. code-block:: python

        s = dk.tile_load(a, shape=(4, 4))
        y[i] = dk.tile_extract(dk.tile_min(s), 0)
    """

def tile_max(a: Any, axis: Any = ...) -> Any:
    """tile_max(a, axis=None)

    The greatest element, of all as a tile of shape (1,).

    Parameters
    ----------
    a : tile
    axis : int, optional

    Returns
    -------
    A tile.

    Notes
    -----
    Derivative: 1 for the element that was taken, the first of equal ones; 0 for the others.

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
    "CompileError",
    "CudaError",
    "Device",
    "E",
    "Event",
    "Graph",
    "HALF_PI",
    "INF",
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
    "MisuseError",
    "NAN",
    "PHI",
    "PI",
    "ScopedCapture",
    "ScopedDevice",
    "ScopedStream",
    "ScopedTimer",
    "Sequence",
    "Stream",
    "TAU",
    "Tape",
    "__version__",
    "abs",
    "acos",
    "acosh",
    "add",
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
    "atomic_exch",
    "atomic_max",
    "atomic_min",
    "atomic_sub",
    "bfloat16",
    "bit_and",
    "bit_or",
    "bit_xor",
    "block_dim",
    "block_index",
    "bool_",
    "capture_begin",
    "capture_end",
    "capture_if",
    "capture_launch",
    "capture_while",
    "cbrt",
    "ceil",
    "clamp",
    "clear_kernel_cache",
    "clear_lto_cache",
    "clone",
    "config",
    "constant",
    "copy",
    "copysign",
    "cos",
    "cosh",
    "cross",
    "cw_div",
    "cw_mul",
    "ddot",
    "degrees",
    "determinant",
    "device_from_jax",
    "device_from_torch",
    "device_to_jax",
    "device_to_torch",
    "diag",
    "div",
    "dot",
    "dtype_from_jax",
    "dtype_from_numpy",
    "dtype_from_torch",
    "dtype_to_jax",
    "dtype_to_numpy",
    "dtype_to_torch",
    "e",
    "empty",
    "empty_like",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
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
    "half_pi",
    "hypot",
    "identity",
    "inf",
    "init",
    "int16",
    "int32",
    "int64",
    "int8",
    "inverse",
    "invert",
    "is_cpu_available",
    "is_cuda_available",
    "is_device_available",
    "is_peer_access_enabled",
    "is_peer_access_supported",
    "isfinite",
    "isinf",
    "isnan",
    "jax_callable",
    "jax_kernel",
    "kernel",
    "launch",
    "launch_tiled",
    "length",
    "length_sq",
    "lerp",
    "ln10",
    "ln2",
    "load",
    "log",
    "log10",
    "log10e",
    "log1p",
    "log2",
    "log2e",
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
    "matrix_from_cols",
    "matrix_from_rows",
    "max",
    "min",
    "mod",
    "mul",
    "nan",
    "neg",
    "nonzero",
    "normalize",
    "ones",
    "ones_like",
    "outer",
    "phi",
    "pi",
    "pos",
    "pow",
    "radians",
    "record",
    "record_event",
    "rint",
    "round",
    "rshift",
    "rsqrt",
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
    "smoothstep",
    "sqrt",
    "step",
    "stream_from_torch",
    "stream_to_torch",
    "struct",
    "sub",
    "synchronize",
    "synchronize_device",
    "synchronize_event",
    "synchronize_stream",
    "syncthreads",
    "tan",
    "tanh",
    "tau",
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
    "tile_axpy",
    "tile_broadcast",
    "tile_cholesky",
    "tile_cholesky_inplace",
    "tile_cholesky_solve",
    "tile_cholesky_solve_inplace",
    "tile_diag_add",
    "tile_dot",
    "tile_empty",
    "tile_extract",
    "tile_full",
    "tile_load",
    "tile_lower_solve",
    "tile_lower_solve_inplace",
    "tile_map",
    "tile_matmul",
    "tile_max",
    "tile_min",
    "tile_ones",
    "tile_reduce",
    "tile_reshape",
    "tile_scan_exclusive",
    "tile_scan_inclusive",
    "tile_sort",
    "tile_squeeze",
    "tile_store",
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
    "transpose",
    "trunc",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "unot",
    "untile",
    "vec2",
    "vec2d",
    "vec2f",
    "vec2h",
    "vec2i",
    "vec2l",
    "vec2u",
    "vec3",
    "vec3d",
    "vec3f",
    "vec3h",
    "vec3i",
    "vec3l",
    "vec3u",
    "vec4",
    "vec4d",
    "vec4f",
    "vec4h",
    "vec4i",
    "vec4l",
    "vec4u",
    "wait_event",
    "wait_stream",
    "where",
    "zeros",
    "zeros_like",
]
