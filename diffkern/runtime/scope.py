"""What is current in a thread for a block of the program, so that Ctrl-C cannot leave it current behind the block.

In: objects with a ``with`` block: tapes, recorders, streams, devices. Out: entering and leaving each change
:data:`diffkern.runtime.state.current` and the word for launches in one native call. An interrupt comes between two
calls of Python, and also at the beginning of a function in Python, an ``__exit__`` for instance, before its first
statement: a native one it finds either not begun or done. Where the native code is not for the platform (Windows),
Python does the same in steps.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from diffkern.runtime.native import pool
from diffkern.runtime.state import attention, current

__all__ = ["Scope", "put"]

_OUTER = "_outer"


def put(name: str, value: Any) -> None:
    """Make something the current one of its kind in this thread, None for nothing."""
    _native("dk_scope_put", _put, ())(name, value)


def _put(name: str, value: Any) -> None:
    before = getattr(current, name)
    setattr(current, name, value)
    attention.add((value is not None) - (before is not None))


class _Enter:
    """``__enter__`` of a scope."""

    def __get__(self, scope: Any, owner: type) -> Callable[..., Any]:
        return self if scope is None else _native("dk_scope_enter", _Python(scope).enter, (scope, scope._begin, _OUTER))

    def __call__(self, scope: Any) -> Any:
        return self.__get__(scope, type(scope))()


class _Exit:
    """``__exit__`` of a scope."""

    def __get__(self, scope: Any, owner: type) -> Callable[..., None]:
        return self if scope is None else _native("dk_scope_leave", _Python(scope).leave, (scope, scope._end, _OUTER))

    def __call__(
        self,
        scope: Any,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.__get__(scope, type(scope))(kind, error, traceback)


class Scope:
    """Something that is current inside its ``with`` block.

    A subclass says in ``_begin`` under which name of ``current`` what becomes current, and what the block gets; it must
    change nothing itself. ``_end`` runs when the block has been left.
    """

    # What was current before, of each time that it was entered: (name, what it was, the same of the time before).
    _outer: Any = None

    __enter__ = _Enter()
    __exit__ = _Exit()

    def _begin(self) -> tuple[str, Any, Any]:
        raise NotImplementedError

    def _end(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do what is to be done behind the block."""


class _Python:
    """Entering and leaving where there is no native code."""

    def __init__(self, scope: Any) -> None:
        self.scope = scope

    def enter(self) -> Any:
        name, value, result = self.scope._begin()
        self.scope._outer = (name, getattr(current, name), self.scope._outer)
        _put(name, value)
        return result

    def leave(self, *error: Any) -> None:
        if self.scope._outer is not None:
            name, before, self.scope._outer = self.scope._outer
            _put(name, before)
        self.scope._end(*error)


def _native(name: str, python: Callable[..., Any], more: tuple[Any, ...]) -> Callable[..., Any]:
    """Return a built-in function that acts on what is current, or the Python function where there is none."""
    address = pool.functions().get(name, 0)
    if not address:
        return python
    definition = pool.method(name.encode(), address, pool.METH_FASTCALL)
    return pool.built_in(definition, (current, attention.address, *more))
