"""Meshes: the values that kernels read from one, and queries of its faces.

A query is a search for a face (:mod:`diffkern.library.mesh_search`), which has no derivative, and a closed formula from
the vertices of that face (:mod:`diffkern.library.triangles`), which is differentiated like any other.
"""

from __future__ import annotations

from typing import Any, Final

from diffkern.ir import types as T
from diffkern.ir.structs import Struct
from diffkern.lang.func import func
from diffkern.lang.library import built_in
from diffkern.lang.queries import MESH, MeshQuery, MeshQueryPoint, MeshQueryRay
from diffkern.lang.structs import Definition, register
from diffkern.library.bvhs import BOX, PAIRS, SPHERE, advanced, begun, group_root, positive
from diffkern.library.bvhs import descriptor as tree_descriptor
from diffkern.library.descriptors import descriptor_of
from diffkern.library.language import (
    Float,
    Float32,
    Int32,
    cross,
    fetch,
    float32,
    int32,
    length_sq,
    normalize,
    peek_int32,
    peek_uint64,
    stop_gradient,
    uint64,
    vec3,
    vec3f,
)
from diffkern.library.mesh_search import (
    blended,
    closest_face,
    corners,
    count_hits,
    first_hit,
    furthest_corner,
    is_behind,
    is_in,
    winding_number,
)
from diffkern.library.triangles import closest, closest_on_longest_edge, hit, is_sliver

__all__: list[str] = []

(
    ID,
    POINTS,
    VELOCITIES,
    INDICES,
    POINT_COUNT,
    FACE_COUNT,
    BVH_ID,
    DIPOLES,
    POINT_COTANGENTS,
    VELOCITY_COTANGENTS,
    WORDS,
) = range(11)
"""The words of a descriptor: its id; where arrays begin; numbers of points and faces; the id of the tree; where what
describes nodes for winding numbers begins; where an adjoint adds the cotangents of points and of velocities, or 0.
"""

_FAR: Final = float("inf")
_MANY: Final = 2**31 - 1
_X: Final = 0.7548776662  # by which directions do not run along edges of regular meshes
_Y: Final = 0.5698402910


@func
def descriptor(id):  # type: ignore[no-untyped-def]
    """Return the address of the descriptor; 0 if the id is not that of one."""
    place = descriptor_of(id, MESH)
    assert place != uint64(0), "the id is that of no Mesh, or of one that is gone"
    return place


@func
def narrowed(x):  # type: ignore[no-untyped-def]
    """Return a vector as one of float32."""
    return vec3f(float32(x[0]), float32(x[1]), float32(x[2]))


@func
def opened(id, root, kind, low, high, radius):  # type: ignore[no-untyped-def]
    """Return a query of the faces at its beginning."""
    query, place = MeshQuery(), descriptor(id)
    if place != uint64(0) and peek_uint64(place, FACE_COUNT) != uint64(0):
        tree = peek_uint64(place, BVH_ID)
        query = begun(query, tree, root, kind, low, high, radius)
        query.pairs = peek_uint64(tree_descriptor(tree), PAIRS)
        query.points, query.indices = peek_uint64(place, POINTS), peek_uint64(place, INDICES)
    return query


@func
def tree_of(id, root):  # type: ignore[no-untyped-def]
    """Return the tree of a mesh from a node on; its node is -1 if there are no faces."""
    nowhere = vec3f(0.0, 0.0, 0.0)
    tree = opened(id, root, BOX, nowhere, nowhere, 0.0)
    tree.node = tree.node if tree.node < tree.end else -1
    return tree


@func
def vertex(values, cotangents, i):  # type: ignore[no-untyped-def]
    """Return a point or a velocity of a mesh, with respect to which results are differentiated."""
    x, y = fetch(values, cotangents, 3 * i), fetch(values, cotangents, 3 * i + 1)
    return vec3f(x, y, fetch(values, cotangents, 3 * i + 2))


@func
def vertices(place, word, face):  # type: ignore[no-untyped-def]
    """Return the points or the velocities of the vertices of a face."""
    values, indices = peek_uint64(place, word), peek_uint64(place, INDICES)
    # The words of the cotangents are in the same order as those of the points and the velocities.
    cotangents = peek_uint64(place, word - POINTS + POINT_COTANGENTS)
    i, j, k = peek_int32(indices, 3 * face), peek_int32(indices, 3 * face + 1), peek_int32(indices, 3 * face + 2)
    return vertex(values, cotangents, i), vertex(values, cotangents, j), vertex(values, cotangents, k)


