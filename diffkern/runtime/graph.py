"""Graphs: what happened to arrays in a block of the program, as one thing that is launched again and again.

In: launches, copies and fills inside :class:`ScopedCapture`, or a :class:`Sequence`. Out: a :class:`Graph`. On a GPU it
is a CUDA graph, launched in one call of the driver; on the CPU a sequence, replayed in one native call. Either way the
records in it can be changed: a CUDA graph is brought up to date by its next launch. ``capture_while`` and
``capture_if`` put a part into a graph that runs while, or if, a number in an array is not 0 at that moment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from diffkern.errors import CudaError, LaunchError
from diffkern.ir.types import INT32
from diffkern.runtime.array import array
from diffkern.runtime.device import CPU, Device, get_device
from diffkern.runtime.hazards import waits
from diffkern.runtime.memory import Memory
from diffkern.runtime.native.replay import Steps
from diffkern.runtime.operation import Operation, memories, perform
from diffkern.runtime.scope import Scope
from diffkern.runtime.sequence import Item, Recorder
from diffkern.runtime.sequence import Sequence as Recorded
from diffkern.runtime.state import current
from diffkern.runtime.stream import Stream, on_its_way, settle_queues
from diffkern.runtime.uncopied import Uncopied

if TYPE_CHECKING:
    from diffkern.runtime.cuda.context import CudaDevice
    from diffkern.runtime.cuda.driver import Driver
    from diffkern.runtime.cuda.stream import CudaStream

__all__ = [
    "Conditional", "Graph", "ScopedCapture", "capture_begin", "capture_end", "capture_if", "capture_launch",
    "capture_while",
]  # fmt: skip

_SIDES = "a part of a graph that runs under a condition"


class Graph(Uncopied):
    """What was captured. Made by :class:`ScopedCapture`, :func:`capture_end` and ``sequence.capture()``.

    Attributes
    ----------
    sequence : Sequence
        The same steps; their parameters can be set by name, and the graph follows.
    """

    def __init__(self, sequence: Recorded) -> None:
        self.sequence = sequence
        self._items = list(sequence._program.items)
        self._device = _device_of(self._items)
        self._kept: list[Any] = []
        self._executable = 0
        self._nodes = 0
        self._state: list[tuple[Item, Any]] = []
        self._written: list[Memory] = []
        self._pinned = False
        self._has_run = False
        self._streams: list[CudaStream] = []
        if self._device is not None:
            with self._device.active:
                self._build(self._device)

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self._device or CPU

    @property
    def nodes(self) -> int:
        """Number of its nodes, on the CPU of its steps."""
        return self._nodes if self._device is not None else len(self._items)

    def launch(self, stream: Stream | None = None) -> None:
        """Run it: on a stream, the current one of its device by default.

        Inside a tape or a recording its steps are taken instead, one by one.
        """
        device = self._device
        if device is None or current.tape is not None or current.recorder is not None:
            self.sequence.replay(stream)
            return
        if stream is not None and stream.device is not device:
            raise LaunchError(f"the graph runs on {device}, and the stream is {stream!r}")
        if not self._is_current():
            with device.active:
                self._build(device)
        settle_queues()
        chosen: Any = device.stream if stream is None else stream
        for memory in self._written:
            memory.version += 1
        self._has_run = True
        if not chosen.is_default and chosen not in self._streams:
            self._streams.append(chosen)
            for memory in self._memories():
                memory.use(chosen)
        device.recent.append("a graph of " + ", ".join(dict.fromkeys(item.operation.label for item in self._items[:4])))
        with device.active:
            device.driver.graph_launch(self._executable, chosen.cuda_stream)
        if self._pinned:
            on_its_way(chosen.record_event())

    def _is_current(self) -> bool:
        """Whether no parameter was set since the graph was built."""
        return all(_state_of(item) == state for item, state in self._state)

    def _build(self, device: CudaDevice) -> None:
        """Capture the steps, and make the graph of them or give it their parameters."""
        kept: list[Any] = [item.operation for item in self._items]
        stream = device.new_stream()
        device.capture_started(kept)
        driver = device.driver
        try:
            driver.capture_begin(stream.cuda_stream)
            try:
                stream.enqueue(lambda: self._execute(driver, stream.cuda_stream))
            except BaseException:
                _abandon(device, stream)
                raise
            graph = driver.capture_end(stream.cuda_stream)
        finally:
            device.capture_ended()
        try:
            self._let_go()
            if not self._executable or not driver.graph_update(self._executable, graph):
                self._destroy()
                self._executable = driver.graph_instantiate(graph)
            self._nodes = driver.graph_nodes(graph)
        finally:
            driver.graph_destroy(graph)
        self._kept, self._streams = kept, []
        self._state = [(item, _copied(_state_of(item))) for item in self._items if item.prepared is not None]
        self._written = memories(a for item in self._items for a in item.operation.writes())
        self._pinned = any(a.pinned for item in self._items for a in _arrays(item.operation))

    def _execute(self, driver: Driver, stream: int) -> None:
        """Give the steps to a stream that captures, each behind those that it has to wait for and no others."""
        operations = [item.operation for item in self._items]
        ends: list[tuple[int, ...]] = []
        for operation, needed in zip(operations, waits([(o.reads(), o.writes()) for o in operations]), strict=True):
            try:
                driver.capture_behind(stream, sorted({node for step in needed for node in ends[step]}))
                operation.execute()
                ends.append(driver.capture_tail(stream))  # which fails where the step has ended the capture
            except CudaError as error:
                text = f"step {len(ends)} of a graph ({operation.label}): {error.message}"
                raise CudaError(text, remedy=error.remedy, call=error.call, code=error.code) from None

    def _memories(self) -> list[Any]:
        """Return the memory on the device that it works with, that of its own included."""
        held = [part for thing in self._kept for part in (thing if isinstance(thing, tuple) else (thing,))]
        every = [a for thing in held for a in ([thing] if isinstance(thing, array) else _arrays(thing))]
        return [memory for memory in memories(every) if not memory.is_host]

    def _let_go(self) -> None:
        """Wait for launches on their way that still copy from memory of the host which only this graph holds."""
        device = self._device
        if self._has_run and device is not None and any(isinstance(thing, tuple) for thing in self._kept):
            if device.is_capturing:
                device.keep(self._kept)  # nothing can be waited for now
            else:
                device.synchronize()
        self._has_run = False

    def _destroy(self) -> None:
        if self._executable and self._device is not None:
            self._device.destroy("graph_exec_destroy", self._executable)
            self._executable = 0

    def __del__(self) -> None:
        if hasattr(self, "_executable"):
            if self._device is not None and not self._device.closed:
                with contextlib.suppress(CudaError):  # a wait tells of errors of whatever ran before
                    self._let_go()
            self._destroy()

    def __repr__(self) -> str:
        return f"<dk.Graph of {len(self._items)} steps on {self.device}>"


def _abandon(device: CudaDevice, stream: CudaStream) -> None:
    """End a capture that failed; what it has is of no use."""
    # The driver may have ended it by itself; the error that did so is on its way.
    with contextlib.suppress(CudaError):
        device.driver.graph_destroy(device.driver.capture_end(stream.cuda_stream))


def _state_of(item: Item) -> Any:
    prepared = item.prepared
    assert prepared is not None
    return prepared._form.block or prepared.launch.parts


def _copied(state: Any) -> Any:
    return bytes(state) if isinstance(state, bytearray) else list(state)


def _arrays(thing: Any) -> list[array]:
    """Return the arrays that an operation works with; of anything else none."""
    return [*thing.reads(), *thing.writes()] if hasattr(thing, "reads") else []


def _device_of(items: Sequence[Item]) -> CudaDevice | None:
    """Return the GPU that all steps run on, None if it is the CPU."""
    first: Any = items[0].operation.device if items else CPU
    for position, item in enumerate(items):
        if item.operation.device is not first:
            raise LaunchError(
                f"a graph runs on one device: step 0 ({items[0].operation.label}) is on {first}, step "
                f"{position} ({item.operation.label}) on {item.operation.device}",
                remedy="capture the steps of each device apart, or replay the sequence",
            )
    return None if first is CPU else first


# -- capturing ---------------------------------------------------------------------------------------------------------


class _Capture(Recorder):
    """A recorder that a capture has begun."""

    def __init__(self) -> None:
        super().__init__(runs=False)


def capture_begin(device: Any = None, stream: Stream | None = None) -> None:
    """Take everything that happens to arrays from now on for a graph, instead of having it happen.

    Parameters
    ----------
    device, stream : optional
        For programs that also run elsewhere: what is captured knows where its arrays are.
    """
    get_device(device)
    _Capture().__enter__()


def capture_end(device: Any = None, stream: Stream | None = None) -> Graph:
    """Return the graph of what happened since :func:`capture_begin`.

    Parameters
    ----------
    device, stream : optional
        As in :func:`capture_begin`.

    Returns
    -------
    Graph
        What was captured.

    Raises
    ------
    RuntimeError
        If no capture has begun in this thread.
    """
    recorder = current.recorder
    if not isinstance(recorder, _Capture):
        raise RuntimeError("no capture has begun in this thread")
    recorder.__exit__(None, None, None)
    return Graph(Recorded(recorder.items))


def capture_launch(graph: Graph, stream: Stream | None = None) -> None:
    """Launch a graph.

    Parameters
    ----------
    graph : Graph
        What was captured.
    stream : Stream, optional
        Where it runs; the current stream of its device by default.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"a graph is needed here, not {graph!r}")
    graph.launch(stream)


