"""Dialects of the kernel language: the differences in meaning of programs that are written for another tool.

The decorator records the dialect with the function. The frontend asks for the facts, never for the name, and lowers
each func in its own dialect, whatever kernel calls it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

from diffkern.lang.static import keep_results, kept_results
from diffkern.lang.text import share_text
from diffkern.process.dataclass import dataclass

__all__ = [
    "NATIVE",
    "WARP",
    "Dialect",
    "Elements",
    "IntegerQuotient",
    "Nan",
    "Printed",
    "Remainder",
    "bind_dialect",
    "copied",
    "dialect_of",
]


class IntegerQuotient(enum.Enum):
    """The result of ``a / b`` of two integers."""

    FLOAT = "a float"
    TRUNCATED = "an integer, rounded toward zero"


class Remainder(enum.Enum):
    """The sign of ``a % b``."""

    OF_DIVISOR = "that of b, as in Python"
    OF_DIVIDEND = "that of a, as in C"


class Nan(enum.Enum):
    """The treatment of a NaN among the arguments of min, max and clamp, and of their atomic forms."""

    PASSED_ON = "the result, as in NumPy"
    SKIPPED = "the other argument is the result, as with fmin of C"


class Elements(enum.Enum):
    """The treatment of an element or a part of a value as an argument that the call changes, such as the state of a
    random generator.
    """

    REFUSED = "an error: a variable is wanted"
    COPIED = "a copy, whose change is lost"


class Printed(enum.Enum):
    """The output format of ``print``."""

    AS_PYTHON = "numbers with all their digits, [x, y] of a vector, [[a, b], [c, d]] of a matrix"
    AS_C = "%g and %d of a number, the components of a vector with spaces between, a line for each row of a matrix"


@dataclass(frozen=True)
class Dialect:
    """The meaning of a kernel's text where dialects differ.

    Attributes
    ----------
    name
        Its name: part of the key of programs.
    integer_quotient, remainder, nan, elements, printed
        One field for each difference.
    narrow_elements
        Whether elements read from arrays of float16 and bfloat16 are values of that type, which are rounded when they
        are assigned to a name; else they are float32.
    namespace
        The module whose built-in functions are known by their bare names too.
    zero_gradients
        Whether gradients of a loss that depends on no array with `requires_grad` are zeros, with a warning; else asking
        for them is an error.
    later_of_equals
        Whether the last of equal arguments of min, max and clamp has the derivative, else the first.
    clamped_cosines
        Whether arguments of acos and asin beyond 1 and -1 are clamped to these numbers, and have no derivative; else
        the result is NaN.
    floored_quotients
        Whether ``a // b`` of floats is the quotient rounded down; else it is exact, as in Python.
    unset_is_zero
        Whether a variable is zero of its type at the start of the function, and an array null; else reading one that
        may be unset is an error.
    arrays_are_chosen
        Whether a variable may stand for one array or another one, depending on a branch; else that is an error.
    bools_are_numbers
        Whether a bool that is compared with a number is 0 or 1; else comparing the two is an error.
    integers_wrap
        Whether integers out of the range of a type are wrapped around where they are converted to it or passed to a
        kernel; else they are errors.
    long_shapes
        Whether the shape of an array has zeros behind its last axis, up to four extents; else these are errors.
    named_operators
        Whether funcs called ``add``, ``mul`` and so on are the operators of the types that they take.
    returns_as_annotated
        Whether it is an error that a func returns other types than its annotation says.
    object_attributes
        Whether attributes of objects of a program's own are constants, as those of modules and classes are.
    first_axes
        Whether ``tid()`` unpacked to fewer values than elsewhere in a kernel is the index along the first axes; else it
        is an error.
    matrices_of_rows
        Whether a matrix type is called with the rows; else with the columns, with a warning, as programs that are
        written for older versions mean them.
    struct_defaults
        Whether the value that a class gives a field of a struct is the field's default; else the field begins as zero.
    cotangents_stay
        Whether an adjoint that is launched by hand leaves the gradients that it is given for outputs unchanged, where
        the kernel does not read the outputs; else they are set to zero where the kernel overwrites the outputs.
    empty_launches_build
        Whether a kernel is compiled for a launch without threads, whose errors are then found; else such a launch is
        none.
    launches_count_tiles
        Whether a launch that counts threads takes a kernel of tiles, a block for each index; else it is an error, and
        only launches that say so count blocks.
    """

    name: str
    integer_quotient: IntegerQuotient = IntegerQuotient.FLOAT
    remainder: Remainder = Remainder.OF_DIVISOR
    nan: Nan = Nan.PASSED_ON
    elements: Elements = Elements.REFUSED
    printed: Printed = Printed.AS_PYTHON
    narrow_elements: bool = False
    namespace: str = ""
    zero_gradients: bool = False
    later_of_equals: bool = False
    clamped_cosines: bool = False
    floored_quotients: bool = False
    unset_is_zero: bool = False
    arrays_are_chosen: bool = False
    bools_are_numbers: bool = False
    integers_wrap: bool = False
    long_shapes: bool = False
    named_operators: bool = False
    returns_as_annotated: bool = False
    object_attributes: bool = False
    first_axes: bool = False
    matrices_of_rows: bool = True
    struct_defaults: bool = True
    cotangents_stay: bool = False
    empty_launches_build: bool = True
    launches_count_tiles: bool = False


NATIVE: Final = Dialect("native")
"""The dialect of ``import diffkern as dk``, with the semantics of Python and NumPy."""

WARP: Final = Dialect(
    "warp",
    IntegerQuotient.TRUNCATED,
    Remainder.OF_DIVIDEND,
    Nan.SKIPPED,
    Elements.COPIED,
    Printed.AS_C,
    narrow_elements=True,
    namespace="diffkern.warp",
    zero_gradients=True,
    later_of_equals=True,
    clamped_cosines=True,
    floored_quotients=True,
    unset_is_zero=True,
    arrays_are_chosen=True,
    bools_are_numbers=True,
    integers_wrap=True,
    long_shapes=True,
    named_operators=True,
    returns_as_annotated=True,
    object_attributes=True,
    first_axes=True,
    matrices_of_rows=False,
    struct_defaults=False,
    cotangents_stay=True,
    empty_launches_build=False,
    launches_count_tiles=True,
)
"""The dialect of ``import diffkern.warp as wp``."""

_MARK: Final = "__diffkern_dialect__"


def bind_dialect(pyfunc: Callable[..., Any], dialect: Dialect) -> Callable[..., Any]:
    """Return a function that is written in a dialect: the one given, or a copy if that is taken in another one."""
    # The first decorator decides: a function decorated again in another dialect is copied, since the mark on the
    # original may already have been read.
    known = pyfunc.__dict__.setdefault(_MARK, dialect)
    if known == dialect:
        return pyfunc
    made: Callable[..., Any] = copied(pyfunc, pyfunc.__globals__, pyfunc.__closure__)
    made.__dict__[_MARK] = dialect
    return made


def dialect_of(pyfunc: Callable[..., Any]) -> Dialect:
    """Return the dialect in which a function is written."""
    found: Dialect = pyfunc.__dict__.get(_MARK, NATIVE)
    return found


def copied(function: Any, space: dict[str, Any], cells: Any) -> Any:
    """Return a function of the same code, parameters and dialect over other globals and closure variables."""
    made = FunctionType(function.__code__, space, function.__name__, function.__defaults__, cells)
    # ``FunctionType`` takes the defaults of positional parameters only.
    made.__kwdefaults__ = function.__kwdefaults__
    made.__annotations__ = dict(function.__annotations__)
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    made.__dict__[_MARK] = dialect_of(function)
    # Text and static results are recorded for a function object, which a copy of `__dict__` would not satisfy.
    share_text(made, function)
    results = kept_results(function)
    if results is not None:
        keep_results(made, results)
    return made
