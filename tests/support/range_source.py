"""Loops of the table of ranges, run as source text: the one that a person reads, or numba-cuda kernels.

In: a type, a form, and what runs functions of the IR. Out: what came out beside what Python's integers give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from diffkern.compiler import pipeline
from diffkern.contracts.options import FORWARD, Variant
from diffkern.frontend.statements import lowering
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function
from diffkern.testing.gradcheck import Vjp

from .range_cases import Case, Group, cases_of, expected
from .range_kernels import kernel_of

__all__ = ["SourceRun"]

_X, _Y, _TRIPS = 4, 5, 6


class SourceRun:
    """Some cases of a form: source runs a thousand times slower than code, so there are few, and few trips."""

    def __init__(self, type_: str, form: str, variant: Variant = FORWARD, count: int = 5) -> None:
        kernel = kernel_of(Group("native", type_, form, "elements", "forward", False))
        self.fn: Function = lowering.lower(kernel.func, kernel.argument_types())
        self.variant = variant
        self.cases: list[Case] = [c for c in cases_of(type_, form) if expected(c)[1] <= 20][:count]
        columns = [np.array([getattr(c, k) for c in self.cases], type_) for k in ("start", "stop", "step")]
        n = len(self.cases)
        limit, x = np.array([c.limit for c in self.cases], np.int32), np.array([c.x for c in self.cases])
        self.arguments = [*columns, limit, x, np.zeros(n), np.zeros(n, np.int32)]

    def compared(
        self, engine: Callable[[Function], Any], prepare: Callable[..., Any] | None = None
    ) -> Iterator[tuple[str, Any, Any]]:
        """Run forward and adjoint; what it is, what came out, what had to."""
        n = len(self.cases)
        sums, trips, derivatives = (np.array(column) for column in zip(*map(expected, self.cases), strict=True))
        found = [np.copy(a) for a in self.arguments]
        engine(pipeline.optimise(clone_function(self.fn))).run((n,), found)
        yield "the sum", found[_Y], sums
        yield "the trips", found[_TRIPS], trips
        vjp = Vjp(self.fn, lambda _: None, variant=self.variant)
        if prepare is not None:
            prepare(vjp.adjoint.fn, vjp.adjoint.buffers, vjp.adjoint.conflicts)
        point = vjp.arguments([np.copy(a) for a in self.arguments])
        weights = vjp.weights(point, np.random.default_rng(3))
        gradients = vjp.running(engine, engine).gradients((n,), point, weights)
        yield "the gradient", gradients[_X], derivatives * weights[_Y] + weights[_X]
