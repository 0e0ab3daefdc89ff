"""Element types as users name them: ``dk.float32``, ``dk.vec3``, ``dk.mat33`` and the Python and NumPy types alike.

This module maps every spelling of a dtype to an element type of the IR. Each dtype object knows its IR type and its
NumPy type, and can be called: in a kernel it converts or constructs, on the host it makes a NumPy value.
"""

from __future__ import annotations

import builtins
import copyreg
import ctypes
import functools
import operator
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Union

import numpy as np

from diffkern.ir import types as T
from diffkern.lang.lazy_annotations import stated_annotations
from diffkern.lang.values import CompositeValue, InC, class_for, held_type, make_value, namespace
from diffkern.process.dataclass import dataclass

__all__ = [
    "COMPOSITES", "NAMED", "SCALARS", "Alternative", "ComplexType", "CompositeType", "DType", "bfloat16_bits",
    "bfloat16_values", "complex_dtype", "composite_type", "dtype_from_numpy", "dtype_to_numpy",
    "element_of_value", "object_shown", "resolve_dtype",
]  # fmt: skip


class Alternative:
    """An object that may be one of several types in a hint: ``dk.float32 | None``.

    Annotations that are instances, not classes, lack the operator ``|``, which Python gives to classes only.
    """

    __slots__ = ()

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007 - classes alone have the operator

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007


class DType(Alternative):
    """A scalar type.

    Parameters
    ----------
    ir : Scalar
        The type in the IR.
    numpy : numpy.dtype
        How elements are stored. bfloat16, which NumPy lacks, is stored as its 16 bits (``uint16``).
    """

    __slots__ = ("_host", "ir", "numpy")

    def __init__(self, ir: T.Scalar, numpy: np.dtype[Any]) -> None:
        self.ir: Final = ir
        self.numpy: Final = numpy
        # The host class needs a NumPy scalar to derive from; NumPy has no bfloat16, whose values are float32 numbers.
        self._host: Final = _host_class(np.dtype(np.float32) if ir == T.BFLOAT16 else numpy, self)

    @property
    def name(self) -> str:
        """Its spelling, as in ``float32``."""
        return self.ir.name

    @property
    def dtype(self) -> np.dtype[Any]:
        """The same as ``numpy``, for NumPy's functions: ``np.zeros(3, dk.float32)``."""
        return self.numpy

    @property
    def __name__(self) -> str:
        return self.ir.name

    @property
    def _type_(self) -> type:
        """The C type of an element in memory."""
        return _ctype(self.numpy)

    @property
    def _length_(self) -> int:
        """The number of components of an element."""
        return 1

    def __repr__(self) -> str:
        return self.ir.name

    def __call__(self, value: Any = 0) -> Any:
        """Return a scalar of NumPy; on the host, bfloat16 values are float32 rounded to bfloat16."""
        if isinstance(value, (np.ndarray, CompositeValue)) and value.ndim:
            raise TypeError(f"{self.name} is made of one number, not of {value!r}")
        if self.ir == T.BFLOAT16:
            value = rounded_to_bfloat16(np.float32(value))
        return self._host(value)

    def __instancecheck__(self, value: object) -> builtins.bool:
        return isinstance(value, np.generic) and value.dtype == self.numpy

    def __subclasscheck__(self, other: object) -> builtins.bool:
        return self == other or other in (self._host, self.numpy.type)

    @property
    def __bases__(self) -> tuple[type, ...]:
        return ()  # so that issubclass() takes it for a class

    def __hash__(self) -> int:
        return hash(self.ir)

    def __eq__(self, other: object) -> builtins.bool:
        # A dtype equals the class of its values on the host, so that `type(x) == dk.float32` holds as it does in Warp.
        if isinstance(other, DType):
            return other.ir == self.ir
        return other is self._host or (self.ir != T.BFLOAT16 and _is_numpys(other, self.numpy))

    def __reduce__(self) -> tuple[Any, ...]:
        return _scalar, (self.name,)


def _is_numpys(other: object, numpy: np.dtype[Any]) -> builtins.bool:
    """Return whether an object is NumPy's type of an element: the type, its class, or its name."""
    if isinstance(other, str):
        return other == numpy.name
    return other is numpy.type or (isinstance(other, np.dtype) and other == numpy)


def _ctype(stored: np.dtype[Any]) -> type:
    """Return the type of ctypes for an element; for float16, which C lacks, that of its bits."""
    found: type = np.ctypeslib.as_ctypes_type(np.dtype(np.uint16) if stored == np.float16 else stored)
    return found


