"""``dk.record()``: launches, copies, fills and gradients as one object that is replayed in one native call.

In: whatever happens to arrays inside the ``with`` block. Out: a :class:`Sequence`: a list of steps whose parameters can
be changed, that can be cut, put into another order, differentiated and written down. What has a native form runs
without Python in between; the rest (copies of arrays that are not contiguous, adjoints that accumulate in private
copies) splits the native call.
"""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Series
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, overload

from diffkern.callers import brief
from diffkern.errors import LaunchError, MisuseError, described
from diffkern.runtime.adjoint import AdjointLaunch
from diffkern.runtime.arguments import unpacked
from diffkern.runtime.array import array
from diffkern.runtime.device import CPU
from diffkern.runtime.folding import folded
from diffkern.runtime.hazards import waits
from diffkern.runtime.native.replay import PYTHON, STALE, Plan, Steps
from diffkern.runtime.operation import Assign, Copy, Operation, memories, perform
from diffkern.runtime.packed import PackedLaunch, dispatch
from diffkern.runtime.prepared import Prepared
from diffkern.runtime.quick import Quick, needless_fills
from diffkern.runtime.record import Launch
from diffkern.runtime.scope import Scope
from diffkern.runtime.spans import Span, past, span, watched
from diffkern.runtime.state import attention, current
from diffkern.runtime.stream import Stream, drain
from diffkern.runtime.tape import Tape
from diffkern.runtime.uncopied import Uncopied

if TYPE_CHECKING:
    from collections.abc import Callable

    from diffkern.runtime.graph import Graph

__all__ = ["Recorder", "Sequence", "record"]


class Item:
    """One step: an operation, prepared if it is a launch."""

    __slots__ = ("_operation", "prepared", "stream")

    def __init__(self, operation: Operation, stream: Stream | None, fixed: bool) -> None:
        self.prepared: Prepared | None = None
        self.stream = stream
        self._operation: Operation | None = None
        if isinstance(operation, AdjointLaunch):
            self.prepared = Prepared(operation.launch, operation, fixed=True)
        elif isinstance(operation, PackedLaunch):
            self.prepared = Prepared(operation, fixed=fixed)
        else:
            self._operation = operation

    @property
    def operation(self) -> Operation:
        """What it does."""
        if self.prepared is not None:
            self.prepared.check_alive()
            return self.prepared.operation
        assert self._operation is not None
        return self._operation

    @property
    def steps(self) -> Steps | None:
        """Its native form."""
        return self.operation.steps() if self.prepared is None else self.prepared.steps

    def again(self) -> None:
        """Do it in the way of a program: a tape or another sequence may take it."""
        operation, tape = self.operation, current.tape
        if isinstance(operation, PackedLaunch):
            if tape is not None and operation.logged is not None:
                _log_anew(operation)
            else:
                dispatch(operation.copy())
            return
        if tape is not None and isinstance(operation, Copy):
            tape.record_copy(operation.goal, operation.source)
        elif tape is not None and isinstance(operation, Assign):
            tape.record_overwrite(operation.goal, operation.values)
        perform(operation)
        if tape is not None and isinstance(operation, (Copy, Assign)):
            tape.note_change(operation.goal)


def _log_anew(launch: PackedLaunch) -> None:
    """Run a launch with a log that the present tape keeps; its adjoint in the sequence finds a copy in its own."""
    assert launch.logged is not None
    made = launch.with_log(launch.logged)
    dispatch(made)
    for own, new in zip(launch.log or (), made.log or (), strict=True):
        if new.size:
            perform(Copy(own[: new.size], new))


class Recorder(Scope):
    """Takes what happens to arrays.

    Attributes
    ----------
    runs
        Whether things also happen while they are recorded.
    """

    def __init__(self, runs: bool) -> None:
        self.runs = runs
        self.items: list[Item] = []
        self._prepared: dict[int, list[Prepared]] = {}

    def add(self, operation: Operation, stream: Stream | None) -> None:
        """Take one operation."""
        item = Item(operation, stream or current.stream, current.tape is not None)
        self.items.append(item)
        if item.prepared is not None:
            # A launch and its adjoint share the arguments by value, and change them together.
            family = self._prepared.setdefault(id(item.prepared.launch), [])
            family.append(item.prepared)
            item.prepared.join(family)

    def _begin(self) -> tuple[str, Recorder, Recorder]:
        if current.recorder is not None:
            raise RuntimeError("a sequence is being recorded already; leave its block before entering another")
        return "recorder", self, self


