"""The one error of the interpreter."""

from __future__ import annotations

__all__ = ["PtxFault"]


class PtxFault(AssertionError):
    """A program does what the hardware forbids or leaves undefined, or has an instruction that is not in the table."""
