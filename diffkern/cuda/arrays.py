"""Numba's arrays on the device, and arrays of the host that it accesses.

NumPy arrays and shapes become :class:`DeviceArray`, an array of diffkern with Numba's methods, on the device where
kernels run, :func:`~diffkern.cuda.devices.place`. Copies are copies on the CPU as well. Arrays that Numba shares
between host and device (pinned, mapped, managed) are NumPy arrays; a launch takes them like any NumPy array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from diffkern.cuda.devices import place
from diffkern.cuda.streams import native
from diffkern.errors import MisuseError
from diffkern.ir.structs import Stored
from diffkern.ir.types import UINT8
from diffkern.lang.dtypes import DType
from diffkern.lang.structs import definition_of
from diffkern.runtime.arrays.array import array, new, wrap
from diffkern.runtime.arrays.convert import as_numpy, as_shape, element_of
from diffkern.runtime.arrays.operation import Copy, submit
from diffkern.runtime.arrays.structured import StructuredArray
from diffkern.runtime.memory.device import CPU
from diffkern.runtime.memory.stream import ScopedStream

__all__ = [
    "DeviceArray", "DeviceRecords", "as_cuda_array", "device_array", "device_array_like", "from_cuda_array_interface",
    "is_cuda_array", "managed_array", "mapped", "mapped_array", "mapped_array_like", "on_device", "pinned",
    "pinned_array", "pinned_array_like", "to_device",
]  # fmt: skip


_Order = Literal["C", "F"]


class OnDevice:
    """The methods and attributes of Numba's device arrays, beyond those of every array."""

    __slots__ = ()

    # Numba's arrays are told apart by identity, and one with elements is true.
    __eq__, __ne__, __hash__ = object.__eq__, object.__ne__, object.__hash__

    def __bool__(self) -> bool:
        return len(self) > 0

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return on_device(array(*args, **kwargs))

    def _derive(self, view: Any, element: Any = None) -> array:
        return on_device(super()._derive(view, element))  # type: ignore[misc]

    def _like(self) -> array:
        return on_device(super()._like())  # type: ignore[misc]

    @property
    def nbytes(self: Any) -> int:
        """Number of bytes of all elements."""
        return int(self.size * self._data.dtype.itemsize)

    @property
    def alloc_size(self) -> int:
        """Number of bytes of all elements."""
        return self.nbytes

    @property
    def flags(self) -> dict[str, bool]:
        """Contiguity of the elements in the orders of C and of Fortran."""
        return {"C_CONTIGUOUS": self.is_c_contiguous(), "F_CONTIGUOUS": self.is_f_contiguous()}

    def is_c_contiguous(self: Any) -> bool:
        """Return whether the elements lie one after the other, the last index running fastest."""
        return bool(self._data.flags.c_contiguous)

    def is_f_contiguous(self: Any) -> bool:
        """Return whether the elements lie one after the other, the first index running fastest."""
        return bool(self._data.flags.f_contiguous)

    @property
    def T(self) -> DeviceArray:
        """The view with the axes in reverse order."""
        return self.transpose()

    def transpose(self: Any, axes: Sequence[int] | None = None) -> DeviceArray:
        """Return the view with the axes in another order, the reverse one by default."""
        order = tuple(axes) if axes is not None else tuple(range(self.ndim))[::-1]
        made: DeviceArray = self._derive(lambda data: data.transpose(order))
        return made

    def reshape(self: Any, *newshape: Any, order: str = "C", shape: Any = None) -> DeviceArray:
        """Return a view with another shape of as many elements; one extent may be -1. The array must be contiguous."""
        if order != "C":
            raise MisuseError(f"reshape() keeps the order 'C', not {order!r}", remedy="use .T.reshape(…).T")
        made: DeviceArray = super().reshape(*newshape, shape=shape)  # type: ignore[misc]
        return made

    def ravel(self: Any, order: str = "C", stream: Any = 0) -> DeviceArray:
        """Return a view with one axis. The array must be contiguous."""
        # The transpose of an array in Fortran's order is contiguous in C's.
        return self.T.ravel() if order == "F" else self.reshape(self.size)  # type: ignore[no-any-return]

    def squeeze(self: Any, axis: int | tuple[int, ...] | None = None, stream: Any = 0) -> DeviceArray:
        """Return the view without axes of one element: all of them, or those that are named."""
        chosen = range(self.ndim) if axis is None else {a % self.ndim for a in np.atleast_1d(axis)}
        if any(self.shape[a] != 1 for a in chosen if axis is not None):
            raise ValueError(f"cannot squeeze axis {axis} of shape {self.shape}: it has more than one element")
        # An index instead of a reshape, which would need a contiguous array.
        index = tuple(0 if self.shape[a] == 1 and a in chosen else slice(None) for a in range(self.ndim))
        made: DeviceArray = self._derive(lambda data: data[(*index, ...)])
        return made

    def split(self: Any, section: int, stream: Any = 0) -> Iterator[DeviceArray]:
        """Yield views of `section` elements each, of an array with one axis."""
        if self.ndim != 1:
            raise ValueError("only arrays with one axis are split")
        # The last view is shorter where the sections do not divide the array, as in numba.
        for start in range(0, self.size, section):
            yield self[start : start + section]

    def bind(self: Any, stream: Any = 0) -> DeviceArray:
        """Return the array itself: copies and launches name their stream."""
        # Raises for an argument that is no stream.
        native(stream)
        return self  # type: ignore[no-any-return]

    def getitem(self: Any, item: Any, stream: Any = 0) -> Any:
        """Return ``self[item]``, read on a stream."""
        with ScopedStream(native(stream)):
            return self[item]

    def setitem(self: Any, key: Any, value: Any, stream: Any = 0) -> None:
        """Run ``self[key] = value`` on a stream."""
        with ScopedStream(native(stream)):
            self[key] = value

    def copy_to_host(self: Any, ary: np.ndarray[Any, Any] | None = None, stream: Any = 0) -> np.ndarray[Any, Any]:
        """Copy the elements to the host.

        Parameters
        ----------
        ary : numpy.ndarray, optional
            The destination; it must have the same shape and type. A new array by default.
        stream : diffkern.cuda.streams.Stream, optional
            The stream; the default one by default. On another one, a copy into `ary` runs beside the program
            if that is page-locked: synchronize before you look at it.

        Returns
        -------
        numpy.ndarray
            `ary`, or the new array.
        """
        # A new array is always complete when the call returns, whatever the stream: nobody could wait for it otherwise.
        if ary is None:
            with ScopedStream(native(stream)):
                fresh: np.ndarray[Any, Any] = np.array(self._host())
            return fresh
        self._check_like(ary)
        # The copy is an operation on a stream, so that numba's asynchronous copies stay asynchronous.
        submit(Copy(wrap(ary, self._element), self), native(stream))
        return ary

    def copy_to_device(self: Any, ary: Any, stream: Any = 0) -> None:
        """Copy elements from an array of the host or of the device, which must have the same shape and type.

        Under a tape, a copy from the device is one that gradients flow through.
        """
        # A copy onto itself would still count as a write, and invalidate what a tape has recorded.
        if ary is self:
            return
        source = ary if isinstance(ary, array) or hasattr(ary, "__cuda_array_interface__") else as_numpy(ary)
        self._check_like(source)
        with ScopedStream(native(stream)):
            self.assign(source)

    def _check_like(self: Any, other: Any) -> None:
        dtype = other._data.dtype if isinstance(other, array) else np.dtype(other.dtype)
        if dtype != self._data.dtype:
            raise TypeError(f"incompatible dtype: {dtype} and {self._data.dtype}")
        if tuple(other.shape) != self.shape:
            raise ValueError(f"incompatible shape: {tuple(other.shape)} and {self.shape}")

    def __getattr__(self, name: str) -> Any:
        # The names of numba's device arrays that have no counterpart get an error that says what to use.
        if name in _INSTEAD:
            raise AttributeError(f"device arrays of diffkern have no {name!r}; {_INSTEAD[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_INSTEAD = {
    "as_cuda_arg": "pass the array itself",
    "device_ctypes_pointer": ".ptr is the address",
    "device_pointer": ".ptr is the address",
    "get_ipc_handle": "memory is not shared between processes",
    "gpu_data": ".ptr is the address",
    "to_host": "use .copy_to_host()",
    "view": "copy_to_host().view(dtype) is a view of other elements, on the host",
}


