"""Element types as users name them: ``dk.float32``, ``dk.vec3``, ``dk.mat33`` and the Python and NumPy types alike.

In: whatever a user may write as a dtype. Out: an element type of the IR. Each dtype object knows its IR type and its
NumPy type, and can be called: in a kernel it converts or constructs, on the host it makes a NumPy value.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from diffkern.ir import types as T

__all__ = [
    "COMPOSITES", "SCALARS", "CompositeType", "CompositeValue", "DType", "dtype_from_numpy", "dtype_to_numpy",
    "element_of_value", "resolve_dtype",
]  # fmt: skip


class DType:
    """A scalar type.

    Parameters
    ----------
    ir : Scalar
        The type in the IR.
    numpy : numpy.dtype
        How elements are stored. bfloat16, which NumPy lacks, is stored as its 16 bits (``uint16``).
    """

    __slots__ = ("ir", "numpy")

    def __init__(self, ir: T.Scalar, numpy: np.dtype[Any]) -> None:
        self.ir: Final = ir
        self.numpy: Final = numpy

    @property
    def name(self) -> str:
        """Its spelling, as in ``float32``."""
        return self.ir.name

    def __repr__(self) -> str:
        return self.ir.name

    def __call__(self, value: Any = 0) -> Any:
        """A NumPy scalar of this type; on the host, bfloat16 values are float32 rounded to bfloat16."""
        if self.ir == T.BFLOAT16:
            return _round_to_bfloat16(value)
        return self.numpy.type(value)

    def __hash__(self) -> int:
        return hash(self.ir)

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, DType) and other.ir == self.ir

    def __reduce__(self) -> tuple[Any, ...]:
        return _scalar, (self.name,)


def _scalar(name: str) -> DType:
    return SCALARS[name]


def _round_to_bfloat16(value: Any) -> np.float32:
    bits = np.asarray(value, dtype=np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + np.uint64(0x7FFF) + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
    if np.isnan(value):
        return np.float32(np.nan)
    return np.float32(rounded.astype(np.uint32).view(np.float32)[()])


class CompositeValue(np.ndarray[Any, Any]):
    """A vector or matrix on the host: a small read-only NumPy array that remembers its kernel type."""

    composite: CompositeType | None

    def __array_finalize__(self, obj: Any) -> None:
        # Only what CompositeType makes is a vector; views and results of arithmetic are plain numbers again.
        self.composite = None

    def __getattr__(self, name: str) -> Any:
        if name in _COMPONENTS and self.ndim == 1 and _COMPONENTS[name] < self.shape[0]:
            return self[_COMPONENTS[name]]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __reduce__(self) -> Any:
        return super().__reduce__() if self.composite is None else (_value, (self.composite, np.array(self)))

    def __copy__(self) -> Any:
        return super().__copy__() if self.composite is None else self  # it never changes

    def __deepcopy__(self, memo: Any) -> Any:
        return super().__deepcopy__(memo) if self.composite is None else self


def _value(composite: CompositeType, components: np.ndarray[Any, Any]) -> CompositeValue:
    return composite(components)


_COMPONENTS: Final = {"x": 0, "y": 1, "z": 2, "w": 3}


class CompositeType:
    """A vector or matrix type; calling it makes a value.

    ``vec3()`` is zero, ``vec3(s)`` repeats ``s``, ``vec3(a, b, c)`` lists components (of matrices in row-major
    order, or row by row).
    """

    __slots__ = ("ir", "name", "scalar")

    def __init__(self, name: str, ir: T.Composite, scalar: DType) -> None:
        self.name: Final = name
        self.ir: Final = ir
        self.scalar: Final = scalar

    @property
    def shape(self) -> tuple[int, ...]:
        return self.ir.shape

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of one component."""
        return self.scalar.numpy

    def __repr__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.ir)

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, CompositeType) and other.ir == self.ir

    def __reduce__(self) -> tuple[Any, ...]:
        return _composite, (self.name,)

    def __call__(self, *components: Any) -> CompositeValue:
        flat = np.concatenate([np.ravel(np.asarray(c)) for c in components]) if components else np.zeros(1)
        if flat.size == 1:
            flat = np.repeat(flat, self.ir.size)
        if flat.size != self.ir.size:
            raise TypeError(f"{self.name} has {self.ir.size} components, not {flat.size}")
        value = flat.astype(self.numpy).reshape(self.shape).view(CompositeValue)
        value.composite = self
        value.flags.writeable = False
        return value


def _composite(name: str) -> CompositeType:
    return COMPOSITES[name]


def _scalars() -> dict[str, DType]:
    stored = {"bool": "bool_", "bfloat16": "uint16"}
    return {name: DType(t, np.dtype(getattr(np, stored.get(name, name)))) for name, t in T.SCALARS.items()}


