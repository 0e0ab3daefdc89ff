"""Gradients of the corpus by the CUDA emitter's adjoints, run on the host, against the CPU's."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from grad.build import lower, values
from grad.corpus import CASES
from on_host import HostCuda

from diffkern.analysis.cuda_plan import finalize_updates
from diffkern.contracts.abi import HEADER_FORMAT
from diffkern.contracts.options import Variant
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import _pack

CASES_ON_CUDA = sorted(name for name in CASES if not name.startswith("tiles."))  # tiles have no code for CUDA yet


class OnHost:
    """A function as emitted for CUDA."""

    def __init__(self, fn: Function) -> None:
        self.types = tuple(p.type for p in fn.params)
        self.code = HostCuda(fn, grid=2)

    def run(self, dim: Sequence[int], args: Sequence[Any], chunk: int | None = None) -> None:
        header = struct.pack(HEADER_FORMAT, 0, *(*dim, 1, 1, 1)[:4], 0, 0)
        self.code.launch(header + b"".join(_pack(t, a) for t, a in zip(self.types, args, strict=True)))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES_ON_CUDA)
def test_gradients_agree_with_the_cpu(name: str) -> None:
    case = CASES[name]
    vjp = Vjp(lower(case), variant=Variant(target="sm_90"), **case.options)

    def adjoint(fn: Function) -> OnHost:
        copy = clone_function(fn)
        count = len(vjp.adjoint.cotangents)
        finalize_updates(copy, copy.params[len(copy.params) - count :], vjp.adjoint.conflicts)
        return OnHost(copy)

    point = vjp.arguments(values(case))
    weights = vjp.weights(point, np.random.default_rng(3))
    expected = vjp.gradients(case.dim, point, weights)
    found = vjp.running(OnHost, adjoint).gradients(case.dim, point, weights)
    for i, gradient in expected.items():
        size = float(np.max(np.abs(gradient), initial=0.0, where=np.isfinite(gradient)))
        np.testing.assert_allclose(
            found[i], gradient, rtol=case.rtol32, atol=1e-5 * size, err_msg=vjp.names[i], equal_nan=True
        )
