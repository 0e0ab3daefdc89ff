"""Numba's devices and contexts: the GPUs, or the CPU as the one device where there is none.

``Device`` objects stand for those of :mod:`diffkern.runtime.memory.device`, by their numbers. A program of Numba's runs
on the current GPU, the first by default; without a GPU, and in a process with ``NUMBA_ENABLE_CUDASIM=1``, it runs on
the CPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from diffkern.errors import MisuseError
from diffkern.runtime.memory.device import Device as Place
from diffkern.runtime.memory.device import ScopedDevice, get_cuda_device, get_cuda_devices, get_device, set_device
from diffkern.runtime.memory.stream import synchronize_device
from diffkern.runtime.observe.config import config

__all__ = [
    "Context",
    "Device",
    "DeviceList",
    "MemoryInfo",
    "close",
    "current_context",
    "defer_cleanup",
    "detect",
    "get_current_device",
    "gpus",
    "is_available",
    "is_bfloat16_supported",
    "is_float16_supported",
    "is_fp8_supported",
    "list_devices",
    "place",
    "profile_start",
    "profile_stop",
    "profiling",
    "require_context",
    "select_device",
    "synchronize",
]  # fmt: skip

_LIMITS: Final = {
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "MAX_SHARED_MEMORY_PER_BLOCK": 48 * 1024,
    "MAX_THREADS_PER_BLOCK": 1024,
    "WARP_SIZE": 32,
}
"""Limits that are equal for all architectures, by the driver's names of attributes."""


class MemoryInfo(NamedTuple):
    """Bytes of a device's memory."""

    free: float
    total: float


def place() -> Place:
    """Return the device of kernels of Numba's dialect: the current GPU, or the first, or the CPU if there is none."""
    # numba's own variable for its simulator, so that a test suite runs here as it does there.
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1" or not get_cuda_devices():
        return get_device("cpu")
    return get_cuda_device()


class Device:
    """A device; ``with device:`` makes it the current one.

    Attributes
    ----------
    id : int
        Its number; 0 for the CPU.
    place : diffkern.Device
        The device as the rest of diffkern knows it.
    """

    __slots__ = ("_scopes", "id", "place")

    def __init__(self, found: Place) -> None:
        self.place = found
        # The CPU has no ordinal; as the only device it is number 0.
        self.id = max(found.ordinal, 0)
        # A device may be entered several times before it is left: numba hands out equal objects.
        self._scopes: list[ScopedDevice] = []

    @property
    def name(self) -> bytes:
        """Its name, in bytes as in Numba."""
        return self.place.name.encode()

    @property
    def uuid(self) -> str:
        """Its identification, ``GPU-…``; that of the CPU is zero."""
        return self.place.uuid or "GPU-00000000-0000-0000-0000-000000000000"

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Major and minor number of a GPU's architecture; (0, 0) for the CPU."""
        return divmod(self.place.arch, 10)

    @property
    def MULTIPROCESSOR_COUNT(self) -> int:
        """Number of multiprocessors; on the CPU of threads that run kernels."""
        return self.place.sm_count or config.num_threads

    @property
    def supports_float16(self) -> bool:
        """True, as kernels support 16-bit floats on every device."""
        return True

    @property
    def supports_bfloat16(self) -> bool:
        """True, as kernels support bfloat16 on every device."""
        return True

    def get_primary_context(self) -> Context:
        """Return its context."""
        return Context(self)

    def reset(self) -> None:
        """Wait for its work. Arrays and compiled kernels stay as they are."""
        synchronize_device(self.place)

    def __getattr__(self, name: str) -> Any:
        # Only attributes that are the same everywhere: programs use them to choose launch sizes.
        if name in _LIMITS:
            return _LIMITS[name]
        raise AttributeError(
            f"diffkern does not ask devices for {name!r}; there are {', '.join(sorted(_LIMITS))}, MULTIPROCESSOR_COUNT"
        )

    def __enter__(self) -> Context:
        # Scopes restore the device that was current before, also when they are nested.
        scope = ScopedDevice(self.place)
        scope.__enter__()
        self._scopes.append(scope)
        return Context(self)

    def __exit__(self, *failure: Any) -> None:
        self._scopes.pop().__exit__(*failure)

    def __eq__(self, other: object) -> bool:
        # `cuda.gpus[0]` makes a new object each time, so that devices compare by what they stand for.
        return isinstance(other, Device) and other.place == self.place

    def __hash__(self) -> int:
        return hash(self.place)

    def __repr__(self) -> str:
        return f"<CUDA device {self.id} '{self.place.name}'>"


