"""Operations on tiles: values of a fixed shape that a block of threads computes together.

Each stays one op through differentiation and becomes loops, or a call of a library, per target. Tiles are values:
what looks like an assignment to a part of a tile makes another tile. Everything that works element by element is one
op, ``tile_map``, whose attribute ``body`` is a region over the elements; it sees nothing from outside but its
parameters, so a map is an ordinary pure op to all passes.

Accesses of arrays are checked against the array's shape: what lies outside is read as 0 and not written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffkern.ir.nodes import Op, Region
from diffkern.ir.ops.row import Diff, Effect, OpDef, Tangent, TileUse, TileWork, TypeRuleError
from diffkern.ir.types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    STORAGE_ONLY,
    Array,
    Element,
    Mat,
    Scalar,
    Tile,
    Type,
    Vec,
    value_type,
)

Attrs = Mapping[str, Any]

REDUCTIONS = ("add", "min", "max")
MAX_NDIM = 4


def tile(t: Type) -> Tile:
    """Return the type, which must be that of a tile."""
    if not isinstance(t, Tile):
        raise TypeRuleError(f"needs a tile, not {t}")
    return t


def element(t: Tile) -> Element:
    """Return the type of an element of a tile once it is read."""
    return value_type(t.dtype)


def broadcast_shape(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Return whether a shape extends to another by NumPy's rules."""
    padded = (1,) * (len(to) - len(shape)) + tuple(shape)
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(padded, to, strict=True))


def _indices(types: Sequence[Type], count: int) -> None:
    if len(types) != count:
        raise TypeRuleError(f"needs {count} indices, not {len(types)}")
    for t in types:
        if not (isinstance(t, Scalar) and t.is_integer):
            raise TypeRuleError(f"an index must be an integer, not {t}")


