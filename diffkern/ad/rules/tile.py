"""Derivatives of tile operations, on whole tiles.

Matrix products, factors and triangular solves follow Giles, "Collected matrix derivative results" (2008), and Murray,
"Differentiation of the Cholesky decomposition" (2016). A factorisation reads one triangle of its matrix, so the
gradient lives in that triangle: it is what the program computes, element by element. The smallest and the greatest
element pass their cotangent to the first one in row-major order where there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from diffkern.ad.rules.rule import Rule, RuleArguments
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Region, Value
from diffkern.ir.ops.tile import reduced_shape
from diffkern.ir.types import INT32, Scalar, Tile, value_type

Cotangents = Sequence[Value | None]


def _type(v: Value) -> Tile:
    assert isinstance(v.type, Tile)
    return v.type


def total(b: Builder, ct: Value) -> Value:
    """Return the sum of all elements as a value.

    If each thread of a block holds its own copy of the number whose cotangent this is, a thread gets the sum of its
    share of the elements: the threads' cotangents of one number add up to the whole.
    """
    if b.threads and not _type(ct).own:
        part = b.one("tile_reduce", ct, kind="add", axis=None, share=True)
        return b.one("tile_extract", part, b.i32(0), share=True)
    return b.one("tile_extract", b.one("tile_reduce", ct, kind="add", axis=None), b.i32(0))


def indexed(
    b: Builder, shape: tuple[int, ...], operands: Sequence[Value], body: Callable[[Sequence[Value], list[Value]], Value]
) -> Value:
    """Return a map whose function sees the indices of the element; the result is stored as the first operand is."""
    index = [Value(INT32) for _ in shape]
    params = [Value(value_type(v.type.dtype) if isinstance(v.type, Tile) else v.type) for v in operands]
    region = Region((*index, *params))
    with b.into(region):
        region.yields = (body(index, params),)
    dtype = _type(operands[0]).dtype
    return b.one("tile_map", *operands, shape=shape, dtypes=(dtype,), body=region, indexed=True)


def _fill(b: Builder, a: RuleArguments) -> Cotangents:
    threads = a.op.attrs.get("threads")
    if threads is not None:
        return [b.one("tile_extract", a.ct, b.i32(0), threads=threads)]
    return [total(b, a.ct)]


def _view(b: Builder, a: RuleArguments) -> Cotangents:
    offset = a.x[1:]
    # A view that reaches past the border reads zeros there; its cotangent has no place to go and is dropped by insert.
    back = b.one("tile_insert", b.zero(a.x[0].type), a.ct, *offset, steps=a.op.attrs["steps"])
    return [back, *(None for _ in offset)]


def _insert(b: Builder, a: RuleArguments) -> Cotangents:
    part = a.x[1]
    offset, steps = a.x[2:], a.op.attrs["steps"]
    return [
        b.one("tile_insert", a.ct, b.zero(part.type), *offset, steps=steps) if a.want[0] else None,
        b.one("tile_view", a.ct, *offset, shape=_type(part).shape, steps=steps) if a.want[1] else None,
        *(None for _ in offset),
    ]


def _permute(b: Builder, a: RuleArguments) -> Cotangents:
    axes = a.op.attrs["axes"]
    # The transpose of a permutation of axes is the inverse permutation.
    return [b.one("tile_permute", a.ct, axes=tuple(axes.index(k) for k in range(len(axes))))]


def _broadcast(b: Builder, a: RuleArguments) -> Cotangents:
    source, target = _type(a.x[0]).shape, _type(a.ct).shape
    padded = (1,) * (len(target) - len(source)) + source
    ct = a.ct
    # From the last axis to the first, so that the numbers of the axes still to be summed stay valid.
    for axis in reversed(range(len(target))):
        if padded[axis] == 1 and target[axis] != 1:
            ct = b.one("tile_reduce", ct, kind="add", axis=axis)
    return [_shaped(b, ct, source)]


def _shaped(b: Builder, v: Value, shape: tuple[int, ...]) -> Value:
    return v if _type(v).shape == shape else b.one("tile_reshape", v, shape=shape)


def _reshape(b: Builder, a: RuleArguments) -> Cotangents:
    return [_shaped(b, a.ct, _type(a.x[0]).shape)]


def _read_back(b: Builder, a: RuleArguments) -> Value | None:
    """Return the cotangent of a written value: for the first thread, or for each one that has written."""
    each = "threads" in a.op.attrs or "each" in a.op.attrs
    first: dict[str, Any] = {"first": True} if b.threads and not (_type(a.ct).own or each) else {}
    return b.one("tile_extract", a.ct, *a.x[2:], **first) if a.want[1] else None


def _replace(b: Builder, a: RuleArguments) -> Cotangents:
    # The element was overwritten: its old content has no cotangent any more.
    kept = b.one("tile_replace", a.ct, b.zero(a.x[1].type), *a.x[2:], **a.op.attrs) if a.want[0] else None
    return [kept, _read_back(b, a), *(None for _ in a.x[2:])]


def _add_at(b: Builder, a: RuleArguments) -> Cotangents:
    return [a.ct, _read_back(b, a), *(None for _ in a.x[2:])]


def _take(b: Builder, a: RuleArguments) -> Cotangents:
    # Reading by an index is transposed to adding at that index, where several reads of one element sum up.
    return [b.one("tile_add_along", b.zero(a.x[0].type), a.ct, a.x[1], axis=a.op.attrs["axis"]), None]


def _add_along(b: Builder, a: RuleArguments) -> Cotangents:
    return [a.ct, b.one("tile_take", a.ct, a.x[2], axis=a.op.attrs["axis"]) if a.want[1] else None, None]


def _expanded(b: Builder, v: Value, t: Tile, axis: int | None) -> Value:
    """Return the result of a reduction, broadcast to the shape it was reduced from."""
    shape = (1,) * t.ndim if axis is None else (*t.shape[:axis], 1, *t.shape[axis + 1 :])
    return b.one("tile_broadcast", _shaped(b, v, shape), shape=t.shape)


def _reduce(b: Builder, a: RuleArguments) -> Cotangents:
    t, axis, kind = _type(a.x[0]), a.op.attrs["axis"], a.op.attrs["kind"]
    ct = _expanded(b, a.ct, t, axis)
    if kind == "add":
        return [ct]
    # Only one of several equal extrema gets the cotangent, so its position is needed, not only its value.
    at = b.one("tile_argreduce", a.x[0], kind=kind, axis=axis)
    assert _type(at).shape == reduced_shape(t, axis)

    def body(index: Sequence[Value], x: list[Value]) -> Value:
        position = index[0] if axis is None else index[axis]
        # Over the whole tile the position is the row-major number of the element.
        if axis is None:
            for k, extent in zip(index[1:], t.shape[1:], strict=True):
                position = b.add(b.mul(position, b.i32(extent)), k)
        return b.select(b.one("eq", position, x[1]), x[0], b.zero(x[0].type))

    return [indexed(b, t.shape, (ct, _expanded(b, at, t, axis)), body)]


def _running(b: Builder, a: RuleArguments) -> Value:
    """Return the cotangent of running extrema: each passes its own to the element that it is, the first of equals."""
    t = _type(a.r)
    assert isinstance(t.dtype, Scalar)
    flat = _shaped(b, a.r, (t.size,))
    before = b.one("tile_view", flat, b.i32(-1), shape=(t.size,), steps=(1,))
    element = value_type(t.dtype)
    body = Region((Value(INT32), Value(element), Value(element)))
    # A new extremum begins where the running value differs from the one before; the largest such start so far is the
    # position of the current extremum.
    with b.into(body):
        k, now, last = body.params
        changes = b.one("ne", now, last)
        # A NaN differs from itself, so once the running value is NaN no later element may start over.
        if t.dtype.is_float:
            changes = b.one("and", changes, b.one("not", b.one("isnan", last)))
        changes = b.one("or", changes, b.one("eq", k, b.i32(0)))
        body.yields = (b.select(changes, k, b.i32(0)),)
    begins = b.one("tile_map", flat, before, shape=(t.size,), dtypes=(INT32,), body=body, indexed=True)
    winner = b.one("tile_scan", begins, exclusive=False, backwards=False, kind="max")
    back = b.one("tile_add_along", b.zero(flat.type), _shaped(b, a.ct, (t.size,)), winner, axis=0)
    return _shaped(b, back, t.shape)


def _scan(b: Builder, a: RuleArguments) -> Cotangents:
    if "kind" in a.op.attrs:
        return [_running(b, a)]
    exclusive, backwards = a.op.attrs["exclusive"], a.op.attrs["backwards"]
    # The transpose of a prefix sum is a suffix sum.
    return [b.one("tile_scan", a.ct, exclusive=exclusive, backwards=not backwards)]


def _fft(b: Builder, a: RuleArguments) -> Cotangents:
    # The Fourier matrix is symmetric, so its transpose with the real inner product is the conjugate: the other
    # direction.
    return [b.one("tile_fft", a.ct, inverse=not a.op.attrs["inverse"])]


def _product(
    b: Builder, x: Value, y: Value, trans_x: bool, trans_y: bool, dtype: object, precision: str | None = None
) -> Value:
    kept = {} if precision is None else {"precision": precision}
    return b.one("tile_matmul", x, y, trans_a=trans_x, trans_b=trans_y, dtype=dtype, **kept)


def _matmul(b: Builder, a: RuleArguments) -> Cotangents:
    x, y = a.x[:2]
    tx, ty = a.op.attrs["trans_a"], a.op.attrs["trans_b"]
    precision = a.op.attrs.get("precision")
    ct_x: Value | None = None
    ct_y: Value | None = None
    if a.want[0]:
        # The product rule with transposes folded into the flags, so that no transposed tile is stored: X^T X has the
        # form op(Y ct^T).
        dtype = _type(x).dtype
        if tx:
            ct_x = _product(b, y, a.ct, ty, True, dtype, precision)
        else:
            ct_x = _product(b, a.ct, y, False, not ty, dtype, precision)
    if a.want[1]:
        dtype = _type(y).dtype
        if ty:
            ct_y = _product(b, a.ct, x, True, tx, dtype, precision)
        else:
            ct_y = _product(b, x, a.ct, not tx, False, dtype, precision)
    return [ct_x, ct_y, a.ct][: len(a.x)]


def triangle(b: Builder, v: Value, lower: bool) -> Value:
    """Return one triangle of a square tile, with its diagonal; 0 elsewhere."""

    def body(index: Sequence[Value], x: list[Value]) -> Value:
        inside = b.one("ge" if lower else "le", index[0], index[1])
        return b.select(inside, x[0], b.zero(x[0].type))

    return indexed(b, _type(v).shape, (v,), body)


def _cholesky(b: Builder, a: RuleArguments) -> Cotangents:
    """Return S + S^T with its diagonal not doubled, for S = L^-T P L^-1.

    P is the lower triangle of L^T ct, with its diagonal halved.
    """
    factor, t = a.r, _type(a.r)
    dtype = t.dtype
    assert isinstance(dtype, Scalar)
    inner = _product(b, factor, triangle(b, a.ct, True), True, False, dtype)

    def halved(index: Sequence[Value], x: list[Value]) -> Value:
        on = b.one("eq", index[0], index[1])
        # Only the lower triangle of the matrix is read, so the two symmetric contributions to an element below the
        # diagonal are added, while the one on the diagonal is counted once.
        below = b.one("gt", index[0], index[1])
        half = b.mul(b.const(0.5, dtype), x[0])
        return b.select(on, half, b.select(below, x[0], b.zero(dtype)))

    p = indexed(b, t.shape, (inner,), halved)
    left = b.one("tile_triangular_solve", factor, p, lower=True, trans=True)
    s_t = b.one("tile_triangular_solve", factor, b.one("tile_permute", left, axes=(1, 0)), lower=True, trans=True)
    s = b.one("tile_permute", s_t, axes=(1, 0))

    def joined(index: Sequence[Value], x: list[Value]) -> Value:
        on = b.one("eq", index[0], index[1])
        below = b.one("gt", index[0], index[1])
        return b.select(on, x[0], b.select(below, b.add(x[0], x[1]), b.zero(dtype)))

    return [indexed(b, t.shape, (s, s_t), joined)]


def _triangular_solve(b: Builder, a: RuleArguments) -> Cotangents:
    matrix, lower, trans = a.x[0], a.op.attrs["lower"], a.op.attrs["trans"]
    # X = A^-1 B gives ct_B = A^-T ct and ct_A = -ct_B X^T, restricted to the triangle that is read.
    w = b.one("tile_triangular_solve", matrix, a.ct, lower=lower, trans=not trans)
    if not a.want[0]:
        return [None, w]
    dtype = _type(matrix).dtype
    outer = _product(b, a.r, w, False, True, dtype) if trans else _product(b, w, a.r, False, True, dtype)
    return [b.neg(triangle(b, outer, lower)), w]


TILE_RULES: dict[str, Rule] = {
    "tile_fill": _fill,
    "tile_view": _view,
    "tile_insert": _insert,
    "tile_permute": _permute,
    "tile_broadcast": _broadcast,
    "tile_reshape": _reshape,
    "tile_replace": _replace,
    "tile_add_at": _add_at,
    "tile_take": _take,
    "tile_add_along": _add_along,
    "tile_reduce": _reduce,
    "tile_scan": _scan,
    "tile_fft": _fft,
    "tile_matmul": _matmul,
    "tile_cholesky": _cholesky,
    "tile_triangular_solve": _triangular_solve,
}
