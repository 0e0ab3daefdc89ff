"""Memory of a GPU, and the description of an array in it.

A :class:`DeviceMemory` of a device and a size, or over an address from outside, is freed in the order of the streams
that used it. A :class:`DeviceView` has the shape, strides and type of an array there but not its contents: the run time
computes addresses with it as with a NumPy array, and an attempt to read it is an error instead of a crash.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from diffkern.process.forks import free_in_child
from diffkern.process.late import GPU
from diffkern.runtime.memory.memory import Held, HostMemory, Memory

if TYPE_CHECKING:
    from diffkern.runtime.cuda.context import CudaDevice
    from diffkern.runtime.cuda.stream import CudaStream
    from diffkern.runtime.native.replay import Steps

__all__ = ["DeviceMemory", "DeviceView", "Pinned", "PinnedMemory", "allocate", "allocate_pinned", "foreign"]


_ALIGNMENT = 256


class _Raw:
    """Bytes at an address, for NumPy to describe, not to be read."""

    def __init__(self, address: int, nbytes: int) -> None:
        data = (address, False)
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": data, "version": 3}


class DeviceView:
    """Shape, strides and type of elements in device memory.

    It is backed by a NumPy array over the device's address whose contents must not be accessed; slicing and reshaping
    it computes with numbers only.
    """

    __slots__ = ("_shadow",)

    def __init__(self, shadow: np.ndarray[Any, Any]) -> None:
        self._shadow = shadow

    @staticmethod
    def over(address: int, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None) -> DeviceView:
        """Return the view of elements at an address."""
        low, high = 0, dtype.itemsize
        if strides is not None:
            for extent, stride in zip(shape, strides, strict=True):
                low, high = low + min(0, (extent - 1) * stride), high + max(0, (extent - 1) * stride)
        else:
            high *= max(1, int(np.prod(shape, dtype=np.int64)))
        # An array without elements has no address; any other one will do, as nobody accesses it.
        raw = np.asarray(_Raw((address or _ALIGNMENT) + low, high - low))
        return DeviceView(np.ndarray(shape, dtype, raw, -low, strides))

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self._shadow.shape
        return shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self._shadow.strides

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self._shadow.dtype
        return dtype

    @property
    def ndim(self) -> int:
        return self._shadow.ndim

    @property
    def size(self) -> int:
        return self._shadow.size

    @property
    def nbytes(self) -> int:
        return self._shadow.nbytes

    @property
    def itemsize(self) -> int:
        return self._shadow.itemsize

    @property
    def flags(self) -> Any:
        return self._shadow.flags

    @property
    def ctypes(self) -> Any:
        return self._shadow.ctypes

    def __getitem__(self, index: Any) -> DeviceView:
        # With an ellipsis NumPy makes a view even of a single element, instead of reading it.
        plain = isinstance(index, (str, tuple)) or index is Ellipsis
        return DeviceView(self._shadow[index if plain else (index, Ellipsis)])

    def reshape(self, shape: Any) -> DeviceView:
        return DeviceView(self._shadow.reshape(shape))

    def transpose(self, axes: Any) -> DeviceView:
        return DeviceView(self._shadow.transpose(axes))

    def derived(self, function: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> DeviceView:
        """Return the view of the same memory that a function, which reads no contents, makes of an array."""
        return DeviceView(function(self._shadow))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Raise: there is nothing to read here."""
        raise TypeError("the array lies on a GPU; .numpy() copies it to the host")

    def __repr__(self) -> str:
        return f"<elements on a GPU, shape {self.shape}, {self.dtype}>"


