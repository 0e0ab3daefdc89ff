"""Arrays of sparse matrices: views of blocks as numbers, unsigned views of indices, new arrays beside given ones."""

from __future__ import annotations

from typing import Any

from diffkern.ir.structs import Struct
from diffkern.ir.types import FLOAT16, INT32, UINT32, Mat, Scalar, Vec, scalar_of
from diffkern.lang.dtypes import SCALARS
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.array_copy import copy
from diffkern.runtime.arrays.type_keys import dtype_of

__all__ = [
    "as_blocks",
    "as_parts",
    "as_vectors",
    "block_shape_of",
    "grown",
    "integers",
    "is_by_parts",
    "new_values",
    "numbers_of",
    "unsigned",
    "vectors_as_parts",
]

_UINT32: Any = SCALARS[UINT32.name]


def block_shape_of(element: Any) -> tuple[int, int]:
    """Return rows and columns of a block; a number is one of each."""
    return (element.rows, element.cols) if isinstance(element, Mat) else (1, 1)


def numbers_of(values: array) -> Scalar:
    """Return the type of the numbers in blocks or vectors."""
    element = values._element
    if type(element) is Scalar:
        return element
    assert not isinstance(element, Struct)
    return scalar_of(element)


def as_parts(values: array) -> array:
    """View blocks as numbers, with an axis for the rows of blocks and one for their columns.

    Of an array with gaps it is a view too, where another shape would take a copy.
    """
    element = values._element
    shape = (values.shape[0], *block_shape_of(element))
    if isinstance(element, Mat):
        values = values.view(SCALARS[scalar_of(element).name])
    if values.shape == shape:
        return values
    return values[:, None, None] if values.ndim == 1 else values.reshape(shape)


def vectors_as_parts(values: array) -> array:
    """View vectors as numbers, with an axis for those of a vector; also of an array with gaps."""
    values = values.view(SCALARS[numbers_of(values).name])
    return values if values.ndim == 2 else values[:, None]


def is_by_parts(values: array) -> bool:
    """Return whether kernels take blocks number by number: they compute with matrices of halves in another type."""
    return isinstance(values._element, Mat) and scalar_of(values._element) == FLOAT16


def as_blocks(values: array, element: Scalar | Mat) -> array:
    """View numbers with an axis for rows and one for columns as blocks."""
    if values._element == element and values.ndim == 1:
        return values
    if block_shape_of(element) == (1, 1):
        values = values.reshape((values.shape[0],))
    return values.view(dtype_of(element))


def as_vectors(values: array, length: int, count: int, typed: bool) -> array:
    """View numbers or vectors along one or two axes as so many vectors, or as numbers if these are no vectors.

    Raises
    ------
    ValueError
        If they are not so many numbers.
    """
    element = values._element
    if not isinstance(element, (Scalar, Vec)):
        raise ValueError(f"elements are numbers or vectors, not {element}")
    scalar = scalar_of(element)
    wanted: Scalar | Vec = Vec(scalar, length) if typed else scalar
    if values.ndim == 1 and element == wanted and values.shape[0] == count:
        return values
    held = values.size * (element.length if isinstance(element, Vec) else 1)
    if held != count * length:
        raise ValueError(f"there are {held} numbers, and {count * length} are needed")
    if values.ndim > 2:
        raise ValueError(f"a vector has one or two axes, not {values.ndim}")
    if not values.is_contiguous:
        raise ValueError("an array that is read as vectors of another length must be contiguous")
    if isinstance(element, Vec):
        values = values.view(SCALARS[scalar.name])
    # Numbers that are one vector each are not told apart by an axis.
    return values.reshape((count, length) if length > 1 else (count,)).view(dtype_of(wanted))


def unsigned(indices: array) -> array:
    """View int32 as uint32: kernels need not look whether they count from the end."""
    return indices.view(_UINT32)


def integers(count: int, beside: Any, zero: bool = False, element: Scalar = INT32) -> array:
    """Return new integers on the device of a matrix or an array."""
    made = new((count,), element, zero, beside.device)
    made._speak(_values(beside).in_warps_dialect)
    return made


def new_values(count: int, element: Any, beside: array, smooth: bool) -> array:
    """Return new blocks on the device of others, with a gradient if they are smooth."""
    made = new((count,), element, False, beside._memory.device)
    made._speak(beside.in_warps_dialect)
    if smooth:
        made.requires_grad = True
    return made


def grown(values: array, count: int) -> array:
    """Return an array of at least so many elements that begins with the given ones."""
    if values.size >= count:
        return values
    made = new_values(count, values._element, values, bool(values.requires_grad))
    if values.size:
        copy(made, values, count=values.size)
    return made


def _values(beside: Any) -> array:
    return beside if isinstance(beside, array) else beside.values
