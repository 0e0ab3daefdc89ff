"""Syntax trees and captured objects as bytes for the cache key.

A definition, or the object of a captured name, becomes bytes of an encoding of our own: equal for the same meaning in
every process, on every machine and Python version. Positions, comments and docstrings are no part of a tree.
"""

from __future__ import annotations

import ast
import enum
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from diffkern.frontend.syntax.contents import OPAQUE, is_named
from diffkern.frontend.syntax.plain import enum_value, exact, is_masked, native, overrides_items
from diffkern.frontend.syntax.scope import MISSING
from diffkern.frontend.syntax.static import Given
from diffkern.lang import CompositeValue, Constant, Func, definition_of, resolve_dtype
from diffkern.lang.called import Called
from diffkern.lang.functions import FuncTransformation
from diffkern.lang.intrinsics import lowering_key
from diffkern.lang.numba_cuda import Special
from diffkern.lang.structs import functions_of

__all__ = ["encode_object", "encode_tree", "encode_value"]


# -- the syntax tree ---------------------------------------------------------------------------------------------------

# Fields that say nothing about what the code does.
_SKIPPED: Final = frozenset({"ctx", "kind", "type_comment", "type_params", "decorator_list", "returns"})


def encode_tree(node: ast.FunctionDef) -> bytes:
    """Return the syntax tree of a function as bytes, without the annotations of its parameters: they count by their
    meaning.

    Empty fields are left out, so that fields added by later Pythons change nothing.
    """
    out: list[bytes] = []
    _tree(node, out)
    return b"".join(out)


