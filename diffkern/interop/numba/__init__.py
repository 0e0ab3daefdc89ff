"""Funcs, their derivatives and threads of kernels inside functions that numba compiles.

numba and numba-cuda call :func:`init_cpu` and :func:`init_cuda` before they compile the first function of a process:
they are the package's entry points ``numba_extensions`` and ``numba_cuda_extensions``. Nothing here is imported before.

    calls       what is called, with which types; the same for both compilers
    types       numba's types and those of the IR
    cpu         LLVM code of the function, linked into the caller's
    gpu         readable source of the function, compiled by numba-cuda as a device function
"""

from __future__ import annotations

__all__ = ["init_cpu", "init_cuda"]


def init_cpu() -> None:
    """Let functions compiled by ``numba.njit`` call what diffkern has."""
    from diffkern.interop.numba import cpu

    cpu.register()


def init_cuda() -> None:
    """Let functions compiled by ``numba.cuda.jit`` call what diffkern has."""
    from diffkern.interop.numba import gpu

    gpu.register()
