"""Gradients of the elements of one array by way of another over the same memory."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.seeds import run_seed

import diffkern as dk
from diffkern.runtime.arrays.alias import gradient_of_alias
from diffkern.runtime.effects.cotangents import Cotangents


def part_of(data, generator):
    """Return a view of an array: reversed, with steps, with axes in another order or with other ones."""
    for _ in range(generator.randrange(4)):
        kind = generator.choice(["slice", "order", "join", "split", "axis"])
        if kind == "slice":
            axis = generator.randrange(data.ndim)
            low, step = generator.randrange(max(1, data.shape[axis] // 2)), generator.choice([1, 1, 2, -1, -2])
            end = slice(low, None, step) if step > 0 else slice(None, low or None, step)
            data = data[(slice(None),) * axis + (end,)]
        elif kind == "order":
            data = data.transpose(generator.sample(range(data.ndim), data.ndim))
        elif kind == "join" and data.flags.c_contiguous:
            data = data.reshape(-1)
        elif kind == "split" and data.ndim == 1 and data.size % 2 == 0:
            data = data.reshape(2, -1)
        elif kind == "axis" and data.ndim < 3:
            data = data[np.newaxis]
    return data


@pytest.mark.parametrize("case", range(3))
def test_views_of_any_strides_find_their_elements(case):
    generator, found = random.Random(run_seed() + case), 0
    for _ in range(150):
        memory = np.arange(24, dtype=np.float32).reshape(generator.choice([(24,), (4, 6), (2, 3, 4)]))
        owner, held = part_of(memory, generator), part_of(memory, generator)
        if not owner.size or not held.size:
            continue
        numbers = np.arange(100, 100 + owner.size, dtype=np.float32).reshape(owner.shape)
        order = generator.sample(range(owner.ndim), owner.ndim)
        grad = np.ascontiguousarray(numbers.transpose(order)).transpose(np.argsort(order))
        belongs = dict(zip(owner.flat, grad.flat, strict=True))
        arrays = [dk.array(data, copy=False) for data in (held, owner, grad)]
        try:
            part = gradient_of_alias(*arrays)
        except dk.LaunchError:
            # What lies across rows has no strides of its own where the gradient is laid out otherwise.
            assert set(held.flat) - belongs.keys() or grad.strides != owner.strides or not owner.flags.c_contiguous
            continue
        found += 1
        np.testing.assert_array_equal(part.numpy(), np.vectorize(belongs.__getitem__)(held))
    assert found > 30


@dk.kernel
def square(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * x[i]


def recorded(y):
    x = dk.array([1.0, 2.0, 3.0, 4.0], dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(square, dim=4, inputs=[x], outputs=[y])
    return x, tape


@pytest.mark.parametrize("with_gradient", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_arrays_made_of_the_view_of_another_as_seeds(with_gradient, late):
    y = dk.zeros(4, requires_grad=not late)
    x, tape = recorded(y)
    y.requires_grad = True
    key = dk.array(y.numpy(), copy=False, requires_grad=with_gradient)
    tape.backward(grads={key: [1.0, 2.0, 3.0, 4.0]})
    assert x.grad.numpy().tolist() == [2.0, 8.0, 18.0, 32.0]
    tape.zero()
    tape.backward(grads={dk.array(y.numpy()[::-2], copy=False): [1.0, 2.0]})
    assert x.grad.numpy().tolist() == [0.0, 8.0, 0.0, 8.0]
    tape.zero()
    tape.backward(dk.array(y.numpy()[2:3], copy=False, requires_grad=with_gradient))
    assert x.grad.numpy().tolist() == [0.0, 0.0, 6.0, 0.0]


def test_an_array_of_numpy_as_the_loss():
    y = np.zeros(4, np.float32)
    x, tape = recorded(y)
    tape.backward(y[1:2])
    assert x.grad.numpy().tolist() == [0.0, 4.0, 0.0, 0.0]


def test_what_is_no_part_of_the_array_with_the_gradient_is_refused():
    data = np.zeros(8, np.float32)
    y = dk.array(data[2:6], copy=False, requires_grad=True)
    x, tape = recorded(y)
    for key in (data[1:5], data[4:7], data[6:], data.view(np.int32)[2:6].view(np.float16)):
        with pytest.raises(dk.LaunchError, match="has no part for it"):
            tape.backward(grads={dk.array(key, copy=False): np.ones(len(key))})
    assert not x.grad.numpy().any()


def test_two_aliases_of_one_element_are_refused():
    y = dk.zeros(4, requires_grad=True)
    x, tape = recorded(y)
    with pytest.raises(dk.LaunchError, match="the two share"):
        tape.backward(grads={dk.array(y.numpy()[1:], copy=False): [1.0] * 3, y[:2]: [1.0] * 2})
    assert not x.grad.numpy().any()


@pytest.mark.parametrize("is_result", [False, True])
def test_a_view_that_got_a_gradient_of_its_own_after_it_was_recorded(is_result):
    y, z = dk.ones(4, requires_grad=True), dk.zeros(4)
    view = y[0:4]
    x, tape = recorded(view) if is_result else recorded(y)
    with tape:
        dk.launch(square, dim=4, inputs=[y if is_result else view], outputs=[z])
    view.grad = dk.ones(4)
    with pytest.raises(dk.LaunchError, match="or with two gradients"):
        tape.backward(grads={z: np.ones(4)})
    assert not x.grad.numpy().any()


def test_an_alias_of_a_result_that_got_its_gradient_afterwards():
    y, z = dk.zeros(4), dk.zeros(4)
    x, tape = recorded(y)
    with tape:
        dk.launch(square, dim=4, inputs=[dk.array(y.numpy(), copy=False)], outputs=[z])
    y.requires_grad = True
    tape.backward(grads={z: np.ones(4)})
    assert x.grad.numpy().tolist() == [4.0, 32.0, 108.0, 256.0]


def test_vectors_by_their_components():
    y = dk.zeros(2, dtype=dk.vec2, requires_grad=True)
    sweep = Cotangents({y._memory: y}, lambda held: held.grad)
    part = sweep.begun(dk.array(y.numpy()[:, 1], copy=False))
    part.fill_(3.0)
    assert y.grad.numpy().tolist() == [[0.0, 3.0], [0.0, 3.0]]
