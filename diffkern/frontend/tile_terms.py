"""What the functions of tiles share: their arguments, shapes known while compiling, and how tiles are changed.

In: a call's syntax. Out: terms, shapes, dtypes; or an error with its place. A tile is a value, so a function that
changes one in place binds the variable to another tile. That means the same as in-place change as long as nothing else
stands for the same tile, which is what :func:`update` makes sure of.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from diffkern.frontend import coerce
from diffkern.frontend.context import Context
from diffkern.frontend.flow import UPDATES
from diffkern.frontend.terms import Const, Static, Term, Tup, Val, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.lang import resolve_dtype
from diffkern.ops.tile import MAX_NDIM

__all__ = [
    "arguments",
    "check_update",
    "checked_size",
    "constant_int",
    "dtype_argument",
    "flag",
    "index_value",
    "index_values",
    "is_tile",
    "mismatch",
    "origin",
    "shape_argument",
    "spelled",
    "storage",
    "tile_argument",
    "tile_type",
    "update",
    "variable",
    "view_of",
    "word",
]

MAX_BYTES: Final = 64 * 1024 * 1024
_STORAGE: Final = ("register", "shared")


def is_tile(term: Term) -> bool:
    """Whether a term is a tile."""
    return isinstance(term, Val) and isinstance(term.value.type, T.Tile)


def tile_type(v: Value) -> T.Tile:
    """The type of a value that is a tile."""
    assert isinstance(v.type, T.Tile)
    return v.type


def spelled(shape: Sequence[int]) -> str:
    """A shape for a message."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


# -- arguments ---------------------------------------------------------------------------------------------------------


