"""The cases in JAX's operations, compiled by ``jax.jit``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from inputs import RATE, SCALE, SOFTENING, TRIPS, Data

Work = tuple[Callable[[], object], Callable[[], dict[str, Any]]]
"""What is timed, and what it computed last."""


def _work(function: Callable[..., Any], given: Data, *wanted: str) -> Work:
    others = [jnp.asarray(v) for name, v in given.items() if name not in (*wanted, "seed")]

    @jax.jit
    def both(seed: Any, *args: Any) -> Any:
        value, back = jax.vjp(lambda *a: function(*a, *others), *args)
        return value, back(seed.reshape(value.shape))

    args = [jnp.asarray(given[name]) for name in ("seed", *wanted)]

    held: list[Any] = []

    def work() -> None:
        held[:] = jax.block_until_ready(both(*args))

    def results() -> dict[str, Any]:
        value, found = held
        return {"value": np.atleast_1d(value), **{n: np.asarray(g) for n, g in zip(wanted, found, strict=True)}}

    return work, results


def elementwise(given: Data) -> Work:
    return _work(lambda x, y: jnp.sin(SCALE * x) + y * jnp.exp(-x * x), given, "x", "y")


def nbody(given: Data) -> Work:
    def acceleration(position: Any, mass: Any) -> Any:
        def of(here: Any) -> Any:
            d = position - here
            inverse = 1.0 / jnp.sqrt((d * d).sum(1) + SOFTENING)
            return (d * (mass * inverse**3)[:, None]).sum(0)

        return jax.vmap(of)(position)

    return _work(acceleration, given, "position", "mass")


def mesh(given: Data) -> Work:
    def area(vertex: Any, face: Any) -> Any:
        a, b, c = (vertex[face[:, k]] for k in range(3))
        return 0.5 * jnp.linalg.norm(jnp.cross(b - a, c - a), axis=1).sum()

    return _work(area, given, "vertex")


def recurrence(given: Data) -> Work:
    def run(x: Any) -> Any:
        return jax.lax.fori_loop(0, TRIPS, lambda _, v: RATE * v * (1.0 - v), x)

    return _work(run, given, "x")
