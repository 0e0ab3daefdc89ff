"""The result of reverse mode on a kernel.

:class:`Swept` is a function as the reverse sweep leaves it. :meth:`Swept.tidied` removes dead code from it, and
:meth:`Swept.adjoint` then gives the :class:`Adjoint`. A :class:`Derivative` is an adjoint with what is known of its
threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from diffkern.ad.blocks import BlockMemory
from diffkern.ad.replay import ReplayContext, used_poisons
from diffkern.analysis.dependence import LoadFact
from diffkern.analysis.sorted_updates import Unsorted
from diffkern.contracts.manifest import Conflict, Gather, RaceCheck, SortedSum, TwoStores, Unproved
from diffkern.errors import AutodiffError
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import LOADS
from diffkern.ir.views import Access
from diffkern.opt import replays
from diffkern.opt.dce import eliminate
from diffkern.process.dataclass import dataclass

__all__ = ["Adjoint", "Derivative", "Swept"]


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
        Indices of the array parameters whose contents after the forward launch the adjoint reads.
    cotangents
        Indices of the active parameters: an array's cotangent has its shape, a by-value parameter's is an array of one
        element.
    races
        The checks that a launch has to pass, because another thread may write elements that the adjoint loads.
    unproved
        Assumptions of the adjoint that stamps of the launch have confirmed.
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
    """A function with its reverse sweep, before dead code is removed.

    Attributes
    ----------
    fn
        Its parameters are the primal's, a saved array for each array among these, then the cotangents.
    params
        The parameters of the primal.
    saved
        For each array parameter the parameter that holds its entry contents.
    cotangents
        Indices of the active parameters.
    context
        The context shared by its replays, which also lists the poisoned values, which must not be used.
    loads
        The facts about the loads that the sweep goes through.
    memory
        The shared arrays of the block, None if the threads of a block do not cooperate.
    prologue
        The ops that allocate the shared arrays.
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
        """Remove dead code in place and return the result; until then the function is of no stage."""
        # Dead replays go first, as they keep shared stores alive; a barrier is redundant only once the accesses around
        # it are gone. The allocations are prepended before the last elimination, which drops those nothing uses.
        shared = (self.remove_dead_replays, eliminate, self.merge_barriers, self.allocate)
        for step in (*(shared if self.memory is not None else ()), eliminate):
            step(self.fn)
        return self

    def remove_dead_replays(self, fn: Function) -> Function:
        """Remove replays in shared memory whose values are not used, in place."""
        assert self.memory is not None
        replays.remove_dead_replays(fn.body, self.memory.tracked)
        return fn

    def merge_barriers(self, fn: Function) -> Function:
        """Remove redundant barriers, in place."""
        assert self.memory is not None
        replays.merge_barriers(fn.body, self.memory.tracked)
        return fn

    def allocate(self, fn: Function) -> Function:
        """Prepend the allocations of the shared arrays, in place."""
        fn.body.ops[:0] = self.prologue
        return fn

    def function(self) -> Function:
        """Return the adjoint of a func, which has no parameters besides those of the primal and cotangents.

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
        """Return the values that are needed and cannot be rematerialized, in order.

        Each entry has the load, if a log could hold its value, and the error.
        """
        found = used_poisons(self.fn.body, self.context)
        return [(self.context.lost.get(v), self.context.poison[v]) for v in found]

    def adjoint(self) -> Adjoint:
        """Return the adjoint of a kernel, with the parameters that it needs; errors as of :meth:`function`."""
        out, params = self.function(), self.params
        # Only now is it known which entry and final contents the adjoint reads: the sweep had a saved array for every
        # array parameter, and dead code elimination has removed most of the loads from them.
        read = {Access(op).array for op in walk(out.body) if op.name in LOADS}
        saved = tuple(k for k, p in enumerate(params) if p in self.saved and self.saved[p] in read)
        final = tuple(k for k, p in enumerate(params) if p in read)
        kept = tuple(self.saved[params[k]] for k in saved)
        out.params = (*params, *kept, *out.params[len(out.params) - len(self.cotangents) :])
        # Facts about loads of the replay count only if the load has survived; those of the sweep always count.
        used = [self.context.checked[v] for op in walk(out.body) for v in op.results if v in self.context.checked]
        facts = (*self.loads, *used)
        # A dict instead of a set keeps the order, so that generated programs and cache keys are reproducible.
        races = dict.fromkeys(check for fact in facts for check in fact.checks)
        unproved = dict.fromkeys([*(pair for fact in facts for pair in fact.unproved), *self.disjoint])
        trusted = dict.fromkeys(pair for fact in facts for pair in fact.trusted if pair.array not in self.hidden)
        stores = dict.fromkeys(pair for pair in self.stores if pair.array not in self.hidden)
        facts_of = (tuple(races), tuple(unproved), tuple(trusted), tuple(stores))
        return Adjoint(out, saved, final, self.cotangents, *facts_of)


# -- and how its threads may race where they accumulate ----------------------------------------------------------------


@dataclass(frozen=True)
class Derivative:
    """An adjoint with the analysis of its accumulations.

    Attributes
    ----------
    adjoint
        The adjoint.
    conflicts
        How threads race, one entry per cotangent.
    joint
        The work of a program that does the launch as well, as a fraction of the work of the two; None if there is no
        such program.
    gather
        The condition for running a program whose threads compute the contributions of others to their own elements;
        None if there is no such program.
    sums
        How destinations are found in the cotangents in which threads race, or why they are not.
    """

    adjoint: Adjoint
    conflicts: tuple[Conflict, ...]
    joint: float | None = None
    gather: Gather | None = None
    sums: tuple[SortedSum, ...] | Unsorted = ()

    @property
    def fn(self) -> Function:
        return self.adjoint.fn

    @property
    def saved(self) -> tuple[int, ...]:
        return self.adjoint.saved

    @property
    def cotangents(self) -> tuple[int, ...]:
        return self.adjoint.cotangents

    @property
    def buffers(self) -> tuple[Value, ...]:
        """The cotangent parameters."""
        return self.adjoint.buffers
