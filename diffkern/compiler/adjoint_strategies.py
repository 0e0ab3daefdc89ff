"""The ways in which an adjoint may accumulate besides its plain program: gathered, sorted, joint with the primal.

For an adjoint as the reverse sweep has left it, and a variant: whether launches may ask for a way, what its program is,
and what the run time is told to choose by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from diffkern.ad.adjoint import Adjoint
from diffkern.ad.gather import gathered, gathering_pays
from diffkern.ad.joint import can_join, joined
from diffkern.ad.shifted_gather import clearing, gathered_from_neighbours, neighbours_pay
from diffkern.analysis.sorted_updates import Unsorted, sorted_sums
from diffkern.analysis.work import thread_cost
from diffkern.compiler import passes
from diffkern.contracts.manifest import Conflict, Gather, SortedSum
from diffkern.contracts.options import Variant
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function
from diffkern.ir.passes import PassOptions, run
from diffkern.ir.stages import ADJOINT
from diffkern.targets import target_named

__all__ = [
    "clearing_behind", "copied", "gathering", "gathering_condition", "joint_work", "may_be_gathered", "may_be_joined",
    "may_gather", "sorted_sums_of",
]  # fmt: skip


def sorted_sums_of(
    adjoint: Adjoint, conflicts: Sequence[Conflict], variant: Variant
) -> tuple[SortedSum, ...] | Unsorted:
    """Return how the destinations of racing contributions are computed, or why they cannot be sorted.

    Only plain programs have such sums. A deterministic one has none: whether an order is known depends on earlier
    launches, and a sorted sum rounds in its own way.
    """
    simt = target_named(variant.target, variant.compiler).simt
    if variant.is_debug or variant.deterministic or variant.form.accumulate != "plain" or simt:
        return ()
    # Parameters come in this order: those of the primal, saved values, cotangents.
    own = len(adjoint.fn.params) - len(adjoint.saved) - len(adjoint.cotangents)
    found = sorted_sums(adjoint.fn, adjoint.buffers, conflicts, own)
    if isinstance(found, Unsorted):
        return replace(found, cotangent=adjoint.cotangents[found.cotangent])
    return tuple(replace(one, cotangent=adjoint.cotangents[one.cotangent]) for one in found)


def gathering(adjoint: Adjoint, variant: Variant, context: PassOptions) -> Adjoint:
    """Return the adjoint whose threads gather, changed in place."""
    found = gathered(copied(adjoint)) or (gathered_from_neighbours(adjoint) if _is_gpu(variant) else None)
    if found is None:
        raise ValueError(f"no thread of {adjoint.fn.name} adds to an element of each other one, or of neighbours")
    # Collecting like terms reorders sums, so it takes fast_math.
    shared = passes.GATHER if variant.options.fast_math else passes.SHARE
    run(shared, context.done("gather", ADJOINT, found[0].fn), context)
    return found[0]


def clearing_behind(adjoint: Adjoint) -> Adjoint:
    """Return the adjoint that clears what the one whose threads gather has read, changed in place."""
    found = clearing(adjoint)
    if found is None:
        raise ValueError(f"no thread of {adjoint.fn.name} gathers from neighbours")
    return found


def may_gather(variant: Variant) -> bool:
    """Return whether launches may ask for a program whose threads gather the contributions of others.

    On a CPU that is less work only where like terms may be collected, in products of any order. On a GPU, atomic
    updates of one element by all threads cost more than recomputation.
    """
    # Checked programs and those with another way of accumulating stay as the user's kernel implies.
    if variant.is_debug or variant.form.accumulate != "plain":
        return False
    return bool(variant.options.fast_math) or _is_gpu(variant)


def _is_gpu(variant: Variant) -> bool:
    return target_named(variant.target, variant.compiler).simt


def may_be_gathered(adjoint: Adjoint, variant: Variant) -> tuple[Adjoint, Gather] | None:
    """Return an adjoint whose threads gather, made of a copy, and the condition for running it; None without one.

    Neighbours are no matter of a CPU: its chunks of neighbouring threads run one after the other.
    """
    found = gathered(copied(adjoint))
    if found is None and _is_gpu(variant) and (found := gathered_from_neighbours(copied(adjoint))) is not None:
        run(passes.SHARE, found[0].fn)
    return found


def gathering_condition(
    fn: Function, conflicts: Sequence[Conflict], other: tuple[Adjoint, Gather] | None, variant: Variant
) -> Gather | None:
    """Return when an adjoint whose threads gather is to run in place of one; None if it would be no gain."""
    if other is None:
        return None
    adjoint, gather = other
    if not gather.fewer:
        return gather if gathering_pays(fn, conflicts, adjoint) else None
    if not neighbours_pay(fn, adjoint, exactly=variant.deterministic):
        return None
    # In any order: exact sums cost more than a launch even where there are few.
    return replace(gather, fewer=0) if variant.deterministic else gather


def copied(adjoint: Adjoint) -> Adjoint:
    """Return the same adjoint with a function of its own."""
    return replace(adjoint, fn=clone_function(adjoint.fn))


def may_be_joined(variant: Variant) -> bool:
    """Return whether sequences may ask for a program that runs the primal of the launch as well as the adjoint."""
    # There are joint programs only for the plain case: without checks, and with cotangents that may be taken and summed
    # in any order.
    form = variant.form
    if variant.is_debug or variant.deterministic or form.preserve_cotangents or form.accumulate != "plain":
        return False
    return not target_named(variant.target, variant.compiler).simt


def joint_work(primal: Function, adjoint: Adjoint) -> float | None:
    """Return the work of a program that does what a prepared function and its adjoint do, as a part of that of the two.

    None if there can be no such program.
    """
    if not can_join(primal, adjoint):
        return None
    # The joined function shares loads and intermediate values; only its cost after fusion tells how much that saves.
    apart = thread_cost(primal) + thread_cost(adjoint.fn)
    return thread_cost(run(passes.JOIN, joined(primal, copied(adjoint)).fn)) / apart