def _tree(node: ast.FunctionDef, out: list[bytes]) -> None:
    arguments = node.args
    own = {id(a) for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    pending: list[Any] = [node]  # texts and parts to be encoded; sums of many terms are too deep for a recursion
    while pending:
        part = pending.pop()
        if isinstance(part, _Text):
            out.append(part)
        elif isinstance(part, ast.AST):
            pending += reversed(_node(part, annotated=id(part) not in own))
        elif isinstance(part, list):
            inside = [item for item in part if not _is_docstring(item)]
            pending += (_Text(b"]"), *reversed(inside), _Text(b"["))
        else:  # an identifier, a number of dots, a default left out
            out.append(encode_value(part))


class _Text(bytes):
    """A part of the encoding that is complete."""


_END: Final = _Text(b")")


class _Forms(dict[type[ast.AST], tuple[_Text, tuple[tuple[str, _Text], ...]]]):
    """The opening text of each class of nodes, and its fields, each with its opening text."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[_Text, tuple[tuple[str, _Text], ...]]:
        fields = tuple((name, _Text(b" " + name.encode() + b"=")) for name in kind._fields if name not in _SKIPPED)
        found = self[kind] = _Text(b"(" + kind.__name__.encode()), fields
        return found


_FORMS: Final = _Forms()


def _node(node: ast.AST, annotated: bool) -> list[Any]:
    """Return the parts of a node, in order, with its annotation or without it."""
    begin, fields = _FORMS[type(node)]
    parts: list[Any] = [begin]
    if isinstance(node, ast.Constant):
        return [begin, _Text(b" " + encode_value(node.value)), _END]
    if isinstance(node, Given):
        parts.append(_Text(b" %d" % node.index))
    for name, named in fields:
        value = getattr(node, name, None)
        if value is not None and value != [] and (annotated or name != "annotation"):
            parts += (named, value)
    parts.append(_END)
    return parts


def _is_docstring(item: Any) -> bool:
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and isinstance(item.value.value, str)


# -- captured objects --------------------------------------------------------------------------------------------------


def encode_value(value: Any) -> bytes:
    """Return a number, a tuple of such, text, or None as tagged bytes of full width, readable where that is exact.

    Raises
    ------
    TypeError
        For anything else.
    """
    if type(value) is str:  # as most values of a tree are, its identifiers
        return _counted(b"str", value.encode(errors="surrogatepass"))
    if isinstance(value, CompositeValue):
        return f"composite:{value.ir}:".encode() + value.tobytes().hex().encode()
    if isinstance(value, np.generic):
        return f"numpy:{value.dtype.name}:{value.tobytes().hex()}".encode()
    if isinstance(value, enum.Enum):  # of which two may be compared by identity
        named = f"{type(value).__qualname__}.{value.name}"
        return _counted(b"enum", named.encode()) + encode_value(enum_value(value))
    value = exact(value)
    # bool before int, of which it is a subclass.
    if isinstance(value, bool):
        return b"bool:1" if value else b"bool:0"
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 63:
            return b"i64:%d" % value
        return b"int:" + str(int(value)).encode()
    if isinstance(value, float):
        return b"f64:" + float.__repr__(value).encode()  # the shortest text that reads back as the same number
    if isinstance(value, complex):
        return b"c128:" + complex.__repr__(value).encode()
    if isinstance(value, str):
        return _counted(b"str", value.encode(errors="surrogatepass"))
    if isinstance(value, bytes):
        return _counted(b"bytes", value)
    if isinstance(value, tuple):
        return b"tuple:%d:" % len(value) + b"".join(_counted(b"", encode_value(item)) for item in value)
    if value is None:
        return b"none"
    if value is ...:
        return b"ellipsis"
    raise TypeError(f"{type(value).__name__} is no constant")


def _counted(tag: bytes, data: bytes) -> bytes:
    return tag + b":%d:" % len(data) + data


def encode_object(obj: Any, number_of: Callable[[Func], int]) -> bytes:
    """Return the bytes of any object of a captured name. Objects a kernel cannot use are named by kind: lowering
    refuses them.
    """
    if obj is MISSING:
        return b"missing"
    key = lowering_key(obj)
    if key is not None:
        return b"builtin:" + key.encode()
    if isinstance(obj, Special):
        return b"special:" + obj.name.encode()
    if isinstance(obj, Func):
        return b"func:" + _func(obj, number_of)
    if isinstance(obj, FuncTransformation):
        return b"derivative:" + obj.form.value.encode()
    if isinstance(obj, Called):
        return b"derivative:" + obj.form.value.encode() + b" of " + encode_object(obj.owner, number_of)
    # Types are tried by resolving, since there are many spellings of one dtype, which mean the same.
    try:
        return b"dtype:" + str(resolve_dtype(obj)).encode()
    except TypeError:
        pass
    definition = definition_of(obj)
    if definition is not None:
        methods = b"".join(b" %s:%d" % (name.encode(), number_of(f)) for name, f in functions_of(definition.type))
        return b"struct:" + str(definition.type).encode() + b":" + _defaults(definition.defaults) + methods
    if isinstance(obj, np.ndarray) and not is_masked(obj) and obj.dtype.kind in "biuf":
        # In native byte order: the same numbers give the same key whatever the file was that they came from.
        contents = hashlib.sha256(native(obj).tobytes()).hexdigest()
        return f"array:{obj.dtype.name}:{obj.shape}:{contents}".encode()
    if is_named(obj):
        return f"named:{obj.__module__}.{obj.__qualname__}".encode()
    if isinstance(obj, range):
        return f"range:{obj.start}:{obj.stop}:{obj.step}".encode()
    named = OPAQUE + f"{type(obj).__module__}.{type(obj).__qualname__}".encode()
    if isinstance(obj, tuple) and not overrides_items(obj):
        inside = [encode_object(item, number_of) for item in obj]
        taken_apart = not any(item.startswith(OPAQUE) for item in inside)
        return b"tuple:%d:" % len(obj) + b"".join(_counted(b"", item) for item in inside) if taken_apart else named
    try:
        return encode_value(obj)
    except TypeError:
        return named


def _func(func: Func, number_of: Callable[[Func], int]) -> bytes:
    """Return the numbers of a function's overloads, and of the functions that stand for it on a device."""
    ways = [(where, func.on(simt)) for where, simt in ((b" on a CPU:", False), (b" on a GPU:", True))]
    told = [(where, b"none" if isinstance(f, str) else b"%d" % number_of(f)) for where, f in ways if f is not func]
    other = b"".join(part for pair in told for part in pair)
    return b",".join(b"%d" % number_of(overload) for overload in func.overloads) + other


def _defaults(defaults: Mapping[str, Any]) -> bytes:
    """Return the defaults of a struct's fields; those of a nested struct are given by its type and values in order."""
    parts = [_counted(name.encode(), _default(value)) for name, value in defaults.items()]
    return b"%d:" % len(parts) + b"".join(parts)


def _default(value: Any) -> bytes:
    if isinstance(value, Constant):
        inside = [_counted(b"", _default(item)) for item in value.values]
        return _counted(b"struct", str(value.type).encode()) + b"".join(inside)
    return encode_value(value)