class _Program:
    """The items of a sequence, compiled: one plan if all are native, else plans and operations in turn."""

    def __init__(self, items: Series[Item]) -> None:
        self.items = list(items)
        self.times: list[tuple[float, float] | None] = [None] * len(self.items)
        self.quick: Quick | None = None
        self.plan = self._compile()
        self._watch(self)

    def _watch(self, user: _Program | Quick) -> None:
        for item in self.items:
            if item.prepared is not None:
                item.prepared.watch(user)

    def _compile(self) -> Plan:
        # Runs of native items of one device are plans; what is not native stands by itself.
        self.segments: list[tuple[Plan | None, list[int]]] = []
        operations = [item.operation for item in self.items]
        forms = [item.steps for item in self.items]
        places = [operation.device for operation in operations]
        written = memories(a for i in self.items for a in i.operation.writes())
        # As of a single launch, see Form.
        counted = any(memory.is_counted and not memory.is_host for memory in written)
        counters = [memory.counter for memory in written]

        def plan_of(indices: Series[int], counters: Series[Any], flags: int = 0) -> Plan:
            steps: Any = [step for k in indices for step in forms[k] or ()]
            return Plan(steps, counters, flags)

        self._is_folded = False
        native = [form for form in forms if form is not None]
        if len(native) == len(forms) and {*places, CPU} == {CPU} and len({item.stream for item in self.items}) <= 1:
            forms = [*folded(operations, native)]
            self._is_folded = forms != native
        self.forms = forms
        if None not in forms and len(set(places)) <= 1:
            every = list(range(len(forms)))
            whole = plan_of(every, counters, PYTHON if counted else 0)
            self.segments.append((whole, every))
            self._hasten(operations, counters)
            return whole
        run: list[int] = []
        for index, form in enumerate(forms):
            if run and (form is None or places[index] is not places[run[0]]):
                self.segments.append((plan_of(run, ()), run))
                run = []
            if form is None:
                self.segments.append((None, [index]))
            else:
                run.append(index)
        if run:
            self.segments.append((plan_of(run, ()), run))
        return Plan((), counters, PYTHON)

    def _hasten(self, operations: Series[Operation], counters: Series[Any]) -> None:
        """Have a quicker plan for replays that find zero what they would only set to zero."""
        fills = needless_fills(operations, self.forms)
        if fills:
            steps: Any = [step for k, form in enumerate(self.forms) if k not in fills for step in form or ()]
            itself = weakref.ref(self)

            def run() -> None:
                program = itself()
                assert program is not None  # it makes the call
                program.run()

            self.quick = Quick(Plan(steps, counters, 0), memories(fills.values()), run)
            self._watch(self.quick)

    @property
    def leaves_out(self) -> bool:
        """Whether a replay leaves something out, which launches of other arrays might see."""
        return self._is_folded or self.quick is not None

    def replayed(self) -> Callable[..., None]:
        """Return what runs all, at best in one native call."""
        call = self.plan.call(self.run)
        return call if self.quick is None else self._quickest(call)

    def _quickest(self, call: Callable[..., None]) -> Callable[..., None]:
        """Return what makes a call of the plan, or one of the quicker one where it does the same."""

        def replay(*args: Any, **options: Any) -> None:
            quick = self.quick
            if quick is None or args or options or attention.word[0]:
                call(*args, **options)
            else:
                quick.choose(call)

        return replay

    def refresh(self) -> None:
        """Compile again if an item has changed."""
        if self.plan.flags & STALE:
            whole = self.plan
            whole.wait_idle()
            if self.quick is not None:
                self.quick.plan.wait_idle()
                self.quick = None
            made = self._compile()
            self.segments = [(whole if plan is made else plan, run) for plan, run in self.segments]
            whole.become(made)
            self.plan = whole

    def run(self, stream: Stream | None = None, timed: bool = False) -> None:
        """Run all, by way of Python."""
        if stream is not None and not isinstance(stream, Stream):
            raise MisuseError(
                f"stream must be a dk.Stream, not {stream!r}", remedy="make one with dk.Stream(), or leave it out"
            )
        if current.tape is not None or current.recorder is not None:
            for item in self.items:
                item.again()
            return
        self.refresh()
        timed = timed or self._is_watched()
        stream = stream or current.stream
        for item in self.items:
            item.operation.touch()
            device = item.operation.device
            if device is not CPU:
                item.operation.hold(stream if stream is not None and stream.device is device else device.stream)
        if stream is None or stream.is_default:
            drain()
            self._execute(timed)
            return
        # Changes of parameters wait until the stream has come to the end of this.
        work = _Replay(self, timed)
        self.plan.expect(lambda: not work.done and stream.holds(work))
        stream.enqueue(work)

    def _is_watched(self) -> bool:
        """Whether observers are told of each step; those on a GPU are then waited for, which they have to want."""
        observers = watched.observers
        if any(item.operation.device is not CPU for item in self.items):
            return any(observer.synchronizes for observer in observers)
        return bool(observers)

    def _execute(self, timed: bool) -> None:
        if not watched.observers:
            self._run_segments(timed)
            return
        with span("replay", "replay of a sequence", steps=len(self.items)):
            self._run_segments(timed)
        if timed:
            for item, measured in zip(self.items, self.times, strict=True):
                assert measured is not None
                begin, took = measured
                of = item.operation
                past(Span(of.kind, of.label, of.facts(), round(begin * 1e9), round((begin + took) * 1e9)))

    def _run_segments(self, timed: bool) -> None:
        for plan, indices in self.segments:
            begin = time.perf_counter_ns()
            device = self.items[indices[0]].operation.device if indices else CPU
            if plan is None or not plan.is_native or (timed and device is not CPU):
                for index in indices:
                    operation = self.items[index].operation
                    if timed:
                        operation.device.synchronize()
                    begin = time.perf_counter_ns()
                    operation.execute()
                    if timed:
                        operation.device.synchronize()
                        self.times[index] = begin * 1e-9, (time.perf_counter_ns() - begin) * 1e-9
                continue
            if not timed:
                device.replay(plan, device.stream)
                continue
            stamps = plan.run(timed)
            at = 0
            for index in indices:
                following = at + len(self.forms[index] or ())
                self.times[index] = (
                    (begin + stamps[at] - stamps[0]) * 1e-9,
                    (stamps[following] - stamps[at]) * 1e-9,
                )
                at = following


