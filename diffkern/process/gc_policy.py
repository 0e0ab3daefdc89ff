"""Python's cyclic garbage collector while a program is compiled: it runs more rarely.

A compilation makes hundreds of thousands of objects that are all in use until it ends. The collector would look at
them again and again, for about a sixth of the time.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator
from typing import Final

from diffkern.process.forks import free_in_child

__all__ = ["rare_collections"]

_OBJECTS: Final = 200_000
"""New objects after which it runs all the same."""

_lock = free_in_child(threading.Lock())
_compilations = 0
_usual = (700, 10, 10)


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Let the collector run rarely in a block; several threads may be in such blocks at once."""
    global _compilations, _usual
    with _lock:
        # Compilations may overlap in several threads: the first one sets the threshold, the last one restores it.
        if _compilations == 0:
            _usual = gc.get_threshold()
            # A threshold of 0 means that the program has turned the collector off, which stays.
            if 0 < _usual[0] < _OBJECTS:
                gc.set_threshold(_OBJECTS, *_usual[1:])
        _compilations += 1
    try:
        yield
    finally:
        with _lock:
            _compilations -= 1
            if _compilations == 0:
                gc.set_threshold(*_usual)
