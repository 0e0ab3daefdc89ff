"""Shared memory and barriers in the adjoint: which accesses are replayed, and on which copy of a shared array.

For a normalised function whose threads cooperate, :class:`BlockPlan` holds the facts and :class:`BlockMemory` is the
shared memory of its adjoint. The terms used here:

*scope*        the body of the kernel, or of a loop around barriers (a *block loop*, which makes the same trips for all
               threads). Branches around barriers belong to the scope they stand in.
*live replay*  re-execution of a scope with its stores to shared memory and its barriers. Every scope has an *instance*
               of each shared array of its own: when the sweep has gone through a loop inside of a scope, the scope's
               memory is still as its replay left it.

A value that a thread has read from shared memory in a scope, or under a condition there, is kept in a register until
the sweep uses it. In a loop of its own the thread reads again: from the instance, which holds the right contents if no
store follows, else from a *snapshot* that the block took before. A block loop is reversed like any other, from
snapshots of the carried state, of which shared memory is part; see :class:`LoopMemory`.

The phases of the primal between two barriers have no races, and neither have those of the adjoint, which has a barrier
where the primal has one: an element that many threads read in a phase is accumulated to by many, and one that a single
thread writes belongs to that thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import field

from diffkern.analysis.blocks import decided_for_all, uniform_values
from diffkern.analysis.scopes import has_barrier
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.block import BARRIERS, SHARED_ARRAYS
from diffkern.ir.ops.memory import ATOMICS, LOADS, WRITES
from diffkern.ir.types import INT32, SHARED, Array, is_shared, value_type
from diffkern.ir.views import Access, For, If, is_branch, is_loop
from diffkern.process.dataclass import dataclass

__all__ = ["BlockMemory", "BlockPlan", "LoopMemory"]


@dataclass(frozen=True, slots=True)
class OpPosition:
    """The position of an op in the structure of the program.

    Attributes
    ----------
    number
        Its position in the program.
    scope
        The block loop around it, None for the kernel's body.
    outer
        The outermost loop or branch of single threads around it (or itself) in its scope.
    loops
        The loops of single threads around it.
    branches
        Whether branches, and no loops, are between it and its scope.
    around
        All loops and branches around it.
    """

    number: int
    scope: Op | None
    outer: Op | None
    loops: tuple[Op, ...]
    branches: bool
    around: tuple[Op, ...]


class BlockPlan:
    """Facts about a function whose threads cooperate.

    Attributes
    ----------
    shared
        Its shared arrays.
    kept
        Ops under conditions whose results are carried out of the branches: a sweep does not replay them.
    snapshots
        For a loop or branch of single threads the arrays of which the block takes a snapshot before.
    from_snapshot
        Loads in loops that read from the snapshot, with the loop or branch it is taken before.
    lost
        Loads in loops whose value cannot be rematerialized, each with the store that clobbers it.
    """

    def __init__(self, fn: Function) -> None:
        self.uniform = uniform_values(fn)
        self.shared = [op for op in fn.body.ops if op.name in SHARED_ARRAYS]
        self.place: dict[Op, OpPosition] = {}
        self.loop_of: dict[Value, Op] = {}
        self.producer: dict[Value, Op] = {}
        self._visit(fn.body, None, None, (), False, ())
        accesses = [op for op in self.place if op.name in LOADS | WRITES and is_shared(Access(op).array.type)]
        self.loads = [op for op in accesses if op.name in LOADS]
        self.writes = [op for op in accesses if op.name in WRITES]
        self.kept = {op for op, at in self.place.items() if at.branches and self._is_kept(op)}
        self.snapshots: dict[Op, list[Value]] = {}
        self.from_snapshot: dict[Op, Op] = {}
        self.lost: dict[Op, Op] = {}
        # Loads outside of loops are kept as values. Only those in loops of single threads are executed again.
        for load in self.loads:
            if self.place[load].loops:
                self._classify(load)

    def _visit(
        self,
        region: Region,
        scope: Op | None,
        outer: Op | None,
        loops: tuple[Op, ...],
        branches: bool,
        around: tuple[Op, ...],
    ) -> None:
        for op in region.ops:
            self.producer.update(dict.fromkeys(op.results, op))
            together = has_barrier(op)
            own = outer or (op if op.regions and not together else None)
            self.place[op] = OpPosition(len(self.place), scope, own, loops, branches, around)
            for sub in op.regions:
                self.loop_of.update(dict.fromkeys(sub.params, op))
                if is_branch(op):
                    # Under a branch a load executes at most once per scope, so its value can be carried out; in a loop
                    # it can not.
                    self._visit(sub, scope, own, loops, not loops, (*around, op))
                elif together:
                    self._visit(sub, op, None, (), False, (*around, op))
                else:
                    self._visit(sub, scope, own, (*loops, op), False, (*around, op))

    def _is_kept(self, op: Op) -> bool:
        if op.name in LOADS:
            return is_shared(Access(op).array.type)
        return is_loop(op) and self.together(op)

    def together(self, op: Op) -> bool:
        """Return whether an op, or one in its regions, accesses shared memory or is a barrier."""
        if op.regions:
            return any(self.together(inner) for sub in op.regions for inner in sub.ops)
        return op.name in BARRIERS or (op.name in LOADS | WRITES and is_shared(Access(op).array.type))

    def by_all_threads(self, store: Op) -> bool:
        """Return whether all threads of a block store to one element."""
        same = all(v in self.uniform for v in Access(store).index)
        return same and all(decided_for_all(op, self.uniform) for op in self.place[store].around)

    def is_block_loop(self, op: Op) -> bool:
        return is_loop(op) and has_barrier(op)

    def inside(self, op: Op, loop: Op | None) -> bool:
        """Return whether an op is in a loop; every op is in the kernel's body (None)."""
        return loop is None or loop in self.place[op].around

    def _classify(self, load: Op) -> None:
        at = self.place[load]
        assert at.outer is not None
        # Only stores inside of the scope, those of inner loops included, run on its instance and can clobber it.
        for write in self.writes:
            if Access(write).array is not Access(load).array or not self.inside(write, at.scope):
                continue
            there = self.place[write]
            # A store in the same loop or branch precedes the load, or shares a loop with it and so precedes it in a
            # later trip: a snapshot taken before the whole loop does not have the value either.
            together = there.outer is at.outer and there.scope is at.scope
            if together and (there.number < at.number or set(there.loops) & set(at.loops)):
                self.lost[load] = write
            # A store behind the loop: the instance is overwritten by the time of the sweep, but a snapshot before it is
            # right.
            if there.number > self.place[at.outer].number:
                self.from_snapshot[load] = at.outer
        if load in self.from_snapshot:
            arrays = self.snapshots.setdefault(at.outer, [])
            if Access(load).array not in arrays:
                arrays.append(Access(load).array)

    # -- what a loop finds in shared memory --------------------------------------------------------------------------

    def read_in(self, loop: Op) -> list[Value]:
        """Return the shared arrays whose earlier contents a block loop may load.

        Where all accesses of an array are in the loop, at places and under conditions that are the same in each trip,
        the first trip reads its own stores (contents are undefined at the start), and then all trips do.
        """
        loaded = {Access(op).array for op in self.loads if self.inside(op, loop)}
        return [s.result for s in self.shared if s.result in loaded and not self._filled_in_each_trip(s.result, loop)]

    def _filled_in_each_trip(self, array: Value, loop: Op) -> bool:
        # A store outside of the loop may supply contents that the first trip reads.
        if any(Access(op).array is array and not self.inside(op, loop) for op in self.writes):
            return False
        accesses = [op for op in (*self.loads, *self.writes) if Access(op).array is array and self.inside(op, loop)]
        known: dict[Value, bool] = {}
        return all(self._same_in_each_trip(op, loop, known) for op in accesses)

    def _same_in_each_trip(self, op: Op, loop: Op, known: dict[Value, bool]) -> bool:
        around = self.place[op].around
        index = Access(op).index
        for control in around[around.index(loop) + 1 :]:
            # The number of trips of an inner while, and so the elements it visits, may differ from trip to trip.
            if control.name == "while":
                return False
            index = (*index, *((If(control).condition,) if is_branch(control) else For(control).bounds))
        return all(self._fixed(v, loop, known) for v in index)

    def _fixed(self, v: Value, loop: Op, known: dict[Value, bool]) -> bool:
        """Return whether a value takes the same value, or the same range of values, in each trip of a loop nest."""
        found = known.get(v)
        if found is None:
            found = known[v] = self._is_fixed(v, loop, known)
        return found

    def _is_fixed(self, v: Value, loop: Op, known: dict[Value, bool]) -> bool:
        op = self.producer.get(v)
        if op is None:
            owner = self.loop_of.get(v)
            if owner is None:
                return True  # a parameter of the kernel
            inner = owner.name == "for" and v is For(owner).index and self.inside(owner, loop)
            return inner and all(self._fixed(x, loop, known) for x in For(owner).bounds)
        if not any(is_loop(o) and has_barrier(o) for o in self.place[op].around):
            return True  # computed before all loops around barriers, or in one of a thread alone
        # Memory may change between trips, so a loaded value is not known to be the same.
        if op.regions or op.name in LOADS | ATOMICS:
            return False
        return all(self._fixed(x, loop, known) for x in op.operands)


