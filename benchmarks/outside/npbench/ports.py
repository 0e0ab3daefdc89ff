"""What a port consists of, and the table of all ports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Port:
    """A program of NPBench written with diffkern.

    Attributes
    ----------
    name
        Its name in NPBench.
    run
        Takes the published arguments by name, arrays as diffkern arrays, and returns the results in the published
        order: what the function returns, then the arguments that it overwrites.
    wrt
        The arguments that the gradient is taken with respect to; empty for a program without a derivative.
    cause
        Why a part of it is slower than the fastest peer, per part ("forward", "gradient").
    noise
        What the inputs are changed by, relative to their largest element, before the gradient is compared with
        differences: the published inputs of some programs are where all derivatives vanish.
    check
        Parameters that are changed for that comparison, where differences of the published size say nothing.
    """

    name: str
    run: Callable[..., tuple[Any, ...]]
    wrt: tuple[str, ...]
    cause: dict[str, str]
    noise: float = 0.0
    check: dict[str, Any] | None = None


PORTS: dict[str, Port] = {}


def port(
    name: str, *wrt: str, forward: str = "", gradient: str = "", noise: float = 0.0, check: dict[str, Any] | None = None
) -> Callable[[Callable[..., tuple[Any, ...]]], Callable[..., tuple[Any, ...]]]:
    """Register a function as the port of a program, with the causes of slower rows."""

    def register(run: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
        PORTS[name] = Port(name, run, wrt, {"forward": forward, "gradient": gradient}, noise, check)
        return run

    return register