class DeviceArray(OnDevice, array):
    """An array on the device, as ``cuda.to_device`` and ``cuda.device_array`` make it.

    It is an array of diffkern: ``requires_grad``, ``grad`` and tapes work, and ``.numpy()`` shows it on the CPU
    without a copy.
    """

    __slots__ = ()

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """The element type, as NumPy's."""
        dtype: np.dtype[Any] = self._data.dtype
        return dtype


class DeviceRecords(OnDevice, StructuredArray):
    """An array of structs on the device."""

    __slots__ = ()


def on_device(made: array) -> DeviceArray:
    """Return a new array as one with Numba's methods."""
    # The layout of instances is the same, so that the class is exchanged without a copy or a view.
    made.__class__ = DeviceRecords if isinstance(made, StructuredArray) else DeviceArray
    return made  # type: ignore[return-value]


# -- on the device -----------------------------------------------------------------------------------------------------


def to_device(obj: Any, stream: Any = 0, copy: bool = True, to: DeviceArray | None = None) -> DeviceArray:
    """Copy an array to the device.

    Parameters
    ----------
    obj : array_like
        The array. One that is on the device already is returned unchanged.
    stream : diffkern.cuda.streams.Stream, optional
        The stream.
    copy : bool, optional
        Whether to copy the elements, or to allocate only.
    to : DeviceArray, optional
        The destination; a new array by default.
    """
    if to is not None:
        if copy:
            to.copy_to_device(obj, stream)
        return to
    # As in numba, an array on the device is not copied.
    if isinstance(obj, OnDevice):
        return obj  # type: ignore[return-value]
    # In front of the copy: memory of other libraries on the device is used in place, as in numba.
    if not isinstance(obj, np.ndarray) and hasattr(obj, "__cuda_array_interface__"):
        return as_cuda_array(obj)
    if isinstance(obj, array):
        return as_cuda_array(obj.to(place()))
    made = device_array_like(as_numpy(obj))
    if copy:
        made.copy_to_device(obj, stream)
    return made


