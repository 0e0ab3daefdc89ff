"""Loops of the table of ranges as executed PTX, forward and adjoint, beside Python's integers."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from conftest import require
from support.ptx.programs import PtxProgram
from support.range_cases import FORMS, TYPES
from support.range_source import SourceRun

from diffkern.analysis.cuda_plan import finalize_updates
from diffkern.contracts.options import Variant

require("cuda.bindings.nvjitlink", "nvidia")

CASES = 11
"""Of each type and form: more than 500 in all."""


def check(type_: str, form: str, compiler: str) -> None:
    run = SourceRun(type_, form, Variant(target="sm_90"), CASES)
    assert len(run.cases) == CASES
    engine = functools.partial(PtxProgram, compiler=compiler, block_dim=32)
    for what, found, expected in run.compared(engine, prepare=finalize_updates):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12, err_msg=what)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("type_", TYPES)
def test_executed(type_: str, form: str) -> None:
    check(type_, form, "llvm")


@pytest.mark.parametrize("type_", TYPES)
def test_what_numba_cuda_compiles(type_: str) -> None:
    check(type_, "break", "numba")
