"""Shared by the functions of tiles: their arguments, shapes known while compiling, and how tiles are changed.

From a call's syntax come terms, shapes and dtypes, or an error with its place. A tile is a value, so a function that
changes one in place binds the variable to another tile. That means the same as in-place change as long as no other
variable stands for the same tile, which is what :func:`update` makes sure of.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn, TypeAlias

from diffkern.frontend.syntax.flow import NameLiveness
from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context, TileView
from diffkern.frontend.terms.terms import Const, FieldTile, Rec, Static, Term, TileStruct, Tup, Val, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value
from diffkern.ir.ops.function import TileFunction
from diffkern.ir.ops.tile import MAX_NDIM
from diffkern.lang import definition_of, resolve_dtype
from diffkern.process.dataclass import dataclass

__all__ = [
    "Call",
    "StructMet",
    "TileCall",
    "as_indices",
    "axis_argument",
    "bound",
    "change",
    "check_update",
    "checked_size",
    "constant_int",
    "dtype_argument",
    "flag",
    "holds_tiles",
    "index_value",
    "index_values",
    "is_tile",
    "joined_views",
    "mismatch",
    "origin",
    "reshaped",
    "shape_argument",
    "shape_text",
    "shows_more",
    "storage",
    "tile_argument",
    "tile_type",
    "tiles_in",
    "update",
    "value_argument",
    "variable",
    "view_of",
    "word",
]

# Far more than the shared memory of any GPU, so a mistake rather than a tile.
MAX_BYTES: Final = 64 * 1024 * 1024
_STORAGE: Final = ("register", "shared")


class StructMet(Exception):
    """A function of tiles has met a struct: it is lowered again, for one field after the other."""


def is_tile(term: Term | None) -> bool:
    """Return whether a term is a tile."""
    return isinstance(term, Val) and isinstance(term.value.type, T.Tile)


def tile_type(v: Value) -> T.Tile:
    """Return the type of a value that is a tile."""
    assert isinstance(v.type, T.Tile)
    return v.type


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape for a message."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


# -- arguments ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TileCall:
    """A call of a function: its row, its name in messages, its syntax, and that of each given argument by parameter."""

    row: TileFunction
    name: str
    node: ast.Call
    given: Mapping[str, ast.expr]

    def __getitem__(self, parameter: str) -> ast.expr:
        return self.given[parameter]

    def __contains__(self, parameter: str) -> bool:
        return parameter in self.given

    def get(self, parameter: str) -> ast.expr | None:
        """Return an argument that may be left out."""
        return self.given.get(parameter)

    def refuse(self, cx: Context, message: str, remedy: str | None = None) -> NoReturn:
        """Refuse the call."""
        cx.type_error(self.node, message, remedy)

    def tile(self, cx: Context, parameter: str) -> Value:
        """Return an argument that must be a tile."""
        return tile_argument(cx, self.given[parameter], f"the argument {parameter} of {self.name}")

    def only_tile(self, cx: Context) -> Value:
        """Return the first argument of a function about one tile, which messages need not name."""
        return tile_argument(cx, self.given[self.row.listed()[0].name], f"the argument of {self.name}")

    def variable(self, cx: Context, parameter: str) -> tuple[str, Value]:
        """Return an argument that is changed: it must be a variable that holds a tile."""
        return variable(cx, self.given[parameter], f"the argument {parameter} of {self.name}")

    def shape(self, cx: Context, *, infer: bool = False) -> tuple[int, ...]:
        """Return the argument ``shape`` of a tile."""
        return shape_argument(cx, self.given["shape"], "a tile", infer=infer)


Call: TypeAlias = Callable[[Context, TileCall], Term]


def bound(cx: Context, row: TileFunction, name: str, node: ast.Call, axes: int = 0) -> TileCall:
    """Return a call with its arguments by the parameters of its row; ``axes``: with an index for each of these.

    A function that takes any number of arguments, or whose first one may be left out, reads them itself.
    """
    parameters = row.listed(axes)
    every = [parameter.name for parameter in parameters]
    if "..." in every or (parameters and parameters[0].is_optional):
        return TileCall(row, name, node, {})
    if len(node.args) > len(every):
        cx.type_error(
            node,
            f"{name} takes at most {len(every)} arguments ({', '.join(every)}), not {len(node.args)}",
            "leave the others out",
        )
    given: dict[str, ast.expr] = dict(zip(every, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in every:
            cx.type_error(node, f"{name} has no parameter {keyword.arg!r}", f"it has {', '.join(every)}")
        if keyword.arg in given:
            cx.type_error(node, f"{name} got {keyword.arg} twice", "give it by position or by name")
        given[keyword.arg] = keyword.value
    for parameter in parameters:
        if not parameter.is_optional and parameter.name not in given:
            cx.type_error(node, f"{name} needs {parameter.name}", f"its parameters are {', '.join(every)}")
    storage(cx, given)
    # Bounds are checked in any case, and alignment is found by the compiler.
    flag(cx, given, "bounds_check")
    flag(cx, given, "aligned")
    return TileCall(row, name, node, given)


def constant_int(cx: Context, term: Term, node: ast.AST, what: str) -> int:
    """Return an integer known while compiling."""
    if isinstance(term, Const) and isinstance(term.value, int) and not isinstance(term.value, bool):
        return term.value
    remedy = "write a number, or a global or closure variable, as in TILE = dk.constant(16)"
    cx.type_error(node, f"{what} must be an integer known when the kernel is compiled, not {describe(term)}", remedy)


def shape_argument(cx: Context, node: ast.expr, what: str, *, infer: bool = False) -> tuple[int, ...]:
    """Return a shape: an integer or a tuple of them, positive; with ``infer`` one of them may be -1."""
    term = cx.expr(node)
    items = term.items if isinstance(term, Tup) else (term,)
    shape = tuple(constant_int(cx, item, node, f"an extent of {what}") for item in items)
    if not 1 <= len(shape) <= MAX_NDIM:
        cx.type_error(node, f"{what} has 1 to {MAX_NDIM} axes, not {len(shape)}", "give fewer extents")
    if any(n < 1 and not (infer and n == -1) for n in shape):
        cx.type_error(node, f"{what} is {shape_text(shape)}", "each extent is at least 1")
    return shape


def checked_size(cx: Context, t: T.Tile, node: ast.AST) -> T.Tile:
    """Return the type, unless a tile of it is beyond all measure."""
    if t.itemsize > MAX_BYTES:
        cx.type_error(node, f"a tile of shape {shape_text(t.shape)} takes {t.itemsize} bytes", "use smaller tiles")
    return t


def holds_tiles(term: Term | None) -> bool:
    """Return whether a term is a tile, of structs or of anything else."""
    return is_tile(term) or (isinstance(term, Rec) and isinstance(term.struct, TileStruct))


def dtype_argument(cx: Context, node: ast.expr) -> T.Element:
    """Return a dtype, as the kernel may write it."""
    term = cx.expr(node)
    if isinstance(term, Static):
        obj: Any = term.obj
        if definition_of(obj) is not None:
            raise StructMet
        if isinstance(obj, (T.Scalar, T.Vec, T.Mat)):
            return obj
        try:
            return resolve_dtype(obj)
        except TypeError as error:
            cx.type_error(node, f"dtype: {error}", "write a type such as float or dk.vec3")
    cx.type_error(node, f"dtype must be a type such as float or dk.vec3, not {describe(term)}", "write dtype=float")


def storage(cx: Context, given: Mapping[str, ast.expr]) -> None:
    """Check the argument ``storage``. Where a tile is kept is the compiler's choice: it must be one of the two."""
    node = given.get("storage")
    if node is not None and not (isinstance(node, ast.Constant) and node.value in _STORAGE):
        cx.type_error(node, "storage must be 'register' or 'shared'", 'write storage="shared" or storage="register"')


