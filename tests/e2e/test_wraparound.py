"""Integers wrap around at their width; an index made of what is left afterwards is the index that is used."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk


@dk.kernel
def clamped(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = x[dk.clamp(i * 73856093, -5, 5)]


@dk.kernel
def shifted(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = x[(i * 73856093) >> 26]


@dk.kernel
def divided(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = x[(i * i * i * 7) // 67108864]


@dk.kernel
def counted(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    k = i
    for _ in range(i % 7):
        k += 536870912
    y[i] = x[k >> 26]


INDEX = {
    clamped: lambda i: np.clip(i * np.int32(73856093), -5, 5),
    shifted: lambda i: (i * np.int32(73856093)) >> 26,
    divided: lambda i: (i * i * i * np.int32(7)) // np.int32(67108864),
    counted: lambda i: (i + (i % 7) * np.int32(536870912)) >> 26,
}


@pytest.mark.parametrize("kernel", list(INDEX), ids=lambda k: k.name)
def test_wrapped_integers_as_indices(kernel):
    n = 2000
    with np.errstate(over="ignore"):
        index = INDEX[kernel](np.arange(n, dtype=np.int32))
    assert index.min() < 0
    values = np.arange(64.0)
    x, y = dk.array(values, requires_grad=True), dk.zeros(n, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, n, inputs=[x, y])
    np.testing.assert_array_equal(y.numpy(), values[index])
    seed = np.random.default_rng(0).normal(size=n)
    tape.backward(grads={y: seed})
    expected = np.zeros(64)
    np.add.at(expected, index, seed)
    np.testing.assert_allclose(x.grad.numpy(), expected, atol=1e-12)


def sum_of(t, lanes):
    """A kernel whose index is a sum of two narrow or unsigned integers, neither of which is negative."""

    @dk.kernel(lanes=lanes)
    def summed(n: t, x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
        i = dk.tid()
        for k in range(t(0), n):
            y[i] += dk.float64(k) * x[k + t(100)] * x[k + t(100)]

    return summed


@pytest.mark.parametrize("mode", ["release", "debug", "in lanes"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_sums_of_narrow_integers_wrap_in_an_index_too(dtype, mode):
    t, n = getattr(dk, dtype), 100
    length = 256  # so that what lies around is not reached: the array stands in the middle of a larger one
    around = np.arange(3.0 * length)
    index = (np.arange(n) + 100).astype(dtype)
    inner = around[length : 2 * length]
    x = dk.array(around)[length : 2 * length]
    x.requires_grad = True
    y = dk.zeros(3, dtype=dk.float64, requires_grad=True)
    kernel = sum_of(t, mode == "in lanes")
    if mode == "debug":
        kernel = dk.kernel(mode="debug")(kernel.func)
    with dk.Tape() as tape:
        dk.launch(kernel, 3, [n, x, y])
    tape.backward(grads={y: dk.ones(3, dtype=dk.float64)})
    np.testing.assert_allclose(y.numpy(), np.sum(np.arange(n) * inner[index] ** 2))
    gradient = np.zeros(length)
    np.add.at(gradient, index, 6.0 * np.arange(n) * inner[index])
    np.testing.assert_allclose(x.grad.numpy(), gradient)


@dk.kernel
def counted_to_a_literal(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    for k in range(dk.int8(0), dk.int8(100)):
        y[i] += dk.float64(k) * x[k + dk.int8(100)]


def test_a_launch_is_judged_by_the_index_that_has_wrapped():
    x, y = np.arange(150.0), dk.zeros(1, dtype=dk.float64)
    counted_to_a_literal[1](x, y)
    index = (np.arange(100) + 100).astype(np.int8)
    assert y.numpy() == np.sum(np.arange(100) * x[index])
    with pytest.raises(dk.KernelRuntimeError, match="index 127 is out of bounds"):
        dk.kernel(mode="debug")(counted_to_a_literal.func)[1](x[:127], y)
