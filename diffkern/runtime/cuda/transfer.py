"""Copies, fills and sums of arrays where a GPU is involved.

Arrays have one element type and shape, and may be on any devices; the work goes to the current stream of the GPU (of
the target's, if there are two). Contiguous elements are copied by the driver; other layouts go through kernels of
diffkern itself, or through a contiguous array on the way to or from the host. Copies to and from ordinary host memory
have ended when the call returns; those of pinned memory go on beside the program, and everything that reads that memory
waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from diffkern.errors import CudaError, LaunchError
from diffkern.ir.structs import Struct
from diffkern.process.late import ELEMENTWISE
from diffkern.runtime.arrays.array import _make, array, new
from diffkern.runtime.arrays.convert import component_shape, element_of, stored_type
from diffkern.runtime.cuda.context import CudaDevice
from diffkern.runtime.cuda.memory import DeviceMemory, DeviceView
from diffkern.runtime.cuda.stream import CudaEvent, CudaStream
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.memory.memory import overlaps
from diffkern.runtime.memory.state import can_look
from diffkern.runtime.memory.stream import drain_queues, on_its_way
from diffkern.runtime.native.device import copy_step, fill_step
from diffkern.runtime.native.replay import Steps

if TYPE_CHECKING:
    from diffkern.runtime.launch.kernel_protocol import KernelProtocol

__all__ = ["add", "add_steps", "assign", "assign_steps", "copy", "copy_steps", "download", "elementwise"]

_LITTLE = 1 << 12
_FEW = 4
"""The most fills in place of a copy from the host."""


def copy(target: array, source: array) -> None:
    """Copy the elements of one array to another of the same type and shape."""
    if not target.size:
        return
    here, there = target._memory, source._memory
    if not isinstance(there, DeviceMemory):
        assert isinstance(here, DeviceMemory)
        # Streams of the CPU may still write to the source.
        drain_queues()
        _upload(here.gpu, target, source._data, there.is_pinned)
    elif not isinstance(here, DeviceMemory):
        drain_queues()
        _download(there.gpu, target, source)
    elif here.gpu is there.gpu:
        _within(here.gpu, target, source)
    else:
        _between(here.gpu, there.gpu, target, source)


def _within(device: CudaDevice, target: array, source: array) -> None:
    # A copy of overlapping arrays has to behave as if the source had been copied first.
    if overlaps(target._data, source._data):
        if target._same_place(source):
            return
        source = _contiguous_copy(device, source)
    if target.is_contiguous and source.is_contiguous:
        with device.active:
            stream = device.stream.cuda_stream
            device.driver.copy(target._range[0], source._range[0], target._data.nbytes, stream)
    else:
        _each(device, "copy", target, source)


def copy_steps(device: CudaDevice, target: array, source: array) -> Steps | None:
    """Return a copy within a device in native code, None if it has no such form."""
    if target._memory.device is not source._memory.device or device.port is None:
        return None
    if overlaps(target._data, source._data):
        return [] if target._same_place(source) else None
    if target.is_contiguous and source.is_contiguous:
        return [copy_step(device.port, target._range[0], source._range[0], target._data.nbytes)] if target.size else []
    return _each_in_steps("copy", target, source)


def _between(here: CudaDevice, there: CudaDevice, target: array, source: array) -> None:
    """Copy from one GPU to another, in the order of the current streams of both."""
    if here.is_capturing or there.is_capturing:
        raise LaunchError(
            f"a copy from {there} to {here} cannot be part of a graph, which knows the order of one GPU's work",
            remedy="copy before or after the graph's launch",
        )
    if not source.is_contiguous:
        source = _contiguous_copy(there, source)
    direct = target if target.is_contiguous else new(target.shape, target._element, False, here)
    # The copy waits for the source's present work; afterwards the source's stream waits for the copy, before it
    # overwrites or frees the source.
    _order(there.stream, here.stream)
    nbytes = target._data.nbytes
    with here.active:
        here.driver.copy_peer(
            direct._range[0], here.context, source._range[0], there.context, nbytes, here.stream.cuda_stream
        )
    _order(here.stream, there.stream)
    if direct is not target:
        here.keep(direct)
        _each(here, "copy", target, direct)


def _order(first: CudaStream, second: CudaStream) -> None:
    event = CudaEvent(first.device)
    first.record_event(event)
    second.wait_event(event)


def _upload(device: CudaDevice, target: array, values: np.ndarray[Any, Any], pinned: bool = False) -> None:
    """Copy from the host."""
    direct = target if target.is_contiguous else new(target.shape, target._element, False, device)
    if not values.flags.c_contiguous:
        values, pinned = np.ascontiguousarray(values), False
    stream = device.stream
    with device.active:
        device.driver.copy_to_device(direct._range[0], values.ctypes.data, values.nbytes, stream.cuda_stream)
        # The driver copies ordinary memory before it returns, but page-locked memory later, also if another library
        # locked it.
        foreign = not pinned and _is_page_locked(device, values)
    device.keep((values, direct))
    if not device.is_capturing:
        if pinned:
            on_its_way(stream.record_event())
        elif foreign:
            stream.synchronize()  # its owner does not know of the copy, and may write to it at once
    if direct is not target:
        _each(device, "copy", target, direct)


def _is_page_locked(device: CudaDevice, values: np.ndarray[Any, Any]) -> bool:
    """Return whether the driver copies some host memory asynchronously, because it is page-locked."""
    first = values.ctypes.data
    return bool(values.nbytes) and any(map(device.driver.is_page_locked, (first, first + values.nbytes - 1)))


def _download(device: CudaDevice, target: array, source: array) -> None:
    """Copy to an array of the host."""
    if not source.is_contiguous:
        source = _contiguous_copy(device, source)
    data = target._data
    direct = data if data.flags.c_contiguous else np.empty(data.shape, data.dtype)
    # A node of a graph can write to pinned memory only; a copy on the way would have to be read by the host.
    if device.is_capturing and not (direct is data and target._memory.is_pinned):
        raise LaunchError(
            f"a copy from {device} to ordinary host memory cannot be part of a graph",
            remedy="copy to a contiguous array made with pinned=True",
        )
    stream = device.stream
    with device.active:
        device.driver.copy_to_host(direct.ctypes.data, source._range[0], direct.nbytes, stream.cuda_stream)
    if direct is data and target._memory.is_pinned:
        if not device.is_capturing:
            on_its_way(stream.record_event())
        return
    stream.synchronize()
    if direct is not data:
        data[...] = direct


def _contiguous_copy(device: CudaDevice, source: array) -> array:
    made = new(source.shape, source._element, False, device)
    _within(device, made, source)
    device.keep(made)
    return made


# -- kernels -----------------------------------------------------------------------------------------------------------


def _each(device: CudaDevice, name: str, target: array, source: array) -> None:
    """Run one of the elementwise kernels, for structs on each field."""
    if not target.size:
        return
    if isinstance(target._element, Struct):
        for part, other in zip(target._leaves(), source._leaves(), strict=True):
            _each(device, name, part, other)
        return
    launch = PackedLaunch(elementwise(name, target.ndim), target.shape, (target, source))
    device.keep(launch)
    launch.execute()


def _each_in_steps(name: str, target: array, source: array) -> Steps | None:
    """Return :func:`_each` in native code, None if it has no such form."""
    if not target.size:
        return []
    if not isinstance(target._element, Struct):
        return PackedLaunch(elementwise(name, target.ndim), target.shape, (target, source)).steps()
    pairs = zip(target._leaves(), source._leaves(), strict=True)
    return _joined([_each_in_steps(name, part, other) for part, other in pairs])


def _joined(parts: Sequence[Steps | None]) -> Steps | None:
    """Return the steps of all parts, None if one has no native form."""
    every: list[Any] = []
    for steps in parts:
        if steps is None:
            return None
        every += steps
    return every


def add(device: CudaDevice, target: array, source: array) -> None:
    """Add the elements of one array to those of another."""
    if overlaps(target._data, source._data) and not target._same_place(source):
        source = _contiguous_copy(device, source)
    _each(device, "add", target, source)


def add_steps(target: array, source: array) -> Steps | None:
    """Return a sum in native code, None if it has no such form."""
    if isinstance(target._element, Struct):
        pairs = zip(target._leaves(), source._leaves(), strict=True)
        return _joined([add_steps(part, other) for part, other in pairs if part._smooth])
    if overlaps(target._data, source._data) and not target._same_place(source):
        return None
    return _each_in_steps("add", target, source)


def assign(device: CudaDevice, target: array, values: np.ndarray[Any, Any]) -> None:
    """Set the elements to values of the host, which are broadcast to the array's shape."""
    if not target.size:
        return
    element = _one_element(target, values)
    if element is None:
        _upload(device, target, np.broadcast_to(np.asarray(values, stored_type(target._element)), target._data.shape))
        return
    inner = component_shape(target._element)
    fills = _fills(target, element)
    if fills is not None:
        with device.active:
            stream = device.stream.cuda_stream
            for fill in fills:
                device.driver.fill(*fill, stream)
        return
    # A small array is uploaded as a whole, which is cheaper than a kernel that spreads one element.
    if target._data.nbytes <= _LITTLE:
        _upload(device, target, np.broadcast_to(element, target._data.shape))
        return
    one = new((1,), target._element, False, device)
    _upload(device, one, element.reshape((1, *inner)))
    # The same element everywhere: an array all of whose strides are 0.
    everywhere = DeviceView.over(
        one._range[0], target._data.shape, element.dtype, (*(0,) * target.ndim, *one._data.strides[1:])
    )
    _each(device, "copy", target, _make(everywhere, target._element, one._memory, True))  # type: ignore[arg-type]
    device.keep(one)


