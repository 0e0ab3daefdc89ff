"""What must hold of the memory accesses of every kernel of the corpus, read off its PTX by an analysis of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from block_corpus import BLOCKS
from conftest import require
from grad.build import lower as as_written
from grad.cases import Case
from grad.corpus import CASES
from ptx import accesses, problems
from support.ptx.programs import ptx_of

import diffkern as dk
from diffkern.compiler import passes, pipeline
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.errors import CompileError
from diffkern.ir.nodes import Function
from diffkern.ir.passes import run
from diffkern.ir.types import is_differentiable

require("cuda.bindings.nvjitlink", "nvidia")

TARGET = "sm_90"
TOO_LARGE = {"tiles.large_tiles"}  # for the shared memory of a block


def lower(case: Case) -> Function:
    return run(passes.WRITTEN_TO_PRIMAL, as_written(case))


def text(fn: Function, **options: Any) -> str:
    """Its PTX, which is what counts; the assembler would take most of the time."""
    return ptx_of(fn, **options)[0]


def programs(fn: Function, slots: int | None = None) -> list[Function]:
    active = [i for i, p in enumerate(fn.params) if is_differentiable(p.type)]
    d = pipeline.differentiate(pipeline.prepare(fn), active, Variant(target=TARGET), slots)
    return [pipeline.finalize(d, Variant(target=TARGET)).fn, pipeline.optimise(fn)]


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_case(name: str) -> None:
    if name in TOO_LARGE:
        with pytest.raises(CompileError, match="bytes of shared memory"):
            text(pipeline.optimise(lower(CASES[name])))
        return
    for fn in programs(lower(CASES[name]), **CASES[name].options):
        assert problems(text(fn), fn) == []


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_threads_that_work_together(name: str) -> None:
    kernel = BLOCKS[name].kernel
    fn = Compilation(kernel.func, kernel.argument_types(), Variant(target=TARGET)).forward
    assert problems(text(fn), fn) == []


v4, v3, m4 = dk.array(dtype=dk.vec4), dk.array(dtype=dk.vec3), dk.array(dtype=dk.mat44)
f1 = dk.array(dtype=float)


def components(x: v4, m: m4, y: f1):
    i = dk.tid()
    y[i] = x[i][1] * x[i][2] + x[i][3] + m[i][1, 1] * m[i][1, 2] + m[i][2, 3] * m[i][3, 0]


def later_components(x: v4, y: dk.array(dtype=dk.vec2)):
    i = dk.tid()
    y[i] = dk.vec2(x[i][1], x[i][2])


def reads_what_it_adds_to(x: f1, y: f1):
    i = dk.tid()
    dk.atomic_add(y, (i + 1) % x.shape[0], x[i] * y[i])


def reads_an_extremum(x: f1, y: f1):
    i = dk.tid()
    before = y[i]
    dk.atomic_max(y, (2 * i) % x.shape[0], x[i] + before)


def stores_a_component(x: v4, y: v4):
    i = dk.tid()
    y[i][1] = x[i][2] + y[i][3]


def strided(x: dk.array(dtype=dk.vec4, ndim=2), y: dk.array(dtype=dk.vec4, ndim=2)):
    i, j = dk.tid()
    y[i, j] = x[j, i] * 2.0


MADE: list[Callable[..., None]] = [
    components, later_components, reads_what_it_adds_to, reads_an_extremum, stores_a_component, strided,
]  # fmt: skip


@pytest.mark.parametrize("layout", ["C", "A"])
@pytest.mark.parametrize("function", MADE, ids=lambda f: f.__name__)
def test_what_the_corpus_has_too_little_of(function: Callable[..., None], layout: str) -> None:
    kernel = dk.kernel(function)
    types = kernel.argument_types()
    types = tuple(type(t)(t.dtype, t.ndim, layout) for t in types)  # type: ignore[union-attr]
    fn = Compilation(function, types, Variant(target=TARGET)).forward
    assert problems(text(fn), fn) == []


def test_atomics_of_all_kinds_are_seen() -> None:
    fn = Compilation(reads_what_it_adds_to, dk.kernel(reads_what_it_adds_to).argument_types()).forward
    found = list(accesses(text(fn), fn))
    assert {tuple(a.arrays) for a in found} == {(0,), (1,)}
    assert [a.opcode.split(".")[0] for a in found if a.writes] == ["red"]
    assert any(".nc" in a.opcode and a.arrays == {0} for a in found)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ld.global.b32", "ld.global.nc.b32", "which the kernel writes"),
        ("red.relaxed.gpu", "red.relaxed.cta", "scope"),
        ("red.relaxed.gpu", "red.relaxed.sys", "scope"),
        ("ld.global.nc.b32", "ld.global.nc.v4.b32", "16 bytes at an address that is a multiple of 4"),
    ],
)
def test_every_rule_can_be_broken(old: str, new: str, said: str) -> None:
    fn = Compilation(reads_what_it_adds_to, dk.kernel(reads_what_it_adds_to).argument_types()).forward
    code = text(fn)
    assert old in code
    assert any(said in problem for problem in problems(code.replace(old, new), fn))
