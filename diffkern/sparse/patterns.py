"""Patterns of sparse matrices: from contributions, listed row by row, to offsets, columns and what each block sums."""

from __future__ import annotations

import math
from typing import Any

from diffkern.ir.types import INT64, UINT32
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.native.pool import num_threads
from diffkern.runtime.records.launch import launch
from diffkern.sparse import pattern_kernels as kernels
from diffkern.sparse.matrix import BsrMatrix
from diffkern.sparse.storage import as_parts, integers, new_values

__all__ = [
    "Contributions",
    "Placed",
    "checked",
    "from_blocks",
    "from_places",
    "place",
    "place_triplets",
    "prefix_sums",
    "set_pattern",
    "set_row_lengths",
    "target",
    "total",
]

TOPOLOGIES = ("compact", "masked", "padded")
_SERIAL = 1 << 15
"""The most counts that one thread of a GPU adds up."""
_FEW = 1 << 12
"""The most triplets, and rows, that one thread of a CPU sorts alone."""
_ALONE = 2
"""The most threads that together are slower than one that counts."""
_CACHED = 1 << 19
"""The most triplets that are counted: at random places of more memory than a cache holds, to sort rows is faster."""


@dataclass(frozen=True)
class Contributions:
    """Contributions to blocks, row by row.

    Attributes
    ----------
    starts : array of int32
        Where the contributions to each row begin, and the end.
    keys : array of int64
        Column and number of each contribution; see :mod:`diffkern.sparse.pattern_kernels`.
    nrow : int
        Number of rows of blocks.
    """

    starts: array
    keys: array
    nrow: int


@dataclass(frozen=True)
class Placed:
    """The contributions to the blocks of a matrix: those with numbers ``order[first[b]:last[b]]``, for block b.

    Attributes
    ----------
    first, last, order : array of uint32
        See above. Blocks without contributions have ``first[b] == last[b]``.
    count : int
        Number of blocks, or an upper bound.
    """

    first: array
    last: array
    order: array
    count: int


