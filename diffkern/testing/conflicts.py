"""Which elements do two threads of a launch touch at once? The oracle for accumulation without atomics.

In: every access that a program makes to an array, thread by thread, as the pure-Python executor reports them. Out: the
conflicts: elements that two threads touch, not both only reading and not both atomically. A program in which a conflict
remains that its manifest does not announce gives results that depend on timing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Access", "Conflict", "ConflictChecker"]

Access = Literal["read", "write", "plain", "atomic", "reduce"]
"""A load, a store, an accumulation of mode plain, atomic (or an atomic op), or reduce."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two threads that touch one element.

    Attributes
    ----------
    array
        Name of the array parameter.
    element
        Index of the element.
    first, second
        The threads.
    accesses
        What they do to it.
    """

    array: str
    element: tuple[int, ...]
    first: int
    second: int
    accesses: tuple[str, str]

    def __str__(self) -> str:
        index = ", ".join(map(str, self.element))
        first, second = self.accesses
        return f"{self.array}[{index}]: {first} by thread {self.first}, {second} by thread {self.second}"


@dataclass(slots=True)
class ConflictChecker:
    """Collects accesses and finds conflicts.

    Attributes
    ----------
    touched
        By array and element, the accesses of each thread.
    """

    touched: dict[tuple[str, tuple[int, ...]], dict[int, set[str]]] = field(default_factory=dict)

    def access(self, thread: int, array: str, element: tuple[int, ...], kind: Access) -> None:
        """Enter an access of a thread, given by its flattened index."""
        threads = self.touched.setdefault((array, element), {})
        threads.setdefault(thread, set()).add(kind)

    def conflicts(self, array: str | None = None) -> Iterator[Conflict]:
        """All pairs of threads in conflict, of one array or of all."""
        for (name, element), threads in self.touched.items():
            if array is not None and name != array:
                continue
            ordered = sorted(threads.items())
            for n, (second, theirs) in enumerate(ordered):
                for first, mine in ordered[:n]:
                    pair = _clash(mine, theirs)
                    if pair is not None:
                        yield Conflict(name, element, first, second, pair)
            # Partial sums arrive after all threads have run, so not even the same thread may look at the element.
            for thread, kinds in ordered:
                if "reduce" in kinds and not kinds <= {"reduce", "atomic", "plain"}:
                    yield Conflict(name, element, thread, thread, ("reduce", min(kinds - {"reduce"})))


def _clash(mine: set[str], theirs: set[str]) -> tuple[str, str] | None:
    for a in sorted(mine):
        for b in sorted(theirs):
            if not _compatible(a, b):
                return a, b
    return None


def _compatible(a: str, b: str) -> bool:
    if a == b == "read":
        return True
    # Sums in memory and partial sums that are added afterwards do not meet; neither do two atomic updates.
    return {a, b} <= {"atomic", "reduce"}
