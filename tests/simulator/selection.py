"""Which kernels of the corpus run in the simulator."""

from __future__ import annotations

from grad.corpus import CASES
from narrow_atomics import ELEMENTS
from support.range_cases import FORMS, TYPES

TOO_MUCH = {"tiles.large_tiles"}
"""Tiles beyond the shared memory of a block: CUDA refuses them."""

CORPUS = sorted(set(CASES) - TOO_MUCH)

OF_THREADS = "threads.softmax"
"""A kernel that makes tiles of what the threads of a block hold."""

BLOCK_GRADIENTS = ["gradient.one_loss", "gradient.running_products", "gradient.steps_in_shared_memory"]
"""Adjoints of kernels whose threads work together that run there."""

RANGES = [f"ranges.{type_}.{form}" for type_, form in zip(TYPES, (*FORMS, *FORMS), strict=False)]
"""Loops over ranges of each type, with bounds near the limits."""

UPDATES = [f"updates.{element}" for element in ELEMENTS]
"""Atomic updates of elements of these types."""

ALONG = ["along.memory.scatter_max_of_components"]
"""Kernels whose forward mode runs there: threads that hold elements while others wait."""
