"""Augmented assignments to elements of arrays, as the frontend notes them beside the function.

``a[i] += v`` is lowered to a load, an addition and a store. Whether it has to be one atomic update instead is decided
once the whole function is known, so each such store is noted with what an atomic update in its place would need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from diffkern.ir.nodes import Op, Region, Value

__all__ = ["ALONE", "UPDATES", "UPDATE_KINDS", "Update"]

ALONE: Final = "alone"
"""The attribute of a store: every thread of a launch makes this very update, so that there may be one thread only."""

UPDATES: Final = "updates"
"""The attribute of a function under which its updates stand."""

UPDATE_KINDS: Final = ("add", "sub", "and", "or", "xor")
"""The operations for which there is an atomic update."""


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """An augmented assignment to an element, or to a component of one.

    Attributes
    ----------
    store
        The op that ends it.
    kind
        One of :data:`UPDATE_KINDS`.
    prelude
        The ops that compute, from values that are there at the store, what it yields: the operand of an atomic update
        of the whole element, with the neutral number for components that are not meant.
    """

    store: Op
    kind: str
    prelude: Region

    @property
    def operand(self) -> Value:
        """What an atomic update takes."""
        (value,) = self.prelude.yields
        return value
