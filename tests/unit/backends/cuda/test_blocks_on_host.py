"""Kernels whose threads work together, forward and adjoint: CUDA's code, a thread of this process for each thread."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from block_gradients import GRADIENTS
from block_threads import InTurns, for_gpu
from grad.test_blocks import arguments
from on_host import HostBlocks


@pytest.mark.parametrize(
    ("name", "block_dim"),
    [
        ("one_loss", 33),
        ("product_of_tiles", 16),
        ("running_products", 3),
        ("steps_in_shared_memory", 4),
        ("vectors", 3),
        ("weighted_histogram", 32),
    ],
)
def test_agrees_with_the_source(name: str, block_dim: int) -> None:
    case = GRADIENTS[name]
    vjp = for_gpu(case.kernel)
    launch = case.launch(block_dim, 3)
    point = arguments(vjp, launch)
    weights = vjp.weights(point, np.random.default_rng(2))
    turns = functools.partial(InTurns, block_dim=block_dim)
    expected = vjp.running(turns, turns).gradients(launch.dim, point, weights)
    host = functools.partial(HostBlocks, block_dim=block_dim, grid=2)
    for i, found in vjp.running(host, host).gradients(launch.dim, point, weights).items():
        np.testing.assert_allclose(found, expected[i], rtol=1e-9, atol=1e-9, err_msg=vjp.names[i])
