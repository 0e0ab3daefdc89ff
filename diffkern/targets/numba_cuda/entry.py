"""The kernel that a launch calls, around the readable one: the argument block of ``contracts.abi``, slot by slot.

For the parameters of a function, :func:`entry_of` gives the source of a kernel that takes each 8-byte slot of the block
as a parameter of its own, makes the readable kernel's arguments from them, and calls it; and the meaning of each of its
names. Parameters of 8 bytes lie in a kernel's parameter memory as the slots lie in the block.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffkern.contracts import abi
from diffkern.ir.types import INT64, Array, Type
from diffkern.process.dataclass import dataclass

__all__ = ["KernelEntry", "Made", "entry_of"]

_RECORD = 2**31
"""Elements of the record, as far as its reader is concerned: it ends with the stamps of all arrays."""

KERNEL = "kernel"
"""The name of the readable kernel in the entry."""


@dataclass(frozen=True)
class Made:
    """A value that is made from slots.

    Attributes
    ----------
    name : str
        The name in the source of the function that makes it.
    type : Type
        The parameter's type.
    slots : int
        The number of slots it takes.
    """

    name: str
    type: Type
    slots: int


@dataclass(frozen=True)
class KernelEntry:
    """A kernel's entry.

    Attributes
    ----------
    name : str
        Its name.
    source : str
        Its definition.
    made : tuple of Made
        The functions it calls besides the readable kernel, in the order of the parameters; last the one for a record.
    pointers : tuple of (int, int)
        The number of each slot that is the address of an array, and of the parameter that the array is.
    slots : int
        The number of slots.
    """

    name: str
    source: str
    made: tuple[Made, ...]
    pointers: tuple[tuple[int, int], ...]
    slots: int


def entry_of(types: Sequence[Type], name: str = "entry", *, record: bool = False) -> KernelEntry:
    """Return the entry for a kernel with parameters of some types, and before them the record of a debug program."""
    fields, size = abi.layout(list(types))
    slots = [f"slot_{k}" for k in range(size // 8)]
    made: list[Made] = []
    pointers: list[tuple[int, int]] = []
    arguments = []
    for k, (t, field) in enumerate(zip(types, fields, strict=True)):
        first, count = field.offset // 8, field.size // 8
        made.append(Made(f"parameter_{k}", t, count))
        if isinstance(t, Array):
            pointers.append((first, k))
        arguments.append(f"parameter_{k}({', '.join(slots[first : first + count])})")
    if record:
        made.append(Made("record", Array(INT64, 1), 3))
        # Debug programs take the record first; its address is in the block's status field.
        arguments.insert(0, f"record({slots[abi.STATUS // 8]}, {_RECORD}, 8)")
    # The extents, and behind them the words with what divides by them.
    dims = slots[abi.DIMS // 8 : abi.HEADER_SIZE // 8]
    call = ", ".join([f"({', '.join(dims)})", *arguments])
    source = f"def {name}({', '.join(slots)}):\n    {KERNEL}({call})\n"
    return KernelEntry(name, source, tuple(made), tuple(pointers), len(slots))
