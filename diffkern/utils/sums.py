"""Sums, inner products, scans and casts of arrays."""

from __future__ import annotations

import math
from typing import Any

from diffkern.contracts.extents import whole_number
from diffkern.errors import LaunchError, described
from diffkern.ir.structs import Struct, carries_gradient
from diffkern.ir.types import BOOL, FLOAT64, Scalar, scalar_of
from diffkern.kernels.kernel import Kernel
from diffkern.lang.dtypes import SCALARS
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.convert import component_shape
from diffkern.runtime.arrays.create import empty
from diffkern.runtime.records.launch import launch
from diffkern.utils import kernels

__all__ = ["array_cast", "array_inner", "array_scan", "array_sum"]

_CHUNK = 1024
"""The number of elements that a thread adds up."""


def array_sum(values: array, out: array | None = None, value_count: int | None = None, axis: int | None = None) -> Any:
    """Add up the elements of an array, all of them or along an axis.

    Parameters
    ----------
    values : array
        Numbers, vectors or matrices.
    out : array, optional
        Takes the sum: of shape ``(1,)``, or that of `values` with 1 for the axis. With it the sum is recorded on a tape
        and has a derivative.
    value_count : int, optional
        The number of elements to add, from the first; with `axis` along it.
    axis : int, optional
        The axis along which elements are added.

    Returns
    -------
    number, vector or array
        The sum; with `out` or `axis` the array that holds it.

    Raises
    ------
    LaunchError
        If `out` has another type or shape.
    """
    if axis is not None:
        return _along(_first_along(values, axis, value_count), axis, out)
    flat = _first(values, value_count)
    result = _result(flat, flat._element, (1,), out)
    _total(flat, result)
    return out if out is not None else _number(result)


def array_inner(a: array, b: array, out: array | None = None, count: int | None = None, axis: int | None = None) -> Any:
    """Add up the products of the elements of two arrays; those of vectors are their dot products.

    Parameters
    ----------
    a, b : array
        Of one shape and type.
    out : array, optional
        Takes the sum, as of :func:`array_sum`.
    count : int, optional
        The number of products to add, from the first; with `axis` along it.
    axis : int, optional
        The axis along which products are added.

    Returns
    -------
    number or array
        The sum; with `out` or `axis` the array that holds it.

    Raises
    ------
    LaunchError
        If the arrays do not fit together.
    ValueError
        If their shapes differ.
    """
    if a.shape != b.shape:
        raise ValueError(f"the arrays of an inner product have one shape, not {a.shape} and {b.shape}")
    if a._element != b._element:
        raise LaunchError(
            f"the arrays of an inner product have one type, not {a._element} and {b._element}",
            remedy="convert one with dk.utils.array_cast",
        )
    composite = not isinstance(a._element, Scalar)
    if axis is not None:
        a, b = (_first_along(v, axis, count) for v in (a, b))
        count = None
    x, y = (_first(v, count) for v in (a, b))
    scalar = a._element.dtype if composite else a._element  # type: ignore[union-attr]
    # The products are an array of their own, so that their sum has the derivative of array_sum.
    product = like(a, x.shape, scalar, smooth=bool(a.requires_grad or b.requires_grad))
    if x.size:
        launch(kernels.inner_products if composite else kernels.products, dim=x.size, inputs=[x, y, product])
    return array_sum(product if axis is None else product.reshape(a.shape), out, axis=axis)


def array_scan(in_array: array, out_array: array, inclusive: bool = True) -> None:
    """Write the sums of all elements up to each one.

    Parameters
    ----------
    in_array : array
        Numbers or vectors, with one axis.
    out_array : array
        Of the same shape and type.
    inclusive : bool, optional
        Whether the sums contain the element itself.

    Raises
    ------
    LaunchError
        If the arrays do not fit together.
    """
    if in_array.shape != out_array.shape or in_array._element != out_array._element or in_array.ndim != 1:
        raise LaunchError(
            f"a scan takes two arrays of one type and shape with one axis, not {described(in_array)} "
            f"and {described(out_array)}",
            remedy="make the second one with dk.zeros_like of the first",
        )
    if in_array.size:
        kernel = kernels.scan_inclusive if inclusive else kernels.scan_exclusive
        # One thread: each sum needs the one before, and the adjoint runs along the same loop backwards.
        launch(kernel, dim=1, inputs=[in_array, out_array, in_array.size])


