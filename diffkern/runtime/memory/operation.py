"""Operations that change the contents of arrays (copies, fills, sums), and the one function that performs them.

An operation (these, or a packed launch) runs, waits on a stream, or is taken by a sequence that is being recorded.
Operations know which memory they read and write, and their native form if they have one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from diffkern.errors import LaunchError
from diffkern.ir.structs import Struct
from diffkern.runtime.memory.device import CPU, Device
from diffkern.runtime.memory.memory import Memory, bytewise
from diffkern.runtime.memory.state import current
from diffkern.runtime.memory.stream import Stream, drain
from diffkern.runtime.native.replay import Steps
from diffkern.runtime.observe.spans import span, watched

if TYPE_CHECKING:
    from diffkern.runtime.arrays.array import array

__all__ = ["Add", "Assign", "Copy", "Operation", "accumulate", "memories", "perform"]


class Operation(ABC):
    """Something that changes memory."""

    __slots__ = ()

    kind = "memory"
    """Of which kind its span is."""

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


def perform(operation: Operation, stream: Stream | None = None) -> None:
    """Run an operation now or on a stream, or give it to the sequence that is being recorded."""
    # The block of no_grad() has left a tape, which has to learn of changes to what it relies on.
    if current.left is not None:
        current.left.note_unrecorded(operation)
    recorder = current.recorder
    if recorder is not None:
        recorder.add(operation, stream)
        if not recorder.runs:
            # What is only recorded will run when the sequence is replayed, but an array's contents count as changed
            # already.
            operation.touch()
            return
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


class _Change(Operation):
    """An operation that changes the elements of one array."""

    goal: array

    def writes(self) -> Iterable[array]:
        return (self.goal,)

    def touch(self) -> None:
        self.goal._memory.version += 1


class Assign(_Change):
    """Constants assigned to the elements of an array."""

    def __init__(self, goal: array, values: Any) -> None:
        self.goal = goal
        # What the caller does with the values afterwards has no influence.
        self.values = np.array(values, dtype=goal._data.dtype)

    label = "fill"

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

    def as_copy(self) -> Steps | None:
        """Return the native form that copies ``values``, which are broadcast to the shape of the array first."""
        data = self.goal._data
        if not self.goal._memory.is_host or not data.flags.c_contiguous:
            return None
        if self.values.shape != data.shape or not self.values.flags.c_contiguous:
            # Made once: plans that were made before point to it.
            self.values = np.array(np.broadcast_to(self.values, data.shape), order="C")
        return bytewise("dk_copy_bytes", data.nbytes, data.ctypes.data, self.values.ctypes.data)


class Copy(_Change):
    """The elements of one array copied to another of the same type and shape."""

    def __init__(self, goal: array, source: array) -> None:
        self.goal = goal
        self.source = source

    label = "copy"

    @property
    def device(self) -> Device:
        return self._memory.device

    @property
    def _memory(self) -> Memory:
        """The memory that does the copy: the GPU's, the goal's if there are two; the host's where there is none."""
        return self.source._memory if self.goal._memory.is_host else self.goal._memory

    def execute(self) -> None:
        self._memory.copy(self.goal, self.source)

    def reads(self) -> Iterable[array]:
        return (self.source,)

    def steps(self) -> Steps | None:
        return self._memory.copy_steps(self.goal, self.source)


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

    def __init__(self, goal: array, source: array) -> None:
        self.goal = goal
        self.source = source

    label = "add"

    @property
    def device(self) -> Device:
        return self.goal._memory.device

    def execute(self) -> None:
        accumulate(self.goal, self.source)

    def reads(self) -> Iterable[array]:
        return (self.goal, self.source)

    def steps(self) -> Steps | None:
        return self.goal._memory.add_steps(self.goal, self.source)


def memories(arrays: Iterable[array]) -> list[Memory]:
    """Return the memory of arrays, each once."""
    return list({a._memory: None for a in arrays})
