"""Gradients of arrays that alias the memory of an array with a gradient.

An array that was made of the address, of a NumPy view or of another tensor knows nothing of the gradient of the array
that owns its memory. :func:`gradient_of_alias` finds the part for the same elements, whatever the strides of the three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from diffkern.errors import LaunchError, described
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.recast import Recast, are_same_numbers, is_injective

__all__ = ["gradient_of_alias"]


class _Axis(NamedTuple):
    """An axis of the owner in the direction of growing addresses, or several axes joined into one.

    Attributes
    ----------
    stride, in_gradient
        Bytes from one element to the next, in the owner and in its gradient.
    extent
        Number of elements.
    number
        Index of the axis; of joined axes, that of the last.
    is_reversed
        Whether its indices fall while addresses grow.
    """

    stride: int
    in_gradient: int
    extent: int
    number: int
    is_reversed: bool


def gradient_of_alias(held: array, owner: array, grad: array) -> array:
    """Return the part of a gradient that belongs to the elements of another array over its owner's memory.

    Raises
    ------
    LaunchError
        If these are not elements of the owner, or other numbers.
    """
    if held._same_place(owner):
        return grad
    found = _place(held, owner, grad) if are_same_numbers(held._element, owner._element) else None
    if found is None:
        raise LaunchError(
            f"{described(held)} lies in the memory of {described(owner)}, whose gradient has no part for it: it "
            "reaches beyond that array, goes across its rows, or consists of other numbers",
            remedy="pass the array that the launch was given, or a slice of it",
        )
    index, strides = found
    shape = held._data.shape

    # The view is kept as a function of the data, so that deriving it again from another gradient gives the same part.
    def view(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.lib.stride_tricks.as_strided(data[index], shape, strides)

    return grad._derive(Recast(view, True), held._element)


def _place(held: array, owner: array, grad: array) -> tuple[tuple[Any, ...], tuple[int, ...]] | None:
    """Return the index in the gradient of the element that matches an array's first one, and the strides from there."""
    own, data = owner._data, held._data
    # A distance in bytes determines an index only if distinct indices of the owner have distinct addresses.
    if not is_injective(owner) or not data.size or not own.size:
        return None
    axes = _axes(own, grad._data)
    # The owner's element of the lowest address, from which all distances are counted.
    index: list[Any] = [*[0] * own.ndim, ...]
    for axis in axes:
        if axis.is_reversed:
            index[axis.number] = axis.extent - 1
    distance = int(data.ctypes.data) - int(own[tuple(index)].ctypes.data)
    begin = _steps(distance, axes)
    if begin is None:
        return None
    for axis, count in zip(axes, begin, strict=True):
        index[axis.number] += -count if axis.is_reversed else count
    joined = _joined(axes)
    strides = _strides(distance, data, joined)
    return None if strides is None else (tuple(index), strides)


def _axes(own: np.ndarray[Any, Any], grad: np.ndarray[Any, Any]) -> list[_Axis]:
    """Return the axes with more than one element, in order of falling strides."""
    found = []
    for number, (extent, stride, other) in enumerate(zip(own.shape, own.strides, grad.strides, strict=True)):
        if extent > 1:
            found.append(_Axis(abs(stride), -other if stride < 0 else other, extent, number, stride < 0))
    return sorted(found, reverse=True)


def _joined(axes: Sequence[_Axis]) -> list[_Axis]:
    """Return the axes with neighbours merged that are contiguous with each other in the owner and in its gradient."""
    found: list[_Axis] = []
    for axis in axes:
        if found:
            before = found[-1]
            # The inner axis spans exactly one step of the outer one in both memories, so that one stride walks both.
            ends = axis.stride * axis.extent, axis.in_gradient * axis.extent
            if ends == (before.stride, before.in_gradient):
                found[-1] = axis._replace(extent=axis.extent * before.extent)
                continue
        found.append(axis)
    return found


def _steps(distance: int, axes: Sequence[_Axis]) -> list[int] | None:
    """Return a distance in bytes as a number of elements along each axis, or None if no element lies there."""
    found = []
    # Greedy division is exact as the axes are sorted by falling stride, and an injective owner's do not overlap.
    for axis in axes:
        count, distance = divmod(distance, axis.stride)
        found.append(count)
    return None if distance or any(not 0 <= n < axis.extent for n, axis in zip(found, axes, strict=True)) else found


def _strides(distance: int, data: np.ndarray[Any, Any], axes: Sequence[_Axis]) -> tuple[int, ...] | None:
    """Return the strides, in the gradient, of an array that begins `distance` bytes behind the owner's lowest element.

    Returns None if some element of the array is not one of the owner's.
    """
    begin = _steps(distance, axes)
    if begin is None:
        return None
    lowest, highest, strides = list(begin), list(begin), []
    for extent, stride in zip(data.shape, data.strides, strict=True):
        steps = _steps(abs(stride), axes) if extent > 1 else [0] * len(axes)
        if steps is None:
            return None
        sign = -1 if stride < 0 else 1
        strides.append(sign * sum(n * axis.in_gradient for n, axis in zip(steps, axes, strict=True)))
        bounds = lowest if sign < 0 else highest
        for k, count in enumerate(steps):
            # An array is a box of indices. It lies within the owner if its two extreme corners do.
            bounds[k] += sign * count * (extent - 1)
    fits = all(low >= 0 for low in lowest) and all(n < axis.extent for n, axis in zip(highest, axes, strict=True))
    return tuple(strides) if fits else None