def _scalar(name: str) -> DType:
    return SCALARS[name]


def rounded_to_bfloat16(values: Any) -> Any:
    """Return float32 numbers rounded to bfloat16."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32).astype(np.uint64)
    # Round to nearest, ties to even: 0x7FFF is one less than half of the last kept bit, and the bit itself is added so
    # that ties carry if it is odd. In 64 bits, because the sum overflows 32 bits for some NaNs.
    rounded = (bits + np.uint64(0x7FFF) + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
    return np.where(np.isnan(values), np.float32(np.nan), rounded.astype(np.uint32).view(np.float32))[()]


class _HostType(type):
    """The metaclass of scalars' classes on the host, which are equal to their dtypes as types of values."""

    of: DType

    def __eq__(self, other: object) -> builtins.bool:
        return other is self or (isinstance(other, DType) and other == self.of)

    def __hash__(self) -> int:
        return hash(self.of)


def _host_class(numpy: np.dtype[Any], of: DType) -> Any:
    """Return the class of scalars on the host: NumPy's, with the attribute ``value``, a number of Python."""
    base = numpy.type
    if base is np.bool_:  # which has no subclasses
        return base
    of_type = {"of": of, "_length_": 1, "_type_": _ctype(of.numpy)}  # programs ask them of the type of a value too
    body = {"__slots__": (), "value": property(base.item), "__repr__": _shown, **of_type}
    return _HostType(base.__name__, (base,), body)


def _shown(self: Any) -> str:
    return f"{self.dtype.name}({self.item()!r})"


class CompositeType(Alternative, type):
    """A type of vectors, matrices, quaternions or transforms: the class of its values.

    ``vec3()`` is zero, ``vec3(s)`` repeats ``s``, ``vec3(a, b, c)`` lists components (of matrices in row-major
    order, or row by row). There is one class for each type; a class derived from it is the same type to kernels.
    """

    ir: T.Composite
    _pack: Callable[..., bytes] | None = None
    """Packs components that are numbers of Python; None where these have to be converted."""

    def __new__(mcs, name: str, ir: Any, scalar: Any, **keywords: Any) -> CompositeType:
        # A class statement that derives from a type calls the metaclass with the bases in this position;
        # `composite_type` calls it with an IR type.
        if isinstance(ir, tuple):  # the bases of a class statement, and its body
            return _derived(name, ir, scalar, keywords)
        known: dict[str, Any] = {"ir": ir, "_shape_": ir.shape, "_length_": ir.size, "_wp_scalar_type_": scalar}
        known |= _described_as_warp(ir, scalar)
        known["__doc__"] = f"{ir} with {ir.size} components: {name}() is zero, {name}(…) has the components given."
        return mcs._made(name, ir, namespace(ir) | known)

    @classmethod
    def _made(mcs, name: str, ir: T.Composite, body: dict[str, Any]) -> CompositeType:
        return type.__new__(mcs, name, (class_for(ir), np.ndarray), body)

    def __init__(cls, name: str, ir: Any, scalar: Any, **keywords: Any) -> None:
        super().__init__(name)

    @property
    def name(cls) -> str:
        """The name under which it is shown."""
        return cls.__name__

    @property
    def scalar(cls) -> DType:
        """The type of the components."""
        return SCALARS[cls.ir.dtype.name]

    @property
    def dtype(cls) -> DType:
        """The type of the components."""
        return cls.scalar

    @property
    def shape(cls) -> tuple[int, ...]:
        """The extents of a value: its length, or rows and columns."""
        return cls.ir.shape

    @property
    def _type_(cls) -> type:
        """The C type of a component in memory."""
        return _ctype(cls.numpy)

    @property
    def size(cls) -> int:
        """The number of components."""
        return cls.ir.size

    @property
    def numpy(cls) -> np.dtype[Any]:
        """The NumPy type of one component."""
        return cls.scalar.numpy

    def of(cls, ir: T.Composite) -> CompositeType:
        """Return another type."""
        return composite_type(ir)

    def wrap(cls, components: Any) -> CompositeValue:
        """Return the value with these components: an array of the right shape, which is not shared."""
        held = cls.rounded(np.asarray(components, held_type(cls)))
        value: CompositeValue = cls._over(held.reshape(cls.shape))
        return value

    def _over(cls, held: Any) -> Any:
        """Return the value whose components lie in an array."""
        # A view, not a copy: `from_buffer` relies on sharing the memory.
        return held.view(cls)

    def _in_memory(cls, data: bytes) -> Any:
        """Return the value with a copy of these bytes."""
        return cls.from_buffer_copy(data)

    def from_buffer_copy(cls, buffer: Any, offset: int = 0) -> Any:
        """Return the value whose components lie in a buffer, as types of ctypes do."""
        return cls.wrap(np.frombuffer(buffer, cls.numpy, cls.size, offset).copy())

    def from_buffer(cls, buffer: Any, offset: int = 0) -> Any:
        """Return the value whose components are those of a writable buffer: a change of one is a change of both."""
        held = np.frombuffer(memoryview(buffer), cls.numpy, cls.size, offset)
        if not held.flags.writeable:
            raise TypeError(f"{cls.__name__}.from_buffer takes a writable buffer; take from_buffer_copy")
        return cls._over(held.reshape(cls.shape))

    def from_ptr(cls, ptr: int) -> Any:
        """Return a copy of the value that lies at an address of the host."""
        if not ptr:
            raise RuntimeError(f"{cls.__name__}.from_ptr: there is nothing at the address 0")
        return cls.from_buffer_copy(ctypes.string_at(ptr, cls.numpy.itemsize * cls.size))

    def __mul__(cls, count: Any) -> Any:
        return Repeated(cls, operator.index(count))

    __rmul__ = __mul__

    def rounded(cls, components: Any) -> Any:
        """Return components as their type holds them."""
        return rounded_to_bfloat16(components) if cls.ir.dtype.name == T.BFLOAT16.name else components

    def __repr__(cls) -> str:
        return cls.__name__

    def __call__(cls, *components: Any, **named: Any) -> CompositeValue:
        return make_value(cls, *components, **named)


