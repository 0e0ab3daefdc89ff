"""Derivatives of funcs that kernels call, for the frontend to inline (:mod:`diffkern.frontend.derived`).

In: a lowered func and its active parameters. Out: a function of the func's parameters that is inlined in place of the
func: with cotangents of the results, or with tangents of the parameters. Whoever has the lists of passes says what runs
around the sweeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from diffkern.ad.forward import Tools, by_tangents, forward_func
from diffkern.ad.loops import StackBudget
from diffkern.ad.reverse import reverse_func
from diffkern.ir.nodes import Function, walk
from diffkern.ir.passes import PLAIN
from diffkern.ir.stages import ADJOINT, STAGED_MARKS

__all__ = ["FuncDerivatives"]

_BUDGET = StackBudget(4096)
"""Of a loop's states in a derivative."""


@dataclass(frozen=True)
class FuncDerivatives:
    """What differentiates funcs.

    Attributes
    ----------
    written
        Brings a func that was lowered alone to the form of kernels.
    prepare
        Normalises it.
    optimise
        Makes a forward program of it.
    simplify
        Normalises the function of a map of tiles.
    clean
        Cleans up behind a sweep.
    """

    written: Callable[[Function], Function]
    prepare: Callable[[Function], Function]
    optimise: Callable[[Function], Function]
    simplify: Callable[[Function], Function]
    clean: Callable[[Function], Function]

    @property
    def tools(self) -> Tools:
        """What forward mode takes from reverse mode."""
        return Tools(self.transpose, self.derivative)

    def transpose(self, fn: Function) -> Function:
        """Return the transpose of a derivative rule, which is a function that is linear in its last parameter."""
        return reverse_func(fn, [len(fn.params) - 1], _BUDGET, self.simplify).tidied().function()

    def derivative(self, fn: Function, active: Sequence[int]) -> Function:
        """Return the function that yields the results and the cotangents of the active parameters.

        That of a derivative which keeps the states of loops is made of tangents, one for each number that is active.
        """
        whole = self.written(fn)
        if any(op.name == "stack_new" for op in walk(whole.body)):
            made = by_tangents(whole, active, self.tools)
        else:
            made = reverse_func(self.prepare(whole), list(active), _BUDGET, self.simplify).tidied().function()
        return _unmarked(self.clean(PLAIN.done("reverse", ADJOINT, made)))

    def tangents(self, fn: Function, active: Sequence[int]) -> Function:
        """Return the function with tangents for its active parameters."""
        return _unmarked(self.optimise(forward_func(self.written(fn), active, self.tools)))


def _unmarked(fn: Function) -> Function:
    """Remove what passes have noted for later ones, in place."""
    for op in walk(fn.body):
        op.attrs = {name: value for name, value in op.attrs.items() if name not in STAGED_MARKS}
    return fn
