"""The log of a launch, of values that its kernel overwrites or that atomic updates returned: a call of its own, on
copies.

The call takes a launch's kernel, arguments and dims, and all inputs as they were before it, and returns the arrays of
the log, which the adjoint takes as operands. JAX has to know their sizes when it traces. Atomic updates return the same
in each launch whose threads run one after the other, and only such launches are differentiated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffkern.contracts.manifest import Log, ProgramParameter
from diffkern.errors import AutodiffError, LaunchError
from diffkern.interop.jax import programs
from diffkern.interop.jax.arguments import CallArgument, jax_type
from diffkern.interop.jax.builder import BufferPart, CallBuilder, Number, Operand
from diffkern.interop.jax.dispatch import is_static
from diffkern.ir.types import INT64, Array, parse_type, scalar_of
from diffkern.kernels.kernel import Kernel
from diffkern.runtime.arrays.array import new
from diffkern.runtime.launch.kernel_version import KernelVersion
from diffkern.runtime.launch.packed import PackedLaunch

__all__ = ["LoggedLaunch"]


class LoggedLaunch:
    """A launch that writes a log.

    Parameters
    ----------
    kernel, generation
        The kernel, and its version.
    keys : tuple of str
        Types of its arguments.
    arguments : sequence of Argument
        The arguments.
    dims : tuple
        The launch's dims.
    log : Log
        The log.
    """

    def __init__(
        self,
        kernel: Kernel,
        generation: KernelVersion,
        keys: tuple[str, ...],
        arguments: Sequence[CallArgument],
        dims: tuple[Any, ...],
        log: Log,
    ) -> None:
        self.kernel, self.generation, self.keys, self.arguments = kernel, generation, keys, arguments
        self.dims, self.log = dims, log
        self.programs = programs.logged(kernel, generation, keys, log)
        self.params = self.programs.plain.manifest.params

    def __call__(self, entry: Mapping[int, Any], vmap_method: str) -> tuple[Any, ...]:
        """Return the arrays of the log, for all arguments as they were before the launch."""
        call = CallBuilder(f"log of {self.kernel.name}")
        own, begins = self.params[: len(self.arguments)], self.begins()
        where = {p.of: call.operand(entry[p.of], parse_type(p.type)) for p in own}
        for p, held in zip(self.params[len(own) + 1 :], begins, strict=True):
            where[p.of] = call.operand(held, parse_type(p.type))
        log = self.params[len(own)]
        size = self.size(begins)
        element = parse_type(self.log.type)
        where[log.of] = call.result(parse_type(log.type), (size,), jax_type(scalar_of(element)))
        call.clear(where[log.of])
        # The launch runs once more, so everything that it writes goes to copies, which are thrown away.
        for k in self.programs.plain.manifest.writes:
            p = self.params[k]
            a = self.arguments[p.of]
            source, where[p.of] = where[p.of], call.result(parse_type(p.type), a.shape, a.dtype)
            call.take_over(source, where[p.of])

        def operand(p: ProgramParameter) -> Operand:
            is_value = p.role == "param" and not self.arguments[p.of].is_array
            return Number(where[p.of]) if is_value else BufferPart(where[p.of])

        call.launch(self.programs, self.dims, operand)
        return (call.run(vmap_method)[0], *begins)

    def size(self, begins: Sequence[Any]) -> Any:
        """Return the total number of slots."""
        axes = self.programs.plain.manifest.tid_arity
        # Slots are found by the thread's index, so threads must not share one.
        if any(not is_static([extent]) or extent > 1 for extent in self.dims[axes:]):
            raise LaunchError(
                f"kernel {self.kernel.name!r}: its gradient needs {self.log.what} in each thread, and several threads "
                f"of a launch over {self.dims} have the same index",
                loc=self.log.loc,
                remedy=f"ask for all {len(self.dims)} axes with dk.tid()",
            )
        if not begins:
            assert self.log.calls is not None
            return math.prod(self.dims[:axes]) * self.log.calls
        return self._total

    def begins(self) -> tuple[Any, ...]:
        """Return the first slot of each thread, if that has to be counted: only if shapes alone decide about it."""
        if self.log.calls is not None:
            return ()
        counting = self.kernel.logged(self.keys, "counted", self.log.active, of=self.generation)
        known = is_static((*self.dims, *(d for a in self.arguments for d in a.shape)))
        if counting.reads or not known or any(not a.is_array for a in self.arguments):
            raise AutodiffError(
                f"the gradient of kernel {self.kernel.name!r} needs {self.log.what} in each thread, and how often that "
                "is depends on more than dimensions and shapes, which is all that JAX knows when it traces",
                loc=self.log.loc,
                remedy="let the loop around it make a number of trips that is a constant of the kernel or an extent of "
                "an array, or launch the kernel under a dk.Tape",
            )
        if not jax.config.jax_enable_x64:
            raise AutodiffError(
                f"the gradient of kernel {self.kernel.name!r} needs {self.log.what} in each thread, and the places of "
                "threads in the log are integers of 64 bits, which JAX has not enabled",
                loc=self.log.loc,
                remedy='jax.config.update("jax_enable_x64", True), or give the loop a constant number of trips',
            )
        dims = self.dims if len(self.dims) > 1 else self.dims[0]
        args = [self._empty(a) for a in self.arguments]
        # Counted now, while JAX traces, on arrays whose contents don't matter.
        counts = PackedLaunch(self.kernel, dims, args, of=self.generation).count(self.log).numpy()
        ends = np.cumsum(counts, dtype=np.int64)
        self._total = int(ends[-1]) if counts.size else 0
        return (jnp.asarray(np.concatenate([[0], ends[:-1]]), jax_type(INT64)),)

    def _empty(self, a: CallArgument) -> Any:
        """Return an array of an argument's type and shape, of which only the shape matters."""
        assert isinstance(a.type, Array)
        return new(a.shape[: a.type.ndim], a.type.dtype, False)
