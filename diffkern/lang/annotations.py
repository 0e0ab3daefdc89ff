"""Parameter annotations: ``dk.array(dtype=float, ndim=2)``, or ``dk.array[float, 2]``, or ``dk.array2d[float]``.

A dtype as the user spells it becomes an :class:`ArrayAnnotation`, an immutable description of the arrays that a
parameter takes. The array class itself belongs to the run time, which returns the same annotations when called without
data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, get_args

from diffkern.errors import KernelTypeError
from diffkern.ir.structs import IndexedArray, Stored, StructArray
from diffkern.ir.types import Array
from diffkern.lang.dtypes import Alternative
from diffkern.lang.patterns import Pattern, pattern_of
from diffkern.lang.structs import public_type, resolve_type
from diffkern.process.dataclass import dataclass
from diffkern.process.late import ARRAY
from diffkern.process.tracebacks import Entrance

__all__ = [
    "ANY",
    "ArrayAnnotation",
    "ArrayOf",
    "Reference",
    "TileAnnotation",
    "array1d",
    "array2d",
    "array3d",
    "array4d",
    "array_annotation",
    "ref",
    "subscripted",
    "tile_annotation",
]

MAX_NDIM: Final = 4


class _Any:
    """The dtype of an array annotation that takes any dtype."""

    def __repr__(self) -> str:
        return "dk.ANY"

    def __reduce__(self) -> str:
        # A name of this module makes pickle return the one object: annotations are told from it by identity.
        return "ANY"


ANY: Final = _Any()


@dataclass(frozen=True, repr=False, eq=False)
class ArrayAnnotation(Alternative):
    """An array parameter: the type of its elements (None: any, or any of some kinds) and its number of axes.

    ``indexed``: the array is accessed through index arrays. The layout is not part of it: it comes from the array that
    is passed.
    """

    element: Stored | None
    ndim: int = 1
    kinds: Pattern | None = None
    indexed: bool = False

    @property
    def dtype(self) -> Any:
        """The type of the elements as users know it; ``Any`` or a type variable if it is not determined."""
        if self.element is not None:
            return public_type(self.element)
        return Any if self.kinds is None else self.kinds.variable or self.kinds

    # Written by hand, as `eq=False`: a subclass with attributes of a program's own must equal the annotation it spells.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayAnnotation) and self._fields == other._fields

    def __hash__(self) -> int:
        return hash(self._fields)

    @property
    def _fields(self) -> tuple[Any, ...]:
        return self.element, self.ndim, self.kinds, self.indexed

    def __str__(self) -> str:
        element = self.element if self.element is not None else self.kinds or "any"
        return f"{'indexed' * self.indexed}array{self.ndim}d<{element}>"

    def takes(self, element: Stored) -> bool:
        """Return whether elements of this type are of a kind that fits."""
        return self.kinds is None or self.kinds.accepts(element)

    def __repr__(self) -> str:
        return f"array{self.ndim}d[{self.element if self.element is not None else 'Any'}]"

    def accepts(self, t: Array | StructArray | IndexedArray) -> bool:
        """Return whether an array of this type may be passed."""
        if isinstance(t, IndexedArray) is not self.indexed:
            return False
        return t.ndim == self.ndim and self.element in (None, t.dtype) and self.takes(t.dtype)


class _ArrayAnnotation(ArrayAnnotation):
    """An annotation as users get it, to which a program may add attributes of its own.

    Programs for Warp recognize annotations of arrays by the name of this class.
    """


@dataclass(frozen=True, slots=True)
class TileAnnotation(Alternative):
    """A tile as the parameter of a func: its element type (None: any) and its shape (None: any, -1: any extent)."""

    dtype: Stored | None = None
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        extents = "" if self.shape is None else ", " + "x".join("?" if n == -1 else str(n) for n in self.shape)
        return f"tile<{self.dtype if self.dtype is not None else 'any'}{extents}>"

    def accepts(self, t: Any) -> bool:
        """Return whether a tile of this type may be passed."""
        if self.dtype is not None and t.dtype != self.dtype:
            return False
        return self.shape is None or (
            len(t.shape) == len(self.shape) and all(n in (-1, m) for n, m in zip(self.shape, t.shape, strict=True))
        )


def tile_annotation(item: Any) -> TileAnnotation:
    """Describe the tile that ``dk.tile[item]`` stands for as the parameter of a func.

    Parameters
    ----------
    item
        An element type, or one followed by the extents: numbers, ``Literal[n]``, one tuple, or -1 for any.
    """
    dtype, *extents = item if isinstance(item, tuple) else (item,)
    if len(extents) == 1 and isinstance(extents[0], tuple):
        extents = list(extents[0])
    # Type checkers accept an extent in brackets only as `Literal[n]`, so both spellings are taken.
    shape = tuple(values[0] if (values := get_args(n)) else n for n in extents)
    # `type(n) is int` and not `isinstance`: True is an integer to Python, and no extent.
    if not all(type(n) is int and (n > 0 or n == -1) for n in shape):
        raise KernelTypeError(
            f"dk.tile[...] takes an element type and extents, not {item!r}",
            remedy="write dk.tile[float, 8, 8], or dk.tile[float] for any shape",
        )
    return TileAnnotation(None if dtype is ANY or dtype is Any else resolve_type(dtype), shape or None)


def array_annotation(dtype: Any = ANY, ndim: int = 1) -> ArrayAnnotation:
    """Describe an array parameter.

    Parameters
    ----------
    dtype
        Anything :func:`~diffkern.lang.dtypes.resolve_dtype` accepts, a struct class, a type variable, or ``dk.ANY``.
    ndim : int
        Number of axes, 1 to 4.
    """
    if not isinstance(ndim, int) or not 1 <= ndim <= MAX_NDIM:
        raise KernelTypeError(
            f"an array has 1 to {MAX_NDIM} axes, not ndim={ndim!r}",
            remedy=f"write ndim=1 to ndim={MAX_NDIM}, or join two axes of the array with reshape",
        )
    # Before the dtype is resolved: a type variable is no dtype, and resolving it would be an error.
    kinds = pattern_of(dtype)
    if kinds is not None:
        return _ArrayAnnotation(None, ndim, kinds)
    try:
        return _ArrayAnnotation(None if dtype is ANY or dtype is Any else resolve_type(dtype), ndim)
    except TypeError as error:
        raise KernelTypeError(
            str(error), remedy="write dtype=float, another number's type, dk.vec3 or its like, or a struct"
        ) from None


class ArrayOf(Alternative):
    """Arrays with a number of axes: as annotations ``dk.array2d(dtype=float)`` or ``dk.array2d[float]``, or with data.

    Parameters
    ----------
    ndim : int
        Number of axes, 1 to 4.
    """

    __slots__ = ("ndim",)

    make: ClassVar[Callable[..., Any]] = ARRAY
    """The constructor of an array from data."""

    def __init__(self, ndim: int) -> None:
        self.ndim: Final = ndim

    def __call__(self, data: Any = None, dtype: Any = ANY, **options: Any) -> Any:
        """Describe an array parameter, or make an array as ``dk.array`` does.

        Parameters
        ----------
        data : optional
            Data of an array; without it and other options it is an annotation.
        dtype : optional
            The element type, which may stand in the place of the data.
        **options
            What else ``dk.array`` takes.
        """
        # One positional argument is a dtype in `dk.array2d(float)` and data in `dk.array2d([[1.0]])`.
        if data is not None and dtype is ANY and not options and _is_type(data):
            return array_annotation(data, self.ndim)
        if data is None and not options:
            with Entrance("dk.array", dtype):
                return array_annotation(dtype, self.ndim)
        given = {} if dtype is ANY else {"dtype": dtype}
        return type(self).make(data, **given, ndim=self.ndim, **options)

    def __getitem__(self, dtype: Any) -> ArrayAnnotation:
        with Entrance("dk.array", dtype):
            return array_annotation(dtype, self.ndim)

    def __repr__(self) -> str:
        return f"dk.array{self.ndim}d"


def _is_type(obj: Any) -> bool:
    try:
        resolve_type(obj)
    except TypeError:
        return obj is Any
    return True


array1d: Final = ArrayOf(1)
array2d: Final = ArrayOf(2)
array3d: Final = ArrayOf(3)
array4d: Final = ArrayOf(4)


def subscripted(item: Any) -> ArrayAnnotation:
    """Describe the array parameter that ``dk.array[item]`` stands for.

    Parameters
    ----------
    item
        An element type, or a pair of an element type and a number of axes, ``Literal[n]`` for type checkers.
    """
    if not isinstance(item, tuple):
        return array_annotation(item)
    if len(item) != 2:
        raise KernelTypeError(
            f"dk.array[...] takes an element type and a number of axes, not {len(item)} things",
            remedy="write dk.array[float], or dk.array[float, Literal[2]] for two axes",
        )
    dtype, axes = item
    values = get_args(axes)  # those of Literal[n]
    return array_annotation(dtype, values[0] if values else axes)


# -- references to variables of the caller -----------------------------------------------------------------------------
# Parameters of funcs that stand for variables of the caller: ``wp.ref[float]`` in Warp's dialect.
#
# A type in brackets gives an annotation. A value that a func assigns to such a parameter is, when the call returns,
# the value of the caller's variable, element, component or field.


class Reference:
    """The annotation of a parameter that stands for a variable of the caller.

    Attributes
    ----------
    dtype
        The variable's type.
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    @property
    def value_type(self) -> Any:
        """The variable's type."""
        return self.dtype

    @property
    def is_changed(self) -> bool:
        """True if the caller's variable may have another value after a call. An array's elements may change without
        that.
        """
        return not isinstance(self.dtype, ArrayAnnotation)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((Reference, self.dtype))

    def __repr__(self) -> str:
        return f"wp.ref[{getattr(self.dtype, '__name__', self.dtype)}]"


class ref:
    """Makes such annotations: ``wp.ref[wp.float32]``."""

    def __class_getitem__(cls, dtype: Any) -> Reference:
        return Reference(dtype)

    def __new__(cls, *args: Any) -> Any:
        raise TypeError("wp.ref is for annotations: write wp.ref[type]")
