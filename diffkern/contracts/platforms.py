"""The platforms of programs: the contract between the compilers' targets, and the cache and run time that use them.

A name (``native``, ``x86-64-v3``, ``sm_90``) or this machine's CPU gives a :class:`Platform`, which knows, without
importing any compiler, the key fields that identify its artifacts, the artifacts that it can run, and the package that
compiles for it. A native artifact is for one CPU with exactly its features; a named one is for every CPU of a level,
and can be shipped. GPU programs are for an architecture, ``sm_80``, and those with the same first digits and greater
last ones.

A new target is a package with a function ``target(name)`` (see :mod:`diffkern.targets.target`) and a line in
:data:`FAMILIES`.
"""

from __future__ import annotations

import platform
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import ClassVar, Final

from diffkern.process.dataclass import dataclass

__all__ = [
    "ARCHITECTURES",
    "CUDA_COMPILERS",
    "FAMILIES",
    "HOST",
    "LLVM",
    "MATHDX",
    "NAMED",
    "NATIVE",
    "ON_CHIP",
    "Architecture",
    "Compiler",
    "Family",
    "Level",
    "Platform",
    "Processor",
    "native_fields",
    "platform_named",
    "runnable",
]

NATIVE: Final = "native"
"""This processor, by the compilers installed here: what the cache holds."""
HOST: Final = "host"
"""This processor, in a directory to be shipped: the machine that loads it may have other compilers, or none."""
MATHDX: Final = ("nvidia_libmathdx_cu13", "nvidia_cuda_nvrtc")
"""The library that makes matrix products of tiles, and the compiler that it uses."""

ARCHITECTURES: Final = (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)
"""The architectures of GPUs that can be compiled for, by their versions."""
ON_CHIP: Final = (87, 88, 110)
"""Of these the GPUs in a system on a chip."""

LLVM: Final = "llvm"
"""The compiler that a family has of its own."""

Fields = list[tuple[str, bytes]]
HostCpu = tuple[str, str]


@dataclass(frozen=True)
class Compiler:
    """Another compiler for the targets of a family.

    Attributes
    ----------
    name : str
        As it is chosen.
    package : str
        The Python package that contains it.
    distributions : tuple of str
        The distributions whose versions determine its code, besides diffkern's.
    settings : tuple of str
        Environment variables that do so too.
    libraries : tuple of str
        Files that distributions bring, or a toolkit: keys of the table in :mod:`diffkern.process.wheels`.
    """

    name: str
    package: str
    distributions: tuple[str, ...]
    settings: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """Targets that one package compiles for.

    Attributes
    ----------
    name : str
        Under which their readable source is asked for.
    package : str
        The Python package of their compiler.
    platform : type
        The class of platform that runs their programs.
    names : str
        A regular expression of their names.
    printed : str
        The one for which source is printed: it decides on how much memory a block has.
    compilers : tuple of str
        The distributions that choose the code besides diffkern.
    settings : tuple of str
        Environment variables that do so too.
    libraries : tuple of str
        Files of compilers that distributions bring, or a toolkit: keys of the table in :mod:`diffkern.process.wheels`.
    others : tuple of Compiler
        Alternatives to the family's own compiler, which is called ``llvm``.
    """

    name: str
    package: str
    platform: type[Platform]
    names: str
    printed: str
    compilers: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    others: tuple[Compiler, ...] = ()

    def compiler(self, name: str = LLVM) -> Compiler:
        """Return a compiler by its name; the family's own where it has no other of that name."""
        # A family without that compiler uses its own, so that one setting serves the CPU and GPUs.
        own = Compiler(LLVM, self.package, self.compilers, self.settings, self.libraries)
        return next((other for other in self.others if other.name == name), own)


