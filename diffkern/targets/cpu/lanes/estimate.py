"""The work of a thread alone, and of all lanes together, in simple operations.

What is the same for all threads costs neither of them time: LLVM computes it once, in front of the loop over threads.
A condition that a float equals a number is taken not to hold. Work that each lane does by itself, gathers, scatters and
updates of shared elements, is dearer than that of a thread alone; trips that only some lanes need are made by all.
"""

from __future__ import annotations

from diffkern.analysis.scopes import ThreadScope, uniformity
from diffkern.analysis.sums import uniform_extremes, uniform_sums, used_values
from diffkern.analysis.uniformity import launch_values, recomputable
from diffkern.analysis.work import usual_trips, usual_ways
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import ELEMENT_LOADS, ELEMENTS, THREAD_INDICES, UPDATES, WRITES
from diffkern.ir.ops.scalar import DIVISIONS, EQUALITIES, LOGIC, UNPIPELINED
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Array
from diffkern.ir.views import Access, For, If, deciding, is_loop, literals, loop
from diffkern.targets.cpu.lanes.inner_loops import is_float, is_vectorised, longest_wait
from diffkern.targets.cpu.lanes.memory import MOST_SHUFFLED
from diffkern.targets.cpu.lanes.scalars import is_by_lane
from diffkern.targets.emit.memory import element_size

__all__ = ["LaneWork"]

_CALLED = 2.5
"""The cost of an elementary function of one thread relative to that of all lanes: it is called, and its result waited
for."""
_OF_LLVM = 8
"""The most components of an element with which LLVM makes vectors of neighbouring ones."""
_DIVIDED, _MOVED = 2.0, 4.0
"""The cost of a quotient or a root relative to its row, as the next one waits for it; that of taking operands of a
division from a lane, and giving it the result."""
_DIVERGENCE = 1.7
"""The trips of the slowest lane relative to an average one."""
_BY_ITSELF, _WALKED, _UPDATED = 2.0, 2.5, 3.75
"""The cost of a scalar access of one lane relative to that of a thread alone; in a loop, where each lane walks along a
row of its own, in lines that push one another out of the cache; of an update at a place that has been read, which waits
for the one before it if both are of one element."""
_LINE = 12.0
"""The additional cost of an access to another line of memory in each trip: to the next row, where lanes are neighbours
in it."""
_GUARDED = 0.75
"""The part of all threads that take the only arm of a branch: most such branches ask whether an element exists."""


