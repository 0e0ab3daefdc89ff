"""A tape on which nothing requires a gradient says so."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp


@dk.kernel
def scale(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


def _recorded(graded_loss, way):
    x, y = dk.ones(1), dk.zeros(1, requires_grad=graded_loss)
    with dk.Tape() as tape:
        if way == "launch":
            scale[1](x, y)
        else:
            dk.copy(y, x)
    return tape, y


@pytest.mark.parametrize("way", ["launch", "copy"])
@pytest.mark.parametrize("graded_loss", [False, True])
def test_nothing_has_a_gradient(graded_loss, way):
    for begin in ("loss", "grads"):
        tape, y = _recorded(graded_loss, way)
        with pytest.raises(dk.LaunchError, match="no array on this tape has a gradient to be computed"):
            tape.backward(y) if begin == "loss" else tape.backward(grads={y: np.ones(1, np.float32)})


@pytest.mark.parametrize("way", ["launch", "copy"])
def test_nothing_has_a_gradient_and_there_is_no_seed(way):
    tape, _ = _recorded(False, way)
    with pytest.raises(dk.LaunchError, match="no array on this tape has a gradient to be computed"):
        tape.backward()


def test_a_loss_that_depends_on_no_array_with_a_gradient():
    x, y, z = dk.ones(1, requires_grad=True), dk.ones(1), dk.zeros(1)
    with dk.Tape() as tape:
        scale[1](x, dk.zeros(1))
        scale[1](y, z)
    with pytest.raises(dk.LaunchError, match="depends on no array of this tape that has a gradient") as error:
        tape.backward(z)
    assert error.value.remedy == (
        "make the arrays that you want gradients for with requires_grad=True, before they are first used"
    )
    assert x.grad.list() == [0.0]


def test_a_loss_that_was_overwritten_depends_on_nothing():
    x, y = dk.ones(1, requires_grad=True), dk.zeros(1)
    with dk.Tape() as tape:
        scale[1](x, y)
        y.zero_()
    with pytest.raises(dk.LaunchError, match="depends on no array"):
        tape.backward(y)


@dk.kernel
def add_up(x: dk.array(dtype=float), s: dk.array(dtype=float)):
    dk.atomic_add(s, 0, x[dk.tid()])


def test_only_the_loss_has_a_gradient():
    x, s = dk.ones(3), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        add_up[3](x, s)
    with pytest.raises(dk.LaunchError, match="no array on this tape has a gradient to be computed, not counting what"):
        tape.backward(s)


def test_a_loss_with_a_gradient_that_depends_on_no_other():
    x, y, s = dk.ones(3, requires_grad=True), dk.ones(3), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        add_up[3](x, dk.zeros(1))
        add_up[3](y, s)
    with pytest.raises(dk.LaunchError, match="depends on no array of this tape"):
        tape.backward(s)


def test_what_is_left_of_an_array_with_a_gradient_is_a_result():
    y = dk.ones(3, requires_grad=True)
    with dk.Tape() as tape:
        scale[2](dk.ones(3), y)
    tape.backward(grads={y: dk.ones(3)})
    assert y.grad.list() == [0.0, 0.0, 1.0]


@dk.struct
class Body:
    position: dk.vec3
    mass: float


@dk.kernel
def place(x: dk.array(dtype=float), bodies: dk.array(dtype=Body)):
    i = dk.tid()
    bodies[i].position = dk.vec3(x[i])


def test_fields_that_are_left_are_a_result():
    bodies = dk.zeros(2, dtype=Body, requires_grad=True)
    with dk.Tape() as tape:
        place[2](dk.ones(2), bodies)
    tape.backward(grads={bodies: np.ones(2, bodies.numpy().dtype)})
    assert bodies.grad.numpy()["position"].tolist() == [[0.0] * 3] * 2
    assert bodies.grad.numpy()["mass"].tolist() == [1.0, 1.0]


@dk.struct
class Marked:
    mark: dk.int32
    value: float


@dk.kernel
def set_marks(marked: dk.array(dtype=Marked)):
    marked[dk.tid()].mark = 3


def test_fields_beside_an_integer_field_are_a_result():
    marked = dk.zeros(2, dtype=Marked, requires_grad=True)
    with dk.Tape() as tape:
        set_marks[2](marked)
    tape.backward(grads={marked: np.ones(2, marked.numpy().dtype)})
    assert marked.grad.numpy()["value"].tolist() == [1.0, 1.0]


def test_an_array_that_is_copied_into_itself_is_a_result():
    x = dk.array([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    with dk.Tape() as tape:
        dk.copy(x[0:6:2], x[2::-1])
    tape.backward(grads={x: np.ones(5, np.float32)})
    assert x.numpy().tolist() == [3.0, 2.0, 2.0, 4.0, 1.0]
    assert x.grad.list() == [1.0, 2.0, 1.0, 1.0, 0.0]


def test_an_array_to_which_constants_are_added_is_a_result():
    x = dk.ones(3, requires_grad=True)
    with dk.Tape() as tape:
        x += dk.ones(3)
    tape.backward(grads={x: np.ones(3, np.float32)})
    assert x.grad.list() == [1.0, 1.0, 1.0]


def test_one_of_several_results_depends_on_an_array_with_a_gradient():
    x, y, z = dk.ones(1, requires_grad=True), dk.ones(1), dk.zeros(1)
    with dk.Tape() as tape:
        scale[1](x, y)
        scale[1](dk.ones(1), z)
    tape.backward(grads={y: dk.ones(1), z: dk.ones(1)})
    assert x.grad.list() == [2.0]


def test_an_array_may_be_its_own_result():
    x = dk.ones(1, requires_grad=True)
    with dk.Tape() as tape:
        scale[1](x, dk.zeros(1))
    tape.backward(x)
    assert x.grad.list() == [1.0]


@wp.kernel
def scale_in_warp(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]


def test_in_warp_a_loss_that_depends_on_nothing_is_a_warning():
    x, y, z = wp.ones(1, requires_grad=True), wp.ones(1), wp.zeros(1)
    with wp.Tape() as tape:
        wp.launch(scale_in_warp, dim=1, inputs=[x], outputs=[wp.zeros(1)])
        wp.launch(scale_in_warp, dim=1, inputs=[y], outputs=[z])
    with pytest.warns(RuntimeWarning, match="depends on no array of this tape that has a gradient, so all") as caught:
        tape.backward(z)
    assert caught[0].filename == __file__
    assert x.grad.numpy().tolist() == [0.0]


def test_an_empty_tape():
    with dk.Tape() as tape:
        pass
    tape.backward()


@dk.kernel
def product(a: dk.array[float], b: dk.array[float], y: dk.array[float]):
    i = dk.tid()
    y[i] = a[i] * b[i]


def recorded_product(a, b, y):
    with dk.Tape() as tape:
        dk.launch(product, 3, [a, b, y])
    return tape


@pytest.mark.parametrize("through", ["array", "view"])
def test_a_result_may_get_its_gradient_after_it_was_recorded(through):
    a, b, y = (dk.full(3, value) for value in (2.0, 5.0, 0.0))
    a.requires_grad = True
    tape = recorded_product(a, b, y[:] if through == "view" else y)
    y.grad = dk.ones(3)
    tape.backward()
    np.testing.assert_array_equal(a.grad.numpy(), [5.0, 5.0, 5.0])
    tape.backward(grads={y: np.full(3, 2.0, np.float32)})
    np.testing.assert_array_equal(a.grad.numpy(), [15.0, 15.0, 15.0])


def test_what_was_taken_for_a_constant_gets_no_gradient_of_zeros():
    a, b, y = (dk.full(3, value) for value in (2.0, 5.0, 0.0))
    a.requires_grad = True
    tape = recorded_product(a, b, y)
    b.requires_grad = True
    with pytest.raises(dk.LaunchError, match="after it was used on this tape"):
        tape.backward(grads={y: np.ones(3, np.float32)})
    np.testing.assert_array_equal(a.grad.numpy(), [0.0, 0.0, 0.0])
