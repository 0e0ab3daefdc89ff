"""A port on diffkern's arrays: its results, its gradient, and both as recorded sequences that are replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import diffkern as dk

from .ports import Port

Array = np.ndarray[Any, Any]


class Own:
    """A port and arrays that hold its inputs.

    Parameters
    ----------
    port : Port
        The program.
    inputs : dict
        The published arguments, by name.
    """

    def __init__(self, port: Port, inputs: dict[str, Any]) -> None:
        self.port = port
        self.given = {name: dk.array(v) for name, v in inputs.items() if isinstance(v, np.ndarray)}
        self.arrays = {
            name: dk.array(v, requires_grad=name in port.wrt) for name, v in inputs.items() if name in self.given
        }
        self.arguments = {**{name: plain(v) for name, v in inputs.items()}, **self.arrays}

    def prepare(self) -> None:
        """Bring the arguments back to the published inputs."""
        for name, array in self.arrays.items():
            dk.copy(array, self.given[name])

    def run(self) -> tuple[Any, ...]:
        """Run the program once, launch by launch."""
        return self.port.run(**self.arguments)

    def results(self) -> list[Array]:
        """Return what the program computes for the published inputs."""
        self.prepare()
        return [np.array(result.numpy()) if hasattr(result, "numpy") else np.asarray(result) for result in self.run()]

    def recorded(self) -> Callable[[], None]:
        """Return what replays the program."""
        with dk.record(run=False) as sequence:
            self.run()
        replay: Callable[[], None] = sequence.replay
        return replay

    def recorded_gradient(self, weights: list[Array | None]) -> tuple[Callable[[], None], Callable[[], list[Array]]]:
        """Return what replays the program and its gradient, and what reads the gradient."""
        with dk.record(run=False) as sequence:
            results = self.run()
        grads = {result: w for result, w in zip(results, weights, strict=True) if w is not None}
        both = sequence.adjoint(grads=grads)
        return both.replay, self.gradients

    def taped_gradient(self, weights: list[Array | None]) -> list[Array]:
        """Return the gradient of the weighted sum of the results, from a tape."""
        self.prepare()
        for name in self.port.wrt:
            self.arrays[name].grad.zero_()
        with dk.Tape() as tape:
            results = self.run()
        tape.backward(grads={result: w for result, w in zip(results, weights, strict=True) if w is not None})
        return self.gradients()

    def gradients(self) -> list[Array]:
        """Return the gradients that the arguments hold."""
        return [np.array(self.arrays[name].grad.numpy()) for name in self.port.wrt]


def plain(value: Any) -> Any:
    """Return a number of NumPy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value
