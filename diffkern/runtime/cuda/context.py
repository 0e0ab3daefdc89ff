"""A GPU, and its services to arrays and launches.

A :class:`CudaDevice` is made of a driver and a number, with its primary context, which other libraries share: it keeps
streams in order where they work on the same memory, and knows loaded programs. Nothing is asked of the driver before
the device is used.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from diffkern.cache.manifest import StoredArtifact
from diffkern.contracts.platforms import ARCHITECTURES
from diffkern.errors import CudaError
from diffkern.process.forks import free_in_child
from diffkern.process.late import GPU
from diffkern.runtime.arrays.type_keys import key_on
from diffkern.runtime.cuda.allocation import AllocatingDevice
from diffkern.runtime.cuda.driver import STICKY, Active, Attribute, Driver
from diffkern.runtime.cuda.images import DRIVER, OLDEST, REFUSED, images, named
from diffkern.runtime.cuda.memory import allocate
from diffkern.runtime.cuda.stream import CudaStream, current_stream
from diffkern.runtime.memory import dlpack
from diffkern.runtime.memory.device import Device
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.stream import set_stream
from diffkern.runtime.native.device import Port
from diffkern.runtime.native.pool import functions
from diffkern.runtime.native.replay import Plan

__all__ = ["CudaDevice"]

_OUT_OF_MEMORY = 2
_lock = free_in_child(threading.RLock())


class _Following(threading.local):
    """Streams of other libraries that wait for a thread's next launch."""

    streams: Sequence[CudaStream] = ()