def flag(cx: Context, given: Mapping[str, ast.expr], name: str) -> None:
    """Check an argument that is True or False and promises or asks for nothing that is not done anyway."""
    node = given.get(name)
    if node is not None and not (isinstance(node, ast.Constant) and isinstance(node.value, bool)):
        cx.type_error(node, f"{name} must be True or False", "write the constant itself")


def word(cx: Context, call: TileCall, name: str, among: Sequence[str]) -> str:
    """Return an argument that is one of some words; the first one by default."""
    node = call.get(name)
    if node is None:
        return among[0]
    if isinstance(node, ast.Constant) and node.value in among:
        return str(node.value)
    cx.type_error(node, f"{name} must be one of {', '.join(map(repr, among))}", f"write {name}={among[0]!r}")


def tile_argument(cx: Context, node: ast.expr, what: str) -> Value:
    """Return an argument that must be a tile."""
    term = cx.expr(node)
    if holds_tiles(term) and not is_tile(term):
        raise StructMet
    if not isinstance(term, Val) or not isinstance(term.value.type, T.Tile):
        cx.type_error(
            node, f"{what} must be a tile, not {describe(term)}", "load one with dk.tile_load(array, shape=…)"
        )
    return term.value


def value_argument(cx: Context, node: ast.expr) -> Term:
    """Return an argument that is a number, a vector or a struct."""
    term = cx.expr(node)
    if isinstance(term, Rec):
        raise StructMet
    return term


