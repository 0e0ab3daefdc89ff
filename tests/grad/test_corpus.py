"""Kernels with control flow and mutation: gradients against central differences, precisions, spellings, conflicts."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from support.clashes import ClashCollector, undeclared

from diffkern.ir.nodes import walk
from diffkern.ir.ops.memory import ATOMICS, STORES
from diffkern.testing.gradcheck import Tolerances, Vjp, check_vjp, compare_precisions
from diffkern.testing.programs import Interpreted, as_double

from .build import lower, values, widened_vjp
from .cases import Case
from .corpus import CASES

CONTROL_FLOW = ("for ", "while ", "if ", "where(", "return\n")
TOO_LONG_FOR_PYTHON = {"loops.long_contraction"}


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name: str) -> None:
    case = CASES[name]
    fn = lower(case)
    vjp = widened_vjp(fn, case)
    point = vjp.arguments([as_double(t, a) for t, a in zip(vjp.types, values(case), strict=True)])
    if case.numeric:
        report = check_vjp(vjp, case.dim, point, Tolerances(max_elements=40))
        assert not report.kinks, report
    for parameter, expected in case.expect.items():
        check_exactly(vjp, case, point, parameter, expected)
    own = Vjp(fn, **case.options)
    compare_precisions(own, vjp, case.dim, own.arguments(values(case)), Tolerances(rtol32=case.rtol32))
    if name not in TOO_LONG_FOR_PYTHON:
        check_python_and_conflicts(vjp, case, point)
    if not {c.kind for c in vjp.adjoint.conflicts} & {"general", "bounded"}:
        check_chunks(vjp, case, point)


def check_exactly(vjp: Vjp, case: Case, point: list[Any], parameter: str, expected: Any) -> None:
    """At a kink differences cannot tell; there the conventions say what the gradient of the sum of results is."""
    written = {op.operands[0].name for op in walk(vjp.fn.body) if op.name in STORES | ATOMICS}
    arrays = vjp.weights(point, np.random.default_rng(0))
    weights = {i: np.full_like(w, vjp.names[i] in written) for i, w in arrays.items()}
    found = vjp.gradients(case.dim, point, weights)[vjp.names.index(parameter)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0.0)


def check_python_and_conflicts(vjp: Vjp, case: Case, point: list[Any]) -> None:
    """The readable spelling computes the same, and threads meet only where the analysis says so."""
    weights = vjp.weights(point, np.random.default_rng(1))
    expected = vjp.gradients(case.dim, point, weights)
    collector = ClashCollector()
    spelled = vjp.running(Interpreted, lambda fn: Interpreted(fn, collector))
    found = spelled.gradients(case.dim, point, weights)
    for i, gradient in expected.items():
        np.testing.assert_allclose(found[i], gradient, rtol=1e-9, atol=1e-11, err_msg=vjp.names[i])
    clashes = undeclared(collector, vjp.declared_conflicts(), case.dim)
    assert not clashes, "\n".join(map(str, clashes[:5]))


def check_chunks(vjp: Vjp, case: Case, point: list[Any]) -> None:
    """Cutting the launch into chunks (partial sums of uniform addresses) does not change the gradient."""
    weights = vjp.weights(point, np.random.default_rng(2))
    expected = vjp.gradients(case.dim, point, weights)
    for i, gradient in vjp.gradients(case.dim, point, weights, chunk=2).items():
        np.testing.assert_allclose(gradient, expected[i], rtol=1e-12, atol=1e-13, err_msg=vjp.names[i])


def test_the_corpus_is_large_enough() -> None:
    sources = {name: inspect.getsource(case.function) for name, case in CASES.items()}
    with_flow = [name for name, text in sources.items() if any(word in text for word in CONTROL_FLOW)]
    assert len(with_flow) >= 70
