"""Launches with other axes than the kernel asks ``tid()`` for.

In Warp's dialect such launches run: axes that the kernel asks for and the launch lacks have one thread, and threads
that differ only along further axes have the same index. The latter are no launches of the same program, as its
derivative may rest on each thread having an index of its own: the kernel is compiled again for so many axes, of which
the last ones do not reach ``tid()``.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from diffkern.contracts.options import Variant
from diffkern.runtime.launch.grid_checks import AxesError
from diffkern.warp.declare import Kernel

__all__ = ["Fitted", "fitted"]

MOST_AXES: Final = 4


class _OfAxes(Kernel):
    """A kernel whose threads have more axes than it asks for.

    Parameters
    ----------
    of : Kernel
        The kernel.
    axes : int
        The number of axes of its launches.
    """

    def __init__(self, of: Any, axes: int) -> None:
        # The options of the original count, also those that are set later.
        self._of: Final = weakref.proxy(of)  # which holds this one
        self._axes: Final = axes
        self.module = of.module
        self.overloads = {}
        self._begin(of.func, of.options, of.name)

    @property
    def variant(self) -> Variant:
        """The forward program for the CPU, with the current options and ``wp.config``."""
        given: Variant = self._of.variant
        return replace(given, axes=self._axes)


Fitted = tuple[Any, "int | tuple[int, ...]"]
"""A kernel and the dimensions of its launch."""


def fitted(kernel: Any, dim: Any, error: AxesError) -> Fitted | None:
    """Return the kernel and the dimensions with which a launch that was refused for its axes runs.

    Parameters
    ----------
    kernel : Kernel
        The kernel that was to be launched.
    dim : int or sequence of int
        The dimensions of the launch, without the threads of a block that works on tiles.
    error : AxesError
        The error of the rejected launch.

    Returns
    -------
    Fitted or None
        None if there is none.
    """
    given = len(error.dims)
    # Missing axes get the extent 1, for which the program need not change.
    if error.asked > given:
        own = tuple(dim) if isinstance(dim, Sequence) else (dim,)
        return kernel, (*own, *[1] * (error.asked - given))
    if not isinstance(kernel, Kernel) or given > MOST_AXES:
        return None
    # Made once for each number of axes, and kept with the kernel.
    known = kernel.of_axes.get(given)
    if known is None:
        known = kernel.of_axes[given] = _OfAxes(kernel, given)
    return known, dim
