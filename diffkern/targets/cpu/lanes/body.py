"""The body of as many threads as a vector register has elements, as LLVM.

For a function that :func:`~diffkern.targets.cpu.lanes.choice.refusal` accepts, the code does for all lanes what
:class:`~diffkern.targets.emit.function.BodyEmitter` does for one thread. Uniform values stay scalars; varying ones are
vectors. Where lanes diverge each path is executed with a mask of the lanes that take it, and skipped if none does; a
loop goes on until all lanes are done, and a lane that is done keeps its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from diffkern.analysis.uniformity import is_pure
from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.ops.memory import SLOTS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import scalar_of
from diffkern.ir.views import For, If, While
from diffkern.process.dataclass import dataclass
from diffkern.targets.cpu.lanes.accesses import LaneAccesses
from diffkern.targets.cpu.lanes.builder import LaneBuilder, is_wide, zeros
from diffkern.targets.cpu.lanes.by_register import RegisterOrder, stretches
from diffkern.targets.cpu.lanes.notes import How
from diffkern.targets.cpu.lanes.scalars import LaneScalars
from diffkern.targets.emit.function import RARELY, BodyEmitter
from diffkern.targets.emit.loops import trip_count
from diffkern.targets.emit.types import I32, I64, i64
from diffkern.vecmath import literals

__all__ = ["LaneBody"]

_AHEAD = 2
"""Pairs of registers that are divided before the results of the first one are used."""
_CHEAP = 12.0
"""Up to this cost a way is computed for all lanes rather than skipped."""


@dataclass(slots=True)
class LaneBody(LaneAccesses):
    """Emits the ops of neighbouring threads at the builder's position, under the masks of diverging control flow.

    Attributes
    ----------
    at_a_time
        The lanes that are gone on with before others where they divide.
    """

    at_a_time: int = 0

    def ops(self, region: Region) -> None:
        if self.b.lanes <= self.at_a_time:
            BodyEmitter.ops(self, region)
            return
        for stretch in stretches(region, self.varying):
            self.emit_all(stretch.before)
            self.by_register(stretch)
            self.emit_all(stretch.after)

    def by_register(self, stretch: RegisterOrder) -> None:
        """Emit the ops of a stretch that are executed for some registers after others."""
        assert isinstance(self.scalars, LaneScalars)
        plain, whole, lanes = self.b.plain, self.b.lanes, self.at_a_time
        scalars = LaneScalars(LaneBuilder(plain, lanes), self.scalars.module, self.scalars.flags)
        parts: list[dict[Value, Any]] = [{} for _ in range(whole // lanes)]

        def part(k: int, v: Value) -> Any:
            found = parts[k].get(v)
            if found is None:
                found = self.scalar(v)
                if is_wide(found):
                    places = literals.numbers(I32, range(k * lanes, (k + 1) * lanes))
                    found = plain.shuffle_vector(found, found, places)
                parts[k][v] = found
            return found

        # The slow operations of some are made before the others' results are used.
        order = [(k, stretch.slow) for k in range(_AHEAD)]
        for k in range(len(parts)):
            order += [(k + _AHEAD, stretch.slow), (k, stretch.rest)]
        for k, ops in order:
            for op in ops if k < len(parts) else ():
                parts[k][op.result] = scalars.emit(op, [part(k, v) for v in op.operands])
        for v in stretch.found:
            self.values[v] = (self.whole([scalars.lanes.spread(own[v]) for own in parts]),)

    def whole(self, parts: Sequence[Any]) -> Any:
        """Return a vector for all lanes of vectors for some after others."""
        while len(parts) > 1:
            both = literals.numbers(I32, range(2 * self.b.lanes // len(parts)))
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.b.plain.shuffle_vector(x, y, both) for x, y in pairs]
        return parts[0]

    def branch(self, op: Op) -> None:
        condition = self.scalar(If(op).condition)
        if not is_wide(condition):
            BodyEmitter.branch(self, op)
            return
        self.notes.add(How.BRANCH, op)
        outside, b = self.mask, self.b
        arms = [
            self.under(b.both(outside, on), region, op.results, rarely)
            for on, region, rarely in (
                (condition, If(op).then, op.attrs.get("rarely")),
                (self.builder.not_(condition), If(op).orelse, None),
            )
        ]
        self.mask = outside
        chosen = [
            tuple(b.select(condition, x, y) for x, y in zip(then, orelse, strict=True))
            for then, orelse in zip(*arms, strict=True)
        ]
        self.define(op.results, chosen)

    def under(self, mask: Any, region: Region, results: Sequence[Value], rarely: bool | None) -> list[tuple[Any, ...]]:
        """Return a region's yields in the lanes of a mask; it is skipped if there are none."""
        b = self.b
        self.mask = mask
        # Cheap pure code is executed for all lanes without testing the mask.
        if _is_cheap(region):
            return self.merged(results, self.region(region))
        before = b.plain.block
        inside, done = (b.plain.append_basic_block(n) for n in ("some", "joined"))
        # A uniform branch around the arm: skipped only if no lane takes it.
        some = b.plain.cbranch(b.any(mask), inside, done)
        if rarely:
            some.set_weights(RARELY)
        b.plain.position_at_end(inside)
        values = self.merged(results, self.region(region))
        after = b.plain.block
        b.plain.branch(done)
        b.plain.position_at_end(done)
        phis = self.phis_for(results)
        self.connect(phis, values, after)
        # In the skipped case lanes hold zeros: they are selected away, but must not be undefined.
        self.connect(phis, [tuple(zeros(p.type) for p in group) for group in phis], before)
        return [tuple(group) for group in phis]

    def loop_for(self, op: Op) -> None:
        loop = For(op)
        lo, hi, step = map(self.scalar, loop.bounds)
        if not any(map(is_wide, (lo, hi, step))):
            BodyEmitter.loop_for(self, op)
            return
        self.notes.add(How.LOOP, op)
        # Reversed loops of different lengths: starting from the longest, accesses at the index stay uniform.
        if is_wide(lo) and not is_wide(hi) and _is_minus_one(step):
            self.loop_down(op, lo, hi)
            return
        t, b, outside = scalar_of(loop.start.type), self.builder, self.mask
        ahead = bool(op.attrs.get("ahead"))
        trips = None if ahead else trip_count(b, t, lo, hi, step)

        def goes_on(index: Any, count: Any) -> Any:
            return b.icmp_signed("<", index, hi) if ahead else b.icmp_unsigned("<", count, trips)

        # Each lane has its own trip count, so a lane leaves the loop by turning its mask off.
        if is_wide(step):
            lo = self.b.spread(lo)
        live = self.b.both(outside, self.b.spread(goes_on(lo, i64(0))))
        init = self.merged(op.results, [self.values[v] for v in loop.init])
        before = b.block
        head, body, done = (b.append_basic_block(n) for n in ("for", "body", "endfor"))
        b.branch(head)
        b.position_at_end(head)
        on, count, i = b.phi(live.type), b.phi(I64), b.phi(lo.type)
        phis = self.phis_for(op.results)
        self.connect([[on], [count], [i], *phis], [(live,), (i64(0),), (lo,), *init], before)
        self.trip(op, self.b.any(on), body, done)
        b.position_at_end(body)
        self.mask = on
        self.define((loop.index, *loop.carried), [[i], *phis])
        # Lanes that are done keep the values of their own last trip.
        values = self.kept(on, phis, self.region(loop.body))
        following, counted = b.add(i, step), b.add(count, i64(1))
        left = b.and_(on, goes_on(following, counted))
        self.connect([[on], [count], [i], *phis], [(left,), (counted,), (following,), *values], b.block)
        b.branch(head)
        b.position_at_end(done)
        self.mask = outside
        self.define(op.results, phis)

    def loop_down(self, op: Op, lo: Any, hi: Any) -> None:
        """Emit a loop down to a common end from different starts: a lane joins at its own, so the index is uniform."""
        loop, b, outside = For(op), self.builder, self.mask
        t = lo.type.element
        # Inactive lanes start at the end, so they never become active.
        live = lo if outside is None else self.b.select(outside, lo, hi)
        # The first index is the greatest start of all active lanes; with none active it is the end itself.
        first = self.b.intrinsic(f"llvm.vector.reduce.smax.v{self.b.lanes}i{t.width}", t, [live])
        init = self.merged(op.results, [self.values[v] for v in loop.init])
        before = b.block
        head, body, done = (b.append_basic_block(n) for n in ("down", "body", "enddown"))
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(t)
        phis = self.phis_for(op.results)
        self.connect([[i], *phis], [(first,), *init], before)
        self.trip(op, b.icmp_signed(">", i, hi), body, done)
        b.position_at_end(body)
        on = b.icmp_signed(">=", live, i)
        self.mask = on
        self.define((loop.index, *loop.carried), [[i], *phis])
        values = self.kept(on, phis, self.region(loop.body))
        self.connect([[i], *phis], [(b.sub(i, ir.Constant(t, 1)),), *values], b.block)
        b.branch(head)
        b.position_at_end(done)
        self.mask = outside
        self.define(op.results, phis)

    def loop_while(self, op: Op) -> None:
        loop = While(op)
        if loop.condition not in self.varying:
            BodyEmitter.loop_while(self, op)
            return
        self.notes.add(How.LOOP, op)
        b, outside = self.builder, self.mask
        # The loop starts with all lanes of the current mask, and only ever turns lanes off.
        live = self.b.whole(outside)
        init = self.merged(op.results, [self.values[v] for v in loop.init])
        before = b.block
        head, body, done = (b.append_basic_block(n) for n in ("while", "do", "endwhile"))
        b.branch(head)
        b.position_at_end(head)
        on = b.phi(live.type)
        phis = self.phis_for(op.results)
        self.connect([[on], *phis], [(live,), *init], before)
        self.mask = on
        self.define(loop.tested, phis)
        # The test is executed under the mask of the lanes still in the loop.
        ((go,),) = self.region(loop.test)
        # A lane leaves when its own condition fails, and does not come back.
        left = b.and_(on, self.b.spread(go))
        b.cbranch(self.b.any(left), body, done)
        b.position_at_end(body)
        self.mask = left
        self.define(loop.carried, phis)
        # Lanes that have left keep the values of their own last trip.
        values = self.kept(left, phis, self.region(loop.body))
        self.connect([[on], *phis], [(left,), *values], b.block)
        b.branch(head)
        b.position_at_end(done)
        self.mask = outside
        self.define(op.results, phis)

    def kept(self, on: Any, old: list[list[Any]], new: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return the new values in the lanes that are on, the old ones in the others."""
        return [
            tuple(self.builder.select(on, y, x) for x, y in zip(group, parts, strict=True))
            for group, parts in zip(old, new, strict=True)
        ]


def _is_minus_one(step: Any) -> bool:
    return isinstance(step, ir.Constant) and step.constant == -1


def _is_cheap(region: Region) -> bool:
    """Return whether a region is executed faster than skipped, and may be executed by every lane."""
    if any(not is_pure(op) or op.name in SLOTS for op in region.ops):
        return False
    return sum(1.0 + lookup(op.name).cost for op in region.ops) <= _CHEAP
