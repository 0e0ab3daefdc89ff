"""The body of a thread in several LLVM functions: each part of a long kernel is one of its own.

The function that runs the threads gets calls, and each part (:mod:`~diffkern.targets.cpu.outline_plan`) becomes a
function ``void part(slots, block, memory...)``, which LLVM does not inline. Arrays and parameters are read from the
argument block again. Other operands and results of a part are kept in *slots*, 8 bytes a scalar, which belong to the
running thread; a value is stored once, however many parts take it. Memory of the thread (stacks, sums, arrays, buffers)
is passed by pointers that overlap nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

from llvmlite import ir

from diffkern.contracts import abi
from diffkern.ir.nodes import Op, Region, Value, walk
from diffkern.ir.ops.memory import NEW_STACKS
from diffkern.ir.types import Buffer, Stack
from diffkern.process.dataclass import dataclass
from diffkern.targets.cpu.outline_plan import OpRun, Outline, taken
from diffkern.targets.emit.checks import Record
from diffkern.targets.emit.frame import Frame, untyped
from diffkern.targets.emit.function import BodyEmitter, StackRef
from diffkern.targets.emit.kernel import without_estimates
from diffkern.targets.emit.scalars import ScalarEmitter
from diffkern.targets.emit.types import I64, PTR, VOID, Builder, i64

__all__ = ["OutlinedBody", "Slots"]

_Key = tuple[str, object]
"""The subject of a slot: a value, its exact form, a component of the thread's index, an index of the block."""


class Slots:
    """The slots in which parts of a thread exchange values; their number grows while code is emitted."""

    def __init__(self, builder: Builder) -> None:
        # The array type grows as slots are assigned; the allocation itself is at the function's entry.
        self.memory = untyped(builder.alloca(ir.ArrayType(I64, 0)))
        self.first: dict[_Key, int] = {}
        self.count = 0

    def at(self, b: Builder, memory: Any, key: _Key, parts: Sequence[Any]) -> list[Any]:
        """Return pointers to the slots of a value with several parts, in the slots' memory as a function knows it."""
        if key not in self.first:
            self.first[key] = self.count
            self.count += len(parts)
            self.memory.allocated_type = ir.ArrayType(I64, self.count)
        # The slots of a value are the same for all parts, so it is stored once.
        start = self.first[key]
        return [b.gep(memory, [i64(start + k)], inbounds=True, source_etype=I64) for k in range(len(parts))]


