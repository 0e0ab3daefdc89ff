"""Launches and functions as functions of copies of their arguments, for finite-difference Jacobians.

A kernel with its launch, a Python function of arrays, or a launch recorded on a tape becomes a callable that can be run
repeatedly with perturbed components of its inputs. The arrays that were given stay unchanged.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from diffkern.kernels.kernel import Kernel
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.array_copy import clone
from diffkern.runtime.launch.packed import PackedLaunch, dispatch
from diffkern.runtime.records.launch import launch

__all__ = ["FunctionMetadata", "Mask", "Run", "TapedRun", "units"]

Mask: TypeAlias = "Sequence[tuple[str | int, str | int]] | None"


@dataclass
class FunctionMetadata:
    """The names of a function and of its arguments.

    Attributes
    ----------
    key
        The function's name.
    input_labels, output_labels
        Names of inputs and outputs, in their order.
    """

    key: str | None = None
    input_labels: list[str] | None = None
    output_labels: list[str] | None = None

    @property
    def is_empty(self) -> bool:
        """True if no name is set."""
        return self.key is None and not self.input_labels and not self.output_labels


@dataclass
class Run:
    """A kernel or a function as a function of copies of its arguments."""

    function: Any
    dim: Any
    inputs: Sequence[Any]
    outputs: Sequence[Any] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.function, Kernel) and self.dim is None:
            raise ValueError(f"the kernel {self.function.name!r} needs the dimensions of its launch: pass dim")

    @property
    def name(self) -> str:
        """The function's name."""
        return str(getattr(self.function, "__name__", "unknown"))

    def copies(self) -> list[Any]:
        """Return copies of the inputs."""
        return [_copy(a) for a in self.inputs]

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Run on arguments; returns the outputs."""
        if isinstance(self.function, Kernel):
            # Outputs are copied for each run, as a kernel may read what they held.
            outputs = [_copy(a) for a in self.outputs]
            launch(self.function, dim=self.dim, inputs=list(inputs), outputs=outputs, **self.options)
            return outputs
        found = self.function(*inputs)
        return list(found) if isinstance(found, (list, tuple)) else [found]

    def moved(self, i: int, at: int, by: float, wanted: Sequence[int]) -> list[np.ndarray[Any, Any]]:
        """Return the wanted outputs where a component of an input is moved."""
        given = self.copies()
        # A copy of the numbers: those of an array on the CPU may be a view of its memory.
        values = given[i].numpy().copy()
        values.reshape(-1)[at] += by
        given[i].assign(values)
        results = self(given)
        return [results[k].numpy().reshape(-1).astype(float) for k in wanted]

    def pairs(self, inputs: Sequence[Any], results: Sequence[Any], mask: Mask) -> list[tuple[int, int]]:
        """Return the pairs of differentiable arrays that are wanted."""
        # Only arrays of floats have derivatives; other arguments keep their positions.
        smooth = [[k for k, a in enumerate(part) if isinstance(a, array) and a._smooth] for part in (inputs, results)]
        every = [(i, k) for i in smooth[0] for k in smooth[1]]
        if mask is None:
            return every
        chosen = {(self.position(i), self.position(k, len(self.inputs))) for i, k in mask}
        return [pair for pair in every if pair in chosen]

    def position(self, name: str | int, first: int = 0) -> int:
        """Return where an input stands, or behind so many inputs an output."""
        return name if isinstance(name, int) else self.names().index(name) - first

    def names(self) -> list[str]:
        """Return the names of the arguments."""
        function: Callable[..., Any] = self.function.func if isinstance(self.function, Kernel) else self.function
        return list(inspect.signature(function).parameters)


class TapedRun(Run):
    """A launch that a tape has recorded; its outputs begin with the first array that it writes to."""

    def __init__(self, taken: PackedLaunch) -> None:
        # Logged values belong to the recorded run, not to the runs of copies.
        self.taken = taken.without_log()
        written = [taken.leaves[k] for k in taken.executable.writes]
        backward = isinstance(taken.kernel, Kernel) and taken.kernel.enable_backward
        # A field of a struct cannot be replaced by a copy by itself.
        self.can_run = backward and bool(written) and not any(leaf.path for leaf in written)
        # Warp's launches take the inputs first and then the outputs.
        first = min((leaf.argument for leaf in written), default=0)
        arguments = [taken.arrays[taken.span(k).start] for k in range(len(taken.keys))]
        super().__init__(taken.kernel, taken.dim, arguments[:first], arguments[first:])

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Run on copies of arrays; returns those of the outputs."""
        outputs = [_copy(a) for a in self.outputs]
        given = enumerate((*inputs, *outputs))
        leaves = self.taken.leaves
        others = {
            k: (a._key, [a._packed], [a])
            for k, a in given
            if isinstance(a, array) and not leaves[self.taken.span(k).start].path
        }
        dispatch(self.taken.changed(others))
        return outputs


def _copy(value: Any) -> Any:
    """A copy of an array of floating-point elements, with a gradient, or of another array; anything else as it is."""
    return clone(value, requires_grad=value._smooth) if isinstance(value, array) else value


def units(a: array, most: int) -> Iterator[np.ndarray[Any, Any]]:
    """Yield cotangents of an array with 1 for one component each, of the first so many if the number is positive."""
    shape, dtype = a.numpy().shape, a.numpy().dtype
    count = int(np.prod(shape))
    for at in range(min(count, most) if most > 0 else count):
        unit = np.zeros(shape, dtype)
        unit.reshape(-1)[at] = 1
        yield unit
