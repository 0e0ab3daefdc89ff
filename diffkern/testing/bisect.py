"""The line with a wrong derivative: the first value whose change by forward mode disagrees with differences.

:func:`bisect_gradient` takes a kernel with its launch and returns the first such value, with its line and thread, or
None. The kernel logs every number that it computes. That makes the log an array that it writes, so that the kernel in
forward mode logs how each number changes along a direction; it is compared with the change of the logged numbers when
the arguments are moved. All values computed before the first disagreement are right, so the operation there is the one
with the wrong derivative. If forward mode is right, reverse mode is examined (:mod:`diffkern.testing.bumps`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import Any, Final

import numpy as np

from diffkern.analysis.blocks import is_simt
from diffkern.compiler import pipeline
from diffkern.errors import AutodiffError, Loc
from diffkern.ir.nodes import Op
from diffkern.ir.ops.memory import ATOMICS
from diffkern.ir.ops.scalar import LITERALS
from diffkern.ir.types import Array, Mat, Scalar, Vec, scalar_of
from diffkern.kernels.kernel import Kernel
from diffkern.opt.widen import widen
from diffkern.process.dataclass import dataclass
from diffkern.process.tracebacks import brief
from diffkern.runtime.launch.kernel_protocol import check_kernel
from diffkern.testing.bumps import last_wrong
from diffkern.testing.comparison import Tolerances
from diffkern.testing.instruments import SITE, THREAD, EventLogger, LoggingFunction, as_coordinates
from diffkern.testing.programs import CompiledFunction, as_argument, as_double, leaf_values
from diffkern.testing.tangents import tangent_function

__all__ = ["WrongDerivative", "bisect_gradient"]

Numbers = np.ndarray[Any, Any]
_AGREE: Final = 1e-4
_ROUNDING: Final = 1e-14


@dataclass(frozen=True, slots=True)
class WrongDerivative:
    """The first value of a launch whose derivative is wrong.

    Attributes
    ----------
    kernel
        The kernel's name.
    thread
        The index of the thread.
    value
        The name of the value: a variable, or the result of an operation; with a component of a vector.
    by
        In reverse mode, the operand with respect to which it is differentiated; empty in forward mode.
    analytic, numeric
        In forward mode the change along a random direction, in reverse mode the cotangent of that operand; and the same
        by differences.
    loc
        The place in the source.
    """

    kernel: str
    thread: tuple[int, ...]
    value: str
    by: str
    analytic: float
    numeric: float
    loc: Loc | None

    def __str__(self) -> str:
        thread = self.thread[0] if len(self.thread) == 1 else self.thread
        where = f"kernel {self.kernel!r}, thread {thread}: the derivative of {self.value}"
        if self.by:
            text = f"{where} by {self.by} is wrong in reverse mode, all behind it right: with it the cotangent is "
        else:
            text = f"{where} is wrong, all before it right: along a random direction it changes by "
        text += f"{self.analytic:.9g}, by differences {self.numeric:.9g}"
        return text if self.loc is None else f"{self.loc}: {text}\n{self.loc.excerpt()}"


@brief
def bisect_gradient(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[Any],
    outputs: Sequence[Any] = (),
    *,
    eps: float = 1e-4,
    rtol: float = 1e-4,
    seed: int = 0,
    block_dim: int | None = None,
    max_numbers: int = 10_000_000,
) -> WrongDerivative | None:
    """Return the first value in a launch whose derivative is wrong; the arguments are not changed.

    Forward mode is followed from the beginning of the launch. If all is right there, or there is no forward mode,
    reverse mode is followed from the end, in some of the threads: in loops through their last trips. Values at kinks
    and jumps are skipped. A derivative of a func by :func:`diffkern.func_grad` is examined as a whole: the result names
    the line of the call.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    dim : int or sequence of int
        The launch's dimensions.
    inputs, outputs : sequence
        The arguments, as for a launch.
    eps : float, optional
        Step of the differences.
    rtol : float, optional
        How far a derivative may be from the differences, relative to them.
    seed : int, optional
        The seed of the direction.
    block_dim : int, optional
        Threads of a block, where they work together; the kernel's own number by default.
    max_numbers : int, optional
        How many numbers may be logged, of 40 bytes each.

    Returns
    -------
    WrongDerivative or None
        None if all derivatives agree.

    Raises
    ------
    AutodiffError
        If the kernel cannot be differentiated.
    MisuseError
        If there are more numbers than allowed.
    """
    check_kernel(kernel)
    given = (*inputs, *outputs)
    dims = tuple(dim) if isinstance(dim, Sequence) else (dim,)
    fn = pipeline.lower_kernel(kernel.func, kernel.argument_types(*given), kernel.variant)
    leaves = [leaf for a, p in zip(given, kernel.parameters, strict=True) for leaf in leaf_values(a, p.annotation)]
    args = [as_double(p.type, a) for p, a in zip(fn.params, leaves, strict=True)]
    # In float64, or rounding would hide a derivative that is slightly wrong.
    wide = widen(fn)
    threads = (block_dim or kernel.block_dim) if is_simt(wide) else 1
    point = [as_argument(p.type, a) for p, a in zip(wide.params, args, strict=True)]
    launch = _Launch(
        kernel.name, LoggingFunction(wide, dims, _log_numbers, 1, threads), dims, point, threads, seed, max_numbers
    )
    try:
        found = launch.first_wrong(eps, rtol)
    except AutodiffError:  # only in forward mode
        found = None
    if found is not None:
        return found
    engine = partial(CompiledFunction, block_dim=threads)
    tolerances = Tolerances(eps, rtol, seed=seed)
    wrong = last_wrong(wide, dims, point, engine, kernel.variant, tolerances)
    if wrong is None:
        return None
    use = wrong.use
    value, by = _called(use.op, use.component), use.operand.name or "an operand"
    return WrongDerivative(kernel.name, wrong.thread, value, by, wrong.analytic, wrong.numeric, use.op.loc)


def _log_numbers(recorder: EventLogger, op: Op) -> None:
    """Log each component of an op's results."""
    # They return the value from before, which depends on the order of the threads.
    if op.name in ATOMICS:
        return
    for result in op.results:
        if isinstance(result.type, (Scalar, Vec, Mat)) and scalar_of(result.type).is_float and op.name not in LITERALS:
            for k, part in enumerate(recorder.b.components(result)):
                recorder.log(op, [recorder.b.i32(k)], part)