def assign_steps(device: CudaDevice, target: array, values: np.ndarray[Any, Any]) -> Steps | None:
    """Return an assignment in native code, None if it has no such form."""
    if not target.size:
        return []
    element = _one_element(target, values)
    fills = None if element is None else _fills(target, element)
    if device.port is None or fills is None:
        return None
    return [fill_step(device.port, *fill) for fill in fills]


def _fills(target: array, element: np.ndarray[Any, Any]) -> list[tuple[int, bytes, int]] | None:
    """Return the driver's fills that make all elements equal one: address, pattern and count; None if there are none.

    The driver fills memory with patterns of up to four bytes. One element, such as a loss of float64, takes a fill for
    each run of equal words.
    """
    if not target.is_contiguous:
        return None
    first, contents = target._range[0], element.tobytes()
    pattern = _short_pattern(contents)
    if pattern is not None:
        return [(first, pattern, target._data.nbytes // len(pattern))]
    if target._data.nbytes != len(contents) or len(contents) % 4:
        return None
    found: list[tuple[int, bytes, int]] = []
    for start in range(0, len(contents), 4):
        word = contents[start : start + 4]
        if found and found[-1][1] == word:
            address, _, count = found[-1]
            found[-1] = address, word, count + 1
        else:
            found.append((first + start, word, 1))
    return found if len(found) <= _FEW else None


def _one_element(target: array, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return the element that all elements become, None if they differ."""
    inner = component_shape(target._element)
    values = np.asarray(values, dtype=stored_type(target._element))
    if values.ndim > len(inner) and values.size != _count(inner):
        return None
    return np.ascontiguousarray(np.broadcast_to(values.reshape(values.shape[values.ndim - len(inner) :]), inner))


def _count(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _short_pattern(element: bytes) -> bytes | None:
    """Return the 1, 2 or 4 bytes that an element repeats, or None."""
    for width in (1, 2, 4):
        if len(element) % width == 0 and element == element[:width] * (len(element) // width):
            return element[:width]
    return None


# -- looking at contents -----------------------------------------------------------------------------------------------


def download(device: CudaDevice, view: Any) -> np.ndarray[Any, Any]:
    """Return the elements of a view as a new NumPy array, after all work of its device on any stream."""
    out = np.empty(view.shape, view.dtype)
    if not out.size:
        return out
    if not can_look(device):
        raise LaunchError(
            f"an array on {device} is read while work for it is captured, and what it will hold is not computed yet",
            remedy="read it after the graph has run",
        )
    if view.flags.c_contiguous:
        _fetch(device, int(view.ctypes.data), out)
        return out
    low, high = _span(view)
    # One copy of everything from the first byte to the last, unless most of that would be other elements.
    if high - low <= 2 * out.nbytes + _LITTLE or view.dtype.names or view.ndim > 4:
        raw = np.empty(high - low, np.uint8)
        _fetch(device, low, raw)
        out[...] = np.ndarray(view.shape, view.dtype, raw.data, int(view.ctypes.data) - low, view.strides)
        return out
    packed = _contiguous_copy(device, _plain(device, view))
    _fetch(device, packed._range[0], out)
    return out


def _plain(device: CudaDevice, view: DeviceView) -> array:
    """Return an array of single numbers over a view."""
    element = element_of(view.dtype)
    assert element is not None
    memory = DeviceMemory(device, int(view.ctypes.data), view.nbytes, device.null_stream, owner=view)
    return _make(view, element, memory, False)  # type: ignore[arg-type]


def _span(view: DeviceView) -> tuple[int, int]:
    low = high = int(view.ctypes.data)
    for extent, stride in zip(view.shape, view.strides, strict=True):
        low, high = low + min(0, (extent - 1) * stride), high + max(0, (extent - 1) * stride)
    return low, high + view.itemsize


def _fetch(device: CudaDevice, address: int, out: np.ndarray[Any, Any]) -> None:
    # On the default stream, which waits for all others, as every look at contents does on the CPU.
    try:
        with device.active:
            device.driver.copy_to_host(out.ctypes.data, address, out.nbytes, device.null_stream.cuda_stream)
            device.null_stream.synchronize()
    except CudaError as error:
        raise device.explained(error) from None


# -- copies and sums by kernels ----------------------------------------------------------------------------------------
# The kernels by which arrays on a GPU are copied and added where the driver has no call for it.
#
# The kernels are diffkern's own (``diffkern.transforms.elementwise``), above the run time; the code that loads the
# compiler registers here where they are.


def elementwise(name: str, ndim: int) -> KernelProtocol:
    """Return the kernel ``copy`` or ``add`` for arrays of one to four axes."""
    kernel: KernelProtocol = ELEMENTWISE(name, ndim)
    return kernel
