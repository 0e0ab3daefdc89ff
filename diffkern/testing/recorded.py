"""Functions that launch kernels, and tapes: their launches one by one, and whole functions against differences.

A tape, or a function of arrays and the arrays, is taken apart into its launches as functions of the IR with arguments;
for a function there is also a report on its gradient in the types of its own arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from diffkern.compiler import pipeline
from diffkern.contracts.abi import passed_type
from diffkern.errors import MisuseError, described
from diffkern.ir.nodes import Function
from diffkern.ir.types import Array, Scalar, Type, scalar_of
from diffkern.kernels.kernel import Kernel
from diffkern.lang.dtypes import SCALARS
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.array_copy import clone
from diffkern.runtime.arrays.type_keys import type_of_key
from diffkern.runtime.effects.tape import Tape
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.testing.comparison import Comparison, GradcheckReport, GradientError, Tolerances
from diffkern.testing.differences import Differences
from diffkern.transforms.higher import jvp

__all__ = ["check_differences", "launches_of"]

Numbers = np.ndarray[Any, Any]
Launch = tuple[Kernel, Function, tuple[int, ...], list[Any], int]
_ROUNDING = {np.dtype(np.float64): 4e-16, np.dtype(np.float32): 2e-7}
_STEPS = {np.dtype(np.float64): 1e-4, np.dtype(np.float32): 2e-2}

_IN_FLOAT32 = (
    "Each launch was checked by itself, in float64; the whole was compared in float32, whose differences say little "
    "after many launches: pass float64 arrays to tell rounding from a wrong gradient, or make fewer steps."
)


def launches_of(tape: Tape) -> Iterator[Launch]:
    """Yield the launches on a tape that have derivatives: kernel, lowered function, dimensions, arguments, block."""
    for launch in tape.launches:
        kernel = launch.kernel if isinstance(launch, PackedLaunch) else None
        if not isinstance(launch, PackedLaunch) or not isinstance(kernel, Kernel) or not kernel.enable_backward:
            continue
        # The tape has types and bytes of the arguments only, as they were packed for the launch.
        types = [type_of_key(key) for key in launch.keys]
        # The version of the kernel that was launched, which may have been redefined since.
        fn = pipeline.lower_kernel(kernel.function_of(launch.generation), types, kernel.variant)
        leaves = zip(fn.params, launch.parts, launch.arrays, strict=True)
        args = [_value(p.type, part) if held is None else np.array(held._host()) for p, part, held in leaves]
        yield kernel, fn, tuple(launch.grid.dims), args, launch.executable.block_dim


def _value(t: Type, part: bytes) -> Any:
    """Return a number, vector or matrix from its bytes in the argument block; an empty array for a null array."""
    if isinstance(t, Array):
        return np.zeros((0,) * t.ndim, SCALARS[scalar_of(t.dtype).name].numpy)
    dtype = SCALARS[scalar_of(passed_type(t)).name].numpy
    if isinstance(t, Scalar):
        return np.frombuffer(part, dtype, 1)[0]
    shape: tuple[int, ...] = t.shape  # type: ignore[union-attr]
    return np.frombuffer(part, dtype, math.prod(shape)).reshape(shape)


@dataclass
class _Along:
    """A function of arrays as a program for :class:`Differences`: inputs and results are NumPy arrays."""

    function: Callable[..., Any]
    inputs: Sequence[Any]
    smooth: Sequence[int]

    def arrays(self, values: Sequence[Numbers]) -> list[Any]:
        """Return the inputs with other numbers in those that are differentiated for."""
        # On copies: the function may write its inputs, and is called at many points.
        given = [clone(a) if isinstance(a, array) else a for a in self.inputs]
        for k, numbers in zip(self.smooth, values, strict=True):
            given[k] = clone(given[k], requires_grad=True)
            given[k].assign(numbers.astype(given[k]._data.dtype))
        return given

    def results(self, given: Sequence[Any]) -> list[array]:
        """Call the function."""
        found = self.function(*given)
        results = list(found) if isinstance(found, (tuple, list)) else [found]
        if not all(isinstance(y, array) for y in results):
            raise MisuseError(
                f"gradcheck is of a function that returns an array or several, not {described(found)}",
                remedy="return the arrays that the function has computed",
            )
        return results

    def run(self, dim: Sequence[int], args: Sequence[Any], chunk: int | None = None) -> None:
        """Write the results of the first arguments into the others."""
        count = len(self.smooth)
        for place, result in zip(args[count:], self.results(self.arrays(args[:count])), strict=True):
            place[...] = result.numpy().reshape(place.shape)


@dataclass
class _Slopes(_Along):
    """The gradient of a projection of the results, as a program for :class:`Differences`."""

    weights: Sequence[Numbers]

    def run(self, dim: Sequence[int], args: Sequence[Any], chunk: int | None = None) -> None:
        """Write the gradients of the first arguments into the others."""
        count = len(self.smooth)
        given = self.arrays(args[:count])
        with Tape() as tape:
            results = self.results(given)
        tape.backward(grads=_seeds(results, self.weights))
        for place, k in zip(args[count:], self.smooth, strict=True):
            place[...] = given[k].grad.numpy().reshape(place.shape)


def _seeds(results: Sequence[array], weights: Sequence[Numbers]) -> dict[array, array]:
    seeds = {}
    for y, weight in zip(results, weights, strict=True):
        seeds[y] = clone(y)
        seeds[y].assign(weight.astype(y._data.dtype))
    return seeds


def check_differences(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    order: int,
    mode: str,
    tol: Tolerances,
    check_launches: Callable[[str, Tape], GradcheckReport],
) -> GradcheckReport:
    """Check a function: each launch by itself, then the whole in the types of its arrays.

    Raises
    ------
    GradientError
        If a derivative is wrong, or nothing was compared.
    """
    name = getattr(function, "__name__", "the function")
    smooth = [k for k, a in enumerate(inputs) if isinstance(a, array) and a._smooth]
    if not smooth:
        raise GradientError(f"gradcheck of {name!r} compared nothing: no input is an array that can have a gradient")
    along = _Along(function, inputs, smooth)
    values = [np.array(inputs[k].numpy(), np.float64) for k in smooth]
    given = along.arrays(values)
    with Tape() as tape:
        results = along.results(given)
    report = check_launches(name, tape)
    rng = np.random.default_rng(tol.seed)
    weights = [rng.uniform(-1.0, 1.0, y._data.shape) for y in results]
    tape.backward(grads=_seeds(results, weights))
    gradients = [np.array(given[k].grad.numpy(), np.float64) for k in smooth]
    # The launches are right one by one; what is left is how they are put together, by the tape and by the user.
    whole = _Whole(name, along, values, weights, [np.zeros(y._data.shape) for y in results], tol, rng)
    checked = whole.compare(along, whole.places, weights, gradients)
    if mode != "reverse":
        whole.compare_modes(gradients)
    if order == 2:
        whole.compare_second()
    return replace(report, checked=report.checked + checked, whole=checked)


@dataclass
class _Whole:
    """The comparisons of a whole function at a point."""

    name: str
    along: _Along
    values: list[Numbers]
    weights: list[Numbers]
    places: list[Numbers]
    tol: Tolerances
    rng: np.random.Generator

    def __post_init__(self) -> None:
        types = [self.along.inputs[k]._data.dtype for k in self.along.smooth]
        narrow = [t for t in types if t not in _ROUNDING]
        if narrow:
            raise MisuseError(
                f"gradcheck of a function takes arrays of float32 or float64, not {narrow[0]}",
                remedy="pass float64 arrays; differences of narrower floats say nothing",
            )
        self.rounding, self.step = max(_ROUNDING[t] for t in types), max(_STEPS[t] for t in types)
        # Differences in float32 are good to about three digits, for which the tolerances of float32 are made.
        self.rtol = self.tol.rtol if self.rounding < 1e-12 else self.tol.rtol32

    def differences(self, program: _Along, places: list[Numbers], weights: Sequence[Numbers]) -> Differences:
        """Return differences of a projection of the results that a program writes after the inputs."""
        first = len(self.values)
        projection = {first + k: w for k, w in enumerate(weights)}
        return Differences(program, (), [*self.values, *places], projection, self.step, self.rounding)

    def compare(
        self, program: _Along, places: list[Numbers], weights: Sequence[Numbers], gradients: Sequence[Numbers]
    ) -> int:
        """Compare gradients element by element; return how many there were."""
        comparison = Comparison(self.name, "central differences of the whole function", self.rtol)
        differences = self.differences(program, places, weights)
        every = [(n, index) for n, x in enumerate(self.values) for index in np.ndindex(x.shape)]
        for chosen in sorted(self.rng.permutation(len(every))[: self.tol.max_elements]):
            n, index = every[chosen]
            change = np.zeros(self.values[n].shape)
            change[index] = 1.0
            estimate = differences.along({n: change}, abs(float(self.values[n][index])))
            if not estimate.kink:
                analytic = float(gradients[n][index])
                comparison.add(self.label(n), index, analytic, estimate.value, self.tol.atol + estimate.error)
        comparison.finish("" if self.rounding < 1e-12 else _IN_FLOAT32)
        if not comparison.count:
            raise GradientError(f"gradcheck of {self.name!r} compared nothing: there is no element away from a kink")
        return comparison.count

    def label(self, n: int) -> str:
        """Return the name of an input in messages."""
        return f"input {self.along.smooth[n]}"

    def direction(self) -> list[Numbers]:
        """Return a random direction."""
        return [np.asarray(self.rng.uniform(-1.0, 1.0, x.shape)) for x in self.values]

    def changes(self, given: Sequence[Any], direction: Sequence[Numbers]) -> list[array]:
        """Return the change of the results along a direction, by forward mode."""
        smooth = dict(zip(self.along.smooth, direction, strict=True))
        primals = [given[k] for k in smooth]

        def of_smooth(*xs: array) -> Any:
            arguments = list(given)
            for k, x in zip(smooth, xs, strict=True):
                arguments[k] = x
            return tuple(self.along.results(arguments))

        tangents = [t.astype(x._data.dtype) for x, t in zip(primals, direction, strict=True)]
        _, found = jvp(of_smooth, tuple(primals), tuple(tangents))
        return list(found)

    def compare_modes(self, gradients: Sequence[Numbers]) -> None:
        """Compare forward mode with reverse mode."""
        direction = self.direction()
        changes = self.changes(self.along.arrays(self.values), direction)
        # <w, J t> = <J^T w, t>: both modes are exact, so no differences are needed.
        left = [float(np.sum(w * c.numpy())) for w, c in zip(self.weights, changes, strict=True)]
        right = [float(np.sum(g * t)) for g, t in zip(gradients, direction, strict=True)]
        comparison = Comparison(self.name, "reverse mode", self.rtol, "change (forward mode)")
        allowed = self.rtol * sum(map(abs, (*left, *right)))
        comparison.add("all results", (), math.fsum(left), math.fsum(right), allowed)
        comparison.finish()

    def compare_second(self) -> None:
        """Compare the gradient of the change along a direction with differences of gradients."""
        direction, along = self.direction(), self.along
        given = along.arrays(self.values)
        with Tape() as tape:
            changes = self.changes(given, direction)
        tape.backward(grads=_seeds(changes, self.weights))
        slopes = _Slopes(along.function, along.inputs, along.smooth, self.weights)
        comparison = Comparison(self.name, "central differences of gradients", self.rtol, "second derivative")
        moved = dict(enumerate(direction))
        for n, k in enumerate(along.smooth):
            found = given[k].grad.numpy()
            # The derivative of each gradient along the direction is a Hessian-vector product, which the gradient of the
            # directional derivative gives as a whole.
            for index in list(np.ndindex(self.values[n].shape))[: self.tol.max_elements]:
                units: list[Numbers] = [np.zeros(x.shape) for x in self.values]
                units[n][index] = 1.0
                estimate = self.differences(slopes, [np.zeros(x.shape) for x in self.values], units).along(moved)
                if not estimate.kink:
                    allowed = self.tol.atol + estimate.error
                    comparison.add(self.label(n), index, float(found[index]), estimate.value, allowed)
        comparison.finish()
