"""Exchange with PyTorch and JAX, with the arguments that Warp has besides.

In: tensors, kernels, functions. Out: what :mod:`diffkern` makes of them. Arguments about CUDA graphs and about when
modules are loaded have no effect: JAX's programs keep their own graphs, and kernels are compiled as they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from diffkern.callers import brief
from diffkern.interop import jax, public
from diffkern.kernel import Kernel
from diffkern.lang.dtypes import DType
from diffkern.runtime.array import array
from diffkern.runtime.untyped import untyped
from diffkern.warp.arrays import in_dialect
from diffkern.warp.enumerations import JaxCallableGraphMode, JaxModulePreloadMode

if TYPE_CHECKING:
    from diffkern.interop.jax.callable import JaxCallable
    from diffkern.interop.jax.kernel import JaxKernel

__all__ = ["clear_jax_callable_graph_cache", "from_dlpack", "from_jax", "from_torch", "jax_callable", "jax_kernel"]


@brief
def from_torch(
    t: Any,
    dtype: Any = None,
    requires_grad: bool | None = None,
    grad: Any = None,
    return_ctype: bool = False,
    retain_grad: bool = False,
) -> array:
    """Return an array over the memory of a tensor, without a copy.

    Parameters
    ----------
    t, dtype, requires_grad, grad : optional
        As in :func:`diffkern.from_torch`.
    return_ctype : bool, optional
        Whether launches take the array for any parameter that its memory fits, as one of ``vec3`` for a tensor of
        shape (n, 3), or one of ``uint64`` for a tensor of ``int64``.
    retain_grad : bool, optional
        As in :func:`zeros`.

    Returns
    -------
    array
        It keeps the tensor alive.
    """
    made = in_dialect(public.from_torch(t, dtype, requires_grad, grad), retain_grad)
    return untyped(made, t) if return_ctype else made


@brief
def from_jax(a: Any, dtype: Any = None) -> array:
    """Return an array over the memory of one of JAX's, without a copy. It cannot be written to.

    Parameters
    ----------
    a, dtype : optional
        As in :func:`diffkern.from_jax`.

    Returns
    -------
    array
        It keeps the memory alive.
    """
    return in_dialect(public.from_jax(a, dtype))


@brief
def from_dlpack(source: Any, dtype: Any = None) -> array:
    """Return an array over the memory of another library's array, without a copy.

    Parameters
    ----------
    source, dtype : optional
        As in :func:`diffkern.from_dlpack`; bools and integers may be taken as integers of the same width.

    Returns
    -------
    array
        It keeps the memory alive.
    """
    if not (isinstance(dtype, DType) and dtype.ir.is_integer):
        return in_dialect(public.from_dlpack(source, dtype))
    made: array = public.from_dlpack(source)
    if made.dtype != dtype:
        found = made.dtype
        if not isinstance(found, DType) or found.ir.is_float or found.numpy.itemsize != dtype.numpy.itemsize:
            raise TypeError(f"the elements are of type {found}, not {dtype}; take .astype() of the other library")
        made = made.view(dtype)
    return in_dialect(made)


@brief
def jax_kernel(
    kernel: Kernel,
    num_outputs: int = 1,
    vmap_method: str | None = None,
    launch_dims: Any = None,
    output_dims: Any = None,
    in_out_argnames: Sequence[str] | str | None = None,
    module_preload_mode: JaxModulePreloadMode = JaxModulePreloadMode.CURRENT_DEVICE,
    enable_backward: bool = True,
    has_side_effect: bool = False,
    block_dim: int | None = None,
) -> JaxKernel:
    """Make a differentiable JAX function of a kernel.

    Parameters
    ----------
    kernel, num_outputs, vmap_method, launch_dims, output_dims, in_out_argnames, enable_backward : optional
        As in :func:`diffkern.jax_kernel`.
    module_preload_mode, has_side_effect : optional
        Accepted; they have no effect.
    block_dim : int, optional
        Threads of a block.

    Returns
    -------
    callable
    """
    if block_dim is not None:
        kernel = _in_blocks(kernel, block_dim)
    return jax.jax_kernel(
        kernel,
        num_outputs,
        launch_dims=launch_dims,
        output_dims=output_dims,
        in_out_argnames=in_out_argnames,
        vmap_method=vmap_method or "sequential",
        enable_backward=enable_backward,
    )


def _in_blocks(kernel: Any, block_dim: int) -> Any:
    """Return a kernel of the same code whose blocks have so many threads."""
    if not isinstance(kernel, Kernel) or kernel.options.block_dim == block_dim:
        return kernel
    made: Any = object.__new__(type(kernel))
    if hasattr(kernel, "module"):  # of a kernel in Warp's dialect
        made.module = kernel.module
    made._begin(kernel.func, replace(kernel.options, block_dim=block_dim), kernel.name)
    return made


@brief
def jax_callable(
    func: Callable[..., Any],
    num_outputs: int = 1,
    graph_mode: JaxCallableGraphMode = JaxCallableGraphMode.JAX,
    vmap_method: str | None = None,
    output_dims: Any = None,
    in_out_argnames: Sequence[str] | str | None = None,
    stage_in_argnames: Sequence[str] | str | None = None,
    stage_out_argnames: Sequence[str] | str | None = None,
    graph_cache_max: int | None = None,
    module_preload_mode: JaxModulePreloadMode = JaxModulePreloadMode.CURRENT_DEVICE,
    has_side_effect: bool = False,
    *,
    enable_backward: bool = True,
) -> JaxCallable:
    """Make a differentiable JAX function of a Python function that launches several kernels.

    Parameters
    ----------
    func, num_outputs, vmap_method, output_dims, in_out_argnames, enable_backward : optional
        As in :func:`diffkern.jax_callable`.
    graph_mode, stage_in_argnames, stage_out_argnames, graph_cache_max, module_preload_mode, has_side_effect : optional
        Accepted; they have no effect.

    Returns
    -------
    callable
    """
    return jax.jax_callable(
        func,
        num_outputs,
        output_dims=output_dims,
        in_out_argnames=in_out_argnames,
        vmap_method=vmap_method or "sequential",
        enable_backward=enable_backward,
    )


def clear_jax_callable_graph_cache(callable: Any = None) -> None:
    """Do nothing: there are no graphs beside JAX's own."""
