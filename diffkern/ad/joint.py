"""A launch and its adjoint as one program, for sequences in which one follows the other.

A prepared function and its adjoint become one function that stores the results of the primal and adds to the
cotangents. Values that both need are computed once, by the optimiser's common subexpression elimination.
"""

from __future__ import annotations

from dataclasses import replace

from diffkern.ad.adjoint import Adjoint
from diffkern.analysis.blocks import is_simt
from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner, clone_function
from diffkern.ir.nodes import Function, walk
from diffkern.ir.ops.memory import ACCUMULATES, ATOMICS, LOADS, WRITES
from diffkern.ir.ops.rule import COTANGENT_ARRAYS
from diffkern.ir.types import Array, Tile
from diffkern.ir.views import Access
from diffkern.opt.removals import remove_rules, without_reports

__all__ = ["can_join", "joined"]


def can_join(fn: Function, adjoint: Adjoint) -> bool:
    """Return whether threads may run their part of the adjoint before others have begun their part of the primal.

    This is the case if no thread reads what another one may write: the primal does not read the arrays it writes, and
    the adjoint reads neither their contents before the launch nor those after it.
    """
    ops = list(walk(fn.body))
    if adjoint.saved or is_simt(fn) or any(isinstance(v.type, Tile) for op in ops for v in op.results):
        return False
    if any(op.name in ACCUMULATES or op.name in COTANGENT_ARRAYS for op in ops):
        return False
    written = {Access(op).array for op in ops if op.name in WRITES}
    read = {Access(op).array for op in ops if op.name in LOADS}
    used = {v for op in ops for v in op.operands} | {v for op in ops for r in op.regions for v in r.yields}
    # The result of an atomic update depends on other threads, which may not have run yet.
    if any(op.name in ATOMICS and not used.isdisjoint(op.results) for op in ops):
        return False
    # Which memory a nested array refers to is known to the launch alone, so writes are restricted to plain parameters.
    if any(not isinstance(v.type, Array) or v.type.outer or v not in fn.params for v in written):
        return False
    return written.isdisjoint(read) and written.isdisjoint(fn.params[k] for k in adjoint.final)


def joined(fn: Function, adjoint: Adjoint) -> Adjoint:
    """Return an adjoint whose threads first execute the primal; it is of the stage of an adjoint.

    Parameters
    ----------
    fn : Function
        The prepared primal, which is not changed.
    adjoint : Adjoint
        Its adjoint, whose function is consumed.
    """
    primal = remove_rules(without_reports(clone_function(fn)))
    b = Builder()
    own = adjoint.fn.params[: len(fn.params)]
    # The primal is put on the adjoint's own parameters, so that equal subexpressions of the two become identical.
    Cloner(b, dict(zip(fn.params, own, strict=True))).ops(primal.body.ops)
    body = adjoint.fn.body
    # Each thread runs its part of the primal first, so that its part of the adjoint can reuse the values computed
    # there.
    body.ops[:0] = b.region.ops
    return replace(adjoint, fn=replace(adjoint.fn, body=body))
