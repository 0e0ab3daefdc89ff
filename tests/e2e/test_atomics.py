"""Atomic updates of elements of every type, with indices of every width."""

from typing import Any

import numpy as np
import pytest

import diffkern as dk

INTEGERS = (dk.int8, dk.int16, dk.int32, dk.int64, dk.uint8, dk.uint16, dk.uint32, dk.uint64)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_bits_of_integers(dtype: Any) -> None:
    @dk.kernel
    def change(x: dk.array(dtype=dtype), both: dk.array(dtype=dtype), some: dk.array(dtype=dtype)):  # type: ignore[valid-type]
        i = dk.tid()
        dk.atomic_and(both, 0, x[i])
        dk.atomic_or(some, dk.uint32(0), x[i])
        dk.atomic_xor(some, dk.int64(1), x[i])

    x = np.array([93, 31, 127], str(dtype))
    both, some = dk.full(1, 127, dtype=dtype), dk.zeros(2, dtype=dtype)
    dk.launch(change, 3, [dk.array(x), both, some])
    assert both.numpy()[0] == np.bitwise_and.reduce(x)
    assert some.numpy().tolist() == [np.bitwise_or.reduce(x), np.bitwise_xor.reduce(x)]


@pytest.mark.parametrize("dtype", [*INTEGERS, dk.float16, dk.bfloat16, dk.float32, dk.float64], ids=str)
def test_a_lock_by_compare_and_swap(dtype: Any) -> None:
    @dk.kernel
    def count(lock: dk.array(dtype=dtype), total: dk.array(dtype=int)):  # type: ignore[valid-type]
        while dk.atomic_cas(lock, 0, 0, 1) == 1:
            pass
        dk.atomic_exch(total, 0, dk.atomic_exch(total, 0, 0) + 1)
        dk.atomic_exch(lock, 0, 0)

    lock, total = dk.zeros(1, dtype=dtype), dk.zeros(1, dtype=int)
    dk.launch(count, 500, [lock, total])
    assert total.numpy().tolist() == [500]


def test_extrema_of_components_are_taken_one_by_one() -> None:
    @dk.kernel
    def extrema(x: dk.array(dtype=dk.vec3), least: dk.array(dtype=dk.vec3), most: dk.array(dtype=dk.vec3)):
        i = dk.tid()
        dk.atomic_min(least, 0, x[i])
        dk.atomic_max(most, 0, x[i])

    values = np.random.default_rng(0).uniform(-1, 1, (64, 3)).astype(np.float32)
    x = dk.array(values, dtype=dk.vec3, requires_grad=True)
    least = dk.full(1, dk.vec3(2.0, 2.0, 2.0), dtype=dk.vec3, requires_grad=True)
    most = dk.full(1, dk.vec3(-2.0, -2.0, 0.9999), dtype=dk.vec3, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(extrema, 64, [x, least, most])
    np.testing.assert_array_equal(least.numpy()[0], values.min(axis=0))
    np.testing.assert_array_equal(most.numpy()[0], np.maximum(values.max(axis=0), np.float32([-2, -2, 0.9999])))
    tape.backward(grads={least: np.float32([[1, 2, 3]]), most: np.float32([[4, 5, 6]])})
    expected = np.zeros_like(values)
    expected[values.argmin(axis=0), range(3)] += [1, 2, 3]
    expected[values.argmax(axis=0)[:2], range(2)] += [4, 5]  # what was there is the greatest third component
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_bits_of_floats_and_of_bools_are_refused() -> None:
    @dk.kernel
    def change(x):
        dk.atomic_or(x, dk.tid(), 1)

    for dtype in (float, dk.bool, dk.vec3):
        with pytest.raises(dk.KernelTypeError, match="atomic_or on elements of type") as error:
            dk.launch(change, 1, [dk.zeros(1, dtype=dtype)])
        assert "arrays of integers" in str(error.value)


def test_the_adjoint_of_extrema_of_components_has_code_for_a_gpu() -> None:
    @dk.kernel
    def most(x: dk.array(dtype=dk.vec3), y: dk.array(dtype=dk.vec3)):
        dk.atomic_max(y, 0, x[dk.tid()])

    assert "atomic_keep(" in most.adjoint_source(target="cuda")


@pytest.mark.parametrize("kind", ["add", "sub", "min", "max", "exch", "and", "or", "xor"])
def test_an_update_under_another_name(kind):
    update = getattr(dk, f"atomic_{kind}")

    @dk.kernel
    def one_update(y: dk.array(dtype=int), v: int):
        update(y, dk.tid(), v)

    y = dk.array([5, 6], dtype=int)
    dk.launch(one_update, 2, [y, 3])
    expected = {
        "add": [8, 9], "sub": [2, 3], "min": [3, 3], "max": [5, 6], "exch": [3, 3], "and": [1, 2], "or": [7, 7],
        "xor": [6, 5],
    }  # fmt: skip
    assert y.numpy().tolist() == expected[kind]
