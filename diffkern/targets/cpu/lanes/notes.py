"""A report on which operations of a kernel became vectors, by the lines of its source.

Operations are noted as their code for lanes is emitted.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from diffkern.ir.nodes import Op
from diffkern.ir.ops.memory import ELEMENTS
from diffkern.ir.views import Access
from diffkern.process.dataclass import dataclass

__all__ = ["How", "LaneNotes"]


class How(Enum):
    """The form of an operation in lanes."""

    RUN = "loaded or stored as vectors"
    SHARED = "read once for all lanes"
    GATHERED = "gathered"
    SCATTERED = "scattered"
    SUMMED = "added up in registers"
    BY_LANE = "lane by lane"
    BRANCH = "under a mask"
    LOOP = "until all lanes are done"


@dataclass(slots=True)
class LaneNotes:
    """The forms of the operations of a kernel.

    Attributes
    ----------
    found
        For each form the arrays or operations that have it, each with its lines.
    """

    found: dict[How, dict[str, dict[int, None]]] = field(default_factory=dict)

    def add(self, how: How, op: Op) -> None:
        """Note an operation."""
        name = Access(op).array.name if op.name in ELEMENTS else op.name
        lines = self.found.setdefault(how, {}).setdefault(name, {})
        if op.loc is not None:
            lines[op.loc.line] = None

    def lines(self) -> list[str]:
        """Return the text: a line for each form that occurs."""
        return [
            f"  {how.value}: {', '.join(_named(*item) for item in self.found[how].items())}"
            for how in How
            if how in self.found
        ]


def _named(name: str, lines: dict[int, None]) -> str:
    if not lines:
        return name
    return f"{name} (line{'s' * (len(lines) > 1)} {', '.join(map(str, sorted(lines)))})"
