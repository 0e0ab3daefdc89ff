"""What the derivative of a launch consists of: one value for tapes, JAX and PyTorch.

In: the facts of an adjoint program. Out: a :class:`DerivativePlan`, which says what the forward has to leave for
it, which parameters have cotangents, and how threads accumulate into each of these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from diffkern.runtime.schedule import Conflicts, Plan, plan_adjoint

__all__ = ["Accumulation", "DerivativePlan"]


@dataclass(frozen=True, slots=True)
class Accumulation:
    """How the threads of an adjoint accumulate into one cotangent.

    Attributes
    ----------
    kind : str
        ``none``, ``reduce``, ``bounded`` or ``general``: which threads race for an element.
    reach : tuple of (int, int)
        Of ``bounded``: for each axis of the thread index, between which distances two threads race.
    private : bool
        Whether a zeroed copy may stand in for it, to be added afterwards: not if the adjoint reads it as well.
    """

    kind: Literal["none", "reduce", "bounded", "general"]
    reach: tuple[tuple[int, int], ...]
    private: bool


@dataclass(frozen=True, slots=True)
class DerivativePlan:
    """What an adjoint program reads and accumulates into.

    Attributes
    ----------
    after, before : tuple of int
        Its residuals: parameters whose elements it reads as they are after the forward, and as they were before it.
    accumulations : mapping of int to Accumulation
        The active parameters, which have cotangents.
    axes : int
        Axes of the thread index that the kernel asks for.
    """

    after: tuple[int, ...]
    before: tuple[int, ...]
    accumulations: Mapping[int, Accumulation]
    axes: int

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> DerivativePlan:
        """Return the plan for an adjoint with these facts."""
        accumulations = {
            int(k): Accumulation(
                entry["class"], tuple((low, high) for low, high in entry["reach"] or ()), entry["private"]
            )
            for k, entry in manifest["conflicts"].items()
        }
        return cls(tuple(manifest["post"]), tuple(manifest["saved"]), accumulations, int(manifest["tid_arity"]))

    @property
    def active(self) -> frozenset[int]:
        """The parameters with cotangents."""
        return frozenset(self.accumulations)

    def zeros(self, outputs: Collection[int]) -> tuple[int, ...]:
        """Return which residuals from before the forward are known, as pure outputs begin as zeros."""
        return tuple(k for k in self.before if k in outputs)

    def may_race(self, axes: int) -> bool:
        """Whether plain accumulation may race in a launch of so many axes, wherever they are cut."""
        kinds = {a.kind for a in self.accumulations.values()}
        return kinds - {"reduce"} != set() and (axes > self.axes or "general" in kinds)

    def conflicts(self, dims: tuple[int, ...], all_general: bool = False) -> Conflicts:
        """Return where the threads of a launch race.

        `all_general` says that the buffers themselves make every promise void: they overlap, or a stride is zero. The
        same holds where the launch has more axes than the kernel asks for, so that several threads have the same index.
        """
        if any(extent > 1 for extent in dims[self.axes :]):
            all_general = True
        reach = [0] * max(self.axes, 1)
        general = {k: a for k, a in self.accumulations.items() if all_general or a.kind == "general"}
        for k, a in self.accumulations.items():
            if k not in general and a.kind == "bounded":
                for axis, (low, high) in enumerate(a.reach):
                    reach[axis] = max(reach[axis], -low, high)
        return Conflicts(tuple(sorted(general)), tuple(reach), all(a.private for a in general.values()))

    def schedule(
        self, dims: tuple[int, ...], cost: float, sizes: Mapping[int, int], all_general: bool = False
    ) -> Plan | None:
        """Return how to run a launch that accumulates plainly, or None if it has to be one with atomics.

        `sizes` are the scalars in each cotangent, by parameter; `all_general` is as for :meth:`conflicts`.
        """
        conflicts = self.conflicts(dims, all_general)
        return plan_adjoint(dims, cost, conflicts, {k: sizes[k] for k in conflicts.general})
