"""Types of IR values.

Everything here is an immutable value with structural equality and a deterministic spelling (``str(type)``), so that
types can stand in cache keys, golden files and generated source.
"""

from __future__ import annotations

import enum
import functools
import math
from typing import TypeAlias

from diffkern.process.dataclass import dataclass


class Kind(enum.Enum):
    """The kind of a scalar, apart from its width."""

    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    FLOAT = "float"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar type. ``float16`` and ``bfloat16`` are storage types: loads widen to float32 and stores round."""

    name: str
    kind: Kind
    bits: int

    # Scalars are hashed in every type lookup, and the name identifies them: the generated hash would hash three fields.
    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_integer(self) -> bool:
        return self.kind in (Kind.INT, Kind.UINT)

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory (a bool takes one)."""
        return max(1, self.bits // 8)


BOOL = Scalar("bool", Kind.BOOL, 8)
INT8 = Scalar("int8", Kind.INT, 8)
INT16 = Scalar("int16", Kind.INT, 16)
INT32 = Scalar("int32", Kind.INT, 32)
INT64 = Scalar("int64", Kind.INT, 64)
UINT8 = Scalar("uint8", Kind.UINT, 8)
UINT16 = Scalar("uint16", Kind.UINT, 16)
UINT32 = Scalar("uint32", Kind.UINT, 32)
UINT64 = Scalar("uint64", Kind.UINT, 64)
FLOAT16 = Scalar("float16", Kind.FLOAT, 16)
BFLOAT16 = Scalar("bfloat16", Kind.FLOAT, 16)
FLOAT32 = Scalar("float32", Kind.FLOAT, 32)
FLOAT64 = Scalar("float64", Kind.FLOAT, 64)

SCALARS: dict[str, Scalar] = {
    t.name: t
    for t in (
        BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64,
    )
}  # fmt: skip

STORAGE_ONLY = frozenset({FLOAT16, BFLOAT16})


class Role(enum.Enum):
    """The meaning of a vector's components: operators, constructors and attributes depend on it, no pass does."""

    VECTOR = "vec"
    QUATERNION = "quat"
    TRANSFORM = "transform"
    COMPLEX = "complex"


@dataclass(frozen=True, slots=True)
class Vec:
    """A column of ``length`` scalars, one SSA value until it is decomposed for a target.

    A quaternion has four, (x, y, z, w), a transform seven: a translation and a quaternion. A complex number has two:
    its real and its imaginary part.
    """

    dtype: Scalar
    length: int
    role: Role = Role.VECTOR

    def __str__(self) -> str:
        # NumPy's names count both parts: complex64 consists of two float32.
        if self.role is Role.COMPLEX and self.dtype in (FLOAT32, FLOAT64):
            return f"complex{2 * self.dtype.bits}"
        return f"vec{self.length}<{self.dtype}>" if self.role is Role.VECTOR else f"{self.role.value}<{self.dtype}>"

    @property
    def size(self) -> int:
        return self.length

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def itemsize(self) -> int:
        return self.size * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Mat:
    """A ``rows`` × ``cols`` matrix in row-major order; component ``r * cols + c`` is row r, column c."""

    dtype: Scalar
    rows: int
    cols: int

    def __str__(self) -> str:
        return f"mat{self.rows}x{self.cols}<{self.dtype}>"

    @property
    def size(self) -> int:
        return self.rows * self.cols

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows, self.cols)

    @property
    def itemsize(self) -> int:
        return self.size * self.dtype.itemsize


def quaternion(dtype: Scalar) -> Vec:
    """Return the type of quaternions over a scalar type."""
    return Vec(dtype, 4, Role.QUATERNION)


def transform(dtype: Scalar) -> Vec:
    """Return the type of transforms over a scalar type."""
    return Vec(dtype, 7, Role.TRANSFORM)


def complex_number(dtype: Scalar) -> Vec:
    """Return the type of complex numbers whose parts are of a scalar type."""
    return Vec(dtype, 2, Role.COMPLEX)


def is_complex(t: object) -> bool:
    """Return whether this is a type of complex numbers."""
    return isinstance(t, Vec) and t.role is Role.COMPLEX


Composite: TypeAlias = Vec | Mat
Element: TypeAlias = Scalar | Vec | Mat


SHARED = "S"
"""The layout of arrays that the threads of a block share."""

OWN = "T"
"""The layout of arrays of one thread while the frontend is at work: in the IR they are tiles."""

NULL = "N"
POINTING = "P"
HELD = "H"
"""The layout of parameters for which None is passed: arrays without memory, whose extents are 0."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array parameter: elements of ``dtype`` along ``ndim`` axes.

    ``layout`` is ``"C"`` (C-contiguous: addresses follow from the shape) or ``"A"`` (any byte strides). An array that
    the threads of a block share has layout ``"S"``; it is no parameter but made by an op that knows its shape. Layout
    ``"N"`` means that None is passed. ``"P1"``: elements along the first axis hold descriptors of arrays, and the other
    axes are theirs, so that their extents may differ; ``"P2"`` to ``"P4"`` alike. Layout ``"H"`` is that of an array
    which an op finds by such a descriptor.
    """

    dtype: Element
    ndim: int
    layout: str = "C"

    def __str__(self) -> str:
        return f"array{self.ndim}d<{self.dtype},{self.layout}>"

    @property
    def is_null(self) -> bool:
        """True if None is passed for it."""
        return self.layout == NULL

    @property
    def outer(self) -> int:
        """The number of axes whose elements hold descriptors of arrays; 0 for an array of numbers."""
        return int(self.layout[1:]) if self.layout[0] == POINTING else 0

    @property
    def held(self) -> Array:
        """The array as it lies in memory: an array of descriptors, if its elements hold them."""
        if not self.outer:
            return self
        # A descriptor is an address, and an extent and a stride for each of the inner axes. Its elements may be fields
        # of structs, so that the array of them is strided.
        return Array(Vec(UINT64, 1 + 2 * (self.ndim - self.outer)), self.outer, "A")


