"""Programs of kernels with the identity by which calls name them, and calls in the cache.

A kernel and types, or a directory of artifacts, give programs in memory by identity, which is the same on every
machine. Entries in the cache tell a process that never traced which programs to load for a call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from diffkern.cache.key import key
from diffkern.cache.maintenance import artifacts
from diffkern.cache.manifest import StoredArtifact
from diffkern.cache.store import Store
from diffkern.compiler.specialize import Specialization, artifact_key, is_for_this_machine, load_entry, load_stored
from diffkern.compiler.stores import current_store
from diffkern.contracts.manifest import Log, Manifest
from diffkern.contracts.options import ATOMIC, PLAIN, AdjointForm, Merged
from diffkern.contracts.platforms import NATIVE
from diffkern.errors import KernelError, LaunchError
from diffkern.interop.jax import cuda
from diffkern.interop.jax.call import XlaCall
from diffkern.interop.jax.call_encoding import Code
from diffkern.interop.jax.registry import CPU
from diffkern.kernels.derived_kernel import batched_launch
from diffkern.kernels.kernel import Kernel
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.type_keys import type_of_key
from diffkern.runtime.launch.derivative import DerivativePlan
from diffkern.runtime.launch.kernel_version import KernelVersion
from diffkern.runtime.launch.program import Executable

__all__ = ["KeyedProgram", "Origin", "Programs", "enter_stored", "forward", "keep", "logged", "reverse"]

_WHAT = "JAX call"
_STATIC_SHARED = 48 << 10  # what a block has without being asked for more
_WORTH_ALONE = 8  # threads of an example that are worth a launch of their own, where that saves atomics
_REGISTERS = 1 << 16  # what the threads of a block share


@dataclass(frozen=True)
class KeyedProgram:
    """A program in memory, and its key in the cache."""

    identity: str
    artifact: str
    code: Code

    @property
    def manifest(self) -> Manifest:
        """Its facts."""
        return self.code.manifest


@dataclass(frozen=True)
class Origin:
    """The origin of the programs of a launch.

    Attributes
    ----------
    kernel, generation, keys
        The kernel, its version, and the types of its arguments.
    active : frozenset of int or None
        The active parameters, for an adjoint.
    merged : sequence of (int, int)
        Of a forward, the parameters that have the buffer of another one, which it writes, each with that one.
    """

    kernel: Kernel
    generation: KernelVersion
    keys: tuple[str, ...]
    active: frozenset[int] | None = None
    merged: Merged = ()

    @property
    def manifest(self) -> Manifest:
        """The facts of the kernel's forward program."""
        return self.kernel.forward(self.keys, of=self.generation).manifest


@dataclass(frozen=True)
class Programs:
    """The programs of a launch: on the CPU, on the CPU with atomic accumulation, and on a GPU.

    ``origin`` is None if a log ties the programs to one launch.
    """

    plain: KeyedProgram
    atomic: KeyedProgram | None
    on_gpu: KeyedProgram | None
    origin: Origin | None = None

    @property
    def derivative(self) -> DerivativePlan:
        """The reads and accumulations of an adjoint."""
        assert isinstance(self.plain.code, Executable)
        return self.plain.code.derivative

    def differing(self, given: Collection[int]) -> tuple[int, ...] | None:
        """Return the arguments that have an axis of examples if `given` have it; None if they cannot have one."""
        return None if self.origin is None else tuple(sorted({*given, *self.origin.manifest.writes}))

    def batched(
        self, dims: tuple[Any, ...], size: int, arguments: tuple[int, ...]
    ) -> tuple[Programs, tuple[int, ...]] | None:
        """Return the programs for a batch whose examples differ in some arguments, and the dims of their launch.

        None if each example has to be launched by itself.
        """
        assert self.origin is not None
        kernel, of, keys, active = self.origin.kernel, self.origin.generation, self.origin.keys, self.origin.active
        launch = batched_launch(kernel, keys, self.origin.manifest, dims, size, arguments)
        # One by one, examples on a processor add up in registers and without atomics.
        alone = self.on_gpu is None and math.prod(dims) >= _WORTH_ALONE
        if launch is None or of.variant.is_debug or (alone and self._adds_up):
            return None
        generation = launch.kernel.meant(of)
        try:
            if active is None:
                return forward(launch.kernel, generation, launch.keys, self.origin.merged), launch.dims
            found = reverse(launch.kernel, generation, launch.keys, active, len(launch.dims))
        except KernelError:
            return None
        # The preconditions of a gradient were checked for one example; for the batch they would have to be checked
        # again.
        if found.plain.manifest.races or found.origin is None or (alone and found._adds_up):
            return None
        return found, launch.dims

    @property
    def _adds_up(self) -> bool:
        """True if threads add to the same numbers."""
        return self.atomic is not None or (isinstance(self.plain.code, Executable) and self.plain.code.sites > 0)


