"""What does a load from a written array see: the content before the launch, or the content after it?

In: a function after promotion. Out: for each load from an array that the function writes, a :class:`Source`. A load
sees the *entry* content if no store of the same thread may come before it to the same element, and the *final* content
if none may come after it. Everything else is *unknown*: the adjoint cannot rematerialize the value without re-executing
the stores, which it never does. Loads that another thread may overwrite in the same launch are *racing*.

The test is the classical dependence test: along each axis the two index expressions are compared as affine forms in
the variables of common loops, which gives the distance, in iterations, between the two accesses of one element. Where
that does not decide, the bounds of the loops and the conditions around the accesses are taken into account
(:mod:`diffkern.analysis.iterations`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from diffkern.analysis.affine import Affine, AffineForms, enclosing_loops
from diffkern.analysis.blocks import blockwise_op
from diffkern.analysis.iterations import Place, may_precede
from diffkern.analysis.race_checks import RaceChecks
from diffkern.analysis.threads import Never, relate
from diffkern.analysis.tile_access import shadow
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.types import is_shared
from diffkern.ir.views import Access, For
from diffkern.manifest import RaceCheck, Unproved


class Source(enum.Enum):
    """Which version of a written array a replayed load may read."""

    ENTRY = "entry"
    FINAL = "final"
    UNKNOWN = "unknown"
    RACING = "racing"


@dataclass(frozen=True, slots=True)
class LoadFact:
    """A load's source and, where that is bad news, the store that is the reason.

    ``checks`` are what a launch has to be looked at for, so that the source is right; ``unproved`` are the writes of
    which a launch that is stamped has shown that no other thread makes them, ``trusted`` those that rest on the
    precondition of stores, one thread for each element.
    """

    source: Source
    store: Op | None = None
    checks: tuple[RaceCheck, ...] = ()
    unproved: tuple[Unproved, ...] = ()
    trusted: tuple[Unproved, ...] = ()


@dataclass(slots=True)
class _Order:
    """Whether a store may come before and after a load, for the same element and the same thread."""

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
                self.visit(sub, (*branches, (op, k)) if op.name == "if" else branches)

    def exclusive(self, a: Op, b: Op) -> bool:
        """Whether two ops stand in different branches of one if (within one iteration of every loop around both)."""
        taken = dict(self.branches[b])
        return any(op in taken and taken[op] != k for op, k in self.branches[a])

    def implies(self, a: Op, b: Op) -> bool:
        """Whether whoever executes ``a`` executes ``b``, as far as branches go."""
        return set(self.branches[b]) <= set(self.branches[a])


def classify_loads(fn: Function, *, stamped: bool = False) -> dict[Op, LoadFact]:
    """A fact for each load from an array parameter that the function stores to or updates atomically.

    ``stamped``: of a launch in which no two threads race, as stamps of its reads and writes have shown.
    """
    seen = shadow(fn)
    classes = _Classes(seen.fn, fn, stamped)
    writes: dict[Value, list[Op]] = {}
    for op in walk(seen.fn.body):
        if op.name in ("store", "atomic") and not is_shared(Access(op).array.type):
            writes.setdefault(Access(op).array, []).append(op)
    return {
        seen.original(op): classes.of(op, writes[Access(op).array])
        for op in walk(seen.fn.body)
        if op.name == "load" and Access(op).array in writes
    }


class _Classes:
    """What the loads of one function see, of which `fn` is a shadow."""

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
        asked = {op.attrs["axis"] for op in walk(fn.body) if op.name == "tid"}
        self.repeated = self.checks.by_index and len(asked) < self.arity

    def of(self, load: Op, writes: list[Op]) -> LoadFact:
        total, near = _Order(), []
        checks: list[RaceCheck] = []
        unproved: list[Unproved] = []
        trusted: list[Unproved] = []
        for write in writes:
            is_atomic = write.name == "atomic"
            if self.alone and is_atomic:
                return LoadFact(Source.RACING, write)
            if self.alone or self.proved(load, write):
                pass
            elif not is_atomic and self.implied(load, write):
                if self.checks.by_index and not self.keeps_the_rest(load, write):
                    trusted.append(Unproved(self.position[Access(load).array], load.loc, write.loc))
            elif self.stamped and (not is_atomic or write.attrs["kind"] in ("add", "sub")):
                is_atomic = False  # where one thread alone adds, it does so in the order of its program
                unproved.append(Unproved(self.position[Access(load).array], load.loc, write.loc))
            else:
                check = self.checks.of(load, write, same_thread=is_atomic, always=self.repeated)
                if check is None:
                    return LoadFact(Source.RACING, write)
                checks.append(check)
            if not is_atomic:
                found = _order(load, write, self.forms, self.loops, self.order)
                total.before |= found.before
                total.after |= found.after
                near += [write] if found.before or found.after else []
        if total.before and total.after:
            total = _by_bounds(load, near, self.forms, self.loops, self.order)
        if not total.before:
            return LoadFact(Source.ENTRY, None, tuple(checks), tuple(unproved), tuple(trusted))
        if not total.after:
            return LoadFact(Source.FINAL, None, tuple(checks), tuple(unproved), tuple(trusted))
        return LoadFact(Source.UNKNOWN, writes[0], tuple(checks), tuple(unproved), tuple(trusted))

    def proved(self, load: Op, write: Op) -> bool:
        """Whether no other thread writes the element, whatever the launch; of an atomic update no thread at all."""
        relation = relate(self.forms, load, write)
        return isinstance(relation, Never) or (write.name == "store" and relation.same_thread(self.arity))

    def implied(self, load: Op, write: Op) -> bool:
        """Whether no other thread writes the element if one thread stores to each, which is a precondition of stores.

        So it is where a thread that comes to the load comes to the store as well, with the very same index. A launch
        that is stamped need not rest on it, but for components, which have no stamps of their own.
        """
        is_seen = self.stamped and self.checks.by_index and not self.keeps_the_rest(load, write)
        if Access(load).index != Access(write).index or self.repeated or is_seen:
            return False
        loops, order = self.loops, self.order
        return bool(load.attrs.get("carried")) or (order.implies(load, write) and begins(loops[write], loops[load]))

    def keeps_the_rest(self, load: Op, write: Op) -> bool:
        """Whether a store sets components of what was loaded, so that threads may share an element and no component."""
        value, made = Access(write).value, self.forms.producer
        is_changed = False
        while (op := made.get(value)) is not None and op.name in ("insert", "insert_dyn"):
            value, is_changed = op.operands[0], True
        return is_changed and value is load.result


def begins(outer: tuple[Op, ...], inner: tuple[Op, ...]) -> bool:
    """Whether an op in the loops ``inner`` stands in the loops ``outer`` first of all."""
    return inner[: len(outer)] == outer


def _order(load: Op, write: Op, forms: AffineForms, loops: dict[Op, tuple[Op, ...]], order: Positions) -> _Order:
    """Solve for the iteration distance of the common loops, from the load to the store."""
    common = [a for a, b in zip(loops[load], loops[write], strict=False) if a is b]
    distance = _distances(load, write, forms, common)
    if distance is None:
        return _Order()
    for loop in common:
        d = distance.get(loop)
        if d is None:
            return _Order(True, True)
        if d:
            return _Order(before=d < 0, after=d > 0)
    if order.exclusive(load, write):
        return _Order()
    earlier = order.number[write] < order.number[load]
    return _Order(before=earlier, after=not earlier)


def _by_bounds(
    load: Op, writes: Iterable[Op], forms: AffineForms, loops: dict[Op, tuple[Op, ...]], order: Positions
) -> _Order:
    """Whether one of the stores may come before the load, and one after it, by all that is known of iterations."""
    total, here = _Order(), Place(load, loops[load], order.branches[load])
    for write in writes:
        there = Place(write, loops[write], order.branches[write])
        apart, earlier = order.exclusive(load, write), order.number[write] < order.number[load]
        total.before = total.before or may_precede(forms, there, here, not apart and earlier)
        total.after = total.after or may_precede(forms, here, there, not apart and not earlier)
        if total.before and total.after:
            break
    return total


def _distances(load: Op, write: Op, forms: AffineForms, common: list[Op]) -> dict[Op, int] | None:
    """Iterations from the load to a store of the same element, per loop where it is determined; None if never."""
    found: dict[Op, int] = {}
    wraps = zip(Access(load).wrap, Access(write).wrap, strict=True)
    for x, y, (wrap_x, wrap_y) in zip(Access(load).index, Access(write).index, wraps, strict=True):
        if wrap_x or wrap_y:
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
    # c * k + x.const == c * k' + y.const; k' - k is a whole number of steps if both count from the same start
    d, remainder = divmod(x.const - y.const, c * step.const)
    if not remainder:
        return {loop: d}
    same_start = all(_fixed(forms, t, common) for t in forms.of(For(loop).start).terms)
    return None if same_start or (x.const - y.const) % c else {}


def _fixed(forms: AffineForms, term: object, common: list[Op]) -> bool:
    """Whether a term keeps its value within one thread while the common loops run."""
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