@dataclass(frozen=True)
class Platform(ABC):
    """A platform that programs are compiled for.

    Attributes
    ----------
    name : str
        The name as it was given: ``native``, ``sm_90``.
    family : Family
        The family whose compiler makes its programs.
    tells_overlaps : bool
        True if launches in which no array that is written overlaps another one have programs of their own.
    counts_threads : bool
        True if a program may depend on the number of threads of a block.
    moves_arrays : bool
        True if arrays that are not contiguous are copied by programs.
    object_name : str
        The name of the file with the machine code.
    """

    name: str
    family: Family
    tells_overlaps: ClassVar[bool]
    counts_threads: ClassVar[bool]
    moves_arrays: ClassVar[bool]
    object_name: ClassVar[str]

    @abstractmethod
    def key_fields(self, host_cpu: Callable[[], HostCpu], compilers: Callable[[], Fields], *, shipped: bool) -> Fields:
        """Return what tells its artifacts from others.

        Parameters
        ----------
        host_cpu : callable
            Returns LLVM's name of this machine's processor and its features.
        compilers : callable
            Returns the fields of the compilers that are installed here.
        shipped : bool
            Whether they are for machines that may have other compilers, or none.
        """

    @abstractmethod
    def symbol(self, name: str, digest: str) -> str:
        """Return what a program's function is called, of what a person calls it and of its key."""

    @abstractmethod
    def may_run(self, runnable: Collection[str]) -> bool:
        """Return whether a program for it may run on a machine whose processor runs those of some platforms."""

    def runs(self) -> list[str]:
        """Return the platforms whose shipped programs this one runs too, best first; none where the host decides."""
        return []

    def translated(self) -> list[str]:
        """Return those whose programs a driver can compile for this one, best first."""
        return []


class Processor(Platform):
    """A processor, or a level of processors on this operating system."""

    tells_overlaps = counts_threads = moves_arrays = False
    object_name = "kernel.o"

    def key_fields(self, host_cpu: Callable[[], HostCpu], compilers: Callable[[], Fields], *, shipped: bool) -> Fields:
        # An artifact for this CPU depends on its exact features; one that is shipped must not depend on compilers,
        # which the receiving machine may lack.
        if self.name in (NATIVE, HOST):
            return native_fields(host_cpu()) + (compilers() if self.name == NATIVE else [])
        # A named level fixes the architecture, so that its key is the same on every machine.
        machine = NAMED[self.name].machine if self.name in NAMED else _machine()
        own = [("platform", _system(machine).encode()), ("target", self.name.encode())]
        return own if shipped else own + compilers()

    def symbol(self, name: str, digest: str) -> str:
        # Programs of one process share a table of symbols, so the digest alone names a function.
        return f"dk_{digest[:32]}"

    def may_run(self, runnable: Collection[str]) -> bool:
        return self.name in runnable


class Architecture(Platform):
    """An architecture of GPUs, whose name ends with the digits of its version.

    Machine code (a cubin) runs on GPUs with the same major version and the same or a greater minor one; that of the
    GPUs in a system on a chip (:data:`ON_CHIP`) on these alone, which run no other. PTX is compiled by the driver for
    any later GPU.
    """

    tells_overlaps = counts_threads = moves_arrays = True
    object_name = "kernel.cubin"

    def key_fields(self, host_cpu: Callable[[], HostCpu], compilers: Callable[[], Fields], *, shipped: bool) -> Fields:
        more = [("shipped", b"for machines with any compilers")] if shipped else compilers()
        return [("target", self.name.encode()), *more]

    @property
    def number(self) -> int:
        """The version of the architecture, 90 for 9.0."""
        return int(self.name.removeprefix("sm_"))

    def symbol(self, name: str, digest: str) -> str:
        """Return a name that says which kernel it is, because profilers show it."""
        return re.sub("[^0-9A-Za-z_]", "_", name) + f"_{digest[:16]}"

    def may_run(self, runnable: Collection[str]) -> bool:
        """Return True: which GPU a launch is on is known when it is made."""
        return True

    def runs(self) -> list[str]:
        """Return the architectures whose machine code it runs, itself first, then those that are nearest."""
        # A system on a chip runs no other GPU's machine code.
        if self.number in ON_CHIP:
            return [self.name]
        major = self.number - self.number % 10
        # Machine code is compatible within a major version, upwards.
        return [f"sm_{n}" for n in range(self.number, major - 1, -1) if n not in ON_CHIP]

    def translated(self) -> list[str]:
        """Return the known architectures whose PTX the driver can compile for it, but not their machine code."""
        # The nearest PTX first, as it may use the most instructions of this GPU.
        later = [n for n in sorted(ARCHITECTURES, reverse=True) if n <= self.number]
        return [name for name in (f"sm_{n}" for n in later) if name not in self.runs()]

    def nearest(self) -> str:
        """Return the architecture to compile for.

        Raises
        ------
        LookupError
            If all that can be compiled for are later ones.
        """
        known = {f"sm_{n}" for n in ARCHITECTURES}
        found = next((name for name in (*self.runs(), *self.translated()) if name in known), None)
        if found is None:
            raise LookupError(f"nothing can be compiled for {self.name}")
        return found


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
"""Levels of processors by name; of one architecture the best first."""

