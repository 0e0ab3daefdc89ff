"""Types over the scalar type of a call, for parameters of library functions and the values that their bodies construct.

The table is :data:`GENERICS`. In one call of a library function all floats have one scalar type; there ``vec3`` is the
vector of three numbers of that type, as an annotation and as a constructor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from diffkern.ir.types import (
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT32,
    Element,
    Mat,
    Role,
    Scalar,
    Vec,
    complex_number,
    is_complex,
    quaternion,
    scalar_of,
    transform,
    with_scalar,
)
from diffkern.process.dataclass import dataclass

__all__ = ["CASTS", "CHOICES", "DTYPE", "GENERICS", "Cast", "Generic", "OneOf"]


_OF_LITERALS: Final = ("int", "float")
"""The types of numbers that are computed from literals alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Generic:
    """A type over the scalar type of a call.

    Attributes
    ----------
    name
        Its spelling in library functions and their documentation.
    accepts
        Whether an argument of a type fits; numbers that become floats are passed as floats.
    make
        The type over a scalar type; None where a name stands for several.
    """

    name: str
    accepts: Callable[[Element], bool]
    make: Callable[[Scalar], Element] | None = None

    @property
    def is_number(self) -> bool:
        """True if it is a number rather than a vector or matrix."""
        return self.accepts(FLOAT32)

    def over(self, scalar: Scalar) -> Element:
        """Return the type over a scalar type; literals alone give a vector or matrix of the default width."""
        # As for a vector of any length, of which no value can be made.
        assert self.make is not None, f"{self.name} stands for several types"
        made = self.make(scalar)
        # Numbers stay literals, which adapt to what they meet; a vector has to decide on a scalar type.
        weak = scalar.name in _OF_LITERALS and not (self.is_number or is_complex(made))
        return self.make(FLOAT32) if weak else made

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Cast:
    """A parameter that takes any number and converts it, as a cast does; no float to an integer.

    Attributes
    ----------
    to
        The type that it has in the body.
    """

    to: Scalar


@dataclass(frozen=True, slots=True, eq=False)
class OneOf:
    """A parameter that names one of several types.

    Attributes
    ----------
    types
        The types, by their spelling in the reference.
    """

    types: Mapping[str, Element]


_VOXEL_NUMBERS: Final[Mapping[str, Element]] = {
    "float": FLOAT32, "float64": FLOAT64, "vec3f": Vec(FLOAT32, 3), "vec3d": Vec(FLOAT64, 3), "vec4f": Vec(FLOAT32, 4),
    "vec4d": Vec(FLOAT64, 4),
}  # fmt: skip

CHOICES: Final[Mapping[str, OneOf]] = {
    "Texel": OneOf({"float": FLOAT32, "vec2f": Vec(FLOAT32, 2), "vec4f": Vec(FLOAT32, 4)}),
    "Voxel": OneOf({**_VOXEL_NUMBERS, "int32": INT32, "uint32": UINT32, "int64": INT64}),
    "VoxelNumber": OneOf(_VOXEL_NUMBERS),
}
"""By name."""

CASTS: Final[Mapping[str, Cast]] = {"Float32": Cast(FLOAT32), "Int32": Cast(INT32), "Uint32": Cast(UINT32)}
"""By name."""


def _is_float(t: Element) -> bool:
    return scalar_of(t).is_float


def _fixed(name: str, make: Callable[[Scalar], Element]) -> Generic:
    # Compared over one scalar type, so that it fits whatever the scalar type of the call is.
    return Generic(name, lambda t: _is_float(t) and with_scalar(t, FLOAT32) == make(FLOAT32), make)


def _vec(n: int) -> Generic:
    return _fixed(f"vec{n}", lambda s: Vec(s, n))


def _mat(n: int) -> Generic:
    return _fixed(f"mat{n}{n}", lambda s: Mat(s, n, n))


DTYPE: Final = Generic("Dtype", lambda t: False)
"""A parameter that is a type of floats and decides over which scalar type the call is."""

GENERICS: Final[Mapping[str, Generic]] = {
    generic.name: generic
    for generic in (
        Generic("Float", lambda t: isinstance(t, Scalar) and t.is_float, lambda s: s),
        DTYPE,
        Generic("vector", lambda t: isinstance(t, Vec) and t.role is Role.VECTOR and _is_float(t)),
        Generic("square", lambda t: isinstance(t, Mat) and t.rows == t.cols and _is_float(t)),
        _fixed("Complex", complex_number),
        _fixed("quat", quaternion),
        _fixed("transform", transform),
        _fixed("spatial_vector", lambda s: Vec(s, 6)),
        _fixed("spatial_matrix", lambda s: Mat(s, 6, 6)),
        *map(_vec, (2, 3, 4)),
        *map(_mat, (2, 3, 4)),
    )
}
"""By name."""
