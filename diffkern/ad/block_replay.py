"""The two ways in which the adjoint of a kernel whose threads cooperate in blocks replays primal ops.

:class:`LiveReplay` executes a scope with its effects on shared memory and its barriers, and carries the values that the
sweep needs out of branches. :class:`BlockReplay` executes ops of single threads in the sweep, without effects: it uses
the values that were carried out, and reads shared memory only in loops of single threads.
"""

from __future__ import annotations

from diffkern.ad.blocks import BlockMemory
from diffkern.ad.replay import Replay, ReplayContext
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.ops.block import BARRIERS, SHARED_ARRAYS
from diffkern.ir.ops.memory import ATOMICS, STORES
from diffkern.ir.types import is_shared
from diffkern.ir.views import Access, If, is_branch, is_loop

__all__ = ["BlockReplay", "LiveReplay"]


class BlockReplay(Replay):
    """A replay in the sweep, without effects."""

    def __init__(self, builder: Builder, env: dict[Value, Value], context: ReplayContext, memory: BlockMemory) -> None:
        super().__init__(builder, env, context)
        self.memory = memory

    def op(self, op: Op) -> None:
        # The sweep emits barriers of its own and works on the arrays that exist already; a kept op has its result in
        # the environment, carried out of the branch by the live replay.
        if op.name not in BARRIERS | SHARED_ARRAYS and op not in self.memory.plan.kept:
            super().op(op)

    def load(self, op: Op) -> None:
        plan = self.memory.plan
        if op in plan.lost:
            self.poisoned(op, _overwritten(op, plan.lost[op]))
        # A later store overwrites the element before the sweep gets here, so the instance no longer holds this value.
        elif op in plan.from_snapshot:
            array = self.memory.snapshot(plan.from_snapshot[op], Access(op).array)
            self.emit(op, (array, *self.values(Access(op).index)), ())
        else:
            super().load(op)


class LiveReplay(Replay):
    """A replay of a scope, on the instances of shared arrays that are in its environment.

    Parameters
    ----------
    sweep
        Whether the sweep through the scope follows; otherwise the scope is only executed.
    """

    def __init__(
        self, builder: Builder, env: dict[Value, Value], context: ReplayContext, memory: BlockMemory, sweep: bool
    ) -> None:
        super().__init__(builder, env, context)
        self.memory = memory
        self.sweep = sweep

    def op(self, op: Op) -> None:
        # The instances of shared arrays are allocated in the prologue of the adjoint, once per scope.
        if op.name in SHARED_ARRAYS:
            return
        # The snapshot has to precede the loop or branch: its own stores may be the ones that overwrite.
        if self.sweep and op.regions and op.name != "ruled":
            self.before(op)
        if op.name in BARRIERS:
            with self.b.at(op.loc):
                self.memory.wait()
        elif op.name in STORES and is_shared(Access(op).array.type):
            self.emit(op, self.values(op.operands), ())
        elif op.name in ATOMICS and is_shared(Access(op).array.type):
            self.emit(op, self.values(op.operands), ())
            # The update itself is executed for its effect, which later loads of the replay see. Its result depends on
            # the order of threads; super().op poisons it.
            super().op(op)
        elif is_branch(op) and self.sweep:
            with self.b.at(op.loc):
                self.branch(op)
        elif is_loop(op):
            # The sweep through a loop replays each trip by itself, so inside only the effects are needed here.
            outer, self.sweep = self.sweep, False
            super().op(op)
            self.sweep = outer
        else:
            super().op(op)

    def before(self, op: Op) -> None:
        """Copy the contents of shared memory that the sweep through a loop or branch needs."""
        with self.b.at(op.loc):
            if self.memory.plan.is_block_loop(op):
                self.memory.enter(op, self.env)
            else:
                self.memory.take_snapshots(op, self.env)

    def branch(self, op: Op) -> None:
        """Replay a branch with additional results: an arm yields the values kept from it, and zeros for those of the
        other.
        """
        arms = [self.region(sub) for sub in op.regions]
        kept = [self.kept(sub) for sub in op.regions]
        for position, arm in enumerate(arms):
            with self.b.into(arm):
                more = []
                # Both arms have to yield the same values in the same order, so each fills in zeros for what only the
                # other has.
                for where, values in enumerate(kept):
                    more += [self.env[v] if where == position else self.b.zero(v.type) for v in values]
                arm.yields = (*arm.yields, *more)
        every = [*op.results, *kept[0], *kept[1]]
        results = self.b.if_(self.value(If(op).condition), arms[0], arms[1], [v.name for v in every])
        self.env.update(zip(every, results, strict=True))

    def kept(self, region: Region) -> list[Value]:
        found: list[Value] = []
        for op in region.ops:
            if op in self.memory.plan.kept:
                found += op.results
                # The trip count is needed to reverse the loop, and it is known only where the loop was executed.
                if op.name == "while":
                    found.append(self.context.counters[op])
            elif is_branch(op):
                found += [v for sub in op.regions for v in self.kept(sub)]
        return found


def _overwritten(op: Op, store: Op) -> AutodiffError:
    name = Access(op).array.name
    line = f" (line {store.loc.line})" if store.loc is not None else ""
    return AutodiffError(
        f"the gradient needs this value of the shared array {name}, which the thread overwrites{line} in the same loop "
        "or before it",
        loc=op.loc,
        remedy="write to another shared array, or carry the value in a variable and write it behind the loop",
    )
