"""What programs for Warp ask of devices and drivers, besides what :mod:`diffkern` answers."""

from __future__ import annotations

from typing import Any, TypeAlias

from diffkern.runtime.device import Device, get_device, is_cuda_available

__all__ = [
    "DeviceLike", "get_cuda_driver_version", "get_cuda_toolkit_version", "is_conditional_graph_supported",
    "is_cubql_available", "is_mempool_access_enabled", "is_mempool_access_supported", "is_mempool_enabled",
    "is_mempool_supported",
]  # fmt: skip

DeviceLike: TypeAlias = Device | str | None
"""What names a device."""


def get_cuda_driver_version() -> tuple[int, int] | None:
    """Return the version of CUDA that the driver is for, None without a driver."""
    from diffkern.runtime.cuda.drivers import active

    driver = active()
    if driver is None:
        return None
    number = driver.version()
    return number // 1000, number % 1000 // 10


def get_cuda_toolkit_version() -> tuple[int, int] | None:
    """Return None: there is no toolkit, only the driver."""
    return None


def is_conditional_graph_supported() -> bool:
    """Whether graphs may have conditions: wherever there is a GPU."""
    return is_cuda_available()


def is_cubql_available() -> bool:
    """Return False: diffkern builds no trees."""
    return False


def is_mempool_supported(device: Any) -> bool:
    """Whether a device has the CUDA driver's memory pool, from which arrays are taken there.

    Parameters
    ----------
    device : Device or str
        The device.
    """
    return bool(get_device(device).is_cuda)


def is_mempool_enabled(device: Any) -> bool:
    """Whether arrays of a device are taken from its memory pool.

    Parameters
    ----------
    device : Device or str
        The device.
    """
    return is_mempool_supported(device)


def is_mempool_access_supported(target_device: Any, peer_device: Any) -> bool:
    """Return whether two devices are one: pools are not shared among devices.

    Parameters
    ----------
    target_device, peer_device : Device or str
        The devices.
    """
    return is_mempool_supported(target_device) and get_device(target_device) == get_device(peer_device)


def is_mempool_access_enabled(target_device: Any, peer_device: Any) -> bool:
    """Return whether two devices are one: pools are not shared among devices.

    Parameters
    ----------
    target_device, peer_device : Device or str
        The devices.
    """
    return is_mempool_access_supported(target_device, peer_device)
