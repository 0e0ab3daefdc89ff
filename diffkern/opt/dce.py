"""Dead code elimination: ops without effects whose results are not used, unused results of ifs, dead carried values.

In place. Afterwards every remaining pure op, result and carried value contributes to an effect or to a value that the
region yields. Loops without effects are assumed to terminate.
"""

from __future__ import annotations

from collections.abc import Collection

from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.memory import NEW_STACKS
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.table import lookup
from diffkern.ir.views import For, Loop, While, is_branch, is_loop, loop

# Reads and pure ops are absent: an op with such an effect may be removed if nothing uses its results.
_KEPT = frozenset({Effect.WRITE, Effect.ATOMIC, Effect.STACK_WRITE, Effect.BARRIER, Effect.REPORT})


def has_effect(op: Op) -> bool:
    """Return whether an op, or one nested in it, writes an array or a stack, or reports something."""
    if op.regions:
        return any(has_effect(inner) for sub in op.regions for inner in sub.ops)
    return lookup(op.name).effect in _KEPT


class Liveness:
    """The values that are needed, computed without changing anything; effect queries are cached.

    Parameters
    ----------
    ignored
        Ops whose effects do not count.
    """

    def __init__(self, ignored: Collection[Op] = ()) -> None:
        self.ignored = ignored
        self.effects: dict[Op, bool] = {}

    def effect(self, op: Op) -> bool:
        known = self.effects.get(op)
        if known is None:
            known = self.effects[op] = (
                any(self.effect(inner) for sub in op.regions for inner in sub.ops)
                if op.regions
                # A stack to which nothing is written is none.
                else has_effect(op) and op not in self.ignored and op.name not in NEW_STACKS
            )
        return known

    def region(self, region: Region, yields: set[Value]) -> set[Value]:
        live = set(yields)
        # Backwards, as each op decides whether its operands are live.
        for op in reversed(region.ops):
            self.op(op, live)
        return live

    def op(self, op: Op, live: set[Value]) -> None:
        needed = [r in live for r in op.results]
        if not (any(needed) or self.effect(op)):
            return
        if is_branch(op):
            for sub in op.regions:
                live |= self.region(sub, {y for y, n in zip(sub.yields, needed, strict=True) if n})
            live.update(op.operands)
        elif is_loop(op):
            view = loop(op)
            keep = self.carried(view, live)
            live |= self.region(view.body, {y for y, k in zip(view.yields, keep, strict=True) if k})
            if isinstance(view, While):
                # The test is executed even if no carried value is needed.
                live |= self.region(view.test, set(view.test.yields))
            live.update(view.bounds)
            live.update(v for v, k in zip(view.init, keep, strict=True) if k)
        else:
            for sub in op.regions:
                live |= self.region(sub, set(sub.yields))
            live.update(op.operands)

    def carried(self, loop: Loop, live: set[Value]) -> list[bool]:
        """Return which carried values are needed: the least set closed under the body's dependences."""
        # A carried value that only feeds itself from trip to trip is dead, so the set starts with the results that are
        # used and grows.
        keep = [r in live for r in loop.results]
        if isinstance(loop, While):
            used = self.region(loop.test, set(loop.test.yields))
            # The condition is always needed, so the values that the test of a while reads are as well.
            keep = [k or p in used for k, p in zip(keep, loop.tested, strict=True)]
        while True:
            used = self.region(loop.body, {y for y, k in zip(loop.yields, keep, strict=True) if k})
            wider = [k or p in used for k, p in zip(keep, loop.carried, strict=True)]
            if wider == keep:
                return keep
            keep = wider


class _Eliminator:
    def __init__(self) -> None:
        self.analysis = Liveness()

    def region(self, region: Region) -> set[Value]:
        live = set(region.yields)
        kept: list[Op] = []
        for op in reversed(region.ops):
            if not (any(r in live for r in op.results) or self.analysis.effect(op)):
                continue
            if is_branch(op):
                self.prune_if(op, live)
            elif is_loop(op):
                self.prune_loop(op, live)
            else:
                for sub in op.regions:
                    live |= self.region(sub)
                live.update(op.operands)
            kept.append(op)
        kept.reverse()
        region.ops[:] = kept
        return live

    def prune_if(self, op: Op, live: set[Value]) -> None:
        keep = [r in live for r in op.results]
        op.results = _filter(op.results, keep)
        op.attrs = {**op.attrs, "types": tuple(r.type for r in op.results)}
        for sub in op.regions:
            # The branches are pruned first, so that what computes a dropped result is dead inside as well.
            sub.yields = _filter(sub.yields, keep)
            live |= self.region(sub)
        live.update(op.operands)

    def prune_loop(self, op: Op, live: set[Value]) -> None:
        view = loop(op)
        # What is carried has to be decided before the body is pruned: the body's liveness depends on its own yields.
        keep = self.analysis.carried(view, live)
        view.body.yields = _filter(view.yields, keep)
        if isinstance(view, For):
            view.body.params = (view.index, *_filter(view.carried, keep))
        else:
            view.body.params, view.test.params = _filter(view.carried, keep), _filter(view.tested, keep)
        op.results = _filter(op.results, keep)
        op.operands = (*view.bounds, *_filter(view.init, keep))
        for sub in op.regions:
            live |= self.region(sub)
        live.update(op.operands)


def _filter(values: tuple[Value, ...], keep: list[bool]) -> tuple[Value, ...]:
    return tuple(v for v, k in zip(values, keep, strict=True) if k)


def eliminate_region(region: Region) -> set[Value]:
    """Remove dead code from a region in place; return the values it needs from outside (and its parameters)."""
    return _Eliminator().region(region)


def eliminate(fn: Function) -> Function:
    """Remove dead code from a function in place."""
    eliminate_region(fn.body)
    return fn
