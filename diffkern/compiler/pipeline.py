"""The page to read first: how a Python function becomes forward and adjoint programs, one named line per step.

::

    lower_kernel   Python function + argument types -> typed IR              (frontend; ad, lower, of layers)
    optimise       IR -> IR of the forward program                           (opt)
    prepare        IR -> normalised IR: what differentiation expects         (opt)
    differentiate  normalised IR + active parameters -> adjoint IR           (ad)
    finalize       adjoint IR -> adjoint IR with the ways it accumulates     (targets)

The passes of each step stand in a list (:mod:`~diffkern.compiler.passes`); from here to the form that is emitted, a
target gives the list (``lowering``). :class:`~diffkern.compiler.compilation.Compilation` goes these ways for a kernel,
on to a :class:`~diffkern.compiler.program.Program`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise

from diffkern.ad.adjoint import Derivative, Swept
from diffkern.ad.forward import with_tangents
from diffkern.ad.inner import FuncDerivatives
from diffkern.ad.joint import joined
from diffkern.ad.load_log import Overwritten, Reading, overwritten_values
from diffkern.ad.reverse import reverse
from diffkern.ad.search_log import FoundSearches, logged_searches
from diffkern.ad.stamps import StampedFunction, stamp_accesses
from diffkern.analysis.blocks import check_adjoint
from diffkern.analysis.conflicts import analyse_conflicts
from diffkern.analysis.coverage import keep_taken
from diffkern.analysis.ids import order_reads
from diffkern.analysis.refusals import check_no_deposits, check_no_warps, check_not_pointed
from diffkern.analysis.sorted_updates import store_contributions
from diffkern.compiler import passes
from diffkern.compiler.adjoint_strategies import (
    clearing_behind,
    gathering,
    gathering_condition,
    joint_work,
    may_be_gathered,
    may_be_joined,
    may_gather,
    sorted_sums_of,
)
from diffkern.contracts.options import FORWARD, Merged, Variant, VmapLayer
from diffkern.frontend.statements.lowering import lower
from diffkern.ir.clone import clone_function, merge_parameters
from diffkern.ir.nodes import Function, Op, Value
from diffkern.ir.passes import PLAIN, PassOptions, run
from diffkern.ir.stages import ADJOINT, PRIMAL, PROGRAM, WRITTEN
from diffkern.ir.structs import Argument, leaves
from diffkern.ir.types import is_differentiable
from diffkern.lower.batch import with_examples
from diffkern.lower.nulls import has_nulls
from diffkern.opt.removals import without_assertions, without_breakpoints, without_reports
from diffkern.targets import target_named


def lower_kernel(
    pyfunc: Callable[..., object],
    types: Sequence[Argument],
    variant: Variant = FORWARD,
    context: PassOptions | None = None,
    *,
    stops: bool = False,
    marked: bool = False,
) -> Function:
    """Typed IR of a kernel; ``stops``: with the places where a debugger stops; ``marked``: and those of statements."""
    simt, context = target_named(variant.target, variant.compiler).simt, context or PassOptions(verify=variant.is_debug)
    # On a CPU a block is one thread.
    block_dim = (variant.block_dim if simt else None) or 1
    # The types of arguments for each level: the outermost layer takes them all, each passes on those of the layer
    # inside of it.
    taken = [*accumulate(reversed(variant.layers), lambda given, layer: layer.own(given), initial=types)]
    merged = merged_inside(variant, taken)
    written = lower(
        pyfunc,
        taken.pop(),
        block_dim=block_dim,
        layout=variant.layout,
        checked=variant.is_debug,
        simt=simt,
        marked=marked,
    )
    # In front of all passes: which updates are atomic depends on the accesses by every name of an array.
    merge_parameters(written, merged.pop())
    # A launch may have more axes than the kernel asks for; threads that differ only there do the same.
    written.tid_arity = written.tid_arity and max(written.tid_arity, variant.axes)
    written = order_reads(written if stops or marked else without_breakpoints(written))
    fn = context.done("lower", WRITTEN, written if variant.is_debug else without_assertions(written))
    # Before the other passes, which take each parameter for an array that exists.
    if has_nulls(fn) and not variant.is_debug:
        run(passes.NULLS, fn, context)
    fn = run(passes.WRITTEN_TO_PRIMAL if simt else (*passes.WRITTEN_TO_PRIMAL, passes.ONE_THREAD), fn, context)
    # Of the function without layers, so that the error points at the operation in the user's text.
    if variant.layers:
        check_no_warps(fn)
    # From the inside out, each layer on the function that the one before has made.
    for layer, given in zip(variant.layers, reversed(taken), strict=True):
        if isinstance(layer, VmapLayer):
            fn = context.done("batch", PRIMAL, with_examples(fn, layer, given))
        else:
            # An array that is an element of an array has no tangent next to it.
            check_not_pointed(fn)
            own, tangents = layer.parted(given)
            pairs = tuple(zip(layer.arguments, tangents, strict=True))
            fn = context.done("forward", PRIMAL, with_tangents(fn, own, pairs, FUNCS.tools, layer.leading))
        merge_parameters(fn, merged.pop())  # tangents too
    return fn


def merged_inside(variant: Variant, taken: Sequence[Sequence[Argument]]) -> list[Merged]:
    """The parameters that are given one array, for the kernel within each layer; ``taken`` are its arguments' types."""
    found = [variant.merged]
    for layer, (outside, own) in zip(reversed(variant.layers), pairwise(taken), strict=True):
        counts = [sum(1 for _ in leaves(t)) for t in outside]
        ends = accumulate(counts)
        places = [range(end - n, end) for n, end in zip(counts, ends, strict=True)]
        # An example has the parameters of the batch; the arguments of forward mode stand between their tangents.
        kept = places if isinstance(layer, VmapLayer) else layer.own(places)
        place = {outer: inner for inner, outer in enumerate(k for of_one in kept for k in of_one)}
        types = [leaf for t in own for _, leaf in leaves(t)]
        inside: dict[int, list[int]] = {}
        for outer in sorted({k for pair in found[-1] for k in pair} & place.keys()):
            inside.setdefault(dict(found[-1]).get(outer, outer), []).append(place[outer])
        # One that has an axis of examples is another array than one that has none.
        pairs = ((k, ks[0]) for ks in inside.values() for k in ks[1:] if types[k] == types[ks[0]])
        found.append(tuple(pairs))
    return found


