"""Streams and events on the CPU: ordered queues of work that run beside the Python program.

Work on a stream runs in order in a thread of its own, the work of several streams concurrently. The default stream runs
everything at once: what it is given has run when the call returns, and before it runs it waits for the work of all
other streams, as CUDA's default stream does. So does every look at the contents of an array.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

from diffkern.errors import MisuseError
from diffkern.process.late import GPU
from diffkern.process.uncopied import Uncopied
from diffkern.runtime.memory.device import CPU, Device, get_device
from diffkern.runtime.memory.queue import (
    Awaited,
    Mark,
    Queue,
    drain,
    drain_queues,
    forget_work_after_fork,
    on_its_way,
    postponed,
    settle,
)
from diffkern.runtime.memory.scope import Scope, put
from diffkern.runtime.memory.state import current, slow_path_reasons
from diffkern.runtime.native.slow_path import slow_path_flags

__all__ = [
    "Event",
    "ScopedStream",
    "Stream",
    "drain",
    "drain_queues",
    "get_event_elapsed_time",
    "get_stream",
    "on_its_way",
    "postponed",
    "record_event",
    "set_stream",
    "settle",
    "synchronize",
    "synchronize_device",
    "synchronize_event",
    "synchronize_stream",
    "wait_event",
    "wait_stream",
]  # fmt: skip


class Stream(Uncopied):
    """An ordered queue of launches.

    Parameters
    ----------
    device : str or Device, optional
        The device that it runs on.
    priority : int, optional
        Of a GPU's streams those with lower numbers go first; on the CPU it has no effect.
    """

    __slots__ = ("__weakref__", "_queue", "is_default")

    is_default: bool
    """True if it runs everything immediately."""

    def __new__(cls, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        # `dk.Stream("cuda:0")` makes the GPU's class, so that users and isinstance know one name.
        if cls is Stream and get_device(device) is not CPU:
            return object.__new__(GPU.value.Stream)
        return object.__new__(cls)

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self._queue = Queue()
        self.is_default = False

    @property
    def device(self) -> Device:
        """The device that it runs on."""
        return CPU

    @property
    def is_complete(self) -> bool:
        """True if all its work has run."""
        return not self._queue.work

    def enqueue(self, work: Callable[[], None]) -> None:
        """Add work, to run after all that the stream was given before."""
        if self.is_default:
            drain()
            work()
        else:
            self._queue.put(work)

    def holds(self, work: Callable[[], None]) -> bool:
        """Return whether it was given this work, and has not finished it yet."""
        return work in self._queue.work

    def synchronize(self) -> None:
        """Wait until all its work has run, and raise the error that ended it, unless it has been reported."""
        self._queue.wait()

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, a new one by default, behind all work so far."""
        event = Event("cpu") if event is None else event
        if event.device.is_cuda:
            raise ValueError("a stream of the CPU records events of the CPU; make one with dk.Event('cpu')")
        mark = Mark()
        if self.is_default:
            settle()
            mark.happen()
        else:
            self._queue.put(mark)
        event._mark = mark  # last: a mark that an interrupt kept out of the queue would never happen
        return event

    def wait_event(self, event: Event) -> None:
        """Make later work wait for what an event was last recorded on; an error in that ends the later work as well."""
        mark = event._mark
        if mark is None or mark.is_set():
            return
        known = isinstance(mark, Mark)  # or else one of a GPU
        if self.is_default or (known and mark.happened):
            mark.wait()
        else:
            self._queue.put(Awaited(mark) if known else mark.wait)

    def wait_stream(self, other: Stream, event: Event | None = None) -> None:
        """Make later work wait for all work that another stream has so far."""
        if other is not self:
            self.wait_event(other.record_event(event))

    def __repr__(self) -> str:
        return "<dk.Stream default>" if self.is_default else f"<dk.Stream {id(self):#x}>"


