"""Forward mode against reverse mode on all kernels of the corpus, and second derivatives against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.selection import one_in

from diffkern.ad.forward import with_tangents
from diffkern.compiler import pipeline
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function
from diffkern.ir.types import is_differentiable
from diffkern.kernels.kernel import Kernel
from diffkern.opt.widen import widen
from diffkern.testing.gradcheck import Tolerances, Vjp, check_vjp
from diffkern.testing.programs import CompiledFunction, as_double

from .build import values
from .cases import Case
from .corpus import CASES

INFINITE = {"functions.zero_to_a_power"}
"""Cases at a point where the first derivative is infinite."""


def tangents_of(fn: Function) -> tuple[Function, tuple[int, ...]]:
    active = tuple(k for k, p in enumerate(fn.params) if is_differentiable(p.type))
    types = [p.type for p in fn.params]
    return with_tangents(fn, types, [(k, types[k]) for k in active], pipeline.FUNCS.tools), active  # type: ignore[arg-type]


def in_double(case: Case) -> tuple[Function, list[Any]]:
    types = Kernel(case.function).argument_types(*values(case))
    fn = widen(pipeline.lower_kernel(case.function, types))
    return fn, [as_double(p.type, a) for p, a in zip(fn.params, values(case), strict=True)]


def drawn(fn: Function, active: tuple[int, ...], point: list[Any], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1.0, 1.0, np.shape(point[k])) for k in active]


@pytest.mark.parametrize("name", sorted(CASES))
def test_along_tangents(name: str) -> None:
    """``<w, J t>`` by forward mode is ``<J^T w, t>`` by reverse mode, to rounding; results are the kernel's own."""
    case = CASES[name]
    fn, given = in_double(case)
    forward, active = tangents_of(fn)
    vjp = Vjp(fn, **case.options)
    point = vjp.arguments(given)
    weights = vjp.weights(point, np.random.default_rng(5))
    gradients = vjp.gradients(case.dim, point, weights)
    tangents = drawn(fn, active, point, 6)
    after, changes = vjp.arguments(given), [np.array(t) if np.ndim(t) else float(t) for t in tangents]
    CompiledFunction(pipeline.optimise(clone_function(forward))).run(case.dim, [*after, *changes])
    primal = vjp.arguments(given)
    vjp.primal_program.run(case.dim, primal)
    for one, other in zip(after, primal, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)
    position = {k: i for i, k in enumerate(active)}
    left = sum(float(np.sum(w * changes[position[k]])) for k, w in weights.items())
    parts = [float(np.sum(gradients[k] * tangents[position[k]])) for k in active]
    assert left == pytest.approx(sum(parts), rel=1e-9, abs=1e-11 * (1 + sum(map(abs, parts))))


@pytest.mark.parametrize("name", one_in(3, sorted(CASES)))
def test_second_derivatives(name: str) -> None:
    """The adjoint of forward mode against differences of forward mode."""
    case = CASES[name]
    fn, given = in_double(case)
    forward, active = tangents_of(fn)
    vjp = Vjp(forward, **case.options)
    point = vjp.arguments([*given, *drawn(fn, active, given, 8)])
    if case.numeric:
        check_vjp(vjp, case.dim, point, Tolerances(max_elements=6, rtol=1e-4))
    else:  # at a kink or the end of a domain
        gradients = vjp.gradients(case.dim, point, vjp.weights(point, np.random.default_rng(9)))
        for k, gradient in gradients.items():
            assert name in INFINITE or np.isfinite(gradient).all(), vjp.names[k]
