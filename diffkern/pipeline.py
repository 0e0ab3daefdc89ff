"""The page to read first: how a Python function becomes forward and adjoint programs, one named line per step.

::

    lower_kernel   Python function + argument types -> typed IR              (frontend)
    optimise       IR -> IR of the forward program                           (opt)
    prepare        IR -> normalised IR: what differentiation expects         (opt)
    differentiate  normalised IR + active parameters -> adjoint IR           (ad)
    settle         adjoint IR -> adjoint IR with the ways it accumulates     (targets)

The passes of each step stand in a list; from here to the form that is emitted, a target gives the list (``lowering``).
:class:`~diffkern.compilation.Compilation` goes these ways for a kernel, on to a :class:`~diffkern.program.Program`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from diffkern.ad.adjoint import Swept
from diffkern.ad.derivative import Derivative
from diffkern.ad.reverse import reverse
from diffkern.analysis.blocks import check_adjoint, check_blocks
from diffkern.analysis.conflicts import analyse_conflicts
from diffkern.analysis.thread_free import check_thread_free
from diffkern.frontend.lowering import lower
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function
from diffkern.ir.passes import PLAIN, Context, Pass, run
from diffkern.ir.stages import ADJOINT, NORMAL, PRIMAL, PROGRAM, WRITTEN
from diffkern.ir.structs import Argument
from diffkern.ir.types import is_differentiable
from diffkern.lower.marks import blocks_of_one, mark_threads, mark_unfused
from diffkern.lower.updates import finalize_element_updates
from diffkern.opt.cse import eliminate_common
from diffkern.opt.dce import eliminate
from diffkern.opt.fold import fold
from diffkern.opt.hoist import hoist_integers
from diffkern.opt.promote import promote
from diffkern.opt.ranges import clear_wraps
from diffkern.opt.sink import guard_singular, sink_singular
from diffkern.opt.unroll import unroll
from diffkern.options import FORWARD, Variant
from diffkern.targets import target_named

COMPARABLE = (
    Pass("fold", WRITTEN, WRITTEN, fold),
    Pass("cse", WRITTEN, WRITTEN, eliminate_common),
    Pass("ranges", WRITTEN, WRITTEN, partial(clear_wraps, bounds=True)),
    Pass("hoist", WRITTEN, WRITTEN, hoist_integers),
    Pass("cse-loads", WRITTEN, WRITTEN, partial(eliminate_common, loads=True)),
)
"""What makes equal indices one value, of a copy by which it is found out whether threads share elements."""

WRITTEN_TO_PRIMAL = (
    Pass("barriers", WRITTEN, WRITTEN, check_blocks),
    Pass("updates", WRITTEN, PRIMAL, partial(finalize_element_updates, simplify=partial(run, COMPARABLE))),
    Pass("threads", PRIMAL, PRIMAL, mark_threads),
    Pass("unfused", PRIMAL, PRIMAL, mark_unfused),
)
ONE_THREAD = (Pass("blocks-of-one", PRIMAL, PRIMAL, blocks_of_one),)
"""For targets on which a block that works on tiles is one thread."""

ONE_CALL = (
    Pass("threads", WRITTEN, WRITTEN, check_thread_free),
    Pass("updates", WRITTEN, PRIMAL, partial(finalize_element_updates, simplify=partial(run, COMPARABLE))),
    Pass("unfused", PRIMAL, PRIMAL, mark_unfused),
)
"""For a func that no kernel calls (:mod:`diffkern.device_functions`)."""

FOLD = Pass("fold", PRIMAL, PRIMAL, fold)
UNROLL = Pass("unroll", PRIMAL, PRIMAL, unroll)
CSE = Pass("cse", PRIMAL, PRIMAL, eliminate_common)
CSE_LOADS = Pass("cse-loads", PRIMAL, PRIMAL, partial(eliminate_common, loads=True))
RANGES = Pass("ranges", PRIMAL, PRIMAL, clear_wraps)
HOIST = Pass("hoist", PRIMAL, PRIMAL, hoist_integers)
PROMOTE = Pass("promote", PRIMAL, PRIMAL, promote)
DCE = Pass("dce", PRIMAL, PRIMAL, eliminate)
SINK = Pass("sink", PRIMAL, NORMAL, sink_singular)  # last: sharing would undo it
DCE_NORMAL = Pass("dce", NORMAL, NORMAL, eliminate)

OPTIMISE = (FOLD, CSE, RANGES, DCE)
NORMALISE = (FOLD, UNROLL, CSE, RANGES, HOIST, CSE_LOADS, PROMOTE, DCE, CSE_LOADS, DCE, SINK, DCE_NORMAL)
NORMALISE_MAP = (FOLD, UNROLL, CSE, DCE, SINK, Pass("guard", NORMAL, NORMAL, guard_singular), DCE_NORMAL)
"""For the function of a map of tiles."""


def tidy(swept: Swept) -> Swept:
    """Clean up behind a sweep, in place; until then the function is of no stage."""
    shared = (swept.remove_dead_replays, eliminate, swept.merge_barriers, swept.allocate)
    for step in (*(shared if swept.memory is not None else ()), eliminate):
        step(swept.fn)
    return swept


CLEAN = (
    Pass("fold", ADJOINT, ADJOINT, fold),
    Pass("cse-loads", ADJOINT, ADJOINT, partial(eliminate_common, loads=True)),
    Pass("dce", ADJOINT, ADJOINT, eliminate),
)


def lower_kernel(
    pyfunc: Callable[..., object], types: Sequence[Argument], variant: Variant = FORWARD, context: Context | None = None
) -> Function:
    """Typed IR of a kernel."""
    simt, context = target_named(variant.target, variant.compiler).simt, context or Context(verify=variant.is_debug)
    block_dim = (variant.block_dim if simt else None) or 1
    fn = context.done("lower", WRITTEN, lower(pyfunc, types, block_dim=block_dim, layout=variant.layout))
    return run(WRITTEN_TO_PRIMAL if simt else WRITTEN_TO_PRIMAL + ONE_THREAD, fn, context)


def optimise(fn: Function, context: Context = PLAIN) -> Function:
    """The forward program of a kernel, in place."""
    return run(OPTIMISE, fn, context)


def prepare(fn: Function, context: Context = PLAIN) -> Function:
    """A normalised copy of a kernel."""
    return run(NORMALISE, clone_function(fn), context)


def differentiate(
    fn: Function,
    active: Iterable[int],
    variant: Variant = FORWARD,
    slots: int | None = None,
    context: Context | None = None,
) -> Derivative:
    """The adjoint of a prepared function with respect to its parameters ``active``.

    ``slots`` is how many states a loop keeps, instead of as many as fit into memory.
    """
    target, context = target_named(variant.target, variant.compiler), context or Context(verify=variant.is_debug)
    budget = target.stack_budget(variant.options.stack_bytes, slots)
    chosen = sorted(k for k in active if is_differentiable(fn.params[k].type))
    adjoint = tidy(reverse(fn, chosen, budget, partial(run, NORMALISE_MAP))).adjoint()
    run(CLEAN, context.done("reverse", ADJOINT, adjoint.fn), context)
    check_adjoint(adjoint.fn, target.shared_bytes)
    conflicts = analyse_conflicts(adjoint.fn, adjoint.buffers)
    context.done("conflicts", PROGRAM, adjoint.fn)
    return Derivative(adjoint, tuple(conflicts))


def settle(d: Derivative, variant: Variant = FORWARD, context: Context = PLAIN) -> Derivative:
    """The adjoint, in place, with the modes of its accumulations as its target needs them."""
    conflicts = target_named(variant.target, variant.compiler).settle(d.fn, d.buffers, d.conflicts, variant.accumulate)
    context.done("accumulations", PROGRAM, d.fn)
    return replace(d, conflicts=conflicts)
