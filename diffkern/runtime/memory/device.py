"""Devices: the CPU, and the GPUs where there is a driver.

Names such as ``"cpu"``, ``"cuda:0"`` and ``"cuda"`` denote :class:`Device` objects, one for each device; each thread
has a current one. The CPU is current unless a program says otherwise; a driver is looked for only when a GPU is
asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from diffkern.errors import CudaError, MisuseError
from diffkern.process.late import GPU
from diffkern.runtime.memory import dlpack
from diffkern.runtime.memory.memory import HostMemory, Memory, allocate
from diffkern.runtime.memory.queue import drain
from diffkern.runtime.memory.scope import Scope, put
from diffkern.runtime.memory.state import current

if TYPE_CHECKING:
    from diffkern.runtime.native.replay import Plan

__all__ = [
    "CPU", "Device", "ScopedDevice", "get_cuda_device", "get_cuda_device_count", "get_cuda_devices", "get_device",
    "get_devices", "get_preferred_device", "gpu_named", "init", "is_cpu_available", "is_cuda_available",
    "is_device_available", "is_peer_access_enabled", "is_peer_access_supported", "set_device",
    "set_peer_access_enabled",
]  # fmt: skip


def _pages(name: str) -> int:
    """Return the number of bytes in a number of pages that the system reports."""
    try:
        return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0


class Device:
    """A device that kernels run on: the CPU, or a GPU (:class:`diffkern.runtime.cuda.context.CudaDevice`).

    Attributes
    ----------
    alias : str
        Its name, ``"cpu"`` or ``"cuda:0"``.
    is_cpu, is_cuda : bool
        Its kind.
    """

    _get_stream: ClassVar[Callable[[Any], Any]]
    _set_stream: ClassVar[Callable[[Any, Any], None]]
    """Its current stream, set by :mod:`diffkern.runtime.memory.stream`."""

    alias = "cpu"
    name = "CPU"
    ordinal = -1
    arch = 0
    is_cpu = True
    is_cuda = False
    dlpack_kind = dlpack.CPU

    @property
    def is_uva(self) -> bool:
        """True if host and device share one address space."""
        return True

    @property
    def is_capturing(self) -> bool:
        """True if work for it is being captured."""
        return False

    @property
    def is_primary(self) -> bool:
        """True if it is a GPU, of which the primary context is used."""
        return self.is_cuda

    @property
    def is_mempool_supported(self) -> bool:
        """True if it has memory pools; diffkern requires them of a GPU."""
        return False

    @property
    def is_mempool_enabled(self) -> bool:
        """True if arrays are allocated from its memory pool, which they are wherever there is one."""
        return self.is_mempool_supported

    @property
    def sm_count(self) -> int:
        """Number of multiprocessors; 0 for the CPU."""
        return 0

    @property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of shared memory a block can have; 0 on the CPU."""
        return 0

    @property
    def uuid(self) -> str | None:
        """A GPU's identity as NVIDIA's tools print it, or None."""
        return None

    @property
    def pci_bus_id(self) -> str | None:
        """The PCI address of a GPU, or None."""
        return None

    @property
    def total_memory(self) -> int:
        """Bytes of its memory; 0 if the system does not tell."""
        return _pages("SC_PHYS_PAGES")

    @property
    def free_memory(self) -> int:
        """Bytes of its memory that are not allocated; 0 if the system does not tell."""
        return _pages("SC_AVPHYS_PAGES")

    @property
    def stream(self) -> Any:
        """The current stream of this thread."""
        return Device._get_stream(self)

    @stream.setter
    def stream(self, stream: Any) -> None:
        Device._set_stream(stream, self)

    def new(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], zero: bool, pinned: bool
    ) -> tuple[np.ndarray[Any, Any], Memory]:
        """Return new contiguous elements on the device, zero or not initialized, and their memory."""
        if pinned:
            pinned_array: tuple[np.ndarray[Any, Any], Memory] = GPU.value.allocate_pinned(
                get_cuda_device(), shape, dtype, zero
            )
            return pinned_array
        return allocate(shape, dtype, zero)

    def keyed(self, key: str) -> str:
        """Return the key under which a type of arguments has its programs on the device."""
        return key

    def synchronize(self) -> None:
        """Wait until all launches on the device have run; on the CPU that is a matter of its streams."""

    def keep(self, thing: Any) -> None:
        """Keep an object alive as long as the graph that is being captured on the device, if one is."""

    def let_wait(self, stream: Any) -> None:
        """Make the consumer of a DLPack capsule wait for work here, on a stream in the protocol's notation."""
        if stream is not None:
            raise BufferError(f"an array on the CPU is given away without a stream, not on {stream!r}")
        drain()

    def replay(self, plan: Plan, stream: Any) -> None:
        """Run the steps of a plan for this device, on one of its streams; on the CPU at once."""
        plan.run()

    def can_access(self, other: Device) -> bool:
        """Return whether its kernels can access another device's memory."""
        return other is self

    def __str__(self) -> str:
        return self.alias

    def __repr__(self) -> str:
        return "dk.Device('cpu')"

    def __eq__(self, other: object) -> bool:
        # Equal to its name too, so that programs can compare a device with a string.
        return self.alias == (other.alias if isinstance(other, Device) else other)

    def __hash__(self) -> int:
        return hash(self.alias)

    def __reduce__(self) -> tuple[Any, ...]:
        # One object per device, also after copying and unpickling: devices are compared by identity.
        return get_device, (self.alias,)

    def __deepcopy__(self, memo: Any) -> Device:
        return self


