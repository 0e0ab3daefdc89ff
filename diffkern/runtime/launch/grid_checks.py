"""Checks that a launch's dimensions fit a program and its arrays, before anything runs.

A :class:`LaunchError` has a message that begins where the kernel's name ends. The checks hold for every way to launch:
at once, as a record, on a tape or in a sequence, from JAX and from PyTorch, and for an adjoint, whose threads are those
of the forward launch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diffkern.contracts.argument_block import Layout
from diffkern.contracts.manifest import AxisAccess, IndexStep, Linear, Manifest
from diffkern.errors import LaunchError
from diffkern.runtime.launch.schedule import Grid

__all__ = ["AxesError", "Extents", "OneThreadError", "check_alone", "check_axes", "check_extents", "named"]

_CACHED = 256
_MOST_THREADS = 2**20
"""Threads for which an index that wraps around is computed; of a larger launch it is so many of them."""
_WIDTHS = {f"{kind}{bits}": (kind == "int", bits) for kind in ("int", "uint") for bits in (8, 16, 32, 64)}


class OneThreadError(LaunchError):
    """A launch has several threads although the kernel is only right with one."""


class AxesError(LaunchError):
    """A launch has another number of axes than its kernel asks ``tid()`` for.

    Attributes
    ----------
    asked : int
        Number of axes that the kernel asks for.
    dims : tuple of int
        The launch's dimensions.
    """

    def __init__(self, message: str, asked: int = 0, dims: Sequence[Any] = (), *, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.asked = asked
        self.dims = tuple(dims)


def named(kernel: str, error: LaunchError) -> LaunchError:
    """Return an error of this module with the kernel's name in front."""
    # Formatting the name into each message would cost time at checks that pass; the error is completed where it leaves.
    made = copy.copy(error)
    made.message = f"kernel {kernel!r}: {error.message}"
    made.args = (made.message,)
    return made


# -- axes --------------------------------------------------------------------------------------------------------------


def check_axes(tid_arity: int, dims: Sequence[Any]) -> None:
    """Check that a launch has as many axes as the kernel asks ``tid()`` for; a kernel that does not ask takes any.

    Parameters
    ----------
    tid_arity : int
        Number of axes that the kernel asks for.
    dims : sequence
        The launch's dimensions, of which only the number matters.

    Raises
    ------
    AxesError
        With both readings of such dimensions.
    """
    asked, given = tid_arity, len(dims)
    if asked in (0, given):
        return
    shown = f"{tuple(dims)}" if given > 1 else f"{dims[0]}"
    raise AxesError(
        f"dim={shown} is a grid of {_axes(given)}, and the kernel asks tid() for {_axes(asked)}",
        asked,
        dims,
        remedy=_readings(asked, dims),
    )


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def _readings(asked: int, dims: Sequence[Any]) -> str:
    """Return the possible meanings of the dimensions, and how to write each."""
    unpacked = ", ".join("ijkl"[: len(dims)])
    grid = f"for a grid of {' × '.join(map(str, dims))} threads unpack {unpacked} = dk.tid()"
    if asked == 1 and len(dims) == 2 and all(isinstance(extent, int) for extent in dims):
        blocks, threads = dims
        return (
            f"{grid}; for {blocks} blocks of {threads} threads, numba's reading of kernel[{blocks}, {threads}], write "
            f"kernel[{blocks * threads}] (block_dim={threads} in dk.launch sets the size of a block)"
        )
    return f"{grid}; or give dim {_axes(asked)}"


# -- one thread --------------------------------------------------------------------------------------------------------


def check_alone(manifest: Manifest, dims: Sequence[int]) -> None:
    """Check that a kernel has one thread if its threads would all change one element that they have read.

    Raises
    ------
    OneThreadError
        If it has several.
    """
    array = manifest.alone
    if array is None or math.prod(dims) <= 1:
        return
    raise OneThreadError(
        f"each of the {math.prod(dims)} threads reads the same element of {array!r} and stores what it makes of it, so "
        "that the result depends on their order",
        remedy=f"use {array}[…] += value or an atomic, let one thread do it (if i == 0), or launch one thread",
    )


# -- shapes ------------------------------------------------------------------------------------------------------------


class Extents:
    """The accesses that all threads of a program make, against which its launches are checked.

    Parameters
    ----------
    manifest : Manifest
        The program's manifest.
    layout : Layout
        The layout of its argument block.

    Attributes
    ----------
    last : tuple of Grid and bytes
        Grid and arguments of the last launch that passed: the next one is usually the same.
    """

    __slots__ = ("_entries", "_names", "_passed", "_shapes", "_unpack", "last")

    def __init__(self, manifest: Manifest, layout: Layout) -> None:
        self._entries = manifest.accesses
        self._names = [p.name for p in manifest.params]
        # The arrays in question, each with its number of axes.
        self._shapes = sorted({(k, ndim) for entry in self._entries for k, ndim in entry.shapes})
        self._unpack = layout.shapes(self._shapes)
        self._passed: set[tuple[bytes, tuple[int, ...]]] = set()
        self.last: tuple[Grid | None, bytes] = None, b""

    def check(self, kernel: str, grid: Grid, arguments: bytes) -> None:
        """Check a launch.

        Parameters
        ----------
        kernel : str
            The kernel's name.
        grid : Grid
            Its threads.
        arguments : bytes
            Its packed parameters.

        Raises
        ------
        LaunchError
            If threads would leave an array.
        """
        last = self.last
        if last[1] == arguments and last[0] is grid:
            return
        extents = self._unpack(arguments)
        # Only extents matter for the result, so that launches over other arrays of the same shapes pass without a
        # check.
        key = grid.header, extents
        if key not in self._passed:
            left = iter(extents)
            shapes = {k: [next(left) for _ in range(ndim)] for k, ndim in self._shapes}
            try:
                check_extents(self._entries, self._names, grid.dims, shapes)
            except LaunchError as error:
                raise named(kernel, error) from None
            # Emptied as a whole: a program with ever new shapes must not grow, and which entries go does not matter.
            if len(self._passed) >= _CACHED:
                self._passed.clear()
            self._passed.add(key)
        self.last = grid, arguments


