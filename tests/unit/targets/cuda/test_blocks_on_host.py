"""Kernels whose threads work together, forward and adjoint: CUDA's code, a thread of this process for each thread."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from block_gradients import GRADIENTS
from block_threads import InTurns, for_gpu
from grad.test_blocks import arguments
from on_host import HostCuda, cpu_harness

from diffkern.ir.nodes import Function


class _OnHost(HostCuda):
    def __init__(self, fn: Function, block_dim: int) -> None:
        super().__init__(fn, grid=2, threads=block_dim)
        self.fn = fn

    def run(self, dim: Sequence[int], args: Sequence[Any], chunk: int | None = None) -> None:
        self.launch(cpu_harness.pack(self.fn, args, tuple(dim), 0, 0))


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
    host = functools.partial(_OnHost, block_dim=block_dim)
    for i, found in vjp.running(host, host).gradients(launch.dim, point, weights).items():
        np.testing.assert_allclose(found, expected[i], rtol=1e-9, atol=1e-9, err_msg=vjp.names[i])
