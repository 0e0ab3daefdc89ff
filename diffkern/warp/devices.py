"""Queries about devices and drivers that programs for Warp make and :mod:`diffkern` does not have."""

from __future__ import annotations

from types import TracebackType
from typing import Any, TypeAlias

from diffkern.contracts.platforms import ARCHITECTURES
from diffkern.kernels.kernel import Kernel
from diffkern.runtime.memory.device import Device, get_device, gpu_named, is_cuda_available

__all__ = [
    "DeviceLike",
    "ScopedCudaProfiler",
    "cuda_profiler_start",
    "cuda_profiler_stop",
    "get_cuda_driver_version",
    "get_cuda_supported_archs",
    "get_cuda_toolkit_version",
    "get_suggested_block_size",
    "is_conditional_graph_supported",
    "is_cubql_available",
]

DeviceLike: TypeAlias = Device | str | None
"""A device or its name."""


def get_cuda_driver_version() -> tuple[int, int] | None:
    """Return the version of CUDA that the driver is for, None without a driver."""
    # Here, so that importing Warp's interface does not look for a driver.
    from diffkern.runtime.cuda.devices import active

    driver = active()
    if driver is None:
        return None
    number = driver.version()
    # CUDA's encoding: 12.4 is 12040.
    return number // 1000, number % 1000 // 10


def get_cuda_toolkit_version() -> tuple[int, int] | None:
    """Return None: there is no toolkit, only the driver."""
    return None


def get_cuda_supported_archs() -> list[int]:
    """Return the architectures of GPUs that programs can be compiled for, 90 for ``sm_90``."""
    return sorted(ARCHITECTURES)


def is_conditional_graph_supported() -> bool:
    """Return whether graphs may contain conditional nodes, which is so wherever there is a GPU."""
    return is_cuda_available()


def is_cubql_available() -> bool:
    """Return False: diffkern builds no trees."""
    return False


def cuda_profiler_start(device: Any = None) -> None:
    """Let a profiler that was started beside the program, such as Nsight, begin to collect; on the CPU do nothing.

    Parameters
    ----------
    device : Device or str, optional
        The device.
    """
    _profile(device, True)


def cuda_profiler_stop(device: Any = None) -> None:
    """Let a profiler stop collecting.

    Parameters
    ----------
    device : Device or str, optional
        The device.
    """
    _profile(device, False)


class ScopedCudaProfiler:
    """A ``with`` block during which a profiler collects.

    Parameters
    ----------
    device : Device or str, optional
        The device.
    """

    def __init__(self, device: Any = None) -> None:
        self.device: Device = get_device(device)

    def __enter__(self) -> ScopedCudaProfiler:
        cuda_profiler_start(self.device)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        cuda_profiler_stop(self.device)


def _profile(device: Any, collect: bool) -> None:
    gpu = gpu_named(device)
    if gpu is not None:
        # The profiler collects for the current context.
        with gpu.active:
            gpu.driver.profile(collect)


# -- block sizes -------------------------------------------------------------------------------------------------------
# Suggested block sizes of launches.


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
