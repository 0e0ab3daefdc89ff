"""Making sparse matrices: empty ones, from triplets, and with new values in a known pattern."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffkern.ir.types import INT32, UINT32, Mat, Scalar, scalar_of
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.type_keys import dtype_of
from diffkern.runtime.memory.device import get_device
from diffkern.runtime.native.slow_path import slow_path_flags
from diffkern.runtime.records.launch import launch
from diffkern.sparse import pattern_kernels as kernels
from diffkern.sparse import value_kernels as values_of
from diffkern.sparse.matrix import BsrMatrix, block_type, empty_matrix
from diffkern.sparse.patterns import (
    Placed,
    checked,
    from_blocks,
    place,
    place_triplets,
    prefix_sums,
    set_pattern,
    target,
)
from diffkern.sparse.serial import sets_at_once, sum_at_once
from diffkern.sparse.storage import as_blocks, as_parts, block_shape_of, grown, integers, is_by_parts

__all__ = [
    "BsrTripletMap",
    "bsr_compress",
    "bsr_from_triplets",
    "bsr_set_from_mapped_values",
    "bsr_set_from_triplets",
    "bsr_set_values",
    "bsr_set_zero",
    "bsr_zeros",
]


# -- empty matrices ----------------------------------------------------------------------------------------------------


def bsr_zeros(
    rows_of_blocks: int,
    cols_of_blocks: int,
    block_type: Any,
    device: Any = None,
    *,
    topology: str | None = None,
    row_capacity: int | array | None = None,
    nnz_capacity: int | None = None,
) -> BsrMatrix:
    """Make a matrix without blocks.

    Parameters
    ----------
    rows_of_blocks, cols_of_blocks : int
        Number of rows and columns of blocks.
    block_type : type
        A number's or a matrix's type.
    device : str or diffkern.Device, optional
        Where its arrays are; the current device by default.
    topology : str, optional
        ``"padded"`` for rows with room, which is the default with `row_capacity`; otherwise ``"compact"``.
    row_capacity : int or array of int32, optional
        How many blocks each row has room for.
    nnz_capacity : int, optional
        Number of blocks to allocate; with an array of capacities at least their sum, which is then not read.

    Returns
    -------
    BsrMatrix
        The matrix.

    Raises
    ------
    ValueError
        If the type is no number's or matrix's, an extent is negative, or options contradict each other.
    """
    if rows_of_blocks < 0 or cols_of_blocks < 0:
        raise ValueError(f"a matrix has no {min(rows_of_blocks, cols_of_blocks)} rows or columns: count from 0")
    values = new((0,), _element(block_type), False, get_device(device))
    made = empty_matrix(int(rows_of_blocks), int(cols_of_blocks), values)
    if topology is None:
        topology = "compact" if row_capacity is None else "padded"
    if (checked(topology, "compact", "padded"), row_capacity, nnz_capacity) != ("compact", None, None):
        _empty(made, topology, row_capacity, nnz_capacity, False)
    return made


def _element(block: Any) -> Scalar | Mat:
    return block_type(block)


def bsr_set_zero(
    bsr: BsrMatrix,
    rows_of_blocks: int | None = None,
    cols_of_blocks: int | None = None,
    *,
    topology: str = "compact",
    row_capacity: int | array | None = None,
    nnz_capacity: int | None = None,
) -> None:
    """Make a matrix zero, perhaps with other extents.

    Parameters
    ----------
    bsr : BsrMatrix
        The matrix.
    rows_of_blocks, cols_of_blocks : int, optional
        Its new extents.
    topology : str, optional
        ``"compact"`` drops all blocks and the room of rows, ``"padded"`` keeps the room, ``"masked"`` keeps the blocks
        and makes them zero.
    row_capacity : int or array of int32, optional
        How many blocks each row has room for, with ``"padded"``.
    nnz_capacity : int, optional
        Number of blocks to allocate.

    Raises
    ------
    ValueError
        If options contradict each other.
    """
    topology = checked(topology)
    if topology == "masked":
        if rows_of_blocks not in (None, bsr.nrow) or cols_of_blocks not in (None, bsr.ncol):
            raise ValueError("a matrix that keeps its blocks keeps its extents: leave topology='masked' out")
        bsr.values.zero_()
        return
    resize(bsr, rows_of_blocks, cols_of_blocks)
    _empty(bsr, topology, row_capacity, nnz_capacity, True)


def resize(matrix: BsrMatrix, rows: int | None, columns: int | None) -> None:
    """Give a matrix other extents; rows behind the old ones are empty."""
    matrix._note_pattern()
    rows = matrix.nrow if rows is None else int(rows)
    if rows > matrix.nrow:
        old = matrix.nrow
        matrix.offsets = grown(matrix.offsets, rows + 1)
        launch(kernels.extend_offsets, dim=rows - old, inputs=[old, matrix.offsets])
        if matrix.row_counts is not None:
            counts = integers(rows, matrix, zero=True)
            counts[:old].assign(matrix.row_counts[:old])
            matrix.row_counts = counts
    matrix.nrow = rows
    if columns is not None:
        matrix.ncol = int(columns)


def _empty(
    matrix: BsrMatrix, topology: str, row_capacity: int | array | None, nnz_capacity: int | None, keeps_room: bool
) -> None:
    """Drop all blocks, and give rows the room that is asked for."""
    if nnz_capacity is not None and nnz_capacity < 0:
        raise ValueError(f"room for {nnz_capacity} blocks: nnz_capacity must be nonnegative")
    if row_capacity is not None and topology != "padded":
        raise ValueError("row_capacity requires topology='padded'")
    matrix._note_pattern()
    n, bound = matrix.nrow, 0
    if topology == "compact":
        matrix.offsets.zero_()
        matrix.row_counts = None
        matrix.notify_nnz_changed(0, nnz_capacity)
        return
    offsets, known = matrix.offsets, True
    if isinstance(row_capacity, array):
        if row_capacity.shape != (n,) or row_capacity._element != INT32:
            raise ValueError(
                f"row_capacity has shape ({n},) and int32, one for each row, not {row_capacity._summary()}"
            )
        prefix_sums(row_capacity, offsets, n)
        known = False
    elif row_capacity is not None:
        if row_capacity < 0:
            raise ValueError("row_capacity must be nonnegative")
        launch(kernels.uniform_offsets, dim=n + 1, inputs=[int(row_capacity), offsets])
        bound = n * int(row_capacity)
    elif keeps_room:
        bound = matrix.nnz
    else:
        offsets.zero_()
    matrix.row_counts = integers(n, matrix, zero=True)
    matrix._ensure_status()
    matrix.notify_nnz_changed(bound if known else None, nnz_capacity)


# -- triplets ----------------------------------------------------------------------------------------------------------


class BsrTripletMap:
    """Where the values of triplets go: from :func:`bsr_set_from_triplets`, for new values in the same pattern.

    Parameters
    ----------
    capacity : int, optional
        Number of triplets to allocate memory for.
    device : str or diffkern.Device, optional
        Where the arrays are.

    Attributes
    ----------
    triplet_count : int
        Number of triplets of the last build.
    """

    def __init__(self, capacity: int = 0, device: Any = None) -> None:
        self.triplet_count = 0
        self._allocate(capacity, get_device(device))
        self._placed: Placed | None = None
        self._pattern: tuple[Any, ...] | None = None
        self._token: object = None

    def _allocate(self, count: int, place: Any) -> None:
        self._blocks = new((count,), INT32, False, place)
        self._room = tuple(new((count,), UINT32, False, place) for _ in range(3))

    @property
    def device(self) -> Any:
        """Where the arrays are."""
        return self._blocks.device

    @property
    def capacity(self) -> int:
        """Number of triplets that there is memory for."""
        return self._blocks.size

    @property
    def _triplet_blocks(self) -> array:
        return self._blocks[: self.triplet_count]  # type: ignore[no-any-return]

    @property
    def _triplet_indices(self) -> array:
        return self._room[2][: self.triplet_count]  # type: ignore[no-any-return]

    @property
    def _block_ends(self) -> array:
        return self._room[1][: self.triplet_count]  # type: ignore[no-any-return]

    def _reserve(self, count: int) -> tuple[array, tuple[array, array, array]]:
        """Return memory for the block of each triplet, and for what blocks sum."""
        if count > self.capacity:
            self._allocate(count, self._blocks._memory.device)
        first, last, order = self._room
        self._blocks.fill_(-1)
        first.zero_()
        last.zero_()
        return self._blocks, (first, last, order)

    def _bind(self, dest: BsrMatrix, count: int, placed: Placed | None) -> None:
        self.triplet_count, self._placed = count, placed
        self._pattern = dest.nrow, dest.ncol, dest.offsets, dest.columns, dest.row_counts
        self._token = vars(dest).get("_pattern")

    def validate(self, dest: BsrMatrix) -> None:
        """Raise an error if a matrix is not the one that the map was built for, or got another pattern since.

        Arrays are told apart by identity. What kernels and replays write to them is not seen, what functions of this
        module do to the matrix is.
        """
        if self._pattern is None:
            raise ValueError("the map has not been built: pass it to bsr_set_from_triplets as build_mapping=")
        now = dest.nrow, dest.ncol, dest.offsets, dest.columns, dest.row_counts
        # A shallow copy of a matrix has its arrays, and no note.
        other = vars(dest).get("_pattern", self._token) is not self._token
        if other or any(a != b if isinstance(a, int) else a is not b for a, b in zip(self._pattern, now, strict=True)):
            raise ValueError("the matrix has another pattern than when the map was built: build a new map")


def bsr_from_triplets(
    rows_of_blocks: int,
    cols_of_blocks: int,
    rows: array,
    columns: array,
    values: array,
    prune_numerical_zeros: bool = True,
) -> BsrMatrix:
    """Make a compact matrix of triplets: row, column and block. Blocks at one place are added up.

    Parameters
    ----------
    rows_of_blocks, cols_of_blocks : int
        Number of rows and columns of blocks.
    rows, columns : array of int32
        The place of each triplet. Those outside of the matrix are left out.
    values : array
        The blocks: numbers or matrices, or numbers of shape (n, rows of a block, columns of a block).
    prune_numerical_zeros : bool, optional
        Whether blocks that are zero are left out. Blocks that only add up to zero stay.

    Returns
    -------
    BsrMatrix
        The matrix, whose `nnz` is the number of triplets until :meth:`BsrMatrix.nnz_sync`.

    Raises
    ------
    TypeError, ValueError
        If the arrays do not fit together.

    Examples
    --------
    >>> import numpy as np, diffkern as dk
    >>> i, j = dk.array([0, 1, 0], dtype=int), dk.array([2, 0, 2], dtype=int)
    >>> A = dk.sparse.bsr_from_triplets(2, 3, i, j, dk.array([1.0, 2.0, 3.0], dtype=dk.float32))
    >>> (A @ dk.array([1.0, 1.0, 10.0], dtype=dk.float32)).numpy()
    array([40.,  2.], dtype=float32)
    """
    _check_array("values", values)
    element: Any = values._element
    if values.ndim == 3 and isinstance(element, Scalar):
        element = Mat(element, values.shape[1], values.shape[2])
    made = bsr_zeros(rows_of_blocks, cols_of_blocks, dtype_of(element), values._memory.device)
    made.values._speak(values.in_warps_dialect)
    bsr_set_from_triplets(made, rows, columns, values, prune_numerical_zeros=prune_numerical_zeros)
    return made


def bsr_set_from_triplets(
    dest: BsrMatrix,
    rows: array,
    columns: array,
    values: array | None = None,
    count: array | None = None,
    prune_numerical_zeros: bool = True,
    topology: str | None = None,
    build_mapping: BsrTripletMap | bool | None = None,
) -> BsrTripletMap | None:
    """Give a matrix the blocks of triplets, instead of its own.

    Triplets are sorted by row and column on the device; those at one place are added up in their order, so the result
    has the same bits in each run.

    Parameters
    ----------
    dest : BsrMatrix
        The matrix.
    rows, columns : array of int32
        The place of each triplet. Those outside of the matrix are left out.
    values : array, optional
        The blocks: of the matrix's type, or numbers of shape (n, rows of a block, columns of a block). Without them the
        matrix gets the pattern alone, and values of any kind.
    count : array of int32, optional
        One number: how many triplets there are, if fewer than elements.
    prune_numerical_zeros : bool, optional
        Whether blocks that are zero are left out.
    topology : str, optional
        ``"compact"``; ``"masked"`` keeps the pattern of the matrix and leaves out what is not in it; ``"padded"`` uses
        the room of its rows, and sets the status if there is too little.
    build_mapping : bool or BsrTripletMap, optional
        Whether to return a map for new values of the same triplets, or the map to rebuild.

    Returns
    -------
    BsrTripletMap or None
        The map.

    Raises
    ------
    TypeError, ValueError
        If the arrays do not fit together.
    """
    topology = checked(topology)
    mapping = _map(build_mapping, dest)
    if mapping is not None and topology != "compact":
        raise ValueError('build_mapping requires topology="compact"')
    if mapping is not None and prune_numerical_zeros:
        raise ValueError("build_mapping requires prune_numerical_zeros=False: another value may be zero")
    n = _check_places(dest, rows, columns, count)
    source = None if values is None else _blocks(dest, values, n)
    if n == 0:
        bsr_set_zero(dest, topology=topology)
        if mapping is not None:
            mapping._bind(dest, 0, None)
        return mapping
    if source is not None and mapping is None and topology == "compact":
        triplets = rows, columns, source
        if _set_at_once(dest, triplets, count, prune_numerical_zeros):
            return None
    pruned = source if prune_numerical_zeros else None
    blocks, room = (None, None) if mapping is None else mapping._reserve(n)
    extents = dest.nrow, dest.ncol
    placed = place_triplets(
        rows, columns, dest, *extents, topology, count=count, pruned=pruned, blocks=blocks, room=room
    )
    if source is not None:
        set_sums(dest, placed, source)
    else:
        dest.values = grown(dest.values, placed.count)
    if mapping is not None:
        mapping._bind(dest, n, placed)
    return mapping


def _set_at_once(dest: BsrMatrix, triplets: tuple[array, array, array], count: array | None, pruned: bool) -> bool:
    """Give a matrix of numbers the sums of triplets if nothing observes it and one thread does it soonest."""
    rows, places, source = triplets
    n, nrow = rows.shape[0], dest.nrow
    is_plain = not slow_path_flags.word[0] and dest.device.is_cpu and type(source._element) is Scalar
    if not is_plain or not nrow or not sets_at_once(n):
        return False
    offsets = dest.offsets if dest.offsets.size > nrow else integers(nrow + 1, dest)
    columns = dest.columns
    if columns.size < n or columns._memory is places._memory:
        columns = integers(n, dest)
    out = target(dest, n, bool(source.requires_grad), source)
    limits = [rows if count is None else count, nrow, dest.ncol, int(count is not None), int(pruned)]
    sum_at_once(triplets, limits, offsets, columns, out)
    set_pattern(dest, nrow, dest.ncol, n, offsets, columns)
    dest.values = out
    return True


def set_sums(dest: BsrMatrix, placed: Placed, source: array) -> None:
    """Let each block be the sum of what contributes to it."""
    out = target(dest, placed.count, bool(source.requires_grad), source)
    where = [placed.first, placed.last, placed.order]
    if is_by_parts(out):
        parts = as_parts(out)
        dim, one = (placed.count, *parts.shape[1:]), np.float32(1.0)
        launch(values_of.gather_converted, dim=dim, inputs=[*where, as_parts(source), one, parts])
    else:
        launch(values_of.gather, dim=placed.count, inputs=[*where, source, out])
    dest.values = out


def _map(wanted: Any, dest: BsrMatrix) -> BsrTripletMap | None:
    if wanted is None or wanted is False:
        return None
    if wanted is True:
        return BsrTripletMap(device=dest.device)
    if not isinstance(wanted, BsrTripletMap):
        raise TypeError(f"build_mapping is True, False or a BsrTripletMap, not {type(wanted).__name__}")
    if wanted.device is not dest.device:
        raise ValueError("map and matrix must be on the same device")
    return wanted


def _check_array(name: str, given: Any) -> None:
    if not isinstance(given, array):
        raise TypeError(f"{name} is an array, not {type(given).__name__}: make one with dk.array(…, dtype=…)")


def _check_places(dest: BsrMatrix, rows: array, columns: array, count: array | None) -> int:
    _check_array("rows", rows)
    _check_array("columns", columns)
    if rows._element != INT32 or columns._element != INT32:
        raise TypeError("Rows and columns arrays must be of type int32")
    if rows.ndim != 1 or rows.shape != columns.shape:
        raise ValueError(f"rows and columns have one axis and as many elements, not {rows.shape} and {columns.shape}")
    for one in (rows, columns, *(() if count is None else (count,))):
        if one.device is not dest.device:
            raise ValueError(f"matrix and triplets must be on the same device, not {dest.device} and {one.device}")
    if count is not None and (count._element != INT32 or count.size != 1):
        raise (TypeError if count._element != INT32 else ValueError)(
            f"the number of triplets is an array of one int32, not {count._summary()}"
        )
    return rows.shape[0]


def _blocks(dest: BsrMatrix, values: array, n: int) -> array:
    """Return values of triplets as blocks of a matrix."""
    _check_array("values", values)
    element = dest.values._element
    shape = block_shape_of(element)
    if values.device is not dest.device:
        raise ValueError(f"matrix and values must be on the same device, not {dest.device} and {values.device}")
    if values.ndim not in (1, 3) or values.shape[0] != n:
        raise ValueError(f"values have one or three axes and {n} elements, as many as rows, not shape {values.shape}")
    fits = values.shape[1:] == shape if values.ndim == 3 else block_shape_of(values._element) == shape
    if not fits or scalar_of(values._element) != scalar_of(element):  # type: ignore[arg-type]
        raise ValueError(f"blocks of this matrix are {element}, not {values._summary()}")
    if not values.is_contiguous:
        raise ValueError("values of triplets must be contiguous: pass values.contiguous()")
    return as_blocks(as_parts(values) if values.ndim == 1 and values._element != element else values, element)  # type: ignore[arg-type]


def bsr_set_from_mapped_values(
    dest: BsrMatrix, mapping: BsrTripletMap, values: array, reduction: str = "gather"
) -> None:
    """Give a matrix new values of the triplets that a map was built for.

    Parameters
    ----------
    dest : BsrMatrix
        The matrix whose pattern the map was built with.
    mapping : BsrTripletMap
        The map.
    values : array
        A block for each triplet.
    reduction : str, optional
        ``"gather"`` adds up the values of each block in their order; ``"atomic"`` adds each value to its block.

    Raises
    ------
    TypeError, ValueError
        If matrix, map and values do not fit together.
    """
    if not isinstance(mapping, BsrTripletMap):
        raise TypeError(f"a map is a BsrTripletMap, not {type(mapping).__name__}")
    mapping.validate(dest)
    if reduction not in ("gather", "atomic"):
        raise ValueError(f"reduction is 'gather' or 'atomic', not {reduction!r}")
    source = _blocks(dest, values, mapping.triplet_count)
    placed = mapping._placed
    if placed is None:
        return
    n = min(placed.count, dest.nnz)
    out = target(dest, n, bool(source.requires_grad), source)
    if reduction == "gather":
        launch(values_of.gather, dim=n, inputs=[placed.first, placed.last, placed.order, source, out])
    else:
        out[:n].zero_()
        launch(values_of.scatter_add, dim=mapping.triplet_count, inputs=[mapping._triplet_blocks, source, out])
    dest.values = out


def bsr_set_values(dest: BsrMatrix, mapping: BsrTripletMap, values: array) -> None:
    """Assemble again in the same pattern: give a matrix the sums of new values of its triplets.

    The triplets are not sorted again; it is one launch, which has a derivative, and may be recorded.

    Parameters
    ----------
    dest : BsrMatrix
        The matrix.
    mapping : BsrTripletMap
        From ``bsr_set_from_triplets(…, prune_numerical_zeros=False, build_mapping=True)``.
    values : array
        A block for each triplet.

    Raises
    ------
    TypeError, ValueError
        If matrix, map and values do not fit together.
    """
    bsr_set_from_mapped_values(dest, mapping, values)


def bsr_compress(
    src: BsrMatrix,
    prune_numerical_zeros: bool = True,
    inplace: bool = False,
    topology: str | None = None,
    structure_only: bool = False,
) -> BsrMatrix:
    """Sort the blocks of each row by column, add up those at one place, and leave out those without a place.

    Parameters
    ----------
    src : BsrMatrix
        The matrix, which is changed.
    prune_numerical_zeros : bool, optional
        Whether blocks that are zero are left out.
    inplace : bool, optional
        Accepted, with no effect: the values are computed into another array, and have a derivative.
    topology : str, optional
        ``"compact"``, or ``"padded"`` to keep the room of rows.
    structure_only : bool, optional
        Whether to change the pattern alone; blocks and values no longer belong together then.

    Returns
    -------
    BsrMatrix
        The matrix `src`.

    Raises
    ------
    ValueError
        If `src` is not a matrix, or for another topology.
    """
    if not isinstance(src, BsrMatrix):
        raise ValueError(f"a BsrMatrix is compressed, not {type(src).__name__}: call eval() first")
    topology = checked(topology, "compact", "padded")
    bound, old = src.nnz, src.values
    listed = from_blocks(src, prune_numerical_zeros and not structure_only)
    placed = place(listed, src, src.ncol, topology)
    src.nnz = bound
    if not structure_only and bound:
        set_sums(src, placed, old)
    return src
