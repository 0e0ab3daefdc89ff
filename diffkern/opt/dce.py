"""Dead code elimination: ops without effects whose results are not used, unused results of ifs, dead carried values.

In place. Afterwards every remaining pure op, result and carried value contributes to an effect or to a value that the
region yields. Loops without effects are assumed to terminate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

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
    """Marks what is needed, and removes the rest.

    It decides as :class:`Liveness` does, and follows each value once to what it is made of, however deeply loops are
    nested; :class:`Liveness` looks at a body several times for each loop around it.

    Parameters
    ----------
    region
        The region whose yields are needed.
    """

    def __init__(self, region: Region) -> None:
        self.needed: set[Value] = set()
        self.alive: set[Op] = set()
        # Of each result, and of each value that a loop carries: the op that defines it, and its place there.
        self.defined: dict[Value, tuple[Op, int]] = {}
        self.pending: list[Value] = []
        self.enter(region)
        self.need(region.yields)
        while self.pending:
            self.follow(self.pending.pop())

    def enter(self, region: Region) -> bool:
        """Note what defines the values of a region; return whether it has an effect, whose ops are alive."""
        found = False
        for op in region.ops:
            for k, result in enumerate(op.results):
                self.defined[result] = op, k
            if op.regions:
                if is_loop(op):
                    view = loop(op)
                    for names in (view.carried,) if isinstance(view, For) else (view.carried, view.tested):
                        self.defined.update((value, (op, k)) for k, value in enumerate(names))
                effects = [self.enter(sub) for sub in op.regions]
                has = True in effects
            else:
                # A stack to which nothing is written is none.
                has = lookup(op.name).effect in _KEPT and op.name not in NEW_STACKS
            if has:
                self.keep(op)
                found = True
        return found

    def need(self, values: Iterable[Value]) -> None:
        for value in values:
            if value not in self.needed:
                self.needed.add(value)
                self.pending.append(value)

    def keep(self, op: Op) -> None:
        """Need what an op takes whichever of its results are needed."""
        if op in self.alive:
            return
        self.alive.add(op)
        if not op.regions or is_branch(op):
            self.need(op.operands)
        elif is_loop(op):
            view = loop(op)
            self.need(view.bounds)
            if isinstance(view, While):
                # The test is executed even if no carried value is needed.
                self.need(view.test.yields)
        else:
            self.need(op.operands)
            for sub in op.regions:
                self.need(sub.yields)

    def follow(self, value: Value) -> None:
        """Need what a value is made of."""
        op, k = self.defined.get(value, (None, 0))
        if op is None:
            return
        self.keep(op)
        if is_branch(op):
            self.need([sub.yields[k] for sub in op.regions])
        elif is_loop(op):
            # A carried value that only feeds itself from trip to trip is never asked for.
            view = loop(op)
            self.need((view.init[k], view.yields[k]))

    def prune(self, region: Region) -> None:
        """Remove what is not needed from a region."""
        region.ops[:] = [op for op in region.ops if op in self.alive]
        for op in region.ops:
            if is_branch(op):
                self.prune_if(op)
            elif is_loop(op):
                self.prune_loop(op)
            for sub in op.regions:
                self.prune(sub)

    def prune_if(self, op: Op) -> None:
        keep = [r in self.needed for r in op.results]
        op.results = _filter(op.results, keep)
        op.attrs = {**op.attrs, "types": tuple(r.type for r in op.results)}
        for sub in op.regions:
            sub.yields = _filter(sub.yields, keep)

    def prune_loop(self, op: Op) -> None:
        view = loop(op)
        keep = [r in self.needed or p in self.needed for r, p in zip(op.results, view.carried, strict=True)]
        if isinstance(view, While):
            keep = [k or p in self.needed for k, p in zip(keep, view.tested, strict=True)]
        view.body.yields = _filter(view.yields, keep)
        if isinstance(view, For):
            view.body.params = (view.index, *_filter(view.carried, keep))
        else:
            view.body.params, view.test.params = _filter(view.carried, keep), _filter(view.tested, keep)
        op.results = _filter(op.results, keep)
        op.operands = (*view.bounds, *_filter(view.init, keep))


def _filter(values: tuple[Value, ...], keep: list[bool]) -> tuple[Value, ...]:
    return tuple(v for v, k in zip(values, keep, strict=True) if k)


def eliminate_region(region: Region) -> set[Value]:
    """Remove dead code from a region in place; return the values it needs from outside (and its parameters)."""
    marked = _Eliminator(region)
    marked.prune(region)
    return marked.needed


def eliminate(fn: Function) -> Function:
    """Remove dead code from a function in place."""
    eliminate_region(fn.body)
    return fn
