"""The lowering of tiles: memory management and control flow; each operation has a function of its own.

Ops of any function become equivalent ops without tiles. They use buffers (memory of one thread), reads and writes of
their elements, and matrix products of buffers, which a target emits itself.

Every tile that is not computed where it is read (:mod:`uses`) has a buffer. The buffer of a tile that is not read any
more is given to the next tile that fits, so memory is bounded by the tiles alive at once, not by their sum; an
elementwise operation writes into the buffer of an operand that ends there. Tiles carried by a loop have one buffer for
the whole loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from diffkern.analysis.tile_products import TileProduct
from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner
from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.ops.memory import NEW_STACKS, STACK_WRITES
from diffkern.ir.ops.scalar import LITERALS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Array, Buffer, Element, Scalar, Stack, Tile, Type
from diffkern.ir.views import For, If, StackSlot, While, is_branch, is_loop, loop
from diffkern.lower.tiles.source import BufferRead, Maker, Source, Stored, elements
from diffkern.lower.tiles.uses import Uses

LibraryCall = Callable[[Value, Value, Value, TileProduct, bool], None]
"""Computes a product of two buffers in a third by a library, or adds it to that."""


class Lowering(Cloner):
    """A cloner that turns tiles into buffers.

    Attributes
    ----------
    sources
        The source of the elements of each tile.
    free
        Buffers that are not read any more.
    owned
        The buffer that belongs to a tile, and is freed when the tile is read no more.
    ops_of_tiles
        The function that lowers each operation on tiles.
    """

    widens = True
    """True if transforms of float32 are computed in float64, for which a GPU has few units."""
    made_twice = -1
    """The most operations of an element whose computation is duplicated on two paths that write it."""

    def __init__(self, known: Uses, ops: Mapping[str, Callable[[Lowering, Op], None]]) -> None:
        super().__init__(Builder(), {})
        self.uses = known
        self.ops_of_tiles = ops
        self.m = Maker(self.b)
        self.sources: dict[Value, Source] = {}
        self.free: list[Value] = []
        self.owned: dict[Value, Value] = {}
        self.allocations = Region()
        self.tables: dict[tuple[Scalar, tuple[int, ...], bytes], Op] = {}
        self.stacks: dict[Value, dict[int, Value]] = {}
        self.here: Region = Region()
        self.position = 0

    def takes(self, t: Type) -> bool:
        """Return whether values of a type are lowered."""
        return isinstance(t, Tile)

    def is_tile_op(self, op: Op) -> bool:
        """Return whether an operation is lowered as one on tiles."""
        return op.name.startswith("tile_")

    # -- memory ------------------------------------------------------------------------------------------------------

    def allocate(self, dtype: Element, size: int, name: str = "") -> Value:
        """Return a buffer: a free one, or a new one."""
        fitting = [b for b in self.free if b.type.dtype == dtype and b.type.size >= size]  # type: ignore[union-attr]
        if fitting:
            # The smallest buffer that fits, to keep the large ones for large tiles.
            best = min(fitting, key=lambda b: b.type.size)  # type: ignore[union-attr]
            self.free.remove(best)
            return best
        with self.b.into(self.allocations):
            return self.b.one("buffer_new", type=Buffer(dtype, size), hint=name)

    def table(self, dtype: Scalar, numbers: npt.NDArray[Any], name: str) -> Value:
        """Return an array of constants, which the program has once."""
        key = dtype, numbers.shape, numbers.tobytes()
        if key not in self.tables:
            made = Value(Array(dtype, numbers.ndim, "C"), name)
            attrs = {"type": made.type, "shape": numbers.shape, "data": key[2]}
            self.tables[key] = Op("constant_array", (), (made,), attrs, (), self.b.loc)
        return self.tables[key].result

    def release(self, buffer: Value) -> None:
        self.free.append(buffer)

    def give_back(self, borrowed: Value | None) -> None:
        if borrowed is not None:
            self.release(borrowed)

    def fresh(self, v: Value) -> Stored:
        """Allocate memory for a tile of the function."""
        t = v.type
        assert isinstance(t, Tile)
        buffer = self.allocate(t.dtype, t.size, v.name)
        return self.keep(v, buffer)

    def keep(self, v: Value, buffer: Value) -> Stored:
        """Let a tile own a buffer."""
        t = v.type
        assert isinstance(t, Tile)
        self.owned[v] = buffer
        out = Stored(buffer, t.shape, t.dtype)
        self.sources[v] = out
        return out

    def ends_here(self, v: Value) -> bool:
        """Return whether the current op is the last to read a tile that owns its buffer."""
        # A tile from outside of a loop is read again in the next trip, so it can only end in the region that defines
        # it.
        return v in self.owned and self.uses.home.get(v) is self.here and self.uses.until(v, self.here) <= self.position

    def reuse(self, result: Value, candidates: Sequence[Value], leaves: Sequence[BufferRead] = ()) -> Stored | None:
        """Give the result the buffer of an operand that ends here, unless other elements of it are still read."""
        t = result.type
        assert isinstance(t, Tile)
        for v in candidates:
            if v.type != t or not self.ends_here(v) or not isinstance(self.sources[v], Stored):
                continue
            buffer = self.owned[v]
            # In place only if each element is written after the last read of the old one at that position.
            if any(leaf.buffer is buffer and not leaf.same for leaf in leaves):
                continue
            del self.owned[v]
            return self.keep(result, buffer)
        return None

    def retire(self) -> None:
        """Free the buffers of tiles that the current op was the last to read."""
        for v in [v for v in self.owned if self.ends_here(v)]:
            self.release(self.owned.pop(v))

    # -- tiles -------------------------------------------------------------------------------------------------------

    def stored(self, v: Value) -> tuple[Stored, Value | None]:
        """Return a tile in memory, and the buffer to release after use if it had to be written there."""
        source = self.sources[v]
        if isinstance(source, Stored):
            return source, None
        buffer = self.allocate(source.dtype, elements(source.shape))
        out = Stored(buffer, source.shape, source.dtype)
        self.fill(out, source)
        return out, buffer

    def fill(self, target: Stored, source: Source) -> None:
        """Write all elements of a tile to memory."""
        m = self.m
        if source.is_flat:
            m.cells(
                elements(target.shape),
                lambda i: void(self.b.op("buffer_set", target.buffer, i, source.element_at(m, i))),
            )
            return

        def at(index: list[Value]) -> None:
            self.b.op("buffer_set", target.buffer, m.flat(index, target.shape), source.element(m, index))

        m.grid(target.shape, at)

    def multiply(self, c: Value, a: Value, b: Value, attrs: Mapping[str, Any]) -> None:
        """Emit a product of matrices in buffers."""
        self.b.op("buffer_matmul", c, a, b, **attrs)

    def library_for(self, product: TileProduct) -> LibraryCall | None:
        """Return a function that lets a library compute a product of factors as stored.

        Without one, the factors are passed row by row and in one type.
        """
        return None

    def void(self, _: object) -> None:
        """Ignore a value, and return None."""

    def copy(self, target: Stored, v: Value) -> None:
        source = self.sources[v]
        if not (isinstance(source, Stored) and source.buffer is target.buffer):
            self.fill(target, source)

    # -- ops ---------------------------------------------------------------------------------------------------------

    def region_ops(self, region: Region) -> None:
        outer, self.here = (self.here, self.position), region
        for k, op in enumerate(region.ops):
            self.position = k
            with self.b.at(op.loc):
                self.op(op)
            # The op itself may have moved the position, in regions that it contains.
            self.position = k
            self.retire()
        self.here, self.position = outer

    def op(self, op: Op) -> None:
        if is_branch(op) and any(self.takes(r.type) for r in op.results):
            self.branch(op)
        elif is_loop(op) and any(self.takes(r.type) for r in op.results):
            self.carried(op)
        elif self.is_tile_op(op):
            self.tile_op(op)
        elif lookup(op.name).family == "stack" and self.with_tiles(op):
            self.stack(op)
        else:
            if op.name in LITERALS and not isinstance(op.attrs["value"], float):
                super().op(op)
                # Literals are known to the index arithmetic, which leaves out tests and additions with them.
                self.m.known[self.env[op.result]] = int(op.attrs["value"])
            else:
                super().op(op)

    def tile_op(self, op: Op) -> None:
        self.ops_of_tiles[op.name](self, op)
        if op not in self.uses.lazy:
            self._check_memory(op)

    def _check_memory(self, op: Op) -> None:
        """Raise unless results have their own memory, as that of their operands may be reused from here on.

        An operation whose results are computed where they are read says so in its row.
        """
        for result in op.results:
            source = self.sources.get(result)
            # A computed result reads its operands' buffers later, when these may hold another tile already.
            if source is not None and result not in self.owned and any(source.leaves()):
                raise AssertionError(f"{op.name} reads its operands later, and its row is not lazy")

    def region(self, region: Region) -> Region:
        copy = Region(tuple(Value(p.type, p.name) for p in region.params))
        self.env.update(zip(region.params, copy.params, strict=True))
        with self.b.into(copy):
            self.region_ops(region)
        copy.yields = self.values(region.yields)
        return copy

    # -- control flow with tiles -------------------------------------------------------------------------------------

    def branch(self, op: Op) -> None:
        # A thread's array that one arm changes and the other keeps stays in its memory, instead of being copied by
        # both.
        adopted = self.adopted(op)
        targets = {r: self.keep(r, self.owned.pop(v)) for r, v in adopted.items()}
        targets |= {r: self.fresh(r) for r in op.results if self.takes(r.type) and r not in adopted}
        held = {targets[r].buffer for r in adopted}
        regions = []
        for sub in op.regions:
            region = Region()
            # Both arms write to the memory of one array, which is why an arm must find the old contents owned.
            for r, v in adopted.items():  # it ends in the branch, for the branch's own result to take its place
                self.owned[v], self.uses.home[v] = targets[r].buffer, sub
            with self.b.into(region):
                self.trip(sub, held)
                for v in adopted.values():
                    self.owned.pop(v, None)
                # Both arms leave their yields in the same buffers, so behind the branch the result is at a known place.
                self.at_end(sub, [(targets[r], y) for r, y in zip(op.results, sub.yields, strict=True) if r in targets])
                region.yields = tuple(self.value(y) for y in sub.yields if not self.takes(y.type))
            self.free = [b for b in self.free if b not in held]
            regions.append(region)
        plain = [r for r in op.results if r not in targets]
        found = self.b.if_(self.value(If(op).condition), regions[0], regions[1], [r.name for r in plain])
        self.env.update(zip(plain, found, strict=True))

    def adopted(self, op: Op) -> dict[Value, Value]:
        """Return the results of a branch that take the memory of a thread's array that an arm changes or keeps."""
        found: dict[Value, Value] = {}
        for r, *ways in If(op).choices:
            if not (isinstance(r.type, Tile) and r.type.own):
                continue
            for v in (w for way in ways for w in self.origins(way, op)):
                if v.type == r.type and v not in found.values() and self.ends_here(v) and self.is_stored(v):
                    found[r] = v
                    break
        return found

    def is_stored(self, v: Value) -> bool:
        """Return whether a tile is in memory that belongs to it."""
        source = self.sources.get(v)
        return isinstance(source, Stored) and source.buffer is self.owned.get(v)

    def origins(self, v: Value, op: Op) -> Iterator[Value]:
        """Iterate over the arrays from which a branch's result is made by changing elements, the last one first."""
        made = {r: inner for sub in op.regions for inner in sub.ops for r in inner.results}
        yield v
        while v in made and lookup(made[v].name).element:
            v = made[v].operands[0]
            yield v

    def at_end(self, region: Region, moves: Sequence[tuple[Stored, Value]]) -> None:
        """Move the yields of a region to their places, as if all at once; then free the region's own buffers."""
        outer, self.here = (self.here, self.position), region
        self.position = len(region.ops)
        targets = {t.buffer for t, _ in moves}
        # A yield may read a buffer that another yield is moved to: then it is computed to a spare buffer first.
        pending: list[tuple[Stored, Source]] = []
        taken: list[Value] = []
        for target, v in moves:
            source = self.sources[v]
            if isinstance(source, Stored) and source.buffer is target.buffer:
                continue
            if (
                len(moves) > 1
                and any(leaf.buffer in targets for leaf in source.leaves())
                or (any(leaf.buffer is target.buffer and not leaf.same for leaf in source.leaves()))
            ):
                buffer = self.allocate(source.dtype, elements(source.shape))
                aside = Stored(buffer, source.shape, source.dtype)
                self.fill(aside, source)
                taken.append(buffer)
                source = aside
            pending.append((target, source))
        for target, source in pending:
            self.fill(target, source)
        for buffer in taken:
            self.release(buffer)
        self.retire()
        # Buffers of tiles that are defined in the region are free when it ends, even if they were never read.
        for v in [v for v in self.owned if self.uses.home.get(v) is region]:
            self.release(self.owned.pop(v))
        self.here, self.position = outer

    def loop_buffers(self, op: Op) -> list[Stored | None]:
        """Return the buffer of each value that a loop carries; None for numbers."""
        view = loop(op)
        targets: list[Stored | None] = []
        taken: set[Value] = set()
        for v, p, r in zip(view.init, view.carried, view.results, strict=True):
            if not self.takes(v.type):
                targets.append(None)
                continue
            target = self.loop_buffer(op, v, p, taken)
            targets.append(target)
            taken.add(target.buffer)
            assert r.type == v.type
        return targets

    def carried(self, op: Op) -> None:
        view = loop(op)
        targets = self.loop_buffers(op)
        self.m.synchronize()  # here: what stands in the loop does not happen where there is no trip
        plain = [k for k, t in enumerate(targets) if t is None]
        regions = []
        for sub in op.regions:
            own = view.tested if isinstance(view, While) and sub is view.test else view.carried
            for p, t in zip(own, targets, strict=True):
                if t is not None:
                    # In each trip the carried tile is found in the buffer of the loop.
                    self.sources[p] = t
            # A parameter's buffer is the loop's: it ends within a trip, for the trip's own result to take its place.
            for p, t in zip(own, targets, strict=True):
                if t is not None and sub is view.body:
                    self.owned[p] = t.buffer
            scalars = tuple(Value(own[k].type, own[k].name) for k in plain)
            self.env.update(zip([own[k] for k in plain], scalars, strict=True))
            region = Region(scalars)
            if isinstance(view, For):
                index = Value(view.index.type, view.index.name)
                self.env[view.index] = index
                region.params = (index, *scalars)
            with self.b.into(region):
                held = {t.buffer for t in targets if t is not None}
                self.trip(sub, held)
                if sub is view.body:
                    self.at_end(sub, [(t, y) for t, y in zip(targets, sub.yields, strict=True) if t is not None])
                    region.yields = tuple(self.value(sub.yields[k]) for k in plain)
                else:
                    region.yields = self.values(sub.yields)
                    self.at_end(sub, [])
            self.free = [b for b in self.free if b not in held]
            regions.append(region)
        operands = (*self.values(view.bounds), *(self.value(view.init[k]) for k in plain))
        names = [op.results[k].name for k in plain]
        found = self.b.op(op.name, *operands, regions=regions, names=names)
        self.env.update(zip([op.results[k] for k in plain], found, strict=True))
        for r, t in zip(op.results, targets, strict=True):
            if t is not None:
                self.keep(r, t.buffer)

    def trip(self, sub: Region, held: set[Value]) -> None:
        """Emit the ops of a loop's body; the loop's own buffers are not reused meanwhile."""
        outer, self.here = (self.here, self.position), sub
        for k, op in enumerate(sub.ops):
            self.position = k
            with self.b.at(op.loc):
                self.op(op)
            self.position = k
            self.retire()
            self.free = [b for b in self.free if b not in held]
        self.here, self.position = outer

    def loop_buffer(self, op: Op, init: Value, param: Value, taken: set[Value]) -> Stored:
        """Return the buffer of a carried tile, holding its initial value."""
        source = self.sources[init]
        t = init.type
        assert isinstance(t, Tile)
        inner = any(id(sub) in self.uses.last.get(init, {}) for sub in op.regions)
        once = list(op.operands).count(init) == 1
        # The initial tile's own buffer serves as the loop's if nothing else reads it, inside the loop or behind it.
        if isinstance(source, Stored) and self.ends_here(init) and once and not inner and source.buffer not in taken:
            del self.owned[init]
            return Stored(source.buffer, t.shape, t.dtype)
        target = Stored(self.allocate(t.dtype, t.size, param.name), t.shape, t.dtype)
        self.fill(target, source)
        return target

    # -- loop stacks -------------------------------------------------------------------------------------------------

    def with_tiles(self, op: Op) -> bool:
        t = op.attrs["type"] if op.name in NEW_STACKS else StackSlot(op).stack.type
        assert isinstance(t, Stack)
        return any(self.takes(f) for f in t.fields)

    def stack(self, op: Op) -> None:
        """Lower an access to a stack with tiles: these have a buffer of all slots; other fields stay on the stack."""
        t = op.attrs["type"] if op.name in NEW_STACKS else StackSlot(op).stack.type
        assert isinstance(t, Stack)
        plain = [k for k, f in enumerate(t.fields) if not self.takes(f)]
        if op.name in NEW_STACKS:
            rest = Stack(tuple(t.fields[k] for k in plain), t.slots, t.level)
            self.env[op.result] = self.b.one("stack_new", type=rest, hint=op.result.name)
            with self.b.into(self.allocations):
                self.stacks[op.result] = {
                    k: self.b.one("buffer_new", type=Buffer(f.dtype, f.size * t.slots), hint="stack")
                    for k, f in enumerate(t.fields)
                    if isinstance(f, Tile) and self.takes(f)
                }
            return
        access = StackSlot(op)
        stack, slot = access.stack, self.value(access.slot)
        if op.name in STACK_WRITES:
            values = [self.value(access.values[k]) for k in plain]
            self.b.op("stack_set", self.env[stack], slot, *values)
            for k, buffer in self.stacks[stack].items():
                self.save(buffer, slot, self.sources[access.values[k]])
            return
        k = op.attrs["field"]
        if k in plain:
            self.env[op.result] = self.b.one("stack_get", self.env[stack], slot, field=plain.index(k))
            return
        target, buffer = self.fresh(op.result), self.stacks[stack][k]
        # Slots are consecutive, so a slot's tile begins at its number times the size.
        base = self.m.b.mul(self.m.wide(slot), self.m.i64(elements(target.shape)))

        def restore(i: Value) -> None:
            value = self.b.one("buffer_get", buffer, self.b.add(base, i))
            self.b.op("buffer_set", target.buffer, i, value)

        self.m.cells(elements(target.shape), restore)

    def save(self, buffer: Value, slot: Value, source: Source) -> None:
        base = self.b.mul(self.m.wide(slot), self.m.i64(elements(source.shape)))

        def at(index: list[Value]) -> None:
            value = source.element(self.m, index)
            self.b.op("buffer_set", buffer, self.b.add(base, self.m.flat(index, source.shape)), value)

        self.m.grid(source.shape, at)


def void(_: object) -> None:
    """Ignore a value, and return None."""
