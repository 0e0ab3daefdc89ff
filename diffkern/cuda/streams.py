"""Numba's streams and events.

Objects that a program made with ``cuda.stream()`` and ``cuda.event()``, or 0 for the default stream, stand for the
streams and events of :mod:`diffkern.runtime.memory.stream`. Without a GPU all streams are the CPU's default stream,
which has done its work when a call returns, and events keep the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from diffkern.cuda.devices import place
from diffkern.errors import MisuseError
from diffkern.runtime.memory.stream import Event as NativeEvent
from diffkern.runtime.memory.stream import Stream as NativeStream
from diffkern.runtime.memory.stream import get_event_elapsed_time, get_stream

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "Event", "Stream", "default_stream", "event", "event_elapsed_time", "external_stream", "legacy_default_stream",
    "native", "per_thread_default_stream", "stream",
]  # fmt: skip


class Stream:
    """An ordered queue of copies and launches: ``kernel[blocks, threads, stream](…)``.

    Attributes
    ----------
    native : diffkern.Stream or None
        The stream as the rest of diffkern knows it; None for the device's default stream.
    """

    __slots__ = ("__weakref__", "native")

    def __init__(self, found: NativeStream | None) -> None:
        self.native = found

    @property
    def handle(self) -> int:
        """The driver's handle; 0 for the default stream, and on the CPU."""
        return int(getattr(self.native, "cuda_stream", 0))

    def __int__(self) -> int:
        return self.handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle

    def synchronize(self) -> None:
        """Wait until all its work has run."""
        # The default stream is that of the device which is current now, so it is looked up at each use.
        (self.native or get_stream(place())).synchronize()

    @contextmanager
    def auto_synchronize(self) -> Iterator[Stream]:
        """Return a context manager that waits for the stream at its end."""
        yield self
        self.synchronize()

    def add_callback(self, callback: Callable[[Stream, int, Any], object], arg: Any = None) -> None:
        """Wait for the work so far, and call ``callback(stream, status, arg)`` with status 0."""
        # A callback of the driver must not call CUDA, and would run in a thread without the interpreter's lock; waiting
        # has neither problem.
        self.synchronize()
        callback(self, 0, arg)

    def async_done(self) -> asyncio.Future[Stream]:
        """Wait for the work so far, and return a future of the running event loop, whose result is this stream."""
        self.synchronize()
        import asyncio  # takes as long to import as half of this package

        done: asyncio.Future[Stream] = asyncio.get_running_loop().create_future()
        done.set_result(self)
        return done

    def __repr__(self) -> str:
        return f"<CUDA stream {self.handle:#x}>" if self.handle else "<Default CUDA stream>"


class Event:
    """A mark in a stream's work.

    Parameters
    ----------
    timing : bool, optional
        Whether it keeps its time.
    """

    __slots__ = ("__weakref__", "native")

    def __init__(self, timing: bool = True) -> None:
        self.native = NativeEvent(place(), enable_timing=timing)

    def record(self, stream: Any = 0) -> None:
        """Record the event behind all work that a stream, the default one by default, has so far."""
        (native(stream) or get_stream(place())).record_event(self.native)

    def query(self) -> bool:
        """Return whether what it was recorded on has run."""
        return self.native.is_complete

    def synchronize(self) -> None:
        """Wait for it."""
        self.native.synchronize()

    def wait(self, stream: Any = 0) -> None:
        """Make later work of a stream wait for it."""
        (native(stream) or get_stream(place())).wait_event(self.native)

    def elapsed_time(self, evtend: Event) -> float:
        """Return the milliseconds from this event to a later one."""
        return event_elapsed_time(self, evtend)

    def __repr__(self) -> str:
        return f"<CUDA event of {self.native.device}>"


def native(stream: Any) -> NativeStream | None:
    """Return the stream that an argument of a launch or a copy denotes; None for the default stream.

    Raises
    ------
    MisuseError
        If it is no stream.
    """
    # In the order of how common they are: launches name streams of this module.
    if isinstance(stream, Stream):
        return stream.native
    if stream is None or (isinstance(stream, int) and stream == 0):
        return None
    if isinstance(stream, NativeStream):
        return stream
    # Other integers are handles of streams that another library has made.
    if isinstance(stream, int):
        return external_stream(stream).native
    if hasattr(stream, "__cuda_stream__"):
        return external_stream(stream.__cuda_stream__()[1]).native
    raise MisuseError(
        f"a stream is what cuda.stream() returns, or 0 for the default stream, not {stream!r}",
        remedy="write stream = cuda.stream(), or leave the stream out",
    )


def stream() -> Stream:
    """Return a new stream of the current device; on the CPU its default stream."""
    where = place()
    return Stream(NativeStream(where) if where.is_cuda else None)


def default_stream() -> Stream:
    """Return the default stream of the current device."""
    return Stream(None)


def legacy_default_stream() -> Stream:
    """Return the default stream of the current device."""
    return Stream(None)


def per_thread_default_stream() -> Stream:
    """Return the default stream of the current device: diffkern has one for all threads."""
    return Stream(None)


def external_stream(ptr: int) -> Stream:
    """Return a stream that another library made.

    Parameters
    ----------
    ptr : int
        The driver's handle.

    Raises
    ------
    MisuseError
        Without a GPU.
    """
    where: Any = place()
    # The driver's handle of the default stream is 0.
    if ptr == 0:
        return Stream(None)
    if where.is_cpu:
        raise MisuseError("a stream of another library belongs to a GPU, and there is none", remedy="use cuda.stream()")
    # The class of the current stream, so that another driver's class is taken in tests.
    return Stream(type(where.stream)(where, cuda_stream=ptr))


def event(timing: bool = True) -> Event:
    """Return a new event of the current device."""
    return Event(timing)


def event_elapsed_time(evtstart: Event, evtend: Event) -> float:
    """Return the milliseconds between two events; it waits for them."""
    return get_event_elapsed_time(evtstart.native, evtend.native)
