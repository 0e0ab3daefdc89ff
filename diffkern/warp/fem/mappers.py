"""``wp.fem.SymmetricTensorMapper`` and ``SkewSymmetricTensorMapper``: matrices as the vectors of their free components.

The maps keep lengths, if that of a matrix T is sqrt(T : T / 2). They are functions for kernels, which integrands and
kernels of other packages call as ``fem.SymmetricTensorMapper.value_to_dof_3d(T)``.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from diffkern import warp as wp
from diffkern.errors import MisuseError

__all__ = ["SkewSymmetricTensorMapper", "SymmetricTensorMapper"]

# Factors that make the maps isometries: each basis matrix B has B : B / 2 = 1.
_ROOT_2: Final = math.sqrt(2.0)
_ROOT_3: Final = math.sqrt(3.0)


@wp.func
def _mean(val: Any, i: int, j: int) -> Any:
    """The component of the symmetric part of a matrix."""
    return (val[i, j] + val[j, i]) * val.dtype(0.5)


@wp.func
def _turn(val: Any, i: int, j: int) -> Any:
    """The component of the antisymmetric part of a matrix."""
    return (val[i, j] - val[j, i]) * val.dtype(0.5)


@wp.func
def symmetric_2d(dof: Any) -> Any:
    """The matrix of its half trace, half the difference of its diagonal, and the component beside it."""
    p, q, r = dof[0], dof[1], dof[2]
    return wp.matrix_from_rows(wp.vector(p + q, r), wp.vector(r, p - q))


@wp.func
def of_symmetric_2d(val: Any) -> Any:
    """The inverse of :func:`symmetric_2d`."""
    half = val.dtype(0.5)
    return wp.vector(half * (val[0, 0] + val[1, 1]), half * (val[0, 0] - val[1, 1]), _mean(val, 0, 1))


@wp.func
def symmetric_2d_voigt(dof: Any) -> Any:
    """The matrix of its diagonal and the component beside it."""
    root, r = dof.dtype(_ROOT_2), dof[2]
    return wp.matrix_from_rows(wp.vector(root * dof[0], r), wp.vector(r, root * dof[1]))


@wp.func
def of_symmetric_2d_voigt(val: Any) -> Any:
    """The inverse of :func:`symmetric_2d_voigt`."""
    root = val.dtype(1.0 / _ROOT_2)
    return wp.vector(root * val[0, 0], root * val[1, 1], _mean(val, 0, 1))


@wp.func
def _with_diagonal(x: Any, y: Any, z: Any, dof: Any) -> Any:
    """A symmetric matrix whose components (1, 2), (0, 2) and (0, 1) are the last three of a vector."""
    yz, xz, xy = dof[3], dof[4], dof[5]
    return wp.matrix_from_rows(wp.vector(x, xy, xz), wp.vector(xy, y, yz), wp.vector(xz, yz, z))


@wp.func
def symmetric_3d(dof: Any) -> Any:
    """The matrix of its trace, two numbers of the rest of its diagonal, and the three components beside it."""
    mean, axial = dof[0] * dof.dtype(_ROOT_2 / _ROOT_3), dof[2] * dof.dtype(1.0 / _ROOT_3)
    return _with_diagonal(mean + dof[1] - axial, mean - dof[1] - axial, mean + axial + axial, dof)


@wp.func
def of_symmetric_3d(val: Any) -> Any:
    """The inverse of :func:`symmetric_3d`."""
    x, y, z = val[0, 0], val[1, 1], val[2, 2]
    return wp.vector(
        (x + y + z) * val.dtype(1.0 / (_ROOT_2 * _ROOT_3)),
        (x - y) * val.dtype(0.5),
        (z + z - x - y) * val.dtype(0.5 / _ROOT_3),
        _mean(val, 1, 2),
        _mean(val, 0, 2),
        _mean(val, 0, 1),
    )


@wp.func
def symmetric_3d_voigt(dof: Any) -> Any:
    """The matrix of its diagonal and the three components beside it."""
    root = dof.dtype(_ROOT_2)
    return _with_diagonal(root * dof[0], root * dof[1], root * dof[2], dof)


@wp.func
def of_symmetric_3d_voigt(val: Any) -> Any:
    """The inverse of :func:`symmetric_3d_voigt`."""
    root = val.dtype(1.0 / _ROOT_2)
    x, y, z = root * val[0, 0], root * val[1, 1], root * val[2, 2]
    return wp.vector(x, y, z, _mean(val, 1, 2), _mean(val, 0, 2), _mean(val, 0, 1))


@wp.func
def skew_2d(dof: Any) -> Any:
    """The matrix of a rate of turning in the plane."""
    zero = dof - dof
    return wp.matrix_from_rows(wp.vector(zero, -dof), wp.vector(dof, zero))


@wp.func
def of_skew_2d(val: Any) -> Any:
    """The inverse of :func:`skew_2d`."""
    return _turn(val, 1, 0)


@wp.func
def skew_3d(dof: Any) -> Any:
    """The matrix of the cross product with a vector."""
    return wp.skew(dof)


@wp.func
def of_skew_3d(val: Any) -> Any:
    """The inverse of :func:`skew_3d`."""
    return wp.vector(_turn(val, 2, 1), _turn(val, 0, 2), _turn(val, 1, 0))


# The funcs are attributes of the classes, because integrands name them there, and are chosen by name for an instance.
class _Mapper:
    """A map between values and degrees of freedom.

    Attributes
    ----------
    value_dtype, dof_dtype : type
        The types of both.
    DOF_SIZE : int
        The number of degrees of freedom.
    dof_to_value, value_to_dof : func
        The map and its inverse.
    """

    _SIZES: ClassVar[Mapping[int, int]]
    dof_to_value: Any
    value_to_dof: Any

    def __init__(self, dtype: Any, suffix: str = "") -> None:
        shape: tuple[int, ...] = getattr(dtype, "_shape_", ())
        # Only square matrices have symmetric ones among them.
        n = shape[0] if len(shape) == 2 else 0
        if n not in self._SIZES or shape != (n, n):
            raise MisuseError(
                f"{type(self).__name__} maps matrices of 2 x 2 and 3 x 3, not {dtype}",
                remedy="pass wp.mat22 or wp.mat33",
            )
        scalar = dtype._wp_scalar_type_
        self.value_dtype, self.DOF_SIZE = dtype, self._SIZES[n]
        # A single degree of freedom is a scalar, as Warp has no vectors of length 1 here.
        self.dof_dtype = wp.types.vector(self.DOF_SIZE, scalar) if self.DOF_SIZE > 1 else scalar
        self.dof_to_value = getattr(type(self), f"dof_to_value_{n}d{suffix}")
        self.value_to_dof = getattr(type(self), f"value_to_dof_{n}d{suffix}")


class SymmetricTensorMapper(_Mapper):
    """Symmetric matrices as vectors of 3 or 6 numbers.

    Parameters
    ----------
    dtype : type
        The type of the matrices.
    mapping : Mapping, optional
        The order of the numbers.
    """

    class Mapping(enum.Enum):
        """The order of the numbers: the diagonal first, or the trace and what is left of the diagonal."""

        VOIGT = 0
        DB16 = 1

    _SIZES: ClassVar = {2: 3, 3: 6}
    dof_to_value_2d, value_to_dof_2d = symmetric_2d, of_symmetric_2d
    dof_to_value_3d, value_to_dof_3d = symmetric_3d, of_symmetric_3d
    dof_to_value_2d_voigt, value_to_dof_2d_voigt = symmetric_2d_voigt, of_symmetric_2d_voigt
    dof_to_value_3d_voigt, value_to_dof_3d_voigt = symmetric_3d_voigt, of_symmetric_3d_voigt

    def __init__(self, dtype: Any, mapping: Mapping = Mapping.VOIGT) -> None:
        super().__init__(dtype, "_voigt" if mapping is self.Mapping.VOIGT else "")
        self.mapping = mapping

    def __str__(self) -> str:
        return f"{self.mapping}_{self.DOF_SIZE}"


class SkewSymmetricTensorMapper(_Mapper):
    """Antisymmetric matrices as a number or a vector of 3.

    Parameters
    ----------
    dtype : type
        The type of the matrices.
    """

    _SIZES: ClassVar = {2: 1, 3: 3}
    dof_to_value_2d, value_to_dof_2d = skew_2d, of_skew_2d
    dof_to_value_3d, value_to_dof_3d = skew_3d, of_skew_3d

    def __str__(self) -> str:
        return f"{type(self).__name__}_{self.DOF_SIZE}"
