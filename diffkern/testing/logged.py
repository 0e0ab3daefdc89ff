"""The log of a function that overwrites values that its adjoint needs, for checks that run programs without a launch.

:class:`LoggedRun` takes the loads whose values are logged, and the arguments of a run, and returns the arrays of the
log, filled by the function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from diffkern.ad.load_log import Overwritten
from diffkern.compiler.pipeline import optimise
from diffkern.ir.nodes import Function
from diffkern.testing.programs import GridProgram

__all__ = ["LoggedRun"]


class LoggedRun:
    """The function with its log, ready to run.

    Parameters
    ----------
    found
        The loads.
    active
        The parameters to differentiate for.
    engine
        The callable that makes a function executable.
    """

    def __init__(self, found: Overwritten, active: Collection[int], engine: Callable[[Function], GridProgram]) -> None:
        self._log = found.log(active)
        self._axes = found.base.tid_arity
        self._writing = optimise(found.writing())
        self._counting = None if self._log.calls is not None else optimise(found.counting()[0])
        self.use(engine)

    def use(self, engine: Callable[[Function], GridProgram]) -> None:
        """Use another engine."""
        self._write = engine(self._writing)
        self._count = None if self._counting is None else engine(self._counting)

    def run(self, dim: Sequence[int], args: Sequence[Any], chunk: int | None) -> list[Any]:
        """Run the function; return the arrays of its log."""
        threads = math.prod(dim[: self._axes])
        element = np.dtype(self._log.type)
        # With a known number of entries a thread's log is a slice of a fixed size; otherwise a first run counts them.
        if self._log.calls is not None:
            log = [np.zeros(threads * self._log.calls, element)]
        else:
            log = self._sized(dim, args, element, threads)
        self._write.run(dim, [*args, *log], chunk)
        return log

    def _sized(self, dim: Sequence[int], args: Sequence[Any], element: np.dtype[Any], threads: int) -> list[Any]:
        """Return the arrays of a log whose size is counted first, on copies."""
        assert self._count is not None
        counts = np.zeros(threads, np.int64)
        # The counting run executes the kernel too, and must not change the arrays of the run that follows.
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        self._count.run(dim, [*copies, counts], None)
        ends = np.cumsum(counts)
        begins = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        return [np.zeros(int(ends[-1]) if threads else 0, element), begins]
