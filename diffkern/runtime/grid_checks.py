"""Whether a launch's dimensions fit a program, seen before anything runs.

In: a program's manifest and the dimensions of a launch. Out: nothing, or a :class:`LaunchError` whose message begins
where the kernel's name ends. What is checked here holds for every way to launch: at once, as a record, on a tape or in
a sequence, from JAX and from PyTorch, and for an adjoint, whose threads are those of the forward launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffkern.errors import LaunchError

__all__ = ["check_axes", "named"]


def named(kernel: str, error: LaunchError) -> LaunchError:
    """Return an error of this module with the kernel's name in front."""
    return LaunchError(f"kernel {kernel!r}: {error.message}", loc=error.loc, remedy=error.remedy)


def check_axes(manifest: Mapping[str, Any], dims: Sequence[Any]) -> None:
    """Check that a launch has as many axes as the kernel asks ``tid()`` for; a kernel that does not ask takes any.

    Parameters
    ----------
    manifest : mapping
        The program's facts.
    dims : sequence
        The launch's dimensions; their number is what counts.

    Raises
    ------
    LaunchError
        With both readings of such dimensions.
    """
    asked, given = int(manifest["tid_arity"]), len(dims)
    if asked in (0, given):
        return
    shown = f"{tuple(dims)}" if given > 1 else f"{dims[0]}"
    raise LaunchError(
        f"dim={shown} is a grid of {_axes(given)}, and the kernel asks tid() for {_axes(asked)}",
        remedy=_readings(asked, dims),
    )


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def _readings(asked: int, dims: Sequence[Any]) -> str:
    """What the dimensions may have been meant to say, and how to say it."""
    unpacked = ", ".join("ijkl"[: len(dims)])
    grid = f"for a grid of {' × '.join(map(str, dims))} threads unpack {unpacked} = dk.tid()"
    if asked == 1 and len(dims) == 2 and all(isinstance(extent, int) for extent in dims):
        blocks, threads = dims
        return (
            f"{grid}; for {blocks} blocks of {threads} threads, numba's reading of kernel[{blocks}, {threads}], write "
            f"kernel[{blocks * threads}] (block_dim={threads} in dk.launch sets the size of a block)"
        )
    return f"{grid}; or give dim {_axes(asked)}"
