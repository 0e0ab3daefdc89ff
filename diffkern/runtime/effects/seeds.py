"""The gradients that a reverse sweep begins with.

From a loss, and gradients for any arrays, of diffkern or of another library, come pairs of an array on the tape and the
initial value of its cotangent: a number, elements in host memory, or an array, on a GPU and where a sequence is
recorded.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from diffkern.errors import LaunchError, described
from diffkern.ir.structs import Struct
from diffkern.ir.types import is_complex
from diffkern.runtime.arrays.array import _on_host, array
from diffkern.runtime.arrays.convert import as_numpy
from diffkern.runtime.arrays.foreign import adopt, is_foreign_tensor, place_of
from diffkern.runtime.arrays.recast import is_injective
from diffkern.runtime.memory.memory import Memory, overlaps
from diffkern.runtime.memory.state import will_replay

__all__ = ["Seeds", "check_disjoint", "seeds_of"]

Seeds = list[tuple[array, Any]]


def seeds_of(loss: Any, grads: Mapping[Any, Any] | None, known: Container[Memory]) -> Seeds | None:
    """Return the seeds of a sweep; None where it begins with the present contents of the gradients.

    Raises
    ------
    LaunchError
        If the loss is not one number, a gradient has another shape than its array, or an array is not on the tape.
    """
    if loss is None and grads is None:
        return None
    seeds: Seeds = []
    if loss is not None:
        loss = loss if isinstance(loss, array) else place_of(loss)
        if not isinstance(loss, array) or loss._data.size != 1 or isinstance(loss._element, Struct):
            raise LaunchError(
                f"the loss must be an array of one number, not {described(loss)}",
                remedy="add up into an array of one element, or pass backward(grads={array: gradient})",
            )
        seeds.append((loss, 1))
    if grads is not None and type(grads) is not dict and not isinstance(grads, Mapping):
        raise LaunchError(
            f"grads has a gradient for each array by the array, not {described(grads)}",
            remedy="write grads={array: gradient}",
        )
    for goal, value in (grads or {}).items():
        goal = goal if isinstance(goal, array) else place_of(goal)
        values = _values(goal, _ours(value))
        shape = values._data.shape if isinstance(values, array) else values.shape
        if not isinstance(goal, array) or shape != goal._data.shape:
            raise LaunchError(
                f"the gradient for {described(goal)} has shape {shape}; it must be that of the array",
                remedy="make the gradient with dk.ones_like(array), or one of its shape",
            )
        seeds.append((goal, values))
    for goal, _ in seeds:
        if not goal._smooth:
            raise LaunchError(
                f"{described(goal)} has no gradient: its elements are not floating-point numbers",
                remedy="pass an array of floats",
            )
        if goal._type.layout != "C" and not is_injective(goal):
            raise LaunchError(
                f"{described(goal)} has one element at several indices, which has no gradient for each of them",
                remedy="pass the array without the repetition, with the sum of the gradients",
            )
        if goal._memory not in known:
            raise LaunchError(
                f"{described(goal)} does not occur on the tape",
                remedy="pass a result of a launch that is recorded: one inside of `with tape:`",
            )
    return seeds


def check_disjoint(seeds: Seeds, begun: Sequence[array]) -> None:
    """Raise if one initial gradient would overwrite another, or a part of it.

    Parameters
    ----------
    seeds : Seeds
        The arrays.
    begun : sequence of array
        The gradient of each that is set.

    Raises
    ------
    LaunchError
        If two of them share an element: the arrays overlap, or have one gradient between them.
    """
    before: list[int] = []
    for k in sorted(range(len(begun)), key=lambda k: begun[k]._range):
        ct = begun[k]
        # A sweep by address: only gradients whose ranges still reach to this one can overlap it.
        before = [other for other in before if begun[other]._range[1] > ct._range[0]]
        for other in before:
            if begun[other]._memory.device is ct._memory.device and overlaps(begun[other]._data, ct._data):
                first, second = (described(seeds[i][0]) for i in sorted((k, other)))
                raise LaunchError(
                    f"backward is given a gradient to begin with for {first} and one for {second}, and the two share "
                    "memory: the second would take the place of the first",
                    remedy="give one gradient for both, which is the sum where they overlap",
                )
        before.append(k)


def _check_type(goal: Any, value: array) -> None:
    """Raise if elements of a gradient cannot be copied without conversion."""
    if value._data.dtype != goal._data.dtype and value._memory.is_host:
        raise LaunchError(
            f"the gradient for {described(goal)} is {described(value)}, and a sequence copies it as it is",
            remedy="make the gradient with dk.ones_like(array), or pass a NumPy array, which becomes a constant",
        )


def _ours(value: Any) -> Any:
    """Return a tensor of another library as an array over the same memory; anything else unchanged."""
    return adopt(value, None) if not isinstance(value, array) and is_foreign_tensor(value) else value


def _values(goal: Any, value: Any) -> Any:
    """Return a gradient as elements in host memory; as an array if it is on a GPU, and for a sequence."""
    if isinstance(value, array):
        if value._memory.is_host and not (will_replay() and isinstance(goal, array)):
            return value._data
        _check_type(goal, value)  # its elements are copied, in a sequence whenever that is replayed
        return value
    if isinstance(goal, array) and (isinstance(goal._element, Struct) or is_complex(goal._element)):
        return as_numpy(_on_host(goal._stored(value)))
    return as_numpy(_on_host(value))
