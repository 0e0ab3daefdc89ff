"""Is the gradient right? Derivatives of a kernel against central differences, and float32 against float64.

In: a kernel, launch dimensions, arguments. Out: a :class:`GradcheckReport`, or a :class:`GradientError` that names the
worst element. The kernel is lowered anew with float64 in the place of every narrower float (constants and functions
included), so that a wrong derivative cannot hide behind rounding; then

1. every element of every differentiable argument (or a random choice of them) is checked against central differences
   of a random projection of everything the kernel leaves behind, arrays that are read and written included;
2. along a random direction the two sides of ``<w, J t> = <J^T w, t>`` are compared, with another projection ``w``;
3. the gradient in the kernel's own types is compared with the one in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from diffkern import pipeline
from diffkern.analysis.extents import certain_extents
from diffkern.callers import brief, warn
from diffkern.errors import LaunchError
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, walk
from diffkern.ir.types import Array, is_differentiable
from diffkern.kernel import Kernel
from diffkern.manifest import Conflict
from diffkern.ops.memory import WRITES
from diffkern.opt.widen import widen
from diffkern.options import FORWARD, Variant
from diffkern.runtime.grid_checks import check_axes, check_extents, named
from diffkern.runtime.packed import check_kernel
from diffkern.testing.devices import compare_devices
from diffkern.testing.differences import Differences, Estimate
from diffkern.testing.programs import Compiled, Program, as_argument, as_double, leaf_values, zeros_for

__all__ = [
    "GradcheckReport",
    "GradientError",
    "KinkWarning",
    "Tolerances",
    "Vjp",
    "check_function",
    "check_vjp",
    "compare_precisions",
    "gradcheck",
]

Array64 = np.ndarray[Any, Any]


class GradientError(AssertionError):
    """A gradient disagrees with its reference; the text names kernel, parameter, element and both values."""


class KinkWarning(UserWarning):
    """Some elements lie too near a kink or a jump for differences to tell; they were not compared."""


@dataclass(frozen=True, slots=True)
class Element:
    """A compared element: parameter, index, both values, and their relative difference."""

    parameter: str
    index: tuple[int, ...]
    analytic: float
    reference: float
    error: float

    def __str__(self) -> str:
        where = f"{self.parameter}[{', '.join(map(str, self.index))}]" if self.index else self.parameter
        return f"{where}: {self.analytic:.9g} against {self.reference:.9g} (relative error {self.error:.2e})"


@dataclass(frozen=True, slots=True)
class GradcheckReport:
    """What a check compared.

    Attributes
    ----------
    kernel
        The kernel's name.
    parameters
        Names of the parameters with a gradient.
    checked
        Number of elements compared with central differences.
    worst
        The element with the largest relative error among them.
    kinks
        Elements too near a kink or jump to compare, as ``(parameter, index)``.
    dot_product_error
        Relative difference of the two sides of the dot-product test; NaN where a kink forbids it.
    float32_worst
        The element whose gradient in the kernel's own types differs most from the one in float64.
    """

    kernel: str
    parameters: tuple[str, ...]
    checked: int
    worst: Element | None
    kinks: tuple[tuple[str, tuple[int, ...]], ...]
    dot_product_error: float
    float32_worst: Element | None

    def __str__(self) -> str:
        lines = [f"gradcheck of {self.kernel}: {self.checked} elements of {', '.join(self.parameters)}"]
        if self.worst is not None:
            lines.append(f"  worst against central differences  {self.worst}")
        if self.float32_worst is not None:
            lines.append(f"  worst of float32 against float64   {self.float32_worst}")
        lines.append(f"  dot-product test                   relative error {self.dot_product_error:.2e}")
        if self.kinks:
            lines.append(f"  not compared, too near a kink      {len(self.kinks)} elements, first {self.kinks[0]}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Tolerances:
    """How a check is made: steps, tolerances, how many elements, from which seed."""

    eps: float = 1e-4
    rtol: float = 1e-5
    atol: float = 1e-8
    rtol32: float = 1e-3
    max_elements: int = 64
    seed: int = 0


Engine = Callable[[Function], Program]


class Vjp:
    """A function and its adjoint, ready to run at any point.

    Parameters
    ----------
    fn
        A function as lowered.
    engine
        What makes a function executable.
    active
        Indices of the parameters to differentiate for; by default all that can carry a gradient.
    """

    def __init__(
        self,
        fn: Function,
        engine: Engine = Compiled,
        active: frozenset[int] | None = None,
        variant: Variant = FORWARD,
        slots: int | None = None,
    ) -> None:
        self.fn = pipeline.prepare(fn)
        can = frozenset(i for i, p in enumerate(fn.params) if is_differentiable(p.type))
        self.active = can if active is None else active
        self.types = tuple(p.type for p in fn.params)
        self.names = fn.param_names
        self.adjoint = pipeline.differentiate(self.fn, self.active, variant, slots)
        self._forward = pipeline.optimise(clone_function(fn))
        self.primal_program = engine(self._forward)
        self.adjoint_program = engine(self.adjoint.fn)

    def running(self, primal: Engine, adjoint: Engine) -> Vjp:
        """The same two functions, run in another way."""
        other = copy(self)
        other.primal_program = primal(self._forward)
        other.adjoint_program = adjoint(self.adjoint.fn)
        return other

    def declared_conflicts(self) -> dict[str, Conflict]:
        """What the adjoint's manifest says of threads that race, by name of the cotangent."""
        found = zip(self.adjoint.buffers, self.adjoint.conflicts, strict=True)
        return {buffer.name: conflict for buffer, conflict in found}

    def arguments(self, args: Sequence[Any]) -> list[Any]:
        """Copies of arguments in the parameters' types."""
        return [as_argument(t, a) for t, a in zip(self.types, args, strict=True)]

    def weights(self, args: Sequence[Any], rng: np.random.Generator) -> dict[int, Array64]:
        """A random projection of all active arrays."""
        return {
            i: rng.uniform(-1.0, 1.0, np.shape(args[i]))
            for i in sorted(self.active)
            if isinstance(self.types[i], Array)
        }

    def gradients(
        self, dim: Sequence[int], args: Sequence[Any], weights: Mapping[int, Array64], chunk: int | None = None
    ) -> dict[int, Array64]:
        """``J^T w`` at a point: what the adjoint leaves in the cotangents when these start as the weights.

        The adjoint runs after the primal, on the arrays as the primal left them.
        """
        after = self.arguments(args)
        self.primal_program.run(dim, after, chunk)
        before = [a.copy() if isinstance(a, np.ndarray) else a for a in after]
        saved = [self.arguments(args)[i] for i in self.adjoint.saved]
        cotangents = {}
        for i in self.adjoint.cotangents:
            zero = zeros_for(self.types[i], after[i])
            cotangents[i] = weights[i].astype(zero.dtype) if i in weights else zero
        self.adjoint_program.run(dim, [*after, *saved, *cotangents.values()], chunk)
        for i, (a, b) in enumerate(zip(after, before, strict=True)):
            if isinstance(a, np.ndarray) and a.tobytes() != b.tobytes():
                raise GradientError(f"kernel {self.fn.name!r}: the adjoint changed the array {self.names[i]!r}")
        return {i: ct if isinstance(self.types[i], Array) else ct[0] for i, ct in cotangents.items()}


