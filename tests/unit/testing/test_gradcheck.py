"""gradcheck: what it accepts, what it finds, and what it says at a kink."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import diffkern as dk
from diffkern.ad.rules import RULES
from diffkern.errors import AutodiffError
from diffkern.testing import GradientError, KinkWarning, gradcheck


@dk.func
def bend(v: float):
    return dk.sin(v) * 0.1


@dk.kernel
def chain(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float), n: int):
    i = dk.tid()
    v = x[i]
    for _ in range(n):
        v = v * a + bend(v)
    y[i] = y[i] * v


@dk.kernel
def fold(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.abs(x[i])


@dk.kernel
def jump(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] + (1.0 if x[i] > 0.5 else 0.0)


@dk.kernel
def offset(x: dk.array(dtype=dk.vec3), c: dk.vec3, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.length(x[i] - c)


def _x(n: int = 4) -> np.ndarray:
    return np.linspace(0.2, 1.1, n, dtype=np.float32)


def test_accepts_a_right_gradient_and_reports_it() -> None:
    x, y = _x(), _x()
    report = gradcheck(chain, 4, [x, 0.7, y, 5])
    assert report.parameters == ("x", "a", "y")
    assert report.checked == 9
    assert report.kinks == ()
    assert report.dot_product_error < 1e-6
    assert "9 elements of x, a, y" in str(report)
    np.testing.assert_array_equal(x, _x())
    np.testing.assert_array_equal(y, _x())


def test_takes_diffkern_arrays_and_vectors_by_value() -> None:
    x = dk.array(np.random.default_rng(0).uniform(size=(3, 3)).astype(np.float32), dtype=dk.vec3)
    report = gradcheck(offset, 3, [x, dk.vec3(0.5, -1.0, 2.0)], [dk.zeros(3, dtype=float)])
    assert report.parameters == ("x", "c", "y")
    assert report.checked == 9 + 3 + 3


def test_large_inputs_are_sampled() -> None:
    n = 1000
    report = gradcheck(fold, n, [np.linspace(1, 2, n, dtype=np.float32)], [np.zeros(n, np.float32)], max_elements=10)
    assert report.checked == 10


def test_finds_a_wrong_rule_and_names_the_worst_element(monkeypatch: pytest.MonkeyPatch) -> None:
    right = RULES["sin"]
    monkeypatch.setitem(RULES, "sin", lambda b, a: [b.mul(right(b, a)[0], b.const(1.01, a.ct.type))])
    with pytest.raises(GradientError, match=r"kernel 'chain'.*'(x|a)' is wrong against central differences") as caught:
        gradcheck(chain, 4, [_x(), 0.7, _x(), 5])
    assert "relative error" in str(caught.value)


def test_says_where_a_kink_forbids_the_comparison() -> None:
    x = np.array([-1.0, 0.0, 2.0], np.float32)
    with pytest.warns(KinkWarning, match=r"1 elements .* x\[1\]"):
        report = gradcheck(fold, 3, [x], [np.zeros(3, np.float32)])
    assert report.kinks == (("x", (1,)),)
    assert report.checked == 5


def test_sees_a_kink_beside_the_point() -> None:
    x = np.array([1.0, 2e-7], np.float32)
    with pytest.warns(KinkWarning):
        report = gradcheck(fold, 2, [x], [np.zeros(2, np.float32)])
    assert report.kinks == (("x", (1,)),)


def test_takes_smaller_steps_near_a_kink() -> None:
    x = np.array([1.0, 3e-5], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KinkWarning)
        report = gradcheck(fold, 2, [x], [np.zeros(2, np.float32)])
    assert report.kinks == ()
    assert report.checked == 4


def test_sees_a_jump() -> None:
    x = np.array([0.5, 2.0], np.float32)
    with pytest.warns(KinkWarning):
        report = gradcheck(jump, 2, [x], [np.zeros(2, np.float32)])
    assert report.kinks == (("x", (0,)),)


def test_results_that_are_not_finite_are_named() -> None:
    @dk.kernel
    def logarithm(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = dk.log(x[i])

    with pytest.raises(GradientError, match=r"y\[1\] is -inf after the launch"):
        gradcheck(logarithm, 2, [np.array([1.0, 0.0], np.float32)], [np.zeros(2, np.float32)])


def test_a_kernel_that_cannot_be_differentiated_is_refused() -> None:
    @dk.kernel
    def smooth(x: dk.array(dtype=float)):
        i = dk.tid()
        if i > 0:
            x[i] = 0.5 * (x[i] + x[i - 1])

    with pytest.raises(AutodiffError, match="another thread"):
        gradcheck(smooth, 4, [_x()])


def test_float32_is_compared_with_float64() -> None:
    @dk.kernel
    def cancel(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        big = x[i] + 1.0e5
        y[i] = dk.sin((big - 1.0e5) * 3.0)

    with pytest.raises(GradientError, match="differs from the same kernel in float64") as caught:
        gradcheck(cancel, 4, [_x()], [np.zeros(4, np.float32)])
    # Its values are as wrong as its gradient.
    assert "The results of the kernel differ in float64 as well, first y[" in str(caught.value)


@dk.func
def same(v: float):
    return 1.0 * v


@dk.func_grad(same)
def adj_same(v: float, ct: float):
    # Wrong in float32 alone, where the sum rounds to its first part.
    dk.adjoint[v] += ct * ((1.0e8 + v / v) - 1.0e8)


@dk.kernel
def ruled(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = same(x[i])


@dk.kernel
def steep(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 1.0 + 1e-7 * dk.sin(1.0e6 * x[i] * x[i])


def test_what_rounding_explains_is_said() -> None:
    y = np.zeros(4, np.float32)
    with pytest.raises(GradientError, match="differs from the same kernel") as caught:
        gradcheck(steep, 4, [np.float32([0.71, 0.82, 0.93, 0.97])], [y], mode="reverse", eps=1e-9, atol=1e-3)
    assert "if arguments change by what float32 rounds" in str(caught.value)
    with pytest.raises(GradientError, match="is wrong against the same kernel in float64") as caught:
        gradcheck(ruled, 4, [_x()], [y], mode="reverse")
    assert "rounding" not in str(caught.value)


def test_functions_in_float32_say_that_they_are() -> None:
    def hidden(x: dk.array) -> dk.array:
        return dk.array(x.numpy() * x.numpy()) * x  # the first factor is a constant to the tape

    x = _x()
    with pytest.raises(GradientError, match="pass float64 arrays to tell"):
        gradcheck(hidden, inputs=[dk.array(x)])
    with pytest.raises(GradientError, match="is wrong against"):
        gradcheck(hidden, inputs=[dk.array(x.astype(np.float64))])


@dk.kernel
def to_integers(x: dk.array(dtype=float), y: dk.array(dtype=int)):
    i = dk.tid()
    y[i] = int(x[i])


@dk.kernel
def of_integers(x: dk.array(dtype=int), y: dk.array(dtype=int)):
    i = dk.tid()
    y[i] = 2 * x[i]


@dk.kernel
def kinked(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.abs(x[i]) + dk.abs(y[i])


@pytest.mark.parametrize(
    ("kernel", "dim", "inputs", "options", "why"),
    [
        (to_integers, 2, [np.ones(2, np.float32), np.zeros(2, np.int32)], {}, "it changes no array of floats"),
        (of_integers, 2, [np.ones(2, np.int32), np.zeros(2, np.int32)], {}, "it changes no array of floats"),
        (kinked, 0, [np.ones(2, np.float32), np.ones(2, np.float32)], {}, "runs no thread"),
        (kinked, 2, [np.ones(2, np.float32), np.ones(2, np.float32)], {"max_elements": 0}, "max_elements is 0"),
        (kinked, 2, [np.zeros(2, np.float32), np.zeros(2, np.float32)], {}, "all 4 elements lie too near a kink"),
    ],
)
def test_nothing_to_compare_is_a_failure(kernel, dim, inputs, options, why):
    with pytest.raises(GradientError, match=f"compared nothing: .*{why}"):
        gradcheck(kernel, dim, inputs, **options)


@dk.kernel
def bends_slightly(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = x[i] + 1e-4 * dk.max(x[i], dk.float64(0.0))


def test_a_slight_kink_within_a_step_is_no_wrong_gradient():
    gradcheck(bends_slightly, 3, [np.array([2.5e-5, -2.5e-5, 1.0])], [np.zeros(3)])
