"""The number of values that a function holds at once.

:func:`most_alive` returns the largest number of values that have been computed and are still needed, in program order.
A value from outside a loop is needed until the loop ends.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.types import Mat, Scalar, Vec
from diffkern.ir.views import is_loop

__all__ = ["most_alive"]


def most_alive(fn: Function, counted: Callable[[Value], bool]) -> int:
    """Return the largest number of components of vectors, matrices and scalars that are alive at once.

    Parameters
    ----------
    fn : Function
        The function to analyse.
    counted : callable
        Selects the values that count.
    """
    lives = _Lives()
    lives.region(fn.body, fn.params)
    # A difference array: sizes are added where a life starts and removed where it ends; its running sum is the
    # pressure.
    changes = [0] * (lives.now + 2)
    for value, (start, end) in lives.spans.items():
        if counted(value):
            size = _components(value)
            changes[start] += size
            changes[end] -= size
    return max(accumulate(changes))


def _components(value: Value) -> int:
    t = value.type
    if isinstance(t, (Vec, Mat)):
        return t.size
    return 1 if isinstance(t, Scalar) else 0


class _Lives:
    """Walks a function and notes the span in which each value is needed."""

    def __init__(self) -> None:
        self.now = 0
        self.spans: dict[Value, tuple[int, int]] = {}
        self._depth: dict[Value, int] = {}
        self._outer: list[set[Value]] = []  # for each loop around: what it uses that is defined just outside

    def region(self, region: Region, params: tuple[Value, ...]) -> None:
        self._define(params)
        for op in region.ops:
            self._op(op)
        self.now += 1
        self._use(region.yields)

    def _op(self, op: Op) -> None:
        self.now += 1
        self._use(op.operands)
        loop = is_loop(op)
        if loop:
            self._outer.append(set())
        for region in op.regions:
            self.region(region, region.params)
        if loop:
            self.now += 1
            # Used again at the end of the loop: the next trip needs the value, so it lives at least that long.
            self._use(self._outer.pop())
        self._define(op.results)

    def _define(self, values: tuple[Value, ...]) -> None:
        for v in values:
            self.spans[v] = self.now, self.now
            self._depth[v] = len(self._outer)

    def _use(self, values: tuple[Value, ...] | set[Value]) -> None:
        for v in values:
            self.spans[v] = self.spans[v][0], self.now
            if len(self._outer) > self._depth[v]:  # the outermost of these loops ends last
                self._outer[self._depth[v]].add(v)
