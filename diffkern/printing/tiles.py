"""Tile operations in generated Python: a call each, and a small function for operations on elements.

Given an op and the texts of its operands, :func:`call` returns its call. The names are those of
:mod:`diffkern.printing.tile_prims`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from diffkern.ir.nodes import Function, Op, walk
from diffkern.ir.ops.buffer import BUFFER_PRODUCTS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import STORAGE_ONLY, Element, Mat, Tile, Vec, scalar_of
from diffkern.ir.views import Part
from diffkern.printing import tile_prims

__all__ = ["PRIMITIVES", "call", "function_names", "is_same_product", "library_products"]

MODULE = "diffkern.printing.tile_prims"
PRIMITIVES = frozenset(n for n in vars(tile_prims) if n.startswith("tile_")) | {"float16", "bfloat16"}

Spelled = tuple[str, list[str]]


def _axes(t: Element) -> int:
    """Return how many axes an element takes."""
    return 2 if isinstance(t, Mat) else 1 if isinstance(t, Vec) else 0


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def stored_as(dtype: Element) -> str | None:
    """Return the name of the type that elements are rounded to, if they are."""
    s = scalar_of(dtype)
    return s.name if s in STORAGE_ONLY else None


def function_names(op: Op) -> list[str]:
    """Return the types that a map's results are rounded to."""
    return [stored_as(t) or "None" for t in op.attrs["dtypes"]] if any(map(stored_as, op.attrs["dtypes"])) else []


def call(op: Op, operands: Sequence[str]) -> Spelled:
    """Return the primitive of an op, and its arguments."""
    return _CALLS.get(op.name, _plain)(op, operands)


def _fill(op: Op, x: Sequence[str]) -> Spelled:
    t = op.attrs["type"]
    rounded = stored_as(t.dtype)
    return "tile_fill", [x[0], str(t.shape), *([rounded] if rounded else [])]


def _along(op: Op, places: Sequence[str]) -> tuple[str, list[str]]:
    """Return the offset, and the axis and tile of indices by which elements are found, if given."""
    if "along" not in op.attrs:
        return _tuple(places), []
    return _tuple(places[:-1]), [f"along=({op.attrs['along']}, {places[-1]})"]


def _load(op: Op, x: Sequence[str]) -> Spelled:
    offset, along = _along(op, x[1:])
    return "tile_load", [x[0], offset, str(op.attrs["shape"]), *along]


def _store(op: Op, x: Sequence[str]) -> Spelled:
    offset, along = _along(op, x[1:-1])
    return "tile_store", [x[0], offset, x[-1], *along]


def _atomic(op: Op, x: Sequence[str]) -> Spelled:
    offset, along = _along(op, x[1:-1])
    return f"tile_atomic_{op.attrs['kind']}", [x[0], offset, x[-1], *along]


def _accumulate(op: Op, x: Sequence[str]) -> Spelled:
    # "plain" is the primitive's default, and would only lengthen the text.
    (offset, along), mode = _along(op, x[1:-1]), op.attrs["mode"]
    return "tile_accumulate", [x[0], offset, x[-1], *([] if mode == "plain" else [f'"{mode}"']), *along]


def _shaped(op: Op, x: Sequence[str]) -> Spelled:
    axes = _axes(_tile(op).dtype)
    name, arguments = _plain(op, x)
    return name, [*arguments, *([str(axes)] if axes else [])]


def _tile(op: Op) -> Tile:
    t = op.operands[0].type
    assert isinstance(t, Tile)
    return t


def _add_at(op: Op, x: Sequence[str]) -> Spelled:
    (name, arguments), kind = _plain(op, x), op.attrs.get("kind", "add")
    return name, [*arguments, *([] if kind == "add" else [f'"{kind}"'])]


def _reduce(op: Op, x: Sequence[str]) -> Spelled:
    axes = _axes(_tile(op).dtype)
    axis = op.attrs["axis"]
    out = [x[0], f'"{op.attrs["kind"]}"', *([] if axis is None and not axes else [str(axis)])]
    return op.name, [*out, *([str(axes)] if axes else [])]


def _scan(op: Op, x: Sequence[str]) -> Spelled:
    if "kind" in op.attrs:
        return "tile_scan_extremum", [x[0], f'"{op.attrs["kind"]}"']
    return _plain(op, x)


def _plain(op: Op, x: Sequence[str]) -> Spelled:
    # Operands, with indices as a tuple; then the attributes of the row, in order: flags by name.
    row = lookup(op.name)
    count = len(x) if row.arity is not None else len(x) - len(Part(op).index)
    shown = [f"{k}={op.attrs[k]}" if t is bool else str(op.attrs[k]) for k, t in row.attrs.items()]
    return op.name, [*x[:count], *([_tuple(x[count:])] if count < len(x) else []), *shown]


def _matmul(op: Op, x: Sequence[str]) -> Spelled:
    flags = [f"{k}=True" for k in ("trans_a", "trans_b") if op.attrs[k]]
    dtype = op.attrs["dtype"].name
    return "tile_matmul", [*x, *flags, *([] if dtype == "float32" else [f"dtype={dtype}"])]


# Those that are not written as their rows are.
_CALLS: Mapping[str, Callable[[Op, Any], Spelled]] = {
    "tile_fill": _fill,
    "tile_load": _load,
    "tile_store": _store,
    "tile_atomic": _atomic,
    "tile_accumulate": _accumulate,
    "tile_broadcast": _shaped,
    "tile_reshape": _shaped,
    "tile_add_at": _add_at,
    "tile_reduce": _reduce,
    "tile_argreduce": _reduce,
    "tile_scan": _scan,
    "tile_matmul": _matmul,
}


# -- matrix products of a library --------------------------------------------------------------------------------------
# Matrix products of tiles that a library computes, by the names of the functions that call it.


def library_products(fn: Function) -> dict[str, Op]:
    """Return the names of matrix products that a library computes, each with the first op that calls it."""
    found: list[Op] = []
    for op in walk(fn.body):
        if op.name in BUFFER_PRODUCTS and not any(is_same_product(first, op) for first in found):
            found.append(op)
    return {f"product_{k}": op for k, op in enumerate(found)}


def is_same_product(one: Op, other: Op) -> bool:
    """Return whether two products are one function; both may add to the old result."""
    # Whether the old result is added is left to each call, so it does not make another function.
    return {**one.attrs, "add": None} == {**other.attrs, "add": None}