class _Replay:
    """A replay on a stream."""

    def __init__(self, program: _Program, timed: bool) -> None:
        self.program = program
        self.timed = timed
        self.done = False

    def __call__(self) -> None:
        try:
            self.program._execute(self.timed)
        finally:
            self.done = True


class Sequence(Uncopied):
    """Recorded steps. Made by :func:`record`.

    ``sequence.replay(stream=None, timed=False)`` runs them all, with the contents that the arrays have then; with
    ``timed=True`` each step's time is measured, for the table and the trace (on a GPU each step is waited for then).
    ``sequence[i]`` is the record of a launch, ``sequence[a:b]`` a sequence of the same steps: changes of parameters
    show in both.
    """

    __slots__ = ("__weakref__", "_program", "replay")

    replay: Callable[..., None]

    _capture: ClassVar[Callable[[Sequence], Graph]]
    """What makes its graph, set by :mod:`diffkern.runtime.graph`."""

    def __init__(self, items: Series[Item] = ()) -> None:
        self._set(items)

    def _set(self, items: Series[Item]) -> None:
        self._program = _Program(items)
        self.replay = self._program.replayed()

    def __len__(self) -> int:
        return len(self._program.items)

    @overload
    def __getitem__(self, index: int) -> Launch: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence: ...

    def __getitem__(self, index: int | slice) -> Launch | Sequence:
        """Return the record of one launch, or a part of the sequence."""
        if isinstance(index, slice):
            return Sequence(self._program.items[index])
        item = self._program.items[index]
        if item.prepared is None:
            raise LaunchError(
                f"step {index} is a {item.operation.label}, not a launch; it has no parameters",
                remedy="launches are the steps that have a kernel",
            )
        return Launch(item.prepared)

    def __iter__(self) -> Iterator[Launch]:
        """Go through the records of the launches."""
        return iter([Launch(item.prepared) for item in self._program.items if item.prepared is not None])

    # -- parameters --------------------------------------------------------------------------------------------------

    @brief
    def set_param(self, name: str, value: Any, kernel: Any = None) -> int:
        """Set a parameter of every launch whose kernel has one of this name.

        Parameters
        ----------
        name : str
            The parameter.
        value
            Its value, checked for every launch before any is changed.
        kernel : Kernel, optional
            The kernel, where only its launches are meant.

        Returns
        -------
        int
            How many launches there were.
        """
        goals: list[tuple[Prepared, int]] = []
        for item in self._program.items:
            prepared = item.prepared
            if prepared is None or (kernel is not None and prepared.launch.kernel is not kernel):
                continue
            goals += [(prepared, p.index) for p in prepared.launch.kernel.parameters if p.name == name]
        if not goals:
            raise LaunchError(
                f"no launch of the sequence has a parameter {name!r}",
                remedy="set one that a kernel of the sequence has",
            )
        for prepared, index in goals:
            prepared.check(index, value)
        for prepared, index in goals:
            prepared.set(index, value)
        return len(goals)

    @brief
    def set_params(self, values: Mapping[str, Any], kernel: Any = None) -> None:
        """Set several parameters by name; see :meth:`set_param`."""
        for name, value in values.items():
            self.set_param(name, value, kernel)

    # -- order -------------------------------------------------------------------------------------------------------

    def dependencies(self) -> list[set[int]]:
        """Return for each step the earlier ones that have to come before it: they touch memory of which one writes."""
        operations = [item.operation for item in self._program.items]
        return waits([(o.reads(), o.writes()) for o in operations], every=True)

    @brief
    def reorder(self, order: Series[int]) -> Sequence:
        """Return the steps in another order.

        Parameters
        ----------
        order : sequence of int
            The positions of all steps, each once.

        Raises
        ------
        ValueError
            If a step would come before one that it depends on.
        """
        if sorted(order) != list(range(len(self))):
            raise ValueError(f"the order must name each of the {len(self)} steps once, not {list(order)!r}")
        place = {step: position for position, step in enumerate(order)}
        for step, needed in enumerate(self.dependencies()):
            for other in needed:
                if place[other] > place[step]:
                    first, second = (self._program.items[k].operation.label for k in (other, step))
                    raise ValueError(
                        f"step {step} ({second}) must stay behind step {other} ({first}): they use the same memory"
                    )
        return Sequence([self._program.items[k] for k in order])

    # -- gradients ---------------------------------------------------------------------------------------------------

    @brief
    def adjoint(
        self, loss: array | None = None, grads: Mapping[array, Any] | None = None, zero: bool = True
    ) -> Sequence:
        """Return forward and reverse as one sequence: its replay computes results and gradients.

        Nothing runs meanwhile. Numbers can be changed in it by name, arrays cannot.

        Parameters
        ----------
        loss, grads : optional
            As in :meth:`Tape.backward`. Without them the gradients begin with what ``grad`` of the results holds at
            each replay.
        zero : bool, optional
            Whether a replay sets the gradients to zero first; without `loss` and `grads` it never does.
        """
        if any(isinstance(item.operation, AdjointLaunch) for item in self._program.items):
            raise LaunchError(
                "the sequence contains adjoints already, and they have no gradient",
                remedy="record the forward launches alone, and take their adjoint",
            )
        if current.tape is not None:
            raise LaunchError(
                "the adjoint of a sequence is not built inside a tape; leave its block first",
                remedy="build it behind the with block",
            )
        drain()
        tape = Tape()
        with Recorder(runs=False) as recorder:
            with tape:
                for item in self._program.items:
                    item.again()
            if zero and not (loss is None and grads is None):
                tape.zero()
            tape.backward(loss, grads)
        for item in recorder.items:
            if item.prepared is not None:
                item.prepared.fix()
        return Sequence(recorder.items)

    @brief
    def capture(self) -> Graph:
        """Return the sequence as a graph: on a GPU a CUDA graph, on the CPU the sequence itself.

        Raises
        ------
        LaunchError
            If its steps run on several devices, or one of them cannot be part of a graph.
        """
        return Sequence._capture(self)

    # -- showing -----------------------------------------------------------------------------------------------------

    def table(self) -> list[dict[str, Any]]:
        """Return for each step what it is, its dimensions and parameters, stream, and the time of the last timed run.

        Times are in seconds, None before the first ``replay(timed=True)``.
        """
        rows = []
        for item, measured in zip(self._program.items, self._program.times, strict=True):
            operation, prepared = item.operation, item.prepared
            rows.append(
                {
                    "step": operation.label,
                    "dim": [] if prepared is None else list(prepared.launch.dims),
                    "parameters": _parameters(operation),
                    "stream": "default" if item.stream is None else repr(item.stream),
                    "native": item.steps is not None,
                    "seconds": None if measured is None else measured[1],
                }
            )
        return rows

    def __str__(self) -> str:
        head = ("", "step", "dim", "parameters", "stream", "time (us)")
        lines = [head]
        for index, row in enumerate(self.table()):
            took = "-" if row["seconds"] is None else f"{row['seconds'] * 1e6:.2f}"
            dim = " x ".join(map(str, row["dim"]))
            shown = ", ".join(f"{name}={value}" for name, value in row["parameters"].items())
            lines.append((str(index), row["step"], dim, shown, row["stream"], took))
        widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)

    def __repr__(self) -> str:
        return f"<dk.Sequence of {len(self)} steps>"

    def to_json(self, path: str | Path | None = None) -> str:
        """Return :meth:`table` and :meth:`dependencies` as JSON, and write it to a file if one is named."""
        needed = self.dependencies()
        rows = [{**row, "after": sorted(after)} for row, after in zip(self.table(), needed, strict=True)]
        text = json.dumps({"steps": rows}, indent=2)
        if path is not None:
            Path(path).write_text(text + "\n", encoding="utf-8")
        return text

    def chrome_trace(self, path: str | Path | None = None) -> str:
        """Return the last timed run in the format of Chrome's tracing and Perfetto, and write it to a file if named.

        Raises
        ------
        RuntimeError
            If there was none.
        """
        if None in self._program.times:
            raise RuntimeError("there are no times yet; run replay(timed=True) first")
        measured = [t for t in self._program.times if t is not None]
        origin = min((begin for begin, _ in measured), default=0.0)
        events = [
            {
                "name": row["step"], "ph": "X", "pid": 0, "tid": row["stream"], "cat": "launch",
                "ts": (begin - origin) * 1e6, "dur": took * 1e6,
                "args": {"dim": row["dim"], **row["parameters"]},
            }
            for row, (begin, took) in zip(self.table(), measured, strict=True)
        ]  # fmt: skip
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
        if path is not None:
            Path(path).write_text(text + "\n", encoding="utf-8")
        return text


