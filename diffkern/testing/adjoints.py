"""Reverse mode checked: a function of the IR and its adjoint against differences, and float32 against float64.

The checks take a function as lowered, launch dimensions and a point, and return a
:class:`~diffkern.testing.comparison.GradcheckReport`, or raise an error that names the worst element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from diffkern.compiler import pipeline
from diffkern.contracts.manifest import Conflict
from diffkern.contracts.options import FORWARD, Variant
from diffkern.errors import AutodiffError
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function
from diffkern.ir.types import Array, is_differentiable
from diffkern.opt.widen import widen
from diffkern.process.tracebacks import warn
from diffkern.testing.comparison import (
    ComparedElement,
    Comparison,
    GradcheckReport,
    GradientError,
    KinkWarning,
    Tolerances,
)
from diffkern.testing.differences import Differences, Estimate
from diffkern.testing.logged import LoggedRun
from diffkern.testing.programs import CompiledFunction, GridProgram, as_argument, as_double, zeros_for

__all__ = ["Engine", "Vjp", "agreement", "check_function", "check_vjp", "compare_precisions"]

Array64 = np.ndarray[Any, Any]
Engine = Callable[[Function], GridProgram]


class Vjp:
    """A function and its adjoint, ready to run at any point.

    Parameters
    ----------
    fn
        A function as lowered.
    engine
        The callable that makes a function executable.
    active
        Indices of the parameters to differentiate for; by default all that can carry a gradient.
    """

    def __init__(
        self,
        fn: Function,
        engine: Engine = CompiledFunction,
        active: frozenset[int] | None = None,
        variant: Variant = FORWARD,
        slots: int | None = None,
    ) -> None:
        self.fn = pipeline.prepare(fn)
        can = frozenset(i for i, p in enumerate(fn.params) if is_differentiable(p.type))
        self.active = can if active is None else active
        self.types = tuple(p.type for p in fn.params)
        self.names = fn.param_names
        self._logged: LoggedRun | None = None
        # The adjoint may need values that the kernel overwrites. Then the primal is run with a log of these loads, as a
        # launch does; any other error is the function's own.
        try:
            self.adjoint = pipeline.differentiate(self.fn, self.active, variant, slots)
        except AutodiffError as error:
            if error.in_log != "loads":
                raise
            found, swept = pipeline.log_values(fn, self.active, variant, slots)
            self.adjoint = pipeline.finish(swept, variant)
            self._logged = LoggedRun(found, self.active, engine)
        self._forward = pipeline.optimise(clone_function(fn))
        self.primal_program = engine(self._forward)
        self.adjoint_program = engine(self.adjoint.fn)

    def running(self, primal: Engine, adjoint: Engine) -> Vjp:
        """Return the same two functions with other engines."""
        # A shallow copy: differentiation is the expensive part, and both copies share its result.
        other = copy(self)
        other.primal_program = primal(self._forward)
        if self._logged is not None:
            other._logged = copy(self._logged)
            other._logged.use(primal)
        other.adjoint_program = adjoint(self.adjoint.fn)
        return other

    def declared_conflicts(self) -> dict[str, Conflict]:
        """Return the manifest's declared conflict of each cotangent among threads, by name of the cotangent."""
        found = zip(self.adjoint.buffers, self.adjoint.conflicts, strict=True)
        return {buffer.name: conflict for buffer, conflict in found}

    def arguments(self, args: Sequence[Any]) -> list[Any]:
        """Return copies of arguments in the parameters' types."""
        return [as_argument(t, a) for t, a in zip(self.types, args, strict=True)]

    def weights(self, args: Sequence[Any], rng: np.random.Generator) -> dict[int, Array64]:
        """Return a random projection of all active arrays."""
        return {
            i: rng.uniform(-1.0, 1.0, np.shape(args[i]))
            for i in sorted(self.active)
            if isinstance(self.types[i], Array)
        }

    def gradients(
        self, dim: Sequence[int], args: Sequence[Any], weights: Mapping[int, Array64], chunk: int | None = None
    ) -> dict[int, Array64]:
        """Return ``J^T w`` at a point: the cotangents after the adjoint has run on cotangents that start as the
        weights.

        The adjoint runs after the primal, on the arrays as the primal left them.
        """
        after = self.arguments(args)
        log: list[Any] = []
        if self._logged is None:
            self.primal_program.run(dim, after, chunk)
        else:
            log = self._logged.run(dim, after, chunk)
        before = [a.copy() if isinstance(a, np.ndarray) else a for a in after]
        # Arrays that the adjoint needs as they were before the launch; the launch itself would have saved copies.
        saved = [self.arguments(args)[i] for i in self.adjoint.saved]
        cotangents = {}
        for i in self.adjoint.cotangents:
            zero = zeros_for(self.types[i], after[i])
            cotangents[i] = weights[i].astype(zero.dtype) if i in weights else zero
        self.adjoint_program.run(dim, [*after, *log, *saved, *cotangents.values()], chunk)
        # An adjoint may only write cotangents: a change of a primal array would corrupt the steps before it on a tape.
        for i, (a, b) in enumerate(zip(after, before, strict=True)):
            if isinstance(a, np.ndarray) and a.tobytes() != b.tobytes():
                raise GradientError(f"kernel {self.fn.name!r}: the adjoint changed the array {self.names[i]!r}")
        return {i: ct if isinstance(self.types[i], Array) else ct[0] for i, ct in cotangents.items()}


