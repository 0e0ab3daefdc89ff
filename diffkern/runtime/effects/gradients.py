"""The gradients of what was recorded on a tape, by the arrays and structs that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffkern.errors import MisuseError, described
from diffkern.lang.structs import definition_of
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.operation import Copy, Operation
from diffkern.runtime.effects.step import TapeStep
from diffkern.runtime.memory.memory import Memory

__all__ = ["Gradients", "gradient_of", "keeping"]


class Gradients(dict[array, array]):
    """Gradients by array. For a struct, which is not a key, it gives a struct with the gradients of its arrays."""

    def __getitem__(self, key: Any) -> Any:
        if definition_of(type(key)) is not None:
            return gradient_of(key)
        return super().__getitem__(key)


def gradient_of(value: Any) -> Any:
    """Return the gradient of an array, None if it has none; for a struct a struct with those of its arrays.

    Raises
    ------
    MisuseError
        For anything else.
    """
    if isinstance(value, array):
        return value.grad
    definition = definition_of(type(value))
    if definition is None:
        raise MisuseError(
            f"arrays and structs of arrays have gradients, not {described(value)}",
            remedy="pass an array made with requires_grad=True",
        )
    made = type(value)()
    for name in definition.type.names:
        field = getattr(value, name)
        if isinstance(field, array) or definition_of(type(field)) is not None:
            setattr(made, name, gradient_of(field))
    return made


# -- gradients that arrays retain --------------------------------------------------------------------------------------
# Gradients that arrays retain although later steps of the tape go on: ``retain_grad``.
#
# Two operations are added to a reverse sweep: before the last step that wrote to such an array is reversed, its
# gradient is copied; at the end of the sweep the copy becomes the gradient.


def keeping(
    steps: Sequence[TapeStep], work: Sequence[Sequence[Operation]], owners: Mapping[Memory, array]
) -> list[Sequence[Operation]]:
    """Return the work of a sweep with operations that retain the gradients of some arrays at the end of the tape.

    Parameters
    ----------
    steps : sequence of TapeStep
        The steps, from the first.
    work : sequence
        The work that reverses them, from the last.
    owners : mapping of Memory to array
        The arrays with gradients, of which some may retain them.
    """
    wanted = {memory: grad for memory, a in owners.items() if memory.retains and (grad := a.grad) is not None}
    made: list[Sequence[Operation]] = []
    restored: list[Operation] = []
    for step, part in zip(reversed(steps), work, strict=True):
        # The sweep goes backwards: the first step it meets that wrote the array is the last one of the tape.
        for grad in [wanted.pop(memory) for memory in step.written & wanted.keys()] if wanted else ():
            copy = new(grad.shape, grad._element, False, grad._memory.device)
            made.append([Copy(copy, grad)])
            restored.append(Copy(grad, copy))
        made.append(part)
    return [*made, restored]
