"""The steps of a graph run side by side where they may, and in order where they must, whatever order that leaves."""

from __future__ import annotations

import gc
import random

import numpy as np
import pytest
from runtime_cuda_kernels import accumulate, countdown, neighbours, square, total
from support.fake_driver.driver import fake_cuda

import diffkern as dk

G = "cuda:0"
N = 32


def edges(driver, graph):
    """Return what each node of a graph waits for, by number."""
    return [sorted(n.number for n in node.needs) for node in driver._executables[graph._captured._executable].nodes]


@dk.kernel
def three(a: dk.array(dtype=float), b: dk.array(dtype=float), c: dk.array(dtype=float)):
    i = dk.tid()
    c[i] = a[i] * b[i] + c[i]


def test_independent_steps_are_branches(driver):
    x, (a, b, c) = dk.ones(N, device=G), [dk.zeros(N, device=G) for _ in range(3)]
    with dk.ScopedCapture(G) as capture:
        dk.launch(square, N, inputs=[x, a, 2.0])
        dk.launch(square, N, inputs=[x, b, 3.0])
        dk.launch(three, N, inputs=[a, b, c])
        dk.launch(accumulate, N, inputs=[x, a, 1.0])  # overwrites what the step before reads
        x.fill_(5.0)
        dk.launch(accumulate, N, inputs=[c, b, 1.0])
    assert edges(driver, capture.graph) == [[], [], [0, 1], [2], [3], [2]]
    capture.graph.launch()
    assert (a.list()[0], b.list()[0], c.list()[0], x.list()[0]) == (3.0, 9.0, 6.0, 5.0)


