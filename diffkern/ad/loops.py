"""The reverse sweep through a loop.

The adjoint of a loop runs its iterations backwards. The carried state that an iteration's adjoint needs (if any) comes
from snapshots in a fixed stack. While there is a slot for every iteration this is a plain stack; a longer loop is
re-executed from snapshots placed by the binomial schedule (Griewank and Walther, "Revolve", 2000), so memory is bounded
whatever the number of trips::

    push (0, initial state)
    for it from trips - 1 down to 0:
        cur, state = top of the stack
        while cur < it:                              # advance, leaving snapshots on the way while slots are free
            state, cur = body(cur, state), cur + 1
            if cur is the next checkpoint: push (cur, state)
        adjoint of iteration `it` from `state`
        pop if the top is snapshot `it`

The first trip through the inner loop stores every state when slots suffice, and later ones do not advance at all.

With a short body (``StackBudget.every``) the schedule is applied to segments, of as many iterations as there are
slots::

    for segment from the last one down to 0:         # mostly there is one
        state = segment == 0 ? initial state : advanced, by segments, from the top of a stack of snapshots
        for it in the segment: keep state[it]; state = body(it, state)
        for it in the segment, backwards: adjoint of iteration `it` from state[it]

The two inner loops need no test of whether every state fits, and are emitted once.

Where the iterations are those of a block of threads (``ReverseLoop.memory``), the contents that they find in shared
memory are part of the state: they are saved and restored with the snapshots, in arrays that the block shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from diffkern.ad.blocks import LoopMemory
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.clone import substitute
from diffkern.ir.nodes import Op, Region, Value, walk
from diffkern.ir.ops.memory import NEW_STACKS
from diffkern.ir.trip_count import PYTHON, count_trips, counter_type, index_of_trip, trip_count
from diffkern.ir.types import INT32, Element, Scalar, Stack, StackField, Tile
from diffkern.ir.views import For, While, is_loop
from diffkern.opt.dce import eliminate_region
from diffkern.opt.replays import find_needs, remove_dead_replays
from diffkern.process.dataclass import dataclass

Advance = Callable[[Value, Sequence[Value]], Sequence[Value]]
"""Emit one primal iteration: (iteration number, carried state) -> next carried state."""


_PART_FOR_STARTS = 4
"""The starts of a loop's segments have so much less memory, besides that for the states of a segment. With s of them
C(s + 1, 2) segments run three times."""
_BLOCK_SLOTS = 12
"""Snapshots of shared memory: reductions by halves make 10 trips at most, and C(14, 3) trips run three times."""


@dataclass(frozen=True, slots=True)
class StackBudget:
    """Memory of the loop stacks: ``bytes`` per nest level, or a fixed number of slots (tests)."""

    bytes: int
    slots: int | None = None
    tile_bytes: int = 2 * 1024 * 1024  # where the state has tiles, which are those of a block of threads
    block_bytes: int = 128 * 1024  # for snapshots of shared memory
    thread_bytes: int = 128  # for the state of a thread in a loop around barriers
    every: int = 0  # operations of a body up to which every state of a segment is kept

    def per_level(self, depth: int) -> StackBudget:
        """Return the share of each of ``depth`` nested loops."""
        parts = (n // depth for n in (self.bytes, self.tile_bytes, self.block_bytes, self.thread_bytes))
        room, tiles, block, thread = parts
        return StackBudget(room, self.slots, tiles, block, thread, self.every)

    def slots_for(self, fields: Sequence[StackField], *, block: bool = False, shared: int = 0) -> int:
        """Return the number of snapshots that fit, at least 2.

        Parameters
        ----------
        fields
            The state that a thread keeps; for tiles there is room for more bytes.
        block
            Whether the loop is around barriers.
        shared
            Bytes of shared memory that the block keeps.
        """
        if self.slots is not None:
            return max(2, self.slots)
        # Each field of a slot takes a multiple of 8 bytes.
        size = sum((f.itemsize + 7) // 8 * 8 for f in fields)
        tiled = any(isinstance(f, Tile) for f in fields)
        room = self.tile_bytes if tiled else self.thread_bytes if block else self.bytes
        slots = room // size
        if shared:
            slots = min(slots, self.block_bytes // shared, _BLOCK_SLOTS)
        return max(2, slots)


@dataclass(slots=True)
class ReverseLoop:
    """A loop to be reversed.

    Attributes
    ----------
    trips
        The number of iterations, of the type in which they are counted.
    init
        The carried state before the loop.
    body
        The adjoint of one iteration: a region whose first parameter is the iteration number, the others cotangents; it
        refers to the carried state by ``state``.
    state
        Placeholders, one per carried value.
    advance
        Emits one primal iteration.
    carried
        Initial values of the cotangents that the reversed loop carries.
    memory
        The shared memory that the iterations replay in; None if they are those of a single thread.
    """

    trips: Value
    init: Sequence[Value]
    body: Region
    state: Sequence[Value]
    advance: Advance
    carried: Sequence[Value]
    names: Sequence[str]
    level: int
    memory: LoopMemory | None = None

    @property
    def tracked(self) -> set[Value]:
        """The shared arrays in which primal values are replayed."""
        return self.memory.memory.tracked if self.memory is not None else set()


def emit_reverse_loop(b: Builder, loop: ReverseLoop, budget: StackBudget) -> tuple[Value, ...]:
    """Append the reversed loop; return the final values of the carried cotangents."""
    found: set[Value] = set()
    if loop.memory is not None:
        # Dead replays are removed before asking what is needed: a replayed store that feeds only dead loads would count
        # as a use of the carried state.
        remove_dead_replays(loop.body, loop.tracked)
        found = _found(loop, find_needs(loop.body, loop.body.yields, loop.tracked).arrays)
    live = eliminate_region(loop.body)
    needed, arrays = _closure(b, loop, {k for k, v in enumerate(loop.state) if v in live}, found)
    counter = loop.trips.type
    assert isinstance(counter, Scalar)
    one = b.const(1, counter)
    first, stop, step = b.sub(loop.trips, one), b.const(-1, counter), b.const(-1, counter)
    # A reversed loop whose adjoint needs no state is a plain loop over the same trips, with no stack at all.
    if not needed and not arrays:
        if loop.memory is not None:
            start = Region()
            with b.into(start):
                # The barrier at the start of a trip is needed even without snapshots: the last trip's sweep reads the
                # instance that this trip's replay overwrites.
                loop.memory.begin(None, ())
            loop.body.ops[:0] = start.ops
        return b.for_(first, stop, step, loop.carried, loop.body, loop.names)
    if not arrays and _keeps_every_state(loop, budget):
        return _in_segments(b, loop, needed, budget)
    return _with_stack(b, loop, needed, arrays, budget, (first, stop, step))


def _found(loop: ReverseLoop, arrays: Iterable[Value]) -> set[Value]:
    """Return those of the arrays whose earlier contents an iteration reads."""
    return set() if loop.memory is None else {a for a in arrays if a in loop.memory.stacks}


def _closure(b: Builder, loop: ReverseLoop, needed: set[int], arrays: set[Value]) -> tuple[list[int], set[Value]]:
    """Return the carried values and shared arrays to store: those needed, and those the body computes them from."""
    # A primal iteration on fresh parameters shows the dependencies from trip to trip, without emitting anything into
    # the adjoint: the probe is thrown away.
    probe = Region((Value(loop.trips.type), *(Value(v.type) for v in loop.state)))
    with b.into(probe):
        probe.yields = tuple(loop.advance(probe.params[0], probe.params[1:]))
    # If a needed value is computed from another carried value, that has to be stored too, and so on to the fixpoint.
    while True:
        used = find_needs(probe, {probe.yields[k] for k in needed}, loop.tracked, arrays)
        wider = needed | {k for k, p in enumerate(probe.params[1:]) if p in used.values}
        more = arrays | _found(loop, used.arrays)
        if wider == needed and more == arrays:
            return sorted(needed), arrays
        needed, arrays = wider, more


def _keeps_every_state(loop: ReverseLoop, budget: StackBudget) -> bool:
    """Return whether the states of as many iterations as fit are all kept.

    Loops that contain others with stored states are excluded: an iteration's own code is emitted three times, that of
    inner loops twice.
    """
    ops = list(walk(loop.body))
    return loop.memory is None and len(ops) <= budget.every and all(op.name not in NEW_STACKS for op in ops)


def _in_segments(b: Builder, loop: ReverseLoop, needed: list[int], budget: StackBudget) -> tuple[Value, ...]:
    """Keep every state of a segment: of all iterations if they fit, else of as many as fit, the last ones first."""
    counter = loop.trips.type
    assert isinstance(counter, Scalar)
    fields: list[Element] = [loop.state[k].type for k in needed]  # type: ignore[misc]
    kept = Stack(tuple(fields), budget.slots_for([counter, *fields]), loop.level + 1)
    # Starts of segments form a second, smaller stack with its own position field, whose level is the loop's own; the
    # states of a segment have the next one.
    few = budget.per_level(_PART_FOR_STARTS)
    starts = Stack((counter, *fields), few.slots_for([counter, *fields]), loop.level)
    one, zero, size, down = (b.const(n, counter) for n in (1, 0, kept.slots, -1))
    several, single = Region(), Region(yields=(zero,))
    # The division is skipped if all iterations fit in one segment, which is the usual case: the branch is marked rare.
    with b.into(several):
        several.yields = (b.one("floordiv", b.sub(loop.trips, one), size),)
    more = b.one("gt", loop.trips, size)
    (last,) = b.op("if", more, regions=(several, single), names=("last",), types=(counter,), rarely=True)
    stack, bottom = b.one("stack_new", type=starts, hint="starts"), b.i32(0)

    segment, top = Value(counter, "segment"), Value(INT32, "top")
    # Fresh parameters: the loop's own become those of the inner loop over the iterations of a segment.
    carried = [Value(v.type, v.name) for v in loop.body.params[1:]]
    body = Region((segment, top, *carried))
    with b.into(body):
        below, *first = _start_of(b, loop, needed, stack, size, segment, top)
        begin = b.mul(segment, size)
        row = Value(counter, loop.body.params[0].name)
        trip = Region((row, *loop.body.params[1:]))
        with b.into(trip):
            at = b.add(begin, row)
            trip.ops.extend(loop.body.ops)
            trip.yields = loop.body.yields
        substitute(trip, {loop.body.params[0]: at})
        init = list(loop.init)
        for k, v in zip(needed, first, strict=True):
            init[k] = v
        trips = b.one("min", b.sub(loop.trips, begin), size)
        # From the inner loop's view iterations are numbered from the start of the segment, so advance shifts them back.
        inner = replace(
            loop, trips=trips, init=init, body=trip, carried=carried,
            advance=lambda at, state: loop.advance(b.add(begin, at), state),
        )  # fmt: skip
        body.yields = (below, *_with_every_state(b, inner, needed, kept, (b.sub(trips, one), down, down)))
    names = ("top", *loop.names)
    # "once" marks a loop that mostly makes one trip; the first result is the top of the stack and is dropped.
    return b.op("for", last, down, down, bottom, *loop.carried, regions=(body,), names=names, once=True)[1:]


def _start_of(
    b: Builder, loop: ReverseLoop, needed: list[int], stack: Value, size: Value, segment: Value, top: Value
) -> tuple[Value, ...]:
    """Return the top of the stack below a segment, and the state before it, which is the initial one for the first."""
    counter, type_ = loop.trips.type, stack.type
    assert isinstance(counter, Scalar)
    assert isinstance(type_, Stack)
    zero, init = b.const(0, counter), [loop.init[k] for k in needed]

    def past(at: Value, state: Sequence[Value]) -> list[Value]:
        """Execute the iterations of a segment."""
        begin, full = b.mul(at, size), list(state)
        ahead = Region((Value(counter, "cur"), *(Value(state[k].type, loop.state[k].name) for k in needed)))
        with b.into(ahead):
            for k, v in zip(needed, ahead.params[1:], strict=True):
                full[k] = v
            after = loop.advance(b.add(begin, ahead.params[0]), full)
            ahead.yields = tuple(after[k] for k in needed)
        names = [loop.state[k].name for k in needed]
        found = b.for_(zero, size, b.const(1, counter), [state[k] for k in needed], ahead, names)
        out = list(state)
        for k, v in zip(needed, found, strict=True):
            out[k] = v
        return out

    # For the first segment nothing has to be advanced, so the stack of starts is not even initialised.
    later, first = Region(), Region(yields=(top, *init))
    with b.into(later):
        # Segments are processed from the last to the first: the initial state is pushed at each start of a later one.
        b.op("stack_set", stack, b.i32(0), zero, *init)
        now, *states = _advance_to(b, replace(loop, advance=past), needed, set(), stack, type_, segment, top)
        is_here = b.one("eq", b.one("stack_get", stack, now, field=0), segment)
        # A snapshot at this segment is not needed by earlier ones: pop it.
        later.yields = (b.select(is_here, b.sub(now, b.i32(1)), now), *states)
    names = ("top", *(loop.state[k].name for k in needed))
    types = tuple(v.type for v in first.yields)
    is_later = b.one("gt", segment, zero)
    return b.op("if", is_later, regions=(later, first), names=names, types=types, rarely=True)


def _with_every_state(
    b: Builder, loop: ReverseLoop, needed: list[int], type_: Stack, bounds: tuple[Value, Value, Value]
) -> tuple[Value, ...]:
    """Store the state before each iteration, and load it where the iteration is reversed."""
    counter = loop.trips.type
    assert isinstance(counter, Scalar)

    def slot(at: Value) -> Value:
        return at if counter == INT32 else b.one("cast", at, to=INT32)

    one, names = b.const(1, counter), [loop.state[k].name for k in needed]
    stack = b.one("stack_new", type=type_, hint="stack")
    first = [loop.init[k] for k in needed]
    b.op("stack_set", stack, b.i32(0), *first)
    ahead = Region((Value(counter, "cur"), *(Value(v.type, n) for v, n in zip(first, names, strict=True))))
    with b.into(ahead):
        # Carried values that are not needed stay unbound placeholders. The body's ops on them are dead and are removed.
        full = [Value(v.type, v.name) for v in loop.state]
        for k, v in zip(needed, ahead.params[1:], strict=True):
            full[k] = v
        after = loop.advance(ahead.params[0], full)
        ahead.yields = tuple(after[k] for k in needed)
        b.op("stack_set", stack, slot(b.add(ahead.params[0], one)), *ahead.yields)
    b.for_(b.const(0, counter), bounds[0], one, first, ahead, names)
    body = Region(loop.body.params)
    with b.into(body):
        at = slot(body.params[0])
        states = [b.one("stack_get", stack, at, field=j, hint=n) for j, n in enumerate(names)]
        body.ops.extend(loop.body.ops)
        body.yields = loop.body.yields
    substitute(body, {loop.state[k]: v for k, v in zip(needed, states, strict=True)})
    return b.for_(*bounds, loop.carried, body, loop.names)


def _with_stack(
    b: Builder,
    loop: ReverseLoop,
    needed: list[int],
    arrays: set[Value],
    budget: StackBudget,
    bounds: tuple[Value, Value, Value],
) -> tuple[Value, ...]:
    counter = loop.trips.type
    assert isinstance(counter, Scalar)
    fields: list[Element] = [counter, *(loop.state[k].type for k in needed)]  # type: ignore[list-item]
    shared = loop.memory.size(arrays) if loop.memory is not None else 0
    type_ = Stack(tuple(fields), budget.slots_for(fields, block=loop.memory is not None, shared=shared), loop.level)
    if loop.memory is not None:
        loop.memory.limit(type_.slots)
    stack = b.one("stack_new", type=type_, hint="stack")
    bottom = b.i32(0)
    # Slot 0 holds the initial state of iteration 0 and is never popped.
    b.op("stack_set", stack, bottom, b.const(0, counter), *(loop.init[k] for k in needed))

    body = Region((loop.body.params[0], Value(INT32, "top"), *loop.body.params[1:]))
    it, top = body.params[:2]
    with b.into(body):
        # All threads restore the instance of the top snapshot before any of them advances from it.
        if loop.memory is not None:
            loop.memory.begin(top, arrays)
        restored = _advance_to(b, loop, needed, arrays, stack, type_, it, top)
        top_now, states = restored[0], restored[1:]
        body.ops.extend(loop.body.ops)
        position = b.one("stack_get", stack, top_now, field=0)
        zero = b.const(0, counter)
        # The bottom snapshot stays even when iteration 0 is reversed, so the top index never becomes negative.
        done = b.one("and", b.one("eq", position, it), b.one("gt", it, zero))
        below = b.select(done, b.sub(top_now, b.i32(1)), top_now)
        body.yields = (below, *loop.body.yields)
    substitute(body, {loop.state[k]: v for k, v in zip(needed, states, strict=True)})
    results = b.for_(*bounds, (bottom, *loop.carried), body, ("top", *loop.names))
    return results[1:]


def _advance_to(
    b: Builder,
    loop: ReverseLoop,
    needed: list[int],
    arrays: set[Value],
    stack: Value,
    type_: Stack,
    it: Value,
    top: Value,
) -> tuple[Value, ...]:
    """Advance from the top snapshot to the state before iteration ``it``; return the new top and the state."""
    counter = type_.fields[0]
    assert isinstance(counter, Scalar)
    start = b.one("stack_get", stack, top, field=0, hint="cur")
    states = [b.one("stack_get", stack, top, field=1 + j, hint=loop.state[k].name) for j, k in enumerate(needed)]
    # The schedule is asked once per snapshot and its answer carried as "planned", not recomputed in each iteration.
    nxt = _next_checkpoint(b, type_.slots, start, it, top)
    names = ["cur", "top", "planned", *(loop.state[k].name for k in needed)]

    def params() -> tuple[Value, ...]:
        types = [counter, INT32, counter, *(loop.state[k].type for k in needed)]
        return tuple(Value(t, n) for t, n in zip(types, names, strict=True))

    cond, step = Region(params()), Region(params())
    with b.into(cond):
        cond.yields = (b.one("lt", cond.params[0], it),)
    with b.into(step):
        cur, now, planned = step.params[:3]
        known = dict(zip(needed, step.params[3:], strict=True))
        full = [known.get(k) or Value(v.type, v.name) for k, v in enumerate(loop.state)]
        after = loop.advance(cur, full)
        kept = [after[k] for k in needed]
        cur_next = b.add(cur, b.const(1, counter))
        hit = b.one("eq", cur_next, planned)
        push, skip = Region(), Region(yields=(now, planned))
        with b.into(push):
            above = b.add(now, b.i32(1))
            b.op("stack_set", stack, above, cur_next, *kept)
            if loop.memory is not None:
                # Shared memory is saved in the slot of the same number, by all threads: the position is the same for
                # all of them.
                loop.memory.save(above, arrays)
            push.yields = (above, _next_checkpoint(b, type_.slots, cur_next, it, above))
        step.yields = (cur_next, *b.if_(hit, push, skip, ("top", "planned")), *kept)
    results = b.while_((start, top, nxt, *states), cond, step, names)
    return (results[1], *results[3:])


def _next_checkpoint(b: Builder, slots: int, cur: Value, it: Value, top: Value) -> Value:
    """Return the position of the next snapshot on the way from ``cur`` to ``it``; after ``it`` if no slot is free."""
    return b.one("next_checkpoint", cur, it, b.sub(b.i32(slots - 1), top), hint="planned")


def loop_depth(region: Region) -> int:
    """Return the deepest nesting of loops in a region."""
    return max(
        (max(map(loop_depth, op.regions)) + is_loop(op) for op in region.ops if op.regions),
        default=0,
    )


# -- for and while -----------------------------------------------------------------------------------------------------
# The differences between the two that the reverse sweep has to know.


@dataclass(slots=True)
class LoopShape:
    """The type of the trip counter of a loop, its carried values, and the binding of the body's parameters."""

    counter: Scalar
    init: Sequence[Value]
    params: Sequence[Value]
    bind: Callable[[Value, Sequence[Value]], Sequence[Value]]
    trips: Callable[[], Value]


