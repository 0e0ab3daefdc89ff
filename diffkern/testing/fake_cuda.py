"""A CUDA driver in host memory: whole programs run on ``cuda:0`` where there is no GPU.

In: the calls of :class:`diffkern.runtime.cuda.driver.Driver`. Out: bytes that really move and kernels that really run,
by way of the CPU's program of the same specialization on the same argument block. Work is queued and runs as late as
possible, and of what may run next always the youngest first, so that a missing wait shows as wrong contents every time.
New memory holds garbage, freed memory becomes garbage, and every call can be made to fail. What a GPU does to
performance, and what its compiler does to a kernel, is not seen here.
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import functools
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from diffkern import abi
from diffkern.runtime.cuda import context
from diffkern.runtime.cuda.driver import LEGACY_STREAM, STICKY, Attribute, FunctionAttribute, failure
from diffkern.runtime.native.loader import load_object
from diffkern.testing.fake_work import Graph, Node, Timeline, Work

__all__ = ["FakeDriver", "Launched", "fake_cuda"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_NAMES = {
    "primary_context": "cuDevicePrimaryCtxRetain", "set_context": "cuCtxSetCurrent", "synchronize": "cuCtxSynchronize",
    "memory_info": "cuMemGetInfo", "enable_peer": "cuCtxEnablePeerAccess",
    "stream_create": "cuStreamCreateWithPriority", "stream_destroy": "cuStreamDestroy",
    "stream_synchronize": "cuStreamSynchronize", "stream_query": "cuStreamQuery",
    "stream_wait_event": "cuStreamWaitEvent", "event_create": "cuEventCreate", "event_destroy": "cuEventDestroy",
    "event_record": "cuEventRecord", "event_query": "cuEventQuery", "event_synchronize": "cuEventSynchronize",
    "event_elapsed": "cuEventElapsedTime", "alloc": "cuMemAllocAsync", "free": "cuMemFreeAsync",
    "alloc_host": "cuMemHostAlloc", "free_host": "cuMemFreeHost", "copy_to_device": "cuMemcpyHtoDAsync",
    "copy_to_host": "cuMemcpyDtoHAsync", "copy": "cuMemcpyDtoDAsync", "copy_peer": "cuMemcpyPeerAsync",
    "fill": "cuMemsetD8Async", "load_module": "cuModuleLoadData", "unload_module": "cuModuleUnload",
    "function": "cuModuleGetFunction", "function_attribute": "cuFuncGetAttribute",
    "set_function_attribute": "cuFuncSetAttribute", "occupancy": "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "launch": "cuLaunchKernel", "capture_begin": "cuStreamBeginCapture", "capture_end": "cuStreamEndCapture",
    "graph_instantiate": "cuGraphInstantiate", "graph_update": "cuGraphExecUpdate", "graph_launch": "cuGraphLaunch",
    "graph_destroy": "cuGraphDestroy", "graph_exec_destroy": "cuGraphExecDestroy",
    "conditional_handle": "cuGraphConditionalHandleCreate", "conditional_body": "cuGraphAddNode",
}  # fmt: skip
_ERRORS = {
    1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 201: "CUDA_ERROR_INVALID_CONTEXT",
    209: "CUDA_ERROR_NO_BINARY_FOR_GPU", 400: "CUDA_ERROR_INVALID_HANDLE", 500: "CUDA_ERROR_NOT_FOUND",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS", 719: "CUDA_ERROR_LAUNCH_FAILED",
    900: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", 901: "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
    904: "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", 906: "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
}  # fmt: skip
_ALIGNMENT = 256
_NEW, _FREED = 0xA5, 0xDD
_PARTIALS = 4096
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Launched(NamedTuple):
    """A launch as the driver was given it."""

    name: str
    blocks: int
    threads: int
    shared: int
    stream: int
    block: bytes


class _Function(NamedTuple):
    name: str
    run: Callable[[bytes], None] | None


class _Block:
    """A piece of memory."""

    def __init__(self, nbytes: int, owner: int) -> None:
        self.nbytes = nbytes
        self.owner = owner
        self.freed = False
        self._bytes = np.empty(nbytes + _ALIGNMENT, np.uint8)
        self.address = self._bytes.ctypes.data + -self._bytes.ctypes.data % _ALIGNMENT

    def poison(self, value: int) -> None:
        ctypes.memset(self.address, value, self.nbytes)


def _call(method: Callable[Concatenate[FakeDriver, _P], _T]) -> Callable[Concatenate[FakeDriver, _P], _T]:
    """Note a call, and let it fail if that was asked for."""
    name = method.__name__

    @functools.wraps(method)
    def noted(self: FakeDriver, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with self._lock:
            self._note(name, args)
            return method(self, *args, **kwargs)

    return noted


class FakeDriver:
    """A driver for tests.

    Parameters
    ----------
    devices : int, optional
        How many devices it has.
    target : str, optional
        What programs are compiled for: this processor, so that they can run; with ``sm_90`` they are compiled for a
        GPU, and launches are noted only.
    conditional : bool, optional
        Whether graphs can have conditional nodes.

    Attributes
    ----------
    calls : list of (str, tuple)
        All calls, in order.
    launches : list of Launched
        All launches that were not captured, and those of graphs when they ran.
    """

    name = "fake"

    def __init__(self, devices: int = 1, target: str = "native", conditional: bool = True) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.launches: list[Launched] = []
        self._target = target
        self._conditional = conditional
        self._devices = devices
        self._lock = threading.RLock()
        self._current = threading.local()
        self._handles = 0x1000
        self._failures: dict[str, list[tuple[int, int]]] = {}
        self._sticky: int | None = None
        self._time = Timeline()
        self._blocks: dict[int, _Block] = {}
        self._starts: list[int] = []
        self._pinned: dict[int, _Block] = {}
        self._modules: dict[int, bytes] = {}
        self._functions: dict[int, _Function] = {}
        self._attributes: dict[tuple[int, int], int] = {}
        self._events: dict[int, Work | Node | None] = {}
        self._graphs: dict[int, Graph] = {}
        self._executables: dict[int, Graph] = {}
        self._conditions: dict[int, bool] = {}

    # -- for tests ---------------------------------------------------------------------------------------------------

    def fail(self, name: str, code: int = 719, after: int = 0) -> None:
        """Let a call fail once, after it has succeeded `after` times more."""
        self._failures.setdefault(name, []).append((after, code))

    def names(self) -> list[str]:
        """Return the names of all calls so far."""
        return [name for name, _ in self.calls]

    @property
    def live_bytes(self) -> int:
        """Bytes of device memory that were allocated and not freed; the queued work runs first."""
        self._time.finish()
        return sum(block.nbytes for block in self._blocks.values() if not block.freed)

    @property
    def pending(self) -> int:
        """Pieces of work that have not run."""
        return len(self._time.pending)

    def _note(self, name: str, args: tuple[Any, ...]) -> None:
        self.calls.append((name, args))
        if self._sticky is not None:
            raise self._failure(name, self._sticky)
        planned = self._failures.get(name)
        if planned:
            after, code = planned[0]
            if after:
                planned[0] = after - 1, code
                return
            planned.pop(0)
            if code in STICKY:
                self._sticky = code
            raise self._failure(name, code)

    def _failure(self, name: str, code: int) -> Exception:
        text = STICKY.get(code, "the fake driver was told to fail, or the call was wrong")
        return failure(_NAMES.get(name, name), code, _ERRORS.get(code, "CUDA_ERROR"), text)

    def _handle(self) -> int:
        self._handles += 16
        return self._handles

    # -- devices and contexts ----------------------------------------------------------------------------------------

    def version(self) -> int:
        return 13000

    def device_count(self) -> int:
        return self._devices

    def device_name(self, ordinal: int) -> str:
        return f"fake GPU {ordinal}"

    def device_uuid(self, ordinal: int) -> str:
        return f"GPU-00000000-0000-0000-0000-{ordinal:012d}"

    def device_attribute(self, ordinal: int, attribute: int) -> int:
        known = {
            Attribute.MAX_THREADS_PER_BLOCK: 1024, Attribute.MAX_SHARED_PER_BLOCK: 48 << 10, Attribute.WARP_SIZE: 32,
            Attribute.CLOCK_RATE: 1_000_000, Attribute.SM_COUNT: 4, Attribute.UNIFIED_ADDRESSING: 1,
            Attribute.PCI_BUS_ID: ordinal, Attribute.COMPUTE_MAJOR: 9, Attribute.MAX_SHARED_OPT_IN: 227 << 10,
            Attribute.MEMORY_POOLS: 1, Attribute.MEMORY_CLOCK_RATE: 1_000_000, Attribute.MEMORY_BUS_WIDTH: 1024,
        }  # fmt: skip
        return known.get(Attribute(attribute), 0)

    def total_memory(self, ordinal: int) -> int:
        return 1 << 30

    def target(self, ordinal: int) -> str:
        return self._target

    @_call
    def primary_context(self, ordinal: int) -> int:
        if not 0 <= ordinal < self._devices:
            raise self._failure("primary_context", 1)
        return ordinal + 1

    @_call
    def set_context(self, context: int) -> None:
        self._current.context = context

    def _context(self) -> int:
        found = getattr(self._current, "context", 0)
        if not found:
            raise self._failure("cuCtxGetCurrent", 201)
        return int(found)

    @_call
    def synchronize(self) -> None:
        self._time.finish(self._context())

    @_call
    def memory_info(self) -> tuple[int, int]:
        used = sum(block.nbytes for block in self._blocks.values() if not block.freed)
        return (1 << 30) - used, 1 << 30

    def can_access_peer(self, ordinal: int, peer: int) -> bool:
        return ordinal != peer

    @_call
    def enable_peer(self, ordinal: int, peer: int) -> None:
        pass

    # -- streams and events ------------------------------------------------------------------------------------------

    def priority_range(self) -> tuple[int, int]:
        return 0, -5

    @_call
    def stream_create(self, priority: int, non_blocking: bool) -> int:
        handle = self._handle()
        self._time.add_stream(handle, self._context(), not non_blocking)
        return handle

    @_call
    def stream_destroy(self, stream: int) -> None:
        self._time.remove_stream(self._known(stream, "stream_destroy"))

    @_call
    def stream_synchronize(self, stream: int) -> None:
        self._not_capturing(stream, "stream_synchronize")
        self._time.finish_stream(self._known(stream, "stream_synchronize"), self._context())

    @_call
    def stream_query(self, stream: int) -> bool:
        return self._time.query(self._known(stream, "stream_query"), self._context())

    @_call
    def stream_wait_event(self, stream: int, event: int) -> None:
        mark = self._events[event]
        if isinstance(mark, Node):
            self._time.join(stream, mark)
        elif mark is not None:
            self._enqueue("stream_wait_event", stream, "wait", lambda: None, needs=mark)

    @_call
    def event_create(self, timing: bool) -> int:
        handle = self._handle()
        self._events[handle] = None
        return handle

    @_call
    def event_destroy(self, event: int) -> None:
        del self._events[event]

    @_call
    def event_record(self, event: int, stream: int) -> None:
        self._events[event] = self._enqueue("event_record", stream, "event", lambda: None)

    @_call
    def event_query(self, event: int) -> bool:
        mark = self._events[event]
        return not isinstance(mark, Work) or self._time.step(mark)

    @_call
    def event_synchronize(self, event: int) -> None:
        mark = self._events[event]
        if isinstance(mark, Node):
            mark.graph.invalid = True
            raise self._failure("event_synchronize", 900)
        if mark is not None:
            self._time.complete([mark])

    @_call
    def event_elapsed(self, start: int, end: int) -> float:
        marks = self._events[start], self._events[end]
        if not all(isinstance(mark, Work) and mark.done for mark in marks):
            raise self._failure("event_elapsed", 400)
        first, last = (mark.finished for mark in marks if isinstance(mark, Work))
        return float(last - first)

    def _known(self, stream: int, call: str) -> int:
        if stream != LEGACY_STREAM and not self._time.has_stream(stream):
            raise self._failure(call, 400)
        return stream

    def _not_capturing(self, stream: int, call: str) -> None:
        graph = self._time.capturing(stream)
        if graph is not None:
            graph.invalid = True
            raise self._failure(call, 900)

    def _enqueue(
        self, call: str, stream: int, kind: str, run: Callable[[], None], shape: Any = None, needs: Work | None = None
    ) -> Work | Node:
        self._known(stream, call)
        if stream == LEGACY_STREAM and self._time.blocks_legacy(self._context()):
            raise self._failure(call, 906)
        return self._time.enqueue(stream, self._context(), kind, run, shape, needs)

    # -- memory ------------------------------------------------------------------------------------------------------

    @_call
    def alloc(self, nbytes: int, stream: int) -> int:
        self._not_capturing(stream, "alloc")
        if nbytes <= 0:
            raise self._failure("alloc", 1)
        block = _Block(nbytes, self._context())
        self._blocks[block.address] = block
        bisect.insort(self._starts, block.address)
        self._enqueue("alloc", stream, "alloc", lambda: block.poison(_NEW))
        return block.address

    @_call
    def free(self, address: int, stream: int) -> None:
        self._not_capturing(stream, "free")
        block = self._blocks.get(address)
        if block is None or block.freed:
            raise self._failure("free", 1)
        block.freed = True
        self._enqueue("free", stream, "free", lambda: block.poison(_FREED))

    @_call
    def alloc_host(self, nbytes: int) -> int:
        block = _Block(nbytes, 0)
        self._pinned[block.address] = block
        return block.address

    @_call
    def free_host(self, address: int) -> None:
        if address not in self._pinned:
            raise self._failure("free_host", 1)
        # The driver waits for copies in progress.
        self._time.finish()
        del self._pinned[address]

    def is_pinned(self, address: int) -> bool:
        """Whether an address lies in pinned memory."""
        return any(b.address <= address < b.address + b.nbytes for b in self._pinned.values())

    def _check(self, call: str, address: int, nbytes: int) -> None:
        """Raise unless a range is memory of a device."""
        place = bisect.bisect_right(self._starts, address) - 1
        block = self._blocks[self._starts[place]] if place >= 0 else None
        if block is None or block.freed or address + nbytes > block.address + block.nbytes:
            raise self._failure(call, 1)

    @_call
    def copy_to_device(self, goal: int, source: int, nbytes: int, stream: int) -> None:
        self._check("copy_to_device", goal, nbytes)
        run = _moving(goal, source, nbytes)
        if not self.is_pinned(source) and self._time.capturing(stream) is None:
            kept = ctypes.create_string_buffer(ctypes.string_at(source, nbytes), max(nbytes, 1))

            def run() -> None:
                ctypes.memmove(goal, kept, nbytes)

        self._enqueue("copy_to_device", stream, "copy", run, (goal, source, nbytes))

    @_call
    def copy_to_host(self, goal: int, source: int, nbytes: int, stream: int) -> None:
        self._check("copy_to_host", source, nbytes)
        made = self._enqueue("copy_to_host", stream, "copy", _moving(goal, source, nbytes), (goal, source, nbytes))
        if isinstance(made, Work) and not self.is_pinned(goal):
            self._time.complete([made])

    @_call
    def copy(self, goal: int, source: int, nbytes: int, stream: int) -> None:
        self._check("copy", goal, nbytes)
        self._check("copy", source, nbytes)
        self._enqueue("copy", stream, "copy", _moving(goal, source, nbytes), (goal, source, nbytes))

    @_call
    def copy_peer(self, goal: int, to: int, source: int, of: int, nbytes: int, stream: int) -> None:
        self._check("copy_peer", goal, nbytes)
        self._check("copy_peer", source, nbytes)
        self._enqueue("copy_peer", stream, "copy", _moving(goal, source, nbytes), (goal, source, nbytes))

    @_call
    def fill(self, goal: int, pattern: bytes, count: int, stream: int) -> None:
        if len(pattern) not in (1, 2, 4) or goal % len(pattern):
            raise self._failure("fill", 1)
        self._check("fill", goal, len(pattern) * count)
        content = pattern * count

        def run() -> None:
            ctypes.memmove(goal, content, len(content))

        self._enqueue("fill", stream, "fill", run, (goal, pattern, count))

    # -- programs ----------------------------------------------------------------------------------------------------

    @_call
    def load_module(self, image: bytes) -> int:
        if image[:4] != b"\x7fELF" and self._target != "native":
            raise self._failure("load_module", 209)
        handle = self._handle()
        self._modules[handle] = bytes(image)
        return handle

    @_call
    def unload_module(self, module: int) -> None:
        del self._modules[module]

    @_call
    def function(self, module: int, name: str) -> int:
        run = None
        if self._target == "native":
            run = _executor(self._modules[module], name)
        handle = self._handle()
        self._functions[handle] = _Function(name, run)
        return handle

    @_call
    def function_attribute(self, function: int, attribute: int) -> int:
        known = {FunctionAttribute.MAX_THREADS_PER_BLOCK: 1024, FunctionAttribute.REGISTERS: 32}
        chosen = FunctionAttribute(attribute)
        return self._attributes.get((function, attribute), known.get(chosen, 0))

    @_call
    def set_function_attribute(self, function: int, attribute: int, value: int) -> None:
        if attribute == FunctionAttribute.MAX_DYNAMIC_SHARED and value > 227 << 10:
            raise self._failure("set_function_attribute", 1)
        self._attributes[function, attribute] = value

    @_call
    def occupancy(self, function: int, threads: int, shared: int) -> int:
        return min(2048 // threads, 32, (227 << 10) // shared if shared else 32)

    @_call
    def launch(self, function: int, blocks: int, threads: int, shared: int, stream: int, block: bytes) -> None:
        found = self._functions.get(function)
        allowed = self._attributes.get((function, FunctionAttribute.MAX_DYNAMIC_SHARED), 48 << 10)
        if found is None or not 1 <= blocks < 2**31 or not 1 <= threads <= 1024 or shared > allowed:
            raise self._failure("launch", 1)
        launched = Launched(found.name, blocks, threads, shared, stream, bytes(block))

        def run() -> None:
            self.launches.append(launched)
            if found.run is not None:
                found.run(launched.block)

        self._enqueue("launch", stream, "kernel", run, launched)

    # -- graphs ------------------------------------------------------------------------------------------------------

    @_call
    def capture_begin(self, stream: int) -> None:
        if stream == LEGACY_STREAM:
            raise self._failure("capture_begin", 900)
        self._time.begin_capture(self._known(stream, "capture_begin"), Graph())

    @_call
    def capture_end(self, stream: int) -> int:
        graph, joined = self._time.end_capture(stream)
        if graph is None:
            raise self._failure("capture_end", 1)
        if graph.invalid:
            raise self._failure("capture_end", 901)
        if not joined:
            raise self._failure("capture_end", 904)
        handle = self._handle()
        self._graphs[handle] = graph
        return handle

    def is_capturing(self, stream: int) -> bool:
        return self._time.capturing(stream) is not None

    def graph_nodes(self, graph: int) -> int:
        return len(self._graphs[graph].nodes)

    @_call
    def graph_destroy(self, graph: int) -> None:
        del self._graphs[graph]

    @_call
    def graph_instantiate(self, graph: int) -> int:
        handle = self._handle()
        self._executables[handle] = self._graphs[graph]
        return handle

    @_call
    def graph_update(self, executable: int, graph: int) -> bool:
        if self._executables[executable].form() != self._graphs[graph].form():
            return False
        self._executables[executable] = self._graphs[graph]
        return True

    @_call
    def graph_exec_destroy(self, executable: int) -> None:
        del self._executables[executable]

    @_call
    def graph_launch(self, executable: int, stream: int) -> None:
        graph = self._executables[executable]
        self._enqueue("graph_launch", stream, "graph", graph.run)

    def has_conditional_nodes(self) -> bool:
        return self._conditional

    @_call
    def conditional_handle(self, stream: int, context: int) -> int:
        if self._time.capturing(stream) is None:
            raise self._failure("conditional_handle", 1)
        handle = self._handle()
        self._conditions[handle] = False
        return handle

    @_call
    def conditional_body(self, stream: int, body_stream: int, context: int, handle: int, loop: bool) -> None:
        body = Graph()

        def run() -> None:
            while self._conditions[handle]:
                body.run()
                if not loop:
                    break

        self._enqueue("conditional_body", stream, "while" if loop else "if", run)
        self._time.begin_capture(body_stream, body)

    @_call
    def set_condition(self, handle: int, address: int, negate: bool, stream: int) -> None:
        self._check("set_condition", address, 4)

        def run() -> None:
            self._conditions[handle] = bool(ctypes.c_int32.from_address(address).value) != negate

        self._enqueue("set_condition", stream, "kernel", run, (handle, address, negate))


def _moving(goal: int, source: int, nbytes: int) -> Callable[[], None]:
    return lambda: void(ctypes.memmove(goal, source, nbytes))


def void(_: Any) -> None:
    """Drop a result."""


@functools.cache
def _executor(image: bytes, name: str) -> Callable[[bytes], None]:
    """Return what runs all threads of a launch on an argument block, one after the other."""
    try:
        found = load_object(image, [name, f"{name}_finish"])
    except Exception:
        found = load_object(image, [name])
    kernel = _KERNEL(found[name])
    finish = _KERNEL(found[f"{name}_finish"]) if f"{name}_finish" in found else None

    def run(block: bytes) -> None:
        fields = list(struct.unpack_from(abi.HEADER_FORMAT, block))
        if fields[6]:
            raise AssertionError("the header of a GPU's argument block has no partial sums")
        if fields[5]:
            # A program that works in blocks: it counts those, and the last extent is their size.
            threads = int(np.prod([int(extent) for extent in fields[1:4]], dtype=object)) // fields[5]
        else:
            threads = int(np.prod([int(extent) for extent in fields[1:5]], dtype=object))
        partials = np.zeros(_PARTIALS, np.int64)
        fields[5], fields[6] = threads, partials.ctypes.data
        copy = ctypes.create_string_buffer(struct.pack(abi.HEADER_FORMAT, *fields) + block[abi.HEADER_SIZE :])
        address = ctypes.addressof(copy)
        kernel(address, 0, threads)
        if finish is not None:
            finish(address, 0, 1)

    return run


@contextlib.contextmanager
def fake_cuda(devices: int = 1, target: str = "native", conditional: bool = True) -> Iterator[FakeDriver]:
    """Run the block with a fake driver; the one before is back afterwards."""
    driver = FakeDriver(devices, target, conditional)
    before = context.use_driver(driver)
    try:
        yield driver
    finally:
        context.use_driver(before)