@dataclass
class _Comparison:
    """Collects compared elements of one kind and raises at the end."""

    kernel: str
    against: str
    rtol: float
    wrong: list[Element] = field(default_factory=list)
    worst: Element | None = None
    count: int = 0

    def add(self, name: str, index: tuple[int, ...], analytic: float, reference: float, allowed: float) -> None:
        self.count += 1
        both_nan = math.isnan(analytic) and math.isnan(reference)
        difference = 0.0 if analytic == reference or both_nan else abs(analytic - reference)
        error = difference / max(abs(analytic), abs(reference), 1e-30) if difference else 0.0
        item = Element(name, index, analytic, reference, error)
        if not difference <= allowed + self.rtol * abs(reference):
            self.wrong.append(item)
        elif difference > allowed and (self.worst is None or error > self.worst.error):
            self.worst = item

    def finish(self) -> None:
        if not self.wrong:
            return
        ordered = sorted(self.wrong, key=lambda e: -math.inf if math.isnan(e.error) else -e.error)
        more = "".join(f"\n  {e}" for e in ordered[1:5])
        raise GradientError(
            f"kernel {self.kernel!r}: the gradient of {ordered[0].parameter!r} is wrong against {self.against}; "
            f"{len(ordered)} of {self.count} compared elements differ, the worst is\n  {ordered[0]}{more}"
        )


