"""Lookup of files in NVIDIA's wheels, wherever Python finds the wheels.

A file name and the wheels that may contain it give its path, or the loaded library. Wheels lie in site-packages, in a
user's own, in a folder that ``pip install --target`` made, or unpacked somewhere on ``PYTHONPATH``; ``importlib`` finds
all of these. A loaded library is found by everything that asks the system for it later, such as the bindings in
``cuda.bindings``, which by themselves search site-packages alone.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["distributions", "find", "identity", "load", "places"]

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
"""The wheels that contain each file, those for the newest CUDA first."""

_FOLDERS: Final = ("", "lib", "bin", "nvvm/libdevice", "nvvm/lib64", "nvvm/bin")
"""The folders of files in ``nvidia/cu13`` or ``nvidia/nvjitlink``."""


_TOOLKIT_FOLDERS: Final = ("", "lib64", "lib", "bin", "nvvm/lib64", "nvvm/libdevice", "nvvm/bin")
_SYSTEM: Final = ("/usr/local/cuda", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")


def distributions(pattern: str) -> tuple[str, ...]:
    """Return the wheels that bring a file, in lower case with underscores."""
    return tuple(name.replace("-", "_") for name in _WHEELS[pattern])


def places(pattern: str) -> Iterator[Path]:
    """Yield the files of a name, a key of the table of wheels, in the order in which Python finds their wheels."""
    from importlib.metadata import PackageNotFoundError, files

    for wheel in _WHEELS[pattern]:
        try:
            known = files(wheel) or []
        except PackageNotFoundError:
            continue
        for file in known:
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


def identity(pattern: str) -> str:
    """Return what tells a file from others of its name where no wheel's version does; ``none`` if it is not found.

    It is that of a wheel which was unpacked without its description, or of a toolkit: of ``CONDA_PREFIX``, the linker's
    folders, ``CUDA_PATH`` and ``CUDA_HOME``, in the order in which ``cuda.pathfinder`` looks.
    """
    # The identity is part of cache keys: another version of the compiler may make other code.
    found = find(pattern) or next(_toolkit_places(pattern), None)
    if found is None:
        return "none"
    file = found.resolve()  # its name has the whole version
    facts = file.stat()
    return f"{file.name}, {facts.st_size} bytes, {facts.st_mtime_ns}"


def _toolkit_places(pattern: str) -> Iterator[Path]:
    known = [os.environ.get("CONDA_PREFIX"), *os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)]
    known += [os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), *_SYSTEM]
    for root in filter(None, known):
        for folder in _TOOLKIT_FOLDERS:
            yield from (place for place in sorted(Path(root, folder).glob(pattern), reverse=True) if place.is_file())


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
            # A library of this name that another package has loaded must not be loaded a second time from another
            # place.
            return ctypes.CDLL(path.name, mode=os.RTLD_NOLOAD | ctypes.DEFAULT_MODE)
        except OSError:
            pass  # it is not loaded
    return ctypes.CDLL(str(path))
