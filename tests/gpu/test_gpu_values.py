"""What a GPU does by itself: narrow atomic updates, arrays in elements, loops of many trips with snapshots, constants.

All is compared with the CPU; what lies behind an array that is updated has to stay as it is.
"""

from __future__ import annotations

import narrow_atomics
import numpy as np
import pytest
from pointed_arrays import energy, filled, results

import diffkern as dk
from diffkern.runtime.arrays.array import wrap

pytestmark = pytest.mark.gpu

G = "cuda:0"
BEHIND = 5
"""Elements behind an array, in the same memory."""

update = dk.kernel(narrow_atomics.update)


def numbers(a: dk.array, element: object) -> np.ndarray:
    """Return what is in an array as float64."""
    held = a.numpy()
    return np.float64((held.astype(np.uint32) << 16).view(np.float32) if element is dk.bfloat16 else held)


def updated(element: object, device: str) -> list[np.ndarray]:
    """Return what is in the arrays, and behind them, after all updates."""
    stored = update.argument_types(*narrow_atomics.types(element))[0].dtype
    made = [np.concatenate([a, a[:BEHIND]]) for a in narrow_atomics.arguments(element)]
    whole = [dk.array(wrap(a, stored), device=device) for a in made]
    dk.launch(update, narrow_atomics.SIZE, [a[: narrow_atomics.SIZE] for a in whole])
    return [numbers(a, element) for a in whole]


@pytest.mark.parametrize("element", narrow_atomics.ELEMENTS, ids=str)
def test_atomic_updates_of_every_width(element):
    names = narrow_atomics.update.__code__.co_varnames
    for name, found, expected in zip(names, updated(element, G), updated(element, "cpu"), strict=False):
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=name)


@dk.kernel
def met(x, y, most):
    i = dk.tid()
    dk.atomic_add(y, i % 7, x[i])
    dk.atomic_max(most, i % 3, x[i])


@pytest.mark.parametrize("element", [dk.int8, dk.uint16, dk.float16, dk.bfloat16], ids=str)
def test_many_threads_meet_in_narrow_elements(element):
    x = np.arange(112) % 8
    found, most = dk.zeros(7, dtype=element, device=G), dk.zeros(3, dtype=element, device=G)
    dk.launch(met, 112, [dk.array(x, dtype=element, device=G), found, most])
    assert numbers(found, element).tolist() == [float(x[k::7].sum()) for k in range(7)]
    assert numbers(most, element).tolist() == [7.0] * 3


@pytest.mark.parametrize("function", [energy, filled], ids=lambda f: f.__name__)
def test_structs_that_hold_arrays(function):
    kernel = dk.kernel(function, compiler="llvm")
    for found, expected in zip(results(kernel, G), results(kernel, "cpu"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@dk.kernel
def iterated(n: int, k: dk.array(dtype=dk.uint32), x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    """Loops whose states are kept now and then and computed again."""
    i = dk.tid()
    s, t = x[i], dk.float64(0.5)
    for j in range(n):
        s, t = dk.sin(s) * dk.float64(0.9) + t * dk.float64(0.1), t * dk.float64(0.99) + s / dk.float64(100 + j % 3)
    for _ in range(k[i]):
        t = t * dk.float64(0.9) + dk.cos(s) * dk.float64(0.1)
    y[i] = s + t


@pytest.mark.parametrize("n", [0, 1, 37, 1000])
def test_loops_with_snapshots(n):
    rng = np.random.default_rng(4)
    held, counts = rng.uniform(0.2, 1.0, 5), np.array([0, 1, 2, 60, 333], np.uint32)
    found = []
    for device in ("cpu", G):
        x = dk.array(held, dtype=dk.float64, device=device, requires_grad=True)
        y = dk.zeros(5, dtype=dk.float64, device=device, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(iterated, 5, [n, dk.array(counts, dtype=dk.uint32, device=device), x, y])
        tape.backward(grads={y: dk.ones(5, dtype=dk.float64, device=device)})
        found.append((y.numpy(), x.grad.numpy()))
    for there, here in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("dtype", ["b1", "i1", "u1", ">i2", "u2", "i4", ">u4", "i8", "u8", "f4", ">f8"])
def test_captured_arrays(dtype):
    table = np.array([[1.0, 0.0, 2.0], [3.0, 100.0, 7.0]]).astype(dtype)

    @dk.kernel
    def read(y: dk.array2d(dtype=dk.float64)):
        i, j = dk.tid()
        y[i, j] = dk.float64(table[i, j])

    y = dk.zeros((2, 3), dtype=dk.float64, device=G)
    dk.launch(read, (2, 3), [y])
    np.testing.assert_array_equal(y.numpy(), table.astype(np.float64))


def test_arrays_that_share_memory_are_refused():
    @dk.kernel
    def shifted(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = x[i] + 1.0

    x = dk.array(np.arange(9.0), dtype=float, device=G)
    with pytest.raises(dk.LaunchError, match="share"):
        dk.launch(shifted, 8, [x[:-1], x[1:]])
    assert x.list() == list(np.arange(9.0))
