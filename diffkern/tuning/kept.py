"""Choices that are kept in the cache: found again for the same program, launch and machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from diffkern.cache.environment import compiler_digest
from diffkern.cache.key import digest, key
from diffkern.cache.notes import Notes
from diffkern.compiler.specialize import Specialization
from diffkern.compiler.stores import current_store
from diffkern.kernels.kernel import Kernel
from diffkern.runtime.arrays.type_keys import type_of_key
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.memory.device import Device
from diffkern.runtime.native.loader import host_cpu
from diffkern.runtime.native.processors import processors

__all__ = ["KeptChoice"]


class KeptChoice:
    """The place of a choice among the notes of the cache.

    The program counts with its whole content, the launch with its dimensions and the shapes of its arrays, and the
    machine with the model of its processor and the number of processors that the process may use, or with its GPU: a
    machine of the same kind does as well.

    Parameters
    ----------
    kernel : Kernel
        The kernel as the user has it.
    launch : PackedLaunch
        Its launch.
    active : frozenset of int, optional
        The parameters to differentiate for; None for the forward.
    candidates : mapping
        The values that are tried for each option.
    """

    def __init__(
        self,
        kernel: Kernel,
        launch: PackedLaunch,
        active: frozenset[int] | None,
        candidates: Mapping[str, Sequence[Any]],
    ) -> None:
        types = tuple(type_of_key(one) for one in launch.keys[: len(kernel.parameters)])
        program = Specialization(kernel.func, types, kernel.variant)
        self._program = key([("what", b"tuning"), ("diffkern", compiler_digest()), *program.fields()])
        shapes = [None if held is None else (held.shape, held.strides) for held in launch.arrays]
        direction = None if active is None else sorted(active)
        facts = launch.dim, shapes, direction, sorted(candidates.items()), kernel.options.block_dim
        self._name = digest(repr((_machine(launch.executable.device), facts)).encode()).encode()
        # Made for each: the directory of the cache may have changed.
        self._notes = Notes(current_store())

    def find(self) -> dict[str, Any] | None:
        """Return the options that were chosen, None if none are known."""
        note = self._notes.find(self._program, self._name)
        try:
            found: Any = None if note is None else json.loads(note)
        except ValueError:  # written by another version
            return None
        return found if isinstance(found, dict) else None

    def keep(self, chosen: Mapping[str, Any]) -> None:
        """Keep the options that were chosen."""
        self._notes.keep(self._program, self._name, json.dumps(chosen, sort_keys=True).encode())


def _machine(device: Device) -> tuple[object, ...]:
    return (*host_cpu(), processors()) if device.is_cpu else (device.name, device.arch)
