"""Programs of kernels with the identity that calls name them by, and calls in the cache.

In: a kernel and types, or a directory of artifacts. Out: programs in memory by identity, which is the same on every
machine; entries in the cache that tell a process which never traced what to load for a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from diffkern.cache.key import key
from diffkern.cache.maintenance import artifacts
from diffkern.cache.manifest import Entry
from diffkern.cache.store import Store
from diffkern.cache.targets import NATIVE
from diffkern.interop.jax import registry
from diffkern.interop.jax.call import Call
from diffkern.ir.structs import Argument
from diffkern.kernel import Kernel
from diffkern.runtime.array import type_of_key
from diffkern.runtime.program import Executable
from diffkern.specialize import (
    Specialization,
    artifact_key,
    current_store,
    is_for_this_machine,
    load_stored,
)

__all__ = ["Program", "enter_stored", "forward", "keep", "reverse"]

_WHAT = "JAX call"


@dataclass(frozen=True)
class Program:
    """A program in memory, and where the cache has it."""

    identity: str
    artifact: str
    executable: Executable

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Its facts."""
        return self.executable.manifest


def forward(kernel: Kernel, keys: tuple[str, ...]) -> Program:
    """Return the forward program for types of arguments, built if need be."""
    return _program(kernel.forward(keys), Specialization(kernel.func, _types(keys), kernel.options))


def reverse(
    kernel: Kernel, keys: tuple[str, ...], active: frozenset[int], accumulate: Literal["plain", "atomic"]
) -> Program:
    """Return the adjoint program for types of arguments and active parameters, built if need be."""
    executable = kernel.adjoint(keys, active, accumulate)
    return _program(executable, Specialization(kernel.func, _types(keys), kernel.options, active, accumulate))


def _types(keys: tuple[str, ...]) -> tuple[Argument, ...]:
    return tuple(type_of_key(k) for k in keys)


def _program(executable: Executable, specialization: Specialization) -> Program:
    fields = specialization.fields()
    return Program(key(fields), artifact_key(fields, NATIVE), executable)


def keep(call: Call, programs: Mapping[str, Program]) -> str:
    """Enter a call in this process and in the cache; return its key."""
    name = registry.enter(call, {identity: p.executable for identity, p in programs.items()})
    store = current_store()
    if store.get(_stored_name(name)) is None:
        found = {identity: p.artifact for identity, p in programs.items()}
        facts = {"what": _WHAT, "title": f"JAX call {call.name}", "call": call.to_json(), "programs": found}
        store.put(_stored_name(name), Entry(b"", program=facts, ingredients={"call": name}))
    return name


def _stored_name(name: str) -> str:
    return key([("stored JAX call", name.encode())])


def enter_stored(directory: Path) -> tuple[int, int]:
    """Enter the calls that a directory has; return how many, and how many have programs for other machines only.

    Raises
    ------
    FileNotFoundError
        If there is no such directory.
    """
    if not directory.is_dir():
        raise FileNotFoundError(f"there is no directory {directory}")
    store = Store(directory)
    found = artifacts(directory)
    usable = {a.key for a in found if "types" in a.ingredients and is_for_this_machine(a.ingredients)}
    entered = foreign = 0
    for artifact in found:
        name = artifact.ingredients.get("call")
        entry = None if name is None else store.get(artifact.key)
        if entry is None or entry.program.get("what") != _WHAT:
            continue
        programs = _load(store, entry.program["programs"], usable)
        call = Call.from_json(entry.program["call"])
        if programs is None or call.key != name:
            foreign += 1
        else:
            registry.enter(call, programs)
            entered += 1
    return entered, foreign


def _load(store: Store, wanted: Mapping[str, str], usable: set[str]) -> dict[str, Executable] | None:
    programs: dict[str, Executable] = {}
    for identity, artifact in wanted.items():
        executable = load_stored(store, artifact) if artifact in usable else None
        if executable is None:
            return None
        programs[identity] = executable
    return programs
