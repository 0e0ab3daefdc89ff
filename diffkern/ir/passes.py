"""Passes, and the one place that runs them.

A pass takes a function, changes it in place and returns the same object. So do all transformations and lowerings of the
compiler; a caller that still needs the original clones it first (:func:`diffkern.ir.clone.clone_function`). A pass has
a name, and declares the stage (:mod:`diffkern.ir.stages`) of the function before and after it.

A pipeline is a sequence of passes. While it runs, its :class:`PassOptions` may have each result verified against the
stage that the pass leaves, and may pass it to a watcher.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diffkern.ir import verify as verifier
from diffkern.ir.nodes import Function
from diffkern.ir.stages import Stage
from diffkern.process.dataclass import dataclass

__all__ = ["PLAIN", "Pass", "PassOptions", "Watch", "run"]

Watch = Callable[[str, Stage, Function], None]
"""Is shown each pass's name, the stage that it leaves, and the function after it."""


@dataclass(frozen=True)
class Pass:
    """A step from one stage to another, or within one.

    Attributes
    ----------
    name
        The name by which ``diffkern inspect --after`` selects it.
    before, after
        The stage of the function it takes and of the function it leaves.
    function
        The callable that changes a function in place and returns it.
    """

    name: str
    before: Stage
    after: Stage
    function: Callable[[Function], Function]


@dataclass(frozen=True)
class PassOptions:
    """The options with which passes are run.

    Attributes
    ----------
    verify
        Whether functions are verified after each pass, as they always are where ``verify.ALWAYS`` is set.
    watch
        A callback that receives every function after each pass.
    """

    verify: bool = False
    watch: Watch | None = None

    def done(self, name: str, stage: Stage, fn: Function) -> Function:
        """Verify and show what a step has left, and return it."""
        # Verified before it is shown: a watcher that prints may fail on invalid IR, and would hide which pass broke it.
        if self.verify or verifier.ALWAYS:
            verifier.verify(fn, stage)
        if self.watch is not None:
            self.watch(name, stage, fn)
        return fn


PLAIN = PassOptions()
"""Passes run, and nothing else is done."""


def run(passes: Sequence[Pass], fn: Function, context: PassOptions = PLAIN) -> Function:
    """Run passes one after the other, in place; return the function.

    Raises
    ------
    InvalidIR
        If the context has functions verified, and a pass leaves one that is not of its stage.
    """
    for step in passes:
        # Callers keep a reference to the function they passed in, and would go on with a stale one.
        if step.function(fn) is not fn:
            raise verifier.InvalidIR(f"pass {step.name} returned another function than the one it was given")
        context.done(step.name, step.after, fn)
    return fn
