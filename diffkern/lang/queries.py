"""Objects on the host that kernels know by an id, and queries of them, over which kernels loop.

The module defines how an id is composed, and the structs that queries are. An object of the host has a *descriptor* in
the memory of its device, a few words at an address that doesn't change; its id is that address, with its kind and the
number of the descriptor's user above the 48 bits of an address. The first word of a descriptor is the id again, so that
a number that is no id, or whose object has been destroyed, is recognized. The other words depend on the kind.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final

from diffkern.errors import KernelTypeError
from diffkern.ir import types as T
from diffkern.ir.structs import Struct
from diffkern.lang.structs import Definition, register

__all__ = [
    "ADDRESS_BITS",
    "BVH",
    "HASH_GRID",
    "KIND_BIT",
    "MESH",
    "STEPPED",
    "TEXTURE",
    "USES",
    "VOLUME",
    "WALKED",
    "BvhQuery",
    "BvhQueryTiled",
    "HashGridQuery",
    "MeshQuery",
    "MeshQueryAABBTiled",
    "MeshQueryPoint",
    "MeshQueryRay",
    "identity",
]  # fmt: skip

ADDRESS_BITS: Final = 48
"""Bits of an id that are an address."""

KIND_BIT: Final = 60
"""The position of the kind in an id, in three bits; the top bit is free, so that an id is an int64 as well."""

HASH_GRID: Final = 1
"""The kind of :class:`diffkern.HashGrid`."""

BVH: Final = 2
"""The kind of :class:`diffkern.Bvh`."""

MESH: Final = 3
"""The kind of :class:`diffkern.Mesh`."""

TEXTURE: Final = 4
"""The kind of :class:`diffkern.Texture1D`, :class:`diffkern.Texture2D` and :class:`diffkern.Texture3D`."""

VOLUME: Final = 5
"""The kind of :class:`diffkern.Volume`."""

USES: Final = 1 << (KIND_BIT - ADDRESS_BITS)
"""The number of objects that can reuse one descriptor before an id repeats."""


def identity(kind: int, address: int, use: int) -> int:
    """Return the id of an object.

    Parameters
    ----------
    kind : int
        Its kind.
    address : int
        The address of its descriptor.
    use : int
        How many objects had the descriptor before it.
    """
    return kind << KIND_BIT | (use % USES) << ADDRESS_BITS | address


class HashGridQuery:
    """The query returned by :func:`hash_grid_query` in a kernel; also the annotation of a func's parameter that takes
    one.

    ``HashGridQuery[dk.float64]``, which names the type of numbers of the grid, is the same.
    """

    # Where the arrays of the grid begin: where each cell begins, the indices in the order of the cells, their groups.
    starts: int
    ids: int
    groups: int
    # The first cell of the query, how many it has along each axis, and how many the grid has.
    x: int
    y: int
    z: int
    across: int
    deep: int
    high: int
    dim_x: int
    dim_y: int
    dim_z: int
    # Stretches of a row of cells along x and of all rows; whether they are of one group, and of which.
    parts: int
    total: int
    by_group: int
    group: int
    # The next stretch, and the places that are left of the present one: for hash_grid_query_next.
    segment: int
    at: int
    end: int

    def __init__(self) -> None:
        raise KernelTypeError(
            "a HashGridQuery is made in a kernel", remedy="call hash_grid_query(grid_id, point, max_dist) there"
        )

    def __class_getitem__(cls, dtype: Any) -> type[HashGridQuery]:
        return cls


class BvhQuery:
    """The result of the queries of a :class:`Bvh` in a kernel; also the annotation of a func's parameter that takes
    one.
    """

    # Where arrays of the tree begin: boxes and links of the nodes, the sorted items and their boxes (0: the leaves').
    boxes: int
    links: int
    items: int
    item_boxes: int
    # The next node, and where the nodes of the query end; the places that are left of the present leaf.
    node: int
    end: int
    place: int
    last: int
    # What is asked for: a box, a sphere (its centre, the square of its radius), or a ray (its start, 1 / direction, how
    # much boxes are enlarged).
    kind: int
    low: tuple[float, float, float]
    high: tuple[float, float, float]
    radius: float

    def __init__(self) -> None:
        raise KernelTypeError(f"a {type(self).__name__} is made in a kernel", remedy="call bvh_query_aabb there")


class BvhQueryTiled(BvhQuery):
    """The result of :func:`tile_bvh_query_aabb` and :func:`tile_bvh_query_ray` in a kernel: a query that all threads of
    a
    block share; also the annotation of a func's parameter that takes one.
    """


class MeshQueryAABBTiled(BvhQuery):
    """The result of :func:`tile_mesh_query_aabb` in a kernel: such a query over the faces of a mesh."""


class MeshQuery(BvhQuery):
    """The result of :func:`mesh_query_aabb` and :func:`mesh_query_sphere` in a kernel; also the annotation of a func's
    parameter that takes one.
    """

    # Where the points, the indices and the pairs of boxes of the mesh begin.
    points: int
    indices: int
    pairs: int


class _Result:
    """The result of a query; only kernels make one."""

    def __init__(self) -> None:
        raise KernelTypeError(f"a {type(self).__name__} is made in a kernel", remedy="call the query there")


class MeshQueryPoint(_Result):
    """The result of :func:`mesh_query_point` and its variants in a kernel.

    Attributes
    ----------
    result
        Whether a face was found.
    sign
        -1 if the point is inside the mesh, else 1; 0 for queries that do not determine it.
    face
        The face.
    u, v
        The barycentric weights of its first and second vertex at the point found.
    """

    result: bool
    sign: float
    face: int
    u: float
    v: float


class MeshQueryRay(_Result):
    """The result of :func:`mesh_query_ray` in a kernel.

    Attributes
    ----------
    result
        Whether a face was hit.
    sign
        1 if it was hit from its front, else -1.
    face
        The face.
    t
        The distance along the ray, in lengths of its direction.
    u, v
        The barycentric weights of the face's first and second vertex at the hit.
    normal
        The face's unit normal.
    """

    result: bool
    sign: float
    face: int
    t: float
    u: float
    v: float
    normal: tuple[float, float, float]


_ADDRESSES: Final = frozenset(
    {"starts", "ids", "groups", "boxes", "links", "items", "item_boxes", "points", "indices", "pairs"}
)
_TYPES: Final[Mapping[str, T.Scalar | T.Vec]] = {
    "int": T.INT32, "bool": T.BOOL, "float": T.FLOAT32, "tuple[float, float, float]": T.Vec(T.FLOAT32, 3),
}  # fmt: skip


def _struct(cls: type) -> Struct:
    """Return the struct of the fields that a class and those it is derived from annotate."""
    # From the base class on, so that a derived query begins with the fields of the one it extends.
    stated = {name: t for base in reversed(cls.__mro__) for name, t in inspect.get_annotations(base).items()}
    return Struct(cls.__name__, tuple((n, T.UINT64 if n in _ADDRESSES else _TYPES[t]) for n, t in stated.items()))


register(HashGridQuery, Definition(_struct(HashGridQuery), {}))
for _query in (BvhQuery, BvhQueryTiled, MeshQuery, MeshQueryAABBTiled, MeshQueryPoint, MeshQueryRay):
    register(_query, Definition(_struct(_query), {}))

WALKED: Final[Mapping[str, str]] = {"HashGridQuery": "hash_grids"}
"""Structs of queries by name, and the module of ``diffkern.library`` that says how a loop goes through one.

It has three functions: ``segments(query)`` says in how many stretches of memory the results may lie, ``segment(query,
k)`` where the k-th begins and ends, ``item(query, at)`` what stands at a place of it.
"""

STEPPED: Final[Mapping[str, str]] = {"BvhQuery": "bvhs", "MeshQuery": "meshes"}
"""Structs of queries by name whose results come one after the other, and the module of ``diffkern.library``.

It has a function ``following(query, index)``: the query at its next result, that result, and whether there is one.
"""
