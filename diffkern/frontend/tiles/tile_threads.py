"""Tiles and what the threads of a block hold: tiles of it, what each thread takes or changes, stacks of a block.

A call, which all threads of a block make, becomes ops with as many ``threads`` as a block has. On the CPU that is one,
so what depends on the number of threads, such as a sum over them, is another number there.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping
from typing import Final

from diffkern.frontend.builtins import local
from diffkern.frontend.terms import coerce, narrow
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Binding, Rec, Static, Term, Tup, Val, describe
from diffkern.frontend.tiles import tile_fields
from diffkern.frontend.tiles.tile_terms import (
    Call,
    TileCall,
    bound,
    checked_size,
    constant_int,
    dtype_argument,
    flag,
    index_value,
    origin,
    tile_type,
    update,
    value_argument,
    variable,
)
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.ir.structs import Struct, holds_arrays
from diffkern.lang import definition_of
from diffkern.process.dataclass import dataclass

__all__ = ["CALLS"]


# -- what all threads hold ---------------------------------------------------------------------------------------------


def _tile(cx: Context, call: TileCall) -> Term:
    """Lower ``tile(x)``: a tile of what the threads of the block hold. On the CPU a block is one thread."""
    value = coerce.value(cx, cx.expr(call["x"]), call["x"])
    t = value.type
    keep = call.get("preserve_type")
    flag(cx, call.given, "preserve_type")
    whole = isinstance(keep, ast.Constant) and bool(keep.value)
    if isinstance(t, T.Scalar) or whole:
        return Val(_of_threads(cx, value))
    if not isinstance(t, (T.Vec, T.Mat)):
        call.refuse(cx, f"{call.name} of {t}", "pass a number or a vector")
    threads = cx.block_dim
    dtype = narrow.stored(t.dtype)
    # As Warp has it, a vector becomes rows of components, with the threads along the last axis.
    out = cx.b.one("tile_fill", cx.b.zero(T.value_type(dtype)), type=T.Tile(dtype, (t.size, threads)))
    for k, component in enumerate(cx.b.components(value)):
        row = cx.b.one("tile_reshape", _of_threads(cx, component), shape=(1, threads))
        out = cx.b.one("tile_insert", out, row, cx.b.i32(k), cx.b.i32(0), steps=(1, 1))
    return Val(cx.b.one("tile_reshape", out, shape=(*t.shape, threads)))


def _of_threads(cx: Context, value: Value) -> Value:
    dtype = narrow.stored(value.type)  # type: ignore[arg-type]
    value = cx.b.cast(value, T.value_type(dtype))
    return cx.b.one("tile_fill", value, type=T.Tile(dtype, (cx.block_dim,)), threads=cx.block_dim)


def _of_thread(cx: Context, v: Value) -> Value:
    """Return the element of this thread, as an element of an array is read."""
    element = cx.b.one("tile_extract", v, cx.b.i32(0), threads=cx.block_dim)
    return cx.b.cast(element, narrow.held(tile_type(v).dtype)) if cx.dialect.narrow_elements else element


def _untile(cx: Context, call: TileCall) -> Term:
    """Lower ``untile(t)``: the element of a tile that belongs to this thread of the block."""
    v = call.only_tile(cx)
    t = tile_type(v)
    if t.shape[-1] != cx.block_dim or t.ndim > 3:
        where = "which are 1 on the CPU" if cx.block_dim == 1 else f"which are {cx.block_dim}"
        call.refuse(
            cx,
            f"{call.name}: {origin(cx, v)}, and the last axis must be the threads of the block, {where}",
            "use it on a tile made by dk.tile(x)",
        )
    if t.ndim == 1:
        return Val(_of_thread(cx, v))
    assert isinstance(t.dtype, T.Scalar)
    extents = t.shape[:-1]
    one = (*(1 for _ in extents), cx.block_dim)
    parts = []
    # The inverse of `_tile`: one row for each component.
    for place in itertools.product(*map(range, extents)):
        first = (*(cx.b.i32(k) for k in place), cx.b.i32(0))
        row = cx.b.one("tile_view", v, *first, shape=one, steps=(1,) * t.ndim)
        parts.append(_of_thread(cx, cx.b.one("tile_reshape", row, shape=(cx.block_dim,))))
    held = parts[0].type
    assert isinstance(held, T.Scalar)
    made = T.Vec(held, *extents) if len(extents) == 1 else T.Mat(held, *extents)
    return Val(cx.b.construct(made, parts))


def _from_thread(cx: Context, call: TileCall) -> Term:
    """Lower ``tile_from_thread``: a tile of what one thread holds."""
    value = coerce.value(cx, value_argument(cx, call["value"]), call["value"])
    if not isinstance(value.type, (T.Scalar, T.Vec, T.Mat)):
        call.refuse(cx, f"{call.name} of {value.type}", "pass a number or a vector")
    dtype = narrow.stored(value.type)
    t = checked_size(cx, T.Tile(dtype, call.shape(cx)), call.node)
    thread = index_value(cx, cx.expr(call["thread_idx"]), call["thread_idx"], "thread_idx")
    # With one thread, its own value is the one.
    if cx.block_dim > 1:
        value = cx.b.one("tile_extract", _of_threads(cx, value), thread)
    return Val(cx.b.one("tile_fill", cx.b.cast(value, T.value_type(dtype)), type=t))


# -- elements that each thread changes ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TileChange:
    """The arguments of a call: the tile that it changes, the element's index, the call with the other arguments."""

    call: TileCall
    tile: Value
    index: list[Value]

    @property
    def dtype(self) -> T.Element:
        """The type of an element once it is read."""
        return T.value_type(tile_type(self.tile).dtype)