@dataclass(frozen=True, slots=True)
class Stack:
    """Per-thread storage of one loop's carried state: ``slots`` entries with one field per carried value."""

    fields: tuple[StackField, ...]
    slots: int
    level: int = 0

    def __str__(self) -> str:
        return f"stack<{', '.join(map(str, self.fields))}; {self.slots} slots, level {self.level}>"


@dataclass(frozen=True, slots=True)
class Tile:
    """A block of elements that one block of threads works on together, a single SSA value with a shape known now.

    ``own`` marks an array of one thread, independent of the other threads of its block.

    ``dtype`` is the stored type, as in an array: elements of float16 and bfloat16 tiles are computed with in float32.
    """

    dtype: Element
    shape: tuple[int, ...]
    own: bool = False

    def __str__(self) -> str:
        return f"{'own_' * self.own}tile<{self.dtype}, {'x'.join(map(str, self.shape))}>"

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of the whole tile."""
        return self.size * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of one thread for ``size`` elements; the form to which a tile is lowered for a target."""

    dtype: Element
    size: int

    def __str__(self) -> str:
        return f"buffer<{self.dtype}, {self.size}>"

    @property
    def itemsize(self) -> int:
        """Bytes of the whole buffer."""
        return self.size * self.dtype.itemsize


StackField: TypeAlias = Scalar | Vec | Mat | Tile
"""The type of a carried value on the stack of a loop; tiles have been lowered before stacks are made."""

Type: TypeAlias = Scalar | Vec | Mat | Array | Stack | Tile | Buffer


def scalar_of(t: Type) -> Scalar:
    """Return the scalar type at the bottom of an element type or of an array's elements."""
    if isinstance(t, Scalar):
        return t
    if isinstance(t, (Vec, Mat)):
        return t.dtype
    # Their elements may be vectors or matrices.
    if isinstance(t, (Array, Tile, Buffer)):
        return scalar_of(t.dtype)
    raise TypeError(f"{t} has no single scalar type")


def wrap_integer(value: int, t: Scalar) -> int:
    """Return the value of an integer in a register of type ``t``, reduced modulo its width."""
    # In two's complement, as registers of all targets hold integers.
    value &= (1 << t.bits) - 1
    if t.kind is Kind.INT and value >= 1 << (t.bits - 1):
        value -= 1 << t.bits
    return value


def value_type(t: Element) -> Element:
    """Return the type of an element once it is loaded: float16 and bfloat16 widen to float32, the rest stays."""
    return with_scalar(t, FLOAT32) if scalar_of(t) in STORAGE_ONLY else t


def is_exact_index(t: Type) -> bool:
    """Return whether a sum or product of this type is computed without wrapping around where it is an index.

    Unsigned integers, and those of 8 and 16 bits, wrap there as well.
    """
    return isinstance(t, Scalar) and t.kind is Kind.INT and t.bits >= 32


def is_differentiable(t: Type) -> bool:
    """Return whether values of this type carry a cotangent (floating-point scalars, composites and arrays of them)."""
    return not isinstance(t, (Stack, Buffer)) and scalar_of(t).is_float


def is_shared(t: Type) -> bool:
    """Return whether this is memory that the threads of a block share."""
    return isinstance(t, Array) and t.layout == SHARED


def with_scalar(t: Element, scalar: Scalar) -> Element:
    """Return the same shape of element over another scalar type."""
    if isinstance(t, Vec):
        return Vec(scalar, t.length, t.role)
    if isinstance(t, Mat):
        return Mat(scalar, t.rows, t.cols)
    return scalar


_COMPLEX = {str(t): t for t in (complex_number(FLOAT32), complex_number(FLOAT64))}


@functools.cache
def parse_type(spelling: str) -> Array | Element:
    """Return the type of a program's parameter from its spelling in a manifest.

    Raises
    ------
    ValueError
        If there is no such type.
    """
    head, _, inside = spelling.removesuffix(">").partition("<")
    try:
        if head.startswith("array"):
            # Split at the last comma: the element type may have one of its own, the layout never has.
            dtype, _, layout = inside.rpartition(",")
            element = parse_type(dtype)
            if not isinstance(element, Array):
                return Array(element, int(head[5:-1]), layout)
        # Before the vectors: a complex number is spelled by NumPy's name, without brackets.
        if head in _COMPLEX:
            return _COMPLEX[head]
        if head == "quat":
            return quaternion(SCALARS[inside])
        if head == "transform":
            return transform(SCALARS[inside])
        if head.startswith("vec"):
            return Vec(SCALARS[inside], int(head[3:]))
        if head.startswith("mat"):
            rows, cols = head[3:].split("x")
            return Mat(SCALARS[inside], int(rows), int(cols))
        return SCALARS[spelling]
    except (KeyError, ValueError):
        raise ValueError(f"{spelling!r} is no type of a parameter") from None


def parse_array_type(spelling: str) -> Array:
    """Return the type of an array parameter of a program from its spelling."""
    t = parse_type(spelling)
    assert isinstance(t, Array)
    return t
