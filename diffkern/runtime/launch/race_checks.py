r"""Race checks of launches that depend on numbers known only at the launch.

The :class:`~diffkern.contracts.manifest.RaceCheck`\ s of an adjoint are evaluated for the dimensions of a launch, the
extents of its arrays and its integer arguments. If two threads may race in an array, an :class:`AutodiffError` names
them: the adjoint would not know which of them came first.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

from diffkern.contracts.manifest import Manifest, Monomial, RaceCheck
from diffkern.contracts.race_search import Numbers, Threads, needed, racing
from diffkern.errors import AutodiffError
from diffkern.ir.types import Kind, Scalar, Type, parse_type

__all__ = ["SUMS_OF_A_LAUNCH", "Gathering", "Races", "TakenForGranted", "check_races", "number_in"]

_CACHED = 256
_Race: TypeAlias = tuple[RaceCheck, Threads]
_extent = struct.Struct("q")


class Races:
    """The race checks for launches of one adjoint program.

    Parameters
    ----------
    manifest : Manifest
        The program's manifest.

    Attributes
    ----------
    arguments : frozenset of int
        The integer parameters that they depend on.
    """

    __slots__ = ("_entries", "_found", "_names", "_places", "_types", "arguments")

    def __init__(self, manifest: Manifest) -> None:
        self._entries = manifest.races
        self._names = [p.name for p in manifest.params]
        self._places = needed(manifest.races)
        self._types = {k: parse_type(manifest.params[k].type) for k, axis in self._places if axis < 0}
        self.arguments = frozenset(self._types)
        self._found: dict[tuple[tuple[int, ...], tuple[int, ...]], _Race | None] = {}

    def check(self, kernel: str, dims: tuple[int, ...], part: Callable[[int], bytes]) -> None:
        """Check a launch.

        Parameters
        ----------
        kernel : str
            The kernel's name.
        dims : tuple of int
            The launch's dimensions.
        part : callable
            Returns the bytes of a parameter in the argument block.

        Raises
        ------
        AutodiffError
            If two threads may race.
        """
        found = tuple(number_in(part(k), self._types.get(k), axis) for k, axis in self._places)
        numbers = dict(zip(self._places, found, strict=True))
        # Deciding whether two index expressions meet can take long, and a program is mostly launched with the same
        # numbers.
        if (dims, found) not in self._found:
            if len(self._found) >= _CACHED:
                self._found.clear()
            self._found[dims, found] = _race(self._entries, dims, numbers)
        race = self._found[dims, found]
        if race is not None:
            raise _refusal(kernel, self._names, numbers, race)


class TakenForGranted:
    """Of which arrays does an adjoint take something for granted that the numbers of a launch do not show?

    That is that one thread alone stores to each element; of launches that are stamped, that no threads race.

    Parameters
    ----------
    manifest : Manifest
        The program's facts.
    """

    __slots__ = ("_always", "_found", "_places", "_stores", "_types")

    def __init__(self, manifest: Manifest) -> None:
        self._always = {pair.array for pair in (*manifest.trusted, *manifest.unproved)}
        self._stores = manifest.stores
        self._places = needed([one.check for one in manifest.stores if one.check is not None])
        self._types = {k: parse_type(manifest.params[k].type) for k, axis in self._places if axis < 0}
        self._found: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, ...]] = {}

    def arrays(self, dims: tuple[int, ...], part: Callable[[int], bytes]) -> tuple[int, ...]:
        """Return the parameters.

        Parameters
        ----------
        dims : tuple of int
            The launch's dimensions.
        part : callable
            Returns the bytes of a parameter in the argument block.
        """
        found = tuple([number_in(part(k), self._types.get(k), axis) for k, axis in self._places])
        arrays = self._found.get((dims, found))
        if arrays is None:
            if len(self._found) >= _CACHED:
                self._found.clear()
            arrays = self._found[dims, found] = self._of(dims, dict(zip(self._places, found, strict=True)))
        return arrays

    def _of(self, dims: tuple[int, ...], numbers: Numbers) -> tuple[int, ...]:
        shared = (s for s in self._stores if s.check is None or racing(s.check, dims, numbers) is not None)
        return tuple(sorted(self._always.union(s.array for s in shared)))


def number_in(part: bytes, t: Type | None, axis: int) -> int:
    """Return a number from a part of the argument block: the extent of an array along an axis, or an integer.

    Parameters
    ----------
    part : bytes
        The bytes of the parameter.
    t : Type or None
        The type of an integer.
    axis : int
        The axis of an array, -1 for an integer.
    """
    if axis < 0:  # a number is followed by zeros up to eight bytes
        assert isinstance(t, Scalar)
        return int.from_bytes(part[: t.itemsize], sys.byteorder, signed=t.kind is Kind.INT)
    # The address comes first, then the extents.
    extent: int = _extent.unpack_from(part, 8 * (1 + axis))[0]
    return extent


def check_races(
    kernel: str, checks: Sequence[RaceCheck], names: Sequence[str], dims: Sequence[int], numbers: Numbers
) -> None:
    """Check the loads and writes of a launch that an adjoint relies on.

    Parameters
    ----------
    kernel : str
        The kernel's name.
    checks : sequence of RaceCheck
        The pairs.
    names : sequence of str
        Names of the kernel's parameters.
    dims : sequence of int
        The launch's dimensions.
    numbers : mapping
        The numbers that :func:`needed` asks for.

    Raises
    ------
    AutodiffError
        If two threads may touch one element.
    """
    race = _race(checks, dims, numbers)
    if race is not None:
        raise _refusal(kernel, names, numbers, race)


def _race(checks: Sequence[RaceCheck], dims: Sequence[int], numbers: Numbers) -> _Race | None:
    """Return the first pair of accesses that race, and the threads that make them."""
    if math.prod(dims) == 0:
        return None
    return next(((check, pair) for check in checks if (pair := racing(check, dims, numbers)) is not None), None)


def _refusal(kernel: str, names: Sequence[str], numbers: Numbers, race: _Race) -> AutodiffError:
    check, (reading, writing) = race
    name = names[check.array]
    line = f" (line {check.write.loc.line})" if check.write.loc is not None else ""
    given = [f"{names[k]}={value}" for (k, axis), value in sorted(numbers.items()) if axis < 0]
    where = f" with {', '.join(given)}" if given else ""
    if not reading:
        what = f"this reads {name}, which another thread of the same launch may write{line}"
    elif reading == writing:
        what = f"thread {_thread(reading)} reads an element of {name} here that it updates atomically{line}"
    else:
        what = f"thread {_thread(reading)} reads an element of {name} here that thread {_thread(writing)} writes{line}"
    error = AutodiffError(
        f"kernel {kernel!r}: {what}{where}; the gradient of such a launch depends on which comes first",
        loc=check.load.loc,
        remedy="read from a copy of the array, or split the kernel in two launches",
    )
    error.is_race = True
    return error


def _thread(index: tuple[int, ...]) -> str:
    return str(index[0]) if len(index) == 1 else str(index)


# -- the condition of gathering ----------------------------------------------------------------------------------------
# The condition under which the adjoint of a launch may gather: threads compute the contributions to their elements.
#
# The ``diffkern.contracts.manifest.Gather`` of an adjoint that scatters, the dimensions of a launch and its arguments
# decide whether it has exactly one thread for each trip of the loops in which threads add to each other's elements.


SUMS_OF_A_LAUNCH = 1_000_000
"""Numbers that a GPU adds atomically while it begins one more launch, the one that clears."""

_MOST_THREADS = 2**31 - 128
"""Threads along an axis: a little more, the index of a neighbour, is a 32-bit integer as well."""


class Gathering:
    """The condition for launches of one program.

    Parameters
    ----------
    manifest : Manifest
        The manifest of the adjoint that scatters.

    Attributes
    ----------
    arguments : frozenset of int
        The integer parameters on which the condition depends.
    cleared : tuple of int
        Parameters whose cotangent has to be cleared after the program; it has an element for each thread.
    numbers : frozenset of int or None
        The parameters by value of a program that has to run after it; None if there is no such program.
    """

    __slots__ = ("_dims", "_fewest", "_types", "arguments", "cleared", "numbers")

    def __init__(self, manifest: Manifest) -> None:
        assert manifest.gather is not None
        self._dims = manifest.gather.dims
        places = {place for counts in self._dims for count in counts for place in count.of}
        self._types = {k: parse_type(manifest.params[k].type) for k, axis in places}
        behind = manifest.gather.numbers
        self.numbers = None if behind is None else frozenset(behind)
        self.arguments = frozenset(k for k, axis in places if axis < 0).union(behind or ())
        fewer = manifest.gather.fewer
        self._fewest = SUMS_OF_A_LAUNCH // fewer if fewer else 0
        self.cleared = manifest.gather.cleared

    def holds(self, dims: tuple[int, ...], part: Callable[[int], bytes]) -> bool:
        """Return whether a launch may gather, as far as its dimensions and arguments tell.

        Parameters
        ----------
        dims : tuple of int
            The launch's dimensions.
        part : callable
            Returns the bytes of a parameter in the argument block.
        """
        # A thread gathers what a trip of each loop, or a neighbour, would scatter: there must be as many threads as
        # trips, or as elements.
        if len(dims) != len(self._dims) or max(dims) > _MOST_THREADS or math.prod(dims) < self._fewest:
            return False
        pairs = ((extent, count) for extent, counts in zip(dims, self._dims, strict=True) for count in counts)
        return all(extent == self._number(count, part) for extent, count in pairs)

    def _number(self, count: Monomial, part: Callable[[int], bytes]) -> int:
        return count.factor * math.prod(number_in(part(k), self._types[k], axis) for k, axis in count.of)