def check_extents(
    entries: Sequence[AxisAccess],
    names: Sequence[str],
    dims: Sequence[int],
    shapes: Mapping[int, Sequence[int]],
) -> None:
    """Check the accesses that all threads make against the shapes of the arrays.

    Parameters
    ----------
    entries : sequence of Access
        The accesses.
    names : sequence of str
        Names of the program's parameters.
    dims : sequence of int
        The launch's dimensions.
    shapes : mapping
        The shape of each array that the entries name, by parameter.

    Raises
    ------
    LaunchError
        If one of them lies outside its array.
    """
    if math.prod(dims) == 0:
        return
    for entry in entries:
        # An access inside a loop that makes no trip does not happen.
        if any(_value(trips, shapes) <= 0 for trips in entry.trips):
            continue
        low, high = _wrapped(entry.steps, dims, shapes) if entry.steps else _corners(entry, dims, shapes)
        length = shapes[entry.array][entry.axis]
        outside = high if high >= length else low if entry.wrap and low < -length else None
        if outside is not None:
            _refuse(names[entry.array], entry.axis, shapes[entry.array], outside)


def _corners(entry: AxisAccess, dims: Sequence[int], shapes: Mapping[int, Sequence[int]]) -> tuple[int, int]:
    """Return the least and the greatest index of an access whose index does not wrap around."""
    low, high = _value(entry.low, shapes), _value(entry.high, shapes)
    # The index is affine in the thread indices, so that it is extreme at corners of the grid.
    for axis, c in entry.tid:
        reach = c * (dims[axis] - 1)
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high


def _wrapped(steps: Sequence[IndexStep], dims: Sequence[int], shapes: Mapping[int, Sequence[int]]) -> tuple[int, int]:
    """Return the least and the greatest index, computed as threads do: modulo 2**64, and reduced on the way."""
    axes = sorted({step.a for step in steps if step.op == "tid"})
    # Axes get an equal share of the threads, so that their product stays within the bound.
    most = int(_MOST_THREADS ** (1 / max(len(axes), 1)))
    stack: list[Any] = []
    for step in steps:
        match step.op:
            case "const":
                stack.append(np.uint64(step.a % 2**64))
            case "shape":
                stack.append(np.uint64(shapes[step.a][step.b]))
            case "tid":
                # Each axis of the grid is an axis of its own, and broadcasting computes all threads at once.
                at = [1] * len(axes)
                at[axes.index(step.a)] = -1
                stack.append(_threads(dims[step.a], most).reshape(at))
            case "neg":
                stack.append(np.uint64(0) - stack.pop())
            case "wrap":
                stack.append(_reduced(stack.pop(), step.type))
            case _:
                b, a = stack.pop(), stack.pop()
                stack.append(a + b if step.op == "add" else a - b if step.op == "sub" else a * b)
    (index,) = stack
    if steps[-1].type != "uint64":
        # Arithmetic modulo 2**64 does not depend on the sign; only the final index is read as signed.
        index = np.asarray(index).view(np.int64)
    return int(np.min(index)), int(np.max(index))


def _threads(extent: int, most: int) -> Any:
    """Return the thread indices along an axis, or the first and the last of many."""
    if extent <= most:
        return np.arange(extent, dtype=np.uint64)
    # An affine index is extreme at the ends of an axis; between them it is taken to behave like at the ends.
    ends = np.arange(most // 2, dtype=np.uint64)
    return np.concatenate([ends, np.uint64(extent) - np.uint64(1) - ends])


def _reduced(value: Any, type_: str) -> Any:
    """Return a number modulo 2**64 reduced to the range of a type, again modulo 2**64."""
    signed, bits = _WIDTHS[type_]
    shift = np.uint64(64 - bits)
    raised = np.asarray(value) << shift
    # Shifting up and down again cuts the upper bits off, and an arithmetic shift extends the sign.
    return (raised.view(np.int64) >> np.int64(shift)).view(np.uint64) if signed else raised >> shift


def _value(linear: Linear, shapes: Mapping[int, Sequence[int]]) -> int:
    return linear.const + sum(c * shapes[k][axis] for k, axis, c in linear.terms)


def _refuse(name: str, axis: int, shape: Sequence[int], outside: int) -> None:
    way = "up" if outside >= 0 else "down"
    raise LaunchError(
        f"its threads go {way} to index {outside} along axis {axis} of {name!r}, outside its shape {tuple(shape)}",
        remedy=f"launch fewer threads, pass a larger array, or guard the access: if i < {name}.shape[{axis}]",
    )
