"""Which recorded launches still rely on the present contents of which bytes of a block of memory.

In: needs, each a launch, a parameter and a range of addresses. Out: the needs that a write to a range ends. A
trajectory kept as the rows of one array gives thousands of needs in one block, so they are found by where they lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffkern.runtime.history import LaunchStep
    from diffkern.runtime.rollout_step import RolloutStep
    from diffkern.runtime.second_order import AdjointStep

__all__ = ["Need", "Needs"]

_BUCKETS = 1024
_FEW = 16
_WIDE = 8


class Need:
    """That the adjoint of a launch, or of a roll-out, may read what a parameter holds."""

    __slots__ = ("alive", "high", "index", "low", "step")

    def __init__(self, step: LaunchStep | AdjointStep | RolloutStep, index: int, low: int, high: int) -> None:
        self.step = step
        self.index = index
        self.low = low
        self.high = high
        self.alive = True


class Needs:
    """The needs on one block of memory, in buckets by address.

    Parameters
    ----------
    nbytes : int
        Size of the block.
    first : Need, optional
        The first of them.
    """

    __slots__ = ("_buckets", "_nbytes", "_wide", "_width")

    _buckets: dict[int, list[Need]]
    """There from the moment when they have a width."""

    def __init__(self, nbytes: int, first: Need | None = None) -> None:
        self._nbytes = nbytes
        self._width = 0
        # Needs that every write looks at: the first few, and those that span many buckets or all of the block.
        self._wide: list[Need] = [] if first is None else [first]

    def add(self, need: Need) -> None:
        """Register a need."""
        if not self._width:
            self._wide.append(need)
            if len(self._wide) > _FEW:
                self._width = max(64, self._nbytes // _BUCKETS)
                self._buckets = {}
                few, self._wide = self._wide, []
                for each in few:
                    self.add(each)
            return
        if need.high - need.low >= self._nbytes:  # the next write ends it
            self._wide.append(need)
            return
        first, last = self._span(need.low, need.high)
        if last - first >= _WIDE:
            self._wide.append(need)
            return
        for k in range(first, last + 1):
            self._buckets.setdefault(k, []).append(need)

    def take(self, low: int, high: int) -> list[Need]:
        """Return the needs that overlap a range, and forget them."""
        taken = [need for need in self._wide if need.low < high and low < need.high]
        if taken:
            self._wide = [need for need in self._wide if need.low >= high or low >= need.high]
        if not self._width:
            return taken
        first, last = self._span(low, high)
        touched = range(first, last + 1) if last - first < len(self._buckets) else list(self._buckets)
        for k in touched:
            kept = []
            for need in self._buckets.get(k, ()):
                if need.alive and need.low < high and low < need.high:
                    # It may stand in a neighbouring bucket as well.
                    need.alive = False
                    taken.append(need)
                elif need.alive:
                    kept.append(need)
            if k in self._buckets:
                self._buckets[k] = kept
        return taken

    def __iter__(self) -> Iterator[Need]:
        """Iterate over the needs that are left; one may come twice."""
        yield from self._wide
        if not self._width:
            return
        for bucket in list(self._buckets.values()):
            yield from (need for need in bucket if need.alive)

    def _span(self, low: int, high: int) -> tuple[int, int]:
        return low // self._width, max(low, high - 1) // self._width