def _fill(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t = tile(attrs["type"])
    if types[0] != element(t):
        raise TypeRuleError(f"{t} is filled with {element(t)}, not {types[0]}")
    return (t,)


def _map(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    shape, body = attrs["shape"], attrs["body"]
    found = [element(t) if isinstance(t, Tile) else t for t in types]
    for t in types:
        if isinstance(t, Tile) and t.shape != shape:
            raise TypeRuleError(f"needs tiles of shape {shape}, not {t}")
    want = [INT32] * (len(shape) if attrs["indexed"] else 0) + found
    if [p.type for p in body.params] != want:
        raise TypeRuleError(f"its body takes {[str(p.type) for p in body.params]}, not {[str(t) for t in want]}")
    for y, dtype in zip(body.yields, attrs["dtypes"], strict=True):
        if y.type != value_type(dtype):
            raise TypeRuleError(f"its body yields {y.type} for {dtype}")
    own = any(isinstance(t, Tile) and t.own for t in types)
    return tuple(Tile(dtype, shape, own) for dtype in attrs["dtypes"])


def _array(types: Sequence[Type], rank: int) -> Array:
    array = types[0]
    if not isinstance(array, Array):
        raise TypeRuleError(f"needs an array, not {array}")
    if array.ndim != rank:
        raise TypeRuleError(f"{array} has {array.ndim} axes and the tile {rank}")
    return array


def _along(shape: Sequence[int], indices: Type, axis: int) -> None:
    t = tile(indices)
    if t.dtype != INT32 or not 0 <= axis < len(shape) or t.shape != (shape[axis],):
        raise TypeRuleError(f"{t} does not number axis {axis} of shape {tuple(shape)}")


def _offsets(types: Sequence[Type], array: Array, shape: Sequence[int], attrs: Attrs) -> None:
    """Check the operands that say where a tile begins in an array and which places along an axis it takes."""
    if "along" in attrs:
        _along(shape, types[-1], attrs["along"])
        types = types[:-1]
    _indices(types, array.ndim)


def _load(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    array = _array(types, len(attrs["shape"]))
    _offsets(types[1:], array, attrs["shape"], attrs)
    return (Tile(array.dtype, attrs["shape"]),)


def _store(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t = tile(types[-1])
    array = _array(types, t.ndim)
    _offsets(types[1:-1], array, t.shape, attrs)
    if t.dtype != array.dtype:
        raise TypeRuleError(f"{array} takes tiles of {array.dtype}, not {t}")
    return ()


def _atomic(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    _store(types, attrs)
    return (types[-1],)


def _view(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t, shape, steps = tile(types[0]), attrs["shape"], attrs["steps"]
    _indices(types[1:], t.ndim)
    if not len(shape) == len(steps) == t.ndim:
        raise TypeRuleError(f"a view of {t} has {t.ndim} axes, not {shape}")
    return (Tile(t.dtype, shape, t.own),)


def _insert(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t, part = tile(types[0]), tile(types[1])
    _indices(types[2:], t.ndim)
    if part.dtype != t.dtype or part.ndim != t.ndim or len(attrs["steps"]) != t.ndim:
        raise TypeRuleError(f"{part} is no part of {t}")
    return (t,)


def _permute(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t, axes = tile(types[0]), attrs["axes"]
    if sorted(axes) != list(range(t.ndim)):
        raise TypeRuleError(f"axes {axes} of {t}")
    return (Tile(t.dtype, tuple(t.shape[a] for a in axes), t.own),)


def _broadcast(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t, shape = tile(types[0]), attrs["shape"]
    if not broadcast_shape(t.shape, shape):
        raise TypeRuleError(f"{t} does not extend to {shape}")
    return (Tile(t.dtype, shape, t.own),)


def _reshape(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t = tile(types[0])
    out = Tile(t.dtype, attrs["shape"], t.own)
    if out.size != t.size:
        raise TypeRuleError(f"{t} has {t.size} elements and {out} {out.size}")
    return (out,)


def _extract(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t = tile(types[0])
    _indices(types[1:], t.ndim)
    return (element(t),)


def _replace(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t = tile(types[0])
    _indices(types[2:], t.ndim)
    if types[1] != element(t):
        raise TypeRuleError(f"an element of {t} is {element(t)}, not {types[1]}")
    return (t,)


def _add_at(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    if attrs.get("kind", "add") not in ("add", "and", "or", "xor"):
        raise TypeRuleError(f"update {attrs['kind']!r}")
    return _replace(types, attrs)


def _take(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t, axis, indices = tile(types[0]), attrs["axis"], tile(types[1])
    if indices.ndim != 1 or indices.dtype != INT32 or not 0 <= axis < t.ndim:
        raise TypeRuleError(f"{indices} does not choose along axis {axis} of {t}")
    return (Tile(t.dtype, (*t.shape[:axis], indices.shape[0], *t.shape[axis + 1 :]), t.own),)


def _add_along(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t, part, axis = tile(types[0]), tile(types[1]), attrs["axis"]
    _along(part.shape, types[2], axis)
    if part.dtype != t.dtype or part.shape != (*t.shape[:axis], part.shape[axis], *t.shape[axis + 1 :]):
        raise TypeRuleError(f"{part} is not added along axis {axis} of {t}")
    return (t,)


def reduced_shape(t: Tile, axis: int | None) -> tuple[int, ...]:
    """Return the shape without an axis; ``(1,)`` if nothing is left."""
    if axis is None:
        return (1,)
    return t.shape[:axis] + t.shape[axis + 1 :] or (1,)


def _reduce(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t, axis = tile(types[0]), attrs["axis"]
    if attrs["kind"] not in REDUCTIONS:
        raise TypeRuleError(f"reduction {attrs['kind']!r}")
    if attrs["kind"] != "add" and not isinstance(t.dtype, Scalar):
        raise TypeRuleError(f"needs a tile of numbers, not {t}")
    if axis is not None and not 0 <= axis < t.ndim:
        raise TypeRuleError(f"axis {axis} of {t}")
    return (Tile(t.dtype, reduced_shape(t, axis), t.own),)


def _argreduce(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    (out,) = _reduce(types, attrs)
    return (Tile(INT32, tile(out).shape),)


def _scan(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t = tile(types[0])
    if not isinstance(t.dtype, Scalar) or t.dtype == BOOL:
        raise TypeRuleError(f"needs a tile of numbers, not {t}")
    if attrs.get("kind", "add") not in REDUCTIONS:
        raise TypeRuleError(f"scan {attrs['kind']!r}")
    return (t,)


def _fft(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t = tile(types[0])
    if not (isinstance(t.dtype, Vec) and t.dtype.length == 2 and t.dtype.dtype in (FLOAT32, FLOAT64)):
        raise TypeRuleError(f"needs a tile of vec2 of float32 or float64, not {t}")
    return (t,)


def _sort(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    keys, values = tile(types[0]), tile(types[1])
    if keys.shape != values.shape:
        raise TypeRuleError(f"{keys} and {values} differ in shape")
    if not isinstance(keys.dtype, Scalar) or keys.dtype == BOOL:
        raise TypeRuleError(f"sorts by numbers, not by {keys}")
    return (keys, values, Tile(INT32, keys.shape))


def _scatter(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t, order = tile(types[0]), tile(types[1])
    if order.dtype != INT32 or order.shape != t.shape:
        raise TypeRuleError(f"{order} does not number the elements of {t}")
    return (t,)


def _matmul(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    a, b = tile(types[0]), tile(types[1])
    rows, inner = a.shape[::-1] if attrs["trans_a"] else a.shape
    inner_b, cols = b.shape[::-1] if attrs["trans_b"] else b.shape
    if inner != inner_b:
        raise TypeRuleError(f"inner sizes differ: {a} and {b}")
    out = Tile(attrs["dtype"], (rows, cols))
    for t in (a, b, out):
        if not (isinstance(t.dtype, Scalar) and t.dtype.is_float):
            raise TypeRuleError(f"needs tiles of floats, not {t}")
    if len(types) == 3 and types[2] != out:
        raise TypeRuleError(f"{a} times {b} is added to {out}, not {types[2]}")
    return (out,)


def _square(t: Type) -> Tile:
    m = tile(t)
    if m.ndim != 2 or m.shape[0] != m.shape[1]:
        raise TypeRuleError(f"needs a square tile, not {t}")
    if not (isinstance(m.dtype, Scalar) and m.dtype.is_float) or m.dtype in STORAGE_ONLY:
        raise TypeRuleError(f"needs a tile of float32 or float64, not {t}")
    return m


def _cholesky(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return (_square(types[0]),)


def _triangular_solve(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    m, y = _square(types[0]), tile(types[1])
    if y.ndim != 2 or y.shape[0] != m.shape[0] or y.dtype != m.dtype:
        raise TypeRuleError(f"{m} and {y} do not fit")
    return (y,)


def components(t: Tile) -> int:
    """Return the number of scalars in an element."""
    return t.dtype.size if isinstance(t.dtype, (Vec, Mat)) else 1


def of_block(op: Op) -> bool:
    """Return whether an op works on tiles of a block rather than on arrays of one thread."""
    if not op.name.startswith("tile_"):
        return False
    types = [v.type for v in (*op.operands, *op.results) if isinstance(v.type, Tile)]
    return not any(t.own for t in types)


_OTHER_LOOK: Mapping[str, Any] = {
    "tangent": Tangent.LINEAR, "lazy": True, "use": TileUse.ALL, "work": TileWork.NONE,
}  # fmt: skip
"""Facts of the same elements in another order or shape."""
_ALGEBRA: Mapping[str, Any] = {"use": TileUse.ALL, "work": TileWork.PRODUCTS}

ROWS = (
    # Every element is the operand. threads: each of that many threads supplies its own operand
    OpDef(
        "tile_fill", "tile", 1, _fill,
        attrs={"type": Tile}, optional={"threads": int}, tangent=Tangent.LINEAR, lazy=True, element=0,
    ),
    # (*operands): tiles of one shape, and values that are the same for all elements. dtypes: those of the results.
    # indexed: the body's first parameters are the element's indices. guarded: the function gets exact zeros for an
    # element whose cotangent is zero
    OpDef(
        "tile_map", "tile", None, _map,
        attrs={"shape": tuple, "dtypes": tuple, "body": Region, "indexed": bool}, optional={"guarded": bool},
        use=TileUse.OF_BODIES, work=TileWork.BODIES, once=True,
    ),
    # opaque: as in loads, stores and atomics of elements. along: after the offset comes a tile of int32 that gives the
    # places along this axis: element c is at offset + indices[c]
    OpDef(  # (array, *offset[, indices])
        "tile_load", "tile", None, _load, Effect.READ, Diff.SPECIAL,
        attrs={"shape": tuple}, optional={"opaque": bool, "along": int},
    ),
    # (array, *offset[, indices], tile)
    OpDef(
        "tile_store", "tile", None, _store, Effect.WRITE, Diff.SPECIAL,
        optional={"opaque": bool, "along": int}, use=TileUse.ALL, once=True,
    ),
    # (array, *offset[, indices], tile); the result is the old elements
    OpDef(
        "tile_atomic", "tile", None, _atomic, Effect.ATOMIC, Diff.SPECIAL,
        attrs={"kind": str}, optional={"opaque": bool, "along": int}, use=TileUse.ALL, once=True,
    ),
    OpDef(  # as accumulate
        "tile_accumulate", "tile", None, _store, Effect.ATOMIC, Diff.INTERNAL,
        attrs={"mode": str}, optional={"along": int}, once=True,
    ),
    # Element k of the result is element offset + k * step along each axis, 0 outside
    OpDef("tile_view", "tile", None, _view, attrs={"shape": tuple, "steps": tuple}, tangent=Tangent.LINEAR, lazy=True),
    # (tile, part, *offset)
    OpDef("tile_insert", "tile", None, _insert, attrs={"steps": tuple}, tangent=Tangent.LINEAR),
    OpDef("tile_permute", "tile", 1, _permute, attrs={"axes": tuple}, **_OTHER_LOOK),
    OpDef("tile_broadcast", "tile", 1, _broadcast, attrs={"shape": tuple}, **_OTHER_LOOK),
    OpDef("tile_reshape", "tile", 1, _reshape, attrs={"shape": tuple}, **_OTHER_LOOK),
    # (tile, *index). threads: each of that many threads takes its own element. share: of a tile with an element per
    # thread. first: the first thread takes the element and the others take 0
    OpDef(
        "tile_extract", "tile", None, _extract,
        optional={"threads": int, "share": bool, "first": bool}, tangent=Tangent.LINEAR,
        work=TileWork.NONE, per_thread=True,
    ),
    # (tile, element, *index): the tile with one element replaced; threads: by each of that many threads
    OpDef("tile_replace", "tile", None, _replace, optional={"threads": int}, tangent=Tangent.LINEAR, element=1),
    # (tile, element, *index): added to one element, or combined with it in another way, as in an atomic update. each:
    # every thread adds its own value; threads: each of that many threads does
    OpDef(
        "tile_add_at", "tile", None, _add_at, optional={"each": bool, "threads": int, "kind": str},
        per_thread=True, element=1,
    ),
    # (tile, indices): elements of an axis, 0 outside
    OpDef("tile_take", "tile", 2, _take, attrs={"axis": int}, tangent=Tangent.LINEAR),
    # (tile, part, indices): adds what tile_take has taken to where it came from
    OpDef("tile_add_along", "tile", 3, _add_along, attrs={"axis": int}, tangent=Tangent.LINEAR),
    # axis None: all elements, shape (1,). share: every thread reduces its own share of the elements
    OpDef(
        "tile_reduce", "tile", 1, _reduce, attrs={"kind": str, "axis": int | None}, optional={"share": bool},
        use=TileUse.OF_SUMS, once=True,
    ),
    # kind: min or max
    OpDef("tile_argreduce", "tile", 1, _argreduce, diff=Diff.ZERO, attrs={"kind": str, "axis": int | None}),
    # In row-major order: sums, or running extrema (kind)
    OpDef(
        "tile_scan", "tile", 1, _scan, attrs={"exclusive": bool, "backwards": bool}, optional={"kind": str},
        use=TileUse.OF_SUMS,
    ),
    # not normalised
    # along the last axis
    OpDef("tile_fft", "tile", 1, _fft, attrs={"inverse": bool}, tangent=Tangent.LINEAR, use=TileUse.ALL),
    # (keys, values) -> sorted keys, their values, where each came from
    OpDef("tile_sort", "tile", 2, _sort, work=TileWork.PRODUCTS),
    OpDef("tile_scatter", "tile", 2, _scatter, diff=Diff.INTERNAL),  # (tile, order): element k goes to order[k]
    # (a, b[, c]): a @ b + c
    OpDef(
        "tile_matmul", "tile", None, _matmul,
        attrs={"trans_a": bool, "trans_b": bool, "dtype": Scalar}, optional={"precision": str},
        tangent=Tangent.BILINEAR, **_ALGEBRA,
    ),
    OpDef("tile_cholesky", "tile", 1, _cholesky, **_ALGEBRA),  # lower factor; reads the lower triangle
    # (matrix, columns): solves with one triangle of the matrix or of its transpose
    OpDef("tile_triangular_solve", "tile", 2, _triangular_solve, attrs={"lower": bool, "trans": bool}, **_ALGEBRA),
)  # fmt: skip

READS_OF_PARTS = frozenset(row.name for row in ROWS if row.infer in (_view, _extract))
"""Operations that take a part or an element out of a tile."""
