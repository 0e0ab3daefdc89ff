"""Steps as a graph of the CUDA driver: building, updating and launching it.

From the steps of a sequence that run on one GPU, a :class:`Captured` makes a plan that launches the graph in one native
call, however many steps there are: what has to be asked of each step was asked when the graph was built. A stamp that
every change of a parameter renews says whether the graph is still current, and one counter stands for the changes of
all the memory that the graph writes.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING, Any

from diffkern.errors import CudaError, LaunchError
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import memories
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.state import is_taken
from diffkern.runtime.memory.stream import Stream, drain_queues, on_its_way
from diffkern.runtime.native.device import graph_step
from diffkern.runtime.native.replay import PYTHON, STALE, Plan, Stamp
from diffkern.runtime.observe.spans import span, watched
from diffkern.runtime.records.hazards import waits
from diffkern.runtime.records.launch_record import LaunchRecord
from diffkern.runtime.records.sequence import Sequence as Recorded

if TYPE_CHECKING:
    from diffkern.runtime.cuda.context import CudaDevice
    from diffkern.runtime.cuda.driver import Driver
    from diffkern.runtime.cuda.stream import CudaStream

__all__ = ["Captured"]

_NAMED = 4


class Captured:
    """A CUDA graph of the steps of a sequence.

    Attributes
    ----------
    nodes : int
        Number of nodes.
    plan : Plan
        The plan of its launch; the same object for as long as the graph lives.
    """

    def __init__(self, sequence: Recorded, device: CudaDevice) -> None:
        self._sequence = sequence
        self._items = list(sequence._program.items)
        self._device = device
        self._kept: list[Any] = []
        self._executable = 0
        self.nodes = 0
        self._state: list[tuple[LaunchRecord, Any]] = []
        self._stamps: list[tuple[Stamp, int]] = []
        self._written: list[Memory] = []
        # Of the memory that it writes, that whose owner, another library, counts changes as well.
        self._counted: list[Memory] = []
        self._pinned = False
        # Its launches, which are changes of all the memory that it writes; how many of them are over.
        self._launches = ctypes.c_int64(0)
        self._ended = 0
        self._streams: list[CudaStream] = []
        names = dict.fromkeys(item.operation.label for item in self._items[:_NAMED])
        self._label = "a graph of " + ", ".join(names)
        self.plan = Plan((), (), PYTHON)
        with device.active:
            self._build()

    # -- launching ---------------------------------------------------------------------------------------------------

    def run(self, stream: Stream | None = None) -> None:
        """Launch the graph from Python."""
        device = self._device
        # A graph has no steps that could be distinguished.
        if is_taken():
            self._sequence.replay(stream)
            return
        if stream is not None and stream.device is not device:
            raise LaunchError(
                f"the graph runs on {device}, and the stream is {stream!r}",
                remedy="make the stream with dk.Stream(device), or leave it out",
            )
        if not self._is_current():
            with device.active:
                self._build()
        # The graph may read what queued launches on the CPU still write.
        drain_queues()
        chosen: Any = device.stream if stream is None else stream
        self._launches.value += 1
        for memory in self._counted:
            memory.version += 1
        # The memory must not be reused before this stream is done with it. Noting a stream once per build is enough.
        if not chosen.is_default and chosen not in self._streams:
            self._streams.append(chosen)
            for memory in self._memories():
                memory.use(chosen)
        if watched.observers:
            with span("replay", self._label, device, device=str(device), steps=len(self._items)):
                self._launch_on(chosen)
        else:
            self._launch_on(chosen)
        # Pinned host memory may only be touched by the host after the graph's copies have ended, which the event tells.
        if self._pinned:
            on_its_way(chosen.record_event())

    def _launch_on(self, stream: Any) -> None:
        """Submit the graph to the driver."""
        device = self._device
        if device.port is not None:
            self.plan.run_on(stream.cuda_stream)
        else:
            device.recent.append(self._label)
            with device.active:
                device.driver.graph_launch(self._executable, stream.cuda_stream)

    def _is_current(self) -> bool:
        """Return whether no parameter has been set since the graph was built."""
        if not self._executable:
            return False
        if all(stamp.value == known for stamp, known in self._stamps):
            return True
        # Read before the parameters: a change that comes meanwhile makes another stamp.
        stamps = [(stamp, stamp.value) for stamp, _ in self._stamps]
        # A stamp is also renewed by setting a parameter to the value it had: comparing the values avoids a new capture.
        if not all(_state_of(record) == state for record, state in self._state):
            return False
        self._stamps = stamps
        self._plan_anew()
        return True

    def _plan_anew(self) -> None:
        """Make the plan launch the current graph for as long as the current stamps are valid."""
        port, stamps = self._device.port, self._stamps
        steps = [] if port is None else [graph_step(port, self._executable, self._label)]
        # Only one stamp is compared in native code; of steps without parameters nothing changes.
        native = port is not None and not (self._pinned or self._counted) and len(stamps) <= 1
        made = Plan(steps, [self._launches], 0 if native else PYTHON, *stamps[:1])
        # Another thread may be in the native call: mark the plan stale so that none enters, and wait for those inside
        # before its contents change.
        self.plan.flag(STALE)
        self.plan.wait_idle()
        self.plan.become(made)

    # -- making ------------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        """Capture the steps, and instantiate a graph of them or update the existing one with their parameters."""
        device, driver = self._device, self._device.driver
        # Read before the capture: a parameter that is set meanwhile renews a stamp, and the next launch captures again.
        stamps = self._watch()
        # The graph holds raw addresses, so that the operations and their arrays have to live as long as it does.
        kept: list[Any] = [item.operation for item in self._items]
        stream = device.new_stream()
        device.capture_started(kept)
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
            # No launch may be under way while the executable graph is updated or destroyed.
            self.plan.flag(STALE)
            self.plan.wait_idle()
            self._let_go()
            # An update keeps the instantiated graph where only parameters differ, and is much cheaper than
            # instantiation.
            if not self._executable or not driver.graph_update(self._executable, graph):
                self._destroy()
                self._executable = driver.graph_instantiate(graph)
            self.nodes = driver.graph_nodes(graph)
        finally:
            driver.graph_destroy(graph)
        self._kept, self._streams = kept, []
        self._state = [(record, _copied(_state_of(record))) for record in self._launches_within()]
        written = memories(a for item in self._items for a in item.operation.writes())
        self._counted = [memory for memory in written if memory.is_counted]
        self._count_for([memory for memory in written if not memory.is_counted])
        self._pinned = any(a.pinned for item in self._items for a in _arrays(item.operation))
        self._stamps = stamps
        self._plan_anew()

    def _launches_within(self) -> list[LaunchRecord]:
        """Return the launches of the graph, also those in loops and branches."""
        return [record for item in self._items for record in item.launches()]

    def _watch(self) -> list[tuple[Stamp, int]]:
        """Return the stamps that changes of parameters renew, each once, with their current values."""
        own = Stamp()
        found = dict.fromkeys(record.watched(own) for record in self._launches_within())
        return [(stamp, stamp.value) for stamp in found]

    def _count_for(self, written: list[Memory]) -> None:
        """Make the launch counter count as changes of some memory, and of no other memory any more."""
        before, self._written = self._written, written
        # A memory's version is its own count plus the shared counters. Ending the sharing adds what has been counted so
        # far.
        for memory in before:
            memory.count_alone(self._launches)
        for memory in written:
            memory.count_with(self._launches)

    def _execute(self, driver: Driver, stream: int) -> None:
        """Execute the steps on a capturing stream, each with edges from exactly the steps that it has to wait for."""
        operations = [item.operation for item in self._items]
        ends: list[tuple[int, ...]] = []
        for operation, needed in zip(operations, waits([(o.reads(), o.writes()) for o in operations]), strict=True):
            try:
                # Without this, capture would chain the steps in stream order, and independent ones could not overlap.
                driver.capture_behind(stream, sorted({node for step in needed for node in ends[step]}))
                operation.execute()
                ends.append(driver.capture_tail(stream))  # which fails where the step has ended the capture
            except CudaError as error:
                raise error.under(f"step {len(ends)} of a graph ({operation.label})") from None

    def _memories(self) -> list[Memory]:
        """Return the device memory that the graph works with, buffers of its own included."""
        held = [part for thing in self._kept for part in (thing if isinstance(thing, tuple) else (thing,))]
        every = [a for thing in held for a in ([thing] if isinstance(thing, array) else _arrays(thing))]
        return [memory for memory in memories(every) if not memory.is_host]

    # -- the end -----------------------------------------------------------------------------------------------------

    def _let_go(self) -> None:
        """Wait for pending launches that still copy from host memory which only this graph keeps alive."""
        device, launches = self._device, self._launches.value
        if launches != self._ended and any(isinstance(thing, tuple) for thing in self._kept):
            if device.is_capturing:
                device.keep(self._kept)  # nothing can be waited for now
            else:
                device.synchronize()
        self._ended = launches

    def _destroy(self) -> None:
        if self._executable:
            self._device.destroy("graph_exec_destroy", self._executable)
            self._executable = 0

    # The interpreter may finalize an object whose construction failed, which has no plan.
    def __del__(self) -> None:
        if hasattr(self, "plan"):
            self._count_for([])
            if not self._device.closed:
                with contextlib.suppress(CudaError):  # a wait tells of errors of earlier work
                    self._let_go()
            self._destroy()


def _abandon(device: CudaDevice, stream: CudaStream) -> None:
    """End a capture that failed and discard what it has recorded."""
    # The driver may have ended it by itself; the error that did so is on its way.
    with contextlib.suppress(CudaError):
        device.driver.graph_destroy(device.driver.capture_end(stream.cuda_stream))


def _state_of(record: LaunchRecord) -> Any:
    return record._compiled.block or record.launch.parts


def _copied(state: Any) -> Any:
    return bytes(state) if isinstance(state, bytearray) else list(state)


def _arrays(thing: Any) -> list[array]:
    """Return the arrays that an operation works with; none for any other object."""
    return [*thing.reads(), *thing.writes()] if hasattr(thing, "reads") else []
