"""``dk.jax_callable``: a Python function that launches several kernels, as one JAX function.

In: a function over diffkern arrays. Out: a function of JAX arrays that is one custom call, whose native handler runs
all launches in order; arrays that the function makes are buffers of XLA's. For a gradient the launches are one call
each, so that every adjoint finds the states it needs.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffkern import abi
from diffkern.errors import AutodiffError, LaunchError, MisuseError
from diffkern.frontend.signature import signature as read_signature
from diffkern.interop.jax import cuda, programs
from diffkern.interop.jax.arguments import (
    Arguments,
    bytes_of_value,
    components,
    convert,
    jax_type,
    refuse_foreign,
    signature_of,
    static_form,
    value_buffer,
)
from diffkern.interop.jax.call import Bound, Buffer, Call, Clear, Launch, bind_array, buffer_of
from diffkern.interop.jax.call import Copy as CopyStep
from diffkern.interop.jax.dispatch import CustomCall, checked_method, is_static
from diffkern.interop.jax.kernel import JaxKernel
from diffkern.interop.jax.manual import agree
from diffkern.interop.jax.programs import Program
from diffkern.interop.jax.recording import Argument, Constant, Number, Place, Recorded, Recording, record
from diffkern.interop.jax.spelling import array_type, type_of
from diffkern.ir.structs import Struct
from diffkern.ir.types import BFLOAT16, Array, Element, scalar_of
from diffkern.kernel import Kernel
from diffkern.lang.imported import is_found
from diffkern.runtime.arguments import NO_DEFAULT, Parameter
from diffkern.runtime.array import array
from diffkern.runtime.generation import Generation
from diffkern.runtime.launch import Launch as Launched
from diffkern.runtime.operation import Assign

__all__ = ["JaxCallable"]

_MAX_COMPILED = 256


@dataclass(frozen=True)
class _Function:
    """What :func:`signature_of` asks a kernel for."""

    name: str
    parameters: tuple[Parameter, ...]


class JaxCallable:
    """A function that launches kernels, as a function of JAX arrays; made by :func:`diffkern.jax_callable`."""

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
            raise MisuseError(f"dk.jax_callable takes a Python function, not {function!r}")
        self._given = function, num_outputs, output_dims, in_out_argnames, vmap_method, enable_backward
        self.function, self.name = function, function.__name__
        parameters = tuple(
            Parameter(self.name, k, p.name, p.annotation, p.default if p.has_default else NO_DEFAULT)
            for k, p in enumerate(read_signature(function).params)
        )
        self.signature = signature_of("dk.jax_callable", _Function(self.name, parameters), num_outputs, in_out_argnames)
        self.enable_backward = enable_backward
        self._output_dims, self._method = output_dims, checked_method(vmap_method)
        self._compiled: dict[Any, Callable[..., Any]] = {}
        # What was traced rests on: what each kernel that was launched meant, and what the function captured.
        self._meant: dict[Kernel, Generation] = {}
        self._surroundings = _surroundings(function)
        self._steps: dict[tuple[Kernel, int, tuple[str, ...]], JaxKernel] = {}
        functools.update_wrapper(self, function)

    def __reduce__(self) -> Any:
        # Where it decorates the function, the function's import path leads to it.
        return self.function.__qualname__ if is_found(self, self.function) else (JaxCallable, self._given)

    def __repr__(self) -> str:
        return f"<dk.jax_callable of {self.name}>"

    def __call__(self, *args: Any, output_dims: Any = None, vmap_method: str | None = None) -> tuple[Any, ...]:
        """Return the outputs: in-out arguments first, then pure outputs; other values for this call may be given."""
        output_dims = self._output_dims if output_dims is None else output_dims
        method = self._method if vmap_method is None else checked_method(vmap_method)
        form = static_form(output_dims), method
        self._notice_changes()
        compiled = self._compiled.get(form)
        if compiled is None:
            if len(self._compiled) >= _MAX_COMPILED:
                self._compiled.clear()
            traced = functools.partial(self._trace, output_dims, method)
            traced.__name__ = self.name  # type: ignore[attr-defined]
            compiled = self._compiled[form] = jax.jit(traced)
        try:
            out: tuple[Any, ...] = compiled(*args)
        except TypeError:
            refuse_foreign(self.signature, args)
            raise
        return out

    def _notice_changes(self) -> None:
        """Forget what was traced if a kernel, or the function itself, captures something else than it did."""
        present = _surroundings(self.function)
        same = len(present) == len(self._surroundings) and all(map(operator.is_, present, self._surroundings))
        if not same or any(kernel.current() is not meant for kernel, meant in self._meant.items()):
            self._compiled, self._meant, self._surroundings = {}, {}, present

    def _trace(self, output_dims: Any, method: str, *args: Any) -> tuple[Any, ...]:
        plan = _Plan(self, convert(self.signature, args), output_dims, method)
        self._meant.update(plan.meant())
        values = agree(plan.args.values)
        # The handler for a GPU cannot put numbers into argument blocks; there every launch is a call.
        together = plan.native if cuda.present() is None else plan.step_by_step
        if not self.enable_backward:
            return together(*values)
        run = jax.custom_vjp(together)
        run.defvjp(lambda *given: jax.vjp(plan.step_by_step, *given), lambda pull, cts: pull(cts))
        out: tuple[Any, ...] = run(*values)
        return out

    def step(self, kernel: Kernel, of: Generation, written: tuple[str, ...]) -> JaxKernel:
        """Return one launch, of what a kernel meant, as a function that returns what it writes."""
        key = kernel, of.number, written
        found = self._steps.get(key)
        if found is None:
            if len(self._steps) >= _MAX_COMPILED:
                self._steps.clear()
            found = self._steps[key] = JaxKernel(kernel, len(written), None, None, written, self._method, True, of)
        return found


def _surroundings(function: Callable[..., Any]) -> list[Any]:
    """What the names of a function that are not its own stand for: globals and closure variables."""
    code, space = function.__code__, function.__globals__
    found = [space.get(name) for name in code.co_names]
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            found.append(None)
    return found


class _Plan:
    """One tracing."""

    def __init__(self, owner: JaxCallable, args: Arguments, output_dims: Any, method: str) -> None:
        self.owner, self.args, self.method = owner, args, method
        signature = owner.signature
        first = next((args.shape(k) for k, n in enumerate(args.axes) if n >= 0), ())
        self.outputs = args.outputs(first, output_dims)
        given = [
            Argument(p.name, e, args.shape(k) if n >= 0 else None)
            for k, (p, e, n) in enumerate(zip(signature.parameters, args.elements, args.axes, strict=False))
        ]
        pure = [o for o in self.outputs if not o.is_inout]
        given += [Argument(signature.names[o.index], o.element, o.shape[: o.axes]) for o in pure]
        if not all(is_static(a.shape or ()) for a in given):
            raise LaunchError(
                f"{owner.name!r}: what a function launches is known for fixed shapes alone, not for symbolic ones",
                remedy="export functions made by dk.jax_kernel, or give the shapes",
            )
        self.recording: Recording = record(owner.name, owner.function, given)
        # Buffers of the recording: arguments that are arrays, in the order of the parameters.
        self.arrays = [k for k, a in enumerate(given) if a.shape is not None]

    def meant(self) -> dict[Kernel, Generation]:
        """What the kernels that are launched meant."""
        operations = [item.operation for item in self.recording.operations]
        return {o.kernel: o.generation for o in operations if isinstance(o, Launched) and isinstance(o.kernel, Kernel)}

    # -- one call ----------------------------------------------------------------------------------------------------

    def native(self, *given: Any) -> tuple[Any, ...]:
        """All launches in one custom call."""
        return _NativeCall(self, given).run()

    # -- one call for each launch --------------------------------------------------------------------------------------

    def step_by_step(self, *given: Any) -> tuple[Any, ...]:
        """The same as a chain of differentiable functions."""
        recording = self.recording
        state: dict[int, Any] = {}
        for buffer, held in enumerate(recording.arrays):
            parameter = self.arrays[buffer] if buffer < len(self.arrays) else -1
            if 0 <= parameter < len(given):
                state[buffer] = given[parameter]
            else:
                state[buffer] = _initial(held, recording.contents.get(buffer))
        for item in recording.operations:
            self._step(item, state, given)
        by_parameter = {parameter: buffer for buffer, parameter in enumerate(self.arrays)}
        return tuple(state[by_parameter[o.index]] for o in self.outputs)

    def _step(self, item: Recorded, state: dict[int, Any], given: Sequence[Any]) -> None:
        operation = item.operation
        places = [p for p in item.operands if isinstance(p, Place)]
        if not all(p.is_whole for p in places):
            raise AutodiffError(
                f"{self.owner.name!r} passes a part of an array to {operation.label!r}; its gradient is made for whole "
                "arrays alone",
                remedy="pass whole arrays and the offset as a number, or slice outside in JAX",
            )
        if isinstance(operation, Launched):
            kernel = operation.kernel
            assert isinstance(kernel, Kernel)
            names = [p.name for p in kernel.parameters]
            writes = operation.executable.writes
            if not writes:
                return
            args = [
                state[p.buffer]
                if isinstance(p, Place)
                else given[p.argument]
                if isinstance(p, Number)
                else _value(p, t)
                for p, t in zip(item.operands, operation.keys, strict=True)
            ]
            step = self.owner.step(kernel, operation.generation, tuple(names[k] for k in writes))
            for k, new in zip(writes, step(*args, launch_dims=operation.dims), strict=True):
                place = item.operands[k]
                assert isinstance(place, Place)
                state[place.buffer] = new
        elif isinstance(operation, Assign):
            goal = places[0].buffer
            held = self.recording.arrays[goal]
            state[goal] = _as_jax(held, np.broadcast_to(item.values, held._data.shape))
        else:
            state[places[0].buffer] = state[places[1].buffer]


class _NativeCall:
    """The custom call of a recording.

    Its operands are the arguments, then constants; its results the outputs, then the arrays that the function makes.
    """

    def __init__(self, plan: _Plan, given: Sequence[Any]) -> None:
        self.plan, self.recording = plan, plan.recording
        self.operands = list(given)
        self.buffers = [
            buffer_of(e, n) if n >= 0 else value_buffer(e)
            for e, n in zip(plan.args.elements, plan.args.axes, strict=True)
        ]
        self.results: list[Buffer] = []
        self.types: list[Any] = []
        self.aliases: list[tuple[int, int]] = []
        # Steps name results by negative numbers until it is known how many operands there are.
        self.steps: list[CopyStep | Clear | Launch] = []
        self.place: dict[int, int] = {}
        self.programs: dict[str, Program] = {}
        self.launches = [item for item in self.recording.operations if isinstance(item.operation, Launched)]

    def run(self) -> tuple[Any, ...]:
        plan = self.plan
        buffer_of_parameter = {parameter: buffer for buffer, parameter in enumerate(plan.arrays)}
        for k in range(len(plan.args.values)):
            if k in buffer_of_parameter:
                self.place[buffer_of_parameter[k]] = k
        for o in plan.outputs:
            buffer = buffer_of_parameter[o.index]
            goal = self.result(buffer_of(o.element, o.axes), o.shape, o.dtype)
            if o.is_inout:
                self.steps.append(CopyStep(o.index, goal))
                self.aliases.append((o.index, -goal - 1))
            else:
                self.steps.append(self.clear(buffer, goal))
            self.place[buffer] = goal
        for buffer in range(len(plan.arrays), len(self.recording.arrays)):
            self.intermediate(buffer)
        for item in self.recording.operations:
            self.steps.append(self.step(item))
        count = len(self.operands)
        steps = tuple(_renumbered(step, count) for step in self.steps)
        call = Call(plan.owner.name, tuple(self.buffers), tuple(self.results), steps)
        key = programs.keep(call, self.programs)
        dims = tuple(tuple(item.operation.dims) for item in self.launches)  # type: ignore[union-attr]
        out = CustomCall(key, tuple(self.types), dims, tuple(self.aliases), plan.method)(*self.operands)
        return out[: len(plan.outputs)]

    def result(self, buffer: Buffer, shape: Sequence[Any], dtype: Any) -> int:
        self.results.append(buffer)
        self.types.append(jax.ShapeDtypeStruct(tuple(shape), dtype))
        return -len(self.results)

    def constant(self, held: array, values: Any) -> int:
        self.operands.append(_as_jax(held, values))
        self.buffers.append(_buffer(held))
        return len(self.operands) - 1

    def intermediate(self, buffer: int) -> None:
        """Make room for an array that is no argument; what is only read is an operand."""
        held, contents = self.recording.arrays[buffer], self.recording.contents[buffer]
        source = None if contents is None else self.constant(held, contents)
        written = {p.buffer for item in self.recording.operations for p in _written(item)}
        if source is not None and buffer not in written:
            self.place[buffer] = source
            return
        goal = self.result(_buffer(held), held._data.shape, jax_type(scalar_of(_element(held))))
        self.steps.append(self.clear(buffer, goal) if source is None else CopyStep(source, goal))
        self.place[buffer] = goal

    def clear(self, buffer: int, goal: int) -> Clear:
        """Zeros for a buffer, unless the first launch that touches it overwrites it as a whole."""
        for item in self.recording.operations:
            touched = [k for k, p in enumerate(item.operands) if isinstance(p, Place) and p.buffer == buffer]
            if not touched:
                continue
            place = item.operands[touched[0]]
            if len(touched) == 1 and item in self.launches and isinstance(place, Place) and place.is_whole:
                axes = self.program(item).manifest.params[touched[0]].whole or 0
                return Clear(goal, axes, self.launches.index(item))
            break
        return Clear(goal, 0, 0)

    def program(self, item: Recorded) -> Program:
        operation = item.operation
        assert isinstance(operation, Launched)
        assert isinstance(operation.kernel, Kernel)
        found = programs.forward(operation.kernel, operation.generation, operation.keys)
        self.programs[found.identity] = found
        return found

    def step(self, item: Recorded) -> CopyStep | Clear | Launch:
        operation = item.operation
        if isinstance(operation, Launched):
            program = self.program(item)
            params = [self.bound(item.operands[p.of], p.type) for p in program.manifest.params]
            return Launch(program.identity, "", len(operation.dims), tuple(params))
        places = [p for p in item.operands if isinstance(p, Place)]
        if not all(p.is_whole for p in places):
            raise LaunchError(
                f"{self.plan.owner.name!r} copies or fills a part of an array", remedy="do that in a kernel, or in JAX"
            )
        goal = self.place[places[0].buffer]
        if not isinstance(operation, Assign):
            return CopyStep(self.place[places[1].buffer], goal)
        if not np.any(item.values):
            return Clear(goal, 0, 0)
        held = self.recording.arrays[places[0].buffer]
        return CopyStep(self.constant(held, np.broadcast_to(item.values, held._data.shape)), goal)

    def bound(self, operand: Place | Number | Constant, spelling: str) -> Bound:
        if isinstance(operand, Constant):
            return Bound("constant", 0, len(operand.packed), constant=operand.packed.hex())
        if isinstance(operand, Number):
            element = type_of(spelling)
            assert not isinstance(element, Array)
            return Bound("value", operand.argument, bytes_of_value(element))
        place = self.place[operand.buffer]
        if operand.is_whole:
            return bind_array(spelling, place)
        t = array_type(spelling)
        return Bound("view", place, t.ndim, t.dtype.itemsize, operand.start, operand.shape + operand.strides)


def _renumbered(step: CopyStep | Clear | Launch, operands: int) -> CopyStep | Clear | Launch:
    def number(k: int) -> int:
        return k if k >= 0 else operands - 1 - k

    if isinstance(step, CopyStep):
        return CopyStep(number(step.source), number(step.goal))
    if isinstance(step, Clear):
        return replace(step, buffer=number(step.buffer))
    return replace(step, params=tuple(replace(p, buffer=number(p.buffer)) for p in step.params))


def _written(item: Recorded) -> list[Place]:
    operation = item.operation
    chosen = operation.executable.writes if isinstance(operation, Launched) else (0,)
    return [p for k in chosen if isinstance(p := item.operands[k], Place)]


def _element(held: array) -> Element:
    element = held._element
    assert not isinstance(element, Struct)
    return element


def _buffer(held: array) -> Buffer:
    return buffer_of(_element(held), held.ndim)


def _as_jax(held: array, values: Any) -> Any:
    """What diffkern stores, as JAX's array."""
    scalar = scalar_of(_element(held))
    x = jnp.asarray(values)
    return jax.lax.bitcast_convert_type(x, jnp.bfloat16) if scalar == BFLOAT16 else x.astype(jax_type(scalar))


def _initial(held: array, contents: Any) -> Any:
    if contents is None:
        return jnp.zeros(held._data.shape, jax_type(scalar_of(_element(held))))
    return _as_jax(held, contents)


def _value(constant: Constant, key: str) -> Any:
    """A constant by value, as what JAX passes for it."""
    element = type_of(key)
    assert not isinstance(element, Array)
    passed = abi.passed_type(element)
    scalar = scalar_of(passed)
    numbers = np.frombuffer(constant.packed[: bytes_of_value(element)], np.dtype(jax_type(scalar)))
    return numbers.reshape(components(element))
