"""The text that functions come from, kept from the moment they are decorated.

In: a Python function. Out: the lines of its file as they were then, whatever happens to the file later. Earlier
versions of a file are kept as well: a function that is made again and again by another one belongs to the version that
Python imported.
"""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable
from typing import Any, Final

__all__ = ["share_text", "take_text", "texts_of"]

_Lines = list[str]
_VERSIONS: Final = 4

_taken: Final[weakref.WeakKeyDictionary[Any, tuple[Any, _Lines]]] = weakref.WeakKeyDictionary()
_of_files: Final[dict[str, list[_Lines]]] = {}


def take_text(pyfunc: Callable[..., Any]) -> None:
    """Keep the present text of a function's file; functions of one file share it."""
    code = pyfunc.__code__
    known = _taken.get(pyfunc)
    if known is not None and known[0] is code:
        return
    file = code.co_filename
    # linecache also serves notebooks' cells, archives and registered sources; stale entries would show other lines.
    linecache.checkcache(file)
    lines = linecache.getlines(file, pyfunc.__globals__)
    if not lines:
        return
    _taken[pyfunc] = code, lines
    versions = _of_files.setdefault(file, [])
    if not any(lines is version for version in versions):
        versions.append(lines)
        del versions[:-_VERSIONS]


def share_text(made: Callable[..., Any], pyfunc: Callable[..., Any]) -> None:
    """Give a function that was made of another one's code the text of that."""
    known = _taken.get(pyfunc)
    if known is not None:
        _taken[made] = known


def texts_of(pyfunc: Callable[..., Any]) -> list[_Lines]:
    """Return the lines that a function may be found in, the likeliest first; none if its file is not known."""
    take_text(pyfunc)
    known = _taken.get(pyfunc)
    first = [] if known is None else [known[1]]
    others = [lines for lines in reversed(_of_files.get(pyfunc.__code__.co_filename, ())) if lines not in first]
    return first + others
