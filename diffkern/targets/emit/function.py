"""The body of a thread as LLVM: regions become basic blocks, carried values become phis.

For a function without composite mathematics, and the argument block, code is appended to an LLVM function. A value of
the IR is held as the tuple of its scalar components, so composites live in registers; an array is an ``ArrayRef`` and a
loop stack a ``StackRef``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from llvmlite import ir

from diffkern.errors import CompileError
from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.ops import warps
from diffkern.ir.ops.block import BLOCK_NUMBERS
from diffkern.ir.ops.memory import ELEMENTS, NAN_EXTREMA
from diffkern.ir.types import FLOAT32, Array, Element, Kind, Scalar, Stack, Tile, Type, scalar_of
from diffkern.ir.types import value_type as held_type
from diffkern.ir.views import Access, For, If, StackSlot, While
from diffkern.process.dataclass import dataclass
from diffkern.targets.emit.buffers import Scratch
from diffkern.targets.emit.checks import CheckEmitter, Record
from diffkern.targets.emit.facts import FunctionFacts, stack_size
from diffkern.targets.emit.loops import left_alone, moves_components, not_unrolled, rolled_if_long, trip_count
from diffkern.targets.emit.matmul import ProductShape, matmul_function
from diffkern.targets.emit.memory import (
    ArrayRef,
    add_element,
    address,
    combination,
    compare_exchange,
    component,
    element_size,
    fill_words,
    give_element,
    is_neutral,
    load_element,
    poison_of,
    store_element,
    take_element,
    update_element,
)
from diffkern.targets.emit.output import OutputEmitter
from diffkern.targets.emit.scalars import ScalarEmitter, is_scalar_op
from diffkern.targets.emit.types import (
    I1,
    I8,
    I32,
    I64,
    Builder,
    constant,
    from_memory,
    i64,
    memory_type,
    to_memory,
    value_type,
)


@dataclass(frozen=True, slots=True)
class StackRef:
    """A loop stack: its fields one after the other, each a block of all slots."""

    type: Stack
    base: Any

    def pointer(self, b: Builder, index: int, slot: Any) -> Any:
        """Return a pointer to one field of a slot."""
        offset = stack_size(Stack(self.type.fields[:index], self.type.slots))
        t = self.type.fields[index]
        assert not isinstance(t, Tile)
        # Fields are stored in blocks of all slots, so each block can be aligned for its type.
        flat = b.mul(b.sext(slot, I64), i64(element_size(t)), flags=("nsw",))
        start = b.gep(self.base, [i64(offset)], inbounds=True, source_etype=I8)
        return b.gep(start, [flat], inbounds=True, source_etype=memory_type(scalar_of(t)))


def _no_launch(axis: int) -> Any:
    raise CompileError(f"extent {axis} of a launch is asked for where there is none")


@dataclass(slots=True)
class BodyEmitter:
    """Emits the ops of one thread at the builder's position.

    Attributes
    ----------
    tid
        The components of the thread index, as int32; empty where no thread index exists (``finish``).
    sums
        For each op summed per chunk: the accumulators of its components.
    stacks
        One block of memory per nesting level of loop stacks.
    record, checks, output
        The record for reports, the emitter of checks, and the emitter of prints; None if unused.
    scratch
        The buffers of the thread; None if tiles are arrays of the block.
    vector_bytes
        The width of the target's vectors.
    launch
        In a kernel whose threads work in blocks: the values of the block's indices, by op.
    moved
        Ops that are emitted elsewhere, ahead of the code of the thread.
    extent_along
        Emits an extent of the launch, as an int32.
    constant_space
        The address space of memory that is part of the program.
    memory_space
        The address space of memory that addresses refer to.
    rolled
        Whether LLVM is kept from unrolling loops that all current threads go through together.
    alone
        A condition: whether no other thread updates the same elements. None if that is never known.
    """

    builder: Builder
    scalars: ScalarEmitter
    facts: FunctionFacts
    arrays: dict[Value, ArrayRef]
    values: dict[Value, tuple[Any, ...]]
    tid: Sequence[Any] = ()
    sums: dict[int, list[Any]] = field(default_factory=dict)
    stacks: dict[int, Any] = field(default_factory=dict)
    exact: dict[Value, Any] = field(default_factory=dict)
    stack_refs: dict[Value, StackRef] = field(default_factory=dict)
    record: Record | None = None
    checks: CheckEmitter | None = None
    output: OutputEmitter | None = None
    scratch: Scratch | None = None
    vector_bytes: int = 16
    launch: dict[str, Any] = field(default_factory=dict)
    moved: frozenset[Op] = frozenset()
    extent_along: Callable[[int], Any] = _no_launch
    constant_space: int = 0
    memory_space: int = 0
    rolled: bool = False
    alone: Any = None

    # -- values ------------------------------------------------------------------------------------------------------

    def scalar(self, v: Value) -> Any:
        (out,) = self.values[v]
        return out

    def index(self, v: Value) -> Any:
        """Return an integer value as an exact 64-bit index."""
        known = self.exact.get(v)
        if known is not None:
            return known
        t, x = v.type, self.scalar(v)
        assert isinstance(t, Scalar)
        if isinstance(x, ir.Constant):
            return i64(x.constant)
        if t.bits == 64:
            return x
        return self.builder.sext(x, I64) if t.kind is Kind.INT else self.builder.zext(x, I64)

    def phis(self, types: Sequence[Type]) -> list[list[Any]]:
        out = []
        for t in types:
            s = held_type(t)  # type: ignore[arg-type]
            out.append([self.builder.phi(value_type(scalar_of(s))) for _ in range(element_size(s))])
        return out

    def phis_for(self, values: Sequence[Value]) -> list[list[Any]]:
        """Return phis for the components of values."""
        return self.phis([v.type for v in values])

    def merged(self, values: Sequence[Value], parts: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Convert values to the form of their phis; at the end of the block that they come from."""
        return list(parts)

    def connect(self, phis: list[list[Any]], values: Sequence[tuple[Any, ...]], block: Any) -> None:
        for group, parts in zip(phis, values, strict=True):
            for phi, part in zip(group, parts, strict=True):
                phi.add_incoming(part, block)

    def define(self, values: Sequence[Value], parts: Sequence[Sequence[Any]]) -> None:
        for v, p in zip(values, parts, strict=True):
            self.values[v] = tuple(p)

    # -- ops ---------------------------------------------------------------------------------------------------------

    def region(self, region: Region) -> list[tuple[Any, ...]]:
        """Emit the ops of a region; return its yields."""
        self.ops(region)
        return [self.values[v] for v in region.yields]

    def ops(self, region: Region) -> None:
        """Emit the ops of a region."""
        self.emit_all(region.ops)

    def emit_all(self, ops: Iterable[Op]) -> None:
        """Emit ops, but those that are emitted elsewhere."""
        for op in ops:
            if op not in self.moved:
                self.op(op)

    def op(self, op: Op) -> None:
        if is_scalar_op(op.name):
            args = [self.scalar(v) for v in op.operands]
            result = self.scalars.emit(op, args)
            if self.checks is not None:
                self.checks.arithmetic(op, args, result)
            self.values[op.result] = (result,)
            # The same integer again in 64 bits: LLVM sees through an index only if it does not wrap at 32.
            if op.result in self.facts.exact:
                self.exact[op.result] = self.exact_form(op)
            return
        # Every op that is not scalar has a method; passes before have removed all others.
        method = _EMITTERS.get(op.name)
        if method is None:
            raise CompileError(f"operation {op.name} has no LLVM form", loc=op.loc)
        emit = getattr(self, method)
        if self.checks is not None and op.name in ELEMENTS:
            self.checked(op, self.checks, emit)
        else:
            emit(op)

    def checked(self, op: Op, checks: CheckEmitter, emit: Callable[[Op], None]) -> None:
        """Emit an access that is skipped if it is an error; a skipped load gives 0."""
        b = self.builder
        indices = [self.index(v) for v in Access(op).index]
        allowed = checks.access(op, self.arrays[Access(op).array], indices)
        before = b.block
        # A wrong access is skipped rather than aborting the thread, which may be in a vectorised or nested loop.
        access, done = b.append_basic_block("access"), b.append_basic_block("skipped")
        b.cbranch(allowed, access, done)
        b.position_at_end(access)
        emit(op)
        after = b.block
        b.branch(done)
        b.position_at_end(done)
        phis = self.phis([r.type for r in op.results])
        for group, r in zip(phis, op.results, strict=True):
            zeros = tuple(constant(scalar_of(held_type(r.type)), 0) for _ in group)  # type: ignore[arg-type]
            self.connect([group], [zeros], before)
            self.connect([group], [self.values[r]], after)
        self.define(op.results, phis)

    def exact_form(self, op: Op) -> Any:
        # Facts of no wrap hold for indices that are in bounds, which a debug program has yet to test.
        b, args = self.builder, [self.index(v) for v in op.operands]
        # Where an index is checked it must be a number, however far it is outside.
        exact = ("nsw",) if self.checks is None else ()
        match op.name:
            case "cast":
                return args[0]
            case "neg":
                return b.sub(i64(0), args[0], flags=exact)
            case name:
                return getattr(b, name)(*args, flags=exact)

    def construct(self, op: Op) -> None:
        self.values[op.result] = tuple(self.scalar(v) for v in op.operands)

    def extract(self, op: Op) -> None:
        self.values[op.result] = (self.values[op.operands[0]][op.attrs["index"]],)

    def thread_index(self, op: Op) -> None:
        self.values[op.result] = (self.tid[op.attrs["axis"]],)

    def block_index(self, op: Op) -> None:
        self.values[op.result] = (self.launch[op.name],)

    def extent(self, op: Op) -> None:
        self.values[op.result] = (self.extent_along(op.attrs["axis"]),)

    def shared_new(self, op: Op) -> None:
        """Allocate memory of the block, which is one thread here."""
        t, shape = op.result.type, op.attrs["shape"]
        assert isinstance(t, Array)
        s = scalar_of(t.dtype)
        count = element_size(t.dtype) * math.prod(shape)
        with self.builder.goto_entry_block():
            # An alloca in a loop would grow the stack with each trip.
            data = self.builder.alloca(ir.ArrayType(I64, (count * s.itemsize + 7) // 8))
        data.type = ir.PointerType()  # llvmlite still gives alloca a typed pointer
        # Where the block begins, as the memory is that of the block before.
        pattern = poison_of(s) if op.attrs.get("poisoned") else None
        if pattern is not None:
            fill_words(self.builder, data, (count * s.itemsize + 7) // 8, pattern)
        lengths = tuple(i64(n) for n in shape)
        self.arrays[op.result] = ArrayRef(t, data, lengths, tuple(i64(0) for _ in shape))

    def constant_array(self, op: Op) -> None:
        """Define constant memory of the program."""
        t, shape, module = op.attrs["type"], op.attrs["shape"], self.builder.module
        memory = ir.ArrayType(I8, len(op.attrs["data"]))
        name = module.get_unique_name("constant_array")
        held = ir.GlobalVariable(module, memory, name, addrspace=self.constant_space)
        held.linkage, held.align, held.global_constant = "internal", 16, True
        held.initializer = ir.Constant(memory, bytearray(op.attrs["data"]))
        held.type = ir.PointerType(addrspace=self.constant_space)
        self.arrays[op.result] = ArrayRef(t, held, tuple(i64(n) for n in shape), tuple(i64(0) for _ in shape))

    def peek(self, op: Op) -> None:
        """Load an element of memory outside of the launch's arrays, which nothing writes meanwhile."""
        b, t, (address, index) = self.builder, op.attrs["type"], op.operands
        start = b.inttoptr(self.scalar(address), ir.PointerType(addrspace=self.memory_space))
        place = b.gep(start, [self.index(index)], inbounds=True, source_etype=memory_type(t))
        raw = b.load(place, typ=memory_type(t))
        if not op.attrs.get("changing"):
            # LLVM may hoist and merge loads of memory that never changes.
            raw.set_metadata("invariant.load", b.module.add_metadata([]))
        self.values[op.result] = (from_memory(b, t, raw),)

    def fetch(self, op: Op) -> None:
        """Load a number at an address, like peek."""
        address, _, index = op.operands
        self.peek(Op("peek", (address, index), op.results, {"type": op.attrs.get("type", FLOAT32)}, (), op.loc))

    def look(self, op: Op) -> None:
        """Load a number that the program may write to."""
        address, _, index = op.operands
        attrs = {"type": op.attrs.get("type", FLOAT32), "changing": True}
        self.peek(Op("peek", (address, index), op.results, attrs, (), op.loc))

    def poke(self, op: Op) -> None:
        """Store a number at an address."""
        b, (address, _, index, value) = self.builder, op.operands
        t = value.type
        assert isinstance(t, Scalar)
        b.store(to_memory(b, t, self.scalar(value)), self._place(self.scalar(address), index, t))

    def _place(self, address: Any, index: Value, t: Scalar) -> Any:
        """Return a pointer to an element of memory."""
        start = self.builder.inttoptr(address, ir.PointerType(addrspace=self.memory_space))
        return self.builder.gep(start, [self.index(index)], source_etype=memory_type(t))

    def withdraw(self, op: Op) -> None:
        """Take a number at an address and set it to zero, unless the address is 0."""
        b, t, (address, index) = self.builder, op.attrs["type"], op.operands
        start, zero = self.scalar(address), ir.Constant(memory_type(t), 0.0)
        before = b.block
        with b.if_then(b.icmp_unsigned("!=", start, i64(0))):
            place = self._place(start, index, t)
            found, inside = b.load(place, typ=memory_type(t)), b.block
            b.store(zero, place)
        taken = b.phi(memory_type(t))
        taken.add_incoming(zero, before)
        taken.add_incoming(found, inside)
        self.values[op.result] = (from_memory(b, t, taken),)

    def deposit(self, op: Op) -> None:
        """Add a number at an address, unless that is 0."""
        b, (address, index, value) = self.builder, (self.scalar(v) for v in op.operands)
        # Address 0 stands for cotangents that nobody wants.
        with b.if_then(b.icmp_unsigned("!=", address, i64(0))):
            start = b.inttoptr(address, ir.PointerType(addrspace=self.memory_space))
            place = b.gep(start, [b.sext(index, I64)], source_etype=value.type)
            b.atomic_rmw("fadd", place, value, "monotonic")

    def array_at(self, op: Op) -> None:
        """Define the array that a descriptor describes."""
        t, (address, *rest) = op.attrs["type"], self.values[op.operands[0]]
        data = self.builder.inttoptr(address, ir.PointerType(addrspace=self.memory_space))
        self.arrays[op.result] = ArrayRef(t, data, tuple(rest[: t.ndim]), tuple(rest[t.ndim :]))

    def barrier(self, op: Op) -> None:
        """Wait for the other threads of the block; a target whose threads are blocks has none."""
        raise CompileError("a barrier has no form on this target", loc=op.loc)

    def buffer_product(self, op: Op) -> None:
        """Call a library's product of matrices; a target with such a library overrides it."""
        raise CompileError("a library's matrix product has no form on this target", loc=op.loc)

    def lane_left(self, op: Op) -> None:
        """Exchange with another thread of the warp; a target whose threads are in warps overrides it."""
        raise CompileError("an exchange between threads has no form on this target", loc=op.loc)

    def of_warp(self, op: Op) -> None:
        """Work with the other threads of the warp; a target whose threads are in warps has it."""
        raise CompileError(f"{op.name} has no form on this target", loc=op.loc)

    def shape(self, op: Op) -> None:
        length = self.arrays[op.operands[0]].shape[op.attrs["axis"]]
        self.values[op.result] = (self.builder.trunc(length, I32),)
        # An extent is 64 bits in the argument block: an index computed from it needs no conversion back.
        self.exact[op.result] = length

    # -- memory ------------------------------------------------------------------------------------------------------

    def element(self, op: Op) -> tuple[ArrayRef, Any]:
        array = self.arrays[Access(op).array]
        indices = [self.index(v) for v in Access(op).index]
        pointer = self.place(array, indices, op.attrs.get("wrap", (False,) * len(indices)))
        aligned = op.attrs.get("aligned")
        return array if aligned is None else dataclasses.replace(array, align=aligned), pointer

    def place(self, array: ArrayRef, indices: Sequence[Any], wrap: Sequence[bool]) -> Any:
        """Return a pointer to an element; indices of axes that `wrap` may be negative."""
        return address(self.builder, array, indices, wrap)

    def aligned(self, op: Op) -> None:
        """Emit a test whether an array begins at a multiple of so many bytes."""
        place = self.builder.ptrtoint(self.arrays[op.operands[0]].data, I64)
        rest = self.builder.and_(place, i64(op.attrs["bytes"] - 1))
        self.values[op.result] = (self.builder.icmp_unsigned("==", rest, i64(0)),)

    def load(self, op: Op) -> None:
        array, pointer = self.element(op)
        self.values[op.result] = tuple(load_element(self.builder, array.type.dtype, pointer, array))

    def store(self, op: Op) -> None:
        array, pointer = self.element(op)
        store_element(
            self.builder, array.type.dtype, pointer, self.values[Access(op).value], array, op.attrs.get("only")
        )

    def atomic(self, op: Op) -> None:
        if self.summed(op, op.attrs["kind"]):
            self.values[op.result] = self.values[Access(op).value]  # never used
            return
        array, pointer = self.element(op)
        parts, kind = self.values[Access(op).value], op.attrs["kind"]
        if kind == "cas":
            s, (expected, value) = scalar_of(array.type.dtype), parts
            self.values[op.result] = (compare_exchange(self.builder, s, pointer, expected, value, self.alone),)
            return
        if kind == "take":
            self.values[op.result] = tuple(take_element(self.builder, array.type.dtype, pointer, parts))
            return
        if kind == "give":
            give_element(self.builder, array.type.dtype, pointer, parts)
            self.values[op.result] = tuple(parts[: len(parts) // 4])  # never used
            return
        # The other components of an augmented assignment are neutral: adding zero to them could race with plain stores.
        if op.attrs.get("augmented") and len(parts) > 1:
            self.update_parts(op, scalar_of(array.type.dtype), pointer, parts)
            self.values[op.result] = tuple(parts)  # never used
            return
        self.values[op.result] = tuple(self.update(op, array.type.dtype, pointer, kind, parts))

    def update_parts(self, op: Op, s: Scalar, pointer: Any, parts: Sequence[Any]) -> None:
        """Update those components of an element that an augmented assignment changes."""
        for k, part in enumerate(parts):
            if not is_neutral(op.attrs["kind"], part):
                self.update(op, s, component(self.builder, s, pointer, k), op.attrs["kind"], [part])

    def accumulate(self, op: Op) -> None:
        if self.summed(op, "add"):
            return
        array, pointer = self.element(op)
        parts = self.values[Access(op).value]
        if op.attrs["mode"] == "plain":
            add_element(self.builder, array, pointer, parts, self.scalars.flags)
        else:
            self.update(op, array.type.dtype, pointer, "add", parts)

    def update(self, op: Op, t: Element, pointer: Any, kind: str, parts: Sequence[Any]) -> list[Any]:
        """Update an element, atomically unless the launch is alone; return the old components."""
        return update_element(self.builder, t, pointer, kind, parts, self.alone)

    def summed(self, op: Op, kind: str) -> bool:
        """Update the accumulators of the chunk, if the op has some; return whether it has."""
        accumulators = self.sums.get(id(op))
        if accumulators is None:
            return False
        b = self.builder
        for slot, part in zip(accumulators, self.values[Access(op).value], strict=True):
            old = b.load(slot, typ=part.type)
            if kind in NAN_EXTREMA:
                new = combination(scalar_of(Access(op).array.type), kind)(b, old, part)
            elif isinstance(part.type, ir.IntType):
                new = b.add(old, part) if kind == "add" else b.sub(old, part)
            else:
                # The order of the partial sums is unspecified, so LLVM may keep one per SIMD lane.
                combine = b.fadd if kind == "add" else b.fsub
                new = combine(old, part, flags=("reassoc", *self.scalars.flags))
            b.store(new, slot)
        return True

    # -- reports -----------------------------------------------------------------------------------------------------

    def print_text(self, op: Op) -> None:
        if self.output is None:
            raise CompileError("nothing can be printed here", loc=op.loc, remedy="print in a kernel")
        self.output.write(op, [self.scalar(v) for v in op.operands])

    def assertion(self, op: Op) -> None:
        if self.checks is not None:
            self.checks.assertion(op, self.scalar(op.operands[0]))

    # -- buffers -----------------------------------------------------------------------------------------------------

    def buffer_new(self, op: Op) -> None:
        """Emit nothing: buffers exist before the first thread."""

    def buffer_get(self, op: Op) -> None:
        assert self.scratch is not None
        self.values[op.result] = tuple(self.scratch.get(op.operands[0], self.index(op.operands[1])))

    def buffer_set(self, op: Op) -> None:
        assert self.scratch is not None
        buffer, index, value = op.operands
        self.scratch.put(buffer, self.index(index), self.values[value])

    def buffer_matmul(self, op: Op) -> None:
        shape = ProductShape(**{k: op.attrs[k] for k in ("m", "n", "k", "trans_a", "add")})
        module, dtype = self.scalars.module, scalar_of(op.operands[0].type)
        # One function per shape, shared by all products of that shape in the module.
        function = matmul_function(module, dtype, shape, self.scalars.flags, self.vector_bytes)
        assert self.scratch is not None
        call = self.builder.call(function, [self.scratch.pointers[v] for v in op.operands])
        self.scratch.tag(call, *op.operands)

    # -- loop stacks ---------------------------------------------------------------------------------------------------

    def stack_new(self, op: Op) -> None:
        t = op.attrs["type"]
        self.stack_refs[op.result] = StackRef(t, self.stacks[t.level])

    def stack_get(self, op: Op) -> None:
        stack, k = self.stack_refs[StackSlot(op).stack], op.attrs["field"]
        pointer = stack.pointer(self.builder, k, self.scalar(StackSlot(op).slot))
        self.values[op.result] = tuple(load_element(self.builder, stack.type.fields[k], pointer))

    def stack_set(self, op: Op) -> None:
        stack, slot = self.stack_refs[StackSlot(op).stack], self.scalar(StackSlot(op).slot)
        for k, v in enumerate(StackSlot(op).values):
            pointer = stack.pointer(self.builder, k, slot)
            store_element(self.builder, v.type, pointer, self.values[v])  # type: ignore[arg-type]

    # -- control flow ------------------------------------------------------------------------------------------------

    def branch(self, op: Op) -> None:
        b = self.builder
        # Both arms are blocks of their own, even if empty: LLVM turns cheap ones into selections.
        then, orelse, done = (b.append_basic_block(n) for n in ("then", "else", "endif"))
        away = b.cbranch(self.scalar(If(op).condition), then, orelse)
        if op.attrs.get("rarely"):
            away.set_weights(RARELY)
        arms = []
        for block, region in zip((then, orelse), op.regions, strict=True):
            b.position_at_end(block)
            values = self.merged(op.results, self.way(op, region))
            arms.append((values, b.block))
            b.branch(done)
        b.position_at_end(done)
        phis = self.phis_for(op.results)
        for values, block in arms:
            self.connect(phis, values, block)
        self.define(op.results, phis)

    def way(self, op: Op, region: Region) -> list[tuple[Any, ...]]:
        """Emit a region of a branch. LLVM unrolls no loop where hardly any thread goes."""
        # A rarely taken arm is not worth the code that unrolling makes.
        rolled = self.rolled
        self.rolled = rolled or (bool(op.attrs.get("rarely")) and region is If(op).then)
        values = self.region(region)
        self.rolled = rolled
        return values

    def loop_while(self, op: Op) -> None:
        b, loop = self.builder, While(op)
        init = self.merged(op.results, [self.values[v] for v in loop.init])
        before = b.block
        head, body, done = (b.append_basic_block(n) for n in ("while", "do", "endwhile"))
        b.branch(head)
        b.position_at_end(head)
        phis = self.phis_for(op.results)
        self.connect(phis, init, before)
        self.define(loop.tested, phis)
        ((go,),) = self.region(loop.test)
        if self.checks is not None:
            go = b.and_(go, self.checks.none_found())  # a skipped access may be what the loop waits for
        b.cbranch(go, body, done)
        b.position_at_end(body)
        self.define(loop.carried, phis)
        values = self.merged(op.results, self.region(loop.body))
        self.connect(phis, values, b.block)
        rolled_if_long(b.module, head, b.branch(head))
        b.position_at_end(done)
        self.define(op.results, phis)

    def trip(self, op: Op, go: Any, body: Any, done: Any) -> None:
        """Branch to the body of a loop if there is another trip."""
        branch = self.builder.cbranch(go, body, done)
        if op.attrs.get("once"):
            branch.set_weights(ONCE)

    def goes_on(self, count: Any, trips: Any) -> Any:
        """Return whether a counted loop makes another trip."""
        return self.builder.icmp_unsigned("<", count, trips)

    def loop_for(self, op: Op) -> None:
        b = self.builder
        loop = For(op)
        t = loop.start.type
        assert isinstance(t, Scalar)
        lo, hi, step = map(self.scalar, loop.bounds)
        # Loops that count ahead are emitted by the lowering with bounds that cannot overflow, so no trip count is
        # needed.
        ahead = bool(op.attrs.get("ahead"))  # the step is positive, and no index and step add up beyond the type
        trips = None if ahead else trip_count(b, t, lo, hi, step)
        if self.checks is not None and not ahead:
            self.checks.step(op, step)
        init = self.merged(op.results, [self.values[v] for v in loop.init])
        before = b.block
        head, body, done = (b.append_basic_block(n) for n in ("for", "body", "endfor"))
        b.branch(head)
        b.position_at_end(head)
        # Trips are counted apart from the index: the index may wrap at the last step, a 64-bit count does not.
        count, i = b.phi(I64), b.phi(value_type(t))
        phis = self.phis_for(op.results)
        self.connect([[count], [i], *phis], [(i64(0),), (lo,), *init], before)
        go = b.icmp_signed("<", i, hi) if ahead else self.goes_on(count, trips)
        self.trip(op, go, body, done)
        b.position_at_end(body)
        self.define((loop.index, *loop.carried), [[i], *phis])
        if op.attrs.get("threads") and self.record is not None:
            # The threads of a block run in this loop, so a report from inside it has to name the right one.
            self.record.thread = b.add(
                b.mul(self.launch["block"], b.sext(self.launch["block_dim"], I64)), b.sext(i, I64)
            )
        values = self.merged(op.results, self.region(loop.body))
        # Only the value after the last trip can leave the range of the type, and nothing uses that one.
        following = b.add(i, step, flags=("nsw",) if t.kind is Kind.INT else ())
        counted = b.add(count, i64(1), flags=("nuw",))
        self.connect([[count], [i], *phis], [(counted,), (following,), *values], b.block)
        back = b.branch(head)
        if b.module.isa.longest_unrolled is not None and moves_components(loop.body):
            left_alone(b.module, back)
        elif self.rolled or op.attrs.get("rolled"):
            not_unrolled(b.module, back)
        else:
            rolled_if_long(b.module, head, back, trips)
        b.position_at_end(done)
        self.define(op.results, phis)


_EMITTERS: Mapping[str, str] = {
    "construct": "construct",
    "extract": "extract",
    "tid": "thread_index",
    **dict.fromkeys(BLOCK_NUMBERS, "block_index"),
    "extent": "extent",
    "constant_array": "constant_array",
    "array_at": "array_at",
    "peek": "peek",
    "fetch": "fetch",
    "look": "look",
    "poke": "poke",
    "deposit": "deposit",
    "withdraw": "withdraw",
    "shared_new": "shared_new",
    "barrier": "barrier",
    "output": "print_text",
    "assertion": "assertion",
    "lane_left": "lane_left",
    "aligned": "aligned",
    **dict.fromkeys((row.name for row in warps.ROWS), "of_warp"),
    "shape": "shape",
    "load": "load",
    "store": "store",
    "atomic": "atomic",
    "accumulate": "accumulate",
    "buffer_new": "buffer_new",
    "buffer_get": "buffer_get",
    "buffer_set": "buffer_set",
    "buffer_matmul": "buffer_matmul",
    "buffer_product": "buffer_product",
    "stack_new": "stack_new",
    "stack_get": "stack_get",
    "stack_set": "stack_set",
    "if": "branch",
    "for": "loop_for",
    "while": "loop_while",
}
RARELY = [1, 2000]
"""Branch weights of a condition that hardly ever holds."""
ONCE = [1001, 1000]
"""Branch weights of a loop that hardly ever makes more than one trip."""

__all__ = ["I1", "RARELY", "BodyEmitter", "StackRef"]