def _described_as_warp(ir: T.Composite, scalar: Any) -> dict[str, Any]:
    """Return the attributes by which Warp programs inspect a type: its family and the parameters that select a type of
    it.
    """
    role = ir.role if isinstance(ir, T.Vec) else None
    one = {T.Role.QUATERNION: "quat_t", T.Role.TRANSFORM: "transform_t"}.get(role) if role else "mat_t"
    extents = () if one in ("quat_t", "transform_t") else ir.shape
    return {"_wp_generic_type_str_": one or "vec_t", "_wp_type_params_": [*extents, scalar]}


_ArrayType: Final = type(ctypes.Array)
_CODES: Final = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "float32": "f", "float64": "d",
}  # fmt: skip
"""The codes of struct for numbers that it packs as NumPy converts them, where it does so at all."""


class InMemoryType(_ArrayType, CompositeType):  # type: ignore[misc, valid-type]
    """A type whose values are arrays of ctypes as well: all but those of float16, which C lacks."""

    __new__ = CompositeType.__new__
    __init__ = CompositeType.__init__
    __call__ = CompositeType.__call__
    __repr__ = CompositeType.__repr__
    __mul__ = __rmul__ = CompositeType.__mul__
    from_buffer, from_buffer_copy = CompositeType.from_buffer, CompositeType.from_buffer_copy

    _type_: Any = None  # an attribute of each class

    @classmethod
    def _made(mcs, name: str, ir: T.Composite, body: dict[str, Any]) -> CompositeType:
        made: CompositeType = mcs._in_c(name, (InC, class_for(ir), ctypes.Array), ir, body)
        return made

    @classmethod
    def _in_c(mcs, name: str, bases: tuple[Any, ...], ir: T.Composite, body: dict[str, Any]) -> Any:
        """Return the class, as ctypes makes it of the types of rows."""
        scalar = SCALARS[ir.dtype.name].numpy
        element: Any = _ctype(np.dtype(np.float32) if ir.dtype == T.BFLOAT16 else scalar)
        # ctypes nests the inner extents in the element type: a matrix is an array of arrays of rows.
        for extent in ir.shape[:0:-1]:
            element = element * extent
        body |= {"_type_": element, "_length_": ir.shape[0]}
        made: Any = _ArrayType.__new__(mcs, name, bases, body)
        _ArrayType.__init__(made, name, bases, body)  # which is what tells ctypes of it from Python 3.13 on
        # Only now: ctypes has read the nested types from the body, and Warp's programs expect the flat ones.
        made._length_, made._type_ = ir.size, _ctype(scalar)
        if ir.dtype.name in _CODES:
            # With a byte order stated, struct checks that a number fits.
            made._pack = struct.Struct(f"={ir.size}{_CODES[ir.dtype.name]}").pack
        return made

    def _in_memory(cls, data: bytes) -> Any:
        return _ArrayType.from_buffer_copy(cls, data)

    def _over(cls, held: Any) -> Any:
        # ctypes needs writable, contiguous memory to share; any other array is copied.
        if held.flags.writeable and held.flags.c_contiguous:
            return _ArrayType.from_buffer(cls, held)
        return _ArrayType.from_buffer_copy(cls, np.ascontiguousarray(held).data)


