"""Kernels of arrays of structs that hold arrays, and what a launch and its adjoint leave on a device."""

from __future__ import annotations

import numpy as np

import diffkern as dk


@dk.struct
class Part:
    scale: float
    x: dk.array(dtype=float)
    v: dk.array(dtype=dk.vec3d, ndim=2)
    n: dk.array(dtype=dk.int8)


@dk.struct
class Body:
    weight: dk.float64
    part: Part


PARTS, BODIES, F1 = dk.array(dtype=Part), dk.array(dtype=Body, ndim=2), dk.array(dtype=float)


def energy(parts: PARTS, w: F1, y: F1):
    i = dk.tid()
    part = parts[i]
    s = 0.0
    for j in range(part.x.shape[0]):
        s += dk.sin(part.x[j]) * part.x[int(part.n[j])] * w[j]
    if part.v:
        s += float(part.v[1, -1][2] * part.v[0, 1][0])
    y[i] = s * part.scale


def filled(parts: PARTS, w: F1):
    i = dk.tid()
    for j in range(parts[i].x.shape[0]):
        parts[i].x[j] = w[j] * w[j] * parts[i].scale
    if parts[i].v:
        parts[i].v[1, 0][1] = dk.float64(w[0] * w[1])


def nested(bodies: BODIES, y: dk.array(dtype=float, ndim=2)):
    i, j = dk.tid()
    y[i, j] = float(bodies[i, j].weight) * bodies[i, j].part.x[-1]


def parts_on(device: str) -> tuple[dk.array, list[dk.array]]:
    """Two parts and what they hold: strided memory, vectors with two axes, None."""
    rng = np.random.default_rng(5)
    strided = dk.array(rng.uniform(0.5, 1.0, 6).astype(np.float32), device=device, requires_grad=True)
    x = dk.array([0.3, 0.9, 0.6], dtype=float, device=device, requires_grad=True)
    v = dk.array(rng.uniform(0.5, 1.0, (2, 3, 3)), dtype=dk.vec3d, device=device, requires_grad=True)
    n = dk.array([1, 0, 1], dtype=dk.int8, device=device)
    parts = dk.array([Part(1.5, strided[::-2], v, n), Part(2.0, x, None, n)], dtype=Part, device=device)
    return parts, [strided, x, v]


def results(kernel: dk.Kernel, device: str) -> list[np.ndarray]:
    """What a launch and its adjoint leave in all arrays."""
    parts, held = parts_on(device)
    w = dk.array([0.5, 0.25, 2.0], dtype=float, device=device, requires_grad=True)
    y = dk.zeros(2, device=device, requires_grad=True)
    outputs = [y] if len(kernel.parameters) == 3 else []
    with dk.Tape() as tape:
        dk.launch(kernel, 2, [parts, w], outputs)
    rng = np.random.default_rng(7)
    for a in (*outputs, *(() if outputs else held)):
        a.grad.assign(rng.normal(size=a.grad.numpy().shape).astype(a.grad.numpy().dtype))
    tape.backward()
    return [*(a.numpy() for a in (*held, y)), *(a.grad.numpy() for a in (*held, w))]
