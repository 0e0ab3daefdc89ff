"""Graphs: the operations on arrays in a block of the program as one unit that is launched repeatedly.

A :class:`Graph` is made of the launches, copies and fills inside :class:`ScopedCapture`, or of a :class:`Sequence`.
On a
GPU it is a CUDA graph, launched in one call of the driver; on the CPU a sequence, replayed in one native call. Either
way the records in it can be changed: a CUDA graph is updated by its next launch. ``capture_while`` and ``capture_if``
put a part into a graph that runs while, or if, a number in an array is not 0 at that moment. Outside a capture the host
reads the array, on a tape too, which records what has run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from diffkern.errors import LaunchError, MisuseError, described
from diffkern.ir.types import INT32
from diffkern.process.tracebacks import brief
from diffkern.process.uncopied import Uncopied
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Operation, perform
from diffkern.runtime.memory.device import CPU, Device, get_device
from diffkern.runtime.memory.scope import Scope, unrecorded
from diffkern.runtime.memory.state import is_handled, recorder_now, will_replay
from diffkern.runtime.memory.stream import ScopedStream, Stream
from diffkern.runtime.native.replay import NativeBranch, Plan, Steps
from diffkern.runtime.records.captured import Captured
from diffkern.runtime.records.recorder import Item, Recorder
from diffkern.runtime.records.sequence import Sequence as Recorded

__all__ = [
    "Conditional", "Graph", "ScopedCapture", "capture_begin", "capture_end", "capture_if", "capture_launch",
    "capture_while",
]  # fmt: skip

_SIDES = "a part of a graph that runs under a condition"


class Graph(Uncopied):
    """The captured operations. Made by :class:`ScopedCapture`, :func:`capture_end` and ``sequence.capture()``.

    ``graph.launch(stream=None)`` runs it: on the stream given here, or the current one of its device. Inside a
    :class:`Tape` or a recording its steps are recorded instead, one by one.

    Attributes
    ----------
    sequence : Sequence
        The same steps; their parameters can be set by name, and the graph follows.
    """

    __slots__ = ("__weakref__", "_captured", "_device", "launch", "sequence")

    launch: Callable[..., None]

    def __init__(self, sequence: Recorded) -> None:
        self.sequence = sequence
        self._device = _device_of(sequence._program.items)
        device: Any = self._device
        self._captured = captured = None if device is CPU else Captured(sequence, device)
        # An instance attribute and no method: the native call is made without a Python frame in between.
        self.launch = sequence.replay if captured is None else captured.plan.call(captured.run)

    @property
    def device(self) -> Device:
        """The device that it runs on."""
        return self._device

    @property
    def nodes(self) -> int:
        """Number of its nodes; on the CPU of its steps."""
        return len(self.sequence) if self._captured is None else self._captured.nodes

    def __repr__(self) -> str:
        return f"<dk.Graph of {len(self.sequence)} steps on {self.device}>"


def _device_of(items: Sequence[Item]) -> Device:
    """Return the device that all steps run on; raise if there are several."""
    first = items[0].operation.device if items else CPU
    for position, item in enumerate(items):
        if item.operation.device is not first:
            raise LaunchError(
                f"a graph runs on one device: step 0 ({items[0].operation.label}) is on {first}, step "
                f"{position} ({item.operation.label}) on {item.operation.device}",
                remedy="capture the steps of each device separately, or replay the sequence",
            )
    return first


# -- capturing ---------------------------------------------------------------------------------------------------------


class _Capture(Recorder):
    """A recorder that was started by a capture."""

    def __init__(self) -> None:
        super().__init__(runs=False, is_capture=True)


@brief
def capture_begin(device: Any = None, stream: Stream | None = None) -> None:
    """Capture all operations on arrays from now on into a graph, instead of running them.

    Parameters
    ----------
    device, stream : optional
        For programs that also run elsewhere; the arrays of what is captured determine the device.
    """
    get_device(device)
    _Capture().__enter__()


@brief
def capture_end(device: Any = None, stream: Stream | None = None) -> Graph:
    """Return the graph of the operations since :func:`capture_begin`.

    Parameters
    ----------
    device, stream : optional
        As in :func:`capture_begin`.

    Returns
    -------
    Graph
        The captured operations.

    Raises
    ------
    RuntimeError
        If no capture has begun in this thread.
    """
    recorder = recorder_now()
    if not isinstance(recorder, _Capture):
        raise RuntimeError("no capture has begun in this thread")
    recorder.__exit__(None, None, None)
    return Graph(Recorded(recorder.items))


@brief
def capture_launch(graph: Graph, stream: Stream | None = None) -> None:
    """Launch a graph.

    Parameters
    ----------
    graph : Graph
        The captured operations.
    stream : Stream, optional
        The stream to run on; the current one of its device by default.
    """
    if not isinstance(graph, Graph):
        raise MisuseError(
            f"a graph is needed here, not {graph!r}",
            remedy="record one with dk.ScopedCapture, or dk.capture_begin and dk.capture_end",
        )
    if stream is None:
        graph.launch()
    else:
        graph.launch(stream)


class ScopedCapture(Scope):
    """Captures the operations on arrays in a ``with`` block; afterwards ``graph`` holds them.

    Nothing runs in the block. Launches, copies, fills, and what a :class:`Tape` does are captured; what Python
    computes is
    not.

    Parameters
    ----------
    device, stream : optional
        As in :func:`capture_begin`.

    Attributes
    ----------
    graph : Graph or None
        The captured operations, after the block.
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


