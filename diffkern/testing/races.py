"""Races among the threads of a launch: two unordered accesses of one element, at least one of them a write.

:func:`find_races` runs a kernel with its launch on copies, on one thread of the CPU, and logs every access. It returns
the races, each with both threads and both lines. Threads of a block are ordered by its barriers, those of different
blocks by nothing; atomic updates do not race with one another, but with reads and plain writes they do. As each access
of a thread is known, the order in which they happened to be made doesn't matter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from diffkern.analysis.blocks import is_simt
from diffkern.compiler import pipeline
from diffkern.errors import KernelTypeError, Loc, MisuseError
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.block import SHARED_ARRAYS
from diffkern.ir.ops.memory import ACCESSES, ATOMICS, LOADS
from diffkern.ir.types import Array, Tile
from diffkern.ir.views import Access
from diffkern.kernels.kernel import Kernel
from diffkern.lang.structs import definition_of
from diffkern.process.dataclass import dataclass
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import array, wrap
from diffkern.runtime.launch.kernel_protocol import check_kernel
from diffkern.testing.configured import configured
from diffkern.testing.instruments import (
    EPOCH,
    FIELDS,
    SITE,
    THREAD,
    EventLogger,
    Events,
    LoggingFunction,
    as_coordinates,
    element_index,
    padded,
)
from diffkern.testing.programs import as_argument, leaf_values

__all__ = ["Race", "RaceError", "Side", "find_races", "verify_races"]

Numbers = np.ndarray[Any, Any]
_AXES: Final = 4
_READ, _ATOMIC, _WRITE = 0, 1, 2
_OWN: Final = SHARED_ARRAYS | {"constant_array"}
_MOST: Final = 10_000  # elements that are looked at one by one
_WORDS: Final = {_READ: "reads", _ATOMIC: "updates", _WRITE: "writes"}


class RaceError(AssertionError):
    """Threads of a launch race; the text names the element, both threads and both lines.

    Attributes
    ----------
    races : tuple of Race
        The races, one for each pair of places in the source.
    """

    def __init__(self, message: str, races: Sequence[Race]) -> None:
        super().__init__(message)
        self.races = tuple(races)


@dataclass(frozen=True, slots=True)
class Side:
    """One of two accesses that race.

    Attributes
    ----------
    thread
        The index of the thread.
    does
        ``"reads"``, ``"writes"`` or ``"updates"`` (atomically).
    array
        The name of the array, as the kernel has it there.
    loc
        The place in the source.
    """

    thread: tuple[int, ...]
    does: str
    array: str
    loc: Loc | None

    def __str__(self) -> str:
        thread = self.thread[0] if len(self.thread) == 1 else self.thread
        head = f"thread {thread} {self.does} {self.array}"
        return head if self.loc is None else f"{head}, {self.loc}\n{self.loc.excerpt()}"


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses of one element that nothing orders.

    Attributes
    ----------
    index
        The element's index, in the array of the first side.
    first, second
        The accesses, in the order in which they were made here.
    elements
        How many elements these two places race for.
    """

    index: tuple[int, ...]
    first: Side
    second: Side
    elements: int

    def __str__(self) -> str:
        more = f" (and {self.elements - 1} more elements)" if self.elements > 1 else ""
        return f"{self.first.array}[{', '.join(map(str, self.index))}]{more}:\n{self.first}\n{self.second}"


@brief
def find_races(
    kernel: Kernel | Callable[..., Any],
    dim: int | Sequence[int] | None = None,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    block_dim: int | None = None,
    max_accesses: int = 10_000_000,
) -> list[Race]:
    """Return the races among the threads of a launch; the arguments are not changed.

    Parameters
    ----------
    kernel : Kernel
        The kernel, or ``kernel[blocks, threads]`` of ``cuda.jit``, which has the dimensions.
    dim : int or sequence of int, optional
        The launch's dimensions.
    inputs, outputs : sequence
        The arguments, as for a launch. Arrays that are the same memory count as such.
    block_dim : int, optional
        Threads of a block, where they work together; the kernel's own number by default.
    max_accesses : int, optional
        How many accesses may be logged, of 60 bytes each.

    Returns
    -------
    list of Race
        One for each pair of places in the source, with the first element they race for; if several pairs race for one
        element, one of them is given. Empty if there is no race.

    Raises
    ------
    MisuseError
        If there are more accesses than allowed.
    KernelTypeError
        If the kernel accesses tiles at the elements of another tile, which is not followed.
    """
    of, grid = configured(kernel, dim)
    check_kernel(of)
    if grid is None:
        raise MisuseError(f"the kernel {of.name!r} is checked for a launch, which has dimensions", remedy="pass dim")
    given = (*inputs, *outputs)
    dims = tuple(grid) if isinstance(grid, Sequence) else (grid,)
    fn = pipeline.optimise(pipeline.lower_kernel(of.func, of.argument_types(*given), of.variant))
    leaves = [leaf for a, p in zip(given, of.parameters, strict=True) for leaf in leaf_values(a, p.annotation)]
    # The run is on copies, but addresses are those of the user's arrays: two arguments may be the same memory.
    places = [place for a, p in zip(given, of.parameters, strict=True) for place in _memory(a, p.annotation)]
    args = [as_argument(p.type, a) for p, a in zip(fn.params, leaves, strict=True)]
    threads = (block_dim or of.block_dim) if is_simt(fn) else 1
    logged = LoggingFunction(fn, dims, _log_access, _AXES, threads)
    events = logged.run(args, max_accesses)
    return list(_LoggedAccesses(logged.fn, logged.sites, dims, threads, places, events).races())


