"""Plain and atomic accumulations into memory that a block shares, on a GPU.

:func:`finalize_shared_updates` takes an adjoint whose threads cooperate, with plain accumulations into shared arrays of
cotangents, and makes each accumulation in which two threads may race atomic. Two accumulations can race only in one
*phase*, between two barriers, and only if both threads read the element in the primal's phase. So one is plain if

- the thread also stores to that element, in the same phase: the element is the thread's own then, as the phases of the
  primal have no races; or
- its index differs between threads, from itself and from every other accumulation that may happen in the same phase; or
  only one thread executes it, and also those that it may race with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from diffkern.analysis.affine import Affine, AffineForms, Term, tid_term
from diffkern.analysis.blocks import uniform_values
from diffkern.analysis.scopes import has_barrier
from diffkern.analysis.threads import Never, relate
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.block import BARRIERS
from diffkern.ir.ops.memory import ELEMENT_ACCUMULATES, ELEMENT_STORES, THREAD_INDICES
from diffkern.ir.types import is_shared
from diffkern.ir.views import Access, If, is_branch, loop
from diffkern.process.dataclass import dataclass

__all__ = ["finalize_shared_updates", "races_in_blocks"]


def finalize_shared_updates(fn: Function) -> None:
    """Make accumulations into shared arrays atomic where threads may race, in place."""
    sites: dict[Value, list[Op]] = {}
    for op in walk(fn.body):
        if op.name in ELEMENT_ACCUMULATES and is_shared(Access(op).array.type):
            sites.setdefault(Access(op).array, []).append(op)
    if not sites:
        return
    for op in races_in_blocks(fn, list(sites.values())):
        op.attrs = {**op.attrs, "mode": "atomic"}


def races_in_blocks(fn: Function, sites: Sequence[Sequence[Op]]) -> set[Op]:
    """Return, among accesses to shared arrays, those in which two threads of a block may race between two barriers."""
    if not sites:
        return set()
    phases = _Phases(fn.body)
    uniform = uniform_values(fn)
    here = _BlockForms(fn, uniform)
    # Across trips of a block loop a uniform value may have changed, so it counts as invariant only if it is defined
    # outside of the loops.
    anywhere = _BlockForms(fn, {v for v in uniform if v not in phases.in_loops})
    racing: set[Op] = set()
    for ops in sites:
        left = [op for op in ops if not phases.owned(op)]
        for k, a in enumerate(left):
            for b in left[k:]:
                forms = here if phases.at_once(a, b) else anywhere
                alone = phases.at_once(a, b) and phases.guards(a, here) & phases.guards(b, here)
                if phases.together(a, b) and not alone and not _race_free(forms, a, b):
                    racing |= {a, b}
    return racing


class _BlockForms(AffineForms):
    """Affine forms in the thread's index within its block; values that are the same for all threads are invariant."""

    def __init__(self, fn: Function, uniform: set[Value]) -> None:
        super().__init__(fn)
        self.uniform = uniform
        self.arity = fn.tid_arity

    def _compute(self, v: Value) -> Affine:
        op = self.producer.get(v)
        if op is not None and op.name == "block_thread":
            return Affine({tid_term(0): 1}, 0)
        if op is not None and op.name in THREAD_INDICES:
            # In a launch of one axis the global index is the index in the block plus an offset that is the same in the
            # block.
            return Affine({tid_term(0): 1, ("shape", "first thread"): 1} if self.arity == 1 else {v: 1}, 0)
        return super()._compute(v)

    def invariant(self, term: Term | Value) -> bool:
        return term in self.uniform if isinstance(term, Value) else super().invariant(term)

    def one_to_one(self, v: Value) -> bool:
        """Return whether a value is injective over the threads."""
        form = self.of(v)
        return tid_term(0) in form.terms and all(t == tid_term(0) or self.invariant(t) for t in form.terms)


def _race_free(forms: _BlockForms, a: Op, b: Op) -> bool:
    """Return whether no two threads can name the same element."""
    relation = relate(forms, a, b)
    if isinstance(relation, Never) or relation.axes.get(0) == (0, 0):
        return True
    index = Access(a).index
    # a[k // n, k % n] names each pair once, although neither index alone is injective.
    return index == Access(b).index and any(_divided(forms, x, y) for x in index for y in index)


def _divided(forms: _BlockForms, x: Value, y: Value) -> bool:
    """Return whether two indices are quotient and remainder of a number that is injective over the threads."""
    quotient, remainder = forms.producer.get(x), forms.producer.get(y)
    if quotient is None or remainder is None or (quotient.name, remainder.name) != ("floordiv", "mod"):
        return False
    return (
        quotient.operands == remainder.operands
        and forms.one_to_one(quotient.operands[0])
        and (forms.of(quotient.operands[1]).is_constant or forms.invariant(quotient.operands[1]))
    )


