"""The accumulations of an adjoint that may be plain additions, and the measures a launch must take for the others.

:func:`analyse_conflicts` returns a :class:`Conflict` per cotangent buffer, and puts accumulations to addresses that are
the same for all threads in mode ``reduce``. The union of all sites of a buffer counts, not each site alone: ``ct_x[i -
1] += a`` and ``ct_x[i + 1] += b`` are each one-to-one, but together they are not.

``none`` no two threads touch one element ``bounded`` only threads whose indices differ by a vector within ``reach`` do:
two colours of chunks suffice ``reduce`` only uniform addresses: partial sums per chunk ``general`` any two threads may:
private copies (where ``private`` is true) or atomics
"""

from __future__ import annotations

from collections.abc import Sequence

from diffkern.analysis.affine import AffineForms
from diffkern.analysis.threads import Never, relate, uniform
from diffkern.analysis.tile_access import shadow
from diffkern.contracts.manifest import Conflict
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ACCUMULATES, ELEMENT_ACCUMULATES, ELEMENTS
from diffkern.ir.types import Array
from diffkern.ir.views import Access


def analyse_conflicts(fn: Function, buffers: Sequence[Value]) -> list[Conflict]:
    """Classify each cotangent buffer; sets the mode of uniform accumulations to ``reduce``."""
    # Tile accesses are loops over single elements in the shadow, so one analysis serves both.
    seen = shadow(fn)
    forms = AffineForms(seen.fn)
    sites: dict[Value, list[Op]] = {b: [] for b in buffers}
    for op in walk(seen.fn.body):
        if op.name in ELEMENTS and Access(op).array in sites:
            sites[Access(op).array].append(op)
    found = [_in_elements() if _points(b) else _classify(forms, fn.tid_arity, sites[b]) for b in buffers]
    # Modes are noted in the ops of the shadow; transfer them to the tile ops they stand for.
    for access, op in seen.accesses.items():
        if "mode" in access.attrs:
            op.attrs = {**op.attrs, "mode": access.attrs["mode"]}
    return found


def use_atomics(fn: Function, buffers: Sequence[Value]) -> None:
    """Make every plain accumulation into the given buffers atomic, in place."""
    chosen = set(buffers)
    for op in walk(fn.body):
        if op.name in ACCUMULATES and Access(op).array in chosen and op.attrs["mode"] == "plain":
            op.attrs = {**op.attrs, "mode": "atomic"}


def finalize_blocks(fn: Function, buffers: Sequence[Value], conflicts: Sequence[Conflict]) -> tuple[Conflict, ...]:
    """Make accumulations atomic, in place, where blocks of threads that work together on the CPU may race.

    A launch of whole blocks is not cut into chunks of two colours, and not into groups with copies.
    """
    racing = [b for b, c in zip(buffers, conflicts, strict=True) if c.kind in ("bounded", "general")]
    use_atomics(fn, racing)
    return tuple(c if b not in racing else Conflict("none") for b, c in zip(buffers, conflicts, strict=True))


def _points(buffer: Value) -> bool:
    """Return whether a buffer is of arrays in elements of an array, several of which may be the same."""
    return isinstance(buffer.type, Array) and buffer.type.outer > 0


def _in_elements() -> Conflict:
    """Return the conflict of such buffers: no private copy could stand in for the arrays that elements refer to."""
    return Conflict("general", private=False)


def _classify(forms: AffineForms, arity: int, sites: list[Op]) -> Conflict:
    # A private copy starts at zero and is added at the end, so a thread must not read or overwrite the buffer.
    private = all(op.name in ELEMENT_ACCUMULATES for op in sites)
    if private:
        for op in sites:
            # Uniform addresses are removed from the comparison: summed per chunk, they race with nothing.
            if uniform(forms, Access(op).index):
                op.attrs = {**op.attrs, "mode": "reduce"}
    left = [op for op in sites if op.attrs.get("mode") != "reduce"]
    if not any(op.name in ELEMENT_ACCUMULATES for op in left):
        return Conflict("reduce" if len(left) < len(sites) else "none", private=private)
    reach: list[list[int]] = [[0, 0] for _ in range(arity)]
    overlap = False
    # Pairs include each site with itself: x[i // 2] races with its own copy in another thread.
    for k, a in enumerate(left):
        for b in left[k:]:
            adding = (a.name in ELEMENT_ACCUMULATES) + (b.name in ELEMENT_ACCUMULATES)
            if not adding or (adding == 1 and Access(a).index == Access(b).index):
                continue  # stores: one thread per element, by the language's precondition
            # Relations of all pairs are combined: the sites of one buffer have to agree on a reach for its colouring.
            relation = relate(forms, a, b)
            if isinstance(relation, Never) or relation.same_thread(arity):
                continue
            if not relation.pins(arity):
                return Conflict("general", private=private)
            overlap = True
            for axis, (low, high) in relation.axes.items():
                # The relation bounds t - t' for a before b; both orders occur, so the reach is symmetrised.
                reach[axis][0] = min(reach[axis][0], low, -high)
                reach[axis][1] = max(reach[axis][1], high, -low)
    if overlap:
        return Conflict("bounded", tuple((lo, hi) for lo, hi in reach), private)
    return Conflict("none", private=private)
