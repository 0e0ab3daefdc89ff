"""``@dk.kernel``: the decorator that makes a :class:`~diffkern.kernels.kernel.Kernel`.

It takes a Python function, or one that numba compiles, and the kernel's options.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

from diffkern.contracts.options import describe
from diffkern.kernels.kernel import Kernel
from diffkern.lang.func import function_of_dispatcher
from diffkern.process.late import CUDA_KERNEL
from diffkern.process.tracebacks import Entrance

__all__ = ["kernel"]


@overload
def kernel(func: Callable[..., Any]) -> Kernel: ...


@overload
def kernel(
    func: None = None,
    *,
    enable_backward: bool | None = None,
    stack_bytes: int | None = None,
    mode: Literal["release", "debug", "finite"] | None = None,
    deterministic: bool | None = None,
    enable_mathdx_gemm: bool | None = None,
    block_dim: int | None = None,
    launch_bounds: int | tuple[int, int] | None = None,
    max_registers: int | None = None,
    compiler: Literal["llvm", "numba"] | None = None,
    fast_math: bool | None = None,
    fuse_fp: bool | None = None,
    lanes: bool | None = None,
    private_copies: bool | None = None,
    race_free: bool | None = None,
    log_searches: bool | None = None,
) -> Callable[[Callable[..., Any]], Kernel]: ...


def kernel(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel of a function: ``@dk.kernel``, or with options ``@dk.kernel(enable_backward=False)``.

    Parameters
    ----------
    func : callable
        The function. Its parameters are annotated with ``dk.array(dtype=…, ndim=…)`` or a scalar or vector type, or
        take the type of what is passed. A kernel made by ``numba.cuda.jit`` is taken as one of :mod:`diffkern.cuda`.
    {options}

    Returns
    -------
    Kernel
    """

    def made(f: Callable[..., Any]) -> Kernel:
        with Entrance("@dk.kernel", f):
            # One of numba.njit is no kernel of numba's: it is refused like anything that is no Python function.
            if function_of_dispatcher(f) is not None and ".cuda" in type(f).__module__:
                found: Kernel = CUDA_KERNEL(f, **options)
                return found
            return Kernel(f, **options)

    with Entrance("@dk.kernel", func):
        return made if func is None else made(func)


describe(kernel)
