"""Stamps on elements of arrays: which threads of a launch read them, and which write to them.

From a normalised kernel and the arrays for which races are not ruled out, :func:`stamp_accesses` makes a
:class:`StampedFunction`, which has an array of stamps for each of them as its last parameters. It is run on copies of
the arrays it writes; then :mod:`diffkern.runtime.launch.stamps` checks whether two threads race.

The stamps of an element are described in :mod:`diffkern.ir.stamp_layout`. They begin at zero and only grow, so the
order of threads does not matter, except to the last one: the latest writer, by which a thread recognises that it reads
its own store. On the CPU the threads of such a program run one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from diffkern.ad.log_index import thread_number
from diffkern.ad.sources import Sources
from diffkern.analysis.blocks import is_simt
from diffkern.analysis.components import Component, Components
from diffkern.analysis.dependence import classify_loads
from diffkern.analysis.tile_threads import threads_of
from diffkern.contracts.manifest import Stamped
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import (
    ACCESSES,
    ATOMICS,
    ELEMENT_LOADS,
    ELEMENT_STORES,
    LOADS,
    PLAIN_ELEMENTS,
    PRIMAL_ELEMENTS,
)
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.table import lookup
from diffkern.ir.stamp_layout import BLOCK, EARLY, LATEST, LEAST, READ, SITES, SOURCE, STORED, UPDATED, VALUE
from diffkern.ir.types import INT64, Array, Mat, Vec, is_differentiable
from diffkern.ir.views import Access, While
from diffkern.process.dataclass import dataclass

__all__ = ["StampedFunction", "decided_by_order", "stamp_accesses"]

_MASK: Final = (1 << 61) - 1
_Stored: TypeAlias = "tuple[Value, Value]"


@dataclass(frozen=True, slots=True)
class StampedFunction:
    """A function that stamps, and the arrays for which it does so, in the order of its last parameters."""

    fn: Function
    stamped: tuple[Stamped, ...]


def stamp_accesses(fn: Function, arrays: Collection[int]) -> StampedFunction:
    """Make a normalised kernel stamp the elements of some of its arrays, in place.

    Besides the given parameters, those whose elements decide which elements a thread accesses are stamped, if another
    thread may write to them.

    Raises
    ------
    AutodiffError
        If stamps would not describe what a launch does.
    """
    facts = classify_loads(fn, stamped=True)
    program = _Program(fn)
    chosen = {fn.params[k] for k in arrays}
    # An array that decides about accesses is accessed itself, and its own indices may depend on a further array.
    while True:
        accesses = [op for op in program.ops if op.name in ACCESSES and Access(op).array in chosen]
        _check(accesses)
        deciding = program.deciding(program.places(accesses))
        more = {Access(op).array for op in deciding.loads if op in facts and facts[op].unproved} - chosen
        if not more:
            found = Sources(fn, [Access(op).value for op in accesses if op.name in ELEMENT_STORES])
            made = _Stamping(fn, deciding.params, program.sources(found), found, program.components)
            return made.of([p for p in fn.params if p in chosen])
        chosen |= more


def decided_by_order(fn: Function, arrays: Iterable[Value]) -> set[Value]:
    """Return those of some arrays of whose elements the order of threads decides which ones a thread accesses."""
    program, found = _Program(fn), set[Value]()
    for array in arrays:
        try:
            program.deciding(program.places([op for op in program.ops if _touches(op, array)]))
        except AutodiffError:
            found.add(array)
    return found


def _touches(op: Op, array: Value) -> bool:
    return op.name in ACCESSES and Access(op).array is array


def _check(accesses: Sequence[Op]) -> None:
    for op in accesses:
        name = Access(op).array.name
        if op.name not in PRIMAL_ELEMENTS:
            raise AutodiffError(
                f"a tile of {name} is accessed here, and another thread of the same launch may access its elements",
                loc=op.loc,
                remedy="use a copy of the array, or split the kernel in two launches",
            )


@dataclass(slots=True)
class _Deciding:
    """The loads, and the parameters, that decide which elements are accessed; None if a launch changes them."""

    loads: list[Op]
    params: tuple[int, ...] | None


class _Program:
    """The ops of a kernel, with the ops around each of them and the op that produces each value."""

    def __init__(self, fn: Function) -> None:
        self.fn = fn
        self.ops: list[Op] = []
        self.around: dict[Op, tuple[Op, ...]] = {}
        self.source: dict[Value, Op] = {}
        self._visit(fn.body, ())
        self.written = {Access(op).array for op in self.ops if op.name in ACCESSES - LOADS}
        self.components = Components(fn)

    def _visit(self, region: Region, around: tuple[Op, ...]) -> None:
        for op in region.ops:
            self.ops.append(op)
            self.around[op] = around
            self.source.update(dict.fromkeys(op.results, op))
            for sub in op.regions if op.name != "ruled" else ():
                self.source.update(dict.fromkeys(sub.params, op))
                self._visit(sub, (*around, op))

    def places(self, accesses: Sequence[Op]) -> list[Value]:
        """The values that say what accesses touch: indices, and the branches and loops around them."""
        found = [v for op in accesses for v in (*Access(op).index, *self._conditions(op))]
        for op in accesses:
            by_name = {"load": self.components.loaded, "store": self.components.stored}
            touched = by_name[op.name](op) if op.name in by_name else None
            found += [k for k in touched or () if isinstance(k, Value)]
        return found

    def sources(self, found: Sources) -> tuple[int, ...] | None:
        """The parameters by which it is decided from which elements values are computed; None where more decides."""
        made = {op for v in found.needed if (op := self.source.get(v)) is not None}
        values = [v for op in made for v in self._conditions(op)]
        values += [v for op in made for v in op.operands if not is_differentiable(v.type)]
        values += [v for op in made if op.name == "while" for v in While(op).test.yields]
        return self.deciding(values).params if found.is_fixed else None

    def deciding(self, values: Sequence[Value]) -> _Deciding:
        """Find what values depend on."""
        position = {p: k for k, p in enumerate(self.fn.params)}
        params: set[int] = set()
        loads: dict[Op, None] = {}
        fixed, seen = True, set[Value]()
        left = list(values)
        while left:
            v = left.pop()
            if v in seen:
                continue
            seen.add(v)
            if v in position:
                params.add(position[v])
                continue
            op = self.source.get(v)
            if op is None:
                continue
            # The stamped program runs in another order than the launch, so it may get other results from atomic
            # updates.
            if op.name in ATOMICS:
                raise AutodiffError(
                    f"which elements a thread accesses depends on what atomic_{op.attrs['kind'].removeprefix('f')} "
                    "returned, and that on the order of threads",
                    loc=op.loc,
                    remedy="compute the indices in a launch of its own, in front of this one",
                )
            if op.name in LOADS:
                loads[op] = None
                fixed = fixed and Access(op).array in position and Access(op).array not in self.written
            left += [*op.operands, *self._conditions(op)]
            for sub in op.regions if op.name != "ruled" else ():
                left += sub.yields
            fixed = fixed and op.name not in ("peek", "array_at")
        return _Deciding(list(loads), tuple(sorted(params)) if fixed else None)

    def _conditions(self, op: Op) -> Iterator[Value]:
        """Iterate over the values that decide the branches and loops around an op."""
        for outer in self.around[op]:
            yield from outer.operands
            if outer.name == "while":
                yield from While(outer).test.yields


class _Stamping:
    def __init__(
        self,
        fn: Function,
        deciding: tuple[int, ...] | None,
        sources: tuple[int, ...] | None,
        numbers: Sources,
        components: Components,
    ) -> None:
        self.fn, self.deciding, self.sources = fn, deciding, sources
        self.numbers, self.components = numbers, components
        self.b = Builder(loc=fn.loc)
        self.visible = set(fn.params)
        self.blocks = is_simt(fn) or bool(threads_of(fn))

    def of(self, chosen: Sequence[Value]) -> StampedFunction:
        fn, head = self.fn, Region()
        self.stamps = {p: Value(Array(INT64, 2), f"stamps_{p.name}") for p in chosen}
        self.sites: dict[Value, list[Op]] = {p: [] for p in chosen}
        self._note_parts()
        with self.b.into(head):
            self.thread = self._thread()
        # The ops of the kernel are visited before the head is prepended, which must not be stamped itself.
        self._region(fn.body)
        fn.body.ops[:0] = head.ops
        position = {p: k for k, p in enumerate(fn.params)}
        stamped = tuple(
            Stamped(position[p], tuple(op.loc for op in sites), self.blocks, self.deciding, self.sources, self.sizes[p])
            for p, sites in self.sites.items()
        )
        params = (*fn.params, *self.stamps.values())
        return StampedFunction(replace(fn, name=f"{fn.name}_stamps", params=params, updates=()), stamped)

    def _note_parts(self) -> None:
        """Note which components accesses touch, of arrays of which a store sets some: these have rows of their own."""
        ops = [op for op in walk(self.fn.body) if op.name in PLAIN_ELEMENTS and Access(op).array in self.stamps]
        self.stored = {op: found for op in ops if op.name in ELEMENT_STORES and (found := self.components.stored(op))}
        by_component = {Access(op).array for op in self.stored}
        self.sizes = {p: _size(p) if p in by_component else 1 for p in self.stamps}
        loads = [op for op in ops if op.name in ELEMENT_LOADS and Access(op).array in by_component]
        self.loaded = {op: self.components.loaded(op) for op in loads}
        for region in [self.fn.body, *(sub for op in walk(self.fn.body) for sub in op.regions)]:
            for load in [op for op in region.ops if any(isinstance(k, Value) for k in self.loaded.get(op) or ())]:
                _put_before(region, load, [k for k in self.loaded[load] or () if isinstance(k, Value)])

    def _thread(self) -> Value:
        """Return the number of the thread among all of the launch."""
        b = self.b
        if not self.blocks:
            return thread_number(b, self.fn)
        block = b.cast(b.one("block_index"), INT64) if is_simt(self.fn) else thread_number(b, self.fn)
        # Of cooperating threads each has a number of its own within its block, which has room for BLOCK of them.
        return b.add(b.mul(block, b.const(BLOCK, INT64)), b.cast(b.one("block_thread"), INT64))

    def _region(self, region: Region) -> None:
        ops, region.ops = region.ops, []
        outside = set(self.visible)
        self.visible.update(region.params)
        with self.b.into(region):
            for op in ops:
                if op.name != "ruled":
                    self.numbers.enter(self.b, op)
                    for sub in op.regions:
                        self._region(sub)
                    self.numbers.leave(self.b, op)
                region.ops.append(op)
                self.visible.update(op.results)
                with self.b.at(op.loc):
                    if not op.regions or op.name == "ruled":
                        self.numbers.note(self.b, op)
                    # All loads, those too that are proved to read what their own thread stores: several threads may
                    # store there, which nothing but the stamps tells.
                    if op.name in ACCESSES and Access(op).array in self.stamps:
                        self._stamp(op)
        self.visible = outside

    def _stamp(self, op: Op) -> None:
        b, access = self.b, Access(op)
        sites = self.sites[access.array]
        sites.append(op)
        if len(sites) > SITES:
            raise AutodiffError(
                f"{self.fn.name} accesses {access.array.name} in more than {SITES} places",
                loc=op.loc,
                remedy="split the kernel in several",
            )
        element, size = self._element(access)
        number = b.add(b.mul(self.thread, b.const(SITES, INT64)), b.const(len(sites), INT64))
        whole = self._stored_numbers(access.value) if op.name in ELEMENT_STORES else None
        inside = Region()
        with b.into(inside):
            for row, is_part, stored in self._rows(op, element, whole):
                if is_part is None:
                    self._stamp_row(op, row, number, stored)
                    continue
                touched = Region()
                with b.into(touched):
                    self._stamp_row(op, row, number, stored)
                b.if_(is_part, touched, Region())
        is_inside = b.one("and", b.one("ge", element, b.const(0, INT64)), b.one("lt", element, size))
        b.if_(is_inside, inside, Region())

    def _rows(
        self, op: Op, element: Value, whole: _Stored | None
    ) -> Iterator[tuple[Value, Value | None, _Stored | None]]:
        """The rows of an element that an access touches, each with a condition, if there is one, and what is stored."""
        b, size = self.b, self.sizes[Access(op).array]
        if size == 1:
            yield element, None, whole
            return
        first, parts = b.mul(element, b.const(size, INT64)), self.stored.get(op)
        every: dict[Component, _Stored | None] = dict.fromkeys(range(size), whole)
        if parts is not None:
            every = {k: self._stored_numbers(v) for k, v in parts.items()}
        elif (loaded := self.loaded.get(op)) is not None and self._are_known(loaded):
            every = dict.fromkeys(loaded, None)
        for component, number in every.items():
            if isinstance(component, int):
                yield b.add(first, b.const(component, INT64)), None, number
                continue
            place, zero, end = b.cast(component, INT64), b.const(0, INT64), b.const(size, INT64)
            place = b.select(b.one("lt", place, zero), b.add(place, end), place)
            is_part = b.one("and", b.one("ge", place, zero), b.one("lt", place, end))
            yield b.add(first, place), is_part, number

    def _are_known(self, components: Iterable[Component]) -> bool:
        """Return whether components are known where the builder stands; if not, a load counts as one of all."""
        return all(isinstance(k, int) or k in self.visible for k in components)

    def _stamp_row(self, op: Op, row: Value, number: Value, stored: _Stored | None) -> None:
        b, array = self.b, Access(op).array
        zero, one = b.const(0, INT64), b.const(1, INT64)
        if op.name in ELEMENT_LOADS:
            self._keep(array, row, READ, number)
            latest = b.one("load", self.stamps[array], row, b.const(LATEST, INT64), wrap=(False, False))
            is_own = b.one("eq", latest, b.add(self.thread, one))
            self._greatest(array, row, EARLY, b.select(is_own, zero, number))
        elif op.name in ELEMENT_STORES:
            assert stored is not None
            self._keep(array, row, STORED, number)
            for field, one_of_it in zip((VALUE, SOURCE), stored, strict=True):
                self._keep(array, row, field, one_of_it)
            latest = b.add(self.thread, one)
            b.one("atomic", self.stamps[array], row, b.const(LATEST, INT64), latest, kind="exch", wrap=(False, False))
        else:
            self._keep(array, row, UPDATED, number)

    def _element(self, access: Access) -> tuple[Value, Value]:
        """Return the number of an element of an array, and the number of elements that the array has."""
        b = self.b
        element, size = b.const(0, INT64), b.const(1, INT64)
        for axis, (v, may_wrap) in enumerate(zip(access.index, access.wrap, strict=True)):
            extent = b.cast(b.one("shape", access.array, axis=axis), INT64)
            place = b.cast(v, INT64)
            if may_wrap:
                place = b.select(b.one("lt", place, b.const(0, INT64)), b.add(place, extent), place)
            element = b.add(b.mul(element, extent), place)
            size = b.mul(size, extent)
        return element, size

    def _stored_numbers(self, value: Value) -> _Stored:
        """Numbers for what is stored, and for how it was computed, from 1 on."""
        b = self.b
        mask, one = b.const(_MASK, INT64), b.const(1, INT64)
        found, source = self.numbers.bits(b, value), self.numbers.of(b, value)
        return b.add(b.one("and", found, mask), one), b.add(b.one("and", source, mask), one)

    def _keep(self, array: Value, element: Value, field: int, number: Value) -> None:
        """Keep the greatest and the least number."""
        self._greatest(array, element, field, number)
        # Only an atomic maximum is used: the least number is kept as the greatest of its complement.
        self._greatest(array, element, field + 1, self.b.sub(self.b.const(LEAST, INT64), number))

    def _greatest(self, array: Value, element: Value, field: int, number: Value) -> None:
        place = (self.stamps[array], element, self.b.const(field, INT64))
        self.b.one("atomic", *place, number, kind="max", wrap=(False, False))


def _put_before(region: Region, load: Op, indices: Iterable[Value]) -> None:
    """Move the arithmetic of indices in front of a load of the same region, if nothing else is behind them."""
    made = {result: op for op in region.ops for result in op.results}
    place = {op: k for k, op in enumerate(region.ops)}
    moved: set[Op] = set()
    left = list(indices)
    while left:
        op = made.get(left.pop())
        if op is None or place[op] < place[load] or op in moved:
            continue
        # What depends on the load comes to it, and a load is not pure.
        if op.regions or lookup(op.name).effect is not Effect.PURE:
            return
        moved.add(op)
        left += op.operands
    first = [op for op in region.ops if op in moved]
    ops = [op for op in region.ops if op not in moved]
    at = ops.index(load)
    region.ops = [*ops[:at], *first, *ops[at:]]


def _size(array: Value) -> int:
    """Return the number of components of an array's element."""
    t = array.type
    assert isinstance(t, Array)
    return t.dtype.size if isinstance(t.dtype, (Vec, Mat)) else 1
