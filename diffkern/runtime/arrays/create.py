"""Functions that create arrays: zeros, ones, full, empty and their like, from_numpy.

The new arrays share no memory with what was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from diffkern.ir.types import Scalar
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.lang.dtypes import CompositeType, DType
from diffkern.lang.intrinsics import in_kernels
from diffkern.lang.structs import resolve_type
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import FreshKind, array, fresh_kind, new_of
from diffkern.runtime.arrays.convert import MAX_NDIM, as_numpy, as_shape
from diffkern.runtime.arrays.foreign import adopt
from diffkern.runtime.memory.device import CPU, get_device
from diffkern.runtime.memory.state import current, is_repeated, will_replay

__all__ = [
    "Untyped",
    "empty",
    "empty_like",
    "from_numpy",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "untyped",
    "zeros",
    "zeros_like",
]

Shape = int | Sequence[int]


@in_kernels("own_zeros")
@brief
def zeros(
    shape: Shape | None = None,
    dtype: Any = float,
    requires_grad: bool = False,
    device: Any = None,
    pinned: bool = False,
    *,
    n: int | None = None,
    retain_grad: bool = False,
) -> array:
    """Return a new array of zeros.

    Parameters
    ----------
    shape : int or sequence of int, optional
        Number of elements along each axis.
    dtype : optional
        Element type, as in :class:`array`; float32 by default.
    requires_grad : bool, optional
        Whether to allocate a gradient.
    device : str or Device, optional
        The device of the array; the current one by default.
    pinned : bool, optional
        As in :class:`array`.
    n : int, optional
        The number of elements along one axis, in the place of `shape`.
    retain_grad : bool, optional
        Accepted; every gradient is retained.

    Returns
    -------
    array
        A contiguous array.

    Examples
    --------
    >>> dk.zeros((2, 3), dtype=dk.vec3).shape
    (2, 3)
    """
    return _new(_extents(shape, n), dtype, requires_grad, device, True, pinned)


@in_kernels("own_empty")
@brief
def empty(
    shape: Shape | None = None,
    dtype: Any = float,
    requires_grad: bool = False,
    device: Any = None,
    pinned: bool = False,
    *,
    n: int | None = None,
    retain_grad: bool = False,
) -> array:
    """Return a new array whose elements are not initialized.

    Parameters
    ----------
    shape : int or sequence of int, optional
        Number of elements along each axis.
    dtype : optional
        Element type, as in :class:`array`; float32 by default.
    requires_grad : bool, optional
        Whether to allocate a gradient.
    device : str or Device, optional
        The device of the array; the current one by default.
    pinned : bool, optional
        As in :class:`array`.
    n : int, optional
        The number of elements along one axis, in the place of `shape`.
    retain_grad : bool, optional
        Accepted; every gradient is retained.

    Returns
    -------
    array
        A contiguous array.
    """
    return _new(_extents(shape, n), dtype, requires_grad, device, False, pinned)


@in_kernels("own_full")
@brief
def full(
    shape: Shape | None = None,
    value: Any = 0,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
    pinned: bool = False,
    *,
    n: int | None = None,
    retain_grad: bool = False,
) -> array:
    """Return a new array with every element equal to a value.

    Parameters
    ----------
    shape : int or sequence of int, optional
        Number of elements along each axis.
    value : optional
        A number, or a vector, matrix or struct; 0 by default.
    dtype : optional
        Element type, as in :class:`array`; that of `value` by default.
    requires_grad : bool, optional
        Whether to allocate a gradient.
    device : str or Device, optional
        The device of the array; the current one by default.
    pinned : bool, optional
        As in :class:`array`.
    n : int, optional
        The number of elements along one axis, in the place of `shape`.
    retain_grad : bool, optional
        Accepted; every gradient is retained.

    Returns
    -------
    array
        A contiguous array.

    Examples
    --------
    >>> dk.full(2, 0.5).numpy()
    array([0.5, 0.5], dtype=float32)
    """
    made = _new(_extents(shape, n), _type_of(value) if dtype is None else dtype, requires_grad, device, False, pinned)
    made.fill_(value)
    return made


@in_kernels("own_ones")
@brief
def ones(
    shape: Shape | None = None,
    dtype: Any = float,
    requires_grad: bool = False,
    device: Any = None,
    pinned: bool = False,
    *,
    n: int | None = None,
    retain_grad: bool = False,
) -> array:
    """Return a new array of ones.

    Parameters
    ----------
    shape : int or sequence of int, optional
        Number of elements along each axis.
    dtype : optional
        Element type, as in :class:`array`; float32 by default.
    requires_grad : bool, optional
        Whether to allocate a gradient.
    device : str or Device, optional
        The device of the array; the current one by default.
    pinned : bool, optional
        As in :class:`array`.
    n : int, optional
        The number of elements along one axis, in the place of `shape`.
    retain_grad : bool, optional
        Accepted; every gradient is retained.

    Returns
    -------
    array
        A contiguous array.

    Examples
    --------
    >>> dk.ones(3).numpy()
    array([1., 1., 1.], dtype=float32)
    """
    return full(_extents(shape, n), 1, dtype, requires_grad, device, pinned)


def zeros_like(src: array, requires_grad: bool | None = None, device: Any = None, pinned: bool = False) -> array:
    """Return a new array of zeros with the shape and type of another.

    Parameters
    ----------
    src : array
        The array whose shape, element type and, by default, device are taken.
    requires_grad : bool, optional
        Whether to allocate a gradient; by default if `src` has one.
    device : str or Device, optional
        The device of the array; that of `src` by default.
    pinned : bool, optional
        As in :class:`array`.

    Returns
    -------
    array
        A contiguous array.
    """
    return _like(src, requires_grad, device, True, pinned)


def empty_like(src: array, requires_grad: bool | None = None, device: Any = None, pinned: bool = False) -> array:
    """Return a new array with the shape and type of another, its elements not initialized.

    Parameters
    ----------
    src : array
        The array whose shape, element type and, by default, device are taken.
    requires_grad : bool, optional
        Whether to allocate a gradient; by default if `src` has one.
    device : str or Device, optional
        The device of the array; that of `src` by default.
    pinned : bool, optional
        As in :class:`array`.

    Returns
    -------
    array
        A contiguous array.
    """
    return _like(src, requires_grad, device, False, pinned)


def full_like(
    src: array, value: Any, requires_grad: bool | None = None, device: Any = None, pinned: bool = False
) -> array:
    """Return a new array with the shape and type of another, every element equal to a value.

    Parameters
    ----------
    src : array
        The array whose shape, element type and, by default, device are taken.
    value
        A number, or a vector, matrix or struct of the element type.
    requires_grad : bool, optional
        Whether to allocate a gradient; by default if `src` has one.
    device : str or Device, optional
        The device of the array; that of `src` by default.
    pinned : bool, optional
        As in :class:`array`.

    Returns
    -------
    array
        A contiguous array.
    """
    made = _like(src, requires_grad, device, False, pinned)
    made.fill_(value)
    return made


def ones_like(src: array, requires_grad: bool | None = None, device: Any = None, pinned: bool = False) -> array:
    """Return a new array of ones with the shape and type of another.

    Parameters
    ----------
    src : array
        The array whose shape, element type and, by default, device are taken.
    requires_grad : bool, optional
        Whether to allocate a gradient; by default if `src` has one.
    device : str or Device, optional
        The device of the array; that of `src` by default.
    pinned : bool, optional
        As in :class:`array`.

    Returns
    -------
    array
        A contiguous array.
    """
    return full_like(src, 1, requires_grad, device, pinned)


def from_numpy(
    arr: np.ndarray[Any, Any],
    dtype: Any = None,
    shape: Shape | None = None,
    requires_grad: bool = False,
    device: Any = None,
    pinned: bool = False,
) -> array:
    """Return a new array with a copy of a NumPy array.

    ``dk.array(arr, copy=False)`` makes an array over the same memory instead.

    Parameters
    ----------
    arr : numpy.ndarray
        The contents.
    dtype : optional
        Element type; the scalar type of `arr` by default.
    shape, requires_grad, device, pinned : optional
        As in :class:`array`.

    Returns
    -------
    array
        It shares no memory with `arr`.
    """
    made: array = array(
        as_numpy(arr), dtype=dtype, shape=shape, requires_grad=requires_grad, device=device, pinned=pinned
    )
    return made


def _extents(shape: Shape | None, n: int | None) -> Shape:
    if (shape is None) == (n is None):
        raise TypeError("a shape is an integer or up to 4 integers; in its place n= is the number of elements")
    return n if shape is None else shape  # type: ignore[return-value]


def _new(shape: Shape, dtype: Any, requires_grad: bool, device: Any, zero: bool, pinned: bool) -> array:
    extents = (shape,) if type(shape) is int and shape >= 0 else as_shape(shape)
    kinds = _KINDS.get(id(dtype))
    kind = fresh_kind(resolve_type(dtype), len(extents)) if kinds is None else kinds[1][len(extents)]
    on = CPU if device is CPU or (device is None and current.device is None) else get_device(device)
    # What is not initialized would be other numbers when a step runs again, which is compared with what it did before.
    made = new_of(kind, extents, zero or is_repeated(), on, pinned)
    if kinds is None and len(_KINDS) < _KEPT and (isinstance(dtype, _LASTING) or any(dtype is t for t in _PYTHONS)):
        _KINDS[id(dtype)] = dtype, [fresh_kind(kind.element, max(ndim, 1)) for ndim in range(MAX_NDIM + 1)]
    if requires_grad:
        made.requires_grad = True  # before a tape meets it
    if zero and will_replay():
        made.zero_()  # a replay begins with zeros as well
    return made


_KINDS: dict[int, tuple[Any, list[FreshKind]]] = {}
"""Facts that new arrays share, by the identity of the type that is asked for, which is kept, and the number of axes.

