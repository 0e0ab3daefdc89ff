"""The memory into which the threads of native steps print.

All steps of the process share one buffer, which is claimed for the time of a run; a run that finds it claimed takes
memory of its own. Native code finds the buffer by :attr:`OutputRoom.words`.
"""

from __future__ import annotations

import threading
from array import array as words
from collections.abc import Callable
from typing import Any

import numpy as np

from diffkern.contracts import abi

__all__ = ["OutputRoom", "StepOutput", "output_room", "showing"]


class Showing(threading.local):
    """The number of native runs of this thread that are showing texts at the moment."""

    depth = 0


showing = Showing()


_MOST = 1 << 59
"""Words whose bytes NumPy can count, and no memory holds."""


class OutputRoom:
    """The buffer, of the layout that :mod:`diffkern.contracts.abi` describes.

    Attributes
    ----------
    words : array of words
        Whether the buffer is claimed, and its address. They do not move.
    """

    def __init__(self) -> None:
        self.words = words("q", (0, 0))
        # A run may still be in the buffer that was there before: buffers are kept, one of each size.
        # The system gives memory to those parts of them alone that texts were written to.
        self._kept: dict[int, np.ndarray[Any, np.dtype[np.int64]]] = {}

    def resize(self, nbytes: int) -> None:
        """Let runs that begin from now on have some bytes for what they print, if there are any such runs.

        Raises
        ------
        MemoryError
            If there is no memory for them; the buffer stays as it was.
        """
        if self.words[1]:
            self._put(nbytes)

    def open(self, nbytes: int) -> None:
        """Make the buffer for the first step that prints."""
        if not self.words[1]:
            self._put(nbytes)

    def _put(self, nbytes: int) -> None:
        count = min(abi.OUTPUT_TEXTS + nbytes // 8, _MOST)
        held = self._kept.get(count)
        if held is None:
            held = self._kept[count] = np.zeros(count, np.int64)
            held[abi.OUTPUT_NEXT], held[abi.OUTPUT_WORDS] = abi.OUTPUT_TEXTS, count
        self.words[1] = held.ctypes.data


output_room = OutputRoom()


class StepOutput:
    """The way of what the threads of a step print to those who read it.

    Parameters
    ----------
    show : callable
        Gets the address of a buffer with texts in it, and shows them. It is called with the interpreter's lock.
    """

    __slots__ = ("_kept", "_words")

    def __init__(self, show: Callable[[int], None]) -> None:
        self._kept = show
        self._words = words("q", (output_room.words.buffer_info()[0], id(show)))

    @property
    def address(self) -> int:
        """The address of the words that native code reads: where the room is, and the function."""
        return self._words.buffer_info()[0]
