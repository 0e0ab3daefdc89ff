"""The processor that numba compiles for, queried in a thread of its own.

The result is the triple, name and features of that processor. Importing numba takes most of a second, and Ctrl-C in the
middle leaves it half imported, which cannot be repaired while the process lives. Interrupts come to the main thread
alone: if it is told to stop waiting here, it leaves numba to be imported all the same.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from diffkern.process.forks import free_in_child
from diffkern.process.interrupts import wait
from diffkern.process.llvm_lock import give_back

__all__ = ["NumbaTarget", "numba_target"]


class NumbaTarget(NamedTuple):
    """The answer."""

    triple: str
    cpu: str
    features: str


_found: list[NumbaTarget] = []
_lock = free_in_child(threading.Lock())


def numba_target() -> NumbaTarget:
    """Return the answer, waiting for numba to be imported the first time."""
    if not _found:
        give_back()  # an earlier interrupt may have kept this thread from it
        # A lock rather than join(): waiting for it can be interrupted, and the thread goes on importing.
        finished = threading.Lock()
        failed: list[BaseException] = []

        def ask() -> None:
            try:
                with _lock:  # an earlier call that was interrupted may be at it still
                    if not _found:
                        _found.append(_ask())
            except BaseException as error:
                failed.append(error)
            finally:
                finished.release()

        finished.acquire()
        threading.Thread(target=ask, name="diffkern import", daemon=True).start()
        wait(finished)
        if failed:
            raise failed[0]
    return _found[0]


def _ask() -> NumbaTarget:
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target

    free_in_child(global_compiler_lock._lock)  # numba takes it around each call of LLVM, too
    return NumbaTarget(*cpu_target.target_context.codegen().magic_tuple())