class Conditional(Uncopied, Operation):
    """Steps that run depending on a number in an array, which is read once, before the side that it selects has run.

    Parameters
    ----------
    condition : array
        One int32.
    on_true, on_false : Sequence or None
        The steps to run if it is not 0, and if it is.
    loop : bool, optional
        Whether it is read again after each run of `on_true`, which is repeated until it is 0.
    """

    def __init__(
        self, condition: array, on_true: Recorded | None, on_false: Recorded | None = None, loop: bool = False
    ) -> None:
        self.condition = condition
        self.on_true = on_true
        self.on_false = on_false
        self.loop = loop

    @property
    def label(self) -> str:
        """The name of the step for messages."""
        return "while" if self.loop else "if"

    @property
    def device(self) -> Device:
        """The device that it runs on."""
        return self.condition._memory.device

    @property
    def sides(self) -> list[tuple[Recorded, bool]]:
        """The sides that exist, each with whether it runs if the number is 0."""
        return [(side, negate) for side, negate in ((self.on_true, False), (self.on_false, True)) if side is not None]

    @property
    def sequences(self) -> list[Recorded]:  # type: ignore[override]
        """The sides that exist."""
        return [side for side, _ in self.sides]

    def _operations(self) -> list[Operation]:
        return [operation for side, _ in self.sides for operation in _operations_of(side)]

    def touch(self) -> None:
        """Raise the versions of the memory that either side writes."""
        # Which side will run is not known here. A version that rose without a write costs at most a copy.
        for operation in self._operations():
            operation.touch()

    def check_differentiable(self) -> None:
        """Raise: which side runs is not known when it is recorded."""
        raise _no_adjoint()

    def reads(self) -> list[array]:
        """Return the arrays that the condition and both sides read."""
        return [self.condition, *(a for operation in self._operations() for a in operation.reads())]

    def writes(self) -> list[array]:
        """Return the arrays that both sides write."""
        return [a for operation in self._operations() for a in operation.writes()]

    def constants(self) -> bytes:
        """Return nothing: its sides were recorded once."""
        return b""

    def steps(self) -> Steps | None:
        """Return one step that reads the condition itself, None on a GPU or if a side has no native form."""
        forms: list[list[Any]] = []
        for side in (self.on_true, self.on_false):
            found = [] if side is None else _native(side)
            if found is None:
                return None
            forms.append(found)
        if not self.condition._memory.is_host:
            return None
        # A branch among steps is one, for whatever runs them.
        on_true, on_false = forms
        made: Any = [NativeBranch(self.condition._range[0], on_true, on_false, self.loop)]
        steps: Steps = made
        return steps

    def _holds(self) -> bool:
        return _is_set(self.condition)

    def execute(self) -> None:
        """Run the steps, or add them to the graph that is being captured."""
        if self.device.is_capturing:
            self._capture(self.device)
        elif self._run_natively():
            return
        elif self.loop:
            while self._holds():
                _execute(self.on_true)
        else:
            _execute(self.on_true if self._holds() else self.on_false)

    def _run_natively(self) -> bool:
        """Run the native form, and return whether there is one."""
        steps = self.steps()
        plan = None if steps is None else Plan(steps, (), 0)
        if plan is None or not plan.is_native:
            return False
        plan.run()
        return True

    def _capture(self, device: Any) -> None:
        driver = device.driver
        if not driver.has_conditional_nodes():
            raise LaunchError(
                f"the driver of {device} (CUDA {driver.version() // 1000}.{driver.version() % 1000 // 10}) has no "
                "conditional nodes in graphs; they came with CUDA 12.4",
                remedy="update the driver, or replay the sequence instead of capturing it",
            )
        stream, address = device.stream.cuda_stream, self.condition._range[0]
        nodes = [(side, negate, driver.conditional_handle(stream, device.context)) for side, negate in self.sides]
        for _, negate, handle in nodes:  # all before any side runs, which may change the number
            driver.set_condition(handle, address, negate, stream)
        for side, negate, handle in nodes:
            inside = device.new_stream()
            # The body is captured on a stream of its own, which the graph refers to until its capture has ended.
            device.keep(inside)
            driver.conditional_body(stream, inside.cuda_stream, device.context, handle, self.loop)
            inside.enqueue(partial(self._capture_side, device, side))
            # In a loop the body's last node sets the handle that the driver tests for the next round.
            if self.loop:
                driver.set_condition(handle, address, negate, inside.cuda_stream)
            driver.capture_end(inside.cuda_stream)

    def _capture_side(self, device: Any, side: Recorded) -> None:
        for operation in _operations_of(side):
            device.keep(operation)
            operation.execute()


