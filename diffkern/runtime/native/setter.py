"""Tables of parameters behind a Python built-in function that changes them.

From the type of each parameter and its place in the argument block of a plan comes a built-in of an index and a value
that writes to the block, or calls a Python function where more has to be done. The owner of the table looks at
:attr:`Setter.changed` to learn that the block and the list of arrays are ahead of what was packed.
"""

from __future__ import annotations

from array import array as words
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from diffkern.runtime.native import pool
from diffkern.runtime.native.replay import Plan, address_of

__all__ = ["Setter", "Slot", "put_while_idle"]

_ATTRIBUTES = ("_key", "_packed", "_writable", "_memory", "_where")
_ALONE = "_alone"
_WIDTH = 7
_PYTHON, _FLOAT32, _FLOAT64, _INTEGER, _READ, _WRITTEN = range(6)
_DOC = b"""set_param_at_index($self, index, value, adjoint=False, /)
--

Set a parameter.

Parameters
----------
index : int
    Its position among the kernel's parameters.
value
    Whatever may be passed in a launch; with ``adjoint=True`` a gradient, None for the argument's own.
adjoint : bool, optional
    Whether its gradient is meant, of the record of an adjoint.

Raises
------
LaunchError
    If it does not fit. The record is as before then."""


class Slot(NamedTuple):
    """A parameter that can be changed without any check but that of its type.

    Attributes
    ----------
    leaf : int
        Its position in the list of arrays.
    offset : int
        Its offset in the block.
    key : str
        Its type: the name of a scalar, or the very text that is the ``_key`` of arrays of its type.
    size : int
        The length of its description in the block.
    is_array : bool
        Whether it is an array.
    counter : int or None
        Of an array that is written, the place of its counter among the plan's.
    rivals : tuple of int
        Of an array, where the block has the addresses of others that it must not be: Python takes the same one.
    """

    leaf: int
    offset: int
    key: str
    size: int
    is_array: bool = False
    counter: int | None = None
    rivals: tuple[int, ...] = ()


class Setter:
    """The memory of one table. It has to outlive the calls, so that the built-in keeps it.

    Parameters
    ----------
    count : int
        Number of parameters.
    array_class : type
        The class of arrays.
    """

    __slots__ = ("__weakref__", "_kept", "_slots", "_table")

    def __init__(self, count: int, array_class: type) -> None:
        self._slots = words("q", bytes(8 * _WIDTH * count))
        self._kept: tuple[Any, ...] = ()
        names = [id(name) for name in _ATTRIBUTES]
        self._table = words("q", (1, 0, 0, count, id(array_class), 0, *names, self._slots.buffer_info()[0]))

    def call(self, python: Callable[..., Any]) -> Callable[..., Any]:
        """Return the built-in, or the Python function where the pool is not native."""
        address = pool.functions().get("dk_set_param", 0)
        if not address:
            return python
        flags = pool.METH_FASTCALL | pool.METH_KEYWORDS
        definition = pool.method(b"set_param_at_index", address, flags, _DOC)
        return pool.built_in(definition, (self._table.buffer_info()[0], python, self))

    @property
    def changed(self) -> bool:
        """True if the block was changed since the changes were last read."""
        return self._table[1] != 0

    def note(self) -> None:
        """Note a change of the block that was made in Python."""
        self._table[1] = 1

    def read(self) -> None:
        """Note that all changes were seen."""
        self._table[1] = 0

    def close(self) -> None:
        """Send all further calls to Python."""
        self._table[0] = 1
        self._kept = ()

    def open(
        self, slots: Sequence[Slot | None], plan: Plan, block: bytearray, arrays: list[Any], only_alone: bool
    ) -> None:
        """Describe the parameters again, None for one that Python has to set.

        Parameters
        ----------
        slots : sequence of Slot or None
            The parameters.
        plan : Plan
            The plan that reads the block.
        block : bytearray
            The argument block. It must not change its length any more.
        arrays : list
            The list that keeps the arrays.
        only_alone : bool
            Whether only arrays fit that share no memory with others.
        """
        start = address_of(block)
        rivals: list[words[int]] = []
        for index, slot in enumerate(slots):
            entry = (_PYTHON, 0, 0, 0, 0, 0) if slot is None else _entry(slot, start, plan)
            found = 0
            if slot is not None and slot.rivals:
                rivals.append(words("q", (len(slot.rivals), *(start + offset for offset in slot.rivals))))
                found = rivals[-1].buffer_info()[0]
            self._slots[index * _WIDTH : (index + 1) * _WIDTH] = words("q", (*entry, found))
        self._kept = (slots, plan, block, arrays, rivals)
        self._table[2] = plan.words.buffer_info()[0]
        self._table[5] = id(arrays)
        self._table[7] = id(_ALONE if only_alone else _ATTRIBUTES[1])
        # Cleared last: from here on native code reads the table.
        self._table[0] = 0


def put_while_idle(plan: Plan, block: bytearray) -> Callable[[int, bytes], object]:
    """Return a function of an offset and bytes, which have to fit, that writes them to a block.

    Its result is false, and nothing was written, if a call of the plan is in progress. None can begin until the bytes
    are written.
    """
    address = pool.functions().get("dk_put_idle", 0)
    if not address:

        def put(offset: int, packed: bytes) -> bool:
            block[offset : offset + len(packed)] = packed
            return True

        return put
    definition = pool.method(b"put_while_idle", address, pool.METH_FASTCALL)
    return pool.built_in(definition, (plan.words.buffer_info()[0], address_of(block), plan, block))


def _entry(slot: Slot, start: int, plan: Plan) -> tuple[int, int, int, int, int, int]:
    target = start + slot.offset
    if slot.is_array:
        place = 0 if slot.counter is None else plan.counter_place(slot.counter)
        return _READ if slot.counter is None else _WRITTEN, slot.leaf, target, id(slot.key), slot.size, place
    if slot.key in ("float32", "float64"):
        return _FLOAT32 if slot.key == "float32" else _FLOAT64, slot.leaf, target, 0, 0, 0
    if not slot.key.startswith(("int", "uint")):
        return _PYTHON, 0, 0, 0, 0, 0
    width = int(slot.key.lstrip("uint"))
    least = 0 if slot.key[0] == "u" else -(2 ** (width - 1))
    # Of the unsigned integers of 64 bits those above the signed ones are Python's.
    greatest = min(2 ** (width - (slot.key[0] == "i")), 2**63) - 1
    return _INTEGER, slot.leaf, target, least, greatest, -1 if width == 64 else 2**width - 1
