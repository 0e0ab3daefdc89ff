"""The door to the run time on GPUs, which is loaded when a program first asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffkern.runtime.cuda.entry import Gpu

__all__ = ["gpu"]


def gpu() -> type[Gpu]:
    """What the run time asks of GPUs, by names; loading it needs no driver."""
    from diffkern.runtime.cuda.entry import Gpu  # the one import of what stands above, for what few programs use

    return Gpu
