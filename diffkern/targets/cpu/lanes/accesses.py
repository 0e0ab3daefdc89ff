"""Memory accesses of lanes: to arrays, contiguous or scattered, and to each lane's own memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from llvmlite import ir

from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.ops.memory import ELEMENT_LOADS, NAN_EXTREMA, UPDATES
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import BOOL, Element, Scalar, Stack, Tile, scalar_of
from diffkern.ir.views import Access, StackSlot
from diffkern.process.dataclass import dataclass
from diffkern.targets.cpu.lanes import memory
from diffkern.targets.cpu.lanes.builder import is_wide, zeros
from diffkern.targets.cpu.lanes.memory import LanePlaces
from diffkern.targets.cpu.lanes.notes import How
from diffkern.targets.cpu.lanes.sums import add_up
from diffkern.targets.cpu.lanes.values import LaneValues
from diffkern.targets.emit.facts import stack_size
from diffkern.targets.emit.frame import neutral, summed_type
from diffkern.targets.emit.function import BodyEmitter, StackRef
from diffkern.targets.emit.memory import (
    ArrayRef,
    address,
    combination,
    compare_exchange,
    component,
    element_size,
    is_neutral,
    load_element,
    plus,
    store_element,
    tag,
    update_element,
    wrap_index,
)
from diffkern.targets.emit.types import I8, I64, PTR, from_memory, i64, memory_type, to_memory, value_type

__all__ = ["LaneAccesses"]


@dataclass(slots=True)
class _SharedUpdate:
    """An addition of all lanes to one number in memory."""

    array: ArrayRef
    component: int
    to: Any
    kind: str
    value: Any


@dataclass(slots=True)
class LaneAccesses(LaneValues):
    """Emits loads, stores and updates of neighbouring threads.

    Attributes
    ----------
    waiting
        Updates by all lanes that are made together at the next op that could see whether they have been made: several
        vectors take hardly more instructions to add up than one.
    """

    waiting: list[_SharedUpdate] = field(default_factory=list)

    def region(self, region: Region) -> list[tuple[Any, ...]]:
        found = LaneValues.region(self, region)
        self.make_updates()
        return found

    def op(self, op: Op) -> None:
        if self.waiting and op.name not in UPDATES and (op.regions or lookup(op.name).effect is not Effect.PURE):
            self.make_updates()
        LaneValues.op(self, op)

    def places(self, op: Op) -> tuple[ArrayRef, LanePlaces]:
        """Return the places of the elements of an access."""
        array = self.arrays[Access(op).array]
        index = Access(op).index
        wrap = op.attrs.get("wrap", (False,) * len(index))

        # Facts about the array hold for each of its instructions, whatever their width.
        def tagged(instruction: Any) -> Any:
            return tag(array, instruction, 0)

        forms = [f for f in map(self.form, index) if f is not None]
        strides = [s for _, s in forms]
        # An index that may count from the end is not affine across lanes: some may wrap and others not.
        if len(forms) < len(index) or not any(strides) or any(s and w for s, w in zip(strides, wrap, strict=True)):
            return array, LanePlaces(self.every(array, index, wrap), False, tagged)
        # The first lane may be off, and its element then outside the array.
        first = address(self.b.plain, array, [f for f, _ in forms], wrap, inbounds=self.mask is self.present)
        # The last index grows by one per lane and the array is contiguous: a vector load or store.
        if array.type.layout != "A" and strides[-1] == 1 and not any(strides[:-1]):
            return array, LanePlaces(first, True, tagged)
        return array, LanePlaces(first, False, tagged, self.step(array, strides))

    def step(self, array: ArrayRef, strides: Sequence[int]) -> Any:
        """Return the bytes from each lane's element to the next one's; `strides` are those of its indices."""
        b, exact = self.b.plain, ("nsw",)
        if array.type.layout == "A":
            lengths: Sequence[Any] = array.strides
        else:
            lengths = [i64(array.type.dtype.itemsize)]
            for n in reversed(array.shape[1:]):
                lengths = [b.mul(lengths[0], n, flags=exact), *lengths]
        terms = [n if s == 1 else b.mul(i64(s), n, flags=exact) for s, n in zip(strides, lengths, strict=True) if s]
        return functools.reduce(lambda x, y: b.add(x, y, flags=exact), terms)

    def every(self, array: ArrayRef, index: Sequence[Value], wrap: Sequence[bool]) -> Any:
        """Return the address of each lane's element, or one for all."""
        b, exact = self.builder, ("nsw",)
        given = [self.index(v) for v in index]
        given = [wrap_index(b, i, n) if w else i for i, n, w in zip(given, array.shape, wrap, strict=True)]
        if array.type.layout == "A":
            offset: Any = i64(0)
            for i, stride in zip(given, array.strides, strict=True):
                offset = b.add(offset, b.mul(i, stride, flags=exact), flags=exact)
        else:
            offset = given[0] if given else i64(0)
            for i, n in zip(given[1:], array.shape[1:], strict=True):
                offset = b.add(b.mul(offset, n, flags=exact), i, flags=exact)
            offset = b.mul(offset, i64(array.type.dtype.itemsize), flags=exact)
        # Uniform indices: one address for all lanes.
        if not is_wide(offset):
            return b.gep(array.data, [offset], inbounds=True, source_etype=I8)
        return b.inttoptr(b.add(b.ptrtoint(array.data, I64), offset), PTR)

    def load(self, op: Op) -> None:
        array, places = self.places(op)
        self.note(op, places, How.GATHERED)
        # All lanes load the same element: a scalar load.
        if places.is_shared:
            BodyEmitter.load(self, op)
            return
        self.values[op.result] = tuple(memory.load(self.b, array.type.dtype, places, self.mask))

    def note(self, op: Op, places: LanePlaces, apart: How) -> None:
        """Note the form of a load or a store for reports."""
        if places.is_shared and op.name in ELEMENT_LOADS:
            self.notes.add(How.SHARED, op)
            return
        whole = places.is_run and element_size(self.arrays[Access(op).array].type.dtype) <= memory.MOST_SHUFFLED
        self.notes.add(How.RUN if whole else apart, op)

    def store(self, op: Op) -> None:
        array, places = self.places(op)
        values = self.values[Access(op).value]
        self.note(op, places, How.SCATTERED)
        if places.is_shared and not any(map(is_wide, values)):
            BodyEmitter.store(self, op)
            return
        memory.store(self.b, array.type.dtype, places, values, self.mask, op.attrs.get("only"))

    def accumulate(self, op: Op) -> None:
        # Sums into uniform addresses are kept in accumulators per lane and added up at the end of the chunk.
        if self.summed(op, "add"):
            return
        array, places = self.places(op)
        plain = op.attrs["mode"] == "plain"
        # Plain accumulation means that no other lane has this element: read, add and write as vectors.
        if plain and places.is_run:
            self.make_updates()
            self.notes.add(How.RUN, op)
            values = self.values[Access(op).value]
            old = memory.load(self.b, array.type.dtype, places, self.mask)
            new = [plus(self.builder, o, v, self.scalars.flags) for o, v in zip(old, values, strict=True)]
            memory.store(self.b, array.type.dtype, places, new, self.mask)
            return
        self.one_by_one(op, array, places, "plain" if plain else "add")

    def atomic(self, op: Op) -> None:
        if self.summed(op, op.attrs["kind"]):
            self.values[op.result] = self.values[Access(op).value]  # never used
            return
        array, places = self.places(op)
        if op.result in self.used or op.attrs["kind"] == "cas":  # which has two values for one element
            self.values[op.result] = self.exchanged(op, array, places)
            return
        self.one_by_one(op, array, places, op.attrs["kind"])
        self.values[op.result] = self.values[Access(op).value]  # never used

    def exchanged(self, op: Op, array: ArrayRef, places: LanePlaces) -> tuple[Any, ...]:
        """Update the elements of the lanes in their order; return the old values."""
        self.make_updates()
        self.notes.add(How.BY_LANE, op)
        b, plain, s, kind = self.b, self.b.plain, scalar_of(array.type.dtype), op.attrs["kind"]
        count = element_size(array.type.dtype)
        rows = memory.spilled(b, self.builder.ptrtoint(memory.every(b, s, count, places), I64))
        given = [memory.spilled(b, to_memory(b, s, v)) for v in self.values[Access(op).value]]
        held, t = value_type(s), memory_type(s)
        old = [memory.spilled(b, to_memory(b, s, zeros(b.wide_type(held)))) for _ in range(count)]

        # Rows in memory rather than extracted elements, as the lane's number is a run-time index.
        def update(lane: Any) -> None:
            def of(row: Any) -> Any:
                return plain.gep(row, [lane], inbounds=True, source_etype=t)

            place = plain.load(plain.gep(rows, [lane], inbounds=True, source_etype=I64), typ=I64)
            pointer, parts = (
                plain.inttoptr(place, PTR),
                [from_memory(plain, s, plain.load(of(r), typ=t)) for r in given],
            )
            if kind == "cas":
                before = [compare_exchange(plain, s, pointer, parts[0], parts[1], self.alone)]
            else:
                before = update_element(plain, array.type.dtype, pointer, kind, parts, self.alone)
            for row, value in zip(old, before, strict=True):
                plain.store(to_memory(plain, s, value), of(row))

        memory.each_lane(b, self.mask, update)
        return tuple(from_memory(b, s, plain.load(row, typ=b.wide_type(t))) for row in old)

    def one_by_one(self, op: Op, array: ArrayRef, places: LanePlaces, kind: str) -> None:
        """Update the elements of the lanes in their order; additions to one shared element are summed before."""
        # All lanes add to one element: one update of their sum.
        if places.is_shared and kind in ("plain", "add", "sub") and scalar_of(array.type.dtype) != BOOL:
            self.at_once(op, array, places.pointer, kind)
            return
        self.make_updates()
        self.notes.add(How.BY_LANE, op)
        b, plain, s = self.b, self.b.plain, scalar_of(array.type.dtype)
        pointers = memory.every(b, s, element_size(array.type.dtype), places)
        rows = memory.spilled(b, self.builder.ptrtoint(pointers, I64))
        given = self.values[Access(op).value]
        # Augmented assignments of vectors change some components only; adding zero to the others would be a race.
        changed = [k for k, v in enumerate(given) if not (op.attrs.get("augmented") and is_neutral(kind, v))]
        parts = {k: (memory.spilled(b, given[k]), b.spread(given[k]).type.element) for k in changed}

        def update(lane: Any) -> None:
            place = plain.load(plain.gep(rows, [lane], inbounds=True, source_etype=I64), typ=I64)
            pointer = plain.inttoptr(place, PTR)
            for k, (row, t) in parts.items():
                value = plain.load(plain.gep(row, [lane], inbounds=True, source_etype=t), typ=t)
                to = component(plain, s, pointer, k)
                if kind == "plain":
                    old = from_memory(plain, s, tag(array, plain.load(to, typ=memory_type(s)), k))
                    new = plus(plain, old, value, self.scalars.flags)
                    tag(array, plain.store(to_memory(plain, s, new), to), k)
                else:
                    update_element(plain, s, to, kind, [value], self.alone)

        # Without divergence the active lanes are the first ones, so their count replaces the mask.
        if self.left is not None and self.mask is self.present:
            memory.each_of_first(b, self.left, update, rolled=self.rolled)
        else:
            memory.each_lane(b, self.mask, update)

    def at_once(self, op: Op, array: ArrayRef, pointer: Any, kind: str) -> None:
        """Add the contributions of all lanes to one element."""
        self.notes.add(How.SUMMED, op)
        s = scalar_of(array.type.dtype)
        for k, v in enumerate(self.values[Access(op).value]):
            if not (op.attrs.get("augmented") and is_neutral(kind, v)):
                to = component(self.b.plain, s, pointer, k)
                self.waiting.append(_SharedUpdate(array, k, to, kind, self.where_on(self.b.spread(v))))

    def make_updates(self) -> None:
        """Make the updates that wait: sums over the lanes, as many together as there are of a type, then additions."""
        waiting, self.waiting = self.waiting, []
        plain, flags = self.b.plain, self.scalars.flags
        totals: dict[int, Any] = {}
        for t in dict.fromkeys(str(update.value.type) for update in waiting):
            alike = [n for n, update in enumerate(waiting) if str(update.value.type) == t]
            totals.update(zip(alike, add_up(self.b, [waiting[n].value for n in alike], flags), strict=True))
        for n, update in enumerate(waiting):
            s, k = scalar_of(update.array.type.dtype), update.component
            if update.kind == "plain":
                old = from_memory(plain, s, tag(update.array, plain.load(update.to, typ=memory_type(s)), k))
                tag(update.array, plain.store(to_memory(plain, s, plus(plain, old, totals[n], flags)), update.to), k)
            else:
                update_element(plain, s, update.to, update.kind, [totals[n]], self.alone)

    def summed(self, op: Op, kind: str) -> bool:
        accumulators = self.totals.get(id(op))
        if accumulators is None:
            return False
        self.notes.add(How.SUMMED, op)
        b = self.b
        for slot, part in zip(accumulators, self.values[Access(op).value], strict=True):
            wide = b.spread(part)
            t = wide.type.element
            if self.mask is not None:
                # Lanes that are off leave their own accumulator as it is.
                wide = b.select(self.mask, wide, neutral(op))
            old = b.plain.load(slot, typ=wide.type)
            if kind in NAN_EXTREMA:
                b.plain.store(combination(summed_type(op), kind)(b, old, wide), slot)
                continue
            whole = isinstance(t, ir.IntType)
            name = ("" if whole else "f") + ("add" if kind == "add" else "sub")
            flags = {} if whole else {"flags": ("reassoc", *self.scalars.flags)}
            b.plain.store(getattr(b, name)(old, wide, **flags), slot)
        return True

    # -- loop stacks -------------------------------------------------------------------------------------------------

    def stack_places(self, stack: StackRef, k: int, slot: Any) -> LanePlaces:
        """Return the places of a field of a slot."""
        t = stack.type.fields[k]
        assert not isinstance(t, Tile)
        # The layout of one thread's stack, with every scalar widened to one per lane.
        before = stack_size(Stack(stack.type.fields[:k], stack.type.slots))
        start = self.b.plain.gep(stack.base, [i64(before * self.b.lanes)], inbounds=True, source_etype=I8)
        return self.own_places(start, t, self.builder.sext(slot, I64))

    def own_places(self, start: Any, t: Element, index: Any) -> LanePlaces:
        """Return the places of an element of the lanes' own memory: per component, the lanes one after the other."""
        b = self.builder
        # Component by component, so that a component of all lanes is contiguous.
        offset = b.mul(index, i64(t.itemsize * self.b.lanes), flags=("nsw",))
        if not is_wide(offset):
            return LanePlaces(b.gep(start, [offset], inbounds=True, source_etype=I8), True)
        lanes = self.b.steps(I64, scalar_of(t).itemsize)
        return LanePlaces(b.inttoptr(b.add(b.add(b.ptrtoint(start, I64), offset), lanes), PTR), False)

    def own_load(self, t: Element, places: LanePlaces) -> tuple[Any, ...]:
        s = scalar_of(t)
        count = element_size(t)
        # Integers of lanes without a thread must be some number, not undefined: they may be divisors.
        mask = self.own_mask(places) if s.is_float else self.mask
        return tuple(memory.load(self.b, s, self.component(s, places, n), mask)[0] for n in range(count))

    def own_store(self, t: Element, places: LanePlaces, values: Sequence[Any]) -> None:
        s = scalar_of(t)
        for n, part in enumerate(values):
            memory.store(self.b, s, self.component(s, places, n), [part], self.own_mask(places))

    def own_mask(self, places: LanePlaces) -> Any:
        """Return the lanes that may access their own memory: at their own row, those without a thread as well."""
        return None if places.is_run and self.mask is self.present else self.mask

    def buffer_get(self, op: Op) -> None:
        buffer, index = op.operands
        t = buffer.type.dtype  # type: ignore[union-attr]  # a Buffer
        self.values[op.result] = self.own_load(t, self.own_places(self.buffers[buffer], t, self.index(index)))

    def buffer_set(self, op: Op) -> None:
        buffer, index, value = op.operands
        t = buffer.type.dtype  # type: ignore[union-attr]  # a Buffer
        self.own_store(t, self.own_places(self.buffers[buffer], t, self.index(index)), self.values[value])

    def stack_get(self, op: Op) -> None:
        stack, k, slot = self.stack_refs[StackSlot(op).stack], op.attrs["field"], self.scalar(StackSlot(op).slot)
        t = stack.type.fields[k]
        assert not isinstance(t, Tile)
        # A field that is the same for all lanes is stored once.
        if (StackSlot(op).stack, k) in self.common:
            self.values[op.result] = tuple(load_element(self.b.plain, t, self.stack_places(stack, k, slot).pointer))
            return

        def read(at: Any) -> tuple[Any, ...]:
            return self.own_load(t, self.stack_places(stack, k, at))

        self.values[op.result] = self.at_slot(slot, read, lambda: self.load_each(stack, k, slot))

    def stack_set(self, op: Op) -> None:
        stack, slot = self.stack_refs[StackSlot(op).stack], self.scalar(StackSlot(op).slot)

        def write(at: Any) -> tuple[Any, ...]:
            for k, v in enumerate(StackSlot(op).values):
                places = self.stack_places(stack, k, at)
                if (StackSlot(op).stack, k) in self.common:
                    store_element(self.b.plain, v.type, places.pointer, self.values[v])  # type: ignore[arg-type]
                    continue
                self.own_store(v.type, places, self.values[v])  # type: ignore[arg-type]
            return ()

        self.at_slot(slot, write, lambda: self.store_each(stack, slot, StackSlot(op).values))

    def at_slot(
        self, slot: Any, at_one: Callable[[Any], tuple[Any, ...]], at_each: Callable[[], tuple[Any, ...]]
    ) -> tuple[Any, ...]:
        """Access the lanes' slots: with one access if all active lanes have the same slot at run time."""
        if not is_wide(slot):
            return at_one(slot)
        # The usual case is one slot for all, which is a contiguous access; the test costs less than a gather.
        b, plain = self.b, self.b.plain
        one = b.first(slot, self.mask)
        off = b.icmp_signed("!=", slot, one)
        ways = []
        with plain.if_else(b.any(b.both(self.mask, off))) as (several, single):
            with several:
                ways.append((at_each(), plain.block))
            with single:
                ways.append((at_one(one), plain.block))
        found = []
        for parts in zip(*(values for values, _ in ways), strict=True):
            phi = plain.phi(parts[0].type)
            for part, (_, block) in zip(parts, ways, strict=True):
                phi.add_incoming(part, block)
            found.append(phi)
        return tuple(found)

    # In a loop over the lanes, for it is rare that their slots differ, and states have many components.

    def load_each(self, stack: StackRef, k: int, slot: Any) -> tuple[Any, ...]:
        """Load a field from slots that differ between the lanes."""
        b, plain, t = self.b, self.b.plain, stack.type.fields[k]
        s = scalar_of(t)
        held, nothing = memory_type(s), to_memory(b, s, zeros(b.wide_type(value_type(s))))
        slots, rows = memory.spilled(b, slot), [memory.spilled(b, nothing) for _ in range(element_size(t))]  # type: ignore[arg-type]

        def read(lane: Any) -> None:
            places = self.stack_places(stack, k, memory.of_lane(b, slots, lane, slot.type.element))
            for n, row in enumerate(rows):
                source = self.component(s, places, n).pointer
                value = memory.of_lane(b, source, lane, held)
                plain.store(value, memory.place_of_lane(b, row, lane, held))

        memory.each_lane(b, self.mask, read, rarely=True)
        return tuple(from_memory(b, s, plain.load(row, typ=b.wide_type(held))) for row in rows)

    def store_each(self, stack: StackRef, slot: Any, values: Sequence[Value]) -> tuple[Any, ...]:
        """Store values to slots that differ between the lanes."""
        b, plain = self.b, self.b.plain
        types = [scalar_of(v.type) for v in values]
        slots = memory.spilled(b, slot)
        rows = [
            [memory.spilled(b, to_memory(b, s, part)) for part in self.values[v]]
            for v, s in zip(values, types, strict=True)
        ]

        def write(lane: Any) -> None:
            at = memory.of_lane(b, slots, lane, slot.type.element)
            for k, (s, parts) in enumerate(zip(types, rows, strict=True)):
                places, held = self.stack_places(stack, k, at), memory_type(s)
                for n, row in enumerate(parts):
                    target = memory.place_of_lane(b, self.component(s, places, n).pointer, lane, held)
                    plain.store(memory.of_lane(b, row, lane, held), target)

        memory.each_lane(b, self.mask, write, rarely=True)
        return ()

    def component(self, s: Scalar, places: LanePlaces, n: int) -> LanePlaces:
        b, offset = self.builder, i64(n * s.itemsize * self.b.lanes)
        if places.is_run:
            return LanePlaces(b.gep(places.pointer, [offset], inbounds=True, source_etype=I8), True)
        return LanePlaces(b.inttoptr(b.add(b.ptrtoint(places.pointer, I64), offset), PTR), False)