@dataclass(slots=True)
class LoopMemory:
    """The shared memory of a block loop in the adjoint.

    The snapshot of a slot is taken, and restored, by all threads of the block together: the number of the slot is the
    same for all of them.

    Attributes
    ----------
    memory
        The adjoint's shared memory.
    stacks
        For an instance of the loop's scope the array of its snapshots, with one more axis for the slots.
    """

    memory: BlockMemory
    stacks: dict[Value, Value]

    def begin(self, slot: Value | None, arrays: Collection[Value]) -> None:
        """Wait until all threads have swept the last trip, then restore these arrays from a slot, if one is given."""
        wanted = [a for a in self.stacks if a in arrays]
        self.memory.wait()
        # Threads that are still sweeping the last trip read the instance that is about to be restored.
        if slot is not None and wanted:
            for array in wanted:
                self.memory.copy(self.stacks[array], array, slot, None)
            # The restored contents have to be visible to all threads before one of them reads an element that another
            # copied.
            self.memory.wait()

    def save(self, slot: Value, arrays: Collection[Value]) -> None:
        """Take a snapshot of these arrays."""
        wanted = [a for a in self.stacks if a in arrays]
        if wanted:
            # The stores of the trip have to be complete before other threads copy them, and the copies complete before
            # the next trip overwrites them.
            self.memory.wait()
            for array in wanted:
                self.memory.copy(array, self.stacks[array], None, slot)
            self.memory.wait()

    def size(self, arrays: Collection[Value]) -> int:
        """Return the size of a snapshot of these arrays in bytes."""
        return sum(self.memory.size(a) for a in arrays)

    def limit(self, slots: int) -> None:
        """Fix the number of slots."""
        for stack in self.stacks.values():
            # The number of slots follows from the budget, which needs the size of all snapshots: it is fixed after the
            # arrays have been created with two.
            made = self.memory.made[stack]
            made.attrs = {**made.attrs, "shape": (slots, *made.attrs["shape"][1:])}


