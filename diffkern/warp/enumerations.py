"""Enumerations of Warp whose members choose what diffkern does by itself, or what it does not have."""

from __future__ import annotations

import enum
from typing import Final

__all__ = [
    "TIMING_ALL", "TIMING_GRAPH", "TIMING_KERNEL", "TIMING_KERNEL_BUILTIN", "TIMING_MEMCPY", "TIMING_MEMSET",
    "CaptureMode", "JaxCallableGraphMode", "JaxModulePreloadMode", "MemoryKind", "TextureResourceFlags",
]  # fmt: skip


class CaptureMode(enum.IntEnum):
    """The calls of CUDA's API that a capture forbids; captures of diffkern make none of them."""

    GLOBAL = 0
    THREAD_LOCAL = 1
    RELAXED = 2


class JaxCallableGraphMode(enum.IntEnum):
    """The owner of the graph in which a function called by JAX is captured; here it is always JAX."""

    NONE = 0
    JAX = 1
    WARP = 2
    WARP_STAGED = 3
    WARP_STAGED_EX = 4


class JaxModulePreloadMode(enum.IntEnum):
    """For which devices kernels are compiled before JAX calls them: always for the one that calls."""

    NONE = 0
    CURRENT_DEVICE = 1
    ALL_DEVICES = 2


class MemoryKind(enum.IntEnum):
    """In which memory an array lies."""

    UNKNOWN = 0
    HOST = 1
    PINNED = 2
    CUDA_DEVICE = 3
    CUDA_MEMPOOL = 4
    CUDA_MANAGED = 5


class TextureResourceFlags(enum.IntEnum):
    """The access flags of an OpenGL texture."""

    NONE = 0
    READ_ONLY = 1
    WRITE_DISCARD = 2
    SURFACE_LDST = 4
    TEXTURE_GATHER = 8


TIMING_KERNEL: Final = 1
TIMING_KERNEL_BUILTIN: Final = 2
TIMING_MEMCPY: Final = 4
TIMING_MEMSET: Final = 8
TIMING_GRAPH: Final = 16
TIMING_ALL: Final = 0xFFFFFFFF
