"""Values that are the same for all threads of a scope, and integers that grow evenly from thread to thread.

:func:`uniformity` computes, for a function and a :class:`ThreadScope`, the least set of values that may differ, closed
under data flow and conditions; all others are uniform. For integers :meth:`VaryingValues.stride` tells whether they are
affine in the thread index: by the same difference between all neighbouring threads of a row.

Barriers, tiles and lanes use this one analysis. A scope determines which operations produce differing values, and which
loop stacks its threads write to in step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from functools import partial

from diffkern.analysis.affine import AffineForms, tid_term
from diffkern.analysis.uniformity import is_per_thread
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.block import BARRIERS, BLOCK_EXTENTS
from diffkern.ir.ops.buffer import BUFFER_READS
from diffkern.ir.ops.memory import ELEMENT_ATOMICS, NEW_STACKS, SLOTS, STACK_READS, STACK_WRITES, THREAD_INDICES
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.row import Uniformity as Level
from diffkern.ir.ops.scalar import WHOLE_QUOTIENTS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Tile, Type
from diffkern.ir.views import If, Loop, StackSlot, While, deciding, is_branch, loop
from diffkern.process.dataclass import dataclass

__all__ = ["OF_THREADS", "ThreadScope", "VaryingValues", "has_barrier", "stacks_of_blocks", "uniformity"]

OF_THREADS = frozenset({"threads", "first", "share"})
"""The attributes of what threads take of a tile each for itself."""


class ThreadScope(Enum):
    """Threads that are compared.

    ``TILES`` are those of a block that work on tiles together, where what they load at one index is the same for all.
    ``ROWS`` are these in a launch in which each block lies in one row of threads, along the last axis.
    ``VECTOR`` are neighbours of a row that go through the program in step.
    """

    LAUNCH = "launch"
    BLOCK = "block"
    TILES = "tiles"
    ROWS = "rows"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True)
class VaryingValues:
    """The values that differ between the threads of a scope.

    Attributes
    ----------
    scope
        The threads.
    varying
        The values that may differ.
    fields
        For the lanes of a register the fields of loop stacks that hold the same for all; in other scopes none.
    forms
        The affine forms of the function's integers.
    last
        The axis along which threads are neighbours.
    """

    scope: ThreadScope
    varying: set[Value]
    fields: set[tuple[Value, int]]
    forms: AffineForms
    last: int

    def stride(self, v: Value) -> int | None:
        """Return the difference of an integer between neighbours in a row: 0 if uniform, None if not constant."""
        if v not in self.varying:
            return 0
        form = self.forms.of(v)
        own = tid_term(self.last)
        others = (t for t in form.terms if isinstance(t, Value))
        return None if any(t in self.varying for t in others) else form.terms.get(own)


def uniformity(fn: Function, scope: ThreadScope) -> VaryingValues:
    """Compute the values that the threads of a scope share (least fixpoint)."""
    last = fn.tid_arity - 1
    if scope is ThreadScope.VECTOR:
        varying, fields = _in_step(fn, lambda op: _differs_in_lanes(op, last))
    else:
        varying, fields = _BY_SCOPE[scope](fn), set()
    return VaryingValues(scope, varying, fields, AffineForms(fn), last)


def _of_launch(fn: Function) -> set[Value]:
    def differs(op: Op) -> bool:
        # A load may read an element that another thread writes, unless it is marked as common to all.
        return lookup(op.name).uniformity is not Level.LAUNCH or _reads_own(op)

    return _varying(fn, differs, stacks=())


def _of_block(fn: Function) -> set[Value]:
    return _varying(fn, lambda op: is_per_thread(op) or _reads_own(op), stacks=stacks_of_blocks(fn))


def _of_tiles(fn: Function, rows: bool = False) -> set[Value]:
    def differs(op: Op) -> bool:
        # In a launch whose blocks lie in one row, the other components of the thread index are the same in the block.
        if rows and op.name in THREAD_INDICES:
            return bool(op.attrs["axis"] == fn.tid_arity - 1)
        own = is_per_thread(op) or lookup(op.name).effect is Effect.ATOMIC
        return own or ("share" in lookup(op.name).optional and not OF_THREADS.isdisjoint(op.attrs))

    return _varying(fn, differs, counts=lambda t: not isinstance(t, Tile), same=_block_indices(fn))


def _block_indices(fn: Function) -> frozenset[Value]:
    """The thread's index divided by how many threads a block has, which is the index of the block."""
    if fn.tid_arity != 1:
        return frozenset()
    threads = {op.result for op in walk(fn.body) if op.name in THREAD_INDICES}
    counts = {op.result for op in walk(fn.body) if op.name in BLOCK_EXTENTS}
    quotients = (op for op in walk(fn.body) if op.name in WHOLE_QUOTIENTS)
    return frozenset(op.result for op in quotients if op.operands[0] in threads and op.operands[1] in counts)


_BY_SCOPE: Mapping[ThreadScope, Callable[[Function], set[Value]]] = {
    ThreadScope.LAUNCH: _of_launch,
    ThreadScope.BLOCK: _of_block,
    ThreadScope.TILES: _of_tiles,
    ThreadScope.ROWS: partial(_of_tiles, rows=True),
}


def _reads_own(op: Op) -> bool:
    return lookup(op.name).effect in (Effect.READ, Effect.ATOMIC) and not op.attrs.get("common")


def _differs_in_lanes(op: Op, last: int) -> bool:
    if op.name in THREAD_INDICES:
        return bool(op.attrs["axis"] == last)
    return is_per_thread(op) or op.name in ELEMENT_ATOMICS | BUFFER_READS


