"""The version of a kernel at one time. A launch keeps it, so that its derivative is that of the program that ran.

It holds the programs made with the kernel's variant and the values that the kernel has captured, for as long as these
stay the same. Once they change, it keeps the old values for programs of that version that are still to be made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diffkern.contracts.options import AdjointForm, Merged, Variant
from diffkern.errors import AutodiffError
from diffkern.runtime.launch.program import Executable

__all__ = ["AdjointKey", "KernelVersion"]

AdjointKey = tuple[tuple[str, ...], frozenset[int], AdjointForm, Merged]


class KernelVersion:
    """The version of a kernel at one time, with its programs.

    Parameters
    ----------
    number : int
        Its number among those of its kernel.
    variant : Variant
        Its forward program for the CPU, with the options; the others follow from it.
    library : bool or None
        Whether matrix products of tiles on a GPU are libmathdx's.

    Attributes
    ----------
    programs : dict
        Forward programs by the keys of the argument types.
    merged : dict
        Those for launches that give several parameters one array, by the keys and the merged parameters.
    adjoints : dict
        Adjoint programs by those keys, active parameters, form, and merged parameters.
    refused : dict
        The errors of adjoints that cannot be made, by the same and the number of threads in a block.
    logged : dict
        Forward programs with a log, by those keys and the properties of the log.
    fitting : set
        Keys of argument types that were found to fit the parameters for launches that need no program.
    sized : dict
        Programs for exactly one number of threads in a block, where that is not the usual one.
    meaning
        The captured values, once the kernel has a later generation; None before.
    reads
        Likewise the attributes that lowering has read of objects without a name.
    function : callable or None
        The function over the captured values, made when it is first needed.
    sequential : Generation or None
        The same with programs whose threads run one after the other, made when it is first needed.
    """

    __slots__ = (
        "__weakref__",
        "adjoints",
        "fitting",
        "function",
        "library",
        "logged",
        "meaning",
        "merged",
        "number",
        "programs",
        "reads",
        "refused",
        "sequential",
        "sized",
        "variant",
    )  # fmt: skip

    def __init__(self, number: int, variant: Variant, library: bool | None) -> None:
        self.number = number
        self.variant = variant
        self.library = library
        self.programs: dict[tuple[str, ...], Executable] = {}
        self.merged: dict[tuple[tuple[str, ...], Merged], Executable] = {}
        self.adjoints: dict[AdjointKey, Executable] = {}
        self.refused: dict[tuple[AdjointKey, int], AutodiffError] = {}
        self.logged: dict[tuple[tuple[str, ...], str, tuple[int, ...] | None, Merged, bool], Executable] = {}
        self.sized: dict[tuple[object, int], Executable] = {}
        self.fitting: set[tuple[str, ...]] = set()
        self.meaning: Any = None
        self.reads: Any = ()
        self.function: Callable[..., Any] | None = None
        self.sequential: KernelVersion | None = None