@brief
def gradcheck(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[Any],
    outputs: Sequence[Any] = (),
    *,
    eps: float = 1e-4,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    rtol32: float = 1e-3,
    max_elements: int = 64,
    seed: int = 0,
    device: Any = None,
    block_dim: int | None = None,
) -> GradcheckReport:
    """Check the gradients of a kernel; the arguments are not changed.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    dim : int or sequence of int
        The launch's dimensions.
    inputs, outputs : sequence
        The arguments, as for a launch. All that can have a gradient are checked, numbers, vectors and fields of structs
        passed by value included; arrays that the kernel writes count with the contents they have here.
    eps : float, optional
        Largest step of the differences, relative to the size of what is changed; smaller ones are tried near kinks.
    rtol, atol : float, optional
        Tolerances of the float64 gradient against the differences.
    rtol32 : float, optional
        How far the gradient in the kernel's own types may be from the one in float64, relative to the largest element.
    max_elements : int, optional
        Elements to compare one by one; a random choice of them if there are more.
    seed : int, optional
        Of the random projections, directions and choices.
    device : str or Device, optional
        A GPU on which the kernel and its gradient are run as well: they have to agree with the CPU's within `rtol32`.
    block_dim : int, optional
        Threads of a block, which counts where they work together; what the kernel says by default.

    Returns
    -------
    GradcheckReport

    Raises
    ------
    GradientError
        If a gradient is wrong; names the kernel and the worst elements. Also if there was nothing to compare: no
        parameter with a gradient, no result, no thread, or every element at a kink.
    AutodiffError
        If the kernel cannot be differentiated.

    Warns
    -----
    KinkWarning
        If elements lie too near a kink or a jump to be compared.
    """
    check_kernel(kernel)
    given = (*inputs, *outputs)
    fn = pipeline.lower_kernel(kernel.func, kernel.argument_types(*given), kernel.variant)
    dims = tuple(dim) if isinstance(dim, Sequence) else (dim,)
    if not math.prod(dims):
        raise GradientError(f"gradcheck of {kernel.name!r} compared nothing: dim={dim!r} runs no thread")
    if not _leaves_numbers(fn):
        raise GradientError(f"gradcheck of {kernel.name!r} compared nothing: it changes no array of floats")
    args = [leaf for a, p in zip(given, kernel.parameters, strict=True) for leaf in leaf_values(a, p.annotation)]
    tolerances = Tolerances(eps, rtol, atol, rtol32, max_elements, seed)
    _check_grid(kernel.name, fn, dims, args)
    threads = block_dim or kernel.block_dim
    engine = partial(Compiled, block_dim=threads)
    report = check_function(fn, dims, args, engine=engine, variant=kernel.variant, tolerances=tolerances)
    if device is not None:
        found = compare_devices(kernel, dims, given, device, rtol32, seed, threads)
        if found is not None:
            raise GradientError(f"kernel {kernel.name!r}: {found}")
    return report


def _check_grid(kernel: str, fn: Function, dims: Sequence[int], args: Sequence[Any]) -> None:
    """Refuse dimensions that a launch refuses."""
    shapes = {k: np.shape(a) for k, a in enumerate(args)}
    entries = certain_extents(pipeline.optimise(clone_function(fn)))
    try:
        check_axes(fn.tid_arity, dims)
        check_extents(entries, fn.param_names, dims, shapes)
    except LaunchError as error:
        raise named(kernel, error) from None


def _leaves_numbers(fn: Function) -> bool:
    """Whether a function changes anything that can have a gradient."""
    smooth = {p for p in fn.params if isinstance(p.type, Array) and is_differentiable(p.type)}
    return any(op.name in WRITES and op.operands[0] in smooth for op in walk(fn.body))


