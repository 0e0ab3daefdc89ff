"""The images of a program that a GPU can load: its machine code, or its PTX, which the driver compiles.

The images of an artifact are chosen by a GPU's compute capability and the version of CUDA that the driver supports, the
best first. Machine code is for the GPUs of one major version, and for drivers of the CUDA that made it or a later
one; PTX is for any later GPU, and for drivers that know its version.
"""

from __future__ import annotations

import re
from typing import Final

from diffkern.cache.manifest import StoredArtifact
from diffkern.contracts.platforms import Architecture, platform_named
from diffkern.errors import CudaError

__all__ = ["DRIVER", "OLDEST", "REFUSED", "images", "named", "nearest"]

OLDEST: Final = 12010
"""The oldest CUDA whose drivers take the PTX that LLVM makes."""
DRIVER: Final = "install an NVIDIA driver for CUDA 13 (release 580 or later)"
"""The remedy for an older driver."""
REFUSED: Final = frozenset({200, 209, 218, 222})
"""Errors of the driver that say that an image is not for this GPU or this driver."""

_PTX = "kernel.ptx"
_VERSION = re.compile(rb"^\.version (\d+)\.(\d+)", re.MULTILINE)
# The byte of an ELF file that has the version of its ABI, and the one that came with CUDA 13.
_ABI, _ABI_13 = 8, 8
# The versions of PTX that do not follow from that of CUDA.
_PTX_CUDA: Final = {(8, 6): 12070, (8, 7): 12080, (8, 8): 12090}


def named(version: int) -> str:
    """Return a version of CUDA as people write it: 13.0 for 13000."""
    return f"{version // 1000}.{version % 1000 // 10}"


def nearest(arch: int) -> str:
    """Return the target to compile for, for a GPU of a compute capability; its own name if it is too old for any."""
    platform = platform_named(f"sm_{arch}")
    assert isinstance(platform, Architecture)
    try:
        return platform.nearest()
    except LookupError:
        return platform.name


def images(entry: StoredArtifact, arch: int, version: int) -> list[bytes]:
    """Return the images of an artifact to load, the best first.

    Parameters
    ----------
    entry : Entry
        The artifact.
    arch : int
        The GPU's compute capability, 90 for 9.0.
    version : int
        The CUDA that its driver supports, 13000 for 13.0.

    Raises
    ------
    CudaError
        If there is none that this driver takes.
    """
    cubin, ptx = entry.object_code, entry.more.get(_PTX, b"")
    target, gpu = platform_named(entry.manifest.target), platform_named(f"sm_{arch}")
    assert isinstance(gpu, Architecture)
    # An artifact for another kind of target (as in tests without a GPU) says nothing about architectures.
    fits = not isinstance(target, Architecture) or target.name in gpu.runs()
    made_by, needed = _made_by(cubin), _needed(ptx)
    found = [cubin] if fits and made_by <= version else []
    if ptx and needed <= version:
        found.append(ptx + b"\0")  # the driver reads to the end of a text
    if found:
        return found
    text = f"the driver supports CUDA {named(version)}, and this program needs "
    if fits:
        text += f"CUDA {named(min(made_by, needed) if ptx else made_by)}"
    else:
        text += f"CUDA {named(needed)} to be compiled for a GPU of compute capability {arch // 10}.{arch % 10}"
    raise CudaError(text, remedy=DRIVER)


def _made_by(cubin: bytes) -> int:
    """Return the first CUDA whose drivers take such machine code, as far as is known."""
    return 13000 if len(cubin) > _ABI and cubin[_ABI] >= _ABI_13 else OLDEST


def _needed(ptx: bytes) -> int:
    """Return the first CUDA whose drivers know the version of some PTX."""
    found = _VERSION.search(ptx)
    if found is None:
        return OLDEST
    major, minor = int(found[1]), int(found[2])
    # Up to PTX 8.5, and from 9.0 on, version M.m belongs to CUDA (M + 4).m.
    return _PTX_CUDA.get((major, minor), 1000 * (major + 4) + 10 * minor)
