"""From a call to JAX operations: the custom call itself, and its batches under ``vmap``.

A call's key, operands and launch dims give its results as JAX values. A batch is a call of its own, whose launches have
an axis of examples. If there is no such call, the batch is carried to the native handler, which loops over its elements
with the shapes and dims of a call without the batch. Batches of batches are one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from diffkern.interop.jax import layout
from diffkern.interop.jax.manual import spread, varying_axes
from diffkern.interop.jax.registry import TARGET, key_words
from diffkern.process.dataclass import dataclass

__all__ = ["VMAP_METHODS", "CustomCall", "checked_method", "is_static"]

VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all")
_MAX_OPERANDS = 62
_MAX_DIMS = 4

Dims = tuple[Any, ...]


def is_static(dims: Sequence[Any]) -> bool:
    """Return whether all dims are numbers, rather than symbols of an exported program."""
    return all(isinstance(d, (int, np.integer)) for d in dims)


def checked_method(method: Any) -> str:
    """Return a ``vmap_method``, or raise."""
    if method not in VMAP_METHODS:
        raise ValueError(f"vmap_method is one of {', '.join(map(repr, VMAP_METHODS))}, not {method!r}")
    return str(method)


@dataclass(frozen=True)
class CustomCall:
    """A custom call with everything but its operands.

    Attributes
    ----------
    key : str
        The call's key in the registry.
    results : tuple of jax.ShapeDtypeStruct
        The results.
    dims : tuple of tuple
        The dims of each launch, as numbers or symbols.
    aliases : tuple of (int, int)
        Operands and the results that take their memory.
    vmap_method : str
        One of :data:`VMAP_METHODS`.
    cuda_key : str
        The key of the same call on a GPU, if there is one in this process.
    examples : callable or None
        Returns the call for a batch, of a size, in which some operands have an axis of examples: one launch instead
        of one for each; and which operands that call has with the axis. None if there is no such call.
    """

    key: str
    results: tuple[Any, ...]
    dims: tuple[Dims, ...]
    aliases: tuple[tuple[int, int], ...]
    vmap_method: str
    cuda_key: str = ""
    examples: Callable[[int, Sequence[bool]], tuple[CustomCall, tuple[bool, ...]] | None] | None = None

    def __call__(self, *operands: Any) -> tuple[Any, ...]:
        """Return the results."""
        axes = varying_axes(operands)
        given = [spread(x, axes) for x in operands]
        return tuple(spread(y, axes) for y in self._batched(None, (False,) * len(given), given))

    def _batched(self, size: Any, mask: tuple[bool, ...], operands: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results of a batch of `size`, in which the operands named by `mask` have an axis; no batch if it
        is None.
        """

        def call(*given: Any) -> tuple[Any, ...]:
            return self._bind(size, mask, given)

        def rule(axis_size: Any, in_batched: Sequence[bool], *given: Any) -> tuple[Any, Any]:
            out = self._merge(axis_size, size, mask, tuple(in_batched), given)
            return out, (True,) * len(out)

        run = custom_vmap(call)
        run.def_vmap(rule)
        return tuple(run(*operands))

    def _together(self, size: Any, mask: tuple[bool, ...]) -> tuple[CustomCall, tuple[bool, ...]] | None:
        """Return the call that runs a batch in one launch, and which operands have the batch axis there."""
        if size is None or self.examples is None or not is_static((size, *(d for dims in self.dims for d in dims))):
            return None
        return self.examples(int(size), mask)

    def _merge(
        self, outer: Any, inner: Any, mask: tuple[bool, ...], batched: tuple[bool, ...], operands: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Run a batch (`outer`, the first axis) of batches (`inner`, the one after it)."""
        everywhere = self.vmap_method in ("broadcast_all", "expand_dims")
        # An aliased result has the axis, so the operand whose memory it takes needs it too.
        aliased = {i for i, _ in self.aliases}
        whole = outer if inner is None else outer * inner
        merged, new_mask = [], []
        for k, (x, has_outer, has_inner) in enumerate(zip(operands, batched, mask, strict=True)):
            wanted = has_outer or has_inner or everywhere or k in aliased
            new_mask.append(wanted)
            if not wanted:
                merged.append(x)
                continue
            own = x.shape[has_outer + has_inner :]
            if inner is None:
                merged.append(x if has_outer else jnp.broadcast_to(x, (outer, *own)))
                continue
            # Operands that lack one of the two axes are broadcast along it, since the merged batch has only one axis.
            x = x.reshape((outer if has_outer else 1, inner if has_inner else 1, *own))
            merged.append(jnp.broadcast_to(x, (outer, inner, *own)).reshape((whole, *own)))
        out = self._batched(whole, tuple(new_mask), merged)
        if inner is None:
            return out
        return tuple(y.reshape((outer, inner, *y.shape[1:])) for y in out)

    def _bind(self, size: Any, mask: tuple[bool, ...], operands: Sequence[Any]) -> tuple[Any, ...]:
        together = self._together(size, mask)
        if together is not None:
            call, wider = together
            given = [
                jnp.broadcast_to(x, (size, *x.shape)) if is_wider and not has_axis else x
                for x, has_axis, is_wider in zip(operands, mask, wider, strict=True)
            ]
            return call._bind(None, (False,) * len(given), given)
        flags = 0
        results = self.results
        if size is not None:
            if len(operands) > _MAX_OPERANDS:
                raise NotImplementedError(f"vmap of a call with more than {_MAX_OPERANDS} operands")
            flags = layout.HAS_BATCH
            results = tuple(jax.ShapeDtypeStruct((size, *r.shape), r.dtype) for r in results)
        # The handler is told by bits which operands have the axis of the batch.
        bits = sum(1 << k for k, is_batched in enumerate(mask) if is_batched)
        words = [bits, flags]
        carriers: list[Any] = []
        if all(is_static(dims) for dims in self.dims):
            for dims in self.dims:
                words += [int(d) for d in (*dims, 1, 1, 1)[:_MAX_DIMS]]
        else:
            # An operand without elements costs nothing, and its shape is known wherever the call runs.
            carriers = [jnp.zeros((0, *dims), jnp.int8) for dims in self.dims]
        call = jax.ffi.ffi_call(
            TARGET, results, vmap_method="sequential", input_output_aliases=dict(self.aliases) or None
        )

        def bound(key: str) -> Callable[..., tuple[Any, ...]]:
            attribute = np.array([*key_words(key), *words], np.int64)
            # Everything but shapes and operands is in this one attribute; XLA keeps it with the program.
            return lambda *given: tuple(call(*given, call=attribute))

        if not self.cuda_key:
            return bound(self.key)(*operands, *carriers)
        # Chosen when the program is lowered: an exported program may run on either platform.
        made = jax.lax.platform_dependent(*operands, *carriers, cuda=bound(self.cuda_key), default=bound(self.key))
        return tuple(made)