def test_parts_of_arrays(driver):
    x, y = dk.ones(N, device=G), dk.zeros(N, device=G)
    with dk.ScopedCapture(G) as capture:
        dk.launch(square, N // 2, inputs=[x[: N // 2], y[::2], 2.0])
        dk.launch(square, N // 2, inputs=[x[N // 2 :], y[1::2], 3.0])
        x[: N // 2].fill_(7.0)
        dk.copy(y[: N // 2], x[: N // 2])
    assert edges(driver, capture.graph) == [[], [], [0], [1, 2]]


def test_sums_into_one_element_stay_in_order(driver):
    x, y, out = dk.ones(N, device=G), dk.ones(N, device=G), dk.zeros(1, device=G)
    with dk.ScopedCapture(G) as capture:
        dk.launch(total, N, inputs=[x, out])
        dk.launch(total, N, inputs=[y, out])
    assert edges(driver, capture.graph) == [[], [0]]


def test_copies_from_and_to_the_host(driver):
    here, back, x, y = dk.ones(N, pinned=True), dk.zeros(N, pinned=True), dk.empty(N, device=G), dk.empty(N, device=G)
    with dk.ScopedCapture(G) as capture:
        dk.copy(x, here)
        dk.copy(y, here)
        dk.copy(back, x)
        dk.copy(here, y)  # after both have been read from it
        dk.copy(back, y)
    assert edges(driver, capture.graph) == [[], [], [0], [0, 1], [1, 2]]


def test_gradients_of_independent_losses_are_branches(driver):
    xs = [dk.ones(N, device=G, requires_grad=True) for _ in range(2)]
    losses = [dk.zeros(1, device=G, requires_grad=True) for _ in xs]
    with dk.record(run=False) as sequence:
        for x, loss in zip(xs, losses, strict=True):
            dk.launch(total, N, inputs=[x, loss])
    ones = {loss: dk.ones(1, device=G) for loss in losses}
    graph = sequence.adjoint(grads=ones, zero=False).capture()
    program = driver._executables[graph._captured._executable].nodes
    below = []
    for node in program:
        below.append({node.number}.union(*(below[n.number] for n in node.needs)))
    last = [max(k for k, node in enumerate(program) if node.kind == "kernel") - k for k in (0, 1)]
    assert not below[last[0]] & below[last[1]]
    graph.launch()
    assert all(x.grad.list() == [1.0] * N for x in xs)


def _program(rng, arrays, out, pinned):
    """Do a few random things to arrays."""
    for _ in range(rng.randrange(4, 14)):
        a, b, c = (rng.choice(arrays) for _ in range(3))
        other = next(d for d in arrays if d is not a and d is not b)  # no launch writes to what only partly overlaps
        views = [
            (a, b, c),
            (a[: N // 2], b[N // 2 :], c[: N // 2]),
            (a[::2], b[1::2], c[::2]),
            (a[1::2], b[::2], other[8:24]),
        ]
        a, b, c = rng.choice(views)
        n = a.size
        match rng.randrange(8):
            case 0:
                dk.launch(square, n, inputs=[a, b, 0.5])
            case 1:
                dk.launch(accumulate, n, inputs=[a, b, 0.25])
            case 2:
                dk.launch(three, n, inputs=[a, b, c])
            case 3:
                dk.launch(total, n, inputs=[a, out])
            case 4:
                b.fill_(rng.randrange(3))
            case 5:
                dk.copy(b, a)
            case 6:
                dk.copy(*((pinned, arrays[0]) if rng.random() < 0.5 else (arrays[1], pinned)))
            case 7:
                dk.launch(neighbours, n, inputs=[a, c])


@pytest.mark.parametrize("order", [None, 1, 2, 3])
def test_every_order_gives_the_same(order):
    with fake_cuda(seed=order):
        for seed in range(20):
            found = []
            for replays in (True, False):
                arrays = [dk.array(np.sin(np.arange(N) + k), dtype=float, device=G) for k in range(4)]
                out, pinned = dk.zeros(1, device=G), dk.ones(N, pinned=True)
                with dk.record(run=False) as sequence:
                    _program(random.Random(seed), arrays, out, pinned)
                run = sequence.replay if replays else sequence.capture().launch
                for _ in range(2):
                    run()
                found.append(np.concatenate([a.numpy() for a in (*arrays, out, pinned)]))
            np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("seed", range(4))
def test_conditions_in_any_order(seed):
    with fake_cuda(seed=seed):
        left, x = dk.full(1, 3, dtype=int, device=G), dk.ones(1, device=G)
        other, out = dk.ones(N, device=G), dk.zeros(1, device=G)
        with dk.ScopedCapture(G) as capture:
            dk.launch(square, N, inputs=[other, other, 2.0])
            dk.capture_while(left, lambda: dk.launch(countdown, 1, inputs=[left, x]))
            dk.launch(total, N, inputs=[other, out])
            dk.copy(out, x)
        capture.graph.launch()
        assert (x.list(), out.list(), left.list()) == ([8.0], [8.0], [0])


def test_new_arrays_change_the_edges(driver):
    x, y, z = (dk.ones(N, device=G) for _ in range(3))
    with dk.record(run=False) as sequence:
        dk.launch(accumulate, N, inputs=[x, y, 1.0])
        dk.launch(accumulate, N, inputs=[x, z, 1.0])
    graph = sequence.capture()
    assert edges(driver, graph) == [[], []]
    sequence[1].set_param_by_name("x", y)
    graph.launch()
    assert edges(driver, graph) == [[], [0]]
    assert driver.names().count("graph_instantiate") == 2
    assert z.list() == [3.0] * N


def test_copies_that_an_adjoint_makes_stay_as_long_as_the_graph(driver):
    """A gradient that is not contiguous is added to by way of a copy, which the graph works with."""
    x, y = dk.ones(N, device=G), dk.ones(N, device=G)
    wide = dk.zeros(2 * N, device=G)
    ones = dk.ones(N, device=G)
    with dk.record(run=False) as sequence:
        dk.launch(square, N, inputs=[x, y, 2.0], adj_inputs=[wide[::2], ones, None], adjoint=True)
    graph, stream = sequence.capture(), dk.Stream(G)
    gc.collect()
    graph.launch(stream)
    del graph, sequence  # the copy is freed behind the launch, on whatever stream that is
    gc.collect()
    dk.synchronize()
    assert wide.list() == [4.0, 0.0] * N


def test_values_of_the_host_stay_until_they_are_copied(driver):
    x = dk.zeros(3, device=G)
    with dk.ScopedCapture(G) as capture:
        x.assign(np.array([1.0, 2.0, 3.0], np.float32))
    capture.graph.launch()
    del capture
    gc.collect()
    rest = [np.full(3, 9.0, np.float32) for _ in range(64)]  # would take the same memory
    assert x.list() == [1.0, 2.0, 3.0]
    del rest


def test_copies_between_gpus_are_refused(two_devices):
    x, y = dk.zeros(4, device=G), dk.ones(4, device="cuda:1")
    with pytest.raises(dk.LaunchError, match="cannot be part of a graph"), dk.ScopedCapture(G):
        dk.copy(x, y)
    dk.copy(x, y)
    assert x.list() == [1.0] * 4
