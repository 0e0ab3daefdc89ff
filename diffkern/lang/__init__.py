"""The kernel language: dtypes, annotations, ``@dk.func``, and in :mod:`.intrinsics` the built-in functions.

A leaf package: both the compiler and the run time import it, and it imports neither.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

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
    DType,
    composite_type,
    element_of_value,
    resolve_dtype,
)
from diffkern.lang.func import Func, constant, func
from diffkern.lang.structs import Constant, Definition, definition_of, resolve_type
from diffkern.lang.values import CompositeValue

__all__ = [
    "ANY",
    "COMPOSITES",
    "SCALARS",
    "ArrayAnnotation",
    "CompositeType",
    "CompositeValue",
    "Constant",
    "DType",
    "Definition",
    "Func",
    "array1d",
    "array2d",
    "array3d",
    "array4d",
    "array_annotation",
    "composite_type",
    "constant",
    "definition_of",
    "element_of_value",
    "func",
    "public_names",
    "resolve_dtype",
    "resolve_type",
]


_CONSTANTS: Final[Mapping[str, float]] = {
    name: value
    for names, value in (
        (("E", "e"), math.e),
        (("INF", "inf"), math.inf),
        (("NAN", "nan"), math.nan),
        (("PI", "pi"), math.pi),
        (("HALF_PI", "half_pi"), math.pi / 2.0),
        (("TAU", "tau"), math.tau),
        (("PHI", "phi"), (1.0 + math.sqrt(5.0)) / 2.0),
        (("LOG2E", "log2e"), math.log2(math.e)),
        (("LOG10E", "log10e"), math.log10(math.e)),
        (("LN2", "ln2"), math.log(2.0)),
        (("LN10", "ln10"), math.log(10.0)),
    )
    for name in names
}


def public_names() -> dict[str, object]:
    """Return the names of the kernel language that ``diffkern`` exports, besides built-in functions and
    :data:`COMPOSITES`.
    """
    names: dict[str, object] = {**SCALARS, "bool_": SCALARS["bool"]}
    names.update(_CONSTANTS)
    names.update(
        ANY=ANY, array1d=array1d, array2d=array2d, array3d=array3d, array4d=array4d, constant=constant, func=func
    )
    return names
