"""Shipping of compiled kernels: making a directory of them, and loading one.

For kernels and the names of targets, artifacts are made in a directory, for processors and GPUs that need not be at
hand; in another process, kernels find them there. For each kernel these are all programs that launches choose from, so
that the other machine needs no compiler.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

from diffkern.analysis.sorted_updates import Unsorted
from diffkern.cache.entries import contents, publish
from diffkern.cache.environment import compiler_digest
from diffkern.cache.maintenance import Artifact, artifacts_of
from diffkern.cache.place import UnsafeError
from diffkern.cache.store import Store, absolute
from diffkern.compiler.specialize import Specialization, runnable_targets
from diffkern.compiler.stores import add_directory
from diffkern.contracts.options import CLEARING, GATHERING, SORTED
from diffkern.contracts.platforms import platform_named
from diffkern.errors import CompileError, KernelError
from diffkern.ir.structs import leaves
from diffkern.ir.types import Array, is_differentiable
from diffkern.kernels.kernel import Kernel
from diffkern.process.dataclass import dataclass
from diffkern.process.late import ELEMENTWISE
from diffkern.process.tracebacks import warn
from diffkern.shipping.ahead import BuildTask, kernel_and_types, make, specializations, target_named

__all__ = ["Programs", "ShippedArtifacts", "compile_ahead", "load_directory"]

Programs = Literal["all", "least"]
"""The set of a kernel's programs that is built."""


@dataclass(frozen=True)
class ShippedArtifacts:
    """A directory of shipped artifacts whose programs this process now finds.

    Attributes
    ----------
    directory : Path
        The directory.
    targets : tuple of str
        Those of its targets that this machine can run, best first; then its GPU architectures, whatever devices there
        are.
    programs : tuple of str
        Its programs for them: direction, kernel, and argument types.
    """

    directory: Path
    targets: tuple[str, ...]
    programs: tuple[str, ...]


def compile_ahead(
    kernels: Iterable[Kernel | tuple[Any, ...]],
    targets: Sequence[str],
    directory: Path,
    *,
    adjoint: bool = True,
    active: Sequence[str] | None = None,
    programs: Programs = "all",
    block_dim: int | None = None,
    processes: int | None = None,
    progress: bool | None = None,
) -> int:
    """Compile kernels for targets into a directory that :func:`load_directory` takes; return the number of programs.

    For one kernel there are several programs in each direction, of which a launch takes one by its arrays.

    Parameters
    ----------
    kernels : iterable of Kernel or (Kernel, type, …)
        As for :func:`compile_kernels`.
    targets : sequence of str
        ``native``, ``x86-64-v2``, ``x86-64-v3``, ``x86-64-v4``, ``aarch64``; GPU architectures from ``sm_75`` on.
    directory : Path
        The directory. Everybody may read it afterwards.
    active : sequence of str, optional
        Names of the parameters to differentiate for, of each kernel those that it has; by default as for
        :func:`compile_kernels`.
    programs : {"all", "least"}, optional
        The programs to make. ``all``: those that a machine needs which is to compile nothing. That includes programs
        for
        launches on a GPU whose arrays overlap, adjoints with atomics for launches whose gradients overlap or in which
        several threads have one index, adjoints that gather sums over all pairs, and on GPUs diffkern's own programs
        that
        copy and add such arrays. ``least``: one in each direction, the one that most launches run.
    block_dim : int, optional
        Threads of a block in launches on GPUs of kernels whose matrix products of tiles are libmathdx's, by default
        each kernel's own number; other kernels are launched with any number.

    Raises
    ------
    KernelError
        If a kernel cannot be compiled or differentiated, or there is no such target.
    OSError
        If the directory cannot be written to.
    """
    chosen = [target_named(name) for name in dict.fromkeys(targets)]
    # Asked before the store makes it: only a directory that is new is opened to everybody.
    is_new = not directory.exists()
    store = Store(directory)
    if not store.is_writable():
        raise PermissionError(f"cannot write to {directory}, or others can")
    wanted: list[Specialization] = []
    pairs: list[tuple[Specialization, str]] = []
    given = [kernel_and_types(item) for item in kernels]
    names = _named_parameters([kernel for kernel, _ in given], active)
    for kernel, types in given:
        found = specializations(kernel, types, adjoint, names.get(kernel))
        wanted += found
        for s, target in product(found, chosen):
            # The program depends on the block size only where a library makes its products.
            if platform_named(target).counts_threads:
                s = s.for_block(block_dim or kernel.block_dim, kernel.enable_mathdx_gemm)
            pairs += [(variant, target) for variant in _variants(s, target, programs)]
    if programs != "least":
        pairs += [(one, target) for target in chosen if platform_named(target).moves_arrays for one in _moving(wanted)]
    work = [_shipped(variant, target, store) for variant, target in pairs]
    make(work, processes, progress)
    # What the processes made is there already; this makes the rest, and raises the errors.
    for one in work:
        one.do()
    publish(directory, is_new)
    return len(work)


