"""Python objects as bytes by what they hold, for the cache key: what static expressions see and give.

In: any object. Out: bytes that are equal for equal contents, in every process; of an expression that is evaluated while
a function is lowered, its tree and all that its names meant. An opaque object is named by a token of
the expression's own, which no other process has: such a program is not found again, rather than taken for another.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from types import BuiltinFunctionType, SimpleNamespace
from typing import Any, Final

from diffkern.frontend.scope import MISSING
from diffkern.frontend.static import Later
from diffkern.lang.structs import definition_of

__all__ = ["contents"]

_Encode = Callable[[Any], bytes]

_MAX_DEPTH: Final = 8


def contents(obj: Any, encode: _Encode) -> bytes:
    """An object as bytes; ``encode`` takes numbers, funcs, types and the like, and names others ``object:``."""
    if isinstance(obj, Later):
        return _later(obj, encode)
    return _of(obj, encode, 0) or b"object:%s" % type(obj).__qualname__.encode()


def _later(later: Later, encode: _Encode) -> bytes:
    """A postponed expression: its text, and its names with what stands at the end of their chains of attributes."""
    parts = [ast.dump(later.expression).encode()]
    for path in sorted(_paths(later.expression)):
        obj: Any = later.known.get(path[0], MISSING)
        for name in path[1:]:
            obj = inspect.getattr_static(obj, name, MISSING) if inspect.ismodule(obj) or inspect.isclass(obj) else obj
        found = b"later" if obj is MISSING else _of(obj, encode, 0) or b"token:" + later.token.encode()
        parts += [".".join(path).encode(), found]
    return b"".join(_counted(part) for part in parts)


def _paths(expression: ast.expr) -> set[tuple[str, ...]]:
    """Names and chains of attributes in an expression."""
    found: set[tuple[str, ...]] = set()
    pending: list[ast.AST] = [expression]
    while pending:
        node = inner = pending.pop()
        names: list[str] = []
        while isinstance(inner, ast.Attribute):
            names.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            found.add((inner.id, *reversed(names)))
        else:
            pending += ast.iter_child_nodes(node)
    return found


def _of(obj: Any, encode: _Encode, depth: int) -> bytes | None:
    """An object as bytes, None if it is opaque."""
    if depth > _MAX_DEPTH:
        return None
    found = encode(obj)
    if not found.startswith(b"object:"):
        return found
    if isinstance(obj, (list, tuple)):
        return _all(b"sequence", obj, encode, depth)
    if isinstance(obj, (set, frozenset)):
        inside = [_of(item, encode, depth + 1) for item in obj]
        known = sorted(item for item in inside if item is not None)
        return b"set" + b"".join(map(_counted, known)) if len(known) == len(inside) else None
    if isinstance(obj, Mapping):
        return _all(b"mapping", [part for item in obj.items() for part in item], encode, depth)
    if isinstance(obj, BuiltinFunctionType) or inspect.ismodule(obj) or inspect.isclass(obj):
        return f"named:{getattr(obj, '__module__', None)}.{getattr(obj, '__qualname__', obj.__name__)}".encode()
    definition = definition_of(type(obj))
    if definition is not None:
        values = [getattr(obj, name) for name in definition.type.names]
        return _all(str(definition.type).encode(), values, encode, depth)
    if is_dataclass(obj) or isinstance(obj, SimpleNamespace):
        names = [f.name for f in fields(obj)] if is_dataclass(obj) else sorted(vars(obj))
        values = [part for name in names for part in (name, getattr(obj, name))]
        return _all(type(obj).__qualname__.encode(), values, encode, depth)
    return None


def _all(tag: bytes, parts: Any, encode: _Encode, depth: int) -> bytes | None:
    inside = [_of(part, encode, depth + 1) for part in parts]
    known = [part for part in inside if part is not None]
    return _counted(tag) + b"".join(map(_counted, known)) if len(known) == len(inside) else None


def _counted(data: bytes) -> bytes:
    return b"%d:" % len(data) + data
