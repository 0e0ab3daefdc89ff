"""The four objectives in PyTorch's operations, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gmm as mixtures
import numpy as np
import torch
from case import Case, Data

Tensor = torch.Tensor


def _case(value: Callable[[], Any], derivative: Callable[[], Any], names: tuple[str, ...]) -> Case:
    held: list[Tensor] = []

    def forward() -> None:
        with torch.no_grad():
            value()

    def both() -> None:
        held[:] = derivative()

    def results() -> dict[str, Any]:
        return {name: np.atleast_1d(x.detach().numpy()) for name, x in zip(names, held, strict=True)}

    return Case("torch", forward, both, results)


def _gradients(value: Callable[..., Tensor], wanted: list[Tensor], others: list[Tensor]) -> Callable[[], list[Tensor]]:
    for x in wanted:
        x.requires_grad_()

    def both() -> list[Tensor]:
        result = value(*wanted, *others)
        return [result, *torch.autograd.grad(result, wanted)]

    return both


def _tensors(given: Data, *names: str) -> list[Tensor]:
    return [torch.tensor(given[name]) for name in names]


def gmm(given: Data) -> Case:
    """The mixture: differences of all points and components, one product of them with the factors."""
    size = given["means"].shape[1]
    column, row = (torch.tensor(x) for x in np.triu_indices(size, 1))

    def value(weights: Tensor, means: Tensor, factors: Tensor, points: Tensor) -> Tensor:
        lower = torch.zeros(len(weights), size, size, dtype=torch.float64)
        lower[:, row, column] = factors[:, size:]
        logs = factors[:, :size]
        diagonal = torch.exp(logs)
        away = points[:, None] - means
        y = diagonal * away + torch.einsum("kij,nkj->nki", lower, away)
        terms = weights + logs.sum(1) - 0.5 * (y * y).sum(2)
        prior = 0.5 * mixtures.GAMMA**2 * ((diagonal**2).sum() + (factors[:, size:] ** 2).sum())
        prior = prior - mixtures.DEGREES * logs.sum()
        fixed = mixtures.constant(size, len(weights), len(points))
        return torch.logsumexp(terms, 1).sum() - len(points) * torch.logsumexp(weights, 0) + prior + fixed

    wanted, others = _tensors(given, "weights", "means", "factors"), _tensors(given, "points")
    names = ("value", "weights", "means", "factors")
    return _case(lambda: value(*wanted, *others), _gradients(value, wanted, others), names)


def _residual(both: Tensor, feature: Tensor) -> Tensor:
    camera, point, weight = both[:11], both[11:14], both[14]
    rotation, moved = camera[:3], point - camera[3:6]
    angle = torch.sqrt((rotation * rotation).sum())
    axis = rotation / angle
    turned = moved * torch.cos(angle) + torch.linalg.cross(axis, moved) * torch.sin(angle)
    turned = turned + axis * (axis * moved).sum() * (1.0 - torch.cos(angle))
    flat = turned[:2] / turned[2]
    square = (flat * flat).sum()
    stretch = 1.0 + camera[9] * square + camera[10] * square * square
    return weight * (flat * stretch * camera[6] + camera[7:9] - feature)


def bundle(given: Data) -> Case:
    """Bundle adjustment: ``vmap`` over the observations, of ``jacrev`` for the rows. Rotations must not be zero."""
    cameras, points, weights, features, seen = _tensors(given, "cameras", "points", "weights", "features", "seen")

    def packed() -> Tensor:
        return torch.cat([cameras[seen[:, 0]], points[seen[:, 1]], weights[:, None]], 1)

    def one(x: Tensor, feature: Tensor) -> tuple[Tensor, Tensor]:
        error = _residual(x, feature)
        return error, error

    def both() -> tuple[Tensor, ...]:
        rows, error = torch.vmap(torch.func.jacrev(one, has_aux=True))(packed(), features)
        return error, 1.0 - weights * weights, rows, -2.0 * weights

    def value() -> tuple[Tensor, Tensor]:
        return torch.vmap(_residual)(packed(), features), 1.0 - weights * weights

    return _case(value, both, ("value", "value of weights", "rows", "rows of weights"))


def lstm(given: Data) -> Case:
    """The network: a loop over the text."""

    def value(gates: Tensor, ends: Tensor, state: Tensor, text: Tensor) -> Tensor:
        layers = len(state) // 2
        hidden, cell = list(state[0::2]), list(state[1::2])
        total = torch.zeros((), dtype=torch.float64)
        for t in range(len(text) - 1):
            x = text[t] * ends[0]
            for k in range(layers):
                w, b = gates[2 * k], gates[2 * k + 1]
                forget, leave = torch.sigmoid(x * w[0] + b[0]), torch.sigmoid(x * w[2] + b[2])
                enter, change = torch.sigmoid(hidden[k] * w[1] + b[1]), torch.tanh(hidden[k] * w[3] + b[3])
                cell[k] = cell[k] * forget + enter * change
                x = hidden[k] = leave * torch.tanh(cell[k])
            y = x * ends[1] + ends[2]
            total = total + (text[t + 1] * (y - torch.log(2.0 + torch.exp(y).sum()))).sum()
        return -total / ((len(text) - 1) * text.shape[1])

    wanted, others = _tensors(given, "gates", "ends"), _tensors(given, "state", "text")
    return _case(lambda: value(*wanted, *others), _gradients(value, wanted, others), ("value", "gates", "ends"))


def _bends(pose: Tensor) -> Tensor:
    """The rotations of all bones by their angles."""
    angles = pose[6:].reshape(5, 4)
    none = torch.zeros(5, dtype=torch.float64)
    start = torch.zeros(2, dtype=torch.float64)
    x = torch.cat([start, torch.stack([angles[:, 0], angles[:, 2], angles[:, 3], none], 1).reshape(-1)])
    z = torch.cat([start, torch.stack([angles[:, 1], none, none, none], 1).reshape(-1)])
    cx, sx, cz, sz, o, e = torch.cos(x), torch.sin(x), torch.cos(z), torch.sin(z), 0.0 * x, 0.0 * x + 1.0
    numbers = [cz, -sz * cx, sz * sx, o, sz, cz * cx, -cz * sx, o, o, sx, cx, o, o, o, o, e]
    return torch.stack(numbers, 1).reshape(22, 4, 4)


def _turn(given: Tensor) -> Tensor:
    angle = torch.sqrt((given * given).sum())
    a, one = given / angle, torch.eye(3, dtype=torch.float64)
    across = torch.linalg.cross(one, a.expand(3, 3))
    return one * torch.cos(angle) + across * torch.sin(angle) + torch.outer(a, a) * (1.0 - torch.cos(angle))


def _errors(parents: list[int], given: dict[str, Tensor], pose: Tensor, places: Tensor | None) -> Tensor:
    relative, absolute = given["rest"] @ _bends(pose), []
    for b, parent in enumerate(parents):
        absolute.append(relative[b] if parent < 0 else absolute[parent] @ relative[b])
    moved = torch.stack(absolute) @ given["inverse"]

    def bent(vertex: Tensor) -> Tensor:
        by_bone = torch.einsum("nbij,nj->nbi", moved[given["bones"][vertex]], given["vertices"][vertex])
        return (by_bone * given["weights"][vertex][..., None]).sum(1)[:, :3]

    belongs = given["belongs"]
    x = bent(belongs[:, 0])
    if places is not None:
        rest = 1.0 - places.sum(1, keepdim=True)
        x = places[:, :1] * x + places[:, 1:] * bent(belongs[:, 1]) + rest * bent(belongs[:, 2])
    return given["points"] - (x @ _turn(pose[:3]).T + pose[3:6])


def hand(given: Data) -> Case:
    """Hand tracking: ``jacfwd`` for the pose, two directions for the places in the triangles."""
    parents = [int(x) for x in given["parents"]]
    tensors = {name: torch.tensor(x) for name, x in given.items()}
    pose, places = tensors["pose"], tensors.get("places")
    errors = partial(_errors, parents, tensors)

    def both() -> tuple[Tensor, Tensor]:
        rows = torch.func.jacfwd(lambda p: errors(p, places))(pose)
        if places is not None:
            ways = [torch.zeros_like(places).index_fill_(1, torch.tensor(k), 1.0) for k in range(2)]
            own = [torch.func.jvp(lambda u: errors(pose, u), (places,), (way,))[1] for way in ways]
            rows = torch.cat([torch.stack(own, -1), rows], -1)
        return errors(pose, places), rows

    return _case(lambda: errors(pose, places), both, ("value", "rows"))
