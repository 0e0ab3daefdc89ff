"""The word of memory that prepared launches look at, in native code, to see whether Python has to be asked."""

from __future__ import annotations

import ctypes

__all__ = ["SlowPathFlags", "slow_path_flags"]


class SlowPathFlags:
    """Reasons why launches have to ask Python: one word, readable by native code at ``address``.

    Its halves are the number of objects that are current in any thread, which :func:`diffkern.runtime.memory.scope.put`
    keeps, and whether work is pending. ``word[0]`` is both of them in Python. A current device does not count: it only
    matters for launches without arrays.
    """

    def __init__(self) -> None:
        # Two halves of one word: native code tests both with a single load.
        self._halves = (ctypes.c_int32 * 2)()
        self.word = memoryview(self._halves).cast("B").cast("q")
        self.address = ctypes.addressof(self._halves)

    @property
    def reasons(self) -> int:
        """The number of current objects."""
        return self._halves[0]

    def restart(self, reasons: int) -> None:
        """Start with a number of current objects, in the child of a fork."""
        self._halves[0] = reasons

    def add(self, reasons: int) -> None:
        """Add to the number of current objects."""
        self._halves[0] += reasons

    def busy(self, pending: bool) -> None:
        """Note whether work is pending."""
        self._halves[1] = pending


slow_path_flags = SlowPathFlags()