CPU = Device()
HostMemory.device = CPU


def gpu_named(name: Any) -> Any:
    """Return the GPU that a name denotes, a ``CudaDevice``, or None for the CPU: in the form that ``current`` holds."""
    if name is None:
        return current.device
    if name is CPU or (isinstance(name, str) and name == "cpu"):
        return None
    # The driver is loaded no earlier than here, so that programs for the CPU never wait for it.
    gpus = GPU.value
    if isinstance(name, gpus.Device):
        if name.closed:
            raise MisuseError(
                f"{name} belongs to a driver that is no longer in use, or was used before a fork",
                remedy="ask for it again, as in dk.get_device(name)",
            )
        return name
    if not isinstance(name, str):
        raise MisuseError(
            f"a device is a name such as 'cpu' or 'cuda:0', or a dk.Device, not {name!r}",
            remedy="dk.get_devices() has those that there are",
        )
    if name == "cuda":
        return current.device or gpus.device(0)
    kind, _, number = name.partition(":")
    if kind == "cuda" and number.isdecimal():
        return gpus.device(int(number))
    raise MisuseError(
        f"there is no device {name!r}; devices are called 'cpu', 'cuda:0', 'cuda:1' and so on",
        remedy="dk.get_devices() has those that there are",
    )


def get_device(name: Any = None) -> Device:
    """Return a device by name.

    Parameters
    ----------
    name : str or Device, optional
        ``"cpu"``, ``"cuda:0"``, or ``"cuda"`` for the current GPU or the first; the current device by default.

    Returns
    -------
    Device
        The device; of one name always the same object.

    Raises
    ------
    ValueError
        If there is no such device.
    """
    device: Device = gpu_named(name) or CPU
    return device


def get_devices() -> list[Device]:
    """Return all devices, the CPU first."""
    return [CPU, *get_cuda_devices()]


def get_cuda_devices() -> list[Device]:
    """Return all GPUs; none without a driver."""
    return list(GPU.value.devices())


def get_cuda_device(ordinal: int | None = None) -> Device:
    """Return a GPU by its number.

    Parameters
    ----------
    ordinal : int, optional
        The number, from 0; the current GPU by default, or the first.

    Returns
    -------
    CudaDevice
        The GPU.

    Raises
    ------
    ValueError
        If there is no such GPU.
    """
    found: Device = gpu_named("cuda" if ordinal is None else f"cuda:{ordinal}")
    return found


