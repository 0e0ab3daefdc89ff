"""The least work of a launch: floating-point operations and bytes, counted from the IR.

:func:`work_of` takes a function, and the numbers and array sizes of a launch, and returns a :class:`Work`. An operation
on floating-point numbers counts as one, on vectors as one for each component, and an elementary function as much as its
row in the table of operations says. An array counts once for its reads and once for its writes, at most the bytes that
all threads access together: the traffic of a cache that holds everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.memory import ELEMENT_LOADS, ELEMENT_STORES, ELEMENTS, UPDATES
from diffkern.ir.ops.row import TileWork
from diffkern.ir.ops.scalar import CASTS, LITERALS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Array, Mat, Scalar, Tile, Vec, scalar_of
from diffkern.ir.views import Access, For, is_loop, literals, loop
from diffkern.process.dataclass import dataclass

__all__ = ["Work", "work_of"]


@dataclass(frozen=True)
class Work:
    """The work of a launch.

    Attributes
    ----------
    flops : float
        Operations on floating-point numbers.
    bytes : float
        Bytes that are read and written.
    """

    flops: float
    bytes: float


@dataclass
class _Count:
    """The work of one thread."""

    numbers: dict[Value, int | float]
    flops: float = 0.0
    read: dict[Value, float] = field(default_factory=dict)
    written: dict[Value, float] = field(default_factory=dict)
    is_certain: bool = True

    def region(self, region: Region, times: float) -> None:
        for op in region.ops:
            if op.name == "for":
                trips = For(op).trips(self.numbers.get)
                # The trips of a while, and of a for with unknown bounds, are not countable; then no number is reported
                # at all.
                self.is_certain &= trips is not None
                self.region(op.regions[0], times * len(trips or ()))
            elif op.name == "while":
                self.is_certain = False
            elif op.regions:
                for sub in op.regions:
                    self.region(sub, times)  # both ways of a branch: an upper bound
            else:
                self.simple(op, times)

    def simple(self, op: Op, times: float) -> None:
        self.fold(op)
        if op.name in ELEMENTS:
            self.access(op, times)
        elif op.results:
            self.flops += times * _flops(op)

    def access(self, op: Op, times: float) -> None:
        array = Access(op).array
        assert isinstance(array.type, Array)
        if op.name in UPDATES:
            self.flops += times * _components(array)
        size = times * array.type.dtype.itemsize
        # An atomic update reads and writes its element.
        if op.name not in ELEMENT_STORES:
            self.read[array] = self.read.get(array, 0.0) + size
        if op.name not in ELEMENT_LOADS:
            self.written[array] = self.written.get(array, 0.0) + size

    def fold(self, op: Op) -> None:
        """Evaluate an operation on known numbers, as the bounds of loops may depend on it."""
        row = lookup(op.name)
        if op.name in LITERALS:
            self.numbers[op.result] = op.attrs["value"]
        elif row.fold is not None and op.operands and all(v in self.numbers for v in op.operands):
            self.numbers[op.result] = row.fold(*(self.numbers[v] for v in op.operands))
        elif op.name in CASTS and op.operands[0] in self.numbers:
            self.numbers[op.result] = self.numbers[op.operands[0]]


def _components(value: Value) -> int:
    t = value.type.dtype if isinstance(value.type, Array) else value.type
    return t.itemsize // scalar_of(t).itemsize if isinstance(t, (Scalar, Vec, Mat)) else 0


def _flops(op: Op) -> float:
    result = op.result
    if not isinstance(result.type, (Scalar, Vec, Mat)) or not scalar_of(result.type).is_float:
        return 0.0
    row = lookup(op.name)
    if row.flop:
        return 1.0 * _components(result)
    return row.cost * _components(result) if row.elementary else 0.0


def work_of(fn: Function, threads: int, numbers: Mapping[str, float], nbytes: Mapping[str, int]) -> Work | None:
    """Count the work of a launch.

    Parameters
    ----------
    fn : Function
        The program, lowered for the CPU.
    threads : int
        The number of threads.
    numbers : mapping of str to float
        The numbers that are passed, by parameter.
    nbytes : mapping of str to int
        The sizes of the arrays in bytes.

    Returns
    -------
    Work or None
        None if the number of trips of a loop does not follow from the numbers.
    """
    known = {p: numbers[p.name] for p in fn.params if p.name in numbers}
    count = _Count(known)
    count.region(fn.body, 1.0)
    if not count.is_certain:
        return None
    moved = sum(
        min(threads * size, float(nbytes[array.name]))
        for counted in (count.read, count.written)
        for array, size in counted.items()
        if array.name in nbytes
    )
    return Work(threads * count.flops, moved)


# -- of one thread -----------------------------------------------------------------------------------------------------
# A rough count of the work of one thread, in simple operations, by which chunk sizes are chosen.


UNKNOWN_TRIPS = 16.0


def thread_cost(fn: Function) -> float:
    """Return the estimated operations per thread; loops whose length no constants tell count as 16 trips."""
    return max(1.0, _region(fn.body, literals(fn.body)))


def usual_ways(op: Op) -> Sequence[Region]:
    """Return the regions of a branch, without one that hardly any thread enters."""
    return op.regions[1:] if op.attrs.get("rarely") else op.regions


def usual_trips(op: Op) -> float:
    """Return the number of trips to assume for a loop of unknown length."""
    return 1.0 if op.attrs.get("once") else UNKNOWN_TRIPS


def _trips(op: Op, known: Mapping[Value, int | float]) -> float:
    """Return the number of trips of a loop, as far as constants tell it."""
    made = loop(op)
    trips = made.trips(known.get) if isinstance(made, For) and not op.attrs.get("once") else None
    return usual_trips(op) if trips is None else float(len(trips))


def _tile(op: Op) -> float:
    """Return the work of an operation on tiles, most of which is vectorised."""
    sizes = [v.type.size for v in (*op.operands, *op.results) if isinstance(v.type, Tile)]
    largest = float(max(sizes, default=1))
    work = lookup(op.name).work
    if work is TileWork.BODIES:
        return largest * (1.0 + _region(op.attrs["body"], {})) / 4.0
    if work is TileWork.PRODUCTS:
        first = op.operands[0].type
        inner = first.shape[-1] if isinstance(first, Tile) else 1
        return largest * inner / 8.0
    return 1.0 if work is TileWork.NONE else largest / 2.0


def _region(region: Region, known: Mapping[Value, int | float]) -> float:
    total = 0.0
    for op in region.ops:
        if is_loop(op):
            total += _trips(op, known) * sum(_region(part, known) for part in op.regions)
        elif op.regions:
            total += sum(_region(part, known) for part in usual_ways(op))
        elif op.name.startswith("tile_"):
            total += _tile(op)
        else:
            total += lookup(op.name).cost
    return total
