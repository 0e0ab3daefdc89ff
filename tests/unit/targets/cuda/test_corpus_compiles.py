"""Every kernel of the corpus and its adjoint become cubins; for one architecture each, all of them for a sample."""

from __future__ import annotations

import zlib

import pytest
from compiling import compile_function
from conftest import require
from grad.build import lower
from grad.corpus import CASES

from diffkern.analysis.cuda_plan import finalize_updates
from diffkern.compiler import pipeline
from diffkern.contracts.options import Variant
from diffkern.errors import CompileError
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function
from diffkern.ir.types import is_differentiable
from diffkern.targets.cuda.cubin import resources

require("cuda.bindings.nvjitlink", "cuda.pathfinder")

TOO_LARGE = {"tiles.large_tiles"}  # for the shared memory of a block
CASES_ON_CUDA = sorted(CASES.keys() - TOO_LARGE)
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


def programs(name: str) -> list[Function]:
    """The forward and the adjoint of a case."""
    case = CASES[name]
    fn = lower(case)
    active = [i for i, p in enumerate(fn.params) if is_differentiable(p.type)]
    d = pipeline.differentiate(pipeline.prepare(fn), active, Variant(target="sm_90"), **case.options)
    finalize_updates(d.fn, d.buffers, d.conflicts)
    return [pipeline.optimise(clone_function(fn)), d.fn]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES_ON_CUDA)
def test_a_case_compiles(name: str) -> None:
    arch = ARCHITECTURES[zlib.crc32(name.encode()) % len(ARCHITECTURES)]
    for fn in programs(name):
        compiled = compile_function(fn, "kernel", arch, may_alias=False)
        assert resources(compiled.code)["kernel"].registers > 0


@pytest.mark.parametrize("name", sorted(TOO_LARGE))
def test_what_does_not_fit_is_refused(name: str) -> None:
    for fn in programs(name):
        with pytest.raises(CompileError, match="bytes of shared memory"):
            compile_function(fn, "kernel", "sm_90")


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", CASES_ON_CUDA[:: len(CASES_ON_CUDA) // 4])
def test_a_sample_compiles_for_every_architecture(name: str, arch: str) -> None:
    for fn in programs(name):
        compiled = compile_function(fn, "kernel", arch)
        assert resources(compiled.code)["kernel"].registers > 0
        assert f".target {arch}" in compiled.assembly()
