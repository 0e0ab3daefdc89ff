"""The run time's knowledge of a compiled program: the manifest, a frozen value stored as JSON in the cache.

The compiler makes a :class:`Manifest`, the cache keeps it beside the machine code, and launches read it. Reading is
strict: an unknown name, a missing name or a value of another type is a ``ValueError``, so that a manifest of another
version is never accepted.
"""

from __future__ import annotations

import functools
import sys
import typing
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal

from diffkern.errors import Loc
from diffkern.process.dataclass import dataclass
from diffkern.process.forks import cached_property

__all__ = [
    "DEFAULT_BLOCK_DIM", "AxisAccess", "Box", "Checks", "Conflict", "Destination", "Gather", "GpuResources", "Ids",
    "IndexStep", "IntegerForm", "IntegerRange", "Linear", "Log", "Manifest", "Monomial", "Order", "OrderDependence",
    "Output", "ProgramParameter", "RaceCheck", "Shared", "Site", "SortedSum", "Stamped", "StampedParameter", "Touch",
    "Unproved", "from_json", "to_json",
]  # fmt: skip

DEFAULT_BLOCK_DIM = 256
"""Threads of a block where neither the kernel nor the launch says."""


@dataclass(frozen=True)
class Conflict:
    """The race of threads in one cotangent buffer.

    Attributes
    ----------
    kind
        ``"none"``, ``"bounded"``, ``"reduce"`` or ``"general"``.
    reach
        For ``bounded``: per axis of the thread index the least and greatest difference of two threads that race.
    private
        True if each group of threads may add to a zeroed copy of its own (nothing reads the buffer).
    """

    kind: Literal["none", "bounded", "reduce", "general"]
    reach: tuple[tuple[int, int], ...] = ()
    private: bool = True


@dataclass(frozen=True)
class Monomial:
    """A product of numbers that a launch knows.

    Attributes
    ----------
    factor
        A number that is known before.
    of
        Parameter and axis of an extent; parameter and -1 of an integer argument.
    """

    factor: int
    of: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class IntegerForm:
    """A linear form in integers of a thread, with sums of products as constant and coefficients."""

    const: tuple[Monomial, ...]
    terms: tuple[tuple[int, tuple[Monomial, ...]], ...] = ()


@dataclass(frozen=True)
class IntegerRange:
    """An integer of a thread, and what it is between.

    Attributes
    ----------
    kind
        A component of the thread index; a number of a loop, from `low` to `high`, which is divided by `divisor` and
        rounded down; the quotient or the remainder of `high` and `divisor`.
    axis
        The component of the thread index.
    low, high, divisor
        Forms in earlier integers, and a number that the launch knows.
    """

    kind: Literal["thread", "loop", "quotient", "remainder"]
    axis: int = 0
    low: IntegerForm | None = None
    high: IntegerForm | None = None
    divisor: tuple[Monomial, ...] = ()


@dataclass(frozen=True)
class Box:
    """The region of elements that an access touches.

    Attributes
    ----------
    index
        The index along each axis, None where it may be any.
    wrap
        For each axis, True if a negative index counts from the end.
    spans
        The integers in the forms.
    exact
        Forms that were computed with 32 bits and then widened: the box is unknown if one of them exceeds 32 bits.
    """

    index: tuple[IntegerForm | None, ...]
    wrap: tuple[bool, ...]
    spans: tuple[IntegerRange, ...] = ()
    exact: tuple[IntegerForm, ...] = ()


@dataclass(frozen=True)
class ProgramParameter:
    """A parameter of a program.

    Attributes
    ----------
    name, type
        Its name and the spelling of its type.
    role
        A parameter of the kernel, the log of what its calls returned, a copy of what a parameter held before the
        launch, or a cotangent.
    of
        The kernel's parameter, fields of structs counted, that it is or belongs to; those of the log are counted behind
        them.
    argument
        The kernel's argument that this is, or is a field of; of the log the number of arguments.
    align
        Bytes of which the address of a GPU's array has to be a multiple.
    fully_overwritten
        Number of axes, if a launch over the array's own shape overwrites all of it without having read it.
    once
        Of a cotangent, number of axes, if a launch over its own shape adds once to each of its elements.
    taken
        Of a cotangent, number of axes, if such a launch reads each of its elements once and then sets it to zero.
    shape_read
        Whether the kernel reads its shape.
    conflict
        Of a cotangent, how threads race in it.
    read, written
        Which elements the program reads and writes, of a parameter and of a copy of one; None if it may be any.
    stores
        How many elements of it a thread writes at most; None if that is not known.
    """

    name: str
    type: str
    role: Literal["param", "log", "saved", "cotangent"]
    of: int
    argument: int
    align: int | None = None
    fully_overwritten: int | None = None
    once: int | None = None
    taken: int | None = None
    shape_read: bool = False
    conflict: Conflict | None = None
    read: tuple[Box, ...] | None = None
    written: tuple[Box, ...] | None = None
    stores: int | None = None