def forward(kernel: Kernel, of: KernelVersion, keys: tuple[str, ...], merged: Merged = ()) -> Programs:
    """Return the forward programs for types of arguments, built if need be.

    `of` is the version of the kernel when the call was traced, and `merged` are parameters that share a buffer.
    """
    gpu = cuda.present()
    on_gpu = None if gpu is None else _on_gpu(gpu, kernel, of, _meant(kernel, of, keys, gpu, merged))
    code = kernel.merged_forward(keys, merged, of=of) if merged else kernel.forward(keys, of=of)
    plain = _program(code, _meant(kernel, of, keys, merged=merged))
    return Programs(plain, None, on_gpu, Origin(kernel, of, keys, merged=merged))


def logged(kernel: Kernel, of: KernelVersion, keys: tuple[str, ...], log: Log) -> Programs:
    """Return the forward programs that write a log; like :func:`forward`."""
    code, gpu = kernel.logged(keys, "written", log.active, of=of), cuda.present()
    active = None if log.active is None else frozenset(log.active)
    plain = _program(code, _meant(kernel, of, keys).with_variant(log="written", log_for=active))
    if gpu is None:
        return Programs(plain, None, None)
    specialization = _meant(kernel, of, keys, gpu).with_variant(log="written", log_for=active)
    return Programs(plain, None, _on_gpu(gpu, kernel, of, specialization))


def reverse(kernel: Kernel, of: KernelVersion, keys: tuple[str, ...], active: frozenset[int], axes: int) -> Programs:
    """Return the adjoint programs for active parameters and launches of so many axes; like :func:`forward`."""

    def made(form: AdjointForm) -> KeyedProgram:
        code = kernel.adjoint(keys, active, form, of=of)
        return _program(code, _meant(kernel, of, keys).with_variant(active=active, form=form))

    plain, gpu = made(PLAIN), cuda.present()
    found = Programs(plain, None, None)
    if found.derivative.log is None:
        found = replace(found, origin=Origin(kernel, of, keys, active))
    apart = plain.manifest.blockwise or not found.derivative.may_race(axes)
    atomic = None if apart else made(ATOMIC)
    if gpu is None:
        return replace(found, atomic=atomic)
    # There it accumulates atomically wherever threads may race, so that only the axes of the launch matter.
    how = ATOMIC if axes > found.derivative.axes else PLAIN
    specialization = _meant(kernel, of, keys, gpu).with_variant(active=active, form=how)
    return replace(found, atomic=atomic, on_gpu=_on_gpu(gpu, kernel, of, specialization))


def _meant(
    kernel: Kernel,
    of: KernelVersion,
    keys: tuple[str, ...],
    gpu: cuda.ArchitectureGpus | None = None,
    merged: Merged = (),
) -> Specialization:
    """Return the specialization of the forward program.

    On a GPU the handler cannot read values, and no debug program's record is examined.
    """
    variant = replace(of.variant, merged=merged)
    found = Specialization(kernel.function_of(of), tuple(type_of_key(k) for k in keys), variant)
    return found if gpu is None else found.with_variant(mode="release", by_reference=True)


def _program(code: Code, specialization: Specialization) -> KeyedProgram:
    # A program that prints needs Python, which the handler doesn't have.
    _check_kernel(code.manifest, specialization)
    fields = specialization.fields()
    return KeyedProgram(key(fields), artifact_key(fields, NATIVE), code)


def _on_gpu(
    gpu: cuda.ArchitectureGpus, kernel: Kernel, of: KernelVersion, specialization: Specialization
) -> KeyedProgram:
    # What a call writes are results of it, which XLA keeps apart from one another and from what the call still reads.
    specialization = specialization.for_block(kernel.block_dim, of.library, gpu.target).for_arrays_apart()
    fields = specialization.fields()
    entry = load_entry(specialization, gpu.target)
    _check_kernel(entry.manifest, specialization)
    _check_device(entry.manifest, specialization)
    return KeyedProgram(key(fields), artifact_key(fields, gpu.target), gpu.code(entry))


