"""Vectors and matrices that are packed at once are those that NumPy converts, for all types and kinds of components."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.lang import values
from diffkern.lang.dtypes import COMPOSITES, SCALARS, CompositeType, InMemoryType

MADE = [
    dk.types.matrix((2, 3), dk.float64), dk.types.vector(5, dk.float32), dk.types.vector(1, dk.int16),
    dk.types.matrix((1, 1), dk.float32), dk.types.vector(2, dk.uint64), dk.types.vector(3, dk.int64),
]  # fmt: skip
TYPES: list[CompositeType] = [*{id(t): t for t in (*COMPOSITES.values(), *MADE)}.values()]
NUMBERS = [
    0, 1, -1, 3, 127, 128, -129, 255, 256, 2**31, -(2**31), 2**53, 2**53 + 1, 2**63, 2**64, 10**400,
    0.0, -0.0, 0.1, 1.5, -2.5, 1e-45, 1e-310, 3.4e38, 1e39, -1e39, 1e308, float("inf"), float("-inf"), float("nan"),
    True, False, 1j, "1", None, np.float32(0.1), np.float64(1e39), np.int64(2**53 + 1), np.uint8(200), np.bool_(True),
]  # fmt: skip
"""Numbers of all kinds at the limits of their types, and what is no number."""


class _Own(dk.vec3):
    def length(self) -> int:
        return 3


def _arguments(t: CompositeType) -> Iterator[tuple[Any, ...]]:
    """Arguments that a type may be called with, right and wrong."""
    size = t.ir.size
    yield ()
    for number in NUMBERS:
        yield (number,)
        yield (number,) * size
        # Between others, as the kind of one component decides about all of them.
        yield (*(0.5,) * (size - 1), number)
        yield (number, *(2,) * (size - 1))
    yield (1.0,) * (size + 1)
    if size > 1:
        yield (1.0,) * (size - 1)
    plain = [k + 1 for k in range(size)]
    yield (plain,)
    yield (np.array(plain, np.float64),)
    for other in TYPES:
        if other.ir.size <= size and not isinstance(other.ir, type(None)):
            made = _plain(other)
            yield (made,)
            if other.ir.size < size:
                yield (made, *(0.25,) * (size - other.ir.size))
                yield (*(3,) * (size - other.ir.size), made)
            if size % other.ir.size == 0:
                yield (made,) * (size // other.ir.size)
    yield (_Own(1.0, 2.0, 3.0),)
    if size == 7:
        yield dk.vec3(1.0, 2.0, 3.0), dk.quat(0.1, 0.2, 0.3, 0.4)
        yield (_Own(1.0, 2.0, 3.0), dk.quat(0.1, 0.2, 0.3, 0.4))
        yield (dk.vec3d(1.0, 2.0, 3.0), dk.quat(0.1, 0.2, 0.3, 0.4))


def _plain(t: CompositeType) -> Any:
    return t(*[k % 2 for k in range(t.ir.size)])


def _found(make: Callable[[], Any]) -> Any:
    """The class and the bytes of a value, and its warnings, or the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = make()
        except Exception as error:
            return type(error), str(error)
    return type(value), np.asarray(value).dtype, np.array(value).tobytes(), [str(w.message) for w in caught]


@pytest.mark.parametrize("t", [*TYPES, _Own], ids=lambda t: f"{t.__name__}")
def test_a_value_is_that_of_numpy(t: CompositeType, monkeypatch: pytest.MonkeyPatch) -> None:
    every = [*_arguments(t)]
    found = [_found(lambda given=given: t(*given)) for given in every]
    monkeypatch.setattr(values, "_packed", lambda *_: None)
    expected = [_found(lambda given=given: t(*given)) for given in every]
    for given, one, other in zip(every, found, expected, strict=True):
        if (
            t.ir.dtype.name == "uint64"
            and len(given) == t.ir.size
            and all(type(n) is int and 0 <= n < 2**64 for n in given)
        ):
            # NumPy takes integers on both sides of 2**63 for floats, and refuses these.
            assert one[2] == np.array(given, np.uint64).tobytes(), f"{t.__name__}{given}"
        else:
            assert one == other, f"{t.__name__}{given}"


def test_usual_values_are_packed() -> None:
    """The comparison above says nothing about types that are always converted."""
    for t in TYPES:
        is_packed = isinstance(t, InMemoryType) and t.ir.dtype.name not in ("bool", "bfloat16")
        assert (t._pack is not None) == is_packed, t.__name__
        if is_packed:
            assert values._packed(t, (1,) * t.ir.size) == t.wrap(np.ones(t.shape)).tobytes()
    three, four = dk.vec3(1.0, 2.0, 3.0), dk.quat(0.1, 0.2, 0.3, 0.4)
    assert values._packed(dk.transform, (three, four)) == three.tobytes() + four.tobytes()
    assert {t.ir.dtype.name for t in TYPES} >= {"float16", "float32", "float64", "int32", "uint64"} & set(SCALARS)


@pytest.mark.parametrize("t", TYPES, ids=lambda t: f"{t.__name__}")
def test_bytes_are_those_of_the_components(t: CompositeType) -> None:
    value = _plain(t)
    for order in ("C", "F", "A", None):
        assert value.tobytes(order) == np.array(value).tobytes(order)
    assert value.tobytes() == np.array(value).tobytes()