def check_function(
    fn: Function,
    dim: Sequence[int],
    args: Sequence[Any],
    *,
    engine: Engine = Compiled,
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
        What makes a function executable: object code by default.
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
    vjp: Vjp, dim: Sequence[int], args: Sequence[Any], tolerances: Tolerances | None = None
) -> GradcheckReport:
    """Check a function of float64 and its adjoint against central differences, and by the dot-product test.

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
    comparison.finish()
    if not comparison.count:
        raise GradientError(f"gradcheck of {vjp.fn.name!r} compared nothing: {_why_nothing(vjp, point, kinks)}")
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
) -> Element | None:
    """Compare the gradients of a function with those of its widened form; returns the worst element.

    Raises
    ------
    GradientError
        If an element differs by more than ``rtol32`` of the largest one of its parameter.
    """
    tol = tolerances or Tolerances()
    doubles = [as_double(t, a) for t, a in zip(own.types, args, strict=True)]
    weights = own.weights(args, np.random.default_rng(tol.seed))
    reference = wide.gradients(dim, wide.arguments(doubles), weights)
    return _against_double(own, own.gradients(dim, args, weights), reference, tol.rtol32)


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
) -> tuple[_Comparison, list[tuple[str, tuple[int, ...]]]]:
    differences = Differences(vjp.primal_program, dim, point, weights, tol.eps)
    bad = differences.not_finite()
    if bad is not None:
        i, index, value = bad
        raise GradientError(
            f"kernel {vjp.fn.name!r}: {vjp.names[i]}{list(index)} is {value} after the launch, so there are no "
            "differences to compare with; check the gradient at other arguments"
        )
    comparison = _Comparison(vjp.fn.name, "central differences in float64", tol.rtol)
    kinks: list[tuple[str, tuple[int, ...]]] = []
    for i, index in _indices(vjp, point, tol.max_elements, rng):
        change = np.zeros(np.shape(point[i]))
        change[index] = 1.0
        analytic = float(np.asarray(gradients[i])[index])
        size = abs(float(np.asarray(point[i])[index]))
        estimate = differences.along({i: change}, size, _agreement(analytic, 0.0, tol))
        if estimate.kink:
            kinks.append((vjp.names[i], index))
            continue
        comparison.add(vjp.names[i], index, analytic, estimate.value, tol.atol + estimate.error)
    return comparison, kinks


def _agreement(analytic: float, size: float, tol: Tolerances) -> Callable[[Estimate], bool]:
    """Whether differences say the same as a derivative, which is a sum of numbers of a total size."""

    def agrees(estimate: Estimate) -> bool:
        allowed = tol.atol + tol.rtol * max(size, abs(estimate.value)) + estimate.error
        return abs(analytic - estimate.value) <= allowed

    return agrees


def _dot_product(
    vjp: Vjp, dim: Sequence[int], point: Sequence[Any], tol: Tolerances, rng: np.random.Generator
) -> float:
    """The relative difference of <w, J t> and <J^T w, t> for a fresh projection and a random direction."""
    weights = vjp.weights(point, rng)
    direction = {i: rng.uniform(-1.0, 1.0, np.shape(point[i])) for i in sorted(vjp.active)}
    gradients = vjp.gradients(dim, point, weights)
    parts = [float(np.sum(gradients[i] * t)) for i, t in direction.items()]
    analytic, size = math.fsum(parts), math.fsum(map(abs, parts))
    agrees = _agreement(analytic, size, tol)
    estimate = Differences(vjp.primal_program, dim, point, weights, tol.eps).along(direction, agrees=agrees)
    if estimate.kink:
        return math.nan
    error = abs(analytic - estimate.value)
    if not agrees(estimate):
        raise GradientError(
            f"kernel {vjp.fn.name!r}: the dot-product test fails: <J^T w, t> = {analytic:.12g} "
            f"but <w, J t> = {estimate.value:.12g}"
        )
    return error / max(size, 1e-30) if error else 0.0


def _against_double(vjp: Vjp, own: Mapping[int, Array64], double: Mapping[int, Array64], rtol: float) -> Element | None:
    comparison = _Comparison(vjp.fn.name, "the same kernel in float64", rtol)
    for i, gradient in own.items():
        reference = np.asarray(double[i])
        size = float(np.max(np.abs(reference), initial=0.0, where=np.isfinite(reference)))
        for index in np.ndindex(reference.shape):
            comparison.add(
                vjp.names[i], index, float(np.asarray(gradient)[index]), float(reference[index]), rtol * size
            )
    comparison.finish()
    return comparison.worst
