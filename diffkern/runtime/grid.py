"""The grid of a launch: its threads, and how a program deals them out.

In: what a program makes of a launch's dimensions. Out: a frozen value, the same for the CPU, which runs chunks, and for
GPUs, which run blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Grid"]


@dataclass(frozen=True, slots=True)
class Grid:
    """What a launch runs.

    Attributes
    ----------
    n : int
        What is dealt out: threads, or blocks of them where these work on tiles, or on the CPU together.
    size : int
        Of these in a chunk of the CPU; on a GPU the threads of a block.
    count : int
        Number of chunks, or of blocks.
    dims : tuple of int
        The launch's extents, those that it does not have 1.
    header : bytes
        Of the argument block.
    """

    n: int
    size: int
    count: int
    dims: tuple[int, ...]
    header: bytes
