"""One process at a time: a lock that ends with the process that holds it.

In the context of a path for a lock file, with a time limit, no other process or thread holds the same path. The lock is
the operating system's, on an open file, so that a process that is killed leaves none behind. Where a lock cannot be
had (a read-only place, a file system without locks, a holder that takes too long) the context is entered without it:
what it guards must be right all the same, only done more than once.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

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
    mine = path, threading.get_ident()
    left = _held.get(mine)
    if left is not None and not _runs(left[1]):
        # Closing the file gives up a lock that an interrupted context of this thread still holds.
        left[0].close()
    file = _acquire(path, time.monotonic() + timeout)
    try:
        yield file is not None
    finally:
        if file is not None:
            # Removed while it is held: who waits on this file then sees that it is not the one at the path any more.
            with contextlib.suppress(OSError):
                os.unlink(path)
            # Closing gives the lock up.
            file.close()
            _held.pop(mine, None)


# By path and thread, with the frame whose block it is: a thread that Ctrl-C kept from releasing a lock may ask for it
# again, and must not wait for itself then.
_held: dict[tuple[str, int], tuple[io.FileIO, FrameType | None]] = {}
_PASSED_BY = frozenset((__name__, "contextlib", "diffkern.cache.store"))


def _user() -> FrameType | None:
    """Return the frame whose ``with`` block asks for a lock."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in _PASSED_BY:
        frame = frame.f_back
    return frame


def _runs(wanted: FrameType | None) -> bool:
    """Return whether a frame is one of those that run in this thread."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame is not wanted:
        frame = frame.f_back
    return frame is not None


def _acquire(path: str, deadline: float) -> io.FileIO | None:
    pause = _FIRST_PAUSE_S
    while True:
        try:
            file = io.FileIO(path, "a", opener=_open)
            _held[path, threading.get_ident()] = file, _user()
        except OSError:
            return None
        try:
            free = _try_lock(file.fileno())
        except OSError:  # no locks on this file system
            file.close()
            return None
        # The holder removes the file before it unlocks: a lock on a removed file excludes nobody.
        if free and _is_at(path, file.fileno()):
            return file
        file.close()
        # Not `free`: somebody holds it. If it was free, the file had just been replaced: try again at once.
        if not free:
            if time.monotonic() >= deadline:
                return None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)


def _open(path: str, flags: int) -> int:
    # A link may lead anywhere, and a pipe would be waited for.
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o600)


def _is_at(path: str, descriptor: int) -> bool:
    """Return whether the open file is still the one at the path; a holder that ended has removed it."""
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
