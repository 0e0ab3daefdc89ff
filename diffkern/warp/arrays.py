"""Array constructors, array annotations and copies that follow Warp's names and rules."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from diffkern.ir.types import Scalar
from diffkern.lang.annotations import ANY, ArrayAnnotation, ArrayOf, array_annotation
from diffkern.lang.structs import resolve_type
from diffkern.runtime.arrays.array import array as NativeArray
from diffkern.runtime.arrays.array_copy import copy as native_copy
from diffkern.runtime.arrays.convert import wrapped as to_type
from diffkern.runtime.arrays.placeholder import Placeholder
from diffkern.runtime.memory.state import is_handled
from diffkern.runtime.memory.stream import Stream
from diffkern.transforms.indexed import indexedarray

__all__ = [
    "array",
    "array1d",
    "array2d",
    "array3d",
    "array4d",
    "copy",
    "fixedarray",
    "from_ptr",
    "in_dialect",
    "wrapped",
]


def in_dialect(made: NativeArray, retain_grad: bool = False) -> NativeArray:
    """Return an array as one in Warp's dialect, whose integers wrap around, for example."""
    made._speak(True)
    if retain_grad:
        made.retain_grad = True
    return made


def wrapped(data: Any, dtype: Any) -> Any:
    """Return NumPy data as values of an integer type, as in Warp.

    Integers that do not fit wrap around, and floats without a fraction become integers.
    """
    if not isinstance(data, (np.ndarray, np.generic)) or data.dtype.kind not in "iuf":
        return data
    # For vectors the scalar type of the components decides.
    element = None if dtype is ANY or dtype is Any or dtype is None else resolve_type(dtype)
    element = getattr(element, "dtype", element)
    if not (isinstance(element, Scalar) and element.is_integer):
        return data
    return to_type(data, element) if data.dtype.kind in "iu" else _whole(data, np.iinfo(element.name))


def _whole(numbers: Any, limits: Any) -> Any:
    """Return floats as integers of a type that can represent them all, and unchanged if some have fractions."""
    # The bounds as floats: the greater one is a power of two, as the greatest integer of 64 bits is rounded up.
    if not (
        (numbers >= limits.min) & (numbers < 2.0 ** limits.max.bit_length()) & (numbers == np.trunc(numbers))
    ).all():
        return numbers
    return numbers.astype(limits.dtype)


def _listed(data: Any, dtype: Any) -> Any:
    """Return nested lists and tensors of floats as arrays of integers, if they are whole and the elements integers."""
    is_tensor = hasattr(data, "__array__") and not isinstance(data, NativeArray)
    try:
        numbers = np.asarray(data) if is_tensor or isinstance(data, (list, tuple)) else None
    except (TypeError, RuntimeError):  # PyTorch gives no tensor of a GPU, and none that requires a gradient
        return data
    if numbers is None or numbers.dtype.kind != "f":
        return data
    made = wrapped(numbers, dtype)
    return data if made is numbers else made


class _Family(abc.ABCMeta):
    """The class of ``wp.array``, whose instances are all arrays."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, NativeArray) if cls is array else super().__instancecheck__(value)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, NativeArray) if cls is array else super().__subclasscheck__(other)

    def __eq__(cls, other: object) -> bool:
        return other is cls or (cls is array and other is NativeArray)

    def __hash__(cls) -> int:
        return hash(NativeArray) if cls is array else super().__hash__()


class array(NativeArray, metaclass=_Family):
    """Arrays, as :class:`diffkern.array` makes them, with Warp's order of parameters and its conversions.

    NumPy's integers that do not fit into the element type are wrapped around, and data without elements fit any
    number of axes. A class may be derived from it: its instances are arrays of that class, and what is made of them is
    of the usual one.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any = None,
        dtype: Any = ANY,
        shape: int | Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        ptr: int | None = None,
        capacity: int | None = None,
        device: Any = None,
        pinned: bool = False,
        copy: bool = True,
        deleter: Any = None,
        ndim: int | None = None,
        grad: Any = None,
        requires_grad: bool = False,
        **options: Any,
    ) -> Any:
        # wp.array makes native arrays; an instance of a derived class begins empty, and __init__ fills its slots.
        if cls is not array:
            return object.__new__(cls)  # which __init__ makes an array of
        # An array that shares NumPy's memory must not be converted.
        if copy and isinstance(data, np.ndarray):
            data = wrapped(data, dtype)
        # Warp takes an empty list for any number of axes.
        if ndim is not None and shape is None and data is not None and not np.size(data):
            ndim = None
        options |= {"strides": strides, "ptr": ptr, "capacity": capacity, "deleter": deleter}
        options |= {"grad": grad, "requires_grad": bool(requires_grad), "device": device, "pinned": bool(pinned)}
        # Lists and tensors are tried as they are first: only floats for an integer type need the slower conversion.
        try:
            made = NativeArray(data, dtype, shape, ndim, copy=bool(copy), **options)
        except TypeError:  # which tells of floats for integers
            if (whole := _listed(data, dtype)) is data:
                raise
            made = NativeArray(whole, dtype, shape, ndim, copy=bool(copy), **options)
        # A placeholder describes a type, and has no memory or dialect.
        return made if isinstance(made, Placeholder) else in_dialect(made)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # The slots are those of a plain array, so sharing their values makes this object a view of the same memory.
        made = array(*args, **kwargs)
        if type(made) is not NativeArray:
            raise TypeError(f"{type(self).__name__} is made of numbers, vectors or matrices; make wp.array of others")
        for name in NativeArray.__slots__:
            if name not in ("__dict__", "__weakref__"):
                setattr(self, name, getattr(made, name))