class CudaDevice(AllocatingDevice):
    """A GPU.

    Attributes
    ----------
    ordinal : int
        Its number.
    name : str
        Its name, as the driver gives it.
    arch : int
        Its compute capability, 90 for 9.0.
    target : str
        The target of its programs, ``sm_90``: its own architecture, or the nearest that can be compiled for.
    """

    is_cpu = False
    is_cuda = True
    dlpack_kind = dlpack.CUDA

    def __init__(self, driver: Driver, ordinal: int) -> None:
        super().__init__()
        self.driver = driver
        self.ordinal = ordinal
        self.alias = f"cuda:{ordinal}"
        self.name = driver.device_name(ordinal)
        major, minor = (self._attribute(a) for a in (Attribute.COMPUTE_MAJOR, Attribute.COMPUTE_MINOR))
        self.arch = 10 * major + minor
        self.target = driver.target(ordinal)
        self._context = 0
        self._null: CudaStream | None = None
        self._functions: dict[str, int] = {}
        self._modules: dict[str, int] = {}
        self._peers: set[int] = set()
        # Names of the last launches, for the message of an error that a later call reports.
        self.recent: deque[str] = deque(maxlen=4)
        # Streams of other libraries that wait for the next launch.
        self._following = _Following()
        self._port: Port | None = None

    def _attribute(self, attribute: Attribute) -> int:
        return self.driver.device_attribute(self.ordinal, attribute)

    # -- description -------------------------------------------------------------------------------------------------

    @property
    def sm_count(self) -> int:
        """Number of multiprocessors."""
        return self._attribute(Attribute.SM_COUNT)

    @property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of shared memory a block can have."""
        return self._attribute(Attribute.MAX_SHARED_OPT_IN)

    @property
    def is_uva(self) -> bool:
        """True if host and device share one address space."""
        return bool(self._attribute(Attribute.UNIFIED_ADDRESSING))

    @property
    def is_mempool_supported(self) -> bool:
        """True if it has memory pools; diffkern needs them."""
        return bool(self._attribute(Attribute.MEMORY_POOLS))

    @property
    def memory_bandwidth(self) -> float:
        """Bytes a second between the GPU and its memory, as the product of clock and width; 0 if not known."""
        # In kHz and bits, and two transfers per cycle.
        return 2e3 * self._attribute(Attribute.MEMORY_CLOCK_RATE) * self._attribute(Attribute.MEMORY_BUS_WIDTH) / 8

    @property
    def uuid(self) -> str:
        """Its identity, as NVIDIA's tools print it."""
        return self.driver.device_uuid(self.ordinal)

    @property
    def pci_bus_id(self) -> str:
        """Its PCI address."""
        where = (Attribute.PCI_DOMAIN_ID, Attribute.PCI_BUS_ID, Attribute.PCI_DEVICE_ID)
        domain, bus, slot = (self._attribute(a) for a in where)
        return f"{domain:08X}:{bus:02X}:{slot:02X}"

    @property
    def total_memory(self) -> int:
        """Bytes of its memory."""
        return self.driver.total_memory(self.ordinal)

    @property
    def free_memory(self) -> int:
        """Bytes of its memory that are not allocated."""
        with self.active:
            return self.driver.memory_info()[0]

    @property
    def is_capturing(self) -> bool:
        """True if work for it is being captured."""
        return self._captures > 0

    @property
    def context(self) -> int:
        """The driver's handle of its primary context."""
        if not self._context:
            self._check_support()
            with _lock:
                if not self._context:
                    self._context = self.driver.primary_context(self.ordinal)
        return self._context

    def _check_support(self) -> None:
        """Raise unless diffkern can work on it."""
        version = self.driver.version()
        if version < OLDEST:
            raise CudaError(
                f"the driver of {self.alias} supports CUDA {named(version)}, and diffkern needs CUDA {named(OLDEST)}",
                remedy=DRIVER,
            )
        if self.arch < min(ARCHITECTURES):
            raise CudaError(
                f"{self.alias} ({self.name}) has compute capability {self.arch // 10}.{self.arch % 10}, and diffkern "
                f"needs {min(ARCHITECTURES) // 10}.{min(ARCHITECTURES) % 10}",
                remedy="compute on the CPU, or on a later GPU",
            )
        if not self.is_mempool_supported:
            raise CudaError(f"{self.alias} ({self.name}) has no memory pools, which diffkern needs")

    @property
    def active(self) -> Active:
        """A context manager in which its context is current in this thread; the previous one is restored afterwards."""
        return Active(self)

    @property
    def port(self) -> Port | None:
        """The driver's entry points and context for native code; None where Python has to call the driver."""
        if self._port is None:
            entries = self.driver.entries if functions() else None
            if entries is not None:
                context = self.context
                with _lock:
                    if self._port is None:
                        self._port = Port(entries, context, self.ordinal == 0, self.recent.extend, self.driver.error)
        return self._port

    # -- streams -----------------------------------------------------------------------------------------------------

    @property
    def null_stream(self) -> CudaStream:
        """The default stream."""
        if self._null is None:
            self._null = CudaStream(self, cuda_stream=0)
        return self._null

    @property
    def stream(self) -> CudaStream:
        """The current stream in this thread."""
        return self.current_stream()

    @stream.setter
    def stream(self, stream: CudaStream) -> None:
        set_stream(stream, self)

    def current_stream(self) -> CudaStream:
        """Return the current stream in this thread."""
        return current_stream(self)

    @property
    def followers(self) -> Sequence[CudaStream]:
        """Streams of other libraries that are to wait for this thread's next launch."""
        return self._following.streams

    def let_follow(self, stream: CudaStream) -> None:
        """Make a stream of another library wait for this thread's next launch."""
        self._following.streams = (*self.followers, stream)
        if self.port is not None:
            self.port.followed(1)

    def follow(self, stream: CudaStream) -> None:
        """Make those streams wait for the present work of a stream."""
        streams, self._following.streams = self.followers, ()
        if self.port is not None:
            self.port.followed(-len(streams))
        event = stream.record_event()
        for each in streams:
            if each.cuda_stream != stream.cuda_stream:
                each.wait_event(event)

    def replay(self, plan: Plan, stream: CudaStream) -> None:
        """Submit the steps of a plan to one of its streams."""
        plan.run_on(stream.cuda_stream)
        if self.followers:
            self.follow(stream)

    def new_stream(self) -> CudaStream:
        """Return a new stream that neither waits for the default stream nor makes that wait for it."""
        return CudaStream(self, non_blocking=True)

    def order(self, first: CudaStream, second: CudaStream) -> None:
        """Order future work of the second stream after the present work of the first."""
        # The default stream and blocking streams wait for each other by themselves.
        if first is second or (first.is_default and second.is_blocking) or (second.is_default and first.is_blocking):
            return
        with self.active:
            if self._are_captured((first, second)):
                # What is captured runs later; what it works with is there by then. Nothing is known of the launches of
                # another library's graph, so that is seen to at once.
                if not self._captures and not self._are_captured((first,)):
                    self.driver.stream_wait(first.cuda_stream)
                return
            event = 0
            try:
                event = self.driver.event_create(False)
                self.driver.event_record(event, first.cuda_stream)
                self.driver.stream_wait_event(second.cuda_stream, event)
            finally:
                if event:
                    # The driver destroys an event only once it has happened, so that it can be given back at once.
                    self.driver.event_destroy(event)

    def synchronize(self) -> None:
        """Wait for all its work."""
        # Without a context there is no work, and none is made for the sake of waiting.
        if self._context:
            try:
                with self.active:
                    self.driver.synchronize()
            except CudaError as error:
                raise self.explained(error) from None

    def explained(self, error: CudaError) -> CudaError:
        """Return an error that a wait reported, with the launches it may come from."""
        if error.code not in STICKY or not self.recent:
            return error
        names = ", ".join(dict.fromkeys(reversed(self.recent)))
        return CudaError(
            f"{error.message}; kernels launched before on {self.alias}, last one first: {names}",
            remedy=error.remedy, call=error.call, code=error.code,
        )  # fmt: skip

    # -- for arrays and launches ---------------------------------------------------------------------------------------

    def new(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], zero: bool, pinned: bool
    ) -> tuple[np.ndarray[Any, Any], Memory]:
        """Return new contiguous elements on the device, zero or not initialized, and their memory."""
        if pinned:
            raise ValueError(f"pinned memory is the host's; an array on {self} cannot lie there")
        return allocate(self, shape, dtype, zero)

    def keyed(self, key: str) -> str:
        """Return the key under which a type of arguments has its programs on the device."""
        return key_on(key, self.alias)

    def let_wait(self, stream: Any) -> None:
        """Make the consumer of a DLPack capsule wait for work here, on a stream in the protocol's notation."""
        GPU.value.let_wait(self, stream)

    # -- programs and peers ------------------------------------------------------------------------------------------

    def function(self, entry: StoredArtifact, symbol: str = "") -> int:
        """Return the function of a program, or another one of its module, loaded once for each symbol.

        Symbols are named from the program's key.
        """
        first = entry.symbols[0]
        symbol = symbol or first
        found = self._functions.get(symbol)
        if found is None:
            with _lock, self.active:
                found = self._functions.get(symbol)
                if found is None:
                    if first not in self._modules:
                        self._modules[first] = self._load(entry)
                    found = self._functions[symbol] = self.driver.function(self._modules[first], symbol)
        return found

    def _load(self, entry: StoredArtifact) -> int:
        """Load a program: its machine code, or its PTX if the driver does not take that."""
        *better, last = images(entry, self.arch, self.driver.version())
        for image in better:
            try:
                return self.driver.load_module(image)
            except CudaError as error:
                if error.code not in REFUSED:
                    raise
        return self.driver.load_module(last)

    def can_access(self, other: Device) -> bool:
        """Return whether its kernels can access another device's memory."""
        if other is self:
            return True
        return isinstance(other, CudaDevice) and self.driver.can_access_peer(self.ordinal, other.ordinal)

    def is_peer_access_enabled(self, other: CudaDevice) -> bool:
        """Return whether its kernels may access another device's memory."""
        return other.ordinal in self._peers

    def enable_peer_access(self, other: CudaDevice) -> None:
        """Allow its kernels to access another device's memory."""
        if other is not self and other.ordinal not in self._peers:
            with self.active:
                self.driver.enable_peer(self.ordinal, other.ordinal)
            self._peers.add(other.ordinal)

    def __repr__(self) -> str:
        return f"dk.Device({self.alias!r}, {self.name!r})"
