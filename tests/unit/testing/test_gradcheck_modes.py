"""gradcheck in forward mode, to second order, of functions and of tapes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import AutodiffError, MisuseError
from diffkern.testing import GradientError, gradcheck


@dk.func
def cube(v: float):
    return v * v * v


@dk.func
def wrong_cube(v: float):
    return v * v * v


@dk.func_grad(wrong_cube)
def adj_wrong_cube(v: float, ct: float):
    dk.adjoint[v] += 3.01 * v * v * ct


@dk.kernel
def cubes(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = a * cube(x[i]) + y[i]


@dk.kernel
def wrong_cubes(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = wrong_cube(x[i])


@dk.kernel
def total(x: dk.array(dtype=float), loss: dk.array(dtype=float)):
    dk.atomic_add(loss, 0, x[dk.tid()])


@dk.kernel
def largest(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    dk.atomic_max(y, 0, x[dk.tid()])


@dk.kernel
def least(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    dk.atomic_min(y, 0, x[dk.tid()])


def _x(n: int = 4) -> np.ndarray:
    return np.linspace(0.2, 1.1, n, dtype=np.float32)


def test_both_modes_and_second_order() -> None:
    report = gradcheck(cubes, 4, [_x(), 0.7], [_x()], order=2)
    assert (report.checked, report.forward) == (9, 4)
    assert report.second is not None
    assert report.second.checked == 2 * 9
    assert "forward mode                       4 elements" in str(report)
    assert "gradcheck of cubes_jvp: 18 elements of x, a, y, t_x, t_a, t_y" in str(report)


def test_one_mode() -> None:
    report = gradcheck(cubes, 4, [_x(), 0.7], [_x()], mode="forward")
    assert (report.checked, report.forward) == (0, 4)
    report = gradcheck(cubes, 4, [_x(), 0.7], [_x()], mode="reverse")
    assert (report.checked, report.forward) == (9, 0)


def test_a_kernel_without_forward_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    x = _x()
    monkeypatch.setattr("diffkern.ad.forward.EXTREMA", frozenset())  # as if there was none for this
    assert gradcheck(largest, 4, [x], [np.zeros(1, np.float32)]).forward == 0
    with pytest.raises(AutodiffError, match="forward mode"):
        gradcheck(largest, 4, [x], [np.zeros(1, np.float32)], mode="forward")


def test_an_extremum_in_both_modes() -> None:
    report = gradcheck(least, 4, [_x()], [np.ones(1, np.float32)])
    assert (report.checked, report.forward) == (5, 1)


def test_a_wrong_rule_is_wrong_in_each_mode() -> None:
    zeros = np.zeros(4, np.float32)
    with pytest.raises(GradientError, match=r"the change \(forward mode\) of 'y' is wrong") as caught:
        gradcheck(wrong_cubes, 4, [_x()], [zeros], mode="forward")
    assert "y[" in str(caught.value)
    assert " against " in str(caught.value)
    with pytest.raises(GradientError, match="the gradient of 'x' is wrong"):
        gradcheck(wrong_cubes, 4, [_x()], [zeros], mode="reverse")


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(MisuseError, match="order is 1 or 2"):
        gradcheck(cubes, 4, [_x(), 0.7], [_x()], order=3)
    with pytest.raises(MisuseError, match="needs the dimensions"):
        gradcheck(cubes, None, [_x(), 0.7], [_x()])
    with pytest.raises(MisuseError, match="a function has inputs"):
        gradcheck(lambda x: x, 4, [dk.array(_x())])


def _energy(kernel, dtype):
    def energy(x):
        y = dk.zeros(len(x), dtype=dtype, requires_grad=True)
        loss = dk.zeros(1, dtype=dtype, requires_grad=True)
        dk.launch(kernel, dim=len(x), inputs=[x, y])
        dk.launch(total if dtype is dk.float32 else total64, dim=len(x), inputs=[y, loss])
        return loss

    return energy


@dk.kernel
def total64(x: dk.array(dtype=dk.float64), loss: dk.array(dtype=dk.float64)):
    dk.atomic_add(loss, 0, x[dk.tid()])


@dk.kernel
def squares64(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = dk.sin(x[i]) * x[i]


@dk.kernel
def squares(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.sin(x[i]) * x[i]


@pytest.mark.parametrize(("kernel", "dtype"), [(squares64, dk.float64), (squares, dk.float32)])
def test_a_function(kernel, dtype) -> None:
    x = dk.array(_x().astype(np.float64 if dtype is dk.float64 else np.float32), requires_grad=True)
    before = x.numpy().copy()
    report = gradcheck(_energy(kernel, dtype), inputs=[x], order=2)
    assert [part.kernel for part in report.launches] == [kernel.name, "total" if dtype is dk.float32 else "total64"]
    assert report.checked == sum(part.checked for part in report.launches) + 4
    assert all(part.second is not None and part.second.checked for part in report.launches)
    assert math.isnan(report.dot_product_error)
    np.testing.assert_array_equal(x.numpy(), before)


def test_a_function_with_a_faulty_launch() -> None:
    with pytest.raises(GradientError, match="kernel 'wrong_cubes': the gradient of 'x' is wrong"):
        gradcheck(_energy(wrong_cubes, dk.float32), inputs=[dk.array(_x())])


def test_a_function_that_does_more_than_its_launches() -> None:
    """Each launch is right; that the host changes a number is not in the derivative."""

    def hidden(x):
        y = dk.zeros(len(x), dtype=dk.float64)
        dk.launch(squares64, dim=len(x), inputs=[x, y])
        with dk.no_grad():
            factor = float(x.numpy()[0])
        z = dk.zeros(len(x), dtype=dk.float64)
        dk.launch(scaled64, dim=len(x), inputs=[y, factor, z])
        return z

    with pytest.raises(GradientError, match=r"'hidden': the gradient of 'input 0' .* of the whole function"):
        gradcheck(hidden, inputs=[dk.array(_x().astype(np.float64))])


@dk.kernel
def scaled64(x: dk.array(dtype=dk.float64), a: dk.float64, y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = a * x[i]


def test_a_tape() -> None:
    x = dk.array(_x(), requires_grad=True)
    with dk.Tape() as tape:
        _energy(squares, dk.float32)(x)
    report = gradcheck(tape)
    assert [part.kernel for part in report.launches] == ["squares", "total"]
    with dk.Tape() as tape:
        _energy(wrong_cubes, dk.float32)(x)
    with pytest.raises(GradientError, match="'wrong_cubes'"):
        gradcheck(tape)


def test_nothing_compared() -> None:
    with dk.Tape() as empty:
        pass
    with pytest.raises(GradientError, match="gradcheck of the tape compared nothing"):
        gradcheck(empty)
    with pytest.raises(GradientError, match="compared nothing: no input is an array"):
        gradcheck(lambda n: n, inputs=[3])
    with pytest.raises(GradientError, match="compared nothing: no launch"):
        gradcheck(lambda x: dk.zeros(2, dtype=float), inputs=[dk.array(_x())])
