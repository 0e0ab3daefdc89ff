"""The reverse sweep through accesses to memory by tiles, through maps, sorts and element reads of tiles.

A map's adjoint is a map: its function is differentiated like a kernel's body, from the cotangents of its yields to
those of its parameters. A value that is the same for all elements gets the sum over them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diffkern.ad.activity import Activity
from diffkern.ad.cotangents import CotangentMap, ct_name
from diffkern.ad.rules.tile import total
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.types import Tile
from diffkern.ir.views import Access, Part
from diffkern.opt.dce import eliminate_region

Env = dict[Value, Value]
ReverseBody = Callable[[Function, list[int]], Region]
"""From a function of elements and its active parameters to the region ``(params, cotangents) -> cotangents``."""


def map_body(body: Region) -> Function:
    """Return the function of a map as a function of its own."""
    params = tuple(Value(p.type, p.name) for p in body.params)
    cloner = Cloner(Builder(), dict(zip(body.params, params, strict=True)))
    cloner.ops(body.ops)
    cloner.b.region.yields = cloner.values(body.yields)
    return Function("map", params, cloner.b.region)


def reverse_map(b: Builder, op: Op, env: Env, cts: CotangentMap, activity: Activity, reverse_body: ReverseBody) -> None:
    """Append the adjoint of a map."""
    seeds = [cts.take(r) for r in op.results]
    want = [activity.active(v) for v in op.operands]
    if all(s is None for s in seeds) or not any(want):
        return
    shape = op.attrs["shape"]
    given = [s if s is not None else b.zero(r.type) for s, r in zip(seeds, op.results, strict=True)]
    skip = len(shape) if op.attrs["indexed"] else 0
    body = reverse_body(map_body(op.attrs["body"]), [skip + k for k, w in enumerate(want) if w])
    # Operands that the adjoint does not use are dropped, so the tiles need not be kept.
    used = eliminate_region(body)
    operands = [*(env[v] for v in op.operands), *given]
    kept = [k for k, p in enumerate(body.params[skip:]) if p in used]
    body.params = (*body.params[:skip], *(body.params[skip + k] for k in kept))
    sources = [v for v, w in zip(op.operands, want, strict=True) if w]
    dtypes = tuple(v.type.dtype if isinstance(v.type, Tile) else v.type for v in sources)
    names = [ct_name(v) for v in sources]
    found = b.op(
        "tile_map", *(operands[k] for k in kept), names=names,
        shape=shape, dtypes=dtypes, body=body, indexed=op.attrs["indexed"],
    )  # fmt: skip
    for v, ct in zip(sources, found, strict=True):
        # A scalar operand was broadcast to all elements, so its cotangent is the sum of theirs.
        cts.add(v, ct if isinstance(v.type, Tile) else total(b, ct))


def reverse_sort(b: Builder, op: Op, env: Env, cts: CotangentMap, activity: Activity) -> None:
    """Send the cotangents of sorted keys and values back to where each came from."""
    order = env[op.results[2]]
    for v, r in zip(op.operands, op.results, strict=False):
        # The third result of a sort is the order; scattering by it is the inverse of gathering by it.
        ct = cts.take(r)
        if ct is not None and activity.active(v):
            cts.add(v, b.one("tile_scatter", ct, order))


def reverse_extract(op: Op, env: Env, cts: CotangentMap, activity: Activity) -> None:
    """Add to one element of a tile's cotangent."""
    ct = cts.take(op.result)
    tile, threads = Part(op).tile, op.attrs.get("threads")
    if ct is None or not activity.active(tile):
        return
    if threads is not None:
        # Each thread has read its own element, so a fill by threads is the transpose of that.
        cts.add(tile, cts.b.one("tile_fill", ct, type=tile.type, threads=threads))
    else:
        cts.add_at(tile, [env[v] for v in Part(op).index], ct)


def reverse_load(b: Builder, op: Op, env: Env, cts: CotangentMap, activity: Activity, cotangents: Env) -> None:
    """Accumulate the cotangent of a tile that was loaded."""
    ct = cts.take(op.result)
    buffer = cotangents.get(Access(op).array)
    if ct is not None and buffer is not None:
        places = [env[v] for v in Access(op).places]
        b.op("tile_accumulate", buffer, *places, ct, mode="plain", **Access(op).along)


def reverse_store(b: Builder, op: Op, env: Env, cts: CotangentMap, activity: Activity, cotangents: Env) -> None:
    """Take the cotangents of the elements and zero them."""
    buffer, value = cotangents.get(Access(op).array), Access(op).value
    if buffer is None:
        return
    places = [env[v] for v in Access(op).places]
    if activity.active(value):
        cts.add(value, _cotangent(b, buffer, places, op))
    # Zeroed after its cotangent was taken, as for a store of single elements.
    b.op("tile_store", buffer, *places, b.zero(value.type), **Access(op).along)


def reverse_atomic(b: Builder, op: Op, env: Env, cts: CotangentMap, activity: Activity, cotangents: Env) -> None:
    """Send the cotangents of the elements to what was added to them."""
    if cts.take(op.result) is not None:
        raise AutodiffError(
            "the tile returned by tile_atomic_add is used in a differentiated path", loc=op.loc,
            remedy="it depends on the order of blocks and has no gradient; use the array in a later launch",
        )  # fmt: skip
    buffer, value = cotangents.get(Access(op).array), Access(op).value
    if buffer is not None and activity.active(value):
        cts.add(value, _cotangent(b, buffer, [env[v] for v in Access(op).places], op))


def _cotangent(b: Builder, buffer: Value, places: Sequence[Value], op: Op) -> Value:
    value = Access(op).value
    assert isinstance(value.type, Tile)
    return b.one("tile_load", buffer, *places, shape=value.type.shape, hint=ct_name(value), **Access(op).along)
