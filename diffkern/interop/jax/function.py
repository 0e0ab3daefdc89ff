"""The common part of ``dk.jax_kernel`` and ``dk.jax_callable``: a function that is traced once for each form of call.

It is made from the division of the parameters, and options. Its calls are compiled by JAX: a call of another form
(launch dims, dims of outputs, method of ``vmap``), or after a traced kernel has been redefined, is traced again.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import jax

from diffkern.interop.jax.arguments import CallSignature, check_numbers, numbers_of, refuse_foreign, static_form
from diffkern.interop.jax.dispatch import checked_method

__all__ = ["JaxFunction"]

_MAX_COMPILED = 256


class JaxFunction(ABC):
    """A function of JAX arrays."""

    def __init__(
        self,
        function: Callable[..., Any],
        signature: CallSignature,
        launch_dims: Any,
        output_dims: Any,
        vmap_method: str,
        enable_backward: bool,
    ) -> None:
        self.signature = signature
        self.name = signature.kernel
        self.enable_backward = enable_backward
        self._launch_dims, self._output_dims = launch_dims, output_dims
        self._vmap_method = checked_method(vmap_method)
        self._numbers = numbers_of(signature)
        self._compiled: dict[Any, Callable[..., Any]] = {}
        functools.update_wrapper(self, function)  # type: ignore[arg-type]  # calls are the subclasses'
        # That of the calls, where jax.jit looks up static_argnames; the function has the outputs too.
        self.__signature__ = self._signature()

    def _signature(self) -> inspect.Signature:
        parameters = [self.signature.parameters[k] for k in self.signature.spec.inputs]
        named = [inspect.Parameter(p.name, inspect.Parameter.POSITIONAL_ONLY) for p in parameters]
        options = inspect.signature(type(self).__call__).parameters.values()
        return inspect.Signature([*named, *(p for p in options if p.kind is inspect.Parameter.KEYWORD_ONLY)])

    def _run(self, args: tuple[Any, ...], launch_dims: Any, output_dims: Any, vmap_method: Any) -> tuple[Any, ...]:
        """Return the outputs, with other values for this call than the function was made with where any are given."""
        launch_dims = self._launch_dims if launch_dims is None else launch_dims
        output_dims = self._output_dims if output_dims is None else output_dims
        # Before jit, which would round a Python float to an int32 parameter or lose a large integer.
        check_numbers(self._numbers, args)
        method = self._vmap_method if vmap_method is None else checked_method(vmap_method)
        if self._has_changed():
            self._compiled = {}
        form = (static_form(launch_dims), static_form(output_dims), method)
        try:
            compiled = self._compiled.get(form)
        except TypeError:  # symbolic dims of a foreign kind, or an unhashable callable
            return self._trace(launch_dims, output_dims, method, *args)
        if compiled is None:
            # Each form is a compiled function; callables made again for each call would fill the memory.
            if len(self._compiled) >= _MAX_COMPILED:
                self._compiled.clear()
            traced = functools.partial(self._trace, launch_dims, output_dims, method)
            traced.__name__ = self.name  # type: ignore[attr-defined]
            compiled = self._compiled[form] = jax.jit(traced)
        try:
            out: tuple[Any, ...] = compiled(*args)
        except TypeError:
            # jit refuses foreign arrays with an error that names its own internals; the parameter's name is better.
            refuse_foreign(self.signature, args)
            raise
        return out

    @abstractmethod
    def _has_changed(self) -> bool:
        """Return whether a traced kernel or value has been redefined since: then the traced programs are stale."""

    @abstractmethod
    def _trace(self, launch_dims: Any, output_dims: Any, vmap_method: str, *args: Any) -> tuple[Any, ...]:
        """Return the outputs as JAX operations."""