@dataclass(slots=True)
class OutlinedBody(BodyEmitter):
    """Emits the ops of one thread, parts of it as functions.

    Attributes
    ----------
    frame
        The function that is being emitted.
    pieces
        The pieces of divided regions.
    slots, memory
        The slots of values, and the pointer to them.
    kept
        The values that are in their slots wherever the code is emitted next.
    away
        Values that only other parts use, with the emitter of the part that makes them.
    functions
        The functions of all parts.
    """

    frame: Frame = field(kw_only=True)
    pieces: Outline = field(kw_only=True)
    slots: Slots = field(kw_only=True)
    memory: Any = field(kw_only=True)
    kept: dict[_Key, None] = field(default_factory=dict, kw_only=True)
    away: dict[Value, OutlinedBody] = field(default_factory=dict, kw_only=True)
    functions: list[Any] = field(default_factory=list, kw_only=True)

    def region(self, region: Region) -> list[tuple[Any, ...]]:
        before = len(self.kept)
        self.emit(self.pieces.get(region, region.ops))
        while len(self.kept) > before:
            self.kept.popitem()  # the last one: it has been stored inside of the region, which may not be executed
        return [self.values[v] for v in region.yields]

    def emit(self, pieces: Iterable[Op | OpRun]) -> None:
        """Emit the pieces of a region."""
        for piece in pieces:
            if isinstance(piece, OpRun):
                self.part(piece)
            elif piece not in self.moved:
                self.op(piece)

    def part(self, part: OpRun) -> None:
        """Emit a part as a function, and its call."""
        wanted = taken(part.ops, self.moved)
        self.keep_all(wanted)
        owned = self.owned(part, wanted)
        function = ir.Function(
            self.frame.module,
            ir.FunctionType(VOID, [PTR, I64, *[PTR] * len(owned)]),
            f"{self.functions[0].name}_part{len(self.functions)}",
        )
        self.functions.append(function)
        function.linkage = "internal"
        # Inlining would undo the division, and with it the bound on compile time.
        function.attributes.add("noinline")
        function.attributes.add("nounwind")
        without_estimates(function, self.frame.scalars.flags)
        for k, argument in enumerate(function.args):
            # The argument block is an integer; all other arguments are pointers to distinct memory.
            if k != 1:
                argument.add_attribute("noalias")
        inner = self.inside(function, wanted, dict(zip(owned, function.args[2:], strict=True)))
        inner.emit(part.ops)
        for v in part.results:
            inner.keep_value(v)
        inner.builder.ret_void()
        b = self.builder
        b.call(function, [self.memory, b.ptrtoint(self.frame.block, I64), *owned.values()])
        for v in part.results:
            # The part has stored its results itself; here they are loaded only if the region uses them.
            self.kept.update({("value", v): None, ("exact", v): None})
            self.away[v] = inner
            if v in part.shown:
                self.take(v)

    # -- what is kept ------------------------------------------------------------------------------------------------

    def keep_all(self, wanted: Iterable[Value]) -> None:
        """Store the operands of a part that have not been stored yet."""
        # The thread's index is stored once per thread; later parts find it in its slots.
        for axis, component in enumerate(self.tid):
            self.keep(("tid", axis), (component,))
        for name, index in self.launch.items():
            self.keep(("launch", name), (index,))
        if self.alone is not None:
            self.keep(("alone", None), (self.alone,))
        if self.record is not None:
            self.keep(("thread", None), (self.record.thread,))
        for v in wanted:
            if v not in self.frame.fn.params:
                self.keep_value(v)

    def keep_value(self, v: Value) -> None:
        """Store a value and its exact form, if it is a value that has them."""
        if v in self.values:
            self.keep(("value", v), self.values[v])
        if v in self.exact:
            self.keep(("exact", v), (self.exact[v],))

    def keep(self, key: _Key, parts: Sequence[Any]) -> None:
        """Store parts in their slots; literals need none."""
        if key in self.kept:
            return
        self.kept[key] = None
        for part, slot in zip(parts, self.slots.at(self.builder, self.memory, key, parts), strict=True):
            if not isinstance(part, ir.Constant):
                self.builder.store(part, slot)

    def load_kept(self, key: _Key, parts: Sequence[Any]) -> tuple[Any, ...]:
        """Load the values that another function holds as ``parts``."""
        b = self.builder
        slots = self.slots.at(b, self.memory, key, parts)
        return tuple(
            p if isinstance(p, ir.Constant) else b.load(s, typ=p.type) for p, s in zip(parts, slots, strict=True)
        )

    def take(self, v: Value, other: OutlinedBody | None = None) -> None:
        """Make a value known here that another function holds, or the part that makes it."""
        other = self.away.get(v, other)
        assert other is not None
        if v in other.values:
            self.values[v] = self.load_kept(("value", v), other.values[v])
            self.kept[("value", v)] = None
        if v in other.exact:
            (self.exact[v],) = self.load_kept(("exact", v), (other.exact[v],))
            self.kept[("exact", v)] = None
        if v in other.stack_refs:
            stack = other.stack_refs[v].type
            self.stack_refs[v] = StackRef(stack, self.stacks[stack.level])
        if v in other.arrays and v not in self.arrays:
            self.arrays[v] = other.arrays[v]

    # -- functions ---------------------------------------------------------------------------------------------------

    def owned(self, part: OpRun, wanted: Iterable[Value]) -> dict[_Key, Any]:
        """Return pointers to the memory of the thread that a part works on."""
        out: dict[_Key, Any] = {}
        for op in walk(Region(ops=list(part.ops))):
            if op.name in NEW_STACKS:
                level = op.attrs["type"].level
                out["stack", level] = self.stacks[level]
            for k, slot in enumerate(self.sums.get(id(op), ())):
                out["sum", (id(op), k)] = untyped(slot)
            for v in op.operands:
                if isinstance(v.type, Buffer) and self.scratch is not None:
                    out["buffer", v] = self.scratch.pointers[v]
        for v in wanted:
            if isinstance(v.type, Stack):
                out["stack", v.type.level] = self.stacks[v.type.level]
            elif v in self.arrays and self.is_own(v):
                out["array", v] = self.arrays[v].data
        return out

    def is_own(self, v: Value) -> bool:
        """Return whether an array is memory of the thread: no parameter, and no memory of the program."""
        return v not in self.frame.fn.params and not isinstance(self.arrays[v].data, ir.GlobalVariable)

    def inside(self, function: Any, wanted: Iterable[Value], owned: dict[_Key, Any]) -> OutlinedBody:
        """Return an emitter for the code of a part, at its entry."""
        b = ir.IRBuilder(function.append_basic_block("entry"))
        module, flags = self.frame.module, self.scalars.flags
        block = b.inttoptr(function.args[1], PTR)
        scalars = ScalarEmitter(b, module, flags)
        frame = Frame(module, self.frame.fn, self.facts, b, block, scalars, used=set(wanted))
        arrays = {v: a for v, a in self.arrays.items() if isinstance(a.data, ir.GlobalVariable)}
        # Facts about an array stay those of the outer function, but its data and extents are read here.
        for v, read in frame.arrays.items():
            arrays[v] = dataclasses.replace(self.arrays[v], data=read.data, shape=read.shape, strides=read.strides)
        for (kind, own), data in owned.items():
            if kind == "array" and isinstance(own, Value):
                arrays[own] = dataclasses.replace(self.arrays[own], data=data)
        body = OutlinedBody(
            b, scalars, self.facts, arrays, dict(frame.values), frame=frame, pieces=self.pieces,
            slots=self.slots, memory=function.args[0], functions=self.functions, moved=self.moved,
            extent_along=frame.extent, vector_bytes=self.vector_bytes, away=dict(self.away),
        )  # fmt: skip
        body.stacks = {k: p for (kind, k), p in owned.items() if kind == "stack" and isinstance(k, int)}
        for op in (*self.facts.reduced, *self.facts.extremes):
            if ("sum", (id(op), 0)) in owned:
                body.sums[id(op)] = [owned["sum", (id(op), k)] for k in range(len(self.sums[id(op)]))]
        if self.scratch is not None:
            buffers = {v: p for (kind, v), p in owned.items() if kind == "buffer" and isinstance(v, Value)}
            body.scratch = self.scratch.seen_from(b, buffers)
        body.tid = tuple(body.load_kept(("tid", k), (c,))[0] for k, c in enumerate(self.tid))
        body.launch = {name: body.load_kept(("launch", name), (x,))[0] for name, x in self.launch.items()}
        if self.alone is not None:
            (body.alone,) = body.load_kept(("alone", None), (self.alone,))
        if self.record is not None and self.output is not None:
            (thread,) = body.load_kept(("thread", None), (self.record.thread,))
            body.record = Record(b.inttoptr(frame.header(abi.STATUS), PTR), thread)
            body.output = self.output.within(b, body.record)
        for v in wanted:
            if v not in self.frame.fn.params:
                body.take(v, self)
        body.kept.update(self.kept)
        return body
