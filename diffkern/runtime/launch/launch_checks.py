"""Checks that a program can run on a grid with given arguments.

They give the grid, or raise a :class:`LaunchError` with the kernel and the parameter, before anything has run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diffkern.errors import LaunchError
from diffkern.runtime.arrays.array import array
from diffkern.runtime.launch.grid_checks import OneThreadError, named
from diffkern.runtime.launch.kernel_protocol import KernelProtocol
from diffkern.runtime.launch.nested_arrays import check_disjoint
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.resources import check_places
from diffkern.runtime.launch.schedule import USUAL, Blocks, Grid
from diffkern.runtime.launch.shared_memory import check_shared
from diffkern.runtime.memory.device import CPU

__all__ = ["DIMS", "check_fit", "check_writable", "grid_of"]

DIMS = "give dim as one to four whole numbers; where threads work together in blocks, as whole blocks of them"
"""The remedy for invalid dimensions."""


def grid_of(kernel: KernelProtocol, executable: Executable, dim: Any, blocks: Blocks = USUAL) -> Grid:
    """Return the grid of a launch; raise, with the kernel's name, if the dimensions are invalid."""
    if blocks.threads and executable.manifest.tiled and not kernel.dialect.launches_count_tiles:
        # Each index of such a launch would be a block that works on whole tiles, where the call says a thread.
        raise LaunchError(
            f"kernel {kernel.name!r} works on tiles, a block of threads for each, and this launch counts threads",
            remedy=f"write dk.launch_tiled({kernel.name}, dim=<blocks>, inputs=[…], block_dim=<threads of a block>)",
        )
    try:
        return executable.grid(dim, blocks)
    except OneThreadError as error:
        error.loc = kernel.update_of_all_threads(executable)
        raise named(kernel.name, error) from None
    except LaunchError as error:
        raise named(kernel.name, error) from None
    except ValueError as error:
        raise LaunchError(f"kernel {kernel.name!r}: {error}", remedy=DIMS) from None


def check_fit(
    kernel: KernelProtocol, executable: Executable, grid: Grid, parts: Sequence[bytes], arrays: Sequence[array | None]
) -> None:
    """Raise unless a program takes these arguments in a launch over a grid.

    Raises
    ------
    LaunchError
        If threads would leave an array where no condition guards the access, if the kernel writes to read-only memory,
        to what an element points to or what another array shares, if it is given the id of an object on another
        device, or if the code assumes more of an array's address than holds.
    """
    if executable.by_id:
        check_places(kernel.name, executable, parts)
        check_disjoint(kernel.name, executable, arrays)
    if executable.extents is not None:
        executable.extents.check(kernel.name, grid, b"".join(parts))
    check_writable(kernel, executable, arrays)
    check_shared(kernel.name, executable, arrays)
    # Code for a GPU may rely on the alignment of addresses, which the types do not tell.
    if executable.device is not CPU:
        executable.check(lambda: b"".join(parts))


def check_writable(kernel: KernelProtocol, executable: Executable, arrays: Sequence[array | None]) -> None:
    """Raise if the kernel writes to read-only memory."""
    for index in executable.writes:
        held = arrays[index]
        if held is not None and not held._writable:
            raise LaunchError(
                f"kernel {kernel.name!r}, parameter {executable.name_of(index)!r}: the kernel writes to it, and the "
                "array is read-only",
                remedy="pass a copy",
            )
