"""``dk.jax_callable``: a Python function that launches several kernels, as one JAX function.

A function over diffkern arrays becomes a function of JAX arrays that is one custom call, whose native handler runs
all launches in order; arrays that the function makes are buffers of XLA's. For a gradient the launches are one call
each, so that every adjoint finds the states it needs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from diffkern.contracts import abi
from diffkern.errors import AutodiffError, LaunchError, MisuseError
from diffkern.frontend.syntax.signature import signature as read_signature
from diffkern.interop.jax import cuda
from diffkern.interop.jax.arguments import CallArgument, jax_type, outputs_of, passed, returned, shape_of, signature_of
from diffkern.interop.jax.builder import BufferPart, ConstantBytes, Operand
from diffkern.interop.jax.derivative import ResultsOfLaunch, Whole
from diffkern.interop.jax.dispatch import is_static
from diffkern.interop.jax.forward import as_jax, forward
from diffkern.interop.jax.function import JaxFunction
from diffkern.interop.jax.launch import LaunchFunction
from diffkern.interop.jax.manual import agree
from diffkern.interop.jax.primitive import apply
from diffkern.interop.jax.recording import Filled, Launched, Recording, record
from diffkern.interop.spec import resolved
from diffkern.ir.types import Array, Mat, Scalar, Vec, scalar_of
from diffkern.kernels.kernel import Kernel
from diffkern.lang.func import is_found
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.type_keys import type_of_key
from diffkern.runtime.launch.arguments import NO_DEFAULT, Parameter
from diffkern.runtime.launch.kernel_version import KernelVersion

__all__ = ["JaxCallable"]


@dataclass(frozen=True)
class _Function:
    """The attributes that :func:`signature_of` reads from a kernel."""

    name: str
    parameters: tuple[Parameter, ...]


class JaxCallable(JaxFunction):
    """A function that launches kernels, as a function of JAX arrays; made by :func:`diffkern.jax_callable`."""

    graph_cache_max: int | None = None
    """The most graphs to keep, as programs for Warp set it."""
    graph_cache_size = 0
    """The number of graphs kept: none, as JAX's programs keep their own."""

    def __init__(
        self,
        function: Callable[..., Any],
        num_outputs: int,
        output_dims: Any,
        in_out_argnames: Sequence[str] | str | None,
        vmap_method: str,
        enable_backward: bool,
    ) -> None:
        if isinstance(function, Kernel) or not hasattr(function, "__code__"):
            raise MisuseError(
                f"dk.jax_callable takes a Python function, not {function!r}",
                remedy="write a function that launches kernels, or take dk.jax_kernel(kernel)",
            )
        self._given = function, num_outputs, output_dims, in_out_argnames, vmap_method, enable_backward
        self.function = function
        name = function.__name__
        parameters = tuple(
            Parameter(name, k, p.name, p.annotation, p.default if p.has_default else NO_DEFAULT)
            for k, p in enumerate(read_signature(function).params)
        )
        signature = signature_of("dk.jax_callable", _Function(name, parameters), num_outputs, in_out_argnames)
        super().__init__(function, signature, None, output_dims, vmap_method, enable_backward)
        # What was traced rests on: what each kernel that was launched meant, and what the function captured.
        self._meant: dict[Kernel, KernelVersion] = {}
        self._surroundings = _surroundings(function)

    def __reduce__(self) -> Any:
        # Where it decorates the function, the function's import path leads to it.
        return self.function.__qualname__ if is_found(self, self.function) else (JaxCallable, self._given)

    def __repr__(self) -> str:
        return f"<dk.jax_callable of {self.name}>"

    def __call__(self, *args: Any, output_dims: Any = None, vmap_method: str | None = None) -> tuple[Any, ...]:
        """Return the outputs: in-out arguments first, then pure outputs; other values for this call may be given."""
        return self._run(args, None, output_dims, vmap_method)

    # Called before each call: a redefined kernel or a changed global must not run what was traced before.
    def _has_changed(self) -> bool:
        before, self._surroundings = self._surroundings, _surroundings(self.function)
        same = len(before) == len(self._surroundings) and all(map(operator.is_, before, self._surroundings))
        # Traced programs depend on nothing else that can change.
        if same and all(kernel.current() is meant for kernel, meant in self._meant.items()):
            return False
        self._meant = {}
        return True

    def _trace(self, launch_dims: Any, output_dims: Any, vmap_method: str, *args: Any) -> tuple[Any, ...]:
        given = passed(self.signature, args)
        shapes = {a.index: a.extents for a in given if a.is_array}
        first: tuple[Any, ...] = next(iter(shapes.values()), ())
        output_dims = resolved(output_dims, [a.value for a in given])
        arguments = [*given, *outputs_of(self.signature, first, shapes, output_dims)]
        if not all(is_static(a.extents) for a in arguments):
            raise LaunchError(
                f"{self.name!r}: what a function launches is known for fixed shapes alone, not for symbolic ones",
                remedy="export functions made by dk.jax_kernel, or give the shapes",
            )
        recording = record(self.name, self.function, [a.without_value() for a in arguments])
        # Recorded per kernel, so that a later redefinition is noticed by `_has_changed`.
        self._meant.update({s.kernel: s.generation for s in recording.steps if isinstance(s, Launched)})
        steps = _StepByStep(recording, vmap_method)
        # The handler for a GPU cannot put numbers into argument blocks; there every launch is a call.
        on_cpu = cuda.present() is None
        together: Callable[..., tuple[Any, ...]] = (lambda *x: forward(recording, x, vmap_method)) if on_cpu else steps
        values = [a.value for a in given]
        if not self.enable_backward:
            return returned(self.signature, together(*agree(values)))
        return returned(self.signature, apply(Whole(recording.results, together, steps), values))


