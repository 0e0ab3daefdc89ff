"""The IR of the kernels in ``ir_kernels``, as text."""

from __future__ import annotations

import pytest

from diffkern.frontend.statements import lowering
from diffkern.ir.printer import to_text
from diffkern.ir.verify import verify

from .golden import check_golden
from .ir_kernels import KERNELS


@pytest.mark.parametrize("name", KERNELS)
def test_ir(name: str) -> None:
    function, types = KERNELS[name]
    fn = lowering.lower(function, types)
    verify(fn)
    check_golden(f"ir/{name}", to_text(fn))
