"""Facts about the innermost loops of a thread: which of them LLVM makes vectors of, and what their trips wait for.

A thread alone is not always as slow as the number of its operations says, and sometimes slower. Of a loop that walks
along a row, LLVM executes several trips at once; a loop in which each trip needs the number of the one before it waits
for every operation on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from diffkern.analysis.affine import AffineForms
from diffkern.ir.nodes import Op, Region, Value, walk
from diffkern.ir.ops.memory import ELEMENT_LOADS, ELEMENT_STORES, ELEMENTS
from diffkern.ir.ops.scalar import SUMS, UNPIPELINED
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Scalar, scalar_of
from diffkern.ir.views import Access, For, If, is_branch, is_loop, loop
from diffkern.targets.cpu.lanes.scalars import is_by_lane
from diffkern.targets.emit.memory import element_size

__all__ = ["is_float", "is_vectorised", "longest_wait", "walks_row"]

_FLOAT_WAIT, _OTHER_WAIT = 8.0, 2.0
"""The wait for the result of an operation on floats of cost 1, in the time of operations of which none waits
for another one; of any other operation."""


def walks_row(op: Op, along: Value, forms: AffineForms) -> bool:
    """Return whether consecutive trips of a loop with the index `along` access neighbouring elements."""
    *leading, last = (forms.of(v) for v in Access(op).index)
    return last.terms.get(along) in (1, -1) and not any(along in form.terms for form in leading)


def is_vectorised(op: Op, forms: AffineForms, *, reassociates: bool) -> bool:
    """Return whether LLVM executes several trips of a loop at once, where it is free to.

    Parameters
    ----------
    op
        A loop.
    forms
        The affine forms of its function.
    reassociates
        Whether sums of floats may be in any order.
    """
    made = loop(op)
    if not isinstance(made, For):
        return False
    inside = _defined(made.body)
    return (
        all(_has_vectors(inner, made.index, inside, forms) for inner in made.body.ops)
        and not _passed_on(made.body, forms)
        and _are_sums(made, reassociates=reassociates)
    )


def _defined(region: Region) -> set[Value]:
    """Return the values that change from trip to trip."""
    return {*region.params, *(v for op in walk(region) for v in op.results)}


def _has_vectors(op: Op, along: Value, inside: set[Value], forms: AffineForms) -> bool:
    """Return whether LLVM has a vector form of an op for several trips."""
    row = lookup(op.name)
    if op.name not in ELEMENTS:
        called = row.elementary and op.name not in UNPIPELINED
        return row.family in ("scalar", "composite") and not called and not is_by_lane(op)
    if element_size(Access(op).array.type.dtype) > 1 or not Access(op).index:  # type: ignore[union-attr]  # an Array
        return False
    if walks_row(op, along, forms):
        return True
    still = all(t not in inside for v in Access(op).index for t in forms.of(v).terms)
    return still and op.name in ELEMENT_LOADS


def _passed_on(body: Region, forms: AffineForms) -> dict[Op, Op]:
    """Return the loads of a loop of elements that a trip before may have written, each with the op that writes."""
    accesses = [op for op in walk(body) if op.name in ELEMENTS]
    writes = [op for op in accesses if op.name not in ELEMENT_LOADS]
    return {
        op: write
        for write in writes
        for op in accesses
        if op.name not in ELEMENT_STORES and Access(op).array is Access(write).array and _is_elsewhere(op, write, forms)
    }


def _is_elsewhere(op: Op, write: Op, forms: AffineForms) -> bool:
    """Return whether an access is at a constant distance from another one, which is not 0."""
    apart = [forms.of(x) - forms.of(y) for x, y in zip(Access(op).index, Access(write).index, strict=True)]
    return all(form.is_constant for form in apart) and any(form.const for form in apart)


def _are_sums(made: For, *, reassociates: bool) -> bool:
    """Return whether all that a loop carries is sums that may be in any order."""
    producer = {v: op for op in made.body.ops for v in op.results}
    uses = Counter(v for op in walk(made.body) for v in op.operands)

    def is_sum(v: Value, start: Value) -> bool:
        """Return whether a value is `start` and numbers that are added to it, with no other use on the way."""
        while v is not start:
            op = producer.get(v)
            if op is None or op.name not in SUMS:
                return False
            v = next((x for x in op.operands if x is start or _leads(x, start, producer)), op.operands[0])
            if uses[v] != 1:
                return False
        return True

    return all(
        (reassociates or not is_float(start)) and is_sum(after, start)
        for start, after in zip(made.carried, made.yields, strict=True)
    )


def _leads(v: Value, start: Value, producer: dict[Value, Op]) -> bool:
    """Return whether a sum begins at a value."""
    while (op := producer.get(v)) is not None and op.name in SUMS:
        if start in op.operands:
            return True
        v = op.operands[0]
    return False


def is_float(v: Value) -> bool:
    """Return whether a value is a floating-point number."""
    return isinstance(v.type, Scalar) and scalar_of(v.type).is_float


def longest_wait(op: Op, usual_ways: Callable[[Op], Iterable[Region]], forms: AffineForms) -> float:
    """Return how long a trip of an innermost loop waits for numbers that the one before it computes."""
    made = loop(op)
    passed = _passed_on(made.body, forms)
    waits = dict.fromkeys(made.carried, 0.0)
    waits.update((v, _FLOAT_WAIT) for read in passed for v in read.results)
    _wait(made.body, waits, usual_ways)
    return max(
        (waits.get(v, 0.0) for v in (*made.yields, *(Access(write).value for write in passed.values()))), default=0.0
    )


def _wait(region: Region, waits: dict[Value, float], usual_ways: Callable[[Op], Iterable[Region]]) -> None:
    """Note for each value of a region how long it is waited for from the beginning of the trip."""
    for op in region.ops:
        if is_branch(op):
            ways = tuple(usual_ways(op))
            for sub in ways:
                _wait(sub, waits, usual_ways)
            # Which way it goes is predicted, and not waited for.
            for result, *choices in If(op).choices:
                found = [waits[v] for v, arm in zip(choices, op.regions, strict=True) if arm in ways and v in waits]
                if found:
                    waits[result] = max(found)
        elif not is_loop(op) and (begins := [waits[v] for v in op.operands if v in waits]):
            waits.update(dict.fromkeys(op.results, max(begins) + _own_wait(op)))


def _own_wait(op: Op) -> float:
    row = lookup(op.name)
    if not row.cost or op.name in ELEMENTS:
        return _FLOAT_WAIT if op.name in ELEMENT_LOADS else 0.0
    floats = (row.flop or row.elementary) and any(map(is_float, op.results))
    return row.cost * (_FLOAT_WAIT if floats else _OTHER_WAIT)
