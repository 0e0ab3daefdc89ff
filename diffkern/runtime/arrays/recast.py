"""Views that reinterpret the bytes of an array as elements of another type, or in another order.

They work on an array's data, or on its description on a GPU. Where the numbers stay the same, of the same type in the
same places, the gradient of the view is the same view of the gradient; otherwise no gradient goes through it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from diffkern.errors import LaunchError, described
from diffkern.ir.structs import Stored, Struct
from diffkern.ir.types import is_complex, scalar_of

if TYPE_CHECKING:
    from diffkern.runtime.arrays.array import array

__all__ = [
    "Recast", "are_same_numbers", "check_passes", "is_injective", "is_opaque", "is_recast", "keeps_numbers",
]  # fmt: skip


class Recast:
    """A view of an array's bytes.

    Parameters
    ----------
    view : callable
        Makes it of a NumPy array, whose contents it does not read.
    keeps_numbers : bool
        Whether it shows the numbers of the array as they are.
    """

    __slots__ = ("_view", "keeps_numbers")

    def __init__(self, view: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]], keeps_numbers: bool) -> None:
        self._view = view
        self.keeps_numbers = keeps_numbers

    def __call__(self, data: Any) -> Any:
        return self._view(data) if isinstance(data, np.ndarray) else data.derived(self._view)


def are_same_numbers(a: Stored, b: Stored) -> bool:
    """Return whether elements of two types consist of numbers of one type, one behind the other."""
    if isinstance(a, Struct) or isinstance(b, Struct) or is_complex(a) or is_complex(b):
        return a == b
    return scalar_of(a) == scalar_of(b)


def is_injective(held: array) -> bool:
    """Return whether different indices of an array are different elements."""
    if held._type.layout == "C":
        return True
    inner = held._data.nbytes // max(held.size, 1)
    # From the shortest stride to the longest: each has to step over all that the shorter ones span. Sufficient, and
    # necessary for views that slicing makes.
    for stride, length in sorted(zip(map(abs, held._data.strides[: held.ndim]), held.shape, strict=True)):
        if length > 1 and stride < inner:
            return False
        inner = max(inner, stride * length)
    return True


def is_recast(held: array) -> bool:
    """Return whether an array is a view of another one's bytes."""
    return type(held._view) is Recast


def keeps_numbers(held: array) -> bool:
    """Return whether an array shows the numbers of the array that it is a view of."""
    view = held._view
    return type(view) is not Recast or view.keeps_numbers


def is_opaque(held: array) -> bool:
    """Return whether an array shows other numbers than the array that it is ultimately a view of."""
    above: array | None = held
    while above is not None and above._parent is not None:
        if not keeps_numbers(above):
            return True
        above = above._parent
    return False


def check_passes(held: array) -> None:
    """Raise for an array that no gradient passes through, where one would have to.

    Raises
    ------
    LaunchError
        If it shows the bytes of another array as other numbers.
    """
    if held._parent is None or not is_opaque(held):
        return
    root = held._parent
    while root._parent is not None:
        root = root._parent
    raise LaunchError(
        f"{described(held)} shows the bytes of {described(root)} as other numbers, so no gradient goes through it, "
        "and on the way to a derivative one would have to",
        remedy="take the elements as numbers of the same type, each of them once, or convert them in a kernel",
    )
