"""Calls of native compilers and loaders that Ctrl-C can neither delay nor tear.

Python runs signal handlers between two instructions of the main thread. A long native call made by the main thread
therefore runs to its end first, and an exception out of a handler may arrive right after the native function returned,
before Python has noted its result: llvmlite then frees a string twice, which ends the process. Here another thread
makes the call, and the main thread waits where a handler can run. If the handler raises, the call goes on and its
result is dropped. Every call of llvmlite is made in this way, except by the finalizers of its objects, which run once
in any case.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["LOOK_SECONDS", "give_back", "interruptible", "llvm_lock", "wait"]


_Result = TypeVar("_Result")

LOOK_SECONDS = 0.1
"""The longest sleep of the main thread. A signal wakes it, unless another thread takes the signal, it comes right
before the main thread falls asleep, or this is Windows; its handler runs when the main thread is awake."""


def wait(lock: threading.Lock) -> None:
    """Take a lock that another thread releases in the end, and let handlers of signals run meanwhile."""
    while not lock.acquire(timeout=LOOK_SECONDS):
        pass


def interruptible(work: Callable[[], _Result]) -> _Result:
    """Return what a function returns, or raise what it raises.

    Parameters
    ----------
    work : callable
        What takes long or must not be left half-way. It has to take the locks that it needs by itself: after an
        interrupt it is still running, at most as long as it would have taken.

    Raises
    ------
    BaseException
        What a handler of signals raises in the main thread meanwhile, KeyboardInterrupt above all.
    """
    # While the interpreter ends, a new thread would never run.
    if threading.current_thread() is not threading.main_thread() or sys.is_finalizing():
        return work()
    give_back()  # an earlier interrupt may have kept this thread from it
    # A plain lock: that of a condition, which Python takes and gives back, an interrupt could leave held.
    finished = threading.Lock()
    finished.acquire()
    results: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            finished.release()

    thread = threading.Thread(target=run, name="diffkern compiler")
    try:
        thread.start()
    except RuntimeError:  # the interpreter is about to end, or there are too many threads
        return work()
    give_back()  # so may one that came since then, in a finalizer
    wait(finished)
    thread.join()  # who looks right afterwards finds no thread, and may fork
    if errors:
        raise errors[0]
    return results[0]


# -- llvmlite's lock ---------------------------------------------------------------------------------------------------


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
