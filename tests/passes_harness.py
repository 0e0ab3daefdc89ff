"""For tests of passes: lower a Python function, run a pass with the verifier after it, compare by executing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffkern.frontend.statements import lowering
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, Op, Region, walk
from diffkern.ir.printer import to_text
from diffkern.ir.types import FLOAT64, INT32, Array, Type
from diffkern.ir.verify import verify
from diffkern.opt.fold import fold
from diffkern.opt.hoist import hoist_integers
from diffkern.testing.programs import Interpreted, as_argument

D1 = Array(FLOAT64, 1)
D2 = Array(FLOAT64, 2)
I1 = Array(INT32, 1)

Pass = Callable[[Function], Function]


def lowered(function: Callable[..., Any], *types: Type) -> Function:
    """Verified IR of a Python function."""
    fn = lowering.lower(function, types)
    verify(fn)
    return fn


def after(fn: Function, *passes: Pass) -> Function:
    """A copy of a function after passes; valid after each."""
    fn = clone_function(fn)
    for p in passes:
        assert p(fn) is fn
        verify(fn)
    return fn


def adding(function: Callable[..., Any], *types: Type, mode: str = "plain") -> Function:
    """A function whose atomic additions are accumulations, as in an adjoint, with each literal outside of loops."""
    fn = after(lowered(function, *types), fold, hoist_integers)

    def accumulate(region: Region) -> None:
        for k, op in enumerate(region.ops):
            for sub in op.regions:
                accumulate(sub)
            if op.name == "atomic" and op.attrs["kind"] == "add":
                attrs = {"wrap": op.attrs["wrap"], "mode": mode}
                region.ops[k] = Op("accumulate", op.operands, (), attrs, (), op.loc)

    accumulate(fn.body)
    return fn


def results(fn: Function, dim: Sequence[int], args: Sequence[Any]) -> list[Any]:
    """The arguments as a launch leaves them."""
    values = [as_argument(p.type, a) for p, a in zip(fn.params, args, strict=True)]
    Interpreted(fn).run(dim, values)
    return values


def assert_same(a: Function, b: Function, dim: Sequence[int], args: Sequence[Any]) -> None:
    """Two functions leave exactly the same bits behind."""
    for x, y in zip(results(a, dim, args), results(b, dim, args), strict=True):
        np.testing.assert_array_equal(x, y)


def names(fn: Function) -> list[str]:
    """Names of all ops in program order."""
    return [op.name for op in walk(fn.body)]


def body(fn: Function) -> list[str]:
    """The printed lines between the braces, without indentation at the left and source lines at the right."""
    return [line.partition("  # ")[0][2:].rstrip() for line in to_text(fn).splitlines()[1:-1]]


def wraps(fn: Function, name: str = "load") -> list[tuple[bool, ...]]:
    """The wrap flags of all accesses of one kind."""
    return [op.attrs["wrap"] for op in walk(fn.body) if op.name == name]