def index_values(cx: Context, node: ast.expr, what: str, count: int) -> list[Value]:
    """Return offsets or indices, one per axis."""
    term = cx.expr(node)
    items = term.items if isinstance(term, Tup) else (term,)
    if len(items) != count:
        cx.type_error(node, f"{what} has {len(items)} entries for {count} axes", "give one entry for each axis")
    return [index_value(cx, item, node, what) for item in items]


def index_value(cx: Context, item: Term, node: ast.AST, what: str) -> Value:
    """Return one offset or index."""
    t = coerce.default_type(item) if isinstance(item, Const) else item.type if isinstance(item, Val) else None
    if not (isinstance(t, T.Scalar) and t.is_integer):
        remedy = "write int(...) around it, or // for an integer quotient"
        cx.type_error(node, f"{what} must be made of integers, not {t or describe(item)}", remedy)
    return cx.b.cast(coerce.value(cx, item, node), T.INT32)


def as_indices(cx: Context, v: Value, node: ast.AST, what: str) -> Value:
    """Return a tile of indices, as int32."""
    t = tile_type(v)
    if t.ndim != 1 or not (isinstance(t.dtype, T.Scalar) and t.dtype.is_integer):
        remedy = "load one with dk.tile_load from an array of ints"
        cx.type_error(node, f"{what} must be a tile of integers with one axis: {origin(cx, v)}", remedy)
    if t.dtype == T.INT32:
        return v
    body = Region((Value(T.value_type(t.dtype)),))
    with cx.b.into(body):
        body.yields = (cx.b.cast(body.params[0], T.INT32),)
    return cx.b.one("tile_map", v, shape=t.shape, dtypes=(T.INT32,), body=body, indexed=False)


def axis_argument(cx: Context, call: TileCall, shape: Sequence[int]) -> int | None:
    """Return the argument ``axis``, counted from the front; None if it is not given, or None."""
    node = call.get("axis")
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return None
    axis = constant_int(cx, cx.expr(node), node, "axis")
    if not -len(shape) <= axis < len(shape):
        cx.type_error(node, f"axis {axis} of a tile of shape {shape_text(shape)}", "count the axes from 0")
    return axis % len(shape)


# -- errors about two tiles --------------------------------------------------------------------------------------------


def mismatch(cx: Context, what: str, a: Value, b: Value, node: ast.AST, remedy: str | None = None) -> NoReturn:
    """Refuse two tiles that do not fit: show both shapes, and where both come from."""
    cx.type_error(node, f"{what}: {origin(cx, a)}, and {origin(cx, b)}", remedy)


def origin(cx: Context, v: Value) -> str:
    """Return a tile for a message: its name, shape, dtype and line."""
    t = tile_type(v)
    line = None
    # The innermost frame is looked at first, and the outermost one that knows the tile wins: there the user made it.
    for frame in reversed(cx.stack):
        for binding in frame.env.values():
            if isinstance(binding.term, Val) and binding.term.value is v and binding.loc is not None:
                line = binding.loc.line
    # The line of the call that made it is better than that of a variable.
    line = cx.tile_lines.get(v, line)
    where = f" (line {line})" if line is not None else ""
    return f"{v.name or 'a tile'} has shape {shape_text(t.shape)} of {t.dtype}{where}"


