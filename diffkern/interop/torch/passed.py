"""Tensors that are passed to launches: the arrays over them, and under a tape their gradients.

The array over a tensor is the same one as long as the tensor keeps its memory, shape and type. An array on a tape
follows its tensor: whenever the tape uses gradients, the array's gradient is the tensor's ``grad`` at that time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container
from typing import Any

import torch

from diffkern.errors import LaunchError
from diffkern.interop.torch.arrays import as_array, check_observers, gpu_of_array, is_in_function
from diffkern.interop.torch.place import order_around_launch, order_before
from diffkern.ir.structs import Stored
from diffkern.runtime.arrays.array import array
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.state import handler_now, is_taken

__all__ = ["as_argument", "as_place"]

# Arrays over tensors that were passed to launches, by the tensor's id. The weak reference takes the entry out.
_passed: dict[int, _Passed] = {}


class _Passed:
    """The array that was made for a tensor, as long as the tensor is unchanged."""

    __slots__ = ("address", "dtype", "element", "made", "reference", "shape", "strides")

    def __init__(self, t: torch.Tensor, element: Stored | None, made: array, forget: Callable[[Any], object]) -> None:
        self.reference = weakref.ref(t, forget)
        self.address = t.data_ptr()
        self.dtype, self.shape, self.strides = t.dtype, t.shape, t.stride()
        self.element = element
        self.made = made

    def serves(self, t: torch.Tensor, element: Stored | None) -> bool:
        """Return whether nothing on which the array depends has changed."""
        return (
            # Ids are reused after a tensor is gone, so the tensor itself is compared.
            self.reference() is t
            and self.address == t.data_ptr()
            and self.shape == t.shape
            and self.strides == t.stride()
            and self.dtype is t.dtype
            and (self.element is element or self.element == element)
            and not (t.is_neg() or t.is_conj())
        )


class _Followed:
    """A tensor that a tape took, and the arrays over it.

    Parameters
    ----------
    t : torch.Tensor
        The tensor, which is kept alive.
    """

    __slots__ = ("_arrays", "_grad", "_is_at", "_stale", "_t")

    def __init__(self, t: torch.Tensor) -> None:
        self._t = t
        self._arrays: list[_Passed] = []
        # The tensor's gradient that the arrays have, and where it lies.
        self._grad: torch.Tensor | None = None
        self._is_at = 0
        # What a tensor that requires no gradient had anyway.
        self._stale = None if t.requires_grad else t.grad

    def over(self, element: Stored | None) -> array:
        """Return an array over the tensor, for a launch."""
        t = self._t
        if t.requires_grad:
            self._take(self._present(True))
        for known in self._arrays:
            if known.serves(t, element):
                return known.made
        made = as_array(t, element)
        if self._grad is not None:
            made.grad = as_array(self._grad, made._element)
        # Arrays without elements have no address to be recognized by.
        if made._data.size:
            self._arrays.append(_Passed(t, element, made, lambda _: None))
        return made

    def update(self, results: Container[Memory], create: bool) -> list[array]:
        """Update the gradient of the arrays to the tensor's present one; return those whose gradient has changed.

        Parameters
        ----------
        results : container of Memory
            The memory that depends on arrays with a gradient.
        create : bool
            Whether a tensor that requires a gradient and has none gets one of zeros.

        Raises
        ------
        LaunchError
            If the tensor has another shape or type than when it was passed.
        """
        t = self._t
        if not self._arrays or not t.is_leaf:
            return []
        grad = self._present(create)
        is_result = any(known.made._memory in results for known in self._arrays)
        # A gradient left over from before the tape is not one that this tape computes.
        if not t.requires_grad and grad is self._stale and not is_result:
            grad = None
        return [known.made for known in self._arrays] if self._take(grad) else []

    def _present(self, create: bool) -> torch.Tensor | None:
        t = self._t
        if t.grad is None and create and t.requires_grad:
            if any(t.shape != known.shape or t.dtype != known.dtype for known in self._arrays):
                raise LaunchError(
                    f"a tensor on this tape has become one of shape {tuple(t.shape)} and {t.dtype} since it was passed "
                    "to a launch, so its gradient does not fit it any more",
                    remedy="call backward before the tensor is given other data, or record again",
                )
            t.grad = torch.zeros_like(t, requires_grad=False)
        return t.grad

    def _take(self, grad: torch.Tensor | None) -> bool:
        """Give the arrays a gradient; return whether it has changed."""
        # PyTorch may swap the data under one gradient, so its address counts besides the object.
        place = grad.data_ptr() if grad is not None and grad.layout is torch.strided else 0
        if grad is self._grad and place == self._is_at:
            return False
        for known in self._arrays:
            made = known.made
            made.grad = None if grad is None else as_array(grad, made._element)
            gpu = gpu_of_array(made)
            if gpu is not None:
                order_before(gpu)
        self._grad, self._is_at = grad, place
        return True


def as_argument(t: torch.Tensor, element: Stored | None) -> array:
    """Return a tensor that is passed to a launch as an array; under a tape with the tensor's gradient."""
    tape = handler_now()
    check_observers(t)
    if t.requires_grad and tape is not None and is_in_function():
        as_array(t, element)
        raise TypeError(
            "a tape in an autograd.Function would add to this tensor's grad, and PyTorch what backward returns; pass "
            "from_torch(tensor), an array with a gradient of its own"
        )
    if t.grad_fn is not None and t.requires_grad and (tape is not None or torch.is_grad_enabled()):
        as_array(t, element)  # what is wrong with it as an array is said first
        raise TypeError(
            "PyTorch computed this tensor from others that need gradients, and a launch would break that chain; "
            "call the kernel through dk.torch_function, or pass tensor.detach()"
        )
    follower = None if tape is None else tape.follower
    if follower is not None:
        return _in_order(follower.followed(t, _Followed).over(element))
    if is_taken():
        return _in_order(as_array(t, element))
    return _in_order(_known(t, element))


def as_place(t: torch.Tensor) -> array:
    """Return an array over the memory of a tensor that names elements on a tape, whatever operation computed it."""
    check_observers(t)
    return _in_order(_known(t, None))


def _known(t: torch.Tensor, element: Stored | None) -> array:
    """Return the array that was made for a tensor before, without a gradient; a new one the first time."""
    entry = _passed.get(id(t))
    if entry is not None and entry.serves(t, element):
        return entry.made
    made = as_array(t, element)
    if made._data.size:
        place = id(t)
        _passed[place] = _Passed(t, element, made, lambda _: _passed.pop(place, None))
    return made


def _in_order(made: array) -> array:
    gpu = gpu_of_array(made)
    if gpu is not None:
        order_around_launch(gpu)
    return made
