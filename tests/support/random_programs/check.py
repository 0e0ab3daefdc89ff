"""Is a random program right? Its results against the reference, its gradients against central differences and Python.

A program in ``float64`` is compared with central differences of itself, element by element and along random directions,
which is the dot-product test. One in ``float32`` is compared with its twin in ``float64``, which is checked first. What
is refused has to be refused by an error of diffkern's own.
"""

from __future__ import annotations

import contextlib
import re
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from unittest import mock

import numpy as np

import diffkern as dk
from diffkern.runtime.accumulate import adjoint_seeding, sequence_dce
from diffkern.runtime.records import zero_fill_elision
from diffkern.testing.differences import Differences, Estimate

from ..fuzz import load_module
from . import oracle
from .program import RandomProgram, random_program
from .reference import run_reference
from .refusals import accepted_overlap, silent_round_trip

__all__ = ["Verdict", "check"]

EPS = 1e-4
RTOL, ATOL = 1e-5, 1e-7
RTOL_SINGLE = 2e-3
ELEMENTS = 8
DIRECTIONS = 2
_REFERENCE_THREADS = 400
"""Programs of more threads are compared with the reference now and then only: it is slow."""


@dataclass(frozen=True)
class Verdict:
    """What became of a program.

    Attributes
    ----------
    outcome
        ``"right"``, ``"constant"`` (right, and said to depend on nothing that has a gradient, which was verified),
        ``"refused"``, ``"forward only"`` (right, but the gradient is refused), ``"wrong result"``,
        ``"wrong gradient"``, ``"error"``.
    reason
        Why it is not right.
    seconds
        Processor time of the longest compilation.
    compared, kinks
        Elements and directions that were compared, and those that lie too near a kink.
    by_python
        Directions along which plain Python on numbers with tangents was compared.
    no_tangents
        Why forward mode, or a derivative of it, is refused.
    """

    outcome: str
    reason: str = ""
    seconds: float = 0.0
    compared: int = 0
    kinks: int = 0
    no_tangents: str = ""
    by_python: int = 0

    @property
    def wrong(self) -> bool:
        """Whether something is wrong with diffkern."""
        return self.outcome in ("wrong result", "wrong gradient", "error")


class _WrongError(Exception):
    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


def _processor_time() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _fields(values: np.ndarray) -> list[np.ndarray]:
    """Views of the parts of an array that are floats."""
    parts = [values[name] for name in values.dtype.names] if values.dtype.names else [values]
    return [part for part in parts if part.dtype.kind == "f"]


def _set_floats(array: dk.array, number: float) -> None:
    """Set all floats of an array to a number."""
    values = array.numpy().copy()
    for part in _fields(values):
        part[...] = number
    array.assign(values)


@dk.kernel
def show(x, y):
    """One array as another."""
    i = dk.tid()
    y[i] = x[i]


@dk.kernel
def show_grid(x, y):
    """One array with two axes as another."""
    i, j = dk.tid()
    y[i, j] = x[i, j]


