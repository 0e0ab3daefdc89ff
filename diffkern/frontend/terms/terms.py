"""Terms: what expressions of the kernel language stand for while they are being lowered.

Only :class:`Val` exists at run time. Literals are :class:`Const`, views of arrays are an array with index expressions,
tuples are unpacked, and modules, functions and dtypes are :class:`Static`.

Literals are weak: they take the type of the other operand. So do values that are computed from literals alone; they
have one of the types :data:`WEAK` until the whole kernel is lowered (:mod:`weak`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import Any, Final, TypeAlias

from diffkern.errors import Loc
from diffkern.ir.nodes import Value
from diffkern.ir.structs import Struct
from diffkern.ir.types import BFLOAT16, FLOAT16, Array, Element, Kind, Scalar, complex_number
from diffkern.process.dataclass import dataclass

__all__ = [
    "BRAIN",
    "HALF",
    "NARROW",
    "WEAK",
    "WEAK_COMPLEX",
    "WEAK_FLOAT",
    "WEAK_INT",
    "AxisSpan",
    "Binding",
    "Const",
    "FieldTile",
    "Fixed",
    "Once",
    "OwnChoice",
    "PartAxis",
    "PlacedPart",
    "Poison",
    "Rec",
    "RecView",
    "Shape",
    "SliceAxis",
    "Spread",
    "Static",
    "Term",
    "TileStruct",
    "Tup",
    "Val",
    "View",
    "describe",
    "mark",
    "marked",
    "nullness",
    "once",
    "presence",
    "spread",
]


WEAK_INT: Final = Scalar("int", Kind.INT, 32)
WEAK_FLOAT: Final = Scalar("float", Kind.FLOAT, 32)
HALF: Final = Scalar("half", Kind.FLOAT, 16)
BRAIN: Final = Scalar("brain", Kind.FLOAT, 16)
NARROW: Final = {FLOAT16: HALF, BFLOAT16: BRAIN}
"""The types of values of float16 and bfloat16 while a kernel is lowered; there are none after it (:mod:`narrow`)."""
WEAK_COMPLEX: Final = complex_number(WEAK_FLOAT)
WEAK: Final[frozenset[Element]] = frozenset({WEAK_INT, WEAK_FLOAT, WEAK_COMPLEX})
"""Types of values that give way to any other type of number; there are none after lowering."""


@dataclass(frozen=True, slots=True)
class Const:
    """A number known now. ints and floats are weak; a bool is a bool."""

    value: bool | int | float


@dataclass(frozen=True, slots=True)
class Val:
    """A value of the IR."""

    value: Value

    @property
    def type(self) -> Element:
        return self.value.type  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Fixed:
    """An axis of the underlying array that an index has taken away; ``wrap``: the index may be negative."""

    index: Value
    wrap: bool


@dataclass(frozen=True, slots=True)
class AxisSpan:
    """An axis of a view: element k is element ``start + k * step`` of the underlying axis.

    ``start`` None means 0 with step 1 and the whole length. ``length`` makes the number of elements (it emits ops, so
    it is asked for only where it is needed). ``to_end``: it goes on to the end of the underlying axis.
    ``through``: the array of integers in which the element of the underlying axis is looked up.
    """

    start: Value | None
    step: int
    length: Callable[[], Value]
    to_end: bool = True
    through: Value | None = None


@dataclass(frozen=True, slots=True)
class InnerExtent:
    """Emits the length of an axis of an array in an element; of the same axis of another element it is equal."""

    axis: int
    # Equality decides whether two views have one shape, which does not depend on the way to it.
    emit: Callable[[int, View], Value] = field(compare=False)
    view: View = field(compare=False)

    def __call__(self) -> Value:
        return self.emit(self.axis, self.view)

    def of(self, view: View) -> InnerExtent:
        """Return the same of the array in another element."""
        return replace(self, view=view)


@dataclass(frozen=True, slots=True)
class View:
    """An array, or part of one. Without fixed or cut axes it is the parameter itself."""

    base: Value
    axes: tuple[Fixed | AxisSpan, ...]
    present: Value | None = None  # of an array that is null on some paths, whether it is one here

    @property
    def array(self) -> Array:
        assert isinstance(self.base.type, Array)
        return self.base.type

    @property
    def spans(self) -> list[AxisSpan]:
        """The axes that are left."""
        return [a for a in self.axes if isinstance(a, AxisSpan)]

    @property
    def outer(self) -> tuple[tuple[Value, ...], tuple[bool, ...]]:
        """The indices of the element that holds the array, of one in an element, and which may be negative."""
        leading = [a for a in self.axes[: self.array.outer] if isinstance(a, Fixed)]
        return tuple(a.index for a in leading), tuple(a.wrap for a in leading)


@dataclass(frozen=True, slots=True)
class SliceAxis:
    """An axis that is cut: element k is element ``start + k * step``, of ``length`` elements."""

    start: Value
    step: int
    length: Value


PartAxis: TypeAlias = "Fixed | SliceAxis | None"
"""An axis that an index takes away, one that is cut, or a whole one."""


@dataclass(frozen=True, slots=True)
class PlacedPart:
    """A part of an array, with an entry for each axis of the array."""

    base: Value
    axes: tuple[PartAxis, ...]

    @classmethod
    def whole(cls, base: Value) -> PlacedPart:
        """Return an array as a part of itself."""
        assert isinstance(base.type, Array)
        return cls(base, (None,) * base.type.ndim)

    @property
    def is_whole(self) -> bool:
        """True for the whole array."""
        return not any(self.axes)

    @property
    def key(self) -> tuple[object, ...]:
        """The features that two parts share if they differ by the values of their indices alone."""
        kinds = ((a.index.type, a.wrap) if isinstance(a, Fixed) else a and a.step for a in self.axes)
        return self.base, *kinds

    @property
    def values(self) -> list[Value]:
        """The values that tell where it lies."""
        found = []
        for axis in self.axes:
            found += [axis.index] if isinstance(axis, Fixed) else [axis.start, axis.length] if axis else []
        return found

    def at(self, values: Iterator[Value]) -> PlacedPart:
        """Return a part that other values tell."""
        axes = (
            replace(a, index=next(values))
            if isinstance(a, Fixed)
            else a and SliceAxis(next(values), a.step, next(values))
            for a in self.axes
        )
        return replace(self, axes=tuple(axes))


@dataclass(frozen=True, slots=True)
class OwnChoice:
    """One of some arrays of the thread.

    Attributes
    ----------
    number
        Which one it is.
    bases
        The arrays.
    """

    number: Value
    bases: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Tup:
    """A tuple of terms."""

    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Shape(Tup):
    """The lengths of the axes of an array."""


@dataclass(frozen=True, slots=True)
class Rec:
    """A value of a struct: a term for each field, of the field's type."""

    struct: Struct
    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class TileStruct(Struct):
    """The struct of a tile of structs, which is a :class:`Rec` with a tile of this shape for each field."""

    shape: tuple[int, ...]

    @classmethod
    def of(cls, element: Struct, shape: tuple[int, ...]) -> TileStruct:
        """Return the struct of a tile whose elements are of a struct."""
        return cls(element.name, element.fields, shape)

    @property
    def element(self) -> Struct:
        """The struct of its elements."""
        return Struct(self.name, self.fields)


