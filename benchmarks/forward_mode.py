"""What derivatives cost: forward mode beside the kernel, products with second derivatives beside the gradient.

    python benchmarks/forward_mode.py            # about 1 minute
    python benchmarks/forward_mode.py --only mlp

Time of the processor on one thread, medians of interleaved runs after a warm-up. Forward mode is one launch of
``kernel.jvp`` beside one launch of the kernel; ``dk.hvp`` is beside ``dk.grad``. Targets: 2.5 and 4.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import diffkern as dk

BODIES, SIDE, WIDTH = 1024, 192, 32
RNG = np.random.default_rng(0)
Function = Callable[[dk.array], dk.array]


@dk.kernel
def elementwise(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.sin(x[i]) * dk.exp(-0.5 * x[i] * x[i]) + dk.sqrt(1.0 + x[i] * x[i])


@dk.kernel
def n_body(x: dk.array(dtype=dk.vec3), y: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    force = dk.vec3(0.0, 0.0, 0.0)
    for j in range(x.shape[0]):
        d = x[j] - x[i]
        r2 = dk.dot(d, d) + 0.01
        force += d / (r2 * dk.sqrt(r2))
    y[i] = force


@dk.kernel
def cloth(x: dk.array2d(dtype=dk.vec3), y: dk.array2d(dtype=dk.vec3)):
    i, j = dk.tid()
    force = dk.vec3(0.0, -9.8, 0.0)
    for a in range(-1, 2):
        for b in range(-1, 2):
            k = dk.clamp(i + a, 0, x.shape[0] - 1)
            m = dk.clamp(j + b, 0, x.shape[1] - 1)
            d = x[k, m] - x[i, j]
            long = dk.sqrt(dk.dot(d, d) + 1.0e-6)
            force += d * (100.0 * (long - 0.01) / long)
    y[i, j] = x[i, j] + 1.0e-4 * force


@dk.kernel
def mesh(x: dk.array(dtype=dk.vec3), faces: dk.array2d(dtype=int), y: dk.array(dtype=dk.vec3)):
    f = dk.tid()
    a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
    normal = 0.5 * dk.cross(x[b] - x[a], x[c] - x[a])
    dk.atomic_add(y, a, normal)
    dk.atomic_add(y, b, normal)
    dk.atomic_add(y, c, normal)


@dk.kernel
def recurrence(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    s = x[i]
    for _ in range(200):
        s = s + 0.05 * (1.5 * s - s * s * s)
    y[i] = s


@dk.kernel
def mlp(w: dk.array3d(dtype=float), data: dk.array2d(dtype=float), y: dk.array2d(dtype=float)):
    n, k = dk.tid()
    total = 0.0
    for m in range(w.shape[2]):
        hidden = 0.0
        for p in range(w.shape[2]):
            hidden += w[0, m, p] * data[n, p]
        total += w[1, k, m] * dk.tanh(hidden)
    y[n, k] = total


@dk.kernel
def add_squares(y: dk.array(dtype=float), s: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(s, 0, y[i] * y[i])


def _triangles() -> np.ndarray[Any, Any]:
    corners = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    a, b, c, d = corners[:-1, :-1], corners[1:, :-1], corners[:-1, 1:], corners[1:, 1:]
    return np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([b, d, c], -1).reshape(-1, 3)])


def _points(*shape: int) -> dk.array:
    return dk.array(RNG.uniform(0.0, 1.0, (*shape, 3)), dtype=dk.vec3)


def _cases() -> dict[str, tuple[Any, Any, dk.array, list[dk.array], dk.array]]:
    """Of each workload the kernel, the launch's dimensions, what varies, what does not, and a result."""
    flat = dk.array(RNG.uniform(-1.0, 1.0, 200_000), dtype=float)
    few = dk.array(RNG.uniform(-1.0, 1.0, 20_000), dtype=float)
    faces = _triangles()
    weights = dk.array(RNG.uniform(-0.3, 0.3, (2, WIDTH, WIDTH)), dtype=float)
    data = dk.array(RNG.uniform(-1.0, 1.0, (64, WIDTH)), dtype=float)
    return {
        "elementwise": (elementwise, flat.size, flat, [], dk.zeros_like(flat)),
        "n-body": (n_body, BODIES, _points(BODIES), [], dk.zeros(BODIES, dtype=dk.vec3)),
        "cloth": (cloth, (SIDE, SIDE), _points(SIDE, SIDE), [], dk.zeros((SIDE, SIDE), dtype=dk.vec3)),
        "mesh": (mesh, len(faces), _points(SIDE * SIDE), [dk.array(faces, dtype=int)],
                 dk.zeros(SIDE * SIDE, dtype=dk.vec3)),
        "recurrence": (recurrence, few.size, few, [], dk.zeros_like(few)),
        "mlp": (mlp, (64, WIDTH), weights, [data], dk.zeros((64, WIDTH), dtype=float)),
    }  # fmt: skip


