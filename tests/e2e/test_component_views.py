"""Views of vectors as numbers and of numbers as vectors; attributes of funcs; arrays made on recorded tapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp


def test_vectors_and_matrices_are_viewed_as_numbers() -> None:
    v = wp.array(np.arange(12.0).reshape(4, 3), dtype=wp.vec3)
    numbers = v.view(float)
    assert (numbers.shape, numbers.dtype) == ((4, 3), wp.float32)
    numbers[1].fill_(7.0)
    assert v.numpy()[1].tolist() == [7.0, 7.0, 7.0]
    m = wp.array(np.arange(8.0).reshape(2, 2, 2), dtype=wp.mat22)[1:]
    assert m.view(float).numpy().tolist() == [[[4.0, 5.0], [6.0, 7.0]]]
    assert m.view(wp.int32).shape == (1, 2, 2)


def test_numbers_are_viewed_as_vectors_and_matrices() -> None:
    numbers = wp.array(np.arange(24.0).reshape(4, 2, 3), dtype=float)
    v = numbers.view(wp.vec3)
    assert (v.shape, v.dtype) == ((4, 2), wp.vec3)
    numbers.fill_(2.0)
    assert v.numpy().min() == 2.0
    assert numbers[1].view(wp.vec3).shape == (2,)
    assert numbers[1][0].view(wp.vec3).shape == (1,)
    scratch = wp.zeros((6, 4, 3), dtype=float)
    matrices = scratch[2:5].reshape((4, 3, 3)).view(wp.mat33)
    matrices.fill_(wp.mat33(1.0))
    assert scratch.numpy()[2:5].min() == 1.0
    assert scratch.numpy().sum() == 36.0


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (lambda a: a.view(wp.vec4), r"its last axes are not \(4,\)"),
        (lambda a: a.view(wp.vec3d), r"its last axes are not \(3,\)"),
        (lambda a: a.view(wp.float64), "they are not of the same size"),
        (lambda a: a.transpose().view(wp.vec4), "only an array whose last axes are contiguous"),
        (lambda a: a.view(wp.vec3).view(wp.vec4), "cannot be viewed as elements"),
    ],
)
def test_other_views_are_refused(view: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        view(wp.zeros((4, 3), dtype=float))


@wp.kernel
def lengths(v: wp.array[wp.vec3], o: wp.array[float]):
    i = wp.tid()
    o[i] = wp.dot(v[i], v[i])


@wp.kernel
def sums(x: wp.array2d[float], o: wp.array[float]):
    i = wp.tid()
    o[i] = x[i, 0] * x[i, 1] * x[i, 2]


def test_gradients_go_through_views() -> None:
    values = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
    x, o = wp.array(values, dtype=float, requires_grad=True), wp.zeros(2, requires_grad=True)
    v = wp.array(values, dtype=wp.vec3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(lengths, 2, [x.view(wp.vec3), o])
    tape.backward(grads={o: wp.ones(2)})
    np.testing.assert_allclose(x.grad.numpy(), 2 * values)
    with wp.Tape() as tape:
        wp.launch(sums, 2, [v.view(float), o])
    tape.backward(grads={o: wp.ones(2)})
    np.testing.assert_allclose(v.grad.numpy(), values.prod(1, keepdims=True) / values)


# -- attributes of funcs -----------------------------------------------------------------------------------------------


def make_kernel(factor: float) -> Any:
    @wp.func
    def twice(x: float):
        return 2.0 * x

    @wp.func
    def other(x: float):
        return factor * x

    twice.fallback = other

    @wp.kernel
    def apply(x: wp.array[float]):
        i = wp.tid()
        x[i] = twice(x[i]) + twice.fallback(x[i])

    return apply, twice


def test_a_func_has_funcs_as_attributes() -> None:
    found = []
    for factor in (3.0, 5.0):
        x = wp.ones(2)
        wp.launch(make_kernel(factor)[0], 2, [x])
        found.append(x.numpy()[0])
    assert found == [5.0, 7.0]


def test_other_attributes_of_funcs_are_refused() -> None:
    kernel, twice = make_kernel(3.0)
    del twice.fallback
    with pytest.raises(dk.KernelError, match="has no attribute 'fallback'"):
        wp.launch(kernel, 1, [wp.ones(1)])


# -- arrays made on tapes that are recorded ---------------------------------------------------------------------------


@wp.kernel
def doubled(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] += x[i] * 2.0


@pytest.mark.parametrize("make", [lambda x: wp.zeros(3, requires_grad=True), wp.zeros_like, wp.ones_like])
def test_an_array_with_a_gradient_is_made_on_a_tape_in_a_capture(make: Any) -> None:
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    with wp.ScopedCapture() as capture:
        with wp.Tape() as tape:
            y = make(x)
            wp.launch(doubled, 3, [x, y])
        tape.backward(grads={y: wp.ones(3)})
    first = 1.0 if make is wp.ones_like else 0.0
    for _ in range(2):
        x.grad.zero_()
        wp.capture_launch(capture.graph)
        assert y.numpy().tolist() == [2.0 + first, 4.0 + first, 6.0 + first]
        assert x.grad.numpy().tolist() == [2.0, 2.0, 2.0]