@dataclass(frozen=True)
class Linear:
    """A number and extents of arrays; the terms are parameter, axis, coefficient."""

    const: int
    terms: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class IndexStep:
    """One operation of an index's computation, on a stack.

    Attributes
    ----------
    op
        ``const``, ``tid`` and ``shape`` push a number; ``add``, ``sub``, ``mul`` and ``neg`` take two or one from the
        stack; ``wrap`` reduces the last one to the range of a type.
    a, b
        The number, the axis of the thread index, or the parameter and the axis of an extent.
    type
        Of ``wrap``.
    """

    op: str
    a: int = 0
    b: int = 0
    type: str = ""


@dataclass(frozen=True)
class AxisAccess:
    """An access that every thread makes, along one axis.

    Attributes
    ----------
    array, axis
        The parameter and its axis.
    wrap
        Whether a negative index counts from the end.
    tid
        Coefficients of the thread index: axis, coefficient.
    low, high
        Least and greatest value of the rest of the index.
    trips
        Numbers of trips of the loops around it; the access is made if all are positive.
    shapes
        The arrays whose shapes these name, with their numbers of axes.
    steps
        How an index is computed whose integers wrap around, in place of ``tid``, ``low`` and ``high``.
    """

    array: int
    axis: int
    wrap: bool
    tid: tuple[tuple[int, int], ...]
    low: Linear
    high: Linear
    trips: tuple[Linear, ...]
    shapes: tuple[tuple[int, int], ...]
    steps: tuple[IndexStep, ...] = ()


@dataclass(frozen=True)
class Order:
    """A condition that holds for a thread: one form is at most another, or equal to it.

    With `divided`, the greater one is quotient times divisor plus remainder of the less one, and only the less one was
    computed.
    """

    less: IntegerForm
    more: IntegerForm
    equal: bool = False
    divided: bool = False


@dataclass(frozen=True)
class Touch:
    """An access as a launch can look at it.

    Attributes
    ----------
    loc
        The source location.
    index
        The index along each axis.
    wrap
        For each axis, whether a negative index counts from the end.
    under
        The conditions on a thread that gets there, from the outermost to the innermost.
    """

    loc: Loc | None
    index: tuple[IntegerForm, ...]
    wrap: tuple[bool, ...]
    under: tuple[Order, ...] = ()


@dataclass(frozen=True)
class RaceCheck:
    """A load and a write that must not touch one element in two threads of a launch.

    Attributes
    ----------
    array
        The parameter.
    load, write
        The two accesses.
    ranges
        Least and greatest value of the integers of a thread; the first are the thread index, whose extents the launch
        knows.
    uniform
        Those that are the same for all threads.
    positive
        Divisors, which have to be positive.
    same_thread
        Whether they must not touch one element in one thread either.
    """

    array: int
    load: Touch
    write: Touch
    ranges: tuple[tuple[int, int], ...]
    uniform: tuple[int, ...] = ()
    positive: tuple[tuple[Monomial, ...], ...] = ()
    same_thread: bool = False


@dataclass(frozen=True)
class Unproved:
    """Two accesses to an array of which it is not proved that no two threads touch one element with them.

    Attributes
    ----------
    array
        The parameter.
    load, write
        Where a load and a write stand, or an update and a store.
    """

    array: int
    load: Loc | None
    write: Loc | None


@dataclass(frozen=True)
class Stamped:
    """An array whose elements a program stamps with the threads that read and write them.

    Attributes
    ----------
    array
        The parameter.
    sites
        Where the reads and writes stand, by their numbers in the stamps.
    blocks
        Whether threads have numbers in their blocks.
    deciding
        Parameters by which it is decided which elements they touch; None where the kernel writes to one of them.
    sources
        Parameters by which it is decided from which elements it is computed what is stored; None where more decides.
    rows
        How many rows an element has: one for each component where threads may store to components of one element.
    """

    array: int
    sites: tuple[Loc | None, ...]
    blocks: bool
    deciding: tuple[int, ...] | None
    sources: tuple[int, ...] | None = None
    rows: int = 1


