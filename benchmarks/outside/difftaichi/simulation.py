"""What a simulator consists of, and the table of all simulators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import diffkern as dk

SIMULATIONS: dict[str, type[Simulation]] = {}


class Simulation(ABC):
    """A simulator: a trajectory with time as an axis of its arrays, a loss, and parameters that descend.

    Parameters
    ----------
    real : str
        "float32", or "float64" for comparisons with differences.
    steps : int
        Number of time steps; the published one where it is 0.

    Attributes
    ----------
    parameters
        The arrays that are optimized, by name.
    loss
        An array of one number.
    published_steps, iterations
        Time steps of a run and iterations of the descent in the published program.
    checked_steps
        Time steps of the comparison with differences.
    arguments
        The command line of the published program.
    changes
        What is changed in its text, old and new, beside what it shows.
    scale
        How a run differs from the published one, on both sides; empty where it does not.
    source
        The folder of the published programs, with their pictures and robots.
    """

    published_steps: int
    iterations: int
    checked_steps: int
    arguments: tuple[str, ...] = ()
    changes: ClassVar[dict[str, str]] = {}
    scale: str = ""
    source: ClassVar[Path]

    def __init__(self, real: str = "float32", steps: int = 0) -> None:
        self.real = real
        self.scalar = dk.float32 if real == "float32" else dk.float64
        self.vec2 = dk.vec2 if real == "float32" else dk.vec2d
        self.mat22 = dk.mat22 if real == "float32" else dk.mat22d
        self.vec3, self.mat33 = (dk.vec3, dk.mat33) if real == "float32" else (dk.vec3d, dk.mat33d)
        self.steps = steps or self.published_steps
        self.parameters: dict[str, Any] = {}
        self.loss = dk.zeros(1, dtype=self.scalar, requires_grad=True)
        self.build()

    def field(self, *shape: int, dtype: Any = None) -> Any:
        """Return an array of zeros of a shape, of numbers by default."""
        return dk.zeros(shape, dtype=dtype or self.scalar)

    def fixed(self, value: Any, dtype: Any = None) -> Any:
        """Return an array of numbers that are given."""
        return dk.array(np.asarray(value, dtype=self.real), dtype=dtype or self.scalar)

    def parameter(self, name: str, value: Any, dtype: Any = None) -> Any:
        """Return an array that is optimized."""
        array = dk.array(np.asarray(value, dtype=self.real), dtype=dtype or self.scalar, requires_grad=True)
        self.parameters[name] = array
        return array

    @abstractmethod
    def build(self) -> None:
        """Allocate the arrays and set the initial state."""

    @abstractmethod
    def forward(self) -> None:
        """Clear what is accumulated, run all steps, and write the loss."""

    def reset(self) -> None:  # noqa: B027
        """Forget what earlier runs have left where a run reads before it writes; most simulators do not."""

    @abstractmethod
    def descend(self) -> None:
        """Change the parameters by their gradients, as published."""

    def step_down(self, rate: float) -> None:
        """Subtract a multiple of each gradient."""
        for array in self.parameters.values():
            array.assign(array.numpy() - rate * array.grad.numpy())

    def gradients(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the gradients of the parameters."""
        return {name: np.array(array.grad.numpy()) for name, array in self.parameters.items()}


class SteppedSimulation(Simulation):
    """A simulator whose steps can be run one by one, of which the gradient is looked at by their number."""

    def forward(self) -> None:
        self.begin()
        for t in range(1, self.steps):
            self.advance(t)
        self.measure(self.steps - 1)

    @abstractmethod
    def begin(self) -> None:
        """Clear what is accumulated, and put the parameters into the initial state."""

    @abstractmethod
    def advance(self, t: int) -> None:
        """Launch what leads to the state t."""

    @abstractmethod
    def measure(self, t: int) -> None:
        """Launch what writes the loss of the state t."""


def simulation(name: str) -> Any:
    """Register a class under the name of its published program."""

    def register(cls: type[Simulation]) -> type[Simulation]:
        SIMULATIONS[name] = cls
        return cls

    return register
