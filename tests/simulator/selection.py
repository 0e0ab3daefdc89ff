"""Which kernels of the corpus run in the simulator."""

from __future__ import annotations

from grad.corpus import CASES

TOO_MUCH = {"tiles.large_tiles", "tiles.from_threads", "tiles.from_threads_vectors"}
"""Tiles beyond the shared memory of a block, and of single threads: CUDA refuses them."""

CORPUS = sorted(set(CASES) - TOO_MUCH)

BLOCK_GRADIENTS = ["gradient.one_loss", "gradient.running_products", "gradient.steps_in_shared_memory"]
"""Adjoints of kernels whose threads work together that run there."""
