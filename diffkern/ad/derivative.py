"""The derivative of a kernel: the adjoint program, and how its threads may race where they accumulate."""

from __future__ import annotations

from dataclasses import dataclass

from diffkern.ad.adjoint import Adjoint
from diffkern.analysis.sorted_updates import Unsorted
from diffkern.contracts.manifest import Conflict, Gather, SortedSum
from diffkern.ir.nodes import Function, Value

__all__ = ["Derivative"]


@dataclass(frozen=True)
class Derivative:
    """An adjoint with the analysis of its accumulations.

    Attributes
    ----------
    adjoint
        The adjoint.
    conflicts
        How threads race, one entry per cotangent.
    joint
        The work of a program that does the launch as well, as a fraction of the work of the two; None if there is no
        such program.
    gather
        The condition for running a program whose threads compute the contributions of others to their own elements;
        None if there is no such program.
    sums
        How destinations are found in the cotangents in which threads race, or why they are not.
    """

    adjoint: Adjoint
    conflicts: tuple[Conflict, ...]
    joint: float | None = None
    gather: Gather | None = None
    sums: tuple[SortedSum, ...] | Unsorted = ()

    @property
    def fn(self) -> Function:
        return self.adjoint.fn

    @property
    def saved(self) -> tuple[int, ...]:
        return self.adjoint.saved

    @property
    def cotangents(self) -> tuple[int, ...]:
        return self.adjoint.cotangents

    @property
    def buffers(self) -> tuple[Value, ...]:
        """The cotangent parameters."""
        return self.adjoint.buffers
