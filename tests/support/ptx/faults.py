"""The errors of the interpreter."""

from __future__ import annotations

__all__ = ["PtxFault", "RaceFault"]


class PtxFault(AssertionError):
    """A program does what the hardware forbids or leaves undefined, or has an instruction that is not in the table."""


class RaceFault(PtxFault):
    """Two threads are at one place, one of them writes, and nothing orders the two."""