def _check_kernel(manifest: Manifest, specialization: Specialization) -> None:
    if manifest.outputs:
        raise LaunchError(
            f"{specialization.pyfunc.__qualname__!r} prints, which calls from JAX cannot do",
            remedy="launch it with dk.launch, or print its results with jax.debug.print",
        )


def _check_device(manifest: Manifest, specialization: Specialization) -> None:
    """Refuse programs that the driver would refuse, while the function is traced and not when it runs."""
    name, threads = specialization.pyfunc.__qualname__, manifest.block_dim
    if manifest.blockwise:
        raise LaunchError(
            f"{name!r} works in blocks of threads, which calls from JAX have on the CPU alone",
            remedy="launch it with dk.launch, write it without blocks, or compute with JAX on the CPU",
        )
    if manifest.exact:
        raise LaunchError(
            f"{name!r} is deterministic, and calls from JAX on a GPU have no memory for its exact sums",
            remedy="launch it with dk.launch, compute with JAX on the CPU, or leave deterministic out",
        )
    needed, registers = manifest.resources.shared_bytes, manifest.resources.registers
    if needed > _STATIC_SHARED:
        raise LaunchError(
            f"{name!r} needs {needed} bytes of shared memory for each block; calls from JAX have {_STATIC_SHARED}",
            remedy="launch it with dk.launch, or use smaller tiles",
        )
    # Registers are handed out to four warps at a time, each in pieces of 256.
    warps = -(-threads // 128) * 4
    if warps * (-(-32 * registers // 256) * 256) > _REGISTERS:
        raise LaunchError(
            f"{name!r} takes {registers} registers for each thread, too many for blocks of {threads}",
            remedy=f"make it with @dk.kernel(launch_bounds={threads}), or with a smaller block_dim",
        )


def keep(call: XlaCall, programs: Mapping[str, KeyedProgram], gpu: cuda.ArchitectureGpus | None = None) -> str:
    """Enter a call in this process and in the cache; return its key."""
    registry = CPU if gpu is None else gpu.registry
    name = registry.enter(call, {identity: p.code for identity, p in programs.items()})
    platform = registry.platform if gpu is None else gpu.target
    store, place = current_store(), _stored_name(name, platform)
    # So that another process can run an exported program that names the call.
    if store.get(place) is None:
        found = {identity: p.artifact for identity, p in programs.items()}
        facts = {"what": _WHAT, "title": f"JAX call {call.name}", "call": call.to_json(), "programs": found}
        store.put(place, StoredArtifact(b"", facts=facts, ingredients={"call": name, "platform": platform}))
    return name


def _stored_name(name: str, platform: str) -> str:
    return key([("stored JAX call", name.encode()), ("platform", platform.encode())])


def enter_stored(directory: Path) -> tuple[int, int]:
    """Enter the calls stored in a directory; return how many, and how many have programs for other machines only.

    Raises
    ------
    FileNotFoundError
        If there is no such directory.
    """
    if not directory.is_dir():
        raise FileNotFoundError(f"there is no directory {directory}")
    store = Store(directory)
    found = artifacts(directory)
    # Entries with types are programs; only those for this machine's instructions can be run.
    usable = {a.key for a in found if "types" in a.ingredients and is_for_this_machine(a.ingredients)}
    gpu = cuda.present()
    entered = foreign = 0
    for artifact in found:
        name, platform = artifact.ingredients.get("call"), artifact.ingredients.get("platform")
        entry = None if name is None else store.get(artifact.key)
        if entry is None or entry.facts.get("what") != _WHAT:
            continue
        programs: dict[str, Code] | None = None
        if platform == CPU.platform:
            programs = _load(entry, lambda k: load_stored(store, k) if k in usable else None)
        elif gpu is not None and platform == gpu.target:
            programs = _load(entry, lambda k: None if (e := store.get(k)) is None else gpu.code(e))
        call = XlaCall.from_json(entry.facts["call"])
        # A call whose content doesn't give its name is damaged.
        if programs is None or call.key != name:
            foreign += 1
        else:
            registry = gpu.registry if gpu is not None and platform != CPU.platform else CPU
            registry.enter(call, programs)
            entered += 1
    return entered, foreign


def _load(entry: StoredArtifact, load: Callable[[str], Code | None]) -> dict[str, Code] | None:
    programs: dict[str, Code] = {}
    for identity, artifact in entry.facts["programs"].items():
        code = load(artifact)
        if code is None:
            return None
        programs[identity] = code
    return programs