def device_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: _Order = "C", stream: Any = 0
) -> DeviceArray:
    """Return a new array on the device, its elements not initialized.

    Parameters
    ----------
    shape : int or tuple of int
        Number of elements along each of one to four axes.
    dtype : optional
        The element type, NumPy's or diffkern's, float64 by default; or a struct's class.
    strides : optional
        Those of a contiguous array, if they are given.
    order : str, optional
        ``"C"`` or ``"F"``.
    """
    native(stream)
    extents = as_shape(shape)
    if order not in ("C", "F"):
        raise ValueError(f"order is 'C' or 'F', not {order!r}")
    # Fortran's order is the transposed view of an array of the reversed shape.
    made = on_device(new(extents[::-1] if order == "F" else extents, _element(dtype), False, place()))
    made = made.T if order == "F" else made
    # numba accepts any strides; here only those that follow from shape and order.
    if strides is not None and tuple(np.atleast_1d(strides)) != made.strides:
        raise MisuseError("device arrays are made contiguous", remedy="leave strides out, and take a slice")
    return made


def _element(dtype: Any) -> Stored:
    definition = definition_of(dtype)
    if definition is not None:
        return definition.type
    known = _numpy_type(dtype)
    # The byte order is that of the machine in any case.
    element = element_of(known.newbyteorder("="))
    if element is None:
        raise TypeError(f"no element type for NumPy's {known!r}; a struct's class made by dk.struct is one for records")
    return element


