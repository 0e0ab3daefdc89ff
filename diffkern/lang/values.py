"""Vectors, matrices, quaternions and transforms on the host, with the arithmetic that they have in kernels.

A value is a small array of ctypes (of NumPy for float16) whose class is its kernel type. Items, operators and
comparisons follow the rules of kernels: ``m * v`` is a product of matrices, ``v == w`` is a bool, ``m[0]`` is a copy of
a row. Functions of NumPy and methods of its arrays see the components, and return plain arrays.
"""

from __future__ import annotations

import functools
import importlib
import operator
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, TypeAlias

import numpy as np

from diffkern.ir.types import BFLOAT16, FLOAT32, INT32, Composite, Mat, Role, Vec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from diffkern.lang.dtypes import CompositeType

__all__ = ["ComponentsError", "CompositeValue", "InC", "class_for", "held_type", "make_value", "namespace"]

if TYPE_CHECKING:
    _Components: TypeAlias = np.ndarray[Any, Any]
else:
    _Components = object  # what it is besides depends on the type: see diffkern.lang.dtypes

_NUMBER: Final = (int, float, np.number, np.bool_)
_IDENTITY: Final = (0, 0, 0, 1)
_PYTHON: Final = frozenset({int, float})
_EXACT: Final = 2**53
_PLAIN: Final = np.ndarray
_LETTERS: Final = frozenset("xyzwrgbapq")


class KeyOfComponentsError(KeyError, IndexError):
    """The key in brackets behind a value is no index of components."""


class ComponentsError(TypeError, ValueError):
    """A type does not have as many components as are given."""


def _of_numpy(name: str) -> Callable[..., Any]:
    """Return a method of NumPy's arrays that applies to the plain array of the components."""
    method = getattr(_PLAIN, name)

    @functools.wraps(method)
    def call(self: CompositeValue, *args: Any, **kwargs: Any) -> Any:
        return method(self.view(_PLAIN), *args, **kwargs)

    return call


def _of_components(name: str) -> Callable[[CompositeValue], Any]:
    """Return a getter of an attribute of NumPy's arrays that reads it from the plain array of the components."""
    return lambda value: getattr(value.view(_PLAIN), name)


