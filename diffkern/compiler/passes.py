"""The passes by their names, and the lists of them that make up the steps of :mod:`diffkern.compiler.pipeline`.

A pass is a function from one stage to another; a new one gets its line here. What follows for each target, a target
says itself (``lowering``).
"""

from __future__ import annotations

from functools import partial

from diffkern.analysis.blocks import check_blocks
from diffkern.analysis.refusals import check_thread_free
from diffkern.ir.passes import Pass, run
from diffkern.ir.stages import ADJOINT, NORMAL, PRIMAL, PROGRAM, WRITTEN
from diffkern.lower.marks import blocks_of_one, mark_threads, mark_unfused, poison_shared
from diffkern.lower.nulls import remove_null_accesses
from diffkern.lower.thread_arrays import arrays_as_vectors
from diffkern.lower.updates import finalize_element_updates
from diffkern.opt.cancel_pow2 import cancel_halves
from diffkern.opt.cse import eliminate_common
from diffkern.opt.dce import eliminate
from diffkern.opt.finite import watch_numbers
from diffkern.opt.fold import fold
from diffkern.opt.fuse import fuse_loops
from diffkern.opt.hoist import hoist_integers
from diffkern.opt.promote import promote
from diffkern.opt.ranges import clear_wraps
from diffkern.opt.reciprocals import share_reciprocals
from diffkern.opt.removals import remove_rules
from diffkern.opt.sink import guard_singular, sink_into_branches
from diffkern.opt.terms import collect_terms
from diffkern.opt.unroll import unroll, unroll_components

COMPARABLE = (
    Pass("fold", WRITTEN, WRITTEN, fold),
    Pass("cse", WRITTEN, WRITTEN, eliminate_common),
    Pass("ranges", WRITTEN, WRITTEN, partial(clear_wraps, bounds=True)),
    Pass("hoist", WRITTEN, WRITTEN, hoist_integers),
    Pass("cse-loads", WRITTEN, WRITTEN, partial(eliminate_common, loads=True)),
)
"""Passes that make equal indices one value, for a copy that is analysed for elements shared by threads."""
NULLS = (Pass("nulls", WRITTEN, WRITTEN, remove_null_accesses),)  # a debug build keeps the accesses, and checks them
BARRIERS = Pass("barriers", WRITTEN, WRITTEN, check_blocks)
UPDATES = Pass("updates", WRITTEN, PRIMAL, partial(finalize_element_updates, simplify=partial(run, COMPARABLE)))
THREADS = Pass("threads", PRIMAL, PRIMAL, mark_threads)
UNFUSED = Pass("unfused", PRIMAL, PRIMAL, mark_unfused)
ONE_THREAD = Pass("blocks-of-one", PRIMAL, PRIMAL, blocks_of_one)  # where a block that works on tiles is one thread

# Barriers are checked on the function as written; updates need arrays of threads to be values.
WRITTEN_TO_PRIMAL = (Pass("thread-arrays", WRITTEN, WRITTEN, arrays_as_vectors), BARRIERS, UPDATES, THREADS, UNFUSED)
ONE_CALL = (Pass("threads", WRITTEN, WRITTEN, check_thread_free), UPDATES, UNFUSED)  # of a func

RULES = Pass("rules", PRIMAL, PRIMAL, remove_rules)
FOLD = Pass("fold", PRIMAL, PRIMAL, fold)
UNROLL = Pass("unroll", PRIMAL, PRIMAL, unroll)
UNROLL_ALL = Pass("unroll", PRIMAL, PRIMAL, partial(unroll, neighbours=True))
UNROLL_COMPONENTS = Pass("unroll-components", PRIMAL, PRIMAL, unroll_components)
CSE = Pass("cse", PRIMAL, PRIMAL, eliminate_common)
CSE_LOADS = Pass("cse-loads", PRIMAL, PRIMAL, partial(eliminate_common, loads=True))
RANGES = Pass("ranges", PRIMAL, PRIMAL, clear_wraps)
HOIST = Pass("hoist", PRIMAL, PRIMAL, hoist_integers)
PROMOTE = Pass("promote", PRIMAL, PRIMAL, promote)
DCE = Pass("dce", PRIMAL, PRIMAL, eliminate)
SINK = Pass("sink", PRIMAL, NORMAL, sink_into_branches)  # last: sharing would undo it
DCE_NORMAL = Pass("dce", NORMAL, NORMAL, eliminate)

# Common subexpressions before ranges: equal indices are one value then, and a proof holds for all of them.
OPTIMISE = (RULES, FOLD, UNROLL_COMPONENTS, CSE, RANGES, DCE)
# Loads are shared twice: promotion turns memory into values, which makes more of the other loads equal.
_NORMALISE_REST = (CSE, RANGES, HOIST, CSE_LOADS, PROMOTE, DCE, CSE_LOADS, DCE, SINK, DCE_NORMAL)
NORMALISE = (FOLD, UNROLL, *_NORMALISE_REST)
NORMALISE_JOINT = (FOLD, UNROLL_ALL, *_NORMALISE_REST)
"""Of a primal that is to run with its adjoint, which then takes what the primal computed."""
GUARD = Pass("guard", NORMAL, NORMAL, guard_singular)
NORMALISE_MAP = (FOLD, UNROLL, CSE, DCE, SINK, GUARD, DCE_NORMAL)  # of a map of tiles

POISONED = Pass("poisoned", PROGRAM, PROGRAM, poison_shared)  # of programs that make checks
FINITE = Pass("finite", PROGRAM, PROGRAM, watch_numbers)  # of programs that look at every number
CLEAN = (
    Pass("fold", ADJOINT, ADJOINT, fold),
    Pass("cse-loads", ADJOINT, ADJOINT, partial(eliminate_common, loads=True)),
    Pass("dce", ADJOINT, ADJOINT, eliminate),
    Pass("reciprocals", ADJOINT, ADJOINT, share_reciprocals),
    Pass("halves", ADJOINT, ADJOINT, cancel_halves),
)
# Without the last two passes, which rewrite quotients: other passes follow that compare terms.
SHARE = CLEAN[:-2]
TERMS = Pass("terms", ADJOINT, ADJOINT, collect_terms)
# Twice, as collected terms have factors in common again.
GATHER = (*SHARE, TERMS, *SHARE, TERMS, *SHARE)
"""Of an adjoint whose threads compute what others would add to their elements. Factors that only one term is left to
need are multiplied the second time."""
JOIN = (*SHARE, Pass("fuse", ADJOINT, ADJOINT, fuse_loops), *SHARE)
"""Of a primal and its adjoint in one program."""
