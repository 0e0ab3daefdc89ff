"""Array constructors with Warp's order of parameters: the device comes before ``requires_grad``.

They forward to :mod:`diffkern.runtime.arrays.create`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from diffkern.lang.intrinsics import in_kernels
from diffkern.runtime.arrays import array_copy, create
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.convert import as_numpy, as_shape
from diffkern.transforms.indexed import indexedarray
from diffkern.types import matrix, vector
from diffkern.warp.arrays import in_dialect, wrapped
from diffkern.warp.types import type_size_in_bytes

__all__ = [
    "clone", "empty", "empty_like", "from_numpy", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like",
]  # fmt: skip

Shape: TypeAlias = "int | Sequence[int]"


def _checked(shape: Shape | None, n: int | None, ndim: int | None) -> Shape:
    """The shape that is given, as it is or as a number of elements along one axis."""
    if (shape is None) == (n is None):
        raise TypeError("a shape is an integer or up to 4 integers; in its place n= is the number of elements")
    given: Any = n if shape is None else shape
    if ndim is not None and len(as_shape(given)) != ndim:
        raise ValueError(f"the shape {given} has {len(as_shape(given))} axes, not ndim={ndim}")
    return given  # type: ignore[no-any-return]


def _strided(
    make: Any,
    shape: Shape,
    strides: Sequence[int],
    dtype: Any,
    requires_grad: bool,
    device: Any,
    pinned: bool,
    retain: bool,
) -> array:
    """A view with these strides of a new array along one axis that is as long as it takes."""
    extents, size = as_shape(shape), type_size_in_bytes(dtype)
    if len(strides) != len(extents) or any(s < 0 or s % size for s in strides):
        raise ValueError(
            f"strides {tuple(strides)} do not fit an array of shape {extents}: write a multiple of {size} for each axis"
        )
    # The position of the last element, counted in elements; an array without elements needs no memory.
    last = sum((n - 1) * s for n, s in zip(extents, strides, strict=True)) // size
    count = last + 1 if all(extents) else 0
    whole = in_dialect(make(count, dtype, bool(requires_grad), device, bool(pinned)), retain)
    # The whole array is kept alive by its memory, which the view shares.
    made: array = array(ptr=whole.ptr, dtype=dtype, shape=extents, strides=tuple(strides), device=whole.device)
    return made


@in_kernels("own_zeros")
def zeros(
    shape: Shape | None = None,
    dtype: Any = float,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    *,
    n: int | None = None,
    ndim: int | None = None,
    strides: Sequence[int] | None = None,
) -> array:
    """Return a new array of zeros.

    Parameters
    ----------
    shape, dtype, device, requires_grad, pinned, n : optional
        As in :func:`diffkern.zeros`.
    retain_grad : bool, optional
        Whether the gradient with respect to what the array holds when a tape ends is kept: see
        :attr:`diffkern.array.retain_grad`.
    ndim : int, optional
        Number of axes; checked against the shape.
    strides : sequence of int, optional
        Distance of neighbours along each axis, in bytes: whole elements, and none backwards.
    """
    if strides is not None:
        given = _checked(shape, n, ndim)
        return _strided(create.zeros, given, strides, dtype, requires_grad, device, pinned, retain_grad)
    made = create.zeros(_checked(shape, n, ndim), dtype, bool(requires_grad), device, bool(pinned))
    return in_dialect(made, retain_grad)


@in_kernels("own_empty")
def empty(
    shape: Shape | None = None,
    dtype: Any = float,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    *,
    n: int | None = None,
    ndim: int | None = None,
    strides: Sequence[int] | None = None,
) -> array:
    """Return a new array whose elements are not initialized.

    Parameters
    ----------
    shape, dtype, device, requires_grad, pinned, retain_grad, n, ndim, strides : optional
        As in :func:`zeros`.
    """
    if strides is not None:
        given = _checked(shape, n, ndim)
        return _strided(create.empty, given, strides, dtype, requires_grad, device, pinned, retain_grad)
    made = create.empty(_checked(shape, n, ndim), dtype, bool(requires_grad), device, bool(pinned))
    return in_dialect(made, retain_grad)


@in_kernels("own_ones")
def ones(
    shape: Shape | None = None,
    dtype: Any = float,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    *,
    n: int | None = None,
    ndim: int | None = None,
) -> array:
    """Return a new array of ones.

    Parameters
    ----------
    shape, dtype, device, requires_grad, pinned, retain_grad, n, ndim : optional
        As in :func:`zeros`.
    """
    made = create.ones(_checked(shape, n, ndim), dtype, bool(requires_grad), device, bool(pinned))
    return in_dialect(made, retain_grad)


@in_kernels("own_full")
def full(
    shape: Shape | None = None,
    value: Any = 0,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    *,
    n: int | None = None,
    ndim: int | None = None,
) -> array:
    """Return a new array with every element equal to a value.

    Parameters
    ----------
    value
        The value.
    shape, dtype, device, requires_grad, pinned, retain_grad, n, ndim : optional
        As in :func:`zeros`; the element type is that of the value by default, of a list or an array of NumPy the vector
        or matrix that has these components.
    """
    # Components make one vector or matrix as the element, not an array of numbers.
    if dtype is None and isinstance(value, (np.ndarray, list, tuple)):
        dtype = _of_components(value)
    # Integers of Python are int32 in Warp and would be int64 natively, so they take the path below.
    if dtype is None and type(value) is not int:
        made = create.full(_checked(shape, n, ndim), value, None, bool(requires_grad), device, bool(pinned))
        return in_dialect(made, retain_grad)
    made = empty(shape, int if dtype is None else dtype, device, requires_grad, pinned, retain_grad, n=n, ndim=ndim)
    made.fill_(value)
    return made


def _of_components(value: Any) -> Any:
    """The type of a vector or matrix that is given by its components: Python's numbers have 32 bits. None of others."""
    numbers = np.asarray(value)
    # NumPy's types are taken as they are.
    scalar: Any = numbers.dtype
    if not isinstance(value, np.ndarray):
        scalar = {"f": float, "i": int, "b": bool}.get(scalar.kind)
    if scalar is None or numbers.ndim not in (1, 2):
        return None
    return vector(numbers.size, scalar) if numbers.ndim == 1 else matrix(numbers.shape, scalar)


