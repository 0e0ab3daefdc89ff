"""Launches of ``cuda.jit`` kernels as checks take them: a launcher, or a kernel with blocks and threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diffkern.errors import MisuseError

__all__ = ["configured"]


def configured(kernel: Any, dim: Any) -> tuple[Any, Any]:
    """Return the kernel and the dimensions of a launch, which may be given as ``kernel[blocks, threads]``.

    Parameters
    ----------
    kernel
        A kernel, or the launcher ``kernel[blocks, threads]``, which has the dimensions.
    dim
        The dimensions; of a kernel of ``cuda.jit`` also the pair of blocks and threads, one of them several numbers.

    Raises
    ------
    MisuseError
        If there are two dimensions, or they do not fit a kernel of ``cuda.jit``.
    """
    configuration = getattr(kernel, "configuration", None)
    if callable(configuration):
        kernel, own = configuration()
        if dim is not None and dim != own:
            raise MisuseError(
                f"the launcher has its blocks and threads, and dim={dim!r} is given as well", remedy="leave dim out"
            )
        return kernel, own
    if not getattr(kernel, "is_numba_kernel", False) or not isinstance(dim, Sequence):
        return kernel, dim
    if len(dim) == 2 and any(isinstance(n, Sequence) for n in dim):
        made: tuple[Any, Any] = kernel[dim[0], dim[1]].configuration()
        return made
    # The program of a kernel that was given no blocks and threads has one axis.
    if len(dim) > 1 and kernel.layout.axes == 1:
        raise MisuseError(
            f"a kernel of cuda.jit is launched with blocks and threads, and dim={dim!r} has {len(dim)} axes",
            remedy=f"pass `{kernel.name}[blocks, threads]` for the kernel and leave dim out; or, for what takes both, "
            "`launcher.kernel, launcher.dim` of it",
        )
    return kernel, dim
