"""New arrays are made in a quick way, and are what the general way makes of their memory."""

import itertools
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.lang.dtypes import SCALARS
from diffkern.runtime.arrays.array import _make, array

SLOTS = [name for name in array.__slots__ if name not in ("__dict__", "__weakref__", "_alone")]
COMPOSITES = (dk.vec2, dk.vec3d, dk.vec4h, dk.mat22, dk.mat33d, dk.quat, dk.transform, dk.types.vector(7, dk.int8))
SHAPES: tuple[Any, ...] = (0, 1, 5, (4,), (2, 3), (0, 3), (1, 1), (2, 1, 3), (2, 0, 1), (1, 2, 3, 4), (2, 2, 0, 2))


@dk.struct
class Reading:
    at: dk.vec3
    values: dk.array(dtype=float)  # type: ignore[valid-type]
    count: int


TYPES = (*SCALARS.values(), *COMPOSITES, complex, float, int, bool, np.float64, Reading)


def assert_as_in_general(made: Any) -> None:
    general = _make(made._data, made._element, made._memory, True)
    assert type(made) is type(general)
    for name in SLOTS:
        assert getattr(made, name) is getattr(general, name) or getattr(made, name) == getattr(general, name), name
    assert made._alone == made._packed
    assert made._type is general._type  # look-ups are by identity
    assert made._key is general._key


@pytest.mark.parametrize("make", [dk.zeros, dk.empty])
def test_every_type_in_every_shape(make):
    for dtype, shape in itertools.product(
        (*SCALARS.values(), *COMPOSITES, float, int, bool, np.float64, Reading), SHAPES
    ):
        for _ in range(2):  # the first of a type is the one that is kept
            made = make(shape, dtype=dtype)
            assert made.shape == ((shape,) if isinstance(shape, int) else shape)
            assert_as_in_general(made)
            if make is dk.zeros or dtype is Reading:  # whose elements have addresses
                assert not made._data.view(np.uint8).any() if made.size else True


def test_what_is_asked_for_otherwise_is_the_same():
    for shape in ([2, 3], (np.int64(2), 3), np.array([2, 3])):
        made = dk.zeros(shape, dtype="float64")
        assert made.shape == (2, 3)
        assert_as_in_general(made)
    made = dk.zeros(3, dtype=dk.vec3, requires_grad=True, device="cpu")
    assert_as_in_general(made.grad)
    assert made.requires_grad


def test_a_class_that_is_defined_once_more_is_another_type():
    found = []
    for fields in ({"a": float}, {"a": float, "b": int}):
        cls = dk.struct(type("Changing", (), {"__annotations__": fields, "__module__": __name__}))
        found.append(dk.zeros(2, dtype=cls)._element)
    assert [len(of.fields) for of in found] == [1, 2]


@pytest.mark.parametrize("shape", [True, -1, 1.0, "3", (), (1, 2, 3, 4, 5), (2, -1), None, (True,)])
def test_what_is_no_shape_is_refused(shape):
    for make in (dk.zeros, dk.empty):
        with pytest.raises((TypeError, ValueError), match=r"shape|axes"):
            make(shape, dtype=float)