def reshaped(cx: Context, v: Value, shape: tuple[int, ...]) -> Value:
    """Return the same elements in another shape."""
    return v if tile_type(v).shape == shape else cx.b.one("tile_reshape", v, shape=shape)


# -- changing tiles ----------------------------------------------------------------------------------------------------


def view_of(
    cx: Context, whole: Value, remake: Callable[[Value], Value], put: Callable[[Value, Value], Value] | None = None
) -> Value:
    """Return a part of a tile, or another look at it, which goes on to be one when that tile changes."""
    part = remake(whole)
    # A view of a view shows the elements of the first tile as well.
    names = frozenset(_holders(cx, whole)) | (cx.tile_views[whole].names if whole in cx.tile_views else frozenset())
    # Without a way back, one element of the whole may be several of the view.
    repeats = put is None or (whole in cx.tile_views and cx.tile_views[whole].repeats)
    cx.tile_views[part] = TileView(names, whole, remake, put, repeats)
    return part


def _holders(cx: Context, v: Value) -> list[str]:
    """Return the variables that hold a tile, by itself or as that of a field."""
    return [name for name, known in cx.env.items() if _holds(known.term, v)]


def _holds(term: Term | None, v: Value) -> bool:
    if isinstance(term, Rec) and isinstance(term.struct, TileStruct):
        return any(_holds(item, v) for item in term.items)
    return isinstance(term, Val) and term.value is v


def _hold(cx: Context, name: str, old: Value, new: Value, node: ast.AST) -> None:
    """Let a variable hold a tile in the place of another one."""
    term = cx.env[name].term
    assert term is not None
    cx.bind(name, _with(term, old, new), node)


def _with(term: Term, old: Value, new: Value) -> Term:
    if isinstance(term, Rec):
        return Rec(term.struct, tuple(_with(item, old, new) for item in term.items))
    return Val(new) if isinstance(term, Val) and term.value is old else term


def joined_views(cx: Context, term: Term, ways: Iterable[Term | None]) -> None:
    """Note that a variable behind a loop or branch may be a view, as it is on one of the ways there."""
    ways = list(ways)
    if isinstance(term, (Rec, Tup)):
        for k, item in enumerate(term.items):
            joined_views(cx, item, [way.items[k] for way in ways if isinstance(way, (Rec, Tup)) and k < len(way.items)])
        return
    known = [cx.tile_views[t.value] for t in ways if isinstance(t, Val) and t.value in cx.tile_views]
    if known and isinstance(term, Val) and term.value not in cx.tile_views:
        names = frozenset().union(*(view.names for view in known))
        # Which of the ways was taken is not known, so there is no way back to the whole: it can be read only.
        cx.tile_views[term.value] = TileView(names, repeats=any(view.repeats for view in known))


def shows_more(cx: Context, term: Term, than: Term) -> bool:
    """Return whether a tile may be a view of one that another tile is not known to be a view of."""
    if isinstance(term, (Rec, Tup)) and isinstance(than, (Rec, Tup)):
        return any(shows_more(cx, *pair) for pair in zip(term.items, than.items, strict=False))
    names = [
        cx.tile_views[t.value].names if isinstance(t, Val) and t.value in cx.tile_views else None for t in (term, than)
    ]
    return names[0] is not None and (names[1] is None or not names[0] <= names[1])


def change(cx: Context, name: str, new: Value, node: ast.AST, field: Value | None = None) -> None:
    """Let a variable hold what has become of its tile; so do variables whose tiles are parts of one another.

    ``field``: of a tile of structs, the tile of the field that changes.
    """
    check_update(cx, name, node)
    held = cx.env[name].term
    old = field if field is not None else held.value if isinstance(held, Val) else None
    assert old is not None
    # The change of a view is one of the whole, from which the view is made again.
    if old in cx.tile_views:
        _write_back(cx, name, old, new, node)
        return
    new.name = name
    _hold(cx, name, old, new, node)
    _follow(cx, name, old, new, node)


