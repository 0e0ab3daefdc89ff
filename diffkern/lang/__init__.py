"""What may be written in a kernel: dtypes, annotations, built-in functions, ``@dk.func``.

A leaf package: both the compiler and the run time import it, and it knows neither.
"""

from __future__ import annotations

from diffkern.lang.annotations import (
    ANY,
    ArrayAnnotation,
    array1d,
    array2d,
    array3d,
    array4d,
    array_annotation,
)
from diffkern.lang.dtypes import (
    COMPOSITES,
    SCALARS,
    CompositeType,
    CompositeValue,
    DType,
    element_of_value,
    resolve_dtype,
)
from diffkern.lang.func import Func, constant, func
from diffkern.lang.intrinsics import INTRINSICS, Intrinsic, lowering_key

__all__ = [
    "ANY",
    "COMPOSITES",
    "INTRINSICS",
    "SCALARS",
    "ArrayAnnotation",
    "CompositeType",
    "CompositeValue",
    "DType",
    "Func",
    "Intrinsic",
    "array1d",
    "array2d",
    "array3d",
    "array4d",
    "array_annotation",
    "constant",
    "element_of_value",
    "func",
    "lowering_key",
    "public_names",
    "resolve_dtype",
]


def public_names() -> dict[str, object]:
    """Everything of the kernel language that ``diffkern`` exports, by public name."""
    names: dict[str, object] = {("bool_" if n == "bool" else n): dtype for n, dtype in SCALARS.items()}
    names.update(COMPOSITES)
    names.update(INTRINSICS)
    names.update(
        ANY=ANY, array1d=array1d, array2d=array2d, array3d=array3d, array4d=array4d, constant=constant, func=func
    )
    return names