def _operations_of(side: Recorded) -> list[Operation]:
    return [item.operation for item in side._program.items]


def _native(side: Recorded) -> list[Any] | None:
    """Return the native steps of a side on the CPU, None if one has no native form."""
    program = side._program
    program.refresh()
    if None in program.forms or any(item.operation.device is not CPU for item in program.items):
        return None
    return [step for form in program.forms for step in form or ()]


def _execute(side: Recorded | None) -> None:
    for operation in () if side is None else _operations_of(side):
        operation.execute()


@brief
def capture_while(
    condition: array, while_body: Callable[..., Any] | Graph, stream: Stream | None = None, **kwargs: Any
) -> None:
    """Run a function as long as a number in an array is not 0; in a capture, as part of the graph.

    Parameters
    ----------
    condition : array
        One int32. It is read before each round, after preceding work has ended.
    while_body : callable or Graph
        The body; called with `kwargs`. In a capture it is called once, under a tape in each round.
    stream : Stream, optional
        The stream to run on outside a capture.

    Raises
    ------
    LaunchError
        If a recording or capture is differentiated at the same time: the number of rounds is not known then.
    """
    flag, is_for_host = _checked(condition)
    if is_for_host:
        with ScopedStream(stream):
            while _is_set(flag):
                _run(while_body, kwargs)
        return
    perform(Conditional(flag, _side(while_body, kwargs), loop=True), stream)


@brief
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
        One int32. It is read once, after preceding work has ended: one of the two runs, whatever that does to it.
    on_true, on_false : callable or Graph, optional
        The functions to run; called with `kwargs`. In a capture each is called once, under a tape the one that runs.
    stream : Stream, optional
        The stream to run on outside a capture.

    Raises
    ------
    LaunchError
        If a recording or capture is differentiated at the same time: which of the two will run is not known then.
    """
    flag, is_for_host = _checked(condition)
    if is_for_host:
        side = on_true if _is_set(flag) else on_false
        with ScopedStream(stream):
            if side is not None:
                _run(side, kwargs)
        return
    first, second = (None if side is None else _side(side, kwargs) for side in (on_true, on_false))
    if first is not None or second is not None:
        perform(Conditional(flag, first, second), stream)


def _checked(condition: Any) -> tuple[array, bool]:
    """Return a condition with one axis, and whether the host decides by it.

    A tape needs the steps that have really run. Raise unless the condition is valid and no recording of it is
    differentiated.
    """
    if not isinstance(condition, array) or condition._element != INT32 or condition.size != 1:
        raise MisuseError(
            f"a condition is an array of one int32, not {described(condition)}",
            remedy="write condition = dk.zeros(1, dtype=dk.int32), which a kernel sets",
        )
    is_for_host = is_handled()
    if is_for_host and will_replay():
        raise _no_adjoint()
    return condition.flatten(), is_for_host


def _is_set(flag: array) -> bool:
    """Return whether a condition holds now."""
    return bool(flag._elements()[0] != 0)


def _run(body: Any, kwargs: dict[str, Any]) -> None:
    """Run a side now."""
    if isinstance(body, Graph):
        body.launch()
    else:
        _callable(body)(**kwargs)


def _no_adjoint() -> LaunchError:
    return LaunchError(f"{_SIDES} has no adjoint", remedy="leave it out of the tape, or write it as a kernel")


def _side(body: Any, kwargs: dict[str, Any]) -> Recorded:
    """Return the recorded operations of a side; raise if there are none."""
    made = _recorded(body, kwargs)
    if not made._program.items:
        raise LaunchError(f"{_SIDES} does nothing to arrays", remedy="launch a kernel in it, or leave that side out")
    return made


def _recorded(body: Any, kwargs: dict[str, Any]) -> Recorded:
    """Return the recorded operations of a function."""
    if isinstance(body, Graph):
        return body.sequence
    _callable(body)
    # The outer recorder is set aside: what the side does belongs to the side and not to the recording around it.
    outer = recorder_now()
    made = outer.inside() if isinstance(outer, Recorder) else Recorder(runs=False)
    with unrecorded(), made:
        body(**kwargs)
    return Recorded(made.items)


def _callable(body: Any) -> Callable[..., Any]:
    if not callable(body):
        raise MisuseError(
            f"a function or a graph is needed here, not {body!r}", remedy="pass a function that launches kernels"
        )
    function: Callable[..., Any] = body
    return function
