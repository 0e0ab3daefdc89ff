"""The types of ``numba.cuda`` by all their names: ``cuda.float32``, ``cuda.f8``, ``cuda.float32x3``.

Each is one of diffkern's: it names the elements of arrays, and converts or constructs where a kernel calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from diffkern.lang.dtypes import COMPOSITES, SCALARS, CompositeType, DType

__all__ = ["TYPES"]

_NAMES: Final = {
    "bool": "bool_ boolean b1",
    "int8": "char i1",
    "uint8": "byte uchar u1",
    "int16": "short i2",
    "uint16": "ushort u2",
    "int32": "intc i4",
    "uint32": "uintc u4",
    "int64": "int_ intp long_ longlong ssize_t i8",
    "uint64": "uint uintp ulong ulonglong size_t u8",
    "bfloat16": "",
    "float32": "f4",
    "float64": "double f8",
}
_VECTORS: Final = {
    "float32": ("f", "float"),
    "float64": ("d", "double"),
    "int32": ("i", "int"),
    "uint32": ("u", "uint"),
    "int64": ("l", "long", "longlong"),
}
"""The letter in diffkern's name of a vector, and the C types that Numba has as well: ``float32x3`` is ``float3``."""


def _types() -> Mapping[str, DType | CompositeType]:
    made: dict[str, DType | CompositeType] = {}
    for name, others in _NAMES.items():
        made.update(dict.fromkeys((name, *others.split()), SCALARS[name]))
    for name, (letter, *c_types) in _VECTORS.items():
        for width in (2, 3, 4):
            spellings = (f"{name}x{width}", *(f"{c_type}{width}" for c_type in c_types))
            made.update(dict.fromkeys(spellings, COMPOSITES[f"vec{width}{letter}"]))
    return made


TYPES: Final = _types()
"""The types by name."""

globals().update(TYPES)
