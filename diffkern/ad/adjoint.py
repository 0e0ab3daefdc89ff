"""What reverse mode makes of a kernel.

In: a function as the sweep has left it. Out: the :class:`Adjoint`, after :meth:`Swept.tidied`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diffkern.ad.blocks import BlockMemory
from diffkern.ad.replay import ReplayContext, used_poisons
from diffkern.analysis.dependence import LoadFact
from diffkern.errors import AutodiffError
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.views import Access
from diffkern.manifest import RaceCheck, TwoStores, Unproved
from diffkern.ops.memory import LOADS
from diffkern.opt import replays
from diffkern.opt.dce import eliminate

__all__ = ["Adjoint", "Swept"]


@dataclass(frozen=True, slots=True)
class Adjoint:
    """The adjoint of a kernel.

    Attributes
    ----------
    fn
        Parameters: the primal's, then one array per entry of ``saved``, then one per entry of ``cotangents``.
    saved
        Indices of the primal parameters whose entry contents the adjoint takes as an extra array.
    final
        Indices of the array parameters whose contents after the forward launch it reads.
    cotangents
        Indices of the active parameters: an array's cotangent has its shape, a by-value parameter's is an array of
        one element.
    races
        What a launch has to be checked for, as what it loads may be written by another thread.
    unproved
        What it takes for granted, as stamps of the launch have shown it.
    trusted
        What it takes for granted, as one thread alone stores to an element.
    stores
        Stores of which it takes the same for granted, or, where the launch is stamped, that all threads store the same.
    """

    fn: Function
    saved: tuple[int, ...]
    final: tuple[int, ...]
    cotangents: tuple[int, ...]
    races: tuple[RaceCheck, ...]
    unproved: tuple[Unproved, ...] = ()
    trusted: tuple[Unproved, ...] = ()
    stores: tuple[TwoStores, ...] = ()

    @property
    def buffers(self) -> tuple[Value, ...]:
        """The cotangent parameters."""
        return self.fn.params[len(self.fn.params) - len(self.cotangents) :]


@dataclass(frozen=True, slots=True)
class Swept:
    """A function with its reverse sweep, as it is before anything was tidied up.

    Attributes
    ----------
    fn
        Its parameters are the primal's, a saved array for each array among these, then the cotangents.
    params
        Those of the primal.
    saved
        For each array among them the one that has its entry contents.
    cotangents
        Indices of the active parameters.
    context
        What its replay knows, that of values which must not be used too.
    loads
        What is known of loads that the sweep goes through.
    memory
        The shared arrays of the threads of a block, None where they do not work together.
    prologue
        What allocates these.
    disjoint
        Updates and stores of which it takes for granted that no two threads touch one element with them, as stamps of
        the launch have shown.
    stores
        Stores that two threads may make to one element.
    hidden
        Indices of arrays of which stamps would not tell who stores to an element, as the order of threads decides.
    """

    fn: Function
    params: Sequence[Value]
    saved: Mapping[Value, Value]
    cotangents: tuple[int, ...]
    context: ReplayContext
    loads: Sequence[LoadFact]
    memory: BlockMemory | None
    prologue: Sequence[Op]
    disjoint: Sequence[Unproved] = ()
    stores: Sequence[TwoStores] = ()
    hidden: frozenset[int] = frozenset()

    def tidied(self) -> Swept:
        """The same without what nothing uses, in place; until then the function is of no stage."""
        shared = (self.remove_dead_replays, eliminate, self.merge_barriers, self.allocate)
        for step in (*(shared if self.memory is not None else ()), eliminate):
            step(self.fn)
        return self

    def remove_dead_replays(self, fn: Function) -> Function:
        """Remove what is replayed in shared memory for values that are not used, in place."""
        assert self.memory is not None
        replays.remove_dead_replays(fn.body, self.memory.tracked)
        return fn

    def merge_barriers(self, fn: Function) -> Function:
        """Remove barriers without a purpose, in place."""
        assert self.memory is not None
        replays.merge_barriers(fn.body, self.memory.tracked)
        return fn

    def allocate(self, fn: Function) -> Function:
        """Put the shared arrays in front, in place."""
        fn.body.ops[:0] = self.prologue
        return fn

    def function(self) -> Function:
        """Return the function of a func, which has no parameters besides those of the primal and cotangents.

        Raises
        ------
        AutodiffError
            If it needs a value that cannot be rematerialized.
        """
        lost = self.lost()
        if lost:
            raise lost[0][1]
        return self.fn

    def lost(self) -> list[tuple[Op | None, AutodiffError]]:
        """Return what is needed and cannot be had again: the load, if a log could have its value, and the error."""
        found = used_poisons(self.fn.body, self.context)
        return [(self.context.lost.get(v), self.context.poison[v]) for v in found]

    def adjoint(self) -> Adjoint:
        """Return the adjoint of a kernel, with the parameters that it needs; errors as of :meth:`function`."""
        out, params = self.function(), self.params
        read = {Access(op).array for op in walk(out.body) if op.name in LOADS}
        saved = tuple(k for k, p in enumerate(params) if p in self.saved and self.saved[p] in read)
        final = tuple(k for k, p in enumerate(params) if p in read)
        kept = tuple(self.saved[params[k]] for k in saved)
        out.params = (*params, *kept, *out.params[len(out.params) - len(self.cotangents) :])
        used = [self.context.checked[v] for op in walk(out.body) for v in op.results if v in self.context.checked]
        facts = (*self.loads, *used)
        races = dict.fromkeys(check for fact in facts for check in fact.checks)
        unproved = dict.fromkeys([*(pair for fact in facts for pair in fact.unproved), *self.disjoint])
        trusted = dict.fromkeys(pair for fact in facts for pair in fact.trusted if pair.array not in self.hidden)
        stores = dict.fromkeys(pair for pair in self.stores if pair.array not in self.hidden)
        facts_of = (tuple(races), tuple(unproved), tuple(trusted), tuple(stores))
        return Adjoint(out, saved, final, self.cotangents, *facts_of)
