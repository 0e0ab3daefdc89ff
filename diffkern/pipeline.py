"""The page to read first: how a Python function becomes forward and adjoint programs, one named line per step.

::

    lower_kernel   Python function + argument types -> typed IR              (frontend)
    optimise       IR -> IR of the forward program                           (opt)
    prepare        IR -> normalised IR: what differentiation expects         (opt)
    differentiate  normalised IR + active parameters -> adjoint IR           (ad)
    settle         adjoint IR -> adjoint IR with the ways it accumulates     (targets)

:class:`~diffkern.compilation.Compilation` goes these ways for one kernel, and on to object code, source and manifest: a
:class:`~diffkern.program.Program`, which is all that the run time ever sees of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from diffkern.ad.reverse import Adjoint, reverse
from diffkern.analysis.blocks import check_adjoint, check_blocks, with_blocks_of_one
from diffkern.analysis.conflicts import analyse_conflicts
from diffkern.analysis.tile_threads import threads_of
from diffkern.frontend.lowering import lower
from diffkern.ir import verify as verifier
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, Value, walk
from diffkern.ir.structs import Argument
from diffkern.ir.types import is_differentiable
from diffkern.lower.updates import settle_element_updates
from diffkern.manifest import Conflict
from diffkern.opt.cse import eliminate_common
from diffkern.opt.dce import eliminate
from diffkern.opt.fold import fold
from diffkern.opt.hoist import hoist_integers
from diffkern.opt.promote import promote
from diffkern.opt.ranges import clear_wraps
from diffkern.opt.sink import sink_singular
from diffkern.opt.unroll import unroll
from diffkern.options import FORWARD, Variant
from diffkern.targets import target_named


@dataclass(frozen=True)
class Derivative:
    """An adjoint with the analysis of its accumulations (one entry per cotangent)."""

    adjoint: Adjoint
    conflicts: tuple[Conflict, ...]

    @property
    def fn(self) -> Function:
        return self.adjoint.fn

    @property
    def saved(self) -> tuple[int, ...]:
        return self.adjoint.saved

    @property
    def cotangents(self) -> tuple[int, ...]:
        return self.adjoint.cotangents

    @property
    def buffers(self) -> tuple[Value, ...]:
        """The cotangent parameters."""
        count = len(self.adjoint.cotangents)
        return self.fn.params[len(self.fn.params) - count :]


def lower_kernel(pyfunc: Callable[..., object], types: Sequence[Argument], variant: Variant = FORWARD) -> Function:
    """Typed IR of a kernel."""
    simt = target_named(variant.target).simt
    fn = lower(pyfunc, types, block_dim=(variant.block_dim if simt else None) or 1)
    check_blocks(fn)
    settle_element_updates(fn)
    fn.threads = threads_of(fn)
    if not simt:
        with_blocks_of_one(fn)
    if any(op.name == "atomic" and op.attrs["kind"] in ("min", "max") for op in walk(fn.body)):
        # The adjoint finds the winner by comparing a replayed value with the stored extremum.
        fn.unfused = True
    return verified(fn, variant)


def verified(fn: Function, variant: Variant) -> Function:
    """The function, which must be valid IR; whether it is is found out in debug mode and in tests."""
    return verifier.verify(fn) if verifier.ALWAYS or variant.is_debug else fn


def optimise(fn: Function) -> Function:
    """What both forward and adjoint go through before code generation."""
    return eliminate(clear_wraps(eliminate_common(fold(fn))))


def prepare(fn: Function) -> Function:
    """A normalised copy: short constant loops unrolled, index expressions shared, memory carried in values."""
    fn = clone_function(fn)
    unroll(fold(fn))
    clear_wraps(eliminate_common(fn))
    eliminate_common(hoist_integers(fn), loads=True)
    eliminate(promote(fn))
    eliminate(eliminate_common(fn, loads=True))
    return eliminate(sink_singular(fn))  # last: sharing would undo it


def differentiate(
    fn: Function, active: Iterable[int], variant: Variant = FORWARD, slots: int | None = None
) -> Derivative:
    """The adjoint of a prepared function with respect to its parameters ``active``.

    ``slots`` is how many states a loop keeps, instead of as many as fit into memory.
    """
    target = target_named(variant.target)
    budget = target.stack_budget(variant.options.stack_bytes, slots)
    chosen = sorted(k for k in active if is_differentiable(fn.params[k].type))
    adjoint = reverse(verified(fn, variant), chosen, budget)
    verified(adjoint.fn, variant)
    eliminate(eliminate_common(fold(adjoint.fn), loads=True))
    check_adjoint(adjoint.fn, target.shared_bytes)
    buffers = adjoint.fn.params[len(adjoint.fn.params) - len(adjoint.cotangents) :]
    return Derivative(adjoint, tuple(analyse_conflicts(adjoint.fn, buffers)))


def settle(d: Derivative, variant: Variant = FORWARD) -> Derivative:
    """The adjoint, in place, with the modes of its accumulations as its target needs them."""
    target = target_named(variant.target)
    return replace(d, conflicts=target.settle(d.fn, d.buffers, d.conflicts, variant.accumulate))