class ScopedCapture(Scope):
    """Captures what happens to arrays in a ``with`` block; afterwards ``graph`` holds it.

    Nothing runs in the block. Launches, copies, fills, and what a :class:`Tape` does are taken; what Python computes is
    not.

    Parameters
    ----------
    device, stream : optional
        As in :func:`capture_begin`.

    Attributes
    ----------
    graph : Graph or None
        What was captured, after the block.
    """

    def __init__(self, device: Any = None, stream: Stream | None = None) -> None:
        self._device = device
        self.graph: Graph | None = None

    def _begin(self) -> tuple[str, Recorder, ScopedCapture]:
        get_device(self._device)
        self._recorder = _Capture()
        return *self._recorder._begin()[:2], self

    def _end(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.graph = Graph(Recorded(self._recorder.items))


# -- conditions --------------------------------------------------------------------------------------------------------


class Conditional(Uncopied):
    """Steps that run if, or as long as, a number in an array is not 0 at that moment (or is, with ``negate``)."""

    def __init__(self, condition: array, body: Recorded, loop: bool, negate: bool = False) -> None:
        self.condition = condition
        self.body = body
        self.loop = loop
        self.negate = negate

    @property
    def label(self) -> str:
        """What it is, for a person."""
        return "while" if self.loop else "if"

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self.condition._memory.device

    def _operations(self) -> list[Operation]:
        return [item.operation for item in self.body._program.items]

    def touch(self) -> None:
        """Raise the versions of what the body writes."""
        if current.tape is not None:
            raise LaunchError(f"{_SIDES} has no adjoint", remedy="leave it out of the tape, or write it as a kernel")
        for operation in self._operations():
            operation.touch()

    def reads(self) -> list[array]:
        """Return what the condition and the body read."""
        return [self.condition, *(a for operation in self._operations() for a in operation.reads())]

    def writes(self) -> list[array]:
        """Return what the body writes."""
        return [a for operation in self._operations() for a in operation.writes()]

    def steps(self) -> Steps | None:
        """Return None: it asks Python each time."""
        return None

    def _holds(self) -> bool:
        return bool(int(self.condition._host()[0]) != 0) != self.negate

    def execute(self) -> None:
        """Run it, or put it into the graph that is being made."""
        if self.device.is_capturing:
            self._capture(self.device)
            return
        while self._holds():
            for operation in self._operations():
                operation.execute()
            if not self.loop:
                return

    def _capture(self, device: Any) -> None:
        driver = device.driver
        if not driver.has_conditional_nodes():
            raise LaunchError(
                f"the driver of {device} (CUDA {driver.version() // 1000}.{driver.version() % 1000 // 10}) has no "
                "conditional nodes in graphs; they came with CUDA 12.4",
                remedy="update the driver, or replay the sequence instead of capturing it",
            )
        stream = device.stream
        address = self.condition._range[0]
        handle = driver.conditional_handle(stream.cuda_stream, device.context)
        driver.set_condition(handle, address, self.negate, stream.cuda_stream)
        inside = device.new_stream()
        device.keep(inside)
        driver.conditional_body(stream.cuda_stream, inside.cuda_stream, device.context, handle, self.loop)

        def work() -> None:
            for operation in self._operations():
                device.keep(operation)
                operation.execute()
            if self.loop:
                driver.set_condition(handle, address, self.negate, inside.cuda_stream)

        inside.enqueue(work)
        driver.capture_end(inside.cuda_stream)


def capture_while(
    condition: array, while_body: Callable[..., Any] | Graph, stream: Stream | None = None, **kwargs: Any
) -> None:
    """Run a function as long as a number in an array is not 0; in a capture, as part of the graph.

    Parameters
    ----------
    condition : array
        One int32. It is looked at before each round, when what came before has run.
    while_body : callable or Graph
        What runs; called with `kwargs`. In a capture it is called once.
    stream : Stream, optional
        Where it runs outside a capture.
    """
    _conditionally(condition, while_body, True, False, stream, kwargs)


def capture_if(
    condition: array,
    on_true: Callable[..., Any] | Graph | None = None,
    on_false: Callable[..., Any] | Graph | None = None,
    stream: Stream | None = None,
    **kwargs: Any,
) -> None:
    """Run a function if a number in an array is not 0, another if it is; in a capture, as part of the graph.

    Parameters
    ----------
    condition : array
        One int32. What `on_true` does to it has a say in whether `on_false` runs.
    on_true, on_false : callable or Graph, optional
        What runs; called with `kwargs`.
    stream : Stream, optional
        Where it runs outside a capture.
    """
    if on_true is not None:
        _conditionally(condition, on_true, False, False, stream, kwargs)
    if on_false is not None:
        _conditionally(condition, on_false, False, True, stream, kwargs)


def _conditionally(
    condition: Any, body: Any, loop: bool, negate: bool, stream: Stream | None, kwargs: dict[str, Any]
) -> None:
    if not isinstance(condition, array) or condition._element != INT32 or condition.size != 1:
        raise TypeError(f"a condition is an array of one int32, not {condition!r}")
    operation = Conditional(condition.flatten(), _recorded(body, kwargs), loop, negate)
    if not operation.body._program.items:
        raise LaunchError(f"{_SIDES} does nothing to arrays")
    perform(operation, stream)


def _recorded(body: Any, kwargs: dict[str, Any]) -> Recorded:
    """Return what a function does to arrays."""
    if isinstance(body, Graph):
        return body.sequence
    if not callable(body):
        raise TypeError(f"a function or a graph is needed here, not {body!r}")
    outer, current.recorder = current.recorder, None
    try:
        with Recorder(runs=False) as recorder:
            body(**kwargs)
    finally:
        current.recorder = outer
    return Recorded(recorder.items)


Recorded._capture = Graph
