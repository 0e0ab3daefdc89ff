"""Queries of trees that the threads of a block make together: each of them gets one result at a time.

All threads walk down the tree together, to nodes with no more boxes below them than there are threads. These boxes are
tested at once, one by each thread. The walk is the same for all threads, so that they can work on tiles together as
usual; a box is the result of one thread.
"""

from __future__ import annotations

from typing import Any, Final

from diffkern.lang.func import func
from diffkern.lang.library import built_in
from diffkern.lang.queries import BvhQueryTiled, MeshQueryAABBTiled
from diffkern.library.bvhs import BOX, RAY, begun, inverse_of, meets
from diffkern.library.language import (
    float32,
    peek_int32,
    peek_uint64,
    tile,
    tile_arange,
    uint64,
    untile,
    vec3,
)
from diffkern.library.meshes import BVH_ID, FACE_COUNT, descriptor

__all__: list[str] = []

_FAR: Final = float("inf")


@func
def is_stretch(query, node, skip, threads):  # type: ignore[no-untyped-def]
    """Return whether the threads of a block test everything below a node at once."""
    # The nodes below a node are numbered in one piece, so that their number bounds that of the boxes.
    boxes = skip - node
    if query.item_boxes != uint64(0):
        boxes = peek_int32(query.links, 4 * node + 2) - peek_int32(query.links, 4 * node + 1)
    return skip == node + 1 or boxes <= threads


@func
def next_stretch(query, threads):  # type: ignore[no-untyped-def]
    """Return the query with the next boxes to test: its items, or nodes where each leaf has one item."""
    while query.place >= query.last and query.node < query.end:
        node = query.node
        skip = peek_int32(query.links, 4 * node)
        query.node = skip
        if meets(query, query.boxes, node, float32(_FAR)):
            if not is_stretch(query, node, skip, threads):
                query.node = node + 1
            elif query.item_boxes != uint64(0):
                query.place = peek_int32(query.links, 4 * node + 1)
                query.last = peek_int32(query.links, 4 * node + 2)
            else:
                # There are inner nodes among them, which are passed over when they are looked at.
                query.place, query.last = node, skip
    return query


@func
def looked_at(query, k):  # type: ignore[no-untyped-def]
    """Return the index of the box at a place of the stretch; -1 if it is not one that is asked for."""
    found = -1
    if k < query.last:
        if query.item_boxes != uint64(0):
            if meets(query, query.item_boxes, k, float32(_FAR)):
                found = peek_int32(query.items, k)
        # Only a leaf is followed by the next node.
        elif peek_int32(query.links, 4 * k) == k + 1 and meets(query, query.boxes, k, float32(_FAR)):
            found = peek_int32(query.items, peek_int32(query.links, 4 * k + 1))
    return found


@func
def following(query):  # type: ignore[no-untyped-def]
    """Return the query at its next stretch of boxes, and a tile with an index for each thread."""
    # The tile has an element for each thread, however many a block has.
    threads = tile(0).shape[0]
    thread = untile(tile_arange(threads, dtype=int))
    query = next_stretch(query, threads)
    found = looked_at(query, query.place + thread)
    # It may go past the last place, which ends the stretch.
    query.place += threads
    return query, tile(found)


@built_in()
def tile_bvh_query_aabb(id: uint64, low: vec3, high: vec3) -> BvhQueryTiled:
    """A query of a Bvh, shared by all threads of a block, for the boxes that meet a box. All pass the same arguments.

    ``while tile_query_valid(query): i = untile(tile_bvh_query_next(query))`` gives each thread an index at a time, in
    no set order, or -1; each box is the result of one thread, once.

    Derivative: none, the results are integers.

    Example: s = dk.tile_bvh_query_aabb(tree, u, v)
    while dk.tile_query_valid(s):
        j = dk.untile(dk.tile_bvh_query_next(s))
        if j >= 0:
            q[j] = 1
    """
    return begun(BvhQueryTiled(), id, -1, BOX, low, high, 0.0)  # type: ignore[no-any-return]


@built_in()
def tile_bvh_query_ray(id: uint64, start: vec3, dir: vec3) -> BvhQueryTiled:
    """A query of a Bvh, shared by all threads of a block, for the boxes that a ray of any length meets.

    Derivative: none, the results are integers.

    Example: s = dk.tile_bvh_query_ray(tree, u, v)
    while dk.tile_query_valid(s):
        j = dk.untile(dk.tile_bvh_query_next(s))
        if j >= 0:
            q[j] = 1
    """
    return begun(BvhQueryTiled(), id, -1, RAY, start, inverse_of(dir), 0.0)  # type: ignore[no-any-return]


@built_in(sets="query")
def tile_bvh_query_next(query: BvhQueryTiled) -> tuple[BvhQueryTiled, Any]:
    """A tile of as many integers as a block has threads: for each an index of a box that the query asks for, or -1.

    Derivative: none, they are integers.

    Example: s = dk.tile_bvh_query_aabb(tree, u, v)
    while dk.tile_query_valid(s):
        t = dk.tile_bvh_query_next(s)
        q[0] = dk.untile(t)
    """
    return following(query)  # type: ignore[no-any-return]


@built_in()
def tile_query_valid(query: BvhQueryTiled) -> bool:
    """True if there may be further results, so that all threads of the block go on.

    Derivative: none.

    Example: s = dk.tile_bvh_query_aabb(tree, u, v)
    while dk.tile_query_valid(s):
        t = dk.tile_bvh_query_next(s)
        q[0] = dk.untile(t)
    """
    return query.place < query.last or query.node < query.end


@built_in("tile_query_valid")
def _of_a_mesh(query: MeshQueryAABBTiled) -> bool:
    return query.place < query.last or query.node < query.end


@built_in()
def tile_mesh_query_aabb(id: uint64, low: vec3, high: vec3) -> MeshQueryAABBTiled:
    """A query of a Mesh, shared by all threads of a block, for the faces whose boxes meet a box.

    Derivative: none, the results are integers.

    Example: s = dk.tile_mesh_query_aabb(mesh, u, v)
    while dk.tile_query_valid(s):
        j = dk.untile(dk.tile_mesh_query_aabb_next(s))
        if j >= 0:
            q[j] = 1
    """
    query, place = MeshQueryAABBTiled(), descriptor(id)
    if place != uint64(0) and peek_uint64(place, FACE_COUNT) != uint64(0):
        query = begun(query, peek_uint64(place, BVH_ID), -1, BOX, low, high, 0.0)
    return query


@built_in(sets="query")
def tile_mesh_query_aabb_next(query: MeshQueryAABBTiled) -> tuple[MeshQueryAABBTiled, Any]:
    """A tile of as many integers as a block has threads: for each a face that the query asks for, or -1.

    Derivative: none, they are integers.

    Example: s = dk.tile_mesh_query_aabb(mesh, u, v)
    while dk.tile_query_valid(s):
        t = dk.tile_mesh_query_aabb_next(s)
        q[0] = dk.untile(t)
    """
    return following(query)  # type: ignore[no-any-return]
