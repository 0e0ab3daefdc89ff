"""The translation of a launch given as blocks and threads, in numba's order of axes, to a launch over a grid.

``kernel[blocks, threads]`` becomes a :class:`Layout`, which is all that the program has to know of it (and part of its
key), and the dimensions of the launch. There are two kinds:

- Threads that do not cooperate form a grid of threads, with the x axis last, which is the fastest.
- Threads that cooperate are numbered block by block: along one axis by their number, along several with the thread in
  its block as the last axis of the launch.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Layout", "lay_out"]

Triple = tuple[int, int, int]


class Layout(NamedTuple):
    """The facts about a launch that a program depends on.

    Attributes
    ----------
    axes
        The number of axes, from x on, with more than one thread.
    threads
        Threads of a block along x, y and z.
    together
        True if the launch is numbered block by block.
    rows
        Blocks along y, where the program has to know; else 0.
    shared
        Bytes of dynamic shared memory, where the program uses it; else 0.
    """

    axes: int = 1
    threads: Triple = (256, 1, 1)
    together: bool = False
    rows: int = 0
    shared: int = 0

    @property
    def block_dim(self) -> int:
        """Threads of a block."""
        return self.threads[0] * self.threads[1] * self.threads[2]


def lay_out(blocks: Triple, threads: Triple, together: bool, shared: int = 0) -> tuple[Layout, tuple[int, ...]]:
    """Return the layout of a launch, and its dimensions.

    Parameters
    ----------
    blocks, threads : tuple of int
        Blocks of the grid and threads of a block along x, y and z.
    together : bool
        Whether the threads of a block work together.
    shared : int, optional
        Bytes of dynamic shared memory that the program uses.
    """
    # Trailing axes of one thread are dropped, so that more launches share a program.
    axes = max(k + 1 for k in range(3) if k == 0 or blocks[k] * threads[k] > 1)
    # Without cooperation the borders of blocks do not matter, only the index of each thread.
    if not together or axes == 1:
        layout = Layout(axes, threads, together, 0, shared)
        return layout, tuple(blocks[k] * threads[k] for k in reversed(range(axes)))
    x, y, z = blocks
    # The number of rows is needed only to take y and z apart, and would otherwise make programs differ for nothing.
    layout = Layout(axes, threads, True, y if z > 1 else 0, shared)
    return layout, (y * z, x, layout.block_dim)
