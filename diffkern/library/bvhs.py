"""Queries of trees of boxes: which boxes meet a box, a sphere, a ray or a capsule.

The nodes of a tree are numbered in the order of a depth-first walk, parents first
(:mod:`diffkern.spatial.tree_kernels`), so the state of a query is a place in that order. Where a box is met, the next
node is its left child; otherwise it is the one after all nodes below it.
"""

from __future__ import annotations

from typing import Final

from diffkern.lang.func import func
from diffkern.lang.library import built_in
from diffkern.lang.queries import BVH, BvhQuery
from diffkern.library.descriptors import descriptor_of
from diffkern.library.language import (
    Float,
    Int32,
    float32,
    int32,
    peek_float32,
    peek_int32,
    peek_uint64,
    stop_gradient,
    uint64,
    vec3,
    vec3f,
)

__all__: list[str] = []

ID, BOXES, LINKS, ITEMS, ITEM_BOXES, TABLE, COUNT, PAIRS, WORDS = range(9)
"""The words of a descriptor: its id; where arrays begin; the number of boxes; where pairs of boxes begin, or 0."""

BOX, SPHERE, RAY = range(3)
"""The kinds of queries."""

_FAR: Final = float("inf")
_ROUNDED: Final = 1.0 + 2.0**-21  # by which the end of a ray in a box is moved, so that rounding loses no box


@func
def descriptor(id):  # type: ignore[no-untyped-def]
    """Return the address of the descriptor; 0 if the id is not that of one."""
    place = descriptor_of(id, BVH)
    assert place != uint64(0), "the id is that of no Bvh, or of one that is gone"
    return place


@func
def begun(query, id, root, kind, low, high, radius):  # type: ignore[no-untyped-def]
    """Return a query at its beginning; nothing that it does has a derivative."""
    place = descriptor(id)
    # A tree without boxes has nothing to read; its query is at its end at once.
    if place != uint64(0) and peek_uint64(place, COUNT) != uint64(0):
        query.boxes, query.links = peek_uint64(place, BOXES), peek_uint64(place, LINKS)
        query.items, query.item_boxes = peek_uint64(place, ITEMS), peek_uint64(place, ITEM_BOXES)
        # -1 stands for the whole tree, whose root is node 0.
        query.node = root if root > 0 else 0
        inside = query.node < peek_int32(query.links, 0)
        assert inside, "the Bvh has no node of that number: pass what bvh_get_group_root returns, or -1"
        # The nodes of a subtree are numbered in one piece, so the node after it bounds the walk.
        query.end = peek_int32(query.links, 4 * query.node) if inside else query.node
    query.kind, query.radius = kind, stop_gradient(float32(radius))
    # Boxes are kept in float32, whatever the type of the arguments is.
    query.low = stop_gradient(vec3f(float32(low[0]), float32(low[1]), float32(low[2])))
    query.high = stop_gradient(vec3f(float32(high[0]), float32(high[1]), float32(high[2])))
    return query


@func
def inverse(x):  # type: ignore[no-untyped-def]
    """Return 1 / x, infinite for 0: a ray at rest along an axis is between two faces, or outside, all the way."""
    return float32(1.0) / x if x != 0.0 else float32(_FAR)


@func
def inverse_of(dir):  # type: ignore[no-untyped-def]
    """Return 1 / x for each component of a direction."""
    x, y, z = float32(dir[0]), float32(dir[1]), float32(dir[2])
    return vec3f(inverse(x), inverse(y), inverse(z))


@func
def entry(boxes, k, start, inverse, radius):  # type: ignore[no-untyped-def]
    """Return how far along a ray it enters a box enlarged by a radius; infinite if it does not."""
    near, far = float32(0.0), float32(_FAR)
    for c in range(3):
        below = peek_float32(boxes, 6 * k + c) - radius - start[c]
        above = peek_float32(boxes, 6 * k + 3 + c) + radius - start[c]
        a, b = below * inverse[c], above * inverse[c]
        # A ray that runs down an axis enters through the upper face.
        low, high = (b if inverse[c] < 0.0 else a), (a if inverse[c] < 0.0 else b)
        # Where the ray runs along a face, that one is 0 times infinity, a NaN, and no comparison with it is true.
        near = low if low > near else near
        far = high if high < far else far
        # A NaN differs from itself: a box with one is never met.
        near = near if below == below and above == above else float32(_FAR)
    return near if near <= far * float32(_ROUNDED) else float32(_FAR)


