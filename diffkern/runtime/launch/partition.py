"""Partition of a launch's threads into chunks, and of an adjoint's into chunks that do not race.

From numbers of threads, of operations and of scalars, and an :class:`Arithmetic` over such numbers, comes a
:class:`Partition`. Launches from Python decide with Python's integers, calls from JAX with words of native code, whose
sizes are known when the call runs; both use the same rules, so that a gradient is the same number either way.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

__all__ = [
    "COST_UNIT", "INTEGERS", "MAX_CHUNKS", "MAX_GROUPS", "Arithmetic", "Grain", "Partition", "chunk_of",
    "distance_of", "partition",
]  # fmt: skip

MAX_CHUNKS = 256
MAX_GROUPS = 256
_MANY_GROUPS = 32  # of what costs next to nothing, so many; of what costs little, four for each processor
# A launch takes so many times as long if it updates atomically: the most where threads do little else, the least where
# one has so many operations in all.
_MOST_BEHIND, _LEAST_BEHIND, _HIDDEN = 8, 2, 64
COST_UNIT = 64
"""Costs are integers of which so many are one operation."""
_FEWEST = 5  # launches that are not worth so many chunks are one: waking a thread costs more
_ROUNDING = 64  # chunks begin on cache lines of the elements they write
_ENOUGH = 32  # chunks that keep most machines busy: where there are so many, their threads fill several registers


class Arithmetic(Protocol):
    """Operations on non-negative integers; ``choose`` takes a condition made by ``compare``, ``all`` or ``any``."""

    def add(self, x: Any, y: Any, /) -> Any: ...
    def mul(self, x: Any, y: Any, /) -> Any: ...
    def sub(self, x: Any, y: Any, /) -> Any: ...
    def ceil_div(self, x: Any, y: Any, /) -> Any: ...
    def min(self, x: Any, y: Any, /) -> Any: ...
    def max(self, x: Any, y: Any, /) -> Any: ...
    def compare(self, how: str, x: Any, y: Any, /) -> Any: ...
    def all(self, *conditions: Any) -> Any: ...
    def any(self, *conditions: Any) -> Any: ...
    def choose(self, condition: Any, x: Any, y: Any, /) -> Any: ...


_COMPARISONS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


class _Integers:
    """Arithmetic of Python's integers."""

    add, mul, sub = staticmethod(operator.add), staticmethod(operator.mul), staticmethod(operator.sub)
    min, max = staticmethod(min), staticmethod(max)

    def ceil_div(self, x: int, y: int) -> int:
        return -(-x // y)

    def compare(self, how: str, x: int, y: int) -> bool:
        return bool(_COMPARISONS[how](x, y))

    def all(self, *conditions: bool) -> bool:
        return all(conditions)

    def any(self, *conditions: bool) -> bool:
        return any(conditions)

    def choose(self, condition: bool, x: int, y: int) -> int:
        return x if condition else y


INTEGERS: Arithmetic = _Integers()


class Grain(NamedTuple):
    """The number of threads that make a chunk of a program, as numbers of an arithmetic.

    Attributes
    ----------
    worthwhile
        Smallest number worth handing to another thread of the pool.
    lanes
        Number that run in a vector register, a divisor of 64; fewer waste some of it. 1 where they run one by one.
    group
        Number that run in several registers side by side, a divisor of 64.
    """

    worthwhile: Any
    lanes: Any = 1
    group: Any = 1


class Partition(NamedTuple):
    """The partition of a launch, as numbers of an arithmetic.

    Attributes
    ----------
    chunk
        Threads of a chunk.
    colours
        1, or 2 where neighbouring chunks must not run at the same time.
    groups
        Number of chunks where each accumulates in a copy of its own, else 0.
    is_atomic
        1 where the program that accumulates atomically has to run, else 0.
    """

    chunk: Any
    colours: Any
    groups: Any
    is_atomic: Any


def chunk_of(c: Arithmetic, n: Any, grain: Grain, at_least: Any) -> Any:
    """Return the length of a chunk: all threads where there is little to do.

    Parameters
    ----------
    c : Arithmetic
        The arithmetic of the numbers.
    n
        Number of threads.
    grain
        Threads that make a chunk.
    at_least
        Shortest chunk that is allowed, at least 1.
    """
    # Everything is computed by selection and without branches: in native code the numbers are only known at run time.
    chunk = c.max(c.max(c.ceil_div(n, MAX_CHUNKS), grain.worthwhile), at_least)
    rounded = c.mul(c.ceil_div(chunk, _ROUNDING), _ROUNDING)
    chunk = c.choose(c.compare(">", chunk, _ROUNDING), rounded, _whole(c, n, grain, chunk))
    # Waking workers for a handful of chunks costs more than they save.
    chunk = c.choose(c.compare("<", c.ceil_div(n, _FEWEST), grain.worthwhile), c.max(n, at_least), chunk)
    return c.max(c.min(chunk, c.max(n, at_least)), 1)


def _whole(c: Arithmetic, n: Any, grain: Grain, chunk: Any) -> Any:
    """Return the next length of whole registers, of several side by side where there are many threads."""
    together = c.choose(c.compare(">=", n, c.mul(grain.group, _ENOUGH)), grain.group, grain.lanes)
    return c.mul(c.ceil_div(chunk, together), together)


def distance_of(c: Arithmetic, dims: Sequence[Any], reach: Sequence[Any]) -> Any:
    """Return the largest distance in the flattened launch of two threads that race; `reach` is by axis."""
    total, stride = None, None
    # Row-major: the last axis has stride 1, and each axis in front of it the product of the extents behind it.
    for axis in range(len(dims) - 1, -1, -1):
        if axis < len(reach):
            # No two threads are farther apart along an axis than its extent allows.
            own = c.min(reach[axis], c.max(c.sub(dims[axis], 1), 0))
            own = own if stride is None else c.mul(own, stride)
            total = own if total is None else c.add(total, own)
        stride = dims[axis] if stride is None else c.mul(stride, dims[axis])
    return total


def partition(
    c: Arithmetic,
    n: Any,
    grain: Grain,
    work: Any,
    distance: Any,
    general: Any,
    copied: Any,
    copyable: Any,
    spare: Any,
    cores: Any,
) -> Partition:
    """Decide how an adjoint runs.

    Parameters
    ----------
    c : Arithmetic
        The arithmetic of the numbers.
    n
        Number of threads, at least 1.
    grain
        Threads that make a chunk.
    work
        Operations of all threads, in units of :data:`COST_UNIT`.
    distance
        Largest distance of two threads that race in a cotangent with a bound.
    general
        1 if threads may race anywhere in a cotangent, else 0.
    copied
        Scalars in these cotangents.
    copyable
        1 if private copies may stand in for them, else 0.
    spare
        1 if there is a program that accumulates atomically, else 0.
    cores
        Processors that the process may use.
    """
    plain = chunk_of(c, n, grain, 1)
    chunks = c.ceil_div(n, plain)
    several, anywhere = c.compare(">", chunks, 1), c.compare("!=", general, 0)
    is_spare, near = c.compare("!=", spare, 0), c.compare(">", distance, 0)
    # Fewer than four chunks in two colours leave nothing to do side by side.
    # With chunks longer than the distance, a thread can only race with its own chunk and the two next to it. Two
    # colours keep these apart: all even chunks run, then all odd ones.
    coloured = chunk_of(c, n, grain, c.add(distance, 1))
    is_idle = c.all(c.compare("<", c.ceil_div(n, coloured), 4), c.compare(">=", chunks, 4), is_spare)
    groups = c.min(_groups(c, work, grain.lanes, copied, cores), chunks)
    # Few groups leave most of many processors idle, which do more in the meantime, even atomically.
    behind = c.max(c.min(c.ceil_div(c.mul(n, _HIDDEN * COST_UNIT), c.max(work, 1)), _MOST_BEHIND), _LEAST_BEHIND)
    keeps_busy = c.any(c.compare("==", spare, 0), c.compare("<=", c.min(cores, chunks), c.mul(groups, behind)))
    is_copied = c.all(c.compare(">=", groups, 2), c.compare("!=", copyable, 0), keeps_busy)
    own = _whole(c, n, grain, c.max(c.ceil_div(n, groups), c.add(distance, 1)))
    # Cotangents without a bound: private copies if they pay, else atomics, else one chunk that runs alone. With a
    # bound: two colours, unless too few chunks are left and there are atomics. Otherwise plain chunks.
    chunk = c.choose(
        anywhere,
        c.choose(is_copied, own, c.choose(is_spare, plain, n)),
        c.choose(near, c.choose(is_idle, plain, coloured), plain),
    )
    lonely = c.choose(is_copied, 0, c.choose(is_spare, 1, 0))
    is_atomic = c.choose(anywhere, lonely, c.choose(near, c.choose(is_idle, 1, 0), 0))
    in_turn = c.choose(anywhere, c.choose(is_copied, 1, 0), c.choose(is_idle, 0, 1))
    colours = c.choose(c.all(near, c.compare("!=", in_turn, 0)), 2, 1)
    # A launch of a single chunk runs in one thread and cannot race with itself.
    return Partition(
        c.choose(several, chunk, plain),
        c.choose(several, colours, 1),
        c.choose(c.all(several, anywhere, is_copied), groups, 0),
        c.choose(several, is_atomic, 0),
    )


def _groups(c: Arithmetic, work: Any, lanes: Any, copied: Any, cores: Any) -> Any:
    """Return the number of private copies that the work is worth, 1 if none."""
    groups: Any = 1
    for_each = c.mul(cores, 4)
    size = 2
    # Powers of two in an unrolled loop of selections, for the same reason as above: the greatest that pays is kept.
    while size <= MAX_GROUPS:
        # Clearing and adding up the copies may cost an eighth of the work; two groups may cost a quarter. Where each
        # has a processor of its own, half of the work: all of them share it. Groups beyond four for each processor
        # spread uneven work a little better, and may cost a 64th; less where threads run in lanes, whose work takes
        # less than its estimate, while the copies take as long.
        price = c.mul(copied, size * 2 * COST_UNIT)
        cheap = c.all(c.compare("<=", c.mul(price, 4 if size == 2 else 8), work), c.compare(">=", for_each, size))
        if size <= _MANY_GROUPS:
            cheap = c.any(cheap, c.compare("<=", c.mul(price, c.mul(lanes, 64)), work))
        shared = c.all(c.compare("<=", c.mul(price, 2), work), c.compare(">", cores, 2), c.compare(">=", cores, size))
        groups = c.choose(c.any(cheap, shared), size, groups)
        size *= 2
    return groups
