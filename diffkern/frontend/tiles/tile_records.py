"""Tiles of structs: a tile for each field, and the functions that move or add them, lowered for one field at a time.

A call that has met a struct, an operator, or a subscript of such a tile gives what it makes of the tiles of all fields,
as one :class:`Rec` again. Fields that cannot be added up (bools, integers of fewer than 32 bits, arrays) keep the value
of the left operand, and of the first element in a sum.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NoReturn

from diffkern.frontend.terms import arith
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import (
    Const,
    FieldTile,
    Once,
    Rec,
    RecView,
    Static,
    Term,
    TileStruct,
    Tup,
    Val,
    describe,
    once,
    spread,
)
from diffkern.frontend.tiles import tile_math
from diffkern.frontend.tiles.tile_fields import Path, adds_up, at, built, is_one, leaves, paths
from diffkern.frontend.tiles.tile_terms import (
    Call,
    TileCall,
    bound,
    change,
    check_update,
    is_tile,
    reshaped,
    tile_type,
    update,
)
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value
from diffkern.ir.ops.function import StructFields, TileFunction
from diffkern.ir.ops.scalar import SUMS
from diffkern.ir.ops.tile import reduced_shape
from diffkern.ir.structs import FieldType, Struct, StructArray, holds_arrays
from diffkern.lang import definition_of

__all__ = ["attribute", "by_fields", "combined", "evaluated_once", "refuse", "replace", "rows"]


def refuse(cx: Context, what: str, node: ast.AST) -> NoReturn:
    """Refuse what there is for tiles of numbers alone."""
    remedy = "take a field, as in t.x, which is a tile; or write a func of elements, as in dk.tile_map(f, t)"
    cx.type_error(node, f"{what} of a tile of structs", remedy)


def rows(cx: Context, a: Val | Rec, b: Term, node: ast.AST) -> list[tuple[Val, Term]]:
    """Return a tile with what it takes; or the tiles of all fields with what another struct has in their places."""
    if isinstance(a, Val):
        return [(a, b)]
    assert isinstance(a.struct, TileStruct)
    struct = a.struct.element
    if not isinstance(b, Rec) or (b.struct.element if isinstance(b.struct, TileStruct) else b.struct) != struct:
        remedy = f"write it for two tiles of {struct.name}, or for a tile and a value of {struct.name}"
        cx.type_error(node, f"{describe(a)} and {describe(b)}", remedy)
    found = []
    for path, _ in paths(struct):
        leaf = at(a, path)
        assert isinstance(leaf, Val)
        found.append((leaf, at(b, path)))
    return found


def attribute(cx: Context, owner: Rec, struct: TileStruct, node: ast.Attribute) -> Term:
    """Return ``t.x``, the tile of a field; ``t.shape`` and ``t.ndim``."""
    # A field of the name `shape` comes first: the struct is the user's.
    if node.attr in struct.names:
        return owner.items[struct.names.index(node.attr)]
    match node.attr:
        case "shape":
            return Tup(tuple(Const(n) for n in struct.shape))
        case "ndim":
            return Const(len(struct.shape))
    known = ", ".join(struct.names)
    cx.type_error(node, f"{describe(owner)} has no attribute {node.attr!r}", f"it has {known}, shape and ndim")


def replace(cx: Context, name: str, owner: Val | Rec, made: Sequence[Value], node: ast.AST) -> None:
    """Let a variable hold what has become of its tile, or of the tiles of its fields."""
    if isinstance(owner, Val):
        change(cx, name, made[0], node)
        return
    assert isinstance(owner.struct, TileStruct)
    for (path, _), new in zip(paths(owner.struct.element), made, strict=True):
        # Looked up again: each change has bound the variable to another struct of tiles.
        held = cx.env[name].term
        assert held is not None
        leaf = at(held, path)
        assert isinstance(leaf, Val)
        change(cx, name, new, node, leaf.value)


# -- operators ---------------------------------------------------------------------------------------------------------


def combined(cx: Context, op: str, a: Term, b: Term, node: ast.AST) -> Term:
    """Lower ``a + b`` or ``a - b`` of tiles of structs, or of two elements of such, field by field."""
    if op not in SUMS:
        refuse(cx, arith.SIGN[op], node)
    if not (isinstance(a, Rec) and isinstance(b, Rec) and a.struct == b.struct):
        remedy = "write it for two tiles of one struct and one shape, or for two structs"
        cx.type_error(node, f"{arith.SIGN[op]} of {describe(a)} and {describe(b)}", remedy)
    struct = a.struct.element if isinstance(a.struct, TileStruct) else a.struct
    made = []
    for path, t in paths(struct):
        left, right = at(a, path), at(b, path)
        compute = tile_math.binary if is_tile(left) else arith.binary
        made.append(compute(cx, op, left, right, node) if adds_up(t) else left)
    return built(struct, iter(made))


# -- functions ---------------------------------------------------------------------------------------------------------


def evaluated_once(cx: Context, node: ast.Call) -> ast.Call:
    """Return the call with arguments that are evaluated once, however often it is lowered; names and constants stay."""
    # The same call node each time, since what is recorded of a call is found by its node.
    made = cx.spread_calls.get(node)
    if made is None:
        keywords = [ast.copy_location(ast.keyword(k.arg, _once(k.value)), k) for k in node.keywords]
        made = ast.copy_location(ast.Call(node.func, [_once(a) for a in node.args], keywords), node)
        cx.spread_calls[node] = made
    for part in (*made.args, *(k.value for k in made.keywords)):
        for inner in part.elts if isinstance(part, ast.Tuple) else (part,):
            if isinstance(inner, Once):
                # Terms of a lowering before, as of another guess of a loop's types, are stale.
                inner.term = None
    return made


def _once(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Tuple):
        return ast.copy_location(ast.Tuple([_once(e) for e in node.elts], node.ctx), node)
    # A name is looked up without effect; and an in-place function needs it to know its variable.
    return node if isinstance(node, (ast.Name, ast.Constant, ast.Slice, ast.Starred, ast.Lambda)) else once(node)


def by_fields(cx: Context, lower: Call, row: TileFunction, name: str, node: ast.Call) -> Term:
    """Lower a call with structs among its arguments for one field after the other."""
    if row.structs is StructFields.ORDERED:
        return _sorted(cx, bound(cx, row, name, node))
    if row.structs is StructFields.REFUSED:
        refuse(cx, name, node)
    given = [*node.args, *(k.value for k in node.keywords)]
    structs = {k: found for k, arg in enumerate(given) if (found := _struct_argument(cx, arg)) is not None}
    # Two structs of one layout are two types all the same.
    kinds = {struct for struct, _ in structs.values()}
    if len(kinds) != 1:
        names = " and ".join(sorted(struct.name for struct in kinds))
        cx.type_error(node, f"{name} of {names}", "give it values, tiles and arrays of one struct")
    (struct,) = kinds
    if holds_arrays(struct) and row.stores:
        remedy = "elements with array fields are assigned on the host"
        cx.type_error(node, f"{name} of {struct.name}, which has an array among its fields", remedy)
    made: list[Term] = []
    for path, t in paths(struct):
        # Moving works for every field, adding for some.
        if row.structs is StructFields.MOVED or adds_up(t):
            made.append(lower(cx, bound(cx, row, name, _of_field(cx, node, structs, path, t))))
        elif row.structs is StructFields.SUMMED:
            # A sum has to give something for the others too: their first elements.
            made.append(_first(cx, node, structs, path))
        else:
            made.append(Static(None, "None"))
    # Functions without a result have changed the variables already.
    if any(isinstance(term, Static) for term in made):
        return Static(None, "None")
    return built(struct, iter(made))


def _struct_argument(cx: Context, node: ast.expr) -> tuple[Struct, Term] | None:
    """Return what an argument has for each field: a tile, an array or value of structs, or their type; else None."""
    if isinstance(node, (ast.Constant, ast.Tuple, ast.Slice, ast.Lambda)):
        return None
    term = cx.expr(node)
    if isinstance(term, Rec) and isinstance(term.struct, TileStruct):
        return term.struct.element, term
    if isinstance(term, (Rec, RecView)):
        return term.struct, term
    definition = definition_of(term.obj) if isinstance(term, Static) else None
    return None if definition is None else (definition.type, term)


def _of_field(
    cx: Context, node: ast.Call, structs: dict[int, tuple[Struct, Term]], path: Path, t: FieldType
) -> ast.Call:
    """Return the call for one field."""

    def part(k: int, arg: ast.expr) -> ast.expr:
        if k not in structs:
            return arg
        whole = structs[k][1]
        # The dtype of a struct becomes that of the field.
        if isinstance(whole, Static):
            made: ast.expr = spread(Static(_dtype(cx, t, node), whole.name))
        elif isinstance(arg, ast.Name) and is_one(whole):
            # A function that changes a variable needs its name, and for earlier fields the variable has changed
            # already.
            found = cx.env[arg.id].term if arg.id in cx.env else whole
            leaf = at(found if is_one(found) else whole, path)  # type: ignore[arg-type]
            assert isinstance(leaf, Val)
            made = FieldTile(arg.id, ast.Load())
            made.term = leaf
        else:
            made = spread(at(whole, path))
        return ast.copy_location(made, arg)

    args = [part(k, arg) for k, arg in enumerate(node.args)]
    keywords = [
        ast.copy_location(ast.keyword(k.arg, part(n, k.value)), k) for n, k in enumerate(node.keywords, len(args))
    ]
    return ast.copy_location(ast.Call(node.func, args, keywords), node)


def _dtype(cx: Context, t: FieldType, node: ast.AST) -> T.Element:
    if isinstance(t, (T.Array, StructArray, Struct)):
        cx.type_error(node, "a tile made of structs with arrays among their fields", "load it from an array")
    return t


def _first(cx: Context, node: ast.Call, structs: dict[int, tuple[Struct, Term]], path: Path) -> Term:
    """Return the first elements along the axis of a sum, for a field that is not added up."""
    ((_, whole),) = structs.values()
    leaf = at(whole, path)
    assert isinstance(leaf, Val)
    t = tile_type(leaf.value)
    given = [k.value for k in node.keywords if k.arg == "axis"] + node.args[1:2]
    term = cx.expr(given[0]) if given and not _is_none(given[0]) else None
    axis = term.value % t.ndim if isinstance(term, Const) and isinstance(term.value, int) else None
    shape = tuple(1 if axis in (None, k) else n for k, n in enumerate(t.shape))
    zeros = [cx.b.i32(0)] * t.ndim
    part = cx.b.one("tile_view", leaf.value, *zeros, shape=shape, steps=(1,) * t.ndim)
    return Val(reshaped(cx, part, reduced_shape(t, axis)))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _sorted(cx: Context, call: TileCall) -> Term:
    """Sort structs by keys: the order is found once, and taken by the tiles of all fields."""
    keys_of, keys = call.variable(cx, "keys")
    values, t = cx.expr(call["values"]), tile_type(keys)
    if not isinstance(call["values"], ast.Name):
        cx.type_error(
            call["values"], f"the argument values of {call.name} is changed", "assign the tile to a variable first"
        )
    if not isinstance(values, Rec) or not isinstance(values.struct, TileStruct) or values.struct.shape != t.shape:
        remedy = "make one value for each key, in a tile of the same shape"
        call.refuse(cx, f"{call.name} of {describe(values)} by {describe(Val(keys))}", remedy)
    # Before any op is made: one tile must not be changed without the other.
    for changed in (keys_of, call["values"].id):
        check_update(cx, changed, call.node)
    # A map of the index alone: the numbers 0, 1, 2, ... as the order before sorting.
    count = Region((Value(T.INT32),))
    count.yields = count.params
    flat = reshaped(cx, keys, (t.size,))
    (order,) = cx.b.op("tile_map", shape=(t.size,), dtypes=(T.INT32,), body=count, indexed=True)
    new_keys, order, _ = cx.b.op("tile_sort", flat, order)
    update(cx, call, "keys", reshaped(cx, new_keys, t.shape))

    def taken(v: Value) -> Value:
        return reshaped(cx, cx.b.one("tile_take", reshaped(cx, v, (t.size,)), order, axis=0), t.shape)

    replace(cx, call["values"].id, values, [taken(leaf.value) for leaf in leaves(values)], call.node)
    return Static(None, "None")
