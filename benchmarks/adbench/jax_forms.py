"""The four objectives in JAX's operations, compiled by ``jax.jit``; whoever calls enables double precision."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gmm as mixtures
import jax
import jax.numpy as jnp
import numpy as np
from case import Case, Data
from jax.scipy.special import logsumexp


def _case(
    value: Callable[..., Any], derivative: Callable[..., Any], args: tuple[Any, ...], names: tuple[str, ...]
) -> Case:
    """Two functions of the same arguments; the second gives a value, or several, and derivatives."""
    given = jax.tree.map(jnp.asarray, args)
    first, second = jax.jit(value), jax.jit(derivative)
    held: list[Any] = []

    def forward() -> None:
        jax.block_until_ready(first(*given))

    def both() -> None:
        held[:] = jax.tree.leaves(jax.block_until_ready(second(*given)))

    def results() -> dict[str, Any]:
        return {name: np.asarray(x).reshape(x.shape or 1) for name, x in zip(names, held, strict=True)}

    return Case("jax", forward, both, results)


def gmm(given: Data) -> Case:
    """The mixture: differences of all points and components, one product of them with the factors."""
    size = given["means"].shape[1]
    column, row = np.triu_indices(size, 1)

    def value(weights: Any, means: Any, factors: Any, points: Any) -> Any:
        lower = jnp.zeros((len(weights), size, size)).at[:, row, column].set(factors[:, size:])
        logs = factors[:, :size]
        diagonal = jnp.exp(logs)
        away = points[:, None] - means
        y = diagonal * away + jnp.einsum("kij,nkj->nki", lower, away)
        terms = weights + logs.sum(1) - 0.5 * (y * y).sum(2)
        prior = 0.5 * mixtures.GAMMA**2 * ((diagonal**2).sum() + (factors[:, size:] ** 2).sum())
        prior -= mixtures.DEGREES * logs.sum()
        fixed = mixtures.constant(size, len(weights), len(points))
        return logsumexp(terms, axis=1).sum() - len(points) * logsumexp(weights) + prior + fixed

    args = tuple(given[name] for name in ("weights", "means", "factors", "points"))
    names = ("value", "weights", "means", "factors")
    return _case(value, jax.value_and_grad(value, argnums=(0, 1, 2)), args, names)


def _residual(both: Any, feature: Any) -> Any:
    camera, point, weight = both[:11], both[11:14], both[14]
    rotation, moved = camera[:3], point - camera[3:6]
    square = rotation @ rotation
    angle = jnp.sqrt(jnp.where(square == 0.0, 1.0, square))
    axis = rotation / angle
    turned = moved * jnp.cos(angle) + jnp.cross(axis, moved) * jnp.sin(angle)
    turned += axis * (axis @ moved) * (1.0 - jnp.cos(angle))
    turned = jnp.where(square == 0.0, moved + jnp.cross(rotation, moved), turned)
    flat = turned[:2] / turned[2]
    square = flat @ flat
    stretch = 1.0 + camera[9] * square + camera[10] * square * square
    return weight * (flat * stretch * camera[6] + camera[7:9] - feature)


def bundle(given: Data) -> Case:
    """Bundle adjustment: ``vmap`` over the observations, of ``jacrev`` for the rows."""

    def packed(cameras: Any, points: Any, weights: Any, seen: Any) -> Any:
        return jnp.concatenate([cameras[seen[:, 0]], points[seen[:, 1]], weights[:, None]], axis=1)

    def value(cameras: Any, points: Any, weights: Any, features: Any, seen: Any) -> Any:
        return jax.vmap(_residual)(packed(cameras, points, weights, seen), features), 1.0 - weights * weights

    def one(x: Any, feature: Any) -> Any:
        error = _residual(x, feature)
        return error, error

    def both(cameras: Any, points: Any, weights: Any, features: Any, seen: Any) -> Any:
        x = packed(cameras, points, weights, seen)
        rows, error = jax.vmap(jax.jacrev(one, has_aux=True))(x, features)
        return error, 1.0 - weights * weights, rows, -2.0 * weights

    args = tuple(given[name] for name in ("cameras", "points", "weights", "features", "seen"))
    return _case(value, both, args, ("value", "value of weights", "rows", "rows of weights"))


def lstm(given: Data) -> Case:
    """The network: a scan over the text."""

    def value(gates: Any, ends: Any, state: Any, text: Any) -> Any:
        layers = len(state) // 2

        def step(state: Any, given: Any) -> Any:
            (hidden, cell), (entered, expected) = state, given
            x, new = entered * ends[0], []
            for k in range(layers):
                w, b = gates[2 * k], gates[2 * k + 1]
                forget, leave = jax.nn.sigmoid(x * w[0] + b[0]), jax.nn.sigmoid(x * w[2] + b[2])
                enter, change = jax.nn.sigmoid(hidden[k] * w[1] + b[1]), jnp.tanh(hidden[k] * w[3] + b[3])
                kept = cell[k] * forget + enter * change
                x = leave * jnp.tanh(kept)
                new.append((x, kept))
            y = x * ends[1] + ends[2]
            part = expected @ (y - jnp.log(2.0 + jnp.exp(y).sum()))
            return (jnp.stack([h for h, _ in new]), jnp.stack([c for _, c in new])), part

        _, parts = jax.lax.scan(step, (state[0::2], state[1::2]), (text[:-1], text[1:]))
        return -parts.sum() / ((len(text) - 1) * text.shape[1])

    args = tuple(given[name] for name in ("gates", "ends", "state", "text"))
    return _case(value, jax.value_and_grad(value, argnums=(0, 1)), args, ("value", "gates", "ends"))


def _bends(pose: Any) -> Any:
    """The rotations of all bones by their angles."""
    angles = pose[6:].reshape(5, 4)
    still = jnp.zeros(5)
    x = jnp.zeros(22).at[2:].set(jnp.stack([angles[:, 0], angles[:, 2], angles[:, 3], still], 1).reshape(-1))
    z = jnp.zeros(22).at[2::4].set(angles[:, 1])
    cx, sx, cz, sz, o, e = jnp.cos(x), jnp.sin(x), jnp.cos(z), jnp.sin(z), jnp.zeros(22), jnp.ones(22)
    numbers = [cz, -sz * cx, sz * sx, o, sz, cz * cx, -cz * sx, o, o, sx, cx, o, o, o, o, e]
    return jnp.stack(numbers, 1).reshape(22, 4, 4)


def _turn(given: Any) -> Any:
    angle = jnp.sqrt(given @ given)
    a = given / angle
    across = jnp.cross(jnp.eye(3), a)
    return jnp.eye(3) * jnp.cos(angle) + across * jnp.sin(angle) + jnp.outer(a, a) * (1.0 - jnp.cos(angle))


def _errors(parents: tuple[int, ...], pose: Any, places: Any, given: Any) -> Any:
    relative, absolute = given["rest"] @ _bends(pose), []
    for b, parent in enumerate(parents):
        absolute.append(relative[b] if parent < 0 else absolute[parent] @ relative[b])
    moved = jnp.stack(absolute) @ given["inverse"]

    def bent(vertex: Any) -> Any:
        by_bone = jnp.einsum("nbij,nj->nbi", moved[given["bones"][vertex]], given["vertices"][vertex])
        return (by_bone * given["weights"][vertex][..., None]).sum(1)[:, :3]

    belongs = given["belongs"]
    x = bent(belongs[:, 0])
    if places is not None:
        rest = 1.0 - places.sum(1, keepdims=True)
        x = places[:, :1] * x + places[:, 1:] * bent(belongs[:, 1]) + rest * bent(belongs[:, 2])
    return given["points"] - (x @ _turn(pose[:3]).T + pose[3:6])


def hand(given: Data) -> Case:
    """Hand tracking: ``jacfwd`` for the pose, two directions for the places in the triangles."""
    errors = partial(_errors, tuple(map(int, given["parents"])))
    places = given.get("places")
    others = {name: x for name, x in given.items() if name not in ("parents", "pose", "places")}

    def both(pose: Any, places: Any, others: Any) -> Any:
        rows = jax.jacfwd(errors)(pose, places, others)
        if places is not None:
            ways = [jnp.zeros_like(places).at[:, k].set(1.0) for k in range(2)]
            own = [jax.jvp(lambda u: errors(pose, u, others), (places,), (way,))[1] for way in ways]
            rows = jnp.concatenate([jnp.stack(own, axis=-1), rows], axis=-1)
        return errors(pose, places, others), rows

    return _case(errors, both, (given["pose"], places, others), ("value", "rows"))
