"""Exchange with PyTorch and JAX, with Warp's additional arguments.

The functions forward to :mod:`diffkern.interop`. Arguments about CUDA graphs and about the time when modules are loaded
have no effect: JAX keeps its own graphs, and kernels are compiled at their first call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from diffkern.interop import jax, public
from diffkern.kernels.kernel import Kernel
from diffkern.lang.dtypes import DType
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.array_protocols import ArrayC
from diffkern.runtime.arrays.create import untyped
from diffkern.warp.arrays import in_dialect
from diffkern.warp.enumerations import JaxCallableGraphMode, JaxModulePreloadMode

if TYPE_CHECKING:
    from diffkern.interop.jax.callable import JaxCallable
    from diffkern.interop.jax.kernel import JaxKernel

__all__ = ["clear_jax_callable_graph_cache", "from_dlpack", "from_jax", "from_torch", "jax_callable", "jax_kernel"]

_Made = TypeVar("_Made")

_CACHED = 256
# What was made for JAX, by what it was made of.
_functions: dict[Any, Any] = {}


class TensorC(ArrayC):
    """A tensor as C programs have an array, which is made when a launch asks for it."""

    @classmethod
    def of(cls, fields: bytes, make: Callable[[], array], retain_grad: bool, source: Any) -> TensorC:
        """Return the structure of these bytes, and of what makes the array."""
        made = cls.from_buffer_copy(fields)
        made._make, made._retain_grad, made._source = make, retain_grad, source
        return made

    @cached_property
    def array(self) -> array:
        """The array over the memory of the tensor."""
        return untyped(in_dialect(self._make(), self._retain_grad), self._source)


@brief
def from_torch(
    t: Any,
    dtype: Any = None,
    requires_grad: bool | None = None,
    grad: Any = None,
    return_ctype: bool = False,
    retain_grad: bool = False,
) -> array | ArrayC:
    """Return an array over the memory of a tensor, without a copy.

    Parameters
    ----------
    t, dtype, requires_grad, grad : optional
        As in :func:`diffkern.from_torch`.
    return_ctype : bool, optional
        Whether to return a structure of :mod:`ctypes` that describes the array and its gradient. Launches take it for
        any parameter that its memory fits, as one of ``vec3`` for a tensor of shape (n, 3), or one of ``uint64`` for a
        tensor of ``int64``.
    retain_grad : bool, optional
        As in :func:`zeros`.

    Returns
    -------
    array or ctypes.Structure
        It keeps the tensor alive.
    """
    # The fast path: a tensor without gradient is described in C without making an array, which a launch may never need.
    if return_ctype and grad is None and not getattr(t, "requires_grad", False) and not requires_grad:
        found = public.tensor_in_c(t, dtype)
        if found is not None:
            return TensorC.of(*found, retain_grad, t)
    made = in_dialect(public.from_torch(t, dtype, requires_grad, grad), retain_grad)
    return untyped(made, t).__ctype__() if return_ctype else made


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
    # DLPack has no types for some of Warp's integers, so that these are views of another type of the same width.
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

    def make() -> JaxKernel:
        return jax.jax_kernel(
            kernel if block_dim is None else _in_blocks(kernel, block_dim),
            num_outputs,
            launch_dims=launch_dims,
            output_dims=output_dims,
            in_out_argnames=in_out_argnames,
            vmap_method=vmap_method or "sequential",
            enable_backward=enable_backward,
        )

    options = num_outputs, vmap_method, launch_dims, output_dims, in_out_argnames, enable_backward, block_dim
    return _made_once(make, kernel, options)


def _made_once(make: Callable[[], _Made], of: Any, options: tuple[Any, ...]) -> _Made:
    """Return what was made of the same before: as in Warp a program may make its function for each call."""
    # JAX traces a function again whenever it is a new object, so equal requests get the same one.
    key = of, tuple(map(_as_key, options))
    try:
        found: _Made | None = _functions.get(key)
    except TypeError:  # some option cannot be a key
        return make()
    if found is None:
        found = make()
        # Emptied as a whole: a program that makes so many functions has no use for old ones.
        if len(_functions) >= _CACHED:
            _functions.clear()
        _functions[key] = found
    return found


def _as_key(option: Any) -> Any:
    if isinstance(option, Mapping):
        return frozenset((name, _as_key(held)) for name, held in option.items())
    # A list is as good as a tuple; that 1, 1.0 and True are equal is another matter.
    return type(option), tuple(option) if isinstance(option, list) else option


def _in_blocks(kernel: Any, block_dim: int) -> Any:
    """Return a kernel of the same code whose blocks have so many threads."""
    if not isinstance(kernel, Kernel) or kernel.options.block_dim == block_dim:
        return kernel
    return kernel.with_options(block_dim=block_dim)


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
        Accepted; they have no effect. The function has ``graph_cache_max``, and its ``graph_cache_size`` is 0.

    Returns
    -------
    callable
    """

    def make() -> JaxCallable:
        return jax.jax_callable(
            func,
            num_outputs,
            output_dims=output_dims,
            in_out_argnames=in_out_argnames,
            vmap_method=vmap_method or "sequential",
            enable_backward=enable_backward,
        )

    made = _made_once(make, func, (num_outputs, vmap_method, output_dims, in_out_argnames, enable_backward))
    # Not a part of the key: it can be set, and has no effect.
    made.graph_cache_max = graph_cache_max
    return made


def clear_jax_callable_graph_cache(callable: Any = None) -> None:
    """Do nothing: there are no graphs beside JAX's own."""
