"""Copies between overlapping parts of one array are as if the source had been copied first; so are their gradients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import diffkern as dk

SLICES = [
    slice(None, None, 2), slice(0, 3), slice(1, 4), slice(2, None), slice(None, None, -1), slice(None, None, -2),
    slice(1, None, 3), slice(None, None, 3), slice(4, 1, -1),
]  # fmt: skip
WAYS = {
    "copy": lambda b, s, t: dk.copy(b[s], b[t]),
    "item": lambda b, s, t: b.__setitem__(s, b[t]),
    "assign": lambda b, s, t: b[s].assign(b[t]),
    "numpy": lambda b, s, t: b[s].assign(b.numpy()[t]),
}


def _pairs(shape):
    base = np.zeros(shape)
    cuts = [slice(None), slice(1, None), slice(None, -1), slice(None, None, -1)]
    rows = [(s,) for s in SLICES] if len(shape) == 1 else list(itertools.product(SLICES[:5], cuts))
    return [(s, t) for s, t in itertools.product(rows, rows) if base[s].shape == base[t].shape]


def _expected(values, s, t):
    out = values.copy()
    out[s] = values[t].copy()
    return out


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(5,), (6,), (9,), (5, 4)])
def test_as_if_the_source_had_been_copied_first(way, shape):
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for s, t in _pairs(shape):
        b = dk.array(values)
        WAYS[way](b, s, t)
        np.testing.assert_array_equal(b.numpy(), _expected(values, s, t), err_msg=f"{s} from {t}")


@pytest.mark.parametrize("dtype", [dk.vec3, dk.bfloat16, dk.uint8])
def test_of_other_elements(dtype):
    inner = (3,) if dtype is dk.vec3 else ()
    values = np.arange(6 * (3 if inner else 1)).reshape(6, *inner)
    b = dk.array(values.astype(np.float32 if dtype is not dk.uint8 else np.uint8), dtype=dtype)
    before = b.numpy().copy()
    dk.copy(b[::2], b[:3])
    np.testing.assert_array_equal(b.numpy(), _expected(before, slice(None, None, 2), slice(0, 3)))


@pytest.mark.parametrize("way", ["copy", "item", "assign"])
@pytest.mark.parametrize("shape", [(6,), (5, 4)])
def test_gradient(way, shape):
    values = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    for s, t in _pairs(shape):
        x, b = dk.array(values, requires_grad=True), dk.zeros(shape)
        with dk.Tape() as tape:
            dk.copy(b, x)
            WAYS[way](b, s, t)
        tape.backward(grads={b: values})
        expected = values.copy()
        expected[s] = 0.0
        expected[t] += values[s]
        np.testing.assert_array_equal(x.grad.numpy(), expected, err_msg=f"{s} from {t}")


@pytest.mark.parametrize("stream", [False, True])
def test_replayed_and_on_a_stream(stream):
    values = np.arange(6, dtype=np.float32)
    b = dk.array(values)
    with dk.record() as seq:
        dk.copy(b[::2], b[:3])
    b.assign(values)
    if stream:
        with dk.ScopedStream(dk.Stream()):
            seq.replay()
    else:
        seq.replay()
    assert b.numpy().tolist() == [0, 1, 1, 3, 2, 5]
