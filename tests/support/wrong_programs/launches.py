"""Wrong launches of right kernels.

In: a kernel, its dimensions and arguments, choices. Out: :func:`wrong_launch` has called diffkern as nobody should.
"""

# ruff: noqa: PLW0108  (lambdas side by side)
from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import diffkern as dk

__all__ = ["wrong_launch"]

Call = Callable[[Any, Any, list[Any], random.Random], Any]


class Odd:
    """An object that is no argument, and whose attributes fail."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)


def odd_value(rng: random.Random, old: Any) -> Any:
    """Something that is no argument, mostly; sometimes an array of another kind."""
    if isinstance(old, np.ndarray) and rng.random() < 0.6:
        return rng.choice(_ARRAYS)(old)
    return rng.choice(_VALUES)()


_VALUES: tuple[Callable[[], Any], ...] = (
    lambda: None, lambda: "x", lambda: b"x", lambda: 1, lambda: -1, lambda: 1.5, lambda: 1 << 70, lambda: float("nan"),
    list, lambda: [1.0, "x"], dict, lambda: (1.0, 2.0), lambda: 2j, lambda: True, object, lambda: dk,
    lambda: dk.vec3, lambda: dk.vec3(1.0), lambda: dk.quat(), lambda: np.float32(1), lambda: np.zeros(()),
    lambda: np.zeros(3, "S3"), lambda: np.zeros(3, object), lambda: np.zeros(3, complex), lambda: np.zeros((2,) * 6),
    lambda: np.datetime64("2020-01-01"), lambda: range(3), lambda: dk.zeros(3, dtype=dk.mat33), lambda: dk.float32,
    lambda: dk.zeros(0), lambda: print, lambda: iter([1]), lambda: {1.0},
)  # fmt: skip

_ARRAYS: tuple[Callable[[np.ndarray], Any], ...] = (
    lambda a: a.astype(np.float64), lambda a: a.astype(np.int32), lambda a: a.astype(np.int8), lambda a: a.astype(bool),
    lambda a: a[..., None], lambda a: a.ravel(), lambda a: a[:0], lambda a: a[::2], lambda a: a[::-1], lambda a: a.T,
    lambda a: a.astype(">f4"), lambda a: a.tolist(), lambda a: read_only(a), lambda a: a[..., 0], lambda a: a[None],
    lambda a: np.broadcast_to(a, (2, *a.shape)), lambda a: a.astype(object), lambda a: np.ma.array(a),
    lambda a: a.view(np.uint8), lambda a: np.asfortranarray(a), lambda a: memoryview(a), lambda a: a.astype(complex),
)  # fmt: skip


def read_only(a: np.ndarray) -> np.ndarray:
    """A copy that cannot be written to."""
    made = a.copy()
    made.flags.writeable = False
    return made


_DIMS: tuple[Any, ...] = (
    None, "x", -1, (-1,), 1.5, (1.5,), (1, 2, 3, 4, 5), (), [], 1 << 40, (1 << 40, 1 << 30), float("nan"), np.zeros(2),
    dk, object(), {}, True, (None,), ("x",), [[1]], np.int64(3), 2j, "3", b"3", Odd(), (2, "x"), np.float32(2.0),
)  # fmt: skip


def _with_odd_argument(kernel: Any, dim: Any, args: list[Any], rng: random.Random) -> Any:
    if args:
        k = rng.randrange(len(args))
        args[k] = odd_value(rng, args[k])
    return _launched(kernel, dim, args)


def _with_other_count(kernel: Any, dim: Any, args: list[Any], rng: random.Random) -> Any:
    how = rng.randrange(3)
    if how == 0 and args:
        args.pop()
    elif how == 1:
        args.append(odd_value(rng, None))
    else:
        rng.shuffle(args)
    return _launched(kernel, dim, args)


def _launched(kernel: Any, dim: Any, args: list[Any]) -> Any:
    return dk.launch(kernel, dim, args)


def _with_odd_dim(kernel: Any, dim: Any, args: list[Any], rng: random.Random) -> Any:
    chosen = rng.choice(_DIMS)
    return kernel[chosen](*args) if rng.random() < 0.5 else dk.launch(kernel, chosen, args)


_KEYWORDS: tuple[dict[str, Any], ...] = (
    {"device": "cuda:7"}, {"device": "tpu"}, {"device": 3}, {"stream": 3}, {"block_dim": "x"}, {"block_dim": 0},
    {"block_dim": 5000}, {"block_dim": -1}, {"max_blocks": "x"}, {"max_blocks": -3}, {"adjoint": True},
    {"adj_inputs": [1]}, {"adj_outputs": [None]}, {"adjoint": True, "adj_inputs": ["x"]}, {"record_tape": "x"},
    {"adjoint": True, "adj_inputs": [np.zeros(2)]}, {"record_cmd": 3}, {"adjoint": "x"}, {"block_dim": 1.5},
    {"adj_inputs": 3, "adjoint": True}, {"device": Odd()}, {"stream": "x"}, {"block_dim": 32}, {"device": "cpu"},
)  # fmt: skip


def _with_odd_keyword(kernel: Any, dim: Any, args: list[Any], rng: random.Random) -> Any:
    return dk.launch(kernel, dim, args, **rng.choice(_KEYWORDS))


def _with_odd_lists(kernel: Any, dim: Any, args: list[Any], rng: random.Random) -> Any:
    lists: list[Any] = ["x", 3, None, {}, np.zeros(2), (args,), {1: 2}, iter(args), Odd()]
    return dk.launch(kernel, dim, rng.choice(lists))


def _no_kernel(kernel: Any, dim: Any, args: list[Any], rng: random.Random) -> Any:
    others: list[Any] = [None, kernel.func, "kernel", 3, dk, object(), type(kernel), kernel[dim], Odd()]
    return dk.launch(rng.choice(others), dim, args)


def _recorded(kernel: Any, dim: Any, args: list[Any], rng: random.Random) -> Any:
    record = dk.launch(kernel, dim, args, record_cmd=True)
    names = [p.name for p in kernel.parameters] or ["x"]
    calls: list[Callable[[], Any]] = [
        lambda: record.set_param_by_name(rng.choice([*names, "zzz", 3, None]), odd_value(rng, args[0] if args else 1)),
        lambda: record.set_param_at_index(rng.choice([0, 1, -1, 99, "x", None, 1.5]), odd_value(rng, None)),
        lambda: record.set_params([odd_value(rng, a) for a in args]),
        lambda: record.set_params(rng.choice([3, "x", None, {}])),
        lambda: record.set_dim(rng.choice(_DIMS)),
        lambda: record.launch(rng.choice([3, "x", object()])),
        lambda: record.adjoint(rng.choice([None, {}, {"zzz": 1}, {names[0]: "x"}])).launch(),
        lambda: record.set_param_at_index_from_ctype(0, 3),
    ]
    rng.choice(calls)()
    return record.launch()


def _taped(kernel: Any, dim: Any, args: list[Any], rng: random.Random) -> Any:
    given = [
        dk.array(a, requires_grad=rng.random() < 0.7) if isinstance(a, np.ndarray) and a.ndim == 1 else a for a in args
    ]
    with dk.Tape() as tape:
        dk.launch(kernel, dim, given)
    arrays = [a for a in given if isinstance(a, dk.array)] or [None]
    seeds: list[Any] = [None, rng.choice(arrays), 3, "x", dk.zeros(1), np.zeros(1), dk.zeros(3, requires_grad=True)]
    grads: list[Any] = [None, {}, {rng.choice(arrays): 3}, {rng.choice(arrays): np.zeros(99, np.float32)}, 3, {"x": 1}]
    return tape.backward(rng.choice(seeds), rng.choice(grads))


def _compiled(kernel: Any, dim: Any, args: list[Any], rng: random.Random) -> Any:
    types: list[Any] = [
        rng.choice([float, int, str, None, "x", 3, dk.vec3, dk.array, list, dk.array(dtype=float)]) for _ in args
    ]
    calls: list[Callable[[], Any]] = [
        lambda: kernel.source(*types),
        lambda: kernel.source(*args[:-1]),
        lambda: kernel.adjoint_source(*args, active=rng.choice([["zzz"], 3, "x", [3], []])),
        lambda: kernel.source(*args, target=rng.choice(["gpu", 3, None])),
        lambda: dk.compile((kernel, *types), target="cpu"),
        lambda: dk.compile(kernel, types, target=rng.choice(["tpu", 3, "sm_10", "cpu"])),
        lambda: dk.compile((kernel, *args), target="cpu", unknown=3),
        lambda: dk.compile(kernel, types, target="cpu", mode=rng.choice(["x", 3])),
        lambda: kernel.ir(*types, adjoint=True, active=["zzz"]),
        lambda: kernel(*args),
        lambda: kernel.adjoint_report(*types),
    ]
    return rng.choice(calls)()


_CALLS: tuple[tuple[Call, int], ...] = (
    (_with_odd_argument, 8), (_with_other_count, 3), (_with_odd_dim, 4), (_with_odd_keyword, 3), (_with_odd_lists, 1),
    (_no_kernel, 1), (_recorded, 4), (_taped, 3), (_compiled, 4),
)  # fmt: skip


def wrong_launch(kernel: Any, dim: Any, args: list[Any], rng: random.Random) -> str:
    """Launch a kernel wrongly, mostly; raises what diffkern raises.

    Returns
    -------
    str
        How it was launched.
    """
    calls, weights = zip(*_CALLS, strict=True)
    call: Call = rng.choices(calls, weights)[0]
    call(kernel, dim, args, rng)
    return call.__name__
