"""Struct classes as kernels see them: names, types and defaults of the fields.

In: a class decorated with ``@dk.struct``. Out: its :class:`Definition`, which both the compiler and the run time read.
The decorator itself and what instances do on the host stand in ``diffkern.runtime.structs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from diffkern.ir import types as T
from diffkern.ir.structs import FieldType, Stored, Struct, StructArray
from diffkern.lang.dtypes import resolve_dtype

__all__ = [
    "DEFINITION",
    "Constant",
    "Definition",
    "array_field",
    "class_of",
    "definition_of",
    "register",
    "resolve_type",
]

DEFINITION: Final = "__diffkern_struct__"


@dataclass(frozen=True, eq=False)
class Constant:
    """A struct as the default of a field: the values of its fields in order, numbers, vectors or such structs."""

    type: Struct
    values: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Definition:
    """What ``@dk.struct`` found in a class.

    Attributes
    ----------
    type
        Name and fields.
    defaults
        Values of the fields that have one, converted: numbers, vectors, :class:`Constant`.
    """

    type: Struct
    defaults: Mapping[str, Any]


# The class that stands for a struct type on the host: of several that are equal, the one defined last.
_CLASSES: dict[Struct, type] = {}


def register(cls: type, definition: Definition) -> None:
    """Make a class known as a struct."""
    setattr(cls, DEFINITION, definition)
    _CLASSES[definition.type] = cls


def definition_of(obj: Any) -> Definition | None:
    """The definition of a struct class, or None for anything else."""
    if not isinstance(obj, type):
        return None
    found = vars(obj).get(DEFINITION)
    return found if isinstance(found, Definition) else None


def class_of(struct: Struct) -> type:
    """The class whose instances are elements of this type."""
    return _CLASSES[struct]


def resolve_type(obj: Any) -> Stored:
    """The type of an element: a struct, or what :func:`~diffkern.lang.dtypes.resolve_dtype` takes.

    Raises
    ------
    TypeError
        If it is neither.
    """
    if isinstance(obj, Struct):
        return obj
    definition = definition_of(obj)
    return resolve_dtype(obj) if definition is None else definition.type


def array_field(dtype: T.Element | Struct, ndim: int) -> FieldType:
    """The type of an array among the fields."""
    return StructArray(dtype, ndim) if isinstance(dtype, Struct) else T.Array(dtype, ndim)
