"""Searches in meshes for faces: their results are integers, which have no derivative.

Each takes the addresses of a mesh's arrays and returns a face, or a number of faces. A search goes down the tree of the
faces' boxes, the nearer child first, and keeps the other one on a stack.
"""

from __future__ import annotations

import math
from typing import Final

from diffkern.lang.func import func
from diffkern.library.box_pairs import away_sq, entered, facing, pair_at
from diffkern.library.bvhs import inverse_of
from diffkern.library.language import (
    atan2,
    cross,
    dot,
    float32,
    int32,
    int64,
    length_sq,
    own_zeros,
    peek_float32,
    peek_int32,
    sqrt,
    uint32,
    uint64,
    vec3f,
)
from diffkern.library.triangles import along, closest, edges, hit, is_sliver, shear, turned

__all__: list[str] = []

DEEPEST: Final = 64
"""Levels of a tree at most, a power of two."""

_FAR: Final = float("inf")
_GREATEST: Final = 3.4028234663852886e38  # float32


@func
def still(points, i):  # type: ignore[no-untyped-def]
    """Return a point, as a constant."""
    return vec3f(peek_float32(points, 3 * i), peek_float32(points, 3 * i + 1), peek_float32(points, 3 * i + 2))


@func
def corners(tree, face):  # type: ignore[no-untyped-def]
    """Return the vertices of a face, as constants."""
    i, j = peek_int32(tree.indices, 3 * face), peek_int32(tree.indices, 3 * face + 1)
    k = peek_int32(tree.indices, 3 * face + 2)
    return still(tree.points, i), still(tree.points, j), still(tree.points, k)


@func
def blended(a, b, c, u, v):  # type: ignore[no-untyped-def]
    """Return the point of a triangle with the given weights."""
    return a * u + b * v + c * (float32(1.0) - u - v)


@func
def slot(top):  # type: ignore[no-untyped-def]
    """Return a place of a stack as one of which the compiler sees that there is room for it."""
    return uint32(top) & uint32(DEEPEST - 1)


@func
def closest_face(tree, x, max_dist):  # type: ignore[no-untyped-def]
    """Return the face nearest to a point and nearer than a distance; -1 if there is none."""
    stack, far = own_zeros(shape=DEEPEST, dtype=int32), own_zeros(shape=DEEPEST, dtype=float32)
    # Nothing is near a point with a NaN, which no comparison with boxes would find out.
    best, found, top, node = max_dist * max_dist, -1, 0, tree.node if dot(x, x) >= 0.0 else -1
    while node >= 0:
        right, goes_to = peek_int32(tree.links, 4 * node + 3), -1
        if right == 0:
            for p in range(peek_int32(tree.links, 4 * node + 1), peek_int32(tree.links, 4 * node + 2)):
                face = peek_int32(tree.items, p)
                a, b, c = corners(tree, face)
                u, v = closest(x, a, b, c)
                square = length_sq(blended(a, b, c, u, v) - x)
                # A face without area has no normal, so that no sign could be found there.
                if square < best and not is_sliver(a, b, c):
                    best, found = square, face
        else:
            at = pair_at(node)
            one, other = away_sq(tree.pairs, at, x), away_sq(tree.pairs, at + int64(6), x)
            is_left = one <= other
            # The nearer child comes first: what it finds often makes the other one needless.
            stack[slot(top)], far[slot(top)] = (right if is_left else node + 1), (other if is_left else one)
            top += 1 if far[slot(top)] < best else 0
            if (one if is_left else other) < best:
                goes_to = node + 1 if is_left else right
        while goes_to < 0 and top > 0:
            top -= 1
            # Something nearer may have been found since the node was put aside.
            if far[slot(top)] < best:
                goes_to = stack[slot(top)]
        node = goes_to
    return found


@func
def furthest_sq(boxes, k, x):  # type: ignore[no-untyped-def]
    """Return the square of the greatest distance of a point from any place in a box."""
    total = float32(0.0)
    for c in range(3):
        below, above = x[c] - peek_float32(boxes, 6 * k + c), peek_float32(boxes, 6 * k + 3 + c) - x[c]
        away = below if below > above else above
        total += away * away
    return total


