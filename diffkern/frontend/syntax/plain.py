"""Plain data: the parts of Python objects that a kernel uses, detached from the objects and the code of their classes.

An object from outside of the kernel becomes numbers and text of Python's own classes, tuples of these, arrays of
NumPy's own class. Lowering and the cache key use the same, so that a method of a class that is edited changes either
both or neither.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from diffkern.ir import types as T
from diffkern.ir.structs import Struct, StructArray
from diffkern.lang import CompositeValue, Func, definition_of, resolve_dtype
from diffkern.lang.intrinsics import lowering_key
from diffkern.lang.structs import Constant

__all__ = ["enum_value", "exact", "is_masked", "native", "overrides_items", "settled", "snapshot"]

_MAX_DEPTH: Final = 16
_OWN: Final = frozenset({bool, int, float, complex, str, bytes, type(None), type(...)})
_EXACT: Final[Mapping[type, Callable[[Any], Any]]] = {
    int: int.__int__,
    float: float.__float__,
    complex: complex.__pos__,
    str: str.__str__,
}


def exact(obj: Any) -> Any:
    """Return a number or text of a derived class as one of Python's or NumPy's own class; another object unchanged."""
    if type(obj) in _OWN or isinstance(obj, enum.Enum):
        return obj
    if isinstance(obj, np.generic):
        own = type(obj).__module__ == "numpy" or obj.dtype.kind not in "biufc"
        # From the bytes: conversions of a derived class may be its own code.
        return obj if own else np.frombuffer(np.generic.tobytes(obj), obj.dtype)[0]
    return next((own(obj) for kind, own in _EXACT.items() if isinstance(obj, kind)), obj)


def enum_value(member: enum.Enum) -> Any:
    """Return the value of a member, whatever its class defines under this name."""
    return exact(member._value_)


def overrides_items(obj: tuple[Any, ...]) -> bool:
    """Return whether the class of a tuple defines its items by code of its own."""
    cls = type(obj)
    return any(getattr(cls, name) is not getattr(tuple, name) for name in ("__iter__", "__getitem__", "__len__"))


def is_masked(array: np.ndarray[Any, Any]) -> bool:
    """Return whether some of the elements in an array's memory may be masked."""
    return isinstance(array, np.ma.MaskedArray)


def native(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the contents of an array's memory, in C order and in native byte order."""
    own = np.asarray(array)
    return np.asarray(own, own.dtype.newbyteorder("="), order="C")


def settled(obj: Any, depth: int = 0) -> Any:
    """Return the result of a static expression, detached from the objects that made it as far as it is data.

    A list is a tuple, an instance of a struct the values of its fields. Objects that are no data (functions, types,
    modules, and those that kernels refuse) are returned unchanged.
    """
    # A list may contain itself.
    if depth > _MAX_DEPTH:
        return obj
    if isinstance(obj, (tuple, list)):
        return tuple(settled(item, depth + 1) for item in obj)
    if isinstance(obj, CompositeValue):
        # Copies, as the user may change the original afterwards.
        return obj.copy()
    if isinstance(obj, np.ndarray):
        return obj if is_masked(obj) else native(obj).copy()
    definition = definition_of(type(obj))
    return exact(obj) if definition is None else _of_struct(definition.type, obj)


def _of_struct(struct: Struct, obj: Any) -> Any:
    """Return an instance by its values; one that holds arrays is returned unchanged."""
    if any(isinstance(t, (T.Array, StructArray)) for _, t in struct.fields):
        return obj
    values = []
    for name, t in struct.fields:
        value = getattr(obj, name)
        values.append(_of_struct(t, value) if isinstance(t, Struct) else settled(value))
    nested = [value for (_, t), value in zip(struct.fields, values, strict=True) if isinstance(t, Struct)]
    return Constant(struct, tuple(values)) if all(isinstance(value, Constant) for value in nested) else obj


def snapshot(obj: Any, depth: int = 0) -> Any:
    """Return a copy of data that consists of nothing but Python's, NumPy's and diffkern's own classes.

    Raises
    ------
    TypeError
        If it is something else, whose behaviour is code that may change, or may differ from process to process.
    """
    if depth > _MAX_DEPTH:
        raise TypeError("nested too deep")
    if type(obj) in _OWN or _is_leaf(obj) or (isinstance(obj, np.generic) and exact(obj) is obj):
        return obj
    if isinstance(obj, enum.Enum) and _is_plain_enum(type(obj)):
        snapshot(obj._value_, depth + 1)
        return obj
    if type(obj) in (list, tuple):
        return type(obj)(snapshot(item, depth + 1) for item in obj)
    if type(obj) is dict:
        return {snapshot(key, depth + 1): snapshot(value, depth + 1) for key, value in obj.items()}
    if isinstance(obj, CompositeValue) or (type(obj) is np.ndarray and obj.dtype.kind in "biuf"):
        return obj.copy()
    raise TypeError(f"{type(obj).__name__} is no plain data")


_SILENT: Final = frozenset(
    {"__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__firstlineno__"}
    | {"__static_attributes__", "__annotate_func__", "__annotations_cache__", "__repr__", "__str__", "__format__"}
)
"""Attributes that the class of members may define: they do not change the meaning of operators."""


def _is_plain_enum(cls: type) -> bool:
    """Return whether operators treat members of a class as they treat Python's own enums and their values."""
    own = [vars(base) for base in cls.__mro__ if base.__module__ not in ("enum", "builtins")]
    special = [(name, value) for space in own for name, value in space.items() if name[:2] == "__" == name[-2:]]
    of_python = all(name in _SILENT or getattr(value, "__module__", None) == "enum" for name, value in special)
    # Operators of flags make members by what the class says of unknown ones.
    return type(cls) is enum.EnumMeta and of_python and not issubclass(cls, enum.Flag)


def _is_leaf(obj: Any) -> bool:
    """Return whether kernels know an object by its identity: a func, a built-in function, a type of elements."""
    if isinstance(obj, Func) or definition_of(obj) is not None or lowering_key(obj) is not None:
        return True
    try:
        resolve_dtype(obj)
    except TypeError:
        return False
    return True