def array_cast(in_array: array, out_array: array, count: int | None = None) -> None:
    """Convert the elements of an array to the type of another.

    Parameters
    ----------
    in_array : array
        Any elements.
    out_array : array
        As many elements. Where its elements have another number of components, the components of both are taken one
        after the other, of contiguous arrays.
    count : int, optional
        The number of elements of `in_array` to convert, from the first, for arrays with one axis.

    Raises
    ------
    LaunchError
        If the arrays do not fit together.
    """
    # The count is that of elements of the first array, so it is converted to components as well.
    if (inner := component_shape(in_array._element)) != component_shape(out_array._element):
        count = None if count is None else count * math.prod(inner)
        in_array, out_array = _components(in_array), _components(out_array)
    partly = count is not None and (in_array.ndim > 1 or out_array.ndim > 1) and count != in_array.size
    if partly or (in_array.ndim == out_array.ndim > 1 and in_array.shape != out_array.shape):
        raise LaunchError(
            f"{described(in_array)} is not converted to {described(out_array)}"
            + (f" for {count} elements: of arrays with several axes all are" if partly else ": their shapes differ"),
            remedy="pass arrays of one shape",
        )
    n = in_array.size if count is None else count
    if n > min(in_array.size, out_array.size):
        raise LaunchError(
            f"{n} elements are to be converted of {in_array.size}, to an array of {out_array.size}",
            remedy="pass arrays with at least as many elements",
        )
    if n:
        launch(kernels.cast, dim=n, inputs=[_first(in_array, n), _target(out_array)[:n]])


def _components(values: array) -> array:
    """The components of elements one after the other, over the same memory."""
    element = values._element
    if isinstance(element, (Scalar, Struct)):
        return values
    return values.view(SCALARS[scalar_of(element).name]).flatten()


# -- methods of arrays -------------------------------------------------------------------------------------------------


def total(values: array, axis: int | None) -> array:
    """The sum of all elements, or along an axis, which stays with the extent 1; recorded on a tape."""
    if axis is not None:
        return _along(_first_along(values, axis, None), axis, None)
    result = like(values, (1,), values._element)
    _total(_first(values, None), result)
    return result


def extreme(values: array, axis: int | None, greatest: bool) -> array:
    """The greatest or the least element, or those along an axis, which stays with the extent 1; recorded on a tape.

    Raises
    ------
    LaunchError
        If the elements have no order, or there are none.
    """
    name = "max" if greatest else "min"
    if not isinstance(values._element, Scalar) or values._element == BOOL:
        raise LaunchError(
            f"{name}() is for arrays of numbers, not for {described(values)}",
            remedy="write any() or all() of bools; take one field or component of others",
        )
    extents = (values.size,) if axis is None else _first_along(values, axis, None).shape
    if not extents[axis or 0]:
        raise LaunchError(f"{described(values)} has no element to be the {name}", remedy="ask for its size first")
    if axis is not None:
        return _along(values, axis, None, kernels.greatest_of_axis if greatest else kernels.least_of_axis)
    result = like(values, (1,), values._element)
    _total(_first(values, None), result, kernels.greatest_of_chunks if greatest else kernels.least_of_chunks)
    return result


def converted(values: array, dtype: Any) -> array:
    """A new array of the same shape with elements of another type; recorded on a tape.

    Raises
    ------
    LaunchError
        If elements of one type do not become those of the other.
    """
    made = empty(values.shape, dtype=dtype, device=values.device)
    # A conversion to integers ends the flow of gradients.
    made.requires_grad = bool(values.requires_grad) and carries_gradient(made._element)
    if component_shape(made._element) != component_shape(values._element):
        raise LaunchError(
            f"{described(values)} does not become an array of {made.dtype!r}",
            remedy="pass a type with as many components",
        )
    array_cast(values, made)
    return made