_CPU = ("llvmlite", "numba")
_NUMBA = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX")  # with these it compiles for another processor
_CUDA = ("llvmlite", "nvidia_nvvm", "nvidia_nvjitlink", *MATHDX)
_NVRTC = ("DIFFKERN_NVRTC",)
_CUDA_FILES = ("libnvJitLink.so.*", "libnvvm.so.*", "libdevice.10.bc")
_NUMBA_CUDA = Compiler(
    "numba",
    "diffkern.targets.numba_cuda",
    ("numba_cuda", "numba", *_CUDA),
    _NVRTC,
    _CUDA_FILES,
)

FAMILIES: tuple[Family, ...] = (
    Family("cpu", "diffkern.targets.cpu", Processor, "|".join((NATIVE, HOST, *NAMED)), NATIVE, _CPU, _NUMBA),
    Family("cuda", "diffkern.targets.cuda", Architecture, "sm_[0-9]{2,}", "sm_90", _CUDA, _NVRTC, _CUDA_FILES,
           (_NUMBA_CUDA,)),
)  # fmt: skip
"""The registry of targets."""

LINKER: Final = _NUMBA_CUDA.name
"""The compiler of GPU programs into which a library's LTO code is linked."""

CUDA_COMPILERS: Final = (LLVM, *(other.name for family in FAMILIES for other in family.others))
"""The compilers of GPU programs."""


def platform_named(name: str) -> Platform:
    """Return a platform by the name of the target.

    Raises
    ------
    LookupError
        If no family has such a target.
    """
    for family in FAMILIES:
        if re.fullmatch(family.names, name):
            return family.platform(name, family)
    raise LookupError(f"no target is called {name!r}")


def native_fields(host_cpu: HostCpu) -> Fields:
    """Return the fields of this machine's own artifacts, of LLVM's name of the processor and its features."""
    cpu, features = host_cpu
    return [("platform", _system(_machine()).encode()), ("cpu", cpu.encode()), ("features", features.encode())]


def runnable(host_cpu: Callable[[], HostCpu]) -> list[str]:
    """Return the levels of processors whose artifacts this machine can run, best first."""
    machine = _machine()
    candidates = [name for name, level in NAMED.items() if level.machine == machine]
    # Asking LLVM for the features loads it; an architecture with one level can do without.
    if not any(NAMED[name].needs for name in candidates):
        return candidates
    # LLVM lists the features that a CPU lacks as well, with a minus.
    has = {feature[1:] for feature in host_cpu()[1].split(",") if feature.startswith("+")}
    return [name for name in candidates if has.issuperset(NAMED[name].needs)]


def _machine() -> str:
    name = platform.machine().lower()
    # Operating systems name the same architecture differently.
    return {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}.get(name, name)


def _system(machine: str) -> str:
    # The width of pointers tells a 32-bit process on a 64-bit machine.
    return f"{sys.platform} {machine} {sys.byteorder} {sys.maxsize.bit_length() + 1}"
