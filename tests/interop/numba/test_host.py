"""Derivatives of funcs called from Python."""

from __future__ import annotations

import copy
import pickle

import numba_funcs as funcs
import numpy as np
import pytest
from numba_funcs import CASES

import diffkern as dk


def differences(func, point, h=1e-6):
    """Central differences of the Python function itself."""
    out = []
    for k, x in enumerate(point):
        if isinstance(x, float):
            ahead, behind = (func(*point[:k], x + s * h, *point[k + 1 :]) for s in (1.0, -1.0))
            out.append((ahead - behind) / (2.0 * h))
    return out[0] if len(out) == 1 else tuple(out)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_central_differences(name):
    func, python = CASES[name].func, CASES[name].python
    for point in CASES[name].points:
        wanted = differences(python, point)
        np.testing.assert_allclose(func.grad(*point), wanted, rtol=2e-6, atol=1e-8)
        value, found = func.vjp(*point, 1.0)
        assert value == pytest.approx(python(*point), rel=1e-12)
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-8)


def test_types_are_those_of_the_arguments():
    assert all(type(d) is np.float64 for d in funcs.product.grad(1.0, 2.0))
    assert all(type(d) is np.float32 for d in funcs.product.grad(np.float32(1), np.float32(2)))
    assert type(funcs.of_one.grad(2.0)) is np.float64  # one argument, no tuple
    assert funcs.counted_loop.grad(2.0, 1) == pytest.approx(2 * 2.0 + 0.5)


def test_annotations_decide():
    assert funcs.annotated.grad(2, 3, 4) == (12.0, 6.0)
    assert funcs.annotated.grad(2.0, 3) == 9.0  # the default is no argument
    assert funcs.annotated.grad(n=3, x=2.0) == 9.0
    assert funcs.annotated.vjp(2.0, 3, 1.0) == (18.0, 9.0)
    assert funcs.annotated.vjp(2.0, 3, 4.0, 10.0) == (24.0, (120.0, 60.0))


def test_several_results_have_a_cotangent_each():
    value, (dx, dy) = funcs.two_results.vjp(2.0, 4.0, 1.0, 10.0)
    assert value == (8.0, 0.5)
    assert (dx, dy) == (4.0 + 10.0 / 4.0, 2.0 - 10.0 * 2.0 / 16.0)


def test_vectors_and_matrices():
    p, q = (1.0, 2.0, 2.0), (0.0, 0.0, 0.0)
    assert funcs.distance.grad(p, q) == ((1 / 3, 2 / 3, 2 / 3), (-1 / 3, -2 / 3, -2 / 3))
    found = funcs.distance.grad(dk.vec3d(*p), dk.vec3d(*q))
    np.testing.assert_allclose(found[0], [1 / 3, 2 / 3, 2 / 3])
    m, v = ((1.0, 2.0), (3.0, 4.0)), (1.0, -1.0)
    (w, s), (dm, dv) = funcs.transformed.vjp(m, v, (0.0, 0.0), 1.0)
    assert (w, s) == ((-1.0, -1.0), 0.0)
    assert dm == ((1.0, -1.0), (-1.0, 1.0))
    assert dv == (-3.0, -3.0)


def test_arrays_are_data():
    table = np.array([1.0, 4.0, 2.0], np.float32)
    assert funcs.interpolated.grad(table, 0.5) == 3.0
    assert funcs.interpolated.vjp(table, 1.5, 2.0) == (3.0, -4.0)


def test_a_captured_number_that_changes_is_noticed(monkeypatch):
    assert funcs.product.vjp(1.0, 1.0, 1.0)[0] == 1.25
    monkeypatch.setattr(funcs, "SHIFT", 1.0)
    assert funcs.product.vjp(1.0, 1.0, 1.0)[0] == 2.0


def test_copies_are_the_same_func():
    for form in (funcs.product.grad, funcs.product.vjp, funcs.diffuse.thread, funcs.diffuse.thread_adjoint):
        assert pickle.loads(pickle.dumps(form)) is form
        assert copy.deepcopy(form) is form
    assert "product.grad" in repr(funcs.product.grad)


@dk.func
def nothing(x):
    y = x  # noqa: F841


@dk.func
def of_a_thread(x):
    return x * float(dk.tid())


@dk.func
def writes(a, x):
    a[0] = x
    return x


@dk.func
def whole_number(x):
    return int(x)


@dk.func
def broken(x):
    return x.y


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: funcs.product.grad(1.0), r"numba_funcs.py:\d+: product takes 2 arguments \(x, y\), not 1"),
        (lambda: funcs.product.grad(1, 2), "no floating-point argument.*given int64, int64"),
        (lambda: funcs.product.grad("a", 1.0), "product.grad is called with 'a'"),
        (lambda: funcs.product.grad(1.0, z=2.0), "product.grad: "),
        (lambda: funcs.product.vjp(1.0, 2.0), r"help: write product.vjp\(x, y, 1.0\)"),
        (lambda: funcs.two_results.grad(1.0, 2.0), "returns float64, float64.*\n.*\n.*\nhelp: use two_results.vjp"),
        (lambda: funcs.annotated.grad(1.0, 2.5, 1.0), "n of annotated takes int32, not float64"),
        (lambda: funcs.distance.vjp((1.0, 2.0), (0.0, 0.0), (1.0, 1.0)), "a cotangent of distance is float64"),
        (lambda: nothing.grad(1.0), "nothing.grad: nothing returns nothing"),
        (lambda: of_a_thread.grad(1.0), "test_host.py.*works with the threads of a launch"),
        (lambda: writes.grad(np.zeros(1, np.float32), np.float32(1)), r"test_host.py:\d+: writes writes to a"),
        (lambda: whole_number.grad(1.0), "whole_number.*no floating-point value"),
        (lambda: broken.grad(1.0), r"test_host.py:\d+: .*\n +return x.y"),
        (lambda: funcs.diffuse.thread(0, 1.0), "diffuse.thread is one thread of a kernel"),
    ],
)
def test_what_is_refused_says_where_and_what_to_do(call, message):
    with pytest.raises(dk.KernelError, match=message):
        call()


def test_a_kernel_does_not_call_derivatives():
    @dk.kernel
    def calls(y: dk.array(dtype=float)):
        y[dk.tid()] = funcs.of_one.grad(2.0)

    with pytest.raises(dk.KernelError, match=r"of_one\.grad is for Python and for Numba programs"):
        dk.launch(calls, dim=1, inputs=[dk.zeros(1)])
