"""A launch and its adjoint as one program, for sequences in which one follows the other.

In: a prepared function, and its adjoint. Out: the function that stores the results of the primal and adds to the
cotangents. What both compute, they compute once; the optimiser sees to that.
"""

from __future__ import annotations

from dataclasses import replace

from diffkern.ad.adjoint import Adjoint
from diffkern.analysis.blocks import is_simt
from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner, clone_function
from diffkern.ir.nodes import Function, walk
from diffkern.ir.types import Array, Tile
from diffkern.ir.views import Access
from diffkern.ops.memory import ACCUMULATES, ATOMICS, LOADS, WRITES
from diffkern.opt.reports import without_reports
from diffkern.opt.rules import remove_rules

__all__ = ["can_join", "joined"]


def can_join(fn: Function, adjoint: Adjoint) -> bool:
    """Whether threads may go on with their part of the adjoint when others have not begun their part of the primal.

    So it is where no thread reads what another one may write: the primal reads nothing that it writes, and the adjoint
    neither what was there before the launch nor what is there after it.
    """
    ops = list(walk(fn.body))
    if adjoint.saved or is_simt(fn) or any(isinstance(v.type, Tile) for op in ops for v in op.results):
        return False
    if any(op.name in ACCUMULATES or op.name == "cotangent_array" for op in ops):
        return False
    written = {Access(op).array for op in ops if op.name in WRITES}
    read = {Access(op).array for op in ops if op.name in LOADS}
    used = {v for op in ops for v in op.operands} | {v for op in ops for r in op.regions for v in r.yields}
    if any(op.name in ATOMICS and not used.isdisjoint(op.results) for op in ops):
        return False
    if any(not isinstance(v.type, Array) or v.type.outer or v not in fn.params for v in written):
        return False
    return written.isdisjoint(read) and written.isdisjoint(fn.params[k] for k in adjoint.final)


def joined(fn: Function, adjoint: Adjoint) -> Adjoint:
    """Return an adjoint whose threads first do what the threads of the primal do; it is of the stage of an adjoint.

    Parameters
    ----------
    fn : Function
        The prepared primal, which is not changed.
    adjoint : Adjoint
        Its adjoint, whose function is taken over.
    """
    primal = remove_rules(without_reports(clone_function(fn)))
    b = Builder()
    own = adjoint.fn.params[: len(fn.params)]
    Cloner(b, dict(zip(fn.params, own, strict=True))).ops(primal.body.ops)
    body = adjoint.fn.body
    body.ops[:0] = b.region.ops
    return replace(adjoint, fn=replace(adjoint.fn, body=body))
