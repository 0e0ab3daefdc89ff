"""Files of NVIDIA's wheels, wherever Python finds the wheels.

In: what a file is called and which wheels bring it. Out: where it is, or the library loaded. Wheels lie in
site-packages, in a user's own, in a folder that ``pip install --target`` made, or unpacked somewhere on ``PYTHONPATH``:
what they have in common is that ``importlib`` finds them. A library that is loaded is found by whatever asks the
system for it later, such as the bindings in ``cuda.bindings``, which by themselves look in site-packages alone.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["find", "load", "places"]

_WHEELS: Final = {
    "libnvJitLink.so.*": ("nvidia-nvjitlink", "nvidia-nvjitlink-cu12"),
    "libnvvm.so.*": ("nvidia-nvvm", "nvidia-cuda-nvcc-cu12"),
    "libdevice.10.bc": ("nvidia-nvvm", "nvidia-cuda-nvcc-cu12"),
    "libnvrtc.so.*": ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"),
    "libmathdx.so.*": ("nvidia-libmathdx-cu13", "nvidia-libmathdx-cu12"),
    "libcudadevrt.*": ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"),
    "nvdisasm": ("nvidia-cuda-nvdisasm", "nvidia-cuda-nvdisasm-cu12"),
    "nvdisasm.exe": ("nvidia-cuda-nvdisasm", "nvidia-cuda-nvdisasm-cu12"),
}
"""Which wheels bring a file, those for the newest CUDA first."""

_FOLDERS: Final = ("", "lib", "bin", "nvvm/libdevice", "nvvm/lib64", "nvvm/bin")
"""Where in ``nvidia/cu13`` or ``nvidia/nvjitlink`` files lie."""


def places(pattern: str) -> Iterator[Path]:
    """Yield the files of a name, a key of the table of wheels, in the order in which Python finds their wheels."""
    for wheel in _WHEELS[pattern]:
        try:
            files = importlib.metadata.files(wheel) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.match(pattern):
                yield Path(str(file.locate()))
    # Also of wheels that were unpacked without what describes them.
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or () if spec is not None else ():
        for product in sorted(Path(place).glob("*"), reverse=True):
            for folder in _FOLDERS:
                yield from sorted((product / folder).glob(pattern), reverse=True)


@functools.cache
def find(pattern: str) -> Path | None:
    """Return the first of :func:`places` that is there; None if there is none."""
    return next((place for place in places(pattern) if place.is_file()), None)


@functools.cache
def load(pattern: str) -> ctypes.CDLL | None:
    """Load a library; the one that the process has already where it has one of this name.

    Returns
    -------
    CDLL or None
        None where no wheel has it; it may still come with a toolkit then.

    Raises
    ------
    OSError
        If it is there and cannot be loaded.
    """
    path = find(pattern)
    if path is None:
        return None
    if hasattr(os, "RTLD_NOLOAD"):
        try:
            return ctypes.CDLL(path.name, mode=os.RTLD_NOLOAD | ctypes.DEFAULT_MODE)
        except OSError:
            pass  # it is not loaded
    return ctypes.CDLL(str(path))
