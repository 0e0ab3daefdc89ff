"""Are the derivatives of a kernel right? Gradient, Jacobian-vector and Hessian-vector product against differences.

In: a :class:`Natural`, a kernel with the arguments of a launch. Out: a :class:`Verdict` for each of the three. All
floating-point arrays that a launch is given vary, those that it only writes too, along one random direction; all that
it changes counts, with random weights. Central differences are of launches that know nothing of derivatives: of the
changed arrays for gradient and Jacobian-vector product, of the gradient, once it is checked, for the second derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import diffkern as dk
from diffkern.errors import KernelError

__all__ = ["GRADIENT", "HVP", "JVP", "Natural", "Verdict", "check", "natural"]

GRADIENT, JVP, HVP = "gradient", "jvp", "hvp"
F64 = dk.float64
EPS = 1e-5
RTOL, ATOL = 2e-6, 1e-8

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Natural:
    """A kernel and what it is launched on.

    Attributes
    ----------
    kernel
        The kernel.
    dim
        Threads of a launch.
    arguments
        Its arguments by name: NumPy arrays, which are copied, or numbers.
    launches
        For each launch the numbers that are other ones than in `arguments`.
    """

    kernel: Any
    dim: int | tuple[int, ...]
    arguments: Mapping[str, Any]
    launches: Sequence[Mapping[str, Any]] = ({},)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return str(self.kernel.__name__)


@dataclass(frozen=True)
class Verdict:
    """What became of a derivative of a kernel: "right", "refused" or "wrong", with the reason."""

    outcome: str
    reason: str = ""


NATURAL: dict[str, Natural] = {}


def natural(
    dim: int | tuple[int, ...], *, launches: Sequence[Mapping[str, Any]] = ({},), **arguments: Any
) -> Callable[[Any], Any]:
    """Enter a kernel into the table of those to be checked, with what it is launched on."""

    def enter(kernel: Any) -> Any:
        case = Natural(kernel, dim, arguments, launches)
        assert case.name not in NATURAL, case.name
        NATURAL[case.name] = case
        return kernel

    return enter


class _Launches:
    """The launches of a case as a function of its floating-point arrays."""

    def __init__(self, case: Natural) -> None:
        self.case = case
        self.start: Arrays = {k: v for k, v in case.arguments.items() if isinstance(v, np.ndarray)}
        self.varied = [k for k, v in self.start.items() if v.dtype.kind == "f"]
        after = self.numbers(self.start)
        self.changed = [k for k in self.varied if not np.array_equal(after[k], self.start[k])]
        assert self.changed, f"{case.name} changes nothing"
        rng = np.random.default_rng(len(case.name))
        self.direction = {k: rng.normal(size=self.start[k].shape) for k in self.varied}
        self.weights = {k: rng.normal(size=self.start[k].shape) for k in self.changed}

    def run(self, arrays: Mapping[str, Any]) -> None:
        """Launch."""
        for numbers in self.case.launches:
            given = {**self.case.arguments, **numbers, **arrays}
            dk.launch(self.case.kernel, dim=self.case.dim, inputs=[given[p.name] for p in self.case.kernel.parameters])

    def numbers(self, values: Mapping[str, np.ndarray]) -> Arrays:
        """The contents of the arrays after the launches, from those before."""
        arrays = {k: self.array(k, v) for k, v in values.items()}
        self.run(arrays)
        return {k: np.array(a.numpy()) for k, a in arrays.items()}

    def array(self, name: str, values: np.ndarray, requires_grad: bool = False) -> Any:
        """An array for a parameter: the axes that are not the array's are those of vectors or matrices."""
        annotation = self.case.kernel.func.__annotations__[name]
        inner = values.shape[annotation.ndim :]
        if values.dtype.kind == "i":
            return dk.array(values, dtype=int)
        if not inner:
            return dk.array(values.copy(), requires_grad=requires_grad)
        if str(annotation.element) == "quat<float64>":
            return dk.array(values.copy(), dtype=dk.quatd, requires_grad=requires_grad)
        dtype = dk.types.vector(*inner, F64) if len(inner) == 1 else dk.types.matrix(inner, F64)
        return dk.array(values.copy(), dtype=dtype, requires_grad=requires_grad)

    def moved(self, step: float) -> Arrays:
        """The contents before the launches, a step along the direction."""
        return {k: v + step * self.direction[k] if k in self.direction else v.copy() for k, v in self.start.items()}

    def gradient(self, values: Arrays) -> Arrays:
        """The gradient of the weighted sum of what is changed."""
        arrays = {k: self.array(k, v, k in self.varied) for k, v in values.items()}
        copies: dict[str, Any] = {}
        with dk.Tape() as tape:
            for k, a in arrays.items():
                copies[k] = dk.clone(a) if k in self.varied else a
            self.run(copies)
        tape.backward(grads={copies[k]: self.array(k, w) for k, w in self.weights.items()})
        return {k: np.array(arrays[k].grad.numpy()) for k in self.varied}

    def functional(self, *given: Any) -> tuple[Any, ...]:
        """The launches on copies of arrays, for forward mode."""
        fixed = {k: self.array(k, v) for k, v in self.start.items() if k not in self.varied}
        arrays = {k: dk.clone(a) for k, a in zip(self.varied, given, strict=True)}
        self.run({**fixed, **arrays})
        return tuple(arrays[k] for k in self.changed)

    def varied_arrays(self, values: Mapping[str, np.ndarray]) -> tuple[Any, ...]:
        return tuple(self.array(k, values[k]) for k in self.varied)


