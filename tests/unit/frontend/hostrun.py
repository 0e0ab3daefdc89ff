"""The oracle of the frontend's tests: a kernel's own Python function, run on the host thread by thread.

In: a kernel's function, arguments, a launch size. Out: the arrays as Python itself would leave them, to be compared
with what the lowered IR computes. Arithmetic is in float64 on both sides, so results agree exactly.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import diffkern as dk
from diffkern.frontend.statements import lowering
from diffkern.ir.nodes import Function
from diffkern.ir.types import SCALARS, Array, Type
from diffkern.ir.verify import verify
from diffkern.opt.widen import widen
from diffkern.printing import executor


class HostLibrary(types.SimpleNamespace):
    """``dk`` as a kernel running on the host sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.thread: tuple[int, ...] = (0,)

    def __getattr__(self, name: str) -> Any:
        return getattr(dk, name)

    def tid(self) -> Any:
        return self.thread if len(self.thread) > 1 else self.thread[0]

    def atomic_add(self, array: Any, *rest: Any) -> Any:
        *index, value = rest
        old = array[tuple(index)]
        array[tuple(index)] += value
        return old


def type_of(value: Any) -> Type:
    """The parameter type of an argument."""
    if isinstance(value, np.ndarray):
        return Array(SCALARS[value.dtype.name], value.ndim, "C")
    return SCALARS[{bool: "bool", int: "int32", float: "float64"}[type(value)]]


def lower(function: Callable[..., Any], *args: Any) -> Function:
    """Lower for the given arguments and verify."""
    fn = lowering.lower(function, [type_of(a) for a in args])
    verify(fn)
    return fn


def run_on_host(function: Callable[..., Any], args: Sequence[Any], dim: Sequence[int]) -> list[Any]:
    """Run the Python function for each thread; returns the changed copies of the arguments."""
    library = HostLibrary()
    namespace = {**function.__globals__, "dk": library}
    host = types.FunctionType(
        function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__
    )
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    for thread in itertools.product(*map(range, dim)):
        library.thread = thread
        host(*copies)
    return copies


def run_lowered(function: Callable[..., Any], args: Sequence[Any], dim: Sequence[int]) -> list[Any]:
    """Lower and run the IR; returns the changed copies of the arguments.

    What is computed from literals alone is float32 by default and float64 in Python, so the IR is widened first.
    """
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    executor.run(widen(lower(function, *args)), copies, list(dim))
    return copies


def assert_same(function: Callable[..., Any], args: Sequence[Any], dim: Sequence[int] = (6,)) -> None:
    """The IR leaves every array as the Python function does."""
    expected = run_on_host(function, args, dim)
    found = run_lowered(function, args, dim)
    for want, got in zip(expected, found, strict=True):
        if isinstance(want, np.ndarray):
            np.testing.assert_array_equal(got, want)
