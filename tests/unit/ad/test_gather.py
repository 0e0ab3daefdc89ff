"""Adjoints in which a thread sums what others would add to its elements: what is computed once, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.ad.gather import gathered
from diffkern.compiler import passes, pipeline
from diffkern.contracts.manifest import Gather, Monomial
from diffkern.contracts.options import GATHERING, KernelOptions
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, walk
from diffkern.ir.passes import run
from diffkern.ir.types import FLOAT32, FLOAT64, INT32, Array, Type, Vec
from diffkern.ir.verify import verify
from diffkern.ir.views import Access, For
from diffkern.testing.programs import Interpreted, as_argument

SIGNED = ("atan2", "copysign")
LINE = Array(FLOAT64, 1)
GRID = Array(FLOAT64, 2)
POINTS = Array(Vec(FLOAT32, 3), 1)


def adjoint(function: Callable[..., Any], *types: Type, active: tuple[int, ...] = (0, 2)) -> Any:
    fn = pipeline.lower_kernel(function, types)
    return pipeline.differentiate(pipeline.prepare(fn), active)


def gathering(function: Callable[..., Any], *types: Type, active: tuple[int, ...] = (0, 2)) -> tuple[Function, Gather]:
    found = gathered(adjoint(function, *types, active=active).adjoint)
    assert found is not None
    verify(found[0].fn)
    return run(passes.GATHER, found[0].fn), found[1]


def loop(fn: Function) -> Counter[str]:
    """How often each op stands in the only loop."""
    (found,) = (op for op in fn.body.ops if op.name == "for")
    return Counter(op.name for op in walk(For(found).body))


def bodies(x, m, n, a):
    i = dk.tid()
    total = dk.vec3(0.0, 0.0, 0.0)
    for j in range(n):
        d = x[j] - x[i]
        inverse = 1.0 / dk.sqrt(dk.dot(d, d) + 0.01)
        total += d * (m[j] * inverse * inverse * inverse)
    a[i] = total


def products(x, n, y):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        s += x[i] * x[j] * x[j]
    y[i] = s


def of_shape(x, n, y):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(x.shape[0]):
        s += dk.sin(x[i] - x[j])
    y[i] = s


def forty(x, n, y):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(400):
        s += dk.sin(x[i] - x[j])
    y[i] = s


def angles(x, n, y):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        d = x[j] - x[i]
        s += dk.atan2(d, dk.float64(1.0)) * x[j] + dk.copysign(dk.float64(1.0), d) * x[i]
    y[i] = s


def test_a_pair_takes_one_root_and_one_division():
    fn, fact = gathering(bodies, POINTS, Array(FLOAT32, 1), INT32, POINTS, active=(0, 1, 3))
    found = loop(fn)
    assert (found["sqrt"], found["div"], found["dot"], found["accumulate"]) == (1, 1, 3, 0)
    assert found["sub"] <= 5
    assert fact == Gather(((Monomial(1, ((2, -1),)),),), (3,))


def test_each_element_is_added_to_once():
    fn, _ = gathering(bodies, POINTS, Array(FLOAT32, 1), INT32, POINTS, active=(0, 1, 3))
    accumulated = Counter(Access(op).array.name for op in walk(fn.body) if op.name == "accumulate")
    assert accumulated == {"ct_x": 1, "ct_m": 1}
    assert not any(op.name == "store" for op in walk(fn.body))


@pytest.mark.parametrize(
    ("function", "count"),
    [(products, Monomial(1, ((1, -1),))), (of_shape, Monomial(1, ((0, 0),))), (forty, Monomial(400))],
)
def test_the_number_of_threads_that_it_takes(function: Callable[..., Any], count: Monomial):
    assert gathering(function, LINE, INT32, LINE)[1] == Gather(((count,),), (2,))


@pytest.mark.parametrize("function", [products, of_shape, angles])
def test_sums_are_those_of_the_adjoint_that_scatters(function: Callable[..., Any]):
    n = 7
    made = adjoint(function, LINE, INT32, LINE)
    scatter, (found, _) = clone_function(made.fn), gathering(function, LINE, INT32, LINE)
    results = []
    for fn in (scatter, found):
        rng = np.random.default_rng(4)
        x = np.round(rng.normal(size=n), 1)
        values = [x, n, np.zeros(n), rng.normal(size=n), rng.normal(size=n)]
        arguments = [as_argument(p.type, a) for p, a in zip(fn.params, values, strict=True)]
        Interpreted(fn).run((n,), arguments)
        results.append(arguments[3])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-13, atol=1e-14)


def test_a_sign_of_zero_that_matters_is_kept():
    fn, _ = gathering(angles, LINE, INT32, LINE)
    (found,) = (op for op in fn.body.ops if op.name == "for")
    ops = list(walk(For(found).body))
    source = {r: op for op in ops for r in op.results}
    arguments = {op.name: {source[v].name for v in op.operands} - {"const"} for op in ops if op.name in SIGNED}
    assert arguments == {name: {"sub"} for name in SIGNED}


# -- refused ---------------------------------------------------------------------------------------------------------


def behind(x, n, y):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        s += x[i] * x[j + 1]
    y[i] = s


def below(x, n, y):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(i):
        s += x[i] * x[j]
    y[i] = s


def recurrence(x, n, y):
    i = dk.tid()
    s = x[i]
    for j in range(n):
        s = s * dk.sin(s) + x[j]
    y[i] = s


def some_threads(x, n, y):
    i = dk.tid()
    if x[i] > 0.0:
        s = dk.float64(0.0)
        for j in range(n):
            s += x[i] * x[j]
        y[i] = s


@pytest.mark.parametrize("function", [behind, below, recurrence, some_threads])
def test_refused(function: Callable[..., Any]):
    assert gathered(adjoint(function, LINE, INT32, LINE).adjoint) is None


@pytest.mark.parametrize(
    ("target", "fast_math", "gathers"), [("sm_90", False, True), ("x86-64-v3", False, False), ("x86-64-v3", True, True)]
)
def test_where_programs_gather(target: str, fast_math: bool, gathers: bool):
    """On a GPU even where products keep their order: what is added by all threads to one element costs more."""
    variant = pipeline.Variant(target=target, options=KernelOptions(fast_math=fast_math))
    fn = pipeline.prepare(pipeline.lower_kernel(products, (LINE, INT32, LINE), variant))
    assert (pipeline.differentiate(fn, (0, 2), variant).gather is not None) == gathers


def test_products_keep_their_order_without_fast_math():
    def multiplications(fast_math: bool) -> int:
        options = KernelOptions(fast_math=fast_math)
        variant = pipeline.Variant(target="sm_90", form=GATHERING, options=options)
        fn = pipeline.prepare(pipeline.lower_kernel(products, (LINE, INT32, LINE), variant))
        made = pipeline.differentiate(fn, (0, 2), variant).adjoint.fn
        assert not any(op.name == "accumulate" and op.attrs["mode"] == "atomic" for op in walk(made.body))
        return Counter(op.name for op in walk(made.body))["mul"]

    assert multiplications(True) < multiplications(False)


def test_the_report_says_when():
    kernel = dk.kernel(products, fast_math=True)
    text = kernel.adjoint_report(dk.array(dtype=dk.float64), int, dk.array(dtype=dk.float64))
    assert "launches of n threads gather: each computes what the others would add to its elements" in text
