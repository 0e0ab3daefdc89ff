"""What an expression of the kernel language stands for while it is being lowered.

Only :class:`Val` exists at run time. Literals are :class:`Const` (weak: they take the type of what they meet), views
of arrays are an array with index expressions, tuples are taken apart, and modules, functions and dtypes are
:class:`Static`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from diffkern.errors import Loc
from diffkern.ir.nodes import Value
from diffkern.ir.types import Array, Element

__all__ = ["Binding", "Const", "Fixed", "Poison", "Span", "Static", "Term", "Tup", "Val", "View", "describe"]


@dataclass(frozen=True, slots=True)
class Const:
    """A number known now. ints and floats are weak; a bool is a bool."""

    value: bool | int | float


@dataclass(frozen=True, slots=True)
class Val:
    """A value of the IR. ``weak``: computed from literals alone, so that it gives way to any other numeric type."""

    value: Value
    weak: bool = False

    @property
    def type(self) -> Element:
        return self.value.type  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Fixed:
    """An axis of the underlying array that an index has taken away; ``wrap``: the index may be negative."""

    index: Value
    wrap: bool


@dataclass(frozen=True, slots=True)
class Span:
    """An axis of a view: element k is element ``start + k * step`` of the underlying axis.

    ``start`` None means 0 with step 1 and the whole length. ``length`` makes the number of elements (it emits ops, so
    it is asked for only where it is needed).
    """

    start: Value | None
    step: int
    length: Callable[[], Value]


@dataclass(frozen=True, slots=True)
class View:
    """An array, or part of one. Without fixed or cut axes it is the parameter itself."""

    base: Value
    axes: tuple[Fixed | Span, ...]

    @property
    def array(self) -> Array:
        assert isinstance(self.base.type, Array)
        return self.base.type

    @property
    def spans(self) -> list[Span]:
        """The axes that are left."""
        return [a for a in self.axes if isinstance(a, Span)]


@dataclass(frozen=True, slots=True)
class Tup:
    """A tuple of terms."""

    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Static:
    """A Python object that is no number: a module, a function, a dtype, None. ``name`` is how the kernel wrote it."""

    obj: Any
    name: str


@dataclass(frozen=True, slots=True)
class Poison:
    """What a failed statement would have assigned; reading it reports nothing further."""


Term: TypeAlias = Const | Val | View | Tup | Static | Poison


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """What a variable holds at some point, compared by identity.

    Attributes
    ----------
    term
        Its value; None if no path so far has set it.
    loc
        Where it was set.
    unset
        Why it may not be set here, or None if every path has set it.
    """

    term: Term | None
    loc: Loc | None
    unset: str | None = None


def describe(term: Term) -> str:
    """A term for a message: its type, or what it is."""
    match term:
        case Const(value):
            return f"the {'bool' if isinstance(value, bool) else 'number'} {value}"
        case Val():
            return str(term.type)
        case View():
            axes = len(term.spans)
            return f"an array of {term.array.dtype} with {axes} {'axis' if axes == 1 else 'axes'}"
        case Tup(items):
            return f"a tuple of {len(items)}"
        case Static(obj, name):
            return "None" if obj is None else f"{name} ({type(obj).__name__})"
        case Poison():
            return "an earlier mistake"
