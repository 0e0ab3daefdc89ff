"""The interface of a CUDA driver to the run time.

Calls take integers (handles, addresses, sizes) and return integers, or raise a :class:`CudaError` that names the call.
Two classes have this interface: :class:`diffkern.runtime.cuda.bindings.Bindings` over ``cuda.bindings``, and
one in host memory (``tests/support/fake_driver``), with which the run time is tested where there is no GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from diffkern.errors import CudaError
from diffkern.runtime.cuda.images import DRIVER, REFUSED
from diffkern.runtime.native.device import EntryPoints

if TYPE_CHECKING:
    from diffkern.runtime.cuda.context import CudaDevice

__all__ = ["LEGACY_STREAM", "STICKY", "Active", "Attribute", "Driver", "FunctionAttribute", "PoolValue", "failure"]


LEGACY_STREAM = 0
"""The default stream: its work waits for all work of other (blocking) streams, and they wait for it."""

STICKY = {
    214: "uncorrectable memory error", 220: "NVLink error", 226: "contained memory error",
    700: "access to an illegal address", 702: "a kernel ran too long", 710: "a device-side assertion failed",
    714: "hardware stack error", 715: "illegal instruction", 716: "misaligned address",
    717: "invalid address space", 718: "invalid program counter", 719: "a kernel failed",
}  # fmt: skip
"""Errors after which a context cannot be used any more."""


class Attribute(IntEnum):
    """Attributes of a device, with the driver's numbers."""

    MAX_THREADS_PER_BLOCK = 1
    MAX_SHARED_PER_BLOCK = 8
    WARP_SIZE = 10
    CLOCK_RATE = 13
    SM_COUNT = 16
    UNIFIED_ADDRESSING = 41
    PCI_BUS_ID = 33
    PCI_DEVICE_ID = 34
    PCI_DOMAIN_ID = 50
    MEMORY_CLOCK_RATE = 36
    MEMORY_BUS_WIDTH = 37
    L2_CACHE_SIZE = 38
    COMPUTE_MAJOR = 75
    COMPUTE_MINOR = 76
    MAX_SHARED_OPT_IN = 97
    MEMORY_POOLS = 115


class PoolValue(IntEnum):
    """Values that a memory pool reports, in bytes, with the driver's numbers."""

    RELEASE_THRESHOLD = 4
    USED_NOW = 7
    USED_AT_MOST = 8


class FunctionAttribute(IntEnum):
    """Attributes of a function, with the driver's numbers."""

    MAX_THREADS_PER_BLOCK = 0
    SHARED_BYTES = 1
    LOCAL_BYTES = 3
    REGISTERS = 4
    MAX_DYNAMIC_SHARED = 8