def optimise(fn: Function, context: PassOptions = PLAIN) -> Function:
    """The forward program of a kernel, in place."""
    return run(passes.OPTIMISE, fn, context)


def prepare(fn: Function, context: PassOptions = PLAIN, *, joint: bool = False) -> Function:
    """A normalised copy of a kernel, which reports nothing: its forward program has done so.

    ``joint``: for a program that does the launch as well.
    """
    return run(passes.NORMALISE_JOINT if joint else passes.NORMALISE, without_reports(clone_function(fn)), context)


def log_values(
    fn: Function,
    active: Iterable[int],
    variant: Variant = FORWARD,
    slots: int | None = None,
    context: PassOptions | None = None,
) -> tuple[Overwritten, Swept]:
    """Find the values that a kernel overwrites and its adjoint needs, and the swept adjoint that reads them from a log.

    An AutodiffError says why they cannot be logged, or why the gradient cannot be proved right.
    """

    def sweep(reading: Reading) -> Swept:
        return _sweep(reading.fn, active, variant, slots, reading.logged)

    return overwritten_values(run(passes.NORMALISE, clone_function(fn), context or PLAIN), sweep)


def log_searches(
    fn: Function,
    active: Iterable[int],
    variant: Variant = FORWARD,
    slots: int | None = None,
    context: PassOptions = PLAIN,
) -> tuple[FoundSearches, Swept] | None:
    """Find the loops of a kernel of which its adjoint needs integers alone, and the swept adjoint without them.

    None if there are none, or if something else is the matter with the adjoint.
    """
    return logged_searches(fn, lambda reading: _sweep(prepare(reading, context), active, variant, slots))


def stamping(fn: Function, arrays: Collection[int], context: PassOptions | None = None) -> StampedFunction:
    """A copy of a kernel that stamps the elements of its parameters ``arrays`` with who reads and writes them."""
    # A stamping program runs threads one after the other, which lanes of a warp cannot.
    check_no_warps(fn)
    return stamp_accesses(run(passes.NORMALISE, without_reports(clone_function(fn)), context or PLAIN), arrays)


