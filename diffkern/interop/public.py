"""The functions for other frameworks, under the names of the package; a framework is imported when one is called.

Each passes its arguments on to the module here for its framework; without the framework there is an error with the
command that installs it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from diffkern.lang.dtypes import resolve_dtype
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.foreign import adopt_dlpack

if TYPE_CHECKING:
    import torch

    from diffkern.interop.torch.function import TorchFunction
    from diffkern.kernels.kernel import Kernel
    from diffkern.lang.dtypes import DType
    from diffkern.runtime.memory.device import Device
    from diffkern.runtime.memory.stream import Stream

__all__ = [
    "device_from_jax", "device_from_torch", "device_to_jax", "device_to_torch", "dtype_from_jax", "dtype_from_torch",
    "dtype_to_jax", "dtype_to_torch", "from_dlpack", "from_jax", "from_torch", "stream_from_torch", "stream_to_torch",
    "to_dlpack", "to_jax", "to_torch", "torch_function",
]  # fmt: skip

_Dims = int | Sequence[int]


def _torch(module: str) -> Any:
    name = f"diffkern.interop.torch.{module}"
    if sys.modules.get("torch") is not None and (found := sys.modules.get(name)) is not None:
        return found  # importlib would take a good part of the time of from_torch
    try:
        # By itself first, so that an error in diffkern's own module is not taken for a missing package.
        importlib.import_module("torch")
    except ImportError as error:
        raise ImportError('this needs PyTorch: pip install "diffkern[torch]"') from error
    return importlib.import_module(name)


def _jax(function: str) -> Callable[..., Any]:
    try:
        # As for PyTorch: only a missing package gets the command that installs it.
        importlib.import_module("jax")
    except ImportError as error:
        raise ImportError('this needs JAX: pip install "diffkern[jax]"') from error
    found: Callable[..., Any] = getattr(importlib.import_module("diffkern.interop.jax.conversion"), function)
    return found


@brief
def from_dlpack(source: Any, dtype: Any = None) -> array:
    """Return an array over the memory of another library's array, without a copy.

    Parameters
    ----------
    source
        An object with ``__dlpack__`` (NumPy's, PyTorch's, JAX's and CuPy's arrays have it), or a DLPack capsule.
    dtype : optional
        Element type; for vectors and matrices the last axes are the components. The scalar type of `source` by default.

    Returns
    -------
    array
        It keeps the memory alive.

    Raises
    ------
    BufferError
        If the memory is not on a device of diffkern, or `source` refuses.
    TypeError
        If the types do not fit.
    """
    return adopt_dlpack(source, None if dtype is None else resolve_dtype(dtype))


def to_dlpack(a: array) -> Any:
    """Return a DLPack capsule over the memory of an array, in the form that every version of the protocol knows.

    Parameters
    ----------
    a : array
        The array. Libraries that take any object with ``__dlpack__`` can be given the array itself.

    Returns
    -------
    capsule
        A capsule, which is consumed once.
    """
    return a.__dlpack__()


@brief
def from_torch(
    t: torch.Tensor,
    dtype: Any = None,
    requires_grad: bool | None = None,
    grad: torch.Tensor | array | None = None,
) -> array:
    """Return an array over the memory of a tensor, without a copy.

    Parameters
    ----------
    t : torch.Tensor
        The tensor: dense, of any strides. One of no axes becomes an array of one element.
    dtype : optional
        Element type; for vectors and matrices the last axes are the components. The tensor's scalar type by default.
        An integer type may differ in its sign.
    requires_grad : bool, optional
        Whether the array's gradient is to be the tensor's ``.grad``, which is made if there is none; by default if
        the tensor requires one. In a :class:`torch.autograd.Function` the array has a gradient of its own instead,
        for ``backward`` to return: PyTorch adds that to the tensor's.
    grad : torch.Tensor or array, optional
        The gradient to take instead.

    Returns
    -------
    array
        It keeps the tensor alive.

    Raises
    ------
    TypeError
        If a gradient is wanted and PyTorch keeps none, because it computed the tensor from others.
    """
    made: array = _torch("arrays").from_torch(t, dtype, requires_grad, grad)
    return made


def tensor_in_c(t: torch.Tensor, dtype: Any) -> tuple[bytes, Callable[[], array]] | None:
    """Return a tensor in the bytes of a C array, and a function that makes the array; None if the array
    is to be made.
    """
    found: tuple[bytes, Callable[[], array]] | None = _torch("arrays").described_in_c(t, dtype)
    return found


@brief
def to_torch(a: array, requires_grad: bool | None = None) -> torch.Tensor:
    """Return a tensor over the memory of an array, without a copy; components are its last axes.

    Parameters
    ----------
    a : array
        The array. Pending work is waited for; for an array on a GPU, PyTorch's current stream waits.
    requires_grad : bool, optional
        Whether the tensor requires a gradient, by default if the array has one; that is then its ``.grad``.

    Returns
    -------
    torch.Tensor
        It keeps the memory alive.
    """
    made: torch.Tensor = _torch("arrays").to_torch(a, requires_grad)
    return made


@brief
def torch_function(
    kernel: Kernel,
    num_outputs: int = 1,
    launch_dims: _Dims | Callable[..., Any] | None = None,
    output_dims: _Dims | Callable[..., Any] | Mapping[str, Any] | None = None,
    in_out_argnames: Sequence[str] | str | None = None,
    enable_backward: bool = True,
) -> TorchFunction:
    """Return a kernel as a function of tensors that PyTorch differentiates, eagerly and under ``torch.compile``.

    Parameters
    ----------
    kernel : Kernel
        The kernel; its outputs are its last parameters, annotated as arrays with a dtype.
    num_outputs : int, optional
        Number of results, those of `in_out_argnames` included.
    launch_dims : int, sequence of int, or callable, optional
        Dimensions of the launch; by default the shape of the first tensor that is an array. A callable gets the
        arguments.
    output_dims : int, sequence of int, callable, or mapping of str to these, optional
        Shape of the outputs, or of each by name; by default the launch's dimensions, or the shape of the first tensor
        for an output with other axes than these. Components are added.
    in_out_argnames : sequence of str, optional
        Arguments that the kernel changes: a copy is changed, and returned before the outputs.
    enable_backward : bool, optional
        Whether the function can be differentiated.

    Returns
    -------
    TorchFunction
        Called with a tensor or number for each parameter that is not an output, it returns a tensor, or a tuple of
        tensors if there are several. Outputs begin as zeros if the kernel may read them or leave them out. Calls
        take ``launch_dims`` and ``output_dims`` as well, instead of those given here.
    """
    made: TorchFunction = _torch("function").TorchFunction(
        kernel, num_outputs, launch_dims, output_dims, in_out_argnames, enable_backward
    )
    return made


def dtype_to_torch(dtype: Any) -> torch.dtype:
    """Return PyTorch's type of an element type.

    Parameters
    ----------
    dtype
        A scalar, vector or matrix type, such as ``dk.vec3``; for a vector or matrix, the type of its components is
        used.

    Returns
    -------
    torch.dtype
        Such as ``torch.float32``.

    Raises
    ------
    TypeError
        If it is no element type.
    """
    return _call("dtype_to_torch", dtype)  # type: ignore[no-any-return]


def dtype_from_torch(torch_dtype: torch.dtype) -> DType:
    """Return the scalar type for a type of PyTorch.

    Parameters
    ----------
    torch_dtype : torch.dtype
        Such as ``torch.float32``.

    Returns
    -------
    DType
        Such as ``dk.float32``.

    Raises
    ------
    TypeError
        If diffkern has no such type.
    """
    return _call("dtype_from_torch", torch_dtype)  # type: ignore[no-any-return]


def device_to_torch(device: Any = None) -> str:
    """Return PyTorch's name of a device.

    Parameters
    ----------
    device : str or Device, optional
        The device; the current one by default.

    Returns
    -------
    str
        Such as ``"cuda:0"``.
    """
    return _call("device_to_torch", device)  # type: ignore[no-any-return]


def device_from_torch(torch_device: torch.device | str) -> Device:
    """Return the device for a device of PyTorch.

    Parameters
    ----------
    torch_device : torch.device or str
        Such as ``torch.device("cuda:0")``.

    Returns
    -------
    Device
        The device.

    Raises
    ------
    ValueError
        If diffkern has no such device.
    """
    return _call("device_from_torch", torch_device)  # type: ignore[no-any-return]


def stream_from_torch(stream_or_device: Any = None) -> Stream:
    """Return a PyTorch stream as a diffkern stream.

    Parameters
    ----------
    stream_or_device : torch.cuda.Stream, torch.device or str, optional
        A stream, or a device, which stands for its current stream; by default that of the current device.

    Returns
    -------
    Stream
        The same stream of the driver; on the CPU the default stream.
    """
    return _call("stream_from_torch", stream_or_device)  # type: ignore[no-any-return]


def stream_to_torch(stream_or_device: Any = None) -> Any:
    """Return a diffkern stream as a PyTorch stream.

    Parameters
    ----------
    stream_or_device : Stream, Device or str, optional
        A stream, or a device, which stands for its current stream; by default that of the current device.

    Returns
    -------
    torch.cuda.Stream or None
        The same stream of the driver; on the CPU None, after its work was waited for.
    """
    return _call("stream_to_torch", stream_or_device)


def _call(name: str, argument: Any) -> Any:
    function: Callable[[Any], Any] = getattr(_torch("types"), name)
    return function(argument)


@brief
def from_jax(a: Any, dtype: Any = None) -> array:
    """Return an array over the memory of a JAX array, without a copy. It cannot be written to.

    Parameters
    ----------
    a : jax.Array
        The array; pending work for it is waited for.
    dtype : optional
        Element type; for vectors and matrices the last axes are the components. The array's scalar type by default.

    Returns
    -------
    array
        It keeps the memory alive.
    """
    made: array = _jax("from_jax")(a, dtype)
    return made


@brief
def to_jax(a: array) -> Any:
    """Return a JAX array over the memory of an array, or a copy if JAX asks for one.

    Parameters
    ----------
    a : array
        The array. Components are the last axes of the result.

    Returns
    -------
    jax.Array
        JAX takes its arrays to be constant: do not write to `a` while it is used.
    """
    return _jax("to_jax")(a)


def dtype_from_jax(jax_dtype: Any) -> DType:
    """Return the scalar type for a type of JAX.

    Parameters
    ----------
    jax_dtype : numpy.dtype
        Such as ``jnp.float32``.

    Returns
    -------
    DType
        Such as ``dk.float32``.

    Raises
    ------
    TypeError
        If diffkern has no such type.
    """
    return _jax("dtype_from_jax")(jax_dtype)  # type: ignore[no-any-return]


def dtype_to_jax(dtype: Any) -> Any:
    """Return JAX's type of an element type.

    Parameters
    ----------
    dtype
        A scalar, vector or matrix type, such as ``dk.vec3``; for a vector or matrix, the type of its components is
        used.

    Returns
    -------
    numpy.dtype
        Such as ``jnp.dtype("float32")``.

    Raises
    ------
    TypeError
        If it is no element type.
    """
    return _jax("dtype_to_jax")(dtype)


def device_from_jax(jax_device: Any) -> Device:
    """Return the device for a device of JAX.

    Parameters
    ----------
    jax_device : jax.Device
        Such as ``jax.devices()[0]``.

    Returns
    -------
    Device
        The device.

    Raises
    ------
    ValueError
        If diffkern has no such device.
    """
    return _jax("device_from_jax")(jax_device)  # type: ignore[no-any-return]


def device_to_jax(device: Any = None) -> Any:
    """Return JAX's device for a device.

    Parameters
    ----------
    device : str or Device, optional
        The device; the current one by default.

    Returns
    -------
    jax.Device
        JAX's device.

    Raises
    ------
    ValueError
        If JAX has no such device.
    """
    return _jax("device_to_jax")(device)