def get_cuda_device_count() -> int:
    """Return the number of GPUs."""
    return len(get_cuda_devices())


def is_cpu_available() -> bool:
    """Return True: kernels can always run on the CPU."""
    return True


def is_device_available(device: Any) -> bool:
    """Return whether a device exists.

    Parameters
    ----------
    device : str or Device
        ``"cpu"``, ``"cuda:0"``, …

    Returns
    -------
    bool
        Whether arrays and launches can name it.
    """
    try:
        get_device(device)
    except (ValueError, CudaError):
        return False
    return True


def is_cuda_available() -> bool:
    """Return whether a usable GPU exists."""
    return bool(get_cuda_devices())


def get_preferred_device() -> Device:
    """Return the current device if it is a GPU, else the first GPU, else the CPU."""
    return current.device or next(iter(get_cuda_devices()), CPU)


def set_device(name: Any) -> None:
    """Make a device the current one of this thread, on which arrays are made that do not name another.

    Parameters
    ----------
    name : str or Device
        As in :func:`get_device`.

    Raises
    ------
    ValueError
        If there is no such device.
    """
    put("device", gpu_named(name))


class ScopedDevice(Scope):
    """Makes a device the current one inside a ``with`` block.

    Parameters
    ----------
    device : str or Device
        As in :func:`get_device`.

    Raises
    ------
    ValueError
        If there is no such device.

    Examples
    --------
    >>> with dk.ScopedDevice("cpu"):
    ...     x = dk.zeros(3)
    """

    def __init__(self, device: Any) -> None:
        self.device = get_device(device)

    def _begin(self) -> tuple[str, Device | None, Device]:
        return "device", gpu_named(self.device), self.device


def is_peer_access_supported(target_device: Any, peer_device: Any) -> bool:
    """Return whether kernels of one GPU can be allowed to access the memory of another.

    Parameters
    ----------
    target_device : str or Device
        The device with the memory.
    peer_device : str or Device
        The device with the kernels.

    Returns
    -------
    bool
        False also where either is the CPU.
    """
    target, peer = gpu_named(target_device), gpu_named(peer_device)
    return target is not None and peer is not None and peer.can_access(target)


def is_peer_access_enabled(target_device: Any, peer_device: Any) -> bool:
    """Return whether kernels of one GPU may access the memory of another.

    Parameters
    ----------
    target_device : str or Device
        The device with the memory.
    peer_device : str or Device
        The device with the kernels.

    Returns
    -------
    bool
        False also where either is the CPU.
    """
    target, peer = gpu_named(target_device), gpu_named(peer_device)
    return target is not None and peer is not None and (target is peer or peer.is_peer_access_enabled(target))


def set_peer_access_enabled(target_device: Any, peer_device: Any, enable: bool = True) -> None:
    """Allow kernels of one GPU to access the memory of another; it stays so until the process ends.

    Parameters
    ----------
    target_device : str or Device
        The device with the memory.
    peer_device : str or Device
        The device with the kernels.
    enable : bool, optional
        Whether they may. Access that was granted cannot be revoked.

    Raises
    ------
    ValueError
        If either is the CPU, the hardware has no such access, or it is to be revoked.
    """
    target, peer = gpu_named(target_device), gpu_named(peer_device)
    if target is None or peer is None:
        raise ValueError("peer access is a matter between two CUDA devices")
    if enable:
        if not peer.can_access(target):
            raise ValueError(f"{peer} cannot reach the memory of {target}")
        peer.enable_peer_access(target)
    elif peer.is_peer_access_enabled(target):
        raise ValueError("peer access that was given is not taken back; leave it on")


def init() -> None:
    """Do nothing; diffkern needs no initialization. For programs that call it."""