def arguments(
    cx: Context, name: str, node: ast.Call, names: Sequence[str], optional: Sequence[str] = ()
) -> Mapping[str, ast.expr]:
    """The syntax of each argument by its parameter's name; those in ``optional`` may be missing."""
    every = [*names, *optional]
    if len(node.args) > len(every):
        cx.type_error(node, f"{name} takes at most {len(every)} arguments ({', '.join(every)}), not {len(node.args)}")
    given: dict[str, ast.expr] = dict(zip(every, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in every:
            cx.type_error(node, f"{name} has no parameter {keyword.arg!r}", f"it has {', '.join(every)}")
        if keyword.arg in given:
            cx.type_error(node, f"{name} got {keyword.arg} twice")
        given[keyword.arg] = keyword.value
    for parameter in names:
        if parameter not in given:
            cx.type_error(node, f"{name} needs {parameter}", f"its parameters are {', '.join(every)}")
    return given


def constant_int(cx: Context, term: Term, node: ast.AST, what: str) -> int:
    """An integer known while compiling."""
    if isinstance(term, Const) and isinstance(term.value, int) and not isinstance(term.value, bool):
        return term.value
    cx.type_error(
        node,
        f"{what} must be an integer known when the kernel is compiled, not {describe(term)}",
        "write a number, or a global or closure variable, as in TILE = dk.constant(16)",
    )


def shape_argument(cx: Context, node: ast.expr, what: str, *, infer: bool = False) -> tuple[int, ...]:
    """A shape: an integer or a tuple of them, positive; with ``infer`` one of them may be -1."""
    term = cx.expr(node)
    items = term.items if isinstance(term, Tup) else (term,)
    shape = tuple(constant_int(cx, item, node, f"an extent of {what}") for item in items)
    if not 1 <= len(shape) <= MAX_NDIM:
        cx.type_error(node, f"{what} has 1 to {MAX_NDIM} axes, not {len(shape)}")
    if any(n < 1 and not (infer and n == -1) for n in shape):
        cx.type_error(node, f"{what} is {spelled(shape)}", "each extent is at least 1")
    return shape


def checked_size(cx: Context, t: T.Tile, node: ast.AST) -> T.Tile:
    """The type, unless a tile of it is beyond all measure."""
    if t.itemsize > MAX_BYTES:
        cx.type_error(node, f"a tile of shape {spelled(t.shape)} takes {t.itemsize} bytes", "use smaller tiles")
    return t


def dtype_argument(cx: Context, node: ast.expr) -> T.Element:
    """A dtype, as the kernel may write it."""
    term = cx.expr(node)
    if isinstance(term, Static):
        obj: Any = term.obj
        if isinstance(obj, (T.Scalar, T.Vec, T.Mat)):
            return obj
        try:
            return resolve_dtype(obj)
        except TypeError as error:
            cx.type_error(node, f"dtype: {error}")
    cx.type_error(node, f"dtype must be a type such as float or dk.vec3, not {describe(term)}")


def storage(cx: Context, given: Mapping[str, ast.expr]) -> None:
    """Check the argument ``storage``. Where a tile is kept is the compiler's choice: it must be one of the two."""
    node = given.get("storage")
    if node is not None and not (isinstance(node, ast.Constant) and node.value in _STORAGE):
        cx.type_error(node, "storage must be 'register' or 'shared'")


def flag(cx: Context, given: Mapping[str, ast.expr], name: str) -> None:
    """Check an argument that is True or False and promises or asks for nothing that is not done anyway."""
    node = given.get(name)
    if node is not None and not (isinstance(node, ast.Constant) and isinstance(node.value, bool)):
        cx.type_error(node, f"{name} must be True or False")


def word(cx: Context, given: Mapping[str, ast.expr], name: str, among: Sequence[str]) -> str:
    """An argument that is one of some words; the first one by default."""
    node = given.get(name)
    if node is None:
        return among[0]
    if isinstance(node, ast.Constant) and node.value in among:
        return str(node.value)
    cx.type_error(node, f"{name} must be one of {', '.join(map(repr, among))}")


def tile_argument(cx: Context, node: ast.expr, what: str) -> Value:
    """An argument that must be a tile."""
    term = cx.expr(node)
    if not isinstance(term, Val) or not isinstance(term.value.type, T.Tile):
        cx.type_error(
            node, f"{what} must be a tile, not {describe(term)}", "load one with dk.tile_load(array, shape=…)"
        )
    return term.value


def index_values(cx: Context, node: ast.expr, what: str, count: int) -> list[Value]:
    """Offsets or indices, one per axis."""
    term = cx.expr(node)
    items = term.items if isinstance(term, Tup) else (term,)
    if len(items) != count:
        cx.type_error(node, f"{what} has {len(items)} entries for {count} axes")
    return [index_value(cx, item, node, what) for item in items]


def index_value(cx: Context, item: Term, node: ast.AST, what: str) -> Value:
    """One offset or index."""
    t = coerce.default_type(item) if isinstance(item, Const) else item.type if isinstance(item, Val) else None
    if not (isinstance(t, T.Scalar) and t.is_integer):
        cx.type_error(node, f"{what} must be made of integers, not {t or describe(item)}")
    return cx.b.cast(coerce.value(cx, item, node), T.INT32)


# -- errors about two tiles --------------------------------------------------------------------------------------------


def mismatch(cx: Context, what: str, a: Value, b: Value, node: ast.AST, remedy: str | None = None) -> NoReturn:
    """Two tiles do not fit: both shapes, and where both come from."""
    cx.type_error(node, f"{what}: {origin(cx, a)}, and {origin(cx, b)}", remedy)


def origin(cx: Context, v: Value) -> str:
    """A tile for a message: its name, shape, dtype and line."""
    t = tile_type(v)
    line = None
    for frame in reversed(cx.stack):
        for binding in frame.env.values():
            if isinstance(binding.term, Val) and binding.term.value is v and binding.loc is not None:
                line = binding.loc.line
    line = cx.tile_lines.get(v, line)
    where = f" (line {line})" if line is not None else ""
    return f"{v.name or 'a tile'} has shape {spelled(t.shape)} of {t.dtype}{where}"


# -- changing tiles ----------------------------------------------------------------------------------------------------


def view_of(cx: Context, part: Value, whole: Value) -> Value:
    """Note that a tile is a part of another one, or another look at it, and which variables hold that one."""
    names = {n for n, known in cx.env.items() if isinstance(known.term, Val) and known.term.value is whole}
    cx.tile_views[part] = frozenset(names) | cx.tile_views.get(whole, frozenset())
    return part


def check_update(cx: Context, name: str, node: ast.AST) -> None:
    """Refuse a change of a tile that something else stands for as well."""
    binding = cx.env.get(name)
    if binding is None or not isinstance(binding.term, Val):
        return
    if name in cx.frame.tile_parameters:
        cx.type_error(
            node,
            f"{name} is the caller's tile, which a func cannot change",
            "make a tile of its own, as in t = 1.0 * t, change that one and return it",
        )
    if binding.term.value in cx.tile_views:
        cx.type_error(
            node,
            f"{name} is a view of another tile and cannot be changed",
            "change that tile itself, with dk.tile_assign(tile, part, offset=…) or by an index",
        )
    for other, known in cx.env.items():
        if isinstance(known.term, Val) and name in cx.tile_views.get(known.term.value, ()):
            line = f" (line {known.loc.line})" if known.loc is not None else ""
            cx.type_error(
                node,
                f"{name} is changed while {other}{line} is a view of it",
                f"make a copy instead, as in {other} = 1.0 * …, or make the view after the change",
            )


def variable(cx: Context, node: ast.expr, what: str) -> tuple[str, Value]:
    """An argument that is changed: it must be a variable that holds a tile."""
    value = tile_argument(cx, node, what)
    if not isinstance(node, ast.Name):
        cx.type_error(node, f"{what} is changed, so it must be a variable", "assign the tile to a variable first")
    return node.id, value


def update(cx: Context, call: ast.Call, key: str, node: ast.expr, new: Value) -> None:
    """Let the variable that was passed to a function hold the tile that the function made of it."""
    if cx.builtin(call.func) != key:
        cx.type_error(
            call.func,
            f"{key} changes its argument and must be called by its own name, or one that it has outside of the kernel",
            f"write dk.{key}(…)",
        )
    assert key in UPDATES
    assert isinstance(node, ast.Name)
    check_update(cx, node.id, node)
    new.name = node.id
    cx.bind(node.id, Val(new), node)