class Driver(Protocol):
    """A CUDA driver. Handles are integers; a stream 0 is the default stream of the current context."""

    name: str
    entries: EntryPoints | None
    """The addresses of its functions, for native code; None if launches have to go through this object."""

    def error(self, call: str, code: int) -> CudaError:
        """Return the exception for an error that native code met."""
        ...

    # -- devices and contexts
    def version(self) -> int:
        """Return the CUDA version that the driver supports, 13000 for 13.0."""
        ...

    def device_count(self) -> int: ...
    def device_name(self, ordinal: int) -> str: ...
    def device_uuid(self, ordinal: int) -> str: ...
    def device_attribute(self, ordinal: int, attribute: int) -> int: ...
    def total_memory(self, ordinal: int) -> int: ...

    def target(self, ordinal: int) -> str:
        """Return the target that programs of a device are compiled for, ``sm_90``."""
        ...

    def primary_context(self, ordinal: int) -> int:
        """Retain the primary context of a device, whose memory pool keeps a part of the memory that was used."""
        ...

    def set_context(self, context: int) -> None:
        """Make a context current in this thread; 0 for none."""
        ...

    def current_context(self) -> int:
        """Return the context that is current in this thread; 0 if none is."""
        ...

    def device_of(self, address: int) -> int | None:
        """Return the number of the device whose memory is at an address; None if it is no device's."""
        ...

    def is_page_locked(self, address: int) -> bool:
        """Return whether devices copy from a host address by themselves, in memory of any library."""
        ...

    def synchronize(self) -> None:
        """Wait for all work of the current context."""
        ...

    def profile(self, collect: bool) -> None:
        """Start or stop a profiler's collection."""
        ...

    def pool_value(self, ordinal: int, attribute: int) -> int:
        """Return a value of the memory pool of a device, one of :class:`PoolValue`."""
        ...

    def pool_keeps(self, ordinal: int, nbytes: int) -> None:
        """Set the bytes of free memory that the memory pool of a device keeps."""
        ...

    def memory_info(self) -> tuple[int, int]:
        """Return the free and the total bytes of the current device."""
        ...

    def can_access_peer(self, ordinal: int, peer: int) -> bool: ...
    def enable_peer(self, ordinal: int, peer: int) -> None:
        """Allow kernels on a device, and its memory pool, to access a peer's memory."""
        ...

    # -- streams and events
    def priority_range(self) -> tuple[int, int]:
        """Return the least and the greatest priority; greater ones are lower numbers."""
        ...

    def stream_create(self, priority: int, non_blocking: bool) -> int: ...
    def stream_destroy(self, stream: int) -> None: ...
    def stream_synchronize(self, stream: int) -> None: ...
    def stream_wait(self, stream: int) -> None:
        """Wait for all work of a stream, also in a thread that captures on another one."""
        ...

    def stream_query(self, stream: int) -> bool:
        """Return whether all work of a stream has run."""
        ...

    def stream_wait_event(self, stream: int, event: int) -> None: ...
    def event_create(self, timing: bool) -> int: ...
    def event_destroy(self, event: int) -> None: ...
    def event_record(self, event: int, stream: int) -> None: ...
    def event_query(self, event: int) -> bool: ...
    def event_synchronize(self, event: int) -> None: ...
    def event_elapsed(self, start: int, end: int) -> float:
        """Return the milliseconds between two events."""
        ...

    # -- memory
    def alloc(self, nbytes: int, stream: int) -> int:
        """Allocate from the device's pool, in the order of a stream."""
        ...

    def free(self, address: int, stream: int) -> None: ...
    def alloc_host(self, nbytes: int) -> int:
        """Allocate host memory that the device can reach (pinned)."""
        ...

    def free_host(self, address: int) -> None: ...
    def copy_to_device(self, destination: int, source: int, nbytes: int, stream: int) -> None:
        """Copy from the host; the source may change after the call unless it is pinned."""
        ...

    def copy_to_host(self, destination: int, source: int, nbytes: int, stream: int) -> None:
        """Copy to the host; the destination is complete after the call unless it is pinned."""
        ...

    def copy(self, destination: int, source: int, nbytes: int, stream: int) -> None: ...
    def copy_peer(self, destination: int, to: int, source: int, of: int, nbytes: int, stream: int) -> None:
        """Copy between contexts."""
        ...

    def fill(self, destination: int, pattern: bytes, count: int, stream: int) -> None:
        """Write a pattern of 1, 2 or 4 bytes `count` times."""
        ...

    # -- programs
    def load_module(self, image: bytes) -> int:
        """Load a program, also in a thread that captures."""
        ...

    def unload_module(self, module: int) -> None: ...
    def function(self, module: int, name: str) -> int: ...
    def function_attribute(self, function: int, attribute: int) -> int: ...
    def set_function_attribute(self, function: int, attribute: int, value: int) -> None: ...
    def occupancy(self, function: int, threads: int, shared: int) -> int:
        """Return the number of blocks that fit on one multiprocessor."""
        ...

    def launch(self, function: int, blocks: int, threads: int, shared: int, stream: int, block: bytes) -> None:
        """Launch over a one-dimensional grid; `block` holds the parameters as the kernel has them."""
        ...

    # -- graphs
    def capture_begin(self, stream: int) -> None: ...
    def capture_end(self, stream: int) -> int:
        """Return the graph of what the stream was given since, or raise if that cannot be captured."""
        ...

    def is_capturing(self, stream: int) -> bool:
        """Return whether work for a stream is captured, or is refused because another stream captures."""
        ...

    def capture_tail(self, stream: int) -> tuple[int, ...]:
        """Return the dependencies of the next node of a capturing stream; raise if it captures no longer."""
        ...

    def capture_behind(self, stream: int, nodes: Sequence[int]) -> None:
        """Make the next node of a capturing stream depend on these nodes only."""
        ...

    def graph_nodes(self, graph: int) -> int:
        """Return the number of nodes of a graph."""
        ...

    def graph_destroy(self, graph: int) -> None: ...
    def graph_instantiate(self, graph: int) -> int: ...
    def graph_update(self, executable: int, graph: int) -> bool:
        """Give an instantiated graph the parameters of another of the same shape; return whether that was possible."""
        ...

    def graph_exec_destroy(self, executable: int) -> None: ...
    def graph_launch(self, executable: int, stream: int) -> None: ...

    def has_conditional_nodes(self) -> bool:
        """Return whether graphs can have conditional nodes."""
        ...

    def conditional_handle(self, stream: int, context: int) -> int:
        """Make a handle for a condition in the graph that a stream captures."""
        ...

    def conditional_body(self, stream: int, body_stream: int, context: int, handle: int, loop: bool) -> None:
        """Add the node of a handle behind what a stream has captured, and make `body_stream` capture its body."""
        ...

    def set_condition(self, handle: int, address: int, negate: bool, stream: int) -> None:
        """Enqueue that a condition is set to whether the int32 at an address is (or is not) 0."""
        ...


def failure(call: str, code: int, name: str, text: str) -> CudaError:
    """Return the exception for an error that a call of the driver reported."""
    remedy = None
    if code in STICKY:
        remedy = (
            "the error may come from any launch before this call, and the GPU context cannot be used any more: start "
            "a new process; dk.config.mode = 'debug' names the kernel, the thread and the array"
        )
    elif code == 2:
        remedy = "free arrays, or make fewer and smaller ones; other programs on the GPU take memory as well"
    elif code in REFUSED:
        remedy = f"it is for another architecture, or made with a newer toolkit than the driver knows: {DRIVER}"
    elif 900 <= code <= 908:
        remedy = "what was done inside the capture cannot be part of a graph, such as waiting or reading an array"
    return CudaError(f"{call} failed: {name} ({code}): {text}", remedy=remedy, call=call, code=code)


# -- the current context -----------------------------------------------------------------------------------------------


class Active:
    """A context manager in which a device's context is the current one of this thread.

    Other libraries have their own idea of what is current: it is as they left it afterwards, also where a finalizer
    runs in the middle of their work. Where nothing was current, the context of the first device stays, which is the one
    that CUDA's run time takes by itself.
    """

    __slots__ = ("_before", "_device")

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._before: int | None = None

    def __enter__(self) -> None:
        device = self._device
        context, before = device.context, device.driver.current_context()
        if before != context:
            device.driver.set_context(context)
            if before or device.ordinal:
                self._before = before

    def __exit__(self, *failure: object) -> None:
        if self._before is not None:
            try:
                self._device.driver.set_context(self._before)
            except CudaError:
                # An error on the way is more telling than a context that could not be restored.
                if failure[0] is None:
                    raise
