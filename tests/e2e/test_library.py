"""Built-in functions that are written in the kernel language: how they are called, and what is said of wrong calls."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys

import numpy as np
import pytest

import diffkern as dk
from diffkern.lang.library import COMPOSED


@dk.kernel
def norms(w: dk.array(dtype=dk.vec3), y: dk.array(dtype=float), delta: float):
    i = dk.tid()
    y[i] = dk.norm_huber(w[i], delta) + dk.norm_huber(delta=2, v=w[i]) + dk.norm_huber(w[i])


def test_arguments_by_position_by_name_and_by_default():
    w, y = dk.array(np.array([[1.0, 2.0, 2.0]], np.float32), dtype=dk.vec3), dk.zeros(1)
    dk.launch(norms, 1, [w, y, 5.0])
    assert y.numpy()[0] == 4.5 + 4.0 + 2.5


def test_the_library_is_imported_when_a_function_is_used():
    code = (
        "import sys, diffkern as dk; dk.norm_huber; print('diffkern.library' in sys.modules); "
        "str(dk.norm_huber.__doc__); print('diffkern.library.vectors' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_every_name_of_the_table_is_defined_by_its_module():
    assert all(function.overloads for function in COMPOSED.values())


def test_a_function_pickles_by_name():
    assert pickle.loads(pickle.dumps(dk.norm_l1)) is dk.norm_l1


@dk.kernel
def wrong_type(y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.norm_l1(y[i])


@dk.kernel
def wrong_number(w: dk.array(dtype=dk.vec3), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.norm_huber(w[i], w[i])


@dk.kernel
def too_many(w: dk.array(dtype=dk.vec3), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.norm_l1(w[i], 1.0)


@dk.kernel
def two_widths(w: dk.array(dtype=dk.vec3), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = dk.norm_huber(w[i], y[i])


W, Y, D = dk.zeros(1, dtype=dk.vec3), dk.zeros(1), dk.zeros(1, dtype=dk.float64)


@pytest.mark.parametrize(
    ("kernel", "args", "message", "column"),
    [
        (wrong_type, [Y], "the parameter v of dk.norm_l1 takes vector, not float32", "y[i])"),
        (wrong_number, [W, Y], "the parameter delta of dk.norm_huber takes float, not vec3<float32>", "w[i])"),
        (too_many, [W, Y], "dk.norm_l1 takes 1 arguments, not 2", "dk.norm_l1(w[i], 1.0)"),
        (two_widths, [W, D], "the parameter delta of dk.norm_huber takes float32, not float64", "y[i])"),
    ],
    ids=lambda value: value.name if isinstance(value, dk.Kernel) else "",
)
def test_what_is_wrong_points_at_the_call(kernel, args, message, column):
    with pytest.raises(dk.KernelTypeError) as caught:
        dk.launch(kernel, 1, args)
    assert caught.value.message == message
    assert caught.value.loc.file.endswith("test_library.py")
    assert caught.value.loc.text[caught.value.loc.col :].startswith(column)


def test_on_the_host():
    assert dk.norm_huber(dk.vec3(1.0, 2.0, 2.0), delta=2) == 4.0
    assert dk.norm_l1(dk.vec3d(1.0, -2.0, 3.0)) == 6.0
    assert isinstance(dk.norm_l1(dk.vec2(1.0, 2.0)), float)
    assert np.allclose(dk.smooth_normalize(dk.vec2(3.0, 4.0)), np.array([3.0, 4.0]) / np.sqrt(26.0))
    with pytest.raises(dk.KernelTypeError, match="the parameter v of norm_l1 takes vector"):
        dk.norm_l1(1.0)


@dk.kernel
def count(p: dk.array(), q: dk.array(dtype=int)):
    i = dk.tid()
    q[i] = dk.bit_count(p[i])


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_bits_are_counted_in_twos_complement(kind, bits):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind == "int" else (0, (1 << bits) - 1)
    numbers = [0, 1, 2, 3, 5, 100, high, low, high - 1, low + 1, *([-1, -2, -100] if kind == "int" else [])]
    q = dk.zeros(len(numbers), dtype=int)
    dk.launch(count, len(numbers), [np.array(numbers, f"{kind}{bits}"), q])
    assert q.numpy().tolist() == [(number & ((1 << bits) - 1)).bit_count() for number in numbers]


@dk.kernel
def search(a: dk.array(), values: dk.array(), q: dk.array(dtype=int, ndim=2)):
    i = dk.tid()
    q[i, 0] = dk.lower_bound(a, values[i])
    q[i, 1] = dk.lower_bound(a, 1, 4, values[i])


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float32, np.float64])
def test_a_lower_bound_is_the_first_index_that_is_not_less(dtype):
    a, values = np.array([1, 3, 3, 5, 7], dtype), np.array([0, 1, 2, 3, 4, 7, 9], dtype)
    q = dk.zeros((len(values), 2), dtype=int)
    dk.launch(search, len(values), [a, values, q])
    assert q.numpy()[:, 0].tolist() == [min(int(np.searchsorted(a, v)), 4) for v in values]
    assert q.numpy()[:, 1].tolist() == [min(1 + int(np.searchsorted(a[1:4], v)), 3) for v in values]


@dk.kernel
def look_up(a: dk.array(dtype=float), x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    breakpoint()  # noqa: T100
    k = dk.lower_bound(a, x[i])
    y[i] = a[k] * x[i]


def test_an_index_that_was_searched_for_is_no_way_for_derivatives():
    a = dk.array(np.array([1.0, 2.0, 4.0], np.float32), requires_grad=True)
    x, y = dk.array(np.array([1.5, 3.0], np.float32), requires_grad=True), dk.zeros(2, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(look_up, 2, [a, x, y])
    tape.backward(grads={y: dk.ones(2)})
    assert y.numpy().tolist() == [3.0, 12.0]
    assert x.grad.numpy().tolist() == [2.0, 4.0]
    assert a.grad.numpy().tolist() == [0.0, 1.5, 3.0]


def test_inverse_error_functions():
    assert dk.erfinv(0.5) == pytest.approx(0.4769362762044699, rel=1e-15)
    assert dk.erfcinv(1.5) == pytest.approx(-0.4769362762044699, rel=1e-15)
    assert dk.erfcinv(1e-100) == pytest.approx(15.065574702592645, rel=1e-15)
    assert [dk.erfinv(1.0), dk.erfinv(-1.0), dk.erfcinv(0.0), dk.erfcinv(2.0)] == [math.inf, -math.inf] * 2
    assert all(math.isnan(y) for y in (dk.erfinv(1.5), dk.erfcinv(-0.5), dk.erfcinv(2.5)))
    for y in np.linspace(-0.5, 5.0, 56):
        assert dk.erfcinv(math.erfc(y)) == pytest.approx(y, rel=4e-15, abs=4e-16)


@dk.kernel
def variables(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    t = dk.transform_identity()
    for k in range(3):
        if k != 1:
            dk.transform_set_translation(t, t.p + dk.vec3(x[i], 0.0, 1.0))
    axis = dk.vec3()
    angle = 0.0
    dk.quat_to_axis_angle(dk.quat_rpy(0.0, 0.0, x[i]), axis, angle)
    y[i] = t.p.x + 10.0 * angle + 100.0 * axis.z


def test_variables_of_the_caller_are_set_in_loops_and_branches():
    x, y = dk.array(np.array([0.5], np.float32), requires_grad=True), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(variables, 1, [x, y])
    tape.backward(grads={y: dk.ones(1)})
    assert y.numpy()[0] == pytest.approx(1.0 + 5.0 + 100.0)
    assert x.grad.numpy()[0] == pytest.approx(2.0 + 10.0, rel=1e-5)


@dk.kernel
def no_variable(t: dk.array(dtype=dk.transform)):
    i = dk.tid()
    dk.transform_set_translation(t[i], dk.vec3(1.0, 2.0, 3.0))


def test_an_element_of_an_array_is_no_variable():
    with pytest.raises(dk.KernelTypeError, match="changes its argument t, which must be a variable"):
        dk.launch(no_variable, 1, [dk.zeros(1, dtype=dk.transform)])


def test_on_the_host_vectors_are_variables():
    t = dk.transform_identity()
    assert dk.transform_set_translation(t, dk.vec3(1.0, 2.0, 3.0)) is None
    assert t.p == dk.vec3(1.0, 2.0, 3.0)
    u, s, v = dk.mat22(), dk.vec2(), dk.mat22()
    dk.svd2(dk.mat22(3.0, 0.0, 0.0, 4.0), u, s, v)
    assert s == dk.vec2(4.0, 3.0)


def test_integers_of_python_on_the_host_have_the_bits_that_they_need():
    assert [dk.bit_count(n) for n in (-1, 1 << 40, (1 << 64) - 1)] == [32, 1, 64]