@dataclass(frozen=True)
class Repeated:
    """Values of a type one after the other: ``vec3 * 4``, in the way types of ctypes are repeated."""

    of: CompositeType
    count: int

    def from_buffer_copy(self, buffer: Any, offset: int = 0) -> builtins.list[Any]:
        """Return the values whose components lie in a buffer."""
        components = np.frombuffer(buffer, self.of.numpy, self.of.size * self.count, offset)
        return [self.of.wrap(part.copy()) for part in components.reshape(self.count, -1)]

    def __call__(self, *values: Any) -> builtins.list[Any]:
        """Return so many values; those that are not given are zero."""
        if len(values) > self.count:
            raise IndexError(f"{len(values)} values for {self.count} places")
        return [*map(self.of, values), *(self.of() for _ in range(self.count - len(values)))]


class DerivedType(CompositeType):
    """A class that a program derives from a type, with members of its own; it equals that type."""

    def __new__(mcs, name: str, bases: Any, body: Any, **keywords: Any) -> DerivedType:
        if not isinstance(body, Mapping):
            raise TypeError(f"{name}: a derived type is made by a class statement")
        return type.__new__(mcs, name, bases, dict(body), **keywords)

    def __eq__(cls, other: object) -> builtins.bool:
        return isinstance(other, CompositeType) and cls.ir == other.ir

    def __hash__(cls) -> int:
        # Equal classes must have equal hashes: that of the type they are derived from.
        return hash(composite_type(cls.ir))


class DerivedInMemoryType(InMemoryType, DerivedType):
    """The same of a type whose values are arrays of ctypes."""

    def __new__(mcs, name: str, bases: Any, body: Any, **keywords: Any) -> DerivedType:
        if not isinstance(body, Mapping):
            raise TypeError(f"{name}: a derived type is made by a class statement")
        (ir,) = {base.ir for base in bases if isinstance(base, CompositeType)}
        made: DerivedType = mcs._in_c(name, bases, ir, dict(body))
        return made

    __eq__ = DerivedType.__eq__
    __hash__ = DerivedType.__hash__


_DOCUMENTATION: Final = frozenset({
    "__doc__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__", "__annotations__",
    "__annotate_func__", "__annotations_cache__",  # from Python 3.14 on
})  # fmt: skip
"""The attributes of a class whose body is ``pass``."""


def _derived(name: str, bases: tuple[Any, ...], body: Mapping[str, Any], keywords: Mapping[str, Any]) -> CompositeType:
    """Return the result of a class statement over a type: the type under another name, or a class with members of its
    own.
    """
    composites = [base for base in bases if isinstance(base, CompositeType)]
    # A body that only says `pass` is another name for the type: values of a class of its own would not be instances of
    # it.
    if len(bases) == 1 and _DOCUMENTATION.issuperset(body):
        return composites[0]
    if len(composites) != 1 or isinstance(composites[0], ComplexType):
        raise TypeError(f"{name} cannot be derived from {', '.join(map(str, bases))}; hold values of them in a struct")
    kind = DerivedInMemoryType if isinstance(composites[0], InMemoryType) else DerivedType
    return kind(name, bases, body, **keywords)


class ComplexType(CompositeType):
    """A type of complex numbers, whose values on the host are NumPy's scalars.

    ``complex64()`` is zero, ``complex64(z)`` converts a number, ``complex64(re, im)`` has these parts.
    """

    def __eq__(cls, other: object) -> builtins.bool:
        return other is cls or _is_numpys(other, cls.complex)

    __hash__ = type.__hash__

    @property
    def complex(cls) -> np.dtype[Any]:
        """NumPy's type of a number."""
        return complex_dtype(cls.ir)

    def wrap(cls, components: Any) -> Any:
        """Return the number with these parts."""
        return np.ascontiguousarray(components, cls.numpy).view(cls.complex)[0]

    def __call__(cls, *parts: Any, **named: Any) -> Any:
        """Return a number of NumPy."""
        return cls.complex.type(complex(*map(_as_number, parts), **named))

    def __instancecheck__(cls, value: object) -> builtins.bool:
        return isinstance(value, np.generic) and value.dtype == cls.complex