def check_function(
    fn: Function,
    dim: Sequence[int],
    args: Sequence[Any],
    *,
    engine: Engine = CompiledFunction,
    variant: Variant = FORWARD,
    slots: int | None = None,
    float32: bool = True,
    tolerances: Tolerances | None = None,
) -> GradcheckReport:
    """Check the gradients of a function of the IR, as lowered.

    Parameters
    ----------
    fn
        The function; its narrower floats are widened to float64 for the comparison with differences.
    dim
        The launch's dimensions.
    args
        One argument per parameter.
    engine
        The callable that makes a function executable: object code by default.
    variant, slots
        The program that is checked, and how many states a loop keeps.
    float32
        Whether to compare the gradient in the function's own types as well.
    tolerances
        Steps and tolerances.

    Raises
    ------
    GradientError
        If a gradient is wrong.
    AutodiffError
        If the function cannot be differentiated.
    """
    tol = tolerances or Tolerances()
    wide = Vjp(widen(clone_function(fn)), engine, variant=variant, slots=slots)
    report = check_vjp(wide, dim, [as_double(p.type, a) for p, a in zip(fn.params, args, strict=True)], tol)
    if float32 and any(p.type != t for p, t in zip(fn.params, wide.types, strict=True)):
        worst = compare_precisions(Vjp(fn, engine, variant=variant, slots=slots), wide, dim, args, tol)
        report = replace(report, float32_worst=worst)
    return report


def check_vjp(
    vjp: Vjp,
    dim: Sequence[int],
    args: Sequence[Any],
    tolerances: Tolerances | None = None,
    what: str = "gradient",
) -> GradcheckReport:
    """Check a function of float64 and its adjoint against central differences, and by the dot-product test.

    ``what`` is the name of the derivative in messages.

    Raises
    ------
    GradientError
        If a gradient is wrong.
    """
    tol = tolerances or Tolerances()
    rng = np.random.default_rng(tol.seed)
    point = vjp.arguments(args)
    weights = vjp.weights(point, rng)
    comparison, kinks = _against_differences(vjp, dim, point, weights, vjp.gradients(dim, point, weights), tol, rng)
    comparison.what = what
    comparison.finish()
    # A check that compared nothing must not pass: the user would take it for a proof.
    if not comparison.count:
        raise GradientError(f"gradcheck of {vjp.fn.name!r} compared nothing: {_why_nothing(vjp, point, kinks)}")
    # Another projection and direction: errors that cancel for the first one show up here. It also covers the elements
    # that were not chosen for the comparison one by one.
    dot_product_error = _dot_product(vjp, dim, point, tol, rng)
    if kinks:
        name, index = kinks[0]
        warn(
            f"gradcheck of {vjp.fn.name}: {len(kinks)} elements lie too near a kink or jump to be compared, "
            f"the first is {name}{list(index)}",
            KinkWarning,
        )
    names = tuple(vjp.names[i] for i in sorted(vjp.active))
    return GradcheckReport(
        vjp.fn.name, names, comparison.count, comparison.worst, tuple(kinks), dot_product_error, None
    )