def _numpy_type(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy type of a type that is NumPy's, diffkern's, or one of Numba's, which has NumPy's name."""
    if isinstance(dtype, DType):
        return dtype.numpy
    # By the name of the module, so that numba is not imported.
    of_numba = type(dtype).__module__.startswith("numba.")
    found: np.dtype[Any] = np.dtype(str(dtype) if of_numba else dtype)
    return found


def device_array_like(ary: Any, stream: Any = 0) -> DeviceArray:
    """Return a new array on the device with the shape, type and order of another, its elements not initialized."""
    if not ary.shape:
        raise ValueError("a device array has at least one axis; use one with a single element")
    return device_array(ary.shape, ary.dtype, order=_order(ary), stream=stream)


def _order(ary: Any) -> _Order:
    flags = ary.flags if hasattr(ary, "flags") else ary._data.flags
    # An array with one axis is contiguous in both orders, and C is the usual one.
    return "F" if flags["F_CONTIGUOUS"] and not flags["C_CONTIGUOUS"] else "C"


def as_cuda_array(obj: Any, sync: bool = True) -> DeviceArray:
    """Return an array over the memory of another library's array on the device; for an array of diffkern a view of it.

    Raises
    ------
    TypeError
        If it has no ``__cuda_array_interface__``.
    """
    if isinstance(obj, array):
        # A view, so that the array keeps its own class.
        return on_device(obj._derive(lambda data: data[...]))
    if not is_cuda_array(obj):
        raise TypeError(f"{type(obj).__name__!r} object does not implement the CUDA array interface")
    return on_device(array(obj, copy=False))


def from_cuda_array_interface(desc: dict[str, Any], owner: Any = None, sync: bool = True) -> DeviceArray:
    """Return an array over the memory that a description of the CUDA array interface names; `owner` is kept alive."""
    return as_cuda_array(_Described(desc, owner), sync)


class _Described:
    """A description of memory as an object of a library."""

    __slots__ = ("__cuda_array_interface__", "owner")

    def __init__(self, desc: dict[str, Any], owner: Any) -> None:
        self.__cuda_array_interface__ = desc
        # The reference keeps the memory alive as long as an array over it exists.
        self.owner = owner


def is_cuda_array(obj: Any) -> bool:
    """Return whether an object is an array on the device: diffkern's, or with ``__cuda_array_interface__``."""
    return isinstance(obj, OnDevice) or hasattr(obj, "__cuda_array_interface__")


# -- of the host -------------------------------------------------------------------------------------------------------


def pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: _Order = "C") -> np.ndarray[Any, Any]:
    """Return a new NumPy array, in memory from which a GPU, where there is one, copies beside the program."""
    known, extents = _numpy_type(dtype), as_shape(shape)
    # Without a GPU nothing is copied, so that ordinary memory will do.
    if place().is_cpu:
        made = np.empty(extents, known, order)
    else:
        nbytes = max(1, int(np.prod(extents)) * known.itemsize)
        # A NumPy array over an array of bytes, which keeps the pinned memory alive as its base.
        made = np.ndarray(extents, known, new((nbytes,), UINT8, False, CPU, pinned=True).numpy(), order=order)
    if strides is not None and tuple(np.atleast_1d(strides)) != made.strides:
        raise MisuseError("arrays of the host are made contiguous", remedy="leave strides out, and take a slice")
    return made


def pinned_array_like(ary: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the same as :func:`pinned_array`, with the shape, type and order of another array."""
    return pinned_array(ary.shape, ary.dtype, order=_order(ary))


def mapped_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: _Order = "C",
    stream: Any = 0,
    portable: bool = False,
    wc: bool = False,
) -> np.ndarray[Any, Any]:
    """Return the same as :func:`pinned_array`: on the CPU kernels work on it in place, on a GPU launches copy it."""
    native(stream)
    return pinned_array(shape, dtype, strides, order)


def mapped_array_like(
    ary: np.ndarray[Any, Any], stream: Any = 0, portable: bool = False, wc: bool = False
) -> np.ndarray[Any, Any]:
    """Return the same as :func:`mapped_array`, with the shape, type and order of another array."""
    return mapped_array(ary.shape, ary.dtype, order=_order(ary), stream=stream)


def managed_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: _Order = "C",
    stream: Any = 0,
    attach_global: bool = True,
) -> np.ndarray[Any, Any]:
    """Return the same as :func:`mapped_array`."""
    return mapped_array(shape, dtype, strides, order, stream)


@contextmanager
def pinned(*arylist: np.ndarray[Any, Any]) -> Iterator[None]:
    """Do nothing: copies from and to memory that is not page-locked are right as well, but wait for the device."""
    yield


@contextmanager
def mapped(*arylist: np.ndarray[Any, Any], stream: Any = 0) -> Iterator[Any]:
    """Give NumPy arrays to the device for a ``with`` block, and have them back at its end.

    Yields
    ------
    DeviceArray or list of DeviceArray
        One for each array: over the same memory on the CPU, a copy on a GPU.
    """
    on_cpu = place().is_cpu
    given = [on_device(wrap(ary)) if on_cpu else to_device(ary, stream) for ary in arylist]
    try:
        yield given[0] if len(given) == 1 else given
    finally:
        for ary, device_ary in zip(arylist, given, strict=True):
            # On the CPU the arrays share their memory, so there is nothing to bring back.
            if not on_cpu:
                device_ary.copy_to_host(ary, stream)
