"""Tensors as arrays and arrays as tensors, over the same memory and with the same gradient.

A tensor becomes an array, or an array a tensor; writes through one are seen through the other. A tensor's version
counter is the version of the array's memory, so that a tape notices in-place changes by PyTorch, and PyTorch those by a
kernel.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch

from diffkern.contracts.argument_block import pack_address, tail_of
from diffkern.errors import LaunchError, described
from diffkern.interop.torch.observers import check_tangents, is_traced
from diffkern.interop.torch.place import TensorVersion, gpu_of, order_before, tensor_over
from diffkern.interop.torch.types import same_bits, scalar_from_torch, torch_of
from diffkern.ir.structs import Stored, Struct
from diffkern.ir.types import Element, is_complex, scalar_of
from diffkern.lang.dtypes import COMPOSITES, SCALARS, resolve_dtype
from diffkern.runtime.arrays.array import _make, array
from diffkern.runtime.arrays.convert import MAX_NDIM, component_shape
from diffkern.runtime.cuda.memory import DeviceMemory, DeviceView
from diffkern.runtime.memory.device import CPU
from diffkern.runtime.memory.memory import HostMemory, Memory
from diffkern.runtime.memory.stream import drain

if TYPE_CHECKING:
    from diffkern.runtime.cuda.context import CudaDevice

__all__ = [
    "as_array",
    "check_observers",
    "described_in_c",
    "from_torch",
    "gpu_of_array",
    "is_in_function",
    "laid_out",
    "layout_of",
    "share_gradient",
    "to_torch",
]

# The memory of a tensor's storage, by its device and where it begins: one for all tensors over it.
_storages: weakref.WeakValueDictionary[tuple[torch.device, int, int], Memory] = weakref.WeakValueDictionary()
# What an array over tensors of one type, shape and place is like.
_layouts: dict[Any, _Layout] = {}
_CACHED = 1024
# What begins an array in C: where it lies, and its gradient.
_ADDRESSES = struct.Struct("QQ")


class TensorMemory(TensorVersion, HostMemory):
    """The storage of a tensor. Its version is PyTorch's, which views and detached tensors share."""

    __slots__ = ("_tensor",)

    def __init__(self, address: int, nbytes: int, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        super().__init__(address, nbytes, foreign=True)

    @property
    def is_open(self) -> bool:
        """True if others may write to it without being noticed: ``tensor.data`` and ``tensor.numpy()``
        count nothing.
        """
        return True


def _cuda_memory(gpu: CudaDevice, address: int, nbytes: int, tensor: torch.Tensor) -> Memory:
    """Return the memory of a storage on a GPU; a class of its own, made when the first such tensor comes."""
    from diffkern.interop.torch.device_memory import CountedDeviceMemory, UncountedDeviceMemory

    made = UncountedDeviceMemory if tensor.is_inference() else CountedDeviceMemory
    return made(gpu, address, nbytes, tensor)


class _Layout(NamedTuple):
    """The part that does not depend on the address: everything that was checked and computed for
    tensors of one kind.
    """

    element: Element
    stored: np.dtype[Any]
    type: Any
    key: str
    smooth: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    lifted: bool
    tail: bytes
    low: int
    high: int
    gpu: CudaDevice | None
    in_c: bytes

    def over(self, t: torch.Tensor) -> array:
        """Return the array over a tensor of this kind."""
        address = t.data_ptr()
        if self.gpu is None:
            data: Any = _view(t, self.stored)
        else:
            data = DeviceView.over(address, tuple(t.shape), self.stored, self.strides)
        # Not by the constructor: everything about this kind of tensor has been checked, and a launch makes many arrays.
        made = object.__new__(array)
        made._data = data[np.newaxis] if self.lifted else data
        made._element = self.element
        made._memory = _memory_of(t, self.gpu)
        made._writable = True
        made._grad = made._parent = made._view = made._alone = None
        made.shape = self.shape
        made._type, made._key, made._smooth = self.type, self.key, self.smooth
        made._packed = pack_address(address) + self.tail
        made._range = address + self.low, address + self.high
        return made


def from_torch(
    t: torch.Tensor,
    dtype: Any = None,
    requires_grad: bool | None = None,
    grad: torch.Tensor | array | None = None,
) -> array:
    """Return an array over the memory of a tensor; see :func:`diffkern.from_torch`."""
    if not isinstance(t, torch.Tensor):
        raise TypeError(f"from_torch takes a tensor, not {type(t).__name__}")
    check_observers(t)
    element = None if dtype is None else resolve_dtype(dtype)
    made = as_array(t, element)
    wanted = t.requires_grad if requires_grad is None else requires_grad
    if grad is not None:
        made.grad = grad if isinstance(grad, array) else as_array(grad, made._element)
    elif wanted:
        share_gradient(made, t)
    gpu = gpu_of_array(made)
    if gpu is not None:
        order_before(gpu)
    return made


def described_in_c(t: torch.Tensor, dtype: Any = None) -> tuple[bytes, Callable[[], array]] | None:
    """Return a tensor without a gradient in the bytes of an :class:`ArrayC`, and a function that makes the array.

    None for a tensor of a kind that was not seen before: making the array raises the error, if there is one.
    """
    # A C array has no place for a gradient's version or pairs; such tensors go through the array.
    if not isinstance(t, torch.Tensor) or t.is_complex():
        return None
    check_observers(t)
    _check_dense(t)
    element = None if dtype is None else resolve_dtype(dtype)
    layout = _layouts.get((t.dtype, t.shape, t.stride(), t.device, element))
    if layout is None or layout.gpu is not None:
        return None
    return _ADDRESSES.pack(t.data_ptr(), 0) + layout.in_c, lambda: layout.over(t)


def check_observers(t: torch.Tensor) -> None:
    """Refuse the call if PyTorch is recording operations, and would miss those on the array."""
    check_tangents("a launch", (t,))
    if is_traced():
        raise TypeError(
            "torch.jit.trace records what PyTorch does, and a launch cannot be seen by it; call the kernel through "
            "dk.torch_function"
        )


def gpu_of_array(a: array) -> CudaDevice | None:
    """Return the GPU that an array lies on, None for the host."""
    return a._memory.gpu if isinstance(a._memory, DeviceMemory) else None


def as_array(t: torch.Tensor, element: Stored | None = None) -> array:
    """Return an array over the memory of a tensor, without a gradient.

    Raises
    ------
    TypeError, ValueError
        If kernels cannot work on this memory.
    """
    _check_dense(t)
    if t.is_complex():
        element, t = _as_pairs(t, element)
    key = t.dtype, t.shape, t.stride(), t.device, element
    layout = _layouts.get(key)
    if layout is not None and (layout.gpu is None or not layout.gpu.closed):
        return layout.over(t)
    made = _first(t, element)
    # An array without elements may lie anywhere, so that its range would say nothing about another one.
    if made._data.size:
        _remember(key, made, t)
    return made


def _as_pairs(t: torch.Tensor, element: Stored | None) -> tuple[Stored, torch.Tensor]:
    """Return the type of complex elements, and the tensor as pairs in the same memory."""
    known = COMPOSITES.get(str(t.dtype).partition(".")[2])
    if known is None:
        raise TypeError(f"{t.dtype} is not any type of diffkern; convert the tensor with .to(torch.complex64)")
    own = known.ir
    if element is not None and element != own:
        raise TypeError(f"{t.dtype} is not {getattr(element, 'name', str(element))}; convert the tensor with .to()")
    # Detached, or autograd would record the view.
    return own, torch.view_as_real(t.detach())


def _first(t: torch.Tensor, element: Stored | None) -> array:
    """Return the array over a tensor of a kind that was not seen before."""
    gpu = gpu_of(t.device)
    scalar = scalar_from_torch(t.dtype)
    if element is None:
        element = scalar
    if element is None or isinstance(element, Struct) or not same_bits(t.dtype, scalar_of(element)):
        wanted = "any type of diffkern" if element is None else getattr(element, "name", str(element))
        raise TypeError(f"{t.dtype} is not {wanted}; convert the tensor with .to()")
    stored = SCALARS[scalar_of(element).name].numpy
    data: Any
    if gpu is None:
        data = _view(t, stored)
    else:
        data = DeviceView.over(t.data_ptr(), tuple(t.shape), stored, tuple([s * stored.itemsize for s in t.stride()]))
    inner = component_shape(element)
    if inner and data.shape[-len(inner) :] != inner:
        raise TypeError(f"the last axes of shape {tuple(t.shape)} are not the components {inner} of {element}")
    if data.ndim == len(inner):
        data = data[np.newaxis]  # one element
    if data.ndim - len(inner) > MAX_NDIM:
        raise TypeError(f"an array has 1 to {MAX_NDIM} axes, and {data.ndim - len(inner)} are left without components")
    # A kernel loads the components of an element from consecutive addresses.
    if inner and data.size and not data[(0,) * (data.ndim - len(inner))].flags.c_contiguous:
        raise TypeError(f"the components of each {element} are not next to each other in memory; use .contiguous()")
    return _make(data, element, _memory_of(t, gpu), True)


def _remember(key: Any, made: array, t: torch.Tensor) -> None:
    if len(_layouts) >= _CACHED:
        _layouts.clear()
    address = t.data_ptr()
    low, high = made._range
    element, data = made._element, made._data
    assert not isinstance(element, Struct)
    _layouts[key] = _Layout(
        element, data.dtype, made._type, made._key, made._smooth, made.shape,
        tuple([s * data.itemsize for s in t.stride()]), data.ndim > t.ndim, tail_of(made._packed), low - address,
        high - address, gpu_of_array(made), bytes(made.__ctype__())[_ADDRESSES.size :],
    )  # fmt: skip


def _check_dense(t: torch.Tensor) -> None:
    if t.layout is not torch.strided:
        raise TypeError(f"the tensor is {t.layout}, and kernels work on dense memory; use .to_dense()")
    # Subclasses without memory are fakes and functional tensors, whose address is 0.
    if type(t) is not torch.Tensor and type(t) is not torch.nn.Parameter and not t.data_ptr() and t.numel():
        raise TypeError(f"{type(t).__name__} has no memory of its own")
    if torch._C._functorch.is_functorch_wrapped_tensor(t):
        raise TypeError(
            "it is being transformed by torch.func, and a launch cannot be seen by that; call the kernel through "
            "dk.torch_function"
        )
    if t.is_neg() or t.is_conj():
        raise TypeError("the tensor is a lazy negative or conjugate; use .resolve_neg() or .resolve_conj()")


def _view(t: torch.Tensor, stored: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return the tensor's memory as one of NumPy's types."""
    plain = t.detach()
    if t.dtype == torch.bfloat16:
        plain = plain.view(torch.int16)  # NumPy has no bfloat16
    data: np.ndarray[Any, Any] = plain.numpy()
    return data if data.dtype == stored else data.view(stored)


def _memory_of(t: torch.Tensor, gpu: CudaDevice | None) -> Memory:
    storage = t.untyped_storage()
    address, nbytes = storage.data_ptr(), storage.nbytes()
    key = t.device, address, nbytes
    memory = _storages.get(key)
    # Storage at this address may have been freed and belong to another device's memory by now.
    if memory is None or memory.device is not (gpu or CPU):
        # Detached tensors share the version counter and the storage, but keep no graph alive.
        # Tensors of inference mode count no versions.
        if gpu is not None:
            memory = _cuda_memory(gpu, address, nbytes, t.detach())
        elif t.is_inference():
            memory = HostMemory(address, nbytes, foreign=True)
        else:
            memory = TensorMemory(address, nbytes, t.detach())
        _storages[key] = memory
    return memory


def is_in_function() -> bool:
    """Return whether PyTorch runs a :class:`torch.autograd.Function`, or a custom operator.

    It switches forward mode off in the forward of one, which ``no_grad`` does not, and ``enable_grad`` does not undo;
    inference mode does, and says so itself. Hooks belong to other nodes than the backward of a function.
    """
    if not torch._C._is_fwd_grad_enabled() and not torch.is_inference_mode_enabled():
        return True
    return isinstance(torch._C._current_autograd_node(), torch.autograd.function.BackwardCFunction)


Layout: TypeAlias = tuple[torch.dtype, torch.Size, tuple[int, ...]]


def layout_of(t: torch.Tensor) -> Layout:
    """Return the type, the shape and the strides of a tensor."""
    return t.dtype, t.shape, t.stride()


def laid_out(t: torch.Tensor, layout: Layout) -> torch.Tensor:
    """Return a tensor with a layout that it had, which a hook of saved tensors or ``x.data = ...`` may have changed.

    Raises
    ------
    LaunchError
        If its type or shape is another one.
    """
    dtype, shape, strides = layout
    if t.dtype is dtype and t.stride() == strides and t.shape == shape and not t.is_neg() and not t.is_conj():
        return t
    if t.dtype is not dtype or t.shape != shape:
        raise LaunchError(
            f"a tensor of {dtype} with shape {tuple(shape)} that was kept for the gradient has come back as one of "
            f"{t.dtype} with shape {tuple(t.shape)}",
            remedy="let hooks of saved tensors return what they were given, and set no tensor's data in between",
        )
    made = torch.empty_strided(shape, strides, dtype=dtype, device=t.device)
    # An expanded axis has one element for all.
    one = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)
    made[one].copy_(t.detach()[one])
    return made


def share_gradient(made: array, t: torch.Tensor) -> None:
    """Let the array's gradient be the tensor's, which is made of zeros if there is none.

    In an ``autograd.Function`` it is one of its own: what backward returns PyTorch itself adds to the tensor's
    gradient, or hands on to the operation that computed the tensor.
    """
    if is_in_function():
        made.requires_grad = True
        return
    if t.grad_fn is not None and not t.retains_grad:
        raise TypeError("PyTorch keeps no gradient for a tensor that it computed; pass requires_grad=False or a leaf")
    if t.grad is None:
        t.grad = torch.zeros_like(t, requires_grad=False)
    made.grad = as_array(t.grad, made._element)


def to_torch(a: array, requires_grad: bool | None = None) -> torch.Tensor:
    """Return a tensor over the memory of an array; see :func:`diffkern.to_torch`."""
    if not isinstance(a, array):
        raise TypeError(f"to_torch takes an array of diffkern, not {type(a).__name__}")
    element = a._element
    if isinstance(element, Struct):
        raise TypeError(f"PyTorch has no tensors of structs such as {element.name}; convert the fields, as in a.field")
    if not a._writable:
        raise TypeError(f"{described(a)} is read-only, which PyTorch's tensors cannot be; convert a clone()")
    # Pending CPU work must be done before PyTorch, which knows nothing of it, reads the memory.
    drain()
    made = _tensor_over(a, element)
    grad = a.grad
    if a.requires_grad if requires_grad is None else requires_grad:
        made.requires_grad = True
        if grad is not None:
            made.grad = _tensor_over(grad, element)
    return made


def _tensor_over(a: array, element: Element) -> torch.Tensor:
    if a._data.size and min(a._data.strides, default=0) < 0:
        raise TypeError(
            f"{described(a)} runs backwards through memory, which PyTorch's tensors cannot; convert a clone()"
        )
    if not a._memory.is_host:
        return tensor_over(a)
    data = a.numpy()  # PyTorch keeps it, and it keeps the memory
    if is_complex(element):
        return torch.from_numpy(data)
    dtype = torch_of(scalar_of(element))
    made = torch.from_numpy(data.view(np.int16) if dtype == torch.bfloat16 else data)
    return made.view(dtype) if made.dtype != dtype else made
