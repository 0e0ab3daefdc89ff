"""One process at a time: a lock that ends with the process that holds it.

In: a path for a lock file and a time limit. Out: a context in which no other process or thread holds the same path. The
lock is the operating system's, on an open file, so a process that is killed leaves none behind. Where a lock cannot be
had (a read-only place, a file system without locks, a holder that takes too long) the context is entered without it:
what it guards must be right all the same, only done more than once.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator

__all__ = ["exclusive"]

_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.1


@contextlib.contextmanager
def exclusive(path: str, timeout: float) -> Iterator[bool]:
    """Hold the lock on `path` inside the context; its value says whether it is held.

    Parameters
    ----------
    path : str
        The lock file. It is made where missing, in a directory that exists, and removed afterwards.
    timeout : float
        Seconds to wait for another holder.
    """
    descriptor = _acquire(path, time.monotonic() + timeout)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            # Removed while it is held: who waits on this file then sees that it is not the one at the path any more.
            with contextlib.suppress(OSError):
                os.unlink(path)
            os.close(descriptor)


def _acquire(path: str, deadline: float) -> int | None:
    pause = _FIRST_PAUSE_S
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError:
            return None
        try:
            free = _try_lock(descriptor)
        except OSError:  # no locks on this file system
            os.close(descriptor)
            return None
        if free and _is_at(path, descriptor):
            return descriptor
        os.close(descriptor)
        if not free:
            if time.monotonic() >= deadline:
                return None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)


def _is_at(path: str, descriptor: int) -> bool:
    """Whether the open file is still the one at the path; a holder that ended has removed it."""
    try:
        there = os.stat(path)
    except OSError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