def _surroundings(function: Callable[..., Any]) -> list[Any]:
    """Return the values of a function's free names: globals and closure variables."""
    code, space = function.__code__, function.__globals__
    found = [space.get(name) for name in code.co_names]
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            found.append(None)
    return found


class _StepByStep:
    """A recording as a chain of differentiable functions, one for each launch."""

    def __init__(self, recording: Recording, vmap_method: str) -> None:
        self._recording, self._vmap_method = recording, vmap_method

    def __call__(self, *given: Any) -> tuple[Any, ...]:
        recording = self._recording
        state: dict[int, Any] = {a.index: x for a, x in zip(recording.passed, given, strict=True)}
        for a in recording.buffers:
            if a.index not in state:
                # Arrays made by the function begin with their recorded contents, or zeros.
                state[a.index] = jnp.zeros(a.shape, a.dtype) if a.value is None else as_jax(a, a.value)
        for step in recording.steps:
            if isinstance(step, Launched):
                self._launch(step, state)
            elif isinstance(step, Filled):
                self._check_whole([step.goal], "fill")
                goal = recording.buffers[step.goal.buffer]
                state[goal.index] = as_jax(goal, np.broadcast_to(step.values, goal.shape))
            else:
                self._check_whole([step.goal, step.source], "copy")
                # Arrays of JAX are immutable, so a copy is the same value under another name.
                state[step.goal.buffer] = state[step.source.buffer]
        return tuple(state[a.index] for a in recording.results)

    def _launch(self, step: Launched, state: dict[int, Any]) -> None:
        self._check_whole([o for o in step.operands if isinstance(o, BufferPart)], step.kernel.name)
        # A launch that writes nothing has no effect in JAX.
        if not step.writes:
            return
        self._check_disjoint(step)
        arguments = [
            _argument(k, p.name, key, o, state, k in step.writes)
            for k, (p, key, o) in enumerate(zip(step.kernel.parameters, step.keys, step.operands, strict=True))
        ]
        enabled = step.kernel.enable_backward
        run = LaunchFunction(step.kernel, step.generation, arguments, step.dims, self._vmap_method, enabled)
        for k, new in zip(sorted(step.writes), apply(ResultsOfLaunch(run), [a.value for a in arguments]), strict=True):
            goal = step.operands[k]
            assert isinstance(goal, BufferPart)
            state[goal.buffer] = new

    def _check_disjoint(self, step: Launched) -> None:
        """Refuse an array that a launch writes and that is also another parameter: here they are two values."""
        places = {k: o.buffer for k, o in enumerate(step.operands) if isinstance(o, BufferPart)}
        for k in step.writes:
            same = [other for other, buffer in places.items() if other != k and buffer == places[k]]
            if same:
                one, two = (step.kernel.parameters[i].name for i in sorted((k, same[0])))
                raise AutodiffError(
                    f"{self._recording.name!r} launches {step.kernel.name!r} with one array as {one!r} and "
                    f"{two!r}, and it is written to; its gradient is made for arrays that are apart",
                    remedy="pass a copy of it as one of them (dk.clone), or write a kernel that takes it once",
                )

    def _check_whole(self, places: Sequence[BufferPart], label: str) -> None:
        if not all(p.is_whole for p in places):
            raise AutodiffError(
                f"{self._recording.name!r} passes a part of an array to {label!r}; its gradient is made for whole "
                "arrays alone",
                remedy="pass whole arrays and the offset as a number, or slice outside in JAX",
            )


def _argument(k: int, name: str, key: str, operand: Operand, state: dict[int, Any], is_written: bool) -> CallArgument:
    t = type_of_key(key)
    assert isinstance(t, (Array, Scalar, Vec, Mat))
    x: Any
    if isinstance(operand, ConstantBytes):
        assert not isinstance(t, Array)
        scalar, shape = scalar_of(abi.passed_type(t)), shape_of(t)
        count = int(np.prod(shape))
        x = jnp.asarray(np.frombuffer(operand.packed, np.dtype(jax_type(scalar)), count).reshape(shape))
    else:
        x = state[operand.buffer]
    return CallArgument(k, name, t, tuple(x.shape), x.dtype, x, is_written)