@func
def corner(place, word, index):  # type: ignore[no-untyped-def]
    """Return the point or the velocity of the vertex at a corner of a face."""
    i = peek_int32(peek_uint64(place, INDICES), index)
    return vertex(peek_uint64(place, word), peek_uint64(place, word - POINTS + POINT_COTANGENTS), i)


@func
def has_face(place, face):  # type: ignore[no-untyped-def]
    """Return whether there is a face of that number."""
    inside = False
    if place != uint64(0):
        inside = face >= 0 and face < int32(peek_uint64(place, FACE_COUNT))
        assert inside, "the Mesh has no face of that number"
    return inside


@func
def evaluated(place, word, face, u, v):  # type: ignore[no-untyped-def]
    """Return a quantity of the vertices interpolated at a place of a face; zero if the mesh does not have it."""
    value = vec3f(0.0, 0.0, 0.0)
    if has_face(place, face) and peek_uint64(place, word) != uint64(0):
        a, b, c = vertices(place, word, face)
        value = blended(a, b, c, float32(u), float32(v))
    return value


# -- what a mesh holds -------------------------------------------------------------------------------------------------


class Vectors:
    """Points or velocities of a mesh in a kernel."""

    at: Any
    size: Any
    cotangents: Any


class Indices:
    """Indices of a mesh in a kernel."""

    at: Any
    size: Any


class MeshData:
    """The result of mesh_get in a kernel: points, velocities and indices, which are read like arrays."""

    id: Any
    points_at: Any
    velocities_at: Any
    indices_at: Any
    point_cotangents: Any
    velocity_cotangents: Any
    point_count: Any
    face_count: Any


@func
def shape_of(held):  # type: ignore[no-untyped-def]
    """Return the number of elements, as the shape of an array."""
    return (held.size,)


@func
def vector_at(held, index):  # type: ignore[no-untyped-def]
    """Return an element."""
    inside = index >= 0 and index < held.size
    assert inside, "the Mesh has no point of that number"
    value = vec3f(0.0, 0.0, 0.0)
    if inside:
        value = vertex(held.at, held.cotangents, int32(index))
    return value


@func
def index_at(held, index):  # type: ignore[no-untyped-def]
    """Return an element."""
    inside = index >= 0 and index < held.size
    assert inside, "the Mesh has no index of that number"
    return peek_int32(held.at, int32(index)) if inside else 0


@func
def points_of(mesh):  # type: ignore[no-untyped-def]
    """Return the points."""
    held = Vectors()
    held.at, held.size = mesh.points_at, mesh.point_count
    held.cotangents = mesh.point_cotangents
    return held


@func
def velocities_of(mesh):  # type: ignore[no-untyped-def]
    """Return the velocities; empty if the mesh has none."""
    held = Vectors()
    held.at, held.size = mesh.velocities_at, mesh.point_count if mesh.velocities_at != uint64(0) else 0
    held.cotangents = mesh.velocity_cotangents
    return held


@func
def indices_of(mesh):  # type: ignore[no-untyped-def]
    """Return the indices."""
    held = Indices()
    held.at, held.size = mesh.indices_at, 3 * mesh.face_count
    return held


_HELD: Final = (("at", T.UINT64), ("size", T.INT32))
_ARRAYS: Final = (
    *("id", "points_at", "velocities_at", "indices_at", "point_cotangents", "velocity_cotangents"),
    *("point_count", "face_count"),
)
_FIELDS: Final = tuple((name, T.INT32 if name.endswith("count") else T.UINT64) for name in _ARRAYS)
_VECTORS: Final = Struct("Vectors", (*_HELD, ("cotangents", T.UINT64)))


def _read_by(getter: Any) -> dict[str, Any]:
    return {"methods": {"__getitem__": getter}, "properties": {"shape": shape_of}}


register(Vectors, Definition(_VECTORS, {}, **_read_by(vector_at)))
register(Indices, Definition(Struct("Indices", _HELD), {}, **_read_by(index_at)))
_PROPERTIES: Final = {"points": points_of, "velocities": velocities_of, "indices": indices_of}
register(MeshData, Definition(Struct("Mesh", _FIELDS), {}, properties=_PROPERTIES))


