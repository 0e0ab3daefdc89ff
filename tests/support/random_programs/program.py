"""A whole random program: kernels, arrays with their contents, values, steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import diffkern as dk

from .captures import definitions
from .choices import Choices
from .host import Array, Step, random_arrays, random_steps
from .kernels import FUNCTIONS, random_kernel
from .memory import COLUMNS, KINDS, struct_dtype
from .structs import definition
from .writer import Extents

__all__ = ["RandomProgram", "random_program"]


@dataclass(frozen=True)
class RandomProgram:
    """A random program, in ``float64`` or ``float32``; its text but for the type is the same in both.

    Attributes
    ----------
    seed
        What it was made from.
    real
        The type of its numbers.
    source
        The text of its module of kernels.
    arrays
        Its arrays, by name.
    steps
        What it does, in order.
    extents
        Its sizes.
    trips
        The kernels' parameter ``m``.
    """

    seed: int
    real: str
    source: str
    arrays: Mapping[str, Array]
    steps: tuple[Step, ...]
    extents: Extents
    trips: int

    @property
    def text(self) -> str:
        """Everything, for a person."""
        arrays = ", ".join(f"{a.name}[{a.length}]{'' if a.gradient else ' no grad'}" for a in self.arrays.values())
        steps = "\n".join(f"# {step}" for step in self.steps)
        return f"# seed {self.seed}, {self.real}, {self.extents}, m={self.trips}\n# {arrays}\n{steps}\n\n{self.source}"

    def state(self) -> dict[str, np.ndarray]:
        """The arrays' contents at the start."""
        rng = np.random.default_rng(self.seed)
        return {name: _contents(rng, array, self.real, self.extents.length) for name, array in self.arrays.items()}

    def values(self, module: Any) -> dict[str, Any]:
        """The parameters passed by value."""
        rng = np.random.default_rng((self.seed, 1))
        number = np.dtype(self.real).type
        vec3, vec2 = (dk.vec3d, dk.vec2d) if self.real == "float64" else (dk.vec3, dk.vec2)
        a, b, mass, *rest = rng.uniform(0.2, 1.1, 8)
        return {
            "a": number(a), "b": number(-b), "u": vec3(*rest[:3]), "n": self.extents.length, "m": self.trips,
            "h": module.Body(pos=vec3(*rest[1:4]), mass=mass, tag=2, vel=vec2(*rest[3:5])),
        }  # fmt: skip


def _contents(rng: np.random.Generator, array: Array, real: str, length: int) -> np.ndarray:
    kind, n = KINDS[array.kind], array.length

    def reals(*shape: int) -> np.ndarray:
        # multiples of 2**-20 are the same in both types
        numbers = np.round(rng.uniform(0.2, 1.1, shape) * rng.choice((-1.0, 1.0), shape) * 2**20) / 2**20
        return numbers.astype(real)

    if array.kind == "perm":
        return np.concatenate([rng.permutation(length) for _ in range(-(-n // length))])[:n].astype(np.int32)
    if kind.element == "int32":
        return rng.integers(-length, length, n).astype(np.int32)
    if kind.element == "int64":
        return rng.integers(-9, 10, n) + (rng.integers(-2, 3, n) << 33)
    if kind.element in ("uint16", "uint32"):
        return rng.integers(0, np.iinfo(kind.element).max, n, kind.element, endpoint=True)
    if kind.element in ("int8", "int16", "uint8"):
        return rng.integers(-128, 128, n).astype(kind.element)
    if kind.element == "Body":
        bodies = np.zeros(n, struct_dtype(real))
        bodies["pos"], bodies["mass"], bodies["vel"] = reals(n, 3), reals(n), reals(n, 2)
        bodies["tag"] = rng.integers(-3, 9, n)
        return bodies
    return reals(n, *((COLUMNS,) if kind.ndim == 2 else ()), *kind.components)


def _extents(choices: Choices) -> Extents:
    kind = choices.below(10)
    if kind < 6:
        threads = 4 + choices.below(5)
    elif kind < 9:
        threads = 130 + choices.below(200)
    else:
        threads = 2000 + choices.below(1500)
    length = threads + choices.pick((0, 0, 1, 3))
    columns = 1 + choices.below(COLUMNS)
    return Extents(length, threads, max(1, threads // columns), columns)


def random_program(seed: int, real: str | None = None) -> RandomProgram:
    """Write a program.

    Parameters
    ----------
    seed
        The same number gives the same program.
    real
        The type of its numbers, if it is not left to chance.
    """
    choices = Choices(seed)
    drawn = "float32" if choices.chance(12) else "float64"
    real = real or drawn
    extents = _extents(choices)
    # Compiling takes most of the time, so most programs are small.
    large = choices.chance(25)
    count, statements = choices.pick((1, 1, 2, 2, 3) if large else (1, 1, 1, 1, 2)), 3 if large else 1
    kernels = [
        random_kernel(choices, f"k{k}", real, extents, statements + choices.below(2 * statements)) for k in range(count)
    ]
    arrays = random_arrays(choices, kernels, extents)
    steps = random_steps(choices, kernels, arrays, extents)
    captured = definitions(choices)
    parts = [
        f"{captured}\n\nimport diffkern as dk\n",
        definition(real),
        FUNCTIONS.format(real=f"dk.{real}"),
        *(k.source for k in kernels),
    ]
    return RandomProgram(seed, real, "\n\n".join(parts), arrays, steps, extents, choices.below(4))