def _as_number(part: Any) -> Any:
    """Return a part of a complex number as Python's number; a part of any other type is passed on, so that Python
    raises its own error.
    """
    return part.item() if isinstance(part, np.generic) else part


def complex_dtype(t: T.Element) -> np.dtype[Any]:
    """NumPy's type of a complex number."""
    return np.dtype(str(t))


def _reduced(composite: CompositeType) -> tuple[Any, ...]:
    return composite_type, (composite.ir,)


def _by_name(derived: DerivedType) -> str:
    return derived.__qualname__


for _kind in (DerivedType, DerivedInMemoryType):
    copyreg.pickle(_kind, _by_name)  # a class of a module, as any other
copyreg.pickle(ComplexType, _reduced)
for _kind in (CompositeType, InMemoryType):
    copyreg.pickle(_kind, _reduced)  # by its type in the IR, not as a class of a module


def _scalars() -> dict[str, DType]:
    # NumPy has no bfloat16: its bits are stored.
    stored = {"bool": "bool_", "bfloat16": "uint16"}
    return {name: DType(t, np.dtype(getattr(np, stored.get(name, name)))) for name, t in T.SCALARS.items()}


SCALARS: Final[Mapping[str, DType]] = _scalars()


_VECTOR_SUFFIXES: Final[Mapping[str, str]] = {
    "": "float32", "f": "float32", "d": "float64", "h": "float16", "b": "int8", "ub": "uint8", "s": "int16",
    "us": "uint16", "i": "int32", "ui": "uint32", "u": "uint32", "l": "int64", "ul": "uint64",
}  # fmt: skip
"""The suffixes of names of vectors; those of floats make names of matrices, quaternions and transforms too."""


def _named() -> dict[str, T.Composite]:
    """Return the types that have names; the first name of a type is the one that is shown."""
    kinds: dict[str, tuple[Callable[[T.Scalar], T.Composite], builtins.bool]] = {}
    for n in (2, 3, 4):
        kinds[f"vec{n}"] = functools.partial(T.Vec, length=n), False
        kinds[f"mat{n}{n}"] = functools.partial(T.Mat, rows=n, cols=n), True
    kinds["quat"] = T.quaternion, True
    kinds["transform"] = T.transform, True
    kinds["spatial_vector"] = functools.partial(T.Vec, length=6), True
    kinds["spatial_matrix"] = functools.partial(T.Mat, rows=6, cols=6), True
    numbers = (T.complex_number(T.FLOAT32), T.complex_number(T.FLOAT64))
    return {str(t): t for t in numbers} | {
        kind + suffix: make(T.SCALARS[scalar])
        for kind, (make, floats) in kinds.items()
        for suffix, scalar in _VECTOR_SUFFIXES.items()
        if T.SCALARS[scalar].is_float or not floats
    }


NAMED: Final[Mapping[str, T.Composite]] = _named()
"""Vectors, matrices and their like that have names."""
# Reversed, so that the first of several names of a type is written last and stays.
_SHOWN: Final[dict[T.Composite, str]] = {ir: name for name, ir in reversed(list(NAMED.items()))}
_OF_IR: Final[dict[T.Composite, CompositeType]] = {}


def composite_type(ir: T.Composite) -> CompositeType:
    """Return the one dtype object of a composite type of the IR."""
    known = _OF_IR.get(ir)
    if known is None:
        kind = ComplexType if T.is_complex(ir) else CompositeType if ir.dtype == T.FLOAT16 else InMemoryType
        # `setdefault`, not an assignment: two threads that make the same type must end up with one object.
        known = _OF_IR.setdefault(ir, kind(_SHOWN.get(ir, str(ir)), ir, SCALARS[ir.dtype.name]))
    return known


class _Composites(Mapping[str, CompositeType]):
    """The named composite types; each is made when it is asked for, which is faster than making all at import."""

    def __getitem__(self, name: str) -> CompositeType:
        return composite_type(NAMED[name])

    def __iter__(self) -> Iterator[str]:
        return iter(NAMED)

    def __len__(self) -> int:
        return len(NAMED)


COMPOSITES: Final[Mapping[str, CompositeType]] = _Composites()


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

