"""Lazy access to the run time on GPUs, which is loaded when a program first needs one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffkern.runtime.cuda.entry import Gpu

__all__ = ["gpu"]


def gpu() -> type[Gpu]:
    """Return the functions of the GPU run time by name; loading it needs no driver."""
    from diffkern.runtime.cuda.entry import Gpu  # the one import of what stands above, for what few programs use

    return Gpu
