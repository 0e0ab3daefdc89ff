"""Locks in the child of a fork, which has only the thread that forked.

A lock that another thread held in the parent is free in the child, where no thread would ever release it. The state
that such a lock guards has to be consistent at any time, or rebuilt by its owner.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["cached_property", "free_in_child"]

_Lock = TypeVar("_Lock")
_Computed = TypeVar("_Computed")

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def free_in_child(lock: _Lock) -> _Lock:
    """Let a lock of :mod:`threading` be free in the child of a fork, unless the thread that forks holds it itself."""
    _locks.add(lock)
    return lock


def cached_property(method: Callable[[Any], _Computed]) -> functools.cached_property[_Computed]:
    """A property that is computed when it is first asked for, also in the child of a fork that interrupted it.

    Before Python 3.12 all instances of a class compute one under a common lock.
    """
    # The lock of a cached_property is not registered by itself: a fork while it is held would leave it locked for ever.
    made = functools.cached_property(method)
    lock = getattr(made, "lock", None)
    if lock is not None:
        free_in_child(lock)
    return made


def _after_fork() -> None:
    # A copy, as a finalizer may remove locks from the set meanwhile.
    for lock in list(_locks):
        is_owned = getattr(lock, "_is_owned", None)  # of a lock that one thread can take several times
        if is_owned is None or not is_owned():
            # A lock that the forking thread holds is released by that thread in the child too.
            lock._at_fork_reinit()


# Windows has no fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