def _why_nothing(vjp: Vjp, point: Sequence[Any], kinks: Sequence[Any]) -> str:
    if kinks:
        return f"all {len(kinks)} elements lie too near a kink or jump; check at other arguments"
    if not vjp.active:
        return "no parameter can have a gradient"
    if not any(np.size(point[i]) for i in vjp.active):
        return "the arguments that can have a gradient are empty"
    return "max_elements is 0"


def compare_precisions(
    own: Vjp, wide: Vjp, dim: Sequence[int], args: Sequence[Any], tolerances: Tolerances | None = None
) -> ComparedElement | None:
    """Compare the gradients of a function with those of its widened form; return the worst element.

    Raises
    ------
    GradientError
        If an element differs by more than ``rtol32`` of the largest one of its parameter.
    """
    tol = tolerances or Tolerances()
    doubles = [as_double(t, a) for t, a in zip(own.types, args, strict=True)]
    # The same seed as in `check_vjp`, so that both gradients are of the same projection.
    weights = own.weights(args, np.random.default_rng(tol.seed))
    reference = wide.gradients(dim, wide.arguments(doubles), weights)
    comparison = _against_double(own, own.gradients(dim, args, weights), reference, tol.rtol32)
    doubt = ""
    if comparison.wrong:
        doubt = _of_values(own, wide, dim, args, doubles, tol) or _of_rounding(
            own, wide, dim, doubles, weights, reference, comparison, tol
        )
    comparison.finish(doubt)
    return comparison.worst


def _of_values(
    own: Vjp, wide: Vjp, dim: Sequence[int], args: Sequence[Any], doubles: Sequence[Any], tol: Tolerances
) -> str:
    """Return a text if the results differ in float64, too: an adjoint is no more accurate than its program."""
    found, exact = own.arguments(args), wide.arguments(doubles)
    own.primal_program.run(dim, found)
    wide.primal_program.run(dim, exact)
    of_arrays = [i for i in sorted(own.active) if isinstance(own.types[i], Array)]
    held, wanted = ({i: np.asarray(given[i], np.float64) for i in of_arrays} for given in (found, exact))
    values = _against_double(own, held, wanted, tol.rtol32)
    if not values.wrong:
        return ""
    return (
        f"The results of the kernel differ in float64 as well, first {values.wrong[0]}: that is rounding, or a loop "
        "with another number of trips, so that this says little about the derivative. Compute in float64, or check "
        "with a larger rtol32."
    )


def _of_rounding(
    own: Vjp,
    wide: Vjp,
    dim: Sequence[int],
    doubles: Sequence[Any],
    weights: Mapping[int, Array64],
    reference: Mapping[int, Array64],
    comparison: Comparison,
    tol: Tolerances,
) -> str:
    """Return a text if arguments that are rounded change the gradient in float64 about as much as it differs."""
    rng = np.random.default_rng(tol.seed)
    rounded = {i for i in own.active if own.types[i] != wide.types[i]}
    change = 0.0
    for _ in range(3):
        # By half a unit in the last place, as an operation in float32 rounds.
        moved = [
            a * (1.0 + rng.uniform(-6e-8, 6e-8, np.shape(a))) if i in rounded else a for i, a in enumerate(doubles)
        ]
        gradients = wide.gradients(dim, wide.arguments(moved), weights)
        change = max(change, _against_double(own, gradients, reference, tol.rtol32).largest())
    # An operation for the arguments, and a few more in the kernel.
    if not 10.0 * change >= comparison.largest() > 0.0:
        return ""
    return (
        f"The gradient in float64 changes by up to {change:.2g} if arguments change by what float32 rounds: the "
        "difference may be rounding, and no fault of the derivative. Compute in float64, or check with a larger rtol32."
    )


