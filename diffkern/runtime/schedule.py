"""How a launch is cut into chunks, and how an adjoint's accumulations are kept apart between them.

In: a launch's dimensions and the facts of a program's manifest. Out: small frozen plans. They depend on the dimensions
and sizes alone, never on the number of threads, so that results do not either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from diffkern.runtime.extents import several, whole_number

__all__ = [
    "USUAL", "Blocks", "Conflicts", "Cut", "Plan", "check_whole_blocks", "chunk_work", "cut", "cut_blocks",
    "normalize_dim", "plan_adjoint",
]  # fmt: skip

MAX_BLOCK_DIM = 1024

MAX_CHUNKS = 256
MAX_GROUPS = 32
# A chunk of less work than this costs more to hand over than it saves. In operations of about half a nanosecond.
_CHUNK_WORK = 20_000.0
_ROUNDING = 64  # chunks begin on cache lines of the elements they write
_LIMIT = 2**31


class Blocks(NamedTuple):
    """What a launch says of its blocks; None where it does not say.

    Attributes
    ----------
    block_dim
        Threads of a block.
    max_blocks
        The most blocks of a GPU's grid.
    """

    block_dim: int | None = None
    max_blocks: int | None = None


USUAL = Blocks()
"""A launch that says nothing."""


@dataclass(frozen=True, slots=True)
class Cut:
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
    """How an adjoint runs.

    Attributes
    ----------
    cut
        The chunks.
    colours
        1, or 2 where neighbouring chunks must not run at the same time.
    private
        Parameters whose cotangent every chunk accumulates in a copy of its own, added up in order afterwards.
    """

    cut: Cut
    colours: int = 1
    private: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Which cotangents plain accumulation would make threads fight over.

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
        If they are no such thing, negative, or too large.
    """
    extents = several(dim)
    if not isinstance(extents, tuple):
        extents = (extents,)
    dims = tuple([n for extent in extents if (n := whole_number(extent)) is not None])
    if len(dims) != len(extents):
        raise ValueError(f"dim must be an integer or up to four integers, not {dim!r}")
    if not 1 <= len(dims) <= 4:
        raise ValueError(f"dim has 1 to 4 extents, not {len(dims)}")
    if min(dims) < 0 or max(dims) >= _LIMIT:
        raise ValueError(f"each extent of dim is at least 0 and less than 2**31, not {dim!r}")
    if math.prod(dims) >= 2**62:
        raise ValueError(f"dim={dim!r} asks for more threads than can be counted")
    return dims


def chunk_work(cost: float) -> int:
    """Return how many threads of a program are worth a chunk."""
    return int(_CHUNK_WORK / max(cost, 1.0))


def cut(dims: tuple[int, ...], cost: float, at_least: int = 1) -> Cut:
    """Return the chunks of a launch.

    Parameters
    ----------
    dims : tuple of int
        The launch's dimensions.
    cost : float
        Rough operations of one thread.
    at_least : int, optional
        Shortest chunk that is allowed.
    """
    n = 1
    for extent in dims:
        n *= extent
    padded = (*dims, 1, 1, 1)[:4]
    chunk = max(-(-n // MAX_CHUNKS), chunk_work(cost), at_least, 1)
    if chunk > _ROUNDING:
        chunk = -(-chunk // _ROUNDING) * _ROUNDING
    return Cut((padded[0], padded[1], padded[2], padded[3]), n, max(1, min(chunk, max(n, at_least))))


def check_whole_blocks(dims: tuple[int, ...], arity: int, block_dim: int) -> None:
    """Check a launch whose threads work together in blocks.

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


def cut_blocks(dims: tuple[int, ...], arity: int, block_dim: int, cost: float) -> Cut:
    """Return the chunks of a launch whose threads work together in blocks; what is counted are blocks.

    The last of the four extents is the number of threads of a block.

    Raises
    ------
    ValueError
        If the launch is not whole blocks.
    """
    check_whole_blocks(dims, arity, block_dim)
    blocks = cut((math.prod(dims) // block_dim,), cost * block_dim)
    padded = (*dims, 1, 1)[:3]
    return Cut((padded[0], padded[1], padded[2], block_dim), blocks.n, blocks.chunk)


def plan_adjoint(
    dims: tuple[int, ...],
    cost: float,
    conflicts: Conflicts,
    elements: Mapping[int, int],
) -> Plan | None:
    """Return how to run an adjoint that accumulates plainly, or None if it has to be one with atomics.

    Parameters
    ----------
    dims : tuple of int
        The launch's dimensions.
    cost : float
        Rough operations of one thread.
    conflicts : Conflicts
        Where threads collide.
    elements : mapping of int to int
        Scalars in each cotangent that collides anywhere.
    """
    distance = _distance(dims, conflicts.reach)
    plain = cut(dims, cost)
    if plain.chunks <= 1:
        return Plan(plain)
    if not conflicts.general:
        if not distance:
            return Plan(plain)
        coloured = cut(dims, cost, at_least=distance + 1)
        # Fewer than four chunks in two colours leave nothing to do side by side.
        return Plan(coloured, colours=2) if coloured.chunks >= 4 or plain.chunks < 4 else None
    if not conflicts.copyable:
        return None
    work = plain.n * max(cost, 1.0)
    copied = sum(elements[index] for index in conflicts.general)
    groups = MAX_GROUPS
    # Clearing and adding up the copies may cost an eighth of the work; two groups may cost a quarter.
    while groups >= 2 and groups * copied * 2 > work / (4 if groups == 2 else 8):
        groups //= 2
    groups = min(groups, plain.chunks)
    if groups < 2:
        return None
    chunk = max(-(-plain.n // groups), distance + 1)
    grouped = Cut(plain.dims, plain.n, chunk)
    return Plan(grouped, colours=2 if distance else 1, private=conflicts.general)


def _distance(dims: tuple[int, ...], reach: tuple[int, ...]) -> int:
    """Return how far apart in the flattened launch two colliding threads can be."""
    total, stride = 0, 1
    for axis in range(len(dims) - 1, -1, -1):
        if axis < len(reach):
            total += min(reach[axis], max(dims[axis] - 1, 0)) * stride
        stride *= dims[axis]
    return total
