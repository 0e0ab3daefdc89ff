"""Conversion between NumPy's complex types and arrays, which store a real and an imaginary part as the last axis.

Both directions give a view of the same memory in the other form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from diffkern.ir.structs import Stored, Struct
from diffkern.ir.types import is_complex
from diffkern.lang.dtypes import complex_dtype, resolve_dtype

__all__ = ["as_parts", "numbers", "parts", "shown"]


def parts(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a view of complex numbers as pairs along a new last axis."""
    # The view keeps arbitrary strides, which a plain view() as real numbers does not.
    return np.lib.stride_tricks.as_strided(data.real, (*data.shape, 2), (*data.strides, data.itemsize // 2))


def numbers(pairs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a view of pairs along the last axis as complex numbers."""
    found: np.ndarray[Any, Any] = pairs.view(np.result_type(pairs.dtype, np.complex64))[..., 0]
    return found


def shown(data: np.ndarray[Any, Any], element: Stored) -> np.ndarray[Any, Any]:
    """Return elements in NumPy's form: as they are stored, except for complex numbers."""
    return numbers(data) if is_complex(element) else data


def as_parts(values: np.ndarray[Any, Any], element: Stored | None) -> tuple[np.ndarray[Any, Any], Stored | None]:
    """Return numbers for elements of a type as pairs if either side is complex, and anything else unchanged.

    Raises
    ------
    TypeError
        If complex numbers are given for elements of another type, or complex elements are given no numbers.
    """
    if element is None and values.dtype.kind == "c":
        element = resolve_dtype(values.dtype)
    if isinstance(element, Struct) or not is_complex(element):
        if values.dtype.kind == "c":
            raise TypeError(f"complex numbers are not converted to {element}; take their .real or .imag")
        return values, element
    assert element is not None
    if values.dtype.kind not in "biufc":
        raise TypeError(f"values of type {values.dtype} are not converted to {element}")
    return parts(values.astype(complex_dtype(element), copy=False)), element