@dataclass(frozen=True)
class TwoStores:
    """Two stores, which may be one, of which it is not proved that no two threads make them to one element.

    Attributes
    ----------
    array
        The parameter.
    first, second
        The source locations.
    check
        What shows it of a launch by its numbers; None where these cannot.
    """

    array: int
    first: Loc | None
    second: Loc | None
    check: RaceCheck | None = None


@dataclass(frozen=True)
class Shared:
    """An array that is no parameter: one that a block shares, or one in an element of an array."""

    name: str
    ndim: int
    in_element: bool = False


@dataclass(frozen=True)
class Site:
    """The source position and subject of a check: a parameter, an array that a block shares, or an assertion.

    ``number`` tells whether the text of the assertion contains a number that is known at run time.
    """

    loc: Loc | None
    array: int | None
    shared: Shared | None = None
    assertion: str | None = None
    number: bool = False


@dataclass(frozen=True)
class StampedParameter:
    """An array parameter in which the writing threads are noted, unless it is proved that no two write one element."""

    array: int
    offset: int
    proved: bool


@dataclass(frozen=True)
class Checks:
    """The checks of a debug program."""

    kernel: str
    sites: tuple[Site, ...]
    stamps: tuple[StampedParameter, ...]


@dataclass(frozen=True)
class Gather:
    """When an adjoint may have each thread compute what other threads would add to its elements.

    Attributes
    ----------
    dims
        For each axis the numbers that the launch's extent has to be equal to.
    cleared
        Parameters whose cotangent has to be cleared behind such a launch; it has an element for each thread.
    numbers
        The parameters by value of a program that clears elements behind it, as not all threads consume theirs; None if
        there is no such program.
    fewer
        How many numbers less a thread adds atomically, where that is all there is to gain; 0 where more is.
    """

    dims: tuple[tuple[Monomial, ...], ...]
    cleared: tuple[int, ...] = ()
    numbers: tuple[int, ...] | None = None
    fewer: int = 0


@dataclass(frozen=True)
class Destination:
    """To which element of a cotangent every thread adds once, at one place of the program.

    Attributes
    ----------
    array
        The parameter in which it reads the element's index; None where that is affine in the thread's index.
    index
        Where it reads it: for each axis the coefficient of the thread's index, and what is added. Without an array the
        element's index itself.
    wraps
        For each of these, whether a negative number counts from the end.
    wrap
        Whether a negative index of the element counts from the end.
    """

    array: int | None
    index: tuple[tuple[int, int], ...]
    wraps: tuple[bool, ...]
    wrap: bool


@dataclass(frozen=True)
class SortedSum:
    """The computation of the destinations of all contributions that an adjoint makes to a cotangent.

    Attributes
    ----------
    cotangent
        The kernel's parameter whose cotangent it is.
    places
        One for each contribution of a thread.
    """

    cotangent: int
    places: tuple[Destination, ...]


@dataclass(frozen=True)
class Output:
    """A text that threads print, with fields for values, and the types of these."""

    text: str
    types: tuple[str, ...]


@dataclass(frozen=True)
class Log:
    """The values that a launch keeps for its adjoint: results of atomic updates, or values of loads.

    Attributes
    ----------
    type
        The type of its elements.
    calls
        Slots of each thread; None if the number depends on the launch, where they are counted before.
    what, loc
        A description of the first of the updates or loads, and its source position.
    active
        The parameters for whose adjoint it has the values of loads, or what searches have found; None if it has the
        results of updates.
    searches
        Whether it has the integers that searches have found, which an adjoint of another form finds once more.
    """

    type: str
    calls: int | None
    what: str
    loc: Loc | None
    active: tuple[int, ...] | None = None
    searches: bool = False


@dataclass(frozen=True)
class OrderDependence:
    """Something by which a thread's results depend on how many threads came there before it.

    Attributes
    ----------
    what, loc
        It in words, and where it stands.
    """

    what: str
    loc: Loc | None


@dataclass(frozen=True)
class Ids:
    """By which ids a program looks at objects of the host.

    Attributes
    ----------
    parameters
        The parameters that are ids.
    places
        The addresses in ids that are constants.
    """

    parameters: tuple[int, ...] = ()
    places: tuple[int, ...] = ()


