"""Steps on a GPU in native code: the words that describe them and the driver that takes them.

From the addresses of a driver's functions, a context, and launches, fills, copies or graphs come :class:`Port` and
:class:`DeviceStep`, of which a :class:`diffkern.runtime.native.replay.Plan` is made. A failure comes back as a number,
and :meth:`Port.failure` makes an exception of it.
"""

from __future__ import annotations

from array import array as words
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from diffkern.errors import CudaError
from diffkern.runtime.native import pool
from diffkern.runtime.native.replay import address_of

__all__ = ["DeviceStep", "EntryPoints", "Port", "copy_step", "fill_step", "graph_step", "launch_step"]

_LAUNCH, _FILL8, _FILL16, _FILL32, _COPY, _GRAPH = range(6)
_FILLS = {1: _FILL8, 2: _FILL16, 4: _FILL32}
_CALLS = (
    "cuLaunchKernel", "cuMemsetD8Async", "cuMemsetD16Async", "cuMemsetD32Async", "cuMemcpyDtoDAsync", "cuGraphLaunch",
)  # fmt: skip
_CALL_CURRENT, _CALL_SET = 1, 2
_FOLLOWERS = 10
# How a launch gives all its parameters as one buffer: marks, where they are and where their size is.
_POINTER, _SIZE, _END = 1, 2, 0


class EntryPoints(NamedTuple):
    """Addresses of a driver's functions, with the signatures of CUDA's driver for C."""

    current: int
    set_current: int
    launch: int
    fill8: int
    fill16: int
    fill32: int
    copy: int
    graph: int


class DeviceStep(NamedTuple):
    """A call of a driver.

    Attributes
    ----------
    port : Port
        The device's port.
    kind : int
        The kind of call.
    facts : tuple of int
        Its arguments, in five words.
    block : bytearray
        Of a launch, its argument block.
    title : str
        The text in front of the message of an error; none if it is empty.
    noted : str
        The name that the port notes as begun last; none if it is empty.
    kept : object
        Owner of the memory that the words point to.
    """

    port: Port
    kind: int
    facts: tuple[int, int, int, int, int]
    block: bytearray = bytearray()
    title: str = ""
    noted: str = ""
    kept: Any = None

    def row(self) -> tuple[int, ...]:
        """Return its words."""
        return self.kind, *self.facts


class Port:
    """A device's driver and context, as native code knows them.

    Parameters
    ----------
    entries : EntryPoints
        The driver's functions.
    context : int
        The context that is current around each call.
    stays : bool
        Whether it stays the current one where none was before.
    note : callable
        Takes names of work that was begun.
    error : callable
        Makes an exception of the name of a function and the driver's code.
    """

    __slots__ = ("_error", "_launch", "_words", "address", "note", "run")

    def __init__(
        self,
        entries: EntryPoints,
        context: int,
        stays: bool,
        note: Callable[[Sequence[str]], object],
        error: Callable[[str, int], CudaError],
    ) -> None:
        self.note = note  # native code has its address
        self._error = error
        # The layout that device_ir reads: the context, whether it stays, the functions, the followers, the note.
        self._words = words("q", (context, stays, *entries, 0, id(note)))
        self.address = self._words.buffer_info()[0]
        self._launch = _built_in(b"dk_device_launch")
        self.run: Callable[[int, int], int] = _built_in(b"dk_device_run")
        """Do the steps of a plan, by its address, on a stream; return 0, or what failed."""

    def followed(self, change: int) -> None:
        """Add to the number of streams that wait for the next launch."""
        self._words[_FOLLOWERS] += change

    def launch(self, step: tuple[int, int, int, int, int], block: bytes, title: str) -> None:
        """Launch a function: its address, blocks, threads of each, bytes of shared memory, stream.

        Raises
        ------
        CudaError
            If the driver refuses; `title` stands before the message.
        """
        status = self._launch(self.address, *step, block)
        if status:
            raise self.failure(status, _LAUNCH, title)

    def failure(self, status: int, kind: int, title: str = "") -> CudaError:
        """Return the exception for a failed status."""
        call = status >> 32 & 0xFF
        name = {_CALL_CURRENT: "cuCtxGetCurrent", _CALL_SET: "cuCtxSetCurrent"}.get(call, _CALLS[kind])
        error = self._error(name, status & 0xFFFFFFFF)
        return error.under(title) if title else error


def _built_in(name: bytes) -> Callable[..., int]:
    address = pool.functions()[name.decode()]
    return pool.built_in(pool.method(name, address, pool.METH_FASTCALL), None)


def launch_step(
    port: Port, function: int, blocks: int, threads: int, shared: int, block: bytearray, title: str
) -> DeviceStep:
    """Return a launch; the block must not change its length any more."""
    start = address_of(block)
    # cuLaunchKernel takes a list of marks and pointers. The size is passed by address too: that of the last word.
    extra = words("q", (_POINTER, start, _SIZE, 0, _END, len(block)))
    first = extra.buffer_info()[0]
    extra[3] = first + 5 * extra.itemsize
    return DeviceStep(port, _LAUNCH, (function, blocks, threads, shared, first), block, title, title, extra)


def fill_step(port: Port, target: int, pattern: bytes, count: int) -> DeviceStep:
    """Return a fill with a pattern of 1, 2 or 4 bytes."""
    return DeviceStep(port, _FILLS[len(pattern)], (target, int.from_bytes(pattern, "little"), count, 0, 0))


def copy_step(port: Port, target: int, source: int, nbytes: int) -> DeviceStep:
    """Return a copy within the device's memory."""
    return DeviceStep(port, _COPY, (target, source, nbytes, 0, 0))


def graph_step(port: Port, executable: int, noted: str) -> DeviceStep:
    """Return the launch of a graph."""
    return DeviceStep(port, _GRAPH, (executable, 0, 0, 0, 0), noted=noted)