class Context:
    """A device's context in Numba's sense: its memory and its work.

    Attributes
    ----------
    device : Device
        The device of the context.
    """

    __slots__ = ("device",)

    def __init__(self, device: Device) -> None:
        self.device = device

    @property
    def id(self) -> int:
        """The number of the device."""
        return self.device.id

    def get_memory_info(self) -> MemoryInfo:
        """Return the bytes of free memory and of all memory; infinite on the CPU, as in Numba's simulator."""
        on: Any = self.device.place
        if on.is_cpu:
            return MemoryInfo(float("inf"), float("inf"))
        return MemoryInfo(on.free_memory, on.total_memory)

    def synchronize(self) -> None:
        """Wait for all work on the device."""
        synchronize_device(self.device.place)

    def reset(self) -> None:
        """Wait for all work on the device. Arrays and compiled kernels stay as they are."""
        self.synchronize()

    def defer_cleanup(self) -> Any:
        """Return a context manager; see :func:`diffkern.cuda.defer_cleanup`."""
        return defer_cleanup()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"contexts of diffkern have no {name!r}: they have device, id, get_memory_info(), synchronize(), reset() "
            "and defer_cleanup(); memory is allocated by cuda.device_array, streams are made by cuda.stream"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and other.device == self.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __repr__(self) -> str:
        return f"<CUDA context of device {self.device.id}>"


class DeviceList:
    """All devices: ``len(cuda.gpus)``, ``cuda.gpus[0]``, iteration, ``cuda.gpus.current``."""

    __slots__ = ()

    @property
    def lst(self) -> list[Device]:
        """The devices in a list."""
        # Computed on each call, as the environment variable may be set later.
        return [Device(get_device("cpu"))] if place().is_cpu else [Device(found) for found in get_cuda_devices()]

    @property
    def current(self) -> Device:
        """The current device."""
        return Device(place())

    def __getitem__(self, number: int) -> Device:
        return self.lst[number]

    def __iter__(self) -> Iterator[Device]:
        return iter(self.lst)

    def __len__(self) -> int:
        return len(self.lst)

    def __repr__(self) -> str:
        return ", ".join(map(repr, self.lst))


gpus: Final = DeviceList()


def list_devices() -> DeviceList:
    """Return all devices, as in ``cuda.gpus``."""
    return gpus


def select_device(device_id: int) -> Device:
    """Make a device the current one of this thread, and return it.

    Raises
    ------
    MisuseError
        If there is no such device.
    """
    # A negative number would be an index from the end of the list.
    if not 0 <= device_id < len(gpus):
        raise MisuseError(
            f"there is no device {device_id}: there are {len(gpus)}, numbered from 0",
            remedy="cuda.list_devices() has those that there are",
        )
    chosen = gpus[device_id]
    set_device(chosen.place)
    return chosen


def get_current_device() -> Device:
    """Return the current device."""
    return gpus.current


def current_context(devnum: int | None = None) -> Context:
    """Return the context of the current device, or of the one with a number."""
    return Context(gpus.current if devnum is None else gpus[devnum])


def require_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function itself: there always is a context."""
    return function


def is_available() -> bool:
    """Return True: kernels of this module run everywhere. ``diffkern.is_cuda_available()`` asks for a GPU."""
    return True


def is_float16_supported() -> bool:
    """Return True: kernels have 16-bit floats everywhere."""
    return True


def is_bfloat16_supported() -> bool:
    """Return True: kernels have bfloat16 everywhere."""
    return True


def is_fp8_supported() -> bool:
    """Return False: kernels have no floats of 8 bits."""
    return False


def detect() -> bool:
    """Print the devices that kernels of this module run on, and return True."""
    devices = gpus.lst
    # The first words are numba's.
    print(f"Found {len(devices)} CUDA devices" if devices[0].place.is_cuda else "Found no CUDA device: kernels run on")
    for device in devices:
        capability = "{}.{}".format(*device.compute_capability) if device.place.is_cuda else "none"
        print(f"id {device.id}    {device.place.name:>20} {'[SUPPORTED]':>40}")
        for key, value in (("Compute Capability", capability), ("UUID", device.uuid)):
            print(f"{key:>40}: {value}")
    print(f"Summary:\n\t{len(devices)}/{len(devices)} devices are supported")
    return True


def synchronize() -> None:
    """Wait for all work on the current device."""
    synchronize_device(place())


def close() -> None:
    """Wait for all work on all devices. Arrays, compiled kernels and contexts stay usable."""
    # Nothing is freed: arrays may still be in use, and compiled kernels are kept for the process.
    for device in gpus:
        synchronize_device(device.place)


@contextmanager
def defer_cleanup() -> Iterator[None]:
    """Do nothing: memory is given back in the order of the streams and never waits for the device."""
    yield


def profile_start() -> None:
    """Start the collection of a profiler that runs beside the program, such as Nsight; on the CPU do nothing."""
    _profile(True)


def profile_stop() -> None:
    """Stop the collection of a profiler."""
    _profile(False)


@contextmanager
def profiling() -> Iterator[None]:
    """Return a context manager during which a profiler collects."""
    profile_start()
    yield
    profile_stop()


def _profile(collect: bool) -> None:
    on: Any = place()
    if on.is_cuda:
        # A profiler collects for the current context.
        with on.active:
            on.driver.profile(collect)
