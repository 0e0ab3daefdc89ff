"""llvmlite's lock, which it takes around each call of LLVM in functions of Python, its objects' finalizers too."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["give_back", "llvm_lock"]


def llvm_lock() -> Any:
    """The lock, or None as long as llvmlite is not imported."""
    library = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    return getattr(getattr(library, "_lock", None), "_lock", None)


def give_back() -> None:
    """Release the lock if this thread holds it; to be called where no call of llvmlite is in progress.

    Ctrl-C between acquiring and releasing it leaves it with the main thread for ever: that thread may acquire it once
    more, every other one waits.
    """
    lock = llvm_lock()
    while lock is not None and lock._is_owned():
        lock.release()