@dataclass(frozen=True)
class GpuResources:
    """The resources of a GPU that a program uses: registers and local memory of a thread, shared memory of a block.

    ``products`` are the matrix products of tiles that a library made; ``elements`` is how many threads of a launch one
    thread of the grid is worth. ``zeroed`` are the parameters that the header of a launch has bits for: arrays that a
    thread adds to, whose elements need not be read where they are known to be zero.
    """

    registers: int
    stack_bytes: int
    spill_bytes: int
    shared_bytes: int
    dynamic_shared_bytes: int = 0
    products: tuple[str, ...] = ()
    elements: int = 1
    zeroed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """The facts of a program.

    Attributes
    ----------
    tid_arity
        Axes of the grid that the kernel asks for.
    cost
        Rough operations of one thread; 0 where its threads have to run one after the other.
    params
        The parameters in the order of the argument block.
    reads, writes
        Parameters of the kernel that it reads and writes.
    updated
        Those of which it uses nothing: it only adds to them and the like, atomically.
    added
        Those of them that threads, on the CPU, add to anywhere and nothing else: with a copy for each chunk, no update
        need be atomic.
    distinct
        Of a forward: pairs of parameters that it takes for different memory; where a launch gives them one array, it
        takes the program in which they are merged.
    post
        Parameters whose contents after the launch the adjoint reads.
    steering
        Of an adjoint: arrays by whose elements the kernel decides what it executes, and which elements it accesses.
    accesses, alone
        What a launch is checked for: accesses that every thread makes; an array of which all threads change one element
        that they have read.
    races
        Of an adjoint: loads and writes of the kernel that must not race, for it to be right.
    unproved
        Of an adjoint of launches that are stamped: loads and writes of which it takes for granted that no threads race.
    trusted
        Of an adjoint: loads and writes of which it takes for granted that one thread alone stores to an element.
    stores
        Of an adjoint: pairs of stores of which it takes for granted that no two threads make them to one element; if it
        is of launches that are stamped, that those who do store the same.
    scatters
        Whether it stores floats to elements of which it is not proved that no two threads do so.
    stamped
        Of a program that stamps: the arrays, in the order of its last parameters.
    blockwise, rows, tiled
        Whether threads of a block work together; whether each block has to lie in one row of threads, along the last
        axis; whether blocks are what is launched.
    block_dim, block_dim_fixed
        Threads of a block where a launch does not say; whether the program is for no other number.
    launch_bounds
        The most threads of a block, and the fewest blocks of a multiprocessor.
    sites
        Number of uniform addresses that are accumulated to.
    exact
        Parameters in the argument block whose elements a GPU adds up exactly, in memory that a launch has to bring.
    updates
        Whether its threads update elements atomically, on the CPU: it can be told that they need not.
    lane_counts
        How many threads run in vector registers, on the CPU: as long as there are so many, then as many as the next
        number says. Empty where they run one by one.
    joint
        Of an adjoint: the work of a program that does the launch as well, as a part of the work of the two; None if
        there is no such program.
    gather
        Of an adjoint: when another program of it may run, whose threads gather what those of this one scatter; None if
        there is no such program.
    sums
        Of an adjoint: the cotangents in which threads race, if another program of it may run, which stores what this
        one adds to them, to be added up by sorted destinations; empty if there is no such program.
    log
        The layout of a log of a kernel's atomic updates; of an adjoint, only if it reads one.
    searches
        Whether there may be an adjoint that reads from a log what loops of the forward have found.
    turn
        The first atomic update whose result a kernel uses: another launch of it may give other results.
    outputs
        What threads print; the number of a place is its position here, and 1 more in the buffer.
    by_id
        Whether it looks at objects of the host by their ids, whose memory is no argument, or at arrays in elements.
    ids
        The ids by which it looks at objects; None if it may look at any object of its device.
    kinds
        The kinds of the objects that it may look at.
    changes, changed
        Whether it writes to the memory of objects, and their ids; None if these may be any.
    title, target
        A description in words, and the target that it is compiled for.
    """

    tid_arity: int
    cost: float
    params: tuple[ProgramParameter, ...]
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    updated: tuple[int, ...] = ()
    added: tuple[int, ...] = ()
    distinct: tuple[tuple[int, int], ...] = ()
    post: tuple[int, ...] = ()
    steering: tuple[int, ...] = ()
    accesses: tuple[AxisAccess, ...] = ()
    alone: str | None = None
    races: tuple[RaceCheck, ...] = ()
    unproved: tuple[Unproved, ...] = ()
    trusted: tuple[Unproved, ...] = ()
    stores: tuple[TwoStores, ...] = ()
    scatters: bool = False
    stamped: tuple[Stamped, ...] = ()
    blockwise: bool = False
    rows: bool = False
    tiled: bool = False
    block_dim: int = DEFAULT_BLOCK_DIM
    block_dim_fixed: bool = False
    launch_bounds: tuple[int, int] | None = None
    sites: int = 0
    exact: tuple[int, ...] = ()
    updates: bool = False
    lane_counts: tuple[int, ...] = ()
    gpu: GpuResources | None = None
    checks: Checks | None = None
    joint: float | None = None
    gather: Gather | None = None
    sums: tuple[SortedSum, ...] = ()
    log: Log | None = None
    searches: bool = False
    turn: OrderDependence | None = None
    outputs: tuple[Output, ...] = ()
    by_id: bool = False
    ids: Ids | None = None
    kinds: tuple[int, ...] = ()
    changes: bool = False
    changed: Ids | None = None
    title: str = ""
    target: str = ""

    @cached_property
    def saved(self) -> tuple[int, ...]:
        """Parameters of which the adjoint needs what they held before the launch."""
        return tuple(p.of for p in self.params if p.role == "saved")

    @cached_property
    def conflicts(self) -> dict[int, Conflict]:
        """Of an adjoint, how threads race in the cotangent of each active parameter."""
        return {p.of: p.conflict for p in self.params if p.conflict is not None}

    @cached_property
    def pointing(self) -> tuple[int, ...]:
        """Parameters of the kernel whose elements hold arrays."""
        return tuple(k for k, p in enumerate(self.params) if p.role == "param" and _holds_arrays(p.type))

    @property
    def is_adjoint(self) -> bool:
        """True if it is the manifest of an adjoint."""
        # An adjoint has a conflict for each cotangent, and a forward has none.
        return bool(self.conflicts)

    @property
    def reports(self) -> bool:
        """True if each launch has to be checked for reports or output afterwards."""
        return self.checks is not None or bool(self.outputs)

    @property
    def resources(self) -> GpuResources:
        """The resources of a GPU that the program uses."""
        if self.gpu is None:
            raise AttributeError(f"a program for {self.target or 'a CPU'} takes nothing of a GPU")
        return self.gpu


