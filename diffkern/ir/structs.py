"""Structs as types of arguments, and the IR parameters that replace them: one for each field.

This module maps the types of a kernel's arguments to the types of its IR parameters, the *leaves*. The IR itself knows
no structs: a struct passed by value is a parameter for each field, an array of structs is a strided array for each
field over the same memory. Spellings hold names and types of the fields in order and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from diffkern.ir import types as T
from diffkern.process.dataclass import dataclass

__all__ = [
    "Argument",
    "IndexedArray",
    "Leaf",
    "Stored",
    "Struct",
    "StructArray",
    "carries_gradient",
    "declared",
    "descriptor",
    "fields_in_memory",
    "flatten",
    "holds_arrays",
    "holds_memory",
    "is_null",
    "leaves",
    "null_of",
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


@dataclass(frozen=True, slots=True)
class IndexedArray:
    """An array seen through index arrays: its own layout, and for each axis that of the index array ("" if none)."""

    dtype: T.Element
    ndim: int
    layout: str
    indices: tuple[str, ...]

    def __str__(self) -> str:
        return f"indexedarray{self.ndim}d<{self.dtype},{self.layout},{'.'.join(self.indices)}>"


FieldType: TypeAlias = T.Scalar | T.Vec | T.Mat | T.Array | Struct | StructArray
Stored: TypeAlias = T.Scalar | T.Vec | T.Mat | Struct
Argument: TypeAlias = T.Scalar | T.Vec | T.Mat | T.Array | T.Stack | Struct | StructArray | IndexedArray


@dataclass(frozen=True, slots=True)
class Leaf:
    """An IR parameter.

    Attributes
    ----------
    argument
        The index of the argument that it is part of.
    path
        The fields that lead to it; empty for an argument that is no struct.
    name
        The argument's name and the path, with dots.
    """

    argument: int
    path: tuple[str, ...]
    name: str
    type: T.Type


def leaves(t: Argument) -> Iterator[tuple[tuple[str, ...], T.Type]]:
    """Yield the path and type of each IR parameter of an argument, in order."""
    if isinstance(t, Struct):
        for name, inner in t.fields:
            for path, leaf in leaves(inner):
                # A field of float16 arrives widened: it is passed by value, in a register.
                yield (name, *path), T.value_type(leaf) if isinstance(leaf, (T.Scalar, T.Vec, T.Mat)) else leaf
    elif isinstance(t, StructArray):
        for path, element in _elements(t.dtype):
            is_null = t.layout == T.NULL
            if isinstance(element, T.Array):
                # The outer axes hold descriptors; the axes of the arrays they describe follow.
                layout = T.NULL if is_null else f"{T.POINTING}{t.ndim}"
                yield path, T.Array(element.dtype, t.ndim + element.ndim, layout)
            else:
                # A field of a struct is strided even if the array is contiguous: the step is the size of the whole
                # struct.
                yield path, T.Array(element, t.ndim, "A" if not is_null else T.NULL)
    elif isinstance(t, IndexedArray):
        # The launch passes the array and its index arrays in this order.
        yield ("data",), T.Array(t.dtype, t.ndim, t.layout)
        for axis, layout in enumerate(t.indices):
            if layout:
                yield (f"indices{axis}",), T.Array(T.INT32, 1, layout)
    else:
        yield (), t


def _elements(struct: Struct) -> Iterator[tuple[tuple[str, ...], T.Element | T.Array]]:
    for name, t in struct.fields:
        if isinstance(t, Struct):
            for path, element in _elements(t):
                yield (name, *path), element
        elif isinstance(t, (T.Array, StructArray)):
            descriptor(struct, name, t)  # refuses what there is no descriptor of
            assert isinstance(t, T.Array)
            yield (name,), t
        else:
            yield (name,), t


def descriptor(struct: Struct, name: str, t: T.Array | StructArray) -> T.Vec:
    """Return the type of the descriptor that an element holds for an array field: address, extents in elements, strides
    in bytes.

    Raises
    ------
    TypeError
        If it is an array of structs, or of elements of 16 bits.
    """
    if isinstance(t, StructArray) or T.scalar_of(t.dtype) in T.STORAGE_ONLY:
        element = t.dtype.name if isinstance(t.dtype, Struct) else t.dtype
        raise TypeError(
            f"{struct.name} has the array field {name!r} of {element}, so it cannot be the element of an array; "
            "fields that are arrays of other numbers, vectors and matrices may be"
        )
    # One integer for the address, and an extent and a stride for each axis.
    return T.Vec(T.UINT64, 1 + 2 * t.ndim)


def flatten(names: Sequence[str], types: Sequence[Argument]) -> list[Leaf]:
    """Return the IR parameters of a kernel's arguments."""
    return [
        Leaf(k, path, ".".join((name, *path)), leaf)
        for k, (name, t) in enumerate(zip(names, types, strict=True))
        for path, leaf in leaves(t)
    ]


def fields_in_memory(names: Sequence[str], types: Sequence[Argument]) -> tuple[tuple[str, ...], ...]:
    """Return the names of the IR parameters that are the fields of one array of structs, for each with several."""
    found = (fields for name, t in zip(names, types, strict=True) for fields in _records(name, t))
    return tuple(fields for fields in found if len(fields) > 1)


def _records(name: str, t: FieldType | Argument) -> Iterator[tuple[str, ...]]:
    if isinstance(t, Struct):
        for field, inner in t.fields:
            yield from _records(f"{name}.{field}", inner)
    elif isinstance(t, StructArray):
        fields = ((path, leaf) for path, leaf in leaves(t) if isinstance(leaf, T.Array) and leaf.layout == "A")
        yield tuple(".".join((name, *path)) for path, _ in fields)


def declared(t: Argument) -> Argument:
    """Return the type without the part that the passed arrays determine: their layout."""
    if isinstance(t, Struct):
        return Struct(t.name, tuple((name, _declared_field(inner)) for name, inner in t.fields))
    if isinstance(t, StructArray):
        return StructArray(t.dtype, t.ndim)
    return T.Array(t.dtype, t.ndim) if isinstance(t, (T.Array, IndexedArray)) else t


def _declared_field(t: FieldType) -> FieldType:
    out = declared(t)
    assert not isinstance(out, (T.Stack, IndexedArray))
    return out


def null_of(t: T.Array | StructArray) -> T.Array | StructArray:
    """Return the type of None passed instead of an array."""
    return type(t)(t.dtype, t.ndim, T.NULL)  # type: ignore[arg-type]


def is_null(t: Argument) -> bool:
    """Return whether an argument is None passed instead of an array."""
    return isinstance(t, (T.Array, StructArray)) and t.layout == T.NULL


def holds_arrays(struct: Struct) -> bool:
    """Return whether a field is an array."""
    return any(
        isinstance(t, (T.Array, StructArray)) or (isinstance(t, Struct) and holds_arrays(t)) for _, t in struct.fields
    )


def holds_memory(struct: Struct) -> bool:
    """Return whether a field is an array that is not null."""
    return any(
        (isinstance(t, (T.Array, StructArray)) and not is_null(t)) or (isinstance(t, Struct) and holds_memory(t))
        for _, t in struct.fields
    )


def carries_gradient(t: Argument) -> bool:
    """Return whether some part of an argument of this type has a gradient."""
    return any(T.is_differentiable(leaf) for _, leaf in leaves(t))
