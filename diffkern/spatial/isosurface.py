"""Surfaces where a field on a grid has a value: marching cubes, and surface nets.

The faces are found by kernels, from which edges of the grid are cut; they are integers without derivatives. Where on
these edges the vertices lie is a formula of the field and the threshold in one launch, which tapes and transforms
record like any other.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from diffkern.errors import LaunchError, described
from diffkern.ir.types import FLOAT32, FLOAT64, INT32, Element, Vec
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.create import full
from diffkern.runtime.effects.no_grad import no_grad
from diffkern.runtime.memory.device import Device
from diffkern.runtime.memory.state import check_not_replayed
from diffkern.runtime.records.launch import launch
from diffkern.spatial import kernels, net_kernels, surface_kernels
from diffkern.spatial.cube_cases import CUBE_CORNER_OFFSETS, EDGES_OF_FACES, LOWER_NODES, loop_table, triangle_table

__all__ = ["IsoSurface", "MarchingCubes", "SurfaceNets"]

Surface = tuple[array, array]
Corner = Any  # three numbers, or a vec3
_MOST: Final = (1 << 31) - 1
_CHUNK: Final = 1 << 12  # counts that are worth a thread of a scan


class IsoSurface(abc.ABC):
    """A way to find the surface where a field on a dense grid has a value; the base of those that there are.

    Parameters
    ----------
    nx, ny, nz : int
        The nodes of the grid along each axis.
    lower, upper : vec3 or sequence of float, optional
        The places of the first and the last node. By default a node is where its indices say.

    Attributes
    ----------
    verts : array of vec3 or None
        The vertices that :meth:`surface` found last.
    indices : array of int32 or None
        The faces that it found last: their vertices, one face after the other.
    """

    verts: array | None
    indices: array | None

    def __init__(self, nx: int, ny: int, nz: int, *, lower: Corner | None = None, upper: Corner | None = None) -> None:
        self.nx, self.ny, self.nz = nx, ny, nz
        self.lower, self.upper = lower, upper
        self.verts = self.indices = None

    def resize(self, nx: int, ny: int, nz: int) -> None:
        """Take fields of another size from now on.

        Parameters
        ----------
        nx, ny, nz : int
            The nodes of the grid along each axis.
        """
        self.nx, self.ny, self.nz = nx, ny, nz

    def surface(self, field: array, threshold: float | array = 0.0) -> Surface:
        """Find the surface of a field, and keep it in :attr:`verts` and :attr:`indices`.

        Parameters
        ----------
        field : array of float32 or float64
            The values at the nodes, along three axes.
        threshold : float or array
            The value on the surface, as a number or the only element of an array of the field's type.

        Returns
        -------
        tuple of array
            The vertices and the indices.

        Raises
        ------
        LaunchError
            If the field is not one for the grid.
        """
        shape = self.nx, self.ny, self.nz
        if not isinstance(field, array) or field.shape != shape:
            raise LaunchError(
                f"the grid has {shape} nodes, and the field is {described(field)}",
                remedy="pass a field of this shape, or call resize() first",
            )
        self.verts, self.indices = self._extract(field, threshold)
        return self.verts, self.indices

    @abc.abstractmethod
    def _extract(self, field: array, threshold: float | array) -> Surface:
        """Return the surface of a field."""


class MarchingCubes(IsoSurface):
    """Triangles of the surface where a field on a dense grid has a value.

    Each cut edge of the grid has one vertex. Nodes less than the threshold are inside, all others, NaN too, outside.
    The triangles are counterclockwise seen from outside. The surface is closed but for the border of the grid, and
    two triangles meet in each side.

    The vertices have derivatives with respect to the field and the threshold, of any order; see :doc:`/isosurfaces`.

    Parameters
    ----------
    nx, ny, nz : int
        The nodes of the grid along each axis, at least two.
    lower, upper : vec3 or sequence of float, optional
        The places of the first and the last node. By default a node is where its indices say.

    Attributes
    ----------
    verts : array of vec3 or None
        The vertices that :meth:`surface` found last.
    indices : array of int32 or None
        Three vertices for each triangle that it found last.

    Examples
    --------
    >>> import numpy as np, diffkern as dk
    >>> x, y, z = np.mgrid[-1:1:24j, -1:1:24j, -1:1:24j]
    >>> field = dk.array(np.float32(np.sqrt(x * x + y * y + z * z)))
    >>> cubes = dk.MarchingCubes(24, 24, 24, lower=(-1, -1, -1), upper=(1, 1, 1))
    >>> vertices, indices = cubes.surface(field, 0.5)
    >>> bool(np.allclose(np.linalg.norm(vertices.numpy(), axis=1), 0.5, atol=0.01))
    True
    """

    CUBE_CORNER_OFFSETS = CUBE_CORNER_OFFSETS

    def __init__(self, nx: int, ny: int, nz: int, lower: Corner | None = None, upper: Corner | None = None) -> None:
        super().__init__(nx, ny, nz, lower=lower, upper=upper)

    @classmethod
    def extract(
        cls, field: array, threshold: float | array = 0.0, *, lower: Corner | None = None, upper: Corner | None = None
    ) -> Surface:
        """Return the surface of a field.

        Parameters
        ----------
        field : array of float32 or float64
            The values at the nodes, along three axes.
        threshold : float or array
            The value on the surface, as a number or the only element of an array of the field's type.
        lower, upper : vec3 or sequence of float, optional
            As of the class.

        Returns
        -------
        tuple of array
            The vertices, of vec3 in the field's precision, and three vertices for each triangle, of int32.

        Raises
        ------
        LaunchError
            If the field has other elements or axes, or fewer than two nodes along an axis.
        """
        grid = GridField(field, threshold, lower, upper)
        (_, ny, nz), device = field.shape, field._memory.device
        begins, triangles = (table(values, device) for values in triangle_table())
        columns = ny * nz
        with no_grad():
            starts = new((4 * columns + 1,), INT32, True, device)
            inputs = [field, grid.threshold, begins]
            launch(surface_kernels.count_columns, (ny, nz), [*inputs, starts], device=device)
            # As many triangles as five in each cube.
            vertices, corners = scanned(starts, 3 * columns, 15 * field.size)
            edges, indices = new((vertices,), Vec(INT32, 4), False, device), new((corners,), INT32, False, device)
            launch(surface_kernels.fill_columns, (ny, nz), [*inputs, triangles, starts, edges, indices], device=device)
        return grid.placed(surface_kernels.place, vertices, [edges]), indices

    def _extract(self, field: array, threshold: float | array) -> Surface:
        return type(self).extract(field, threshold, lower=self.lower, upper=self.upper)


class SurfaceNets(IsoSurface):
    """Quadrilaterals or triangles of the surface where a field on a dense grid has a value, with vertices in the cubes.

    A vertex is the mean of the places where a sheet of the surface cuts the edges of a cube; so faces are of more even
    shape than those of :class:`MarchingCubes`, and there are fewer slivers. Nodes less than the threshold are inside;
    faces are counterclockwise seen from outside, and two meet in each side. Where the surface leaves the grid it ends
    at the last vertices within.

    The vertices have derivatives with respect to the field and the threshold, of any order; see :doc:`/isosurfaces`.

    Parameters
    ----------
    nx, ny, nz : int
        The nodes of the grid along each axis, at least two.
    lower, upper : vec3 or sequence of float, optional
        The places of the first and the last node. By default a node is where its indices say.
    topology : str, optional
        ``"triangle"`` or ``"quad"``: three or four vertices for each face.

    Attributes
    ----------
    verts : array of vec3 or None
        The vertices that :meth:`surface` found last.
    indices : array of int32 or None
        The vertices of the faces that it found last.

    Examples
    --------
    >>> import numpy as np, diffkern as dk
    >>> x, y, z = np.mgrid[-1:1:8j, -1:1:8j, -1:1:8j]
    >>> field = dk.array(np.float32(np.sqrt(x * x + y * y + z * z)))
    >>> vertices, indices = dk.SurfaceNets.extract(field, 0.5, topology="quad")
    >>> vertices.size - indices.size // 2 + indices.size // 4  # vertices - sides + faces of a sphere
    2
    """

    def __init__(
        self,
        nx: int,
        ny: int,
        nz: int,
        lower: Corner | None = None,
        upper: Corner | None = None,
        *,
        topology: str = "triangle",
    ) -> None:
        super().__init__(nx, ny, nz, lower=lower, upper=upper)
        _check_topology(topology)
        self.topology = topology

    @classmethod
    def extract(
        cls,
        field: array,
        threshold: float | array = 0.0,
        *,
        lower: Corner | None = None,
        upper: Corner | None = None,
        topology: str = "triangle",
    ) -> Surface:
        """Return the surface of a field.

        Parameters
        ----------
        field : array of float32 or float64
            The values at the nodes, along three axes.
        threshold : float or array
            The value on the surface, as a number or the only element of an array of the field's type.
        lower, upper : vec3 or sequence of float, optional
            As of the class.
        topology : str, optional
            As of the class.

        Returns
        -------
        tuple of array
            The vertices, of vec3 in the field's precision, and the vertices of the faces, of int32.

        Raises
        ------
        LaunchError
            If the field has other elements or axes, or fewer than two nodes along an axis, or there is no such
            topology.
        """
        _check_topology(topology)
        grid = GridField(field, threshold, lower, upper)
        device, nodes = field._memory.device, field.size
        loops, split_faces = (table(values, device) for values in loop_table())
        of_faces = table(EDGES_OF_FACES, device)
        corners = 6 if topology == "triangle" else 4
        # Two counts for each node are numbered by an int32.
        if nodes > _MOST // 2:
            raise LaunchError(f"surface nets take up to {_MOST // 2} nodes, not {nodes}", remedy="extract it in parts")
        with no_grad():
            variants, starts = new((nodes,), INT32, False, device), new((2 * nodes + 1,), INT32, True, device)
            inputs: list[Any] = [field, grid.threshold, split_faces, loops, of_faces, variants, starts]
            launch(net_kernels.count_cubes, field.shape, inputs, device=device)
            vertices, faces = scanned(starts, nodes, 3 * corners * nodes)
            cubes = new((vertices,), Vec(INT32, 4), False, device)
            indices = new((corners * faces,), INT32, False, device)
            inputs = [field, grid.threshold, of_faces, loops, variants, starts, int(corners == 6), cubes, indices]
            launch(net_kernels.fill_cubes, field.shape, inputs, device=device)
            lower_nodes = array(np.array(LOWER_NODES, np.int32), dtype=Vec(INT32, 4), device=device)
        return grid.placed(net_kernels.place_in_middle, vertices, [cubes, lower_nodes]), indices

    def _extract(self, field: array, threshold: float | array) -> Surface:
        return type(self).extract(field, threshold, lower=self.lower, upper=self.upper, topology=self.topology)


def _check_topology(topology: Any) -> None:
    if topology not in ("triangle", "quad"):
        raise LaunchError(f"there are no faces of the topology {topology!r}", remedy='pass "triangle" or "quad"')


class GridField:
    """A checked field with its threshold and its place in space.

    Parameters
    ----------
    field : array
        The values at the nodes.
    threshold : float or array
        The value on the surface.
    lower, upper : vec3 or sequence of float or None
        The places of the first and the last node.

    Raises
    ------
    LaunchError
        If they do not fit together.
    """

    def __init__(self, field: array, threshold: float | array, lower: Corner | None, upper: Corner | None) -> None:
        self.field, self.element = field, element_of(field, "field of an isosurface")
        if field.ndim != 3 or min(field.shape) < 2:
            raise LaunchError(
                f"a field is an array along three axes with at least 2 nodes on each axis, not {described(field)}",
                remedy="pass the values at the nodes of a grid",
            )
        self.threshold = threshold_of(threshold, field)
        last = np.array(field.shape) - 1
        low = np.zeros(3) if lower is None else corner_of(lower, "lower")
        high = last if upper is None else corner_of(upper, "upper")
        self.lower, self.spacing = low, (high - low) / last

    def placed(self, kernel: Any, vertices: int, tables: Sequence[array]) -> array:
        """Return the vertices, written by a kernel that tapes record."""
        return placed(kernel, vertices, self.field, self.threshold, tables, self.lower, self.spacing)


def placed(
    kernel: Any,
    vertices: int,
    field: array,
    threshold: array,
    tables: Sequence[array],
    lower: np.ndarray[Any, Any],
    spacing: np.ndarray[Any, Any],
) -> array:
    """Return an array of vertices, written by a kernel that tapes record."""
    vec = Vec(field._element, 3)  # type: ignore[arg-type]  # checked before
    points = new((vertices,), vec, False, field._memory.device)
    points.requires_grad = bool(field.requires_grad) or bool(threshold.requires_grad)
    place = points.dtype(*map(float, lower)), points.dtype(*map(float, spacing))
    launch(kernel, vertices, [field, threshold, *tables, *place], [points], device=field._memory.device)
    return points


def element_of(values: Any, what: str) -> Element:
    """Return the type of a field's elements.

    Raises
    ------
    LaunchError
        If it is no array of float32 or float64.
    """
    if not isinstance(values, array) or values._element not in (FLOAT32, FLOAT64):
        raise LaunchError(
            f"the {what} is an array of float32 or float64, not {described(values)}",
            remedy="make one with dk.array(values, dtype=dk.float32)",
        )
    return values._element


def threshold_of(threshold: Any, field: array) -> array:
    """Return the threshold as an array with one element of the field's type.

    Raises
    ------
    LaunchError
        If it is neither a number nor such an array.
    """
    if isinstance(threshold, array) and threshold.shape == (1,) and threshold._element == field._element:
        return threshold
    value = number_of(threshold)
    if value is None:
        raise LaunchError(
            f"the threshold is a number or an array with one element of {field._element}, not {described(threshold)}",
            remedy="pass a number, or convert the array",
        )
    return full(1, value, dtype=field.dtype, device=field._memory.device)


def number_of(given: Any) -> float | None:
    """Return a number as a float, and None for what is none, or would lose a derivative."""
    if isinstance(given, (array, str)) or getattr(given, "requires_grad", False):
        return None
    try:
        return float(given)
    except (TypeError, ValueError):
        return None


def corner_of(given: Any, what: str) -> np.ndarray[Any, Any]:
    """Return a corner of the grid as three numbers.

    Raises
    ------
    LaunchError
        If it is none, or an array, with respect to which there would be no derivative.
    """
    is_variable = isinstance(given, array) or getattr(given, "requires_grad", False)
    found = [] if is_variable or not hasattr(given, "__len__") else [number_of(given[k]) for k in range(len(given))]
    if len(found) != 3 or None in found:
        raise LaunchError(
            f"{what} has three coordinates, which are numbers, not {described(given)}",
            remedy="pass a vec3; for derivatives move the vertices by a kernel",
        )
    return np.array(found)


@functools.cache
def _as_numpy(values: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


def table(values: tuple[int, ...], device: Device) -> array:
    """Return a table of integers as an array on a device."""
    made: array = array(_as_numpy(values), dtype=INT32, device=device)
    return made


def scanned(counts: array, split: int, most: int) -> tuple[int, int]:
    """Replace counts by the sums of those before, and return the sums of both parts; the last count is 0.

    Parameters
    ----------
    counts : array of int32
        The counts.
    split : int
        Where the second part begins.
    most : int
        What the sum cannot exceed.

    Raises
    ------
    LaunchError
        If the sums are no int32, or work is recorded.
    """
    check_not_replayed(
        "how many vertices a surface has depends on the field, and a recording has the same sizes in each replay",
        "find the surface outside of the recorded block",
    )
    device = counts._memory.device
    # A sum that is too large is looked for only where there may be one.
    if most > _MOST and (total := int(counts.numpy().sum(dtype=np.int64))) > _MOST:
        raise LaunchError(
            f"the surface would have {total} vertices and corners of faces, more than an int32 counts",
            remedy="extract it in parts",
        )
    if counts.size <= 4 * _CHUNK:
        launch(kernels.sums_before, 1, [counts], device=device)
    else:
        sums = new((math.ceil(counts.size / _CHUNK),), INT32, False, device)
        launch(kernels.chunk_sums, sums.size, [counts, sums, _CHUNK], device=device)
        launch(kernels.sums_before, 1, [sums], device=device)
        launch(kernels.chunk_starts, sums.size, [counts, sums, _CHUNK], device=device)
    first, total = (int(counts[at : at + 1].numpy()[0]) for at in (split, counts.size - 1))
    return first, total - first
