"""Instances of structs have values of their own, also where a field takes a value without converting it."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import diffkern as dk
from diffkern.printing import prims


@dk.struct
class Inner:
    place: dk.vec3
    count: int = 7


@dk.struct
class Outer:
    inner: Inner
    matrix: dk.mat22d
    weight: dk.float32
    precise: dk.float64
    small: dk.int8
    on: bool
    data: dk.array(dtype=dk.float32)
    shift: dk.vec2 = dk.vec2(1.0, 2.0)


def test_new_instances_share_nothing():
    first, second = Outer(), Outer()
    first.inner.place[0], first.matrix[0, 1], first.shift[1], first.inner.count = 5.0, 6.0, 7.0, 8
    assert second == Outer()
    assert list(second.shift) == [1.0, 2.0]
    assert second.inner.count == 7
    assert second.data is None


def test_an_assigned_value_is_copied():
    one, place, matrix = Outer(), dk.vec3(1.0, 2.0, 3.0), dk.mat22d(1.0, 2.0, 3.0, 4.0)
    one.inner.place, one.matrix = place, matrix
    place[0], matrix[1, 1] = 9.0, 9.0
    assert list(one.inner.place) == [1.0, 2.0, 3.0]
    assert one.matrix[1, 1] == 4.0
    for made in (matrix.copy(), copy.copy(matrix), copy.deepcopy(matrix)):
        made[0, 0] = -1.0
        assert matrix[0, 0] == 1.0
        assert type(made) is dk.mat22d


def test_numbers_have_the_precision_of_their_field():
    one = Outer()
    one.weight = one.precise = 0.1
    assert (one.weight, one.precise) == (float(np.float32(0.1)), 0.1)
    one.weight = float("nan")
    assert np.isnan(one.weight)
    one.small, one.on = 127, True
    assert (one.small, one.on) == (127, True)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("small", 128, OverflowError),
        ("small", 1.5, TypeError),
        ("precise", "1", TypeError),
        ("matrix", dk.vec3(), TypeError),
        ("data", dk.zeros(2, dtype=dk.float64), TypeError),
        ("data", dk.zeros((2, 2), dtype=dk.float32), TypeError),
        ("nothing", 1.0, AttributeError),
    ],
)
def test_wrong_values_are_refused(name, value, error):
    with pytest.raises(error):
        setattr(Outer(), name, value)


def test_a_class_that_is_defined_once_more_is_the_one_of_new_fields():
    def define():
        @dk.struct
        class Part:
            x: float = 1.0

        return Part

    first = define()

    @dk.struct
    class Whole:
        part: first

    assert type(Whole().part) is first
    second = define()
    assert type(Whole().part) is second


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_inverses_on_the_host(n):
    matrix = np.random.default_rng(n).random((n, n)) + np.eye(n)
    np.testing.assert_allclose(prims.inverse(matrix), np.linalg.inv(matrix), rtol=1e-10)
    np.testing.assert_allclose(prims.determinant(matrix), np.linalg.det(matrix), rtol=1e-10)
