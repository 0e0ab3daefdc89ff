"""DLPack: give an array to another library, or take one from it, without copying.

An array is given as a capsule that owns a reference until its consumer releases it. An object with ``__dlpack__``, or a
capsule, is taken as the description of its memory, with the owner that keeps it alive. Both forms of the protocol are
supported: the plain one, and that of version 1, which says whether the memory is read-only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from diffkern.ir.structs import Stored, Struct
from diffkern.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT32,
    FLOAT64,
    SCALARS,
    Kind,
    Scalar,
    Vec,
    complex_number,
    is_complex,
    scalar_of,
)
from diffkern.lang.dtypes import SCALARS as NAMED
from diffkern.runtime.native import release

__all__ = ["CPU", "CUDA", "ON_HOST", "Device", "Taken", "device_of", "export", "take"]

Device = tuple[int, int]
"""Kind and number of a device, as the protocol writes it."""

CPU = 1
CUDA = 2
CUDA_HOST = 3
CUDA_MANAGED = 13
# Memory of these kinds can be read by the processor.
ON_HOST = (CPU, CUDA_HOST)

_VERSION = (1, 0)
_READ_ONLY = 1
_COPIED = 2
_CODES = {Kind.INT: 0, Kind.UINT: 1, Kind.FLOAT: 2}
_BFLOAT = 4
_COMPLEX = 5
_BOOLEAN = 6


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_call_deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)  # keeps the interpreter's lock while it runs

_keep = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_PLAIN, _NEW = b"dltensor", b"dltensor_versioned"
_USED_PLAIN, _USED_NEW = b"used_dltensor", b"used_dltensor_versioned"


class _Export:
    """The object that a consumer keeps alive: the tensor description and the memory. Its last reference frees both."""

    __slots__ = ("_extents", "_managed", "_owner")

    def __init__(self, managed: Any, extents: Any, owner: object) -> None:
        self._managed, self._extents, self._owner = managed, extents, owner


def export(
    data: Any,
    element: Stored,
    owner: object,
    writable: bool,
    max_version: tuple[int, int] | None,
    copied: bool = False,
    device: Device = (CPU, 0),
) -> Any:
    """Return a capsule for memory that `owner` keeps alive; `data` is a NumPy array, or the view of a GPU's memory.

    Raises
    ------
    BufferError
        If the protocol cannot express it.
    """
    if isinstance(element, Struct):
        raise BufferError(f"an array of structs ({element.name}) cannot be given away by DLPack, which has no structs")
    versioned = max_version is not None and max_version[0] >= _VERSION[0]
    if not writable and not versioned:
        raise BufferError("this array is read-only, which DLPack can say from version 1 on; pass max_version=(1, 0)")
    scalar = scalar_of(element)
    # A complex number is one element, whose parts are the last axis here.
    parts = 2 if is_complex(element) else 1
    itemsize = data.itemsize * parts
    ndim = data.ndim - (parts > 1)
    if any(stride % itemsize for stride in data.strides[:ndim]):
        raise BufferError("the strides of this array are no multiples of its elements, so DLPack cannot express them")
    extents = (ctypes.c_int64 * (2 * ndim))(*data.shape[:ndim], *(stride // itemsize for stride in data.strides[:ndim]))
    managed: Any = _Versioned() if versioned else _Managed()
    if versioned:
        managed.major, managed.minor = _VERSION
        managed.flags = (0 if writable else _READ_ONLY) | (_COPIED if copied else 0)
    tensor = managed.tensor
    tensor.data = data.ctypes.data if data.size else None
    # An array without elements has no address that could be read.
    tensor.device_type, tensor.device_id = device
    tensor.ndim = ndim
    tensor.dtype = _data_type(scalar) if parts == 1 else _DataType(_COMPLEX, 2 * scalar.bits, 1)
    tensor.shape = ctypes.cast(extents, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(ctypes.addressof(extents) + 8 * ndim, ctypes.POINTER(ctypes.c_int64))
    offset = type(managed).context.offset
    # The deleter may run in a thread without Python or while the interpreter shuts down, so that it is native code. It
    # finds the reference to give up at the offset of the context.
    name = _NEW if versioned else _PLAIN
    deleter, destructor = release.deleter(offset), release.destructor(name.decode(), offset)
    exported = _Export(managed, extents, owner)
    managed.deleter, managed.context = deleter, id(exported)
    _keep(exported)  # the reference that the deleter gives back
    return _new(ctypes.addressof(managed), name, destructor)


def device_of(source: Any) -> Device:
    """Return the kind and number of the device of an object with ``__dlpack_device__``."""
    kind, number = source.__dlpack_device__()
    return int(kind), int(number)


class Taken:
    """Memory taken from another library: its address and contents. It is given back with the last reference."""

    __slots__ = ("address", "element", "kind", "number", "owner", "read_only", "scalar", "shape", "strides")

    def __init__(self, tensor: Any, read_only: bool, owner: Callable[[], object]) -> None:
        ndim = tensor.ndim
        # Everything is checked before `owner()` is called: a refused capsule stays with its producer.
        if tensor.device_type not in (*ON_HOST, CUDA, CUDA_MANAGED):
            raise BufferError(f"this memory lies on a device of kind {tensor.device_type}, which is none of diffkern's")
        self.kind: int = tensor.device_type
        self.number: int = tensor.device_id
        self.element = _element(tensor.dtype)
        self.scalar = scalar_of(self.element)
        self.address: int = (tensor.data or 0) + tensor.byte_offset
        self.shape: tuple[int, ...] = tuple(tensor.shape[:ndim]) if ndim else ()
        inner = self.element.shape if isinstance(self.element, Vec) else ()
        itemsize = self.element.itemsize
        # Strides are counted in elements by the protocol, and in bytes here and by NumPy. None stands for row-major.
        self.strides = tuple([s * itemsize for s in tensor.strides[:ndim]]) if tensor.strides and ndim else None
        if inner:
            self.shape += inner
            self.strides = None if self.strides is None else (*self.strides, self.stored.itemsize)
        self.read_only = read_only
        # All that can be refused has been refused: now the capsule is used up.
        self.owner = owner()

    @property
    def stored(self) -> np.dtype[Any]:
        """The NumPy type of the elements."""
        return NAMED[self.scalar.name].numpy

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a NumPy array over host memory, which keeps the memory alive."""
        shape, strides, stored = self.shape, self.strides, self.stored
        if 0 in shape:
            return np.empty(shape, stored)
        if strides is None:
            low, size = 0, stored.itemsize * int(np.prod(shape, dtype=np.int64))
        else:
            reaches = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
            # A buffer starts at the lowest address, which negative strides move in front of the first element.
            low = sum(reach for reach in reaches if reach < 0)
            size = sum(abs(reach) for reach in reaches) + stored.itemsize
        memory = (ctypes.c_char * size).from_address(self.address + low)
        memory._owner = self.owner  # type: ignore[attr-defined]  # an instance of a type made here has room for it
        data: np.ndarray[Any, Any] = np.ndarray(shape, stored, memory, -low, strides)  # type: ignore[arg-type]  # a buffer
        data.flags.writeable = not self.read_only
        return data