@func
def distance_sq(boxes, k, point):  # type: ignore[no-untyped-def]
    """Return the square of the distance of a point from a box; infinite for a box with a NaN."""
    total = float32(0.0)
    for c in range(3):
        below = peek_float32(boxes, 6 * k + c) - point[c]
        above = point[c] - peek_float32(boxes, 6 * k + 3 + c)
        # At most one of the two is positive, as the bounds of a box are in order.
        outside = below if below > above else above
        outside = outside if outside > 0.0 else float32(0.0)
        total += outside * outside
        total = total if below == below and above == above else float32(_FAR)
    return total


@func
def overlap(boxes, k, low, high):  # type: ignore[no-untyped-def]
    """Return whether two boxes meet."""
    return (
        peek_float32(boxes, 6 * k) <= high[0]
        and peek_float32(boxes, 6 * k + 3) >= low[0]
        and peek_float32(boxes, 6 * k + 1) <= high[1]
        and peek_float32(boxes, 6 * k + 4) >= low[1]
        and peek_float32(boxes, 6 * k + 2) <= high[2]
        and peek_float32(boxes, 6 * k + 5) >= low[2]
    )


@func
def meets(query, boxes, k, max_dist):  # type: ignore[no-untyped-def]
    """Return whether a box is one of those that a query asks for."""
    if query.kind == BOX:
        met = overlap(boxes, k, query.low, query.high)
    elif query.kind == SPHERE:
        met = distance_sq(boxes, k, query.low) <= query.radius
    else:
        near = entry(boxes, k, query.low, query.high, query.radius)
        met = near <= max_dist and near < float32(_FAR)
    return met


@func
def advanced(query, index, max_dist):  # type: ignore[no-untyped-def]
    """Return the query at its next result, that result, and whether there is one."""
    found = False
    while not found and (query.place < query.last or query.node < query.end):
        if query.place < query.last:
            if meets(query, query.item_boxes, query.place, max_dist):
                found, index = True, peek_int32(query.items, query.place)
            query.place += 1
        else:
            node = query.node
            skip = peek_int32(query.links, 4 * node)
            # Unless the box is met, the walk goes on after everything below the node.
            query.node = skip
            if meets(query, query.boxes, node, max_dist):
                # Something is below the node, so it is not a leaf.
                if skip > node + 1:
                    query.node = node + 1
                elif query.item_boxes != uint64(0):
                    # A leaf with several boxes: the next rounds of this loop look at them one by one.
                    query.place, query.last = (
                        peek_int32(query.links, 4 * node + 1),
                        peek_int32(query.links, 4 * node + 2),
                    )
                else:
                    # A leaf with a single box has the same box itself.
                    found, index = True, peek_int32(query.items, peek_int32(query.links, 4 * node + 1))
    return query, index, found


@func
def following(query, index):  # type: ignore[no-untyped-def]
    """Return the same as :func:`advanced`, for a ray of any length."""
    return advanced(query, index, float32(_FAR))


@func
def positive(x):  # type: ignore[no-untyped-def]
    """Return a number as a float32; 0 if it is negative."""
    value = float32(x)
    # The comparison is false for a NaN, which becomes 0 too.
    return value if value > 0.0 else float32(0.0)