class LaneWork:
    """Estimates the work of one thread, and that of all lanes together."""

    def __init__(self, fn: Function, lanes: int, *, fast_math: bool = False) -> None:
        self.fn, self.lanes, self.fast_math = fn, lanes, fast_math
        self.uniformity = uniformity(fn, ThreadScope.VECTOR)
        self.varying, self.forms = self.uniformity.varying, self.uniformity.forms
        known = launch_values(fn), used_values(fn)
        self.summed = {*uniform_sums(fn, *known), *uniform_extremes(fn, *known)}
        self.still = self._of_row()
        self.literals = literals(fn.body)
        self._along: list[Value] = []

    def _of_row(self) -> set[Value]:
        """Return the values that are the same for all threads of a row, and computed once."""
        written = {Access(op).array for op in walk(self.fn.body) if op.name in ELEMENTS - ELEMENT_LOADS}
        found = set(self.fn.params)
        for op in walk(self.fn.body):
            once = recomputable(op) or (op.name in ELEMENT_LOADS and Access(op).array not in written)
            once |= op.name in THREAD_INDICES and self.varying.isdisjoint(op.results)
            if once and not op.regions and found.issuperset(op.operands):
                found.update(op.results)
        return found

    def gain(self) -> float:
        """Return the factor by which lanes reduce the work of a thread."""
        alone, together = self.region(self.fn.body)
        return alone * self.lanes / max(together, 1.0)

    def region(self, region: Region) -> tuple[float, float]:
        """Return the work of a region for one thread, and for all lanes together."""
        alone = together = 0.0
        loaded: set[tuple[Value, ...]] = set()
        for op in region.ops:
            if op.name in ELEMENT_LOADS:
                # What was loaded before is at hand, until something is written.
                place = Access(op).array, *Access(op).index
                if place in loaded:
                    continue
                loaded.add(place)
            elif op.regions or op.name in ELEMENTS:
                loaded.clear()
            one, all_of_them = self.control(op) if op.regions else self.simple(op)
            alone, together = alone + one, together + all_of_them
        return alone, together

    def control(self, op: Op) -> tuple[float, float]:
        """Return the work of a loop or a branch."""
        diverges = not self.varying.isdisjoint(deciding(op))
        if is_loop(op):
            alone, together = self.trip(op)
            trips = usual_trips(op)
            return trips * alone, trips * together * (_DIVERGENCE if diverges else 1.0)
        parts = [self.region(sub) for sub in usual_ways(op)]
        alone, together = sum(p[0] for p in parts), sum(p[1] for p in parts)
        # A diverging branch executes both arms for all lanes, and a thread executes one of them.
        if not diverges:
            return alone, together
        if len(parts) > 1 and (holds := self.usual_answer(If(op).condition)) is not None:
            return parts[0 if holds else 1][0], together
        guarded = len(parts) > 1 and not all(one for one, _ in parts)
        return alone * (_GUARDED if guarded else 1.0 / len(parts)), together

    def trip(self, op: Op) -> tuple[float, float]:
        """Return the work of one trip of a loop."""
        made = loop(op)
        self._along += [made.index] if isinstance(made, For) else []
        parts = [self.region(sub) for sub in op.regions]
        alone, together = sum(p[0] for p in parts), sum(p[1] for p in parts)
        if isinstance(made, For):
            self._along.pop()
        if any(is_loop(inner) and usual_trips(inner) > 1 for sub in op.regions for inner in walk(sub)):
            return alone, together
        if is_vectorised(op, self.forms, reassociates=self.fast_math):
            # Lanes that walk along rows do by themselves what a thread alone does to a whole vector.
            walks = any(map(self.pieces, made.body.ops))
            return (alone / self.lanes if walks else alone), together
        wait = longest_wait(op, usual_ways, self.forms)
        return max(alone, wait), max(together, wait)

    def usual_answer(self, condition: Value) -> bool | None:
        """Return how a question is answered for almost all threads, as no float equals another one by chance."""
        op = self.forms.producer.get(condition)
        if op is None:
            return None
        fold = lookup(op.name).fold
        if op.name in EQUALITIES and fold is not None:
            return bool(fold(0.0, 1.0)) if is_float(op.operands[0]) else None
        if op.name not in LOGIC or fold is None:
            return None
        known = [self.usual_answer(v) for v in op.operands]
        found = {
            bool(fold(x, y))
            for x in (False, True) if known[0] in (None, x)
            for y in (False, True) if known[1] in (None, y)
        }  # fmt: skip
        return found.pop() if len(found) == 1 else None

    def simple(self, op: Op) -> tuple[float, float]:
        """Return the work of an op without regions."""
        cost = lookup(op.name).cost
        if op.results and self.still.issuperset(op.results):
            return 0.0, 0.0
        if op.name in ELEMENTS:
            return self.access(op)
        if op.name.startswith(("stack", "buffer")):
            return 1.0, 1.0
        if self.varying.isdisjoint(op.results):
            return cost, cost
        if is_by_lane(op):
            # LLVM makes multiplications of the division of integers by a literal.
            if op.name in DIVISIONS and op.operands[1] in self.literals and not is_float(op.operands[1]):
                return cost, cost
            return _DIVIDED * cost, (_DIVIDED * cost + _MOVED) * self.lanes
        if op.name in UNPIPELINED:
            return _DIVIDED * cost, _DIVIDED * cost
        return _CALLED * cost if lookup(op.name).elementary else cost, cost

    def access(self, op: Op) -> tuple[float, float]:
        """Return the work of an access to an array."""
        count = components(op)
        update = op.name in UPDATES
        # An update costs a load and a store.
        alone = count * (2.0 if update else 1.0)
        if op in self.summed:
            return alone, alone + count
        if self.is_run(op):
            line = _LINE if self._along and self.walks_lines(op) else 0.0
            return alone + line, alone + count + line
        # A uniform address is loaded once; updates of it need a reduction over lanes.
        if self.varying.isdisjoint(Access(op).index):
            return alone, alone * (3.0 if update else 1.0)
        if self.is_scattered(op):
            return alone, alone * self.lanes * (_UPDATED if update else _BY_ITSELF)
        return alone, alone * self.lanes * (_WALKED if self._along else _BY_ITSELF)

    def walks_lines(self, op: Op) -> bool:
        """Return whether each trip of the innermost loop accesses another line of memory."""
        forms = [self.forms.of(v) for v in Access(op).index]
        return any(self._along[-1] in form.terms for form in forms[:-1])

    def adds_in_trips(self, op: Op) -> bool:
        """Return whether an op is a loop that adds up over lanes in every trip."""
        return is_loop(op) and any(map(self.adds_up, walk(op.regions[-1])))

    def adds_up(self, op: Op) -> bool:
        """Return whether the contributions of all lanes to one element are summed where they are added."""
        update = op.name in UPDATES and op not in self.summed
        return update and self.varying.isdisjoint(Access(op).index)

    def pieces(self, op: Op) -> int:
        """Return how many instructions each lane needs for itself."""
        if op in self.summed:
            return 0
        if op.name not in ELEMENTS:
            return int(
                lookup(op.name).family == "scalar" and not self.varying.isdisjoint(op.results) and is_by_lane(op)
            )
        return 0 if self.is_run(op) or self.varying.isdisjoint(Access(op).index) else components(op)

    def writes_run(self, op: Op) -> bool:
        """Return whether lanes write neighbouring elements."""
        return op.name in WRITES and self.is_run(op)

    def is_wide(self, op: Op) -> bool:
        """Return whether the lanes of an op access elements of which LLVM does not load several as vectors."""
        return op.name in ELEMENTS and components(op) > _OF_LLVM and not self.varying.isdisjoint(Access(op).index)

    def is_scattered(self, op: Op) -> bool:
        """Return whether the lanes of an op access elements at no constant distance."""
        return op.name in ELEMENTS and any(self.uniformity.stride(index) is None for index in Access(op).index)

    def is_run(self, op: Op) -> bool:
        index, count = tuple(Access(op).index), components(op)
        if not index or count > MOST_SHUFFLED or not self.varying.isdisjoint(index[:-1]):
            return False
        return self.uniformity.stride(index[-1]) == 1


def components(op: Op) -> int:
    """Return the number of components of the element that an op accesses."""
    array = Access(op).array.type
    assert isinstance(array, Array)
    return element_size(array.dtype)