class Event(Uncopied):
    """A mark in a stream's work that others can wait for.

    Parameters
    ----------
    device : str or Device, optional
        The device whose streams it is for.
    enable_timing : bool, optional
        Whether it keeps its time; on the CPU every event does.
    """

    __slots__ = ("__weakref__", "_mark")

    def __new__(cls, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        if cls is Event and get_device(device) is not CPU:
            return object.__new__(GPU.value.Event)
        return object.__new__(cls)

    def __init__(self, device: Any = None, enable_timing: bool = False) -> None:
        self._mark: Mark | None = None

    @property
    def device(self) -> Device:
        """The device that it belongs to."""
        return CPU

    def _since(self, start: Event) -> float:
        """Return the milliseconds since another event."""
        if start._mark is None or self._mark is None or start.device.is_cuda:
            raise ValueError("the time between events of different devices is not known")
        return 1000.0 * (self._mark.time - start._mark.time)

    @property
    def is_complete(self) -> bool:
        """True if what it was last recorded on has run, or if it was never recorded."""
        return self._mark is None or self._mark.happened

    def synchronize(self) -> None:
        """Wait for it, and raise the error of the work before it if there was one."""
        if self._mark is not None:
            self._mark.wait()


def get_stream(device: Any = None) -> Stream:
    """Return the current stream of a device.

    Parameters
    ----------
    device : str or Device, optional
        The device; the current one by default.

    Returns
    -------
    Stream
        The stream of launches on the device that name no other.
    """
    place = get_device(device)
    if place is CPU:
        return current.stream or _DEFAULT
    found: Stream = place.stream
    return found


def set_stream(stream: Stream, device: Any = None) -> None:
    """Make a stream the current one of this thread, which takes launches that do not name another.

    Parameters
    ----------
    stream : Stream
        The stream.
    device : str or Device, optional
        Its device, as a check.

    Raises
    ------
    ValueError
        If the stream is not one of `device`.
    """
    place = stream.device
    if device is not None and place != get_device(device):
        raise MisuseError(f"{stream!r} is not a stream of {device}", remedy="make one with dk.Stream(device)")
    put(*_entry(stream))


def _entry(stream: Any) -> tuple[str, Any]:
    """Return the name and value in ``current`` that make a stream the current one of its device."""
    if not stream.device.is_cuda:
        # The default stream is stored as nothing current, so that launches keep their fast path.
        return "stream", None if stream.is_default else stream
    others = {k: s for k, s in (current.streams or {}).items() if k != stream.device.ordinal}
    if not stream.is_default:
        others[stream.device.ordinal] = stream
    return "streams", others or None


class ScopedStream(Scope):
    """Makes a stream the current one inside a ``with`` block.

    Parameters
    ----------
    stream : Stream or None
        The stream; with None the block does nothing.
    sync_enter : bool, optional
        Whether its work in the block waits for the work that the outer stream has so far.
    sync_exit : bool, optional
        Whether the outer stream waits for the block's work.
    """

    def __init__(self, stream: Stream | None, sync_enter: bool = True, sync_exit: bool = False) -> None:
        if stream is not None and not isinstance(stream, Stream):
            raise MisuseError(
                f"stream must be a dk.Stream or None, not {stream!r}",
                remedy="make one with dk.Stream(), or leave it out",
            )
        self.stream = stream
        self.sync_enter = sync_enter
        self.sync_exit = sync_exit

    def _begin(self) -> tuple[str, Any, Stream | None]:
        if self.stream is None:
            return "stream", current.stream, None
        if self.sync_enter:
            self.stream.wait_stream(get_stream(self.stream.device))
        return *_entry(self.stream), self.stream

    def _end(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.sync_exit and self.stream is not None:
            get_stream(self.stream.device).wait_stream(self.stream)


def record_event(event: Event | None = None) -> Event:
    """Record an event behind all work that the current stream has so far.

    Parameters
    ----------
    event : Event, optional
        The event; a new one by default.

    Returns
    -------
    Event
        The event.
    """
    return get_stream().record_event(event)


def wait_event(event: Event) -> None:
    """Make later work of the current stream wait for an event.

    Parameters
    ----------
    event : Event
        The event to wait for.
    """
    get_stream().wait_event(event)


def wait_stream(stream: Stream, event: Event | None = None) -> None:
    """Make later work of the current stream wait for all work that another has so far.

    Parameters
    ----------
    stream : Stream
        The other stream.
    event : Event, optional
        The event to record in the other stream; a new one by default.
    """
    get_stream().wait_stream(stream, event)


def synchronize() -> None:
    """Wait until all launches on all streams of all devices have run."""
    # Streams of the CPU first: their work may still submit work to GPUs.
    drain()
    for device in _gpus():
        device.synchronize()


def synchronize_device(device: Any = None) -> None:
    """Wait until all launches on a device have run.

    Parameters
    ----------
    device : str or Device, optional
        The device; the current one by default.
    """
    get_device(device).synchronize()
    drain()


def synchronize_stream(stream: Stream | None = None) -> None:
    """Wait until all launches on a stream have run.

    Parameters
    ----------
    stream : Stream, optional
        The stream; the current one by default.
    """
    (stream or get_stream()).synchronize()


def synchronize_event(event: Event) -> None:
    """Wait for an event.

    Parameters
    ----------
    event : Event
        The event to wait for.
    """
    event.synchronize()


def get_event_elapsed_time(start: Event, end: Event, synchronize: bool = True) -> float:
    """Return the time between two events.

    Parameters
    ----------
    start, end : Event
        Events that were recorded.
    synchronize : bool, optional
        Whether to wait for `end` first.

    Returns
    -------
    float
        Milliseconds.

    Raises
    ------
    RuntimeError
        If one was not recorded, or has not happened yet and is not waited for.
    ValueError
        If they are of different devices.
    """
    if start._mark is None or end._mark is None:
        raise RuntimeError("the time between events is known once both have been recorded")
    if synchronize:
        end.synchronize()
        start.synchronize()
    if not (start.is_complete and end.is_complete):
        raise RuntimeError("the events have not happened yet; pass synchronize=True to wait for them")
    return end._since(start)


def _gpus() -> list[Any]:
    """Return the GPUs that were used, without loading the GPU run time if none was."""
    gpus = sys.modules.get("diffkern.runtime.cuda.devices")
    return [] if gpus is None else gpus.used_devices()


_DEFAULT = Stream("cpu")
_DEFAULT.is_default = True


atexit.register(drain)


def _after_fork() -> None:
    # Of the threads the child has only the one that forked; the work of the others belongs to the parent.
    forget_work_after_fork()
    slow_path_flags.restart(slow_path_reasons())
    current.streams = None  # the driver's streams do not go through a fork


Device._get_stream, Device._set_stream = staticmethod(get_stream), staticmethod(set_stream)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=settle, after_in_child=_after_fork)
