"""Structs as types of arguments, and what they become in the IR: one parameter for each field.

In: the types of a kernel's arguments. Out: the types of its IR parameters, the *leaves*. The IR itself knows no
structs: a struct passed by value is a parameter for each field, an array of structs is a strided array for each field
over the same memory. Spellings hold names and types of the fields in order and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from diffkern.ir import types as T

__all__ = [
    "Argument",
    "Leaf",
    "Stored",
    "Struct",
    "StructArray",
    "carries_gradient",
    "declared",
    "flatten",
    "holds_arrays",
    "leaves",
]


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct: its name and its fields in order.

    In the type of an argument, arrays among the fields have the layout of what was passed; in a declaration it is "C".
    """

    name: str
    fields: tuple[tuple[str, FieldType], ...]

    def __str__(self) -> str:
        inside = ", ".join(f"{name}: {t}" for name, t in self.fields)
        return f"struct {self.name}{{{inside}}}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(name for name, _ in self.fields)


@dataclass(frozen=True, slots=True)
class StructArray:
    """An array of structs along ``ndim`` axes."""

    dtype: Struct
    ndim: int
    layout: str = "C"

    def __str__(self) -> str:
        return f"array{self.ndim}d<{self.dtype},{self.layout}>"


FieldType: TypeAlias = T.Scalar | T.Vec | T.Mat | T.Array | Struct | StructArray
Stored: TypeAlias = T.Scalar | T.Vec | T.Mat | Struct
Argument: TypeAlias = T.Scalar | T.Vec | T.Mat | T.Array | T.Stack | Struct | StructArray


@dataclass(frozen=True, slots=True)
class Leaf:
    """An IR parameter.

    Attributes
    ----------
    argument
        The index of the argument it is part of.
    path
        The fields that lead to it; none for an argument that is no struct.
    name
        The argument's name and the path, with dots.
    """

    argument: int
    path: tuple[str, ...]
    name: str
    type: T.Type


def leaves(t: Argument) -> Iterator[tuple[tuple[str, ...], T.Type]]:
    """Paths and types of the IR parameters of an argument, in order."""
    if isinstance(t, Struct):
        for name, inner in t.fields:
            for path, leaf in leaves(inner):
                yield (name, *path), T.value_type(leaf) if isinstance(leaf, (T.Scalar, T.Vec, T.Mat)) else leaf
    elif isinstance(t, StructArray):
        for path, element in _elements(t.dtype):
            yield path, T.Array(element, t.ndim, "A")
    else:
        yield (), t


def _elements(struct: Struct) -> Iterator[tuple[tuple[str, ...], T.Element]]:
    for name, t in struct.fields:
        if isinstance(t, Struct):
            for path, element in _elements(t):
                yield (name, *path), element
        elif isinstance(t, (T.Array, StructArray)):
            raise TypeError(f"{struct.name} has the array field {name!r}, so it cannot be the element of an array")
        else:
            yield (name,), t


def flatten(names: Sequence[str], types: Sequence[Argument]) -> list[Leaf]:
    """The IR parameters of a kernel's arguments."""
    return [
        Leaf(k, path, ".".join((name, *path)), leaf)
        for k, (name, t) in enumerate(zip(names, types, strict=True))
        for path, leaf in leaves(t)
    ]


def declared(t: Argument) -> Argument:
    """The type without what the passed arrays add to it: their layout."""
    if isinstance(t, Struct):
        return Struct(t.name, tuple((name, _declared_field(inner)) for name, inner in t.fields))
    if isinstance(t, StructArray):
        return StructArray(t.dtype, t.ndim)
    return T.Array(t.dtype, t.ndim) if isinstance(t, T.Array) else t


def _declared_field(t: FieldType) -> FieldType:
    out = declared(t)
    assert not isinstance(out, T.Stack)
    return out


def holds_arrays(struct: Struct) -> bool:
    """Whether a field is an array, so that the struct cannot be the element of one."""
    return any(
        isinstance(t, (T.Array, StructArray)) or (isinstance(t, Struct) and holds_arrays(t)) for _, t in struct.fields
    )


def carries_gradient(t: Argument) -> bool:
    """Whether some part of an argument of this type has a gradient."""
    return any(T.is_differentiable(leaf) for _, leaf in leaves(t))
