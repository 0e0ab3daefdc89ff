"""Tensors as arrays and arrays as tensors, over the same memory and with the same gradient.

In: a tensor, or an array. Out: the other; what one side writes the other reads. A tensor's version counter is the
version of the array's memory, so that a tape notices what PyTorch changed in place, and PyTorch what a kernel wrote.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import torch

from diffkern.interop.torch.types import same_bits, scalar_from_torch, torch_of
from diffkern.ir.structs import Stored, Struct
from diffkern.ir.types import Element, Scalar, scalar_of
from diffkern.lang.dtypes import SCALARS, resolve_dtype
from diffkern.runtime.array import MAX_NDIM, _make, array
from diffkern.runtime.convert import component_shape
from diffkern.runtime.memory import Memory
from diffkern.runtime.state import current
from diffkern.runtime.stream import settle

__all__ = ["as_argument", "as_array", "from_torch", "to_torch"]

# The memory of a tensor's storage, by where it begins: one for all tensors over it.
_storages: weakref.WeakValueDictionary[tuple[int, int], Memory] = weakref.WeakValueDictionary()


class TensorMemory(Memory):
    """The storage of a tensor. Its version is PyTorch's, which views and detached tensors share."""

    __slots__ = ("_tensor",)

    def __init__(self, address: int, nbytes: int, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        super().__init__(address, nbytes, foreign=True)

    @property
    def version(self) -> int:
        return self._tensor._version

    @version.setter
    def version(self, value: int) -> None:
        # The base class writes the 0 of new memory; after that it is only ever raised.
        if value > self._tensor._version:
            torch.autograd.graph.increment_version(self._tensor)


def from_torch(
    t: torch.Tensor,
    dtype: Any = None,
    requires_grad: bool | None = None,
    grad: torch.Tensor | array | None = None,
) -> array:
    """Return an array over the memory of a tensor; see :func:`diffkern.from_torch`."""
    if not isinstance(t, torch.Tensor):
        raise TypeError(f"from_torch takes a tensor, not {type(t).__name__}")
    element = None if dtype is None else resolve_dtype(dtype)
    made = as_array(t, element)
    wanted = t.requires_grad if requires_grad is None else requires_grad
    if grad is not None:
        made.grad = grad if isinstance(grad, array) else as_array(grad, made._element)
    elif wanted:
        _share_gradient(made, t)
    return made


def as_argument(t: torch.Tensor, element: Stored | None) -> array:
    """Return a tensor that is passed to a launch as an array; under a tape with the tensor's gradient."""
    made = as_array(t, element)
    if t.requires_grad:
        tape = current.tape
        if t.grad_fn is not None and (tape is not None or torch.is_grad_enabled()):
            raise TypeError(
                "PyTorch computed this tensor from others that need gradients, and a launch would break that chain; "
                "call the kernel through dk.torch_function, or pass tensor.detach()"
            )
        if tape is not None:
            _share_gradient(made, t)
    return made


def as_array(t: torch.Tensor, element: Stored | None = None) -> array:
    """Return an array over the memory of a tensor, without a gradient.

    Raises
    ------
    TypeError, ValueError
        If kernels cannot work on this memory.
    """
    _check_dense(t)
    scalar = scalar_from_torch(t.dtype)
    if element is None:
        element = scalar
    if element is None or isinstance(element, Struct) or not same_bits(t.dtype, scalar_of(element)):
        wanted = "any type of diffkern" if element is None else getattr(element, "name", str(element))
        raise TypeError(f"{t.dtype} is not {wanted}; convert the tensor with .to()")
    data = _view(t, scalar_of(element))
    inner = component_shape(element)
    if inner and data.shape[-len(inner) :] != inner:
        raise TypeError(f"the last axes of shape {tuple(t.shape)} are not the components {inner} of {element}")
    if data.ndim == len(inner):
        data = data[np.newaxis]  # one element
    if data.ndim - len(inner) > MAX_NDIM:
        raise TypeError(f"an array has 1 to {MAX_NDIM} axes, and {data.ndim - len(inner)} are left without components")
    if inner and data.size and not data[(0,) * (data.ndim - len(inner))].flags.c_contiguous:
        raise TypeError(f"the components of each {element} are not next to each other in memory; use .contiguous()")
    return _make(data, element, _memory_of(t), True)


def _check_dense(t: torch.Tensor) -> None:
    if t.device.type != "cpu":
        raise TypeError(f"the tensor lies on {t.device}, and the kernel runs on the CPU; move it with .cpu()")
    if t.layout is not torch.strided:
        raise TypeError(f"the tensor is {t.layout}, and kernels work on dense memory; use .to_dense()")
    if type(t) is not torch.Tensor and type(t) is not torch.nn.Parameter and not t.data_ptr() and t.numel():
        raise TypeError(f"{type(t).__name__} has no memory of its own")
    if torch._C._functorch.is_functorch_wrapped_tensor(t):
        raise TypeError(
            "it is being transformed by torch.func, and a launch cannot be seen by that; call the kernel through "
            "dk.torch_function"
        )
    if t.is_neg() or t.is_conj():
        raise TypeError("the tensor is a lazy negative or conjugate; use .resolve_neg() or .resolve_conj()")


def _view(t: torch.Tensor, scalar: Scalar) -> np.ndarray[Any, Any]:
    """Return the tensor's memory as NumPy's type of a scalar."""
    plain = t.detach()
    if t.dtype == torch.bfloat16:
        plain = plain.view(torch.int16)  # NumPy has no bfloat16
    data: np.ndarray[Any, Any] = plain.numpy()
    stored = SCALARS[scalar.name].numpy
    return data if data.dtype == stored else data.view(stored)


def _memory_of(t: torch.Tensor) -> Memory:
    storage = t.untyped_storage()
    key = (storage.data_ptr(), storage.nbytes())
    memory = _storages.get(key)
    if memory is None:
        # Tensors of inference mode count no versions.
        memory = Memory(*key, foreign=True) if t.is_inference() else TensorMemory(*key, t.detach())
        _storages[key] = memory
    return memory


def _share_gradient(made: array, t: torch.Tensor) -> None:
    """Let the array's gradient be the tensor's, which is made of zeros if there is none."""
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
        raise TypeError(f"{a!r} is read-only, which PyTorch's tensors cannot be; convert a clone()")
    settle()
    made = _tensor_over(a, element)
    grad = a.grad
    if a.requires_grad if requires_grad is None else requires_grad:
        made.requires_grad = True
        if grad is not None:
            made.grad = _tensor_over(grad, element)
    return made


def _tensor_over(a: array, element: Element) -> torch.Tensor:
    a._memory.exposed = True
    if a._data.size and min(a._data.strides, default=0) < 0:
        raise TypeError(f"{a!r} runs backwards through memory, which PyTorch's tensors cannot; convert a clone()")
    dtype = torch_of(scalar_of(element))
    # The view keeps the array alive, and PyTorch keeps the view.
    made = torch.from_numpy(a._data.view(np.int16) if dtype == torch.bfloat16 else a._data)
    return made.view(dtype) if made.dtype != dtype else made
