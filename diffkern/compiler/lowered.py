"""Kernels as lowered for their forward programs, kept until their adjoints are compiled.

A gradient asks for both programs of a kernel, and both begin with the same typed IR, which is kept once. It is found
again by the function itself, since messages have its lines, and by the fields of its key, since a global that it
captures may have changed.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeAlias

from diffkern.ir.nodes import Function
from diffkern.process.forks import free_in_child

__all__ = ["keep", "take"]

_MOST: Final = 32
"""Kernels of which it is kept, and for how many types of arguments: the last of each."""

_Kept: TypeAlias = "dict[Hashable, Function]"
_kept: weakref.WeakKeyDictionary[Callable[..., Any], _Kept] = weakref.WeakKeyDictionary()
_lock = free_in_child(threading.Lock())


def keep(pyfunc: Callable[..., Any], depends: Hashable, fn: Function) -> None:
    """Keep the typed IR of a kernel, which must not be changed; ``depends`` is all that its lowering depends on."""
    with _lock:
        of_types = _kept.pop(pyfunc, {})
        of_types.pop(depends, None)
        of_types[depends] = fn
        # Removed and inserted again: dictionaries keep the order of insertion, and the oldest entries go first.
        _kept[pyfunc] = of_types
        for types in list(of_types)[:-_MOST]:
            del of_types[types]
        for kernel in list(_kept)[:-_MOST]:
            del _kept[kernel]


def take(pyfunc: Callable[..., Any], depends: Hashable) -> Function | None:
    """Remove and return the IR of a kernel; None if there is none."""
    with _lock:
        return _kept.get(pyfunc, {}).pop(depends, None)
