"""How a kernel of the corpus is written down: the function, the launch's dimensions and its arguments.

A module of the corpus decorates plain functions with :func:`case`; they are collected in :data:`CASES` under
``module.function``. Arguments are drawn from a fixed seed and are float32 numbers, so that the float32 and the float64
version of a kernel are differentiated at the same point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Maker = Callable[[np.random.Generator], Any]

CASES: dict[str, Case] = {}


@dataclass(frozen=True)
class Case:
    """A kernel of the corpus.

    Attributes
    ----------
    function
        The Python function.
    dim
        Dimensions of the launch.
    arguments
        By parameter name: a value, or a function that makes it from a random generator.
    options
        Kernel options, such as ``slots``.
    expect
        By parameter name, a gradient that is known exactly (where differences cannot tell, at a kink).
    rtol32
        How far the float32 gradient may be from the float64 one.
    block_dim
        Threads of a block, where results depend on their number.
    """

    name: str
    function: Callable[..., Any]
    dim: tuple[int, ...]
    arguments: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    expect: Mapping[str, Any] = field(default_factory=dict)
    rtol32: float = 2e-3
    numeric: bool = True
    block_dim: int | None = None

    def make(self, seed: int = 7) -> dict[str, Any]:
        """Fresh arguments, by parameter name."""
        rng = np.random.default_rng([seed, *self.name.encode()])
        return {name: value(rng) if callable(value) else value for name, value in self.arguments.items()}


def case(
    *dim: int,
    options: Mapping[str, Any] | None = None,
    expect: Mapping[str, Any] | None = None,
    rtol32: float = 2e-3,
    numeric: bool = True,
    block_dim: int | None = None,
    **arguments: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter the decorated function into the corpus."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        name = f"{function.__module__.rpartition('kernels_')[2]}.{function.__name__}"
        assert name not in CASES, name
        CASES[name] = Case(name, function, dim, arguments, options or {}, expect or {}, rtol32, numeric, block_dim)
        return function

    return enter


def as32(values: Any) -> np.ndarray:
    """Values that float32 holds exactly."""
    return np.asarray(values, dtype=np.float32)


def values(*shape: int, lo: float = 0.3, hi: float = 1.4) -> Maker:
    """Random floats."""
    return lambda rng: rng.uniform(lo, hi, shape).astype(np.float32)


def signed(*shape: int, least: float = 0.2, most: float = 1.3) -> Maker:
    """Random floats of both signs, away from 0."""

    def make(rng: np.random.Generator) -> np.ndarray:
        size = rng.uniform(least, most, shape)
        return (size * rng.choice([-1.0, 1.0], shape)).astype(np.float32)

    return make


def spread(*shape: int, step: float = 0.37, start: float = -1.0) -> Maker:
    """Distinct floats in random order, no two nearer than `step`: no ties for min and max."""

    def make(rng: np.random.Generator) -> np.ndarray:
        n = int(np.prod(shape))
        return (start + step * rng.permutation(n)).reshape(shape).astype(np.float32)

    return make


def zeros(*shape: int) -> Maker:
    return lambda rng: np.zeros(shape, np.float32)


def scalar(value: float) -> np.float32:
    """A float32 parameter passed by value."""
    return np.float32(value)


def ints(*numbers: Any) -> Maker:
    """An int32 array."""
    return lambda rng: np.array(numbers, np.int32)


def doubles(*shape: int, lo: float = 0.3, hi: float = 1.4) -> Maker:
    """Random float64 numbers (that float32 does not hold)."""
    return lambda rng: rng.uniform(lo, hi, shape)
