"""Forward mode checked, and second order: the derivative along a random direction, and the gradient of that.

The checks take a function as lowered, launch dimensions and a point. They return how many elements of results were
compared and the worst of them, or raise an error that names the worst element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from diffkern.ad.forward import with_tangents
from diffkern.compiler import pipeline
from diffkern.contracts.options import Variant
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, walk
from diffkern.ir.ops.memory import WRITES
from diffkern.ir.types import Array, is_differentiable
from diffkern.opt.widen import widen
from diffkern.testing.adjoints import Engine, Vjp, agreement, check_vjp
from diffkern.testing.comparison import ComparedElement, Comparison, GradcheckReport, Tolerances
from diffkern.testing.differences import Differences
from diffkern.testing.programs import as_argument, as_double

__all__ = ["check_forward", "check_second", "tangent_function", "written_numbers"]


def tangent_function(fn: Function) -> tuple[Function, tuple[int, ...]]:
    """Return a function in forward mode, with a tangent for each parameter that can have one; and the positions of
    these.
    """
    active = tuple(k for k, p in enumerate(fn.params) if is_differentiable(p.type))
    types: Any = [p.type for p in fn.params]
    return with_tangents(fn, types, [(k, types[k]) for k in active], pipeline.FUNCS.tools), active


def written_numbers(fn: Function) -> tuple[int, ...]:
    """Return the parameters that a function changes and that can have a gradient."""
    changed = {op.operands[0] for op in walk(fn.body) if op.name in WRITES}
    return tuple(
        k for k, p in enumerate(fn.params) if p in changed and isinstance(p.type, Array) and is_differentiable(p.type)
    )


def check_forward(
    fn: Function, dim: Sequence[int], args: Sequence[Any], engine: Engine, tol: Tolerances
) -> tuple[int, ComparedElement | None]:
    """Compare the changes of results along a random direction with central differences, in float64.

    Raises
    ------
    GradientError
        If one is wrong.
    AutodiffError
        If the function has no derivative in forward mode.
    """
    wide = widen(clone_function(fn))
    forward, active = tangent_function(wide)
    program = engine(pipeline.optimise(clone_function(forward)))
    primal = engine(pipeline.optimise(clone_function(wide)))
    point, direction = _point_and_direction(fn, wide, active, args, tol)
    after = [np.array(a) if isinstance(a, np.ndarray) else a for a in point]
    changes = {k: np.array(t) if np.ndim(t) else np.float64(t) for k, t in direction.items()}
    program.run(dim, [*after, *changes.values()])
    comparison = Comparison(fn.name, "central differences in float64", tol.rtol, "change (forward mode)")
    rng = np.random.default_rng(tol.seed)
    every = [(k, index) for k in written_numbers(wide) for index in np.ndindex(np.shape(point[k]))]
    for n in sorted(rng.permutation(len(every))[: tol.max_elements]):
        k, index = every[n]
        weight = np.zeros(np.shape(point[k]))
        # One element at a time is the projection, since forward mode gives all of them at once.
        weight[index] = 1.0
        analytic = float(np.asarray(changes[k])[index])
        differences = Differences(primal, dim, point, {k: weight}, tol.eps)
        estimate = differences.along(direction, agrees=agreement(analytic, 0.0, tol))
        if not estimate.kink:
            comparison.add(fn.param_names[k], index, analytic, estimate.value, tol.atol + estimate.error)
    comparison.finish()
    return comparison.count, comparison.worst


def check_second(
    fn: Function, dim: Sequence[int], args: Sequence[Any], engine: Engine, variant: Variant, tol: Tolerances
) -> GradcheckReport:
    """Check the gradient of the derivative along a random direction, in float64.

    Raises
    ------
    GradientError
        If it is wrong.
    AutodiffError
        If there are no second derivatives.
    """
    wide = widen(clone_function(fn))
    forward, active = tangent_function(wide)
    point, direction = _point_and_direction(fn, wide, active, args, tol)
    # Reverse over forward: the tangents are ordinary arguments of this function, and are differentiated too.
    vjp = Vjp(forward, engine, variant=variant)
    return check_vjp(vjp, dim, [*point, *direction.values()], tol, "second derivative")


def _point_and_direction(
    fn: Function, wide: Function, active: Sequence[int], args: Sequence[Any], tol: Tolerances
) -> tuple[list[Any], dict[int, Any]]:
    double = [as_double(p.type, a) for p, a in zip(fn.params, args, strict=True)]
    point = [as_argument(p.type, a) for p, a in zip(wide.params, double, strict=True)]
    # Another seed than the projection's, or the two would be equal for arguments and results of one shape.
    rng = np.random.default_rng(tol.seed + 1)
    return point, {k: rng.uniform(-1.0, 1.0, np.shape(point[k])) for k in active}