@dataclass(eq=False, slots=True)
class _BlockSegment:
    """Ops between barriers; ``after`` are those that may follow without a barrier."""

    after: set[_BlockSegment] = field(default_factory=set)

    def reached(self) -> set[_BlockSegment]:
        found: set[_BlockSegment] = set()
        left = list(self.after)
        while left:
            segment = left.pop()
            if segment not in found:
                found.add(segment)
                left += segment.after
        return found


class _Phases:
    """The ops that may be executed between the same two barriers."""

    def __init__(self, body: Region) -> None:
        self.segment: dict[Op, _BlockSegment] = {}
        self.home: dict[Op, tuple[Region, tuple[Op, ...]]] = {}  # region, and loops and branches in the segment
        self.in_loops: set[Value] = set()
        self._region(body, set(), False)
        self.reach = {s: s.reached() for s in set(self.segment.values())}

    def together(self, a: Op, b: Op) -> bool:
        """Return whether two threads may be at these ops in one phase."""
        x, y = self.segment[a], self.segment[b]
        return x is y or y in self.reach[x] or x in self.reach[y]

    def at_once(self, a: Op, b: Op) -> bool:
        """Return whether two threads that are there in one phase are in the same trip of all block loops."""
        return self.segment[a] is self.segment[b] and self.segment[a] not in self.reach[self.segment[a]]

    def _region(self, region: Region, before: set[_BlockSegment], in_loop: bool) -> set[_BlockSegment]:
        """Assign ops to segments; return the segments from which the end is reached without a barrier."""

        def start(frontier: set[_BlockSegment]) -> _BlockSegment:
            segment = _BlockSegment()
            for earlier in frontier:
                earlier.after.add(segment)
            return segment

        here = start(before)
        if in_loop:
            self.in_loops.update(region.params)
        for op in region.ops:
            if in_loop:
                self.in_loops.update(op.results)
            if op.name in BARRIERS:
                # A barrier begins a segment that nothing reaches: no access before it is in the same phase as one after
                # it.
                # A loop around barriers may be entered from its own end, so its body begins a segment of its own.
                here = start(set())
            elif not has_barrier(op):
                self._own(op, region, here, (), in_loop)
            elif is_branch(op):
                ends = [self._region(sub, {here}, in_loop) for sub in op.regions]
                here = start(ends[0] | ends[1])
            else:
                entry = start({here})
                end = self._region(loop(op).body, {entry}, True)
                # The end of a trip reaches the beginning of the next one without a barrier.
                for last in end:
                    last.after.add(entry)
                # A loop may make no trip, so the code before it reaches the code behind it.
                here = start({here, *end})
        return {here}

    def _own(self, op: Op, region: Region, here: _BlockSegment, branches: tuple[Op, ...], in_loop: bool) -> None:
        self.segment[op] = here
        self.home[op] = (region, branches)
        for sub in op.regions:
            if in_loop:
                self.in_loops.update(sub.params)
            for inner in sub.ops:
                if in_loop:
                    self.in_loops.update(inner.results)
                self._own(inner, sub, here, (*branches, op), in_loop)

    def owned(self, site: Op) -> bool:
        """Return whether the thread that accumulates stores to the same element in the same phase."""
        return any(
            op.name in ELEMENT_STORES
            and op is not site
            and Access(op).array is Access(site).array
            and Access(op).index == Access(site).index
            and Access(op).wrap == Access(site).wrap
            for op in self._implied(site)
        )

    def guards(self, site: Op, forms: _BlockForms) -> set[Op]:
        """Return the branches around an op that a single thread of the block takes."""
        return {op for op in self.home[site][1] if is_branch(op) and self._takes_one(op, site, forms)}

    def _takes_one(self, branch: Op, site: Op, forms: _BlockForms) -> bool:
        test = forms.producer.get(If(branch).condition)
        if test is None or test.name != "eq" or not any(op is site for op in walk(If(branch).then)):
            return False
        a, b = test.operands
        return (forms.one_to_one(a) and forms.invariant(b)) or (forms.one_to_one(b) and forms.invariant(a))

    def _implied(self, site: Op) -> Iterator[Op]:
        """Iterate over the ops that a thread executes in the same segment and trip as this one."""
        here = self.segment[site]
        region, branches = self.home[site]
        around: Sequence[Op] = branches
        while True:
            yield from (op for op in region.ops if self.segment.get(op) is here)
            # Ops around a loop are executed once, those in it perhaps never: the walk outwards ends at the first loop.
            if not around or not is_branch(around[-1]):
                return
            region, around = self.home[around[-1]][0], around[:-1]
