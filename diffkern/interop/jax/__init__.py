"""Kernels as JAX functions, through XLA's FFI: ``dk.jax_kernel``, ``dk.jax_callable`` and ``dk.jax.register``.

Kernels become differentiable functions of JAX arrays whose calls run native code on XLA's buffers, without Python.
JAX itself is imported by the first call, so that this module can be imported without it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from diffkern.kernels.kernel import Kernel
from diffkern.process.tracebacks import brief

if TYPE_CHECKING:
    from diffkern.interop.jax.callable import JaxCallable
    from diffkern.interop.jax.kernel import JaxKernel

__all__ = ["jax_callable", "jax_kernel", "register"]

_OLDEST = (0, 5, 0)


@brief
def jax_kernel(
    kernel: Kernel,
    num_outputs: int = 1,
    *,
    launch_dims: Any = None,
    output_dims: Any = None,
    in_out_argnames: Sequence[str] | str | None = None,
    vmap_method: str = "sequential",
    enable_backward: bool = True,
) -> JaxKernel:
    """Make a differentiable JAX function of a kernel.

    The function takes the kernel's inputs and in-out arguments and returns a tuple: the in-out arguments, then the
    outputs. It works under ``jax.jit``, ``grad``, ``vjp``, ``jvp``, ``linearize``, ``hessian``, ``vmap``, ``lax.scan``,
    ``checkpoint``, ``shard_map`` and ``jax.export``, and derivatives of any order are taken in both modes. Numbers by
    value are operands as well, and have derivatives.

    Parameters
    ----------
    kernel : Kernel
        The kernel. Its last parameters are the outputs: arrays with annotated types. Elements that it leaves unwritten
        are 0, and arrays into which it accumulates begin at 0.
    num_outputs : int, optional
        How many arrays are returned, in-out arguments included.
    launch_dims : int, tuple of int or callable, optional
        The launch's dims; by default the shape of the first array (without the components of its elements). A callable
        gets the arguments.
    output_dims : int, tuple of int, callable or dict, optional
        Shape of the outputs, or a shape for each by name, with or without the components of elements; by default the
        launch dims, or the shape of the first array for an output with other axes than these. A callable gets the
        arguments.
    in_out_argnames : sequence of str, optional
        Arrays that the kernel changes: they are passed and returned, and the caller's array stays as it was.
    vmap_method : str, optional
        As for ``jax.ffi.ffi_call``. All methods give the result of a loop over the batch, and one native call does it;
        ``broadcast_all`` and ``expand_dims`` make batches of unbatched arguments first.
    enable_backward : bool, optional
        Whether the function may be differentiated.

    Returns
    -------
    callable
        Its calls take ``launch_dims``, ``output_dims`` and ``vmap_method`` as well, instead of those given here.

    Raises
    ------
    ImportError
        If JAX 0.5 or later is not installed.
    LaunchError
        If the parameters cannot be divided like that.
    """
    _require()
    from diffkern.interop.jax.kernel import JaxKernel

    return JaxKernel(kernel, num_outputs, launch_dims, output_dims, in_out_argnames, vmap_method, enable_backward)


@brief
def jax_callable(
    func: Callable[..., Any],
    num_outputs: int = 1,
    *,
    output_dims: Any = None,
    in_out_argnames: Sequence[str] | str | None = None,
    vmap_method: str = "sequential",
    enable_backward: bool = True,
) -> JaxCallable:
    """Make a differentiable JAX function of a Python function that launches several kernels.

    The function's parameters are annotated as a kernel's; the last ones are outputs. It is run when JAX traces it, on
    arrays of the right shapes whose contents do not matter, and what it launches, copies and fills is recorded; a call
    then runs all of that in one native call. It may make arrays. Numbers may be passed on to launches; what is launched
    must not depend on them. Its gradient runs the adjoint of each launch.

    Parameters
    ----------
    func : callable
        The function.
    num_outputs : int, optional
        How many arrays are returned, in-out arguments included.
    output_dims : int, tuple of int, callable or dict, optional
        Shape of the outputs, or a shape for each by name, with or without the components of elements; that of the first
        array by default. A callable gets the arguments.
    in_out_argnames : sequence of str, optional
        Arrays that the function changes: they are passed and returned.
    vmap_method, enable_backward : optional
        As for :func:`jax_kernel`.

    Returns
    -------
    callable

    Raises
    ------
    ImportError
        If JAX 0.5 or later is not installed.
    LaunchError
        If the parameters cannot be divided like that.
    """
    _require()
    from diffkern.interop.jax.callable import JaxCallable

    return JaxCallable(func, num_outputs, output_dims, in_out_argnames, vmap_method, enable_backward)


def register(directory: str | os.PathLike[str] | None = None) -> int:
    """Let this process run the calls that another one made: exported programs, and executables from JAX's cache.

    Nothing is traced or compiled for them, and no compiler is imported.

    Parameters
    ----------
    directory : str or path, optional
        A cache directory, or a copy of one; the cache of this process by default.

    Returns
    -------
    int
        How many calls are known now from that directory.

    Raises
    ------
    FileNotFoundError
        If there is no such directory.
    PermissionError
        If it belongs to another user than this one or root, or others can write to it.
    """
    _require()
    from diffkern.cache.store import absolute
    from diffkern.compiler.stores import cache_directory
    from diffkern.interop.jax.programs import enter_stored
    from diffkern.interop.jax.registry import CPU

    # The handler is registered before any program runs: an exported call would otherwise have an unknown target.
    CPU.start()
    entered, _ = enter_stored(cache_directory() if directory is None else absolute(directory))
    return entered


def _require() -> None:
    try:
        import jax
    except ImportError as error:
        raise ImportError('JAX is not installed; install it with pip install "diffkern[jax]"') from error
    if jax.__version_info__ < _OLDEST:
        raise ImportError(f'JAX {jax.__version__} is too old; install a later one with pip install "diffkern[jax]"')
