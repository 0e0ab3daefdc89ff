"""Loop fission: a block of threads becomes one thread, for a target without blocks.

A function that ``analysis.blocks.check_blocks`` accepts is changed in place so that its *thread is a block*, without
thread index, barriers and block-thread indices. Between two barriers the threads of a block run one after the other, in
a loop of their own (a ``for`` with the attribute ``threads``); a value that a thread needs after a barrier is kept in
an array with an element per thread; loops and branches around barriers go outside of the loops over threads. Shared
arrays are memory of the block. Of the family ``block`` only ``block_index``, ``block_dim``, ``extent`` and
``shared_new`` remain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field

from diffkern.analysis.blocks import (
    MAX_BLOCK_DIM,
    blockwise_op,
    uniform_values,
)
from diffkern.analysis.scopes import has_barrier, stacks_of_blocks
from diffkern.analysis.uniformity import is_per_thread
from diffkern.errors import CompileError
from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner, defined_in
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.block import BARRIERS, SHARED_ARRAYS
from diffkern.ir.ops.memory import NEW_STACKS, SLOTS, STACK_READS, STACK_WRITES, THREAD_INDICES
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import INT32, INT64, SHARED, Array, Element, Scalar, Stack
from diffkern.ir.views import For, If, StackSlot, While, is_branch, loop
from diffkern.opt.dce import has_effect
from diffkern.process.dataclass import dataclass

__all__ = ["MEMORY_BYTES", "to_blocks"]

MEMORY_BYTES = 1024 * 1024
"""The most bytes that a block takes of the stack of a CPU thread."""

_OWN_NUMBERS = -1_000_000
"""Arrays made here have numbers from this downwards, those of an adjoint from -1."""
_BLOCK_LEVEL = 1_000_000
"""Loop stacks of a block have levels from this upwards."""
_SHORT = 8
"""The most operations that a value is rematerialized by rather than kept across a barrier."""


def to_blocks(fn: Function) -> Function:
    """Turn blocks into the threads of a function whose threads cooperate, in place; return the function."""
    # A thread index is found from the block's, so the launch has no axes of its own.
    if blockwise_op(fn) is not None:
        fn.body, fn.tid_arity, fn.blocks = _Blocks(fn).body(), 0, True
    return fn


@dataclass(eq=False)
class _Segment:
    """The ops between two barriers: first those that are the same for all threads, then those of each thread."""

    common: list[Op] = field(default_factory=list)
    own: list[Op] = field(default_factory=list)


class _Blocks:
    def __init__(self, fn: Function) -> None:
        self.fn = fn
        self.uniform = uniform_values(fn)
        self.arrays: list[Op] = []  # what goes to the beginning: memory of the block
        self.top = Region()
        self.b = Builder(self.top)
        self.env: dict[Value, Value] = {p: p for p in fn.params}
        self.stacks = stacks_of_blocks(fn)
        self.fields: dict[Value, list[Value | int]] = {}  # of a stack: the array of a field, or its place in the stack
        # Which fields differ decides about the memory of the block, so it is found before anything is emitted.
        self.mixed = self.find_mixed()
        # Computed where they are needed.
        self.indices = {op.result: op for op in walk(fn.body) if is_per_thread(op)}
        self.rematerialized = self.find_rematerialized()
        self.kept: dict[Value, Value] = {}  # a value of a thread → the array that keeps it for all threads
        self.needed_later = self.find_kept(fn.body)

    def body(self) -> Region:
        self.n = self.b.one("block_dim")
        self.block = self.b.one("block_index")
        self.extents = [self.b.one("extent", axis=k) for k in range(1, self.fn.tid_arity)]
        self.first = self.b.mul(self.block, self.n)
        self.items(self.fn.body)
        self.top.ops[:0] = self.arrays
        fn = self.fn
        size = sum(math.prod(op.attrs["shape"]) * op.attrs["type"].dtype.itemsize for op in self.arrays)
        if size > MEMORY_BYTES:
            raise CompileError(
                f"kernel {fn.name} needs {size} bytes for what the threads of a block keep across barriers; "
                f"on the CPU there are {MEMORY_BYTES}",
                loc=fn.loc,
                remedy="keep fewer values across barriers, above all matrices",
            )
        return self.top

    # -- what is kept across barriers --------------------------------------------------------------------------------

    def segments(self, region: Region) -> list[_Segment | Op]:
        """Return a region as segments, and the loops and branches around barriers."""
        out: list[_Segment | Op] = [_Segment()]
        for op in region.ops:
            if op.name in BARRIERS:
                out.append(_Segment())
            elif has_barrier(op):
                out += [op, _Segment()]
            # Shared arrays and stacks of the block are allocated elsewhere and are no part of a segment.
            elif op.name not in SHARED_ARRAYS and not (op.results and op.results[0] in self.stacks):
                segment = out[-1]
                assert isinstance(segment, _Segment)
                # An op may be both: a loop with uniform and own results is emitted twice, each time with its part.
                if self.is_common(op):
                    segment.common.append(op)
                if self.is_own(op):
                    segment.own.append(op)
        return out

    def is_common(self, op: Op) -> bool:
        """Return whether the block executes (part of) an op once."""
        return any(r in self.uniform for r in op.results) or self.keeps_common(op)

    def keeps_common(self, op: Op) -> bool:
        """Return whether an op, or one in its regions, pushes a value that is the same for all threads."""
        if op.regions:
            return any(self.keeps_common(inner) for sub in op.regions for inner in sub.ops)
        if op.name not in STACK_WRITES or op.operands[0] not in self.stacks:
            return False
        return len(self.mixed[op.operands[0]]) < len(op.operands) - 2

    def is_own(self, op: Op) -> bool:
        """Return whether each thread executes (part of) an op."""
        if op.name in STACK_WRITES and op.operands[0] in self.stacks:
            return bool(self.mixed[op.operands[0]])
        return has_effect(op) or any(r not in self.uniform for r in op.results)

    def find_mixed(self) -> dict[Value, set[int]]:
        """Return for each stack of the block the fields of which every thread has its own value."""
        found: dict[Value, set[int]] = {stack: set() for stack in self.stacks}
        for op in walk(self.fn.body):
            if op.name in STACK_WRITES and op.operands[0] in self.stacks:
                found[StackSlot(op).stack].update(
                    k for k, v in enumerate(StackSlot(op).values) if v not in self.uniform
                )
        return found

    def make_stack(self, op: Op) -> None:
        """Create a stack of the uniform fields, and for each other field an array of slots and threads."""
        t: Stack = op.attrs["type"]
        mixed = self.mixed[op.result]
        # A field that is the same for all threads is kept once per block, not once per thread.
        same = [k for k in range(len(t.fields)) if k not in mixed]
        places: list[Value | int] = []
        for k, f in enumerate(t.fields):
            places.append(self.array_for(f, op.result.name, t.slots) if k in mixed else same.index(k))  # type: ignore[arg-type]
        self.fields[op.result] = places
        if same:
            # Not in the place of a thread's stacks: the block may fill it before the threads have left theirs.
            narrow = Stack(tuple(t.fields[k] for k in same), t.slots, _BLOCK_LEVEL + t.level)
            with self.b.at(op.loc):
                self.env[op.result] = self.b.one("stack_new", type=narrow, hint=op.result.name)

    def find_kept(self, region: Region) -> set[Value]:
        """Return the values of threads that are needed outside of the segment that computes them."""
        home: dict[Value, object] = {}
        uses: list[tuple[Value, object]] = []

        def visit(region: Region) -> None:
            for item in self.segments(region):
                if isinstance(item, _Segment):
                    inside = Region(ops=item.own)
                    home.update(dict.fromkeys(defined_in(inside), item))
                    for op in walk(inside):
                        uses.extend((v, item) for v in op.operands)
                        uses.extend((v, item) for sub in op.regions for v in sub.yields)
                    continue
                uses.extend((v, None) for v in item.operands)
                for sub in item.regions:
                    visit(sub)
                    uses.extend((v, None) for v in sub.yields)

        visit(region)
        later = {v for v, where in uses if v in home and home[v] is not where and v not in self.uniform}
        # Indices and cheap integers are recomputed; keeping them would cost memory and loads per thread.
        return later - self.indices.keys() - self.rematerialized.keys()

    def find_rematerialized(self) -> dict[Value, Op]:
        """Return the integers computed from the thread's index and uniform values, to be recomputed where needed."""
        found: dict[Value, Op] = {}
        length: dict[Value, int] = {}
        for op in walk(self.fn.body):
            pure = not op.regions and lookup(op.name).effect is Effect.PURE and len(op.results) == 1
            if not pure or op.result in self.uniform or op.result in self.indices:
                continue
            known = all(v in self.uniform or v in self.indices or v in found for v in op.operands)
            length[op.result] = 1 + sum(length.get(v, 0) for v in op.operands)
            integer = isinstance(op.result.type, Scalar) and not op.result.type.is_float
            if known and integer and length[op.result] <= _SHORT:
                found[op.result] = op
        return found

    def array_for(self, t: Element, name: str, slots: int | None = None) -> Value:
        """Return memory of the block with an element for each thread, and for each slot of a stack."""
        shape = (MAX_BLOCK_DIM,) if slots is None else (slots, MAX_BLOCK_DIM)
        array = Value(Array(t, len(shape), SHARED), name)
        attrs = {"type": array.type, "shape": shape, "number": _OWN_NUMBERS - len(self.arrays)}
        self.arrays.append(Op("shared_new", (), (array,), attrs, (), self.fn.loc))
        return array

    # -- code --------------------------------------------------------------------------------------------------------

    def items(self, region: Region) -> None:
        for op in region.ops:
            if op.name in SHARED_ARRAYS:
                copy = Value(op.result.type, op.result.name)
                self.arrays.append(Op(op.name, (), (copy,), op.attrs, (), op.loc))
                self.env[op.result] = copy
            elif op.name in NEW_STACKS and op.result in self.stacks:
                self.make_stack(op)
        for item in self.segments(region):
            if isinstance(item, _Segment):
                self.segment(item)
            elif is_branch(item):
                self.branch(item)
            else:
                self.loop(item)

    def segment(self, item: _Segment) -> None:
        # Uniform values first, as the threads' own ops use them.
        self.once(item.common)
        if item.own:
            with _Threads(self, item.own[0]) as thread:
                thread.ops(item.own)
                for v in (r for op in item.own for r in op.results):
                    if v in self.needed_later:
                        # Stored in the same loop over threads, while the value is still in a register.
                        thread.keep(v)

    def once(self, ops: Sequence[Op]) -> None:
        """Emit the ops that the block executes once: of loops and branches the part with uniform results."""
        for op in ops:
            shared = [k for k, r in enumerate(op.results) if r in self.uniform]
            if not self.is_common(op):
                continue
            if not op.regions:
                _Common(self, self.env).op(op)
            elif is_branch(op):
                self.emit_branch(op, shared, lambda sub: self.once(sub.ops))
            else:
                self.emit_loop(op, shared, lambda body: self.once(body.ops))

    def hand_over(self, pairs: list[tuple[Value, Value]], like: Op) -> None:
        """Store each thread's value of the first of a pair to the memory that is kept for the second."""
        if not pairs:
            return
        with _Threads(self, like) as thread:
            # All values are read before one is stored: a swap of two carried values must not read a new one.
            found = [thread.value(source) for source, _ in pairs]
            for value, (_, target) in zip(found, pairs, strict=True):
                thread.store(self.kept[target], value)

    def own_results(self, op: Op) -> list[int]:
        """Return the positions of the results that differ between threads; memory is allocated for them."""
        own = [k for k, r in enumerate(op.results) if r not in self.uniform]
        for k in own:
            r = op.results[k]
            self.kept[r] = self.array_for(r.type, r.name)  # type: ignore[arg-type]
        return own

    def branch(self, op: Op) -> None:
        """Emit a branch around barriers; the threads' own results go to memory."""
        own = self.own_results(op)

        def arm(sub: Region) -> None:
            self.items(sub)
            self.hand_over([(sub.yields[k], op.results[k]) for k in own], op)

        self.emit_branch(op, [k for k in range(len(op.results)) if k not in own], arm)

    def emit_branch(self, op: Op, shared: list[int], arm: Callable[[Region], None]) -> None:
        regions = []
        for sub in op.regions:
            region = Region()
            with self.b.into(region):
                arm(sub)
            region.yields = tuple(self.env[sub.yields[k]] for k in shared)
            regions.append(region)
        types = tuple(op.results[k].type for k in shared)
        with self.b.at(op.loc):
            results = self.b.op("if", self.env[If(op).condition], regions=regions, types=types)
        self.env.update(zip((op.results[k] for k in shared), results, strict=True))

    def loop(self, op: Op) -> None:
        """Emit a loop around barriers; the values that threads carry are kept in memory."""
        view, own = loop(op), self.own_results(op)
        # The initial values go to the memory of the results, which the carried values share: one array per carried
        # value.
        self.hand_over([(view.init[k], op.results[k]) for k in own], op)
        for k in own:
            self.kept[view.carried[k]] = self.kept[op.results[k]]

        def trip(body: Region) -> None:
            self.items(body)
            self.hand_over([(body.yields[k], op.results[k]) for k in own], op)

        self.emit_loop(op, [k for k in range(len(op.results)) if k not in own], trip)

    def emit_loop(self, op: Op, shared: list[int], trip: Callable[[Region], None]) -> None:
        view = loop(op)
        index = (view.index,) if isinstance(view, For) else ()
        carried = [view.carried[k] for k in shared]
        operands = [self.env[v] for v in (*view.bounds, *(view.init[k] for k in shared))]
        inner = Region(tuple(Value(p.type, p.name) for p in (*index, *carried)))
        regions = [inner]
        if isinstance(view, While):
            regions.insert(0, self.condition(view, shared))
        self.env.update(zip((*index, *carried), inner.params, strict=True))
        with self.b.into(inner):
            trip(view.body)
        inner.yields = tuple(self.env[view.yields[k]] for k in shared)
        with self.b.at(op.loc):
            results = self.b.op(op.name, *operands, regions=regions)
        self.env.update(zip((op.results[k] for k in shared), results, strict=True))

    def condition(self, loop: While, shared: list[int]) -> Region:
        region = Region(tuple(Value(loop.tested[k].type, loop.tested[k].name) for k in shared))
        self.env.update(zip((loop.tested[k] for k in shared), region.params, strict=True))
        with self.b.into(region):
            # The condition of a loop around barriers is uniform, so only its common part is emitted.
            self.once(loop.test.ops)
        region.yields = (self.env[loop.condition],)
        return region