def _indices(vjp: Vjp, point: Sequence[Any], limit: int, rng: np.random.Generator) -> list[tuple[int, tuple[int, ...]]]:
    every = [(i, index) for i in sorted(vjp.active) for index in np.ndindex(np.shape(point[i]))]
    if len(every) <= limit:
        return every
    chosen = sorted(rng.choice(len(every), limit, replace=False))
    return [every[k] for k in chosen]


def _against_differences(
    vjp: Vjp,
    dim: Sequence[int],
    point: Sequence[Any],
    weights: Mapping[int, Array64],
    gradients: Mapping[int, Array64],
    tol: Tolerances,
    rng: np.random.Generator,
) -> tuple[Comparison, list[tuple[str, tuple[int, ...]]]]:
    differences = Differences(vjp.primal_program, dim, point, weights, tol.eps)
    bad = differences.not_finite()
    if bad is not None:
        i, index, value = bad
        raise GradientError(
            f"kernel {vjp.fn.name!r}: {vjp.names[i]}{list(index)} is {value} after the launch, so there are no "
            "differences to compare with; check the gradient at other arguments"
        )
    comparison = Comparison(vjp.fn.name, "central differences in float64", tol.rtol)
    kinks: list[tuple[str, tuple[int, ...]]] = []
    for i, index in _indices(vjp, point, tol.max_elements, rng):
        change = np.zeros(np.shape(point[i]))
        change[index] = 1.0
        analytic = float(np.asarray(gradients[i])[index])
        size = abs(float(np.asarray(point[i])[index]))
        estimate = differences.along({i: change}, size, agreement(analytic, 0.0, tol))
        if estimate.kink:
            kinks.append((vjp.names[i], index))
            continue
        comparison.add(vjp.names[i], index, analytic, estimate.value, tol.atol + estimate.error)
    return comparison, kinks


def agreement(analytic: float, size: float, tol: Tolerances) -> Callable[[Estimate], bool]:
    """Return a predicate: whether differences agree with a derivative, which is a sum of numbers of a total size."""

    def agrees(estimate: Estimate) -> bool:
        # Relative to the size of the summands, not to the sum, in which they may cancel.
        allowed = tol.atol + tol.rtol * max(size, abs(estimate.value)) + estimate.error
        return abs(analytic - estimate.value) <= allowed

    return agrees


def _dot_product(
    vjp: Vjp, dim: Sequence[int], point: Sequence[Any], tol: Tolerances, rng: np.random.Generator
) -> float:
    """Return the relative difference of <w, J t> and <J^T w, t> for a fresh projection and a random direction."""
    weights = vjp.weights(point, rng)
    direction = {i: rng.uniform(-1.0, 1.0, np.shape(point[i])) for i in sorted(vjp.active)}
    gradients = vjp.gradients(dim, point, weights)
    parts = [float(np.sum(gradients[i] * t)) for i, t in direction.items()]
    analytic, size = math.fsum(parts), math.fsum(map(abs, parts))
    agrees = agreement(analytic, size, tol)
    estimate = Differences(vjp.primal_program, dim, point, weights, tol.eps).along(direction, agrees=agrees)
    # The random direction crosses a kink: the test says nothing, and the elements were compared one by one.
    if estimate.kink:
        return math.nan
    error = abs(analytic - estimate.value)
    if not agrees(estimate):
        raise GradientError(
            f"kernel {vjp.fn.name!r}: the dot-product test fails: <J^T w, t> = {analytic:.12g} "
            f"but <w, J t> = {estimate.value:.12g}"
        )
    return error / max(size, 1e-30) if error else 0.0


def _against_double(vjp: Vjp, own: Mapping[int, Array64], double: Mapping[int, Array64], rtol: float) -> Comparison:
    comparison = Comparison(vjp.fn.name, "the same kernel in float64", rtol)
    for i, gradient in own.items():
        reference = np.asarray(double[i])
        # Relative to the largest element: small elements of a gradient in float32 carry the rounding of large ones.
        size = float(np.max(np.abs(reference), initial=0.0, where=np.isfinite(reference)))
        for index in np.ndindex(reference.shape):
            comparison.add(
                vjp.names[i], index, float(np.asarray(gradient)[index]), float(reference[index]), rtol * size
            )
    return comparison