def _variants(wanted: Specialization, target: str, programs: Programs) -> list[Specialization]:
    """Return the programs for a target that launches may run in place of one, the usual one first."""
    found = [wanted.for_arrays_apart(), wanted] if platform_named(target).tells_overlaps else [wanted]
    if programs == "least":
        return found[:1]
    if wanted.variant.active is None:
        # A forward program has no variants that accumulate.
        return found
    compilation = wanted.compilation(target)
    adjoint = compilation.adjoint
    sums = compilation.log is None and not isinstance(adjoint.sums, Unsorted) and adjoint.sums
    more = [one.with_variant(form=GATHERING) for one in found] if adjoint.gather is not None else []
    if adjoint.gather is not None and adjoint.gather.numbers is not None:
        more += [one.with_variant(form=CLEARING) for one in found]
    more += [wanted.with_variant(form=SORTED)] if sums else []
    return [*found, *(one.with_atomics() for one in found), *more]


def _moving(wanted: Sequence[Specialization]) -> list[Specialization]:
    """Return the run time's own programs for GPUs by which arrays of some kernels are copied and added.

    The driver copies elements that are contiguous on both sides.
    """
    found = []
    every = [leaf for s in wanted if s.variant.active is None for t in s.types for _, leaf in leaves(t)]
    for element, ndim in dict.fromkeys((t.dtype, t.ndim) for t in every if isinstance(t, Array)):
        for name in ("copy", "add") if is_differentiable(Array(element, ndim)) else ("copy",):
            kernel = ELEMENTWISE(name, ndim)
            layouts = [(destination, source) for destination in "CA" for source in "CA"]
            # A copy between two contiguous arrays is the driver's.
            for destination, source in layouts[1:] if name == "copy" else layouts:
                types = (Array(element, ndim, destination), Array(element, ndim, source))
                found.append(Specialization(kernel.func, types, kernel.variant).for_arrays_apart())
    return found


def _shipped(wanted: Specialization, target: str, store: Store) -> BuildTask:
    return BuildTask(wanted, wanted.fields(), target, store, shipped=True)


def load_directory(directory: str | os.PathLike[str]) -> ShippedArtifacts:
    """Make this process find its kernels' programs in a directory of compiled ones, without a compiler.

    Of several targets the best that this machine supports is taken; of GPU programs those for the architecture of the
    device that a kernel is launched on, or a lesser one of the same major version, and where nothing can be compiled
    those for any lesser one, whose PTX the driver compiles. The directory is made by ``diffkern compile`` or
    ``diffkern cache export`` and is only read. A program that is not in it is looked for in the cache and compiled if
    need be, as always.

    Parameters
    ----------
    directory : str or path
        The directory.

    Returns
    -------
    Library
        Its programs for this machine.

    Raises
    ------
    FileNotFoundError
        If there is no such directory.
    PermissionError
        If it belongs to another user than this one or root, others can write to it, or that holds for all its contents.
    CompileError
        If it has nothing that this machine can run.
    """
    place = absolute(directory)
    if not place.is_dir():
        raise FileNotFoundError(f"there is no directory {place}")
    found = _programs(place)
    usable = _usable_targets(found)
    if not usable:
        has = ", ".join(sorted({a.target for a in found})) or "nothing"
        raise CompileError(
            f"{place} has no program for this machine; it has {has}",
            remedy=f"compile for one of {', '.join(runnable_targets())}",
        )
    _warn_of_other_versions(place, found)
    add_directory(place)
    return ShippedArtifacts(place, tuple(usable), tuple(dict.fromkeys(a.title for a in found if a.target in usable)))


def _usable_targets(found: Sequence[Artifact]) -> list[str]:
    """Return the targets of programs that this machine can run, the best first."""
    here = runnable_targets()
    usable = [target for target in here if any(a.target == target for a in found)]
    # Programs that the driver can compile from PTX are usable too, and come last.
    others = {a.target for a in found if _may_run(a, here)}.difference(here)
    return usable + sorted(others, key=lambda name: (len(name), name))


def _programs(place: Path) -> list[Artifact]:
    """Return the programs in a directory.

    Raises
    ------
    PermissionError
        If others can write to the directory, or to all its contents.
    """
    try:
        there = contents(place)
        found = [a for a in artifacts_of(there) if "types" in a.ingredients]
        # Refused entries are an error only if nothing else is left: the rest of the directory works without them.
        if there.refused and not found:
            raise there.refused[0]
    except UnsafeError as error:
        raise PermissionError(f"{error}: make it yours (chmod -R go-w), or load a copy that is yours") from None
    return found


def _named_parameters(kernels: Sequence[Kernel], active: Sequence[str] | None) -> dict[Kernel, list[str]]:
    """Return for each kernel those of the names that mean one of its parameters; each must mean one somewhere."""
    if active is None:
        return {}
    found = {k: [name for name in active if name.partition(".")[0] in {p.name for p in k.parameters}] for k in kernels}
    for name in active:
        if not any(name in names for names in found.values()):
            raise KernelError(f"no kernel has a parameter {name!r}", remedy="name parameters of the kernels")
    return found


def _may_run(artifact: Artifact, here: Collection[str]) -> bool:
    try:
        return platform_named(artifact.target).may_run(here)
    except LookupError:  # of another version of diffkern, which has more targets
        return False


def _warn_of_other_versions(place: Path, found: Sequence[Artifact]) -> None:
    here = compiler_digest().hex()
    other = sum(a.ingredients.get("diffkern") != here for a in found)
    if other:
        warn(
            f"{other} of the {len(found)} programs in {place} were made by another version of diffkern and are not "
            "used; make the directory again with this one"
        )