@dataclass(slots=True)
class BlockMemory:
    """The shared arrays of an adjoint.

    Attributes
    ----------
    made
        Each array with the op that allocates it.
    tracked
        The arrays that hold primal values.
    cotangents
        For an active shared array of the primal the array of its cotangents.
    """

    b: Builder
    plan: BlockPlan
    made: dict[Value, Op] = field(default_factory=dict)
    tracked: set[Value] = field(default_factory=set)
    cotangents: dict[Value, Value] = field(default_factory=dict)
    instances: dict[Op | None, dict[Value, Value]] = field(default_factory=dict)
    snapshots: dict[tuple[Op, Value], Value] = field(default_factory=dict)
    loops: dict[Op, LoopMemory] = field(default_factory=dict)

    def array(self, like: Value, name: str, *, slots: int | None = None, cotangent: bool = False) -> Value:
        """Return a new array of the shape of a shared one, with a leading axis of slots if their number is given."""
        op = self.plan.producer[like]
        t, shape = op.attrs["type"], op.attrs["shape"]
        shape = shape if slots is None else (slots, *shape)
        new = Array(value_type(t.dtype) if cotangent else t.dtype, len(shape), SHARED)
        array = Value(new, name)
        # Negative numbers cannot clash with the numbers of the primal's own shared arrays.
        self.made[array] = Op(
            "shared_new", (), (array,), {"type": new, "shape": shape, "number": -1 - len(self.made)}, (), op.loc
        )
        # Only primal values are tracked: dead replays of them may be removed, while cotangents always count as used.
        if not cotangent:
            self.tracked.add(array)
        return array

    def instance(self, scope: Op | None) -> dict[Value, Value]:
        """Return, for each shared array of the primal, its instance in a scope."""
        if scope not in self.instances:
            every = [op.result for op in self.plan.shared]
            self.instances[scope] = {s: self.array(s, s.name) for s in every}
        return self.instances[scope]

    def snapshot(self, before: Op, array: Value) -> Value:
        """Return the snapshot of a shared array that is taken before a loop or branch of single threads."""
        key = before, array
        if key not in self.snapshots:
            self.snapshots[key] = self.array(array, f"{array.name}_before")
        return self.snapshots[key]

    def loop(self, loop: Op) -> LoopMemory:
        """Return the memory of a block loop."""
        if loop not in self.loops:
            stacks = {}
            for s in self.plan.read_in(loop):
                stacks[self.instance(loop)[s]] = self.array(s, f"{s.name}_kept", slots=2)
            self.loops[loop] = LoopMemory(self, stacks)
        return self.loops[loop]

    def size(self, array: Value) -> int:
        attrs = self.made[array].attrs
        size: int = math.prod(attrs["shape"]) * attrs["type"].dtype.itemsize
        return size

    # -- code --------------------------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Emit a barrier between accesses of primal values."""
        # Marked as part of the replay, so that it can be removed with the replayed accesses that it orders.
        self.b.op("barrier", replay=True)

    def enter(self, loop: Op, env: dict[Value, Value]) -> None:
        """Copy the shared memory that a block loop finds at its start, for its first snapshot."""
        memory = self.loop(loop)
        if memory.stacks:
            self.wait()
            instance = self.instance(loop)
            for s in instance:
                stack = memory.stacks.get(instance[s])
                if stack is not None:
                    self.copy(env[s], stack, None, self.b.i32(0))
            self.wait()

    def take_snapshots(self, before: Op, env: dict[Value, Value]) -> None:
        """Copy the shared memory that a loop or branch of single threads may read, where it is overwritten later."""
        arrays = self.plan.snapshots.get(before, ())
        if arrays:
            self.wait()
            for s in arrays:
                self.copy(env[s], self.snapshot(before, s), None, None)
            self.wait()

    def copy(self, source: Value, target: Value, source_slot: Value | None, target_slot: Value | None) -> None:
        """Copy an array, each thread a part of it; a slot is the first index of an array of snapshots."""
        shape = self.made[source].attrs["shape"]

        def element(index: Sequence[Value]) -> None:
            at = index if source_slot is None else (source_slot, *index)
            to = index if target_slot is None else (target_slot, *index)
            value = self.b.one("load", source, *at, wrap=(False,) * len(at))
            self.b.op("store", target, *to, value, wrap=(False,) * len(to))

        self._each(shape if source_slot is None else shape[1:], element)

    def clear(self, array: Value) -> None:
        """Fill an array with zeros, each thread a part of it."""
        made = self.made[array].attrs

        def element(index: Sequence[Value]) -> None:
            self.b.op("store", array, *index, self.b.zero(made["type"].dtype), wrap=(False,) * len(index))

        self._each(made["shape"], element)

    def _each(self, shape: Sequence[int], element: Callable[[Sequence[Value]], None]) -> None:
        """Emit a loop over the elements that fall to a thread."""
        b = self.b
        body = Region((Value(INT32, "e"),))
        # A strided loop: neighbouring threads touch neighbouring elements, and a block of any size covers the whole
        # array.
        first, step = b.one("block_thread"), b.one("block_dim")
        with b.into(body):
            index: list[Value] = []
            rest = body.params[0]
            for extent in reversed(shape[1:]):
                index.insert(0, b.one("mod", rest, b.i32(extent)))
                rest = b.one("floordiv", rest, b.i32(extent))
            element((rest, *index))
        b.for_(first, b.i32(math.prod(shape)), step, (), body)

    def prologue(self) -> list[Op]:
        """Return the ops at the start of the adjoint: its arrays are allocated, and the cotangents cleared."""
        region = Region(ops=list(self.made.values()))
        with self.b.into(region), self.b.at(None):
            for ct in self.cotangents.values():
                self.clear(ct)
            if self.cotangents:
                # Unmarked: the first accumulation of any thread has to see the zeros of all threads.
                self.b.op("barrier")
        return region.ops