class CompositeValue(_Components):
    """A vector or matrix on the host; its class is its type, such as ``dk.vec3``.

    It is an array of ctypes too, which functions of C take by reference (``ctypes.byref``), or one of NumPy where C has
    no such type.
    """

    __slots__ = ()
    __hash__: ClassVar[None]  # its components can change

    ir: ClassVar[Composite]

    @property
    def composite(self) -> CompositeType:
        """Its type."""
        return type(self)  # type: ignore[return-value]

    # -- components --------------------------------------------------------------------------------------------------

    def _component(self, value: Any) -> Any:
        """Return a component as Python's number where that is its default type, else as a scalar of its type."""
        scalar = self.ir.dtype
        # Python's numbers where kernels would infer the same type from them; others would lose their type.
        return value.item() if scalar in (FLOAT32, INT32) else self.composite.scalar(value)

    def _part(self, components: NDArray[Any], role: Role = Role.VECTOR) -> Any:
        """Return a copy of some components, as a value of the matching type."""
        if not components.ndim:
            return self._component(components[()])
        scalar = self.ir.dtype
        # NumPy gives an empty slice the shape of the other axes; a vector or matrix without components has extents of
        # 0.
        shape = components.shape if components.size else (0,) * components.ndim
        part = Vec(scalar, shape[0], role) if len(shape) == 1 else Mat(scalar, *shape)
        return self.composite.of(part).wrap(components.reshape(shape).copy())

    def __getitem__(self, index: Any) -> Any:
        """Return a component, or a copy of a row, of a column, or of slices."""
        _check_key(self.ir, index)
        # Indexed as an array of NumPy first, whose rules for slices and negative indices are those of kernels.
        found = self.view(_PLAIN)[index]
        known = index if isinstance(index, tuple) else (index,)
        if all(isinstance(k, (int, np.integer, slice)) for k in known):
            return self._part(np.asarray(found))
        return found

    def __setitem__(self, index: Any, value: Any) -> None:
        """Assign a component or several."""
        _check_key(self.ir, index)
        self.view(_PLAIN)[index] = _converted(self.composite, value)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a component, or an attribute of the program's own whose name does not look like that of components."""
        # Otherwise a misspelled component, `v.xy = …`, would become an attribute and be ignored in silence.
        if _LETTERS.issuperset(name) and not hasattr(type(self), name):
            raise AttributeError(
                f"components of {type(self).__name__!r} are set by letter or index; it has no attribute {name!r}"
            )
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Compute with the components; a number of NumPy on the left of an operator counts as one on the right."""
        rule = _REFLECTED.get(ufunc)
        # `np.float32(2) * v` asks NumPy first, which would return a plain array.
        if rule is not None and method == "__call__" and not kwargs and isinstance(inputs[0], np.generic):
            return getattr(inputs[1], rule)(inputs[0])
        if kwargs.get("out") is not None:
            kwargs["out"] = tuple(map(_stripped, kwargs["out"]))
        return getattr(ufunc, method)(*map(_stripped, inputs), **kwargs)

    def __reduce__(self) -> Any:
        return make_value, (self.composite, np.array(self))

    def __copy__(self) -> Any:
        return self.composite.wrap(np.array(self))

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    def copy(self, order: Any = "C") -> Any:
        """Return a new value with the same components."""
        return self.__copy__()

    def __repr__(self) -> str:
        return f"{self.composite.name}({', '.join(map(_text, self.view(_PLAIN).ravel()))})"

    def __str__(self) -> str:
        return _lines(self.view(_PLAIN))

    def __format__(self, spec: str) -> str:
        return str(self) if not spec else super().__format__(spec)

    # -- operators ---------------------------------------------------------------------------------------------------

    def _is_like(self, other: Any) -> bool:
        """Return whether another value has the same type; its class may be derived from this one's."""
        return type(other) is type(self) or (isinstance(other, CompositeValue) and other.ir == self.ir)

    def _same(self, name: str, other: Any, function: Callable[[Any, Any], Any]) -> Any:
        """Apply a function to two values of one type, component by component; an array of NumPy gives an array of
        NumPy.
        """
        if self._is_like(other):
            return self.composite.wrap(function(self.view(_PLAIN), other.view(_PLAIN)))
        if type(other) is _PLAIN:
            return function(self.view(_PLAIN), other)
        self._refuse(name, other)

    def _refuse(self, name: str, other: Any) -> NoReturn:
        what = other.composite if isinstance(other, CompositeValue) else type(other).__name__
        remedy = {
            "*": "multiply components by dk.cw_mul",
            "/": "divide components by dk.cw_div",
        }.get(name, f"make it a {self.composite} first")
        raise TypeError(f"{self.composite} {name} {what} has no meaning; {remedy}")

    def _number(self, name: str, other: Any) -> Any:
        """Return a number as a component."""
        if not isinstance(other, _NUMBER):
            self._refuse(name, other)
        return _converted(self.composite, other)

    def __add__(self, other: Any) -> Any:
        return self._same("+", other, operator.add)

    def __radd__(self, other: Any) -> Any:
        # `sum()` starts with the integer 0.
        if type(other) is int and other == 0:
            return self.copy()
        return self._same("+", other, operator.add)

    def __sub__(self, other: Any) -> Any:
        return self._same("-", other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._same("-", other, lambda a, b: b - a)

    def __mod__(self, other: Any) -> Any:
        return self._same("%", other, np.fmod)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, CompositeValue):
            return self._product("*", other)
        if type(other) is _PLAIN:
            return self.view(_PLAIN) * other
        return self.composite.wrap(self.view(_PLAIN) * self._number("*", other))

    def __rmul__(self, other: Any) -> Any:
        return self.__mul__(other)

    def __matmul__(self, other: Any) -> Any:
        return self._product("@", other) if isinstance(other, CompositeValue) else self.view(_PLAIN) @ other

    def __rmatmul__(self, other: Any) -> Any:
        return other @ self.view(_PLAIN)

    def _product(self, name: str, other: CompositeValue) -> Any:
        left: Any = type(self)
        right: Any = type(other)
        if (kind := _product_type(left, right)) is not None:
            return kind._over(self.view(_PLAIN) @ other.view(_PLAIN))
        a, b = self.ir, other.ir
        plain = getattr(a, "role", Role.VECTOR) is getattr(b, "role", Role.VECTOR) is Role.VECTOR
        # A product needs a matrix on one side: two vectors have no `*`, and quaternions have their own.
        if not plain or a.dtype != b.dtype or not (isinstance(a, Mat) or isinstance(b, Mat)):
            self._refuse(name, other)
        if a.shape[-1] != b.shape[0]:
            raise TypeError(f"{self.composite} {name} {other.composite}: the inner sizes differ")
        return self._part(self.view(_PLAIN) @ other.view(_PLAIN))

    def __truediv__(self, other: Any) -> Any:
        if type(other) is _PLAIN:
            return self.view(_PLAIN) / other
        return self.composite.wrap(_divided(self.view(_PLAIN), self._number("/", other)))

    def __rtruediv__(self, other: Any) -> Any:
        if type(other) is _PLAIN:
            return other / self.view(_PLAIN)
        return self.composite.wrap(_divided(self._number("/", other), self.view(_PLAIN)))

    def __neg__(self) -> Any:
        return self.composite.wrap(-self.view(_PLAIN))

    def __pos__(self) -> Any:
        return self.copy()

    def __invert__(self) -> Any:
        return self.composite.wrap(~self.view(_PLAIN))

    def __and__(self, other: Any) -> Any:
        return self._bits("&", other, operator.and_)

    def __or__(self, other: Any) -> Any:
        return self._bits("|", other, operator.or_)

    def __xor__(self, other: Any) -> Any:
        return self._bits("^", other, operator.xor)

    def __lshift__(self, other: Any) -> Any:
        return self._bits("<<", other, operator.lshift)

    def __rshift__(self, other: Any) -> Any:
        return self._bits(">>", other, operator.rshift)

    def _bits(self, name: str, other: Any, function: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, _NUMBER) and self.ir.dtype.is_integer:
            return self.composite.wrap(function(self.view(_PLAIN), self._number(name, other)))
        return self._same(name, other, function)

    def __bool__(self) -> bool:
        return True  # of a container of C, as in Warp

    # Names are rebound: what else holds the value keeps it.
    __iadd__, __isub__, __imul__, __itruediv__ = __add__, __sub__, __mul__, __truediv__
    __imod__, __imatmul__, __iand__, __ior__, __ixor__ = __mod__, __matmul__, __and__, __or__, __xor__
    __ilshift__, __irshift__ = __lshift__, __rshift__

    def __eq__(self, other: object) -> Any:
        """Return whether all components are equal."""
        if isinstance(other, CompositeValue) and not self._is_like(other):
            return False
        if isinstance(other, (CompositeValue, _PLAIN, list, tuple)):
            numbers = np.asarray(_stripped(other))
            return numbers.shape == self.shape and bool(np.all(self.view(_PLAIN) == numbers))
        return NotImplemented

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal


# Methods of NumPy's arrays give plain arrays. Values of float16, which are such arrays, would give composites; values
# over ctypes have no such methods of their own.
for _name in (
    "T", "all", "any", "argmax", "argmin", "astype", "clip", "conj", "cumprod", "cumsum", "diagonal", "dot", "flatten",
    "imag", "max", "mean", "min", "prod", "ravel", "real", "repeat", "reshape", "round", "squeeze", "std", "sum",
    "swapaxes", "take", "trace", "transpose", "var",
):  # fmt: skip
    _member = getattr(_PLAIN, _name)
    if callable(_member):
        setattr(CompositeValue, _name, _of_numpy(_name))
    else:
        setattr(CompositeValue, _name, property(_of_components(_name)))


class InC:
    """The attributes of NumPy's arrays, for a value that is an array of ctypes."""

    __slots__ = ()
    ir: ClassVar[Composite]

    def view(self, kind: Any = _PLAIN) -> Any:
        """Return the components as an array of NumPy, over the same memory."""
        composite: Any = type(self)
        plain = _PLAIN(*_in_numpy(composite), self)  # type: ignore[arg-type]
        return plain if kind is _PLAIN else plain.view(kind)

    def __copy__(self) -> Any:
        # Without an array in between: structs copy the values of their fields.
        composite: Any = type(self)
        return composite._in_memory(bytes(self))

    def tobytes(self, order: Any = "C") -> bytes:
        """Return the bytes of the components."""
        # Without an array in between: launches ask for them.
        return memoryview(self).tobytes() if order == "C" else self.view().tobytes(order)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.view(), dtype, copy=copy)

    def __jax_array__(self) -> Any:
        return importlib.import_module("jax.numpy").asarray(self.view())

    def __getattr__(self, name: str) -> Any:
        # Dunder names are looked up by protocols of NumPy and copy, for which the value must not pose as an array.
        if name.startswith("__") or not hasattr(_PLAIN, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.view(), name)


