"""Derivatives of funcs that kernels call, for the frontend to inline (:mod:`diffkern.frontend.builtins.derived`).

A lowered func and its active parameters become a function of the func's parameters that is inlined in place of the
func: with cotangents of the results, or with tangents of the parameters. The passes that run around the sweeps are
given by the module that owns the lists of passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diffkern.ad.forward import Tools, by_tangents, forward_func
from diffkern.ad.loops import StackBudget
from diffkern.ad.reverse import reverse_func
from diffkern.ir.nodes import Function, walk
from diffkern.ir.ops.memory import NEW_STACKS
from diffkern.ir.passes import PLAIN
from diffkern.ir.stages import ADJOINT, STAGED_MARKS
from diffkern.process.dataclass import dataclass

__all__ = ["FuncDerivatives"]

_BUDGET = StackBudget(4096)
"""Of a loop's states in a derivative."""


@dataclass(frozen=True)
class FuncDerivatives:
    """The differentiation of funcs, with the passes around it.

    Attributes
    ----------
    written
        Brings a func that was lowered alone to the form of kernels.
    prepare
        Normalises it.
    optimise
        Turns it into a forward program.
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
        """The parts of reverse mode that forward mode uses."""
        return Tools(self.transpose, self.derivative)

    def transpose(self, fn: Function) -> Function:
        """Return the transpose of a derivative rule, which is a function that is linear in its last parameter."""
        return reverse_func(fn, [len(fn.params) - 1], _BUDGET, self.simplify).tidied().function()

    def derivative(self, fn: Function, active: Sequence[int]) -> Function:
        """Return the function that yields the results and the cotangents of the active parameters.

        If it contains a derivative that keeps the states of loops, it is made of tangents instead, one for each active
        number.
        """
        whole = self.written(fn)
        # Reverse mode refuses loop stacks (see check_stacks); tangents can be carried through them.
        if any(op.name in NEW_STACKS for op in walk(whole.body)):
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
