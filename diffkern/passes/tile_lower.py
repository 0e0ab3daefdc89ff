"""Takes tiles apart for a target that runs a block as one thread: tiles become buffers, their operations loops.

In: any function. Out: an equivalent function without tiles. What remains of them are buffers (memory of one thread),
reads and writes of their elements, and matrix products of buffers, which a target spells itself.

Every tile that is not computed where it is read (:mod:`tile_uses`) has a buffer. The buffer of a tile that nobody reads
any more is given to the next tile it suits, so memory is about what is alive at once, not the sum; an operation that
works element by element writes into the buffer of an operand that ends there. Tiles carried by a loop have one buffer
for the whole loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.types import INT32, STORAGE_ONLY, Buffer, Element, Stack, Tile, scalar_of, value_type
from diffkern.passes import tile_linear, tile_order
from diffkern.passes.tile_products import TileProduct
from diffkern.passes.tile_source import Computed, Leaf, Maker, Source, Stored
from diffkern.passes.tile_uses import Uses, uses


def has_tiles(fn: Function) -> bool:
    """Whether a function has tile operations."""
    return any(op.name.startswith("tile_") for op in walk(fn.body))


def lower_tiles(fn: Function) -> Function:
    """The function without tiles; the function itself if it has none."""
    if not has_tiles(fn):
        return fn
    low = Lowering(uses(fn))
    region = Region()
    with low.b.into(region):
        low.region_ops(fn.body)
    region.ops[:0] = low.allocations.ops
    return Function(fn.name, fn.params, region, fn.loc, fn.tid_arity, fn.source_lines, fn.attrs)


class Lowering(Cloner):
    """A cloner that turns tiles into buffers.

    Attributes
    ----------
    sources
        Where the elements of each tile come from.
    free
        Buffers that nobody reads any more.
    owned
        The buffer that belongs to a tile, and goes when the tile is read no more.
    """

    def __init__(self, known: Uses) -> None:
        super().__init__(Builder(), {})
        self.uses = known
        self.m = Maker(self.b)
        self.sources: dict[Value, Source] = {}
        self.free: list[Value] = []
        self.owned: dict[Value, Value] = {}
        self.allocations = Region()
        self.stacks: dict[Value, dict[int, Value]] = {}
        self.here: Region = Region()
        self.position = 0

    # -- memory ------------------------------------------------------------------------------------------------------

    def allocate(self, dtype: Element, size: int, name: str = "") -> Value:
        """A buffer: a free one, or a new one."""
        fitting = [b for b in self.free if b.type.dtype == dtype and b.type.size >= size]  # type: ignore[union-attr]
        if fitting:
            best = min(fitting, key=lambda b: b.type.size)  # type: ignore[union-attr]
            self.free.remove(best)
            return best
        with self.b.into(self.allocations):
            return self.b.one("buffer_new", type=Buffer(dtype, size), hint=name)

    def release(self, buffer: Value) -> None:
        self.free.append(buffer)

    def fresh(self, v: Value) -> Stored:
        """Memory for a tile of the function."""
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
        """Whether the current op is the last to read a tile that owns its buffer."""
        return v in self.owned and self.uses.home.get(v) is self.here and self.uses.until(v, self.here) <= self.position

    def reuse(self, result: Value, candidates: Sequence[Value], leaves: Sequence[Leaf] = ()) -> Stored | None:
        """Give the result the buffer of an operand that ends here, unless other elements of it are still read."""
        t = result.type
        assert isinstance(t, Tile)
        for v in candidates:
            if v.type != t or not self.ends_here(v) or not isinstance(self.sources[v], Stored):
                continue
            buffer = self.owned[v]
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
        """A tile in memory, and the buffer to release after use if it had to be written there."""
        source = self.sources[v]
        if isinstance(source, Stored):
            return source, None
        buffer = self.allocate(source.dtype, _size(source.shape))
        out = Stored(buffer, source.shape, source.dtype)
        self.fill(out, source)
        return out, buffer

    def fill(self, target: Stored, source: Source) -> None:
        """Write all elements of a tile to memory."""
        m = self.m
        if source.is_flat:
            m.cells(
                _size(target.shape),
                lambda i: void(self.b.op("buffer_set", target.buffer, i, source.element_at(m, i))),
            )
            return

        def at(index: list[Value]) -> None:
            self.b.op("buffer_set", target.buffer, m.flat(index, target.shape), source.element(m, index))

        m.grid(target.shape, at)

    def multiply(self, c: Value, a: Value, b: Value, attrs: Mapping[str, Any]) -> None:
        """A product of matrices in buffers."""
        self.b.op("buffer_matmul", c, a, b, **attrs)

    def has_library(self, product: TileProduct) -> bool:
        """Whether a library computes a product, of factors as they lie; else it is one of rows, in one type."""
        return False

    def call_library(self, c: Value, a: Value, b: Value, product: TileProduct, add: bool) -> None:
        """Compute a product by the library."""
        raise NotImplementedError

    def void(self, _: object) -> None:
        """Nothing, of whatever."""

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
            self.position = k
            self.retire()
        self.here, self.position = outer

    def op(self, op: Op) -> None:
        if op.name == "if" and any(isinstance(r.type, Tile) for r in op.results):
            self.branch(op)
        elif op.name in ("for", "while") and any(isinstance(r.type, Tile) for r in op.results):
            self.carried(op)
        elif op.name.startswith("tile_"):
            _OPS[op.name](self, op)
        elif op.name in ("stack_new", "stack_get", "stack_set") and self.with_tiles(op):
            self.stack(op)
        else:
            if op.name == "const" and not isinstance(op.attrs["value"], float):
                super().op(op)
                self.m.known[self.env[op.result]] = int(op.attrs["value"])
            else:
                super().op(op)

    def region(self, region: Region) -> Region:
        copy = Region(tuple(Value(p.type, p.name) for p in region.params))
        self.env.update(zip(region.params, copy.params, strict=True))
        with self.b.into(copy):
            self.region_ops(region)
        copy.yields = self.values(region.yields)
        return copy

    # -- control flow with tiles -------------------------------------------------------------------------------------

    def branch(self, op: Op) -> None:
        targets = {r: self.fresh(r) for r in op.results if isinstance(r.type, Tile)}
        regions = []
        for sub in op.regions:
            region = Region()
            with self.b.into(region):
                self.region_ops(sub)
                self.at_end(sub, [(targets[r], y) for r, y in zip(op.results, sub.yields, strict=True) if r in targets])
                region.yields = tuple(self.value(y) for y in sub.yields if not isinstance(y.type, Tile))
            regions.append(region)
        plain = [r for r in op.results if r not in targets]
        found = self.b.if_(self.value(op.operands[0]), regions[0], regions[1], [r.name for r in plain])
        self.env.update(zip(plain, found, strict=True))

    def at_end(self, region: Region, moves: Sequence[tuple[Stored, Value]]) -> None:
        """Move what a region yields to its place, as if all at once; then the region's own buffers are free."""
        outer, self.here = (self.here, self.position), region
        self.position = len(region.ops)
        targets = {t.buffer for t, _ in moves}
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
                buffer = self.allocate(source.dtype, _size(source.shape))
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
        for v in [v for v in self.owned if self.uses.home.get(v) is region]:
            self.release(self.owned.pop(v))
        self.here, self.position = outer

    def carried(self, op: Op) -> None:
        fixed = 3 if op.name == "for" else 0
        body = op.regions[-1]
        init, params = op.operands[fixed:], body.params[1:] if op.name == "for" else body.params
        targets: list[Stored | None] = []
        taken: set[Value] = set()
        for v, p, r in zip(init, params, op.results, strict=True):
            if not isinstance(v.type, Tile):
                targets.append(None)
                continue
            targets.append(self.loop_buffer(op, v, p, taken))
            taken.add(targets[-1].buffer)  # type: ignore[union-attr]
            assert r.type == v.type
        plain = [k for k, t in enumerate(targets) if t is None]
        regions = []
        for sub in op.regions:
            own = sub.params[1:] if op.name == "for" else sub.params
            for p, t in zip(own, targets, strict=True):
                if t is not None:
                    self.sources[p] = t
            # A parameter's buffer is the loop's: it ends within a trip, for the trip's own result to take its place.
            for p, t in zip(own, targets, strict=True):
                if t is not None and sub is body:
                    self.owned[p] = t.buffer
            scalars = tuple(Value(own[k].type, own[k].name) for k in plain)
            self.env.update(zip([own[k] for k in plain], scalars, strict=True))
            region = Region(scalars)
            if op.name == "for":
                index = Value(sub.params[0].type, sub.params[0].name)
                self.env[sub.params[0]] = index
                region.params = (index, *scalars)
            with self.b.into(region):
                held = {t.buffer for t in targets if t is not None}
                self.trip(sub, held)
                if sub is body:
                    self.at_end(sub, [(t, y) for t, y in zip(targets, sub.yields, strict=True) if t is not None])
                    region.yields = tuple(self.value(sub.yields[k]) for k in plain)
                else:
                    region.yields = self.values(sub.yields)
                    self.at_end(sub, [])
            self.free = [b for b in self.free if b not in held]
            regions.append(region)
        operands = (*self.values(op.operands[:fixed]), *(self.value(init[k]) for k in plain))
        names = [op.results[k].name for k in plain]
        found = self.b.op(op.name, *operands, regions=regions, names=names)
        self.env.update(zip([op.results[k] for k in plain], found, strict=True))
        for r, t in zip(op.results, targets, strict=True):
            if t is not None:
                self.keep(r, t.buffer)

    def trip(self, sub: Region, held: set[Value]) -> None:
        """The ops of a loop's body; the loop's own buffers are never given to anything else meanwhile."""
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
        """The buffer of a carried tile, holding its initial value."""
        source = self.sources[init]
        t = init.type
        assert isinstance(t, Tile)
        inner = any(id(sub) in self.uses.last.get(init, {}) for sub in op.regions)
        once = list(op.operands).count(init) == 1
        if isinstance(source, Stored) and self.ends_here(init) and once and not inner and source.buffer not in taken:
            del self.owned[init]
            return Stored(source.buffer, t.shape, t.dtype)
        target = Stored(self.allocate(t.dtype, t.size, param.name), t.shape, t.dtype)
        self.fill(target, source)
        return target

    # -- loop stacks -------------------------------------------------------------------------------------------------

    def with_tiles(self, op: Op) -> bool:
        t = op.attrs["type"] if op.name == "stack_new" else op.operands[0].type
        assert isinstance(t, Stack)
        return any(isinstance(f, Tile) for f in t.fields)

    def stack(self, op: Op) -> None:
        """Tiles on a loop stack have a buffer of all slots; the other fields stay on the stack."""
        t = op.attrs["type"] if op.name == "stack_new" else op.operands[0].type
        assert isinstance(t, Stack)
        plain = [k for k, f in enumerate(t.fields) if not isinstance(f, Tile)]
        if op.name == "stack_new":
            rest = Stack(tuple(t.fields[k] for k in plain), t.slots, t.level)
            self.env[op.result] = self.b.one("stack_new", type=rest, hint=op.result.name)
            with self.b.into(self.allocations):
                self.stacks[op.result] = {
                    k: self.b.one("buffer_new", type=Buffer(f.dtype, f.size * t.slots), hint="stack")
                    for k, f in enumerate(t.fields)
                    if isinstance(f, Tile)
                }
            return
        stack, slot = op.operands[0], self.value(op.operands[1])
        if op.name == "stack_set":
            values = [self.value(op.operands[2 + k]) for k in plain]
            self.b.op("stack_set", self.env[stack], slot, *values)
            for k, buffer in self.stacks[stack].items():
                self.save(buffer, slot, self.sources[op.operands[2 + k]])
            return
        k = op.attrs["field"]
        if k in plain:
            self.env[op.result] = self.b.one("stack_get", self.env[stack], slot, field=plain.index(k))
            return
        target, buffer = self.fresh(op.result), self.stacks[stack][k]
        base = self.m.b.mul(self.m.wide(slot), self.m.i64(_size(target.shape)))

        def restore(i: Value) -> None:
            value = self.b.one("buffer_get", buffer, self.b.add(base, i))
            self.b.op("buffer_set", target.buffer, i, value)

        self.m.cells(_size(target.shape), restore)

    def save(self, buffer: Value, slot: Value, source: Source) -> None:
        base = self.b.mul(self.m.wide(slot), self.m.i64(_size(source.shape)))

        def at(index: list[Value]) -> None:
            value = source.element(self.m, index)
            self.b.op("buffer_set", buffer, self.b.add(base, self.m.flat(index, source.shape)), value)

        self.m.grid(source.shape, at)

    # -- lazy ops ----------------------------------------------------------------------------------------------------

    def fill_(self, op: Op) -> None:
        t = op.result.type
        assert isinstance(t, Tile)
        value = self.value(op.operands[0])
        source = Computed(t.shape, t.dtype, lambda i: value, (), lambda i: value)
        if scalar_of(t) in STORAGE_ONLY:  # an element is what memory makes of the value
            self.fill(self.fresh(op.result), source)
        else:
            self.sources[op.result] = source

    def permute(self, op: Op) -> None:
        source, axes, m = self.sources[op.operands[0]], op.attrs["axes"], self.m
        t = op.result.type
        assert isinstance(t, Tile)

        def at(index: Sequence[Value]) -> Value:
            return source.element(m, [index[axes.index(k)] for k in range(len(axes))])

        transposed = source if isinstance(source, Stored) and tuple(axes) == (1, 0) else None
        self.computed(op, at, source, transposed)

    def broadcast(self, op: Op) -> None:
        source, m = self.sources[op.operands[0]], self.m

        def at(index: Sequence[Value]) -> Value:
            inner = index[len(index) - len(source.shape) :]
            return source.element(m, [m.i64(0) if n == 1 else i for i, n in zip(inner, source.shape, strict=True)])

        self.computed(op, at, source)

    def view(self, op: Op) -> None:
        source, m = self.sources[op.operands[0]], self.m
        starts = [m.wide(self.value(v)) for v in op.operands[1:]]
        steps, dtype = op.attrs["steps"], source.dtype

        def at(index: Sequence[Value]) -> Value:
            places, tests = [], []
            for i, start, step, n, extent in zip(index, starts, steps, op.attrs["shape"], source.shape, strict=True):
                offset = i if step == 1 else self.b.mul(i, m.i64(step))
                known = m.known.get(start)
                place = offset if known == 0 else self.b.add(start, offset)
                if known is None or not 0 <= known + step * (n - 1) < extent or not 0 <= known < extent:
                    tests += m.inside(place, extent)
                places.append(place)
            condition = m.every(tests)
            if condition is None:
                return source.element(m, places)
            zero = m.i64(0)
            value = source.element(m, [self.b.select(condition, p, zero) for p in places])
            return self.b.select(condition, value, self.b.zero(value_type(dtype)))

        self.computed(op, at, source)

    def computed(self, op: Op, at: object, source: Source, transposed: Stored | None = None) -> None:
        t = op.result.type
        assert isinstance(t, Tile)
        leaves = tuple(Leaf(leaf.buffer, False) for leaf in source.leaves())
        found = Computed(t.shape, t.dtype, at, leaves, transposed=transposed)  # type: ignore[arg-type]
        self.sources[op.result] = found

    def reshape(self, op: Op) -> None:
        """Another shape of the same memory; a tile without memory is computed by position, or gets memory here."""
        t = op.result.type
        assert isinstance(t, Tile)
        source, m = self.sources[op.operands[0]], self.m
        if isinstance(source, Stored):
            self.sources[op.result] = Stored(source.buffer, t.shape, t.dtype)
        elif source.is_flat:
            at_flat = source.at_flat
            assert at_flat is not None
            self.sources[op.result] = Computed(
                t.shape, t.dtype, lambda i: at_flat(m.flat(i, t.shape)), tuple(source.leaves()), at_flat
            )
        else:
            self.fill(Stored(self.fresh(op.result).buffer, source.shape, t.dtype), source)

    def map(self, op: Op) -> None:
        sources = [self.sources.get(v) for v in op.operands]
        found = self.mapped(op, sources)
        if op in self.uses.lazy:
            self.sources[op.result] = found[0]
            return
        leaves = [leaf for s in sources if s is not None for leaf in s.leaves()]
        targets = [self.reuse(r, op.operands, leaves) or self.fresh(r) for r in op.results]
        flat = all(f.is_flat for f in found)
        m, shape = self.m, op.attrs["shape"]

        def write(index: Sequence[Value], position: Value) -> None:
            values = self.elements(op, sources, index, position if flat else None)
            for target, value in zip(targets, values, strict=True):
                self.b.op("buffer_set", target.buffer, position, value)

        if flat:
            m.cells(_size(shape), lambda i: write((), i))
        else:
            m.grid(shape, lambda index: write(index, m.flat(index, shape)))

    def elements(
        self, op: Op, sources: Sequence[Source | None], index: Sequence[Value], at: Value | None
    ) -> list[Value]:
        """The results of a map for one element, given by its indices or its position."""
        m, body = self.m, op.attrs["body"]
        skip = len(op.attrs["shape"]) if op.attrs["indexed"] else 0
        given = [self.b.cast(i, INT32) for i in index[:skip]]
        for v, s in zip(op.operands, sources, strict=True):
            given.append(self.value(v) if s is None else s.element(m, index) if at is None else s.element_at(m, at))
        return list(Cloner(self.b, {}).inline(body, given))

    def mapped(self, op: Op, sources: Sequence[Source | None]) -> list[Computed]:
        flat = not op.attrs["indexed"] and all(s is None or s.is_flat for s in sources)
        leaves = tuple(leaf for s in sources if s is not None for leaf in s.leaves())
        shape = op.attrs["shape"]

        def result(k: int, dtype: Element) -> Computed:
            def at(index: Sequence[Value]) -> Value:
                return self.elements(op, sources, index, None)[k]

            def at_flat(position: Value) -> Value:
                return self.elements(op, sources, (), position)[k]

            return Computed(shape, dtype, at, leaves, at_flat if flat else None)

        return [result(k, dtype) for k, dtype in enumerate(op.attrs["dtypes"])]

    # -- arrays ------------------------------------------------------------------------------------------------------

    def place(self, op: Op, shape: Sequence[int]) -> tuple[Value, list[Value], Value | None]:
        """The array, the offsets, and whether the whole tile lies inside."""
        m, array = self.m, self.value(op.operands[0])
        offsets = [m.wide(self.value(v)) for v in op.operands[1 : 1 + len(shape)]]
        tests = []
        for axis, (o, n) in enumerate(zip(offsets, shape, strict=True)):
            extent = m.wide(self.b.one("shape", array, axis=axis))
            known = m.known.get(o)
            if known is None or known < 0:
                tests.append(self.b.one("ge", o, m.i64(0)))
            tests.append(self.b.one("le", self.b.add(o, m.i64(n)), extent))
        return array, offsets, m.every(tests)

    def each_inside(self, op: Op, shape: Sequence[int], visit: object, outside: object = None) -> None:
        """Visit every element of a tile with its place in the array; elements outside are left out."""
        m = self.m
        array, offsets, whole = self.place(op, shape)

        def places(index: Sequence[Value]) -> list[Value]:
            return [o if m.known.get(i) == 0 else self.b.add(o, i) for o, i in zip(offsets, index, strict=True)]

        def fast(index: list[Value]) -> None:
            visit(array, places(index), index)  # type: ignore[operator]

        def slow(index: list[Value]) -> None:
            at = places(index)
            tests = []
            for axis, place in enumerate(at):
                tests += m.inside(place, m.wide(self.b.one("shape", array, axis=axis)))
            condition = m.every(tests)
            assert condition is not None
            if outside is not None:
                outside(index)  # type: ignore[operator]
            m.when(condition, lambda: visit(array, at, index))  # type: ignore[operator]

        assert whole is not None
        inside = whole
        m.step(lambda: m.either(inside, lambda: m.grid(shape, fast), lambda: m.grid(shape, slow)))

    def load(self, op: Op) -> None:
        target = self.fresh(op.result)
        zero_of = value_type(target.dtype)

        def visit(array: Value, place: list[Value], index: list[Value]) -> None:
            value = self.b.one("load", array, *place, wrap=(False,) * len(place))
            self.b.op("buffer_set", target.buffer, self.m.flat(index, target.shape), value)

        def outside(index: list[Value]) -> None:
            self.b.op("buffer_set", target.buffer, self.m.flat(index, target.shape), self.b.zero(zero_of))

        self.each_inside(op, target.shape, visit, outside)

    def written(self, op: Op) -> tuple[Source, Value | None]:
        """The tile that is written to an array. A fused computation that is not trivial is made once, not per path."""
        source = self.sources[op.operands[-1]]
        if isinstance(source, Computed) and source.reads:
            return self.stored(op.operands[-1])
        return source, None

    def store(self, op: Op) -> None:
        source, borrowed = self.written(op)

        def visit(array: Value, place: list[Value], index: list[Value]) -> None:
            self.b.op("store", array, *place, source.element(self.m, index), wrap=(False,) * len(place))

        self.each_inside(op, source.shape, visit)
        self.give_back(borrowed)

    def accumulate(self, op: Op) -> None:
        source, borrowed = self.written(op)

        def visit(array: Value, place: list[Value], index: list[Value]) -> None:
            wrap = (False,) * len(place)
            self.b.op("accumulate", array, *place, source.element(self.m, index), wrap=wrap, mode=op.attrs["mode"])

        self.each_inside(op, source.shape, visit)
        self.give_back(borrowed)

    def atomic(self, op: Op) -> None:
        source, borrowed = self.written(op)
        used = bool(self.uses.last.get(op.result))
        target = self.fresh(op.result) if used else None
        kind = op.attrs["kind"]

        def visit(array: Value, place: list[Value], index: list[Value]) -> None:
            wrap = (False,) * len(place)
            old = self.b.one("atomic", array, *place, source.element(self.m, index), wrap=wrap, kind=kind)
            if target is not None:
                self.b.op("buffer_set", target.buffer, self.m.flat(index, target.shape), old)

        def outside(index: list[Value]) -> None:
            if target is not None:
                zero = self.b.zero(value_type(target.dtype))
                self.b.op("buffer_set", target.buffer, self.m.flat(index, target.shape), zero)

        self.each_inside(op, source.shape, visit, outside)
        self.give_back(borrowed)

    def give_back(self, borrowed: Value | None) -> None:
        if borrowed is not None:
            self.release(borrowed)

    # -- parts -------------------------------------------------------------------------------------------------------

    def checked(self, indices: Sequence[Value], shape: Sequence[int]) -> tuple[list[Value], Value | None]:
        """Indices of an element as int64, and the condition under which it exists if that is not certain."""
        m = self.m
        wide = [m.wide(self.value(v)) for v in indices]
        tests = [t for i, n in zip(wide, shape, strict=True) for t in m.inside(i, n)]
        return wide, m.every(tests)

    def extract(self, op: Op) -> None:
        source, m = self.sources[op.operands[0]], self.m
        index, condition = self.checked(op.operands[1:], source.shape)

        def read() -> None:
            if condition is None:
                self.env[op.result] = source.element(m, index)
                return
            zero = m.i64(0)
            value = source.element(m, [self.b.select(condition, i, zero) for i in index])
            self.env[op.result] = self.b.select(condition, value, self.b.zero(value_type(source.dtype)))

        m.step(read)

    def changed(self, op: Op) -> Stored:
        """The memory of a tile that differs little from the first operand, holding that operand."""
        source = self.sources[op.operands[0]]
        target = self.reuse(op.result, op.operands[:1])
        if target is None:
            target = self.fresh(op.result)
            self.fill(target, source)
        return target

    def replace(self, op: Op) -> None:
        target, value = self.changed(op), self.value(op.operands[1])
        index, condition = self.checked(op.operands[2:], target.shape)

        def write() -> None:
            place, item = self.m.flat(index, target.shape), value
            if op.name == "tile_add_at":
                item = self.b.add(self.b.one("buffer_get", target.buffer, place), value)
            self.b.op("buffer_set", target.buffer, place, item)

        self.m.alone(write if condition is None else lambda: self.m.when(condition, write))

    def insert(self, op: Op) -> None:
        m = self.m
        part, borrowed = self.stored(op.operands[1])
        target = self.changed(op)
        starts, steps = [m.wide(self.value(v)) for v in op.operands[2:]], op.attrs["steps"]

        def at(index: list[Value]) -> None:
            places, tests = [], []
            for i, start, step, n, extent in zip(index, starts, steps, part.shape, target.shape, strict=True):
                place = self.b.add(start, i if step == 1 else self.b.mul(i, m.i64(step)))
                known = m.known.get(start)
                if known is None or not 0 <= known + step * (n - 1) < extent or not 0 <= known < extent:
                    tests += m.inside(place, extent)
                places.append(place)

            def write() -> None:
                item = part.element(m, index)
                self.b.op("buffer_set", target.buffer, m.flat(places, target.shape), item)

            condition = m.every(tests)
            if condition is None:
                write()
            else:
                m.when(condition, write)

        m.grid(part.shape, at)
        self.give_back(borrowed)


def void(_: object) -> None:
    """Nothing, of whatever."""


def _size(shape: Sequence[int]) -> int:
    out = 1
    for n in shape:
        out *= n
    return out


_OPS = {
    "tile_fill": Lowering.fill_,
    "tile_permute": Lowering.permute,
    "tile_broadcast": Lowering.broadcast,
    "tile_view": Lowering.view,
    "tile_reshape": Lowering.reshape,
    "tile_map": Lowering.map,
    "tile_load": Lowering.load,
    "tile_store": Lowering.store,
    "tile_accumulate": Lowering.accumulate,
    "tile_atomic": Lowering.atomic,
    "tile_extract": Lowering.extract,
    "tile_replace": Lowering.replace,
    "tile_add_at": Lowering.replace,
    "tile_insert": Lowering.insert,
    **tile_order.OPS,
    **tile_linear.OPS,
}
