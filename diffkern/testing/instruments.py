"""Programs that log events: operations are added to a function that write events into arrays beside its arguments.

:class:`LoggingFunction` takes a function of the stage ``primal``, and a callback that decides which operations are
events. The result is a function with four more parameters and the same results; run on one thread of the CPU it leaves
its events in the order in which they happened. It is compiled like any other program, threads of a block with their
barriers included.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from diffkern.compiler import pipeline
from diffkern.errors import MisuseError
from diffkern.ir.builder import Builder
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.block import BARRIERS, BLOCK_INDICES, SHARED_ARRAYS
from diffkern.ir.types import FLOAT64, INT64, Array, Scalar
from diffkern.process.dataclass import dataclass
from diffkern.testing.programs import CompiledFunction

__all__ = ["EventLogger", "Events", "LoggingFunction", "Watch", "thread_index", "works_together"]

THREAD: Final = 0
EPOCH: Final = 1
SITE: Final = 2
FIELDS: Final = 3
"""Of an event: the flattened index of the thread, how many barriers it has passed, the number of the place; its own."""


@dataclass(frozen=True)
class Events:
    """The logged events, in order.

    Attributes
    ----------
    rows
        For each event the fields above, and those of the kind of event.
    numbers
        The number that belongs to each event.
    """

    rows: np.ndarray[Any, Any]
    numbers: np.ndarray[Any, Any]


class EventLogger:
    """Appends the operations that log an event."""

    def __init__(self, b: Builder, thread: Value, arrays: Sequence[Value], own: int) -> None:
        self.b, self.thread, self.own = b, thread, own
        self.count, self.rows, self.numbers, self.epochs = arrays
        self.sites: list[Op] = []

    def log(self, op: Op, fields: Sequence[Value] = (), number: Value | None = None) -> None:
        """Log that an op is executed, with integers and a number of its own."""
        b = self.b
        self.sites.append(op)
        # The counter is advanced also when the log is full: the first run, without room, counts the events.
        zero, one = b.const(0, INT64), b.const(1, INT64)
        place = b.one("atomic", self.count, zero, one, kind="add", wrap=(False,))
        room = b.one("lt", place, b.cast(b.one("shape", self.rows, axis=0), INT64))
        body = Region()
        # In a branch: a full log must not be written beyond its end.
        with b.into(body):
            epoch = b.one("load", self.epochs, self.thread, wrap=(False,))
            said = [self.thread, epoch, b.const(len(self.sites) - 1, INT64), *fields]
            for k, field in enumerate(said):
                b.op("store", self.rows, place, b.const(k, INT64), b.cast(field, INT64), wrap=(False, False))
            if number is not None:
                b.op("store", self.numbers, place, b.cast(number, FLOAT64), wrap=(False,))
        b.if_(room, body, Region())

    def pass_barrier(self) -> None:
        """Count a barrier."""
        b = self.b
        passed = b.one("load", self.epochs, self.thread, wrap=(False,))
        b.op("store", self.epochs, self.thread, b.add(passed, b.const(1, INT64)), wrap=(False,))


Watch = Callable[[EventLogger, Op], None]
"""Is called behind each op without regions, and logs it if it is an event."""


class LoggingFunction:
    """A function that logs.

    Parameters
    ----------
    fn
        The function; it is not changed.
    dims
        The launch's dimensions.
    watch
        The callback that logs the events.
    own
        How many integers of its own an event has.
    block_dim
        Threads of a block, where they work together.

    Attributes
    ----------
    sites
        The ops that are events, by the number of their place.
    """

    def __init__(self, fn: Function, dims: Sequence[int], watch: Watch, own: int, block_dim: int) -> None:
        arrays = [
            Value(Array(INT64, 1, "A"), "logged"),
            Value(Array(INT64, 2, "A"), "events"),
            Value(Array(FLOAT64, 1, "A"), "numbers"),
            Value(Array(INT64, 1, "A"), "epochs"),
        ]
        # The function may still be differentiated or run without a log.
        made = clone_function(fn)
        b = Builder()
        head = Region()
        with b.into(head):
            # All dimensions of the launch are axes of the thread's index, or threads that the kernel does not tell
            # apart would share a number. Where threads of a block work together the last dimension is the block's own.
            axes = max(len(dims) if not works_together(fn) else fn.tid_arity, fn.tid_arity)
            recorder = EventLogger(b, thread_index(b, axes), arrays, own)
        _insert(b, made.body, recorder, watch)
        made.body.ops[:0] = head.ops
        self.fn = replace(made, params=(*fn.params, *arrays), tid_arity=axes)
        self.sites = recorder.sites
        self._dims, self._own = tuple(dims), own
        self._program = CompiledFunction(pipeline.optimise(clone_function(self.fn)), block_dim)

    def run(self, args: Sequence[Any], most: int) -> Events:
        """Run on copies of arguments, once to count the events and once to log them.

        Raises
        ------
        MisuseError
            If there are more events than allowed.
        """
        # The same program runs twice, so only one is compiled.
        count = self._run(args, 0)[0]
        if count > most:
            raise MisuseError(
                f"{self.fn.name} would log {count} events, and {most} are allowed",
                remedy="launch it over fewer threads, or allow more",
            )
        return self._run(args, count)[1]

    def arrays(self, room: int) -> list[np.ndarray[Any, Any]]:
        """Return the arrays that the function takes after its own arguments, with room for so many events."""
        rows = np.zeros((room, FIELDS + self._own), np.int64)
        return [np.zeros(1, np.int64), rows, np.zeros(room), np.zeros(max(1, int(np.prod(self._dims))), np.int64)]

    def _run(self, args: Sequence[Any], room: int) -> tuple[int, Events]:
        copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
        count, rows, numbers, epochs = self.arrays(room)
        self._program.run(self._dims, [*copies, count, rows, numbers, epochs])
        return int(count[0]), Events(rows, numbers)


def works_together(fn: Function) -> bool:
    return any(op.name in BLOCK_INDICES | BARRIERS | SHARED_ARRAYS for op in walk(fn.body))


def thread_index(b: Builder, axes: int) -> Value:
    """Return the flattened index of the thread."""
    flat = b.const(0, INT64)
    for axis in range(axes):
        extent = b.cast(b.one("extent", axis=axis), INT64)
        flat = b.add(b.mul(flat, extent), b.cast(b.one("tid", axis=axis), INT64))
    return flat


def _insert(b: Builder, region: Region, recorder: EventLogger, watch: Watch) -> None:
    ops, region.ops = region.ops, []
    # Nested regions first: `_insert` of them appends to their own lists, and a watcher sees an op after its regions.
    with b.into(region):
        for op in ops:
            is_whole = not op.regions or op.name == "ruled"  # which keeps its derivative in regions
            for sub in () if is_whole else op.regions:
                _insert(b, sub, recorder, watch)
            region.ops.append(op)
            with b.at(op.loc):
                if op.name in BARRIERS:
                    recorder.pass_barrier()
                elif is_whole:
                    watch(recorder, op)


def as_coordinates(thread: int, dims: Sequence[int]) -> tuple[int, ...]:
    """Return the index of a thread as the kernel sees it."""
    return tuple(int(k) for k in np.unravel_index(thread, tuple(dims)))


def element_index(b: Builder, array: Value, index: Sequence[Value], wrap: Sequence[bool]) -> list[Value]:
    """Return the index of an element, from 0 along each axis."""
    found = []
    for axis, (v, may_wrap) in enumerate(zip(index, wrap, strict=True)):
        wide = b.cast(v, INT64)
        assert isinstance(v.type, Scalar)
        if may_wrap:
            extent = b.cast(b.one("shape", array, axis=axis), INT64)
            negative = b.one("lt", wide, b.const(0, INT64))
            wide = b.select(negative, b.add(wide, extent), wide)
        found.append(wide)
    return found


def padded(b: Builder, values: Sequence[Value], count: int) -> list[Value]:
    """Return values followed by zeros."""
    return [*values, *itertools.repeat(b.const(0, INT64), count - len(values))]