def take(source: Any, stream_of: Callable[[int], int]) -> Taken:
    """Return the memory that an object with ``__dlpack__``, or a capsule, gives.

    Parameters
    ----------
    source
        The object or capsule.
    stream_of : callable
        Returns, for the number of a GPU, the stream that is going to use the memory; the producer's work precedes it.

    Raises
    ------
    BufferError, TypeError
        If the memory is on no device of diffkern, or its type is none of diffkern's.
    """
    capsule = _capsule_of(source, stream_of)
    if _is_valid(capsule, _NEW):
        address, used = _pointer(capsule, _NEW), _USED_NEW
        managed: Any = _Versioned.from_address(address)
        if managed.major > _VERSION[0]:
            raise BufferError(f"version {managed.major} of DLPack is not known; diffkern speaks version {_VERSION[0]}")
        read_only = bool(managed.flags & _READ_ONLY)
    elif _is_valid(capsule, _PLAIN):
        address, used = _pointer(capsule, _PLAIN), _USED_PLAIN
        managed, read_only = _Managed.from_address(address), False
    else:
        raise TypeError(f"{source!r} is no DLPack capsule, or it was used before; a capsule can be taken once")

    def use() -> object:
        # The name marks the capsule as used: its destructor then leaves the memory to the consumer.
        _rename(capsule, used)
        return _Owner(address, managed.deleter)

    return Taken(managed.tensor, read_only, use)


class _Owner:
    """The owner of another library's memory, which gives it back with the last reference."""

    __slots__ = ("_address", "_deleter")

    def __init__(self, address: int, deleter: int | None) -> None:
        self._address = address
        self._deleter = deleter

    def __del__(self, call: Any = _call_deleter) -> None:
        if getattr(self, "_deleter", None):  # there is none if an interrupt came while it was made
            call(self._deleter)(self._address)


def _capsule_of(source: Any, stream_of: Callable[[int], int]) -> Any:
    ask = getattr(source, "__dlpack__", None)
    if ask is None:
        return source
    kind, number = device_of(source)
    stream = {} if kind in ON_HOST else {"stream": stream_of(number)}
    try:
        return ask(max_version=_VERSION, **stream)
    except TypeError:  # a library from before version 1 knows no such argument
        return ask(**stream)


def _data_type(scalar: Scalar) -> _DataType:
    if scalar == BFLOAT16:
        return _DataType(_BFLOAT, 16, 1)
    if scalar == BOOL:
        return _DataType(_BOOLEAN, 8, 1)
    return _DataType(_CODES[scalar.kind], scalar.bits, 1)


def _element(dtype: _DataType) -> Scalar | Vec:
    if dtype.code == _COMPLEX and dtype.lanes == 1 and dtype.bits in (64, 128):
        return complex_number(FLOAT32 if dtype.bits == 64 else FLOAT64)
    for scalar in SCALARS.values():
        own = _data_type(scalar)
        if (own.code, own.bits, own.lanes) == (dtype.code, dtype.bits, dtype.lanes):
            return scalar
    raise TypeError(f"DLPack's type of code {dtype.code} with {dtype.bits} bits has no counterpart here")
