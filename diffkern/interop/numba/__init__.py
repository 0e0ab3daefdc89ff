"""Funcs, their derivatives and threads of kernels inside functions that numba compiles.

If such a function names one of them, numba or numba-cuda asks it for its type, by the attribute ``_numba_type_``.
Nothing here is imported before that.

    calls       the callee and the types of a call; the same for both compilers
    types       numba's types and those of the IR
    cpu         LLVM code of the function, linked into the caller's
    gpu         readable source of the function, compiled by numba-cuda as a device function
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diffkern.lang.called import KnownToNumba

__all__ = ["type_of"]


def type_of(known: KnownToNumba) -> Any:
    """Return the type of an object for the compiler that is at work: numba-cuda, or numba."""
    from numba.core.target_extension import current_target

    if current_target() == "cuda":
        from diffkern.interop.numba import gpu

        return gpu.type_of(known)
    from diffkern.interop.numba import cpu

    return cpu.type_of(known)
