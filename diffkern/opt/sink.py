"""Values needed in one branch only are computed in that branch, so that an untaken branch contributes exactly zero.

In ``t = sqrt(x); y = where(x > 0, t, 0.0)`` the derivative of the root at 0 is infinite, and ``0 * inf`` would poison
the gradient although the root is not used there. Before differentiation the pure computation behind each value that a
branch takes from outside is therefore copied into the branch, if it contains an operation whose derivative can be
infinite; what nobody needs outside any more is removed by dead code elimination. A ``select`` between such values
becomes an ``if``. In place.

Nothing is copied into a loop, where it would be computed in every iteration. What a branch in a loop, or the loop
itself, takes from outside of the loop stays there and its operations are marked ``guarded``: their rules multiply
nothing by a cotangent that is exactly zero. So are the operations behind the operands of ``min`` and ``max``, both of
which have to be computed before one of them loses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner, free_values, substitute
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.types import is_differentiable
from diffkern.ops.row import Diff, Effect
from diffkern.ops.table import lookup

MAX_CONE = 64


def guard_singular(fn: Function) -> Function:
    """Mark every operation whose derivative may be infinite as guarded, in place.

    For the function of a map: an element with cotangent 0 gets exactly 0, as its branch of a later map may not have
    been taken.
    """
    for op in walk(fn.body):
        if lookup(op.name).singular is not None:
            op.attrs = {**op.attrs, "guarded": True}
    return fn


def sink_singular(fn: Function) -> Function:
    """Copy computations with singular derivatives into the branches that use them."""
    _Sinker().region(fn.body)
    return fn


class _Sinker:
    def __init__(self) -> None:
        self.near: dict[Value, Op] = {}  # pure ops of the current iteration of the innermost loop
        self.far: dict[Value, Op] = {}  # those around that loop
        self.position: dict[Op, int] = {}

    def region(self, region: Region) -> None:
        for op in region.ops:
            if op.name == "select" and is_differentiable(op.result.type):
                self.select(op)
            if op.name in ("min", "max") and is_differentiable(op.result.type):
                self.guard_values(op.operands)
            if op.name == "if":
                for sub in op.regions:
                    self.sink_into(sub)
                    self.region(sub)
            elif op.regions:
                near, far = self.near, self.far
                self.near, self.far = {}, {**far, **near}
                for sub in op.regions:
                    self.guard(sub)
                    self.region(sub)
                self.near, self.far = near, far
            elif lookup(op.name).effect is Effect.PURE:
                self.near.update(dict.fromkeys(op.results, op))
                self.position[op] = len(self.position)

    def select(self, op: Op) -> None:
        """Make a choice between computed values a branch, if there is something to sink into it."""
        if any(_singular(self.cone(v, scope)) for v in op.operands[1:] for scope in (self.near, self.far)):
            op.regions = tuple(Region(yields=(v,)) for v in op.operands[1:])
            op.name, op.operands, op.attrs = "if", op.operands[:1], {"types": (op.result.type,)}

    def sink_into(self, branch: Region) -> None:
        """Prepend copies of the cones behind the branch's free values."""
        b = Builder(Region())
        cloner = Cloner(b, {})
        mapping: dict[Value, Value] = {}
        for v in free_values(branch):
            if not is_differentiable(v.type):
                continue
            cone = self.cone(v, self.near)
            if _singular(cone) and len(cone) > MAX_CONE:
                _guard(cone)
            elif _singular(cone):
                cloner.ops(op for op in cone if op.results[0] not in cloner.env)
                mapping[v] = cloner.env[v]
        substitute(branch, mapping)
        branch.ops[:0] = b.region.ops
        self.guard(branch)

    def cone(self, v: Value, scope: Mapping[Value, Op]) -> list[Op]:
        """The pure ops of a scope behind a value, in program order."""
        found: set[Op] = set()
        pending = [v]
        while pending:
            op = scope.get(pending.pop())
            if op is not None and op not in found:
                found.add(op)
                pending.extend(op.operands)
        return sorted(found, key=self.position.__getitem__)

    def guard(self, region: Region) -> None:
        """Mark the operations behind what a region takes from outside of the loop."""
        for v in free_values(region):
            cone = self.cone(v, self.far)
            if is_differentiable(v.type) and _singular(cone):
                _guard(cone)

    def guard_values(self, values: Iterable[Value]) -> None:
        """Mark the operations behind values of which one will have no cotangent."""
        for v in values:
            for scope in (self.near, self.far):
                cone = self.cone(v, scope)
                if _singular(cone):
                    _guard(cone)


def _guard(cone: list[Op]) -> None:
    for op in cone:
        row = lookup(op.name)
        if row.diff is Diff.RULE and not row.linear:
            op.attrs = {**op.attrs, "guarded": True}


def _singular(cone: list[Op]) -> bool:
    return any(lookup(op.name).singular for op in cone)
