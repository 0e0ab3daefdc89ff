"""Gradients of kernels whose threads work together, on the CPU: against differences, and in any order of threads."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from block_corpus import BLOCKS
from block_gradients import GRADIENTS, Case, Launch
from block_threads import InTurns, for_gpu

from diffkern.compiler import pipeline
from diffkern.opt.widen import widen
from diffkern.testing.gradcheck import Tolerances, Vjp, check_vjp
from diffkern.testing.programs import as_double

FEW = Tolerances(max_elements=12)


def _corpus(name: str) -> Case:
    """A kernel of the corpus of forward programs."""
    found = BLOCKS[name]
    return Case(found.kernel.func, lambda n, blocks: Launch(found.dim, found.arguments()), (found.block_dim,))


CASES = {**GRADIENTS, **{name: _corpus(name) for name in BLOCKS if name != "histograms"}}


@functools.cache
def differentiated(name: str) -> Vjp:
    kernel = CASES[name].kernel
    fn = pipeline.lower_kernel(kernel.func, kernel.argument_types(), kernel.variant)
    return Vjp(widen(fn), variant=kernel.variant)


def arguments(vjp: Vjp, launch: Launch) -> list[Any]:
    return [as_double(t, a) for t, a in zip(vjp.types, launch.arguments, strict=True)]


@pytest.mark.parametrize("name", sorted(CASES))
def test_against_differences(name: str) -> None:
    vjp = differentiated(name)
    for n in CASES[name].blocks:
        vjp.primal_program.block_dim = vjp.adjoint_program.block_dim = n  # type: ignore[attr-defined]
        launch = CASES[name].launch(n, 2)
        report = check_vjp(vjp, launch.dim, arguments(vjp, launch), FEW)
        assert report.checked > 0


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_threads_of_a_gpu_do_not_meet(name: str) -> None:
    """What the CUDA programs do between two barriers is right in any order of threads, and has no races."""
    cpu = differentiated(name)
    n = min(CASES[name].blocks, key=lambda n: abs(n - 5))
    cpu.primal_program.block_dim = cpu.adjoint_program.block_dim = n  # type: ignore[attr-defined]
    gpu = for_gpu(CASES[name].kernel).running(*(functools.partial(InTurns, block_dim=n, seed=k) for k in range(2)))
    launch = CASES[name].launch(n, 3)
    point = arguments(cpu, launch)
    weights = cpu.weights(point, np.random.default_rng(2))
    expected = cpu.gradients(launch.dim, point, weights)
    for i, found in gpu.gradients(launch.dim, point, weights).items():
        np.testing.assert_allclose(found, expected[i], rtol=1e-9, atol=1e-9, err_msg=cpu.names[i])