class _Common(Cloner):
    """Copies the ops that the block executes once."""

    def __init__(self, blocks: _Blocks, env: dict[Value, Value]) -> None:
        super().__init__(blocks.b, env)
        self.blocks = blocks

    def op(self, op: Op) -> None:
        if op.name in SLOTS and op.operands[0] in self.blocks.stacks:
            self.stack(op)
            return
        known = {"block_dim": self.blocks.n, "block_index": self.blocks.block}.get(op.name)
        if known is not None:
            self.env[op.result] = known
        else:
            super().op(op)

    def stack(self, op: Op) -> None:
        """Access the fields that are the same for all threads."""
        access = StackSlot(op)
        places = self.blocks.fields[access.stack]
        stack, slot = self.env[access.stack], self.value(access.slot)
        if op.name in STACK_READS:
            place = places[op.attrs["field"]]
            self.env[op.result] = self.b.one("stack_get", stack, slot, field=place, hint=op.result.name)
        else:
            same = [v for v, place in zip(access.values, places, strict=True) if isinstance(place, int)]
            self.b.op("stack_set", stack, slot, *self.values(same))


class _Threads(_Common):
    """A loop over the threads of the block; the ops copied inside belong to one of them."""

    def __init__(self, blocks: _Blocks, like: Op) -> None:
        super().__init__(blocks, dict(blocks.env))
        self.like = like
        self.body = Region((Value(INT32, "thread"),))
        self.thread = self.body.params[0]

    def __enter__(self) -> _Threads:
        self.inside = self.b.into(self.body)
        self.inside.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.inside.__exit__(None, None, None)
        with self.b.at(self.like.loc):
            # The attribute tells the target that the trips are independent threads, which it may vectorise.
            self.b.op("for", self.b.i32(0), self.blocks.n, self.b.i32(1), regions=(self.body,), threads=True)

    def value(self, v: Value) -> Value:
        # Uniform values and those of this segment are in the environment; others come from memory or are recomputed.
        found = self.env.get(v)
        if found is None:
            # Where it is needed, each time again: an earlier place may be inside of a branch.
            index = self.blocks.indices.get(v)
            if index is not None:
                return self.thread if index.name == "block_thread" else self.thread_index(index.attrs["axis"])
            op = self.blocks.rematerialized.get(v)
            if op is not None:
                results = self.b.op(op.name, *self.values(op.operands), **op.attrs)
                return results[0]
            found = self.b.one("load", self.blocks.kept[v], self.thread, hint=v.name, wrap=(False,))
        return found

    def op(self, op: Op) -> None:
        if op.name == "block_thread":
            self.env[op.result] = self.thread
        elif op.name in THREAD_INDICES:
            self.env[op.result] = self.thread_index(op.attrs["axis"])
        else:
            super().op(op)

    def stack(self, op: Op) -> None:
        """Access the fields of which each thread has its own."""
        places = self.blocks.fields[op.operands[0]]
        if op.name in STACK_WRITES:
            for v, place in zip(StackSlot(op).values, places, strict=True):
                if isinstance(place, Value):
                    index = (self.value(StackSlot(op).slot), self.thread)
                    self.b.op("store", place, *index, self.value(v), wrap=(False, False))
            return
        place = places[op.attrs["field"]]
        if not isinstance(place, Value):
            super().stack(op)
            return
        index = (self.value(op.operands[1]), self.thread)
        self.env[op.result] = self.b.one("load", place, *index, wrap=(False, False), hint=op.result.name)

    def thread_index(self, axis: int) -> Value:
        b, extents = self.b, self.blocks.extents
        if not extents:
            return b.add(self.blocks.first, self.thread)
        # The flat number of a thread may exceed 32 bits in a launch of several axes, although each index does not.
        wide = [b.cast(v, INT64) for v in (self.blocks.block, self.blocks.n, self.thread)]
        flat = b.add(b.mul(wide[0], wide[1]), wide[2])
        for extent in reversed(extents[axis:]):
            flat = b.one("floordiv", flat, b.cast(extent, INT64))
        if axis:
            flat = b.one("mod", flat, b.cast(extents[axis - 1], INT64))
        return b.cast(flat, INT32)

    def keep(self, v: Value) -> None:
        if v not in self.blocks.kept:
            self.blocks.kept[v] = self.blocks.array_for(v.type, v.name)  # type: ignore[arg-type]
        self.store(self.blocks.kept[v], self.env[v])

    def store(self, array: Value, value: Value) -> None:
        self.b.op("store", array, self.thread, value, wrap=(False,))