def check(case: Natural, second: bool = True) -> dict[str, Verdict]:
    """Check the derivatives of a kernel.

    Parameters
    ----------
    case : Natural
        The kernel.
    second : bool, optional
        Whether the Hessian-vector product is checked.
    """
    run = _Launches(case)
    more, less = run.numbers(run.moved(EPS)), run.numbers(run.moved(-EPS))
    slopes = {k: (more[k] - less[k]) / (2 * EPS) for k in run.changed}
    steps = [(GRADIENT, lambda: _gradient(run, slopes)), (JVP, lambda: _jvp(run, slopes))]
    if second:
        steps.append((HVP, lambda: _hvp(run)))
    return {name: _verdict(step) for name, step in steps}


def _verdict(step: Callable[[], str]) -> Verdict:
    try:
        wrong = step()
    except KernelError as error:
        return Verdict("refused", error.message.splitlines()[0])
    return Verdict("wrong", wrong) if wrong else Verdict("right")


def _gradient(run: _Launches, slopes: Arrays) -> str:
    found = run.gradient(run.start)
    terms = [found[k] * run.direction[k] for k in run.varied]
    expected = [run.weights[k] * slopes[k] for k in run.changed]
    return _differ(_total(terms), _total(expected), _size(terms) + _size(expected))


def _jvp(run: _Launches, slopes: Arrays) -> str:
    tangents = run.varied_arrays(run.direction)
    _, changes = dk.jvp(run.functional, run.varied_arrays(run.start), tangents)
    for k, change in zip(run.changed, changes, strict=True):
        scale = np.abs(slopes[k]).max()
        wrong = _differ(change.numpy(), slopes[k], scale)
        if wrong:
            return f"{k}: {wrong}"
    return ""


def _hvp(run: _Launches) -> str:
    weights = [run.array(k, run.weights[k]) for k in run.changed]

    def loss(*given: Any) -> Any:
        s = dk.zeros(1, dtype=F64)
        for y, w in zip(run.functional(*given), weights, strict=True):
            _add_products(y, w, s)
        return s

    found = dk.hvp(loss, run.varied_arrays(run.start), run.varied_arrays(run.direction))
    more, less = run.gradient(run.moved(EPS)), run.gradient(run.moved(-EPS))
    for k, product in zip(run.varied, found, strict=True):
        expected = (more[k] - less[k]) / (2 * EPS)
        scale = max(np.abs(expected).max(initial=0.0), np.abs(more[k]).max(initial=0.0))
        wrong = _differ(product.numpy(), expected, scale)
        if wrong:
            return f"{k}: {wrong}"
    return ""


@dk.kernel
def _add_numbers(y, w, s: dk.array(dtype=F64)):
    i = dk.tid()
    dk.atomic_add(s, 0, y[i] * w[i])


@dk.kernel
def _add_vectors(y, w, s: dk.array(dtype=F64)):
    i = dk.tid()
    dk.atomic_add(s, 0, dk.dot(y[i], w[i]))


@dk.kernel
def _add_matrices(y, w, s: dk.array(dtype=F64)):
    i = dk.tid()
    dk.atomic_add(s, 0, dk.ddot(y[i], w[i]))


def _add_products(y: Any, w: Any, s: Any) -> None:
    """Add the products of two arrays' numbers to a sum."""
    inner = y.numpy().ndim - y.ndim
    kernel = (_add_numbers, _add_vectors, _add_matrices)[inner]
    dk.launch(kernel, dim=y.size, inputs=[y.flatten(), w.flatten(), s])


def _total(terms: Sequence[np.ndarray]) -> float:
    return math.fsum(float(t.sum()) for t in terms)


def _size(terms: Sequence[np.ndarray]) -> float:
    return max(float(np.abs(t).sum()) for t in terms)


def _differ(found: Any, expected: Any, scale: float) -> str:
    """What is wrong with numbers, which may be off by some part of a scale."""
    if not np.isfinite(expected).all():
        return "differences are not finite"
    error = np.abs(np.asarray(found) - expected).max(initial=0.0)
    if error <= ATOL + RTOL * scale:  # NaN is not
        return ""
    return f"off by {error:.2e} of {scale:.2e}"
