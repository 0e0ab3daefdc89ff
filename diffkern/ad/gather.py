"""Sums over all pairs of threads, computed by each thread for its own elements: gathering instead of scattering.

In the given adjoint thread ``i`` loops over all ``j`` below some count and adds to element ``j`` of cotangents. Where
that count is the number of threads, thread ``i`` can compute, in its trip ``j``, the contribution of thread ``j`` to
element ``i``; it sums these contributions and adds once. No two threads add to the same element any more. Thread ``j``
must not have changed anything that thread ``i`` then reads: a cotangent that it consumes is cleared after the launch.

A launch takes this form only if its arguments make the number of trips equal to the number of threads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import reduce

from diffkern.ad.adjoint import Adjoint
from diffkern.ad.pair_symmetry import Exchange, Signed
from diffkern.analysis.affine import AffineForms
from diffkern.analysis.blocks import is_simt
from diffkern.analysis.conflicts import analyse_conflicts
from diffkern.analysis.launch_forms import LaunchForms
from diffkern.analysis.work import thread_cost
from diffkern.contracts.manifest import Conflict, Gather, Monomial
from diffkern.ir.builder import Builder
from diffkern.ir.clone import substitute
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.composite import CONSTRUCTS
from diffkern.ir.ops.memory import ACCESSES, ELEMENT_ACCUMULATES, ELEMENT_LOADS, ELEMENT_STORES, THREAD_INDICES, WRITES
from diffkern.ir.ops.scalar import CASTS, DIFFERENCES, SUMS
from diffkern.ir.types import Array, Kind, Scalar, Tile
from diffkern.ir.views import Access, For, If, is_branch, literal
from diffkern.opt.dce import eliminate
from diffkern.process.dataclass import dataclass

__all__ = ["gathered", "gathering_pays"]

_GUARDS = {("lt", 0): 0, ("gt", 1): 0, ("ge", 0): 1, ("le", 1): 1}
"""Comparisons of the thread index, at this place, with the number of threads: which branch all threads take."""

_MOST_WORK = 1.8
"""Times the work of scattering that gathering may be; in lanes an update of one element by all costs several steps."""


def gathered(adjoint: Adjoint) -> tuple[Adjoint, Gather] | None:
    """Return the adjoint that gathers and the condition for running it; None if no loop can gather.

    Parameters
    ----------
    adjoint : Adjoint
        The adjoint, whose function is consumed.
    """
    fn = adjoint.fn
    if fn.tid_arity != 1 or is_simt(fn) or any(isinstance(v.type, Tile) for op in walk(fn.body) for v in op.results):
        return None
    if any(op.name == "deposit" for op in walk(fn.body)):
        return None  # it adds to what is no parameter
    if any(isinstance(p.type, Array) and p.type.outer for p in fn.params):
        return None  # which elements are one is known to the launch alone
    threads = [op for op in fn.body.ops if op.name in THREAD_INDICES]
    if not threads:
        return None
    return _GatherSearch(adjoint, threads[0].result).run()


def gathering_pays(fn: Function, conflicts: Sequence[Conflict], adjoint: Adjoint) -> bool:
    """Return whether threads race in fewer cotangents if they gather, for a bearable amount of work.

    Parameters
    ----------
    fn : Function
        The adjoint as it is.
    conflicts : sequence of Conflict
        How its threads race.
    adjoint : Adjoint
        The adjoint that gathers.
    """
    own = analyse_conflicts(adjoint.fn, adjoint.buffers)
    if sum(c.kind == "general" for c in own) >= sum(c.kind == "general" for c in conflicts):
        return False
    return thread_cost(adjoint.fn) <= _MOST_WORK * thread_cost(fn)


@dataclass(frozen=True)
class _Goal:
    """Elements that all threads add to: the buffer, and the index; constants as numbers, the loop index as None."""

    buffer: Value
    index: tuple[Value | int | None, ...]


class _GatherSearch:
    """The analysis of an adjoint, whose function is rewritten as loops that can gather are found."""

    def __init__(self, adjoint: Adjoint, thread: Value) -> None:
        self.adjoint, self.fn, self.thread = adjoint, adjoint.fn, thread
        self.forms = LaunchForms(self.fn, AffineForms(self.fn))
        self.source = self.forms.affine.producer
        self.given = len(self.fn.params) - len(adjoint.saved) - len(adjoint.cotangents)

    def run(self) -> tuple[Adjoint, Gather] | None:
        # The guards are removed for the first count only, so one count decides: a launch can equal only one of them.
        for count in self._counts():
            self._remove_guards(count)
            self._note_accesses()
            found = [self._gather(op) for op in [*self.fn.body.ops] if op.name == "for" and self._trips(op) == count]
            if any(found):
                eliminate(self.fn)
                return self.adjoint, Gather(((count,),), self._clear_later())
        return None

    # -- what has to hold --------------------------------------------------------------------------------------------

    def _counts(self) -> list[Monomial]:
        """Return the trip count of the first loop that adds to elements by its index."""
        loops = (op for op in walk(self.fn.body) if op.name == "for")
        adding = [op for op in loops if any(self._goal(For(op), acc) for acc in _accumulations(For(op).body))]
        return [count for op in adding if (count := self._trips(op)) is not None][:1]

    def _trips(self, op: Op) -> Monomial | None:
        """Return the trip count of a loop over 0, 1, …, forwards or backwards; None for any other loop."""
        loop = For(op)
        step = self._constant(loop.step)
        if step == 1 and self._constant(loop.start) == 0:
            return self._number(loop.stop)
        if step != -1 or self._constant(loop.stop) != -1:
            return None
        last = self._constant(loop.start)
        if last is not None:
            return Monomial(int(last) + 1)
        made = self.source.get(loop.start)
        if made is None or made.name not in DIFFERENCES or self._constant(made.operands[1]) != 1:
            return None
        return self._number(made.operands[0])

    def _constant(self, v: Value) -> float | None:
        op = self.source.get(v)
        # A loop over range(n) makes max(n, 0) trips, so both forms of the count are recognised.
        return literal(op)

    def _number(self, v: Value) -> Monomial | None:
        """Return a constant, extent or integer argument that the launch knows, perhaps as ``max(n, 0)``; else None."""
        op = self.source.get(v)
        if op is not None and op.name == "max" and self._constant(op.operands[1]) == 0:
            v = op.operands[0]
        form = self.forms.of(v)
        if form.terms or len(form.const) != 1:
            return None
        ((product, factor),) = form.const.items()
        if not product:
            return Monomial(factor)
        return Monomial(1, product) if factor == 1 and len(product) == 1 and product[0][0] < self.given else None

    def _remove_guards(self, count: Monomial) -> None:
        # With exactly as many threads as trips, the test tid < n is true for all threads.
        """Replace guards of the thread index by the branch that all threads take if their number is the count."""
        body = self.fn.body
        k = 0
        while k < len(body.ops):
            op = body.ops[k]
            taken = self._taken(op, count) if is_branch(op) else None
            if taken is None:
                k += 1
                continue
            body.ops[k : k + 1] = taken.ops
            substitute(body, dict(zip(op.results, taken.yields, strict=True)))

    def _taken(self, op: Op, count: Monomial) -> Region | None:
        test = self.source.get(If(op).condition)
        if test is None or len(test.operands) != 2:
            return None
        for place in (0, 1):
            branch = _GUARDS.get((test.name, place))
            if branch is not None and self._is_thread(test.operands[place]):
                return op.regions[branch] if self._number(test.operands[1 - place]) == count else None
        return None

    def _is_thread(self, v: Value) -> bool:
        return self._is_index(v, self.thread)

    def _is_index(self, v: Value, index: Value) -> bool:
        """Return whether an integer is an index, perhaps of another type."""
        op = self.source.get(v)
        while op is not None and op.name in CASTS and _is_signed(v) and v is not index:
            v = op.operands[0]
            op = self.source.get(v)
        return v is index or (op is not None and op.name in THREAD_INDICES and index is self.thread)

    # -- memory ------------------------------------------------------------------------------------------------------

    def _note_accesses(self) -> None:
        accesses = [op for op in walk(self.fn.body) if op.name in ACCESSES]
        self.accesses: dict[Value, list[Op]] = defaultdict(list)
        for op in accesses:
            self.accesses[Access(op).array].append(op)
        self.written = {Access(op).array for op in accesses if op.name in WRITES}
        self.consumed = {b for b in self.adjoint.buffers if self._is_consumed(b)}

    def _is_consumed(self, buffer: Value) -> bool:
        """Return whether each thread only reads its own element of a cotangent and then clears it."""
        ops = self.accesses[buffer]
        own = all(len(Access(op).index) == 1 and self._is_thread(Access(op).index[0]) for op in ops)
        names = [op.name for op in self.fn.body.ops if op in ops]  # in the order in which every thread executes them
        # Order matters: in a branch or loop the number of loads before the store is unknown, so all accesses have to be
        # top level ops of the body.
        if not own or len(names) < len(ops) or len(names) < 2:
            return False
        return names == ["load"] * (len(names) - 1) + ["store"] and self._is_zero(Access(ops[-1]).value)

    def _is_zero(self, v: Value) -> bool:
        op = self.source.get(v)
        if op is not None and op.name in CONSTRUCTS:
            return all(map(self._is_zero, op.operands))
        return literal(op) == 0

    def _is_readable(self, op: Op) -> bool:
        array = Access(op).array
        return array not in self.written or array in self.consumed

    def _clear_later(self) -> tuple[int, ...]:
        """Remove the clearing of cotangents that other threads read; return the ones that the launch has to clear."""
        later = {Access(x).array for op in walk(self.fn.body) if op.name == "for" for x in walk(For(op).body)
                 if x.name in ELEMENT_LOADS and Access(x).array in self.consumed}  # fmt: skip
        ops = self.fn.body.ops
        ops[:] = [op for op in ops if op.name not in ELEMENT_STORES or Access(op).array not in later]
        pairs = zip(self.adjoint.cotangents, self.adjoint.buffers, strict=True)
        return tuple(k for k, buffer in pairs if buffer in later)

    # -- loops -------------------------------------------------------------------------------------------------------

    def _goal(self, loop: For, acc: Op, own: bool = False) -> _Goal | None:
        """Return the elements an accumulation adds to, if it is indexed by the loop, or by the thread (``own``)."""
        access, number = Access(acc), self.thread if own else loop.index
        index = tuple(None if self._is_index(v, number) else v for v in access.index)
        if None not in index or access.array not in self.adjoint.buffers or access.along:
            return None
        others = [v for v in index if v is not None]
        # The other indices must be the same for all threads, or the element would not be the thread's own.
        if any(self.forms.of(v).terms for v in others):
            return None
        inside = {r for op in walk(loop.body) for r in op.results}
        constants = [None if v is None else self._constant(v) for v in index]
        if any(v in inside and c is None for v, c in zip(index, constants, strict=True)):
            return None
        return _Goal(access.array, tuple(v if c is None else int(c) for v, c in zip(index, constants, strict=True)))

    def _gather(self, op: Op) -> bool:
        """Let a loop gather what it scatters, in place; return whether it scattered anything."""
        loop, k = For(op), self.fn.body.ops.index(op)
        # A carried value that no trip changes is its initial value; knowing that lets more ops be exchanged.
        fixed = {carried: init for init, carried, after, _ in loop.chains if self._is_kept(after, carried)}
        substitute(loop.body, fixed)
        goals = {acc: goal for acc in _accumulations(loop.body) if (goal := self._goal(loop, acc)) is not None}
        goals = {acc: goal for acc, goal in goals.items() if self._is_only_added_to(goal.buffer)}
        # If one accumulation of a buffer cannot be exchanged, none may be: the rest would still scatter, and race. Drop
        # the buffer and try again, as the exchange emits ops for those wanted only.
        while goals:
            exchange = Exchange(self.thread, loop.index, self._is_readable, [*goals])
            exchange.run(self.fn.params, self.fn.body.ops[:k], loop.body, [v for v in loop.carried if v not in fixed])
            lost = {goals[acc].buffer for acc, value in exchange.found.items() if value is None}
            if not lost:
                self._rewrite(op, k, goals, exchange)
                return True
            goals = {acc: goal for acc, goal in goals.items() if goal.buffer not in lost}
        return False

    def _is_kept(self, v: Value, carried: Value) -> bool:
        """Return whether a value is a carried one, whichever branches were taken."""
        op = self.source.get(v)
        if op is None or not is_branch(op):
            return v is carried
        k = op.results.index(v)
        return all(self._is_kept(region.yields[k], carried) for region in op.regions)

    def _is_only_added_to(self, buffer: Value) -> bool:
        return all(op.name in ELEMENT_ACCUMULATES for op in self.accesses[buffer])

    def _rewrite(self, op: Op, k: int, goals: Mapping[Op, _Goal], exchange: Exchange) -> None:
        always = {x for x in For(op).body.ops if x.name in ELEMENT_ACCUMULATES}
        conditional = goals.keys() - always
        # The scattering updates are removed; their values for the exchanged pair become terms of sums instead.
        _remove(For(op).body, goals)
        sums: dict[_Goal, list[Signed]] = {goal: [] for goal in goals.values()}
        # The thread's own contributions to the same element in this loop join the same sum.
        for acc in [x for x in For(op).body.ops if x.name in ELEMENT_ACCUMULATES]:
            own_goal = self._goal(For(op), acc, own=True)
            if own_goal in sums:
                For(op).body.ops.remove(acc)
                sums[own_goal].append((Access(acc).value, False))
        for acc, goal in goals.items():
            value = exchange.found[acc]
            assert value is not None
            sums[goal].append(value)
        # reversed: the first accumulation of a goal wins, and gives the attributes and the source line.
        examples = {goal: acc for acc, goal in reversed([*goals.items()])}
        behind = Region()
        rest = self.fn.body.ops[k + 1 :]
        loop = _GatheredSums(op, exchange.body)
        for goal, terms in sums.items():
            acc = examples[goal]
            # An accumulation behind the loop to the same element is merged as well: one update of memory instead of
            # two.
            own = next((x for x in rest if x.name in ELEMENT_ACCUMULATES and self._same_place(x, goal)), None)
            with loop.b.at(acc.loc):
                total = loop.joined(terms)
                if own is not None and loop.extend(Access(own).value, total, self.fn.body):
                    continue
                result = loop.sum(total, exchange.before)
            b = Builder(behind, acc.loc)
            index = [self._at(b, v, place) for v, place in zip(Access(acc).index, goal.index, strict=True)]
            if own is not None:
                more = Builder(loc=own.loc)
                own.operands = (*own.operands[:-1], more.add(Access(own).value, result))
                at = rest.index(own)
                rest[at:at] = more.region.ops
            elif conditional.isdisjoint(acc for acc, other in goals.items() if other == goal):
                b.op("accumulate", goal.buffer, *index, result, **acc.attrs)
            else:
                # The element need not exist where no trip adds to it; the sum is zero there.
                with b.into(Region()) as adding:
                    b.op("accumulate", goal.buffer, *index, result, **acc.attrs)
                b.if_(_differs_from_zero(b, result), adding, Region())
        ops = self.fn.body.ops
        # Hoisted ops come in front of the loop, and the single accumulation of each sum behind it.
        ops[k:] = [*exchange.before.ops, loop.made(), *behind.ops, *rest]

    def _same_place(self, acc: Op, goal: _Goal) -> bool:
        """Return whether an accumulation is to the element that a goal becomes."""
        access = Access(acc)
        if access.array is not goal.buffer:
            return False
        pairs = zip(access.index, goal.index, strict=True)
        return all(self._is_thread(v) if place is None else place in (v, self._constant(v)) for v, place in pairs)

    def _at(self, b: Builder, v: Value, place: Value | int | None) -> Value:
        assert isinstance(v.type, Scalar)
        if place is None:
            return b.cast(self.thread, v.type)
        return place if isinstance(place, Value) else b.const(place, v.type)


class _GatheredSums:
    """A loop that is extended by more sums."""

    def __init__(self, op: Op, more: Region) -> None:
        loop = For(op)
        self.op, self.b = op, Builder(more)
        self.body = Region(loop.body.params, [*loop.body.ops], loop.yields)
        self.operands, self.results = list(op.operands), list(op.results)
        self.params, self.yields = list(loop.body.params), list(loop.yields)

    def joined(self, terms: Sequence[Signed]) -> Signed:
        """Return the sum of the terms of a trip."""
        total = terms[0]
        # A sum of signed values is kept as a value with one sign, so that a negation is never executed.
        for value, negative in terms[1:]:
            name = "add" if negative == total[1] else "sub"
            total = self.b.one(name, total[0], value), total[1]
        return total

    def sum(self, term: Signed, before: Region) -> Value:
        """Sum a term over the trips; return the sum."""
        t = term[0].type
        self.operands.append(Builder(before, self.b.loc).zero(t))
        carried, result = Value(t), Value(t)
        self.params.append(carried)
        self.yields.append(self._added(carried, term))
        self.results.append(result)
        return result

    def extend(self, result: Value, term: Signed, function: Region) -> bool:
        """Add to an existing sum, if nothing else uses it; return whether there is one."""
        if result not in self.op.results:
            return False
        k = self.op.results.index(result)
        carried, after = self.op.regions[0].params[1 + k], self.op.regions[0].yields[k]
        adding = next((x for x in self.body.ops if after in x.results), None)
        if adding is None or adding.name not in SUMS or carried not in adding.operands:
            return False
        # The partial sum must not be visible elsewhere: each of the carried value, its update and the result has one
        # use.
        uses = _uses(function)
        if any(uses[v] != 1 for v in (carried, after, result)):
            return False
        # In x - carried the sign of the carried value alternates, so it is no sum.
        if adding.name in DIFFERENCES and adding.operands[0] is not carried:
            return False
        ((other),) = [v for v in adding.operands if v is not carried]
        own = (other, adding.name in DIFFERENCES)
        self.yields[k] = self._added(carried, self.joined([own, term]))
        return True

    def _added(self, carried: Value, term: Signed) -> Value:
        return self.b.one("sub" if term[1] else "add", carried, term[0])

    def made(self) -> Op:
        """Return the extended loop."""
        self.body.params, self.body.yields = tuple(self.params), tuple(self.yields)
        self.body.ops += self.b.region.ops
        op = self.op
        return Op("for", tuple(self.operands), tuple(self.results), op.attrs, (self.body,), op.loc)


def _uses(function: Region) -> Counter[Value]:
    uses = Counter(function.yields)
    for op in walk(function):
        uses.update(op.operands)
        for region in op.regions:
            uses.update(region.yields)
    return uses


def _accumulations(region: Region) -> Iterator[Op]:
    """Iterate over the accumulations that a trip makes at most once, in branches too."""
    for op in region.ops:
        if op.name in ELEMENT_ACCUMULATES:
            yield op
        elif is_branch(op):
            for sub in op.regions:
                yield from _accumulations(sub)


def _remove(region: Region, chosen: Container[Op]) -> None:
    region.ops[:] = [op for op in region.ops if op not in chosen]
    for op in region.ops:
        for sub in op.regions:
            _remove(sub, chosen)


def _differs_from_zero(b: Builder, v: Value) -> Value:
    """Return whether a number, or any component, is not zero."""
    found = [b.one("ne", part, b.zero(part.type)) for part in b.components(v)]
    return reduce(lambda one, other: b.one("or", one, other), found)


def _is_signed(v: Value) -> bool:
    """Return whether an integer type is signed and wide enough for every thread index."""
    return isinstance(v.type, Scalar) and v.type.kind is Kind.INT and v.type.bits >= 32
