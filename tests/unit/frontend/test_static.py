"""Static expressions: their values, the loops they unroll, the branches they remove, and the key they stand in."""

from __future__ import annotations

import enum
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.frontend.syntax.canonical import fingerprint

SETTING = "fast"


@dk.func
def square(a: float):
    return a * a


@dk.func
def double(a: float):
    return 2.0 * a


@dk.struct
class Point:
    p: dk.vec3
    n: int


def run(kernel: Any, x: list[float], grad: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Values, and the gradient of their sum."""
    a, y = dk.array(x, dtype=float, requires_grad=True), dk.zeros(len(x), dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        kernel[len(x)](a, y)
    if grad:
        tape.backward(grads={y: np.ones(len(x), np.float32)})
    return y.numpy(), a.grad.numpy()


def test_functions_by_a_loop_variable() -> None:
    chosen = {"first": square, "then": [double, dk.sin]}

    @dk.kernel
    def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        s = dk.static(chosen["first"])(x[i])
        for j in range(2):
            s += dk.static(0.5**j) * dk.static(chosen["then"][j])(x[i])
        y[i] = s

    x = np.array([0.5, 1.0, 2.0])
    y, grad = run(k, [*x])
    np.testing.assert_allclose(y, x * x + 2 * x + 0.5 * np.sin(x), rtol=1e-6)
    np.testing.assert_allclose(grad, 2 * x + 2 + 0.5 * np.cos(x), rtol=1e-6)


def test_a_branch_that_is_not_taken_is_not_looked_at() -> None:
    flag = False

    @dk.kernel
    def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        if dk.static(flag):
            y[i] = undefined_helper(x[i]) + f"{x}"  # noqa: F821
        elif SETTING == "slow" or (not flag and dk.static(SETTING == "slow")):
            with x:
                y[i] = nothing  # noqa: F821
        else:
            y[i] = 3.0 * x[i]

    y, grad = run(k, [1.0, 2.0])
    assert [*y, *grad] == [3.0, 6.0, 3.0, 3.0]


def test_it_is_evaluated_where_the_kernel_is_defined() -> None:
    calls = []
    made = []
    for n in (1, 2):

        @dk.kernel
        def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
            i = dk.tid()
            y[i] = dk.static(calls.append(n) or float(n)) * x[i]

        made.append(k)
    assert calls == [1, 2]
    assert [float(run(k, [1.0])[0][0]) for k in made] == [1.0, 2.0]
    assert calls == [1, 2]


def test_an_error_comes_with_the_definition() -> None:
    with pytest.raises(dk.KernelTypeError, match=r"cannot be evaluated: KeyError: 'missing'") as info:

        @dk.kernel
        def k(x: dk.array(dtype=float)):
            x[0] = dk.static({}["missing"])

    assert "test_static.py" in str(info.value)


def test_loops_with_static_expressions_leave_and_go_on() -> None:
    @dk.kernel
    def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        s = 0.0
        last = -1
        for j in range(6):
            if dk.static(j % 2 == 1):
                continue
            if s > 3.0:
                break
            s += dk.static(float(j + 1)) * x[i] * x[i]
            last = j
        else:
            s = s * 10.0
        y[i] = s + 100.0 * float(last)

    x = np.array([0.1, 1.0, 2.0])
    y, grad = run(k, [*x])
    np.testing.assert_allclose(y, [10 * 9 * 0.01 + 400, 4.0 + 200, 4.0 + 0], rtol=1e-6)
    np.testing.assert_allclose(grad, [10 * 9 * 0.2, 8.0, 4.0], rtol=1e-6)


def test_structs_vectors_tuples_types_and_strings() -> None:
    @dk.func
    def origin(n: int):
        s = Point()
        s.p = dk.vec3(1.0, 2.0, 3.0)
        s.n = n
        return s

    kinds = SimpleNamespace(real=float, weights=(0.5, 0.25), names=["a", "b"])

    @dk.kernel
    def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        point = dk.static(origin(4))
        low, high = dk.static(kinds.weights)
        s = dk.dot(point.p, dk.static(dk.vec3(0.0, 0.0, 1.0))) + dk.static(kinds.real)(point.n)
        for name in dk.static(kinds.names):
            s += low if name == "a" else high * x[i]
        y[i] = s

    y, grad = run(k, [2.0])
    assert [*y, *grad] == [3.0 + 4.0 + 0.5 + 0.5, 0.25]


def test_values_are_in_the_key() -> None:
    def made(value: Any) -> list[tuple[str, bytes]]:
        @dk.kernel
        def k(y: dk.array(dtype=float)):
            for j in range(2):
                y[0] = dk.static(value)[dk.static(j)]
                y[1] = dk.static(value[j])

        return fingerprint(k.func)

    assert made((1.0, 2.0)) == made((1.0, 2.0))
    assert made([1.0, 2.0]) == made([1.0, 2.0])
    assert made((1.0, 2.0)) != made((1.0, 2.5))
    assert made([1.0, 2.0]) != made([1.0, 2.5])
    assert made({0: square, 1: square}) != made({0: square, 1: double})
    unknown = object()  # nothing that can be taken apart is never found again
    assert made([unknown]) != made([unknown])


def test_values_of_a_variable_that_look_alike() -> None:
    def made(weight: float) -> type:
        class Weight:
            @staticmethod
            def of(j: int) -> float:
                return weight

        return Weight

    kinds = (made(1.0), made(10.0), made(100.0))
    assert len({repr(kind) for kind in kinds}) == 1

    @dk.kernel
    def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        for kind in dk.static(kinds):
            y[i] += dk.static(kind.of(1)) * x[i]

    assert [*run(k, [1.0])[0]] == [111.0]


def test_plain_data_is_that_of_the_definition() -> None:
    table = [1.0, 2.0]

    @dk.kernel
    def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        for j in range(2):
            y[i] += dk.static(table[j]) * x[i]

    table[0] = 50.0
    assert [*run(k, [1.0])[0]] == [3.0]


def test_called_from_python() -> None:
    assert dk.static(math.pi) == math.pi


TABLE = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
POWERS = (1.0, 10.0, 100.0)


@dk.kernel
def sequences(
    x: dk.array(dtype=float), y: dk.array(dtype=float), v: dk.vec3, m: dk.mat22, rows: dk.array2d(dtype=float)
):
    i = dk.tid()
    s = 0.0
    for a in v:
        s += a * x[i]
    for row in m:
        s += row[0] * row[1]
    for k, (a, b) in enumerate(zip(x, reversed(x), strict=False), start=1):
        if k == 4:
            break
        s += float(k) * a * b
    for row in rows:
        for entry in row:
            s += entry * x[i]
    for k in reversed(range(3)):
        s = 0.5 * s + TABLE[k % 2, 1] + POWERS[k]
    for f, w in zip((square, double), (1.0, 2.0), strict=True):
        s += w * f(x[i])
    y[i] = s


def test_sequences_to_loop_over() -> None:
    x, v, m, rows = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0], np.ones((2, 3))
    a = dk.array(x, dtype=float, requires_grad=True)
    y = dk.zeros(4, dtype=float, requires_grad=True)
    r = dk.array(rows, dtype=float)
    with dk.Tape() as tape:
        sequences[4](a, y, dk.vec3(*v), dk.mat22(*m), r)
    tape.backward(grads={y: np.ones(4, np.float32)})

    def expected(x: np.ndarray) -> np.ndarray:
        out = []
        for i in range(4):
            s = sum(v) * x[i] + 1 * 2 + 3 * 4
            s += sum((k + 1) * x[k] * x[3 - k] for k in range(3)) + 6 * x[i]
            for k in (2, 1, 0):
                s = 0.5 * s + TABLE[k % 2, 1] + POWERS[k]
            out.append(s + x[i] ** 2 + 4 * x[i])
        return np.array(out)

    at = np.array(x)
    np.testing.assert_allclose(y.numpy(), expected(at), rtol=1e-6)
    differences = [(expected(at + h).sum() - expected(at - h).sum()) / 2e-6 for h in np.eye(4) * 1e-6]
    np.testing.assert_allclose(a.grad.numpy(), differences, rtol=1e-5)


class Kind(enum.IntEnum):
    LINEAR = 0
    SQUARE = 1


@dk.kernel
def matched(kind: dk.array(dtype=int), x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    match kind[i]:
        case Kind.LINEAR:
            y[i] = x[i]
        case Kind.SQUARE if x[i] > 0.0:
            y[i] = x[i] * x[i]
        case 2 | 3:
            match i:
                case 3:
                    y[i] = 3.0 * x[i]
                case _:
                    y[i] = 0.0
        case other:
            y[i] = float(other) * x[i]
    match SETTING:
        case "slow":
            y[i] = nothing  # noqa: F821
        case _:
            y[i] += x[i]


def test_match_on_constants() -> None:
    at = np.array([2.0, 2.0, -2.0, 2.0, 2.0])
    x, y = dk.array(at, dtype=float, requires_grad=True), dk.zeros(5, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        matched[5](dk.array([0, 1, 1, 3, 7], dtype=int), x, y)
    tape.backward(grads={y: np.ones(5, np.float32)})
    np.testing.assert_allclose(y.numpy(), [4.0, 6.0, -4.0, 8.0, 16.0])
    np.testing.assert_allclose(x.grad.numpy(), [2.0, 5.0, 2.0, 4.0, 8.0])


def test_beside_local_functions_and_tests_of_loops_that_assign() -> None:
    @dk.kernel
    def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        half = lambda v: v * dk.static(0.5)  # noqa: E731 - what is tested
        n = 0
        while (n := n + 1) < dk.static(4):
            y[i] += half(x[i]) * dk.static(float(2 + 2))

    y = dk.zeros(2, dtype=float)
    dk.launch(k, 2, [dk.array([1.0, 2.0], dtype=float)], [y])
    assert y.numpy().tolist() == [6.0, 12.0]


@pytest.mark.parametrize("numbers", [range(3), range(5, 0, -2)])
def test_loops_over_ranges_are_unrolled(numbers: range) -> None:
    @dk.kernel
    def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        s = 0.0
        for a in dk.static(numbers):
            for b in dk.static(range(2)):
                s += dk.static(a + 0.5) * x[i] ** dk.static(b + 1)
        y[i] = s

    x = np.array([0.5, 2.0])
    y, grad = run(k, [*x])
    weight = sum(a + 0.5 for a in numbers)
    np.testing.assert_allclose(y, weight * (x + x * x), rtol=1e-6)
    np.testing.assert_allclose(grad, weight * (1.0 + 2.0 * x), rtol=1e-6)