def _in_step(fn: Function, differs: Callable[[Op], bool]) -> tuple[set[Value], set[tuple[Value, int]]]:
    """Return the values that may differ between threads in step, and the stack fields that are the same for all."""
    gets = [op for op in walk(fn.body) if op.name in STACK_READS]
    stacks = {op.result for op in walk(fn.body) if op.name in NEW_STACKS}
    # Stacks are assumed to be written in step first. If some are found not to be, their contents differ, which may make
    # further values vary: start over with fewer stacks.
    while True:
        found = _varying(fn, differs, stacks=stacks)
        same, others = (
            {(StackSlot(op).stack, op.attrs["field"]) for op in gets if (op.result in found) is differ}
            for differ in (False, True)
        )
        apart = (_written_apart(fn.body, found) | {stack for stack, _ in same & others}) & stacks
        if not apart:
            return found, same
        stacks -= apart


def _written_apart(region: Region, varying: set[Value]) -> set[Value]:
    """Return the stacks to which some threads write where others that have the stack do not."""
    found: set[Value] = set()
    for op in region.ops:
        for sub in op.regions:
            inside = _written_apart(sub, varying)
            if not varying.isdisjoint(deciding(op)):
                # A stack that is made inside of the divergent part exists for those threads only, which write in step
                # again.
                made = {one.result for one in walk(sub) if one.name in NEW_STACKS}
                inside |= {StackSlot(one).stack for one in walk(sub) if one.name in STACK_WRITES} - made
            found |= inside
    return found


def has_barrier(op: Op) -> bool:
    """Return whether there is a barrier in the regions of an op."""
    return any(inner.name in BARRIERS for sub in op.regions for inner in walk(sub))


def stacks_of_blocks(fn: Function) -> dict[Value, Op]:
    """Return the loop stacks that are used across barriers, those of block loops, with the ops that make them."""
    made = {op.result: op for op in walk(fn.body) if op.name in NEW_STACKS}
    found: dict[Value, Op] = {}
    for op in walk(fn.body) if made else ():
        if has_barrier(op):
            inside = [inner for sub in op.regions for inner in walk(sub)]
            own = {inner.result for inner in inside if inner.name in NEW_STACKS}
            used = (StackSlot(inner).stack for inner in inside if inner.name in SLOTS)
            found.update((v, made[v]) for v in used if v not in own)
    return found


def _varying(
    fn: Function,
    differs: Callable[[Op], bool],
    *,
    counts: Callable[[Type], bool] = lambda t: True,
    stacks: Collection[Value] | None = None,
    same: Collection[Value] = (),
) -> set[Value]:
    """Return the values that may differ between the threads of a scope.

    Parameters
    ----------
    fn
        The function.
    differs
        Whether the results of an op differ, whatever its operands are.
    counts
        Whether values of a type differ if the values they are computed from do.
    stacks
        The loop stacks that all threads write to at the same time: what they hold is the same where what is written
        is. What other stacks hold differs. None: stacks are not looked at.
    same
        Values that do not differ, whatever they are computed from.
    """
    spread = _Spread(differs, counts, stacks, same)
    while spread.region(fn.body):
        pass
    return spread.varying


class _Spread:
    """Propagates through a function until no further value is found to vary."""

    def __init__(
        self,
        differs: Callable[[Op], bool],
        counts: Callable[[Type], bool],
        stacks: Collection[Value] | None,
        same: Collection[Value],
    ) -> None:
        self.differs, self.counts, self.stacks, self.same = differs, counts, stacks, same
        self.varying: set[Value] = set()
        self.mixed: set[tuple[Value, int]] = set()  # fields of loop stacks that differ between threads

    def region(self, region: Region) -> bool:
        """Visit the ops; return whether a value was newly marked."""
        changed = False
        for op in region.ops:
            if self.differs(op):
                changed |= not self.varying.issuperset(op.results)
                self.varying.update(op.results)
            elif self.stacks is not None and op.name in SLOTS:
                changed |= self.stack(op)
            elif not op.regions or op.name == "ruled":
                changed |= self.spread(op.results, op.operands)
            elif is_branch(op):
                # The result of an if differs if the values do, or if the condition chooses differently.
                for r, a, b in If(op).choices:
                    changed |= self.spread([r], (a, b, If(op).condition))
            else:
                changed |= self.loop(loop(op))
            for sub in op.regions:
                changed |= self.region(sub)
        return changed

    def add(self, values: Sequence[Value]) -> bool:
        fresh = {v for v in values if self.counts(v.type) and v not in self.same} - self.varying
        self.varying |= fresh
        return bool(fresh)

    def spread(self, targets: Sequence[Value], sources: Sequence[Value]) -> bool:
        return not self.varying.isdisjoint(sources) and self.add(targets)

    def loop(self, loop: Loop) -> bool:
        changed = False if isinstance(loop, While) else self.spread([loop.index], loop.deciding)
        for chain in loop.chains:
            # A loop that threads leave after different trips has results that differ, so what decides its trips is a
            # source too.
            changed |= self.spread((*chain[1:-2], chain[-1]), (chain[0], chain[-2], chain[-1], *loop.deciding))
        return changed

    def stack(self, op: Op) -> bool:
        """Visit an access to a loop stack; those around barriers are written to under uniform conditions."""
        assert self.stacks is not None
        place = StackSlot(op).stack
        if op.name in STACK_READS:
            same = place in self.stacks and (place, op.attrs["field"]) not in self.mixed
            return not (same and StackSlot(op).slot not in self.varying) and self.add(op.results)
        every = StackSlot(op).slot in self.varying
        fresh = {(place, k) for k, v in enumerate(StackSlot(op).values) if every or v in self.varying} - self.mixed
        self.mixed |= fresh
        return bool(fresh)
