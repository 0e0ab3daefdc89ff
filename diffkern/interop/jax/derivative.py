"""One launch as a differentiable JAX function.

In: a launch, and the types and shapes of its arguments. Out: a function of those that are passed, whose forward and
whose derivative are a custom call each. What the adjoint needs of the forward are its residuals: the inputs and outputs
that it reads, and the entry contents of inputs that the kernel overwrites.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffkern.errors import AutodiffError
from diffkern.interop.jax import programs
from diffkern.interop.jax.arguments import Argument, jax_type
from diffkern.interop.jax.builder import CallBuilder, Number, Operand, Place
from diffkern.interop.jax.dispatch import CustomCall
from diffkern.interop.jax.forward import forward
from diffkern.interop.jax.manual import agree, spread, varying_axes
from diffkern.interop.jax.recording import Launched, Recording
from diffkern.ir.types import Array, parse_type, scalar_of
from diffkern.kernel import Kernel
from diffkern.manifest import Parameter
from diffkern.runtime.generation import Generation

__all__ = ["LaunchFunction"]

_MARKS = 16  # inputs that one empty array tells of

Slot = tuple[str, int]
"""A parameter of an adjoint: its role, and the kernel's parameter that it belongs to."""


class LaunchFunction:
    """One launch, as a differentiable function of the arguments that are passed.

    Parameters
    ----------
    kernel, generation
        The kernel, and what it meant; the derivative may be traced much later, and is that of this program.
    arguments : sequence of Argument
        All parameters in order.
    dims : tuple
        The launch's dims.
    vmap_method : str
        As for ``jax.ffi.ffi_call``.
    enable_backward : bool
        Whether it may be differentiated.
    """

    def __init__(
        self,
        kernel: Kernel,
        generation: Generation,
        arguments: Sequence[Argument],
        dims: tuple[Any, ...],
        vmap_method: str,
        enable_backward: bool,
    ) -> None:
        self.kernel, self.dims, self.vmap_method, self.enable_backward = kernel, dims, vmap_method, enable_backward
        self.generation, self.keys = generation, tuple(a.key for a in arguments)
        operands = tuple(Place(a.index) if a.is_array else Number(a.index) for a in arguments)
        writes = tuple(a.index for a in arguments if a.is_result)
        launch = Launched(kernel, generation, self.keys, dims, operands, writes)
        self.recording = Recording(kernel.name, [*arguments], len(arguments), [launch])
        self.arguments = self.recording.buffers
        self.inputs, self.results = self.recording.passed, self.recording.results

    def __call__(self) -> tuple[Any, ...]:
        """Return the results for the arguments' values."""

        def primal(*given: Any) -> tuple[Any, ...]:
            return forward(self.recording, given, self.vmap_method)

        def fwd(*given: Any) -> tuple[Any, Any]:
            perturbed = tuple(a.index for a, x in zip(self.inputs, given, strict=True) if x.perturbed)
            plain = tuple(x.value for x in given)
            self.check_differentiable()
            # The function itself, so that a second derivative meets the adjoint rather than a bare custom call.
            out = run(*plain)
            return out, self.residuals(perturbed, plain, out)

        run = jax.custom_vjp(primal)
        run.defvjp(fwd, self.backward, symbolic_zeros=True)
        out: tuple[Any, ...] = run(*agree([a.value for a in self.inputs]))
        return out

    def check_differentiable(self) -> None:
        if not self.enable_backward:
            raise AutodiffError(
                f"kernel {self.kernel.name!r} is not differentiated: it was made with enable_backward=False",
                remedy="leave that option out, or stop the gradient with jax.lax.stop_gradient",
            )

    def adjoint(self, perturbed: Sequence[int]) -> programs.Programs:
        """The adjoint's programs; cotangents have the inputs that are differentiated for, and the outputs."""
        active = frozenset(a.index for a in self.results if a.is_smooth).union(perturbed)
        return programs.reverse(self.kernel, self.generation, self.keys, active, len(self.dims))

    # -- residuals -----------------------------------------------------------------------------------------------------

    def needed(self, perturbed: Sequence[int]) -> set[Slot]:
        """What the adjoint needs of the forward: arrays by role and parameter."""
        if not perturbed:
            return set()
        made = self.adjoint(perturbed)
        plan, passed = made.derivative, {a.index for a in self.inputs}
        names: set[Slot] = set()
        for param in made.plain.manifest.params:
            role, of = param.role, param.of
            # Of an array that is not read the shape is needed all the same; its cotangent has the same one.
            is_array = isinstance(parse_type(param.type), Array)
            kept = role == "param" and (of in plan.after or of not in plan.active or not is_array)
            if kept or (role == "saved" and of in passed):
                names.add((role, of))
        return names

    def slots(self) -> list[Slot]:
        """All that any adjoint could need."""
        used = [a.index for a in self.arguments if a.is_passed or a.is_result]
        return [*(("param", i) for i in used), *(("saved", a.index) for a in self.inputs)]

    def residuals(self, perturbed: tuple[int, ...], given: Sequence[Any], out: Sequence[Any]) -> tuple[Any, ...]:
        """What the forward leaves for the adjoint: a tuple of the same length for all sets of perturbed inputs.

        JAX keeps the forward's trace for each set of perturbed inputs, but the structure of the residuals for the
        last one only. So the structure must not say anything: which inputs are perturbed is in shapes of empty arrays.
        """
        entry = {a.index: x for a, x in zip(self.inputs, given, strict=True)}
        after = {**entry, **{a.index: y for a, y in zip(self.results, out, strict=True)}}
        needed = self.needed(perturbed)
        kept = [
            (entry if slot[0] == "saved" else after)[slot[1]] if slot in needed else jnp.zeros(0, np.int8)
            for slot in self.slots()
        ]
        marks = [a.index in perturbed for a in self.inputs]
        groups = [marks[k : k + _MARKS] for k in range(0, len(marks), _MARKS)]
        return (*kept, *(jnp.zeros((0, *(1 + m for m in group)), np.int8) for group in groups))

    # -- backward ------------------------------------------------------------------------------------------------------

    def backward(self, residuals: tuple[Any, ...], cotangents: Any) -> tuple[Any, ...]:
        """Return the cotangents of the inputs."""
        slots = self.slots()
        marks = [extent == 2 for x in residuals[len(slots) :] for extent in x.shape[1:]]
        perturbed = tuple(a.index for a, mark in zip(self.inputs, marks, strict=True) if mark)
        if not perturbed:
            return (None,) * len(self.inputs)
        needed = self.needed(perturbed)
        kept = {slot: x for slot, x in zip(slots, residuals, strict=False) if slot in needed}
        given = {
            a.index: jnp.zeros(a.shape, a.dtype) if isinstance(ct, jax.custom_derivatives.SymbolicZero) else ct
            for a, ct in zip(self.results, cotangents, strict=True)
            if a.is_smooth
        }
        out = self.run_adjoint(self.adjoint(perturbed), kept, given)
        axes = varying_axes([a.value for a in self.inputs])

        def cotangent(a: Argument) -> Any:
            # Zeros rather than None, which JAX 0.5 does not take in one transposition and not in the next.
            if a.index in out:
                return out[a.index].reshape(a.shape).astype(a.dtype)
            return spread(jnp.zeros(a.shape, a.dtype), axes) if a.is_smooth else None

        return tuple(map(cotangent, self.inputs))

    def run_adjoint(
        self, made: programs.Programs, residuals: Mapping[Slot, Any], given: Mapping[int, Any]
    ) -> dict[int, Any]:
        """Run the adjoint in one custom call; return all cotangents, those of values with a leading axis of one."""
        call = CallBuilder(f"adjoint of {self.kernel.name}")
        types = {(p.role, p.of): parse_type(p.type) for p in made.plain.manifest.params}
        held = dict(residuals)
        for k in made.derivative.zeros({a.index for a in self.arguments if not a.is_passed}):
            held["saved", k] = jnp.zeros(self.arguments[k].shape, self.arguments[k].dtype)
        where = {slot: call.operand(x, types[slot]) for slot, x in sorted(held.items(), key=lambda kept: kept[0])}
        sources = {k: call.operand(ct, types["cotangent", k]) for k, ct in given.items()}
        owned = [of for role, of in types if role == "cotangent"]
        for k in owned:
            goal = where["cotangent", k] = self.begin(call, k, types["cotangent", k])
            if k in sources:
                call.take_over(sources[k], goal)
            else:
                call.clear(goal)

        def operand(p: Parameter) -> Operand:
            slot = p.role, p.of
            is_value = slot[0] == "param" and not self.arguments[slot[1]].is_array
            return Number(where[slot]) if is_value else Place(where.get(slot, where.get(("cotangent", slot[1]), -1)))

        call.launch(made, self.dims, operand)
        return dict(
            zip(owned, call.run(self.vmap_method, functools.partial(_first_order, self.kernel.name)), strict=True)
        )

    def begin(self, call: CallBuilder, k: int, t: Any) -> int:
        """Add a cotangent to the results: of the shape of its array, or of one element."""
        a = self.arguments[k]
        return call.result(t, a.shape if a.is_array else (1, *a.shape), jax_type(scalar_of(t)))


def _first_order(name: str, run: CustomCall) -> Callable[..., Any]:
    """Return the adjoint as a function that says why it has no derivative of its own."""

    def refuse(primals: Any, tangents: Any) -> Any:
        raise AutodiffError(
            f"the gradient of kernel {name!r} cannot be differentiated again: diffkern has no second derivatives",
            remedy="take differences of the gradient, or keep it out of what is differentiated with stop_gradient",
        )

    adjoint = jax.custom_jvp(run.__call__)
    adjoint.defjvp(refuse)
    once: Callable[..., Any] = adjoint
    return once
