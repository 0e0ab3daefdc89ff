"""Sink values needed in one branch only into that branch, so that an untaken branch contributes exactly zero.

In ``p = a * b; y = where(m > 0, p, 0.0)`` the cotangent of ``p`` is 0 where ``m <= 0``, and ``0 * b`` would poison the
gradient where ``b`` is infinite, although the product is not used there. Before differentiation the pure computation
behind each value that a branch takes from outside is therefore copied into the branch, if it contains an operation
whose rule multiplies by more than finite constants; dead code elimination removes the original if it is not used
outside any more. A ``select`` between such values becomes an ``if``. In place.

Nothing is copied into a loop, where it would be computed in every iteration. A computation outside of a loop whose
value a branch inside of it uses stays there and its operations are marked ``guarded``: their rules multiply nothing by
a cotangent that is exactly zero. Also marked are the operations behind the operands of ``min`` and ``max``, both of
which have to be computed before one of them loses, those behind a loop whose results a branch takes, those that a copy
would compute a second time if that is much, and those that the threads of a block do together. A loop itself is
reversed only if one of its results has a cotangent that is not exactly zero; in one that has to be reversed anyway, for
its stores or barriers, the operations are guarded. So are those of the function of a ``tile_map`` whose elements a
branch, or a later map with a choice in it, may not use. Values that a loop takes from outside, which may make no trip,
are guarded where a derivative can be infinite for finite operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from diffkern.analysis.selective_uses import maps_with_choices
from diffkern.analysis.tile_threads import threads_of
from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner, free_values, substitute
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.composite import PRODUCTS, QUOTIENTS
from diffkern.ir.ops.row import Diff, Effect
from diffkern.ir.ops.scalar import BOUNDS, CASTS, LITERALS, SELECTIONS
from diffkern.ir.ops.table import lookup
from diffkern.ir.ops.tile import of_block
from diffkern.ir.types import Tile, is_differentiable
from diffkern.ir.views import is_branch

MAX_CONE = 64
_CHANGES = frozenset({Effect.WRITE, Effect.ATOMIC, Effect.BARRIER})
"""Effects for which a loop is taken back whatever becomes of its results."""


def guard_singular(fn: Function) -> Function:
    """Mark every operation whose derivative may be infinite as guarded, in place.

    For the function of a map: an element with cotangent 0 gets exactly 0, as its branch of a later map may not have
    been taken.
    """
    for op in walk(fn.body):
        if lookup(op.name).singular is not None:
            op.attrs = {**op.attrs, "guarded": True}
    return fn


def guard_products(fn: Function) -> Function:
    """Mark every operation whose rule multiplies by a number that may not be finite as guarded, in place.

    For the function of a map that is marked itself.
    """
    sinker = _Sinker(fn)
    for op in walk(fn.body):
        sinker.made.update(dict.fromkeys(op.results, op))
    sinker.guard(op for op in walk(fn.body) if not op.regions)
    return fn


def sink_into_branches(fn: Function) -> Function:
    """Copy computations into the branches that use them, where an exact zero would not stay one."""
    _Sinker(fn).region(fn.body)
    for op in maps_with_choices(fn):
        op.attrs = {**op.attrs, "guarded": True}
    return fn


Test = Callable[[Op], bool]


class _Sinker:
    def __init__(self, fn: Function) -> None:
        self.fn = fn
        self.near: dict[Value, Op] = {}  # pure ops of the current iteration of the innermost loop
        self.far: dict[Value, Op] = {}  # those around that loop
        self.loops: dict[Value, Op] = {}
        self.made: dict[Value, Op] = {}
        self.position: dict[Op, int] = {}
        self.uses = _Uses(fn.body)
        self.passed: set[Op] = set()  # funcs with derivatives of their own behind which all is guarded

    def region(self, region: Region) -> None:
        for op in region.ops:
            if op.name in SELECTIONS and is_differentiable(op.result.type):
                self.select(op)
            if op.name in BOUNDS and is_differentiable(op.result.type):
                self.guard_values(op.operands)
            if is_branch(op):
                for sub in op.regions:
                    self.sink_into(sub)
                    self.region(sub)
                if _is_pure(op):
                    self.found(op)
                else:
                    self.loops.update(dict.fromkeys(op.results, op))
            elif op.regions:
                # Values from outside of a loop must not be copied into it, where they would be computed in every trip.
                near, far = self.near, self.far
                # Values of the loop's surroundings become far inside of it: those may be guarded, but not copied.
                self.near, self.far = {}, {**far, **near}
                for sub in op.regions:
                    self.guard_outside(sub, _is_singular)
                    self.region(sub)
                self.near, self.far = near, far
                self.loops.update(dict.fromkeys(op.results, op))
            elif lookup(op.name).effect is Effect.PURE:
                self.found(op)

    def found(self, op: Op) -> None:
        self.near.update(dict.fromkeys(op.results, op))
        self.made.update(dict.fromkeys(op.results, op))
        self.position[op] = len(self.position)

    def select(self, op: Op) -> None:
        """Turn a selection between computed values into a branch, if there is something to sink into it."""
        if any(self.loses_zero(v, scope) for v in op.operands[1:] for scope in (self.near, self.far)):
            # The uses are updated around each change, as later decisions ask what is used outside of a branch.
            self.uses.forget(Region(ops=[op]))
            op.regions = tuple(Region(yields=(v,)) for v in op.operands[1:])
            op.name, op.operands, op.attrs = "if", op.operands[:1], {"types": (op.result.type,)}
            self.uses.note(Region(ops=[op]))

    def loses_zero(self, v: Value, scope: Mapping[Value, Op]) -> bool:
        cone, loops = self.cone(v, scope)
        return bool(loops) or any(map(self.is_risky, cone))

    def sink_into(self, branch: Region) -> None:
        """Prepend copies of the cones behind the branch's free values."""
        b = Builder(Region())
        cloner = Cloner(b, {})
        mapping: dict[Value, Value] = {}
        inside: set[Op | Region] = set()
        for v in free_values(branch):
            if not is_differentiable(v.type) or isinstance(v.type, Tile):
                continue
            cone, loops = self.cone(v, self.near)
            for loop in loops:
                self.guard_loop(loop)
            # Multiplying by finite constants keeps an exact zero, so there is no need to copy.
            if not any(map(self.is_risky, cone)):
                continue
            # Guarding costs a comparison per operation, a copy costs the work a second time.
            if self.of_threads(cone) or self.is_much(cone, inside or (inside := set(_parts(branch)))):
                self.guard(cone)
                continue
            # Cones of several free values overlap; an op is copied once.
            cloner.ops(op for op in cone if op.results[0] not in cloner.env)
            mapping[v] = cloner.env[v]
        if mapping:
            self.uses.forget(branch)
            substitute(branch, mapping)
            branch.ops[:0] = b.region.ops
            self.uses.note(branch)
        self.guard_outside(branch, self.is_risky)

    def of_threads(self, cone: list[Op]) -> bool:
        """Return whether the threads of a block do part of it together; not all may enter the branch."""
        return any(map(of_block, cone)) and threads_of(self.fn) > 0

    def is_much(self, cone: list[Op], branch: set[Op | Region]) -> bool:
        """Return whether a copy of a cone would recompute much that is needed outside of the branch as well."""
        if len(cone) <= MAX_CONE and not any(op.regions for op in cone):
            return False
        inside = branch.union(_parts(Region(ops=cone)))
        needed: set[Value] = set()
        twice = 0
        for op in reversed(cone):
            # An op of the cone is computed twice if its results are needed outside of the branch too.
            if any(v in needed or self.uses.outside(v, inside) for v in op.results):
                needed.update(_used(op))
                if op.regions:
                    return True  # a chain of branches, each of which takes the one before twice, would grow without end
                twice += 1
        return twice > MAX_CONE

    def cone(self, v: Value, scope: Mapping[Value, Op]) -> tuple[list[Op], list[Op]]:
        """Return the pure ops of a scope behind a value, in program order, and the loops that they begin with."""
        found: set[Op] = set()
        loops: dict[Op, None] = {}
        pending = [v]
        while pending:
            v = pending.pop()
            op = scope.get(v)
            if op is None:
                if v in self.loops and is_differentiable(v.type):
                    loops[self.loops[v]] = None
            elif op not in found:
                found.add(op)
                pending.extend(_used(op))
        return sorted(found, key=self.position.__getitem__), list(loops)

    def guard_outside(self, region: Region, test: Test) -> None:
        """Mark the operations behind values that a region takes from outside of the loop."""
        for v in free_values(region):
            cone, loops = self.cone(v, self.far)
            if is_differentiable(v.type) and any(map(test, cone)):
                self.guard(cone)
            if test == self.is_risky:
                for loop in loops:
                    self.guard_loop(loop)

    def guard_values(self, values: Iterable[Value]) -> None:
        """Mark the operations behind values of which one will have no cotangent."""
        for v in values:
            for scope in (self.near, self.far):
                cone, loops = self.cone(v, scope)
                self.guard(cone)
                for loop in loops:
                    self.guard_loop(loop)

    def guard(self, cone: Iterable[Op]) -> None:
        """Mark operations as guarded."""
        for op in cone:
            if op.name != "ruled" and self.is_risky(op):
                op.attrs = {**op.attrs, "guarded": True}

    def guard_loop(self, op: Op) -> None:
        """Mark a loop, or a branch that stays where it is, as guarded, and the operations behind it."""
        if op.attrs.get("guarded") or op in self.passed:
            return
        if op.name == "ruled":  # a func with a derivative of its own, which nothing multiplies by but that
            self.passed.add(op)
        else:
            op.attrs = {**op.attrs, "guarded": True}
        if any(lookup(inner.name).effect in _CHANGES for inner in walk(Region(ops=[op]))):
            self.guard(inner for inner in walk(Region(ops=[op])) if not inner.regions)
        for v in _used(op):
            for scope in (self.near, self.far):
                cone, loops = self.cone(v, scope)
                if is_differentiable(v.type):
                    self.guard(cone)
                    for other in loops:
                        self.guard_loop(other)

    def is_risky(self, op: Op) -> bool:
        """Return whether the rule of an op, or of one in its regions, multiplies by a number that may not be finite."""
        row = lookup(op.name)
        if op.regions:
            return any(self.is_risky(inner) for sub in op.regions for inner in sub.ops)
        if row.diff is not Diff.RULE or row.linear or row.chooses or row.family == "tile":
            return False
        if not is_differentiable(op.result.type):
            return False
        if op.name in PRODUCTS | QUOTIENTS:
            # A product with a literal has one factor that varies; a quotient by one has its numerator.
            factors = op.operands[1:] if op.name in QUOTIENTS else op.operands
            return not any(self.is_finite(v) for v in factors)
        return True

    def is_finite(self, v: Value) -> bool:
        """Return whether a value is a literal, or comes from an integer."""
        op = self.made.get(v)
        if op is None or op.name not in LITERALS | CASTS:
            return False
        return op.name in LITERALS or not is_differentiable(op.operands[0].type)


