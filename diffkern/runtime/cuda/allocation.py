"""The memory of a GPU: allocated and freed in the order of streams, and kept while a graph is captured.

Memory is freed when the streams that worked with it have come so far, and nothing is freed during a capture.
"""

from __future__ import annotations

import gc
import weakref
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from diffkern.errors import CudaError, LaunchError
from diffkern.runtime.cuda.driver import STICKY, Active, Driver
from diffkern.runtime.cuda.stream import CudaStream
from diffkern.runtime.memory.device import Device

if TYPE_CHECKING:
    from diffkern.runtime.cuda.memory import DeviceMemory

__all__ = ["AllocatingDevice"]

_OUT_OF_MEMORY = 2
_WORD = 4
"""Memory is allocated in whole words: the atomic update of a byte goes by the word around it."""


class AllocatingDevice(Device):
    """A GPU as the owner of memory.

    Attributes
    ----------
    closed : bool
        Whether its driver is gone: what is freed then ends with the process.
    """

    driver: Driver

    def __init__(self) -> None:
        self.closed = False
        self._for_memory: CudaStream | None = None
        self._captures = 0
        self._kept: list[Any] | None = None
        self._later: list[tuple[int, CudaStream, Sequence[CudaStream]]] = []
        # In the order of which streams memory was freed.
        self._freed_on: weakref.WeakSet[CudaStream] = weakref.WeakSet()

    @property
    @abstractmethod
    def active(self) -> Active:
        """A context manager in which its context is current in this thread; the previous one is restored afterwards."""

    @property
    @abstractmethod
    def null_stream(self) -> CudaStream:
        """The default stream."""

    @abstractmethod
    def current_stream(self) -> CudaStream:
        """Return the current stream in this thread."""

    @abstractmethod
    def new_stream(self) -> CudaStream:
        """Return a new stream that neither waits for the default stream nor makes that wait for it."""

    @abstractmethod
    def order(self, first: CudaStream, second: CudaStream) -> None:
        """Order future work of the second stream after the present work of the first."""

    def allocate(self, memory: DeviceMemory, zero: bool) -> None:
        """Allocate new memory, zero if asked for; set its address and the stream in whose order it exists."""
        with self.active:
            self._allocate(memory, zero)

    def _allocate(self, memory: DeviceMemory, zero: bool) -> None:
        nbytes = -(-memory.nbytes // _WORD) * _WORD
        # An allocation on a capturing stream would become a node of the graph, and its address valid in the graph only.
        home = self.memory_stream if self._captures else self.current_stream()
        if not self._captures:
            self._release_later()
            if self._are_captured((home,)):
                raise LaunchError(
                    f"memory is allocated on {self.alias} while another library captures a graph, and would have to "
                    "live as long as that graph",
                    remedy="allocate arrays before the capture, or capture with dk.ScopedCapture, which keeps them",
                )
        memory.home = home
        home.hold()
        # Whatever interrupts this once there is an address, the memory's finalizer frees it.
        try:
            memory.address = self._address(nbytes, home)
        except CudaError:
            home.let_go()
            raise
        if zero:
            self.driver.fill(memory.address, b"\0", nbytes, home.cuda_stream)
        # The fill is not part of the graph, and the graph may be launched before that stream has come so far.
        if self._captures:
            home.synchronize()

    def _address(self, nbytes: int, home: CudaStream) -> int:
        """Return the address of new bytes."""
        try:
            return self.driver.alloc(nbytes, home.cuda_stream)
        except CudaError as error:
            if error.code != _OUT_OF_MEMORY:
                raise
            return self._allocate_again(nbytes, home, error)

    def _allocate_again(self, nbytes: int, home: CudaStream, error: CudaError) -> int:
        """Allocate again after what can be freed was freed."""
        text, remedy = f"; {nbytes} bytes were asked for on {self.alias}", error.remedy
        if self._captures:
            # Nothing is freed in a capture.
            text, remedy = f"{text} inside a capture", "free arrays, or allocate these, before the capture begins"
        else:
            gc.collect()  # arrays in cycles of references
            try:
                # A wait for the device would end captures of other libraries.
                for stream in {home, *self._freed_on}:
                    if not self._are_captured((stream,)):
                        self.driver.stream_wait(stream.cuda_stream)
                return self.driver.alloc(nbytes, home.cuda_stream)
            except CudaError as again:
                if again.code != _OUT_OF_MEMORY:
                    raise
                error = again
        raise CudaError(error.message + text, remedy=remedy, call=error.call, code=error.code) from None

    @property
    def memory_stream(self) -> CudaStream:
        """A separate stream for memory that is allocated during a capture."""
        if self._for_memory is None:
            self._for_memory = self.new_stream()
        return self._for_memory

    def release(self, address: int, home: CudaStream, users: Sequence[CudaStream]) -> None:
        """Free memory when the streams that worked with it have come so far."""
        if self.closed:
            return
        is_freed = True
        try:
            is_freed = self._free(address, home, users)
        except CudaError as error:
            if error.code not in STICKY:  # then the context is gone, and the memory with it
                raise
        finally:
            if is_freed:
                for stream in (home, *users):
                    stream.let_go()

    def _free(self, address: int, home: CudaStream, users: Sequence[CudaStream]) -> bool:
        """Free memory now; return False, and put it off, where a graph is captured that may refer to it."""
        # The graph's nodes have not run.
        if self._captures:
            self._later.append((address, home, tuple(users)))
            return False
        with self.active:
            if self._are_captured((home, *users)):
                self._later.append((address, home, tuple(users)))
                return False
            # Work of the default stream with the memory is not noted as a user, and has to be waited for always.
            if not home.is_blocking:
                self.order(self.null_stream, home)
            for user in users:
                self.order(user, home)
            self.driver.free(address, home.cuda_stream)
            self._freed_on.add(home)
        return True

    def release_host(self, address: int) -> None:
        """Free pinned memory."""
        if not self.closed:
            with self.active:
                self.driver.free_host(address)

    def destroy(self, call: str, handle: int) -> None:
        """Destroy a stream, an event or a graph."""
        if not self.closed:
            try:
                with self.active:
                    getattr(self.driver, call)(handle)
            # After such an error the context is gone, and everything in it: finalizers must not raise for that.
            except CudaError as error:
                if error.code not in STICKY:
                    raise

    def capture_started(self, kept: list[Any]) -> None:
        """Keep objects alive that are used from now on, and free nothing."""
        self._captures += 1
        self._kept = kept

    def capture_ended(self) -> None:
        """Free what has been waiting."""
        self._captures -= 1
        if not self._captures:
            self._kept = None
            self._release_later()

    def _release_later(self) -> None:
        """Free what could not be freed inside a capture."""
        later, self._later = self._later, []
        for address, home, users in later:
            self.release(address, home, users)

    def keep(self, thing: Any) -> None:
        """Keep an object alive as long as the graph that is being captured, if one is."""
        if self._kept is not None:
            self._kept.append(thing)

    def _are_captured(self, streams: Iterable[CudaStream]) -> bool:
        """Return whether a stream captures, or may not be used because another one does; the context is current."""
        return any(self.driver.is_capturing(handle) for handle in {s.cuda_stream for s in streams})
