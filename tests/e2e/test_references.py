"""Parameters of funcs that stand for variables of the caller: ``wp.ref[float]``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp


@wp.struct
class Box:
    size: float
    count: int
    at: wp.vec3


@wp.func
def grow(x: wp.ref[float], by: float):
    x += by


@wp.func
def swap(a: wp.ref[float], b: wp.ref[float]):
    a, b = b, a


@wp.func
def look(x: wp.ref[float]) -> float:
    return 2.0 * x


@wp.func
def forward(x: wp.ref[float], n: int):
    for _ in range(n):
        grow(x, 1.0)
    if n > 2:
        grow(by=0.5, x=x)
        return
    x *= 2.0


@wp.func
def enlarge(box: wp.ref[Box], factor: float):
    box.size *= factor
    box.count += 1
    grow(box.at[1], factor)


@wp.func
def draw(counter: wp.ref[int]) -> int:
    counter += 1
    return 10 * counter


def launched(kernel: Any, inputs: list[Any], out: Any) -> Any:
    wp.launch(kernel, 1 if out.ndim == 1 else out.shape[0], inputs=inputs, outputs=[out])
    return out.numpy()


@wp.kernel
def of_variables(x: wp.array[float], n: int, out: wp.array2d[float]):
    i = wp.tid()
    a, b = x[i], 7.0
    swap(a, b)
    out[i, 0], out[i, 1] = a, b
    grow(a, look(b))
    out[i, 2] = a
    c = 0.0
    forward(c, n)
    out[i, 3] = c
    for k in range(n):
        if k % 2 == 0:
            grow(c, x[i])
        else:
            swap(b, c)
    out[i, 4] = c
    counter = 0
    total = 0
    while counter < n:
        total += draw(counter)
    out[i, 5] = float(total)


def expected(x: float, n: int) -> list[float]:
    a, b, c = 7.0, x, 0.0
    row = [a, b, a + 2.0 * b]
    c += n
    c = c + 0.5 if n > 2 else 2.0 * c
    row.append(c)
    for k in range(n):
        if k % 2 == 0:
            c += x
        else:
            b, c = c, b
    return [*row, c, float(sum(10 * k for k in range(1, n + 1)))]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 6])
def test_variables_are_what_the_func_left_in_its_parameters(n):
    x = np.array([1.5, -2.0], np.float32)
    found = launched(of_variables, [wp.array(x), n], wp.zeros((2, 6), dtype=float))
    np.testing.assert_allclose(found, [expected(v, n) for v in x.tolist()], rtol=1e-6)


@wp.kernel
def of_parts(x: wp.array[float], v: wp.array[wp.vec3], boxes: wp.array[Box], out: wp.array[float]):
    i = wp.tid()
    grow(x[i], 10.0)
    w = v[i]
    grow(w[2], x[i])
    swap(w.x, w.y)
    v[i] = w
    box = boxes[i]
    enlarge(box, 3.0)
    enlarge(box, 2.0)
    boxes[i] = box
    out[i] = look(x[i])


def test_elements_components_and_fields_are_changed():
    box = Box()
    box.size, box.count, box.at = 2.0, 4, wp.vec3(1.0, 2.0, 3.0)
    x, v, boxes = wp.array([1.0], dtype=float), wp.array([[1.0, 2.0, 3.0]], dtype=wp.vec3), wp.array([box], dtype=Box)
    out = launched(of_parts, [x, v, boxes], wp.zeros(1, dtype=float))
    assert out.tolist() == [22.0]
    assert x.numpy().tolist() == [11.0]
    assert v.numpy().tolist() == [[2.0, 1.0, 14.0]]
    (changed,) = boxes.list()
    assert (changed.size, changed.count) == (12.0, 6)
    assert changed.at == wp.vec3(1.0, 7.0, 3.0)


@wp.kernel
def differentiated(x: wp.array[float], n: int, y: wp.array[float]):
    i = wp.tid()
    a, b = x[i] * x[i], x[i]
    for _ in range(n):
        swap(a, b)
        grow(a, 3.0 * b)
    y[i] = a * b


@pytest.mark.parametrize("n", [0, 1, 4])
def test_gradients_go_through_references(n):
    x = wp.array([0.5, -1.25], dtype=float, requires_grad=True)
    y = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(differentiated, 2, inputs=[x, n], outputs=[y])
    tape.backward(grads={y: np.ones(2, np.float32)})

    def of(v: np.ndarray) -> np.ndarray:
        a, b = v * v, v
        for _ in range(n):
            a, b = b + 3.0 * a, a
        return a * b

    v, h = np.array([0.5, -1.25]), 1e-6
    np.testing.assert_allclose(y.numpy(), of(v), rtol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), (of(v + h) - of(v - h)) / (2.0 * h), rtol=1e-4)


def test_elements_that_are_only_looked_at_are_not_written():
    @wp.kernel
    def neighbours(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = look(x[0]) + look(x[i])

    x, y = wp.array([1.0, 2.0], dtype=float, requires_grad=True), wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(neighbours, 2, inputs=[x], outputs=[y])
    tape.backward(grads={y: np.ones(2, np.float32)})
    np.testing.assert_array_equal(x.grad.numpy(), [6.0, 2.0])


def test_annotations():
    assert wp.ref[wp.int32] == wp.ref[wp.int32] != wp.ref[wp.int64]
    assert len({wp.ref[wp.vec3], wp.ref[wp.vec3]}) == 1
    assert repr(wp.ref[wp.int32]) == "wp.ref[int32]"
    assert wp.ref[float].dtype is wp.ref[float].value_type is float
    with pytest.raises(TypeError, match="for annotations"):
        wp.ref(1.0)


def of_number(out: wp.array[float]):
    grow(1.0, 2.0)


def of_result(out: wp.array[float]):
    grow(look(out[0]), 2.0)


def of_expression(out: wp.array[float]):
    a = out[0]
    grow(a + 1.0, 2.0)


def of_constant(out: wp.array[float]):
    grow(LIMIT, 2.0)


def with_a_call_in_the_index(out: wp.array[float]):
    grow(out[wp.tid() % 2], 2.0)


def by_two_arguments(out: wp.array[float]):
    swap(out[0], out[0])


def by_another_name(out: wp.array[float]):
    f = grow
    a = out[0]
    for _ in range(3):
        f(a, 2.0)
    out[0] = a


LIMIT = 3.0


@pytest.mark.parametrize("body", [of_number, of_result, of_expression, of_constant, with_a_call_in_the_index])
def test_arguments_that_are_no_variables(body):
    with pytest.raises(dk.KernelError, match="must be a variable"):
        wp.launch(wp.Kernel(body), 1, inputs=[wp.zeros(1, dtype=float)])


def test_one_variable_by_two_arguments():
    with pytest.raises(dk.KernelError, match="by two arguments"):
        wp.launch(wp.Kernel(by_two_arguments), 1, inputs=[wp.zeros(1, dtype=float)])


@wp.func
def takes_one(x: wp.ref[int]) -> bool:
    x -= 1
    return x >= 0


@wp.kernel
def in_conditions(n: int, out: wp.array[int]):
    left = int(n)
    trips = 0
    while takes_one(left):
        trips += 1
    out[0] = trips
    other = int(n)
    if n > 2 and takes_one(other):
        trips = other
    out[1] = trips


@pytest.mark.parametrize("n", [0, 2, 5])
def test_calls_in_conditions(n):
    found = launched(in_conditions, [n], wp.zeros(2, dtype=int))
    assert found.tolist() == [n, n - 1 if n > 2 else n]


def test_calls_by_another_name():
    with pytest.raises(dk.KernelError, match="by its own name"):
        wp.launch(wp.Kernel(by_another_name), 1, inputs=[wp.zeros(1, dtype=float)])


def test_kernels_take_no_references():
    @wp.kernel
    def wrong(x: wp.ref[float]):
        x += 1.0

    with pytest.raises(dk.KernelError, match="parameters of funcs alone"):
        wp.launch(wrong, 1, inputs=[1.0])


@wp.func
def twice(x: float) -> float:
    return 2.0 * x


@wp.func
def applied(g: wp.Function, x: float, to: wp.ref[float]) -> float:
    to = g(x)
    return g(to)


@wp.kernel
def with_functions(out: wp.array[float]):
    out[0] = applied(wp.sqrt, 16.0, out[1])
    out[2] = applied(twice, 3.0, out[3])


def test_functions_as_parameters_that_are_annotated():
    assert launched(with_functions, [], wp.zeros(4, dtype=float)).tolist() == [2.0, 4.0, 12.0, 6.0]
