"""One custom call while it is built: its operands and results, what is copied and cleared, and what is launched.

In: JAX values, types, launches of programs. Out: the results, from one :class:`~diffkern.interop.jax.call.Call` that is
entered for the CPU and, in a process with a GPU, one for that. Forwards and adjoints, of one launch or of several, are
all built here. Buffers are numbered: operands first, so all of them are given before the first result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax

from diffkern import abi
from diffkern.interop.jax import cuda, programs
from diffkern.interop.jax.call import Bound, Buffer, Call, Clear, Copy, Launch, buffer_of
from diffkern.interop.jax.dispatch import CustomCall
from diffkern.interop.jax.programs import Program, Programs
from diffkern.ir.types import Array, Element, Mat, Scalar, Vec, parse_type
from diffkern.manifest import Parameter

__all__ = ["CallBuilder", "Constant", "Number", "Operand", "Place"]


@dataclass(frozen=True)
class Place:
    """An array: a buffer, and where in it the array lies; the whole buffer where no shape is given."""

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
class Constant:
    """A value that does not depend on the arguments: its bytes."""

    packed: bytes


Operand: TypeAlias = Place | Number | Constant


@dataclass(frozen=True)
class _Launched:
    programs: Programs
    axes: int
    operand: Callable[[Parameter], Operand]

    def on(self, gpu: cuda.Gpu | None) -> tuple[Program, ...]:
        """The programs for one platform."""
        if gpu is None:
            return tuple(p for p in (self.programs.plain, self.programs.atomic) if p is not None)
        assert self.programs.on_gpu is not None
        return (self.programs.on_gpu,)

    def step(self, gpu: cuda.Gpu | None) -> Launch:
        plain, *atomic = self.on(gpu)
        params = tuple(_bound(parse_type(p.type), self.operand(p)) for p in plain.manifest.params)
        return Launch(plain.identity, atomic[0].identity if atomic else "", self.axes, params)


class CallBuilder:
    """A custom call of the name that it has in messages."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._values: list[Any] = []
        self._operands: list[Buffer] = []
        self._results: list[Buffer] = []
        self._shapes: list[Any] = []
        self._aliases: list[tuple[int, int]] = []
        self._steps: list[Copy | Clear | _Launched] = []
        self._dims: list[tuple[Any, ...]] = []

    def operand(self, value: Any, t: Array | Element) -> int:
        """Add an operand; return its number."""
        assert not self._results
        self._values.append(value)
        self._operands.append(buffer_of(t))
        return len(self._values) - 1

    def result(self, t: Array | Element, shape: Sequence[Any], dtype: Any) -> int:
        """Add a result, whose contents are whatever the steps make them; return its number."""
        self._results.append(buffer_of(t))
        self._shapes.append(jax.ShapeDtypeStruct(tuple(shape), dtype))
        return len(self._values) + len(self._results) - 1

    def copy(self, source: int, goal: int) -> None:
        """Copy one buffer's contents to another."""
        self._steps.append(Copy(source, goal))

    def take_over(self, source: int, goal: int) -> None:
        """Let a result begin with what an operand holds, in the operand's memory where XLA can spare it."""
        self.copy(source, goal)
        self._aliases.append((source, goal - len(self._values)))

    def clear(self, goal: int, axes: int = 0, launch: int = 0) -> None:
        """Set a result to zeros, unless a launch overwrites it: its first `axes` dims are the result's (0: never)."""
        self._steps.append(Clear(goal, axes, launch))

    def launch(self, programs: Programs, dims: tuple[Any, ...], operand: Callable[[Parameter], Operand]) -> None:
        """Launch programs, with the operand that each parameter of theirs is."""
        self._steps.append(_Launched(programs, len(dims), operand))
        self._dims.append(dims)

    def run(self, vmap_method: str, around: Callable[[CustomCall], Any] = lambda call: call) -> tuple[Any, ...]:
        """Return the results; `around` makes a function of the custom call."""
        gpu = cuda.present()
        on_gpu = "" if gpu is None else self._entered(gpu)
        shapes, dims, aliases = tuple(self._shapes), tuple(self._dims), tuple(self._aliases)
        call = CustomCall(self._entered(None), shapes, dims, aliases, vmap_method, on_gpu)
        return tuple(around(call)(*self._values))

    def _entered(self, gpu: cuda.Gpu | None) -> str:
        """Enter the call for one platform; return its key."""
        used = {p.identity: p for s in self._steps if isinstance(s, _Launched) for p in s.on(gpu)}
        steps = tuple(s.step(gpu) if isinstance(s, _Launched) else s for s in self._steps)
        return programs.keep(Call(self._name, tuple(self._operands), tuple(self._results), steps), used, gpu)


def _bound(t: Array | Element, operand: Operand) -> Bound:
    """A parameter of a program as the part of a buffer that it is."""
    if isinstance(operand, Constant):
        return Bound("constant", 0, len(operand.packed), constant=operand.packed.hex())
    if not isinstance(t, Array):
        passed = abi.passed_type(t)
        assert isinstance(operand, Number)
        assert isinstance(passed, (Scalar, Vec, Mat))
        return Bound("value", operand.buffer, passed.itemsize)
    if isinstance(operand, Number):  # a program for a GPU takes values by reference
        return Bound("view", operand.buffer, 1, t.dtype.itemsize, 0, (1, t.dtype.itemsize))
    if operand.is_whole:
        return Bound("array", operand.buffer, t.ndim, t.dtype.itemsize)
    return Bound("view", operand.buffer, t.ndim, t.dtype.itemsize, operand.start, operand.shape + operand.strides)
