"""What a kernel meant at one time: a launch keeps it, so that its derivative is that of the program that ran.

In: a kernel's variant. Out: a place for the programs made with them and with what the kernel captured, as long as that
is so; and, once the kernel means something else, what it meant, for programs of that time that are still to be made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diffkern.errors import AutodiffError
from diffkern.options import AdjointForm, Variant
from diffkern.runtime.program import Executable

__all__ = ["AdjointKey", "Generation", "Merged"]

Merged = tuple[tuple[int, int], ...]
"""Parameters that are given the array of another one, each with that one."""

AdjointKey = tuple[tuple[str, ...], frozenset[int], AdjointForm, Merged]


class Generation:
    """What a kernel meant at one time.

    Parameters
    ----------
    number : int
        Which it is of its kernel's.
    variant : Variant
        Its forward program for the CPU, with the options; the others follow from it.
    library : bool or None
        Whether matrix products of tiles on a GPU are libmathdx's.

    Attributes
    ----------
    programs : dict
        Forward programs by the keys of the argument types.
    adjoints : dict
        Adjoint programs by those keys, active parameters, form, and what is one array.
    refused : dict
        Why there is no such adjoint, by the same and the number of threads in a block.
    logged : dict
        Forward programs with a log, by those keys and what they do with it.
    sized : dict
        Programs for exactly one number of threads in a block, where that is not the usual one.
    meaning
        What the function captured, once the kernel has another generation; None before.
    reads
        Likewise the attributes that lowering has read of objects without a name.
    function : callable or None
        The function over what it captured, made when it is first needed.
    one_by_one : Generation or None
        The same with programs whose threads run one after the other, made when it is first needed.
    """

    __slots__ = (
        "__weakref__", "adjoints", "function", "library", "logged", "meaning", "number", "one_by_one", "programs",
        "reads", "refused", "sized", "variant",
    )  # fmt: skip

    def __init__(self, number: int, variant: Variant, library: bool | None) -> None:
        self.number = number
        self.variant = variant
        self.library = library
        self.programs: dict[tuple[str, ...], Executable] = {}
        self.adjoints: dict[AdjointKey, Executable] = {}
        self.refused: dict[tuple[AdjointKey, int], AutodiffError] = {}
        self.logged: dict[tuple[tuple[str, ...], str, tuple[int, ...] | None, Merged, bool], Executable] = {}
        self.sized: dict[tuple[object, int], Executable] = {}
        self.meaning: Any = None
        self.reads: Any = ()
        self.function: Callable[..., Any] | None = None
        self.one_by_one: Generation | None = None
