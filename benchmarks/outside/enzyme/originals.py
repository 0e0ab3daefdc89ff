"""What results are compared with: original programs, built with the compiler that is there, and differences."""

from __future__ import annotations

import resource
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import diffkern as dk

CHANGES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
FLAGS = ("-O3", "-march=native")
_TIMES = 20
_SMALL = ("-m", "event", "-s", "small", "-t", "1")


def built(compiler: str, sources: Sequence[Path], flags: Sequence[str], program: Path) -> bool:
    """Compile and link a program; return whether there is a compiler."""
    if shutil.which(compiler) is None:
        return False
    subprocess.run([compiler, *FLAGS, *flags, *map(str, sources), "-o", str(program), "-lm"], check=True)
    return True


def processor_time(command: Sequence[str], **options: Any) -> float:
    """Run a program to its end and return the processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def lookup_seconds(folder: Path, lookups: int) -> dict[str, float]:
    """Measure a program of lookups, as the difference from a run with one lookup, and return seconds by its name.

    The median of such differences is returned, as of our runs: the least would be that of the quietest moment.
    """
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "lookups"
        if not built("gcc", sorted(folder.glob("*.c")), ("-std=gnu99", "-flto", "-fopenmp", "-DOPENMP"), program):
            return {}

        def seconds(count: int) -> float:
            return processor_time([str(program), *_SMALL, "-l", str(count)])

        # The system counts in ticks of some milliseconds, of which a short run has few.
        return {"gcc": statistics.median(seconds(_TIMES * lookups) - seconds(1) for _ in range(5)) / _TIMES}


def difference_of(found: Any, expected: Any) -> float:
    """Return the largest difference, relative to the largest element."""
    return float(np.max(np.abs(np.asarray(found) - expected)) / np.max(np.abs(expected)))


def against_differences(program: Any, arrays: Sequence[Any]) -> float:
    """Compare both modes with central differences of the sum of a program's results, along a random direction.

    Of the changes, the one counts that agrees best, as each has its own rounding.

    Parameters
    ----------
    program
        A program with ``launch``: a kernel, dimensions, inputs and an array of outputs.
    arrays
        Its inputs that have gradients, in float64.

    Returns
    -------
    float
        The largest difference from the gradient, relative to the derivative.
    """
    random = np.random.default_rng(3)
    program.gradient()
    (results,) = program.launch[3]
    tangents = {array: dk.zeros_like(array) for array in arrays}
    moved, slope = [], 0.0
    for array, tangent in tangents.items():
        for values, gradient, change in floats_of(array, array.grad, tangent):
            at = values.numpy().copy()
            direction = at * random.uniform(-1.0, 1.0, at.shape)
            change.assign(direction)
            moved.append((values, at, direction))
            slope += float(np.vdot(gradient.numpy(), direction).real)
    with dk.Tangents(tangents) as propagated:
        dk.launch(*program.launch)
    differences = [float(np.sum(propagated[results].numpy())) - slope]

    def total(step: float) -> float:
        for values, at, direction in moved:
            values.assign(at + step * direction)
        program.primal()
        return float(np.sum(results.numpy()))

    def derivative(h: float) -> float:
        return (8.0 * (total(h) - total(-h)) - (total(2.0 * h) - total(-2.0 * h))) / (12.0 * h)

    differences.append(min((derivative(h) - slope for h in CHANGES), key=abs))
    total(0.0)
    return max(map(abs, differences)) / abs(slope)


def floats_of(*alike: Any) -> list[tuple[Any, ...]]:
    """Return arrays of one type as they are, or the fields of structs that are floats or complex numbers."""
    names = alike[0].numpy().dtype.names or ("",)
    fields = [tuple(array.field(name) if name else array for array in alike) for name in names]
    return [each for each in fields if each[0].numpy().dtype.kind in "fc"]