class _ArrayOf(ArrayOf):
    """Array constructor for a fixed number of axes, as ``wp.array``; its annotations count as instances of that."""

    make = array

    def __call__(self, data: Any = None, dtype: Any = ANY, **options: Any) -> Any:
        found = super().__call__(data, dtype, **options)
        return Placeholder.like(found) if isinstance(found, ArrayAnnotation) else found


array1d, array2d, array3d, array4d = map(_ArrayOf, (1, 2, 3, 4))


class fixedarray:
    """Describes what a func returns: an array of a thread, with an element type and a shape."""

    def __new__(cls, dtype: Any = ANY, shape: int | tuple[int, ...] = (0,)) -> Any:
        return array_annotation(dtype, 1 if isinstance(shape, int) else len(shape))


def copy(
    dest: Any,
    src: Any,
    dest_offset: int = 0,
    src_offset: int = 0,
    count: int = 0,
    stream: Stream | None = None,
) -> None:
    """Copy elements as :func:`diffkern.copy` does, also between arrays of different sizes.

    They are counted in row-major order, where both arrays are contiguous or have one axis.

    Outside of tapes the gradient is copied as well where both arrays have one.

    Parameters
    ----------
    dest, src : array
        Arrays of the same element type; of the same shape, if one of them is not contiguous. Indexed arrays are copied
        as a whole.
    dest_offset, src_offset : int, optional
        First element, counted along the flattened arrays.
    count : int, optional
        Number of elements; by default as many as `src` has, after the offset.
    stream : Stream, optional
        The stream of the copy; the current one by default, that of the GPU if one is involved.
    """
    if isinstance(dest, indexedarray) and not (dest_offset or src_offset or count):
        dest.assign(src)
        return
    if isinstance(src, indexedarray):
        src = src.contiguous()
    # Only then is the flattened order that of the memory, and different shapes can be copied.
    in_rows = (dest.is_contiguous and src.is_contiguous) or dest.ndim == src.ndim == 1
    if dest.shape != src.shape and in_rows:
        count = count or src.size - src_offset
    native_copy(dest, src, dest_offset, src_offset, count, stream)
    # Under a tape the gradient of the copy is recorded, and copying it here would count it twice.
    if not is_handled() and dest.grad is not None and src.grad is not None:
        native_copy(dest.grad, src.grad, dest_offset, src_offset, count, stream)


def from_ptr(
    ptr: int, length: int, dtype: Any = None, shape: Sequence[int] | None = None, device: Any = None
) -> NativeArray:
    """Return an array over memory of the host, which its owner keeps alive.

    Parameters
    ----------
    ptr : int
        The address of the first element.
    length : int
        The number of elements in that memory.
    dtype : optional
        Their type, float32 by default.
    shape : sequence of int, optional
        The array's shape; one axis by default.
    device : optional
        The device of the memory.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If the shape has more elements than there are.
    """
    extents = (length,) if shape is None else tuple(shape)
    if math.prod(extents) > length:
        raise ValueError(f"an array of shape {extents} has more than {length} elements")
    return in_dialect(NativeArray(ptr=ptr, dtype=float if dtype is None else dtype, shape=extents, device=device))