# -- parts -------------------------------------------------------------------------------------------------------------


def like(values: array, shape: tuple[int, ...], element: Any, smooth: bool | None = None) -> array:
    """A new array where another one is, with a gradient if that has one."""
    made = new(shape, element, False, values._memory.device)
    made.requires_grad = bool(values.requires_grad) if smooth is None else smooth
    return made


def _first(values: array, count: int | None) -> array:
    """The elements of an array along one axis, or the first of them."""
    # An array with one axis may keep its stride.
    flat = values if values.ndim == 1 else values.contiguous().flatten()
    if count is None or count == flat.size:
        return flat
    if not 0 <= count <= flat.size:
        raise LaunchError(f"there are {flat.size} elements, not {count}", remedy="count at most the array's elements")
    first: array = flat[:count]
    return first


def _target(out: array) -> array:
    """An array that is written, along one axis."""
    return out if out.ndim == 1 else out.flatten()


def _result(values: array, element: Any, shape: tuple[int, ...], out: array | None) -> array:
    if out is None:
        return like(values, shape, element)
    if out._element != element or out.shape != shape:
        raise LaunchError(
            f"the result is {element} of shape {shape}, and out is {described(out)}",
            remedy="pass an array of that kind",
        )
    return out


def _total(flat: array, out: array, kernel: Kernel = kernels.sum_of_chunks) -> None:
    """Add up in chunks, one thread each, and the sums of the chunks likewise; or what else a kernel does with them."""
    # A tree of sums rounds less than one running sum, and its order does not depend on the number of threads.
    while flat.size > _CHUNK:
        chunks = -(-flat.size // _CHUNK)
        partial = like(flat, (chunks,), flat._element)
        launch(kernel, dim=chunks, inputs=[flat, partial, _CHUNK])
        flat = partial
    if flat.size:
        launch(kernel, dim=1, inputs=[flat, out, _CHUNK])
    else:
        out.zero_()


def _first_along(values: array, axis: int, count: int | None) -> array:
    """An array, or the part of it with the first indices along an axis."""
    if whole_number(axis) is None or not -values.ndim <= axis < values.ndim:
        raise LaunchError(
            f"there is no axis {axis!r} of an array with {values.ndim} axes", remedy="count the axes from 0"
        )
    extent = values.shape[axis]
    if count is None or count == extent:
        return values
    if not 0 <= count <= extent:
        raise LaunchError(f"axis {axis} has the extent {extent}, not {count}", remedy="count at most its extent")
    first: array = values[(slice(None),) * (axis % values.ndim) + (slice(count),)]
    return first


def _along(values: array, axis: int, out: array | None, kernel: Kernel = kernels.sum_of_axis) -> array:
    axis %= values.ndim
    shape = tuple(1 if k == axis else extent for k, extent in enumerate(values.shape))
    result = _result(values, values._element, shape, out)
    # The axes in front of the summed one, and those behind it, are flattened to one each: one kernel serves any number
    # of axes.
    outer, inner = 1, 1
    for k, extent in enumerate(values.shape):
        outer, inner = (outer * extent, inner) if k < axis else (outer, inner * (extent if k > axis else 1))
    if values.shape[axis] and result.size:
        # A copy only where the array is not contiguous; either is recorded.
        solid = values.contiguous().reshape((outer, values.shape[axis], inner))
        launch(kernel, dim=(outer, inner), inputs=[solid, result.reshape((outer, inner))])
    else:
        result.zero_()
    return result


def _number(result: array) -> Any:
    """The one element of an array, as a value."""
    # A sum of float64 is returned as a number of its own type.
    return result.item() if isinstance(result._element, Scalar) and result._element != FLOAT64 else result[0]
