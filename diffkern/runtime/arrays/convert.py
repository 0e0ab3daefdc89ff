"""The NumPy types that elements are stored in, and the conversion of values into them.

Values as a user gives them become an array of the stored type. Numbers may lose width, never their kind: a float
does not become an integer, and an integer that does not fit is an error.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from diffkern.contracts.extents import several, whole_number
from diffkern.ir.structs import Stored, Struct, StructArray, descriptor, holds_arrays
from diffkern.ir.types import BFLOAT16, BOOL, Array, Scalar, scalar_of, wrap_integer
from diffkern.lang.dtypes import SCALARS, bfloat16_bits
from diffkern.lang.values import CompositeValue
from diffkern.runtime.arrays.complexes import as_parts

__all__ = [
    "MAX_NDIM", "as_numpy", "as_shape", "bfloat16_as_bits", "component_shape",
    "convert", "element_of", "in_place", "numbers_for", "stored_type", "with_bfloat16", "wrapped",
]  # fmt: skip

MAX_NDIM = 4
_LARGE = 2.0**63


_PLAIN = frozenset({int, float, bool})
_MASKLESS = _PLAIN | {np.ndarray}


def as_numpy(values: Any) -> np.ndarray[Any, Any]:
    """Return values of any kind as a NumPy array.

    Raises
    ------
    TypeError
        If some of them are masked: the mask would be lost.
    """
    if type(values) not in _MASKLESS and _has_mask(values):
        raise TypeError("a masked array would lose its mask, which kernels do not know; pass .filled(…), or .data")
    made = np.asarray(values)
    if made.dtype.kind == "f" and isinstance(values, (list, tuple)) and made.size and made.max() >= _LARGE:
        return _large_integers(values, made)
    return made


def _large_integers(values: Any, made: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return integers as uint64 or objects if some exceed int64, of which NumPy makes inexact floats."""
    exact = np.array(values, object)
    if not all(isinstance(number, (int, np.integer)) for number in exact.flat):
        return made
    return exact.astype(np.uint64) if exact.min() >= 0 else exact


def _has_mask(values: Any) -> bool:
    if isinstance(values, (list, tuple)):
        return not _PLAIN.issuperset(map(type, values)) and any(map(_has_mask, values))
    if isinstance(values, np.ndarray):
        return isinstance(values, np.ma.MaskedArray)
    # Objects of other libraries state their mask in the interface.
    described = getattr(values, "__array_interface__", None)
    return isinstance(described, dict) and described.get("mask") is not None


_NATIVE = {d.numpy: d.ir for d in SCALARS.values() if d.ir != BFLOAT16}


def element_of(dtype: np.dtype[Any]) -> Scalar | None:
    """Return the scalar type that a NumPy type stands for, or None, also for one of foreign byte order."""
    return _NATIVE.get(dtype)


def stored_type(element: Stored) -> np.dtype[Any]:
    """Return the NumPy type of a scalar element, of one component, or of a struct, laid out as in C."""
    if isinstance(element, Struct):
        return _structured(element)
    return SCALARS[scalar_of(element).name].numpy


@functools.cache
def _structured(struct: Struct) -> np.dtype[Any]:
    fields = []
    for name, t in struct.fields:
        # A field that is an array is stored as the descriptor that kernels read: address, extents, strides.
        stored = descriptor(struct, name, t) if isinstance(t, (Array, StructArray)) else t
        fields.append((name, stored_type(stored), component_shape(stored)))
    return np.dtype(fields, align=True)


def component_shape(element: Stored) -> tuple[int, ...]:
    """Return the extents of an element's components; empty for a scalar or a struct."""
    return () if isinstance(element, (Scalar, Struct)) else element.shape


def convert(values: np.ndarray[Any, Any], scalar: Scalar) -> np.ndarray[Any, Any]:
    """Return values as they are stored. Numbers may lose width, never their kind: 1.5 does not become 1."""
    stored = SCALARS[scalar.name].numpy
    if values.dtype == stored:
        return values
    if not values.size:
        return values.astype(stored)
    if scalar == BFLOAT16:
        return bfloat16_bits(values)
    if values.dtype.kind in "iub" and stored.kind in "iu":
        limits = np.iinfo(stored)
        if int(values.min()) < limits.min or int(values.max()) > limits.max:
            raise OverflowError(f"values from {values.min()} to {values.max()} do not fit into {scalar}")
        return values.astype(stored)
    if values.dtype.kind == "O" and stored.kind in "iu" and all(isinstance(number, int) for number in values.flat):
        raise OverflowError(f"values from {values.min()} to {values.max()} do not fit into {scalar}")
    if stored.kind == "b" and values.dtype.kind in "iu" and values.min() >= 0 and values.max() <= 1:
        return values.astype(stored)
    if not np.can_cast(values.dtype, stored, casting="same_kind"):
        raise TypeError(f"values of type {values.dtype} are not converted to {scalar}; use astype() if that is meant")
    return values.astype(stored)