@func
def furthest_corner(tree, x, min_dist):  # type: ignore[no-untyped-def]
    """Return the face with the vertex furthest from a point and beyond a distance, and which one; -1 if none."""
    stack, far = own_zeros(shape=DEEPEST, dtype=int32), own_zeros(shape=DEEPEST, dtype=float32)
    least = min_dist if min_dist > 0.0 else float32(0.0)
    best, found, which, top, node = least * least, -1, 0, 0, tree.node
    # Below 0 even a vertex at the point itself is further away.
    best = best if min_dist >= 0.0 else float32(-1.0)
    while node >= 0:
        right, goes_to = peek_int32(tree.links, 4 * node + 3), -1
        if right == 0:
            for p in range(peek_int32(tree.links, 4 * node + 1), peek_int32(tree.links, 4 * node + 2)):
                face = peek_int32(tree.items, p)
                a, b, c = corners(tree, face)
                one, two, three = length_sq(a - x), length_sq(b - x), length_sq(c - x)
                k = 0 if one >= two and one >= three else (1 if two >= three else 2)
                square = one if k == 0 else (two if k == 1 else three)
                if square > best and not is_sliver(a, b, c):
                    best, found, which = square, face, k
        else:
            one, other = furthest_sq(tree.boxes, node + 1, x), furthest_sq(tree.boxes, right, x)
            most = one if one >= other else other
            if most > best:
                goes_to = node + 1 if one >= other else right
                stack[top], far[top] = (right if one >= other else node + 1), (other if one >= other else one)
                top += 1
        while goes_to < 0 and top > 0:
            top -= 1
            if far[top] > best:
                goes_to = stack[top]
        node = goes_to
    return found, which


@func
def seen(points, i, start, x, y, z):  # type: ignore[no-untyped-def]
    """Return where a point is from a start, both in another order of axes."""
    at = int64(3) * int64(i)
    return vec3f(
        peek_float32(points, at + x) - start[0],
        peek_float32(points, at + y) - start[1],
        peek_float32(points, at + z) - start[2],
    )


@func
def hit_at(tree, face, start, axis, x, y, length):  # type: ignore[no-untyped-def]
    """Return where the line of a ray, as from :func:`shear`, meets a face, as :func:`hit` says; -1 if it does not."""
    i, j = peek_int32(tree.indices, 3 * face), peek_int32(tree.indices, 3 * face + 1)
    k = peek_int32(tree.indices, 3 * face + 2)
    # The axes in the order of `turned`, by which the vertices are read.
    one, two, three = int64(axis + 1 if axis < 2 else 0), int64(axis - 1 if axis > 0 else 2), int64(axis)
    a, b = seen(tree.points, i, start, one, two, three), seen(tree.points, j, start, one, two, three)
    c = seen(tree.points, k, start, one, two, three)
    p = vec3f(a[0] - x * a[2], a[1] - y * a[2], 0.0)
    q = vec3f(b[0] - x * b[2], b[1] - y * b[2], 0.0)
    r = vec3f(c[0] - x * c[2], c[1] - y * c[2], 0.0)
    u, v, w = edges(p, q, r)
    t = float32(-1.0)
    if (u >= 0.0 and v >= 0.0 and w >= 0.0) or (u <= 0.0 and v <= 0.0 and w <= 0.0):
        total = u + v + w
        # Most faces are missed, and nothing is divided for them.
        if total != 0.0:
            u, v = u / total, v / total
            t = u * (a[2] / length) + v * (b[2] / length) + (float32(1.0) - u - v) * (c[2] / length)
    return t


@func
def prepared(tree, start, dir, max_t):  # type: ignore[no-untyped-def]
    """Return the node that a search for a ray begins with, how far it goes, and what it needs to know of the ray."""
    axis, x, y, length = shear(dir)
    # No ray with a NaN hits anything, which no comparison with boxes would find out.
    is_ray = dot(start, start) >= 0.0 and dot(dir, dir) >= 0.0 and max_t == max_t
    # A box that is missed is infinitely far away, and a ray may be as long.
    far = max_t if max_t < float32(_GREATEST) else float32(_GREATEST)
    return (tree.node if is_ray else -1), far, turned(start, axis), axis, x, y, length