@func
def group_root(id, group):  # type: ignore[no-untyped-def]
    """Return the root of a group; -1 if there is none."""
    place, root = descriptor(id), -1
    if place != uint64(0):
        table, room = peek_uint64(place, TABLE), int32(peek_uint64(place, COUNT))
        if table != uint64(0):
            count = peek_int32(table, 0)
            low, high = 0, count
            # A binary search: the table holds the number of groups, the groups in ascending order, and their roots.
            while low < high:
                middle = low + (high - low) // 2
                if peek_int32(table, 1 + middle) < group:
                    low = middle + 1
                else:
                    high = middle
            if low < count and peek_int32(table, 1 + low) == group:
                root = peek_int32(table, 1 + room + low)
    return root


@built_in()
def bvh_query_aabb(id: uint64, low: vec3, high: vec3, root: Int32 = -1) -> BvhQuery:
    """A query of a Bvh for the boxes that meet a box, borders included: ``while bvh_query_next(query, i)`` goes through
    their indices, in no set order, and so does ``for i in query``.

    With a root from bvh_get_group_root, it finds only boxes of that group.

    Derivative: none, the results are integers; values read at these indices are differentiated as usual.

    Example: s, j = dk.bvh_query_aabb(tree, u - w[i], u + w[i]), 0
    while dk.bvh_query_next(s, j):
        q[j] = 1
    """
    return begun(BvhQuery(), id, root, BOX, low, high, 0.0)  # type: ignore[no-any-return]


@built_in()
def bvh_query_sphere(id: uint64, center: vec3, radius: Float, root: Int32 = -1) -> BvhQuery:
    """A query of a Bvh for the boxes that meet a sphere; with a negative radius, for those that contain its centre.

    Derivative: none, the results are integers.

    Example: for j in dk.bvh_query_sphere(tree, u, 0.5):
        q[j] = 1
    """
    r = positive(radius)
    return begun(BvhQuery(), id, root, SPHERE, center, center, r * r)  # type: ignore[no-any-return]


@built_in()
def bvh_query_ray(id: uint64, start: vec3, dir: vec3, root: Int32 = -1) -> BvhQuery:
    """A query of a Bvh for the boxes that a ray meets, in no set order. bvh_query_next takes how far the ray goes.

    Derivative: none, the results are integers.

    Example: s, j = dk.bvh_query_ray(tree, u, w[i]), 0
    while dk.bvh_query_next(s, j, 2.0):
        q[j] = 1
    """
    return begun(BvhQuery(), id, root, RAY, start, inverse_of(dir), 0.0)  # type: ignore[no-any-return]


@built_in()
def bvh_query_capsule(id: uint64, start: vec3, dir: vec3, radius: Float, root: Int32 = -1) -> BvhQuery:
    """A query of a Bvh for the boxes that a ray meets once they are enlarged by a radius on each side.

    These are all boxes that come within the radius of the ray, and some near their corners that do not. Pass p1 - p0
    and 1.0 to bvh_query_next for the capsule between two points.

    Derivative: none, the results are integers.

    Example: s, j = dk.bvh_query_capsule(tree, u, w[i], 0.1), 0
    while dk.bvh_query_next(s, j, 1.0):
        q[j] = 1
    """
    return begun(BvhQuery(), id, root, RAY, start, inverse_of(dir), positive(radius))  # type: ignore[no-any-return]


@built_in(sets="query index")
def bvh_query_next(query: BvhQuery, index: Int32, max_dist: Float = _FAR) -> tuple[BvhQuery, int32, bool]:
    """True if there is another box; the second argument is then set to its index.

    max_dist is how far a ray or a capsule goes, in lengths of its direction. It may decrease from call to call, but not
    increase. Other queries ignore it.

    Derivative: none, it is an integer.

    Example: s, j = dk.bvh_query_ray(tree, u, w[i]), 0
    while dk.bvh_query_next(s, j):
        q[j] = 1
    """
    return advanced(query, index, stop_gradient(float32(max_dist)))  # type: ignore[no-any-return]


@built_in()
def bvh_get_group_root(id: uint64, group: Int32) -> int32:
    """The node with the boxes of a group below it, for the argument root of queries; -1 (all boxes) if there is none.

    Derivative: none, it is an integer.

    Example: q[i] = dk.bvh_get_group_root(tree, i)
    """
    return group_root(id, group)
