"""The operands of a linear solver and their checks."""

from __future__ import annotations

import math
from typing import Any

from diffkern.errors import MisuseError, described
from diffkern.ir.types import is_complex, scalar_of
from diffkern.lang.dtypes import SCALARS
from diffkern.optim.linear.operators import LinearOperator, aslinearoperator, has_floats
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.convert import component_shape

__all__ = ["Operands", "operands"]


@dataclass(frozen=True)
class Operands:
    """A system of equations: matrix, right-hand side, unknown, and preconditioner."""

    A: LinearOperator
    b: array
    x: array
    M: LinearOperator | None

    @property
    def scalar(self) -> Any:
        """The type of the components."""
        return scalar_of(self.b._element)  # type: ignore[arg-type]


def operands(A: Any, b: Any, x: Any, M: Any) -> Operands:
    """Return what a solver was given, as operators and contiguous arrays.

    Raises
    ------
    MisuseError
        If something is no matrix, or no array of floats.
    ValueError
        If they do not fit together.
    """
    for name, held in (("b", b), ("x", x)):
        if not isinstance(held, array) or not has_floats(held):
            raise MisuseError(
                f"{name} of a linear solver is an array of floats, not {described(held)}",
                remedy="make it with dk.array",
            )
        if is_complex(held._element):
            raise MisuseError(f"{name} of a linear solver is {described(held)}", remedy="write it as two real unknowns")
    operator = aslinearoperator(A)
    if len({*operator.shape}) != 1:
        raise ValueError(f"a linear solver takes a square matrix, not one of shape {operator.shape}")
    if b.shape != x.shape or b._element != x._element:
        raise ValueError(f"right-hand side and unknown have one shape and type, not {described(b)} and {described(x)}")
    if b._memory.device is not x._memory.device or operator.device != b._memory.device:
        raise ValueError(f"matrix, right-hand side and unknown lie on one device, not on {operator.device}, "
                         f"{b._memory.device} and {x._memory.device}")  # fmt: skip
    if operator.scalar_type != SCALARS[scalar_of(b._element).name]:
        raise ValueError(f"the matrix consists of {operator.scalar_type!r}, and the right-hand side is {described(b)}")
    unknowns = b.size * math.prod(component_shape(b._element))
    if not _has_unknowns(operator, unknowns):
        raise ValueError(f"a matrix of shape {operator.shape} has no unknowns like {described(b)}")
    preconditioner = None if M is None else aslinearoperator(M)
    if preconditioner is not None and preconditioner.scalar_type != operator.scalar_type:
        raise ValueError(f"the preconditioner consists of {preconditioner.scalar_type!r}, not {operator.scalar_type!r}")
    # A kernel would read and write beyond the vectors.
    if (
        preconditioner is not None
        and preconditioner.shape != operator.shape
        and (len({*preconditioner.shape}) != 1 or not _has_unknowns(preconditioner, unknowns))
    ):
        raise ValueError(f"a preconditioner of shape {preconditioner.shape} has no unknowns like {described(b)}")
    return Operands(operator, b if b.is_contiguous else b.contiguous(), x, preconditioner)


def _has_unknowns(operator: LinearOperator, unknowns: int) -> bool:
    """Return whether a square operator is of so many scalar unknowns: its rows, or components of its blocks."""
    rows, blocks = operator.shape[0], getattr(operator.dtype, "shape", (1,))
    return unknowns in (rows, rows * blocks[0])
