"""Hash grids: points sorted into cells, in which kernels find the points near a place.

A grid is made from points and the size of a cell. It has an id, which a launch passes to a kernel; there
:func:`~diffkern.hash_grid_query` finds points by it. The meaning of the descriptor's words is documented in
:mod:`diffkern.library.hash_grids`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from diffkern.errors import LaunchError
from diffkern.ir.types import FLOAT16, FLOAT32, FLOAT64, INT32, INT64, Scalar, Vec
from diffkern.lang.dtypes import SCALARS, DType, resolve_dtype
from diffkern.lang.queries import HASH_GRID
from diffkern.library.hash_grids import COUNT, STARTS, WORDS
from diffkern.process.uncopied import Uncopied
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.operation import Assign, submit
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.resources import Content, Derived, Resource
from diffkern.runtime.memory.device import Device, get_device
from diffkern.runtime.records.launch import launch
from diffkern.spatial import kernels

__all__ = ["HashGrid"]

_FLOATS: Final = (FLOAT16, FLOAT32, FLOAT64)
_MOST_CELLS: Final = (1 << 31) - 2
_MOST_NOTED: Final = (
    1 << 30
)  # most cells of which first places are kept with those of points after them: indices are int32
_BLOCK: Final = 1 << 15  # points that are worth a thread
_MOST_BLOCKS: Final = 32

_Step = tuple[Any, int, list[Any]]


class HashGrid(Uncopied):
    """Points sorted into cells of a grid, in which kernels find those near a place.

    The cell of a point is ``floor(x / radius) % dim`` along each axis: the grid repeats in space, so that points may
    lie anywhere, and those of different copies share cells. Pass :attr:`id` to a kernel as a ``uint64``, and call
    :func:`~diffkern.hash_grid_query` there. A grid that was not built yet has no points.

    Launches on a tape have the gradient for the points as they were sorted then, also where the grid is built again
    before :meth:`Tape.backward`. For that the tape keeps a few numbers of each point, however many cells there are.

    Parameters
    ----------
    dim_x, dim_y, dim_z : int
        Number of cells along each axis.
    device : str or Device, optional
        Where it lies; the current device by default.
    dtype : optional
        The type of the coordinates: float32 by default, float16 or float64.

    Attributes
    ----------
    device : Device
        Where it lies.
    dtype : DType
        The type of the coordinates.

    Raises
    ------
    LaunchError
        If the numbers of cells are not positive or too great together, or the type is none of these.

    Examples
    --------
    >>> import numpy as np, diffkern as dk
    >>> @dk.kernel
    ... def neighbours(grid: dk.uint64, x: dk.array(dtype=dk.vec3), n: dk.array(dtype=int)):
    ...     i = dk.tid()
    ...     for j in dk.hash_grid_query(grid, x[i], 1.0):
    ...         if dk.length(x[i] - x[j]) < 1.0:
    ...             n[i] += 1
    >>> x, n = dk.array(np.float32([[0, 0, 0], [0.5, 0, 0], [5, 5, 5]]), dtype=dk.vec3), dk.zeros(3, dtype=int)
    >>> grid = dk.HashGrid(16, 16, 16)
    >>> grid.build(x, radius=1.0)
    >>> dk.launch(neighbours, dim=3, inputs=[grid.id, x], outputs=[n])
    >>> n.numpy()
    array([2, 2, 1], dtype=int32)
    """

    def __init__(self, dim_x: int, dim_y: int, dim_z: int, device: Any = None, dtype: Any = None) -> None:
        self._dims = tuple(int(dim) for dim in (dim_x, dim_y, dim_z))
        if min(self._dims) < 1:
            raise LaunchError(
                f"a HashGrid has at least one cell along each axis, not {self._dims}",
                remedy="write dk.HashGrid(32, 32, 32)",
            )
        if math.prod(self._dims) > _MOST_CELLS:
            raise LaunchError(
                f"HashGrid of {self._dims} cells: the cell count exceeds supported limit {_MOST_CELLS}",
                remedy="take fewer cells along an axis: the grid repeats in space",
            )
        self._scalar = _scalar(dtype)
        self.dtype: DType = SCALARS[self._scalar.name]
        self.device: Device = get_device(device)
        self._cells = math.prod(self._dims)
        # Cells are summed up in about √n chunks of √n cells, which balances the two levels of the prefix sum.
        self._chunk = math.isqrt(self._cells) + 1
        self._by_digits = self.device.is_cpu
        # The radix sort on the CPU has two passes, so each digit has half of the bits of a cell's number.
        self._digit_bits = -(-self._cells.bit_length() // 2)
        self._room = 0
        self._room_for_groups = False
        self._next = Content(())
        self._scratch: tuple[array, ...] = ()
        self._table: array
        self._resource = Resource(self.device, HASH_GRID, WORDS)

    @property
    def id(self) -> int:
        """The number by which a kernel knows the grid; it does not change when the grid is built."""
        return self._resource.id

    def reserve(self, num_points: int, with_groups: bool = False) -> None:
        """Allocate memory for points, which later calls of :meth:`build` then do not have to allocate.

        Parameters
        ----------
        num_points : int
            The greatest number of points.
        with_groups : bool, optional
            Whether they may have groups.
        """
        if num_points < 0:
            raise LaunchError(
                f"a HashGrid cannot reserve memory for {num_points} points",
                remedy="pass how many points there may be, 0 or more",
            )
        self._room = max(self._room, int(num_points))
        self._room_for_groups |= with_groups
        self._allocate()

    def build(self, points: array, radius: float, groups: array | None = None) -> None:
        """Sort points into the cells, instead of those of the last build.

        It is done by kernels on the grid's device, in the current stream, and may be captured in a graph.

        Parameters
        ----------
        points : array of vec3
            The points, of the grid's type, along any number of axes; their indices count them in row-major order.
        radius : float
            The edge of a cell. About the distance in which kernels look for points is a good choice.
        groups : array of int32, optional
            A number for each point; a query for one of these numbers then gives points of that group alone.

        Raises
        ------
        LaunchError
            If the arrays are on another device or of another type, do not fit together, or the radius is not positive.
        """
        size = float(radius)
        if not (size > 0.0 and math.isfinite(size)):
            raise LaunchError(
                f"the radius of a HashGrid is a positive number, not {radius!r}",
                remedy="pass about the distance in which points are looked for",
            )
        flat = self._flat(points, "points", Vec(self._scalar, 3))
        of_points = None if groups is None else self._flat(groups, "groups", INT32)
        if of_points is not None and of_points.size != flat.size:
            raise LaunchError(
                f"there are {of_points.size} groups for {flat.size} points", remedy="pass a group for each point"
            )
        n = flat.size
        self._room = max(self._room, n)
        self._room_for_groups |= groups is not None
        # Kernels multiply by the reciprocal: build and queries must round in the same way, or a point on the border of
        # a cell would be looked for in another one.
        inverse = _inverse(self._scalar, size)
        self._allocate()
        if n:
            self._sort(flat, inverse, of_points)
        # The reciprocal as bits, since the words of the descriptor are integers.
        bits = int(np.float64(inverse).view(np.uint64))
        _, ids, *sorted_groups = self._next.arrays
        of_groups = 0 if of_points is None else sorted_groups[0]._address
        starts = self._table._address if n else 0
        self._resource.lead_to(self._next, (starts, ids._address, of_groups, *self._dims, n, bits))

    def _sort(self, points: array, inverse: float, groups: array | None) -> None:
        """Launch the kernels of the sort, one after the other."""
        steps = (self._sorted_by_digits if self._by_digits else self._counted)(points, inverse, groups)
        if groups is not None:
            n, (_, ids, sorted_groups) = points.size, self._next.arrays
            steps.append((kernels.group_of_places, n, [groups, ids[:n], sorted_groups[:n]]))
        for kernel, dim, inputs in steps:
            launch(kernel, dim=dim, inputs=inputs, device=self.device, record_tape=False)

    def _counted(self, points: array, inverse: float, groups: array | None) -> list[_Step]:
        """Return the launches of a build on a GPU."""
        n, starts = points.size, self._table[: self._cells + 1]
        cells, ids = self._next.arrays[:2]
        ranks, sums = self._scratch
        ids, cells, ranks = ids[:n], cells[:n], ranks[:n]
        # Counts of the last build; written without a tape, as they are no part of any derivative.
        submit(Assign(starts, 0))
        return [
            # A counting sort. Atomic updates give each point a rank in its cell, in an order that depends on the run;
            # the last launch sorts the points of each cell by index, so that the result doesn't.
            (kernels.count, n, [points, self.dtype(inverse), *self._dims, cells, ranks, starts]),
            (kernels.chunk_sums, sums.size, [starts, sums, self._chunk]),
            (kernels.sums_before, 1, [sums]),
            (kernels.chunk_starts, sums.size, [starts, sums, self._chunk]),
            (kernels.place, n, [cells, ranks, starts, ids]),
            (kernels.in_order, n, [cells, ranks, starts, ids, cells if groups is None else groups, groups is not None]),
        ]

    def _sorted_by_digits(self, points: array, inverse: float, groups: array | None) -> list[_Step]:
        """Return the launches of a build on the CPU."""
        n, table = points.size, self._table
        cells, ids = self._next.arrays[:2]
        pairs, places = self._scratch
        blocks, shift = _blocks(n), self._digit_bits
        # The arrays may have room for more points; kernels take the number of points from the extents.
        if n < cells.size:
            ids, cells, pairs = ids[:n], cells[:n], pairs[:n]
        # One count for each digit and block, digit by digit, so that one prefix sum over all gives each block its
        # places.
        if places.size != blocks << shift:
            places = places[: blocks << shift]
        where = [points, self.dtype(inverse), *self._dims, shift]
        whole = [*where, cells, places, pairs, ids]
        steps: list[_Step] = []
        if blocks == 1 and self._cells < _MOST_NOTED:
            steps = [(kernels.build_alone, 1, [*whole, table, self._cells + 1])]
        else:
            split = [shift, -(-n // blocks), blocks]
            steps = [
                (kernels.first_digits, blocks, [*where, *split[1:], cells, places]),
                (kernels.sums_before, 1, [places]),
                (kernels.place_first, blocks, [cells, *split, places, pairs]),
                (kernels.second_digits, blocks, [pairs, *split, places]),
                (kernels.sums_before, 1, [places]),
                (kernels.place_second, blocks, [pairs, *split, places, ids, cells]),
                (
                    kernels.begin_cells,
                    -(-(self._cells + 1) // self._chunk),
                    [cells, table, self._cells + 1, self._chunk],
                ),
            ]
        if groups is not None:
            steps.append((kernels.in_order_of_groups, n, [cells, table, ids, groups]))
        return steps

    def _allocate(self) -> None:
        """Make room for all points, in arrays whose contents no tape needs."""
        room, chunks = max(self._room, 1), -(-(self._cells + 1) // self._chunk)
        if not self._scratch or self._scratch[0].size < room:
            if self._by_digits:
                self._scratch = (
                    new((room,), INT64, False, self.device),
                    *self._arrays(_blocks(room) << self._digit_bits),
                )
            else:
                self._scratch = self._arrays(room, chunks)
            # The first place of each cell, and on the CPU of how many points they are, and the cells of these. Every
            # build writes it; zeros are the table of no points.
            noted = room + 1 if self._by_digits and self._cells < _MOST_NOTED else 0
            self._table = new((self._cells + 1 + noted,), INT32, True, self.device)
        now, lengths = self._next, [room] * (3 if self._room_for_groups else 2)
        # A content that a tape keeps has to stay as it is, so the next build gets new arrays.
        if now.kept or len(now.arrays) < len(lengths) or now.arrays[0].size < room:
            cells, ids, *groups = self._arrays(*lengths)
            made = functools.partial(_begun, cells, ids, self._cells + 1, self._chunk, self._by_digits)
            self._next = Content((cells, ids, *groups), derived=Derived(STARTS, self._table, made))

    def _arrays(self, *lengths: int) -> tuple[array, ...]:
        return tuple([new((length,), INT32, False, self.device) for length in lengths])

    def _flat(self, given: Any, what: str, element: Any) -> array:
        """Return one of the arrays, along one axis."""
        if not isinstance(given, array):
            raise LaunchError(
                f"the {what} of a HashGrid are an array, not {type(given).__name__}",
                remedy="make one with dk.array(values, dtype=dk.vec3)",
            )
        if given.device is not self.device:
            raise LaunchError(
                f"the {what} must live on the same device as the HashGrid, which is on {self.device}, not on "
                f"{given.device}",
                remedy=f"pass {what}.to({str(self.device)!r}), or make the grid with device={str(given.device)!r}",
            )
        if given._element != element:
            raise LaunchError(
                f"the {what} of this HashGrid are {element}, not {given._element}",
                remedy=f"make the grid with dtype=, or convert the {what}",
            )
        if given.ndim == 1:
            return given
        return (given if given.is_contiguous else given.contiguous()).flatten()

    def __repr__(self) -> str:
        return f"HashGrid({', '.join(map(str, self._dims))}, device={str(self.device)!r}, dtype={self.dtype!r})"


def _begun(
    cells: array, ids: array, number: int, chunk: int, by_digits: bool, table: array, words: Sequence[int]
) -> PackedLaunch:
    """Return the launch that writes the first place of each cell to a table, of points that were sorted."""
    n = words[COUNT]
    cells, ids, device = cells[:n], ids[:n], table.device
    if not by_digits:  # the cells are in the order of the points
        return PackedLaunch(kernels.begin_counted, number, [cells, ids, table], device)
    if _blocks(n) == 1 and number <= _MOST_NOTED:
        return PackedLaunch(kernels.update_cells, 1, [cells, table, number], device)
    return PackedLaunch(kernels.begin_cells, -(-number // chunk), [cells, table, number, chunk], device)


def _blocks(n: int) -> int:
    """Return the number of threads that sort so many points on the CPU."""
    return min(max(1, n // _BLOCK), _MOST_BLOCKS)


def _scalar(dtype: Any) -> Scalar:
    try:
        found = FLOAT32 if dtype is None else resolve_dtype(dtype)
    except TypeError:
        found = None
    if found not in _FLOATS or not isinstance(found, Scalar):
        raise LaunchError(
            f"the coordinates of a HashGrid are float16, float32 or float64, not {dtype!r}",
            remedy="write dtype=dk.float32",
        )
    return found


@functools.lru_cache(maxsize=64)
def _inverse(scalar: Scalar, size: float) -> float:
    """Return 1 / radius in the precision in which kernels compute cells."""
    number = np.float64 if scalar == FLOAT64 else np.float32
    with np.errstate(all="ignore"):
        found = float(number(1.0) / number(size))
    if not math.isfinite(found):
        raise LaunchError(
            f"a radius of {size} is too small for {scalar}",
            remedy="take a larger radius, or a grid of dtype=dk.float64",
        )
    return found
