"""Pickling and copying of arrays by Python's own means, :mod:`pickle` and :mod:`copy`.

The result has the same elements on the same device. As with PyTorch's tensors, a deep copy has a copy of the gradient,
and a pickled array remembers that it has a gradient, but not its values: it begins with zeros. A shallow copy is
another object over the same memory and with the same gradient.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from diffkern.runtime.arrays.array_copy import check_copied
from diffkern.runtime.arrays.operation import Assign, Copy, submit

if TYPE_CHECKING:
    from diffkern.runtime.arrays.array import array

__all__ = ["Copied"]


class Copied:
    """The part of an array that pickles and copies it."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _like(self) -> array:
            """Return an array of the same shape and type on the same device, not initialized."""
            ...

    def __reduce_ex__(self: array, protocol: Any) -> tuple[Any, ...]:  # type: ignore[misc]
        check_copied(self)
        data = np.ascontiguousarray(self._host()).view()
        # Protocol 5 may hand out the memory itself, and nobody would see what is written there.
        data.flags.writeable = False
        made = _restored, (type(self), data, self.dtype, self.shape, self.device.alias, self.requires_grad)
        return (*made, vars(self)) if vars(self) else made  # attributes that a program has added

    def __copy__(self: array) -> array:  # type: ignore[misc]
        made = _of_class(type(self), self)
        vars(made).update(vars(self))
        return made

    def __deepcopy__(self: array, memo: dict[int, Any]) -> array:  # type: ignore[misc]
        made = self._like()
        grad = self.grad
        if grad is not None:
            own = memo.get(id(grad))
            # An array and a gradient that the copied object also refers to elsewhere must stay one object.
            if own is None:
                own = memo[id(grad)] = grad._like()
                submit(Copy(own, grad))
            made.grad = own
        made.assign(self)  # under a tape gradients flow
        vars(made).update(copy.deepcopy(vars(self), memo))
        return made


def _restored(
    cls: type[array], data: np.ndarray[Any, Any], dtype: Any, shape: tuple[int, ...], place: str, grad: bool
) -> array:
    # The constructor of a user's subclass may take other arguments; the base of the run time is made, and its class
    # set.
    own = next(base for base in cls.__mro__ if base.__module__.startswith("diffkern.runtime."))
    made: array = own(dtype=dtype, shape=shape, device=place)
    submit(Assign(made, data))
    if grad:
        made.requires_grad = True
    return made if own is cls else _of_class(cls, made)


def _of_class(cls: type[array], source: array) -> array:
    """Return an array of a class over the memory of another one, without attributes that a program added to it."""
    made: array = object.__new__(cls)
    for base in type(source).__mro__:
        for name in getattr(base, "__slots__", ()):
            if name not in ("__dict__", "__weakref__"):
                setattr(made, name, getattr(source, name))
    return made
