"""What writing a kernel takes, whatever its statements are: lines, names, what is known of each variable."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from .choices import Choices
from .memory import Parameter, Role, typed

if TYPE_CHECKING:
    from .captures import Captures
    from .composites import Composites
    from .indices import Indices
    from .integers import Integers
    from .ranges import Ranges
    from .scalars import Scalars
    from .structs import Structs

__all__ = ["Extents", "Place", "Writer"]

_INDENT = "    "
T = TypeVar("T")


@dataclass(frozen=True)
class Extents:
    """Sizes of a program: elements of its arrays, and the two grids of threads that launches use."""

    length: int
    threads: int
    rows: int
    columns: int


@dataclass(frozen=True)
class Place:
    """How a kernel spells this thread's element of an array, and whether it may read there.

    One spelling for all accesses is what most programs have; with several of them, or with a number of the thread that
    is computed from two indices, a kernel that reads what it writes is often refused.
    """

    spellings: tuple[str, ...]
    readable: bool
    columns: tuple[str, ...]


@dataclass
class Writer:
    """The text of one kernel, as far as it is written, and the writers of its parts.

    Attributes
    ----------
    choices
        Where choices come from.
    real
        ``"float32"`` or ``"float64"``.
    extents
        The program's sizes.
    axes
        Of the thread index.
    parameters
        The array parameters.
    """

    choices: Choices
    real: str
    extents: Extents
    axes: int
    parameters: tuple[Parameter, ...]
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    counters: list[tuple[str, int]] = field(default_factory=list)
    names: int = 0
    places: dict[str, Place] = field(default_factory=dict)
    integers: Integers = field(init=False)
    indices: Indices = field(init=False)
    scalars: Scalars = field(init=False)
    composites: Composites = field(init=False)
    structs: Structs = field(init=False)
    ranges: Ranges = field(init=False)
    captures: Captures = field(init=False)

    # -- choices -----------------------------------------------------------------------------------------------------

    def pick(self, items: Sequence[T]) -> T:
        """One of several."""
        return self.choices.pick(items)

    def chance(self, percent: int) -> bool:
        """True as often as that."""
        return self.choices.chance(percent)

    def below(self, n: int) -> int:
        """A number from 0 to n-1."""
        return self.choices.below(n)

    # -- what there is -----------------------------------------------------------------------------------------------

    def having(self, role: Role, *kinds: str) -> list[Parameter]:
        """The parameters of a role and some kinds."""
        return [p for p in self.parameters if p.role is role and p.kind in kinds]

    def readable(self, *kinds: str) -> list[Parameter]:
        """The parameters of some kinds whose element of this thread may be read."""
        return [p for p in self.having(Role.OWN, *kinds) if self.places[p.name].readable]

    def own(self, p: Parameter) -> str:
        """This thread's element of an array of one axis."""
        return f"{p.name}[{self.pick(self.places[p.name].spellings)}]"

    def type(self, element: str) -> str:
        """An element type, spelled."""
        return typed(element, self.real)

    @property
    def thread(self) -> list[tuple[str, int]]:
        """The variables of the thread index, each with what it stays below."""
        e = self.extents
        return [("i", e.threads)] if self.axes == 1 else [("i", e.rows), ("j", e.columns)]

    @property
    def flat(self) -> str:
        """The number of the thread among all."""
        return "i" if self.axes == 1 else f"(i * {self.extents.columns} + j)"

    @property
    def number_of_threads(self) -> int:
        """How many threads a launch has."""
        e = self.extents
        return e.threads if self.axes == 1 else e.rows * e.columns

    # -- text --------------------------------------------------------------------------------------------------------

    def emit(self, text: str) -> None:
        """Write a line."""
        self.lines.append(_INDENT * self.depth + text)

    def fresh(self, stem: str) -> str:
        """A name that nothing has yet."""
        self.names += 1
        return f"{stem}{self.names}"

    @contextlib.contextmanager
    def block(self, head: str, *counters: tuple[str, int]) -> Iterator[None]:
        """A line, and what is indented under it; counters are known in there, each with what it stays below."""
        self.emit(head)
        self.depth += 1
        known = len(self.counters)
        self.counters.extend(counters)
        yield
        del self.counters[known:]
        self.depth -= 1