def _write_back(cx: Context, name: str, v: Value, new: Value, node: ast.AST) -> None:
    """Change the tile that another one, v, is a view of, and all its views."""
    view = cx.tile_views.get(v)
    if view is not None:
        assert view.whole is not None
        assert view.put is not None
        _write_back(cx, name, view.whole, view.put(view.whole, new), node)
        return
    for holder in _holders(cx, v):
        # A caller's tile is not changed by way of a view either.
        if holder in cx.frame.tile_parameters:
            check_update(cx, holder, node)
        _check_here(cx, holder, v, name, node)
        new.name = holder
        _hold(cx, holder, v, new, node)
    _follow(cx, name, v, new, node)


def _follow(cx: Context, name: str, v: Value, new: Value, node: ast.AST) -> None:
    """Make the views of a tile, v, those of what has become of it; the variable that was changed is one of them."""
    # A copy, since new views are added on the way.
    for part, view in list(cx.tile_views.items()):
        # Ops for views that nobody holds any more would be waste.
        if view.whole is not v or view.remake is None or not _is_held(cx, part):
            continue
        made = view.remake(new)
        cx.tile_views[made] = replace(view, whole=new)
        for holder in _holders(cx, part):
            if holder != name:
                _check_here(cx, holder, part, name, node)
            _hold(cx, holder, part, made, node)
        _follow(cx, name, part, made, node)


def _is_held(cx: Context, v: Value) -> bool:
    """Return whether a variable holds a tile, or a view of it."""
    views = (part for part, view in cx.tile_views.items() if view.whole is v)
    return bool(_holders(cx, v)) or any(_is_held(cx, part) for part in views)


def _check_here(cx: Context, holder: str, v: Value, name: str, node: ast.AST) -> None:
    """Refuse a change of a variable that comes from outside of the innermost loop or branch, unseen by that."""
    # Whoever joins the region sees all that is made in it.
    if not _is_outside(cx, v):
        return
    binding = cx.env[holder]
    line = f" (line {binding.loc.line})" if binding.loc is not None else ""
    cx.type_error(
        node,
        f"{name} is changed in a loop or branch, and {holder}{line} from outside of it shares its elements",
        f"change {holder} itself, with dk.tile_assign(tile, part, offset=…) or by an index; or make a copy before",
    )


def check_update(cx: Context, name: str, node: ast.AST) -> None:
    """Refuse a change of a tile for which it is not known what else changes."""
    binding = cx.env.get(name)
    if binding is None or not holds_tiles(binding.term):
        return
    assert binding.term is not None
    own = tiles_in(binding.term)
    if name in cx.frame.tile_parameters:
        remedy = "make a tile of its own, as in t = 1.0 * t, change that one and return it"
        cx.type_error(node, f"{name} is the caller's tile, which a func cannot change", remedy)
    for v in own:
        _check_view(cx, name, v, node)
    for other, known in cx.env.items():
        views = [view for view in _views_in(cx, known.term) if name in view.names]
        # Names with `$` are the frontend's own, which no later statement reads.
        if not views or other == name or other.startswith("$"):
            continue
        is_one = holds_tiles(known.term) and all(view.whole is not None for view in views)
        # A single holder and a view with a way to it can be followed; two holders, or a view in a tuple, cannot.
        if not is_one or any(len(views[0].names & set(_holders(cx, v))) > 1 for v in own):
            line = f" (line {known.loc.line})" if known.loc is not None else ""
            verb, copy = ("is", f"{other} = 1.0 * …") if holds_tiles(known.term) else ("holds", "1.0 * …")
            remedy = f"make a copy instead, as in {copy}, or make the view after the change"
            cx.type_error(node, f"{name} is changed while {other}{line} {verb} a view of it", remedy)


def tiles_in(term: Term) -> list[Value]:
    """Return the tile that a variable is, or those of its fields."""
    if isinstance(term, Rec):
        return [v for item in term.items for v in tiles_in(item)]
    return [term.value] if isinstance(term, Val) else []


