"""Products of matrices on the host, by the BLAS that NumPy has, as an operation with derivatives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from diffkern.runtime.arrays.operation import Assign, Operation, OperationCotangents, OperationTangents
from diffkern.runtime.memory.device import Device

if TYPE_CHECKING:
    from diffkern.runtime.arrays.array import array

__all__ = ["MatrixProduct"]

_SMALL: Final = 4096
"""Elements up to which NumPy's own loops are as fast as a copy that BLAS can read."""


class MatrixProduct(Operation):
    """A product of the last two axes of arrays, ``goal = factor * left @ right``, or the same added to the goal.

    Leading axes are those of a batch. A factor without them takes part in each product of the batch, and a goal without
    them takes the sum of all, so that the derivatives are operations of the same kind.

    Parameters
    ----------
    goal, left, right : array
        Matrices of scalars, or batches of them; the goal shares no element with a factor.
    factor : float or int
        The number.
    adds : bool
        True to add the product to the goal.
    """

    __slots__ = ("adds", "factor", "goal", "left", "right")

    label, phrase = "matmul", "a product of matrices"

    def __init__(self, goal: array, left: array, right: array, factor: float = 1, adds: bool = False) -> None:
        self.goal, self.left, self.right, self.factor, self.adds = goal, left, right, factor, adds

    @property
    def device(self) -> Device:
        return self.goal._memory.device

    def execute(self) -> None:
        goal = self.goal._data
        left, right = _readable(self.left._data), _readable(self.right._data)
        summed = tuple(range(max(left.ndim, right.ndim) - goal.ndim))
        narrow = goal.dtype == np.float16
        if narrow:
            # Products of halves are summed in float32, as in kernels.
            left, right = left.astype(np.float32), right.astype(np.float32)
        if not (self.adds or summed or narrow) and goal.flags.c_contiguous:
            np.matmul(left, right, out=goal)
            if self.factor != 1:
                goal *= self.factor
            return
        found = np.matmul(left, right)
        if summed:
            found = found.sum(axis=summed)
        if self.factor != 1:
            found *= self.factor
        if self.adds:
            goal += found
        else:
            goal[...] = found

    def reads(self) -> Iterable[array]:
        return (self.goal, self.left, self.right) if self.adds else (self.left, self.right)

    def writes(self) -> Iterable[array]:
        return (self.goal,)

    def updates(self) -> Iterable[array]:
        return (self.goal,) if self.adds else ()

    def needs(self) -> Iterable[array]:
        return (self.left, self.right)

    def steps(self) -> None:
        """Return None: BLAS is called from Python."""

    def constants(self) -> bytes:
        return repr((self.factor, self.adds)).encode()

    def jvp(self, tangents: OperationTangents) -> Sequence[Operation]:
        goal, adds = tangents.made(self.goal), self.adds
        pairs = (tangents.tangent(self.left), self.right), (self.left, tangents.tangent(self.right))
        found: list[Operation] = []
        for left, right in pairs:
            if left is not None and right is not None:
                found.append(MatrixProduct(goal, left, right, self.factor, adds))
                adds = True
        return found if adds else (Assign(goal, 0),)

    def vjp(self, cotangents: OperationCotangents) -> Sequence[Operation]:
        goal = cotangents.cotangent(self.goal)
        found: list[Operation] = []
        if cotangents.wants(self.left):
            across = cotangents.value(self.right).mT
            found.append(MatrixProduct(cotangents.cotangent(self.left), goal, across, self.factor, adds=True))
        if cotangents.wants(self.right):
            across = cotangents.value(self.left).mT
            found.append(MatrixProduct(cotangents.cotangent(self.right), across, goal, self.factor, adds=True))
        if not self.adds:
            found.append(Assign(goal, 0))
        return found


def _readable(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return matrices in the order that BLAS reads, rows or columns without gaps: those in another are copied."""
    along = min(abs(stride) for stride in data.strides[-2:])
    if data.size <= _SMALL or (along == data.itemsize and min(data.strides[-2:]) > 0):
        return data
    return np.ascontiguousarray(data)
