"""Kernels of tiles by the threads of a block, forward and adjoint, run on the host: random ones, some of the corpus.

``DIFFKERN_FUZZ_EXAMPLES=N`` asks for new random kernels, a twenty-fifth of N.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from grad.build import lower, values
from grad.corpus import CASES
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fuzz import load_module
from support.fuzz_tiles import random_tile_kernel
from test_tiles_on_host import OnHost, same

from diffkern.analysis.cuda_plan import finalize_updates
from diffkern.contracts.options import KernelOptions, Variant
from diffkern.errors import AutodiffError
from diffkern.frontend.statements import lowering
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function
from diffkern.lower.tiles import block_scans as tile_ranks
from diffkern.lower.tiles import cooperative as tile_together
from diffkern.lower.tiles import reductions as tile_fold
from diffkern.opt.widen import widen
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import as_double

LITTLE_MEMORY = Variant(KernelOptions(stack_bytes=8192), target="sm_90")
FROM_THE_CORPUS = [
    "tiles.branch_in_a_loop",
    "tiles.elements_set_in_a_loop",
    "tiles.few_slots",
    "tiles.parts_replaced",
]
THREADS = 5


@pytest.fixture(autouse=True)
def _as_for_large_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiles here are small: what is done for large ones is to be done for them."""
    monkeypatch.setattr(tile_together, "_MANY", 4)
    for module, names in ((tile_fold, ("_ALIKE", "_ALIKE_COMPUTED")), (tile_ranks, ("_FEW", "_COUNTED"))):
        for name in names:
            monkeypatch.setattr(module, name, 1)


def agrees_with_the_cpu(vjp: Vjp, dim: Sequence[int], point: list[Any], rtol: float) -> None:
    """Compare what blocks of threads leave behind, and their gradients, with what one thread computes."""

    def adjoint(fn: Function) -> OnHost:
        copy = clone_function(fn)
        count = len(vjp.adjoint.cotangents)
        finalize_updates(copy, copy.params[len(copy.params) - count :], vjp.adjoint.conflicts)
        return OnHost(copy)

    blocks = vjp.running(OnHost, adjoint)
    weights = vjp.weights(point, np.random.default_rng(3))
    expected = vjp.gradients(dim, point, weights)
    outputs = vjp.arguments(point)
    vjp.primal_program.run(dim, outputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OnHost, "threads", THREADS)
        found = vjp.arguments(point)
        blocks.primal_program.run(dim, found)
        gradients = blocks.gradients(dim, point, weights)
    for what, a, b in zip(vjp.names, found, outputs, strict=True):
        same(a, b, rtol, what)
    for i, gradient in gradients.items():
        same(gradient, expected[i], rtol, f"the gradient of {vjp.names[i]}")


@pytest.mark.parametrize("name", FROM_THE_CORPUS)
def test_corpus(name: str) -> None:
    case = CASES[name]
    vjp = Vjp(lower(case), variant=LITTLE_MEMORY, **case.options)
    agrees_with_the_cpu(vjp, case.dim, vjp.arguments(values(case)), 1e-5)


def test_random_kernels(tmp_path: Any) -> None:
    checked = 0

    @settings(max_examples=max(2, settings.default.max_examples // 25))
    @given(st.data())
    def run(data: st.DataObject) -> None:
        nonlocal checked
        kernel = random_tile_kernel(lambda n: data.draw(st.integers(0, n - 1)))
        fuzzed = load_module(kernel.source, str(tmp_path)).fuzzed
        fn = widen(lowering.lower(fuzzed.func, fuzzed.argument_types(*kernel.arguments)))
        try:
            vjp = Vjp(fn, variant=LITTLE_MEMORY, **kernel.options)
        except AutodiffError:
            return  # what is refused is counted by tests/property
        point = vjp.arguments([as_double(t, a) for t, a in zip(vjp.types, kernel.arguments, strict=True)])
        try:
            agrees_with_the_cpu(vjp, kernel.dim, point, 1e-9)
        except Exception:
            print(kernel.source)
            raise
        checked += 1

    run()
    assert checked
