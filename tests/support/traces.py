"""Traces: what a program does to arrays on the host's side, in order, as text that is the same on every machine.

A line says what was done and which arrays it read and wrote: launches and their adjoints, copies, fills, sums,
conditionals, replays, and functions of the user's that a sweep calls. Arrays have the names that the program gives
them (:meth:`Trace.arrays`), others ``t1``, ``t2``, … in the order in which they appear; ``x[8:16]`` are bytes of one.
What happens inside of something stands below it, indented. Work of streams stands where the stream was given it.

This is the one module of the tests that knows where operations are executed. If that changes, the hooks below follow,
and no golden trace does.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

import diffkern
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Operation
from diffkern.runtime.cuda.context import CudaDevice
from diffkern.runtime.cuda.stream import CudaStream
from diffkern.runtime.effects import cotangents
from diffkern.runtime.effects.compiled_backward import _Body
from diffkern.runtime.effects.known_sweeps import known_sweeps
from diffkern.runtime.memory import memory
from diffkern.runtime.memory.device import CPU, Device
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.scope import put
from diffkern.runtime.memory.stream import Stream
from diffkern.runtime.native import pool
from diffkern.runtime.records.captured import Captured
from diffkern.runtime.records.compiled_sequence import CompiledSequence

__all__ = ["Trace", "operations_of_package", "traced"]

_DERIVED = re.compile(r"^class \w+\((\w+, )*(Operation|Composite|FunctionCall|Assign|Copy|Add)\)", re.MULTILINE)
_THREADS = 2
_COLUMN = 34
_Part: TypeAlias = "tuple[Memory, int, int]"
"""Bytes of some memory."""


@dataclass
class _Line:
    """A line. Arrays get their names when all is over: work of streams is done in threads of their own."""

    text: str
    inside: list[_Line] = field(default_factory=list)
    reads: list[_Part] = field(default_factory=list)
    writes: list[_Part] = field(default_factory=list)
    ends: str = ""


class _Here(threading.local):
    lines: list[_Line] | None = None
    """Where this thread's lines go."""
    operations: tuple[Operation, ...] = ()
    """What it is executing, the innermost last."""
    native: dict[int, list[tuple[Operation, bool]]] | None = None
    """The operations of plans that run in native code, with whether they are no step of their own."""


class Trace:
    """What has been done so far."""

    def __init__(self) -> None:
        self._lines: list[_Line] = []
        self._here = _Here()
        self._names: dict[Memory, str] = {}
        self._given: list[tuple[str, array]] = []
        self._streams: dict[Any, str] = {}
        self._events: dict[Any, str] = {}
        self._temporaries = self._numbered = 0

    # -- the program's side ------------------------------------------------------------------------------------------

    def arrays(self, **named: array) -> None:
        """Name arrays of the program, and with them their gradients."""
        for name, held in named.items():
            self._names[held._memory] = name
            self._given.append((name, held))

    def note(self, text: str) -> None:
        """Say what the program does next."""
        self._put(f"# {text}")

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(self._texts(self._lines, 0)) + "\n"

    # -- lines -------------------------------------------------------------------------------------------------------

    def _put(self, line: _Line | str) -> list[_Line]:
        """Add a line; return what takes the lines inside of it."""
        made = _Line(line) if isinstance(line, str) else line
        (self._lines if self._here.lines is None else self._here.lines).append(made)
        return made.inside

    @contextlib.contextmanager
    def _inside(self, lines: list[_Line]) -> Iterator[None]:
        before, self._here.lines = self._here.lines, lines
        try:
            yield
        finally:
            self._here.lines = before

    def _texts(self, lines: Iterable[_Line], depth: int) -> Iterator[str]:
        for line in lines:
            parts = [f"{'  ' * depth + line.text:<{_COLUMN}}"]
            for word, held in (("reads", line.reads), ("writes", line.writes)):
                if names := dict.fromkeys(self._name(*part) for part in held):
                    parts.append(f"{word} {', '.join(names)}")
            yield "  ".join(parts).rstrip() + line.ends
            yield from self._texts(line.inside, depth + 1)

    def _name(self, memory: Memory, low: int, high: int) -> str:
        name = self._names.get(memory) or self._gradient(memory)
        if name is None:
            self._temporaries += 1
            name = f"t{self._temporaries}"
        self._names[memory] = name
        return name if high - low == memory.nbytes else f"{name}[{low - memory.address}:{high - memory.address}]"

    def _gradient(self, memory: Memory) -> str | None:
        """Return the name of the gradient of a named array, if the memory is its."""
        for name, held in self._given:
            if (grad := held._grad) is not None and grad._memory is memory:
                return f"{name}.grad"
        return None

    def _stream(self, stream: Stream) -> str:
        if stream not in self._streams:
            where = "" if stream.device is CPU else f" of {stream.device}"
            which = "the default stream"
            if not stream.is_default:
                self._numbered += 1
                which = f"stream {self._numbered}"
            self._streams[stream] = which + where
        return self._streams[stream]

    def _event(self, event: Any) -> str:
        return self._events.setdefault(event, f"event {len(self._events) + 1}")

    # -- where things are done -----------------------------------------------------------------------------------------

    def executed(self, original: Callable[[Any], None], operation: Operation) -> None:
        """Take an operation that is executed."""
        outer = self._here.operations
        if outer and outer[-1] is operation:  # its class calls that above
            original(operation)
            return
        with self._inside(self._put(_line(operation))):
            self._here.operations = (*outer, operation)
            try:
                original(operation)
            finally:
                self._here.operations = outer

    def enqueued(self, original: Callable[..., None], stream: Stream, work: Callable[[], None]) -> None:
        """Take work that a stream is given."""
        original(stream, _Work(self, self._put(f"{self._stream(stream)}:"), work))

    def recorded(self, original: Callable[..., Any], stream: Stream, event: Any = None) -> Any:
        """Take an event that is recorded."""
        made = original(stream, event)
        self._put(f"{self._stream(stream)}: record {self._event(made)}")
        return made

    def awaited(self, original: Callable[..., None], stream: Stream, event: Any) -> None:
        """Take a stream that waits for an event."""
        self._put(f"{self._stream(stream)}: wait for {self._event(event)}")
        original(stream, event)

    def replayed(self, original: Callable[..., None], sequence: CompiledSequence, timed: bool) -> None:
        """Take a replay of a sequence, whose operations run in native code or one by one."""
        plans = {
            id(plan): [(sequence.items[k].operation, sequence.forms[k] == []) for k in indices]
            for plan, indices in sequence.segments
            if plan is not None
        }
        before, self._here.native = self._here.native, plans
        try:
            with self._inside(self._put("replay of a sequence")):
                original(sequence, timed)
        finally:
            self._here.native = before

    def replayed_plan(self, original: Callable[..., Any], device: Device, plan: Any, *rest: Any) -> Any:
        """Take a plan that runs in native code, if it is one of a sequence."""
        for operation, is_folded in (self._here.native or {}).get(id(plan), ()):
            self._put(_line(operation, "  (folded)" if is_folded else ""))
        return original(device, plan, *rest)

    def swept_again(self, original: Callable[[Any], None], body: Any) -> None:
        """Take a compiled sweep."""
        with self._inside(self._put("the sweep again")):
            if body.plan.is_native:
                for operation in body.operations:
                    self._put(_line(operation))
            original(body)

    def launched_graph(self, original: Callable[..., None], graph: Captured, stream: Stream) -> None:
        """Take a graph that is given to the driver."""
        self._put(f"launch {graph._label} on {self._stream(stream)}")
        original(graph, stream)


