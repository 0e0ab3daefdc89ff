"""Python objects as bytes by their contents, for the cache key: values that static expressions use and give.

The result of a static expression, or one that is evaluated while a function is lowered, becomes bytes that are equal
for equal contents, in every process. Objects that are no plain data are named by their kind alone: the parts of them
that lowering uses go into the key by themselves (:mod:`taken`).
"""

from __future__ import annotations

import ast
import enum
import types
from collections.abc import Callable, Iterable
from typing import Any, Final

from diffkern.frontend.syntax.static import Later
from diffkern.lang.structs import Constant, functions_of

__all__ = ["OPAQUE", "contents", "counted", "is_named"]

Encode = Callable[[Any], bytes]

OPAQUE: Final = b"object:"
"""The prefix of the name of an object whose contents are not encoded."""

_HEAP_TYPE: Final = 1 << 9


def contents(obj: Any, encode: Encode) -> bytes:
    """Return an object as bytes; ``encode`` takes numbers, funcs, types and the like, and names others ``object:``."""
    if isinstance(obj, Later):
        return _later(obj, encode)
    found = _of(obj, encode)
    return OPAQUE + type(obj).__qualname__.encode() if found is None else found


def counted(parts: Iterable[bytes]) -> bytes:
    """Return several texts as one, none of which can be taken for a part of another."""
    return b"".join(b"%d:" % len(part) + part for part in parts)


def is_named(obj: Any) -> bool:
    """Return whether an object is one of Python's own that nobody can change: a class or function written in C."""
    if isinstance(obj, type):
        return not obj.__flags__ & _HEAP_TYPE
    return isinstance(obj, types.BuiltinFunctionType) and isinstance(obj.__self__, (types.ModuleType, type(None)))


def _later(later: Later, encode: Encode) -> bytes:
    """Return a postponed expression: its text, and the data it is evaluated over if it is evaluated
    over nothing else.
    """
    text = ast.dump(later.expression).encode()
    if not later.is_plain:
        return OPAQUE + text
    known = [part for name, obj in sorted(later.known.items()) for part in (name.encode(), contents(obj, encode))]
    return b"later:" + counted([text, *known])


def _of(obj: Any, encode: Encode) -> bytes | None:
    """Return an object as bytes, None if it is opaque."""
    # `type(obj) is`, not `isinstance`: a subclass may show other contents than it holds.
    if type(obj) is dict:
        return _all(b"mapping", [part for item in obj.items() for part in item], encode)
    if type(obj) in (list, tuple):
        return _all(b"sequence", obj, encode)
    if isinstance(obj, Constant):
        functions = [encode(func) for _, func in functions_of(obj.type)]
        values = _all(str(obj.type).encode(), obj.values, encode)
        return None if values is None else b"struct:" + counted([values, *functions])
    if is_named(obj):
        return f"named:{obj.__module__}.{obj.__qualname__}".encode()
    found = encode(obj)
    if found.startswith(OPAQUE):
        return None
    return b"member:" + counted([found, *_kinds(obj)]) if isinstance(obj, enum.Enum) else found


def _kinds(member: enum.Enum) -> list[bytes]:
    """Return the names of Python's own base classes of a member, which define what operators do with it."""
    bases = type(member).__mro__
    return [base.__qualname__.encode() for base in bases if base.__module__ in ("enum", "builtins")]


def _all(tag: bytes, parts: Iterable[Any], encode: Encode) -> bytes | None:
    inside = [_of(part, encode) for part in parts]
    known = [part for part in inside if part is not None]
    return counted([tag, *known]) if len(known) == len(inside) else None
