"""The number of trips in each form in which it is computed, against Python's, over integers of every type."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.range_cases import limits, trips_of

from diffkern.ir import types
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Region, Value
from diffkern.ir.trip_count import PYTHON, count_trips, index_of_trip, is_last_trip, trip_count, trip_of
from diffkern.ir.types import INT32, INT64, Array, Scalar
from diffkern.testing.programs import CompiledFunction

TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64")
STEPS = (None, 1, -1, 2, -3)
"""Steps that are literals; of None it is an argument."""


def numbers(type_: str) -> list[int]:
    """Integers near 0 and near the limits."""
    least, most = limits(type_)
    near = (-100, -3, -2, -1, 0, 1, 2, 3, 5, 100, least, least + 1, least + 2, most - 2, most - 1, most, most // 2)
    return sorted({n for n in near if least <= n <= most})


def ranges(type_: str, step: int | None) -> np.ndarray:
    """All ranges of such integers that a signed counter can count, a row each."""
    steps = numbers(type_) if step is None else [step]
    found = itertools.product(numbers(type_), numbers(type_), steps)
    most = 2 ** (63 if type_.endswith("64") else 31)
    return np.array([r for r in found if trips_of(*r) < most], object)


def function(t: Scalar, step: int | None) -> Function:
    """A thread counts the trips of a range, and goes to its last one."""
    arrays = [Value(Array(t, 1), name) for name in ("start", "stop", "step")]
    out = [Value(Array(INT64, 1), name) for name in ("trips", "last", "number", "ends")]
    b = Builder()
    i = b.one("tid", axis=0)
    start, stop, by = (b.one("load", a, i, wrap=(False,)) for a in arrays)
    by = by if step is None else b.const(step, t)
    count = count_trips(b, (start, stop, by), step)
    last = index_of_trip(b, b.sub(count, b.const(1, count.type)), start, by, step)
    ends = b.cast(is_last_trip(b, last, stop, by), INT32)
    for a, v in zip(out, (count, last, trip_of(b, last, start, by, step), ends), strict=True):
        b.op("store", a, i, b.cast(v, INT64), wrap=(False,))
    return Function("f", (*arrays, *out), b.region, tid_arity=1)


@pytest.mark.parametrize("type_", TYPES)
def test_ops(type_: str) -> None:
    for step in STEPS:
        if step is not None and not limits(type_)[0] <= step:
            continue
        rows = ranges(type_, step)
        given = [rows[:, k].astype(type_) for k in range(3)]
        found = [np.zeros(len(rows), np.int64) for _ in range(4)]
        CompiledFunction(function(getattr(types, type_.upper()), step)).run((len(rows),), [*given, *found])
        for row, trips, last, number, ends in zip(rows, *found, strict=True):
            assert trips == trips_of(*row), (type_, row)
            if trips:
                index = row[0] + (int(trips) - 1) * row[2]
                assert int(last) % 2**64 == index % 2**64, (type_, row)
                assert (number, ends) == (trips - 1, 1), (type_, row)


def counting(t: Scalar, step: int | None) -> Function:
    """A thread makes the trips of a range."""
    arrays = [Value(Array(t, 1), name) for name in ("start", "stop", "step")]
    out = Value(Array(INT32, 1), "trips")
    b = Builder()
    i = b.one("tid", axis=0)
    start, stop, by = (b.one("load", a, i, wrap=(False,)) for a in arrays)
    body = Region((Value(t, "k"), Value(INT32, "n")))
    with b.into(body):
        body.yields = (b.add(body.params[1], b.i32(1)),)
    (n,) = b.for_(start, stop, by if step is None else b.const(step, t), [b.i32(0)], body)
    b.op("store", out, i, n, wrap=(False,))
    return Function("f", (*arrays, out), b.region, tid_arity=1)


@pytest.mark.parametrize("type_", TYPES)
def test_llvm(type_: str) -> None:
    for step in STEPS:
        if step is not None and not limits(type_)[0] <= step:
            continue
        rows = np.array([r for r in ranges(type_, step) if trips_of(*r) <= 300], object)
        found = np.zeros(len(rows), np.int32)
        given = [rows[:, k].astype(type_) for k in range(3)]
        CompiledFunction(counting(getattr(types, type_.upper()), step)).run((len(rows),), [*given, found])
        assert found.tolist() == [trips_of(*r) for r in rows]


def test_python() -> None:
    for row in itertools.product((-7, -1, 0, 1, 2, 9), repeat=3):
        known = row[2] if row[2] % 2 else None
        assert trip_count(PYTHON, *row, known) == trips_of(*row)
