"""The text that functions come from, kept from the moment they are decorated.

In: a Python function. Out: the lines of its file as they were then, whatever happens to the file later. Earlier
versions of a file are kept as well: a function that is made again and again by another one belongs to the version that
Python imported.
"""

from __future__ import annotations

import io
import linecache
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from types import FrameType
from typing import Any, Final

__all__ = ["certain_text", "is_changed", "share_text", "take_text", "text_read_again", "texts_of"]

_Lines = list[str]
_VERSIONS: Final = 4
_LOADED: Final = time.time()

_taken: Final[weakref.WeakKeyDictionary[Any, tuple[Any, _Lines, bool]]] = weakref.WeakKeyDictionary()
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
    lines = _of_archive(pyfunc) or linecache.getlines(file, pyfunc.__globals__)
    if not lines:
        return
    _keep(pyfunc, lines, _is_running(file))


def _of_archive(pyfunc: Callable[..., Any]) -> _Lines | None:
    """The text of a module in an archive as its importer has it, of which linecache keeps the first; None of others."""
    file = pyfunc.__code__.co_filename
    spec: ModuleSpec | None = pyfunc.__globals__.get("__spec__")
    entry = linecache.cache.get(file)
    if entry is not None and (len(entry) < 4 or entry[1] is not None):
        return None
    if spec is None or spec.origin != file or os.path.exists(file):
        return None
    try:
        text = spec.loader.get_source(spec.name)  # type: ignore[union-attr]  # of those that have one
    except (AttributeError, ImportError, OSError):
        return None
    lines = io.StringIO(text or "").readlines()
    return next((known for known in _of_files.get(file, ()) if known == lines), lines)


def _is_running(file: str) -> bool:
    """Whether Python is just executing a text by that name, which was read or registered for it.

    A file that runs as a script may be changed while it does.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if code.co_filename == file and code.co_name == "<module>":
            return file.startswith("<") or frame.f_globals.get("__name__") != "__main__"
        frame = frame.f_back
    return False


def _keep(pyfunc: Callable[..., Any], lines: _Lines, is_certain: bool) -> None:
    _taken[pyfunc] = pyfunc.__code__, lines, is_certain
    versions = _of_files.setdefault(pyfunc.__code__.co_filename, [])
    if not any(lines is version for version in versions):
        versions.append(lines)
        del versions[:-_VERSIONS]


def text_read_again(pyfunc: Callable[..., Any]) -> Iterator[_Lines]:
    """The text of a function's file as it is now, if it is another one; asked for where no known text is right.

    A file that was written anew with the same size within the clock's resolution looks unchanged to linecache.
    """
    file = pyfunc.__code__.co_filename
    entry = linecache.cache.get(file)
    if entry is None or len(entry) < 4 or entry[1] is None:  # a cell of a notebook, a registered text
        return
    del linecache.cache[file]
    lines = linecache.getlines(file, pyfunc.__globals__)
    if lines and lines != entry[2]:
        _keep(pyfunc, lines, is_certain=False)
        yield lines


def share_text(made: Callable[..., Any], pyfunc: Callable[..., Any]) -> None:
    """Give a function that was made of another one's code the text of that."""
    known = _taken.get(pyfunc)
    if known is not None:
        _taken[made] = known


def certain_text(pyfunc: Callable[..., Any]) -> _Lines | None:
    """Return the text that a function is from, if no other one that is known can be; else None."""
    texts = texts_of(pyfunc)
    known = _taken.get(pyfunc)
    return texts[0] if known is not None and (len(texts) == 1 or known[2]) else None


def is_changed(pyfunc: Callable[..., Any]) -> bool:
    """Whether the file of a function was written after it was imported, as far as the module's cached code tells.

    Python writes to a module's cached code which version of the file it is of.
    """
    known, entry = _taken.get(pyfunc), linecache.cache.get(pyfunc.__code__.co_filename)
    if known is None or known[2] or entry is None or len(entry) < 4 or entry[2] is not known[1]:
        return False
    size, written = entry[0], entry[1]
    if written is None or written < _LOADED or sys.dont_write_bytecode:
        return False
    spec = getattr(sys.modules.get(pyfunc.__module__), "__spec__", None)
    try:
        with open(getattr(spec, "cached", None) or "", "rb") as file:
            head = file.read(16)
    except OSError:
        return False
    flags, *version = (int.from_bytes(head[k : k + 4], "little") for k in (4, 8, 12))
    return not flags and version != [int(written) & 0xFFFFFFFF, size & 0xFFFFFFFF]


def texts_of(pyfunc: Callable[..., Any]) -> list[_Lines]:
    """Return the lines that a function may be found in, the likeliest first; none if its file is not known."""
    take_text(pyfunc)
    known = _taken.get(pyfunc)
    first = [] if known is None else [known[1]]
    others = [lines for lines in reversed(_of_files.get(pyfunc.__code__.co_filename, ())) if lines not in first]
    return first + others
