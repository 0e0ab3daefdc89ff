"""Pairs of stores that two threads of a launch may make to one element, so that only the last one counts.

:func:`collisions` takes a function whose threads differ in their index alone. It finds the pairs of stores to
an array parameter for which it is not proved that no two threads make them to one element, or to one component of an
element. It finds none in a kernel whose threads cooperate in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement

from diffkern.analysis.affine import AffineForms
from diffkern.analysis.components import Components
from diffkern.analysis.exclusive import Exclusive
from diffkern.analysis.race_checks import RaceChecks
from diffkern.analysis.threads import Never, relate
from diffkern.contracts.manifest import RaceCheck
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ELEMENT_STORES, THREAD_INDICES
from diffkern.ir.ops.table import lookup
from diffkern.ir.ops.tile import of_block
from diffkern.ir.types import is_differentiable
from diffkern.ir.views import Access
from diffkern.process.dataclass import dataclass

__all__ = ["Collision", "collisions", "may_collide"]


@dataclass(frozen=True, slots=True)
class Collision:
    """A pair of stores, or one store twice, and the check that no two threads of a launch make them to one element."""

    first: Op
    second: Op
    check: RaceCheck | None


def may_collide(fn: Function) -> bool:
    """Return whether two threads may store floats to one element of a parameter, as far as that is not ruled out."""
    return (
        next(_pairs(fn, AffineForms(fn), lambda store: is_differentiable(Access(store).value.type)), None) is not None
    )


def collisions(fn: Function, is_active: Callable[[Op], bool]) -> list[Collision]:
    """Find the pairs of stores of which one at least is active: of what it stores a gradient is wanted."""
    forms = AffineForms(fn)
    checks = RaceChecks(fn, forms, fn)
    # Threads that differ only along an axis which nothing asks for do the same.
    asked = {op.attrs["axis"] for op in walk(fn.body) if op.name in THREAD_INDICES}
    repeated = len(asked) < fn.tid_arity
    found: list[Collision] = []
    settled: set[Value] = set()  # arrays that have to be looked at anyway
    for a, b in _pairs(fn, forms, is_active):
        if Access(a).array in settled:
            continue
        check = checks.of(a, b, same_thread=False, always=repeated)
        found.append(Collision(a, b, check))
        if check is None:
            settled.add(Access(a).array)
    return found


def _pairs(fn: Function, forms: AffineForms, counts: Callable[[Op], bool]) -> Iterator[tuple[Op, Op]]:
    """Pairs of stores that two threads may make to one element, of which one at least counts."""
    stores = _stores(fn)
    undecided = (
        (a, b)
        for ops in stores.values()
        for a, b in combinations_with_replacement(ops, 2)
        if (counts(a) or counts(b)) and not _by_one_thread(forms, a, b, fn.tid_arity)
    )
    facts: tuple[Exclusive, Components] | None = None
    for a, b in undecided:
        exclusive, components = facts = facts or (Exclusive(fn), Components(fn))
        if a is b or not (exclusive(a, b) or _are_disjoint(components, a, b)):
            yield a, b


def _stores(fn: Function) -> dict[Value, list[Op]]:
    """The stores to each array parameter; none of a kernel whose threads have more than an index."""
    found: dict[Value, list[Op]] = {}
    own = set(fn.params) if fn.tid_arity else set()
    for op in walk(fn.body):
        if lookup(op.name).family == "block" or of_block(op):
            return {}
        if op.name in ELEMENT_STORES and Access(op).array in own and not op.attrs.get("opaque"):
            found.setdefault(Access(op).array, []).append(op)
    return found


def _by_one_thread(forms: AffineForms, a: Op, b: Op, arity: int) -> bool:
    relation = relate(forms, a, b)
    return isinstance(relation, Never) or relation.same_thread(arity)


def _are_disjoint(components: Components, a: Op, b: Op) -> bool:
    """Return whether two stores set disjoint components, all of which are known constants."""
    one, other = components.stored(a), components.stored(b)
    if one is None or other is None:
        return False
    return all(isinstance(k, int) for k in (*one, *other)) and one.keys().isdisjoint(other)