@brief
def verify_races(
    kernel: Kernel | Callable[..., Any],
    dim: int | Sequence[int] | None = None,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    block_dim: int | None = None,
    max_accesses: int = 10_000_000,
) -> None:
    """Raise if threads of a launch race; the arguments are not changed.

    Parameters
    ----------
    kernel, dim, inputs, outputs, block_dim, max_accesses
        As of :func:`find_races`.

    Raises
    ------
    RaceError
        With the element, both threads and both lines.
    """
    of, grid = configured(kernel, dim)
    races = find_races(of, grid, inputs, outputs, block_dim=block_dim, max_accesses=max_accesses)
    if races:
        shown = "\n".join(map(str, races[:5]))
        more = f"\nand {len(races) - 5} more pairs of places" if len(races) > 5 else ""
        help_ = "help: let each element be written by one thread, or use an atomic update, or a barrier in a block"
        raise RaceError(f"kernel {of.name!r}: threads race for elements\n{shown}{more}\n{help_}", races)


def _memory(value: Any, annotation: Any) -> Iterator[Numbers | None]:
    """Yield the memory of each leaf of an argument, None for values, in the order of :func:`leaf_values`."""
    definition = definition_of(type(value))
    if definition is not None:
        for name in definition.type.names:
            yield from _memory(getattr(value, name), None)
    elif isinstance(value, np.ndarray) and value.dtype.names is None:
        yield value
    elif isinstance(value, np.ndarray):
        yield from _memory(wrap(value, annotation.element), None)
    elif isinstance(value, array):
        yield from (part._host() for part in value._leaves())
    else:
        yield None


def _log_access(recorder: EventLogger, op: Op) -> None:
    """Log an access to memory that threads share."""
    if op.name not in ACCESSES:
        return
    view = Access(op)
    if "along" in op.attrs:
        raise KernelTypeError(
            "a tile is accessed at the elements of another one, which is not followed",
            loc=op.loc,
            remedy="check the kernel with loads and stores of single elements",
        )
    wrap = op.attrs.get("wrap") or (False,) * len(view.index)
    index = element_index(recorder.b, view.array, view.index, wrap)
    recorder.log(op, padded(recorder.b, index, _AXES))


@dataclass(frozen=True)
class _Table:
    """Accesses of elements, as columns."""

    address: Numbers
    thread: Numbers
    block: Numbers
    epoch: Numbers
    kind: Numbers
    event: Numbers