def _views_in(cx: Context, term: Term | None) -> Iterator[TileView]:
    """Yield the views that a variable is, or that a tuple or struct has among its parts."""
    if isinstance(term, Val) and term.value in cx.tile_views:
        yield cx.tile_views[term.value]
    elif isinstance(term, (Tup, Rec)):
        for item in term.items:
            yield from _views_in(cx, item)


def _check_view(cx: Context, name: str, v: Value, node: ast.AST) -> None:
    """Refuse a change of a view from which there is no way to the one tile that it shows.

    If no later statement reads that tile any more, nor another view of it, the view is a tile of its own from here on.
    """
    first = v
    while (view := cx.tile_views.get(v)) is not None:
        # Two variables that hold the whole would both have to follow.
        is_lost = view.whole is None or view.put is None or len(_holders(cx, view.whole)) > 1
        # A repeated element would be changed in one place and not in the other.
        is_own = not cx.tile_views[first].repeats and _is_read_no_more(cx, name, cx.tile_views[first].names, node)
        if is_own and (is_lost or _is_outside(cx, view.whole)):
            del cx.tile_views[first]
            return
        if is_lost:
            cx.type_error(
                node,
                f"{name} is a view of another tile and cannot be changed",
                "change that tile itself, with dk.tile_assign(tile, part, offset=…) or by an index; or make a copy, as "
                f"in {name} = 1.0 * …",
            )
        assert view.whole is not None
        v = view.whole


def _is_outside(cx: Context, v: Value | None) -> bool:
    """Return whether a tile comes from outside of the innermost loop or branch."""
    region = cx.b.region
    return v not in region.params and all(v not in op.results for op in region.ops)


def _is_read_no_more(cx: Context, name: str, wholes: frozenset[str], node: ast.AST) -> bool:
    """Return whether no variable that holds a tile, or a view of it, is read behind a place or in a loop around it."""
    frame = cx.frame
    shown = {other for other, known in cx.env.items() if any(wholes & v.names for v in _views_in(cx, known.term))}
    # The changed variable itself does not count: it is what is changed.
    sharing = (wholes | shown) - {name}
    if not sharing.isdisjoint(frame.tile_parameters):
        return False
    # In a loop, what stands before the place comes after it as well.
    repeated = {name for loop in frame.loops for name in _read_again(frame.liveness, loop.node)}
    if not sharing.isdisjoint(repeated):
        return False
    # By the text: more rather than fewer reads, as in branches that are not taken.
    place = (node.lineno, node.col_offset)  # type: ignore[attr-defined]
    return not any(
        (read.lineno, read.col_offset) > place
        for read in ast.walk(frame.source.node)
        if isinstance(read, ast.Name) and isinstance(read.ctx, ast.Load) and read.id in sharing
    )


def _read_again(liveness: NameLiveness, loop: ast.AST) -> set[str]:
    """Return the variables whose values the next round of a loop reads, or the test of it."""
    assert isinstance(loop, (ast.For, ast.While))
    live = liveness.head(loop)
    return {
        read.id
        for read in ast.walk(loop)
        if isinstance(read, ast.Name) and isinstance(read.ctx, ast.Load) and read.id in live
    }


def variable(cx: Context, node: ast.expr, what: str) -> tuple[str, Value]:
    """Return an argument that is changed: it must be a variable that holds a tile."""
    value = tile_argument(cx, node, what)
    if not isinstance(node, ast.Name):
        cx.type_error(node, f"{what} is changed, so it must be a variable", "assign the tile to a variable first")
    return node.id, value


def update(cx: Context, call: TileCall, parameter: str, new: Value) -> Static:
    """Let the variable that was passed to a function hold the tile that the function made of it."""
    # Which calls change a variable is found by their names, before the function is lowered.
    if cx.builtin(call.node.func) != call.row.name:
        cx.type_error(
            call.node.func,
            f"{call.row.name} changes its argument and must be called by its own name, or one that it has outside of "
            "the kernel",
            f"write dk.{call.row.name}(…)",
        )
    assert parameter in call.row.changed
    node = call[parameter]
    assert isinstance(node, ast.Name)
    change(cx, node.id, new, node, node.term.value if isinstance(node, FieldTile) else None)
    return Static(None, "None")