def _holds_arrays(spelling: str) -> bool:
    """Return whether a type is an array whose elements contain arrays."""
    # The layout is the last part of an array type's text.
    return spelling.startswith("array") and spelling.rpartition(",")[2].startswith("P")


def to_json(fact: Any) -> Any:
    """Return a manifest, or a part of it, in values of JSON; what has its default value is left out."""
    if isinstance(fact, tuple):
        return [to_json(one) for one in fact]
    # Strings, numbers and None are JSON as they are.
    if not is_dataclass(fact):
        return fact
    # Defaults are left out: manifests are read at each start, and most facts have their default value.
    named = ((f, getattr(fact, f.name)) for f in fields(fact))
    return {f.name: to_json(value) for f, value in named if value != f.default or f.default is MISSING}


def from_json(value: Any) -> Manifest:
    """Return a manifest from values of JSON.

    Raises
    ------
    ValueError
        If it is not exactly what :func:`to_json` gives.
    """
    made: Manifest = _read(Manifest, value)
    return made


def _read(kind: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    # Exact types: True is no number here, and an int no float, so that a damaged manifest is noticed.
    if origin is None and not is_dataclass(kind):
        _require(type(value) is kind, kind, value)
        return value
    if origin is None:
        known, needed = _fields(kind)
        # An unknown name is an error as well, as a fact that is not understood may be one that a launch must obey.
        _require(type(value) is dict and needed <= value.keys() <= known.keys(), kind, value)
        return kind(**{name: _read(_type(kind, known[name]), one) for name, one in value.items()})
    if origin is Literal:
        _require(value in arguments, kind, value)
        return value
    if origin is not tuple:  # X | None
        return None if value is None else _read(arguments[0], value)
    _require(type(value) is list, kind, value)
    # `tuple[X, ...]` has any length, `tuple[X, Y]` exactly two items.
    kinds = (arguments[0],) * len(value) if arguments[-1] is Ellipsis else arguments
    _require(len(kinds) == len(value), kind, value)
    return tuple(map(_read, kinds, value))


@functools.cache
def _fields(kind: Any) -> tuple[dict[str, str], set[str]]:
    """The fields of a dataclass with their types' texts, and the names of those without a default."""
    return {f.name: str(f.type) for f in fields(kind)}, {f.name for f in fields(kind) if f.default is MISSING}


@functools.cache
def _type(kind: Any, text: str) -> Any:
    # One by one, since most fields have their default: to resolve all takes longer than to read a manifest.
    return eval(text, vars(sys.modules[kind.__module__]))


def _require(holds: bool, kind: Any, value: Any) -> None:
    if not holds:
        raise ValueError(f"{value!r} is no {getattr(kind, '__name__', kind)}")