# Python looks up operators on the class, where `__getattr__` is not asked.
for _name in (
    "__abs__", "__complex__", "__contains__", "__divmod__", "__float__", "__floordiv__", "__ge__", "__gt__", "__int__",
    "__le__", "__lt__", "__pow__", "__rand__", "__rdivmod__", "__rfloordiv__", "__rlshift__", "__rmod__", "__ror__",
    "__rpow__", "__rrshift__", "__rxor__",
):  # fmt: skip
    setattr(InC, _name, _of_numpy(_name))


class QuaternionValue(CompositeValue):
    """A quaternion on the host: x, y, z, w."""

    __slots__ = ()

    def __mul__(self, other: Any) -> Any:
        if self._is_like(other):
            return self.composite.wrap(_hamilton(self.view(_PLAIN), other.view(_PLAIN)))
        return super().__mul__(other)

    __imul__ = __mul__


class MatrixValue(CompositeValue):
    """A matrix on the host."""

    __slots__ = ()

    def get_row(self, r: int) -> Any:
        """Return a row of its own."""
        return self[self._checked(0, r)]

    def get_col(self, c: int) -> Any:
        """Return a column of its own."""
        return self[:, self._checked(1, c)]

    def set_row(self, r: int, v: Any) -> None:
        """Assign a row."""
        self[self._checked(0, r)] = v

    def set_col(self, c: int, v: Any) -> None:
        """Assign a column."""
        self[:, self._checked(1, c)] = v

    def _checked(self, axis: int, index: int) -> int:
        extent = self.ir.shape[axis]
        if not -extent <= index < extent:
            name = ("row", "column")[axis]
            raise IndexError(f"{self.composite.name} has {extent} {name}s, and no {name} {index}")
        return index


class TransformValue(CompositeValue):
    """A transform on the host: a translation p and a rotation q."""

    __slots__ = ()

    @property
    def p(self) -> Any:
        """The translation: a vector of its own."""
        return self._part(self.view(_PLAIN)[:3])

    @p.setter
    def p(self, value: Any) -> None:
        self[:3] = value

    @property
    def q(self) -> Any:
        """The rotation: a quaternion of its own."""
        return self._part(self.view(_PLAIN)[3:], Role.QUATERNION)

    @q.setter
    def q(self, value: Any) -> None:
        self[3:] = value

    def __mul__(self, other: Any) -> Any:
        if not self._is_like(other):
            return super().__mul__(other)
        a, b = self.view(_PLAIN), other.view(_PLAIN)
        made = np.concatenate([a[:3] + _rotated(a[3:], b[:3]), _hamilton(a[3:], b[3:])])
        return self.composite.wrap(made.astype(a.dtype))

    __imul__ = __mul__


