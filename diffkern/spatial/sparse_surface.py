"""Marching cubes on some cubes of a grid, and an octree that finds the cubes which a surface may pass through."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from diffkern.errors import LaunchError, described
from diffkern.ir.types import FLOAT32, INT32, INT64, Vec
from diffkern.lang import COMPOSITES
from diffkern.lang.func import Func
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.effects.no_grad import no_grad
from diffkern.runtime.memory.device import Device, get_device
from diffkern.runtime.records.launch import launch
from diffkern.spatial import sparse_kernels as kernels
from diffkern.spatial.cube_cases import CUBE_CORNER_OFFSETS, EDGE_TO_CORNERS, LOWER_NODES, triangle_table
from diffkern.spatial.isosurface import (
    Corner,
    Surface,
    corner_of,
    element_of,
    number_of,
    placed,
    scanned,
    table,
    threshold_of,
)
from diffkern.utils.sorts import radix_sort_pairs

__all__ = ["lipschitz_octree", "sparse_marching_cubes", "sparse_marching_cubes_from_cells"]

Field = Callable[[array], array]
_CELLS: Final = Vec(INT32, 3)
_CHUNK: Final = 1 << 10  # cells that are worth a thread of a search for the least one
_MOST: Final = (1 << 31) - 1
_DEEPEST: Final = 30  # levels of an octree whose cells are counted by an int32


def sparse_marching_cubes_from_cells(
    cells: Any,
    corner_values: Any,
    origin: Corner = (0.0, 0.0, 0.0),
    cell_width: float = 1.0,
    threshold: float | array = 0.0,
    device: Any = None,
) -> Surface:
    """Return the surface within some cubes of a grid, whose corners have values.

    Cubes share the vertices on their edges, so the surface is closed where all cubes that it passes through are
    given. It is that of :class:`MarchingCubes`. The vertices have derivatives with respect to `corner_values` and the
    threshold, of any order; those with respect to a corner that several cubes share go to the values of one of them.

    Parameters
    ----------
    cells : array of vec3i or array_like of int
        The cubes, each once: three integers for each, the indices of its first corner, which may be negative.
    corner_values : array of float32 or float64, or array_like
        The field at the eight corners of each cube, in the order of ``MarchingCubes.CUBE_CORNER_OFFSETS``. Cubes that
        share a corner have the same value there.
    origin : vec3 or sequence of float, optional
        The place of the indices (0, 0, 0).
    cell_width : float, optional
        The length of a cube's edge.
    threshold : float or array, optional
        The value on the surface, as a number or the only element of an array of the field's type.
    device : str or Device, optional
        Where the surface is found; by default where `corner_values` lie, or else on the current device.

    Returns
    -------
    tuple of array
        The vertices, of vec3 in the field's precision, and three vertices for each triangle, of int32.

    Raises
    ------
    LaunchError
        If the arguments do not fit together, `cell_width` is not positive, or the cubes are too far apart for 64-bit
        keys.

    Examples
    --------
    >>> import numpy as np, diffkern as dk
    >>> values = np.ones((1, 8), np.float32)
    >>> values[0, 0] = -1.0
    >>> vertices, indices = dk.sparse_marching_cubes_from_cells(np.zeros((1, 3), np.int32), values)
    >>> vertices.numpy()
    array([[0.5, 0. , 0. ],
           [0. , 0.5, 0. ],
           [0. , 0. , 0.5]], dtype=float32)
    """
    where = _device_of(device, corner_values, cells)
    values = corner_values
    if not isinstance(values, array):
        given = np.asarray(values)
        values = array(given if given.dtype == np.float64 else given.astype(np.float32), device=where)
    element_of(values, "corner_values")
    found = _cells_of(cells, where)
    if values.size != 8 * found.size or values._memory.device is not where:
        raise LaunchError(
            f"there are {found.size} cells, and the corner_values are {described(values)}",
            remedy="pass eight values for each cell, on the same device",
        )
    edge = number_of(cell_width)
    if edge is None or not 0.0 < edge < math.inf:
        raise LaunchError(
            f"cell_width is positive, not {described(cell_width)}", remedy="pass the length of a cube's edge"
        )
    values = values.contiguous().flatten()
    with no_grad():
        corners = new((values.size,), INT32, False, where)
        launch(kernels.in_order, corners.size, [corners], device=where)
        low, high = _bounds(found)
    width = np.full(3, edge)
    # In float64: the indices of distant cubes times their width have no exact float32.
    lower = corner_of(origin, "origin") + width * low
    return _surface(found, low, high - low + 2, values, corners, threshold, lower, width)


def sparse_marching_cubes(
    field: Field,
    nx: int,
    ny: int,
    nz: int,
    *,
    lower: Corner | None = None,
    upper: Corner | None = None,
    threshold: float | array = 0.0,
    lipschitz_bound: float = 1.0,
    device: Any = None,
    return_stats: bool = False,
) -> Any:
    """Return the surface of a function of space, which is evaluated near the surface alone.

    An octree is refined where the function may have the value (:func:`lipschitz_octree`), and marching cubes run on
    its smallest cells. The surface is that of :class:`MarchingCubes` on the same grid. The vertices have derivatives
    with respect to what `field` returns and the threshold, and so, on a tape, with respect to all that it was
    computed from.

    Parameters
    ----------
    field : callable
        Takes an array of vec3, and returns an array of float32 with the function's value at each: a function that
        launches a kernel, for example.
    nx, ny, nz : int
        The nodes of the grid along each axis, at least two.
    lower, upper : vec3 or sequence of float, optional
        The places of the first and the last node. By default a node is where its indices say.
    threshold : float or array, optional
        The value on the surface, as a number or the only element of an array of float32.
    lipschitz_bound : float, optional
        How much the function changes at most over a distance of one; 1 for a distance. If it changes more, parts of the
        surface may be missing.
    device : str or Device, optional
        Where the surface is found; the current device by default.
    return_stats : bool, optional
        Whether to return how much was evaluated as well.

    Returns
    -------
    tuple
        The vertices, of vec3, and three vertices for each triangle, of int32. With `return_stats` also a dictionary
        with ``leaf_cells``, ``unique_corners``, ``field_evaluations``, ``resolution``, ``requested_ncells`` and
        ``culled_cells``.

    Raises
    ------
    LaunchError
        If the arguments do not fit together.

    Examples
    --------
    >>> import numpy as np, diffkern as dk
    >>> def distance(points):
    ...     return dk.array(np.linalg.norm(points.numpy(), axis=1).astype(np.float32))
    >>> corners = dict(lower=(-1, -1, -1), upper=(1, 1, 1))
    >>> vertices, indices = dk.sparse_marching_cubes(distance, 33, 33, 33, threshold=0.5, **corners)
    >>> bool(np.allclose(np.linalg.norm(vertices.numpy(), axis=1), 0.5, atol=0.01))
    True
    """
    if min(nx, ny, nz) < 2:
        raise LaunchError(
            f"a grid has at least 2 nodes on each axis, not {(nx, ny, nz)}", remedy="pass two or more for each axis"
        )
    where = get_device(device)
    extent = np.array([nx, ny, nz]) - 1
    low = np.zeros(3) if lower is None else corner_of(lower, "lower")
    high = extent.astype(float) if upper is None else corner_of(upper, "upper")
    spacing = (high - low) / extent
    depth = math.ceil(math.log2(extent.max()))
    search = _Search(field, low, spacing, extent, depth, threshold, lipschitz_bound, where)
    with no_grad():
        cells = search.cells()
        offsets = _offsets(where)
        spans = extent + 1
        keys, places = new((16 * cells.size,), INT64, False, where), new((16 * cells.size,), INT32, False, where)
        launch(kernels.corner_keys, (cells.size, 8), [cells, offsets, _vec3i(spans), keys, places], device=where)
        begins, corner_count = _runs(keys, places, 8 * cells.size, math.prod(map(int, spans)))
        corners = new((8 * cells.size,), INT32, False, where)
        launch(kernels.number_runs, corners.size, [places, begins, corners], device=where)
        points = new((corner_count,), Vec(FLOAT32, 3), False, where)
        inputs = [places, begins, cells, offsets, *search.vectors(1), points]
        launch(kernels.corner_places, corners.size, inputs, device=where)
    values = search.values(points)
    surface = _surface(cells, np.zeros(3, int), spans, values, corners, threshold, low, spacing)
    if not return_stats:
        return surface
    stats = {
        "leaf_cells": cells.size,
        "unique_corners": corner_count,
        "field_evaluations": search.evaluations,
        "resolution": 1 << depth,
        "requested_ncells": tuple(map(int, extent)),
        "culled_cells": search.culled,
    }
    return (*surface, stats)


def lipschitz_octree(
    field: Field,
    origin: Corner,
    root_width: float,
    max_depth: int,
    threshold: float = 0.0,
    lipschitz_bound: float = 1.0,
    device: Any = None,
) -> tuple[array, float]:
    """Return the smallest cells of an octree that the surface of a function may pass through.

    A cell is divided where the function at its centre is nearer to the threshold than it can change within the cell.
    Nothing of this has derivatives, and nothing is recorded.

    Parameters
    ----------
    field : callable
        As of :func:`sparse_marching_cubes`.
    origin : vec3 or sequence of float
        The first corner of the largest cell.
    root_width : float
        Its width.
    max_depth : int
        How often it is divided at most.
    threshold : float, optional
        The value on the surface.
    lipschitz_bound : float, optional
        How much the function changes at most over a distance of one.
    device : str or Device, optional
        Where the cells are found; the current device by default.

    Returns
    -------
    tuple
        The cells as an array of vec3i, for :func:`sparse_marching_cubes_from_cells`, and the width of one.

    Raises
    ------
    LaunchError
        If the arguments do not fit together.

    Examples
    --------
    >>> import numpy as np, diffkern as dk
    >>> def distance(points):
    ...     return dk.array(np.linalg.norm(points.numpy(), axis=1).astype(np.float32) - 0.5)
    >>> cells, width = dk.lipschitz_octree(distance, (-1, -1, -1), 2.0, max_depth=3)
    >>> cells.size, width
    (80, 0.25)
    """
    if not 0 <= max_depth <= _DEEPEST:
        raise LaunchError(f"an octree has up to {_DEEPEST} levels, not {max_depth}", remedy="pass a lower max_depth")
    where, size = get_device(device), 1 << max_depth
    width = root_width / size
    low, spacing = corner_of(origin, "origin"), np.full(3, width)
    search = _Search(field, low, spacing, np.full(3, size), max_depth, threshold, lipschitz_bound, where)
    with no_grad():
        return search.cells(), width


# -- parts -------------------------------------------------------------------------------------------------------------


class _Search:
    """The search for the cells of a grid that a surface may pass through.

    Attributes
    ----------
    evaluations : int
        At how many points the function was evaluated.
    culled : int
        How many cells were left out because they are no part of the grid.
    """

    def __init__(
        self,
        field: Field,
        lower: np.ndarray[Any, Any],
        spacing: np.ndarray[Any, Any],
        extent: np.ndarray[Any, Any],
        depth: int,
        threshold: float | array,
        bound: float,
        device: Device,
    ) -> None:
        if isinstance(field, Func) or not callable(field):
            raise LaunchError(
                f"the field is a function from an array of points to an array of values, not {field!r}",
                remedy="pass a Python function that launches a kernel over the points",
            )
        if not bound >= 0.0:
            raise LaunchError(f"lipschitz_bound is not negative, as {bound!r} is", remedy="pass 1.0 for a distance")
        self.field, self.device, self.depth = field, device, depth
        self._lower, self._spacing, self._extent, self._bound = lower, spacing, extent, bound
        value = number_of(threshold)
        if isinstance(threshold, array) and threshold.shape == (1,) and threshold._smooth:
            # It only decides where to look, so that no derivative is lost.
            value = float(threshold.numpy()[0])
        if value is None:
            raise LaunchError(
                f"the threshold is a number or an array with one float, not {described(threshold)}",
                remedy="pass a number, or convert the array",
            )
        self._threshold = value
        self.evaluations = self.culled = 0

    def vectors(self, size: int) -> list[Any]:
        """Return the first corner of the grid and the extent of a cell as wide as so many of the smallest ones."""
        return [_vec3f(self._lower), _vec3f(self._spacing * size)]

    def values(self, points: array) -> array:
        """Return the function at points."""
        self.evaluations += points.size
        found = self.field(points)
        element_of(found, "result of the field")
        if found.shape != points.shape or found._memory.device is not self.device:
            raise LaunchError(
                f"the field returned {described(found)} for {points.size} points on {self.device}",
                remedy="return a value for each point, on the same device",
            )
        return found

    def cells(self) -> array:
        """Return the smallest cells that the surface may pass through."""
        device, offsets = self.device, _offsets(self.device)
        cells: array = array(np.zeros((1, 3), np.int32), dtype=_CELLS, device=device)
        culled = new((1,), INT32, True, device)
        for level in itertools.count():
            size = 1 << (self.depth - level)
            points, counts = (
                new(cells.shape, Vec(FLOAT32, 3), False, device),
                new((cells.size + 1,), INT32, True, device),
            )
            launch(kernels.centres, cells.size, [cells, *self.vectors(size), points], device=device)
            values = self.values(points)
            # No place of a cell is farther from its centre than this.
            reach = 0.5 * self._bound * float(np.linalg.norm(self._spacing * size))
            number = values.dtype
            of_children = [cells, offsets, _vec3i(self._extent), size // 2]
            inputs = [values, number(self._threshold), number(reach), *of_children, counts, culled]
            launch(kernels.count_children, cells.size, inputs, device=device)
            _, total = scanned(counts, 0, 8 * cells.size)
            children = new((total,), _CELLS, False, device)
            launch(kernels.fill_children, cells.size, [*of_children, counts, children], device=device)
            cells = children
            if level == self.depth:
                break
        self.culled = int(culled.numpy()[0])
        return cells


def _surface(
    cells: array,
    first: np.ndarray[Any, Any],
    spans: np.ndarray[Any, Any],
    values: array,
    corners: array,
    threshold: float | array,
    lower: np.ndarray[Any, Any],
    spacing: np.ndarray[Any, Any],
) -> Surface:
    """Return the surface within cells, whose corners are places in an array of values."""
    device, n = values._memory.device, cells.size
    at_most = math.prod(map(int, spans))
    # A key is of 64 bits, and an index relative to the first one of 32.
    if 3 * at_most >= 1 << 63 or max(spans) > _MOST:
        raise LaunchError(
            f"the cells reach over {tuple(map(int, spans))} nodes, more than their keys count",
            remedy="extract distant parts on their own",
        )
    given = threshold_of(threshold, values)
    begins, triangles = (table(part, device) for part in triangle_table())
    with no_grad():
        ends = array(np.array(EDGE_TO_CORNERS, np.int32), dtype=Vec(INT32, 2), device=device)
        nodes = array(np.array(LOWER_NODES, np.int32), dtype=Vec(INT32, 4), device=device)
        cases, starts = new((n,), INT32, False, device), new((2 * n + 1,), INT32, True, device)
        launch(kernels.count_cells, n, [values, given, corners, ends, begins, cases, starts], device=device)
        cuts, triangle_corners = scanned(starts, n, 27 * n)
        keys, places = new((2 * cuts,), INT64, False, device), new((2 * cuts,), INT32, False, device)
        relative = _vec3i(first)
        inputs = [cells, cases, relative, _vec3i(spans), ends, nodes, starts, keys, places]
        launch(kernels.edge_keys, n, inputs, device=device)
        runs, vertices = _runs(keys, places, cuts, 3 * at_most)
        numbers, indices = new((12 * n,), INT32, False, device), new((triangle_corners,), INT32, False, device)
        launch(kernels.number_runs, cuts, [places, runs, numbers], device=device)
        inputs = [cases, begins, triangles, starts, cuts, numbers, indices]
        launch(kernels.triangles_of_cells, n, inputs, device=device)
        pairs, lower_nodes = (new((vertices,), Vec(INT32, k), False, device) for k in (2, 4))
        inputs = [cells, relative, corners, ends, nodes, places, runs, pairs, lower_nodes]
        launch(kernels.vertex_of_edges, cuts, inputs, device=device)
    return placed(kernels.place_of_ends, vertices, values, given, [pairs, lower_nodes], lower, spacing), indices


def _runs(keys: array, places: array, count: int, most: int) -> tuple[array, int]:
    """Sort keys below `most` with their places; return how many runs begin before each, and how many there are."""
    device = keys._memory.device
    radix_sort_pairs(keys, places, count, 0, most.bit_length())
    begins = new((count + 1,), INT32, True, device)
    launch(kernels.run_begins, count, [keys, begins], device=device)
    _, total = scanned(begins, 0, count)
    return begins, total


def _bounds(cells: array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the least and the greatest indices of cells."""
    if cells.size == 0:
        return np.zeros(3, np.int64), np.zeros(3, np.int64)
    device = cells._memory.device
    bounds = array(np.array([_MOST] * 3 + [-_MOST - 1] * 3, np.int64).astype(np.int32), dtype=INT32, device=device)
    launch(kernels.bounds_of_cells, math.ceil(cells.size / _CHUNK), [cells, _CHUNK, bounds], device=device)
    found = bounds.numpy().astype(np.int64)
    return found[:3], found[3:]