@dataclass(frozen=True, slots=True)
class RecView:
    """An array of structs, or part of one: for each field a view with the same axes."""

    struct: Struct
    items: tuple[View | RecView, ...]

    @property
    def first(self) -> View:
        """The view of some field: it has the axes of all."""
        item = self.items[0]
        # Fields of structs inside are views themselves.
        return item.first if isinstance(item, RecView) else item

    @property
    def ndim(self) -> int:
        """Number of axes that are left."""
        return len(self.first.spans)


@dataclass(frozen=True, slots=True, eq=False)
class Static:
    """A Python object that is no number: a module, a function, a dtype, None. ``name`` is how the kernel wrote it."""

    obj: Any
    name: str


class Spread(ast.expr):
    """A term in the place of an expression, such as one of the values of ``*sequence``."""

    _fields = ()
    term: Term


def spread(term: Term) -> Spread:
    """Return a term as an expression of the syntax tree."""
    made = Spread()
    made.term = term
    return made


class Once(ast.expr):
    """An expression that is evaluated at most once, where its term is first asked for."""

    _fields = ()
    inner: ast.expr
    term: Term | None


def once(inner: ast.expr) -> Once:
    """Return an expression that is evaluated at most once."""
    made = ast.copy_location(Once(), inner)
    made.inner, made.term = inner, None
    return made


class FieldTile(ast.Name):
    """The tile of a field, in the place of a variable that holds a tile of structs."""

    term: Val


@dataclass(frozen=True, slots=True)
class Poison:
    """The term of a variable that a failed statement would have assigned; reading it reports no further error."""


Term: TypeAlias = Const | Val | View | Tup | Rec | RecView | Static | Poison


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A variable's value at some point, compared by identity.

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


# With a space and a `$`, which no name of a program has.
_MARK: Final = "$set "


def mark(name: str) -> str:
    """Return the variable that says, in a debug program, whether another one is set."""
    return _MARK + name


def marked(name: str) -> str:
    """Return the variable of which a mark says whether it is set; of no mark, the name itself."""
    return name.removeprefix(_MARK)


def nullness(term: Term) -> bool | None:
    """Return whether an array is null, True for the term of None; None if that isn't known.

    It isn't for a term that is no array, for an array in an element, and for one that is null on some paths alone.
    """
    match term:
        case View():
            return None if term.array.outer or term.present is not None else term.array.is_null
        case RecView():
            return None if term.first.present is not None else term.first.array.is_null
        case Static(None):
            return True
    return None


def presence(term: Term) -> Value | None:
    """Return the value that says whether an array is there that is null on some paths; None of any other term."""
    view = term.first if isinstance(term, RecView) else term
    return view.present if isinstance(view, View) else None


def describe(term: Term) -> str:
    """Return a term for a message: its type, or what it is."""
    match term:
        case Const(value):
            return f"the {'bool' if isinstance(value, bool) else 'number'} {value}"
        case Val():
            return str(term.type)
        case View():
            found = _array_of(str(term.array.dtype), len(term.spans))
            return f"{found} in an element of an array" if term.array.outer else found
        case Rec(TileStruct() as struct):
            return f"a tile of the struct {struct.name}"
        case Rec(struct):
            return f"the struct {struct.name}"
        case RecView(struct):
            return _array_of(struct.name, term.ndim)
        case Tup(items):
            return f"a tuple of {len(items)}"
        case Static(obj, name):
            return "None" if obj is None else f"{name} ({type(obj).__name__})"
        case Poison():
            return "an earlier error"


def _array_of(element: str, axes: int) -> str:
    return f"an array of {element} with {axes} {'axis' if axes == 1 else 'axes'}"