class _Uses:
    """The users of each value of a function: operations, and regions that yield it."""

    def __init__(self, body: Region) -> None:
        self.users: dict[Value, set[Op | Region]] = {}
        self.note(body)

    def outside(self, v: Value, inside: set[Op | Region]) -> bool:
        """Return whether anything but these uses a value."""
        return not inside.issuperset(self.users.get(v, ()))

    def note(self, region: Region) -> None:
        """Add a region and its contents."""
        for user in _parts(region):
            for v in user.yields if isinstance(user, Region) else user.operands:
                self.users.setdefault(v, set()).add(user)

    def forget(self, region: Region) -> None:
        """Remove a region and its contents, as it is now."""
        for user in _parts(region):
            for v in user.yields if isinstance(user, Region) else user.operands:
                self.users[v].discard(user)


def _parts(region: Region) -> Iterator[Op | Region]:
    """Iterate over a region, the operations in it, and their regions."""
    yield region
    for op in walk(region):
        yield op
        yield from op.regions


def _used(op: Op) -> tuple[Value, ...]:
    """Return the values that an op takes from outside of it."""
    return (*op.operands, *(v for sub in op.regions for v in free_values(sub)))


def _is_pure(op: Op) -> bool:
    """Return whether an ``if`` only computes values."""
    return all(
        is_branch(inner) or lookup(inner.name).effect is Effect.PURE for sub in op.regions for inner in walk(sub)
    )


def _is_singular(op: Op) -> bool:
    return any(lookup(inner.name).singular is not None for inner in walk(Region(ops=[op])))