class _LoggedAccesses:
    """The logged accesses of a launch, and the races among them."""

    def __init__(
        self,
        fn: Function,
        sites: Sequence[Op],
        dims: tuple[int, ...],
        block_dim: int,
        places: Sequence[Numbers | None],
        events: Events,
    ) -> None:
        self.sites, self.dims, self.block_dim, self.rows = sites, dims, block_dim, events.rows
        self.places = dict(zip(fn.params, places, strict=False))
        self.shapes = {op.result: op.attrs["shape"] for op in walk(fn.body) if op.name in _OWN}
        # Shared arrays have no address, and get a number by which an artificial one is made.
        self.shared = {v: k for k, v in enumerate(dict.fromkeys(Access(op).array for op in sites))}

    def races(self) -> Iterator[Race]:
        """Yield one race for each pair of sites, first those between threads of one block."""
        table = self.table()
        found: dict[tuple[int, int], list[tuple[int, int]]] = {}
        # Threads of one block race if neither a barrier nor another element separates them; those of different blocks
        # race wherever they meet, since no barrier orders them.
        in_block, apart = (table.address, table.block, table.epoch), (table.address,)
        for columns, who in ((in_block, table.thread), (apart, table.block)):
            # Only so many elements: a kernel in which every element races would take long to report.
            for group in itertools.islice(_conflicts(columns, who, table.kind), _MOST):
                first, second = sorted(int(table.event[k]) for k in _pair(group, who, table.kind))
                sites = int(self.rows[first, SITE]), int(self.rows[second, SITE])
                found.setdefault(sites, []).append((first, second))
        for pairs in found.values():
            first, second = min(pairs)
            yield Race(self.index(first, second), self.side(first), self.side(second), len(pairs))

    def side(self, event: int) -> Side:
        row = self.rows[event]
        op = self.sites[int(row[SITE])]
        thread = as_coordinates(int(row[THREAD]), self.dims)
        return Side(thread, _WORDS[_kind(op)], Access(op).array.name or "a shared array", op.loc)

    def index(self, first: int, second: int) -> tuple[int, ...]:
        """Return the index of the first access; for a tile, the first element that the second access has too."""
        one, other = ({a: k for k, a in enumerate(self.expanded(e)[1])} for e in (first, second))
        common = next(a for a in one if a in other)
        return tuple(int(k) for k in self.expanded(first)[0][one[common]])

    def expanded(self, event: int) -> tuple[Numbers, Numbers]:
        """Return the elements of an access: indices and addresses."""
        op = self.sites[int(self.rows[event, SITE])]
        index, address, _ = self.elements(op, self.rows[event : event + 1])
        return index, address

    def table(self) -> _Table:
        """Return all accesses, element by element."""
        parts: list[list[Numbers]] = []
        # Accesses of one site are expanded together, as they have one array and shape.
        order = np.argsort(self.rows[:, SITE], kind="stable")
        ends = np.cumsum(np.bincount(self.rows[:, SITE], minlength=len(self.sites)))
        for op, end, count in zip(self.sites, ends, np.diff(ends, prepend=0), strict=True):
            events = order[end - count : end]
            if count:
                _, address, repeats = self.elements(op, self.rows[events])
                events = np.repeat(events, repeats)
                parts.append([address, events, np.full(len(events), _kind(op))])
        if not parts:
            return _Table(*(np.zeros(0, np.int64) for _ in range(6)))
        address, event, kind = (np.concatenate(column) for column in zip(*parts, strict=True))
        thread = self.rows[event, THREAD]
        return _Table(address, thread, thread // self.block_dim, self.rows[event, EPOCH], kind, event)

    def elements(self, op: Op, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return the elements that accesses of one site touch: indices, addresses, and how many each access has."""
        v = Access(op).array
        assert isinstance(v.type, Array)
        ndim, held = v.type.ndim, self.places.get(v)
        index = rows[:, FIELDS : FIELDS + ndim]
        extents = self.extents(v, held)
        repeats = np.ones(len(rows), np.int64)
        shape = _tile_shape(op)
        block = rows[:, THREAD] // self.block_dim
        if shape is not None:
            # Every access of a tile becomes one for each of its elements inside the array.
            offsets = np.stack(np.unravel_index(np.arange(int(np.prod(shape))), shape), axis=-1)
            whole = index[:, None, :] + offsets
            inside = np.all((whole >= 0) & (whole < extents), axis=-1)
            repeats, index = inside.sum(axis=1), whole[inside]
            block = np.repeat(block, repeats)
        if held is not None:
            return index, held.ctypes.data + index @ np.array(held.strides[:ndim], np.int64), repeats
        flat = index @ np.cumprod([1, *extents[:0:-1]])[::-1]
        number = block * len(self.shared) + self.shared[v]
        # Negative, so that no real address is equal; distinct for each block, array and element.
        return index, -1 - (number * int(np.prod(extents)) + flat), repeats

    def extents(self, v: Value, held: Numbers | None) -> tuple[int, ...]:
        assert isinstance(v.type, Array)
        if held is not None:
            return tuple(held.shape[: v.type.ndim])
        own: tuple[int, ...] = self.shapes[v]
        return own


def _kind(op: Op) -> int:
    return _READ if op.name in LOADS else _ATOMIC if op.name in ATOMICS else _WRITE


def _tile_shape(op: Op) -> tuple[int, ...] | None:
    """Return the shape of the tile that an access reads or writes, None for an element."""
    if "shape" in op.attrs:
        return tuple(op.attrs["shape"])
    t = op.operands[-1].type
    return t.shape if isinstance(t, Tile) else None


def _conflicts(columns: Sequence[Numbers], who: Numbers, kind: Numbers) -> Iterator[Numbers]:
    """Yield the accesses that agree in columns, where different ones conflict."""
    if not len(who):
        return
    # Sorted by the columns, accesses of one element are neighbours, and groups are reduced at once.
    order = np.lexsort(tuple(reversed(columns)))
    differs = np.zeros(len(order), bool)
    for column in columns:
        differs[1:] |= np.diff(column[order]) != 0
    starts = np.flatnonzero(np.r_[True, differs[1:]])
    least, most = (f.reduceat(who[order], starts) for f in (np.minimum, np.maximum))
    changes, plain = (np.maximum.reduceat(kind[order] != k, starts) for k in (_READ, _ATOMIC))
    ends = np.r_[starts[1:], len(order)]
    # A group conflicts if there are several threads, not only reads, and not only atomic updates.
    for k in np.flatnonzero((least != most) & changes & plain):
        yield order[starts[k] : ends[k]]


def _pair(group: Numbers, who: Numbers, kind: Numbers) -> tuple[int, int]:
    """Return two accesses of a group that conflict: not both reads, not both atomic."""
    # A plain write conflicts with any other access. Without one, a read conflicts with an atomic update.
    for wanted in (_WRITE, _READ):
        for first in group[kind[group] == wanted]:
            other = (who[group] != who[first]) & (kind[group] != _READ if wanted == _READ else True)
            if other.any():
                return int(first), int(group[other][0])
    raise AssertionError("accesses of one element that do not clash")
