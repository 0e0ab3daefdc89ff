"""The processors that artifacts are made for.

In: the name of a target, or this machine's processor. Out: the labelled fields that tell the target's artifacts from
those of other targets, and which targets this machine can run, best first. A native artifact is for one processor with
exactly its features; a named one is for every processor of a level, and can be shipped. GPU programs are for an
architecture, ``sm_80``, and those with the same first digits and greater last ones.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = [
    "HOST",
    "NAMED",
    "NATIVE",
    "Level",
    "gpu_candidates",
    "is_gpu",
    "native_fields",
    "runnable",
    "shipped_fields",
]

NATIVE: Final = "native"
"""This processor, by the compilers installed here: what the cache holds."""
HOST: Final = "host"
"""This processor, in a directory to be shipped: whoever loads it may have other compilers, or none."""


@dataclass(frozen=True)
class Level:
    """A level of processors.

    Attributes
    ----------
    machine : str
        Its architecture: ``x86_64`` or ``aarch64``.
    cpu : str
        LLVM's name.
    needs : tuple of str
        Features beyond those of every processor of the architecture, as LLVM calls them.
    fma : bool
        Whether it has fused multiply-add instructions.
    """

    machine: str
    cpu: str
    needs: tuple[str, ...]
    fma: bool


_V2 = ("cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

NAMED: Final[dict[str, Level]] = {
    "x86-64-v4": Level("x86_64", "x86-64-v4", _V4, True),
    "x86-64-v3": Level("x86_64", "x86-64-v3", _V3, True),
    "x86-64-v2": Level("x86_64", "x86-64-v2", _V2, False),
    "aarch64": Level("aarch64", "generic", (), True),
}
"""Targets by name; of one architecture the best first."""


def native_fields(host_cpu: tuple[str, str]) -> list[tuple[str, bytes]]:
    """Return the fields of this machine's own artifacts.

    Parameters
    ----------
    host_cpu : (str, str)
        LLVM's name of the processor and its features.
    """
    cpu, features = host_cpu
    return [("platform", _platform(_machine()).encode()), ("cpu", cpu.encode()), ("features", features.encode())]


_GPU = re.compile(r"sm_(?P<major>[0-9]+)(?P<minor>[0-9])")


def is_gpu(target: str) -> bool:
    """Return whether a target is a GPU architecture."""
    return _GPU.fullmatch(target) is not None


def gpu_candidates(target: str) -> list[str]:
    """Return the architectures whose programs an architecture runs, best first: same major version, minor no greater.

    Raises
    ------
    ValueError
        If the target is no GPU architecture.
    """
    match = _GPU.fullmatch(target)
    if match is None:
        raise ValueError(f"{target!r} is not a GPU architecture such as sm_90")
    return [f"sm_{match['major']}{minor}" for minor in range(int(match["minor"]), -1, -1)]


def shipped_fields(name: str) -> list[tuple[str, bytes]]:
    """Return the fields of the artifacts made for a named target: of a processor, on this operating system."""
    if is_gpu(name):
        return [("target", name.encode()), ("shipped", b"for machines with any compilers")]
    return [("platform", _platform(NAMED[name].machine).encode()), ("target", name.encode())]


def runnable(host_cpu: Callable[[], tuple[str, str]]) -> list[str]:
    """Return the named targets whose artifacts this machine can run, best first."""
    machine = _machine()
    candidates = [name for name, level in NAMED.items() if level.machine == machine]
    if not any(NAMED[name].needs for name in candidates):
        return candidates
    has = {feature[1:] for feature in host_cpu()[1].split(",") if feature.startswith("+")}
    return [name for name in candidates if has.issuperset(NAMED[name].needs)]


def _machine() -> str:
    name = platform.machine().lower()
    return {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}.get(name, name)


def _platform(machine: str) -> str:
    return f"{sys.platform} {machine} {sys.byteorder} {sys.maxsize.bit_length() + 1}"
