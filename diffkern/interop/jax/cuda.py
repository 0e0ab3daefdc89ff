"""CUDA: the driver's functions that the handler calls, and programs loaded by it.

In a process in which JAX has a GPU, :func:`present` returns a :class:`ArchitectureGpus`, by which calls get programs
for its architecture; it returns None in all other processes. Programs are loaded as CUDA's libraries, whose kernels are
good for every device of the process.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from array import array as words
from typing import Any, Protocol

from diffkern.cache.manifest import StoredArtifact
from diffkern.contracts import abi
from diffkern.errors import CudaError
from diffkern.interop.jax.call_encoding import DeviceCode
from diffkern.interop.jax.layout import DRIVER, HANDLER, REGISTRY
from diffkern.interop.jax.registry import Registry, capsule, load_handler
from diffkern.runtime.cuda.images import REFUSED, images, nearest

__all__ = ["ArchitectureGpus", "CudaRegistry", "DriverFunctions", "NativeDriver", "present"]

_FEW_BLOCKS = 2048  # of programs whose blocks add to sums: as many as the largest GPU keeps busy


class DriverFunctions(Protocol):
    """The functions of CUDA's driver that are needed."""

    def addresses(self) -> tuple[int, int, int, int]:
        """Return the addresses of cuLaunchKernel, cuMemsetD8Async, cuMemcpyAsync and cuKernelGetFunction."""
        ...

    def version(self) -> int:
        """Return the CUDA version that it supports, 13000 for 13.0."""
        ...

    def load(self, image: bytes, symbol: str) -> int:
        """Load a cubin, or PTX, and return a ``CUkernel`` of it."""
        ...


class NativeDriver:
    """CUDA's driver library, of CUDA 12 or later."""

    _NAMES = ("cuLaunchKernel", "cuMemsetD8Async", "cuMemcpyAsync", "cuKernelGetFunction")

    def __init__(self) -> None:
        self._library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        self._images: list[bytes] = []

    def addresses(self) -> tuple[int, int, int, int]:
        found = [ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value or 0 for name in self._NAMES]
        return found[0], found[1], found[2], found[3]

    def version(self) -> int:
        found = ctypes.c_int()
        self._check("cuDriverGetVersion", self._library.cuDriverGetVersion(ctypes.byref(found)))
        return found.value

    def load(self, image: bytes, symbol: str) -> int:
        library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        # Kept: the driver may read the image as long as the library is loaded.
        self._images.append(image)
        none, zero = ctypes.c_void_p(), ctypes.c_uint(0)
        self._check(
            "cuLibraryLoadData",
            self._library.cuLibraryLoadData(ctypes.byref(library), image, none, none, zero, none, none, zero),
        )
        status = self._library.cuLibraryGetKernel(ctypes.byref(kernel), library, symbol.encode())
        self._check("cuLibraryGetKernel", status)
        return kernel.value or 0

    @staticmethod
    def _check(call: str, status: int) -> None:
        if status:
            raise CudaError(f"{call} failed with error {status}", call=call, code=status)


class CudaRegistry(Registry):
    """The calls that the handler for CUDA can find."""

    platform = "CUDA"

    def __init__(self, driver: DriverFunctions) -> None:
        super().__init__()
        self.functions = words("q", driver.addresses())

    def addresses(self) -> dict[str, int]:
        found = load_handler(_handler, (HANDLER, REGISTRY, DRIVER))
        ctypes.c_int64.from_address(found[DRIVER]).value = self.functions.buffer_info()[0]
        return found

    def capsules(self, handler: int) -> Any:
        return {"initialize": capsule(handler), "execute": capsule(handler)}


def _handler() -> str:
    from diffkern.interop.jax.cuda_handler import cuda_handler_ir  # here, because kept object code does without it

    return cuda_handler_ir()


class ArchitectureGpus:
    """GPUs of one architecture in this process.

    Parameters
    ----------
    driver : Driver
        The driver.
    arch : int
        Their compute capability, 90 for 9.0.

    Attributes
    ----------
    target : str
        The architecture to compile for, such as ``sm_90``.
    """

    def __init__(self, driver: DriverFunctions, arch: int) -> None:
        self.arch, self.target = arch, nearest(arch)
        self.registry = CudaRegistry(driver)
        self._driver = driver
        self._loaded: dict[str, DeviceCode] = {}

    def code(self, entry: StoredArtifact) -> DeviceCode:
        """Return a program in the driver."""
        symbol = entry.symbols[0]
        if symbol not in self._loaded:
            manifest = entry.manifest
            kernel = self._load(entry, symbol)
            shared, threads = manifest.resources.dynamic_shared_bytes, manifest.block_dim
            # Blocks of programs with sums add to them, so few blocks that each do much are better. Other grids have as
            # many threads as allowed; a launch with more threads loops within each.
            blocks = _FEW_BLOCKS if manifest.sites else abi.CUDA_GRID_THREADS // threads - 1
            self._loaded[symbol] = DeviceCode(kernel, blocks, shared, threads, manifest)
        return self._loaded[symbol]

    def _load(self, entry: StoredArtifact, symbol: str) -> int:
        # The best image first; a driver that is too old for it refuses it, and PTX comes last.
        *better, last = images(entry, self.arch, self._driver.version())
        for image in better:
            try:
                return self._driver.load(image, symbol)
            except CudaError as error:
                if error.code not in REFUSED:
                    raise
        return self._driver.load(last, symbol)


@functools.cache
def present() -> ArchitectureGpus | None:
    """Return the GPUs on which JAX computes, or None if it computes on another platform."""
    import jax

    if jax.default_backend() != "gpu":
        return None
    device = jax.devices()[0]
    # Of AMD's GPUs the capability is a name.
    capability = str(getattr(device, "compute_capability", "")).replace(".", "")
    return ArchitectureGpus(NativeDriver(), int(capability)) if capability.isdigit() else None