@func
def both_entered(pairs, node, start, inverse, x, y, z):  # type: ignore[no-untyped-def]
    """Return how far along a ray it enters the left and the right child of a node; infinite for one it misses."""
    at = pair_at(node)
    one = entered(pairs, at, start, inverse, x, y, z)
    return one, entered(pairs, at + int64(6), start, inverse, x, y, z)


@func
def first_hit(tree, start, dir, max_t):  # type: ignore[no-untyped-def]
    """Return the face that a ray hits first, before ``max_t``; -1 if there is none."""
    stack, distances = own_zeros(shape=DEEPEST, dtype=int32), own_zeros(shape=DEEPEST, dtype=float32)
    inverse = inverse_of(dir)
    x, y, z = facing(inverse[0]), facing(inverse[1]), facing(inverse[2])
    node, best, origin, axis, across, along_y, length = prepared(tree, start, dir, max_t)
    found, top = -1, 0
    while node >= 0:
        right, goes_to = peek_int32(tree.links, 4 * node + 3), -1
        if right == 0:
            for p in range(peek_int32(tree.links, 4 * node + 1), peek_int32(tree.links, 4 * node + 2)):
                face = peek_int32(tree.items, p)
                t = hit_at(tree, face, origin, axis, across, along_y, length)
                if t >= 0.0 and t < best:
                    best, found = t, face
        else:
            one, other = both_entered(tree.pairs, node, start, inverse, x, y, z)
            is_left = one <= other
            # It is stored in any case, and counts if it is met, which saves a branch that is hard to foresee.
            stack[slot(top)], distances[slot(top)] = (right if is_left else node + 1), (other if is_left else one)
            top += 1 if distances[slot(top)] <= best else 0
            if (one if is_left else other) <= best:
                goes_to = node + 1 if is_left else right
        while goes_to < 0 and top > 0:
            top -= 1
            # A nearer face may have been hit since the node was put aside.
            if distances[slot(top)] <= best:
                goes_to = stack[slot(top)]
        node = goes_to
    return found


@func
def count_hits(tree, start, dir, max_t, most):  # type: ignore[no-untyped-def]
    """Return the number of faces that a ray hits before ``max_t``, counted up to ``most``."""
    inverse = inverse_of(dir)
    x, y, z = facing(inverse[0]), facing(inverse[1]), facing(inverse[2])
    node, longest, origin, axis, across, along_y, length = prepared(tree, start, dir, max_t)
    hits = 0
    # The order of the hits does not matter, so the walk along the links needs no stack.
    while node >= 0 and node < tree.end and hits < most:
        skip = peek_int32(tree.links, 4 * node)
        if entered(tree.boxes, int64(6) * int64(node), start, inverse, x, y, z) <= longest:
            if skip == node + 1:
                for p in range(peek_int32(tree.links, 4 * node + 1), peek_int32(tree.links, 4 * node + 2)):
                    t = hit_at(tree, peek_int32(tree.items, p), origin, axis, across, along_y, length)
                    hits += 1 if t >= 0.0 and t < longest else 0
                node = skip
            else:
                node += 1
        else:
            node = skip
    return hits


@func
def is_in(tree, x):  # type: ignore[no-untyped-def]
    """Return whether at least two of three rays along the axes first hit the back of a face."""
    backs = 0
    for axis in range(3):
        along_axis = vec3f(float32(axis == 0), float32(axis == 1), float32(axis == 2))
        face = first_hit(tree, x, along_axis, float32(_FAR))
        if face >= 0:
            a, b, c = corners(tree, face)
            _, _, _, _, side = hit(x, along_axis, a, b, c)
            backs += 1 if side < 0.0 else 0
    # The majority decides, as one ray may slip through a gap or meet an edge.
    return backs >= 2


@func
def length_of(x):  # type: ignore[no-untyped-def]
    """Return the length of a vector."""
    return sqrt(dot(x, x))


@func
def angle(e, f):  # type: ignore[no-untyped-def]
    """Return the angle between two edges."""
    # Unlike an arc cosine, this is exact for small angles too.
    return atan2(length_of(cross(e, f)), dot(e, f))


