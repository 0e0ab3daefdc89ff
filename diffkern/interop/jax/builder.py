"""A custom call under construction: its operands and results, its copies and clears, and its launches.

From JAX values, types and launches of programs a :class:`CallBuilder` makes one
:class:`~diffkern.interop.jax.call.XlaCall`, which is entered for the CPU and, in a process with a GPU, one for that;
running it gives the results. Forwards and adjoints, of one launch or of several, are all built here. Buffers are
numbered: operands first, so all of them are given before the first result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import jax

from diffkern.contracts import abi
from diffkern.contracts.manifest import ProgramParameter
from diffkern.interop.jax import cuda, programs
from diffkern.interop.jax.call import BoundBuffer, BufferCopy, Clear, ProgramLaunch, XlaBuffer, XlaCall, buffer_of
from diffkern.interop.jax.dispatch import CustomCall
from diffkern.interop.jax.programs import KeyedProgram, Programs
from diffkern.ir.types import Array, Element, Mat, Scalar, Vec, parse_type
from diffkern.process.dataclass import dataclass

__all__ = ["BufferPart", "CallBuilder", "ConstantBytes", "Number", "Operand"]


@dataclass(frozen=True)
class BufferPart:
    """An array: a buffer, and the place of the array in it; the whole buffer if no shape is given."""

    buffer: int
    start: int = 0
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    is_whole: bool = True


@dataclass(frozen=True)
class Number:
    """A value, in a buffer of its own."""

    buffer: int


@dataclass(frozen=True)
class ConstantBytes:
    """A value that does not depend on the arguments: its bytes."""

    packed: bytes


Operand: TypeAlias = BufferPart | Number | ConstantBytes


@dataclass(frozen=True)
class _Launched:
    programs: Programs
    dims: tuple[Any, ...]
    operands: Mapping[tuple[str, int], Operand]

    def operand(self, p: ProgramParameter) -> Operand:
        return self.operands[p.role, p.of]

    def on(self, gpu: cuda.ArchitectureGpus | None) -> tuple[KeyedProgram, ...]:
        """Return the programs for one platform."""
        if gpu is None:
            return tuple(p for p in (self.programs.plain, self.programs.atomic) if p is not None)
        assert self.programs.on_gpu is not None
        return (self.programs.on_gpu,)

    def step(self, gpu: cuda.ArchitectureGpus | None) -> ProgramLaunch:
        plain, *atomic = self.on(gpu)
        params = tuple(_bound(parse_type(p.type), self.operand(p)) for p in plain.manifest.params)
        return ProgramLaunch(plain.identity, atomic[0].identity if atomic else "", len(self.dims), params)

    def examples(self, size: int, buffers: Sequence[int]) -> _Launched | None:
        """Return the launch for a batch, in which these buffers have an axis of examples; None if there is none."""
        # Constants are the same in every example.
        wider = {
            slot: o for slot, o in self.operands.items() if not isinstance(o, ConstantBytes) and o.buffer in buffers
        }
        arguments = self.differing(buffers)
        # Parts of arrays that are contiguous in one example are not in several.
        if arguments is None or any(isinstance(o, BufferPart) and not o.is_whole for o in wider.values()):
            return None
        found = self.programs.batched(self.dims, size, arguments)
        if found is None:
            return None
        operands: dict[tuple[str, int], Operand] = {**self.operands}
        # With the axis of examples an array is the whole buffer, and a value has become an array of one per example.
        operands.update((slot, BufferPart(o.buffer)) for slot, o in wider.items())
        return _Launched(*found, operands)

    def differing(self, buffers: Sequence[int]) -> tuple[int, ...] | None:
        """Return the arguments that have an axis of examples if these buffers have it; None if they cannot."""
        held = {k for (_, k), o in self.operands.items() if not isinstance(o, ConstantBytes) and o.buffer in buffers}
        return self.programs.differing(held)

    def buffers_of(self, arguments: Collection[int]) -> set[int]:
        """Return the buffers of these arguments."""
        found = (o for (_, k), o in self.operands.items() if k in arguments)
        return {o.buffer for o in found if not isinstance(o, ConstantBytes)}


class CallBuilder:
    """A custom call with a name for messages."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._values: list[Any] = []
        self._operands: list[XlaBuffer] = []
        self._results: list[XlaBuffer] = []
        self._shapes: list[Any] = []
        self._aliases: list[tuple[int, int]] = []
        self._steps: list[BufferCopy | Clear | _Launched] = []

    def operand(self, value: Any, t: Array | Element) -> int:
        """Add an operand; return its number."""
        assert not self._results
        self._values.append(value)
        self._operands.append(buffer_of(t))
        return len(self._values) - 1

    def result(self, t: Array | Element, shape: Sequence[Any], dtype: Any) -> int:
        """Add a result, whose contents are written by the steps; return its number."""
        self._results.append(buffer_of(t))
        self._shapes.append(jax.ShapeDtypeStruct(tuple(shape), dtype))
        return len(self._values) + len(self._results) - 1

    def copy(self, source: int, goal: int) -> None:
        """Copy one buffer's contents to another."""
        self._steps.append(BufferCopy(source, goal))

    def take_over(self, source: int, goal: int) -> None:
        """Let a result begin with an operand's contents, in the operand's memory where XLA can spare it."""
        # The copy stays a step: XLA may refuse the alias, and a copy within one memory does nothing.
        self.copy(source, goal)
        self._aliases.append((source, goal - len(self._values)))

    def clear(self, goal: int, axes: int = 0, launch: int = 0) -> None:
        """Set a result to zeros, unless a launch overwrites it: its first `axes` dims are the result's (0: never)."""
        self._steps.append(Clear(goal, axes, launch))

    def launch(self, programs: Programs, dims: tuple[Any, ...], operand: Callable[[ProgramParameter], Operand]) -> None:
        """Launch programs, with the operand of each of their parameters."""
        held: dict[tuple[str, int], Operand] = {(p.role, p.of): operand(p) for p in programs.plain.manifest.params}
        self._steps.append(_Launched(programs, dims, held))

    def run(self, vmap_method: str) -> tuple[Any, ...]:
        """Return the results."""
        return self._described().call(vmap_method)(*self._values)

    def _described(self) -> CallBuilder:
        """Return the builder without the values, which belong to one trace."""
        made = CallBuilder(self._name)
        vars(made).update(vars(self), _values=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in self._values])
        return made

    def call(self, vmap_method: str) -> CustomCall:
        """Return the custom call."""
        gpu = cuda.present()
        on_gpu = "" if gpu is None else self._entered(gpu)
        # The dims of launches are no part of the call's key: they are passed with each call.
        dims = tuple(s.dims for s in self._steps if isinstance(s, _Launched))
        shapes, aliases = tuple(self._shapes), tuple(self._aliases)

        def examples(size: int, mask: Sequence[bool]) -> tuple[CustomCall, tuple[bool, ...]] | None:
            found = self.examples(size, mask)
            return None if found is None else (found[0].call(vmap_method), found[1])

        return CustomCall(self._entered(None), shapes, dims, aliases, vmap_method, on_gpu, examples)

    def examples(self, size: int, mask: Sequence[bool]) -> tuple[CallBuilder, tuple[bool, ...]] | None:
        """Return the call for a batch, with an axis of examples in each launch.

        Parameters
        ----------
        size : int
            How many examples there are.
        mask : sequence of bool
            Which operands have an axis of examples in front; all results have.

        Returns
        -------
        tuple or None
            The call, and which of its operands have that axis; None where a launch has no such form.
        """
        wider = self._wider(mask)
        if wider is None:
            return None
        made = CallBuilder(self._name)
        count = len(self._operands)
        made._values = [_longer(x, size) if k in wider else x for k, x in enumerate(self._values)]
        made._operands = [replace(b, rank=b.rank + (k in wider)) for k, b in enumerate(self._operands)]
        made._results = [replace(b, rank=b.rank + 1) for b in self._results]
        made._shapes, made._aliases = [_longer(x, size) for x in self._shapes], self._aliases
        places = sorted(wider)
        launches: list[tuple[_Launched, _Launched]] = []
        for step in self._steps:
            if isinstance(step, _Launched):
                found = step.examples(size, places)
                if found is None:
                    return None
                launches.append((step, found))
                made._steps.append(found)
            else:
                made._steps.append(step)
        # A result may be left uncleared only if the launch still overwrites all of it with the axis of examples in
        # front.
        whole = [after.dims == (size, *before.dims) for before, after in launches]
        made._steps = [
            replace(s, axes=s.axes + 1 if s.axes and whole[s.launch] else 0) if isinstance(s, Clear) else s
            for s in made._steps
        ]
        return made, tuple(k in wider for k in range(count))

    def _wider(self, mask: Sequence[bool]) -> set[int] | None:
        """Return the buffers with an axis of examples: a launch that has the axis in several of them has it in all."""
        count = len(self._operands)
        # Results differ as soon as any operand does, and a copy gives its source the axis of the result.
        wider = {k for k in range(count) if mask[k]} | set(range(count, count + len(self._results)))
        wider |= {s.source for s in self._steps if isinstance(s, BufferCopy)}
        before = 0
        # To a fixed point: a launch gives the axis to further buffers, which other launches share.
        while len(wider) > before:
            before = len(wider)
            for step in self._steps:
                if isinstance(step, _Launched):
                    arguments = step.differing(sorted(wider))
                    if arguments is None:
                        return None
                    wider |= step.buffers_of(arguments)
        return wider

    def _entered(self, gpu: cuda.ArchitectureGpus | None) -> str:
        """Enter the call for one platform; return its key."""
        used = {p.identity: p for s in self._steps if isinstance(s, _Launched) for p in s.on(gpu)}
        steps = tuple(s.step(gpu) if isinstance(s, _Launched) else s for s in self._steps)
        return programs.keep(XlaCall(self._name, tuple(self._operands), tuple(self._results), steps), used, gpu)


def _longer(x: Any, size: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((size, *x.shape), x.dtype)


def _bound(t: Array | Element, operand: Operand) -> BoundBuffer:
    """Return a parameter of a program as the part of a buffer that it occupies."""
    if isinstance(operand, ConstantBytes):
        return BoundBuffer("constant", 0, len(operand.packed), constant=operand.packed.hex())
    if not isinstance(t, Array):
        passed = abi.passed_type(t)
        assert isinstance(operand, Number)
        assert isinstance(passed, (Scalar, Vec, Mat))
        return BoundBuffer("value", operand.buffer, passed.itemsize)
    if isinstance(operand, Number):  # a program for a GPU takes values by reference
        return BoundBuffer("view", operand.buffer, 1, t.dtype.itemsize, 0, (1, t.dtype.itemsize))
    if operand.is_whole:
        return BoundBuffer("array", operand.buffer, t.ndim, t.dtype.itemsize)
    return BoundBuffer("view", operand.buffer, t.ndim, t.dtype.itemsize, operand.start, operand.shape + operand.strides)
