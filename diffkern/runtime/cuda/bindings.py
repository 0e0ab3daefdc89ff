"""The CUDA driver by way of ``cuda.bindings.driver``.

It answers the calls of :class:`diffkern.runtime.cuda.driver.Driver` with plain integers; every error code becomes a
:class:`CudaError` that names the driver's function. The package is imported by :func:`find` alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from diffkern.errors import CudaError
from diffkern.runtime.cuda.condition import condition_setter
from diffkern.runtime.cuda.driver import Attribute, PoolValue, failure
from diffkern.runtime.cuda.images import DRIVER, nearest
from diffkern.runtime.native.device import EntryPoints

__all__ = ["Bindings", "find"]

_POOL_KEEPS = 4  # of the GPU's memory the fourth part stays with the process once it was used
_EXTRA = 'the package cuda-bindings is not installed; pip install "diffkern[cuda]" brings it'


def find() -> Bindings | str:
    """Return the driver, or the reason why there is none."""
    try:
        library = ctypes.CDLL("nvcuda.dll" if hasattr(ctypes, "WinDLL") else "libcuda.so.1")
    except OSError:
        return "no CUDA driver is installed (libcuda was not found)"
    try:
        # Imported only where there is a driver, which it is of no use without.
        from cuda.bindings import driver
    except ImportError:
        return _EXTRA
    made = Bindings(driver, _entry_points(library))
    try:
        made.init()
        count = made.device_count()
    except CudaError as error:
        return f"the CUDA driver does not start: {error.message}"
    return made if count else "the CUDA driver reports no device"


def _entry_points(library: Any) -> EntryPoints | None:
    """Return the addresses of the functions that native code calls; None if the package was told to call others."""
    # With this variable the package calls functions whose default stream is another one for each thread.
    if os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0") != "0":
        return None
    names = (
        "cuCtxGetCurrent", "cuCtxSetCurrent", "cuLaunchKernel", "cuMemsetD8Async", "cuMemsetD16Async",
        "cuMemsetD32Async", "cuMemcpyDtoDAsync_v2", "cuGraphLaunch",
    )  # fmt: skip
    try:
        return EntryPoints(*[ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names])
    except AttributeError:
        return None


_ON_DEVICE = (2, 4)  # CUmemorytype: memory of a device, or unified


class Bindings:
    """The driver of this machine.

    Parameters
    ----------
    api
        The module ``cuda.bindings.driver``, or an object with the same functions.
    entries : EntryPoints, optional
        Addresses of the functions that native code calls, in the library behind it.
    """

    name = "cuda.bindings"

    def __init__(self, api: Any, entries: EntryPoints | None = None) -> None:
        self._api = api
        self.entries = entries
        self._success = api.CUresult.CUDA_SUCCESS
        self._not_ready = api.CUresult.CUDA_ERROR_NOT_READY
        self._launch = api.cuLaunchKernel
        # cuLaunchKernel copies the parameters before it returns, so one list of addresses for each thread is enough.
        self._local = threading.local()
        self._setters: dict[int, int] = {}

    def init(self) -> None:
        self._call("cuInit", 0)

    def _call(self, name: str, *args: Any) -> Any:
        """Call a function; return its one result, or a tuple of several."""
        try:
            code, *results = getattr(self._api, name)(*args)
        except RuntimeError as error:  # cuda.bindings': the driver's library has no such function
            raise CudaError(f"{name}: {error}", remedy=DRIVER, call=name) from error
        if code != self._success:
            raise self._error(name, code)
        return results[0] if len(results) == 1 else tuple(results)

    def error(self, call: str, code: int) -> CudaError:
        return self._error(call, self._api.CUresult(code))

    def _error(self, name: str, code: Any) -> CudaError:
        _, label = self._api.cuGetErrorName(code)
        _, text = self._api.cuGetErrorString(code)
        return failure(name, int(code), _text(label), _text(text))

    def _ready(self, name: str, handle: int) -> bool:
        (code,) = getattr(self._api, name)(handle)
        if code == self._not_ready:
            return False
        if code != self._success:
            raise self._error(name, code)
        return True

    # -- devices and contexts ----------------------------------------------------------------------------------------

    @functools.cache  # noqa: B019 - there is one driver
    def version(self) -> int:
        return int(self._call("cuDriverGetVersion"))

    def device_count(self) -> int:
        return int(self._call("cuDeviceGetCount"))

    def device_name(self, ordinal: int) -> str:
        return _text(self._call("cuDeviceGetName", 128, self._device(ordinal)))

    def device_uuid(self, ordinal: int) -> str:
        digits = bytes(self._call("cuDeviceGetUuid", self._device(ordinal)).bytes).hex()
        return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def device_attribute(self, ordinal: int, attribute: int) -> int:
        chosen = self._api.CUdevice_attribute(int(attribute))
        return int(self._call("cuDeviceGetAttribute", chosen, self._device(ordinal)))

    def total_memory(self, ordinal: int) -> int:
        return int(self._call("cuDeviceTotalMem", self._device(ordinal)))

    def target(self, ordinal: int) -> str:
        major, minor = (self.device_attribute(ordinal, a) for a in (Attribute.COMPUTE_MAJOR, Attribute.COMPUTE_MINOR))
        return nearest(10 * major + minor)

    def _device(self, ordinal: int) -> Any:
        return self._call("cuDeviceGet", ordinal)

    def primary_context(self, ordinal: int) -> int:
        context = int(self._call("cuDevicePrimaryCtxRetain", self._device(ordinal)))
        # By itself the pool gives everything back at each wait, and asks for it again at the next allocation. It is the
        # process's pool: another library may have it keep more.
        kept = self.total_memory(ordinal) // _POOL_KEEPS
        if self.pool_value(ordinal, PoolValue.RELEASE_THRESHOLD) < kept:
            self.pool_keeps(ordinal, kept)
        return context

    def pool_value(self, ordinal: int, attribute: int) -> int:
        return int(
            self._call("cuMemPoolGetAttribute", self._pool(ordinal), self._api.CUmemPool_attribute(int(attribute)))
        )

    def pool_keeps(self, ordinal: int, nbytes: int) -> None:
        threshold = self._api.CUmemPool_attribute(int(PoolValue.RELEASE_THRESHOLD))
        self._call("cuMemPoolSetAttribute", self._pool(ordinal), threshold, self._api.cuuint64_t(nbytes))

    def _pool(self, ordinal: int) -> Any:
        return self._call("cuDeviceGetDefaultMemPool", self._device(ordinal))

    def set_context(self, context: int) -> None:
        self._call("cuCtxSetCurrent", context)

    def current_context(self) -> int:
        return int(self._call("cuCtxGetCurrent"))

    def device_of(self, address: int) -> int | None:
        kinds = self._api.CUpointer_attribute
        if self._pointer(kinds.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) not in _ON_DEVICE:
            return None
        found = self._pointer(kinds.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)
        return found if found is not None and found >= 0 else None

    def is_page_locked(self, address: int) -> bool:
        return bool(self._pointer(self._api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address))

    def _pointer(self, attribute: Any, address: int) -> int | None:
        """Return the driver's attribute of an address; None if it is ordinary memory of the host."""
        code, found = self._api.cuPointerGetAttribute(attribute, address)
        return int(found) if code == self._success else None

    def synchronize(self) -> None:
        self._call("cuCtxSynchronize")

    def profile(self, collect: bool) -> None:
        self._call("cuProfilerStart" if collect else "cuProfilerStop")

    def memory_info(self) -> tuple[int, int]:
        free, total = self._call("cuMemGetInfo")
        return int(free), int(total)

    def can_access_peer(self, ordinal: int, peer: int) -> bool:
        return bool(self._call("cuDeviceCanAccessPeer", self._device(ordinal), self._device(peer)))

    def enable_peer(self, ordinal: int, peer: int) -> None:
        # The memory pool of the peer is what arrays come from; it has a list of its own of who may reach it.
        api = self._api
        (code,) = api.cuCtxEnablePeerAccess(self._call("cuDevicePrimaryCtxRetain", self._device(peer)), 0)
        if code not in (self._success, api.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED):
            raise self._error("cuCtxEnablePeerAccess", code)
        access = api.CUmemAccessDesc()
        access.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = ordinal
        access.flags = api.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self._call("cuMemPoolSetAccess", self._pool(peer), [access], 1)

    # -- streams and events ------------------------------------------------------------------------------------------

    def priority_range(self) -> tuple[int, int]:
        least, greatest = self._call("cuCtxGetStreamPriorityRange")
        return int(least), int(greatest)

    def stream_create(self, priority: int, non_blocking: bool) -> int:
        return int(self._call("cuStreamCreateWithPriority", int(non_blocking), priority))

    def stream_destroy(self, stream: int) -> None:
        self._call("cuStreamDestroy", stream)

    def stream_synchronize(self, stream: int) -> None:
        self._call("cuStreamSynchronize", stream)

    def stream_wait(self, stream: int) -> None:
        with self._relaxed():
            self._call("cuStreamSynchronize", stream)

    @contextlib.contextmanager
    def _relaxed(self) -> Iterator[None]:
        """Let this thread make calls that another library's capture forbids, though they are no part of it."""
        exchange = "cuThreadExchangeStreamCaptureMode"
        before = self._call(exchange, self._api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
        try:
            yield
        finally:
            self._call(exchange, before)

    def stream_query(self, stream: int) -> bool:
        return self._ready("cuStreamQuery", stream)

    def stream_wait_event(self, stream: int, event: int) -> None:
        self._call("cuStreamWaitEvent", stream, event, 0)

    def event_create(self, timing: bool) -> int:
        return int(self._call("cuEventCreate", 0 if timing else 2))

    def event_destroy(self, event: int) -> None:
        self._call("cuEventDestroy", event)

    def event_record(self, event: int, stream: int) -> None:
        self._call("cuEventRecord", event, stream)

    def event_query(self, event: int) -> bool:
        return self._ready("cuEventQuery", event)

    def event_synchronize(self, event: int) -> None:
        self._call("cuEventSynchronize", event)

    def event_elapsed(self, start: int, end: int) -> float:
        return float(self._call("cuEventElapsedTime", start, end))

    # -- memory ------------------------------------------------------------------------------------------------------

    def alloc(self, nbytes: int, stream: int) -> int:
        return int(self._call("cuMemAllocAsync", nbytes, stream))

    def free(self, address: int, stream: int) -> None:
        self._call("cuMemFreeAsync", address, stream)

    def alloc_host(self, nbytes: int) -> int:
        return int(self._call("cuMemHostAlloc", nbytes, 1))

    def free_host(self, address: int) -> None:
        self._call("cuMemFreeHost", address)

    def copy_to_device(self, destination: int, source: int, nbytes: int, stream: int) -> None:
        self._call("cuMemcpyHtoDAsync", destination, source, nbytes, stream)

    def copy_to_host(self, destination: int, source: int, nbytes: int, stream: int) -> None:
        self._call("cuMemcpyDtoHAsync", destination, source, nbytes, stream)

    def copy(self, destination: int, source: int, nbytes: int, stream: int) -> None:
        self._call("cuMemcpyDtoDAsync", destination, source, nbytes, stream)

    def copy_peer(self, destination: int, to: int, source: int, of: int, nbytes: int, stream: int) -> None:
        self._call("cuMemcpyPeerAsync", destination, to, source, of, nbytes, stream)

    def fill(self, destination: int, pattern: bytes, count: int, stream: int) -> None:
        name = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}[len(pattern)]
        self._call(name, destination, int.from_bytes(pattern, "little"), count, stream)

    # -- programs ----------------------------------------------------------------------------------------------------

    def load_module(self, image: bytes) -> int:
        # Loading allocates memory of its own, which a capture of this thread would refuse.
        with self._relaxed():
            return int(self._call("cuModuleLoadData", image))

    def unload_module(self, module: int) -> None:
        self._call("cuModuleUnload", module)

    def function(self, module: int, name: str) -> int:
        return int(self._call("cuModuleGetFunction", module, name.encode()))

    def function_attribute(self, function: int, attribute: int) -> int:
        return int(self._call("cuFuncGetAttribute", self._api.CUfunction_attribute(int(attribute)), function))

    def set_function_attribute(self, function: int, attribute: int, value: int) -> None:
        self._call("cuFuncSetAttribute", function, self._api.CUfunction_attribute(int(attribute)), value)

    def occupancy(self, function: int, threads: int, shared: int) -> int:
        return int(self._call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared))

    def launch(self, function: int, blocks: int, threads: int, shared: int, stream: int, block: bytes) -> None:
        try:
            extra, address = self._local.extra, self._local.address
        except AttributeError:
            extra = self._local.extra = _Extra()
            address = self._local.address = ctypes.addressof(extra)
        extra.set(block)
        (code,) = self._launch(function, blocks, 1, 1, threads, 1, 1, shared, stream, 0, address)
        if code != self._success:
            raise self._error("cuLaunchKernel", code)

    # -- graphs ------------------------------------------------------------------------------------------------------

    def capture_begin(self, stream: int) -> None:
        # Relaxed: what other threads, or this one on other streams, allocate meanwhile is their own affair.
        mode = self._api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._call("cuStreamBeginCapture", stream, mode)

    def capture_end(self, stream: int) -> int:
        return int(self._call("cuStreamEndCapture", stream))

    def is_capturing(self, stream: int) -> bool:
        code, status = self._api.cuStreamIsCapturing(stream)
        # A stream may be unusable because the default stream, which it waits for, captures.
        if code == self._api.CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
            return True
        if code != self._success:
            raise self._error("cuStreamIsCapturing", code)
        return bool(status != self._api.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)

    def capture_tail(self, stream: int) -> tuple[int, ...]:
        _, nodes, _ = self._capturing(stream)
        return tuple(int(node) for node in nodes)

    def capture_behind(self, stream: int, nodes: Sequence[int]) -> None:
        chosen = [self._api.CUgraphNode(node) for node in nodes]
        self._come_behind(stream, chosen)

    def _come_behind(self, stream: int, nodes: list[Any]) -> None:
        """Make the next node of a stream depend on these."""
        flag = self._api.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES
        self._call("cuStreamUpdateCaptureDependencies", stream, nodes or None, None, len(nodes), int(flag))

    def graph_nodes(self, graph: int) -> int:
        return int(self._call("cuGraphGetNodes", graph, 0)[1])

    def graph_destroy(self, graph: int) -> None:
        self._call("cuGraphDestroy", graph)

    def graph_instantiate(self, graph: int) -> int:
        return int(self._call("cuGraphInstantiate", graph, 0))

    def graph_update(self, executable: int, graph: int) -> bool:
        code, _ = self._api.cuGraphExecUpdate(executable, graph)
        if code == self._api.CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE:
            return False
        if code != self._success:
            raise self._error("cuGraphExecUpdate", code)
        return True

    def graph_exec_destroy(self, executable: int) -> None:
        self._call("cuGraphExecDestroy", executable)

    def graph_launch(self, executable: int, stream: int) -> None:
        self._call("cuGraphLaunch", executable, stream)

    def has_conditional_nodes(self) -> bool:
        return self.version() >= 12040

    def conditional_handle(self, stream: int, context: int) -> int:
        graph, _, _ = self._capturing(stream)
        return int(self._call("cuGraphConditionalHandleCreate", graph, context, 0, 0))

    def conditional_body(self, stream: int, body_stream: int, context: int, handle: int, loop: bool) -> None:
        api = self._api
        graph, dependencies, edges = self._capturing(stream)
        kinds = api.CUgraphConditionalNodeType
        params = api.CUgraphNodeParams()
        params.type = api.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        params.conditional.handle = api.CUgraphConditionalHandle(handle)
        params.conditional.type = kinds.CU_GRAPH_COND_TYPE_WHILE if loop else kinds.CU_GRAPH_COND_TYPE_IF
        params.conditional.size = 1
        params.conditional.ctx = api.CUcontext(context)
        node = self._call("cuGraphAddNode", graph, dependencies, edges, len(dependencies), params)
        body = params.conditional.phGraph_out[0]
        mode = api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._call("cuStreamBeginCaptureToGraph", body_stream, body, None, None, 0, mode)
        self._come_behind(stream, [node])

    def _capturing(self, stream: int) -> tuple[Any, Any, Any]:
        """Return the graph that a stream captures and the dependencies of its next node."""
        status, _, graph, dependencies, edges, count = self._call("cuStreamGetCaptureInfo", stream)
        # Work that cannot be captured ends a capture without an error until it is asked for.
        if status != self._api.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE:
            raise self._error("cuStreamGetCaptureInfo", self._api.CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
        return graph, list(dependencies or ())[:count], list(edges)[:count] if edges else None

    def set_condition(self, handle: int, address: int, negate: bool, stream: int) -> None:
        context = int(self._call("cuCtxGetCurrent"))
        function = self._setters.get(context)
        if function is None:
            ordinal = int(self._call("cuCtxGetDevice"))
            image, name = condition_setter(self.target(ordinal))
            function = self._setters[context] = self.function(self.load_module(image), name)
        block = b"".join(value.to_bytes(8, "little") for value in (handle, address, int(negate)))
        self.launch(function, 1, 1, 0, stream, block)


class _Extra(ctypes.Structure):
    """The list by which ``cuLaunchKernel`` takes all parameters as one buffer."""

    _fields_ = (("words", ctypes.c_void_p * 5), ("nbytes", ctypes.c_size_t))

    words: Any
    nbytes: int

    def __init__(self) -> None:
        super().__init__()
        # CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE and CU_LAUNCH_PARAM_END, with the values in
        # between.
        self.words[0], self.words[2], self.words[4] = 1, 2, 0
        self.words[3] = ctypes.addressof(self) + 5 * ctypes.sizeof(ctypes.c_void_p)

    def set(self, block: bytes) -> None:
        """Point to the bytes of a block."""
        if type(block) is bytes:
            self.words[1] = id(block) + _BYTES_OFFSET
        else:
            self.words[1] = ctypes.addressof(ctypes.c_char.from_buffer(block))
        self.nbytes = len(block)


# Where CPython keeps the contents of a bytes object.
_BYTES_OFFSET = bytes.__basicsize__ - 1


def _text(value: Any) -> str:
    return value.split(b"\0")[0].decode(errors="replace") if isinstance(value, bytes) else str(value)
