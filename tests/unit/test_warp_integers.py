"""Integers that a type does not hold: wrapped around where Warp does that, refused by the native dialect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp

BIG = 2**32 + 5
NUMBERS = [BIG, -1, 300, 2**31, 2**63, 2**64 + 7, -(2**63) - 1, np.int64(BIG), np.uint64(2**63 + 1)]
TYPES = [wp.int8, wp.uint8, wp.int16, wp.uint16, wp.int32, wp.uint32, wp.int64, wp.uint64]


def as_in_c(number: int, t: Any) -> int:
    """What is left of an integer in so many bits."""
    bits = t.numpy.itemsize * 8
    left = int(number) % 2**bits
    return left - 2**bits if t.numpy.kind == "i" and left >= 2 ** (bits - 1) else left


@wp.kernel
def take(a: wp.array(dtype=wp.int32), n: wp.int32):
    a[0] = n


@wp.kernel
def take_small(a: wp.array(dtype=wp.int32), n: wp.uint8, v: wp.vec2i):
    a[0] = wp.int32(n) + v[1]


@wp.kernel
def convert(a: wp.array(dtype=wp.int64)):
    a[0] = wp.int64(wp.int32(4294967301))
    a[1] = wp.int64(wp.int8(200))
    a[2] = wp.int64(wp.uint16(-1))


@wp.struct
class Counts:
    n: wp.int32
    small: wp.uint8
    pair: wp.vec2i


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
@pytest.mark.parametrize("t", TYPES, ids=repr)
def test_arrays(t: Any, number: int) -> None:
    wanted = as_in_c(number, t)
    a = wp.zeros(2, dtype=t)
    a.fill_(number)
    assert a.numpy().tolist() == [wanted] * 2
    assert wp.full(2, number, dtype=t).numpy().tolist() == [wanted] * 2
    assert wp.full_like(a, number).numpy().tolist() == [wanted] * 2
    if -(2**63) <= int(number) < 2**64:
        a.zero_()
        a.assign(np.array([number, 1]) if int(number) < 2**63 else np.array([number, 1], np.uint64))
        assert a.numpy().tolist() == [wanted, 1]


MADE = {
    "array": lambda: wp.array([1, 2], dtype=int),
    "view": lambda: wp.zeros((2, 2), dtype=int)[1],
    "reshaped": lambda: wp.zeros((1, 2), dtype=int).flatten(),
    "clone": lambda: wp.clone(wp.zeros(2, dtype=int)),
    "copy": lambda: dk.clone(wp.zeros(2, dtype=int)),
    "of numpy": lambda: wp.from_numpy(np.zeros(2, np.int32)),
    "empty_like": lambda: wp.empty_like(wp.zeros(2, dtype=int)),
    "address": lambda: wp.array(ptr=wp.zeros(2, dtype=int).ptr, shape=2, dtype=int),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_arrays_however_they_were_made(make: Any) -> None:
    a = make()
    a.fill_(BIG)
    assert a.numpy().tolist() == [5, 5]


def test_vectors_and_bools() -> None:
    a = wp.zeros(1, dtype=wp.vec2i)
    a.fill_(BIG)
    assert a.numpy().tolist() == [[5, 5]]
    a.fill_([2**63, 1])
    assert a.numpy().tolist() == [[0, 1]]
    a.assign(np.array([[BIG, 2**40]]))
    assert a.numpy().tolist() == [[5, 0]]
    flags = wp.zeros(3, dtype=wp.bool)
    flags.assign(np.array([2**40, 0, -1]))
    assert flags.numpy().tolist() == [True, False, True]
    flags.assign([0, 0.5, 300])
    assert flags.numpy().tolist() == [False, True, True]


def test_fractions_stay_errors() -> None:
    a = wp.zeros(2, dtype=int)
    for change in (lambda: a.fill_(1.5), lambda: a.assign(np.array([1.5, 2.0])), lambda: a.assign([BIG, 0])):
        with pytest.raises((TypeError, OverflowError)):
            change()


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_arguments_of_launches(number: int) -> None:
    a = wp.zeros(1, dtype=int)
    wp.launch(take, 1, inputs=[a, number])
    assert a.numpy()[0] == as_in_c(number, wp.int32)
    wp.launch(take_small, 1, inputs=[a, number, (0, number)])
    assert a.numpy()[0] == as_in_c(as_in_c(number, wp.uint8) + as_in_c(number, wp.int32), wp.int32)
    record = wp.launch(take, 1, inputs=[a, 3], record_cmd=True)
    record.set_param_by_name("n", number)
    record.launch()
    assert a.numpy()[0] == as_in_c(number, wp.int32)


def test_conversions_in_kernels() -> None:
    a = wp.zeros(3, dtype=wp.int64)
    wp.launch(convert, 1, inputs=[a])
    assert a.numpy().tolist() == [5, -56, 65535]


def test_fields_of_structs() -> None:
    s = Counts()
    s.n, s.small, s.pair = BIG, -1, (2**63, BIG)
    assert (s.n, s.small, [*s.pair]) == (5, 255, [0, 5])
    assert wp.array([s], dtype=Counts).numpy()["small"].tolist() == [255]


@pytest.mark.parametrize("of", [dk, wp], ids=["native", "warp"])
def test_lists_of_integers_that_need_all_64_bits(of: Any) -> None:
    values = [2**63 + 1, 0, 2**64 - 1]
    a = of.array(values, dtype=of.uint64)
    assert a.numpy().tolist() == values
    a.zero_()
    a.assign(values)
    assert a.numpy().tolist() == values
    assert of.array([[2**63, 5]], dtype=of.types.vector(2, of.uint64)).numpy().tolist() == [[2**63, 5]]
    for wrong in ([2**63, -1], [2**64, 0], [2**70]):
        with pytest.raises(OverflowError, match="do not fit into uint64"):
            a.assign(wrong)
    with pytest.raises(TypeError, match="float64 are not converted"):
        a.assign([2.0**63, 0, 1])


@dk.kernel
def native(a: dk.array(dtype=int), n: int):
    a[0] = n


@dk.kernel
def native_conversion(a: dk.array(dtype=int)):
    a[0] = dk.int32(4294967301)


def test_the_native_dialect_refuses() -> None:
    a = dk.zeros(1, dtype=int)
    for change in (
        lambda: a.fill_(BIG),
        lambda: a.assign(np.array([BIG])),
        lambda: dk.full(1, BIG, dtype=int),
        lambda: dk.full_like(a, BIG),
    ):
        with pytest.raises(OverflowError, match="do not fit into int32"):
            change()
    with pytest.raises(dk.LaunchError, match="does not fit int32"):
        dk.launch(native, 1, inputs=[a, BIG])
    with pytest.raises(dk.KernelError, match="does not fit in int32"):
        dk.launch(native_conversion, 1, inputs=[a])
