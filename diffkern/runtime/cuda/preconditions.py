"""Preconditions of a GPU's code on the arrays of a launch, checked in the argument block.

They are checked for a program's manifest and an argument block: an array must begin where the code assumes, and whether
any array that is written overlaps another one decides about the program. A block holds all that is needed, so that
launches, records, adjoints and arrays of other libraries are checked in the same place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from diffkern.contracts.argument_block import Layout
from diffkern.contracts.manifest import Manifest
from diffkern.errors import LaunchError
from diffkern.ir.types import Array, parse_type

__all__ = ["ArrayRules"]


class _Array(NamedTuple):
    """An array parameter: the position of its fields among those of all arrays, and the assumptions about it."""

    label: str
    first: int
    ndim: int
    itemsize: int
    align: int
    contiguous: bool
    written: bool


class ArrayRules:
    """The assumptions of a program about its arrays.

    Parameters
    ----------
    kernel : str
        The kernel's name, for messages.
    manifest : Manifest
        The program's manifest.
    layout : Layout
        The layout of its argument block.
    """

    __slots__ = ("_arrays", "_kernel", "_pairs", "fields")

    def __init__(self, kernel: str, manifest: Manifest, layout: Layout) -> None:
        self._kernel = kernel
        self._arrays: list[_Array] = []
        writes = set(manifest.writes)
        found: list[tuple[int, int]] = []
        first = 0
        for index, entry in enumerate(manifest.params):
            t, role = parse_type(entry.type), entry.role
            if not isinstance(t, Array):
                continue
            t = t.held  # the block describes the elements, and these the arrays in them
            found.append((index, t.ndim))
            label = repr(entry.name) if role == "param" else f"{entry.name!r} ({role})"
            written = role == "cotangent" or (role == "param" and entry.of in writes)
            align = entry.align or 1
            self._arrays.append(_Array(label, first, t.ndim, t.dtype.itemsize, align, t.layout == "C", written))
            first += 1 + 2 * t.ndim
        self.fields = layout.descriptions(found)
        """Unpacks what a block says of its arrays, behind the header."""
        # Arrays that are only read may overlap as they like.
        places = range(len(self._arrays))
        each = [(i, j) for i in places for j in places[i + 1 :]]
        self._pairs = [(i, j) for i, j in each if self._arrays[i].written or self._arrays[j].written]

    def check(self, fields: Sequence[int]) -> None:
        """Raise if an array does not begin where the code assumes.

        Raises
        ------
        LaunchError
            Naming the array.
        """
        for a in self._arrays:
            # An array without elements is never accessed, whatever its address.
            if fields[a.first] % a.align and all(fields[a.first + 1 : a.first + 1 + a.ndim]):
                kind = "contiguous array" if a.contiguous else "array"
                raise LaunchError(
                    f"kernel {self._kernel!r}, parameter {a.label}: the program reads the elements of this {kind} "
                    f"{a.align} bytes at a time, and its first one has the address {fields[a.first]:#x}, which is no "
                    f"multiple of {a.align}",
                    remedy="pass a copy, for example dk.clone() of it, or memory that begins at a multiple of that",
                )

    def distinct(self, fields: Sequence[int]) -> bool:
        """Return whether no array that is written overlaps another one."""
        places = [_place(a, fields) for a in self._arrays]
        return all(_disjoint(places[i], places[j]) for i, j in self._pairs)


class _Place(NamedTuple):
    """The bytes of an array: from the first to the last, and the period with which they repeat."""

    address: int
    low: int
    high: int
    itemsize: int
    step: int


def _place(a: _Array, fields: Sequence[int]) -> _Place:
    address = low = high = fields[a.first]
    step = 0
    for axis in range(a.first + 1, a.first + 1 + a.ndim):
        extent, stride = fields[axis], fields[axis + a.ndim]
        if extent == 0:
            return _Place(0, 0, 0, 0, 0)
        if extent > 1:
            step = math.gcd(step, stride)
            reach = stride * (extent - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
    return _Place(address, low, high + a.itemsize, a.itemsize, step)


def _disjoint(a: _Place, b: _Place) -> bool:
    """Return whether two arrays share no byte, as far as addresses and strides tell."""
    if a.high <= b.low or b.high <= a.low:
        return True
    # Fields of one array of structs, or every other element: all addresses repeat with the common divisor of strides.
    step = math.gcd(a.step, b.step)
    distance = (b.address - a.address) % step if step else 0
    # Within one period, the elements of one array end before those of the other begin.
    return distance >= a.itemsize and distance + b.itemsize <= step
