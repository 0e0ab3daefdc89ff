"""The kernels by which arrays on a GPU are copied and added where the driver has no call for it.

The kernels are diffkern's own (:mod:`diffkern.transforms.elementwise`), above the run time; the code that loads the
compiler registers here where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffkern.runtime.launch.kernel_protocol import KernelProtocol

__all__ = ["elementwise", "set_source"]

_source: Callable[[str, int], KernelProtocol] | None = None


def set_source(source: Callable[[str, int], KernelProtocol]) -> None:
    """Set the function that provides the kernels."""
    global _source
    _source = source


def elementwise(name: str, ndim: int) -> KernelProtocol:
    """Return the kernel ``copy`` or ``add`` for arrays of one to four axes."""
    assert _source is not None
    return _source(name, ndim)