@dataclass
class _Launch:
    """A launch whose numbers are logged, at a point and near it."""

    name: str
    logged: LoggingFunction
    dims: tuple[int, ...]
    point: Sequence[Any]
    block_dim: int
    seed: int
    most: int
    direction: dict[int, Any] = field(default_factory=dict)

    def first_wrong(self, eps: float, rtol: float) -> WrongDerivative | None:
        """Return the first number whose change is wrong."""
        # Differentiating the function that logs makes the log an output: its tangent is what forward mode says of every
        # number.
        forward, active = tangent_function(self.logged.fn)
        own, rng = len(self.point), np.random.default_rng(self.seed)
        self.direction = {k: rng.uniform(-1.0, 1.0, np.shape(self.point[k])) for k in active if k < own}
        base = self.logged.run(self.point, self.most)
        found = self._changes(forward, active, len(base.rows))
        # Two steps in both directions: their disagreement tells kinks from derivatives.
        moved = [self.logged.run(self._moved(h), self.most) for h in (eps, -eps, eps / 2, -eps / 2)]
        # Behind a branch that is taken differently, the logs are of different operations.
        same = _common([base.rows, *(events.rows for events in moved)])
        estimate, allowed = _differences(base.numbers[:same], [e.numbers[:same] for e in moved], eps)
        with np.errstate(all="ignore"):
            wrong = np.abs(found[:same] - estimate) > allowed + rtol * np.abs(estimate)
        # In the order of execution, so the first is the operation that is wrong and not one that uses its result.
        for k in np.flatnonzero(wrong):
            row = base.rows[k]
            op = self.logged.sites[int(row[SITE])]
            thread = as_coordinates(int(row[THREAD]), self.dims)
            return WrongDerivative(self.name, thread, _called(op, int(row[-1])), "", found[k], estimate[k], op.loc)
        return None

    def _changes(self, forward: Any, active: Sequence[int], room: int) -> Numbers:
        """Return the change of each number along the direction, by forward mode."""
        arrays = self.logged.arrays(room)
        log = len(self.point) + 2
        # The tangents of the log are the result, and start as zeros; those of the arguments are the direction.
        tangents = {k: np.zeros(room) if k == log else self.direction[k] for k in active}
        given: list[Any] = [np.array(t) if np.ndim(t) else np.float64(t) for t in tangents.values()]
        program = CompiledFunction(pipeline.optimise(forward), self.block_dim)
        copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in self.point]
        program.run(self.dims, [*copies, *arrays, *given])
        return np.asarray(given[list(tangents).index(log)])

    def _moved(self, step: float) -> list[Any]:
        """Return the arguments, moved along the direction."""
        args = list(self.point)
        for k, change in self.direction.items():
            moved = args[k] + step * change
            args[k] = moved if isinstance(args[k], np.ndarray) else np.float64(moved)
        return args


def _common(logs: Sequence[Numbers]) -> int:
    """Return the number of events that all logs have in common at their start: after it a thread took another way."""
    count = min(map(len, logs))
    differs = np.zeros(count, bool)
    for rows in logs[1:]:
        differs |= np.any(rows[:count] != logs[0][:count], axis=1)
    return int(np.argmax(differs)) if differs.any() else count


def _differences(base: Numbers, moved: Sequence[Numbers], h: float) -> tuple[Numbers, Numbers]:
    """Return central differences of two steps, extrapolated, and their possible error, which is infinite at a kink."""
    with np.errstate(all="ignore"):
        up, down, half_up, half_down = (numbers - base for numbers in moved)
        wide, narrow = (up - down) / (2 * h), (half_up - half_down) / h
        bend, half_bend = (up + down) / h, 2 * (half_up + half_down) / h
        # Rounding errors of any earlier number may have reached this one, so the largest number so far sets the noise.
        noise = _ROUNDING * np.maximum(np.maximum.accumulate(np.nan_to_num(np.abs(base), posinf=0.0)), 1.0) / h
        size = np.maximum(np.abs(narrow), 1e-2)
        apart = np.abs(wide - narrow)
        kink = ~np.isfinite(apart) | (apart > _AGREE * size + 8 * noise)
        kink |= (np.abs(half_bend) > 0.75 * np.abs(bend)) & (np.abs(half_bend) > 1e-5 * size + 16 * noise)
        # Richardson extrapolation: the error of the central difference is of order h², so half the step has a quarter
        # of it.
        return narrow + (narrow - wide) / 3, np.where(kink, np.inf, 0.1 * apart + 4 * noise + 1e-8)


def _called(op: Op, component: int) -> str:
    """Return the name of a number in messages."""
    array = op.operands[0] if op.operands and isinstance(op.operands[0].type, Array) else None
    if not op.results:
        return f"an element of {array.name}" if array is not None else op.name
    result = op.results[0]
    if result.name:
        name = result.name
    elif op.name == "ruled":
        name = "what a func returns that has a rule"
    else:
        name = f"an element of {array.name}" if array is not None else f"the result of {op.name}"
    return name if isinstance(result.type, Scalar) else f"component {component} of {name}"