def prefix_sums(counts: array, sums: array, n: int) -> None:
    """Write the sum of the counts before each of n places, and the total behind them."""
    if counts.device.is_cpu or n <= _SERIAL:
        launch(kernels.sums_before, dim=1, inputs=[counts, sums, n])
        return
    chunk = math.isqrt(n) + 1
    chunks = -(-n // chunk)
    partial, before = integers(chunks, counts), integers(chunks + 1, counts)
    launch(kernels.chunk_sums, dim=chunks, inputs=[counts, partial, chunk, n])
    launch(kernels.sums_before, dim=1, inputs=[partial, before, chunks])
    launch(kernels.sums_in_chunks, dim=chunks, inputs=[counts, before, sums, chunk, n])


def total(sums: array, n: int) -> int:
    """Read the last of the sums before n places."""
    return int(sums[n : n + 1].numpy()[0])


# -- listing contributions ---------------------------------------------------------------------------------------------


def from_places(
    rows: array,
    columns: array,
    nrow: int,
    ncol: int,
    *,
    count: array | None = None,
    pruned: array | None = None,
) -> Contributions:
    """List contributions by arrays of their rows and columns; those outside of the matrix are left out.

    Parameters
    ----------
    rows, columns : array of int32
        The place of each contribution.
    nrow, ncol : int
        Extents of the matrix.
    count : array of int32, optional
        The number of contributions, on the device, if there may be fewer than elements.
    pruned : array, optional
        Blocks, one for each contribution, of which those that are zero are left out.
    """
    n = rows.shape[0]
    ranks, counts, starts = integers(n, rows), integers(nrow, rows, zero=True), integers(nrow + 1, rows)
    values = rows.reshape((n, 1, 1)) if pruned is None else as_parts(pruned)
    limits = [rows if count is None else count, nrow, ncol, int(count is not None), int(pruned is not None)]
    launch(kernels.count_triplets, dim=n, inputs=[rows, columns, values, *limits, ranks, counts])
    prefix_sums(counts, starts, nrow)
    keys = new((n,), INT64, False, rows._memory.device)
    launch(kernels.place_triplets, dim=n, inputs=[rows, columns, ranks, starts, keys])
    return Contributions(starts, keys, nrow)


def from_blocks(matrix: BsrMatrix, pruned: bool = False) -> Contributions:
    """List the blocks of a matrix, without those that are zero if they are pruned."""
    n = matrix.nrow
    starts, ends, _ = matrix._rows()
    counts, places = integers(n, matrix), integers(n + 1, matrix)
    blocks = [starts, ends, matrix.columns, matrix.scalar_values, matrix.ncol, int(pruned)]
    launch(kernels.count_blocks, dim=n, inputs=[*blocks, counts])
    prefix_sums(counts, places, n)
    keys = new((max(matrix.nnz, 1),), INT64, False, matrix.values._memory.device)
    launch(kernels.list_blocks, dim=n, inputs=[*blocks, places, keys])
    return Contributions(places, keys, n)


def place_triplets(
    rows: array,
    columns: array,
    dest: BsrMatrix,
    nrow: int,
    ncol: int,
    topology: str = "compact",
    *,
    count: array | None = None,
    pruned: array | None = None,
    blocks: array | None = None,
    room: tuple[array, array, array] | None = None,
) -> Placed:
    """List contributions as :func:`from_places` does, and give a matrix their pattern as :func:`place` does."""
    n = rows.shape[0]
    if topology != "compact" or not dest.device.is_cpu or not _is_for_one_thread(n, nrow, ncol):
        listed = from_places(rows, columns, nrow, ncol, count=count, pruned=pruned)
        return place(listed, dest, ncol, topology, blocks=blocks, room=room)
    by_counting = n > _FEW
    starts = integers(nrow + 1, dest, zero=by_counting)
    offsets = dest.offsets if dest.offsets.size > nrow else integers(nrow + 1, dest)
    new_columns = dest.columns if dest.columns.size >= n else integers(n, dest)
    if room is None:
        first, last, order = (integers(n, dest, element=UINT32) for _ in range(3))
    else:
        first, last, order = room
    values = rows.reshape((n, 1, 1)) if pruned is None else as_parts(pruned)
    limits = [rows if count is None else count, nrow, ncol, int(count is not None), int(pruned is not None)]
    mapped = [starts if blocks is None else blocks, int(blocks is not None)]
    found = [offsets, new_columns, first, last, order, *mapped]
    if by_counting:
        own = [starts, integers(ncol + 1, dest, zero=True), integers(n, dest, element=UINT32)]
        launch(kernels.place_by_counting, dim=1, inputs=[rows, columns, values, *limits, *own, *found])
    else:
        own = [starts, new((n,), INT64, False, rows._memory.device)]
        launch(kernels.place_alone, dim=1, inputs=[rows, columns, values, *limits, *own, *found])
    set_pattern(dest, nrow, ncol, n, offsets, new_columns)
    return Placed(first, last, order, n)


def _is_for_one_thread(n: int, nrow: int, ncol: int) -> bool:
    """Return whether one thread gives a matrix its pattern sooner than several do."""
    if n <= _FEW and nrow <= _FEW:
        return True
    # It reads and writes every triplet in memory order or at random a few times; several threads compare and share
    # counters. What is as long as the matrix has to be worth it.
    return n <= _CACHED and num_threads() <= _ALONE and nrow + ncol <= 4 * n


# -- the pattern of a matrix -------------------------------------------------------------------------------------------


def place(
    contributions: Contributions,
    dest: BsrMatrix,
    ncol: int,
    topology: str = "compact",
    most: int | None = None,
    blocks: array | None = None,
    room: tuple[array, array, array] | None = None,
) -> Placed:
    """Give a matrix the pattern of contributions, or find them in its own.

    Parameters
    ----------
    contributions : Contributions
        They are sorted in place.
    dest : BsrMatrix
        The matrix, whose rows and columns of blocks become those of the contributions. With ``"padded"`` its offsets
        stay, with ``"masked"`` its whole pattern.
    ncol : int
        Number of columns of blocks.
    topology : str, optional
        ``"compact"``, ``"padded"`` or ``"masked"``.
    most : int, optional
        The greatest number of blocks; others are left out, with a message.
    blocks : array of int32, optional
        Takes the block of each contribution, by its number.
    room : tuple of array of uint32, optional
        Memory for the result: the beginnings and ends, which are zero, and the order.
    """
    starts, keys, nrow = contributions.starts, contributions.keys, contributions.nrow
    n = keys.shape[0] if most is None else min(most, keys.shape[0])
    compact = topology == "compact"
    counts = integers(nrow, dest)
    launch(kernels.sort_rows, dim=nrow, inputs=[starts, keys, counts])
    offsets = dest.offsets if compact and dest.offsets.size > nrow else integers(nrow + 1, dest)
    prefix_sums(counts, offsets, nrow)
    if most is not None and (found := total(offsets, nrow)) > n:
        print(f"max_new_nnz was exceeded: of {found} blocks of the product {n} are kept")
        launch(kernels.cap, dim=nrow + 1, inputs=[offsets, n])
    columns = dest.columns if compact and dest.columns.size >= n else integers(n, dest)
    if room is None:
        first, last = (integers(n, dest, zero=True, element=UINT32) for _ in range(2))
        order = integers(keys.shape[0], dest, element=UINT32)
    else:
        first, last, order = room
    mapped = int(blocks is not None)
    numbers = counts if blocks is None else blocks
    launch(
        kernels.fill_rows,
        dim=nrow,
        inputs=[starts, keys, offsets, columns, first, last, order, numbers, mapped],
    )
    if compact:
        set_pattern(dest, nrow, ncol, n, offsets, columns)
        return Placed(first, last, order, n)
    wanted = dest.nnz
    new_first, new_last = (integers(wanted, dest, zero=True, element=UINT32) for _ in range(2))
    if topology == "padded":
        set_row_lengths(dest)
        fill: list[Any] = [dest.offsets, dest.row_counts, dest.columns, new_first, new_last, dest._ensure_status()]
        launch(kernels.fill_padded, dim=nrow, inputs=[offsets, columns, first, last, *fill])
        dest._note_pattern()
    else:
        own, ends, _ = dest._rows()
        fill = [own, ends, dest.columns, new_first, new_last]
        launch(kernels.fill_masked, dim=nrow, inputs=[offsets, columns, first, last, *fill])
    return Placed(new_first, new_last, order, wanted)


def set_pattern(dest: BsrMatrix, nrow: int, ncol: int, nnz: int, offsets: array, columns: array) -> None:
    """Make a matrix a compact one with a pattern."""
    # Fields of the right types already, which need not be checked.
    vars(dest).update(nrow=nrow, ncol=ncol, nnz=nnz, offsets=offsets, columns=columns, row_counts=None)
    dest._note_pattern()


def set_row_lengths(matrix: BsrMatrix) -> None:
    """Make a matrix a padded one: with a length of each row, at first as much as it has room for."""
    if matrix.row_counts is None or matrix.row_counts.size < matrix.nrow:
        lengths = integers(matrix.nrow, matrix)
        launch(kernels.row_lengths, dim=matrix.nrow, inputs=[matrix.offsets, lengths])
        matrix.row_counts = lengths


def target(dest: BsrMatrix, count: int, smooth: bool, *sources: array) -> array:
    """Return an array for new values of a matrix, its own one unless that is too short or still read.

    Parameters
    ----------
    dest : BsrMatrix
        The matrix.
    count : int
        Number of blocks.
    smooth : bool
        Whether the values depend on others that have a gradient.
    *sources : array
        What the new values are computed from.
    """
    old = dest.values
    read = any(old._memory is one._memory for one in sources)
    if old.size >= count and not read and (old.requires_grad or not smooth):
        return old
    return new_values(max(count, old.size), old._element, old, smooth or bool(old.requires_grad))


def checked(topology: str | None, *allowed: str) -> str:
    """Return which pattern is asked for; ``"compact"`` without a wish."""
    if topology is None:
        return "compact"
    if topology not in (allowed or TOPOLOGIES):
        raise ValueError(f"topology is one of {', '.join(map(repr, allowed or TOPOLOGIES))}, not {topology!r}")
    return topology