SCALARS: Final[Mapping[str, DType]] = _scalars()


def _composites() -> dict[str, CompositeType]:
    suffixes = {
        "": "float32",
        "f": "float32",
        "d": "float64",
        "h": "float16",
        "i": "int32",
        "u": "uint32",
        "l": "int64",
    }
    table = {}
    for suffix, scalar_name in suffixes.items():
        scalar = SCALARS[scalar_name]
        for n in (2, 3, 4):
            table[f"vec{n}{suffix}"] = CompositeType(f"vec{n}{suffix}", T.Vec(scalar.ir, n), scalar)
            if scalar.ir.is_float:
                name = f"mat{n}{n}{suffix}"
                table[name] = CompositeType(name, T.Mat(scalar.ir, n, n), scalar)
    return table


COMPOSITES: Final[Mapping[str, CompositeType]] = _composites()

bool_ = SCALARS["bool"]
int8 = SCALARS["int8"]
int16 = SCALARS["int16"]
int32 = SCALARS["int32"]
int64 = SCALARS["int64"]
uint8 = SCALARS["uint8"]
uint16 = SCALARS["uint16"]
uint32 = SCALARS["uint32"]
uint64 = SCALARS["uint64"]
float16 = SCALARS["float16"]
bfloat16 = SCALARS["bfloat16"]
float32 = SCALARS["float32"]
float64 = SCALARS["float64"]

_PYTHON: Final[Mapping[type, T.Scalar]] = {float: T.FLOAT32, int: T.INT32, builtins.bool: T.BOOL}


_NUMBA: Final = ("numba", "numba_cuda")


def resolve_dtype(obj: Any) -> T.Element:
    """The element type meant by a dtype object, a Python type or a NumPy type.

    Parameters
    ----------
    obj
        ``dk.float32``, ``dk.vec3``, an element type of the IR, ``float`` (float32), ``int`` (int32), ``bool``, one of
        numba's types, or anything ``numpy.dtype`` accepts as a type.

    Raises
    ------
    TypeError
        If it is none of these.
    """
    if isinstance(obj, (DType, CompositeType)):
        return obj.ir
    if isinstance(obj, (T.Scalar, T.Vec, T.Mat)):
        return obj
    if isinstance(obj, type) and obj in _PYTHON:
        return _PYTHON[obj]
    if isinstance(obj, np.dtype) or (isinstance(obj, type) and issubclass(obj, np.generic)):
        name = np.dtype(obj).name
        if name in T.SCALARS:
            return T.SCALARS[name]
    if type(obj).__module__.partition(".")[0] in _NUMBA and getattr(obj, "name", None) in T.SCALARS:
        return T.SCALARS[obj.name]
    raise TypeError(
        f"{obj!r} is not an element type; use one of {', '.join(n for n in T.SCALARS)}, vec2, vec3, vec4, "
        "mat22, mat33, mat44 (with a suffix such as vec3d for another width), float, int or bool"
    )


def dtype_from_numpy(numpy_dtype: Any) -> DType:
    """Return the scalar type that a type of NumPy is.

    Parameters
    ----------
    numpy_dtype : numpy.dtype or type
        Such as ``np.float32`` or ``np.dtype("int64")``.

    Returns
    -------
    DType
        Such as ``dk.float32``.

    Raises
    ------
    TypeError
        If diffkern has no such type.

    Examples
    --------
    >>> dk.dtype_from_numpy("int64")
    int64
    """
    name = np.dtype(numpy_dtype).name
    if name not in SCALARS:
        raise TypeError(f"diffkern has no type for NumPy's {name}; convert the array with .astype()")
    return SCALARS[name]


def dtype_to_numpy(dtype: Any) -> np.dtype[Any]:
    """Return NumPy's type of an element type: of a vector or matrix that of its components.

    Parameters
    ----------
    dtype
        ``dk.float32``, ``dk.vec3``, ``float``, … bfloat16, which NumPy does not have, is stored as ``uint16``.

    Returns
    -------
    numpy.dtype
        Such as ``np.dtype("float32")``.

    Raises
    ------
    TypeError
        If it is no element type.
    """
    return SCALARS[T.scalar_of(resolve_dtype(dtype)).name].numpy


def element_of_value(value: Any) -> T.Element | None:
    """The element type of a number or a vector given by value, or None if it is something else.

    Python numbers have the default types (float32, int32, bool); NumPy scalars keep theirs; what a composite type
    has made keeps that type.
    """
    if isinstance(value, CompositeValue) and value.composite is not None:
        return value.composite.ir
    for python, scalar in ((builtins.bool, T.BOOL), (int, T.INT32), (float, T.FLOAT32)):
        if isinstance(value, python) and not isinstance(value, np.generic):
            return scalar
    if isinstance(value, np.generic):
        return T.SCALARS.get(value.dtype.name)
    return None
