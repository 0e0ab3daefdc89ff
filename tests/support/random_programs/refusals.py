"""What must be refused of a right program: its launches on arrays that share memory, its results by way of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import diffkern as dk

from .host import Launch, View
from .program import RandomProgram

__all__ = ["accepted_overlap", "silent_round_trip"]


def accepted_overlap(program: RandomProgram, kernels: Any, arrays: dict[str, dk.array], values: Any) -> str:
    """Why sharing memory with an array that is written was not refused as it must be; nothing if it was.

    Parameters
    ----------
    program
        The program.
    kernels
        Its module.
    arrays, values
        Its arguments.
    """
    for step in program.steps:
        if isinstance(step, Launch) and (pair := _pair(program, step)) is not None:
            return _overlapping(step, pair, kernels, arrays, values)
    return ""


def _pair(program: RandomProgram, step: Launch) -> tuple[int, int] | None:
    """The places of a whole array that a launch writes, and of another one of its kind."""

    def kind(view: View) -> str:
        return program.arrays[view.array].kind

    for k, written in enumerate(step.arrays):
        if written.array in step.written and written.part is None and kind(written) not in ("few", "one"):
            for j, other in enumerate(step.arrays):
                if other.array != written.array and other.part is None and kind(other) == kind(written):
                    return k, j
    return None


def _overlapping(step: Launch, places: tuple[int, int], kernels: Any, arrays: dict[str, dk.array], values: Any) -> str:
    k, j = places
    given = [view.of(arrays) for view in step.arrays]
    kernel, passed = getattr(kernels, step.kernel), [values[v] for v in step.values]
    both = dk.array(np.concatenate([given[k].numpy(), given[j].numpy()[:1]]), dtype=given[k].dtype)
    before = both.numpy().copy()
    given[k], given[j] = both[:-1], both[1:]
    apart = [dk.clone(a) if place in places else a for place, a in enumerate(given)]
    try:
        dk.launch(kernel, step.dim, [*given, *passed])
    except dk.LaunchError as error:
        if "share" not in str(error):
            return f"shared memory is refused with {error}"
        return "" if _same(before, both.numpy()) else "a launch that was refused has written"
    # A kernel may have no use for what it is given: what it reads is overwritten later.
    dk.launch(kernel, step.dim, [*apart, *passed])
    if not _same(given[k].numpy(), apart[k].numpy()):
        return "a launch that writes to one of two arrays which share elements, and reads the other, is not refused"
    return ""


def _same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether the numbers are the same, bit for bit; what pads structs is nobody's."""
    if a.dtype.names:
        return all(_same(a[name], b[name]) for name in a.dtype.names)
    return a.tobytes() == b.tobytes()


def silent_round_trip(run: Any) -> str:
    """Why a result that went through NumPy was not refused as it must be; nothing if it was.

    Parameters
    ----------
    run
        A program that is run, with its arrays, and the names of those that have a gradient and that are written.
    """
    arrays = run.arrays()
    names = [name for name in run.active if not run.start[name].dtype.names]
    written = [name for name in run.written if run.start[name].dtype.kind == "f"]
    if not names or not written:
        return ""

    def total(*given: dk.array) -> dk.array:
        inside = {**arrays, **{name: dk.clone(a) for name, a in zip(names, given, strict=True)}}
        run.steps(inside)
        return dk.array([sum(float(inside[name].numpy().sum()) for name in written)], dtype=dk.float64)

    given = [arrays[name] for name in names]
    for derivative in (
        lambda: dk.grad(total)(*given),
        lambda: dk.vjp(total, given, dk.array([1.0], dtype=dk.float64)),
        lambda: dk.jvp(total, given, [dk.zeros_like(a) for a in given]),
    ):
        try:
            derivative()
        except dk.LaunchError as error:
            if "depends on none of its arguments" not in str(error):
                return f"a result by way of NumPy is refused with {error}"
        else:
            return "a result by way of NumPy has a derivative"
    return ""
