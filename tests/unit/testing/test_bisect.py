"""The first value with a wrong derivative: rules of the user and rules of the table, in loops, blocks and structs."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import diffkern as dk
from diffkern.ad.rules import RULES
from diffkern.errors import MisuseError
from diffkern.testing import GradientError, bisect_gradient, gradcheck

f1 = dk.array(dtype=float)
v1 = dk.array(dtype=dk.vec3)


@dk.func
def cube(v: float):
    return v * v * v


@dk.func_grad(cube)
def adj_cube(v: float, ct: float):
    dk.adjoint[v] += 3.01 * v * v * ct


@dk.func
def halves(v: float, w: float):
    return v * 0.5, w * 0.5


@dk.func_grad(halves)
def adj_halves(v: float, w: float, ct_0: float, ct_1: float):
    dk.adjoint[v] += 0.5 * ct_0
    dk.adjoint[w] += 0.5 * ct_0  # of the wrong result


@dk.func
def centred(p: dk.vec3):
    return p - dk.vec3(1.0, 2.0, 3.0)


@dk.func_grad(centred)
def adj_centred(p: dk.vec3, ct: dk.vec3):
    dk.adjoint[p] += dk.vec3(ct[0], ct[1], -ct[2])


@dk.kernel
def straight(x: f1, y: f1):
    i = dk.tid()
    a = dk.sin(x[i])
    b = a * 2.0
    c = cube(b) + a  # wrong
    y[i] = c * c


@dk.kernel
def in_a_loop(x: f1, n: int, y: f1):
    i = dk.tid()
    a = x[i]
    for j in range(n):
        a = a * 1.1
        if j == 2:
            a = cube(a)  # wrong
    y[i] = a


@dk.kernel
def of_some_threads(x: f1, y: f1):
    i = dk.tid()
    a = dk.exp(x[i])
    if i >= 2:
        a = cube(a)  # wrong
    y[i] = a


@dk.kernel
def two_results(x: f1, y: f1):
    i = dk.tid()
    a, b = halves(x[i], x[i] * x[i])  # wrong
    y[i] = a + b * 3.0


@dk.kernel
def of_vectors(x: v1, y: f1):
    i = dk.tid()
    p = x[i] * 2.0
    q = centred(p)  # wrong
    y[i] = dk.length(q)


@dk.kernel
def through_memory(x: f1, y: f1, z: f1):
    i, t = dk.tid(), dk.thread_index()
    s = dk.shared_array(4, float)
    s[t] = x[i] * x[i]
    dk.syncthreads()
    y[i] = s[3 - t]
    z[i] = cube(y[i])  # wrong


@dk.kernel
def tanhs(x: f1, y: f1):
    i = dk.tid()
    a = x[i] * 0.5
    b = dk.tanh(a)  # wrong
    y[i] = dk.sin(b)


@dk.kernel
def rolled(x: f1, n: int, y: f1):
    i = dk.tid()
    a = x[i]
    for _ in range(n):
        a = a * 1.1
        b = dk.tanh(a)  # wrong
        a = b + dk.sin(a)
    y[i] = a


@dk.kernel
def rolled_in_a_branch(x: f1, n: int, y: f1):
    i = dk.tid()
    a = x[i]
    for k in range(n):
        if k < 30:
            a = dk.tanh(a)  # wrong
    y[i] = a


@dk.func
def store_square(i: int, v: float, y: f1):
    y[i] = v * v


@dk.func_grad(store_square)
def adj_store_square(i: int, v: float, y: f1):
    dk.adjoint[v] += 2.0 * v * dk.adjoint[y][i]
    dk.adjoint[y][i] = 0.0


@dk.func
def store_cube(i: int, v: float, y: f1):
    y[i] = v * v * v


@dk.func_grad(store_cube)
def adj_store_cube(i: int, v: float, y: f1):
    dk.adjoint[v] += 2.0 * v * dk.adjoint[y][i]
    dk.adjoint[y][i] = 0.0


@dk.kernel
def stores(x: f1, y: f1):
    i = dk.tid()
    a = dk.sin(x[i])
    store_square(i, a, y)


@dk.kernel
def stores_wrong(x: f1, y: f1):
    i = dk.tid()
    a = dk.sin(x[i])
    store_cube(i, a, y)  # wrong


@dk.kernel
def kinked(x: f1, y: f1):
    i = dk.tid()
    a = dk.abs(x[i])
    y[i] = cube(a + 1.0)  # wrong


def _line(kernel) -> int:
    lines, first = inspect.getsourcelines(kernel.func)
    return first + next(k for k, line in enumerate(lines) if "# wrong" in line)


def _x(n: int = 4) -> np.ndarray:
    return np.linspace(0.2, 1.1, n, dtype=np.float32)


def _zeros(n: int = 4) -> np.ndarray:
    return np.zeros(n, np.float32)


@pytest.mark.parametrize(
    ("kernel", "inputs", "thread"),
    [
        (straight, [_x(), _zeros()], 0),
        (in_a_loop, [_x(), 5, _zeros()], 0),
        (of_some_threads, [_x(), _zeros()], 2),
        (two_results, [_x(), _zeros()], 0),
        (of_vectors, [np.arange(12, dtype=np.float32).reshape(4, 3), _zeros()], 0),
        (kinked, [np.array([0.0, 0.0, 1.0, 2.0], np.float32), _zeros()], 2),
    ],
)
def test_the_line_is_named(kernel, inputs, thread: int) -> None:
    with pytest.raises(GradientError):
        gradcheck(kernel, 4, inputs)
    found = bisect_gradient(kernel, 4, inputs)
    assert found is not None
    assert found.loc is not None
    assert (found.loc.line, found.thread) == (_line(kernel), (thread,))
    assert abs(found.analytic - found.numeric) > 1e-4 * abs(found.numeric)
    assert str(found).startswith(f"{found.loc}: kernel {kernel.name!r}, thread {thread}: the derivative of ")


def test_threads_of_a_block() -> None:
    found = bisect_gradient(through_memory, 8, [_x(8), _zeros(8), _zeros(8)], block_dim=4)
    assert found is not None
    assert found.loc is not None
    assert found.loc.line == _line(through_memory)


def test_a_fault_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bisect_gradient(tanhs, 4, [_x(), _zeros()]) is None
    right = RULES["tanh"]
    monkeypatch.setitem(RULES, "tanh", lambda b, a: [b.mul(right(b, a)[0], b.const(1.01, a.ct.type))])
    with pytest.raises(GradientError):
        gradcheck(tanhs, 4, [_x(), _zeros()])
    found = bisect_gradient(tanhs, 4, [_x(), _zeros()])
    assert found is not None
    assert found.loc is not None
    assert (found.loc.line, found.value) == (_line(tanhs), "b")


def test_a_fault_of_reverse_mode_in_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    right = RULES["tanh"]
    monkeypatch.setitem(RULES, "tanh", lambda b, a: [b.mul(right(b, a)[0], b.const(1.01, a.ct.type))])
    for kernel in (rolled, rolled_in_a_branch):
        found = bisect_gradient(kernel, 4, [_x(), 40, _zeros()])
        assert found is not None
        assert found.loc is not None
        assert (found.loc.line, found.by) == (_line(kernel), "a")
        assert "by a is wrong in reverse mode" in str(found)


def test_a_rule_that_writes_to_arrays() -> None:
    """It has no forward mode; the func and its rule are one operation."""
    assert bisect_gradient(stores, 4, [_x(), _zeros()]) is None
    found = bisect_gradient(stores_wrong, 4, [_x(), _zeros()])
    assert found is not None
    assert found.loc is not None
    assert (found.loc.line, found.by) == (_line(stores_wrong), "a")


def test_arguments_are_left_alone_and_limited() -> None:
    x = _x()
    bisect_gradient(straight, 4, [x, _zeros()])
    np.testing.assert_array_equal(x, _x())
    with pytest.raises(MisuseError, match="are allowed"):
        bisect_gradient(straight, 4, [x, _zeros()], max_numbers=3)
