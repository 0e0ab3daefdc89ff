"""The structure of a row of a built-in function that is no single operation of the table.

A row states the function's parameters, each name once, with what it takes, returns and has for a derivative. Help, the
reference, messages about a call and the frontend's binding of arguments all read the row.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY
from typing import Any, Final, NamedTuple

from diffkern.ir.ops.row import Entry
from diffkern.process.dataclass import dataclass

__all__ = ["NONE", "FunctionRow", "RowParameter", "StructFields", "Subject", "TileFunction"]

NONE: Final = "None: no floats come back."
"""The derivative of what returns none."""


class Subject(enum.Enum):
    """The subject of a built-in function: one page of the reference each, with its title."""

    SCALARS = "Scalar mathematics"
    INTEGERS = "Integers, bits and logic"
    COMPOSITES = "Vectors and matrices"
    ROTATIONS = "Quaternions and transforms"
    COMPLEX = "Complex numbers"
    RANDOM = "Random numbers and noise"
    THREADS = "Threads and blocks"
    ATOMICS = "Atomic updates"
    TILES = "Tiles"
    QUERIES = "Geometry queries and search"
    REPORTS = "Printing and checks"


class RowParameter(NamedTuple):
    """One parameter of a row: its name, whether it may be left out, whether a variable given for it is changed."""

    name: str
    is_optional: bool
    is_changed: bool


_INDICES: Final = "i, [j, ...]"
"""An index for each axis, as a row spells it."""

# A bracket, or a parameter with its mark and its default.
_TOKEN: Final = re.compile(r"(\[)|(\])|(\w+|\.\.\.)(!?)(=[^,\[\]]+)?")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FunctionRow:
    """One function.

    Attributes
    ----------
    name
        Its public name.
    parameters
        Groups of parameters with what they take, separated by semicolons, as in ``"a, b : tile; [out] : tile; k=1.0 :
        number"``. In brackets stands what may be left out without a default to show; ``!`` marks a parameter whose
        variable the call changes; ``i, [j, ...]`` is an index for each axis.
    doc
        What it does, in a sentence.
    returns, derivative, example, kinks
        As in :class:`~diffkern.ir.ops.row.Entry`.
    family
        Its page of the reference.
    host
        The function of Python's numbers, for calls outside of kernels.
    """

    name: str
    parameters: str
    doc: str
    returns: str
    derivative: str
    example: str
    kinks: str = ""
    _: KW_ONLY
    family: Subject
    host: Callable[..., Any] | None = None

    @property
    def signature(self) -> str:
        """The parameters, as shown in help and errors."""
        shown = ""
        for names, _ in self._groups():
            # A bracket with dots in it stands for its comma too.
            comma = "" if not shown else " " if shown.endswith("...]") else ", "
            shown += comma + names.replace("!", "")
        return shown

    @property
    def entry(self) -> Entry:
        """The entry in the reference."""
        return Entry("; ".join(self._takes()), self.returns, self.derivative, self.example, self.kinks)

    def listed(self, axes: int = 0) -> list[RowParameter]:
        """Return the parameters in the order of their positions, with the indices of so many axes."""
        indices = ", ".join("ijkl"[:axes])
        return [p for names, _ in self._groups() for p in _parsed(names.replace(_INDICES, indices) if axes else names)]

    @property
    def in_kernels_alone(self) -> bool:
        """True for what needs the threads of a launch, or arrays of one."""
        return self.family in (Subject.THREADS, Subject.ATOMICS, Subject.TILES)

    def _groups(self) -> Iterator[tuple[str, str]]:
        for group in filter(None, self.parameters.split("; ")):
            names, _, kind = group.partition(" : ")
            yield names, kind

    def _takes(self) -> Iterator[str]:
        for names, kind in self._groups():
            named = ", ".join(p.name for p in _parsed(names.replace(_INDICES, "i, ...")))
            is_optional = all(p.is_optional for p in _parsed(names))
            yield f"{named} : {kind}{', optional' if is_optional else ''}"


def _parsed(names: str) -> Iterator[RowParameter]:
    in_brackets = False
    for opening, closing, name, mark, default in _TOKEN.findall(names):
        if opening or closing:
            in_brackets = bool(opening)
        else:
            yield RowParameter(name, in_brackets or bool(default), bool(mark))


class StructFields(enum.Enum):
    """The ways in which a function of tiles takes tiles of structs."""

    REFUSED = "refused"
    MOVED = "moved"  # for one field after the other
    ADDED = "added"  # for one field after the other, of those that add up
    SUMMED = "summed"  # the same; of the others, the first elements come back
    ORDERED = "ordered"  # all fields in one order, found once
    WHOLE = "whole"  # as they are


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TileFunction(FunctionRow):
    """One function of tiles.

    Attributes
    ----------
    structs
        The way in which it takes tiles of structs.
    stores
        Whether it writes elements of tiles to an array.
    is_view
        Whether its result shows the elements of its first argument, so that a change of one is one of the other.
    """

    family: Subject = Subject.TILES
    structs: StructFields = StructFields.REFUSED
    stores: bool = False
    is_view: bool = False

    @property
    def changed(self) -> dict[str, int]:
        """The parameters whose variables a call changes, and their positions."""
        return {p.name: k for k, p in enumerate(self.listed()) if p.is_changed}
