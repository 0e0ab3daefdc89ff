"""The source text of functions, kept from the moment they are decorated.

:func:`capture_source` keeps the lines of a function's file as they are then, whatever happens to the file later.
Earlier versions of a file are kept as well: a function that another function defines repeatedly belongs to the version
that Python imported.
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
from types import CodeType, FrameType
from typing import Any, Final

__all__ = ["capture_source", "certain_text", "is_changed", "share_text", "text_read_again", "texts_of"]

_Lines = list[str]
_VERSIONS: Final = 4
_LOADED: Final = time.time()

_taken: Final[weakref.WeakKeyDictionary[Any, tuple[Any, _Lines, bool]]] = weakref.WeakKeyDictionary()
_of_files: Final[dict[str, list[_Lines]]] = {}
_executed: Final[dict[str, weakref.ref[CodeType]]] = {}


def capture_source(pyfunc: Callable[..., Any]) -> None:
    """Keep the present text of a function's file; functions of one file share it."""
    code = pyfunc.__code__
    known = _taken.get(pyfunc)
    if known is not None and known[0] is code:
        return
    file = code.co_filename
    frame = _running(file)
    # linecache also serves notebooks' cells, archives and registered sources; stale entries would show other lines.
    if frame is not None and _is_first(file, frame.f_code):
        _forget(file)
    linecache.checkcache(file)
    lines = _of_archive(pyfunc) or linecache.getlines(file, pyfunc.__globals__)
    if not lines:
        return
    # A file that runs as a script may be changed while it does.
    is_script = not file.startswith("<") and frame is not None and frame.f_globals.get("__name__") == "__main__"
    _keep(pyfunc, lines, frame is not None and not is_script)


def _of_archive(pyfunc: Callable[..., Any]) -> _Lines | None:
    """Return the text of a module in an archive from its importer, since linecache keeps the first
    version; else None.
    """
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


def _running(file: str) -> FrameType | None:
    """Return the frame in which Python is executing the module code of a file that was read or registered, or None."""
    # Frame 0 is this function, 1 is `capture_source`; the module's frame is further out.
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (frame.f_code.co_filename != file or frame.f_code.co_name != "<module>"):
        frame = frame.f_back
    return frame


def _is_first(file: str, code: CodeType) -> bool:
    """Return whether the code of a whole file is another one than at the last call."""
    known = _executed.get(file)
    if known is not None and known() is code:
        return False
    # Weakly: the code of a module that is gone must not be kept alive, and its address may be used again.
    _executed[file] = weakref.ref(code)
    return True


def _forget(file: str) -> bool:
    """Make linecache read a file again that looks unchanged to it; return False for a notebook's cell or a registered
    text.
    """
    entry = linecache.cache.get(file)
    is_read = entry is not None and len(entry) == 4 and entry[1] is not None
    if is_read:
        del linecache.cache[file]
    return is_read


def _keep(pyfunc: Callable[..., Any], lines: _Lines, is_certain: bool) -> None:
    _taken[pyfunc] = pyfunc.__code__, lines, is_certain
    versions = _of_files.setdefault(pyfunc.__code__.co_filename, [])
    # By identity, so that functions of one file share a list; equal texts are moved to the end as the latest version.
    if not any(lines is version for version in versions):
        versions[:] = [*(version for version in versions if version != lines), lines][-_VERSIONS:]


def text_read_again(pyfunc: Callable[..., Any]) -> Iterator[_Lines]:
    """Yield the text of a function's file as it is now, if it differs; used if no known text is the right one.

    A file that was rewritten with the same size within the clock's resolution looks unchanged to linecache.
    """
    file = pyfunc.__code__.co_filename
    before = linecache.getlines(file, pyfunc.__globals__)
    if not _forget(file):
        return
    lines = linecache.getlines(file, pyfunc.__globals__)
    if lines and lines != before:
        _keep(pyfunc, lines, is_certain=False)
        yield lines


def share_text(made: Callable[..., Any], pyfunc: Callable[..., Any]) -> None:
    """Give a function that was made from another one's code the other's text."""
    known = _taken.get(pyfunc)
    if known is not None:
        _taken[made] = known


def certain_text(pyfunc: Callable[..., Any]) -> _Lines | None:
    """Return the text of a function, if no other known text can be its own; else None."""
    texts = texts_of(pyfunc)
    known = _taken.get(pyfunc)
    return texts[0] if known is not None and (len(texts) == 1 or known[2]) else None


def is_changed(pyfunc: Callable[..., Any]) -> bool:
    """Return whether the file of a function was written after it was imported, as far as the module's cached code
    shows.

    Python writes to a module's cached code which version of the file it was compiled from.
    """
    file = pyfunc.__code__.co_filename
    known, entry = _taken.get(pyfunc), linecache.cache.get(file)
    if known is None or known[2] or entry is None or len(entry) < 4 or entry[2] is not known[1]:
        return False
    size, written = entry[0], entry[1]
    # Written before diffkern was loaded, the file is the one imported; without cached code there is nothing to compare
    # with.
    if written is None or written < _LOADED or sys.dont_write_bytecode:
        return False
    spec: ModuleSpec | None = pyfunc.__globals__.get("__spec__")
    if spec is None or spec.origin != file or not spec.cached:
        return False
    try:
        with open(spec.cached, "rb") as code:
            head = code.read(16)
    except OSError:
        return False
    # The header of a .pyc: flags (0: by time and size), time of modification, size.
    flags, *version = (int.from_bytes(head[k : k + 4], "little") for k in (4, 8, 12))
    return not flags and version != [int(written) & 0xFFFFFFFF, size & 0xFFFFFFFF]


def texts_of(pyfunc: Callable[..., Any]) -> list[_Lines]:
    """Return the texts in which a function may be found, the likeliest first; none if its file is not known."""
    capture_source(pyfunc)
    known = _taken.get(pyfunc)
    first = [] if known is None else [known[1]]
    others = [lines for lines in reversed(_of_files.get(pyfunc.__code__.co_filename, ())) if lines not in first]
    return first + others