@func
def share(place, a, b, c, tolerance):  # type: ignore[no-untyped-def]
    """Return the angle that a triangle takes up around one of its places: inner angle, half turn or full turn."""
    near = tolerance * tolerance
    if length_sq(place - a) <= near:
        found = angle(b - a, c - a)
    elif length_sq(place - b) <= near:
        found = angle(c - b, a - b)
    elif length_sq(place - c) <= near:
        found = angle(a - c, b - c)
    else:
        ab = length_sq(a + (b - a) * along(place, a, b) - place)
        bc = length_sq(b + (c - b) * along(place, b, c) - place)
        ca = length_sq(c + (a - c) * along(place, c, a) - place)
        # On an edge half of the surroundings are in the triangle, and inside it all of them.
        found = float32(math.pi) if ab <= near or bc <= near or ca <= near else float32(2.0 * math.pi)
    return found


@func
def is_behind(tree, x, face, u, v, epsilon):  # type: ignore[no-untyped-def]
    """Return whether a point is behind the normals around the place nearest to it, weighted by their angles."""
    a, b, c = corners(tree, face)
    place = blended(a, b, c, u, v)
    tolerance = epsilon * (length_of(b - a) + length_of(c - b) + length_of(a - c)) / float32(3.0)
    # The place is rounded, by which the faces that meet there are away from it, its own included.
    rounding = float32(2.0e-7) * (length_of(a) + length_of(b) + length_of(c))
    tolerance = tolerance if tolerance > rounding else rounding
    normal, node = vec3f(0.0, 0.0, 0.0), tree.node
    while node >= 0 and node < tree.end:
        skip = peek_int32(tree.links, 4 * node)
        if away_sq(tree.boxes, int64(6) * int64(node), place) <= tolerance * tolerance:
            if skip == node + 1:
                for p in range(peek_int32(tree.links, 4 * node + 1), peek_int32(tree.links, 4 * node + 2)):
                    other = peek_int32(tree.items, p)
                    a, b, c = corners(tree, other)
                    u, v = closest(place, a, b, c)
                    away = length_sq(blended(a, b, c, u, v) - place)
                    # At an edge or a vertex one face's normal may point the wrong way; the sum over all that meet does
                    # not.
                    if (other == face or away <= tolerance * tolerance) and not is_sliver(a, b, c):
                        n = cross(b - a, c - a)
                        # The length of n, twice the area, does not count.
                        normal += n * (share(place, a, b, c, tolerance) / length_of(n))
            node = skip if skip == node + 1 else node + 1
        else:
            node = skip
    return dot(normal, x - place) < 0.0


@func
def solid_angle(x, a, b, c):  # type: ignore[no-untyped-def]
    """Return half the solid angle of a triangle seen from a point, positive from behind."""
    p, q, r = a - x, b - x, c - x
    one, two, three = length_of(p), length_of(q), length_of(r)
    below = one * two * three + dot(p, q) * three + dot(q, r) * one + dot(r, p) * two
    return atan2(dot(p, cross(q, r)), below)


@func
def winding_number(tree, dipoles, x, accuracy):  # type: ignore[no-untyped-def]
    """Return how often the mesh winds around a point.

    A node far away counts as its area at its centre, if these are known.
    """
    total, node = float32(0.0), tree.node
    while node >= 0 and node < tree.end:
        skip = peek_int32(tree.links, 4 * node)
        is_far = False
        if dipoles != uint64(0) and skip > node + 1:
            away = still(dipoles, 3 * node + 1) - x
            square, reach = dot(away, away), accuracy * peek_float32(dipoles, 9 * node + 6)
            # From far away a node looks like a dipole at its centre.
            is_far = square > reach * reach
            if is_far:
                total += dot(still(dipoles, 3 * node), away) / (square * sqrt(square))
        if is_far:
            node = skip
        elif skip == node + 1:
            for p in range(peek_int32(tree.links, 4 * node + 1), peek_int32(tree.links, 4 * node + 2)):
                a, b, c = corners(tree, peek_int32(tree.items, p))
                # Half of the angle is what solid_angle returns.
                total += float32(2.0) * solid_angle(x, a, b, c)
            node = skip
        else:
            node += 1
    return total / float32(4.0 * math.pi)
