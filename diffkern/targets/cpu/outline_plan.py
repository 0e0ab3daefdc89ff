"""Divides long kernels into parts that become functions of their own.

For each region that is divided, :func:`outline` gives its pieces in order: operations that stay, and :class:`OpRun` s,
runs of operations that are compiled by themselves.

The time of LLVM's passes grows with the square of a function and of its loops, and that of its register allocator
nearly so. Dividing bounds both, so the time grows with the length of the kernel. It is decided by counting operations:
the same kernel is divided in the same way wherever it is compiled. A kernel that is not long stays in one piece, with
the code that it would have without this module.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.block import SHARED_ARRAYS
from diffkern.ir.ops.table import lookup
from diffkern.ir.views import is_loop
from diffkern.process.dataclass import dataclass

__all__ = ["LARGEST", "PART", "OpRun", "Outline", "outline", "taken"]

LARGEST = 10_000
"""The most work, in operations, of a kernel that stays in one piece."""
PART = 2500
"""The work beyond which a part gets no more operations."""
SHORTEST = 50
"""The most work that is not worth a call."""
_MATH_OPS = 20
"""Operations of an elementary function, which is inlined."""
_LOOP_OPS = 100
"""The cost of a loop for LLVM besides that of the operations in it."""


@dataclass(frozen=True, slots=True, eq=False)
class OpRun:
    """A run of operations of a region.

    Attributes
    ----------
    ops
        The operations.
    results
        The results that others use.
    shown
        Those of them that the region uses outside of parts.
    """

    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    shown: frozenset[Value]


Outline = Mapping[Region, Sequence[Op | OpRun]]
"""The pieces of each region that is divided."""


def outline(fn: Function, moved: frozenset[Op]) -> Outline:
    """Return the parts of a function; they leave out ``moved``, the ops that are executed elsewhere."""
    found = _Outliner(moved)
    if found.work(fn.body) <= LARGEST:
        return {}
    found.divide(fn.body)
    return found.pieces


def taken(ops: Iterable[Op], moved: frozenset[Op]) -> list[Value]:
    """Return the values that operations use, their regions included, and do not compute, in order of first use."""
    used: dict[Value, None] = {}
    made: set[Value] = set()
    _note(ops, moved, used, made)
    return [v for v in used if v not in made]


def _note(ops: Iterable[Op], moved: frozenset[Op], used: dict[Value, None], made: set[Value]) -> None:
    for op in ops:
        if op in moved:
            continue
        used.update(dict.fromkeys(op.operands))
        made.update(op.results)
        for sub in op.regions:
            made.update(sub.params)
            _note(sub.ops, moved, used, made)
            used.update(dict.fromkeys(sub.yields))


class _Outliner:
    """Divides regions from the inside out.

    Attributes
    ----------
    pieces
        The pieces of divided regions.
    """

    def __init__(self, moved: frozenset[Op]) -> None:
        self.moved = moved
        self.pieces: dict[Region, Sequence[Op | OpRun]] = {}

    def work(self, region: Region) -> int:
        """Return the work of a region as it is."""
        return sum(self.own(op) + sum(map(self.work, op.regions)) for op in region.ops if op not in self.moved)

    def own(self, op: Op) -> int:
        """Return the work of an operation without its regions."""
        return _MATH_OPS if lookup(op.name).elementary else _LOOP_OPS if is_loop(op) else 1

    def divide(self, region: Region) -> int:
        """Divide a region if it is long; return the work that is left in one piece."""
        # Inner regions are divided first, so that a divided loop counts as a few calls further out.
        sizes = [0 if op in self.moved else self.own(op) + sum(map(self.divide, op.regions)) for op in region.ops]
        total = sum(sizes)
        if total <= PART:
            return total
        runs = list(self.runs(region, sizes))
        # Results that operations outside of parts use have to be loaded there; others stay in their slots.
        shown = set(region.yields).union(*(taken((run,), self.moved) for run in runs if isinstance(run, Op)))
        wanted = set(shown)
        pieces: list[Op | OpRun] = []
        # From the last run to the first: what later runs take decides about the results of earlier ones.
        for run in reversed(runs):
            if isinstance(run, Op):
                pieces.append(run)
                continue
            results = tuple(v for op in run for v in op.results if v in wanted and op not in self.moved)
            pieces.append(OpRun(tuple(run), results, frozenset(shown.intersection(results))))
            wanted.update(taken(run, self.moved))
        self.pieces[region] = pieces[::-1]
        return len(pieces)

    def runs(self, region: Region, sizes: Sequence[int]) -> Iterator[Op | list[Op]]:
        """Iterate over the operations of a region in runs, and those that stay: memory of the thread, visible to all.

        A run ends where the fewest values are needed later, among the places that make it long enough and not too long.
        """
        ends = [0, *accumulate(sizes)]
        crossing = self.crossing(region)
        yield from (op for op in region.ops if op.name in SHARED_ARRAYS)
        begin = 0
        while begin < len(sizes):
            if ends[-1] - ends[begin] <= PART:
                end = len(sizes)
            else:
                places = range(begin + 1, bisect_right(ends, ends[begin] + PART))
                long_enough = places[bisect_left(places, ends[begin] + PART // 2, key=ends.__getitem__) :]
                # Of equally good places the latest is taken, for fewer parts.
                end = min(reversed(long_enough), key=crossing.__getitem__, default=begin + 1)
            run = [op for op in region.ops[begin:end] if op.name not in SHARED_ARRAYS]
            # A short run is not worth a call and the slots it takes.
            if ends[end] - ends[begin] > SHORTEST:
                yield run
            else:
                yield from run
            begin = end

    def crossing(self, region: Region) -> list[int]:
        """Return, for each place between the operations of a region, how many values are live across it."""
        # Yields are used behind the last operation.
        last: dict[Value, int] = dict.fromkeys(region.yields, len(region.ops))
        for place in reversed(range(len(region.ops))):
            for v in taken((region.ops[place],), self.moved):
                last.setdefault(v, place)
        change = [0] * (len(region.ops) + 2)
        for place, op in enumerate(region.ops):
            for v in op.results:
                if last.get(v, place) > place:
                    change[place + 1] += 1
                    change[last[v] + 1] -= 1
        return list(accumulate(change))
