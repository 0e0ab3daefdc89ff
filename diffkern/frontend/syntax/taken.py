"""A record of Python objects that lowering uses beyond the meanings of a function's names.

These are the results of static expressions over objects whose behaviour is code, and attributes of modules and classes
that come to a place as results, items or arguments. A key with it is that of the program, whatever code gave it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

from diffkern.frontend.syntax.contents import OPAQUE, contents
from diffkern.frontend.syntax.encoding import encode_object
from diffkern.frontend.syntax.scope import static_attribute
from diffkern.lang import Func
from diffkern.process.dataclass import dataclass

__all__ = ["Read", "TakenResults", "note", "recorded"]


@dataclass(frozen=True, slots=True)
class Read:
    """Something that was taken.

    Attributes
    ----------
    owner, name
        Whose attribute it is; None and nothing for the result of an expression.
    obj
        What it was.
    """

    owner: Any
    name: str
    obj: Any

    def encoded(self, number_of: Callable[[Func], int]) -> bytes:
        """Return the object as bytes."""
        return contents(self.obj, lambda obj: encode_object(obj, number_of))

    def holds(self) -> bool:
        """Return whether the attribute still is the same; results are kept with their expressions."""
        if self.owner is None:
            return True
        now = static_attribute(self.owner, self.name, of_objects=True)
        if now is self.obj:
            return True
        # Equal data in another object is the same fact; an object without known contents is not comparable.
        before, after = (contents(obj, lambda obj: encode_object(obj, id)) for obj in (self.obj, now))
        return before == after and not after.startswith(OPAQUE)

    def is_of(self, other: Read) -> bool:
        """Return whether it is the same attribute of the same object."""
        return self.owner is other.owner and self.name == other.name

    def capture(self) -> tuple[Callable[[str], Any], str, Any]:
        """Return the function that looks the attribute up, its name, and what it was."""
        return partial(static_attribute, self.owner, of_objects=True), self.name, self.obj


@dataclass(frozen=True, slots=True)
class TakenResults:
    """Everything that one lowering took.

    Attributes
    ----------
    fields : list of (str, bytes)
        Labelled, for a key.
    reached : list of callable
        The functions among it.
    attributes : list of Read
        What is to be compared at later launches.
    """

    fields: list[tuple[str, bytes]]
    reached: list[Callable[..., Any]]
    attributes: list[Read]

    @classmethod
    def of(cls, reads: list[Read]) -> TakenResults:
        """Return what a record says."""
        reached: list[Callable[..., Any]] = []

        def number_of(func: Func) -> int:
            # Functions are numbered in the order in which they are met, so that no address is in a key.
            if func.pyfunc not in reached:
                reached.append(func.pyfunc)
            return reached.index(func.pyfunc)

        fields = [(f"taken {k} {read.name}", read.encoded(number_of)) for k, read in enumerate(reads)]
        return cls(fields, reached, [read for read in reads if read.owner is not None])


# Lowering passes through code of the user, in several threads at once.
_record: ContextVar[list[Read] | None] = ContextVar("record", default=None)


def note(obj: Any, owner: Any = None, name: str = "") -> None:
    """Note that lowering took something, if anybody wants to know."""
    record = _record.get()
    if record is not None:
        record.append(Read(owner, name, obj))


@contextlib.contextmanager
def recorded() -> Iterator[list[Read]]:
    """Record what lowering takes while the context is open."""
    record: list[Read] = []
    before = _record.set(record)
    try:
        yield record
    finally:
        _record.reset(before)
