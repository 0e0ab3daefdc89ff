"""Provenance numbers of floats: values with equal numbers are equal, and so are their derivatives.

:class:`Sources` adds to a function, in place, a 64-bit number for each float that is asked for. The number is a hash
of the way in which the float is computed. Two threads may store equal numbers by chance, as zeros are; they count as
one writer only if they have computed the value from the very same elements.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ELEMENT_LOADS, WRITES
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.scalar import LITERALS, SELECTIONS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import BOOL, INT64, Mat, Scalar, Vec, is_differentiable
from diffkern.ir.views import Access, For, is_branch, is_control, is_loop

__all__ = ["Sources"]

_MASK: Final = (1 << 61) - 1
_PRIME: Final = 1_099_511_628_211  # of the FNV hash
_START: Final = 0x1CE4E5B9BF58476D


class Sources:
    """The numbers of a function's values.

    Parameters
    ----------
    fn : Function
        The function. Nothing is added to it before :meth:`follow` comes to an op.
    wanted : iterable of Value
        The values whose numbers are asked for.

    Attributes
    ----------
    needed
        The values that have numbers.
    loads
        Those of which the element alone counts, that they read.
    is_fixed
        Whether no number depends on what a float is.
    """

    def __init__(self, fn: Function, wanted: Iterable[Value]) -> None:
        self.made: dict[Value, Op] = {}
        self.entry: dict[Value, tuple[Op, int]] = {}  # of what a loop carries: where
        for op in walk(fn.body):
            self.made.update(dict.fromkeys(op.results, op))
            if is_loop(op):
                for carried in _carried(op):
                    self.entry.update((v, (op, k)) for k, v in enumerate(carried))
        self.position = {p: k for k, p in enumerate(fn.params)}
        self.written = {Access(op).array for op in walk(fn.body) if op.name in WRITES}
        self.needed: set[Value] = set()
        self.loads: set[Op] = set()
        self.is_fixed = True
        self._need(wanted)
        self.numbers: dict[Value, Value] = {}

    def _need(self, wanted: Iterable[Value]) -> None:
        left = list(wanted)
        while left:
            v = left.pop()
            if v in self.needed or not (_is_plain(v) and is_differentiable(v.type)):
                continue
            self.needed.add(v)
            op, entry = self.made.get(v), self.entry.get(v)
            if entry is not None:
                left += _around(*entry)
            elif op is None:
                continue
            elif is_loop(op):
                left += _around(op, op.results.index(v))
            elif is_branch(op):
                left += [sub.yields[op.results.index(v)] for sub in op.regions]
            elif op.name in ELEMENT_LOADS and Access(op).array in self.position:
                self.loads.add(op)
                self.is_fixed = self.is_fixed and Access(op).array not in self.written
            else:
                self.is_fixed = self.is_fixed and (op.name in LITERALS or _is_followed(op))
                left += op.operands

    # -- what is added -----------------------------------------------------------------------------------------------

    def enter(self, b: Builder, op: Op) -> None:
        """Let the regions of a loop take numbers with what it carries; they have not been gone through."""
        if not is_loop(op):
            return
        carried = _carried(op)
        places = [k for k, v in enumerate(op.results) if v in self.needed]
        init = op.operands[-len(op.results) :] if op.results else ()
        op.operands = (*op.operands, *(self.of(b, init[k]) for k in places))
        for region, values in zip(op.regions, carried, strict=True):
            added = tuple(Value(INT64) for _ in places)
            region.params = (*region.params, *added)
            self.numbers.update((values[k], number) for k, number in zip(places, added, strict=True))

    def leave(self, b: Builder, op: Op) -> None:
        """Let what an op with regions yields come with numbers, when these have been gone through."""
        if not is_control(op):
            return
        results = op.results
        places = [k for k, v in enumerate(results) if v in self.needed]
        for region in op.regions[-1:] if op.name == "while" else op.regions:
            with b.into(region):
                region.yields = (*region.yields, *(self.of(b, region.yields[k]) for k in places))
        added = tuple(Value(INT64) for _ in places)
        op.results = (*results, *added)
        if is_branch(op):
            op.attrs = {**op.attrs, "types": (*op.attrs["types"], *(v.type for v in added))}
        self.numbers.update((results[k], number) for k, number in zip(places, added, strict=True))

    def of(self, b: Builder, v: Value) -> Value:
        """Return the number of a value, which is computed where the builder stands if it is no result of a region."""
        known = self.numbers.get(v)
        return known if known is not None else self._compute(b, v)

    def note(self, b: Builder, op: Op) -> None:
        """Compute the numbers of what an op without regions results in, right behind it."""
        for v in op.results:
            if v in self.needed:
                self.numbers[v] = self._compute(b, v)

    def _compute(self, b: Builder, v: Value) -> Value:
        op = self.made.get(v)
        if not is_differentiable(v.type):
            return self.bits(b, v)
        if v in self.position:
            return b.const(_text(f"parameter {self.position[v]}"), INT64)
        if op is None or op.name in LITERALS:
            return self.bits(b, v)
        if op in self.loads:
            access = Access(op)
            parts = [b.const(self.position[access.array], INT64), *(self.bits(b, k) for k in self._places(b, access))]
            parts += [self.bits(b, v)] if access.array in self.written else []
            return self._mixed(b, "load", parts)
        if op.name in SELECTIONS:
            cond, x, y = op.operands
            return b.select(cond, self.of(b, x), self.of(b, y))
        if not _is_followed(op):
            return self._mixed(b, op.name, [self.bits(b, v), *(self.of(b, x) for x in op.operands if _is_plain(x))])
        facts = sorted((name, str(fact)) for name, fact in op.attrs.items())
        return self._mixed(b, f"{op.name} {facts}", [self.of(b, x) for x in op.operands])

    def _places(self, b: Builder, access: Access) -> list[Value]:
        found = []
        for axis, (v, may_wrap) in enumerate(zip(access.index, access.wrap, strict=True)):
            place = b.cast(v, INT64)
            if may_wrap:
                extent = b.cast(b.one("shape", access.array, axis=axis), INT64)
                place = b.select(b.one("lt", place, b.const(0, INT64)), b.add(place, extent), place)
            found.append(place)
        return found

    def bits(self, b: Builder, v: Value) -> Value:
        """Return a number for a value itself."""
        parts = []
        for part in b.components(v):
            t = part.type
            assert isinstance(t, Scalar)
            bits = b.one(f"bits_of_{t}", part) if t.is_float else part
            parts.append(b.select(bits, b.const(1, INT64), b.const(0, INT64)) if t is BOOL else b.cast(bits, INT64))
        return parts[0] if len(parts) == 1 else self._mixed(b, "", parts)

    def _mixed(self, b: Builder, name: str, parts: Iterable[Value]) -> Value:
        found = b.const(_START ^ _text(name), INT64)
        for part in parts:
            found = b.mul(b.one("xor", found, part), b.const(_PRIME, INT64))
            found = b.one("xor", found, b.one("and", b.one("shr", found, b.const(29, INT64)), b.const(_MASK, INT64)))
        return found


def _carried(op: Op) -> list[tuple[Value, ...]]:
    """Return, for each region of a loop, the parameters that carry the loop's results."""
    return [For(op).carried] if op.name == "for" else [sub.params for sub in op.regions]


def _around(op: Op, k: int) -> list[Value]:
    """Return all values that stand for a loop's result: itself, its initial value, its yield and its parameters."""
    count = len(op.results)
    return [
        op.results[k],
        op.operands[len(op.operands) - count + k],
        op.regions[-1].yields[k],
        *(c[k] for c in _carried(op)),
    ]


def _is_followed(op: Op) -> bool:
    """Return whether a result is determined by the op's name, attributes and operands alone."""
    row = lookup(op.name)
    return (
        not op.regions and row.effect is Effect.PURE and row.family not in ("tile", "block") and op.name not in LITERALS
    )


def _is_plain(v: Value) -> bool:
    return isinstance(v.type, (Scalar, Vec, Mat))


def _text(name: str) -> int:
    return zlib.crc32(name.encode()) + (zlib.crc32(name[::-1].encode()) << 28)