def for_shape(b: Builder, op: Op, env: Mapping[Value, Value], constants: Mapping[Value, Any]) -> LoopShape:
    """Return the shape of a ``for``; ``constants`` are the numbers among the primal's values."""
    loop = For(op)
    start, stop, step = (env[v] for v in loop.bounds)
    literal = constants.get(loop.step)
    known = int(literal) if literal is not None else None
    from_zero = constants.get(loop.start) == 0

    def bind(it: Value, state: Sequence[Value]) -> list[Value]:
        value = index_of_trip(b, it, start, step, known, from_zero=from_zero)
        value.name = value.name or loop.index.name
        return [value, *state]

    assert isinstance(start.type, Scalar)
    counter = counter_type(start.type)
    first, end = (constants.get(v) for v in (loop.start, loop.stop))
    all_known = first is not None and end is not None and known is not None
    # The 32-bit counter of trips would overflow; literal bounds show it at compile time.
    if counter == INT32 and all_known and trip_count(PYTHON, first, end, known, known) >= 1 << 31:
        raise AutodiffError(
            "the adjoint of a loop over 32 bits makes fewer than 2**31 trips", loc=op.loc,
            remedy="let the bounds of the range be of 64 bits, as in dk.int64(n)",
        )  # fmt: skip
    return LoopShape(counter, loop.init, loop.carried, bind, lambda: count_trips(b, (start, stop, step), known))


def while_shape(op: Op, env: Mapping[Value, Value], counter: Value) -> LoopShape:
    """Return the shape of a ``while`` whose trips were counted in ``env[counter]``."""
    loop = While(op)
    return LoopShape(INT32, loop.init, loop.carried, lambda it, state: list(state), lambda: env[counter])
