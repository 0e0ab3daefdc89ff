"""The requirements of a launch's derivative as one value for tapes, JAX and PyTorch.

A :class:`DerivativePlan` is made of the manifest of an adjoint program. It says which values the forward has to keep,
which parameters have cotangents, and how the threads of a launch are kept from racing in these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from diffkern.contracts.manifest import Conflict, Log, Manifest
from diffkern.process.dataclass import dataclass
from diffkern.runtime.launch.schedule import Conflicts, Plan, plan_adjoint

__all__ = ["DerivativePlan"]


@dataclass(frozen=True, slots=True)
class DerivativePlan:
    """The residuals that an adjoint program reads and the cotangents that it accumulates into.

    Attributes
    ----------
    after, before : tuple of int
        Its residuals: parameters whose elements it reads as they are after the forward, and as they were before it.
    accumulations : mapping of int to Conflict
        The active parameters, which have cotangents, and how threads race in each of these.
    axes : int
        Axes of the grid that the kernel asks for.
    log : Log or None
        The log that the forward has kept for it.
    """

    after: tuple[int, ...]
    before: tuple[int, ...]
    accumulations: Mapping[int, Conflict]
    axes: int
    steering: tuple[int, ...]
    log: Log | None

    @classmethod
    def of(cls, manifest: Manifest) -> DerivativePlan:
        """Return the plan for an adjoint with this manifest."""
        return cls(
            manifest.post, manifest.saved, manifest.conflicts, manifest.tid_arity, manifest.steering, manifest.log
        )

    @property
    def active(self) -> frozenset[int]:
        """The parameters with cotangents."""
        return frozenset(self.accumulations)

    def zeros(self, outputs: Collection[int]) -> tuple[int, ...]:
        """Return the parameters among `before` that need no copy, as pure outputs are zero before the forward."""
        return tuple(k for k in self.before if k in outputs)

    def may_race(self, axes: int) -> bool:
        """Return whether plain accumulation may race in a launch of so many axes, however it is cut into chunks."""
        kinds = {conflict.kind for conflict in self.accumulations.values()}
        # A reduction sums in registers and writes once per chunk, whatever the number of axes.
        return not kinds <= {"reduce"} and (axes > self.axes or "general" in kinds)

    def conflicts(self, dims: tuple[int, ...], all_general: bool = False) -> Conflicts:
        """Return the races between threads of a launch.

        `all_general` says that the buffers themselves invalidate every guarantee: they overlap, or a stride is zero.
        The
        same holds where the launch has more axes than the kernel asks for, so that several threads have the same index.
        """
        all_general = all_general or any(extent > 1 for extent in dims[self.axes :])
        general = {k: c for k, c in self.accumulations.items() if all_general or c.kind == "general"}
        reach = [0] * max(self.axes, 1)
        for k, conflict in self.accumulations.items():
            if k not in general and conflict.kind == "bounded":
                for axis, (low, high) in enumerate(conflict.reach):
                    # The reach of an axis bounds how far apart two threads can be that still collide, in either
                    # direction. Chunks that are farther apart may run at the same time.
                    reach[axis] = max(reach[axis], -low, high)
        return Conflicts(tuple(sorted(general)), tuple(reach), all(c.private for c in general.values()))

    def schedule(
        self,
        dims: tuple[int, ...],
        cost: float,
        together: tuple[int, ...],
        sizes: Mapping[int, int],
        all_general: bool = False,
    ) -> Plan | None:
        """Return the plan of a launch that accumulates plainly, or None if it has to use atomics.

        `sizes` are the scalars in each cotangent, by parameter; `all_general` is as for :meth:`conflicts`.
        """
        conflicts = self.conflicts(dims, all_general)
        return plan_adjoint(dims, cost, together, conflicts, {k: sizes[k] for k in conflicts.general})
