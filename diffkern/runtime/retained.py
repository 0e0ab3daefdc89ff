"""Gradients that arrays keep although the tape goes on behind what wrote to them: ``retain_grad``.

In: the steps of a reverse sweep. Out: the same with two more things done: before the last step that wrote to such an
array is taken back, its gradient is copied; at the end of the sweep the copy becomes the gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from diffkern.runtime.array import array, new
from diffkern.runtime.history import AddStep, CopyStep, LaunchStep, OverwriteStep, Step, Work
from diffkern.runtime.memory import Memory
from diffkern.runtime.operation import Copy
from diffkern.runtime.rollout_step import RolloutStep
from diffkern.runtime.second_order import AdjointStep

__all__ = ["keeping"]


def keeping(
    steps: Sequence[Step], work: Sequence[Sequence[Work]], owners: Mapping[Memory, array]
) -> list[Sequence[Work]]:
    """Return what takes steps back so that the gradients of some arrays are those of what they hold at the end.

    Parameters
    ----------
    steps : sequence of Step
        The steps, from the first.
    work : sequence
        What takes them back, from the last.
    owners : mapping of Memory to array
        The arrays with gradients, of which those that retain them are looked at.
    """
    wanted = {memory: grad for memory, a in owners.items() if memory.retains and (grad := a.grad) is not None}
    made: list[Sequence[Work]] = []
    restored: list[Work] = []
    for step, part in zip(reversed(steps), work, strict=True):
        for grad in [wanted.pop(memory) for memory in _written_by(step) & wanted.keys()] if wanted else ():
            copy = new(grad.shape, grad._element, False, grad._memory.device)
            made.append([Copy(copy, grad)])
            restored.append(Copy(grad, copy))
        made.append(part)
    return [*made, restored]


def _written_by(step: Step) -> set[Memory]:
    """Return the memory that a step wrote to. A function of the user's says by itself what it leaves in gradients."""
    if isinstance(step, LaunchStep):
        return {a._memory for a in step.launch.writes()}
    if isinstance(step, (OverwriteStep, CopyStep, AddStep)):
        return {step.goal._memory}
    if isinstance(step, RolloutStep):
        return set(step.steps.written)
    return {a._memory for a in step.adjoint.cotangents.values()} if isinstance(step, AdjointStep) else set()
