"""Arrays that are pickled or copied by Python's own means.

In: an array, for :mod:`pickle` and :mod:`copy`. Out: one with the same elements on the same device. As with PyTorch's
tensors, a deep copy has a copy of the gradient, and a pickled array takes along that it has a gradient, not its values:
it begins with zeros. A shallow copy is another object over the same memory and with the same gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from diffkern.runtime.array import array, copy, new
from diffkern.runtime.operation import Assign, Copy, perform

__all__ = ["deep_copy", "reduced", "shallow_copy"]


def reduced(held: array) -> tuple[Any, ...]:
    """Return what pickle keeps of an array."""
    device = held._memory.device
    data = np.ascontiguousarray(held._host())
    return _restored, (data, held.dtype, held.shape, None if device is None else device.alias, held.requires_grad)


def _restored(data: np.ndarray[Any, Any], dtype: Any, shape: tuple[int, ...], place: str | None, grad: bool) -> array:
    made: array = array(dtype=dtype, shape=shape, device="cpu" if place is None else place)
    perform(Assign(made, data))
    if grad:
        made.requires_grad = True
    return made


def shallow_copy(held: array) -> array:
    """Return another array object over the same memory, with the same gradient."""
    made = object.__new__(type(held))
    for name in array.__slots__:
        if name != "__weakref__":
            setattr(made, name, getattr(held, name))
    return made


def deep_copy(held: array, memo: dict[int, Any]) -> array:
    """Return an array with the same elements and gradient in memory of its own; under a tape gradients flow."""
    made = new(held.shape, held._element, False, held._memory.device)
    grad = held.grad
    if grad is not None:
        own = memo.get(id(grad))
        if own is None:
            own = memo[id(grad)] = new(grad.shape, grad._element, False, grad._memory.device)
            perform(Copy(own, grad))
        made.grad = own
    copy(made, held)
    return made
