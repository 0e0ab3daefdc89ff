"""Gradients of random kernels whose threads work together: against differences, and as CUDA's threads in any order."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from block_threads import InTurns, for_gpu
from simulator.block_fuzz import THREADS, kernel_text

import diffkern as dk
from diffkern.compiler import pipeline
from diffkern.opt.widen import widen
from diffkern.testing.gradcheck import KinkWarning, Tolerances, Vjp, check_vjp
from diffkern.testing.programs import CompiledFunction


def kernel_of(seed: int, directory: Path) -> dk.Kernel:
    path = directory / f"random_block_{seed}.py"
    path.write_text(kernel_text(seed), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.fuzz  # type: ignore[no-any-return]


@pytest.mark.filterwarnings(f"ignore::{KinkWarning.__module__}.{KinkWarning.__qualname__}")
@pytest.mark.parametrize("seed", [4, 28, 39])
def test_gradients(seed: int, tmp_path: Path) -> None:
    kernel = kernel_of(seed, tmp_path)
    size = 2 * THREADS
    given = [np.random.default_rng(seed).uniform(-1, 1, size), np.zeros(size), np.zeros(size, np.int32), np.int32(2)]
    cpu = Vjp(
        widen(pipeline.lower_kernel(kernel.func, kernel.argument_types())),
        lambda fn: CompiledFunction(fn, THREADS),
        slots=2 if seed % 2 else None,
    )
    check_vjp(cpu, (size,), given, Tolerances(max_elements=size))
    gpu = for_gpu(kernel, 2 if seed % 2 else None).running(*(lambda fn: InTurns(fn, THREADS, seed=seed),) * 2)
    weights = cpu.weights(given, np.random.default_rng(1))
    expected = cpu.gradients((size,), given, weights)
    for i, found in gpu.gradients((size,), given, weights).items():
        np.testing.assert_allclose(found, expected[i], rtol=1e-7, atol=1e-9, err_msg=kernel_text(seed))
