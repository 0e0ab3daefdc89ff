"""Streams and events of a GPU.

They have the calls of :class:`diffkern.runtime.memory.stream.Stream` and ``Event`` over the driver's streams and
events, with the same meaning as on the CPU: work of one stream is ordered, and the default stream waits for all others
and they for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from diffkern.runtime.memory.device import gpu_named
from diffkern.runtime.memory.scope import put
from diffkern.runtime.memory.state import current
from diffkern.runtime.memory.stream import Event, Stream

if TYPE_CHECKING:
    from diffkern.runtime.cuda.context import CudaDevice

__all__ = ["CudaEvent", "CudaStream", "current_stream"]


class CudaStream(Stream):
    """A stream of a GPU. ``dk.Stream("cuda:0")`` makes it.

    Attributes
    ----------
    cuda_stream : int
        The driver's handle.
    """

    __slots__ = ("_device", "_held", "_is_left", "_owned", "cuda_stream", "is_blocking", "priority")

    def __init__(
        self, device: Any = None, priority: int = 0, *, non_blocking: bool = False, cuda_stream: int | None = None
    ) -> None:
        place: CudaDevice | None = gpu_named(device)
        if place is None:
            raise ValueError(f"a CUDA stream needs a CUDA device, not {device!r}")
        self._device = place
        self.is_blocking = not non_blocking
        self.is_default = cuda_stream == 0
        self.priority = priority
        self.cuda_stream = cuda_stream or 0
        self._owned = cuda_stream is None
        self._held: list[None] = []  # a list, as its length changes in one step, whatever interrupts that
        self._is_left = False
        if cuda_stream is None:
            with place.active:
                least, greatest = place.driver.priority_range()
                # Greater numbers are more urgent, as with the field's names; the driver has it the other way.
                self.priority = max(greatest, min(least, priority))
                # Whatever interrupts the constructor after this, the finalizer finds the handle.
                self.cuda_stream = place.driver.stream_create(self.priority, non_blocking)

    @property
    def device(self) -> CudaDevice:
        """The device that it runs on."""
        return self._device

    @property
    def is_complete(self) -> bool:
        """True if all its work has run."""
        with self._device.active:
            return self._device.driver.stream_query(self.cuda_stream)

    @property
    def is_capturing(self) -> bool:
        """True if its work is being captured."""
        with self._device.active:
            return self._device.driver.is_capturing(self.cuda_stream)

    def enqueue(self, work: Callable[[], None]) -> None:
        """Call a function that submits work to the current stream, while this is the current stream."""
        before = current.streams
        if before is not None and before.get(self._device.ordinal) is self:
            work()
            return
        put("streams", {**(before or {}), self._device.ordinal: self})
        try:
            work()
        finally:
            put("streams", before)

    def holds(self, work: Callable[[], None]) -> bool:
        """Return False: the driver has all its work at once."""
        return False

    def synchronize(self) -> None:
        """Wait until all its work has run."""
        with self._device.active:
            self._device.driver.stream_synchronize(self.cuda_stream)

    def record_event(self, event: Event | None = None) -> CudaEvent:
        """Record an event, a new one by default, behind all work so far."""
        made = CudaEvent(self._device) if event is None else event
        if not isinstance(made, CudaEvent) or made.device is not self._device:
            raise ValueError(f"an event of {self._device} is needed here; make it with dk.Event({str(self._device)!r})")
        with self._device.active:
            self._device.driver.event_record(made.cuda_event, self.cuda_stream)
        made._mark = _DeviceMark(made)
        return made

    def wait_event(self, event: Event) -> None:
        """Make later work wait for what an event was last recorded on."""
        if not isinstance(event, CudaEvent):
            event.synchronize()  # of a stream of the CPU
        elif event._mark is not None:
            with self._device.active:
                self._device.driver.stream_wait_event(self.cuda_stream, event.cuda_event)

    def __repr__(self) -> str:
        which = "default" if self.is_default else f"{self.cuda_stream:#x}"
        return f"<dk.Stream {which} of {self._device}>"

    def hold(self) -> None:
        """Keep the driver's stream until :meth:`let_go`: memory is to be freed in its order.

        In a collected cycle the stream may be finalized before the memory is.
        """
        self._held.append(None)

    def let_go(self) -> None:
        """Take back :meth:`hold`."""
        self._held.pop()
        self._destroy_if_left()

    def _destroy_if_left(self) -> None:
        if self._is_left and self._owned and not self._held:
            self._owned = False
            self._device.destroy("stream_destroy", self.cuda_stream)

    def __del__(self) -> None:
        if getattr(self, "_owned", False) and self.cuda_stream:
            self._is_left = True
            self._destroy_if_left()


class _DeviceMark:
    """One recording of an event on a GPU, for streams of the CPU to wait for."""

    __slots__ = ("_event",)

    def __init__(self, event: CudaEvent) -> None:
        self._event = event

    def is_set(self) -> bool:
        return self._event.is_complete

    def wait(self) -> None:
        self._event.synchronize()


class CudaEvent(Event):
    """An event of a GPU. ``dk.Event("cuda:0")`` makes it.

    Attributes
    ----------
    cuda_event : int
        The driver's handle.
    """

    __slots__ = ("_device", "cuda_event", "enable_timing")

    _mark: Any

    def __init__(self, device: Any = None, enable_timing: bool = False) -> None:
        place: CudaDevice | None = gpu_named(device)
        if place is None:
            raise ValueError(f"a CUDA event needs a CUDA device, not {device!r}")
        self._device = place
        self._mark = None
        self.enable_timing = enable_timing
        with place.active:
            self.cuda_event = place.driver.event_create(enable_timing)

    @property
    def device(self) -> CudaDevice:
        """The device that it belongs to."""
        return self._device

    @property
    def is_complete(self) -> bool:
        """True if what it was last recorded on has run, or if it was never recorded."""
        if self._mark is None:
            return True
        with self._device.active:
            return self._device.driver.event_query(self.cuda_event)

    def synchronize(self) -> None:
        """Wait for it."""
        if self._mark is not None:
            with self._device.active:
                self._device.driver.event_synchronize(self.cuda_event)

    def _since(self, start: Event) -> float:
        if not isinstance(start, CudaEvent) or start._device is not self._device:
            raise ValueError("the time between events of different devices is not known")
        if not (self.enable_timing and start.enable_timing):
            raise RuntimeError("events of a GPU keep their time if made with dk.Event(device, enable_timing=True)")
        with self._device.active:
            return self._device.driver.event_elapsed(start.cuda_event, self.cuda_event)

    def __del__(self) -> None:
        if hasattr(self, "cuda_event"):
            self._device.destroy("event_destroy", self.cuda_event)


def current_stream(device: CudaDevice) -> CudaStream:
    """Return the current stream of a device in this thread."""
    streams: Any = current.streams
    stream: CudaStream = device.null_stream if streams is None else streams.get(device.ordinal, device.null_stream)
    return stream
