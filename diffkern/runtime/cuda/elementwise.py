"""The kernels by which arrays on a GPU are copied and added where the driver has no call for it.

The kernels are diffkern's own (:mod:`diffkern.transforms.elementwise`), above the run time; the code that loads the
compiler registers here where they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from diffkern.process.late import ELEMENTWISE

if TYPE_CHECKING:
    from diffkern.runtime.launch.kernel_protocol import KernelProtocol

__all__ = ["elementwise"]


def elementwise(name: str, ndim: int) -> KernelProtocol:
    """Return the kernel ``copy`` or ``add`` for arrays of one to four axes."""
    kernel: KernelProtocol = ELEMENTWISE(name, ndim)
    return kernel