class _Run:
    """A program that is run again and again, from float64 numbers to float64 numbers.

    What can be changed are the floats of all arrays that have a gradient, one after the other; what comes out are the
    floats of all arrays that are written.
    """

    def __init__(self, program: RandomProgram, module: ModuleType) -> None:
        self.program, self.module = program, module
        self.start = program.state()
        self.values = program.values(module)
        self.written = sorted({name for step in program.steps for name in step.written})
        self.active = [name for name, array in program.arrays.items() if array.gradient]
        self.seconds = 0.0
        self.rng = np.random.default_rng(program.seed)

    def arrays(self, theta: np.ndarray | None = None, gradients: bool = False) -> dict[str, dk.array]:
        """The arrays at the start, or with other numbers."""
        state = {name: values.copy() for name, values in self.start.items()}
        if theta is not None:
            self._scatter(state, theta)
        return {name: self._array(name, values, gradients) for name, values in state.items()}

    def _array(self, name: str, values: np.ndarray, gradients: bool) -> dk.array:
        array = self.program.arrays[name]
        needs = gradients and array.gradient
        if values.dtype.names:
            return dk.array(values, dtype=self.module.Body, requires_grad=needs)
        if values.ndim > 1 and array.kind != "grid":
            wide = "d" if self.program.real == "float64" else ""
            return dk.array(values, dtype=getattr(dk, array.kind + wide), requires_grad=needs)
        return dk.array(values, requires_grad=needs)

    def _shown(self, weighed: dict[dk.array, np.ndarray]) -> dict[dk.array, dk.array]:
        """Arrays for a last launch to make of those that are written, with gradients for them; none of structs."""
        if any(values.dtype.names for values in weighed.values()):
            return {}
        shown = {dk.zeros_like(array): dk.empty_like(array) for array in weighed}
        for (made, seed), values in zip(shown.items(), weighed.values(), strict=True):
            made.requires_grad, seed.requires_grad = True, False
            seed.assign(values)
        return shown

    def _scatter(self, state: dict[str, np.ndarray], theta: np.ndarray) -> None:
        at = 0
        for name in self.active:
            for part in _fields(state[name]):
                part[...] = theta[at : at + part.size].reshape(part.shape)
                at += part.size

    def gather(self, state: dict[str, np.ndarray], names: list[str]) -> np.ndarray:
        """The floats of some arrays in one."""
        parts = [part.astype(np.float64).ravel() for name in names for part in _fields(state[name])]
        return np.concatenate(parts) if parts else np.zeros(0)

    def steps(self, arrays: dict[str, dk.array]) -> None:
        """Run the program's steps."""
        before = _processor_time()
        for step in self.program.steps:
            step.run(self.module, arrays, self.values)
        self.seconds = max(self.seconds, _processor_time() - before)

    def run(self, dim: object, args: list[np.ndarray], chunk: int | None = None) -> None:
        """As :class:`diffkern.testing.programs.GridProgram`: from the first argument to the second."""
        arrays = self.arrays(args[0])
        for step in self.program.steps:
            step.run(self.module, arrays, self.values)
        args[1][...] = self.gather({name: arrays[name].numpy() for name in self.written}, self.written)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """The gradient of a projection of what is written."""
        arrays = self.arrays(gradients=True)
        with dk.Tape() as tape:
            self.steps(arrays)
        before = _processor_time()
        tape.backward(grads=self._weighed(arrays, weights))
        self.seconds = max(self.seconds, _processor_time() - before)
        known = [name for name in self.active if arrays[name].grad._memory.is_zero]
        for name in known:
            if any(part.any() for part in _fields(arrays[name].grad.numpy())):
                raise _WrongError("wrong gradient", f"the gradient of {name} is taken for zero, and is not")
        return self.gather({name: arrays[name].grad.numpy() for name in self.active}, self.active)

    def replayed_gradient(self, weights: np.ndarray) -> np.ndarray:
        """The same by a recorded sequence, replayed from the same arrays, at first with other gradients and seeds."""
        arrays = self.arrays(gradients=True)
        weighed = self._weighed(arrays, weights)
        shown = self._shown(weighed) if self.program.seed % 8 == 5 else {}
        given = {} if shown else {array: dk.empty_like(array) for array in weighed}
        for seed in given.values():
            seed.requires_grad = False
            _set_floats(seed, 1.5)
        with dk.record() as sequence:
            with dk.Tape() as tape:
                for step in self.program.steps:
                    step.run(self.module, arrays, self.values)
                for array, made in zip(weighed, shown, strict=False):
                    dk.launch(show if array.ndim == 1 else show_grid, array.shape, [array, made])
            tape.zero()
            for array, seed in shown.items():
                dk.copy(array.grad, seed)
            tape.backward(grads=given or None)
        for others in (True, True, False):
            for name, array in arrays.items():
                array.assign(self.start[name])
                if others and array.grad is not None and array in tape.gradients:
                    _set_floats(array.grad, 3.0)
            for array, seed in given.items():
                if others:
                    _set_floats(seed, 2.0)
                else:
                    seed.assign(weighed[array])
            seeds = [seed.numpy().copy() for seed in shown.values()]
            sequence.replay()
            if any((seed.numpy() != before).any() for seed, before in zip(shown.values(), seeds, strict=True)):
                raise _WrongError("wrong gradient", "a replay has changed the array that a gradient is copied from")
        if any(array.grad.numpy().any() for array in shown):
            raise _WrongError("wrong gradient", "a gradient that an adjoint has taken is not zero")
        return self.gather({name: arrays[name].grad.numpy() for name in self.active}, self.active)

    def _along(self, direction: np.ndarray) -> dict[str, np.ndarray]:
        """What of a direction belongs to each array that has a gradient."""
        state = {name: np.zeros_like(self.start[name]) for name in self.active}
        self._scatter(state, direction)
        return state

    def change(self, direction: np.ndarray) -> np.ndarray:
        """How what is written changes along a direction, by forward mode."""
        arrays = self.arrays()
        with dk.Tangents({arrays[name]: t for name, t in self._along(direction).items()}) as tangents:
            self.steps(arrays)
        found = {name: tangents[arrays[name]].numpy() for name in self.written if _fields(self.start[name])}
        return self.gather(found, [name for name in self.written if name in found])

    def gradient_change(self, weights: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """How the gradient changes along a direction, by reverse mode over forward mode."""
        arrays = self.arrays(gradients=True)
        along = self._along(direction)
        with dk.Tape() as tape, dk.Tangents({arrays[name]: t for name, t in along.items()}) as tangents:
            self.steps(arrays)
        tape.backward(grads={tangents[held]: w for held, w in self._weighed(arrays, weights).items()})
        return self.gather({name: arrays[name].grad.numpy() for name in self.active}, self.active)

    def _weighed(self, arrays: dict[str, dk.array], weights: np.ndarray) -> dict[dk.array, np.ndarray]:
        """What of a projection belongs to each array that is written."""
        grads: dict[dk.array, np.ndarray] = {}
        at = 0
        for name in self.written:
            like = np.zeros_like(self.start[name])
            for part in _fields(like):
                part[...] = weights[at : at + part.size].reshape(part.shape)
                at += part.size
            if _fields(like):
                grads[arrays[name]] = like
        return grads


class _Gradient:
    """The gradient of a program as one that is run again and again."""

    def __init__(self, run: _Run, weights: np.ndarray) -> None:
        self.of, self.weights = run, weights

    def run(self, dim: object, args: list[np.ndarray], chunk: int | None = None) -> None:
        """From the first argument to the second."""
        state = {name: values.copy() for name, values in self.of.start.items()}
        self.of._scatter(state, args[0])
        before, self.of.start = self.of.start, state
        try:
            args[1][...] = self.of.gradient(self.weights)
        finally:
            self.of.start = before


def check(program: RandomProgram, directory: str) -> Verdict:
    """Run and check a program.

    Parameters
    ----------
    program
        The program.
    directory
        Where its source is written.
    """
    run: _Run | None = None
    try:
        run = _Run(program, load_module(program.source, directory))
        return _checked(run, directory)
    except _WrongError as wrong:
        return Verdict(wrong.outcome, str(wrong), run.seconds if run else 0.0)
    except dk.CompileError as error:
        return Verdict("error", str(error), run.seconds if run else 0.0)
    except dk.KernelError as error:
        return Verdict("refused", reason_of(error), run.seconds if run else 0.0)
    except Exception as error:
        return Verdict("error", f"{type(error).__name__}: {error}", run.seconds if run else 0.0)


def reason_of(error: Exception) -> str:
    """Why something is refused, without the names and numbers of one program."""
    text = str(error)
    if isinstance(error, dk.KernelError):
        text = getattr(error, "message", text)
    line = text.strip().splitlines()[0]
    line = re.sub(r"'[^']*'|\b(k|y|r|v|c|o|row|part)\d+\b|\b(total|placed|extreme)\b", "_", line)
    return re.sub(r"\(?\bline \d+\)?|\b\d+\b", "_", line)


def _checked(run: _Run, directory: str) -> Verdict:
    arrays = run.arrays()
    run.steps(arrays)
    _compare_results(run, {name: a.numpy() for name, a in arrays.items()})
    if reason := _accepted(run):
        raise _WrongError("error", reason)
    rng = np.random.default_rng(run.program.seed)
    size = run.gather(run.start, run.written).size
    weights = rng.uniform(-1.0, 1.0, size)
    try:
        gradient = run.gradient(weights)
    except dk.LaunchError as error:
        if "has a gradient" not in str(error):
            return Verdict("forward only", reason_of(error), run.seconds)
        zero = np.zeros(run.gather(run.start, run.active).size)
        compared, kinks = _compare_differences(run, zero, weights, rng, held=_sums(run))
        return Verdict("constant", "", run.seconds, compared, kinks)
    except dk.KernelError as error:
        return Verdict("forward only", reason_of(error), run.seconds)
    if run.program.seed % 4 == 1:
        with _always_folded():
            _compare_replayed(run, gradient, weights)
    if run.program.real == "float64":
        compared, kinks = _compare_differences(run, gradient, weights, rng)
        reason, further = _compare_forward(run, gradient, weights, rng)
        by_python = _compare_python(run, gradient, weights, rng)
        return Verdict("right", "", run.seconds, compared + further, kinks, reason, by_python)
    compared, kinks = _compare_twin(run, gradient, weights, directory, rng)
    return Verdict("right", "", run.seconds, compared, kinks)


def _accepted(run: _Run) -> str:
    """What of some programs was not refused and must be."""
    if run.program.seed % 8 == 3:
        return accepted_overlap(run.program, run.module, run.arrays(), run.values)
    return silent_round_trip(run) if run.program.seed % 8 == 7 else ""


@contextlib.contextmanager
def _always_folded() -> Iterator[None]:
    """Let sequences leave out what they can in the block, however little that is."""
    with (
        mock.patch.object(sequence_dce, "_LESS_WORK", np.inf),
        mock.patch.object(adjoint_seeding, "_WORK_PER_BYTE", np.inf),
        mock.patch.object(zero_fill_elision, "_LEAST", 1),
    ):
        yield


def _compare_replayed(run: _Run, gradient: np.ndarray, weights: np.ndarray) -> None:
    """Compare a recorded sequence with the tape; both run the same code but where the sequence leaves fills out."""
    found, rtol = run.replayed_gradient(weights), 1e-9 if run.program.real == "float64" else 1e-4
    bad = ~np.isclose(found, gradient, rtol=rtol, atol=rtol * (1.0 + np.abs(gradient).max(initial=0.0)), equal_nan=True)
    if bad.any():
        k = int(np.argmax(bad))
        raise _WrongError("wrong gradient", f"{_where(run, k)}: {found[k]:.9g} replayed, {gradient[k]:.9g} by the tape")


def _compare_forward(run: _Run, gradient: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> tuple[str, int]:
    """Compare forward mode with reverse mode and, of some programs, second derivatives with differences.

    Returns why there is no forward mode, or nothing, and how many directions were compared.
    """
    direction = rng.uniform(-1.0, 1.0, gradient.size)
    try:
        got = float(np.sum(weights * run.change(direction)))
    except (dk.AutodiffError, dk.LaunchError) as error:
        return reason_of(error), 0
    parts = gradient * direction
    if not np.isclose(got, parts.sum(), rtol=1e-7, atol=1e-9 * (1.0 + np.abs(parts).sum()), equal_nan=True):
        raise _WrongError("wrong gradient", f"forward mode says {got:.9g}, reverse mode {parts.sum():.9g}")
    if run.program.seed % 3 or not np.isfinite(got):
        return "", 1
    try:
        change = run.gradient_change(weights, direction)
    except (dk.AutodiffError, dk.LaunchError) as error:
        return f"second order: {reason_of(error)}", 1
    other = rng.uniform(-1.0, 1.0, gradient.size)
    theta, out = run.gather(run.start, run.active), np.zeros(gradient.size)
    differences = Differences(_Gradient(run, weights), (), [theta, out], {1: other}, EPS)
    if differences.not_finite() is not None:
        return "", 1
    got = float(np.sum(other * change))
    estimate = differences.along({0: direction}, agrees=lambda e: _agree(got, e))
    if not estimate.kink and not _agree(got, estimate):
        raise _WrongError("wrong gradient", f"second order: {got:.9g}, differences say {estimate.value:.9g}")
    return "", 1 + (not estimate.kink)


def _compare_python(run: _Run, gradient: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> int:
    """Compare the gradient with the change along a direction by plain Python; return whether that was done.

    It is not where rounding has grown, so that Python's own numbers are others.
    """
    if oracle.threads_of(run.program) > oracle.MOST_THREADS:
        return 0
    direction = rng.uniform(-1.0, 1.0, gradient.size)
    ends, changes = oracle.along(run.program, run.values, run.start, run._along(direction))
    arrays = run.arrays()
    run.steps(arrays)
    if any(_differ(arrays[name].numpy(), ends[name], 1e-9).any() for name in run.written):
        return 0
    got, parts = float(np.sum(weights * run.gather(changes, run.written))), gradient * direction
    if not np.isclose(got, parts.sum(), rtol=1e-7, atol=1e-9 * (1.0 + np.abs(parts).sum()), equal_nan=True):
        raise _WrongError("wrong gradient", f"plain Python says {got:.9g}, reverse mode {parts.sum():.9g}")
    return 1


def _compare_results(run: _Run, found: dict[str, np.ndarray]) -> None:
    if run.program.extents.threads > _REFERENCE_THREADS and run.program.seed % 4:
        return
    single = run.program.real == "float32"
    rtol = 1e-3 if single else 1e-9
    expected = _expected(run, 0.0)
    wrong = {name: _differ(found[name], values, rtol) for name, values in expected.items()}
    if any(bad.any() for bad in wrong.values()):
        # Rounding may grow, as it does in a loop that is chaotic: how much, other roundings of the arguments tell.
        for _ in range(2):
            other = _expected(run, 3e-7 if single else 1e-14)
            for name in wrong:
                wrong[name] &= ~_differ(other[name], expected[name], 1e-3 * rtol)
    for name, bad in wrong.items():
        # In float32 now and then a comparison goes the other way.
        if bad.any() and not (single and bad.mean() < 0.02):
            at = tuple(int(k) for k in np.argwhere(bad)[0])
            want, got = expected[name][at], found[name][at]
            raise _WrongError("wrong result", f"{name}{list(at)} is {got!r}, not {want!r} ({bad.sum()} differ)")


def _expected(run: _Run, rounding: float) -> dict[str, np.ndarray]:
    """What the reference leaves in the arrays, which begin with other roundings of their contents."""
    expected = {name: values.copy() for name, values in run.start.items()}
    if rounding:
        for values in expected.values():
            for part in _fields(values):
                part *= 1.0 + rounding * run.rng.uniform(-1.0, 1.0, part.shape)
    run_reference(run.program, run.module, expected)
    return expected


def _differ(found: np.ndarray, expected: np.ndarray, tolerance: float) -> np.ndarray:
    """For each element of an array, or of its first axes, whether anything in it differs."""
    if expected.dtype.names:
        fields = [_differ(found[name], expected[name], tolerance) for name in expected.dtype.names]
        return np.logical_or.reduce([f.reshape(len(f), -1).any(axis=1) for f in fields])
    return ~np.isclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def _where(run: _Run, position: int) -> str:
    for name in run.active:
        size = sum(part.size for part in _fields(run.start[name]))
        if position < size:
            return f"{name} (number {position} of {size})"
        position -= size
    raise IndexError(position)


def _sums(run: _Run) -> np.ndarray:
    """Where a written array of one element has its number: a tape does not count what a sum began with as its cause."""
    parts = [(name in run.written, part.size) for name in run.active for part in _fields(run.start[name])]
    return np.concatenate([np.zeros(0, bool), *(np.full(size, written and size == 1) for written, size in parts)])


def _compare_differences(
    run: _Run, gradient: np.ndarray, weights: np.ndarray, rng: np.random.Generator, held: np.ndarray | None = None
) -> tuple[int, int]:
    """Compare a gradient with differences; the numbers in `held` are not changed."""
    theta = run.gather(run.start, run.active)
    out = np.zeros(weights.size)
    differences = Differences(run, (), [theta, out], {1: weights}, EPS)
    if differences.not_finite() is not None:
        return 0, 1
    compared = kinks = 0
    directions: list[tuple[str, np.ndarray]] = []
    for k in rng.permutation(theta.size)[:ELEMENTS]:
        unit = np.zeros(theta.size)
        unit[k] = 1.0
        directions.append((_where(run, int(k)), unit))
    directions += [(f"direction {k}", rng.uniform(-1.0, 1.0, theta.size)) for k in range(DIRECTIONS)]
    for where, direction in directions:
        if held is not None:
            direction = np.where(held, 0.0, direction)
        got = float(np.sum(gradient * direction))
        estimate = differences.along({0: direction}, agrees=lambda e, got=got: _agree(got, e))
        if not estimate.kink and not _agree(got, estimate):
            raise _WrongError(
                "wrong gradient", f"{where}: {got:.9g}, differences say {estimate.value:.9g} +- {estimate.error:.1g}"
            )
        kinks += estimate.kink
        compared += not estimate.kink
    return compared, kinks


def _agree(got: float, estimate: Estimate) -> bool:
    allowed = RTOL * max(abs(estimate.value), abs(got)) + 4 * estimate.error + ATOL
    return abs(got - estimate.value) <= allowed


def _compare_twin(
    run: _Run, gradient: np.ndarray, weights: np.ndarray, directory: str, rng: np.random.Generator
) -> tuple[int, int]:
    program = random_program(run.program.seed, "float64")
    twin = _Run(program, load_module(program.source, directory))
    wide = twin.gradient(weights)
    compared, kinks = _compare_differences(twin, wide, weights, rng)
    allowed = RTOL_SINGLE * (np.max(np.abs(wide), initial=0.0) + 1.0)
    bad = ~(np.abs(gradient - wide) <= allowed)
    if not bad.any():
        return compared + wide.size, kinks
    # Where the gradient itself changes as much under changes as small as rounding, nothing can be said. Sums of
    # constants are rounded too, so numbers that have no gradient are changed as well.
    theta = twin.gather(twin.start, twin.active)
    for _ in range(3):
        moved = _Run(program, twin.module)
        moved._scatter(moved.start, theta * (1.0 + 3e-6 * rng.uniform(-1.0, 1.0, theta.size)))
        change = 1.0 + 3e-6 * rng.choice([-1.0, 1.0])
        moved.values = {name: v * change if isinstance(v, float) else v for name, v in moved.values.items()}
        bad &= np.abs(moved.gradient(weights) - wide) <= 0.1 * allowed
    if bad.any() and kinks == 0:
        k = int(np.argmax(bad))
        raise _WrongError("wrong gradient", f"{_where(run, k)}: {gradient[k]:.9g} in float32, {wide[k]:.9g} in float64")
    return compared, kinks + 1