def differentiate(
    fn: Function,
    active: Iterable[int],
    variant: Variant = FORWARD,
    slots: int | None = None,
    context: PassOptions | None = None,
) -> Derivative:
    """The adjoint of a prepared function with respect to its parameters ``active``.

    ``slots`` is how many states a loop keeps, instead of as many as fit into memory.
    """
    swept = _sweep(fn, active, variant, slots)
    return finish(swept, variant, context, fn)


def _sweep(
    fn: Function, active: Iterable[int], variant: Variant, slots: int | None, logged: Mapping[Op, Value] | None = None
) -> Swept:
    """The reverse sweep through a prepared function, tidied up."""
    check_no_warps(fn)
    target = target_named(variant.target, variant.compiler)
    # How many states a loop may checkpoint is a limit of the target's memory for each thread.
    budget = target.stack_budget(variant.options.stack_bytes, slots)
    # In the order of the parameters: cotangents get their positions by it.
    chosen = sorted(k for k in active if is_differentiable(fn.params[k].type))
    normalise_map = partial(run, passes.NORMALISE_MAP)
    return reverse(fn, chosen, budget, normalise_map, logged or {}, stamped=variant.form.stamped).tidied()


def finish(
    swept: Swept, variant: Variant = FORWARD, context: PassOptions | None = None, primal: Function | None = None
) -> Derivative:
    """The adjoint that a reverse sweep has led to, joined with the prepared ``primal`` if the variant says so."""
    target, context = target_named(variant.target, variant.compiler), context or PassOptions(verify=variant.is_debug)
    adjoint = swept.adjoint()
    # The reverse sweep emits each derivative rule by itself; what they share is merged before anything measures the
    # adjoint.
    run(passes.CLEAN, context.done("reverse", ADJOINT, adjoint.fn), context)
    work = other = None
    # A program that gathers was asked for by name. Else it is only tried on a copy below, to tell the run time whether
    # it pays.
    if variant.form.gathers:
        adjoint = gathering(adjoint, variant, context)
    elif variant.form.clears:
        adjoint = clearing_behind(adjoint)
    elif primal is not None and may_gather(variant):
        other = may_be_gathered(adjoint, variant)
    if primal is not None and variant.form.joint:
        adjoint = joined(primal, adjoint)
        run(passes.JOIN, context.done("join", ADJOINT, adjoint.fn), context)
    elif primal is not None and may_be_joined(variant):
        work = joint_work(primal, adjoint)
    # After joining, which adds the primal's shared memory to that of the adjoint.
    check_adjoint(adjoint.fn, target.shared_bytes)
    if variant.deterministic:
        check_no_deposits(adjoint.fn)
    # Of the final function, as cleaning and joining remove accumulations and change their indices.
    conflicts = analyse_conflicts(adjoint.fn, adjoint.buffers)
    if variant.options.private_copies is False:
        conflicts = [replace(conflict, private=False) for conflict in conflicts]
    context.done("conflicts", PROGRAM, adjoint.fn)
    gather = gathering_condition(adjoint.fn, conflicts, other, variant)
    return Derivative(adjoint, tuple(conflicts), work, gather, sorted_sums_of(adjoint, conflicts, variant))


# `ad` differentiates funcs inside of kernels by these steps, and must not import the pipeline itself.
_ONE_CALL, _MAP, _CLEAN = (partial(run, p) for p in (passes.ONE_CALL, passes.NORMALISE_MAP, passes.CLEAN))
FUNCS = FuncDerivatives(_ONE_CALL, prepare, optimise, simplify=_MAP, clean=_CLEAN)


def finalize(d: Derivative, variant: Variant = FORWARD, context: PassOptions = PLAIN) -> Derivative:
    """The adjoint, in place, with the modes of its accumulations as its target needs them."""
    target = target_named(variant.target, variant.compiler)
    # A caller that keeps its cotangents must not find those that the adjoint has taken reset to zero.
    if variant.form.preserve_cotangents:
        keep_taken(d.fn)
    if variant.form.accumulate == "sorted":
        conflicts = store_contributions(d.fn, d.buffers, d.conflicts)
    else:
        conflicts = target.finalize(d.fn, d.buffers, d.conflicts, variant.form.accumulate)
    context.done("accumulations", PROGRAM, d.fn)
    return replace(d, conflicts=conflicts)
