"""The IR of the adjoints of the kernels in ``adjoint_kernels``, as text."""

from __future__ import annotations

import pytest

from diffkern.compiler import pipeline
from diffkern.frontend.statements import lowering
from diffkern.ir.printer import to_text
from diffkern.ir.verify import verify

from .adjoint_kernels import KERNELS
from .golden import check_golden


@pytest.mark.parametrize("name", KERNELS)
def test_adjoint(name: str) -> None:
    function, types = KERNELS[name]
    primal = pipeline.prepare(lowering.lower(function, types))
    verify(primal)
    d = pipeline.differentiate(primal, range(len(types)))
    verify(d.fn)
    classes = ", ".join(f"{b.name} {c.kind}" for b, c in zip(d.buffers, d.conflicts, strict=True))
    facts = f"saved {list(d.saved)}, final {list(d.adjoint.final)}, conflicts: {classes}\n"
    check_golden(f"adjoint/{name}", facts + to_text(d.fn))
