"""Paths of tapes: launches with which some have begun, and what is known of them.

What decides about a path are objects that stand for arrays, the bytes that kernels take for them, made once for each,
and those of their gradients. Nothing here keeps an array or a program.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Assign
from diffkern.runtime.effects.known_sweeps import KnownSweep, Submission
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.schedule import Grid

__all__ = ["FEW", "HOST", "LOSS", "Fill", "KnownBackward", "KnownPath", "Met", "beginning_of", "root"]

_MOST = 1 << 14
"""The most places on paths that are known."""
FEW = 16
"""The most sweeps and fills of a path."""
LOSS, HOST = object(), object()
"""The beginnings of a sweep: 1, or elements in host memory. On a GPU it is the bytes of an array."""
_UNUSUAL: tuple[None, None, None] = None, None, None


class KnownBackward(NamedTuple):
    """A reverse sweep from a place: the array where it begins, its seed (that of a loss, or the bytes of an array on a
    GPU), the sweep, and which gradients have to be zero before.
    """

    goal: bytes
    seed: Any
    sweep: weakref.ref[KnownSweep]
    resting: Sequence[int]


class KnownPath:
    """The launches with which some tapes have begun: what is known of the last of them, and of those after it.

    Attributes
    ----------
    following
        The paths with one launch more, by the bytes that decide about that, dimensions and program.
    backward
        Reverse sweeps, by the bytes of the array where they begin, and what they begin with.
    fills
        What sets some gradients to zero, by their bytes.
    executable, dim, picked, grid
        The program, dimensions, bytes and threads of the last launch.
    others
        The bytes of the last launch on other arrays that were equal.
    leaves, fresh
        Its arrays, each with the bytes of its gradient; those of them that no launch before has.
    writes, values
        The leaves that it writes, and the numbers that a sweep is given.
    pattern
        Which of its arrays carry gradients, as :func:`pattern_of` says.
    chosen
        The program for its arguments.
    is_joint
        Whether a sweep runs the launches of the path as well, so that they are put off.
    missed
        How often they have run by themselves all the same.
    changes
        How often options of kernels had changed when the kernel was known to be differentiated.
    """

    __slots__ = (
        "backward", "changes", "chosen", "dim", "executable", "fills", "following", "fresh", "grid", "is_joint",
        "leaves", "missed", "others", "pattern", "picked", "values", "writes",
    )  # fmt: skip

    following: dict[Any, KnownPath]
    backward: dict[tuple[bytes, object], KnownBackward]
    fills: dict[tuple[bytes, ...], Fill]
    executable: weakref.ref[Executable]
    dim: int
    picked: tuple[bytes, ...]
    others: tuple[object, ...]
    grid: Grid
    leaves: list[tuple[int, bytes | None]]
    fresh: list[tuple[int, bytes | None]]
    values: tuple[int, ...]
    writes: tuple[int, ...]
    pattern: int
    chosen: weakref.ref[Executable]
    changes: int

    def __init__(self) -> None:
        self.following, self.backward, self.fills = {}, {}, {}
        self.is_joint, self.missed = False, 0

    def follow(self, key: object, path: KnownPath) -> None:
        """Keep a path with one launch more."""
        _count[0] += 1
        if _count[0] > _MOST:
            _count[0] = 0
            root.following.clear()
        self.following[key] = path


root = KnownPath()
"""The path of a tape on which there is nothing."""
_count = [0]


class Met:
    """Some memory on a path: its array, the bytes of its gradient, whether it varies or is relied on."""

    __slots__ = ("grad", "held", "is_relied_on", "varies")

    def __init__(self, held: array, grad: bytes | None) -> None:
        self.held, self.grad, self.is_relied_on, self.varies = held, grad, False, False


class Fill(NamedTuple):
    """A native call that sets whole gradients to zero, and their bytes."""

    key: tuple[bytes, ...]
    run: Callable[[], object]

    @staticmethod
    def of(wanted: Sequence[array], key: tuple[bytes, ...]) -> Fill | None:
        """Return what fills some gradients on one GPU; None where that is not so simple."""
        device = wanted[0]._memory.device
        steps: list[Any] = []
        for own in wanted:
            memory, form = own._memory, Assign(own, 0).steps()
            is_whole = own._data.nbytes == memory.nbytes and own._writable and memory.device is device
            if form is None or not is_whole or memory.is_counted:
                return None
            steps += form
        made = Submission(steps, [own._memory for own in wanted], device)
        return Fill(key, made.call) if made.is_native else None


def beginning_of(loss: Any, grads: Any) -> tuple[Any, object, Any]:
    """Return the array where a sweep of one seed begins, with what, and its elements on the host; None for others."""
    if loss is not None or type(grads) is not dict or len(grads) != 1:
        return _UNUSUAL
    ((goal, value),) = grads.items()
    if type(goal) is not array:
        return _UNUSUAL
    if type(value) is array:
        if not value._memory.is_host:
            return goal, value._packed, None
        value = value._data
    data = goal._data
    if type(value) is np.ndarray and value.dtype is data.dtype and value.shape == data.shape:
        return goal, HOST, value
    return _UNUSUAL
