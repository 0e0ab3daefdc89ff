"""Updates of array elements that go to one address for all threads of a launch, and can be summed before.

:func:`uniform_sums` returns the ops that are *uniform sums*, and :func:`needed_for` the ops by which the addresses of
these sums are computed once more after the threads have ended. The CPU adds up one partial sum per chunk, CUDA one per
block. :func:`uniform_extremes` returns the minima and maxima that the CPU takes in the same way.
:func:`distinct_names` tells which parameters have to be different memory for that, and for other ways to update
elements: a launch that gives them one array takes the program in which they are one parameter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from diffkern.analysis.affine import widens
from diffkern.analysis.uniformity import launch_values
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import (
    ACCUMULATES,
    ARRAY_EXTENTS,
    ATOMICS,
    ELEMENT_ACCUMULATES,
    ELEMENT_ATOMICS,
    ELEMENTS,
    EXTREMA,
    LOADS,
    NAN_EXTREMA,
    UPDATES,
    WRITES,
)
from diffkern.ir.ops.scalar import CASTS, SUMS
from diffkern.ir.types import BOOL, STORAGE_ONLY, Array, Scalar, scalar_of
from diffkern.ir.views import Access, literal

__all__ = [
    "added_to",
    "differ",
    "distinct_names",
    "needed_for",
    "ordered_update",
    "uniform_extremes",
    "uniform_sums",
    "updates_atomically",
    "used_update",
    "used_values",
]


def used_values(fn: Function) -> set[Value]:
    """Return all values that an op or a yield reads."""
    used: set[Value] = set(fn.body.yields)
    for op in walk(fn.body):
        used.update(op.operands)
        for region in op.regions:
            used.update(region.yields)
    return used


def needed_for(op: Op, invariant: dict[Value, Op | None]) -> list[Op]:
    """Return the ops that compute the indices of a uniform sum, definitions before uses."""
    wanted = set(Access(op).index)
    needed: list[Op] = []
    # From the last definition to the first, each adding the operands it needs itself.
    for value, definition in reversed(invariant.items()):
        if value in wanted and definition is not None:
            needed.append(definition)
            wanted.update(definition.operands)
    return needed[::-1]


def uniform_sums(fn: Function, invariant: dict[Value, Op | None], used: set[Value]) -> list[Op]:
    """Return the ``atomic`` and ``accumulate`` ops whose address is the same for all threads, in program order."""
    ops = list(walk(fn.body))
    return [op for op in ops if _is_sum(op, invariant, used, ops)]


def _is_sum(op: Op, invariant: dict[Value, Op | None], used: set[Value], ops: Iterable[Op]) -> bool:
    if op.name in ELEMENT_ACCUMULATES:
        if op.attrs["mode"] != "reduce":
            return False
    elif op.name not in ELEMENT_ATOMICS or op.attrs["kind"] not in SUMS or op.results[0] in used:
        return False
    else:
        others = [o for o in ops if Access(op).array in o.operands and not _only_accumulates(o, used)]
        if not all(_elsewhere(op, o, invariant) for o in others):
            return False  # the thread may look at what it added
    # The array may be one of several that a branch chose, and sums of booleans are not sums.
    if Access(op).array not in invariant or scalar_of(Access(op).array.type) == BOOL:
        return False
    return all(v in invariant for v in Access(op).index)


def uniform_extremes(fn: Function, invariant: dict[Value, Op | None], used: set[Value]) -> list[Op]:
    """Return the minima and maxima at an address that is the same for all threads, in program order.

    Nothing else may happen to the elements: an extremum of a chunk comes after all that its threads do.
    """
    ops = list(walk(fn.body))
    return [op for op in ops if _is_extreme(op, used) and _is_by_itself(op, invariant, used, ops)]


def _is_extreme(op: Op, used: set[Value]) -> bool:
    if op.name not in ELEMENT_ATOMICS or op.attrs["kind"] not in NAN_EXTREMA:
        return False
    dtype = Access(op).array.type.dtype  # type: ignore[union-attr]  # an access is of an array
    is_number = isinstance(dtype, Scalar) and dtype not in STORAGE_ONLY and dtype.bits in (32, 64)
    # Extrema with a pair leave the tangent of the thread that wins.
    return is_number and op.result not in used and "pair" not in op.attrs


def _is_by_itself(op: Op, invariant: dict[Value, Op | None], used: set[Value], ops: Iterable[Op]) -> bool:
    array, kind = Access(op).array, op.attrs["kind"]
    if array not in invariant or not all(v in invariant for v in Access(op).index):
        return False
    others = (o for o in ops if o is not op and array in o.operands and o.name not in ARRAY_EXTENTS)
    return all((_is_extreme(o, used) and o.attrs["kind"] == kind) or _elsewhere(op, o, invariant) for o in others)


def _elsewhere(op: Op, other: Op, invariant: Mapping[Value, Op | None]) -> bool:
    """Return whether another op is an access of other elements of the array than the one that an op updates."""
    array = Access(op).array
    # Memory in which two indices can be one place is not contiguous; a value that is the array is used in any way.
    if other.name not in ELEMENTS or other.operands.count(array) > 1 or Access(other).array is not array:
        return False
    if Access(other).along or not isinstance(array.type, Array) or array.type.layout != "C":
        return False
    mine, theirs = Access(op).index, Access(other).index
    pairs = zip(mine, theirs, strict=True) if len(mine) == len(theirs) else ()
    return any(differ(*(_constant(v, invariant) for v in pair)) for pair in pairs)


def differ(i: int | None, k: int | None) -> bool:
    """Return whether two constant indices are different places of an axis, whatever its extent; None is any index.

    Negative ones count from the end: of two with different signs it depends on the extent.
    """
    return i is not None and k is not None and i != k and (i < 0) == (k < 0)


def _constant(v: Value, invariant: Mapping[Value, Op | None]) -> int | None:
    """Return the value of an integer that is a literal, perhaps of another type; None for other integers."""
    op = invariant.get(v)
    while op is not None and op.name in CASTS and widens(op):
        op = invariant.get(op.operands[0])
    number = literal(op)
    return None if number is None else int(number)


def _only_accumulates(op: Op, used: set[Value]) -> bool:
    if op.name in ELEMENT_ATOMICS:
        return op.attrs["kind"] in SUMS and op.results[0] not in used
    return op.name in ELEMENT_ACCUMULATES | ARRAY_EXTENTS


# -- names of one array ------------------------------------------------------------------------------------------------
# Parameters that a program takes for different memory.


def distinct_names(fn: Function, *, of_tangents: bool = False) -> tuple[tuple[int, int], ...]:
    """Return the pairs of parameters to which a launch must not give one array, the first of each the lesser.

    What threads only add to an array may be added when they end, which a thread does not see that reads it by another
    name. An update is plain where the accesses by the same name prove that no other thread updates the element.

    Parameters
    ----------
    fn : Function
        A forward program.
    of_tangents : bool, optional
        Whether parameters have tangents: of one array there is one, so that each that is written counts.
    """
    used, position = used_values(fn), {p: k for k, p in enumerate(fn.params)}
    added, stored, read, looked_at = set[Value](), set[Value](), set[Value](), set[Value]()
    for op in walk(fn.body):
        if op.name in UPDATES and op.attrs.get("mode") != "plain":
            added.add(Access(op).array)
        elif op.name in WRITES:
            stored.add(Access(op).array)
        if op.name in LOADS:
            read.add(op.operands[0])
        if not _only_accumulates(op, used):
            looked_at.update(op.operands)
    found = set()
    for a in (p for p in fn.params if p in added or p in stored):
        owned = a in stored and a in read
        for b in fn.params:
            is_met = (a in added and b in looked_at) or (owned and (b in added or b in stored))
            if b is not a and _may_be_one(a, b) and (is_met or (of_tangents and (b in looked_at or b in added))):
                found.add((min(position[a], position[b]), max(position[a], position[b])))
    return tuple(sorted(found))


def _may_be_one(a: Value, b: Value) -> bool:
    """Return whether a launch can give two parameters one array."""
    s, t = a.type, b.type
    return isinstance(s, Array) and isinstance(t, Array) and (s.dtype, s.ndim, s.outer) == (t.dtype, t.ndim, t.outer)


# -- order of updates --------------------------------------------------------------------------------------------------
# Dependence of a program's result on the order in which its threads update memory.
#
# ``ordered_update`` returns the first op whose result, or the contents of memory after it, depends on that order to
# the last bit. Sums of floats do, unless they go to one address and are added up in the order of the chunks; so does
# the value an atomic update returns, and which of two zeros is the smaller. Sums of integers and bits do not, as long
# as all updates of an array are of one kind: a maximum and a minimum do not commute.


def ordered_update(fn: Function, *, sums_in_order: bool, exact: Collection[Value] | None = None) -> Op | None:
    """Return the first op whose outcome depends on the order of threads, None if there is none.

    Parameters
    ----------
    fn : Function
        The function as it is compiled.
    sums_in_order : bool
        Whether sums into one address for all threads are added up in a fixed order.
    exact : collection of Value, optional
        Arrays whose sums are exact, and the same in any order; None of a target without exact sums, whose extrema of
        floats depend on the order too.
    """
    used = used_values(fn)
    in_order = set(map(id, uniform_sums(fn, launch_values(fn), used))) if sums_in_order else set()
    mixed = _updated_in_several_ways(fn)
    for op in filter(_updates, walk(fn.body)):
        is_known = id(op) in in_order or Access(op).array in (exact or ())
        if not is_known and _is_ordered(op, used, mixed, has_extrema=exact is not None):
            return op
    return None


def _updated_in_several_ways(fn: Function) -> set[Value]:
    """Return the arrays whose elements threads may update by kinds that do not commute."""
    kinds: dict[Value, set[str]] = {}
    for op in filter(_updates, walk(fn.body)):
        if op.attrs.get("mode") != "plain":
            kind = op.attrs.get("kind", "add")
            kinds.setdefault(Access(op).array, set()).add("add" if kind == "sub" else kind)
    return {array for array, found in kinds.items() if len(found) > 1}


def used_update(fn: Function) -> Op | None:
    """Return the first update by many threads whose result a function uses: that depends on their order.

    Those by which the winner of an extremum leaves its tangent, which have a ``pair``, give the same in any order.
    """
    used = used_values(fn)
    updates = (op for op in walk(fn.body) if _updates(op) and "pair" not in op.attrs and op.attrs.get("kind") != "take")
    return next((op for op in updates if any(result in used for result in op.results)), None)


def _updates(op: Op) -> bool:
    return op.name in ATOMICS or op.name in ACCUMULATES


def _is_ordered(op: Op, used: Collection[Value], mixed: Collection[Value], *, has_extrema: bool) -> bool:
    if op.name in ACCUMULATES and op.attrs["mode"] == "plain":
        return False
    if any(result in used for result in op.results) or op.attrs.get("kind") in ("exch", "cas"):
        return True
    if Access(op).array in mixed:
        return True
    if has_extrema and op.attrs.get("kind") in EXTREMA and "pair" not in op.attrs:
        return False
    t = Access(op).array.type
    return scalar_of(t.dtype).is_float  # type: ignore[union-attr]  # an access is of an array


# -- arrays that are only added to -------------------------------------------------------------------------------------
# Arrays that threads only add to: chunks can have copies of them, and need no atomic updates.
#
# For a function as it is emitted, and the ops that are summed for each chunk by itself, ``added_to`` returns the
# positions of such parameters.


def _atomic_updates(fn: Function, summed: Collection[Op]) -> list[Op]:
    others = set(summed)
    found = (op for op in walk(fn.body) if op.name in UPDATES and op not in others)
    return [op for op in found if op.attrs.get("mode") != "plain"]


def updates_atomically(fn: Function, summed: Collection[Op]) -> bool:
    """Return whether threads update elements atomically, besides the ops that are summed for each chunk."""
    return bool(_atomic_updates(fn, summed))


def added_to(fn: Function, summed: Collection[Op]) -> tuple[int, ...]:
    """Return the parameters that threads only add to, if they update nothing else."""
    updates, used = _atomic_updates(fn, summed), used_values(fn)
    # A copy per chunk starts at zero and is added at the end, which is right for sums alone.
    if not all(op.name in ELEMENT_ATOMICS and op.attrs["kind"] in SUMS for op in updates):
        return ()
    if any(op.result in used or not _is_summable(op) for op in updates):
        return ()
    arrays = {Access(op).array for op in updates}
    others = (op for op in walk(fn.body) if op.name not in ELEMENT_ATOMICS | ARRAY_EXTENTS)
    if any(not arrays.isdisjoint(op.operands) for op in others):
        return ()
    return tuple(k for k, p in enumerate(fn.params) if p in arrays)


def _is_summable(op: Op) -> bool:
    t = Access(op).array.type
    assert isinstance(t, Array)
    s = scalar_of(t.dtype)
    return t.layout == "C" and s not in STORAGE_ONLY and s != BOOL and s.bits in (32, 64)