def zeros_like(
    src: array,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """Return a new array of zeros with the shape and type of another.

    Parameters
    ----------
    src : array
        The array.
    device, requires_grad, pinned, retain_grad : optional
        As in :func:`zeros`; by default as `src` is.
    """
    return in_dialect(create.zeros_like(src, requires_grad, device, _pinned(src, pinned)), retain_grad)


def empty_like(
    src: array,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """Return a new array with the shape and type of another, its elements not initialized.

    Parameters
    ----------
    src, device, requires_grad, pinned, retain_grad : optional
        As in :func:`zeros_like`.
    """
    return in_dialect(create.empty_like(src, requires_grad, device, _pinned(src, pinned)), retain_grad)


def ones_like(
    src: array,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """Return a new array of ones with the shape and type of another.

    Parameters
    ----------
    src, device, requires_grad, pinned, retain_grad : optional
        As in :func:`zeros_like`.
    """
    return in_dialect(create.ones_like(src, requires_grad, device, _pinned(src, pinned)), retain_grad)


def full_like(
    src: array,
    value: Any,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """Return a new array with the shape and type of another, every element equal to a value.

    Parameters
    ----------
    value
        The value.
    src, device, requires_grad, pinned, retain_grad : optional
        As in :func:`zeros_like`.
    """
    made = empty_like(src, device, requires_grad, pinned, retain_grad)
    made.fill_(value)
    return made


def clone(
    src: array | indexedarray,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """Return a contiguous copy of an array.

    Parameters
    ----------
    src, device, requires_grad, pinned, retain_grad : optional
        As in :func:`zeros_like`.
    """
    if isinstance(src, indexedarray):
        src = src.contiguous()
    return in_dialect(array_copy.clone(src, requires_grad, device, _pinned(src, pinned)), retain_grad)


def _pinned(src: Any, pinned: bool | None) -> bool:
    """Return whether a new array is pinned; by default it is if its source is."""
    return bool(getattr(src, "pinned", False)) if pinned is None else bool(pinned)


def from_numpy(
    arr: Any,
    dtype: Any = None,
    shape: Shape | None = None,
    device: Any = None,
    requires_grad: bool = False,
    retain_grad: bool = False,
) -> array:
    """Return a new array with a copy of a NumPy array.

    Parameters
    ----------
    arr : numpy.ndarray
        The contents.
    dtype, shape, device, requires_grad, retain_grad : optional
        As in :func:`zeros`.
    """
    made = create.from_numpy(wrapped(as_numpy(arr), dtype), dtype, shape, bool(requires_grad), device)
    return in_dialect(made, retain_grad)
