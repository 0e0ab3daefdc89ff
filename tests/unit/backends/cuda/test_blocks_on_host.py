"""Kernels whose threads work together, forward and adjoint: CUDA's code with a thread of this process for each thread."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from block_gradients import GRADIENTS
from grad.test_blocks import arguments, differentiated
from on_host import HostBlocks

from diffkern import pipeline
from diffkern.passes.cuda_plan import settle_updates
from diffkern.passes.widen import widen
from diffkern.testing.gradcheck import Vjp


@pytest.mark.parametrize(
    ("name", "block_dim"),
    [
        ("largest_by_halves", 64),
        ("one_loss", 33),
        ("product_of_tiles", 16),
        ("running_products", 8),
        ("steps_from_checkpoints", 3),
        ("turns_and_conditions", 5),
        ("vectors", 3),
        ("weighted_histogram", 32),
    ],
)
def test_agrees_with_the_cpu(name: str, block_dim: int) -> None:
    cpu, case = differentiated(name), GRADIENTS[name]
    cpu.primal_program.block_dim = cpu.adjoint_program.block_dim = block_dim  # type: ignore[attr-defined]
    kernel = case.kernel
    fn = pipeline.lower_kernel(kernel.func, kernel.argument_types(), kernel.options)
    vjp = Vjp(widen(fn), lambda fn: cpu.primal_program, options={**kernel.options, "target": "sm_90"})
    settle_updates(vjp.adjoint.fn, vjp.adjoint.buffers, vjp.adjoint.conflicts)
    launch = case.launch(block_dim, 3)
    point = arguments(cpu, launch)
    weights = cpu.weights(point, np.random.default_rng(2))
    expected = cpu.gradients(launch.dim, point, weights)
    host = functools.partial(HostBlocks, block_dim=block_dim, grid=2)
    found = vjp.running(host, host).gradients(launch.dim, point, weights)
    for i, gradient in found.items():
        np.testing.assert_allclose(gradient, expected[i], rtol=1e-9, atol=1e-9, err_msg=cpu.names[i])
