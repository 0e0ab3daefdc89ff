"""``float(a)``, ``a.item()``, ``a.sum()``, ``a.astype(…)``."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk

SQUARE = np.arange(6.0).reshape(2, 3)


@pytest.fixture
def a():
    return dk.array(SQUARE, dtype=dk.float64, requires_grad=True)


def test_one_element(a):
    assert a.item(1, -1) == 5.0
    assert isinstance(a.item(0, 0), float)
    assert dk.array([7], dtype=dk.int8).item() == 7
    assert dk.array([True, False]).item(0) is True
    assert dk.ones(3, dtype=dk.vec2).item(1) == [1.0, 1.0]
    assert dk.full(1, 2 + 3j, dtype=dk.complex64).item() == 2 + 3j
    assert float(dk.full((1, 1), 2.5)) == 2.5
    assert int(dk.full(1, 2.5)) == 2


@pytest.mark.parametrize(
    ("use", "error", "text"),
    [
        (lambda a: a.item(), ValueError, "6 elements; item() is for one"),
        (lambda a: a.item(1), ValueError, "2 axes, and 1 indices"),
        (lambda a: a.item(0, 3), IndexError, r"no element \(0, 3\)"),
        (lambda a: a.item(0, -4), IndexError, r"no element \(0, -4\)"),
        (lambda a: a.item(0, 0.5), TypeError, "integer"),
        (float, TypeError, r"float\(\) is for arrays of one number"),
        (lambda a: int(dk.ones(1, dtype=dk.vec3)), TypeError, r"int\(\) is for arrays of one number"),
        (lambda a: a.sum(2), dk.LaunchError, "no axis 2"),
        (lambda a: a.astype(dk.vec3), dk.LaunchError, "does not become an array of vec3"),
        (lambda a: a.astype("x"), TypeError, "not an element type"),
    ],
)
def test_what_cannot_be_done(a, use, error, text):
    with pytest.raises(error, match=text.replace("item()", r"item\(\)")):
        use(a)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, -2])
def test_sums(a, axis):
    with dk.Tape() as tape:
        found = (a * a).sum(axis)
    np.testing.assert_array_equal(found.numpy(), np.atleast_1d((SQUARE**2).sum(axis)))
    weights = np.arange(1.0, 1.0 + found.size)
    tape.backward(grads={found: dk.array(weights, dtype=dk.float64)})
    spread = np.broadcast_to(weights[:, None] if axis in (1, -1) else weights, SQUARE.shape)
    np.testing.assert_array_equal(a.grad.numpy(), 2.0 * SQUARE * spread)


def test_sums_of_views_and_of_many(a):
    assert float(a[:, 1:].sum()) == SQUARE[:, 1:].sum()
    assert a.transpose().sum(0).shape == (2,)
    assert float(a[:0].sum()) == 0.0
    np.testing.assert_array_equal(a[:0].sum(0).numpy(), np.zeros(3))
    many = np.random.default_rng(0).normal(size=5000)
    assert float(dk.array(many, dtype=dk.float64).sum()) == pytest.approx(many.sum(), abs=1e-10)
    assert dk.ones(3, dtype=dk.vec2).sum().item() == [3.0, 3.0]


def test_conversions(a):
    with dk.Tape() as tape:
        single = a.astype(float)
        loss = (single * single).astype(dk.float64).sum()
    tape.backward(loss)
    np.testing.assert_array_equal(a.grad.numpy(), 2.0 * SQUARE)
    assert single.dtype == dk.float32
    assert single.requires_grad
    whole = (a + 0.75).astype(np.int32)
    assert (whole.dtype, whole.requires_grad) == (dk.int32, False)
    np.testing.assert_array_equal(whole.numpy(), SQUARE)
    assert dk.ones((2, 2), dtype=dk.vec3).astype(dk.vec3d).dtype == dk.vec3d
