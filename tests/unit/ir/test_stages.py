"""Stages: what the verifier refuses in one, and that every kernel of the corpus goes through them as passes say."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from block_corpus import BLOCKS
from grad.build import lower
from grad.corpus import CASES

from diffkern.compiler import passes, pipeline
from diffkern.contracts.options import Variant
from diffkern.ir.builder import Builder
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, Value
from diffkern.ir.ops.table import all_ops
from diffkern.ir.passes import PassOptions, run
from diffkern.ir.stages import (
    ADJOINT,
    CPU,
    CUDA,
    LOOPS,
    NORMAL,
    PRIMAL,
    PROGRAM,
    SERIAL,
    STAGED_FACTS,
    STAGED_MARKS,
    STAGES,
)
from diffkern.ir.stages import (
    BLOCKS as WORK_OF_BLOCKS,
)
from diffkern.ir.types import FLOAT32, Array, Stack, Tile
from diffkern.ir.verify import InvalidIR, verify
from diffkern.targets import target_named
from diffkern.targets.target import Settings

ARRAY = Array(FLOAT32, 1)
TARGETS = ("native", "sm_90")
LISTS = {
    "COMPARABLE": passes.COMPARABLE,
    "WRITTEN_TO_PRIMAL": (*passes.WRITTEN_TO_PRIMAL, passes.ONE_THREAD),
    "OPTIMISE": passes.OPTIMISE,
    "NORMALISE": passes.NORMALISE,
    "NORMALISE_MAP": passes.NORMALISE_MAP,
    "CLEAN": passes.CLEAN,
    **{name: target_named(name).lowering(Settings()) for name in TARGETS},
}


def test_the_table_names_what_there_is() -> None:
    assert len({stage.name for stage in STAGES}) == len(STAGES)
    for stage in STAGES:
        assert stage.ops <= set(all_ops())
        assert stage.marks <= STAGED_MARKS
        assert stage.facts <= STAGED_FACTS
        assert all(hasattr(Function("f", (), Builder().region), fact) for fact in stage.facts)
    assert set().union(*(stage.ops for stage in STAGES)) == set(all_ops())


@pytest.mark.parametrize("name", LISTS)
def test_a_pass_takes_what_the_one_before_it_leaves(name: str) -> None:
    for first, second in itertools.pairwise(LISTS[name]):
        assert first.after.within(second.before), f"{first.name}, then {second.name}"


def test_lists_follow_each_other() -> None:
    assert PRIMAL.within(NORMAL)
    without_rules = replace(PRIMAL, ops=PRIMAL.ops - {"ruled", "cotangent_array", "refused"})
    assert without_rules.within(PROGRAM)  # the first pass of a program that is not differentiated removes the rules
    assert ADJOINT.within(PROGRAM)
    assert not PROGRAM.within(ADJOINT)
    for stage in (CPU, CUDA):
        assert not stage.within(PROGRAM)


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_kernel_of_the_corpus(name: str) -> None:
    """Both programs of it, up to what either target emits."""
    case, context = CASES[name], PassOptions(verify=True)
    for target in TARGETS:
        fn, variant = clone_function(lower(case)), Variant(target=target)
        prepared = pipeline.prepare(fn, context)
        d = pipeline.differentiate(prepared, range(len(fn.params)), variant, context=context)
        for program in (pipeline.optimise(fn, context), verify(d.fn, PROGRAM)):
            if name != "tiles.large_tiles" or target == "native":  # too large for a block
                run(target_named(target).lowering(Settings()), clone_function(program), context)


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_a_kernel_whose_threads_work_together(name: str) -> None:
    kernel, context = BLOCKS[name].kernel, PassOptions(verify=True)
    for target in TARGETS:
        fn = pipeline.lower_kernel(kernel.func, kernel.argument_types(), Variant(target=target), context)
        low = run(target_named(target).lowering(Settings()), pipeline.optimise(fn, context), context)
        assert verify(low, CUDA if target == "sm_90" else CPU) is low


def function(*ops: tuple[str, dict[str, object]]) -> Function:
    """A function of one array with an op per entry, whose operands are the array, an index and a number."""
    x = Value(ARRAY, "x")
    b = Builder()
    operands = {"load": (x, b.i32(0)), "accumulate": (x, b.i32(0), b.const(1.0, FLOAT32))}
    for name, attrs in ops:
        b.op(name, *operands.get(name, ()), **attrs)
    return Function("f", (x,), b.region)


TILE = Tile(FLOAT32, (4,))
REFUSED = {
    "an accumulation in a primal": (PRIMAL, function(("accumulate", {"wrap": (False,), "mode": "plain"}))),
    "an atomic one before it is decided": (ADJOINT, function(("accumulate", {"wrap": (False,), "mode": "atomic"}))),
    "a rule behind differentiation": (
        ADJOINT,
        function(("ruled", {"results": 0, "derivative": False, "replayed": False})),
    ),
    "a stack of tiles after tiles are gone": (LOOPS, function(("stack_new", {"type": Stack((TILE,), 3)}))),
    "a barrier where a block is a thread": (SERIAL, function(("barrier", {}))),
    "a barrier of a replay in a primal": (PRIMAL, function(("barrier", {"replay": True}))),
    "a stack of tiles in the work of blocks": (WORK_OF_BLOCKS, function(("stack_new", {"type": Stack((TILE,), 3)}))),
}


@pytest.mark.parametrize("what", sorted(REFUSED))
def test_refused(what: str) -> None:
    stage, fn = REFUSED[what]
    verify(fn)
    with pytest.raises(InvalidIR, match=f"stage {stage.name}"):
        verify(fn, stage)


def test_facts_of_another_stage_are_refused() -> None:
    fn = function()
    fn.tiled = True
    verify(fn, CUDA)
    with pytest.raises(InvalidIR, match="has tiled: not in stage program"):
        verify(fn, PROGRAM)