def _change(cx: Context, call: TileCall) -> _TileChange:
    # The number of axes decides the names of the index parameters, so the tile is looked at first.
    name, node = call.name, call.node
    first = next((k.value for k in node.keywords if k.arg == "a"), None) or next(iter(node.args), None)
    if first is None:
        others = ", ".join(p.name for p in call.row.listed(1)[2:] if not p.is_optional)
        call.refuse(cx, f"{name} takes a tile, an index for each of its axes, {others}", f"write {name}(t, i, …)")
    _, tile = variable(cx, first, f"the argument a of {name}")
    axes = tile_type(tile).ndim
    call = bound(cx, call.row, name, node, axes)
    indices = [p.name for p in call.row.listed(axes)[1 : axes + 1]]
    index = [index_value(cx, cx.expr(call[k]), call[k], f"the index {k} of {name}") for k in indices]
    return _TileChange(call, tile, index)


def _taking_part(cx: Context, change: _TileChange) -> list[Value]:
    """Return the index, which is outside of the tile for a thread that has no value."""
    node = change.call["has_value"]
    has = coerce.convert(cx, cx.expr(node), T.BOOL, node, f"has_value of {change.call.name}")
    # All threads have to take part in the op, also those without a value; one axis outside is enough.
    first, *others = change.index
    return [cx.b.select(has, first, cx.b.i32(-1)), *others]


def _value(cx: Context, change: _TileChange) -> Value:
    node = change.call["value"]
    return coerce.convert(cx, cx.expr(node), change.dtype, node, f"the value of {change.call.name}")


def _scatter_add(cx: Context, call: TileCall) -> Term:
    change = _change(cx, call)
    flag(cx, change.call.given, "atomic")
    if T.scalar_of(change.dtype) == T.BOOL:
        call.refuse(cx, f"{call.name} of bools", "make the tile one of integers, with dtype=int")
    value, index = _value(cx, change), _taking_part(cx, change)
    made = cx.b.one("tile_add_at", change.tile, value, *index, threads=cx.block_dim)
    return update(cx, change.call, "a", made)


def _scatter_masked(cx: Context, call: TileCall) -> Term:
    change = _change(cx, call)
    value, index = _value(cx, change), _taking_part(cx, change)
    made = cx.b.one("tile_replace", change.tile, value, *index, threads=cx.block_dim)
    return update(cx, change.call, "a", made)


def _bits(kind: str) -> Call:
    def lowered(cx: Context, call: TileCall) -> Term:
        change = _change(cx, call)
        if not T.scalar_of(change.dtype).is_integer:
            call.refuse(cx, f"{call.name} of {origin(cx, change.tile)}", "bits are those of integers")
        value = _value(cx, change)
        made = cx.b.one("tile_add_at", change.tile, value, *change.index, threads=cx.block_dim, kind=kind)
        return update(cx, change.call, "a", made)

    return lowered


# -- stacks of a block -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Stack:
    """A stack of the threads of a block.

    Attributes
    ----------
    items
        The variables that hold its tile of items; of structs, one for each field.
    count
        The variable that holds how many there are.
    struct
        What the items are, if they are structs.
    """

    items: tuple[str, ...]
    count: str
    struct: Struct | None


def _held(cx: Context, name: str) -> Value:
    term = cx.env[name].term
    assert isinstance(term, Val)
    return term.value


def _hold(cx: Context, name: str, v: Value, node: ast.AST) -> None:
    cx.env[name] = Binding(Val(v), cx.loc(node))


def _stack(cx: Context, call: TileCall) -> Term:
    capacity = constant_int(cx, cx.expr(call["capacity"]), call["capacity"], "capacity")
    if capacity < 1:
        call.refuse(cx, f"{call.name} of capacity {capacity}", "it holds one item at least")
    struct, dtypes = _of_items(cx, call["dtype"], call.name)
    # A stack is a tile of items and a count, in variables with names that no program can write.
    cells = tuple(local.cell(cx, call.node, part) for part in range(len(dtypes)))
    # Variables are found by their node, so the count's cell has another one than the items'.
    made = _Stack(cells, local.cell(cx, call["capacity"]), struct)
    for cell, dtype in zip(cells, dtypes, strict=True):
        t = checked_size(cx, T.Tile(dtype, (capacity,)), call.node)
        _hold(cx, cell, cx.b.one("tile_fill", cx.b.zero(T.value_type(dtype)), type=t), call.node)
    _hold(cx, made.count, cx.b.i32(0), call.node)
    return Static(made, call.name)


