"""Triangle meshes, in which kernels find the nearest place, the first hit of a ray, and faces in boxes and spheres.

A mesh is made from points, and three indices for each face. It has an id, which a launch passes to a kernel; there
:func:`~diffkern.mesh_query_point` and its variants find faces by it. The meaning of the descriptor's words is
documented in :mod:`diffkern.library.meshes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from diffkern.errors import LaunchError
from diffkern.ir.types import FLOAT32, INT32, Vec
from diffkern.lang.queries import MESH
from diffkern.library.meshes import POINT_COTANGENTS, VELOCITY_COTANGENTS, WORDS
from diffkern.process.uncopied import Uncopied
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.launch.resources import Content, Key, Resource
from diffkern.runtime.memory.device import Device, get_device
from diffkern.runtime.memory.state import will_replay
from diffkern.runtime.records.launch import launch
from diffkern.spatial import mesh_kernels as kernels
from diffkern.spatial.bvh import Bvh, checked

__all__ = ["Mesh"]

_VECTORS = Vec(FLOAT32, 3)
_SAID = tuple(
    (f"the {name} of a Mesh", f"give the Mesh another array instead, as in mesh.{attribute} = dk.clone(x)")
    for name, attribute in (("points or velocities", "points"), ("indices", "indices"))
)


class Mesh(Uncopied):
    """Triangles, in which kernels find the place nearest to a point, the first hit of a ray, and faces in boxes.

    Pass :attr:`id` to a kernel as a ``uint64``, and call :func:`~diffkern.mesh_query_point`,
    :func:`~diffkern.mesh_query_ray` or their like there.

    The mesh reads the points where they are. After a change of their values call :meth:`refit`; another array of as
    many may be assigned to :attr:`points`.

    Parameters
    ----------
    points : array of vec3
        The vertices.
    indices : array of int32
        Three vertices for each face, counterclockwise from its front.
    velocities : array of vec3, optional
        A velocity for each vertex, for :func:`~diffkern.mesh_eval_velocity`.
    support_winding_number : bool, optional
        Whether :func:`~diffkern.mesh_query_point_sign_winding_number` is to be fast.
    bvh_constructor : str, optional
        As the constructor of :class:`Bvh`.
    bvh_leaf_size : int, optional
        How many faces a leaf of the tree holds at most, 4 by default. The results of queries are the same.
    groups : array of int32, optional
        A number for each face; a ray from the root of a group, :func:`~diffkern.mesh_get_group_root`, then hits faces
        of that group alone.

    Attributes
    ----------
    groups : array
        What it was made with.
    device : Device
        Where it lies: with the points.

    Raises
    ------
    LaunchError
        If the arrays are of other types, on different devices, or do not fit together, as an index on a CPU for which
        there is no vertex.

    Examples
    --------
    >>> import numpy as np, diffkern as dk
    >>> @dk.kernel
    ... def depth(mesh: dk.uint64, x: dk.array(dtype=dk.vec3), t: dk.array(dtype=float)):
    ...     i = dk.tid()
    ...     hit = dk.mesh_query_ray(mesh, x[i], dk.vec3(0.0, 0.0, -1.0), 100.0)
    ...     t[i] = hit.t if hit.result else -1.0
    >>> points = dk.array(np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0]]), dtype=dk.vec3)
    >>> mesh = dk.Mesh(points, dk.array([0, 1, 2], dtype=int))
    >>> x, t = dk.array(np.float32([[0.2, 0.2, 3], [2, 2, 3]]), dtype=dk.vec3), dk.zeros(2)
    >>> dk.launch(depth, dim=2, inputs=[mesh.id, x], outputs=[t])
    >>> t.numpy()
    array([ 3., -1.], dtype=float32)
    """

    def __init__(
        self,
        points: array,
        indices: array,
        velocities: array | None = None,
        support_winding_number: bool = False,
        bvh_constructor: str | None = None,
        bvh_leaf_size: int | None = None,
        groups: array | None = None,
    ) -> None:
        self._points = _vectors(points, "points", None, None)
        self.device: Device = get_device(points.device)
        self._velocities = None if velocities is None else _vectors(velocities, "velocities", self.device, points)
        self.groups = groups
        self._indices = _indices(indices, self._points)
        self._faces = self._indices.size // 3
        self._winding = support_winding_number
        self._lowers, self._uppers = (new((self._faces,), _VECTORS, False, self.device) for _ in range(2))
        self._resource = Resource(self.device, MESH, WORDS)
        # Before the tree, which is built from the boxes.
        self._write_boxes()
        self._bvh = _FaceTree(
            self._lowers, self._uppers, bvh_constructor, groups, 4 if bvh_leaf_size is None else bvh_leaf_size
        )
        # The mesh's descriptor holds the id of the tree, so the tree has to live as long as any user of the mesh.
        self._resource.inner = (self._bvh._resource,)
        self._finish()

    @property
    def id(self) -> int:
        """The number by which a kernel knows the mesh; it does not change."""
        return self._resource.id

    @property
    def points(self) -> array:
        """The vertices; other ones of the same number may be assigned, and the tree is refit to them."""
        return self._points

    @points.setter
    def points(self, points: array) -> None:
        self._points = _vectors(points, "points", self.device, self._points)
        self.refit()

    @property
    def indices(self) -> array:
        """Three vertices for each face; other ones for as many faces may be assigned, and the tree is refit to them."""
        return self._indices

    @indices.setter
    def indices(self, indices: array) -> None:
        found = _indices(indices, self._points)
        if found.size != 3 * self._faces:
            raise LaunchError(
                f"there are {found.size} indices for {self._faces} faces", remedy="make another Mesh for other faces"
            )
        self._indices = found
        self.refit()

    @property
    def velocities(self) -> array | None:
        """The velocities of the vertices; other ones may be assigned."""
        return self._velocities

    @velocities.setter
    def velocities(self, velocities: array | None) -> None:
        given = None if velocities is None else _vectors(velocities, "velocities", self.device, self._points)
        self._velocities = given
        self._lead_to()

    def refit(self) -> None:
        """Update the tree to the current points.

        It is done by kernels on the mesh's device, in the current stream, and may be captured in a graph.
        """
        self._write_boxes()
        self._bvh.refit()
        self._finish()

    def _write_boxes(self) -> None:
        if self._faces:
            inputs = [self._points, self._indices, self._lowers, self._uppers]
            launch(kernels.face_boxes, self._faces, inputs, device=self.device, record_tape=False)

    def _finish(self) -> None:
        """Write the sums that winding numbers need, and the descriptor."""
        # Always new: a tape may keep the dipoles of the points as they were.
        self._dipoles: array | None = None
        if self._winding and self._faces:
            order, links, *_ = self._bvh._resource.content.arrays
            self._dipoles = new((9 * 2 * self._faces,), FLOAT32, False, self.device)
            inputs = [self._points, self._indices, order, links, self._dipoles]
            launch(kernels.dipoles, 1, inputs, device=self.device, record_tape=False)
        self._lead_to()

    def _lead_to(self) -> None:
        # Kernels read the points through the descriptor, so their gradients are found by these words of it.
        given: dict[Key, array] = {POINT_COTANGENTS: self._points}
        if self._velocities is not None:
            given[VELOCITY_COTANGENTS] = self._velocities
        arrays = [*given.values(), *(() if self._dipoles is None else (self._dipoles,))]
        velocities, dipoles = (0 if a is None else a._address for a in (self._velocities, self._dipoles))
        numbers = self._points.size, self._faces, self._bvh.id, dipoles, 0, 0
        content = Content(arrays, given, (self._indices,), _SAID)
        self._resource.lead_to(content, (self._points._address, velocities, self._indices._address, *numbers))

    def __repr__(self) -> str:
        return f"Mesh({self._points.size} points, {self._faces} faces, device={str(self.device)!r})"


class _FaceTree(Bvh):
    """The tree of a mesh's faces, in which searches go to the nearer child first."""

    _has_pairs = True