def _check_key(t: Composite, index: Any) -> None:
    """Refuse a key that would add an axis in NumPy, and more indices than there are axes."""
    if index is None:
        raise KeyOfComponentsError(
            f"None is no index of {'a vector' if len(t.shape) == 1 else 'a matrix'}; write integers or slices"
        )
    if isinstance(index, tuple) and len(index) > len(t.shape) and Ellipsis not in index:
        raise KeyOfComponentsError(f"{len(index)} indices of a {'vector' if len(t.shape) == 1 else 'matrix'}")


def _cross(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return the cross product of two vectors, for which NumPy's function takes ten times as long."""
    product: NDArray[Any] = a[_NEXT] * b[_LAST] - a[_LAST] * b[_NEXT]
    return product


_NEXT, _LAST = np.array([1, 2, 0]), np.array([2, 0, 1])


# Hamilton's product of (x, y, z, w): vector part a.w b.v + b.w a.v + a.v × b.v, real part a.w b.w - a.v · b.v.
def _hamilton(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    v = a[3] * b[:3] + b[3] * a[:3] + _cross(a[:3], b[:3])
    return np.append(v, a[3] * b[3] - a[:3] @ b[:3]).astype(a.dtype)


def _rotated(q: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
    # q v q* for a unit quaternion, expanded: (2 w² - 1) v + 2 (u · v) u + 2 w (u × v).
    rotated: NDArray[Any] = v * (2 * q[3] ** 2 - 1) + 2 * q[:3] * (q[:3] @ v) + 2 * q[3] * _cross(q[:3], v)
    return rotated


def _divided(a: Any, b: Any) -> Any:
    """Return a quotient; that of integers is rounded towards zero."""
    if np.result_type(a, b).kind not in "iu":
        with np.errstate(all="ignore"):
            return a / b
    # NumPy's `//` rounds down; kernels divide as C does.
    quotient = np.abs(a) // np.abs(b)
    return np.where((np.asarray(a) < 0) != (np.asarray(b) < 0), -quotient, quotient)


_REFLECTED: Final[Mapping[Any, str]] = {
    np.multiply: "__rmul__", np.true_divide: "__rtruediv__", np.add: "__radd__", np.subtract: "__rsub__",
}  # fmt: skip


def _stripped(value: Any) -> Any:
    return value.view(_PLAIN) if isinstance(value, CompositeValue) else value


# -- construction ------------------------------------------------------------------------------------------------------


def class_for(t: Composite) -> type[CompositeValue]:
    """Return the class from which values of a type are derived."""
    if isinstance(t, Mat):
        return MatrixValue
    role = t.role
    return {Role.QUATERNION: QuaternionValue, Role.TRANSFORM: TransformValue}.get(role, CompositeValue)


def namespace(t: Composite) -> dict[str, Any]:
    """Return the attributes of the class of a type: components by letter. Its values take others, as
    those of Warp do.
    """
    letters = "" if isinstance(t, Mat) or t.role is Role.TRANSFORM else "xyzw"[: t.length]
    return {letter: _letter(k) for k, letter in enumerate(letters)}


def _letter(k: int) -> property:
    def get(self: CompositeValue) -> Any:
        return self[k]

    def put(self: CompositeValue, value: Any) -> None:
        self[k] = value

    return property(get, put)


@functools.cache
def _in_numpy(composite: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the extents of values of a type, and the type of their components in NumPy."""
    return composite.ir.shape, held_type(composite)


@functools.cache
def _product_type(left: Any, right: Any) -> Any:
    """Return the type of the product of two values, by their types, if it is NumPy's as it is; None otherwise."""
    a, b = left.ir, right.ir
    plain = getattr(a, "role", Role.VECTOR) is getattr(b, "role", Role.VECTOR) is Role.VECTOR
    if not plain or a.dtype != b.dtype or not (isinstance(a, Mat) or isinstance(b, Mat)) or a.dtype == BFLOAT16:
        return None
    shape = (*a.shape[:-1], *b.shape[1:])
    if a.shape[-1] != b.shape[0] or not shape or not all(shape):
        return None
    return left.of(Vec(a.dtype, shape[0]) if len(shape) == 1 else Mat(a.dtype, *shape))


@functools.cache
def held_type(composite: CompositeType) -> np.dtype[Any]:
    """Return the type in which components are held: as they are stored, but bfloat16, which NumPy lacks, as float32."""
    return np.dtype(np.float32) if composite.ir.dtype == BFLOAT16 else composite.numpy


def make_value(composite: CompositeType, *components: Any, **named: Any) -> CompositeValue:
    """Return a value of a type from nothing, one number for all components, or all components.

    Without arguments it is zeros; a transform is then the identity, although in kernels it is zeros as well, as in
    Warp.
    """
    t = composite.ir
    # Programs make values for each launch: numbers of Python are packed at once where that is the same.
    if composite._pack is not None and not named and (data := _packed(composite, components)) is not None:
        made: CompositeValue = composite._in_memory(data)
        return made
    if named:
        components = _in_order(composite, components, named)
    # By shape, not by type: a vector of another width is converted.
    if len(components) == 1 and isinstance(components[0], CompositeValue) and components[0].shape == t.shape:
        return composite.wrap(np.array(components[0]))  # converts
    flat = np.concatenate([np.ravel(np.asarray(c)) for c in components]) if components else _from_nothing(t)
    # One number fills all components; a type with one component takes it as it is.
    if flat.size == 1 and t.size != 1:
        flat = np.repeat(flat, t.size)
    # A transform of a translation alone has the identity as its rotation.
    if flat.size == 3 and isinstance(t, Vec) and t.role is Role.TRANSFORM:
        flat = np.concatenate([flat, _IDENTITY])
    if flat.size != t.size:
        raise ComponentsError(f"{composite.name} has {t.size} components, not {flat.size}")
    return composite.wrap(_converted(composite, flat).reshape(t.shape))


def _packed(composite: CompositeType, components: tuple[Any, ...]) -> bytes | None:
    """Return the bytes of a value that is made of as many numbers of Python, or of values with these components.

    None where components have to be converted or checked.
    """
    t, kinds = composite.ir, set(map(type, components))
    if kinds <= _PYTHON and len(components) == t.size:
        # Larger integers are not rounded once to their nearest float.
        if int in kinds and t.dtype.is_float and max(map(abs, components)) > _EXACT:
            return None
        try:
            return composite._pack(*components)  # type: ignore[misc]
        except (struct.error, OverflowError):
            return None
    if kinds and all(issubclass(kind, InC) and kind.ir.dtype == t.dtype for kind in kinds):
        data = b"".join([part.tobytes() for part in components])
        return data if len(data) == t.itemsize else None
    return None


def _from_nothing(t: Composite) -> NDArray[Any]:
    is_transform = isinstance(t, Vec) and t.role is Role.TRANSFORM
    return np.array((0, 0, 0, *_IDENTITY) if is_transform else (0,), np.int8)


def _in_order(composite: CompositeType, components: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    t = composite.ir
    names = ("p", "q") if class_for(t) is TransformValue else tuple(n for n in "xyzw" if hasattr(composite, n))
    order = names[len(components) :]
    unknown = [name for name in named if name not in order]
    if unknown:
        raise TypeError(f"{composite.name} has no component {unknown[0]!r} that is not given already")
    if "q" in named and "p" not in named and not components:
        named["p"] = (0, 0, 0)
    return (*components, *(named[name] for name in order if name in named))


def _converted(composite: CompositeType, numbers: Any) -> Any:
    """Return numbers as components: they may lose width, never their kind."""
    given = np.asarray(numbers)
    held = held_type(composite)
    if given.dtype == object or given.dtype.kind not in "biuf":
        raise TypeError(f"the components of a {composite.name} are numbers, not {numbers!r}")
    if given.dtype.kind == "f" and held.kind != "f":
        raise TypeError(f"the components of a {composite.name} are integers, not {numbers!r}; convert them with int()")
    return composite.rounded(given.astype(held))


def _text(number: Any) -> str:
    return repr(number.item())


def _lines(components: NDArray[Any]) -> str:
    if components.ndim == 1:
        return f"[{', '.join(map(_text, components))}]"
    return "[" + ",\n ".join(map(_lines, components)) + "]"
