"""The grid of a launch: its threads, and their partition.

A frozen value, the same for the CPU, which runs chunks, and for GPUs, which run blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Grid"]


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
