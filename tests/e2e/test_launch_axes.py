"""Launches in Warp's dialect with other axes than the kernel asks ``tid()`` for, and their derivatives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp


@wp.kernel
def visits_1d(counts: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_add(counts, i, 1)


@wp.kernel
def visits_2d(counts: wp.array2d(dtype=int)):
    i, j = wp.tid()
    wp.atomic_add(counts, i, j, 1)


@wp.kernel
def visits_3d(counts: wp.array3d(dtype=int)):
    i, j, k = wp.tid()
    wp.atomic_add(counts, i, j, k, 1)


@wp.kernel
def adds(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] += wp.sin(x[i]) * x[i]


@wp.kernel
def stores(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * x[i]


@wp.kernel
def changes(x: wp.array(dtype=wp.float64)):
    i = wp.tid()
    x[i] = wp.sin(x[i])


KERNELS = {1: visits_1d, 2: visits_2d, 3: visits_3d}


@pytest.mark.parametrize("asked", KERNELS)
@pytest.mark.parametrize("dim", [(5,), (3, 4), (3, 4, 2), (2, 3, 2, 2), (0, 3), (3, 0)])
def test_axes_that_lack_have_one_thread_and_more_share_an_index(dim, asked):
    kept = (*dim, 1, 1)[:asked]
    counts = wp.zeros(kept, dtype=int)
    wp.launch(KERNELS[asked], dim=dim, inputs=[counts])
    expected = np.zeros(kept, int)
    for index in itertools.product(*map(range, dim)):
        expected[(*index, 0, 0)[:asked]] += 1
    np.testing.assert_array_equal(counts.numpy(), expected)


def gradient(kernel: Any, dim: Any, block: bool = False) -> tuple[np.ndarray, np.ndarray]:
    x = wp.array([0.4, -1.3, 2.2], dtype=wp.float64, requires_grad=True)
    y = wp.zeros(3, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        (wp.launch_tiled if block else wp.launch)(
            kernel, dim=dim, inputs=[x, y], **({"block_dim": 32} if block else {})
        )
    tape.backward(grads={y: wp.array([1.0, 2.0, 3.0], dtype=wp.float64)})
    return y.numpy(), x.grad.numpy()


@pytest.mark.parametrize("dim", [(3,), (3, 1), (3, 4), (3, 2, 2), (3, 2, 1, 3)])
def test_derivatives_of_threads_that_share_an_index(dim):
    x = np.array([0.4, -1.3, 2.2])
    slope = (np.sin(x) + x * np.cos(x)) * [1.0, 2.0, 3.0]
    for kernel, often in ((adds, np.prod(dim) / 3), (stores, 1.0)):
        y, found = gradient(kernel, dim)
        np.testing.assert_allclose(y, np.sin(x) * x * often)
        np.testing.assert_allclose(found, slope * often)


def test_a_race_of_such_threads_is_an_error_if_a_gradient_needs_it():
    x = wp.array([0.4, -1.3, 2.2], dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(changes, dim=(3, 2), inputs=[x])
    with pytest.raises(
        dk.AutodiffError, match=r"thread \(0, 0\) writes x\[0\] here, and thread \(0, 1\) another value"
    ):
        tape.backward(grads={x: wp.ones(3, dtype=wp.float64)})
    with wp.Tape() as tape:  # one thread for each element
        wp.launch(changes, dim=(3, 1), inputs=[x])
    at = np.sin(np.sin([0.4, -1.3, 2.2]))
    np.testing.assert_allclose(x.numpy(), np.sin(at))
    tape.backward(grads={x: wp.ones(3, dtype=wp.float64)})
    np.testing.assert_allclose(x.grad.numpy(), np.cos(at))


@dk.kernel
def unasked(x: dk.array(dtype=dk.float64), at: dk.array(dtype=int)):
    i, _, _ = dk.tid()
    x[at[i]] = dk.sin(x[at[i]])


@dk.kernel
def first_asked(x: dk.array(dtype=dk.float64)):
    _, j = dk.tid()
    x[j] = dk.sin(x[j])


def test_an_index_that_lacks_a_component_of_the_thread_is_not_one_to_one():
    for kernel, of, tables in (
        (unasked, lambda n: (3, n, 1), [dk.array([2, 0, 1], dtype=int)]),
        (first_asked, lambda n: (n, 3), []),
    ):
        for threads in (1, 2):
            x = dk.array([0.4, -1.3, 2.2], dtype=dk.float64, requires_grad=True)
            with dk.Tape() as tape:
                dk.launch(kernel, of(threads), [x, *tables])
            weights = {x: dk.array([1.0, 2.0, 3.0], dtype=dk.float64)}
            if threads == 1:
                tape.backward(grads=weights)
                np.testing.assert_allclose(x.grad.numpy(), np.cos([0.4, -1.3, 2.2]) * [1.0, 2.0, 3.0])
            else:
                with pytest.raises(dk.AutodiffError, match="another value"):
                    tape.backward(grads=weights)


def test_that_holds_in_recorded_sequences_too():
    for threads in (1, 2):
        x, ones = dk.array([0.4, -1.3, 2.2], dtype=dk.float64, requires_grad=True), dk.ones(3, dtype=dk.float64)
        with dk.record():
            with dk.Tape() as tape:
                dk.launch(first_asked, (threads, 3), [x])
            if threads == 1:
                tape.backward(grads={x: ones})
            else:
                with pytest.raises(dk.AutodiffError, match="thread"):
                    tape.backward(grads={x: ones})


def test_blocks_records_and_other_ways_to_launch():
    y, found = gradient(adds, [3], block=True)
    np.testing.assert_allclose(found, gradient(adds, 3)[1])
    assert y.any()
    x, out = wp.array([1.0, 2.0, 3.0], dtype=wp.float64), wp.zeros(3, dtype=wp.float64)
    record = wp.launch(adds, dim=(3, 2), inputs=[x, out], record_cmd=True)
    record.launch()
    record.launch()
    np.testing.assert_allclose(out.numpy(), 4.0 * np.sin(x.numpy()) * x.numpy())
    given, weights = wp.zeros(3, dtype=wp.float64), wp.ones(3, dtype=wp.float64)
    wp.launch(adds, dim=(3, 2), inputs=[x], outputs=[out], adj_inputs=[given], adj_outputs=[weights], adjoint=True)
    np.testing.assert_allclose(given.numpy(), 2.0 * (np.sin(x.numpy()) + x.numpy() * np.cos(x.numpy())))


def test_the_kernels_of_other_axes_are_made_once_and_follow_the_program():
    factor = wp.constant(2.0)

    def made(f: float) -> Any:
        @wp.kernel
        def scaled(y: wp.array(dtype=float)):
            i = wp.tid()
            wp.atomic_add(y, i, f)

        return scaled

    kernel, y = made(float(factor)), wp.zeros(2, dtype=float)
    for _ in range(3):
        wp.launch(kernel, dim=(2, 3), inputs=[y])
    assert list(kernel.of_axes) == [2]
    np.testing.assert_array_equal(y.numpy(), [18.0, 18.0])
    y.zero_()
    wp.launch(made(5.0), dim=(2, 3), inputs=[y])
    np.testing.assert_array_equal(y.numpy(), [15.0, 15.0])


def test_the_native_dialect_refuses_them():
    @dk.kernel
    def native(counts: dk.array(dtype=int)):
        dk.atomic_add(counts, dk.tid(), 1)

    with pytest.raises(dk.LaunchError, match="is a grid of 2 axes"):
        dk.launch(native, (3, 2), [dk.zeros(3, dtype=int)])
    with pytest.raises(dk.LaunchError, match="1 to 4 extents"):
        wp.launch(visits_1d, dim=(1, 1, 1, 1, 1), inputs=[wp.zeros(1, dtype=int)])