def _vectors(given: Any, what: str, device: Device | None, like: array | None) -> array:
    found = checked(given, f"{what} of a Mesh", _VECTORS, device)
    if not found.is_contiguous:
        raise LaunchError(f"the {what} of a Mesh are contiguous", remedy=f"pass {what}.contiguous()")
    if like is not None and found.size != like.size:
        raise LaunchError(f"there are {found.size} {what} for {like.size} points", remedy="pass one for each point")
    return found


def _indices(given: Any, points: array) -> array:
    # Indices along two axes, three for each face, are the same memory along one.
    if isinstance(given, array) and given._element == INT32 and given.ndim == 2 and given.is_contiguous:
        given = given.flatten()
    found = checked(given, "indices of a Mesh", INT32, get_device(points.device))
    if not found.is_contiguous or found.size % 3:
        raise LaunchError(
            f"the indices of a Mesh are contiguous, three for each face, not {found.size}",
            remedy="pass the three vertices of each face, one face after the other",
        )
    # Queries read the vertices in compiled code, without looking. In a recording the indices may be written later, and
    # a GPU would have to be waited for.
    if found._memory.is_host and not will_replay():
        _check_range(found._elements(), points.size)
    return found


def _check_range(indices: np.ndarray[Any, Any], count: int) -> None:
    outside = np.flatnonzero((indices < 0) | (indices >= count))
    if outside.size:
        place = int(outside[0])
        raise LaunchError(
            f"face {place // 3} of the Mesh has the vertex {indices[place]}, and there are {count} points",
            remedy="number the points from 0" if count else "pass the points of the faces",
        )
