"""Sums over neighbours, computed by each thread for its own element: stencils whose adjoints gather on a GPU.

The adjoint of ``out[i, j] = f(x[i - 1, j], x[i + 1, j], …)`` adds to elements at constant distances from that of its
thread, and so do other threads: on a GPU these sums are atomic. Here the thread of an element computes what the thread
at each distance would add to it, adds this up, and changes its element once. It evaluates the same operations as that
thread, conditions included, on the same memory; a cotangent that threads consume is cleared after the launch.

This is for launches with one thread for each element of the arrays that are added to: other threads that would add to
an element do not exist, and none is added to that has no thread.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import reduce
from itertools import filterfalse

from diffkern.ad.adjoint import Adjoint
from diffkern.ad.shifted_threads import ShiftedThread, is_harmless, is_inside
from diffkern.analysis.affine import AffineForms, tid_term
from diffkern.analysis.blocks import is_simt
from diffkern.analysis.launch_forms import MINUS, FormComparison, LaunchForms
from diffkern.analysis.work import thread_cost
from diffkern.contracts.manifest import Gather, Monomial
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.composite import CONSTRUCTS
from diffkern.ir.ops.memory import (
    ACCESSES,
    ELEMENT_ACCUMULATES,
    ELEMENT_LOADS,
    ELEMENT_STORES,
    THREAD_INDICES,
    WRITES,
)
from diffkern.ir.ops.row import Effect, Uniformity
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Array, Mat, Tile, Vec
from diffkern.ir.views import Access, If, is_branch, literal
from diffkern.opt.dce import eliminate
from diffkern.process.dataclass import dataclass

__all__ = ["clearing", "gathered_from_neighbours", "neighbours_pay"]

_FARTHEST = 64
"""The greatest distance along an axis, and the most distances: what a stencil in practice has is far below."""

_ATOMIC_WORK = 16.0
"""Operations that a thread may execute more for each number that it no longer adds atomically."""

_EXACT_WORK = 64.0
"""The same where each addition takes some 44 instructions and several atomic ones."""

_CHANGES = frozenset({Effect.WRITE, Effect.ATOMIC, Effect.REPORT, Effect.BARRIER})
_Distance = tuple[int, ...]


def gathered_from_neighbours(adjoint: Adjoint) -> tuple[Adjoint, Gather] | None:
    """Return the adjoint whose threads gather from their neighbours, and the condition for running it.

    Parameters
    ----------
    adjoint : Adjoint
        The adjoint, whose function is consumed.

    Returns
    -------
    tuple of Adjoint and Gather, or None
        None if its threads add to no array at constant distances alone, or if a thread cannot evaluate what the
        others add.
    """
    return _Neighbours(adjoint).run() if _is_plain(adjoint.fn) else None


def clearing(adjoint: Adjoint) -> Adjoint | None:
    """Return the adjoint that does nothing but clear the cotangents that threads consume and others gather from.

    Parameters
    ----------
    adjoint : Adjoint
        The adjoint as it is without gathering, whose function is consumed.
    """
    return _Neighbours(adjoint).clear() if _is_plain(adjoint.fn) else None


def neighbours_pay(fn: Function, gathered: Adjoint, exactly: bool = False) -> bool:
    """Return whether what threads evaluate for others is less work than the atomic additions that it replaces.

    Parameters
    ----------
    fn : Function
        The adjoint as it is.
    gathered : Adjoint
        The adjoint that gathers.
    exactly
        Whether the additions would be exact ones, the same in any order.
    """
    fewer = _numbers_added(fn) - _numbers_added(gathered.fn)
    return thread_cost(gathered.fn) - thread_cost(fn) <= (_EXACT_WORK if exactly else _ATOMIC_WORK) * fewer


def _numbers_added(fn: Function) -> int:
    values = [Access(op).value.type for op in walk(fn.body) if op.name in ELEMENT_ACCUMULATES]
    return sum(t.size if isinstance(t, (Vec, Mat)) else 1 for t in values)


def _is_plain(fn: Function) -> bool:
    """Return whether threads work alone, on numbers and vectors, and all memory that they change is known."""
    if not fn.tid_arity or is_simt(fn) or any(isinstance(v.type, Tile) for op in walk(fn.body) for v in op.results):
        return False
    # Elements of nested arrays may be one, and a write by an address may be to any memory.
    return not any(isinstance(p.type, Array) and p.type.outer for p in fn.params) and all(map(_is_known, walk(fn.body)))


def _is_known(op: Op) -> bool:
    """Return whether all memory that an op changes is in arrays that are its operands."""
    return op.name in ACCESSES or lookup(op.name).effect not in _CHANGES


@dataclass(frozen=True)
class _NeighbourPlan:
    """The gathering of one adjoint.

    Attributes
    ----------
    goals
        The cotangents that are gathered, with the accumulations to each and their distances.
    distances
        All distances, in order.
    later
        The cotangents that threads consume and others read, which are cleared behind the launch.
    """

    goals: Mapping[Value, Mapping[Op, _Distance]]
    distances: Sequence[_Distance]
    later: Set[Value]

    def sites(self, distance: _Distance) -> dict[Op, Value]:
        """Return the accumulations at a distance, each with its array."""
        return {acc: b for b, found in self.goals.items() for acc, of in found.items() if of == distance}


@dataclass(frozen=True)
class _Test:
    """A comparison that has to hold for the threads at some distances, of which it is hardest for one."""

    part: Value
    holds: bool
    hardest: _Distance
    compared: FormComparison
    distances: Sequence[_Distance]


@dataclass(frozen=True)
class _Usual:
    """The branches that most threads and all their neighbours take, and by which comparisons they do."""

    plan: _NeighbourPlan
    taken: Mapping[Op, int]
    tests: Sequence[_Test]


class _Neighbours:
    """The analysis of an adjoint, whose function is then rewritten."""

    def __init__(self, adjoint: Adjoint) -> None:
        self.adjoint, self.fn = adjoint, adjoint.fn
        self.forms = LaunchForms(self.fn, AffineForms(self.fn))
        self.source = self.forms.affine.producer
        self.accesses: dict[Value, list[Op]] = defaultdict(list)
        for op in walk(self.fn.body):
            if op.name in ACCESSES:
                self.accesses[Access(op).array].append(op)
        self.written = {array for array, ops in self.accesses.items() if any(op.name in WRITES for op in ops)}
        self.consumed = {b for b in adjoint.buffers if self._is_consumed(b)}

    def run(self) -> tuple[Adjoint, Gather] | None:
        """Return the adjoint that gathers, with the condition for running it."""
        plan = self.plan()
        if plan is None:
            return None
        stores = {op for b in plan.later for op in self._stores(b)}
        # A fill clears whole arrays; where only some threads consume their element, a program looks which.
        by_fill = all(_always_stores(self.fn.body, b) for b in plan.later)
        numbers = None if by_fill else self._numbers_of(self._needed(stores))
        axes = range(self.fn.tid_arity)
        dims = tuple(tuple(Monomial(1, ((self._parameter(b), axis),)) for b in plan.goals) for axis in axes)
        added = _numbers_added(self.fn)
        self._rewrite(plan)
        _remove(self.fn.body, stores | {acc for sites in plan.goals.values() for acc in sites})
        eliminate(self.fn)
        cleared = tuple(sorted(self._parameter(b) for b in plan.later)) if by_fill else ()
        return self.adjoint, Gather(dims, cleared, numbers, added - _numbers_added(self.fn))

    def clear(self) -> Adjoint | None:
        """Return the adjoint that does nothing but clear what threads consume and others gather from."""
        plan = self.plan()
        if plan is None:
            return None
        kept = {op for b in plan.later for op in self._stores(b)}
        _remove(self.fn.body, {op for op in walk(self.fn.body) if op.name in WRITES} - kept)
        eliminate(self.fn)
        return self.adjoint

    def plan(self) -> _NeighbourPlan | None:
        """Return which arrays are gathered and which consumed; None if there are none."""
        goals = {b: sites for b in self.adjoint.buffers if (sites := self._distances(b)) is not None}
        # Threads that all add at one distance add to different elements.
        goals = {b: sites for b, sites in goals.items() if len({*sites.values()}) > 1}
        goals = {b: sites for b, sites in goals.items() if self._is_evaluated(sites)}
        distances = sorted({distance for sites in goals.values() for distance in sites.values()})
        if not goals or len(distances) > _FARTHEST:
            return None
        needed = self._needed(acc for sites in goals.values() for acc in sites)
        later = {Access(op).array for op in needed if op.name in ELEMENT_LOADS} & self.consumed
        return _NeighbourPlan(goals, distances, {b for b in later if self._stores(b)})

    def _stores(self, array: Value) -> list[Op]:
        return [op for op in self.accesses[array] if op.name in ELEMENT_STORES]

    def _numbers_of(self, ops: Set[Op]) -> tuple[int, ...]:
        """Return the parameters by value that some ops depend on."""
        used = {v for op in ops for v in op.operands}
        return tuple(k for k, p in enumerate(self.fn.params) if p in used and not isinstance(p.type, Array))

    def _parameter(self, buffer: Value) -> int:
        return self.adjoint.cotangents[self.adjoint.buffers.index(buffer)]

    # -- what has to hold --------------------------------------------------------------------------------------------

    def _is_consumed(self, buffer: Value) -> bool:
        """Return whether each thread only reads its own element of a cotangent, and then sets it to zero, if at all."""
        ops = self.accesses[buffer]
        if not all(self._distance(op) == (0,) * self.fn.tid_arity for op in ops):
            return False
        if not all(op.name in ELEMENT_LOADS or self._is_clear(op) for op in ops):
            return False
        return _are_read_first(self.fn.body, buffer, False) is not None

    def _is_clear(self, op: Op) -> bool:
        """Return whether an access sets a whole element to zero."""
        return op.name in ELEMENT_STORES and "only" not in op.attrs and self._is_zero(Access(op).value)

    def _is_zero(self, v: Value) -> bool:
        op = self.source.get(v)
        if op is not None and op.name in CONSTRUCTS:
            return all(map(self._is_zero, op.operands))
        return literal(op) == 0

    def _distance(self, op: Op) -> _Distance | None:
        """Return how far an access is from the thread's own element; None if that is no constant."""
        access = Access(op)
        if len(access.index) != self.fn.tid_arity or access.along or "aligned" in op.attrs:
            return None
        found = []
        for axis, (v, wraps) in enumerate(zip(access.index, access.wrap, strict=True)):
            form = self.forms.affine.of(v)
            # An index that may be negative counts from the end, where another thread is the neighbour.
            if form.terms != {tid_term(axis): 1} or abs(form.const) > _FARTHEST or (wraps and form.const < 0):
                return None
            found.append(form.const)
        return tuple(found)

    def _distances(self, buffer: Value) -> dict[Op, _Distance] | None:
        """Return the accumulations to a cotangent with their distances; None if it has other accesses."""
        found = {}
        for op in self.accesses[buffer]:
            distance = self._distance(op) if op.name in ELEMENT_ACCUMULATES else None
            if distance is None or not all(is_branch(around) for around, _ in self.forms.place[op]):
                return None
            found[op] = distance
        return found

    def _is_evaluated(self, sites: Iterable[Op]) -> bool:
        """Return whether another thread can evaluate what is added."""
        return all(map(self._is_repeatable, self._needed(sites)))

    def _is_repeatable(self, op: Op) -> bool:
        row = lookup(op.name)
        if op.name in THREAD_INDICES or is_branch(op):
            return True
        # What differs between threads otherwise is none of the neighbour's that can be known here.
        if row.uniformity is not Uniformity.LAUNCH or op.regions or op.attrs.get("opaque"):
            return False
        if op.name in ELEMENT_LOADS:
            array = Access(op).array
            return array in self.fn.params and (array not in self.written or array in self.consumed)
        return row.effect is Effect.PURE

    def _needed(self, sites: Iterable[Op]) -> set[Op]:
        """Return the ops that the values of some accumulations need, with the branches around them."""
        found: set[Op] = set()
        computed: set[Op] = set()
        todo: list[Value] = []

        def enter(op: Op) -> None:
            # Of a branch around an op the condition alone is needed, until a value is that it yields.
            for around, _ in self.forms.place[op]:
                if around not in found:
                    found.add(around)
                    todo.extend(around.operands)

        for acc in sites:
            enter(acc)
            todo.append(Access(acc).value)
        while todo:
            op = self.source.get(todo.pop())
            if op is None or op in computed:
                continue
            computed.add(op)
            enter(op)
            todo.extend(op.operands)
            todo.extend(v for region in op.regions for v in region.yields)
        return found | computed

    # -- the sums ----------------------------------------------------------------------------------------------------

    def _rewrite(self, plan: _NeighbourPlan) -> None:
        """Put the sums, and one addition to each thread's own elements, in front of the body."""
        b = Builder(loc=self.fn.loc)
        own = [b.one("tid", axis=axis) for axis in range(self.fn.tid_arity)]
        usual = self._usual(plan)
        if usual is None:
            totals = self._totals(b, own, plan)
        else:
            is_usual = self._is_usual(b, own, usual)
            ways = [Region(), Region()]
            with b.into(ways[0]):
                ways[0].yields = tuple(self._totals(b, own, plan))
            with b.into(ways[1]):
                ways[1].yields = tuple(self._totals(b, own, plan, usual.taken))
            types = tuple(v.type for v in ways[0].yields)
            totals = b.op("if", b.one("not", is_usual), regions=ways, types=types, rarely=True)
        for (buffer, sites), total in zip(plan.goals.items(), totals, strict=True):
            (example, *_) = sites
            with b.at(example.loc):
                b.op("accumulate", buffer, *own, total, wrap=(False,) * len(own), mode="plain")
        self.fn.body.ops[:0] = b.region.ops

    def _totals(
        self, b: Builder, own: Sequence[Value], plan: _NeighbourPlan, taken: Mapping[Op, int] | None = None
    ) -> Sequence[Value]:
        """Return what is added to the own element of each array that is gathered.

        ``taken`` are the branches that the thread at each distance is known to take, which then is one of the launch.
        """
        terms: dict[Value, list[Value]] = {buffer: [] for buffer in plan.goals}
        for distance in plan.distances:
            sites = plan.sites(distance)
            if taken is None:
                found = self._contributions(b, own, distance, sites)
            else:
                found = self._evaluated(b, own, distance, sites, taken)
            for buffer, value in found.items():
                terms[buffer].append(value)
        example = {buffer: Access(next(iter(sites))).value.type for buffer, sites in plan.goals.items()}
        return [reduce(b.add, values) if values else b.zero(example[buffer]) for buffer, values in terms.items()]

    def _evaluated(
        self, b: Builder, own: Sequence[Value], distance: _Distance, sites: Mapping[Op, Value], taken: Mapping[Op, int]
    ) -> dict[Value, Value]:
        moved = [b.sub(v, b.i32(c)) if c else v for v, c in zip(own, distance, strict=True)]
        return ShiftedThread(b, moved, self._needed(sites), sites, self.fn.params, taken).sums(self.fn.body)

    def _contributions(
        self, b: Builder, own: Sequence[Value], distance: _Distance, sites: Mapping[Op, Value]
    ) -> dict[Value, Value]:
        """Return what the thread at a distance adds to the own element of each array."""
        exists = self._exists(b, own, distance, sites, filterfalse(is_harmless, self._needed(sites)))
        inside = Region()
        with b.into(inside):
            found = self._evaluated(b, own, distance, sites, {})
        if exists is None:
            b.region.ops += inside.ops
            return found
        inside.yields = tuple(found.values())
        outside = Region()
        with b.into(outside):
            outside.yields = tuple(b.zero(v.type) for v in inside.yields)
        return dict(zip(found, b.if_(exists, inside, outside), strict=True))

    def _exists(
        self, b: Builder, own: Sequence[Value], distance: _Distance, sites: Mapping[Op, Value], others: Iterable[Op]
    ) -> Value | None:
        """Return whether the launch has a thread at a distance; None if branches around all it does say so.

        ``others`` are the ops besides accumulations that a thread which does not exist must not execute.
        """
        found, under = [], [[*self.forms.under(op)] for op in (*sites, *others)]
        for axis, (v, c) in enumerate(zip(own, distance, strict=True)):
            if c and not all(any(self._bounds(one, axis, c, [*sites.values()]) for one in held) for held in under):
                found.append(is_inside(b, v, axis, c))
        return reduce(lambda one, other: b.one("and", one, other), found) if found else None

    def _usual(self, plan: _NeighbourPlan) -> _Usual | None:
        """Return what most threads do, away from boundaries: all neighbours exist and take the same branches.

        None where that is not told by comparisons of the thread's index with numbers of the launch.
        """
        sides = Counter(place for sites in plan.goals.values() for acc in sites for place in self.forms.place[acc])
        needed = {d: self._needed(plan.sites(d)) for d in plan.distances}
        taken, tests = {}, []
        for op in dict.fromkeys(op for op, _ in sides):
            k = taken[op] = max((0, 1), key=lambda side: sides[op, side])
            # Those too where only a value that the branch yields is needed.
            distances = [d for d in plan.distances if op in needed[d]]
            for part, holds in self.forms.conjuncts(If(op).condition, k == 0):
                compared = self.forms.comparison(part, holds)
                slope = None if compared is None else self._slope(compared)
                if compared is None or slope is None or not self._is_simple(part):
                    return None
                # What holds of the thread for which it is hardest holds of all.
                hardest = max(distances, key=lambda d: sum(s * c for s, c in zip(slope, d, strict=True)))
                tests.append(_Test(part, holds, hardest, compared, distances))
        return _Usual(plan, taken, tests)

    def _is_simple(self, condition: Value) -> bool:
        """Return whether a comparison may be made outside of the branches that it stands in."""
        todo = [*self.source[condition].operands]
        while todo:
            op = self.source.get(todo.pop())
            if op is not None:
                todo.extend(op.operands)
                if op.name in ELEMENT_LOADS or op.regions or not is_harmless(op):
                    return False
        return True

    def _slope(self, held: FormComparison) -> list[int] | None:
        """Return by how much a comparison gains along each axis of the index; None if it depends on more."""
        above = held.more + held.less.scaled(MINUS)
        axes = [("tid", axis) for axis in range(self.fn.tid_arity)]
        if held.equal or not above.terms.keys() <= {*axes} or any({*c} - {()} for c in above.terms.values()):
            return None
        return [above.terms.get(axis, {}).get((), 0) for axis in axes]

    def _is_usual(self, b: Builder, own: Sequence[Value], usual: _Usual) -> Value:
        """Return whether a thread does what most do."""
        found = []
        for axis, v in enumerate(own):
            for c in {max(d[axis] for d in usual.plan.distances), min(d[axis] for d in usual.plan.distances)} - {0}:
                told = (t for t in usual.tests if any(d[axis] == c for d in t.distances))
                if not any(self._bounds(t.compared, axis, c, [*usual.plan.goals]) for t in told):
                    found.append(is_inside(b, v, axis, c))
        for test in usual.tests:
            moved = [b.sub(v, b.i32(c)) if c else v for v, c in zip(own, test.hardest, strict=True)]
            value = ShiftedThread(b, moved, set(), {}, ()).value_of(test.part, self.source)
            found.append(value if test.holds else b.one("not", value))
        return reduce(lambda one, other: b.one("and", one, other), found)

    def _bounds(self, held: FormComparison, axis: int, c: int, goals: Sequence[Value]) -> bool:
        """Return whether what holds of a thread implies that its index is no less than 0, or less than the extent."""
        above = held.more + held.less.scaled(MINUS)
        rest = dict(above.const)
        slack = rest.pop((), 0)
        if held.equal or above.terms != {("tid", axis): {(): 1 if c > 0 else -1}}:
            return False
        if c > 0:
            return not rest and slack <= 0
        # The launch has the extents of the arrays that are added to.
        extents = [{((k, axis),): 1} for b in goals for k in (self._parameter(b), self.fn.params.index(b))]
        return rest in extents and slack < 0


# -- the paths of a thread ---------------------------------------------------------------------------------------------


def _are_read_first(region: Region, array: Value, is_written: bool) -> bool | None:
    """Return whether an array has been written at the end of a region; None if it may be read after that."""
    for op in region.ops:
        if op.name in ACCESSES and Access(op).array is array:
            if is_written and op.name in ELEMENT_LOADS:
                return None
            is_written = is_written or op.name in WRITES
        elif is_branch(op):
            ends = [_are_read_first(sub, array, is_written) for sub in op.regions]
            if None in ends:
                return None
            is_written = any(ends)
        elif any(x.name in ACCESSES and Access(x).array is array for sub in op.regions for x in walk(sub)):
            return None
    return is_written


def _always_stores(region: Region, array: Value) -> bool:
    """Return whether a thread stores to an array whichever branches it takes."""
    return any(
        all(_always_stores(sub, array) for sub in op.regions)
        if is_branch(op)
        else op.name in ELEMENT_STORES and Access(op).array is array
        for op in region.ops
    )


def _remove(region: Region, chosen: Set[Op]) -> None:
    region.ops[:] = [op for op in region.ops if op not in chosen]
    for op in region.ops:
        for sub in op.regions:
            _remove(sub, chosen)