@built_in()
def mesh_get(id: uint64) -> MeshData:
    """A Mesh in a kernel: its points, velocities and indices are read by index and have a shape.

    Derivative: of points and velocities that are read, with respect to those of the mesh.

    Example: m = dk.mesh_get(mesh)
    w[i] = m.points[m.indices[0]]
    """
    mesh, place = MeshData(), descriptor(id)
    if place != uint64(0):
        mesh.id, mesh.points_at = id, peek_uint64(place, POINTS)
        mesh.velocities_at, mesh.indices_at = peek_uint64(place, VELOCITIES), peek_uint64(place, INDICES)
        mesh.point_cotangents = peek_uint64(place, POINT_COTANGENTS)
        mesh.velocity_cotangents = peek_uint64(place, VELOCITY_COTANGENTS)
        mesh.point_count = int32(peek_uint64(place, POINT_COUNT))
        mesh.face_count = int32(peek_uint64(place, FACE_COUNT))
    return mesh


@built_in()
def mesh_get_bvh(id: uint64) -> uint64:
    """The id of the tree of a Mesh's faces, for bvh_query_aabb and similar queries, whose results are then faces.

    Derivative: none, it is an integer.

    Example: s = dk.bvh_query_aabb(dk.mesh_get_bvh(mesh), u, w[i])
    """
    place = descriptor(id)
    return peek_uint64(place, BVH_ID) if place != uint64(0) else uint64(0)


@built_in()
def mesh_get_group_root(id: uint64, group: Int32) -> int32:
    """The node with the faces of a group below it, for the argument root of queries; -1 (all faces) if there is none.

    Derivative: none, it is an integer.

    Example: q[i] = dk.mesh_get_group_root(mesh, i)
    """
    place, root = descriptor(id), -1
    if place != uint64(0) and peek_uint64(place, FACE_COUNT) != uint64(0):
        root = group_root(peek_uint64(place, BVH_ID), group)
    return root


