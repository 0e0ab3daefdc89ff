"""The contents that a load from a written array sees: those before the launch, or those after it.

:func:`classify_loads`, on a function after promotion, gives a :class:`LoadSource` for each load from an array that the
function writes. A load sees the *entry* contents if no store of the same thread may come before it to the same element,
and the *final* contents if none may come after it. Everything else is *unknown*: the adjoint cannot rematerialize the
value without re-executing the stores, which it never does. Loads that another thread may overwrite in the same launch
are *racing*.

The test is the classical dependence test: along each axis the two index expressions are compared as affine forms in the
variables of common loops, which gives the distance, in iterations, between the two accesses of one element. Where that
does not decide, the bounds of the loops and the conditions around the accesses are taken into account
(:mod:`diffkern.analysis.iterations`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import field

from diffkern.analysis.affine import Affine, AffineForms, enclosing_loops
from diffkern.analysis.blocks import blockwise_op
from diffkern.analysis.iterations import AccessSite, may_precede
from diffkern.analysis.race_checks import RaceChecks
from diffkern.analysis.threads import Never, relate
from diffkern.analysis.tile_access import shadow
from diffkern.contracts.manifest import RaceCheck, Unproved
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.composite import INSERTS
from diffkern.ir.ops.memory import ELEMENT_ATOMICS, ELEMENT_LOADS, ELEMENT_STORES, PRIMAL_ELEMENT_WRITES, THREAD_INDICES
from diffkern.ir.ops.scalar import SUMS
from diffkern.ir.types import is_shared
from diffkern.ir.views import Access, For, is_branch
from diffkern.process.dataclass import dataclass


class LoadSource(enum.Enum):
    """The version of a written array that a replayed load may read."""

    ENTRY = "entry"
    FINAL = "final"
    UNKNOWN = "unknown"
    RACING = "racing"


@dataclass(frozen=True, slots=True)
class LoadFact:
    """A load's source and, if the value cannot be rematerialized, the store that clobbers it.

    ``checks`` are the checks a launch has to pass for the source to be right; ``unproved`` the writes that no other
    thread makes, as stamps of the launch have shown; ``trusted`` those that rest on the precondition of stores, one
    thread for each element.
    """

    source: LoadSource
    store: Op | None = None
    checks: tuple[RaceCheck, ...] = ()
    unproved: tuple[Unproved, ...] = ()
    trusted: tuple[Unproved, ...] = ()


@dataclass(slots=True)
class _StoreOrder:
    """Two flags: a store may come before, or after, a load of the same element by the same thread."""

    before: bool = False
    after: bool = False


@dataclass(slots=True)
class Positions:
    """Program order: a number per op, and the branches of ifs around it."""

    number: dict[Op, int] = field(default_factory=dict)
    branches: dict[Op, tuple[tuple[Op, int], ...]] = field(default_factory=dict)

    def visit(self, region: Region, branches: tuple[tuple[Op, int], ...] = ()) -> None:
        for op in region.ops:
            self.number[op] = len(self.number)
            self.branches[op] = branches
            for k, sub in enumerate(op.regions):
                self.visit(sub, (*branches, (op, k)) if is_branch(op) else branches)

    def exclusive(self, a: Op, b: Op) -> bool:
        """Return whether two ops are in different branches of one if (within one iteration of all common loops)."""
        taken = dict(self.branches[b])
        return any(op in taken and taken[op] != k for op, k in self.branches[a])

    def implies(self, a: Op, b: Op) -> bool:
        """Return whether a thread that executes ``a`` executes ``b``, as far as branches go."""
        return set(self.branches[b]) <= set(self.branches[a])


def classify_loads(fn: Function, *, stamped: bool = False) -> dict[Op, LoadFact]:
    """Return a fact for each load from an array parameter that the function stores to or updates atomically.

    ``stamped``: for a launch in which no two threads race, as stamps of its reads and writes have shown.
    """
    seen = shadow(fn)
    classes = _Classes(seen.fn, fn, stamped)
    writes: dict[Value, list[Op]] = {}
    for op in walk(seen.fn.body):
        # Shared arrays have barriers between accesses of different threads; BlockPlan classifies their loads.
        if op.name in PRIMAL_ELEMENT_WRITES and not is_shared(Access(op).array.type):
            writes.setdefault(Access(op).array, []).append(op)
    return {
        seen.original(op): classes.of(op, writes[Access(op).array])
        for op in walk(seen.fn.body)
        if op.name in ELEMENT_LOADS and Access(op).array in writes
    }


class _Classes:
    """The sources of the loads of one function, of which `fn` is a shadow."""

    def __init__(self, fn: Function, function: Function, stamped: bool) -> None:
        self.stamped = stamped
        self.position = {p: k for k, p in enumerate(fn.params)}
        self.forms = AffineForms(fn)
        self.loops = enclosing_loops(fn)
        self.order = Positions()
        self.order.visit(fn.body)
        self.arity = fn.tid_arity
        self.alone = fn.tid_arity == 0 and blockwise_op(fn) is None
        self.checks = RaceChecks(fn, self.forms, function)
        # Threads that differ only along an axis which nothing asks for do the same, stores included.
        asked = {op.attrs["axis"] for op in walk(fn.body) if op.name in THREAD_INDICES}
        self.repeated = self.checks.by_index and len(asked) < self.arity

    def of(self, load: Op, writes: list[Op]) -> LoadFact:
        total, near = _StoreOrder(), []
        checks: list[RaceCheck] = []
        unproved: list[Unproved] = []
        trusted: list[Unproved] = []
        for write in writes:
            is_atomic = write.name in ELEMENT_ATOMICS
            # Without a thread index all threads execute the same update, so each sees the sum of an unknown number of
            # others.
            if self.alone and is_atomic:
                return LoadFact(LoadSource.RACING, write)
            # The cheapest argument first: a proof for all launches, then the precondition, then stamps, then checks of
            # a launch.
            if self.alone or self.proved(load, write):
                pass
            elif not is_atomic and self.implied(load, write):
                if self.checks.by_index and not self.keeps_the_rest(load, write):
                    trusted.append(Unproved(self.position[Access(load).array], load.loc, write.loc))
            elif self.stamped and (not is_atomic or write.attrs["kind"] in SUMS):
                is_atomic = False  # where one thread alone adds, it does so in the order of its program
                unproved.append(Unproved(self.position[Access(load).array], load.loc, write.loc))
            else:
                check = self.checks.of(load, write, same_thread=is_atomic, always=self.repeated)
                if check is None:
                    return LoadFact(LoadSource.RACING, write)
                checks.append(check)
            # An atomic update of another thread has no place in this thread's program order.
            if not is_atomic:
                found = _order(load, write, self.forms, self.loops, self.order)
                total.before |= found.before
                total.after |= found.after
                near += [write] if found.before or found.after else []
        # The exact test is expensive, so it is asked only if the simple one found stores on both sides.
        if total.before and total.after:
            total = _by_bounds(load, near, self.forms, self.loops, self.order)
        if not total.before:
            return LoadFact(LoadSource.ENTRY, None, tuple(checks), tuple(unproved), tuple(trusted))
        if not total.after:
            return LoadFact(LoadSource.FINAL, None, tuple(checks), tuple(unproved), tuple(trusted))
        return LoadFact(LoadSource.UNKNOWN, writes[0], tuple(checks), tuple(unproved), tuple(trusted))

    def proved(self, load: Op, write: Op) -> bool:
        """Return whether no other thread writes the element in any launch; for an atomic update, no thread at all."""
        relation = relate(self.forms, load, write)
        return isinstance(relation, Never) or (write.name in ELEMENT_STORES and relation.same_thread(self.arity))

    def implied(self, load: Op, write: Op) -> bool:
        """Return whether no other thread writes the element given the precondition that one thread stores to each.

        That is so if a thread that executes the load executes the store as well, with the very same index. A stamped
        launch does not have to rely on the precondition, except for components, which have no stamps of their own.
        """
        is_seen = self.stamped and self.checks.by_index and not self.keeps_the_rest(load, write)
        if Access(load).index != Access(write).index or self.repeated or is_seen:
            return False
        loops, order = self.loops, self.order
        return bool(load.attrs.get("carried")) or (order.implies(load, write) and begins(loops[write], loops[load]))

    def keeps_the_rest(self, load: Op, write: Op) -> bool:
        """Return whether a store only sets components of the loaded value: threads may then share an element."""
        value, made = Access(write).value, self.forms.producer
        is_changed = False
        while (op := made.get(value)) is not None and op.name in INSERTS:
            value, is_changed = op.operands[0], True
        return is_changed and value is load.result


def begins(outer: tuple[Op, ...], inner: tuple[Op, ...]) -> bool:
    """Return whether the loops ``inner`` of an op start with the loops ``outer``."""
    return inner[: len(outer)] == outer


def _order(load: Op, write: Op, forms: AffineForms, loops: dict[Op, tuple[Op, ...]], order: Positions) -> _StoreOrder:
    """Solve for the iteration distance of the common loops, from the load to the store."""
    common = [a for a, b in zip(loops[load], loops[write], strict=False) if a is b]
    distance = _distances(load, write, forms, common)
    if distance is None:
        return _StoreOrder()
    # From the outermost loop inwards the first nonzero distance decides, as in lexicographic order.
    for loop in common:
        d = distance.get(loop)
        if d is None:
            return _StoreOrder(True, True)
        if d:
            return _StoreOrder(before=d < 0, after=d > 0)
    # In the same iteration of all common loops only one branch of an if is executed.
    if order.exclusive(load, write):
        return _StoreOrder()
    earlier = order.number[write] < order.number[load]
    return _StoreOrder(before=earlier, after=not earlier)


def _by_bounds(
    load: Op, writes: Iterable[Op], forms: AffineForms, loops: dict[Op, tuple[Op, ...]], order: Positions
) -> _StoreOrder:
    """Return whether a store may come before the load, and one after it, given bounds of loops and conditions."""
    total, here = _StoreOrder(), AccessSite(load, loops[load], order.branches[load])
    for write in writes:
        there = AccessSite(write, loops[write], order.branches[write])
        apart, earlier = order.exclusive(load, write), order.number[write] < order.number[load]
        total.before = total.before or may_precede(forms, there, here, not apart and earlier)
        total.after = total.after or may_precede(forms, here, there, not apart and not earlier)
        if total.before and total.after:
            break
    return total


def _distances(load: Op, write: Op, forms: AffineForms, common: list[Op]) -> dict[Op, int] | None:
    """Return the iterations from the load to a store of its element, per loop where determined; None if it has none."""
    found: dict[Op, int] = {}
    wraps = zip(Access(load).wrap, Access(write).wrap, strict=True)
    for x, y, (wrap_x, wrap_y) in zip(Access(load).index, Access(write).index, wraps, strict=True):
        if wrap_x or wrap_y:
            # An index that may count from the end is not affine in the sense of the test.
            continue
        solved = _solve_axis(forms, forms.of(x), forms.of(y), common)
        if solved is None:
            return None
        for loop, d in solved.items():
            if found.setdefault(loop, d) != d:
                return None
    return found


def _solve_axis(forms: AffineForms, x: Affine, y: Affine, common: list[Op]) -> dict[Op, int] | None:
    variables = {For(loop).index: loop for loop in common if loop.name == "for"}
    in_x = {t: c for t, c in x.terms.items() if t in variables}
    in_y = {t: c for t, c in y.terms.items() if t in variables}
    rest_x = {t: c for t, c in x.terms.items() if t not in variables}
    rest_y = {t: c for t, c in y.terms.items() if t not in variables}
    # Only equal forms up to the constant are solved: then the difference is a fixed number of iterations.
    if in_x != in_y or rest_x != rest_y or not all(_fixed(forms, t, common) for t in rest_x):
        return {}
    if not in_x:
        return {} if x.const == y.const else None
    if len(in_x) > 1:
        return {}
    ((variable, c),) = in_x.items()
    loop = variables[variable]
    step = forms.of(For(loop).step)
    if not step.is_constant or step.const == 0:
        return {}
    # Two different constants never meet, whatever the iteration.
    # c * k + x.const == c * k' + y.const; k' - k is a whole number of steps if both count from the same start
    d, remainder = divmod(x.const - y.const, c * step.const)
    if not remainder:
        return {loop: d}
    same_start = all(_fixed(forms, t, common) for t in forms.of(For(loop).start).terms)
    return None if same_start or (x.const - y.const) % c else {}


def _fixed(forms: AffineForms, term: object, common: list[Op]) -> bool:
    """Return whether a term keeps its value within one thread while the common loops run."""
    if isinstance(term, tuple):
        return True
    inner: set[Value] = set()
    for loop in common[:1]:
        for sub in loop.regions:
            inner.update(sub.params)
            for op in walk(sub):
                inner.update(op.results)
                for nested in op.regions:
                    inner.update(nested.params)
    return term not in inner
