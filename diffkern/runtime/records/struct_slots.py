"""Packers of struct parameters for the argument block of a prepared launch, field by field.

From the type of a struct and the places of its leaves a writer is made. It takes an instance of the same struct with
the same arrays as before, and refuses every other, which has to be bound in full. An instance checks its fields when
they are assigned, so that a writer only packs them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from diffkern.ir.structs import FieldType, Struct, StructArray, declared
from diffkern.ir.types import STORAGE_ONLY, Array, Mat, Scalar, Vec, scalar_of, value_type
from diffkern.lang.structs import class_of
from diffkern.runtime.launch.value_bytes import FORMATS
from diffkern.runtime.native.setter import Slot

__all__ = ["StructWriter", "struct_writer"]


class StructWriter:
    """Writes one struct parameter.

    Parameters
    ----------
    kind : type
        The class of the struct.
    names : tuple of tuple of str
        The paths of its fields, in the order of the leaves.
    slots : sequence of Slot
        Their places in the block.
    """

    __slots__ = ("_arrays", "_end", "_kind", "_numbers", "_vectors", "slots", "start")

    def __init__(self, kind: type, names: Sequence[tuple[str, ...]], slots: Sequence[Slot]) -> None:
        self._kind = kind
        self.slots = tuple(slots)
        # From the first of them to the end of the last: the part of the block that :meth:`packed` returns.
        self.start = start = min((slot.offset for slot in slots), default=0)
        self._end = max((slot.offset + slot.size for slot in slots), default=0)
        fields = [(path[:-1], path[-1], slot) for path, slot in zip(names, slots, strict=True)]
        self._arrays = [(path, name, s.leaf) for path, name, s in fields if s.is_array]
        self._numbers = [
            (path, name, struct.Struct("=" + FORMATS[s.key]).pack_into, s.offset - start)
            for path, name, s in fields
            if not s.is_array and s.key
        ]
        self._vectors = [(path, name, s.offset - start) for path, name, s in fields if not s.is_array and not s.key]

    def packed(self, value: Any, block: bytearray, arrays: Sequence[Any]) -> bytes | None:
        """Return what an instance makes of its place in the block; None if its arrays are different ones."""
        if type(value) is not self._kind:
            return None
        for path, name, leaf in self._arrays:
            if _owner(value, path)[name] is not arrays[leaf]:
                return None
        made = block[self.start : self._end]
        for path, name, pack_into, offset in self._numbers:
            pack_into(made, offset, _owner(value, path)[name])
        for path, name, offset in self._vectors:
            data = _owner(value, path)[name].tobytes()
            made[offset : offset + len(data)] = data
        return bytes(made)


def struct_writer(t: Struct, slots: Sequence[Slot]) -> StructWriter | None:
    """Return the writer of a parameter, or None where its fields take more than copying.

    Parameters
    ----------
    t : Struct
        Its type.
    slots : sequence of Slot
        The places of its leaves. Their keys are ignored.
    """
    names: list[tuple[str, ...]] = []
    known: list[Slot] = []
    for slot, (path, field) in zip(slots, _fields(t, ()), strict=True):
        if isinstance(field, StructArray):
            return None  # several leaves of one field
        if isinstance(field, (Vec, Mat)) and scalar_of(field) in STORAGE_ONLY:
            return None  # passed in another type than held
        names.append(path)
        # None in the place of an array is compared like one.
        is_array = slot.is_array or isinstance(field, Array)
        known.append(slot._replace(key=str(value_type(field)) if isinstance(field, Scalar) else "", is_array=is_array))
    plain = declared(t)
    assert isinstance(plain, Struct)
    return StructWriter(class_of(plain), names, known)


def _fields(t: Struct, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], FieldType]]:
    for name, field in t.fields:
        if isinstance(field, Struct):
            yield from _fields(field, (*path, name))
        else:
            yield (*path, name), field


def _owner(value: Any, path: tuple[str, ...]) -> dict[str, Any]:
    fields: dict[str, Any] = vars(value)
    for name in path:
        fields = vars(fields[name])
    return fields
