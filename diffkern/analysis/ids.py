"""The ids by which a kernel accesses objects of the host.

:func:`ids_of` finds the parameters and constants of a function that are such ids. If an id may come from somewhere else
(an element of an array, a component of a vector, arithmetic), a launch cannot tell which objects it accesses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from diffkern.contracts.manifest import Ids
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import BY_ADDRESS, DIFFERENTIATED_READS, ORDERED_FORMS, PLACE_WRITES, PLACES
from diffkern.ir.ops.scalar import CASTS, LITERALS, SELECTIONS
from diffkern.ir.types import Scalar
from diffkern.ir.views import If, is_branch, is_loop, loop
from diffkern.lang.queries import ADDRESS_BITS, KIND_BIT

__all__ = ["ids_behind", "ids_of", "kinds_of", "order_reads"]

_PLACE = (1 << ADDRESS_BITS) - 1
_KINDS = (1 << 63 - KIND_BIT) - 1


def ids_of(fn: Function) -> Ids | None:
    """Return the ids by which a function accesses objects, None if it may access any.

    Objects that are reached through an object's descriptor need no id of their own.
    """
    ops = list(walk(fn.body))
    numbers = {op.result: int(op.attrs["value"]) for op in ops if op.name in LITERALS and _is_word(op.result)}
    sources, position = _sources(ops, numbers), {p: k for k, p in enumerate(fn.params)}
    # From the accesses back to where their ids come from.
    found = {op.operands[0] for op in ops if op.name in PLACES}
    left, parameters, places = list(found), set(), set()
    while left:
        value = left.pop()
        if value in sources:
            new = [v for v in sources[value] if v not in found]
            found.update(new)
            left += new
        elif value in numbers:
            places.add(numbers[value] & _PLACE)
        elif value in position and _is_word(value):
            parameters.add(position[value])
        else:
            # Neither passed on nor given: the id is computed, so any object may be meant.
            return None
    return Ids(tuple(sorted(parameters)), tuple(sorted(places - {0})))


def kinds_of(fn: Function) -> tuple[int, ...]:
    """Return the kinds of the objects that a function looks at: those with which it compares the top bits of ids.

    There may be others among them, of numbers that are no kinds.
    """
    ops = list(walk(fn.body))
    numbers = {op.result: int(op.attrs["value"]) for op in ops if op.name in LITERALS and _is_word(op.result)}
    tops = {r for op in ops if len(op.operands) == 2 and numbers.get(op.operands[1]) == KIND_BIT for r in op.results}
    compared = {numbers[v] for op in ops if not tops.isdisjoint(op.operands) for v in op.operands if v in numbers}
    # A comparison of an id that is a constant is gone.
    captured = {number >> KIND_BIT & _KINDS for number in numbers.values()}
    return tuple(sorted(k for k in compared | captured if 0 < k <= _KINDS))


def ids_behind(fn: Function, names: Collection[str]) -> Ids | None:
    """Return the ids of the objects whose memory some operations access, None if it may be that of any."""
    ops = list(walk(fn.body))
    trace = _Trace(fn, ops)
    found = [trace.ids(op.operands[0]) for op in ops if op.name in names]
    known = [ids for ids in found if ids is not None]
    if len(known) < len(found):
        return None
    parameters = {k for ids in known for k in ids.parameters}
    return Ids(tuple(sorted(parameters)), tuple(sorted({p for ids in known for p in ids.places})))


class _Trace:
    """From where the addresses in a function come, through the words of descriptors as well."""

    def __init__(self, fn: Function, ops: Sequence[Op]) -> None:
        self.numbers = {op.result: int(op.attrs["value"]) for op in ops if op.name in LITERALS and _is_word(op.result)}
        self.sources = _sources(ops, self.numbers)
        self.sources.update((op.result, op.operands[:1]) for op in ops if op.name in BY_ADDRESS)
        self.position = {p: k for k, p in enumerate(fn.params)}
        self.known: dict[Value, Ids | None] = {}

    def ids(self, address: Value) -> Ids | None:
        """Return the ids from which an address comes, None if they are not known."""
        if address not in self.known:
            self.known[address] = self._found(address)
        return self.known[address]

    def _found(self, address: Value) -> Ids | None:
        left, seen, parameters, places = [address], {address}, set(), set()
        while left:
            value = left.pop()
            if value in self.sources:
                new = [v for v in self.sources[value] if v not in seen]
                seen.update(new)
                left += new
            elif value in self.numbers:
                places.add(self.numbers[value] & _PLACE)
            elif value in self.position and _is_word(value):
                parameters.add(self.position[value])
            else:
                return None
        return Ids(tuple(sorted(parameters)), tuple(sorted(places - {0})))


def order_reads(fn: Function) -> Function:
    """Keep reads of an object's memory in their order with what the function writes there, in place."""
    ops = list(walk(fn.body))
    if not any(op.name in PLACE_WRITES for op in ops):
        return fn
    trace, written = _Trace(fn, ops), ids_behind(fn, PLACE_WRITES)
    for op in ops:
        if op.name in DIFFERENTIATED_READS and _may_meet(trace.ids(op.operands[0]), written):
            op.name = ORDERED_FORMS[op.name]
    return fn


def _may_meet(one: Ids | None, other: Ids | None) -> bool:
    """Return whether two accesses may be of one object, if different parameters are ids of different objects."""
    if one is None or other is None:
        return True
    both = {*one.parameters} & {*other.parameters}, {*one.places} & {*other.places}
    # An object of a constant id may be given as a parameter as well, which a launch checks.
    return any(both)


def _sources(ops: Iterable[Op], numbers: Mapping[Value, int]) -> dict[Value, Sequence[Value]]:
    """Return, for each value that is passed on unchanged, the values it may be; none for a word of a descriptor.

    Passed on are ids and the addresses in them, through branches, loops, selections and casts.
    """
    found: dict[Value, Sequence[Value]] = {}
    for op in ops:
        if is_branch(op):
            found.update((result, either) for result, *either in If(op).choices)
        elif is_loop(op):
            for first, *inside, last, result in loop(op).chains:
                found.update((v, (first, last)) for v in (*inside, result))
        elif op.name in SELECTIONS:
            found[op.result] = op.operands[1:]
        elif op.name == "peek":
            found[op.result] = ()
        elif op.name in CASTS and _is_word(op.result) and _is_word(op.operands[0]):
            found[op.result] = op.operands
        # Masking with the address bits turns an id into its address, which identifies the same object.
        elif op.name == "and":
            masked = [v for v in op.operands if numbers.get(v) != _PLACE]
            if len(masked) == 1:
                found[op.result] = masked
    return found


def _is_word(value: Value) -> bool:
    """Return whether a value is an integer that holds an id."""
    return isinstance(value.type, Scalar) and value.type.is_integer and value.type.bits == 64
