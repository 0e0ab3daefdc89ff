"""Sums over all pairs and the ways to their gradients: by hand, on a tape, by a sequence and by a graph."""

from __future__ import annotations

import numpy as np

import diffkern as dk

N = 70
F = dk.array(dtype=float)
V = dk.array(dtype=dk.vec3)


@dk.kernel(fast_math=True)
def attraction(x: V, m: F, n: int, a: V):
    i = dk.tid()
    total = dk.vec3(0.0, 0.0, 0.0)
    for j in range(n):
        d = x[j] - x[i]
        r = dk.sqrt(dk.dot(d, d) + 0.1)
        total += d * (m[j] / (r * r * r))
    a[i] = total


@dk.kernel
def square_of(a: V, e: F):
    i = dk.tid()
    dk.atomic_add(e, 0, dk.dot(a[i], a[i]))


def made(device):
    rng = np.random.default_rng(4)
    x = dk.array(rng.normal(size=(N, 3)), dtype=dk.vec3, device=device, requires_grad=True)
    m = dk.array(rng.uniform(0.5, 1.5, N), dtype=float, device=device, requires_grad=True)
    a = dk.zeros(N, dtype=dk.vec3, device=device, requires_grad=True)
    return x, m, a, dk.zeros(1, device=device, requires_grad=True)


def launch(x, m, a, n=N):
    dk.launch(attraction, N, inputs=[x, m, n], outputs=[a])


def by_hand(x, m, a, e, n=N):
    a.grad.fill_(1.0)
    dk.launch(attraction, N, inputs=[x, m, n], outputs=[a], adj_inputs=[x.grad, m.grad, None], adj_outputs=[a.grad],
              adjoint=True)  # fmt: skip


def taped(x, m, a, e, n=N):
    with dk.Tape() as tape:
        launch(x, m, a, n)
        dk.launch(square_of, N, inputs=[a], outputs=[e])
    tape.backward(e)


def sequence_of(x, m, a, e, n=N):
    with dk.record(run=False) as sequence:
        e.zero_()
        launch(x, m, a, n)
        dk.launch(square_of, N, inputs=[a], outputs=[e])
    return sequence.adjoint(e)


def replayed(x, m, a, e, n=N):
    sequence = sequence_of(x, m, a, e, n)
    sequence.replay()
    sequence.replay()


def captured(x, m, a, e, n=N):
    graph = sequence_of(x, m, a, e, n).capture()
    graph.launch()
    graph.launch()


def gradients(run, device, n):
    """The gradients of positions and masses, and what is left of the sums'."""
    x, m, a, e = made(device)
    run(x, m, a, e, n)
    return [array.numpy().copy() for array in (x.grad, m.grad, a.grad)]


RUNS = (by_hand, taped, replayed, captured)