def _cells_of(cells: Any, device: Device) -> array:
    """Return cells as a contiguous array of vec3i."""
    if not isinstance(cells, array):
        given = np.asarray(cells)
        if given.ndim != 2 or given.shape[1] != 3 or given.dtype.kind not in "iu":
            raise LaunchError(
                f"cells are integers of the shape (N, 3), not {described(given)}", remedy="pass three for each cell"
            )
        if given.size and not -_MOST <= given.min() <= given.max() < _MOST:
            raise LaunchError(
                f"cells are of int32, and there are {given.min()} to {given.max()}", remedy="count from a nearer origin"
            )
        made: array = array(given.astype(np.int32), dtype=_CELLS, device=device)
        return made
    if cells._element == INT32 and cells.ndim == 2 and cells.shape[1] == 3:
        packed: array = cells.contiguous().view(COMPOSITES["vec3i"])
        return packed
    if cells._element != _CELLS or cells.ndim != 1:
        raise LaunchError(f"cells are an array of vec3i, not {described(cells)}", remedy="pass three indices for each")
    return cells.contiguous()


def _device_of(device: Any, *given: Any) -> Device:
    lying: list[Device] = [one._memory.device for one in given if isinstance(one, array)]
    return lying[0] if device is None and lying else get_device(device)


def _offsets(device: Device) -> array:
    made: array = array(np.array(CUBE_CORNER_OFFSETS, np.int32), dtype=_CELLS, device=device)
    return made


def _vec3f(values: np.ndarray[Any, Any]) -> Any:
    return COMPOSITES["vec3"](*map(float, values))


def _vec3i(values: np.ndarray[Any, Any]) -> Any:
    return COMPOSITES["vec3i"](*map(int, values))
