"""What of the kernels in ``ir_kernels``, and of adjoints with loop stacks, is the same for which threads.

Behind each value stand a launch, a block and a register's lanes: ``=`` where it is the same for all threads, ``~``
where it may differ, ``+3`` where it is an integer that grows so much from each thread of a row to the next.
"""

from __future__ import annotations

import pytest

from diffkern.analysis.scopes import ThreadScope, VaryingValues, uniformity
from diffkern.compiler import pipeline
from diffkern.frontend.statements import lowering
from diffkern.ir.nodes import Function, Value
from diffkern.ir.printer import to_text
from diffkern.ir.types import Scalar
from diffkern.lower.composites import expand_composites

from . import adjoint_kernels
from .golden import check_golden
from .ir_kernels import KERNELS

ADJOINTS = ("state_loop", "until")
"""Those of ``adjoint_kernels`` whose loop stacks hold the same for all lanes, and another number for each."""


def said(fn: Function) -> str:
    found = [uniformity(fn, scope) for scope in (ThreadScope.LAUNCH, ThreadScope.BLOCK, ThreadScope.VECTOR)]
    return to_text(fn, lambda v: f" [{' '.join(_of(one, v) for one in found)}]")


def _of(found: VaryingValues, v: Value) -> str:
    if v not in found.varying:
        return "="
    stride = found.stride(v) if isinstance(v.type, Scalar) else None
    return f"{stride:+}" if stride is not None else "~"


@pytest.mark.parametrize("name", KERNELS)
def test_uniformity(name: str) -> None:
    function, types = KERNELS[name]
    check_golden(f"uniformity/{name}", said(pipeline.optimise(pipeline.lower_kernel(function, types))))


@pytest.mark.parametrize("name", ADJOINTS)
def test_uniformity_of_adjoints(name: str) -> None:
    function, types = adjoint_kernels.KERNELS[name]
    adjoint = pipeline.differentiate(pipeline.prepare(lowering.lower(function, types)), range(len(types))).fn
    check_golden(f"uniformity/adjoint_{name}", said(expand_composites(adjoint)))