class record(Scope):
    """Records what happens to arrays in a ``with`` block: ``with dk.record() as sequence:``.

    Launches, ``dk.copy``, fills and assignments, and what a :class:`Tape` does are taken. What Python computes is not:
    a number that was read from an array is a constant of the sequence.

    Parameters
    ----------
    run : bool, optional
        Whether things also happen while they are recorded. With False nothing does, so their results are not there.
    """

    def __init__(self, run: bool = True) -> None:
        self._recorder = Recorder(run)
        self._sequence = Sequence()

    def _begin(self) -> tuple[str, Recorder, Sequence]:
        return *self._recorder._begin()[:2], self._sequence

    def _end(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self._sequence._set(self._recorder.items)


def _parameters(operation: Operation) -> dict[str, str]:
    if isinstance(operation, Copy):
        return {"to": described(operation.goal), "from": described(operation.source)}
    if isinstance(operation, Assign):
        return {"array": described(operation.goal)}
    launch = operation.launch if isinstance(operation, AdjointLaunch) else operation
    if not isinstance(launch, PackedLaunch):
        return {"to": described(next(iter(operation.writes())))}
    shown = {}
    for leaf, held, part in zip(launch.leaves, launch.arrays, launch.parts, strict=True):
        key = str(leaf.type)
        shown[leaf.name] = key + str(list(held.shape)) if held is not None else unpacked(key, part)
    return shown
