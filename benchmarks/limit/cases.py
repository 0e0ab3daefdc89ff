"""The cases: inputs, diffkern's and Warp's launches with their gradients, and the hand-written program.

In: a library with its kernels. Out: for each case a :class:`Case`, whose works compute the same values and gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import by_hand
import numpy as np
import numpy.typing as npt
from cpu import grid_mesh

Float32 = npt.NDArray[np.float32]
Values = dict[str, Float32]


@dataclass(frozen=True)
class Case:
    """What is compared.

    Attributes
    ----------
    most
        The ratio to the hand-written program that is aimed at.
    hand
        The hand-written program; returns values and gradients.
    launched
        Of a library and its kernels: what launches, the results with their cotangents, and the arrays whose gradients
        are wanted.
    rtol
        How far results may differ, as a part of the largest one.
    apart
        The part of the numbers that may differ by more, where a thread's way hangs on the last bit; of these cases
        each number is compared with itself.
    """

    most: float
    hand: Callable[[], Values]
    launched: Callable[
        [Any, SimpleNamespace], tuple[Callable[[], None], dict[str, tuple[Any, Float32]], dict[str, Any]]
    ]
    rtol: float = 1e-4
    apart: float = 0.0


def _uniform(rng: np.random.Generator, low: float, high: float, *shape: int) -> Float32:
    return rng.uniform(low, high, shape).astype(np.float32)


def _into(like: Float32, *others: Float32) -> list[Float32]:
    return [np.empty_like(a) for a in (like, *others)]


def elementwise() -> Case:
    rng = np.random.default_rng(1)
    x, y, seed = (_uniform(rng, -2.0, 2.0, 1 << 20) for _ in range(3))
    z, g_x, g_y = _into(x, x, y)

    def hand() -> Values:
        by_hand.elementwise(x, y, np.float32(1.5), seed, z, g_x, g_y)
        return {"z": z, "gradient x": g_x, "gradient y": g_y}

    def launched(w: Any, k: SimpleNamespace) -> Any:
        a, b = (w.array(v, dtype=w.float32, requires_grad=True) for v in (x, y))
        out = w.zeros(len(x), dtype=w.float32, requires_grad=True)
        return (
            lambda: w.launch(k.wave, dim=len(x), inputs=[a, b, 1.5], outputs=[out]),
            {"z": (out, seed)},
            {"x": a, "y": b},
        )

    return Case(1.5, hand, launched)


def nbody() -> Case:
    rng, n = np.random.default_rng(2), 4096
    position, mass, seed = _uniform(rng, -1, 1, n, 3), _uniform(rng, 0.5, 1.5, n) / n, _uniform(rng, -1, 1, n, 3)
    acceleration, g_position, g_mass = _into(position, position, mass)

    def hand() -> Values:
        by_hand.nbody(position, mass, seed, acceleration, g_position, g_mass)
        return {"acceleration": acceleration, "gradient position": g_position, "gradient mass": g_mass}

    def launched(w: Any, k: SimpleNamespace) -> Any:
        p, m = w.array(position, dtype=w.vec3, requires_grad=True), w.array(mass, dtype=w.float32, requires_grad=True)
        out = w.zeros(n, dtype=w.vec3, requires_grad=True)
        launch = lambda: w.launch(k.nbody, dim=n, inputs=[p, m, n], outputs=[out])  # noqa: E731
        return launch, {"acceleration": (out, seed)}, {"position": p, "mass": m}

    return Case(1.5, hand, launched)


def cloth() -> Case:
    rng, side, steps, dt = np.random.default_rng(3), 128, 50, np.float32(1e-3)
    i, j = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    x = (np.stack([0.06 * i, 0.0 * i, 0.06 * j], axis=-1) + 0.005 * rng.normal(size=(side, side, 3))).astype(np.float32)
    v, seed = _uniform(rng, -0.1, 0.1, side, side, 3), _uniform(rng, -1, 1, side, side, 3)
    x_end, g_x, g_v = _into(x, x, v)

    def hand() -> Values:
        by_hand.cloth(x, v, steps, dt, seed, x_end, g_x, g_v)
        return {"x": x_end, "gradient x": g_x, "gradient v": g_v}

    def launched(w: Any, k: SimpleNamespace) -> Any:
        shape = (side, side)
        a = [w.array(x, dtype=w.vec3, requires_grad=True)]
        b = [w.array(v, dtype=w.vec3, requires_grad=True)]
        for all_of_them in (a, b):
            all_of_them += [w.zeros(shape, dtype=w.vec3, requires_grad=True) for _ in range(steps)]

        def launch() -> None:
            for t in range(steps):
                w.launch(k.cloth, dim=shape, inputs=[a[t], b[t], side, float(dt)], outputs=[a[t + 1], b[t + 1]])

        return launch, {"x": (a[-1], seed)}, {"x": a[0], "v": b[0]}

    return Case(1.5, hand, launched)


def mesh() -> Case:
    vertices, faces = grid_mesh(300)
    g_vertices = np.empty_like(vertices)

    def hand() -> Values:
        area = by_hand.mesh(vertices, faces, np.float32(1.0), g_vertices)
        return {"area": np.array([area], np.float32), "gradient vertex": g_vertices}

    def launched(w: Any, k: SimpleNamespace) -> Any:
        v, f = w.array(vertices, dtype=w.vec3, requires_grad=True), w.array(faces, dtype=w.int32)
        out = w.zeros(1, dtype=w.float32, requires_grad=True)

        def launch() -> None:
            out.zero_()
            w.launch(k.mesh_area, dim=len(faces), inputs=[v, f], outputs=[out])

        return launch, {"area": (out, np.ones(1, np.float32))}, {"vertex": v}

    return Case(1.5, hand, launched, 5e-4)


def recurrence() -> Case:
    rng, trips, rate = np.random.default_rng(4), 64, np.float32(3.1)
    x, seed = _uniform(rng, 0.1, 0.9, 100_000), _uniform(rng, -1, 1, 100_000)
    y, g_x = _into(x, x)

    def hand() -> Values:
        by_hand.recurrence(x, trips, rate, seed, y, g_x)
        return {"y": y, "gradient x": g_x}

    def launched(w: Any, k: SimpleNamespace) -> Any:
        a = w.array(x, dtype=w.float32, requires_grad=True)
        out = w.zeros(len(x), dtype=w.float32, requires_grad=True)
        launch = lambda: w.launch(k.recurrence, dim=len(x), inputs=[a, trips, float(rate)], outputs=[out])  # noqa: E731
        return launch, {"y": (out, seed)}, {"x": a}

    return Case(1.5, hand, launched, 1e-3)


def mlp() -> Case:
    rng, count, units = np.random.default_rng(5), 20_000, 64
    x, seed = _uniform(rng, -1, 1, count, 3), _uniform(rng, -1, 1, count)
    first, bias, second = _uniform(rng, -1, 1, units, 3), _uniform(rng, -1, 1, units), _uniform(rng, -0.3, 0.3, units)
    y, g_x, g_first, g_bias, g_second = _into(seed, x, first, bias, second)

    def hand() -> Values:
        by_hand.mlp(x, first, bias, second, seed, y, g_x, g_first, g_bias, g_second)
        return {
            "y": y, "gradient x": g_x, "gradient first": g_first, "gradient bias": g_bias, "gradient second": g_second
        }  # fmt: skip

    def launched(w: Any, k: SimpleNamespace) -> Any:
        a, b = (w.array(v, dtype=w.vec3, requires_grad=True) for v in (x, first))
        c, d = (w.array(v, dtype=w.float32, requires_grad=True) for v in (bias, second))
        out = w.zeros(count, dtype=w.float32, requires_grad=True)
        launch = lambda: w.launch(k.mlp, dim=count, inputs=[a, b, c, d, units], outputs=[out])  # noqa: E731
        return launch, {"y": (out, seed)}, {"x": a, "first": b, "bias": c, "second": d}

    return Case(1.5, hand, launched)


def mandelbrot() -> Case:
    rng, side, most = np.random.default_rng(6), 320, 100
    across, down = np.meshgrid(np.linspace(-1.5, 0.7, side), np.linspace(-1.2, 1.2, side))
    c = np.stack([across, down], axis=-1).reshape(-1, 2).astype(np.float32)
    seed = _uniform(rng, -1, 1, len(c))
    y, g_c = _into(seed, c)

    def hand() -> Values:
        by_hand.escape(c, most, seed, y, g_c)
        return {"y": y, "gradient c": g_c}

    def launched(w: Any, k: SimpleNamespace) -> Any:
        a = w.array(c, dtype=w.vec2, requires_grad=True)
        out = w.zeros(len(c), dtype=w.float32, requires_grad=True)
        launch = lambda: w.launch(k.escape, dim=len(c), inputs=[a, most], outputs=[out])  # noqa: E731
        return launch, {"y": (out, seed)}, {"c": a}

    return Case(2.0, hand, launched, 1e-3, apart=0.05)


def natural() -> Case:
    rng, side, balls, dt, rest = np.random.default_rng(7), 150, 5, np.float32(1e-3), np.float32(0.05)
    i, j = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    n = side * side
    x = (np.stack([0.06 * i, 0.0 * i, 0.06 * j], axis=-1).reshape(n, 3) + 0.005 * rng.normal(size=(n, 3))).astype(
        np.float32
    )
    v = (rng.normal(size=(n, 3)) * rng.uniform(0.0, 3.0, (n, 1))).astype(np.float32)
    pairs = [(i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)]
    inside = [(a >= 0) & (a < side) & (b >= 0) & (b < side) for a, b in pairs]
    rows = [np.where(ok, a * side + b, -1).ravel() for (a, b), ok in zip(pairs, inside, strict=True)]
    neighbour = np.stack(rows, axis=-1).astype(np.int32)
    centre = (rng.uniform(0.0, 0.06 * side, (balls, 3)) * [1.0, 0.0, 1.0]).astype(np.float32)
    radius = _uniform(rng, 0.5, 1.5, balls)
    seed_x, seed_v = _uniform(rng, -1, 1, n, 3), _uniform(rng, -1, 1, n, 3)
    x_out, v_out, g_x, g_v = _into(x, x, x, x)

    def hand() -> Values:
        by_hand.natural(x, v, neighbour, rest, centre, radius, dt, seed_x, seed_v, x_out, v_out, g_x, g_v)
        return {"x": x_out, "v": v_out, "gradient x": g_x, "gradient v": g_v}

    def launched(w: Any, k: SimpleNamespace) -> Any:
        a, b = (w.array(c, dtype=w.vec3, requires_grad=True) for c in (x, v))
        near, middle, size = (
            w.array(c, dtype=t) for c, t in ((neighbour, w.int32), (centre, w.vec3), (radius, w.float32))
        )
        outs = [w.zeros(n, dtype=w.vec3, requires_grad=True) for _ in range(2)]
        inputs = [a, b, near, float(rest), middle, size, balls, float(dt)]
        launch = lambda: w.launch(k.natural, dim=n, inputs=inputs, outputs=outs)  # noqa: E731
        return launch, {"x": (outs[0], seed_x), "v": (outs[1], seed_v)}, {"x": a, "v": b}

    return Case(2.0, hand, launched, 1e-3)


CASES: dict[str, Callable[[], Case]] = {
    "elementwise": elementwise,
    "n-body": nbody,
    "cloth": cloth,
    "mesh": mesh,
    "recurrence": recurrence,
    "mlp": mlp,
    "mandelbrot": mandelbrot,
    "natural": natural,
}
