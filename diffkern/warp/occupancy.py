"""Suggested block sizes of launches."""

from __future__ import annotations

from typing import Any

from diffkern.kernels.kernel import Kernel
from diffkern.runtime.memory.device import get_device

__all__ = ["get_suggested_block_size"]


def get_suggested_block_size(kernel: Kernel, device: Any = None) -> tuple[int, int]:
    """Return a suitable number of threads per block and of blocks for a kernel.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    device : optional
        The device that it will run on; the current one by default.

    Returns
    -------
    tuple of int
        Threads of a block and blocks: on the CPU 1 and 1; on a GPU the kernel's own number of threads, and as many
        blocks as its multiprocessors hold of them at once, counted by threads.
    """
    chosen: Any = get_device(device)
    if not chosen.is_cuda:
        return 1, 1
    threads = kernel.block_dim
    return threads, int(chosen.sm_count) * max(1, 2048 // threads)