_PYTHON: Final[Mapping[type, T.Element]] = {
    float: T.FLOAT32, int: T.INT32, builtins.bool: T.BOOL, complex: T.complex_number(T.FLOAT32),
}  # fmt: skip
_ELEMENTS: Final[Mapping[str, T.Element]] = {
    **T.SCALARS, **{str(t): t for t in (T.complex_number(T.FLOAT32), T.complex_number(T.FLOAT64))},
}  # fmt: skip
"""By NumPy's names of types."""


_NUMBA: Final = ("numba", "numba_cuda")


def resolve_dtype(obj: Any) -> T.Element:
    """Return the element type meant by a dtype object, a Python type or a NumPy type.

    Parameters
    ----------
    obj
        ``dk.float32``, ``dk.vec3``, an element type of the IR, ``float`` (float32), ``int`` (int32), ``bool``,
        ``complex`` (complex64), a name such as ``"float32"`` or ``"vec3"``, one of numba's types, or a type of NumPy.

    Raises
    ------
    TypeError
        If it is none of these.
    """
    if isinstance(obj, (DType, CompositeType)):
        return obj.ir
    if isinstance(obj, (T.Scalar, T.Vec, T.Mat)):
        return obj
    # Only types are looked up: an unhashable object of a user's must reach the error below, not fail here.
    if isinstance(obj, type) and obj in _PYTHON:
        return _PYTHON[obj]
    if isinstance(obj, np.dtype) or (isinstance(obj, type) and issubclass(obj, np.generic)):
        name = np.dtype(obj).name
        if name in _ELEMENTS:
            return _ELEMENTS[name]
    if isinstance(obj, str) and (known := _ELEMENTS.get(obj) or NAMED.get(obj)) is not None:
        return known
    # Known by module and name, so that numba is not imported for it.
    if type(obj).__module__.partition(".")[0] in _NUMBA and getattr(obj, "name", None) in T.SCALARS:
        return T.SCALARS[obj.name]
    if isinstance(obj, type) and stated_annotations(obj):
        raise TypeError(
            f"the class {obj.__name__} is not an element type: it is no struct; write @dk.struct above the class"
        )
    raise TypeError(
        f"{object_shown(obj)} is not an element type; use one of {', '.join(n for n in T.SCALARS)}, vec2, vec3, vec4, "
        "mat22, mat33, mat44 (with a suffix such as vec3d for another width), float, int or bool"
        + ("; a shape of two axes is a tuple, as in dk.zeros((3, 4))" if isinstance(obj, int) else "")
    )


def object_shown(obj: Any) -> str:
    """Return an object as text for a message; it may be any object of a user's, whose class may fail to show it."""
    try:
        return f"an array of {obj.dtype}" if isinstance(obj, np.ndarray) else repr(obj)
    except Exception:
        return f"an object of class {type(obj).__name__}"


def dtype_from_numpy(numpy_dtype: Any) -> DType | CompositeType:
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
    if name in COMPOSITES:
        return COMPOSITES[name]
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
    element = resolve_dtype(dtype)
    return complex_dtype(element) if T.is_complex(element) else SCALARS[T.scalar_of(element).name].numpy


def element_of_value(value: Any) -> T.Element | None:
    """Return the element type of a number or a vector given by value, or None if it is something else.

    Python numbers have the default types (float32, int32, bool); NumPy scalars keep theirs, and values of a composite
    type keep that type.
    """
    if isinstance(value, CompositeValue):
        return value.ir
    # bool before int, of which it is a subclass. NumPy's float64 is a subclass of Python's float, and is excluded.
    for python, scalar in ((builtins.bool, T.BOOL), (int, T.INT32), (float, T.FLOAT32), (complex, _PYTHON[complex])):
        if isinstance(value, python) and not isinstance(value, np.generic):
            return scalar
    if isinstance(value, np.generic):
        return _ELEMENTS.get(value.dtype.name)
    return None


def bfloat16_values(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return bfloat16 elements, given as their bits, as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bfloat16_bits(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return float values rounded to bfloat16, to nearest and ties to even, as their bits."""
    single = values.astype(np.float32)
    bits = single.view(np.uint32)
    # Adding just under half of the dropped range, and one more if the kept part is odd, rounds ties to even. In 64 bits
    # the carry cannot overflow.
    rounded = (bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16
    # Rounding could carry a NaN's payload into infinity, so that all NaNs become one quiet NaN.
    return np.where(np.isnan(single), 0x7FC0, rounded).astype(np.uint16)
