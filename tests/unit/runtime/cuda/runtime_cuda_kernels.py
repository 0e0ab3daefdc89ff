"""Kernels that the tests of the CUDA run time launch."""

from __future__ import annotations

import diffkern as dk


@dk.kernel
def square(x: dk.array(dtype=float), y: dk.array(dtype=float), a: float):
    i = dk.tid()
    y[i] = a * x[i] * x[i]


@dk.kernel
def accumulate(x: dk.array(dtype=float), y: dk.array(dtype=float), a: float):
    i = dk.tid()
    y[i] = y[i] + a * x[i]


@dk.kernel
def total(x: dk.array(dtype=float), out: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(out, 0, x[i])


@dk.kernel
def neighbours(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    if i > 0 and i < x.shape[0] - 1:
        y[i] = x[i - 1] * x[i + 1]


@dk.kernel
def gather(x: dk.array(dtype=dk.vec3), index: dk.array(dtype=int), out: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(out, 0, dk.dot(x[index[i]], x[i]))


@dk.kernel(mode="debug")
def beyond(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i + 1]


@dk.kernel
def countdown(left: dk.array(dtype=int), x: dk.array(dtype=float)):
    i = dk.tid()
    left[i] = left[i] - 1
    x[i] = 2.0 * x[i]


@dk.struct
class Pair:
    x: dk.array(dtype=float)
    y: dk.array(dtype=float)
    a: float


@dk.kernel
def scale(p: Pair):
    i = dk.tid()
    p.y[i] = p.a * p.x[i]


@dk.kernel
def reversed_blocks(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    shared = dk.shared_array(256, float)
    k, n = dk.thread_index(), dk.block_dim()
    shared[k] = x[i]
    dk.syncthreads()
    y[i] = shared[n - 1 - k]


@dk.struct
class Particle:
    position: dk.vec3
    speed: dk.vec3
    mass: float


@dk.kernel
def drift(p: dk.array(dtype=Particle)):
    i = dk.tid()
    p[i].position = p[i].position + p[i].speed * p[i].mass
