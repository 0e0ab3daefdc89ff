"""The structure of a row of the operation table.

A row states everything that is true of an operation on every target: how result types follow from operand types, what
it does to memory, how analyses and reverse mode treat it, how it is written, and which built-in function it is. Other
modules ask the row. Only what takes more than a line is kept elsewhere: vectorised bodies in ``diffkern.vecmath``,
instructions in ``diffkern.targets``, and derivative rules that are not formulas in ``diffkern.ad.rules``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, field
from types import UnionType
from typing import Any, NamedTuple

from diffkern.ir.types import Type
from diffkern.process.dataclass import dataclass


class Effect(enum.Enum):
    """The effects of executing an op, besides producing values."""

    PURE = "pure"
    READ = "read"  # reads an array
    CONSTANT = "constant"  # reads memory that nothing writes during the launch; only where the program comes by
    WRITE = "write"  # writes an array element this thread owns
    ATOMIC = "atomic"  # reads and writes an array element that other threads may write too
    STACK_READ = "stack read"
    STACK_WRITE = "stack write"
    REPORT = "report"  # tells the launch something; what a thread reports stays in order
    BARRIER = "barrier"  # orders this thread's accesses with those of others
    CONTROL = "control"  # whatever its regions do


class Diff(enum.Enum):
    """The ways in which reverse mode treats an op."""

    RULE = "rule"  # a row of the rule table
    ZERO = "zero"  # results carry no cotangent (integers, booleans) or the derivative is 0 almost everywhere
    SPECIAL = "special"  # control flow, memory and barriers: handled by the reverse pass itself
    INTERNAL = "internal"  # only occurs in adjoints


class Tangent(enum.Enum):
    """The ways in which forward mode treats an op with a derivative rule."""

    TRANSPOSED = "transposed"  # by its partial derivatives, or by its rule's transpose
    LINEAR = "linear"  # the op of the tangents of all operands that are floats
    BILINEAR = "bilinear"  # the product rule in the first two operands; a third one is added


class Uniformity(enum.Enum):
    """The threads among which results are the same where the operands are."""

    LAUNCH = "launch"
    BLOCK = "block"
    THREAD = "thread"  # among none


class TileUse(enum.Enum):
    """The elements of a tile that have their part in what an op makes of it."""

    SOME = "some"
    ALL = "all"
    OF_SUMS = "of sums"  # all if its kind is a sum
    OF_BODIES = "of bodies"  # all if its function chooses nothing


class TileWork(enum.Enum):
    """The ways in which the work of an op grows with the elements of its tiles."""

    ELEMENTS = "elements"
    PRODUCTS = "products"  # the elements times the extent of the first operand's last axis
    BODIES = "bodies"  # the elements times the operations of its function
    NONE = "none"


class Singular(NamedTuple):
    """Partial derivatives that are not finite for some operands.

    Attributes
    ----------
    at
        Operands, one tuple for each example, at which a partial derivative is not finite in float64.
    guarded
        Whether that happens where the value is finite, or at the border of where it is: an exactly zero cotangent is
        then kept zero everywhere, not only behind a choice of another value.
    operand
        The operand that makes them finite where it is bounded away from 0 from above.
    nonzero
        Whether a literal below 0 does so too.
    steep
        Whether the value is finite where a derivative is infinite.
    """

    at: tuple[tuple[float, ...], ...] = ()
    guarded: bool = False
    operand: int | None = None
    nonzero: bool = False
    steep: bool = False


class Library(NamedTuple):
    """The names of a function in the libraries of the targets; empty where a library has none.

    Attributes
    ----------
    llvm
        LLVM's intrinsic, where every target has instructions for it.
    libm
        C's function of float64; that of float32 ends in ``f``.
    libdevice
        The function of CUDA's libdevice, without the prefix and the ``f`` of float32.
    fast
        Its approximation of float32.
    """

    llvm: str = ""
    libm: str = ""
    libdevice: str = ""
    fast: str = ""


class Entry(NamedTuple):
    """The reference text of a built-in, beyond its signature and one sentence.

    Attributes
    ----------
    takes
        Parameters by name with their types, ``"x, y : float"``, separated by semicolons.
    returns
        The type or meaning of the result; empty if there is none.
    derivative
        The partial derivatives, or why there are none.
    example
        Lines of a kernel. In them ``i`` is the thread's index; x, y are arrays of floats and p, q of ints; u and v are
        vectors of three floats, w an array of them, m and k matrices of three rows, e an array of them; a, b, c are
        arrays of floats with two axes; grid is the id of a hash grid.
    kinks
        The value chosen where a derivative does not exist or is unbounded.
    """

    takes: str
    returns: str
    derivative: str
    example: str
    kinks: str = ""


TAKEN = "1 for the element that was taken, 0 for the others."
FIRST = "Of equal ones the first is taken."
"""The derivative of what gives one of several elements, and what it is in a tie."""


class BuiltIn(NamedTuple):
    """The built-in function that an operation implements.

    Attributes
    ----------
    doc, signature, returns
        The text, signature and result type shown by help, the documentation and type checkers.
    host
        The function on Python's numbers, for calls outside kernels and calls of literals.
    name
        Its public name, where that differs from the operation's.
    of_floats
        Whether it takes floats alone: numbers become floats, and a call of literals is a literal.
    entry
        Its entry in the reference, where that does not follow from the row: from types, formulas and ``host``.
    kinks
        As in :class:`Entry`, where there is none, in addition to what follows from the formulas.
    also
        The types of argument it accepts besides the numbers that the operation takes.
    """

    doc: str
    signature: str = "x"
    host: Callable[..., Any] | None = None
    returns: str = "Any"
    name: str = ""
    of_floats: bool = False
    entry: Entry | None = None
    kinks: str = ""
    also: str = ""


Infer = Callable[[Sequence[Type], Mapping[str, Any]], tuple[Type, ...]]
Schema = Mapping[str, type | UnionType]
"""Attributes by name, each with the Python type of its values."""

_OF_RULES: Schema = {"guarded": bool}
"""An attribute of any op with a derivative rule: the rule multiplies nothing by a cotangent that is exactly zero."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)  # the fewer methods, the faster the import
class OpDef:
    """One row.

    Attributes
    ----------
    name, family, arity, infer
        Arity None: any. ``infer`` is the type rule.
    attrs, optional
        The attributes that every such op has, and those it may have.
    effect, diff, tangent, uniformity
        What it does to memory, how reverse and forward mode treat it, among which threads its results are the same.
    py
        Its Python spelling, a format string over the operands' spellings ``{0}``, ``{1}``, … and attributes by name;
        the empty string means that the printer spells the op itself.
    twin
        The function of NumPy scalars or arrays that generated Python calls under the operation's name; None where
        there is none or ``diffkern.printing.prims`` defines it.
    library, built_in
        Its names in libraries of mathematics, and the built-in function that it is.
    cost, flop, elementary, ways
        A rough count of simple operations; whether it counts as one operation of floating-point numbers; whether it is
        an elementary function of floats, many instructions where it is inlined; how many ways lead from the result to
        an operand through the code it becomes.
    commutative, neutral, fold
        Whether operands may be exchanged; the right operand that gives back the left one; the function of constants.
    mirrored, negated
        Of comparisons: the one with exchanged operands, and the opposite.
    modular, affine, divides
        Of integers: whether low bits depend on low bits alone; whether it is a sum, difference, product or negative;
        whether a divisor of 0 is an error.
    least
        A lower bound of the result.
    chooses
        Whether the result is one of the operands.
    jumps, parity, definite
        Of floats: whether the value jumps where operands change a little; -1 if the negative operand gives exactly the
        negative result on every target, 1 if it gives the same, 0 if neither is certain; whether no component of the
        result is negative where both operands are one value.
    linear, by_component
        Whether its rule multiplies cotangents by 1, -1 and 0 alone; whether a component of the result depends on the
        same component alone.
    partials
        The partial derivatives, formulas in the operands x and y and the result r (``diffkern.ad.rules.formula``).
    singular
        Where partial derivatives are not finite.
    lazy
        Of tiles: whether the result has no memory of its own, but its elements are computed from the operands' where
        they are read.
    use, work, once, per_thread, element
        Of tiles: the elements of operands that have their part in the result; the way in which its work grows; whether
        it reads each element once, so that a map whose result it alone reads is as good as lazy; whether each thread of
        a block may do it with numbers of its own; the position of the operand that becomes an element of the result, 0
        if it becomes all elements.
    """

    name: str
    family: str
    arity: int | None
    infer: Infer
    effect: Effect = Effect.PURE
    diff: Diff = Diff.RULE
    _: KW_ONLY
    tangent: Tangent = Tangent.TRANSPOSED
    attrs: Schema = field(default_factory=dict)
    optional: Schema = field(default_factory=dict)
    uniformity: Uniformity = Uniformity.LAUNCH
    py: str = ""
    twin: Callable[..., Any] | None = None
    library: Library | None = None
    built_in: BuiltIn | None = None
    cost: float = 1.0
    flop: bool = False
    elementary: bool = False
    ways: float = 1.0
    commutative: bool = False
    neutral: int | None = None
    fold: Callable[..., Any] | None = None
    mirrored: str = ""
    negated: str = ""
    modular: bool = False
    affine: bool = False
    divides: bool = False
    least: int | None = None
    chooses: bool = False
    jumps: bool = False
    parity: int = 0
    definite: bool = False
    linear: bool = False
    by_component: bool = False
    partials: tuple[str, ...] = ()
    singular: Singular | None = None
    lazy: bool = False
    use: TileUse = TileUse.SOME
    work: TileWork = TileWork.ELEMENTS
    once: bool = False
    per_thread: bool = False
    element: int | None = None

    def check_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Check attributes against the schema.

        Raises
        ------
        TypeRuleError
            If one is missing, undeclared or of another type.
        """
        for name in self.attrs:
            if name not in attrs:
                raise TypeRuleError(f"has no attribute {name!r}")
        for name, value in attrs.items():
            want = self.attrs.get(name) or self.optional.get(name)
            if want is None and self.diff is Diff.RULE:
                want = _OF_RULES.get(name)
            if want is None:
                raise TypeRuleError(f"declares no attribute {name!r}")
            if not isinstance(value, want):
                raise TypeRuleError(f"takes {want} as attribute {name!r}, not {value!r}")


def call(name: str, arity: int) -> str:
    """Return the Python spelling of an operation that is a call."""
    return f"{name}({', '.join(f'{{{k}}}' for k in range(arity))})"


class TypeRuleError(Exception):
    """Operand types do not fit an operation; the message says what fits."""
