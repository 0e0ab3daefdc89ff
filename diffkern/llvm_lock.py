"""llvmlite's lock after an interrupt.

In: nothing. Out: llvmlite's lock is not held by the calling thread. llvmlite takes it around each call of LLVM in
functions of Python, the finalizers of its objects among them. Ctrl-C between taking it and giving it back leaves it
with the main thread for ever: that thread may take it again, every other one waits.
"""

from __future__ import annotations

import sys

__all__ = ["give_back"]


def give_back() -> None:
    """Give the lock back if this thread holds it; to be called where no call of llvmlite is in progress."""
    library = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    lock = getattr(getattr(library, "_lock", None), "_lock", None)
    while lock is not None and lock._is_owned():
        lock.release()
