"""``dk.map`` and ``wp.map``: what a function is told by, and what it returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.transforms.mapping import _identity, kernels

SCALE = 2.0


@dk.struct
class MappedPair:
    a: float
    b: float


@dk.struct
class Other:
    v: dk.vec2


def given(*values: float) -> Any:
    return dk.array(list(values), dtype=float)


def times_scale(x: Any) -> Any:
    return dk.map(lambda v: v * SCALE, x)


def times(x: Any, factor: Any) -> Any:
    return dk.map(lambda v: v * factor, x)


def test_a_lambda_follows_changes_of_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    x = given(1, 2)
    np.testing.assert_array_equal(times_scale(x).numpy(), [2, 4])
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    np.testing.assert_array_equal(times_scale(x).numpy(), [3, 6])


@dk.func
def times_of_scale(v: Any):
    return v * SCALE


def test_results_follow_changes_of_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = dk.array([1, 2], dtype=int)
    for value, dtype in ((2, dk.int32), (2.5, dk.float32), (3, dk.int32), (dk.float64(0.5), dk.float64)):
        monkeypatch.setitem(globals(), "SCALE", value)
        for found in (dk.map(times_of_scale, whole), times_scale(whole)):
            assert found.dtype == dtype
            np.testing.assert_array_equal(found.numpy(), [value, 2 * value])


def test_a_lambda_keeps_what_it_captured() -> None:
    def doubled_and_more(x: Any, factor: float) -> Any:
        other = 2 * factor
        found = dk.map(lambda a, b: a * factor + b * other, x, x)
        factor = other = 100.0
        return found

    x = given(1, 2)
    np.testing.assert_array_equal(doubled_and_more(x, 1.0).numpy(), [3, 6])
    np.testing.assert_array_equal(doubled_and_more(x, 1.0).numpy(), [3, 6])


def test_equal_values_of_two_types_are_not_one() -> None:
    whole = dk.array([1, 2], dtype=int)
    assert [times(whole, factor).dtype for factor in (2.0, 2, 2.0)] == [dk.float32, dk.int32, dk.float32]
    assert np.signbit(dk.map(lambda v: 0.0 * v, given(-1.0)).numpy()).all()
    zeros = [np.signbit(times(given(1.0), factor).numpy()[0]) for factor in (0.0, -0.0, 0.0)]
    assert zeros == [False, True, False]


@pytest.mark.parametrize("made", [np.float32, np.float64, lambda x: (x,), lambda x: (1, (x,))])
def test_equal_values_inside_and_of_numpy_are_not_one(made: Any) -> None:
    def times_last(held: Any) -> Any:
        while isinstance(held, tuple) and isinstance(held[-1], tuple):
            held = held[-1]
        return dk.map((lambda v: v * held[0]) if isinstance(held, tuple) else (lambda v: v * held), given(1.0))

    zeros = [np.signbit(times_last(made(factor)).numpy()[0]) for factor in (0.0, -0.0, 0.0)]
    assert zeros == [False, True, False]


def test_equal_objects_are_not_one() -> None:
    class Factor:
        def __init__(self, by: float) -> None:
            self.by = by

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Factor)

        def __hash__(self) -> int:
            return 0

    def key_of(held: Any) -> Any:
        return _identity(lambda v: v * held.by)

    one = Factor(1.0)
    assert key_of(one) == key_of(one) != key_of(Factor(2.0))


def test_one_lambda_at_two_places_and_a_given_array_share_a_kernel() -> None:
    x, y = given(1, 2), given(3, 4)
    dk.map(lambda a, b: a - 0.125 * b, x, y)
    known = len(kernels)
    dk.map(lambda a, b: a - 0.125 * b, x, y)
    out = given(0, 0)
    dk.map(lambda a, b: a - 0.125 * b, x, y, out=out)
    assert len(kernels) == known
    np.testing.assert_array_equal(out.numpy(), [0.625, 1.5])
    dk.map(lambda a, b: a - 0.125 * b, x, x.reshape((2, 1)))
    assert len(kernels) == known + 1


@dk.func
def summed(p: MappedPair, q: MappedPair):
    return MappedPair(p.a + q.a, p.b * q.b)


@dk.func
def both(p: MappedPair, scale: float):
    return Other(dk.vec2(p.a, scale)), p.b


def test_structs_are_taken_and_returned() -> None:
    pairs = dk.array([MappedPair(1.0, 2.0), MappedPair(3.0, 4.0)], dtype=MappedPair)
    found = dk.map(summed, pairs, pairs)
    assert found.dtype is MappedPair
    assert [tuple(p) for p in found.numpy()] == [(2.0, 4.0), (6.0, 16.0)]
    others, bs = dk.map(both, pairs, 0.5)
    np.testing.assert_array_equal(others.numpy()["v"], [(1.0, 0.5), (3.0, 0.5)])
    np.testing.assert_array_equal(bs.numpy(), [2.0, 4.0])
    np.testing.assert_array_equal(dk.map(lambda p: p.a, pairs).numpy(), [1.0, 3.0])


def test_gradients_flow_through_structs() -> None:
    pairs = dk.zeros(2, dtype=MappedPair, requires_grad=True)
    pairs.assign([MappedPair(1.0, 2.0), MappedPair(3.0, 4.0)])
    with dk.Tape() as tape:
        found = dk.map(summed, pairs, pairs)
        product = dk.map(lambda p: p.a * p.b, found)
    tape.backward(grads={product: given(1.0, 1.0)})
    values = pairs.grad.numpy()
    np.testing.assert_allclose(values["a"], [8.0, 32.0])  # of 2 a b**2
    np.testing.assert_allclose(values["b"], [8.0, 48.0])


def test_what_returns_nothing_is_refused() -> None:
    def nothing(x: Any) -> None:
        x + 1.0

    with pytest.raises(dk.KernelError, match="nothing returns nothing"):
        wp.map(nothing, given(1.0))
