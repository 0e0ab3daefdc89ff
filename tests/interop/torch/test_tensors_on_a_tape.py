"""Gradients of tensors that launches take under a tape: by whichever tensor they are named, whatever `grad` is then."""

from __future__ import annotations

import pytest
from conftest import require

require("torch")

import torch

import diffkern as dk
import diffkern.warp as wp


@dk.kernel
def square(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * x[i]


@dk.kernel
def total(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[0] += x[i] * x[i]


@dk.kernel
def square_any(x: dk.array(dtype=dk.Any, ndim=2), y: dk.array(dtype=dk.Any, ndim=2)):
    i, j = dk.tid()
    y[i, j] = x[i, j] * x[i, j]


G = torch.tensor([1.0, 2.0, 3.0, 4.0])
EXPECTED = [0.0, 4.0, 12.0, 24.0]


def leaf():
    return torch.arange(4.0, requires_grad=True)


def recorded(x, y, kernel=square, tape=None):
    with tape or dk.Tape() as tape:
        dk.launch(kernel, dim=4, inputs=[x], outputs=[y])
    return tape


@pytest.mark.parametrize("kind", [dk.Tape, wp.Tape])
@pytest.mark.parametrize("result_has_gradient", [False, True])
def test_a_loss_that_requires_a_gradient(kind, result_has_gradient):
    t, loss = leaf(), torch.zeros(1, requires_grad=result_has_gradient)
    tape = recorded(t, loss, total, kind())
    for k in (1, 2, 3):
        tape.backward(loss)
        assert t.grad.tolist() == [0.0, 2.0 * k, 4.0 * k, 6.0 * k]


@pytest.mark.parametrize("of_tape", [None, True, False])
@pytest.mark.parametrize("of_key", [None, True, False, "tensor", "detached", "slice", "numpy", "own"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_any_alias_names_what_a_sweep_begins_with(requires_grad, of_tape, of_key):
    t, y = leaf(), torch.zeros(4, requires_grad=requires_grad)
    tape = recorded(t, dk.from_torch(y, requires_grad=of_tape))
    key = {
        "tensor": lambda: y, "detached": y.detach, "slice": lambda: y[:],
        "numpy": lambda: dk.array(y.detach().numpy(), copy=False),
        "own": lambda: dk.from_torch(y, grad=torch.zeros(4)),
    }.get(of_key, lambda: dk.from_torch(y, requires_grad=of_key))()  # fmt: skip
    if of_key == "numpy":  # whose memory is another one for all that is known
        with pytest.raises(dk.LaunchError, match="does not occur on the tape"):
            tape.backward(grads={key: G})
        return
    tape.backward(grads={key: G})
    assert t.grad.tolist() == EXPECTED


def test_a_part_of_a_tensor_as_the_loss():
    t, y = leaf(), torch.zeros(4, requires_grad=True)
    tape = recorded(t, y)
    tape.backward(y[2:3])
    assert t.grad.tolist() == [0.0, 0.0, 4.0, 0.0]
    tape.zero()
    tape.backward(y[3])
    assert t.grad.tolist() == [0.0, 0.0, 0.0, 6.0]
    tape.zero()
    tape.backward(grads={y[::2]: G[:2], y[1:2]: G[:1]})
    assert t.grad.tolist() == [0.0, 2.0, 8.0, 0.0]


def test_a_tensor_with_an_element_at_several_indices_is_no_seed():
    t, y = leaf(), torch.zeros(1, requires_grad=True)
    tape = recorded(t, y, total)
    with pytest.raises(dk.LaunchError, match="one element at several indices"):
        tape.backward(grads={y.expand(4): G})


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_strided_tensors_and_seeds_of_their_rows(dtype):
    t = torch.arange(6, dtype=dtype).reshape(3, 2).T.requires_grad_()
    y = torch.zeros(2, 6, dtype=dtype)[:, ::2].requires_grad_()
    with dk.Tape() as tape:
        dk.launch(square_any, dim=(2, 3), inputs=[t], outputs=[y])
    assert y.grad.stride() != y.stride()
    tape.backward(grads={y.detach()[1:, :2]: torch.tensor([[1, 2]], dtype=dtype)})
    expected = torch.zeros(2, 3, dtype=dtype)
    expected[1, 0], expected[1, 1] = 2 * t.detach()[1, 0], 4 * t.detach()[1, 1]
    assert torch.equal(t.grad, expected)


def drop(t):
    t.grad = None


def delete(t):
    del t.grad


def replace(t):
    t.grad = torch.full_like(t, 5.0, requires_grad=False)


def place_elsewhere(t):
    t.grad.data = torch.full((4,), 5.0)


@pytest.mark.parametrize(("change", "before"), [(drop, 0), (delete, 0), (replace, 5), (place_elsewhere, 5)])
@pytest.mark.parametrize("launches", [1, 2])
def test_a_gradient_that_was_replaced_after_recording(change, before, launches):
    t, loss = leaf(), dk.zeros(1, requires_grad=True)
    tape = recorded(t, loss, total)
    if launches == 2:
        change(t)
        with tape:
            dk.launch(total, dim=4, inputs=[t], outputs=[loss])
    for _ in range(3):  # the second and the third sweep are compiled
        change(t)
        tape.backward(loss)
        assert t.grad.tolist() == [before + 2 * launches * x for x in range(4)]


def test_the_usual_order_of_an_optimizer():
    t = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    for _ in range(3):
        loss = dk.zeros(1, requires_grad=True)
        tape = recorded(t, loss, total)
        t.grad = None  # as optimizer.zero_grad() does
        tape.backward(loss)
        with torch.no_grad():
            t -= 0.25 * t.grad
    assert t.tolist() == [0.125, 0.25, 0.375, 0.5]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_gradient_that_a_result_was_given(requires_grad, when):
    t, y = leaf(), torch.zeros(4, requires_grad=requires_grad)
    if when == "before":
        y.grad = G.clone()
    tape = recorded(t, y)
    if when == "after":
        y.grad = G.clone()
    tape.backward()
    assert t.grad.tolist() == EXPECTED


def test_a_gradient_of_a_constant_is_refused_or_left_alone():
    t, c, y = leaf(), torch.ones(4), torch.zeros(1)
    c.grad = torch.full((4,), 7.0)  # of a parameter that is frozen
    with dk.Tape() as tape:
        dk.launch(total, dim=4, inputs=[c], outputs=[y])
        dk.launch(total, dim=4, inputs=[t], outputs=[y])
    tape.backward(y)
    assert t.grad.tolist() == [0.0, 2.0, 4.0, 6.0]
    assert c.grad.tolist() == [7.0] * 4
    c.requires_grad_()
    with pytest.raises(dk.LaunchError, match="got a gradient after it was used"):
        tape.backward(y)


def test_zeroing_a_tape_leaves_a_gradient_alone_that_was_taken_away():
    t, loss = leaf(), dk.zeros(1, requires_grad=True)
    tape = recorded(t, loss, total)
    tape.backward(loss)
    kept, t.grad = t.grad, None
    tape.zero()
    assert kept.tolist() == [0.0, 2.0, 4.0, 6.0]
    assert t.grad is None
    tape.backward(loss)
    assert t.grad.tolist() == kept.tolist()
    tape.reset()
    assert t.grad.tolist() == [0.0] * 4


def test_two_tensors_over_one_memory_with_two_gradients():
    t, loss = leaf(), dk.zeros(1, requires_grad=True)
    other = t.detach().requires_grad_()
    t.grad = other.grad = torch.zeros(4)
    with dk.Tape() as tape:
        dk.launch(total, dim=4, inputs=[t], outputs=[loss])
        dk.launch(total, dim=4, inputs=[other], outputs=[loss])
    tape.backward(loss)
    assert t.grad.tolist() == [0.0, 4.0, 8.0, 12.0]
    t.grad = other.grad = None
    with pytest.raises(dk.LaunchError, match="or with two gradients"):
        tape.backward(loss)


def test_a_tensor_that_became_another_has_no_gradient_of_what_it_was():
    t, loss = leaf(), dk.zeros(1, requires_grad=True)
    tape = recorded(t, loss, total)
    t.grad = None
    t.data = torch.ones(2)
    with pytest.raises(dk.LaunchError, match="has become one of shape"):
        tape.backward(loss)


def test_a_sparse_gradient_is_refused():
    t, loss = leaf(), dk.zeros(1, requires_grad=True)
    tape = recorded(t, loss, total)
    t.grad = torch.ones(4).to_sparse()
    with pytest.raises(TypeError, match="kernels work on dense memory"):
        tape.backward(loss)


def test_the_second_sweep_from_a_tensor_is_compiled():
    t, loss = leaf(), torch.zeros(1, requires_grad=True)
    tape = recorded(t, loss, total)
    for _ in range(2):
        tape.backward(loss)
    assert tape._again is not None


def test_a_tensor_of_a_launch_that_was_refused():
    t, other, loss = leaf(), leaf(), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        with pytest.raises(dk.LaunchError):
            dk.launch(total, dim=4, inputs=[other], outputs=[torch.zeros(1, dtype=torch.int32)])
        dk.launch(total, dim=4, inputs=[t], outputs=[loss])
    t.grad = other.grad = None
    tape.backward(loss)
    assert t.grad.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_tensors_in_steps_of_a_checkpoint():
    t, loss = leaf(), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        dk.checkpoint(lambda _: dk.launch(total, dim=4, inputs=[t], outputs=[loss]), steps=3, slots=2)
    t.grad = None
    tape.backward(loss)
    assert t.grad.tolist() == [0.0, 6.0, 12.0, 18.0]


def test_tensors_in_a_function_that_is_differentiated_on_a_tape():
    t, scale, out = leaf(), dk.array([3.0], dtype=float), dk.zeros(1, requires_grad=True)

    def loss(s):
        value = dk.zeros(1)
        dk.launch(weighted, dim=4, inputs=[t, s], outputs=[value])
        return value

    with dk.Tape() as tape:
        (slope,) = (dk.grad(loss)(scale),)
        dk.launch(total, dim=1, inputs=[slope], outputs=[out])
    t.grad = None
    tape.backward(out)  # the square of the sum of t**2, which is 14
    assert t.grad.tolist() == [0.0, 56.0, 112.0, 168.0]


@dk.kernel
def weighted(x: dk.array(dtype=float), s: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[0] += s[0] * x[i] * x[i]
