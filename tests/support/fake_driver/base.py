"""What all parts of the fake driver share: the calls so far, planned failures, streams and memory it knows.

In: calls, each by way of :func:`call`. Out: they are noted, and fail if that was asked for.
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import random
import threading
from collections.abc import Callable, Iterable
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from diffkern.runtime.cuda.driver import LEGACY_STREAM, STICKY, failure

from .work import Graph, Node, Rank, Timeline, Work, youngest_first

__all__ = ["ERRORS", "Block", "FakeBase", "Function", "Launched", "call", "text_of"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Self = TypeVar("_Self", bound="FakeBase")

_NAMES = {
    "primary_context": "cuDevicePrimaryCtxRetain", "set_context": "cuCtxSetCurrent", "synchronize": "cuCtxSynchronize",
    "memory_info": "cuMemGetInfo", "enable_peer": "cuCtxEnablePeerAccess",
    "pool_keeps": "cuMemPoolSetAttribute",
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
    "capture_tail": "cuStreamGetCaptureInfo", "capture_behind": "cuStreamUpdateCaptureDependencies",
    "graph_instantiate": "cuGraphInstantiate", "graph_update": "cuGraphExecUpdate", "graph_launch": "cuGraphLaunch",
    "graph_destroy": "cuGraphDestroy", "graph_exec_destroy": "cuGraphExecDestroy",
    "conditional_handle": "cuGraphConditionalHandleCreate", "conditional_body": "cuGraphAddNode",
}  # fmt: skip
ERRORS = {
    1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 201: "CUDA_ERROR_INVALID_CONTEXT",
    200: "CUDA_ERROR_INVALID_IMAGE", 209: "CUDA_ERROR_NO_BINARY_FOR_GPU",
    218: "CUDA_ERROR_INVALID_PTX", 222: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    400: "CUDA_ERROR_INVALID_HANDLE", 500: "CUDA_ERROR_NOT_FOUND",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS", 719: "CUDA_ERROR_LAUNCH_FAILED",
    900: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", 901: "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
    904: "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", 905: "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
    906: "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
}  # fmt: skip
_ALIGNMENT = 256


class Launched(NamedTuple):
    """A launch as the driver was given it."""

    name: str
    blocks: int
    threads: int
    shared: int
    stream: int
    block: bytes


class Function(NamedTuple):
    name: str
    run: Callable[[Launched], None] | None


class Block:
    """A piece of memory."""

    def __init__(self, nbytes: int, owner: int) -> None:
        self.nbytes = nbytes
        self.owner = owner
        self.freed = False
        self.gone = False  # once the work that frees it has run
        self._bytes = np.empty(nbytes + _ALIGNMENT, np.uint8)
        self.address = self._bytes.ctypes.data + -self._bytes.ctypes.data % _ALIGNMENT

    def poison(self, value: int) -> None:
        ctypes.memset(self.address, value, self.nbytes)


def text_of(code: int) -> str:
    """Return what an error says."""
    return STICKY.get(code, "the fake driver was told to fail, or the call was wrong")


def call(method: Callable[Concatenate[_Self, _P], _T]) -> Callable[Concatenate[_Self, _P], _T]:
    """Note a call, and let it fail if that was asked for."""
    name = method.__name__

    @functools.wraps(method)
    def noted(self: _Self, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with self._lock:
            self._note(name, args)
            return method(self, *args, **kwargs)

    return noted


class FakeBase:
    """What the parts of :class:`support.fake_driver.driver.FakeDriver` have in common."""

    name = "fake"

    def __init__(
        self,
        devices: int = 1,
        target: str = "native",
        conditional: bool = True,
        seed: int | None = None,
        version: int = 13000,
    ) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.launches: list[Launched] = []
        self._target = target
        self._conditional = conditional
        self._version = version
        self._devices = devices
        self._lock = threading.RLock()
        self._current = threading.local()
        self._handles = 0x1000
        self._failures: dict[str, list[tuple[int, int]]] = {}
        self._sticky: int | None = None
        # What may run next: the youngest, or any.
        chance = random.Random(seed)
        self._rank: Rank = youngest_first if seed is None else lambda _: chance.random()
        self._time = Timeline(self._rank)
        self._blocks: dict[int, Block] = {}
        self._starts: list[int] = []
        self._pinned: dict[int, Block] = {}
        self._modules: dict[int, bytes] = {}
        self._functions: dict[int, Function] = {}
        self._attributes: dict[tuple[int, int], int] = {}
        self._events: dict[int, Work | Node | None] = {}
        self._graphs: dict[int, Graph] = {}
        self._nodes: dict[int, Node] = {}
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
        return failure(_NAMES.get(name, name), code, ERRORS.get(code, "CUDA_ERROR"), text_of(code))

    def _handle(self) -> int:
        self._handles += 16
        return self._handles

    # -- shared by the parts -------------------------------------------------------------------------------------------

    def _context(self) -> int:
        found = getattr(self._current, "context", 0)
        if not found:
            raise self._failure("cuCtxGetCurrent", 201)
        return int(found)

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

    def is_pinned(self, address: int) -> bool:
        """Whether an address lies in pinned memory."""
        return any(b.address <= address < b.address + b.nbytes for b in self._pinned.values())

    def _block_at(self, address: int) -> Block | None:
        """Return the block of device memory that an address lies in, freed or not."""
        place = bisect.bisect_right(self._starts, address) - 1
        block = self._blocks[self._starts[place]] if place >= 0 else None
        return block if block is not None and address < block.address + max(block.nbytes, 1) else None

    def _allocation_at(self, address: int) -> tuple[int, int] | None:
        """Return the start and the size of the memory that a kernel finds at an address."""
        block = self._block_at(address)
        if block is None:
            block = next((b for b in self._pinned.values() if b.address <= address < b.address + b.nbytes), None)
        return (block.address, block.nbytes) if block is not None and not block.gone else None

    def _check_alive(self, what: str, addresses: Iterable[int]) -> None:
        """Raise if one of some addresses lies in memory that is free by now, when work with it runs."""
        for address in addresses:
            block = self._block_at(address)
            if block is not None and block.gone:
                raise AssertionError(f"{what} works with memory that was freed")

    def _check(self, call: str, address: int, nbytes: int) -> None:
        """Raise unless a range is memory of a device."""
        block = self._block_at(address)
        if block is None or block.freed or address + nbytes > block.address + block.nbytes:
            raise self._failure(call, 1)
