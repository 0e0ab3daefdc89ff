"""What an application consists of, and the table of all applications."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

APPLICATIONS: dict[str, Application] = {}


class Program(ABC):
    """An application of one size: its arrays, its forward run, and its gradient.

    Everything is made by the constructor, so that the methods can be timed.

    Attributes
    ----------
    notes
        What the size means and other things to print, by name.
    """

    notes: Mapping[str, float | str] = {}

    @abstractmethod
    def primal(self) -> Any:
        """Run from the initial state, without a gradient."""

    @abstractmethod
    def gradient(self) -> Any:
        """Run from the initial state with everything that the gradient needs, and the gradient."""

    @abstractmethod
    def check(self) -> float:
        """Return the difference of the gradient from central differences in float64, relative to the derivative."""


@dataclass(frozen=True)
class Application:
    """An application of the papers.

    Attributes
    ----------
    name
        As the papers write it, in lower case.
    build
        Makes the program of a size.
    sizes
        What is measured; the first one alone in a small run.
    checked
        The size at which the gradient is compared with differences.
    validate
        Runs the program and returns the largest difference of its results, relative to the largest of them, from those
        of the original program, and what these are. It is given the checkout, or None: results of the original that are
        stated as data, with their command, need none.
    published
        Overheads, gradient over primal, that papers give, each with where it stands and on which machine.
    kernels
        The kernels of which instructions are counted: each a kernel whose parameters are annotated, or a tuple of a
        kernel and a type for each parameter, as ``dk.compile`` takes them.
    original
        Measures the original program of a size, given the checkout, and returns seconds by the tool's name; nothing
        where it cannot be built.
    cause
        Why the original is faster where it is.
    """

    name: str
    build: Callable[[int], Program]
    sizes: tuple[int, ...]
    checked: int
    validate: Callable[[Path | None], tuple[float, str]]
    published: tuple[tuple[str, float], ...]
    kernels: Callable[[], list[Any]]
    original: Callable[[Path, int], dict[str, float]] = field(default=lambda _source, _size: {})
    cause: str = ""


def register(made: Application) -> Application:
    """Add an application to the table."""
    APPLICATIONS[made.name] = made
    return made