def _loss(kernel: Any, dim: Any, constants: list[dk.array], like: dk.array) -> Function:
    components = like.numpy().size // like.size

    def loss(x: dk.array) -> dk.array:
        y, s = dk.zeros_like(like), dk.zeros(1)
        dk.launch(kernel, dim=dim, inputs=[x, *constants, y])
        numbers = dk.array(shape=like.size * components, dtype=float)
        dk.launch(take_apart[components], dim=like.size, inputs=[y.flatten(), numbers])
        dk.launch(add_squares, dim=numbers.size, inputs=[numbers, s])
        return s

    return loss


@dk.kernel
def numbers_of_one(y: dk.array(dtype=float), out: dk.array(dtype=float)):
    i = dk.tid()
    out[i] = y[i]


@dk.kernel
def numbers_of_three(y: dk.array(dtype=dk.vec3), out: dk.array(dtype=float)):
    i = dk.tid()
    for c in range(3):
        out[3 * i + c] = y[i][c]


take_apart = {1: numbers_of_one, 3: numbers_of_three}


def ratio(top: Callable[[], object], bottom: Callable[[], object], runs: int) -> tuple[float, float, float]:
    """Return the median of the ratios of interleaved readings, and the medians of the times."""
    for run in (top, bottom, top, bottom):
        run()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        for k, run in enumerate((top, bottom)):
            begin = time.process_time_ns()
            run()
            times[k].append((time.process_time_ns() - begin) * 1e-9)
    ratios = [a / b for a, b in zip(*times, strict=True)]
    return statistics.median(ratios), statistics.median(times[0]), statistics.median(times[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="only the workloads whose name contains this")
    parser.add_argument("--runs", type=int, default=21)
    given = parser.parse_args()
    dk.config.num_threads = 1
    for name, (kernel, dim, x, constants, y) in _cases().items():
        if given.only not in name:
            continue
        t_x, t_y = dk.ones_like(x), dk.zeros_like(y)
        tangents = [None for a in constants if a.dtype is not dk.int32]
        forward = ratio(
            lambda k=kernel, d=dim, a=[x, *constants, y, t_x, *tangents, t_y]: dk.launch(k.jvp, dim=d, inputs=a),
            lambda k=kernel, d=dim, a=[x, *constants, y]: dk.launch(k, dim=d, inputs=a),
            given.runs,
        )
        loss = _loss(kernel, dim, constants, y)
        gradient = dk.grad(loss)
        second = ratio(
            lambda f=loss, x=x, t=t_x: dk.hvp(f, (x,), (t,)),
            lambda f=gradient, x=x: f(x),
            given.runs,
        )
        print(
            f"{name:12} forward mode {forward[0]:.2f} ({1e3 * forward[1]:.2f} of {1e3 * forward[2]:.2f} ms)   "
            f"hvp {second[0]:.2f} ({1e3 * second[1]:.2f} of {1e3 * second[2]:.2f} ms)"
        )


if __name__ == "__main__":
    main()
