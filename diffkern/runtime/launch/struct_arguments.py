"""Structs as arguments of a launch: the bytes of their fields, the arrays among them, and the key of their type.

The fields of a struct are leaves: numbers, vectors, matrices and arrays. How to pack them is determined once for each
struct; the key depends on the arrays alone, and is cached by their keys.
"""

from __future__ import annotations

import functools
import struct as numbers
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from diffkern.ir.structs import FieldType, Leaf, Struct, StructArray, flatten, null_of
from diffkern.ir.types import BOOL, Array, Element, Mat, Scalar, Vec, value_type
from diffkern.lang.dtypes import composite_type
from diffkern.lang.values import CompositeValue, InC
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.type_keys import is_long, key_of_long, register_type, type_of_key
from diffkern.runtime.launch.value_bytes import pack_value, packer

__all__ = ["SeveralDevicesError", "StructPacking", "leaves_of", "null_bytes", "null_leaf", "packing_of"]

_MOST_KEYS: Final = 256
_PLAIN: Final = frozenset({int, float})


class SeveralDevicesError(ValueError):
    """The arrays of a struct lie on several devices, whose names are the message."""


class _Field(NamedTuple):
    """A field of a struct.

    Attributes
    ----------
    name
        Its name.
    inner
        The packing of its fields, if it is a struct.
    null
        Its leaves where it is None, if it is an array.
    type
        The type of the number, vector or matrix that is passed for it.
    pack
        The function that packs a plain number.
    padding
        What follows the bytes of a vector or matrix.
    """

    name: str
    inner: StructPacking | None = None
    null: tuple[bytes, ...] = ()
    type: Element | None = None
    pack: Callable[[Any], bytes] | None = None
    padding: bytes = b""


class StructPacking:
    """The packing of instances of a struct, and the keys of their types by those of the arrays in them."""

    def __init__(self, t: Struct) -> None:
        self.type: Final = t
        self.fields: Final = tuple(_field(name, of) for name, of in t.fields)
        self.keys: dict[tuple[str, ...], str] = {}

    def packed(self, value: Any) -> tuple[str, list[bytes], list[array | None]]:
        """Return the key of the type of an instance, and the bytes and arrays of its leaves.

        Raises
        ------
        SeveralDevicesError
            If its arrays are not on one device.
        TypeError, OverflowError
            If a field has no value of its type.
        """
        parts: list[bytes] = []
        held: list[array | None] = []
        keys: list[str] = []
        self.take(value, parts, held, keys)
        of = tuple(keys)
        key = self.keys.get(of)
        # Numbers do not matter for the type: the keys of the arrays determine the key of the struct.
        if key is None:
            key = _key(value, self.type, held)
            if len(self.keys) >= _MOST_KEYS:
                self.keys.clear()
            self.keys[of] = key
        return key, parts, held

    def take(self, value: Any, parts: list[bytes], held: list[array | None], keys: list[str]) -> None:
        """Append the bytes and arrays of the fields, and the keys of the arrays."""
        # The dictionary of the instance: its fields were converted when they were assigned, and no descriptor is in the
        # way.
        given = vars(value)
        for name, inner, null, t, pack, padding in self.fields:
            item = given[name]
            if pack is not None and type(item) in _PLAIN:
                try:
                    parts.append(pack(item))
                except (numbers.error, OverflowError):
                    parts.append(pack_value(t, item))  # type: ignore[arg-type]  # which says what is wrong
                held.append(None)
            elif t is not None:
                # The type that a field takes is the very one of the class of its values.
                if isinstance(item, InC) and item.ir is t:
                    parts.append(bytes(item) + padding)  # in the order of C
                else:
                    is_given = isinstance(item, CompositeValue) and item.ir is t
                    parts.append(item.tobytes() + padding if is_given else pack_value(t, item))
                held.append(None)
            elif inner is not None:
                inner.take(item, parts, held, keys)
            elif type(item) is array:
                keys.append(item._key)
                parts.append(item._packed)
                held.append(item)
            elif item is None:
                keys.append("")
                parts += null
                held += [None] * len(null)
            else:
                arrays = item._leaves()
                keys.append(item._key)
                parts += [part._packed for part in arrays]
                held += arrays


def _field(name: str, t: FieldType) -> _Field:
    if isinstance(t, Struct):
        return _Field(name, inner=packing_of(t))
    if isinstance(t, (Array, StructArray)):
        leaves = leaves_of(("",), (register_type(null_of(t)),))
        return _Field(name, null=tuple(map(null_leaf, leaves)))
    passed = value_type(t)
    if isinstance(passed, (Vec, Mat)):
        passed = composite_type(passed).ir
        return _Field(name, type=passed, padding=bytes(-passed.itemsize % 8))
    plain = isinstance(passed, Scalar) and passed != BOOL
    return _Field(name, type=passed, pack=packer(passed) if plain else None)


@functools.cache
def packing_of(t: Struct) -> StructPacking:
    """Return the packing of instances of a struct."""
    return StructPacking(t)


def _key(value: Any, t: Struct, held: list[array | None]) -> str:
    key = register_type(_typed(value, t))
    if any(a is not None and is_long(a._key) for a in held):
        key = key_of_long(key)
    places = {a._memory.device for a in held if a is not None}
    if len(places) > 1:
        raise SeveralDevicesError(", ".join(sorted(map(str, places))))
    return places.pop().keyed(key) if places else key


def _typed(value: Any, t: Struct) -> Struct:
    """Return the type of a struct with the layouts of the arrays among its fields."""
    fields: list[tuple[str, FieldType]] = []
    for name, of in t.fields:
        item = vars(value)[name]
        if isinstance(of, Struct):
            fields.append((name, _typed(item, of)))
        elif item is None and isinstance(of, (Array, StructArray)):
            fields.append((name, null_of(of)))
        else:
            fields.append((name, item._type if isinstance(item, array) else of))
    return Struct(t.name, tuple(fields))


@functools.cache
def leaves_of(names: tuple[str, ...], keys: tuple[str, ...]) -> tuple[Leaf, ...]:
    """Return the IR parameters of arguments with these type keys."""
    return tuple(flatten(names, [type_of_key(key) for key in keys]))


def null_bytes(ndim: int) -> bytes:
    """Return the bytes in the argument block of an array without memory."""
    return bytes(8 * (1 + 2 * ndim))


def null_leaf(leaf: Leaf) -> bytes:
    """Return the bytes in the argument block of a leaf of None in place of an array."""
    assert isinstance(leaf.type, Array)
    return null_bytes(leaf.type.ndim)
