"""numba's types and those of diffkern's IR.

numba and numba-cuda have types of their own under the same names: each function here is given the module in which they
are found, ``numba.types`` or ``numba.cuda.types``.

A vector is a tuple of 2 to 4 numbers of one type, a matrix a tuple of such tuples, its rows. An array of numbers is an
array; where a parameter is annotated as an array of vectors or matrices, its last axes hold the components.
"""

from __future__ import annotations

from typing import Any

from diffkern.errors import KernelTypeError
from diffkern.ir import types as T
from diffkern.ir.structs import Argument
from diffkern.lang import ArrayAnnotation

__all__ = ["argument", "value"]

Types = Any
"""The module ``numba.types`` or ``numba.cuda.types``."""


def argument(types: Types, given: Any, annotation: object, where: str) -> Argument | None:
    """Return the type of an argument in the IR; None for None.

    Parameters
    ----------
    types : module
        The module of numba's types.
    given : numba type
        The type of the argument.
    annotation : object
        The meaning of the parameter's annotation.
    where : str
        The argument, for messages.

    Raises
    ------
    KernelTypeError
        If diffkern has no such type.
    """
    # A literal's type is that of its value, which would be another program for each number.
    given = types.unliteral(given)
    if isinstance(given, types.NoneType):
        return None
    if isinstance(given, types.Array):
        return _array(types, given, annotation, where)
    element = _scalar(types, given) or _composite(types, given)
    if element is None:
        raise KernelTypeError(f"{where} is {given} in numba", remedy=_remedy(types, given))
    return element


def _scalar(types: Types, given: Any) -> T.Scalar | None:
    if isinstance(given, types.Boolean):
        return T.BOOL
    if isinstance(given, types.Integer):
        return T.SCALARS[f"{'' if given.signed else 'u'}int{given.bitwidth}"]
    if isinstance(given, types.Float) and given.bitwidth in (32, 64):
        return T.SCALARS[f"float{given.bitwidth}"]
    return None


def _composite(types: Types, given: Any) -> T.Vec | T.Mat | None:
    rows = _parts(types, given)
    # Larger or mixed tuples have no type in kernels.
    if not 2 <= len(rows) <= 4 or any(row != rows[0] for row in rows):
        return None
    scalar = _scalar(types, rows[0])
    if scalar is not None:
        return T.Vec(scalar, len(rows))
    row = _composite(types, rows[0])
    return T.Mat(row.dtype, len(rows), row.length) if isinstance(row, T.Vec) else None


def _parts(types: Types, given: Any) -> tuple[Any, ...]:
    return tuple(given.types) if isinstance(given, types.BaseTuple) else ()


def _array(types: Types, given: Any, annotation: object, where: str) -> T.Array:
    scalar = _stored(types, given.dtype)
    if scalar is None:
        raise KernelTypeError(f"{where} is {given} in numba", remedy="pass an array of numbers")
    element = annotation.element if isinstance(annotation, ArrayAnnotation) else None
    if not isinstance(element, (T.Vec, T.Mat)):
        return T.Array(scalar, given.ndim, "C" if given.layout == "C" else "A")
    axes = len(element.shape)
    if given.ndim <= axes or element.dtype != scalar or given.layout != "C":
        raise KernelTypeError(
            f"{where} is an array of {element}, and {given} in numba",
            remedy=f"pass a C-contiguous array of {element.dtype} with {axes} more "
            f"{'axis' if axes == 1 else 'axes'}, of extents {', '.join(map(str, element.shape))}",
        )
    # Strides are passed at run time: the last axes, of the components, are checked there to be what they should.
    return T.Array(element, given.ndim - axes, "A")


def _stored(types: Types, given: Any) -> T.Scalar | None:
    """Return the type of an array's elements, which may be float16."""
    if isinstance(given, types.Float) and given.bitwidth == 16:
        return T.FLOAT16
    return _scalar(types, given)


def _remedy(types: Types, given: Any) -> str:
    if isinstance(given, types.Float):
        return "convert it to float32"
    if isinstance(given, types.BaseTuple):
        return "pass 2 to 4 numbers of one type for a vector, and a tuple of rows for a matrix"
    return "pass a number, a tuple of numbers or an array of numbers"


def value(types: Types, t: T.Type) -> Any:
    """Return numba's type of a value by its type in the IR."""
    if isinstance(t, T.Vec):
        return types.UniTuple(value(types, t.dtype), t.length)
    if isinstance(t, T.Mat):
        return types.UniTuple(value(types, T.Vec(t.dtype, t.cols)), t.rows)
    assert isinstance(t, T.Scalar)
    return types.boolean if t == T.BOOL else getattr(types, t.name)
