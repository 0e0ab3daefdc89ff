"""Stamps on elements of arrays: which threads of a launch read them, and which write to them.

From a normalised kernel and the arrays for which races are not ruled out, :func:`stamp_accesses` makes a
:class:`StampedFunction`, which has an array of stamps for each of them as its last parameters. It is run on copies of
the arrays it writes; then :mod:`diffkern.runtime.stamps` checks whether two threads race.

The stamps of an element are described in :mod:`diffkern.ir.stamp_layout`. They begin at zero and only grow, so the
order of threads does not matter, except to the last one: the latest writer, by which a thread recognises that it reads
its own store. On the CPU the threads of such a program run one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from diffkern.ad.numbering import thread_number
from diffkern.analysis.blocks import is_simt
from diffkern.analysis.dependence import classify_loads
from diffkern.analysis.tile_threads import threads_of
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.stamp_layout import BLOCK, EARLY, LATEST, LEAST, READ, SITES, STORED, UPDATED, VALUE
from diffkern.ir.types import INT64, Array, Scalar
from diffkern.ir.views import Access, While
from diffkern.manifest import Stamped
from diffkern.ops.memory import ACCESSES, ATOMICS, LOADS

__all__ = ["StampedFunction", "stamp_accesses"]

_MASK: Final = (1 << 61) - 1
_PRIME: Final = 1_099_511_628_211  # of the FNV hash


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
        deciding = program.deciding(accesses)
        more = {Access(op).array for op in deciding.loads if op in facts and facts[op].unproved} - chosen
        if not more:
            return _Stamping(fn, deciding.params).of([p for p in fn.params if p in chosen])
        chosen |= more


def _check(accesses: Sequence[Op]) -> None:
    for op in accesses:
        name = Access(op).array.name
        if op.name not in ("load", "store", "atomic"):
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

    def _visit(self, region: Region, around: tuple[Op, ...]) -> None:
        for op in region.ops:
            self.ops.append(op)
            self.around[op] = around
            self.source.update(dict.fromkeys(op.results, op))
            for sub in op.regions if op.name != "ruled" else ():
                self.source.update(dict.fromkeys(sub.params, op))
                self._visit(sub, (*around, op))

    def deciding(self, accesses: Sequence[Op]) -> _Deciding:
        """Return the loads and parameters that the indices and enclosing branches and loops of accesses depend on."""
        position = {p: k for k, p in enumerate(self.fn.params)}
        params: set[int] = set()
        loads: dict[Op, None] = {}
        fixed, seen = True, set[Value]()
        left = [v for op in accesses for v in (*Access(op).index, *self._conditions(op))]
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
    def __init__(self, fn: Function, deciding: tuple[int, ...] | None) -> None:
        self.fn, self.deciding = fn, deciding
        self.b = Builder(loc=fn.loc)
        self.blocks = is_simt(fn) or bool(threads_of(fn))

    def of(self, chosen: Sequence[Value]) -> StampedFunction:
        fn, head = self.fn, Region()
        self.stamps = {p: Value(Array(INT64, 2), f"stamps_{p.name}") for p in chosen}
        self.sites: dict[Value, list[Op]] = {p: [] for p in chosen}
        with self.b.into(head):
            self.thread = self._thread()
        # The ops of the kernel are visited before the head is prepended, which must not be stamped itself.
        self._region(fn.body)
        fn.body.ops[:0] = head.ops
        position = {p: k for k, p in enumerate(fn.params)}
        stamped = tuple(
            Stamped(position[p], tuple(op.loc for op in sites), self.blocks, self.deciding)
            for p, sites in self.sites.items()
        )
        params = (*fn.params, *self.stamps.values())
        return StampedFunction(replace(fn, name=f"{fn.name}_stamps", params=params, updates=()), stamped)

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
        with self.b.into(region):
            for op in ops:
                for sub in op.regions if op.name != "ruled" else ():
                    self._region(sub)
                region.ops.append(op)
                # All loads, those too that are proved to read what their own thread stores: several threads may store
                # there, which nothing but the stamps tells.
                if op.name in ACCESSES and Access(op).array in self.stamps:
                    with self.b.at(op.loc):
                        self._stamp(op)

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
        zero, one = b.const(0, INT64), b.const(1, INT64)
        # A number encodes the thread and the site, so the report of a race can name two lines of the source.
        number = b.add(b.mul(self.thread, b.const(SITES, INT64)), b.const(len(sites), INT64))
        inside = Region()
        with b.into(inside):
            if op.name == "load":
                self._keep(access.array, element, READ, number)
                latest = b.one("load", self.stamps[access.array], element, b.const(LATEST, INT64), wrap=(False, False))
                # A read of the thread's own latest store is not one of the entry contents, and does not conflict with
                # that store.
                is_own = b.one("eq", latest, b.add(self.thread, one))
                self._greatest(access.array, element, EARLY, b.select(is_own, zero, number))
            elif op.name == "store":
                self._keep(access.array, element, STORED, number)
                # Several threads may store the same value to an element without harm, so its hash is stamped as well.
                self._keep(access.array, element, VALUE, self._hash(access.value))
                latest = b.add(self.thread, one)
                place = (self.stamps[access.array], element, b.const(LATEST, INT64))
                b.one("atomic", *place, latest, kind="exch", wrap=(False, False))
            else:
                self._keep(access.array, element, UPDATED, number)
        # An index out of bounds would corrupt the stamps of another element; the launch's own bounds check reports it.
        is_inside = b.one("and", b.one("ge", element, zero), b.one("lt", element, size))
        b.if_(is_inside, inside, Region())

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

    def _hash(self, value: Value) -> Value:
        """Return a number for a value, from 1 on; different values most likely have different numbers."""
        b = self.b
        found = b.const(0, INT64)
        for part in b.components(value):
            assert isinstance(part.type, Scalar)
            # Bits rather than the float's value: NaN and the two zeros have to compare as the memory would.
            bits = b.one(f"bits_of_{part.type}", part) if part.type.is_float else part
            found = b.add(b.mul(found, b.const(_PRIME, INT64)), b.cast(bits, INT64))
        return b.add(b.one("and", found, b.const(_MASK, INT64)), b.const(1, INT64))

    def _keep(self, array: Value, element: Value, field: int, number: Value) -> None:
        """Keep the greatest and the least number."""
        self._greatest(array, element, field, number)
        # Only an atomic maximum is used: the least number is kept as the greatest of its complement.
        self._greatest(array, element, field + 1, self.b.sub(self.b.const(LEAST, INT64), number))

    def _greatest(self, array: Value, element: Value, field: int, number: Value) -> None:
        place = (self.stamps[array], element, self.b.const(field, INT64))
        self.b.one("atomic", *place, number, kind="max", wrap=(False, False))