class DeviceMemory(Memory):
    """A block of a device's memory.

    Attributes
    ----------
    device, gpu
        The device that it belongs to.
    home
        The stream it was allocated on, and on which it will be freed.
    owner
        The object that keeps it alive if it was allocated elsewhere.
    """

    __slots__ = ("_owned", "device", "gpu", "home", "owner", "users")

    def __init__(
        self, device: CudaDevice, address: int, nbytes: int, home: CudaStream, zero: bool = False, owner: Any = None
    ) -> None:
        super().__init__(address, nbytes, zero, foreign=owner is not None)
        self.device = self.gpu = device
        self.home = home
        self.owner = owner
        self.users: list[CudaStream] = []
        self._owned = owner is None and nbytes > 0  # the last: whatever is owned is all there

    @property
    def is_open(self) -> bool:
        """True if others may write to it unseen; other libraries' memory never counts, as nothing is known about it."""
        return not self.foreign and super().is_open

    def contents(self, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return a copy of elements in host memory, after all work of the device on any stream."""
        found: np.ndarray[Any, Any] = GPU.value.download(self.gpu, data)
        return found

    def view(self, data: np.ndarray[Any, Any], start: int, like: np.ndarray[Any, Any]) -> Any:
        """Return elements with the shape, type and strides of `like`, `start` bytes behind the first of `data`."""
        return DeviceView.over(int(data.ctypes.data) + start, like.shape, like.dtype, like.strides)

    def copy(self, target: Held, source: Held) -> None:
        """Copy the elements of one array to another."""
        GPU.value.copy(target, source)

    def assign(self, target: Held, values: np.ndarray[Any, Any]) -> None:
        """Set the elements of an array to values of the host, which are broadcast to its shape."""
        GPU.value.assign(self.gpu, target, values)

    def add(self, target: Held, source: Held) -> None:
        """Add the elements of one array to those of another."""
        GPU.value.add(self.gpu, target, source)

    def copy_steps(self, target: Held, source: Held) -> Steps | None:
        """Return a copy within the device in native code."""
        steps: Steps | None = GPU.value.copy_steps(self.gpu, target, source)
        return steps

    def assign_steps(self, target: Held, values: np.ndarray[Any, Any]) -> Steps | None:
        """Return an assignment of one element in native code."""
        steps: Steps | None = GPU.value.assign_steps(self.gpu, target, values)
        return steps

    def add_steps(self, target: Held, source: Held) -> Steps | None:
        """Return a sum in native code."""
        steps: Steps | None = GPU.value.add_steps(target, source)
        return steps

    def use(self, stream: CudaStream) -> None:
        """Note that a stream works with it: it starts after the allocation, and the memory is freed after its work."""
        if stream is not self.home and stream not in self.users:
            if self.owner is None:
                self.gpu.order(self.home, stream)
                stream.hold()
            self.users.append(stream)

    def __del__(self) -> None:
        # Neither may be there if an interrupt came while it was made.
        if getattr(self, "_owned", False) and self.address:
            self._owned = False
            self.gpu.release(self.address, self.home, self.users)


def allocate(
    device: CudaDevice, shape: tuple[int, ...], dtype: np.dtype[Any], zero: bool
) -> tuple[np.ndarray[Any, Any], DeviceMemory]:
    """Return a new contiguous array on a device, and its memory."""
    nbytes = dtype.itemsize
    for extent in shape:
        nbytes *= extent
    # The memory object exists before the allocation: an interrupt after it finds an owner that frees the address.
    memory = DeviceMemory(device, 0, nbytes, device.null_stream, zero)
    if nbytes:
        device.allocate(memory, zero)
    view: Any = DeviceView.over(memory.address, shape, dtype, None)
    return view, memory


_known: weakref.WeakValueDictionary[tuple[int, int, int], DeviceMemory] = weakref.WeakValueDictionary()
_lock = free_in_child(threading.Lock())


def foreign(device: CudaDevice, address: int, nbytes: int, owner: Any) -> DeviceMemory:
    """Return the memory of an array that was allocated elsewhere, the same for the same bytes; it keeps the owner."""
    key = (device.ordinal, address, nbytes)
    with _lock:
        memory = _known.get(key)
        if memory is None:
            memory = _known[key] = DeviceMemory(device, address, nbytes, device.null_stream, owner=owner)
        return memory


class Pinned:
    """Host memory that devices access directly; freed with the last NumPy array over it."""

    def __init__(self, device: CudaDevice, nbytes: int) -> None:
        self._device = device
        self._nbytes = max(nbytes, 1)
        with device.active:
            self.address = device.driver.alloc_host(self._nbytes)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"shape": (self._nbytes,), "typestr": "|u1", "data": (self.address, False), "version": 3}

    def __del__(self) -> None:
        if hasattr(self, "address"):
            self._device.release_host(self.address)


class PinnedMemory(HostMemory):
    """A block of pinned host memory."""

    __slots__ = ()

    is_pinned = True


def allocate_pinned(
    device: CudaDevice, shape: tuple[int, ...], dtype: np.dtype[Any], zero: bool
) -> tuple[np.ndarray[Any, Any], Memory]:
    """Return a new contiguous array in pinned host memory, and its memory."""
    nbytes = dtype.itemsize
    for extent in shape:
        nbytes *= extent
    raw = np.asarray(Pinned(device, nbytes))[:nbytes]
    if zero:
        raw[...] = 0
    data = raw.view(dtype).reshape(shape)
    return data, PinnedMemory(data.ctypes.data, nbytes, zero)
