"""Arrays with at most one storing thread per element, whatever the arguments.

The proof takes all plain stores to a parameter together; it holds for launches with no more axes than the kernel asks
for.
"""

from __future__ import annotations

from diffkern.analysis.affine import AffineForms
from diffkern.analysis.threads import Never, relate
from diffkern.analysis.tile_access import shadow
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ELEMENT_STORES
from diffkern.ir.views import Access


def one_writer_each(fn: Function) -> frozenset[Value]:
    """Return the parameters whose plain stores are one-to-one in the thread index."""
    fn = shadow(fn).fn
    forms = AffineForms(fn)
    stores: dict[Value, list[Op]] = {}
    for op in walk(fn.body):
        if op.name in ELEMENT_STORES:
            stores.setdefault(Access(op).array, []).append(op)
    return frozenset(array for array, ops in stores.items() if _one_writer(forms, ops, fn.tid_arity))


def _one_writer(forms: AffineForms, stores: list[Op], arity: int) -> bool:
    relations = (relate(forms, a, b) for k, a in enumerate(stores) for b in stores[k:])
    return all(isinstance(r, Never) or r.same_thread(arity) for r in relations)
