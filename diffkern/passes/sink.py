"""Values needed in one branch only are computed in that branch, so that an untaken branch contributes exactly zero.

In ``t = sqrt(x); y = where(x > 0, t, 0.0)`` the derivative of the root at 0 is infinite, and ``0 * inf`` would poison
the gradient although the root is not used there. Before differentiation the pure computation behind each value that a
branch takes from outside is therefore copied into the branch, if it contains an operation whose derivative can be
infinite; what nobody needs outside any more is removed by dead code elimination. In place.
"""

from __future__ import annotations

from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner, free_values, substitute
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.types import is_differentiable
from diffkern.ops.table import Effect, lookup

SINGULAR = frozenset({
    "div", "mod", "pow", "atan2", "sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
    "tan", "asin", "acos", "sinh", "cosh", "acosh", "atanh", "unscale", "cw_div", "length", "normalize", "inverse",
})  # fmt: skip
MAX_CONE = 64


def sink_singular(fn: Function) -> Function:
    """Copy computations with singular derivatives into the branches that use them."""
    _Sinker().region(fn.body)
    return fn


class _Sinker:
    def __init__(self) -> None:
        self.pure: dict[Value, Op] = {}  # pure ops of the current iteration of the innermost loop

    def region(self, region: Region) -> None:
        for op in region.ops:
            if op.name == "if":
                for sub in op.regions:
                    self.sink_into(sub)
                    self.region(sub)
            elif op.regions:
                for sub in op.regions:
                    outer, self.pure = self.pure, {}
                    self.region(sub)
                    self.pure = outer
            elif lookup(op.name).effect is Effect.PURE:
                self.pure.update(dict.fromkeys(op.results, op))

    def sink_into(self, branch: Region) -> None:
        """Prepend copies of the cones behind the branch's free values."""
        b = Builder(Region())
        cloner = Cloner(b, {})
        mapping: dict[Value, Value] = {}
        for v in free_values(branch):
            if not is_differentiable(v.type):
                continue
            cone = self.cone(v)
            if cone and any(op.name in SINGULAR for op in cone):
                cloner.ops(op for op in cone if op.results[0] not in cloner.env)
                mapping[v] = cloner.env[v]
        substitute(branch, mapping)
        branch.ops[:0] = b.region.ops

    def cone(self, v: Value) -> list[Op]:
        """The pure ops behind a value, operands first; empty if it is not computed by pure ops or too large."""
        out: dict[Op, None] = {}

        def visit(x: Value) -> None:
            op = self.pure.get(x)
            if op is None or op in out or len(out) > MAX_CONE:
                return
            for operand in op.operands:
                visit(operand)
            out.setdefault(op)

        visit(v)
        return list(out) if len(out) <= MAX_CONE else []
