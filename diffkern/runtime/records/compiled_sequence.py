"""The steps of a sequence, compiled into plans, and their replay.

At best a replay is one native call, which skips redundant work. Steps with a native form run without Python in between;
the others (copies of arrays that are not contiguous, adjoints that accumulate in private copies) split the native call.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from diffkern.errors import MisuseError
from diffkern.process.gc_policy import rare_collections
from diffkern.runtime.accumulate.sequence_dce import folded
from diffkern.runtime.arrays.operation import Operation, memories
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.memory.device import CPU
from diffkern.runtime.memory.state import current, is_taken
from diffkern.runtime.memory.stream import Stream, drain
from diffkern.runtime.native.replay import PYTHON, STALE, Plan
from diffkern.runtime.native.slow_path import slow_path_flags
from diffkern.runtime.observe.spans import Span, past, span, watched
from diffkern.runtime.records.recorder import Item
from diffkern.runtime.records.zero_fill_elision import Quick, idle_steps

__all__ = ["CompiledSequence"]


class CompiledSequence:
    """The items of a sequence, compiled: one plan if all are native, else plans and operations in turn."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = list(items)
        self.times: list[tuple[float, float] | None] = [None] * len(self.items)
        self.quick: Quick | None = None
        with rare_collections():  # all that is made stays
            self.plan = self._compile()
        self._watch(self)

    def _watch(self, user: CompiledSequence | Quick) -> None:
        for item in self.items:
            for record in item.launches():
                record.watch(user)

    def _compile(self) -> Plan:
        # Runs of native items of one device are plans; what is not native stands by itself.
        self.segments: list[tuple[Plan | None, list[int]]] = []
        operations = [item.operation for item in self.items]
        forms = [item.steps for item in self.items]
        places = self._places = [operation.device for operation in operations]
        written = memories(a for i in self.items for a in i.operation.writes())
        # As of a CompiledLaunch: a library that counts changes has to be told of each of them, which takes Python.
        counted = any(memory.is_counted and not memory.is_host for memory in written)
        counters = [memory.counter for memory in written]

        def plan_of(indices: Sequence[int], counters: Sequence[Any], flags: int = 0) -> Plan:
            steps: Any = [step for k in indices for step in forms[k] or ()]
            return Plan(steps, counters, flags)

        # Steps are only folded into each other where all run in order on the CPU: elsewhere another step may run in
        # between.
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

    def _hasten(self, operations: Sequence[Operation], counters: Sequence[Any]) -> None:
        """Make a second plan without the steps that change nothing if some memory is zero when a replay starts."""
        if {*self._places, CPU} != {CPU}:
            return
        idle = idle_steps(operations, self.forms)
        if idle is not None:
            steps: Any = [step for k, form in enumerate(self.forms) if k not in idle.steps for step in form or ()]
            # A strong reference would be a cycle through the plan, and keep the arrays alive until the garbage
            # collector runs.
            itself = weakref.ref(self)

            def run() -> None:
                program = itself()
                assert program is not None  # it makes the call
                program.run()

            self.quick = Quick(Plan(steps, counters, 0), idle, run)
            self._watch(self.quick)

    @property
    def leaves_out(self) -> bool:
        """True if a replay skips work whose absence launches of other arrays might observe."""
        parts = [part._program for item in self.items if item.record is None for part in item.operation.sequences]
        return self._is_folded or self.quick is not None or any(part.leaves_out for part in parts)

    def replayed(self) -> Callable[..., None]:
        """Return a callable that runs all steps, at best in one native call."""
        call = self.plan.call(self.run)
        return call if self.quick is None else self._quickest(call)

    def _quickest(self, call: Callable[..., None]) -> Callable[..., None]:
        """Return a callable that runs the plan, or the quicker one where it does the same."""

        def replay(*args: Any, **options: Any) -> None:
            quick = self.quick
            # With arguments, or under a tape, recorder or stream, the memory may not be zero when the steps run.
            if quick is None or args or options or slow_path_flags.word[0]:
                call(*args, **options)
            else:
                quick.choose(call)

        return replay

    def refresh(self) -> None:
        """Compile again if an item has changed."""
        if self.plan.flags & STALE:
            whole = self.plan
            # The plan that callers hold stays the same object; its contents are exchanged once no thread runs it any
            # more.
            whole.wait_idle()
            if self.quick is not None:
                self.quick.plan.wait_idle()
                self.quick = None
            made = self._compile()
            self.segments = [(whole if plan is made else plan, run) for plan, run in self.segments]
            whole.become(made)
            self.plan = whole

    def run(self, stream: Stream | None = None, timed: bool = False) -> None:
        """Run all steps from Python."""
        if stream is not None and not isinstance(stream, Stream):
            raise MisuseError(
                f"stream must be a dk.Stream, not {stream!r}", remedy="make one with dk.Stream(), or leave it out"
            )
        # The steps are launches of their own then. Items that are one launch share one copy.
        if is_taken():
            copies: dict[PackedLaunch, PackedLaunch] = {}
            for item in self.items:
                item.again(copies)
            return
        self.refresh()
        timed = timed or self._is_watched()
        stream = stream or current.stream
        # Versions of all memory are raised before any step runs, in the order in which the steps would raise them.
        for item, device in zip(self.items, self._places, strict=True):
            operation = item.operation
            operation.touch()
            if device is not CPU:
                operation.hold(stream if stream is not None and stream.device is device else device.stream)
        if stream is None or stream.is_default:
            drain()
            self._execute(timed)
            return
        # Changes of parameters wait until the stream has come to the end of this.
        work = _Replay(self, timed)
        self.plan.expect(lambda: not work.done and stream.holds(work))
        stream.enqueue(work)

    def _is_watched(self) -> bool:
        """Return whether observers see each step; if one is on a GPU, only those that accept synchronization do."""
        observers = watched.observers
        if observers and any(place is not CPU for place in self._places):
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
            device = self._places[indices[0]] if indices else CPU
            # Times of single steps on a GPU need a wait after each, and so cannot come from one native call.
            if plan is None or not plan.is_native or (timed and device is not CPU) or watched.inspects:
                for index in indices:
                    operation = self.items[index].operation
                    watched.inspect(operation)
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
            # In a timed run native code leaves a time stamp in front of each step and one at the end.
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
    """The replay of a sequence as work queued on a stream."""

    def __init__(self, program: CompiledSequence, timed: bool) -> None:
        self.program = program
        self.timed = timed
        self.done = False

    def __call__(self) -> None:
        try:
            self.program._execute(self.timed)
        finally:
            self.done = True
