"""Fuse a loop with one that makes the same trips backwards, in place.

This is for a function whose parameters do not overlap, such as a primal followed by its adjoint. If the second loop
only sums, and its sums do not need results of the first one, it can run forwards together with it: computations that
both do in one trip are then done once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from diffkern.ir.builder import Builder
from diffkern.ir.clone import free_values, substitute
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import ACCESSES, ACCUMULATES, LOADS, NEW_STACKS, WRITES
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.scalar import DIFFERENCES, SUMS
from diffkern.ir.ops.table import lookup
from diffkern.ir.views import Access, For, literal
from diffkern.process.dataclass import dataclass

__all__ = ["fuse_loops"]

_ON_STACKS = frozenset({Effect.STACK_WRITE})
_FIXED = frozenset({Effect.BARRIER, Effect.REPORT})
_ORDERED = _FIXED | {Effect.WRITE, Effect.ATOMIC}


def fuse_loops(fn: Function) -> Function:
    """Fuse each pair of loops that make the same trips, if the second one goes backwards and only sums."""
    _region(fn.body, _KnownValues(fn))
    return fn


class _KnownValues:
    """Facts about values (constants and producers), and cached facts about ops."""

    def __init__(self, fn: Function) -> None:
        self.source = {r: op for op in walk(fn.body) for r in op.results}
        self._needs: dict[Op, frozenset[Value]] = {}
        self._touched: dict[Op, _Touched] = {}
        self._sums_backwards: dict[Op, bool] = {}

    def needs(self, op: Op) -> frozenset[Value]:
        """Return the values from outside that an op uses."""
        if op not in self._needs:
            inside = (v for r in op.regions for v in free_values(r))
            self._needs[op] = frozenset((*op.operands, *inside))
        return self._needs[op]

    def touched(self, op: Op) -> _Touched:
        """Return the arrays that an op accesses."""
        if op not in self._touched:
            self._touched[op] = _Touched.by(op)
        return self._touched[op]

    def sums_backwards(self, op: Op) -> bool:
        """Return whether an op is a loop that counts down to 0, and whose trips may be made in any order."""
        if op not in self._sums_backwards:
            down = op.name == "for" and self.is_constant(For(op).step, -1) and self.is_constant(For(op).stop, -1)
            self._sums_backwards[op] = down and _only_sums(For(op))
        return self._sums_backwards[op]

    def constant(self, v: Value) -> float | None:
        op = self.source.get(v)
        return literal(op)

    def is_constant(self, v: Value, number: int) -> bool:
        return self.constant(v) == number

    def operands(self, v: Value, name: str) -> tuple[Value, ...]:
        """Return the operands of the op of this name that a value comes from; none if it comes from another one."""
        op = self.source.get(v)
        return op.operands if op is not None and op.name == name else ()


@dataclass
class _Touched:
    """Arrays that are accessed, those of them that are written, and whether there are ops that must not move."""

    accessed: set[Value] = field(default_factory=set)
    written: set[Value] = field(default_factory=set)
    fixed: bool = False

    @classmethod
    def by(cls, op: Op) -> _Touched:
        """Return the accesses of an op, with those inside of it."""
        inside = [op, *(inner for sub in op.regions for inner in walk(sub))]
        accesses = [o for o in inside if o.name in ACCESSES]
        written = {Access(o).array for o in accesses if o.name in WRITES}
        fixed = any(lookup(o.name).effect in _FIXED for o in inside)
        return cls({Access(o).array for o in accesses}, written, fixed)

    def add(self, other: _Touched) -> None:
        self.accessed |= other.accessed
        self.written |= other.written
        self.fixed |= other.fixed

    def commutes_with(self, other: _Touched) -> bool:
        return self.written.isdisjoint(other.accessed) and other.written.isdisjoint(self.accessed)


class _Between:
    """The ops between two loops: those that need the results of the first or of each other, and the rest."""

    def __init__(self, first: Op, known: _KnownValues) -> None:
        self.known, self.values, self.first = known, set(first.results), known.touched(first)
        self.later: list[Op] = []
        self.others: list[Op] = []
        self.moved, self.left = _Touched(), _Touched()

    def extend(self, ops: Iterable[Op]) -> None:
        """Append further ops."""
        for op in ops:
            touched = self.known.touched(op)
            if self.needed_by(op):
                self.later.append(op)
                self.values.update(op.results)
                self.moved.add(touched)
            else:
                self.others.append(op)
                self.left.add(touched)

    @property
    def fixed(self) -> bool:
        """True if the first loop must not move behind these ops, whatever follows them."""
        return self.first.fixed or self.moved.fixed or self.left.fixed

    def needed_by(self, op: Op) -> bool:
        """Return whether an op needs the results of the first loop."""
        return not self.values.isdisjoint(self.known.needs(op))

    def let_past(self, second: Op) -> bool:
        """Return whether the first loop may move behind the others, and the ops that need it behind the second too."""
        two = self.known.touched(second)
        apart = ((self.first, two), (self.first, self.left), (self.moved, self.left), (self.moved, two))
        return all(a.commutes_with(b) for a, b in apart)


def _region(region: Region, known: _KnownValues) -> None:
    # A fused loop may match a further one, so a region is visited until a round finds nothing.
    while _once(region, known):
        pass
    for op in region.ops:
        for sub in op.regions:
            _region(sub, known)


def _once(region: Region, known: _KnownValues) -> bool:
    """Fuse the loops of a region, from the first one on; return whether any were fused."""
    if not any(map(known.sums_backwards, region.ops)):
        return False
    k, found = 0, False
    while k < len(region.ops):
        if _fuse(region, k, known):
            found = True
        else:
            k += 1
    return found


def _fuse(region: Region, k: int, known: _KnownValues) -> bool:
    """Fuse the loop at a position with the first matching one behind it; return whether there is one."""
    first = region.ops[k]
    # A loop with writes to stacks keeps states for a reversed loop that reads them in this very order.
    if first.name != "for" or any(lookup(op.name).effect in _ON_STACKS for op in walk(For(first).body)):
        return False
    between, past = _Between(first, known), k + 1
    for n in range(k + 1, len(region.ops)):
        second = region.ops[n]
        if not known.sums_backwards(second) or not _goes_back(For(first), For(second), known):
            continue
        # Ops are classified once, and the classes extended as the search goes on to later loops.
        between.extend(region.ops[past:n])
        past = n
        if between.fixed:
            return False
        # The first loop moves down to the second: nothing in between may depend on the order of the two, and the second
        # must not use results of the first.
        if not between.needed_by(second) and between.let_past(second):
            # Ops that need neither loop come first, then the fused loop, then the ops that need the first loop's
            # results.
            region.ops[k : n + 1] = [*between.others, *_fused(For(first), For(second), known), *between.later]
            return True
    return False


def _goes_back(one: For, other: For, known: _KnownValues) -> bool:
    """Return whether a loop that counts down to 0 makes as many trips as another one makes upwards."""
    if not known.is_constant(one.step, 1) or one.index.type != other.index.type:
        return False
    start, stop = known.constant(one.start), known.constant(one.stop)
    last = known.constant(other.start)
    # With literal bounds the numbers of trips are compared directly.
    if last is not None:
        return start is not None and stop is not None and last + 1 == max(stop - start, 0)
    trips = known.operands(other.start, "sub")
    if not trips or not known.is_constant(trips[1], 1):
        return False
    if start == 0:
        larger = known.operands(trips[0], "max")
        # The number of trips has the form that the reverse sweep emits: max(stop, 0), or max(stop, start) - start.
        return bool(larger) and larger[0] is one.stop and known.is_constant(larger[1], 0)
    distance = known.operands(trips[0], "sub")
    return bool(distance) and distance[1] is one.start and known.operands(distance[0], "max") == (one.stop, one.start)


def _only_sums(loop: For) -> bool:
    """Return whether the trips of a loop may be made in any order, except for the rounding of sums."""
    uses: dict[Value, int] = {}
    for v in (v for op in walk(loop.body) for v in (*op.operands, *(y for r in op.regions for y in r.yields))):
        uses[v] = uses.get(v, 0) + 1
    # A partial sum that the next trip takes over counts as one use.
    for v in loop.yields:
        uses[v] = uses.get(v, 0) + 1
    source = {r: op for op in loop.body.ops for r in op.results}
    for _, carried, after, _ in loop.chains:
        # A value that no trip changes imposes no order.
        if after is carried:
            continue  # it is what it was before the loop
        while after is not carried:
            op = source.get(after)
            # A partial sum that is used elsewhere would have another value if the order of the trips changed.
            if op is None or op.name not in SUMS or uses[after] != 1:
                return False
            before = [v for v in _augends(op) if _leads_to(v, carried, source)]
            if len(before) != 1:
                return False
            after = before[0]
        if uses[carried] != 1:
            return False
    written = _Touched.by(loop.op).written
    # A stack made in a trip belongs to it. Writing to one from outside would record the order of the trips.
    stacks = {r for op in walk(loop.body) if op.name in NEW_STACKS for r in op.results}
    for op in walk(loop.body):
        effect = lookup(op.name).effect
        if effect in _ON_STACKS and not stacks.issuperset(op.operands[:1]):
            return False
        if effect in _ORDERED and op.name not in ACCUMULATES:
            return False
    # A trip must not read what another trip adds.
    return written.isdisjoint(Access(op).array for op in walk(loop.body) if op.name in LOADS)


def _leads_to(v: Value, carried: Value, source: dict[Value, Op]) -> bool:
    """Return whether a value is a carried one to which something may have been added."""
    op = source.get(v)
    return v is carried or (op is not None and any(_leads_to(x, carried, source) for x in _augends(op)))


def _augends(op: Op) -> tuple[Value, ...]:
    """Return the operands of a sum or difference that something is added to; none for other ops."""
    return op.operands if op.name == "add" else op.operands[:1] if op.name in DIFFERENCES else ()


def _fused(first: For, second: For, known: _KnownValues) -> list[Op]:
    """Return a loop that does both, preceded by the ops it needs."""
    b, body = Builder(), Region((first.index, *first.carried, *second.carried))
    with b.into(body), b.at(second.op.loc):
        body.ops.extend(first.body.ops)
        # The second loop counts trips, the first one its own index.
        place = first.index if known.is_constant(first.start, 0) else b.sub(first.index, first.start)
        body.ops.extend(second.body.ops)
    body.yields = (*first.yields, *second.yields)
    mapping = {second.index: place}
    if place is not first.index:  # where the index is made of the number of the trip again
        for op in second.body.ops:
            if op.name == "add" and set(op.operands) == {first.start, second.index}:
                mapping[op.result] = first.index
    substitute(body, mapping)
    operands = (*first.bounds, *first.init, *second.init)
    op = first.op
    return [Op("for", operands, (*op.results, *second.op.results), op.attrs, (body,), op.loc)]
