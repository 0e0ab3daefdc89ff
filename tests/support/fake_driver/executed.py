"""Kernels that launches on the fake driver run: the CPU's program of the same specialization, or the PTX itself."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable

import numpy as np

from diffkern.contracts import abi
from diffkern.runtime.native.loader import load_object
from support.ptx.grid import Launch, launch
from support.ptx.image import load_image
from support.ptx.memory import Allocations

from .base import Launched

__all__ = ["executor", "ptx_executor"]

_PARTIALS = 4096
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_image = functools.lru_cache(maxsize=256)(load_image)


@functools.cache
def executor(image: bytes, name: str) -> Callable[[bytes], None]:
    """Return what runs all threads of a launch on an argument block, one after the other."""
    try:
        found = load_object(image, [name, f"{name}_finish"])
    except Exception:
        found = load_object(image, [name])
    kernel = _KERNEL(found[name])
    finish = _KERNEL(found[f"{name}_finish"]) if f"{name}_finish" in found else None

    def run(block: bytes) -> None:
        fields = list(struct.unpack_from(abi.HEADER_FORMAT, block))
        if fields[6]:
            raise AssertionError("the header of a GPU's argument block has no partial sums")
        if fields[5]:
            # A program that works in blocks: it counts those, and the last extent is their size.
            threads = int(np.prod([int(extent) for extent in fields[1:4]], dtype=object)) // fields[5]
        else:
            threads = int(np.prod([int(extent) for extent in fields[1:5]], dtype=object))
        partials = np.zeros(_PARTIALS, np.int64)
        fields[5], fields[6] = threads, partials.ctypes.data
        copy = ctypes.create_string_buffer(struct.pack(abi.HEADER_FORMAT, *fields) + block[abi.HEADER_SIZE :])
        address = ctypes.addressof(copy)
        kernel(address, 0, threads)
        if finish is not None:
            finish(address, 0, 1)

    return run


def ptx_executor(
    text: bytes,
    name: str,
    find: Callable[[int], tuple[int, int] | None],
    seed: Callable[[], int],
    races: bool = True,
) -> Callable[[Launched], None]:
    """Return what interprets a kernel of a PTX module for a launch.

    Parameters
    ----------
    find
        Returns the allocation that an address lies in, as its start and its size, or None.
    seed
        Returns what decides on the order of a launch's warps.
    races
        Whether a race is a fault.
    """
    image = _image(text.decode())

    def run(launched: Launched) -> None:
        asked = Launch(launched.blocks, launched.threads, launched.block, launched.shared, seed(), races=races)
        launch(image, name, asked, Allocations(find))

    return run
