"""Operations that change the contents of arrays (copies, fills, sums), and the functions that hand them on.

:func:`perform` gives an operation to the handler that is current: a tape, tangents or a roll-out, which keeps what it
needs of it and passes it on. At the bottom :func:`submit` runs it, queues it on a stream, or gives it to the sequence
that is being recorded. An operation knows which memory it reads and writes, its native form if it has one, and its
derivatives in both modes, which are operations again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from diffkern.errors import LaunchError
from diffkern.ir.structs import Struct
from diffkern.runtime.memory.device import CPU, Device
from diffkern.runtime.memory.memory import Memory, bytewise
from diffkern.runtime.memory.scope import under
from diffkern.runtime.memory.state import current
from diffkern.runtime.memory.stream import Stream, drain
from diffkern.runtime.native.replay import Steps
from diffkern.runtime.observe.spans import span, watched

if TYPE_CHECKING:
    from diffkern.runtime.arrays.array import array

__all__ = [
    "Add", "Assign", "Composite", "Copy", "Flow", "FunctionCall", "Operation", "OperationCotangents",
    "OperationTangents", "accumulate", "memories", "perform", "run", "submit",
]  # fmt: skip


class OperationTangents(Protocol):
    """Tangents of the arrays of an operation."""

    def tangent(self, held: array) -> array | None:
        """Return the tangent of an array that the operation reads, None for zero."""
        ...

    def made(self, held: array) -> array:
        """Return the tangent of an array that it writes, before it is written."""
        ...


class OperationCotangents(Protocol):
    """Cotangents of the arrays of an operation, and what these held."""

    def cotangent(self, held: array) -> array:
        """Return the cotangent of an array."""
        ...

    def wants(self, held: array) -> bool:
        """Return whether a gradient passes through an array that the operation reads."""
        ...

    def value(self, held: array) -> array:
        """Return an array with what one of those in :meth:`Operation.needs` held behind the operation."""
        ...

    def scratch(self, like: array, device: Device) -> array:
        """Return a new array like another one, with any contents."""
        ...


class Flow(NamedTuple):
    """The arrays of an operation by the way in which contents flow through it."""

    written: tuple[array, ...]
    """The arrays that it writes."""
    sources: tuple[array, ...]
    """The arrays that its results depend on: what it reads, but for what it only adds to."""
    ended: tuple[array, ...]
    """The arrays that it overwrites as a whole: what it writes and does not read."""


class Operation(ABC):
    """Something that changes memory.

    What it writes and does not read it overwrites as a whole. One without derivatives can be performed wherever no
    gradient and no tangent passes it.
    """

    __slots__ = ()

    # A class that says so is asked much faster than isinstance, which goes through the machinery of abstract classes.
    kind = "memory"
    """Of which kind its span is: a launch, an adjoint, or anything else that changes memory."""

    is_call = False
    """True if it is a function that performs operations, each of which whatever is current takes."""

    is_composite = False
    """True if it performs other operations, which are run, queued and recorded one by one."""

    phrase = "an operation"
    """The words for it in messages, where its label says nothing to a user."""

    tangents_behind = False
    """True if its tangents are computed behind it, from what it has written; else before it."""

    sequences: Sequence[Any] = ()
    """Recorded sequences that it runs as parts of itself, if it does."""

    @property
    def is_from_host(self) -> bool:
        """True if what it writes are numbers that the host may have made of what it has read."""
        return False

    @property
    @abstractmethod
    def label(self) -> str:
        """The name of the operation for messages."""

    @property
    @abstractmethod
    def device(self) -> Device:
        """The device whose streams take it."""

    @abstractmethod
    def execute(self) -> None:
        """Run the operation once."""

    @abstractmethod
    def reads(self) -> Iterable[array]:
        """Return the arrays that it reads."""

    @abstractmethod
    def writes(self) -> Iterable[array]:
        """Return the arrays that it writes."""

    @abstractmethod
    def steps(self) -> Steps | None:
        """Return its native steps, or None if it has none."""

    def flow(self) -> Flow:
        """Return how contents flow through it, from what it reads, writes and only adds to."""
        written, read = tuple(self.writes()), tuple(self.reads())
        # Arrays are told apart by their ids: equality compares elements.
        seen = [*map(id, read)]
        ended = tuple([held for held in written if id(held) not in seen])
        added = [*map(id, self.updates())]
        return Flow(written, tuple([held for held in read if id(held) not in added]), ended)

    @abstractmethod
    def constants(self) -> bytes:
        """Return what it does besides its arrays, its numbers above all: an operation that runs again in a roll-out
        must do the same.
        """

    def check_differentiable(self) -> None:  # noqa: B027 - most have derivatives, or are passed by none
        """Raise if no tape and no tangents can take it, wherever gradients pass."""

    def updates(self) -> Iterable[array]:
        """Return the arrays that it only adds to: no other result depends on them, and their cotangents stay."""
        return ()

    def needs(self) -> Iterable[array]:
        """Return the arrays whose contents its derivatives read, as they are behind it."""
        return ()

    def jvp(self, tangents: OperationTangents) -> Sequence[Operation]:
        """Return operations that set the tangents of what it writes.

        Raises
        ------
        LaunchError
            If it has no derivative.
        """
        raise self._no_derivative("forward")

    def vjp(self, cotangents: OperationCotangents) -> Sequence[Operation]:
        """Return operations that carry the cotangents of what it writes to those of what it reads.

        They add to the cotangents of what it reads, and set those of what it overwrites to zero.

        Raises
        ------
        LaunchError
            If it has no derivative.
        """
        raise self._no_derivative("reverse")

    def _no_derivative(self, mode: str) -> LaunchError:
        return LaunchError(
            f"{self.label}: a gradient or tangent passes it, and it has no derivative in {mode} mode",
            remedy="leave it out of what is differentiated, or give it a derivative with dk.custom_operation",
        )

    def facts(self) -> dict[str, Any]:
        """Return the facts for observers besides the label, of JSON types."""
        return {"device": str(self.device)}

    def touch(self) -> None:
        """Raise the versions of the memory that it changes."""
        for a in self.writes():
            a._memory.version += 1

    def hold(self, stream: Stream) -> None:
        """Note that a stream of its GPU works with its memory."""
        device = self.device
        # Freeing memory waits for the default stream anyway, so that only others are noted.
        if device is not CPU and not stream.is_default:
            for a in (*self.reads(), *self.writes()):
                if a._memory.device is device:
                    a._memory.use(stream)


def perform(operation: Operation, stream: Stream | None = None, is_recorded: bool = True) -> None:
    """Hand an operation to the tape, tangents or roll-out that is current; without one, submit it.

    One that is not to be recorded is submitted in any case, and what is current is told of it.
    """
    handler = current.tape
    if operation.is_call:
        operation.execute()
    elif handler is None or not is_recorded:
        if handler is not None:
            handler.note_unrecorded(operation)
        submit(operation, stream)
    else:
        # Handlers compare contents and versions, which queued work may still change.
        drain()
        handler.take(operation, stream)


def submit(operation: Operation, stream: Stream | None = None) -> None:
    """Run an operation now or on a stream, or give it to the sequence that is being recorded; no tape learns of it."""
    if operation.is_composite:
        if current.recorder is not None:
            current.recorder.check_parts(operation)
        # Handlers that took it have taken its parts with it.
        with under(None):
            operation.execute()
        return
    # The block of no_grad() has left a tape, which has to learn of changes to what it relies on.
    if current.left is not None:
        current.left.note_unrecorded(operation)
    if (recorder := current.recorder) is not None:
        recorder.take(operation, stream)
    else:
        run(operation, stream)


def run(operation: Operation, stream: Stream | None = None) -> None:
    """Run an operation now or on a stream."""
    device = operation.device
    execute = _watched(operation) if watched.observers else operation.execute
    if device is not CPU:
        _perform_on(device, operation, execute, stream)
        return
    if stream is None:
        stream = current.stream
    if stream is None or stream.is_default:
        drain()
        operation.touch()  # also where the run finds an error
        execute()
    else:
        operation.touch()
        stream.enqueue(execute)


def _watched(operation: Operation) -> Callable[[], None]:
    """Return a function that runs the operation while observers watch."""
    facts = operation.facts()

    def execute() -> None:
        watched.inspect(operation)
        device = operation.device
        with span(operation.kind, operation.label, None if device is CPU else device, **facts):
            operation.execute()

    return execute


def _perform_on(device: Device, operation: Operation, execute: Callable[[], None], stream: Stream | None) -> None:
    """Submit an operation to a stream of a GPU."""
    if stream is not None and stream.device is not device:
        raise LaunchError(
            f"{operation.label}: the stream {stream!r} is not one of {device}, where it runs",
            remedy=f"make the stream with dk.Stream({str(device)!r})",
        )
    operation.touch()
    chosen = device.stream if stream is None else stream
    # The default stream needs no bookkeeping, for the same reason, and there is no graph to keep anything for.
    if stream is None and chosen.is_default and not device.is_capturing:
        execute()
        return
    operation.hold(chosen)
    # A graph that is being captured refers to addresses, and has to keep the arrays alive.
    device.keep(operation)
    chosen.enqueue(execute)


class Composite(Operation):
    """An operation that performs others."""

    __slots__ = ()

    is_composite = True

    def steps(self) -> Steps | None:
        """Return None: those of the others are used."""
        return None

    def constants(self) -> bytes:
        """Return nothing: the others say what they do."""
        return b""


class FunctionCall(Composite):
    """A function that performs operations."""

    __slots__ = ("function",)

    is_call = True

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function

    @property
    def label(self) -> str:
        return f"call {getattr(self.function, '__name__', 'function')}"

    @property
    def device(self) -> Device:
        return CPU

    def execute(self) -> None:
        self.function()

    def reads(self) -> Iterable[array]:
        return ()

    def writes(self) -> Iterable[array]:
        return ()


class _Change(Operation):
    """An operation that changes the elements of one array."""

    __slots__ = ("goal",)

    goal: array

    def writes(self) -> Iterable[array]:
        return (self.goal,)

    def constants(self) -> bytes:
        return b""

    def touch(self) -> None:
        self.goal._memory.version += 1


class Assign(_Change):
    """Constants assigned to the elements of an array."""

    __slots__ = ("values",)

    def __init__(self, goal: array, values: Any) -> None:
        self.goal = goal
        # What the caller does with the values afterwards has no influence.
        self.values = np.array(values, dtype=goal._data.dtype)

    @property
    def is_from_host(self) -> bool:
        """True for numbers of several elements, and not for a value that all of them get."""
        return self.values.ndim > self.goal._data.ndim - self.goal.ndim

    label, phrase = "fill", "an assignment"

    @property
    def device(self) -> Device:
        return self.goal._memory.device

    def execute(self) -> None:
        self.goal._memory.assign(self.goal, self.values)

    def reads(self) -> Iterable[array]:
        return ()

    def steps(self) -> Steps | None:
        data, memory = self.goal._data, self.goal._memory
        if not memory.is_host:
            return memory.assign_steps(self.goal, self.values)
        if not data.flags.c_contiguous:
            return None
        # Compared bit by bit: -0.0 is equal to 0 but not made of zero bytes.
        if not np.frombuffer(self.values.tobytes(), np.uint8).any():
            return bytewise("dk_clear_bytes", data.nbytes, data.ctypes.data, 0)
        return self.as_copy()

    def flow(self) -> Flow:
        goal = (self.goal,)
        return Flow(goal, (), goal)

    def constants(self) -> bytes:
        return _numbers_in(self.values)

    def jvp(self, tangents: OperationTangents) -> Sequence[Operation]:
        return ()  # nothing that it reads has a tangent

    def vjp(self, cotangents: OperationCotangents) -> Sequence[Operation]:
        return (Assign(cotangents.cotangent(self.goal), 0),)

    def as_copy(self) -> Steps | None:
        """Return the native form that copies ``values``, which are broadcast to the shape of the array first."""
        data = self.goal._data
        if not self.goal._memory.is_host or not data.flags.c_contiguous:
            return None
        if self.values.shape != data.shape or not self.values.flags.c_contiguous:
            # Made once: plans that were made before point to it.
            self.values = np.array(np.broadcast_to(self.values, data.shape), order="C")
        return bytewise("dk_copy_bytes", data.nbytes, data.ctypes.data, self.values.ctypes.data)


def _numbers_in(values: np.ndarray[Any, Any]) -> bytes:
    """Return the bytes of numbers, without those between the fields of structs, which may be anything."""
    if values.dtype.names is None:
        return values.tobytes()
    return b"".join(_numbers_in(values[name]) for name in values.dtype.names)


class Copy(_Change):
    """The elements of one array copied to another of the same type and shape."""

    __slots__ = ("_memory", "source")

    def __init__(self, goal: array, source: array) -> None:
        self.goal = goal
        self.source = source
        # What does the copy: the GPU's memory, the goal's if there are two; the host's where there is none.
        self._memory = source._memory if goal._memory.is_host else goal._memory

    label, phrase = "copy", "a copy"

    @property
    def device(self) -> Device:
        return self._memory.device

    def execute(self) -> None:
        self._memory.copy(self.goal, self.source)

    def reads(self) -> Iterable[array]:
        return (self.source,)

    def flow(self) -> Flow:
        goal = (self.goal,)
        return Flow(goal, (self.source,), goal)

    def steps(self) -> Steps | None:
        return self._memory.copy_steps(self.goal, self.source)

    def jvp(self, tangents: OperationTangents) -> Sequence[Operation]:
        tangent = tangents.tangent(self.source)
        goal = tangents.made(self.goal)
        return (Assign(goal, 0),) if tangent is None else (Copy(goal, tangent),)

    def vjp(self, cotangents: OperationCotangents) -> Sequence[Operation]:
        ct_goal, ct_source = cotangents.cotangent(self.goal), cotangents.cotangent(self.source)
        # By way of a copy of the cotangent, because the two arrays may be parts of one.
        moved = cotangents.scratch(ct_goal, ct_source._memory.device)
        return Copy(moved, ct_goal), Assign(ct_goal, 0), Add(ct_source, moved)


def accumulate(goal: array, values: array) -> None:
    """Add the elements of one array to those of another of the same type and shape."""
    if isinstance(goal._element, Struct):
        # Of structs only fields with derivatives are added; integers of a cotangent mean nothing.
        for part, other in zip(goal._leaves(), values._leaves(), strict=True):
            if part._smooth:
                accumulate(part, other)
    else:
        goal._memory.add(goal, values)


class Add(_Change):
    """The elements of one array added to those of another of the same type and shape."""

    __slots__ = ("source",)

    def __init__(self, goal: array, source: array) -> None:
        self.goal = goal
        self.source = source

    label, phrase = "add", "a sum"

    @property
    def device(self) -> Device:
        return self.goal._memory.device

    def execute(self) -> None:
        accumulate(self.goal, self.source)

    def reads(self) -> Iterable[array]:
        return (self.goal, self.source)

    def updates(self) -> Iterable[array]:
        return (self.goal,)

    def steps(self) -> Steps | None:
        return self.goal._memory.add_steps(self.goal, self.source)

    def jvp(self, tangents: OperationTangents) -> Sequence[Operation]:
        tangent = tangents.tangent(self.source)
        return () if tangent is None else (Add(tangents.made(self.goal), tangent),)

    def vjp(self, cotangents: OperationCotangents) -> Sequence[Operation]:
        # The goal's cotangent stays as it is, and the source's receives it.
        return (Add(cotangents.cotangent(self.source), cotangents.cotangent(self.goal)),)


def memories(arrays: Iterable[array]) -> list[Memory]:
    """Return the memory of arrays, each once."""
    return list({a._memory: None for a in arrays})
