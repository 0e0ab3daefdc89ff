"""Private copies of a cotangent, for groups of threads that would otherwise add to the same elements.

The zeroed copies lie in one block of memory, each starting on its own cache line, and are passed to a kernel in place
of the cotangent; then their sum is added to the cotangent, in order.
"""

from __future__ import annotations

import numpy as np

from diffkern.contracts.argument_block import pack_address, tail_of
from diffkern.ir.structs import Struct
from diffkern.ir.types import BFLOAT16, scalar_of
from diffkern.runtime.arrays.array import _make, array
from diffkern.runtime.arrays.operation import accumulate
from diffkern.runtime.memory.memory import allocate

__all__ = ["Copies"]

_LINE = 64


class Copies:
    """Zeroed copies of a cotangent.

    Parameters
    ----------
    ct : array
        The cotangent.
    count : int
        Number of copies, may be 0.

    Attributes
    ----------
    packed : list of bytes
        Each copy as a kernel's parameter.
    """

    def __init__(self, ct: array, count: int) -> None:
        like = ct._data
        # Workers write to different copies at the same time: without whole lines each, they would share the last one.
        step = -(-like.nbytes // _LINE) * _LINE
        buffer, self._memory = allocate((count, step), np.dtype(np.uint8), True)
        self._ct = ct
        self._parts = buffer[:, : like.nbytes].view(like.dtype).reshape(count, *like.shape)
        self.packed: list[bytes] = []
        if count:
            start, tail = buffer.ctypes.data, tail_of(self._copy(0)._packed)
            # Copies differ in nothing but the address, so that the shape and strides are packed once.
            self.packed = [pack_address(start + k * step) + tail for k in range(count)]

    def _copy(self, k: int) -> array:
        return _make(self._parts[k], self._ct._element, self._memory, True)

    def add_up(self) -> None:
        """Add the sum of the copies to the cotangent."""
        ct = self._ct
        # NumPy can neither add structs nor bfloat16, which it sees as bits.
        if isinstance(ct._element, Struct) or scalar_of(ct._element) == BFLOAT16:
            for k in range(len(self._parts)):
                accumulate(ct, self._copy(k))
        else:
            # The copies are summed in their order, whatever order the workers finished in: results do not vary between
            # runs.
            np.add(ct._data, np.add.reduce(self._parts, axis=0), out=ct._data)