def wrapped(values: Any, scalar: Scalar) -> Any:
    """Return integers wrapped around to the range of a type, anything else unchanged. For bool, non-zero is True."""
    if scalar.is_float or isinstance(values, CompositeValue):
        return values
    if type(values) is int and scalar != BOOL:
        return wrap_integer(values, scalar)
    # Python integers may exceed every NumPy type: as objects they stay exact until they are wrapped.
    given = values if isinstance(values, (np.ndarray, np.generic)) else np.array(values, object)
    if given.dtype.kind == "O":
        kinds = (int, np.integer, np.bool_, *((float, np.floating) if scalar == BOOL else ()))
        if not given.size or not all(isinstance(number, kinds) for number in given.flat):
            return values
        if scalar == BOOL:
            return (given != 0).astype(np.bool_)
        numbers = [wrap_integer(int(number), scalar) for number in given.flat]
        return np.array(numbers, SCALARS[scalar.name].numpy).reshape(given.shape)[()]
    if scalar == BOOL:
        return given != 0 if given.dtype.kind in "iuf" else values
    return given.astype(SCALARS[scalar.name].numpy) if given.dtype.kind in "iu" else values


def bfloat16_as_bits(data: np.ndarray[Any, Any], element: Stored | None) -> tuple[np.ndarray[Any, Any], Stored | None]:
    """Return bfloat16 elements of the package ml_dtypes as their bits; anything else unchanged."""
    if data.dtype.names is None and data.dtype.name == "bfloat16":
        if element is None:
            return data.view(np.uint16), BFLOAT16
        if not isinstance(element, Struct) and scalar_of(element) == BFLOAT16:
            return data.view(np.uint16), element
    return data, element


def with_bfloat16(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the bits of bfloat16 elements as elements of the package ml_dtypes, if it is installed."""
    try:
        import ml_dtypes
    except ImportError:
        return bits
    return bits.view(ml_dtypes.bfloat16)


def in_place(values: Any, element: Stored | None) -> tuple[np.ndarray[Any, Any], Stored]:
    """Return the memory of values in NumPy's form as kernels take it, and the type of the elements.

    Raises
    ------
    TypeError
        If kernels cannot work on this memory: another type, foreign byte order, components not adjacent, unaligned.
    """
    data = as_numpy(values)
    if data.dtype.kind == "V":
        data, element = bfloat16_as_bits(data, element)
    if data.dtype.kind == "c":
        data, element = _as_pairs(data, element)
    if element is None:
        element = element_of(data.dtype)
        if element is None:
            raise TypeError(f"no element type for NumPy's {data.dtype!r}")
    if isinstance(element, Struct) and holds_arrays(element):
        raise TypeError(f"addresses of arrays are not taken from NumPy: pass a list of {element.name}")
    inner = component_shape(element)
    if data.dtype != stored_type(element):
        stored = element.name if isinstance(element, Struct) else scalar_of(element)
        raise TypeError(f"NumPy's {data.dtype.str!r} is not {stored}")
    if inner and data.shape[-len(inner) :] != inner:
        raise TypeError(f"the last axes of shape {data.shape} are not the components {inner} of {element}")
    # Strides may separate elements but not components, as kernels load an element as one piece.
    if inner and data.size and data[(0,) * (data.ndim - len(inner))].flags.c_contiguous is False:
        raise TypeError(f"the components of each {element} are not next to each other in memory")
    if not data.flags.aligned:
        raise TypeError("the elements are not aligned in memory")
    # A subclass of ndarray may give slices and arithmetic another meaning; its memory is what counts here.
    plain = data if type(data) is np.ndarray else data.view(np.ndarray)
    return plain, element


def numbers_for(values: Any, element: Stored, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return values as the numbers of elements of a type, which together have a shape: of complex ones the pairs.

    The shape is that of the numbers if they are pairs already, and nothing is checked against it.

    Raises
    ------
    TypeError
        If they are masked, or no numbers of this kind.
    """
    given = as_numpy(values)
    return as_parts(given, element)[0] if given.dtype.kind == "c" or given.shape != shape else given


def _as_pairs(data: np.ndarray[Any, Any], element: Stored | None) -> tuple[np.ndarray[Any, Any], Stored | None]:
    """Return complex numbers as pairs in the same memory."""
    if element is not None and str(element) != data.dtype.name:
        raise TypeError(f"NumPy's {data.dtype.str!r} is not {element}")
    return as_parts(data, element)


def as_shape(shape: Any) -> tuple[int, ...]:
    """Return the extents of a shape given as one integer or several."""
    given = several(shape)
    if not isinstance(given, tuple):
        is_one = whole_number(given) is not None or not isinstance(given, Iterable) or isinstance(given, (str, bytes))
        given = (given,) if is_one else tuple(given)
    extents = tuple([n for extent in given if (n := whole_number(extent)) is not None])
    if len(extents) != len(given):
        raise TypeError(f"a shape is an integer or up to {MAX_NDIM} integers, not {shape!r}")
    if not 1 <= len(extents) <= MAX_NDIM or min(extents) < 0:
        raise ValueError(f"a shape has 1 to {MAX_NDIM} extents, none negative, not {shape!r}")
    return extents
