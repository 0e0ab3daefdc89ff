"""Which values are the same for which threads.

Of a launch
    what is computed from parameters, shapes and literals alone (:func:`launch_values`);
of a block
    everything that neither comes from a thread's own index, nor from memory or conditions that differ between threads
    (:func:`varying_values`, the least set closed under data flow and conditions).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.types import Type
from diffkern.ir.views import If, Loop, Slot, While, loop
from diffkern.ops.row import Effect, Uniformity
from diffkern.ops.table import lookup

__all__ = ["is_per_thread", "is_pure", "launch_values", "recomputable", "varying_values"]


def is_per_thread(op: Op) -> bool:
    """Whether the results of an op differ between the threads of a block whatever its operands are."""
    return lookup(op.name).uniformity is Uniformity.THREAD


def is_pure(op: Op) -> bool:
    """Whether the results of an op follow from its operands, and from where the thread stands in the launch."""
    return not op.regions and lookup(op.name).effect is Effect.PURE


def recomputable(op: Op) -> bool:
    """Whether an op gives the same results on the same operands wherever it is executed."""
    row = lookup(op.name)
    return is_pure(op) and row.family != "block" and row.uniformity is Uniformity.LAUNCH


def launch_values(fn: Function) -> dict[Value, Op | None]:
    """Values that are the same for every thread, computed from parameters, shapes and literals alone, and by which op.

    In the order of the program, so that definitions stand before uses. A parameter has no op.
    """
    out: dict[Value, Op | None] = dict.fromkeys(fn.params)
    for op in walk(fn.body):
        if recomputable(op) and all(v in out for v in op.operands):
            out.update(dict.fromkeys(op.results, op))
    return out


def varying_values(
    fn: Function,
    differs: Callable[[Op], bool],
    *,
    counts: Callable[[Type], bool] = lambda t: True,
    stacks: Collection[Value] | None = None,
) -> set[Value]:
    """Values that may differ between the threads of a block.

    Parameters
    ----------
    fn
        The function.
    differs
        Whether the results of an op differ, whatever its operands are.
    counts
        Whether values of a type differ with what they are computed from.
    stacks
        The loop stacks that all threads write to at the same time: what they hold is the same where what is written
        is. What other stacks hold differs. None: stacks are not looked at.
    """
    spread = _Spread(differs, counts, stacks)
    while spread.region(fn.body):
        pass
    return spread.varying


class _Spread:
    """Goes through a function until nothing new is found to vary."""

    def __init__(
        self, differs: Callable[[Op], bool], counts: Callable[[Type], bool], stacks: Collection[Value] | None
    ) -> None:
        self.differs, self.counts, self.stacks = differs, counts, stacks
        self.varying: set[Value] = set()
        self.mixed: set[tuple[Value, int]] = set()  # fields of loop stacks that differ between threads

    def region(self, region: Region) -> bool:
        """Visit the ops; returns whether anything is new."""
        changed = False
        for op in region.ops:
            if self.differs(op):
                changed |= not self.varying.issuperset(op.results)
                self.varying.update(op.results)
            elif self.stacks is not None and op.name in ("stack_get", "stack_set"):
                changed |= self.stack(op)
            elif not op.regions:
                changed |= self.spread(op.results, op.operands)
            elif op.name == "if":
                for r, a, b in If(op).choices:
                    changed |= self.spread([r], (a, b, If(op).condition))
            else:
                changed |= self.loop(loop(op))
            for sub in op.regions:
                changed |= self.region(sub)
        return changed

    def add(self, values: Sequence[Value]) -> bool:
        fresh = {v for v in values if self.counts(v.type)} - self.varying
        self.varying |= fresh
        return bool(fresh)

    def spread(self, targets: Sequence[Value], sources: Sequence[Value]) -> bool:
        return not self.varying.isdisjoint(sources) and self.add(targets)

    def loop(self, loop: Loop) -> bool:
        changed = False if isinstance(loop, While) else self.spread([loop.index], loop.deciding)
        for chain in loop.chains:
            changed |= self.spread((*chain[1:-2], chain[-1]), (chain[0], chain[-2], chain[-1], *loop.deciding))
        return changed

    def stack(self, op: Op) -> bool:
        """Loop stacks; those around barriers are written to under conditions that are the same for all threads."""
        assert self.stacks is not None
        place = Slot(op).stack
        if op.name == "stack_get":
            same = place in self.stacks and (place, op.attrs["field"]) not in self.mixed
            return not (same and Slot(op).slot not in self.varying) and self.add(op.results)
        every = Slot(op).slot in self.varying
        fresh = {(place, k) for k, v in enumerate(Slot(op).values) if every or v in self.varying} - self.mixed
        self.mixed |= fresh
        return bool(fresh)
