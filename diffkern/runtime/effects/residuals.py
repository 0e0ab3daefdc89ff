"""Index of the residuals that recorded launches still read in place, by their parts of a block of memory.

A need is a launch, a parameter and the part of it that matters; a write to a part ends the needs that it meets. A
trajectory kept in one array gives thousands of needs in one block, so that they are found by position: by addresses,
or, where the addresses of a part are those of the whole array (a column), by its indices along an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from diffkern.runtime.launch.regions import Region, meet, ranges_of

if TYPE_CHECKING:
    from diffkern.runtime.arrays.array import array
    from diffkern.runtime.effects.operation_step import OperationStep
    from diffkern.runtime.effects.rollout_step import RolloutStep
    from diffkern.runtime.effects.second_order import AdjointStep
    from diffkern.runtime.effects.tape_steps import LaunchStep

__all__ = ["Need", "Needs"]

_BUCKETS = 1024
_FEW = 16
_WIDE = 8


class Need:
    """A parameter's contents that the adjoint of a launch, or of a roll-out, may read.

    Attributes
    ----------
    step, index
        The step with the adjoint, and the parameter.
    held, region
        The array, and the part of it.
    is_known
        Whether it is known that the adjoint reads that part; otherwise it is determined when something overwrites it.
    before
        Whether it stands for the contents before the launch.
    alive
        Whether nothing has ended it.
    """

    __slots__ = ("alive", "before", "held", "high", "index", "is_known", "low", "region", "step")

    def __init__(
        self,
        step: LaunchStep | AdjointStep | RolloutStep | OperationStep,
        index: int,
        held: array,
        region: Region = None,
        *,
        is_known: bool = False,
        before: bool = False,
    ) -> None:
        self.step, self.index, self.held, self.region = step, index, held, region
        self.is_known, self.before, self.alive = is_known, before, True
        self.low, self.high = held._range
        if region:
            ranges = ranges_of(held, region)
            self.low, self.high = min(low for low, _ in ranges), max(high for _, high in ranges)

    @property
    def is_wanted(self) -> bool:
        """True if the adjoint reads it."""
        return self.is_known or self.step.needs_after(self.index)

    def lose(self) -> None:
        """Note that the contents were changed where the tape could not see it."""
        # Not in place: steps that have lost nothing share one empty set.
        step = self.step
        if self.before:
            step.lost_before = {*step.lost_before, self.index}
        else:
            step.lost = {*step.lost, self.index}


class Needs:
    """The needs on one block of memory.

    Parameters
    ----------
    nbytes : int
        Size of the block.
    first : Need, optional
        The first of them.
    """

    __slots__ = ("_buckets", "_lines", "_nbytes", "_wide", "_width")

    _buckets: dict[int, list[Need]]
    """By address; there from the moment when they have a width."""

    _lines: dict[tuple[bytes, int], dict[int, list[Need]]]
    """For each array, by its descriptor, and axis: by index. There from the same moment."""

    def __init__(self, nbytes: int, first: Need | None = None) -> None:
        self._nbytes = nbytes
        self._width = 0
        # Needs that every write looks at: the first few, and those that span many buckets or all of the block.
        self._wide: list[Need] = [] if first is None else [first]

    def add(self, need: Need) -> None:
        """Register a need."""
        # Most blocks have a handful of needs, for which a list is quicker than any index.
        if not self._width:
            self._wide.append(need)
            if len(self._wide) > _FEW:
                self._width = max(64, self._nbytes // _BUCKETS)
                self._buckets, self._lines = {}, {}
                few, self._wide = self._wide, []
                for each in few:
                    self.add(each)
            return
        # A need that spans few buckets is listed in each of them, so that a write looks only at the buckets it touches.
        if need.high - need.low < self._nbytes:
            first, last = self._span(need.low, need.high)
            if last - first < _WIDE:
                for k in range(first, last + 1):
                    self._buckets.setdefault(k, []).append(need)
                return
        # A column spans the whole block by addresses but a single index along its axis.
        axis, between = _narrowest(need.region)
        if len(between) > _WIDE:
            self._wide.append(need)  # a write to all ends it
            return
        line = self._lines.setdefault((need.held._packed, axis), {})
        for k in between:
            line.setdefault(k, []).append(need)

    def take(self, held: array, region: Region) -> list[Need]:
        """Remove and return the needs that a write to a part of an array ends."""
        taken: list[Need] = []
        if not self._width and not self._wide:
            return taken
        ranges = ranges_of(held, region)
        if not ranges:
            return taken
        low, high = ranges[0] if len(ranges) == 1 else (min(low for low, _ in ranges), max(end for _, end in ranges))

        def left(needs: Iterable[Need]) -> list[Need]:
            """Return the needs that stay; one may be in several lists."""
            kept = []
            for need in needs:
                # Taken by way of another list already.
                if not need.alive:
                    continue
                if need.low < high and low < need.high and meet(held, region, need.held, need.region):
                    need.alive = False
                    taken.append(need)
                else:
                    kept.append(need)
            return kept

        if self._wide:
            self._wide = left(self._wide)
        if not self._width:
            return taken
        for start, end in ranges:
            _look_through(self._buckets, range(self._span(start, end)[0], self._span(start, end)[1] + 1), left)
        for (packed, axis), line in self._lines.items():
            # The boxes of the same array are compared by index; another array over the block may meet any line.
            if region is not None and packed == held._packed:
                for extent in region:
                    _look_through(line, range(*extent[axis]), left)
            else:
                _look_through(line, line.keys(), left)
        return taken

    def __iter__(self) -> Iterator[Need]:
        """Iterate over the remaining needs; one may occur twice."""
        yield from self._wide
        if not self._width:
            return
        for where in (self._buckets, *self._lines.values()):
            for needs in list(where.values()):
                yield from (need for need in needs if need.alive)

    def _span(self, low: int, high: int) -> tuple[int, int]:
        return low // self._width, max(low, high - 1) // self._width


def _look_through(
    where: dict[int, list[Need]], keys: Collection[int], left: Callable[[Iterable[Need]], list[Need]]
) -> None:
    """Remove from some lists the needs that do not stay."""
    # Whichever is shorter is walked: a small write to a large index, or a large write to a sparse one.
    for k in list(keys if len(keys) < len(where) else where):
        if k in where and k in keys:
            kept = left(where[k])
            if kept:
                where[k] = kept
            else:
                del where[k]


def _narrowest(region: Region) -> tuple[int, range]:
    """Return the axis along which boxes span the fewest indices, and these."""
    if not region:
        return 0, range(_WIDE + 1)
    around: Sequence[range] = [
        range(min(extent[axis][0] for extent in region), max(extent[axis][1] for extent in region))
        for axis in range(len(region[0]))
    ]
    return min(enumerate(around), key=lambda one: len(one[1]))
