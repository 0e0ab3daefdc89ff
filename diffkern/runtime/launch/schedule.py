"""Schedules: the chunks of a launch, and how an adjoint's accumulations are kept from racing between them.

The plans are small frozen values. They depend on the dimensions and sizes, and on how many processors the process may
use, never on the number of threads, so that results do not either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from diffkern.contracts.extents import several, whole_number
from diffkern.process.dataclass import dataclass
from diffkern.runtime.launch.partition import COST_UNIT, INTEGERS, Grain, chunk_of, distance_of, partition
from diffkern.runtime.native.processors import processors

__all__ = [
    "OF_THREADS",
    "USUAL",
    "WITHOUT_BLOCKS",
    "Blocks",
    "ChunkGrid",
    "Conflicts",
    "Grid",
    "Plan",
    "check_whole_blocks",
    "cost_units",
    "cut",
    "cut_blocks",
    "cut_groups",
    "grain_of",
    "normalize_dim",
    "plan_adjoint",
]

MAX_BLOCK_DIM = 1024

# A chunk of less work than this costs more to hand over than it saves. In operations of about half a nanosecond.
_CHUNK_WORK = 20_000.0
_LIMIT = 2**31
_ALL = 2**62


class Blocks(NamedTuple):
    """The block options of a launch; None where it does not give one.

    Attributes
    ----------
    block_dim
        Threads of a block.
    max_blocks
        Largest number of blocks of a GPU's grid.
    tiled
        Whether its dimensions count blocks, and the kernel may ask for the thread in its block as one more index.
    threads
        Whether they count threads; else blocks or threads, whichever the kernel works in.
    """

    block_dim: int | None = None
    max_blocks: int | None = None
    tiled: bool = False
    threads: bool = False


USUAL = Blocks()
"""A launch that says nothing."""

OF_THREADS = Blocks(threads=True)
"""A launch that says that it counts threads."""

WITHOUT_BLOCKS = USUAL, OF_THREADS
"""Launches that say nothing about blocks."""


@dataclass(frozen=True, slots=True)
class ChunkGrid:
    """A range of threads in chunks."""

    dims: tuple[int, int, int, int]
    n: int
    chunk: int

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.n // self.chunk)


@dataclass(frozen=True, slots=True)
class Plan:
    """The schedule of an adjoint.

    Attributes
    ----------
    cut
        The chunks.
    colours
        1, or 2 where neighbouring chunks must not run at the same time.
    private
        Parameters whose cotangent every chunk accumulates in a copy of its own, added up in order afterwards.
    """

    cut: ChunkGrid
    colours: int = 1
    private: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Conflicts:
    """The cotangents in which threads would race with plain accumulation.

    Attributes
    ----------
    general
        Parameters whose threads may collide anywhere.
    reach
        Of the others: for each axis of the thread index, the largest distance of two threads that collide.
    copyable
        Whether a private copy may stand in for each of the general ones: not if the adjoint reads it as well.
    """

    general: tuple[int, ...]
    reach: tuple[int, ...]
    copyable: bool


def normalize_dim(dim: Any) -> tuple[int, ...]:
    """Return a launch's dimensions as a tuple of one to four integers.

    Raises
    ------
    ValueError
        If they are not integers, negative, or too large.
    """
    extents = several(dim)
    if not isinstance(extents, tuple):
        extents = (extents,)
    dims = tuple([n for extent in extents if (n := whole_number(extent)) is not None])
    if len(dims) != len(extents):
        raise ValueError(f"dim must be an integer or up to four integers, not {dim!r}")
    if not 1 <= len(dims) <= 4:
        raise ValueError(f"dim has 1 to 4 extents, not {len(dims)}")
    if min(dims) < 0 or (max(dims) >= _LIMIT and 0 not in dims):
        raise ValueError(f"each extent of dim is at least 0 and less than 2**31, not {dim!r}")
    if math.prod(dims) >= 2**62 or max(dims) >= 2**62:
        raise ValueError(f"dim={dim!r} asks for more threads than can be counted")
    return dims


def grain_of(cost: float, lane_counts: tuple[int, ...] = ()) -> Grain:
    """Return the number of threads that make a chunk; more than any launch has where all have to be in one.

    Parameters
    ----------
    cost : float
        Rough operations of one thread.
    lane_counts : tuple of int, optional
        Numbers of threads that run in vector registers, the largest first.
    """
    # A cost of 0 means that the threads have to run one after the other.
    worthwhile = int(_CHUNK_WORK / max(cost, 1.0)) if cost else _ALL
    return Grain(worthwhile, lane_counts[-1], lane_counts[0]) if lane_counts else Grain(worthwhile)


def cut(dims: tuple[int, ...], cost: float, lane_counts: tuple[int, ...] = (), at_least: int = 1) -> ChunkGrid:
    """Return the chunks of a launch.

    Parameters
    ----------
    dims : tuple of int
        The launch's dimensions.
    cost : float
        Rough operations of one thread.
    lane_counts : tuple of int, optional
        Numbers of threads that run in vector registers, the largest first.
    at_least : int, optional
        Shortest chunk that is allowed.
    """
    n = 1
    for extent in dims:
        n *= extent
    padded = (*dims, 1, 1, 1)[:4]
    chunk = chunk_of(INTEGERS, n, grain_of(cost, lane_counts), max(at_least, 1))
    return ChunkGrid((padded[0], padded[1], padded[2], padded[3]), n, chunk)


def cost_units(cost: float) -> int:
    """Return the operations of a thread as an integer, in units of :data:`.partition.COST_UNIT`."""
    return round(max(cost, 1.0) * COST_UNIT)


def cut_groups(
    dims: tuple[int, ...], cost: float, lane_counts: tuple[int, ...], copied: int, block_dim: int = 0
) -> ChunkGrid | None:
    """Return the chunks of a launch whose threads add to elements anywhere, each with copies; None if these do not pay.

    Parameters
    ----------
    dims : tuple of int
        The launch's dimensions.
    cost : float
        Rough operations of one thread.
    lane_counts : tuple of int
        Numbers of threads that run in vector registers, the largest first.
    copied : int
        Scalars that a chunk has copies of.
    block_dim : int, optional
        The threads of a block, where these work together and chunks are of whole blocks; else 0.
    """
    plain = cut_blocks(dims, len(dims), block_dim, cost) if block_dim else cut(dims, cost, lane_counts)
    cost, lane_counts = (cost * block_dim, ()) if block_dim else (cost, lane_counts)
    if not plain.n:
        return None
    grain, work = grain_of(cost, lane_counts), plain.n * cost_units(cost)
    how = partition(INTEGERS, plain.n, grain, work, 0, 1, copied, 1, spare=1, cores=processors())
    return ChunkGrid(plain.dims, plain.n, how.chunk) if how.groups else None


def check_whole_blocks(dims: tuple[int, ...], arity: int, block_dim: int, rows: bool = False) -> None:
    """Check a launch whose threads work together in blocks; with `rows`, each block has to lie in one row of threads.

    Raises
    ------
    ValueError
        If it is not whole blocks.
    """
    if not 1 <= block_dim <= MAX_BLOCK_DIM:
        raise ValueError(f"block_dim is a number from 1 to {MAX_BLOCK_DIM}, not {block_dim!r}")
    if len(dims) != max(arity, 1):
        raise ValueError(f"its threads work in blocks and ask for {max(arity, 1)} axes; dim={dims!r} has {len(dims)}")
    if math.prod(dims) % block_dim:
        raise ValueError(
            f"its threads work together in blocks of {block_dim}, and dim={dims!r} is not whole blocks: pass another "
            "block_dim, or more threads that have nothing to do"
        )
    if rows and dims[-1] % block_dim:
        raise ValueError(
            f"the threads of a block of {block_dim} work on tiles together, with an index along another axis than the "
            f"last, and dim={dims!r} has blocks of several rows: launch it with launch_tiled, or pass a block_dim that "
            "divides the last extent"
        )


def cut_blocks(dims: tuple[int, ...], arity: int, block_dim: int, cost: float) -> ChunkGrid:
    """Return the chunks of a launch whose threads work together in blocks; the units are blocks.

    The last of the four extents is the number of threads of a block.

    Raises
    ------
    ValueError
        If the launch is not whole blocks.
    """
    check_whole_blocks(dims, arity, block_dim)
    blocks = cut((math.prod(dims) // block_dim,), cost * block_dim)
    padded = (*dims, 1, 1)[:3]
    return ChunkGrid((padded[0], padded[1], padded[2], block_dim), blocks.n, blocks.chunk)


def plan_adjoint(
    dims: tuple[int, ...],
    cost: float,
    lane_counts: tuple[int, ...],
    conflicts: Conflicts,
    elements: Mapping[int, int],
) -> Plan | None:
    """Return the plan of an adjoint that accumulates plainly, or None if it has to use atomics.

    Parameters
    ----------
    dims : tuple of int
        The launch's dimensions.
    cost : float
        Rough operations of one thread.
    lane_counts : tuple of int
        Numbers of threads that run in vector registers, the largest first.
    conflicts : Conflicts
        The collisions of threads.
    elements : mapping of int to int
        Scalars in each cotangent that collides anywhere.
    """
    plain = cut(dims, cost, lane_counts)
    if not plain.n:
        return Plan(plain)
    how = partition(
        INTEGERS,
        plain.n,
        grain_of(cost, lane_counts),
        plain.n * cost_units(cost),
        distance_of(INTEGERS, dims, conflicts.reach) or 0,
        int(bool(conflicts.general)),
        sum(elements[index] for index in conflicts.general),
        int(conflicts.copyable),
        spare=1,
        cores=processors(),
    )
    if how.is_atomic:
        return None
    private = conflicts.general if how.groups else ()
    return Plan(ChunkGrid(plain.dims, plain.n, how.chunk), how.colours, private)


# -- the grid ----------------------------------------------------------------------------------------------------------
# The grid of a launch: its threads, and their partition.
#
# A frozen value, the same for the CPU, which runs chunks, and for GPUs, which run blocks.


@dataclass(frozen=True, slots=True)
class Grid:
    """The threads of a launch and their partition.

    Attributes
    ----------
    n : int
        Number of units to distribute: threads, or blocks of them where these work on tiles, or on the CPU together.
    size : int
        Units in a chunk of the CPU; on a GPU the threads of a block.
    count : int
        Number of chunks, or of blocks.
    dims : tuple of int
        The launch's extents, 1 along axes that it does not have.
    header : bytes
        The header of the argument block.
    """

    n: int
    size: int
    count: int
    dims: tuple[int, ...]
    header: bytes
