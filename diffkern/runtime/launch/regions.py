"""The elements of its arrays that a launch touches, as boxes of indices.

From the :class:`~diffkern.contracts.manifest.Box` es of a program, the dimensions of a launch, its integer arguments
and the extents of its arrays follows for each array a :data:`Region`: boxes that contain all that the launch touches.
Two regions tell a tape whether one launch overwrites what the adjoint of another one needs.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from diffkern.contracts.manifest import Box, IntegerForm, IntegerRange, Manifest, Monomial
from diffkern.ir.types import Scalar, parse_type
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.recast import is_injective
from diffkern.runtime.launch.race_checks import number_in

if TYPE_CHECKING:
    from diffkern.runtime.launch.packed import PackedLaunch

__all__ = ["Extent", "Region", "Regions", "joined", "meet", "part_of", "ranges_of", "size_of"]

Extent: TypeAlias = "tuple[tuple[int, int], ...]"
"""For each axis the first index and the one behind the last."""

Region: TypeAlias = "tuple[Extent, ...] | None"
"""Boxes that contain the elements of an array in question, or None for all of it."""

_LIMIT = 2**31
"""Beyond this an index of 32 bits may have wrapped around."""
_CACHED = 1024
_address = struct.Struct("q")


class Regions:
    """The regions that launches of one program touch.

    Parameters
    ----------
    manifest : Manifest
        The program's manifest.

    Attributes
    ----------
    arguments : frozenset of int
        The integer parameters that the regions depend on.
    are_known : bool
        Whether anything is known of any parameter.
    """

    __slots__ = ("_boxes", "_found", "_places", "_types", "are_known", "arguments")

    def __init__(self, manifest: Manifest) -> None:
        every = {
            (what, p.of): boxes
            for p in manifest.params
            for what, boxes in ((p.role, p.read), ("written", p.written))
            if boxes is not None
        }
        self._places = sorted({place for boxes in every.values() for box in boxes for place in _places(box)})
        self._types = {k: parse_type(manifest.params[k].type) for k, axis in self._places if axis < 0}
        self._boxes: Mapping[tuple[str, int], tuple[Box, ...]] = every
        if not all(isinstance(t, Scalar) for t in self._types.values()):
            self._boxes, self._places = {}, []  # values by reference, which only the program sees
        self.are_known = bool(self._boxes)
        self.arguments = frozenset(self._types)
        self._found: dict[tuple[object, ...], Region] = {}

    def read(self, launch: PackedLaunch, index: int) -> Region:
        """Return the region of a parameter that the program reads."""
        return self._of(launch, "param", index)

    def read_before(self, launch: PackedLaunch, index: int) -> Region:
        """Return the region of a parameter that an adjoint reads as it was before the launch."""
        return self._of(launch, "saved", index)

    def written(self, launch: PackedLaunch, index: int) -> Region:
        """Return the region of a parameter that the program writes."""
        return self._of(launch, "written", index)

    def _of(self, launch: PackedLaunch, what: str, index: int) -> Region:
        boxes, held = self._boxes.get((what, index)), launch.arrays[index]
        if boxes is None or held is None:
            return None
        parts, types, dims = launch.parts, self._types, launch.dims
        numbers = tuple([number_in(parts[k], types.get(k), axis) for k, axis in self._places])
        # Everything that the boxes are computed from, so that a loop over launches computes each only once.
        key = (what, index, dims, numbers, held.shape)
        if key not in self._found:
            if len(self._found) >= _CACHED:
                self._found.clear()
            known = _Numbers(dims, dict(zip(self._places, numbers, strict=True)))
            self._found[key] = known.region(boxes, held.shape)
        return self._found[key]


def _places(box: Box) -> Iterable[tuple[int, int]]:
    """Yield the extents (parameter, axis) and arguments (parameter, -1) that a box depends on."""
    bounds = [form for span in box.spans for form in (span.low, span.high)]
    for form in (*box.index, *box.exact, *bounds):
        for p in () if form is None else (form.const, *(c for _, c in form.terms)):
            for one in p:
                yield from one.of
    for span in box.spans:
        for one in span.divisor:
            yield from one.of


class _WrappedError(Exception):
    """Numbers of 32 bits may have wrapped around."""


class _Numbers:
    """The numbers of one launch."""

    def __init__(self, dims: Sequence[int], known: Mapping[tuple[int, int], int]) -> None:
        self.dims, self.known = dims, known

    def region(self, boxes: Sequence[Box], shape: Sequence[int]) -> Region:
        try:
            found = [extent for box in boxes if (extent := self.extent(box, shape)) is not None]
        # The kernel computes with 32 bits: an index that wraps may be anywhere, so that the region is the whole array.
        except _WrappedError:
            return None
        return _merged(found) if len(found) > 1 else tuple(found)

    def extent(self, box: Box, shape: Sequence[int]) -> Extent | None:
        """Return the extent of the elements of an array in a box; None if there are none."""
        bounds: list[tuple[int, int]] = []
        for span in box.spans:
            low, high = self.between(span, bounds)
            if low > high:
                return None
            bounds.append((low, high))
        # Evaluated for their errors only: intermediate results of the index that may wrap around.
        for form in box.exact:
            self.interval(form, bounds)
        found = []
        for index, wraps, length in zip(box.index, box.wrap, shape, strict=True):
            low, high = (0, length - 1) if index is None else self.interval(index, bounds)
            # Negative indices count from the end. An interval that crosses zero falls into two parts, which one box
            # cannot express.
            if wraps and low < 0:
                low, high = (low + length, high + length) if high < 0 else (0, length - 1)
            low, high = max(low, 0), min(high, length - 1)
            if low > high:
                return None
            found.append((low, high + 1))
        return tuple(found)

    def between(self, span: IntegerRange, bounds: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Return the least and the greatest value of an integer of a thread."""
        if span.kind == "thread":
            return 0, self.dims[span.axis] - 1
        assert span.high is not None
        low, high = self.interval(span.high, bounds)
        divisor = self.value(span.divisor)
        if divisor <= 0:
            raise _WrappedError
        if span.kind == "loop":
            assert span.low is not None
            return self.interval(span.low, bounds)[0], high // divisor
        if span.kind == "quotient":
            return low // divisor, high // divisor
        # Within one multiple of the divisor the remainder is monotonic; across several it takes any value.
        return (low % divisor, high % divisor) if low // divisor == high // divisor else (0, divisor - 1)

    def interval(self, form: IntegerForm, bounds: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Return the least and the greatest value of an affine form.

        Raises
        ------
        _WrappedError
            If 32 bits may not suffice for it, or for what it is computed from.
        """
        low = high = self.value(form.const)
        for k, p in form.terms:
            c = self.value(p)
            one, other = c * bounds[k][0], c * bounds[k][1]
            if not -_LIMIT <= one < _LIMIT or not -_LIMIT <= other < _LIMIT:
                raise _WrappedError
            low += min(one, other)
            high += max(one, other)
        if low < -_LIMIT or high >= _LIMIT:
            raise _WrappedError
        return low, high

    def value(self, p: Sequence[Monomial]) -> int:
        total = 0
        for one in p:
            product = one.factor
            for place in one.of:
                product *= self.known[place]
            if not -_LIMIT <= product < _LIMIT:
                raise _WrappedError
            total += product
        return total


def _merged(extents: Sequence[Extent]) -> tuple[Extent, ...]:
    """Return boxes with some merged that overlap or touch each other, where that adds few elements."""
    found: list[Extent] = []
    for extent in extents:
        now = extent
        # A merged box may touch others that neither of the two did, and is compared with all again.
        while (other := next((one for one in found if _are_one(one, now)), None)) is not None:
            found.remove(other)
            now = _around(other, now)
        found.append(now)
    return tuple(found)


def _are_one(a: Extent, b: Extent) -> bool:
    """Return whether one box around two has no more elements than they have together."""
    return size_of((_around(a, b),)) <= size_of((a,)) + size_of((b,))


def _around(a: Extent, b: Extent) -> Extent:
    return tuple([(min(low, other), max(high, end)) for (low, high), (other, end) in zip(a, b, strict=True)])


def joined(a: Region, b: Region) -> Region:
    """Return a region that contains two regions of one array."""
    return None if a is None or b is None else _merged((*a, *b))


def size_of(region: Sequence[Extent]) -> int:
    """Return the number of elements of boxes, counting those in two boxes twice."""
    return sum(math.prod(high - low for low, high in extent) for extent in region)


def part_of(held: array, extent: Extent) -> array:
    """Return the elements of an array in a box, as a view."""
    index = (*(slice(low, high) for low, high in extent), ...)
    return held._derive(lambda data: data[index])


def meet(held: array, region: Region, other: array, others: Region) -> bool:
    """Return whether two regions, each of an array, may have elements in common."""
    if held._memory is not other._memory:
        return False
    # Boxes of the same array are compared by indices, which tells interleaved columns apart; other arrays only by
    # address.
    if (held is other or held._same_place(other)) and is_injective(held):
        if region is None or others is None:
            return region != () and others != ()
        return any(_overlap(one, two) for one in region for two in others)
    return any(
        low < end and start < high for low, high in ranges_of(held, region) for start, end in ranges_of(other, others)
    )


def _overlap(a: Extent, b: Extent) -> bool:
    return all(low < end and start < high for (low, high), (start, end) in zip(a, b, strict=True))


def ranges_of(held: array, region: Region) -> list[tuple[int, int]]:
    """Return the range of addresses of each box of an array."""
    if region is None:
        return [held._range]
    (address,), strides = _address.unpack_from(held._packed), held._data.strides[: len(held.shape)]
    size = held._data.nbytes // max(held.size, 1)
    found = []
    for extent in region:
        low = high = address
        for (first, end), stride in zip(extent, strides, strict=True):
            if stride < 0:
                low, high = low + (end - 1) * stride, high + first * stride
            else:
                low, high = low + first * stride, high + (end - 1) * stride
        found.append((low, high + size))
    return found
