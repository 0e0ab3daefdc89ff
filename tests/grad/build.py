"""From a case of the corpus to IR and its adjoint."""

from __future__ import annotations

from typing import Any

from diffkern.frontend.statements import lowering
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function
from diffkern.kernels.kernel import Kernel
from diffkern.opt.widen import widen
from diffkern.testing.gradcheck import Vjp

from .cases import Case


def lower(case: Case) -> Function:
    """The IR of a case, as lowered."""
    return lowering.lower(case.function, Kernel(case.function).argument_types(*values(case)))


def widened_vjp(fn: Function, case: Case) -> Vjp:
    """Primal and adjoint of a case in float64."""
    return Vjp(widen(clone_function(fn)), **case.options)


def values(case: Case) -> list[Any]:
    """Fresh arguments in the order of the parameters."""
    return list(case.make().values())