def _of_items(cx: Context, node: ast.expr, name: str) -> tuple[Struct | None, list[T.Element]]:
    """Return the struct that the items of a stack are, if they are structs; the types of the tiles that hold them."""
    term = cx.expr(node)
    definition = definition_of(term.obj) if isinstance(term, Static) else None
    if definition is None:
        return None, [dtype_argument(cx, node)]
    if holds_arrays(definition.type):
        remedy = "push what is needed of it, such as an index into an array of them"
        cx.type_error(node, f"{name} of {definition.type.name}, which has an array among its fields", remedy)
    return definition.type, [
        t for _, t in tile_fields.paths(definition.type) if isinstance(t, (T.Scalar, T.Vec, T.Mat))
    ]


def _pushed(cx: Context, stack: _Stack, node: ast.expr, name: str) -> list[Value]:
    """Return the item, as the tiles of a stack hold it."""
    term, what = cx.expr(node), f"the value of {name}"
    if stack.struct is not None:
        if not isinstance(term, Rec) or term.struct != stack.struct:
            struct = stack.struct.name
            cx.type_error(node, f"{what} takes {struct}, not {describe(term)}", f"make one with {struct}(...)")
        return [leaf.value for leaf in tile_fields.leaves(term)]
    return [coerce.convert(cx, term, T.value_type(tile_type(_held(cx, stack.items[0])).dtype), node, what)]


def _stack_argument(cx: Context, call: TileCall) -> _Stack:
    term = cx.expr(call["s"])
    if isinstance(term, Static) and isinstance(term.obj, _Stack):
        return term.obj
    remedy = "make one with dk.tile_stack(capacity, dtype)"
    cx.type_error(call["s"], f"{call.name} takes a stack, not {describe(term)}", remedy)


def _push(cx: Context, call: TileCall) -> Term:
    """Lower a push: items go on the stack in the order of the threads."""
    stack, b = _stack_argument(cx, call), cx.b
    count, value = _held(cx, stack.count), _pushed(cx, stack, call["value"], call.name)
    has = coerce.convert(cx, cx.expr(call["has_value"]), T.BOOL, call["has_value"], f"has_value of {call.name}")
    one = b.select(has, b.i32(1), b.i32(0))
    slot, total = count, one
    if cx.block_dim > 1:
        flags = _of_threads(cx, one)
        # The number of threads before this one that push.
        before = b.one("tile_scan", flags, exclusive=True, backwards=False)
        slot = b.add(count, _of_thread(cx, before))
        total = b.one("tile_extract", b.one("tile_reduce", flags, kind="add", axis=None), b.i32(0))
    capacity = b.i32(tile_type(_held(cx, stack.items[0])).size)
    # Outside of the tile, so that what does not fit is dropped.
    slot = b.select(b.one("and", has, b.one("lt", slot, capacity)), slot, b.i32(-1))
    for cell, part in zip(stack.items, value, strict=True):
        _hold(cx, cell, b.one("tile_replace", _held(cx, cell), part, slot, threads=cx.block_dim), call.node)
    # What was dropped does not count.
    _hold(cx, stack.count, b.one("min", b.add(count, total), capacity), call.node)
    return Val(slot)


def _pop(cx: Context, call: TileCall) -> Term:
    """Lower a pop: the first thread takes the item on top, the next one that below."""
    stack, b = _stack_argument(cx, call), cx.b
    count = _held(cx, stack.count)
    slot = b.sub(count, b.i32(1))
    if cx.block_dim > 1:
        before = b.one("tile_scan", _of_threads(cx, b.i32(1)), exclusive=True, backwards=False)
        slot = b.sub(slot, _of_thread(cx, before))
    # -1 says that there was no item for this thread.
    slot = b.one("max", slot, b.i32(-1))
    # All threads pop, so the count decreases by their number at once.
    _hold(cx, stack.count, b.one("max", b.sub(count, b.i32(cx.block_dim)), b.i32(0)), call.node)
    items = [Val(b.one("tile_extract", _held(cx, cell), slot)) for cell in stack.items]
    item = items[0] if stack.struct is None else tile_fields.built(stack.struct, iter(items))
    return Tup((item, Val(slot)))


def _clear(cx: Context, call: TileCall) -> Term:
    _hold(cx, _stack_argument(cx, call).count, cx.b.i32(0), call.node)
    return Static(None, "None")


def _count(cx: Context, call: TileCall) -> Term:
    return Val(_held(cx, _stack_argument(cx, call).count))


CALLS: Final[Mapping[str, Call]] = {
    "tile": _tile,
    "untile": _untile,
    "tile_from_thread": _from_thread,
    "tile_scatter_add": _scatter_add,
    "tile_scatter_masked": _scatter_masked,
    "tile_bit_and_inplace": _bits("and"),
    "tile_bit_or_inplace": _bits("or"),
    "tile_bit_xor_inplace": _bits("xor"),
    "tile_stack": _stack,
    "tile_stack_push": _push,
    "tile_stack_pop": _pop,
    "tile_stack_clear": _clear,
    "tile_stack_count": _count,
}
