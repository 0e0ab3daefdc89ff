"""Memory pools of GPUs and peer access between devices, as programs for Warp query and set them.

Arrays of a GPU always come from its memory pool, and a pool can be accessed from another GPU as soon as peer access is
on. Warp's separate questions about pools and peers therefore have one answer here.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from diffkern.runtime.arrays.array import array
from diffkern.runtime.cuda.driver import PoolValue
from diffkern.runtime.memory.device import (
    Device,
    get_device,
    gpu_named,
    is_peer_access_enabled,
    is_peer_access_supported,
)
from diffkern.runtime.memory.device import set_peer_access_enabled as enable_peer_access
from diffkern.transforms.indexed import indexedarray

__all__ = [
    "ScopedMempool", "ScopedMempoolAccess", "ScopedPeerAccess", "can_access", "get_mempool_release_threshold",
    "get_mempool_used_mem_current", "get_mempool_used_mem_high", "is_mempool_access_enabled",
    "is_mempool_access_supported", "is_mempool_enabled", "is_mempool_supported", "set_mempool_access_enabled",
    "set_mempool_enabled", "set_mempool_release_threshold", "set_peer_access_enabled",
]  # fmt: skip


# -- the pool of a device ----------------------------------------------------------------------------------------------


def is_mempool_supported(device: Any) -> bool:
    """Return whether a device has the CUDA driver's memory pool, from which its arrays are allocated.

    Parameters
    ----------
    device : diffkern.Device or str
        The device.
    """
    return get_device(device).is_mempool_supported


def is_mempool_enabled(device: Any) -> bool:
    """Return whether arrays of a device are allocated from its memory pool.

    Parameters
    ----------
    device : diffkern.Device or str
        The device.
    """
    return get_device(device).is_mempool_enabled


def set_mempool_enabled(device: Any, enable: bool) -> None:
    """Accept the setting, without an effect: arrays of a GPU always come from its memory pool.

    Parameters
    ----------
    device : diffkern.Device or str
        The device.
    enable : bool
        Whether arrays are to come from its memory pool. It changes no result.

    Raises
    ------
    ValueError
        If the CPU is to have a pool.
    """
    # Only asking for a pool can be wrong, as the CPU has none; turning it off changes nothing.
    if enable:
        _gpu(device)


def set_mempool_release_threshold(device: Any, threshold: float) -> None:
    """Set how much unused memory the pool of a GPU keeps.

    Parameters
    ----------
    device : diffkern.Device or str
        The device.
    threshold : int or float
        A number of bytes; up to 1 a part of the GPU's memory, below 0 nothing.

    Raises
    ------
    ValueError
        If the device is the CPU.
    """
    gpu = _gpu(device)
    # Warp reads a threshold of at most 1 as a part of the memory.
    part = gpu.total_memory if 0 < threshold <= 1 else 1
    gpu.driver.pool_keeps(gpu.ordinal, int(max(threshold, 0) * part))


def get_mempool_release_threshold(device: Any = None) -> int:
    """Return how many bytes of unused memory the pool of a GPU keeps.

    Parameters
    ----------
    device : diffkern.Device or str, optional
        The device.

    Raises
    ------
    ValueError
        If the device is the CPU.
    """
    return _value(device, PoolValue.RELEASE_THRESHOLD)


def get_mempool_used_mem_current(device: Any = None) -> int:
    """Return how many bytes of its memory pool a GPU's arrays take.

    Parameters
    ----------
    device : diffkern.Device or str, optional
        The device.

    Raises
    ------
    ValueError
        If the device is the CPU.
    """
    return _value(device, PoolValue.USED_NOW)


def get_mempool_used_mem_high(device: Any = None) -> int:
    """Return how many bytes of its memory pool a GPU's arrays have taken at most.

    Parameters
    ----------
    device : diffkern.Device or str, optional
        The device.

    Raises
    ------
    ValueError
        If the device is the CPU.
    """
    return _value(device, PoolValue.USED_AT_MOST)


def _gpu(device: Any) -> Any:
    gpu = gpu_named(device)
    if gpu is None:
        raise ValueError("Memory pools are only supported on CUDA devices")
    return gpu


def _value(device: Any, value: PoolValue) -> int:
    gpu = _gpu(device)
    found: int = gpu.driver.pool_value(gpu.ordinal, value)
    return found


# -- access among devices ----------------------------------------------------------------------------------------------


def is_mempool_access_supported(target_device: Any, peer_device: Any) -> bool:
    """Return whether kernels of one GPU can be allowed to access the memory pool of another.

    Parameters
    ----------
    target_device : diffkern.Device or str
        The device that owns the memory.
    peer_device : diffkern.Device or str
        The device whose kernels access it.
    """
    return is_peer_access_supported(target_device, peer_device)


def is_mempool_access_enabled(target_device: Any, peer_device: Any) -> bool:
    """Return whether kernels of one GPU may access the memory pool of another.

    Parameters
    ----------
    target_device : diffkern.Device or str
        The device that owns the memory.
    peer_device : diffkern.Device or str
        The device whose kernels access it.
    """
    return is_peer_access_enabled(target_device, peer_device)


def set_mempool_access_enabled(target_device: Any, peer_device: Any, enable: bool) -> None:
    """Let kernels of one GPU access the memory pool of another, until the process ends.

    Parameters
    ----------
    target_device : diffkern.Device or str
        The device that owns the memory.
    peer_device : diffkern.Device or str
        The device whose kernels access it.
    enable : bool
        Whether they may access it.

    Raises
    ------
    ValueError
        As of :func:`set_peer_access_enabled`.
    """
    set_peer_access_enabled(target_device, peer_device, enable)


def set_peer_access_enabled(target_device: Any, peer_device: Any, enable: bool) -> None:
    """Let kernels of one GPU access the memory of another, until the process ends.

    Parameters
    ----------
    target_device : diffkern.Device or str
        The device that owns the memory.
    peer_device : diffkern.Device or str
        The device whose kernels access it.
    enable : bool
        Whether they may access it.

    Raises
    ------
    ValueError
        If access is asked for and either is the CPU or the hardware has no such access, or if it is to be taken back.
    """
    # Access that is off stays off: there is nothing to do, and nothing to check about the devices.
    if enable or is_peer_access_enabled(target_device, peer_device):
        enable_peer_access(target_device, peer_device, enable)


def can_access(device: Any, resource: Any) -> bool:
    """Return whether kernels of a device may access the memory of an array.

    Parameters
    ----------
    device : diffkern.Device or str
        The device.
    resource : array
        The array.

    Raises
    ------
    TypeError
        If `resource` is not an array.
    """
    # A kernel reads the index arrays as well as the data.
    if isinstance(resource, indexedarray):
        return all(can_access(device, part) for part in (resource.data, *resource.indices) if part is not None)
    if not isinstance(resource, array):
        raise TypeError(f"can_access takes an array, not {type(resource).__name__}")
    place = get_device(device)
    # Pinned memory of the host is mapped into the address space of every GPU.
    if resource.device == place or (resource.pinned and place.is_cuda):
        return True
    return is_peer_access_enabled(resource.device, place)


# -- scopes ------------------------------------------------------------------------------------------------------------


class ScopedMempool:
    """A ``with`` block for which :func:`set_mempool_enabled` is called.

    Parameters
    ----------
    device : diffkern.Device or str
        The device.
    enable : bool
        Whether arrays are to come from its memory pool. It changes no result.
    """

    def __init__(self, device: Any, enable: bool) -> None:
        self.device: Device = get_device(device)
        self.enable = enable

    def __enter__(self) -> None:
        set_mempool_enabled(self.device, self.enable)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Do nothing: there was nothing to change."""


class ScopedPeerAccess:
    """A ``with`` block for which kernels of one GPU may reach the memory of another, or must not.

    Parameters
    ----------
    target_device : diffkern.Device or str
        The device that owns the memory.
    peer_device : diffkern.Device or str
        The device whose kernels access it.
    enable : bool
        Whether they may access it. Access that was enabled stays on after the block.
    """

    def __init__(self, target_device: Any, peer_device: Any, enable: bool) -> None:
        self.target_device = target_device
        self.peer_device = peer_device
        self.enable = enable

    def __enter__(self) -> None:
        set_peer_access_enabled(self.target_device, self.peer_device, self.enable)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Do nothing: access is not taken back."""


class ScopedMempoolAccess(ScopedPeerAccess):
    """The same for memory pools, from which all arrays of a GPU are allocated."""