class _Work:
    """Work of a stream, whose lines stand where the stream was given it; equal to that work."""

    def __init__(self, trace: Trace, lines: list[_Line], work: Callable[[], None]) -> None:
        self._trace, self._lines, self._work = trace, lines, work

    def __call__(self) -> None:
        with self._trace._inside(self._lines):
            self._work()

    def __eq__(self, other: object) -> bool:
        return self is other or self._work == other

    __hash__ = None  # type: ignore[assignment]  # queues compare


def _line(operation: Operation, ends: str = "") -> _Line:
    """Return the line of an operation."""
    text = f"launch {operation.label}" if operation.kind == "launch" else operation.label
    device = operation.device
    if device is not CPU:
        text += f" on {device}" + (" (captured)" if device.is_capturing else "")
    return _Line(text, [], _parts(operation.reads()), _parts(operation.writes()), ends)


def _parts(arrays: Iterable[array]) -> list[_Part]:
    return [(held._memory, *held._range) for held in arrays]


def operations(of: type[Operation] = Operation) -> Iterator[type[Operation]]:
    """Yield all kinds of operations that execute in a way of their own, of modules that are imported."""
    for kind in of.__subclasses__():
        if "execute" in vars(kind):
            yield kind
        yield from operations(kind)


def operations_of_package() -> dict[str, type[Operation]]:
    """Return all kinds of the package's operations that execute in a way of their own, by their names."""
    root = Path(diffkern.__file__).parent
    for path in root.rglob("*.py"):
        if _DERIVED.search(path.read_text(encoding="utf-8")):
            importlib.import_module(".".join(("diffkern", *path.relative_to(root).with_suffix("").parts)))
    return {kind.__name__: kind for kind in operations() if kind.__module__.startswith("diffkern.")}


def _hooks(trace: Trace) -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """Yield methods of the run time with what stands for them."""
    yield from ((kind, "execute", trace.executed) for kind in operations())
    for kind in (Stream, CudaStream):
        yield kind, "enqueue", trace.enqueued
        yield kind, "record_event", trace.recorded
        yield kind, "wait_event", trace.awaited
    yield CompiledSequence, "_run_segments", trace.replayed
    yield Captured, "_launch_on", trace.launched_graph
    yield _Body, "run", trace.swept_again
    for device in (Device, CudaDevice):
        yield device, "replay", trace.replayed_plan


@contextlib.contextmanager
def traced() -> Iterator[Trace]:
    """Trace what is done in the block: nothing takes a way past Python, and two threads work."""
    trace, threads = Trace(), pool.num_threads()
    pool.set_num_threads(_THREADS)
    with contextlib.ExitStack() as stack:
        # Cotangents begin where their arrays do, relative to this.
        stack.enter_context(mock.patch.object(memory, "_ALIGNMENT", cotangents._ALIGNMENT))
        stack.callback(pool.set_num_threads, threads)
        # What tapes do is shown, however often other tapes have done it.
        stack.enter_context(mock.patch.object(known_sweeps, "is_on", False))
        for kind, name, hook in _hooks(trace):
            stack.enter_context(
                mock.patch.object(kind, name, functools.partialmethod(_through, hook, vars(kind)[name]))
            )
        # As while somebody observes: native code asks Python before it does anything.
        put("observed", True)
        stack.callback(put, "observed", None)
        yield trace


def _through(self: Any, hook: Callable[..., Any], original: Callable[..., Any], *args: Any) -> Any:
    return hook(original, self, *args)
