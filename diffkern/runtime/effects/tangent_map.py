"""Companion arrays (tangents, gradients of a function's arguments), found by the memory of the array they belong to.

The companion of a view is the same view of the companion of the array that it is ultimately a view of. Launches of
kernels with tangents take the companions next to their arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from diffkern.errors import LaunchError, described
from diffkern.ir.structs import IndexedArray, Struct, StructArray, null_of
from diffkern.ir.structs import leaves as leaves_of
from diffkern.ir.types import Array
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.recast import check_passes
from diffkern.runtime.arrays.type_keys import is_long, key_of_long, register_type, type_of_key
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.memory.memory import Memory

__all__ = ["Along", "Beside", "launch_along"]

Along = Callable[[array, bool], "array | None"]
"""The tangent of an argument, given whether the launch writes to it; None where it is zero and stays that."""


class Beside:
    """A mapping from arrays to companions of the same shape and type, found by their memory.

    Parameters
    ----------
    what : str
        The name of the companions in messages.

    Attributes
    ----------
    pairs : dict
        By memory: an array that is no view, and its companion.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self.pairs: dict[Memory, tuple[array, array]] = {}
        self._left_out: dict[Memory, tuple[array, array]] = {}

    def leave(self, known: Collection[Memory] | None) -> None:
        """Hide the companions of all but some memory, or of none for None; :meth:`made` brings hidden ones back."""
        # What is left out is kept aside and not dropped: a companion has its values, and views of it may be elsewhere.
        every = {**self.pairs, **self._left_out}
        self.pairs = every if known is None else {memory: every[memory] for memory in known}
        self._left_out = {memory: pair for memory, pair in every.items() if memory not in self.pairs}

    def of(self, held: array) -> array | None:
        """Return the companion of an array, as the same view; None if there is none.

        Raises
        ------
        LaunchError
            If the memory has a companion, which belongs to another array.
        """
        known = self.pairs.get(held._memory)
        if known is None:
            return None
        root, views = root_of(held)
        check_passes(held)
        # Views are replayed on the companion, which only means the same if both start from the same root array.
        if not root._same_place(known[0]):
            raise LaunchError(
                f"the memory of {described(held)} has a {self._what} as another array",
                remedy=f"make both views of one array, and give the {self._what} for that or for one of them",
            )
        found = known[1]
        for view, element in views:
            found = found._derive(view, element)
        return found

    def made(self, held: array) -> array:
        """Return the companion of an array, made of zeros if there is none yet."""
        if held._memory not in self.pairs:
            root, _ = root_of(held)
            known = self._left_out.pop(held._memory, None)
            self.pairs[held._memory] = known or (root, new(root.shape, root._element, True, root._memory.device))
        found = self.of(held)
        assert found is not None
        return found


def root_of(held: array) -> tuple[array, list[tuple[Any, Any]]]:
    """Return the array that a view is ultimately of, and the views that lead from there to it."""
    views: list[tuple[Any, Any]] = []
    while held._parent is not None:
        views.insert(0, (held._view, held._element))
        held = held._parent
    return held, views


def launch_along(launch: PackedLaunch, along: Along) -> PackedLaunch:
    """Return the launch of the JVP kernel that belongs to a launch, with the tangents as further arguments."""
    kernel: Any = launch.kernel.jvp  # type: ignore[attr-defined]  # of a kernel with tangents more is known
    made = launch.copy()
    made.kernel, made.generation, made._leaves = kernel, kernel.current(), ()
    written = {id(launch.arrays[index]) for index in launch.executable.writes}
    for argument in kernel.with_tangents:
        span = launch.span(argument)
        leaves = list(zip(launch.arrays[span], launch.parts[span], strict=True))
        own = _Argument(along, iter(leaves), written)
        key = register_type(own.of(type_of_key(launch.keys[argument])))
        held = next((a for a in own.arrays if a is not None), None)
        if any(a is not None and is_long(a._key) for a in own.arrays):
            # The type of the tangent lacks what only arrays tell: 64-bit indices and the device, which are parts of a
            # key.
            key = key_of_long(key)
        made.keys = (*made.keys, key if held is None else held._memory.device.keyed(key))
        made.arrays += own.arrays
        made.parts += own.parts
    # The tangents' types select the program: it is specialized on which tangents are null.
    made.executable = made._program(made.keys)
    made._check()
    return made


class _Argument:
    """The tangent of an argument of a launch: its type, and the arrays and bytes of its leaves.

    The tangent of a value passed by value is zero; that of an array that is only read and has no tangent is null.
    """

    def __init__(self, along: Along, leaves: Iterator[tuple[array | None, bytes]], written: set[int]) -> None:
        self.arrays: list[array | None] = []
        self.parts: list[bytes] = []
        self._along, self._leaves, self._written = along, leaves, written

    def of(self, t: Any) -> Any:
        """Consume the leaves of an argument of a type and return the type of its tangent."""
        if isinstance(t, Struct):
            return Struct(t.name, tuple((name, self.of(field)) for name, field in t.fields))
        given = [next(self._leaves) for _ in leaves_of(t)]
        held, _ = given[0]
        if isinstance(t, IndexedArray):
            assert held is not None
            # The indices are part of the primal and shared by the tangent: only the data array has one of its own.
            self._add([self._along(held, True), *(index for index, _ in given[1:])], given)
            return replace(t, layout=self.arrays[-len(given)]._type.layout)  # type: ignore[union-attr]
        if not isinstance(t, (Array, StructArray)) or held is None:
            self._add([None] * len(given), given)
            return t
        # A struct array's leaves are its fields. Its tangent is an array of whole structs, of which the fields are
        # taken.
        whole = held._whole if isinstance(t, StructArray) else held
        is_written = any(id(part) in self._written for part, _ in given)
        tangent = self._along(whole, is_written) if whole._smooth else None
        self._add([None] * len(given) if tangent is None else tangent._leaves(), given)
        return null_of(t) if tangent is None else tangent._type

    def _add(self, arrays: Sequence[array | None], given: Sequence[tuple[array | None, bytes]]) -> None:
        self.arrays += arrays
        self.parts += [
            bytes(len(part)) if own is None else own._packed for own, (_, part) in zip(arrays, given, strict=True)
        ]
