"""The cases as kernels of diffkern, forward and gradient as one recorded sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kernels
import limit_kernels
from inputs import RATE, SCALE, TRIPS, Data

import diffkern as dk

_KERNELS, _MORE = kernels.make(dk), limit_kernels.make(dk)
Work = tuple[Callable[[], object], Callable[[], dict[str, Any]]]
"""What is timed, and what it computed last."""


def _work(launch: Callable[[], object], out: Any, seed: Any, wanted: dict[str, Any]) -> Work:
    with dk.record(run=False) as forward:
        launch()
    both = forward.adjoint(grads={out: dk.array(seed, dtype=out.dtype)})

    def results() -> dict[str, Any]:
        return {"value": out.numpy().copy(), **{name: x.grad.numpy().copy() for name, x in wanted.items()}}

    return both.replay, results


def _array(values: Any, dtype: Any = dk.float32) -> Any:
    return dk.array(values, dtype=dtype, requires_grad=True)


def elementwise(given: Data) -> Work:
    x, y = _array(given["x"]), _array(given["y"])
    z = dk.zeros(len(x), dtype=float, requires_grad=True)
    return _work(lambda: dk.launch(_KERNELS.wave, len(x), [x, y, SCALE], [z]), z, given["seed"], {"x": x, "y": y})


def nbody(given: Data) -> Work:
    p, m = _array(given["position"], dk.vec3), _array(given["mass"])
    out = dk.zeros(len(p), dtype=dk.vec3, requires_grad=True)
    launch = lambda: dk.launch(_KERNELS.nbody, len(p), [p, m, len(p)], [out])  # noqa: E731
    return _work(launch, out, given["seed"], {"position": p, "mass": m})


def mesh(given: Data) -> Work:
    vertex, face = _array(given["vertex"], dk.vec3), dk.array(given["face"], dtype=int)
    area = dk.zeros(1, dtype=float, requires_grad=True)

    def launch() -> None:
        area.zero_()
        dk.launch(_KERNELS.mesh_area, len(given["face"]), [vertex, face], [area])

    return _work(launch, area, given["seed"], {"vertex": vertex})


def recurrence(given: Data) -> Work:
    x = _array(given["x"])
    y = dk.zeros(len(x), dtype=float, requires_grad=True)
    launch = lambda: dk.launch(_MORE.recurrence, len(x), [x, TRIPS, RATE], [y])  # noqa: E731
    return _work(launch, y, given["seed"], {"x": x})