Hashing a type takes as long as all else that is looked at."""
_KEPT: Final = 256
_LASTING: Final = (DType, CompositeType)
_PYTHONS: Final = (float, int, bool)
"""Types of elements that stay what they are: classes of structs may be defined once more."""


def _like(src: array, requires_grad: bool | None, device: Any, zero: bool, pinned: bool) -> array:
    wanted = src.requires_grad if requires_grad is None else requires_grad
    return _new(src.shape, src.dtype, wanted, src.device if device is None else device, zero, pinned)


def _type_of(value: Any) -> Any:
    composite = getattr(value, "composite", None)
    if composite is not None:
        return composite
    if isinstance(value, np.generic):
        return value.dtype
    return type(value)


# -- arrays without an element type ------------------------------------------------------------------------------------
# Arrays whose element type is chosen by the parameter they are passed to.
#
# An array over another library's memory, as Warp's ``from_torch(return_ctype=True)`` makes it, becomes an array with
# the elements and axes that a parameter takes.


class Untyped(array):
    """An array that parameters with other elements take too, where these are made of the same numbers."""

    __slots__ = ()

    source: Any
    """The object that owns the memory."""

    def taken_by(self, annotation: ArrayAnnotation) -> array:
        """Return the array that a parameter takes, or this one if there is none."""
        element = annotation.element
        if element is None or annotation.indexed or annotation.accepts(self._type):
            return self
        if not self.size:
            return empty((0,) * annotation.ndim, annotation.dtype, device=self.device)
        try:
            found = adopt(self.source, element)
        except (TypeError, ValueError):
            return self
        return found if found is not None and annotation.accepts(found._type) else self


def untyped(made: array, source: Any) -> array:
    """Return a new array as one whose memory parameters may interpret, where that can make a difference."""
    whole = isinstance(made._element, Scalar) and made._element.is_integer
    if type(made) is array and (made.ndim > 1 or not made.size or whole):
        made.__class__ = Untyped
        made.__dict__["source"] = source
    return made