@built_in()
def mesh_get_index(id: uint64, index: Int32) -> int32:
    """The point of a corner of a face: corners 3 f, 3 f + 1 and 3 f + 2 are those of face f.

    Derivative: none, it is an integer.

    Example: q[i] = dk.mesh_get_index(mesh, 3 * i)
    """
    place, found = descriptor(id), 0
    if has_face(place, index // 3):
        found = peek_int32(peek_uint64(place, INDICES), index)
    return found


@built_in()
def mesh_get_point(id: uint64, index: Int32) -> vec3f:
    """The position of a corner of a face: corners 3 f, 3 f + 1 and 3 f + 2 are those of face f.

    Derivative: with respect to the points of the mesh.

    Example: w[i] = dk.mesh_get_point(mesh, 3 * i)
    """
    place, value = descriptor(id), vec3f(0.0, 0.0, 0.0)
    if has_face(place, index // 3):
        value = corner(place, POINTS, index)
    return value


@built_in()
def mesh_get_velocity(id: uint64, index: Int32) -> vec3f:
    """The velocity of a corner of a face; zero if the mesh has none.

    Derivative: with respect to the velocities of the mesh.

    Example: w[i] = dk.mesh_get_velocity(mesh, 3 * i)
    """
    place, value = descriptor(id), vec3f(0.0, 0.0, 0.0)
    if has_face(place, index // 3) and peek_uint64(place, VELOCITIES) != uint64(0):
        value = corner(place, VELOCITIES, index)
    return value


@built_in()
def mesh_eval_position(id: uint64, face: Int32, u: Float, v: Float) -> vec3f:
    """The position of a place of a face: u times its first vertex, v times its second, 1 - u - v times its third.

    Derivative: with respect to u, v and the points of the mesh.

    Example: w[i] = dk.mesh_eval_position(mesh, 0, x[i], y[i])
    """
    return evaluated(descriptor(id), POINTS, face, u, v)


@built_in()
def mesh_eval_velocity(id: uint64, face: Int32, u: Float, v: Float) -> vec3f:
    """The velocity of a place of a face, as of mesh_eval_position; zero if the mesh has none.

    Derivative: with respect to u, v and the velocities of the mesh.

    Example: w[i] = dk.mesh_eval_velocity(mesh, 0, x[i], y[i])
    """
    return evaluated(descriptor(id), VELOCITIES, face, u, v)


@built_in()
def mesh_eval_face_normal(id: uint64, face: Int32) -> vec3f:
    """The unit normal of a face, to the side from which its vertices go round counterclockwise.

    Derivative: with respect to the points of the mesh.

    Example: w[i] = dk.mesh_eval_face_normal(mesh, 0)
    """
    place, normal = descriptor(id), vec3f(0.0, 0.0, 0.0)
    if has_face(place, face):
        a, b, c = vertices(place, POINTS, face)
        normal = normalize(cross(b - a, c - a))
    return normal


# -- queries for faces -------------------------------------------------------------------------------------------------


@built_in()
def mesh_query_aabb(id: uint64, low: vec3, high: vec3) -> MeshQuery:
    """A query of a Mesh for the faces whose boxes meet a box: ``while mesh_query_next(query, f)`` goes through them.

    Derivative: none, the results are integers.

    Example: s, j = dk.mesh_query_aabb(mesh, u, w[i]), 0
    while dk.mesh_query_next(s, j):
        q[j] = 1
    """
    return opened(id, -1, BOX, low, high, 0.0)  # type: ignore[no-any-return]


@built_in()
def mesh_query_sphere(id: uint64, center: vec3, radius: Float) -> MeshQuery:
    """A query of a Mesh for the faces that meet a sphere, in no set order.

    Derivative: none, the results are integers.

    Example: s, j = dk.mesh_query_sphere(mesh, u, 0.5), 0
    while dk.mesh_query_next(s, j):
        q[j] = 1
    """
    r = positive(radius)
    return opened(id, -1, SPHERE, center, center, r * r)  # type: ignore[no-any-return]


@func
def following(query, index):  # type: ignore[no-untyped-def]
    """Return the query at its next result, that result, and whether there is one."""
    found, goes_on, face = False, True, index
    while goes_on:
        query, face, found = advanced(query, face, float32(_FAR))
        goes_on = False
        if found and query.kind == SPHERE:
            a, b, c = corners(query, face)
            # A face without area is taken as its longest edge, since weights would be divided by the area.
            u, v = closest_on_longest_edge(query.low, a, b, c) if is_sliver(a, b, c) else closest(query.low, a, b, c)
            found = length_sq(blended(a, b, c, u, v) - query.low) <= query.radius
            # The box meets the sphere, but the face does not.
            goes_on = not found
    return query, face if found else index, found


@built_in(sets="query index")
def mesh_query_next(query: MeshQuery, index: Int32) -> tuple[MeshQuery, int32, bool]:
    """True if there is another face; the second argument is then set to its number.

    Derivative: none, it is an integer.

    Example: s, j = dk.mesh_query_aabb(mesh, u, w[i]), 0
    while dk.mesh_query_next(s, j):
        q[j] = 1
    """
    return following(query, index)  # type: ignore[no-any-return]


@built_in(sets="query index")
def mesh_query_aabb_next(query: MeshQuery, index: Int32) -> tuple[MeshQuery, int32, bool]:
    """The same as mesh_query_next.

    Derivative: none, it is an integer.

    Example: s, j = dk.mesh_query_aabb(mesh, u, w[i]), 0
    while dk.mesh_query_aabb_next(s, j):
        q[j] = 1
    """
    return following(query, index)  # type: ignore[no-any-return]


# -- queries for places ------------------------------------------------------------------------------------------------


@func
def at_closest(id, point, max_dist):  # type: ignore[no-untyped-def]
    """Return the place nearest to a point."""
    found, x = MeshQueryPoint(), narrowed(point)
    tree = tree_of(id, -1)
    # The search has no derivative; the weights are computed from the vertices of what it found.
    face = closest_face(tree, stop_gradient(x), stop_gradient(float32(max_dist)))
    found.result = face >= 0
    if found.result:
        found.face = face
        a, b, c = vertices(descriptor(id), POINTS, face)
        found.u, found.v = closest(x, a, b, c)
    return found, tree


@func
def signed(found, inside):  # type: ignore[no-untyped-def]
    """Return a result with its sign."""
    found.sign = float32(-1.0) if inside else float32(1.0)
    return found


@built_in()
def mesh_query_point_no_sign(id: uint64, point: vec3, max_dist: Float) -> MeshQueryPoint:
    """The place of a Mesh nearest to a point, nearer than max_dist: ``result`` says whether there is one; ``face``,
    ``u`` and ``v`` where, for mesh_eval_position. Faces without area are left out.

    Derivative: of u and v, with respect to the point and the points of the mesh.

    Kinks: where another face, edge or vertex becomes the nearest.

    Example: h = dk.mesh_query_point_no_sign(mesh, u, 10.0)
    w[i] = dk.mesh_eval_position(mesh, h.face, h.u, h.v)
    """
    found, _ = at_closest(id, point, max_dist)
    return found  # type: ignore[no-any-return]


@built_in()
def mesh_query_point(id: uint64, point: vec3, max_dist: Float) -> MeshQueryPoint:
    """As mesh_query_point_no_sign, and ``sign`` is negative inside the mesh: where two of three rays along the axes
    first meet the back of a face.

    Derivative: of u and v, with respect to the point and the points of the mesh; sign has none.

    Kinks: where another face, edge or vertex becomes the nearest.

    Example: h = dk.mesh_query_point(mesh, u, 10.0)
    y[i] = h.sign
    """
    found, tree = at_closest(id, point, max_dist)
    return signed(found, is_in(tree, stop_gradient(narrowed(point)))) if found.result else found  # type: ignore[no-any-return]


@built_in()
def mesh_query_point_sign_normal(id: uint64, point: vec3, max_dist: Float, epsilon: Float32 = 1.0e-3) -> MeshQueryPoint:
    """As mesh_query_point_no_sign, and ``sign`` is negative inside the mesh: behind the normals of the faces that meet
    at the place, weighted by their angles there. epsilon, in mean edges of the face, is how near an edge or a vertex
    counts as the place.

    Derivative: of u and v, with respect to the point and the points of the mesh; sign has none.

    Kinks: where another face, edge or vertex becomes the nearest.

    Example: h = dk.mesh_query_point_sign_normal(mesh, u, 10.0)
    y[i] = h.sign
    """
    found, tree = at_closest(id, point, max_dist)
    if found.result:
        x, u, v = stop_gradient(narrowed(point)), stop_gradient(found.u), stop_gradient(found.v)
        found = signed(found, is_behind(tree, x, found.face, u, v, stop_gradient(epsilon)))
    return found  # type: ignore[no-any-return]


@built_in()
def mesh_query_point_sign_parity(
    id: uint64, point: vec3, max_dist: Float, n_sample: Int32 = 1, perturbation_scale: Float32 = 0.1
) -> MeshQueryPoint:
    """As mesh_query_point_no_sign, and ``sign`` is negative inside the mesh: where most of n_sample rays meet an odd
    number of faces. The rays differ by perturbation_scale from one direction.

    Derivative: of u and v, with respect to the point and the points of the mesh; sign has none.

    Kinks: where another face, edge or vertex becomes the nearest.

    Example: h = dk.mesh_query_point_sign_parity(mesh, u, 10.0)
    y[i] = h.sign
    """
    found, tree = at_closest(id, point, max_dist)
    if found.result:
        x, odd, scale = stop_gradient(narrowed(point)), 0, stop_gradient(perturbation_scale)
        for k in range(n_sample):
            turn = float32(k)
            # Each ray has a direction of its own, so that they do not all run into the same edge.
            slanted = vec3f(1.0, scale * float32(_X) * (turn + 1.0), scale * float32(_Y) * (turn + 1.0))
            odd += count_hits(tree, x, slanted, float32(_FAR), _MANY) & 1
        # The majority decides, as a ray through an edge may count two faces, or none.
        found = signed(found, 2 * odd > n_sample)
    return found  # type: ignore[no-any-return]


@built_in()
def mesh_query_point_sign_winding_number(
    id: uint64, point: vec3, max_dist: Float, accuracy: Float32 = 2.0, threshold: Float32 = 0.5
) -> MeshQueryPoint:
    """As mesh_query_point_no_sign, and ``sign`` is negative inside the mesh: where it goes around the point more often
    than threshold, also with holes. For a Mesh with support_winding_number, faces further away than accuracy times
    their extent are taken together; for any other, every face is added up.

    Derivative: of u and v, with respect to the point and the points of the mesh; sign has none.

    Kinks: where another face, edge or vertex becomes the nearest.

    Example: h = dk.mesh_query_point_sign_winding_number(mesh, u, 10.0)
    y[i] = h.sign
    """
    found, tree = at_closest(id, point, max_dist)
    if found.result:
        dipoles, x = peek_uint64(descriptor(id), DIPOLES), stop_gradient(narrowed(point))
        number = winding_number(tree, dipoles, x, stop_gradient(accuracy))
        found = signed(found, number > stop_gradient(threshold))
    return found  # type: ignore[no-any-return]


@built_in()
def mesh_query_furthest_point_no_sign(id: uint64, point: vec3, min_dist: Float) -> MeshQueryPoint:
    """The place of a Mesh furthest from a point, further than min_dist, which is a vertex. Faces without area are left
    out.

    Derivative: none, u and v are 0 or 1.

    Example: h = dk.mesh_query_furthest_point_no_sign(mesh, u, 0.0)
    w[i] = dk.mesh_eval_position(mesh, h.face, h.u, h.v)
    """
    found = MeshQueryPoint()
    tree = tree_of(id, -1)
    face, corner = furthest_corner(tree, stop_gradient(narrowed(point)), stop_gradient(float32(min_dist)))
    found.result = face >= 0
    if found.result:
        # The furthest place is always a vertex.
        found.face, found.u, found.v = face, float32(corner == 0), float32(corner == 1)
    return found


@func
def at_hit(id, start, dir, max_t, root):  # type: ignore[no-untyped-def]
    """Return the first hit of a ray."""
    found, o, d = MeshQueryRay(), narrowed(start), narrowed(dir)
    tree = tree_of(id, root)
    # The search has no derivative; the hit is computed again from the vertices of what it found.
    face = first_hit(tree, stop_gradient(o), stop_gradient(d), stop_gradient(float32(max_t)))
    found.result = face >= 0
    if found.result:
        found.face = face
        a, b, c = vertices(descriptor(id), POINTS, face)
        _, found.t, found.u, found.v, found.sign = hit(o, d, a, b, c)
        found.normal = normalize(cross(b - a, c - a))
    return found


@built_in()
def mesh_query_ray(id: uint64, start: vec3, dir: vec3, max_t: Float, root: Int32 = -1) -> MeshQueryRay:
    """The first face of a Mesh that a ray hits, before max_t: ``result`` says whether there is one, ``t`` where on the
    ray, in lengths of dir, ``face``, ``u`` and ``v`` where in the mesh, ``normal`` is the face's, and ``sign`` is
    positive if it is hit from its front.

    Derivative: of t, u, v and normal, with respect to start, dir and the points of the mesh; sign has none.

    Kinks: where another face becomes the first.

    Example: h = dk.mesh_query_ray(mesh, u, w[i], 100.0)
    y[i] = h.t
    """
    return at_hit(id, start, dir, max_t, root)  # type: ignore[no-any-return]


@built_in("mesh_query_ray", sets="t u v sign normal face")
def _with_results_set(
    id: uint64, start: vec3, dir: vec3, max_t: Float, t: Float, u: Float, v: Float, sign: Float, normal: vec3,
    face: Int32, root: Int32 = -1,
) -> tuple[Float, Float, Float, Float, vec3, Int32, bool]:  # fmt: skip
    found = at_hit(id, start, dir, max_t, root)
    if found.result:
        # Where nothing is hit, the caller's variables keep their values.
        t, u, v, sign, normal, face = found.t, found.u, found.v, found.sign, found.normal, found.face
    return t, u, v, sign, normal, face, found.result


@built_in()
def mesh_query_ray_anyhit(id: uint64, start: vec3, dir: vec3, max_t: Float, root: Int32 = -1) -> bool:
    """True if a ray hits a Mesh before max_t, in lengths of dir.

    Derivative: none.

    Example: q[i] = int(dk.mesh_query_ray_anyhit(mesh, u, w[i], 100.0))
    """
    tree, o, d = tree_of(id, root), stop_gradient(narrowed(start)), stop_gradient(narrowed(dir))
    return count_hits(tree, o, d, stop_gradient(float32(max_t)), 1) > 0  # type: ignore[no-any-return]


@built_in()
def mesh_query_ray_count_intersections(id: uint64, start: vec3, dir: vec3, root: Int32 = -1) -> int32:
    """The number of faces of a Mesh that a ray hits.

    Derivative: none, it is an integer.

    Example: q[i] = dk.mesh_query_ray_count_intersections(mesh, u, w[i])
    """
    tree, o, d = tree_of(id, root), stop_gradient(narrowed(start)), stop_gradient(narrowed(dir))
    return count_hits(tree, o, d, float32(_FAR), _MANY)
