"""Scopes: objects that are current in a thread for a block, which Ctrl-C cannot leave current behind the block.

Entering and leaving the ``with`` block of a tape, recorder, stream or device each change
:data:`diffkern.runtime.memory.state.current` and the word for launches in one native call. An interrupt comes between
two Python calls, and also at the beginning of a function in Python, an ``__exit__`` for instance, before its first
statement: a native one it finds either not begun or done. The native methods take their place in the class at the first
block. Where there is no native code for the platform (Windows), Python does the same in steps.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from diffkern.runtime.memory.state import Handler, current
from diffkern.runtime.native import pool
from diffkern.runtime.native.slow_path import slow_path_flags

__all__ = ["Scope", "put", "put_at_import", "read_by", "under", "unrecorded"]


_UNCOUNTED = sys.intern("device")
_native_put: Callable[[str, Any], None] | None = None


def put(name: str, value: Any) -> None:
    """Make an object the current one of its kind in this thread, None for nothing."""
    _bring_up()
    (_native_put or put_at_import)(name, value)


def _bring_up() -> None:
    """Install the native methods of scopes, if there are any."""
    global _native_put
    functions = pool.functions() if _native_put is None else {}
    if not functions:
        return
    setup = ctypes.PYFUNCTYPE(None, ctypes.py_object)(functions["dk_scope_setup"])
    setup((current, slow_path_flags.address, "_begin", "_end", "_outer", _UNCOUNTED))
    # Replaced in the class and not in instances: `with` looks its methods up in the type.
    for name, function in (("__enter__", "dk_scope_enter"), ("__exit__", "dk_scope_leave")):
        definition = pool.method(name.encode(), functions[function], pool.METH_FASTCALL)
        setattr(Scope, name, pool.method_of(Scope, definition))
    _native_put = pool.built_in(pool.method(b"put", functions["dk_scope_put"], pool.METH_FASTCALL), None)


def put_at_import(name: str, value: Any) -> None:
    """Do the same during the import of diffkern, when native code cannot be loaded yet.

    Native code is brought up by a thread, which would wait for the import.
    """
    before = getattr(current, name)
    setattr(current, name, value)
    # The current device does not count: a launch looks at its arrays for that.
    if name != _UNCOUNTED:
        slow_path_flags.add((value is not None) - (before is not None))


def _enter(scope: Scope) -> Any:
    """Enter in Python."""
    name, value, result = scope._begin()
    # Saved first: an interrupt behind this line finds what to go back to.
    scope._outer = (name, getattr(current, name), scope._outer)
    put_at_import(name, value)
    return result


def _leave(scope: Scope, *error: Any) -> None:
    """Leave in Python."""
    if scope._outer is not None:
        name, before, scope._outer = scope._outer
        put_at_import(name, before)
    scope._end(*error)


class _First:
    """A method of scopes until the first block, and permanently where there is no native code."""

    def __init__(self, name: str, python: Callable[..., Any]) -> None:
        self._name = name
        self._python = python

    def __get__(self, scope: Any, owner: type) -> Callable[..., Any]:
        if scope is None:
            return self
        _bring_up()
        method = vars(Scope)[self._name]
        return functools.partial(self._python if method is self else method, scope)

    def __call__(self, scope: Any, *error: Any) -> Any:
        return self.__get__(scope, type(scope))(*error)


class Scope(ABC):
    """An object that is current inside its ``with`` block.

    A subclass says in ``_begin`` under which name of ``current`` what becomes current, and what the block gets; it must
    change nothing itself. ``_end`` runs when the block has been left.
    """

    # What was current before, of each time that it was entered: (name, what it was, the same of the time before).
    _outer: Any = None

    __enter__ = _First("__enter__", _enter)
    __exit__ = _First("__exit__", _leave)

    @abstractmethod
    def _begin(self) -> tuple[str, Any, Any]: ...

    def _end(  # noqa: B027 - mostly there is nothing to do
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Clean up after the block."""


class under(Scope):
    """Hand what is done in a block to another handler than the current one, None for none."""

    def __init__(self, handler: Handler | None) -> None:
        self._handler = handler

    def _begin(self) -> tuple[str, Handler | None, Handler | None]:
        return "tape", self._handler, self._handler


class unrecorded(Scope):
    """Run a block now: it is no part of the sequence that is being recorded."""

    def _begin(self) -> tuple[str, None, None]:
        return "recorder", None, None


@contextlib.contextmanager
def read_by(name: str | None) -> Iterator[None]:
    """Tell a sequence that is being recorded who reads arrays on the host in a block, None for diffkern itself."""
    recorder = current.recorder
    if recorder is None:
        yield
        return
    before, recorder.reader = recorder.reader, name
    try:
        yield
    finally:
        recorder.reader = before
