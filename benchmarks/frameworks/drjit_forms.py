"""The cases in Dr.Jit, LLVM back end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drjit as dr
import numpy as np
from drjit.llvm.ad import Array3f, Float, UInt
from inputs import RATE, SCALE, SOFTENING, TRIPS, Data

Work = tuple[Callable[[], object], Callable[[], dict[str, Any]]]
"""What is timed, and what it computed last."""


def _work(function: Callable[..., Any], seed: Any, wanted: dict[str, Any]) -> Work:
    for x in wanted.values():
        dr.eval(x)
    dr.eval(seed)

    held: list[Any] = []

    def work() -> None:
        for x in wanted.values():
            dr.enable_grad(x)
            dr.set_grad(x, 0.0)
        value = function(**wanted)
        dr.set_grad(value, seed)
        dr.enqueue(dr.ADMode.Backward, value)
        dr.traverse(dr.ADMode.Backward)
        found = {name: dr.grad(x) for name, x in wanted.items()}
        value = dr.detach(value)
        dr.eval(value, found)
        dr.sync_thread()
        held[:] = value, found

    def results() -> dict[str, Any]:
        value, found = held
        return {"value": _numpy(value), **{name: _numpy(x) for name, x in found.items()}}

    return work, results


def _numpy(x: Any) -> Any:
    found = np.asarray(x)
    return found.T if found.ndim == 2 else found


def _three(x: Any) -> Array3f:
    return Array3f(*(np.ascontiguousarray(x[:, k]) for k in range(3)))


def elementwise(given: Data) -> Work:
    wanted = {"x": Float(given["x"]), "y": Float(given["y"])}
    return _work(lambda x, y: dr.sin(SCALE * x) + y * dr.exp(-x * x), Float(given["seed"]), wanted)


def nbody(given: Data) -> Work:
    count = len(given["mass"])

    def acceleration(position: Any, mass: Any) -> Any:
        here = position + 0.0

        def body(j: Any, total: Any) -> Any:
            d = dr.gather(Array3f, position, j) - here
            inverse = dr.rsqrt(dr.squared_norm(d) + SOFTENING)
            return j + 1, total + d * (dr.gather(Float, mass, j) * inverse * inverse * inverse)

        start = (dr.zeros(UInt, count), dr.zeros(Array3f, count))
        return dr.while_loop(start, lambda j, total: j < count, body, max_iterations=-1)[1]

    wanted = {"position": _three(given["position"]), "mass": Float(given["mass"])}
    return _work(acceleration, _three(given["seed"]), wanted)


def mesh(given: Data) -> Work:
    corners = [UInt(np.ascontiguousarray(given["face"][:, k]).astype(np.uint32)) for k in range(3)]

    def area(vertex: Any) -> Any:
        a, b, c = (dr.gather(Array3f, vertex, k) for k in corners)
        return 0.5 * dr.sum(dr.norm(dr.cross(b - a, c - a)))

    return _work(area, Float(given["seed"]), {"vertex": _three(given["vertex"])})


def recurrence(given: Data) -> Work:
    def run(x: Any) -> Any:
        for _ in range(TRIPS):
            x = RATE * x * (1.0 - x)
        return x

    return _work(run, Float(given["seed"]), {"x": Float(given["x"])})
