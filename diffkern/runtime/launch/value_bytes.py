"""The bytes of numbers, vectors and matrices in the argument block.

A value that is not of the element type is an error that says why.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from diffkern.contracts.abi import passed_type
from diffkern.errors import described
from diffkern.ir.types import BOOL, STORAGE_ONLY, Element, Mat, Scalar, Vec, scalar_of, value_type
from diffkern.lang.dtypes import SCALARS
from diffkern.lang.values import CompositeValue
from diffkern.runtime.arrays.convert import as_numpy, convert, numbers_for

__all__ = ["FORMATS", "pack_value", "packer", "padded", "short", "unpacked"]

# How a number stands in the argument block, in the spelling of struct.
FORMATS = {
    "bool": "?7x", "int8": "b7x", "int16": "h6x", "int32": "i4x", "int64": "q",
    "uint8": "B7x", "uint16": "H6x", "uint32": "I4x", "uint64": "Q", "float32": "f4x", "float64": "d",
}  # fmt: skip
# With a byte order stated, struct checks that a float fits; by default it does not.
_PACKERS: dict[Scalar, Callable[[Any], bytes]] = {
    SCALARS[name].ir: struct.Struct("=" + code).pack for name, code in FORMATS.items()
}


def pack_value(element: Element, value: Any) -> bytes:
    """Return the bytes of a number, vector or matrix in the argument block.

    Raises
    ------
    TypeError, OverflowError
        If the value is of another kind or does not fit.
    """
    if isinstance(element, (Vec, Mat)):
        return _pack_composite(element, value)
    if isinstance(value, (np.ndarray, CompositeValue)):
        value = as_numpy(value)
        if value.ndim:
            raise TypeError(f"takes one {element}, not an array of shape {value.shape}")
    pack = packer(element)
    if element == BOOL:
        if not (isinstance(value, (bool, np.bool_)) or (isinstance(value, (int, np.integer)) and value in (0, 1))):
            raise TypeError(f"takes a bool, not {short(value)}")
        return pack(bool(value))
    if element.is_float and isinstance(value, (str, bytes)):
        raise TypeError(f"takes a number, not {short(value)}")
    try:
        return pack(value)
    except OverflowError:
        raise OverflowError(f"{short(value)} does not fit {element}") from None
    except (struct.error, TypeError):
        if isinstance(value, (int, np.integer)):
            raise OverflowError(f"{value} does not fit {element}") from None
        if isinstance(value, (float, np.floating)):
            raise TypeError(f"takes an integer ({element}), not {short(value)}; convert it with int()") from None
        raise TypeError(f"takes a number ({element}), not {short(value)}") from None


def unpacked(key: str, packed: bytes) -> str:
    """Return the value that was packed for a parameter by value, as text."""
    for scalar, pack in FORMATS.items():
        if scalar == key:
            return str(struct.unpack("=" + pack, packed)[0])
    return key


def padded(data: bytes) -> bytes:
    """Return bytes padded to whole words of eight."""
    return data + bytes(-len(data) % 8)


def packer(element: Scalar) -> Callable[[Any], bytes]:
    passed = passed_type(element)
    assert isinstance(passed, Scalar)
    return _PACKERS[passed]


def _pack_composite(element: Vec | Mat, value: Any) -> bytes:
    if isinstance(value, CompositeValue):
        if value.ir == element and element.dtype not in STORAGE_ONLY:
            return padded(value.tobytes())
        if value_type(value.ir) != value_type(element):
            raise TypeError(f"takes {element}, not {value.ir}")
    try:
        numbers = numbers_for(value, element, element.shape)
    except TypeError as error:
        raise TypeError(f"takes {element}, not {short(value)}: {error}") from None
    if numbers.shape != element.shape:
        if numbers.shape != (element.size,):  # a matrix may be given row by row
            raise TypeError(f"takes {element}, not {short(value)}")
        numbers = numbers.reshape(element.shape)
    try:
        data = convert(numbers, scalar_of(element)).tobytes()
    except (TypeError, OverflowError) as error:
        raise type(error)(f"takes {element}, not {short(value)}: {error}") from None
    return padded(data)


def short(value: Any) -> str:
    """Return a value as text of a few words."""
    text = described(value)
    return text if len(text) <= 60 else text[:57] + "..."
