"""What diffkern decides about a launch, on this machine or as if it had other processors.

A :class:`Launch` is a kernel with its arguments, forward or adjoint. :func:`planned` asks diffkern's own code how the
launch would run on a number of processors: chunks, private copies, colours, atomic updates, sums by destination.
Nothing of that is decided here.
"""

from __future__ import annotations

import math
from array import array as words
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import diffkern as dk
from diffkern.runtime.accumulate.accumulation import Atomic, Coloured, Gathered, Private, Sorted
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.accumulate.sorting import _order_of
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.schedule import USUAL, Blocks, Grid, cut_groups
from diffkern.runtime.native import pool

from .timing import as_processors

__all__ = ["Launch", "Plan", "Traffic", "gradients", "grown", "planned"]


@dataclass(frozen=True)
class Traffic:
    """The memory that all threads of a launch touch together.

    Attributes
    ----------
    read, written : int
        Bytes of arrays that are read, and written; one that is updated counts in both.
    both : int
        Bytes of those that are updated.
    """

    read: int
    written: int
    both: int

    @property
    def footprint(self) -> int:
        """Bytes of all arrays."""
        return self.read + self.written - self.both


@dataclass(frozen=True)
class Plan:
    """How a launch runs.

    Attributes
    ----------
    way : str
        ``plain``, ``coloured``, ``private``, ``atomic``, ``sorted`` or ``gathered``.
    n, chunk, count : int
        Threads (or blocks), those of a chunk, and chunks.
    colours : int
        2 where neighbouring chunks run at different times.
    copies : int
        Private copies, without the arrays themselves.
    copied : int
        Bytes of one set of copies.
    stored, places, compared : int
        Of sums by destination: bytes of contributions, their number, and bytes of indices that are looked at.
    executable : Executable
        The program.
    grid : Grid
        Its threads.
    arguments : bytes
        Its packed arguments.
    kept : object
        What has to live as long.
    """

    way: str
    n: int
    chunk: int
    count: int
    colours: int
    copies: int
    copied: int
    executable: Executable = field(repr=False)
    grid: Grid = field(repr=False)
    arguments: bytes = field(repr=False)
    kept: Any = field(repr=False, default=None)
    stored: int = 0
    places: int = 0
    compared: int = 0

    def __str__(self) -> str:
        copies = f", {self.copies} copies of {self.copied / 1e3:.3g} kB" if self.copies else ""
        return f"{self.way}, {self.count} chunks of {self.chunk}{copies}"


@dataclass(frozen=True)
class Launch:
    """A launch of a kernel.

    Attributes
    ----------
    name : str
        Its name.
    kernel, dim, arguments
        What is launched.
    adjoint : bool
        Whether it is the adjoint.
    blocks : Blocks
        The block options.
    scattered : mapping of str to (float, int)
        Accesses at random: of a name, how many a thread makes, and the bytes that they are spread over.
    reset : callable, optional
        What keeps values finite over many runs; called now and then.
    """

    name: str
    kernel: Any
    dim: Any
    arguments: tuple[Any, ...]
    adjoint: bool = False
    blocks: Blocks = USUAL
    scattered: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    reset: Callable[[], object] = field(default=lambda: None)

    def operation(self) -> Any:
        """Return the launch, bound to its arguments and planned."""
        launch = PackedLaunch(self.kernel, self.dim, list(self.arguments), None, self.blocks)
        if not self.adjoint:
            return launch
        leaves = launch.arrays
        cotangents = {k: held.grad for k, held in enumerate(leaves) if held is not None and held.grad is not None}
        return AdjointLaunch(launch, cotangents)

    def runner(self) -> Callable[[], object]:
        """Return what runs the launch once, as a sequence does: with as little of Python as there is."""
        made = self.operation()
        steps = made.steps()
        if not steps:
            return made.execute
        rows = [words("q", step.row()) for step in steps]
        call = pool.built_in(pool.method(b"run", pool.functions()["dk_step_run"], pool.METH_FASTCALL), None)
        addresses = [row.buffer_info()[0] for row in rows]

        def run(kept: object = (made, steps, rows)) -> None:
            for address in addresses:
                call(address)

        return run

    def traffic(self) -> Traffic:
        """Return what it reads and writes: each array once, and cotangents where there is an adjoint."""
        made = self.operation()
        launch = made.launch if self.adjoint else made
        sizes = {k: held._data.nbytes for k, held in enumerate(launch.arrays) if held is not None}
        program = launch.executable
        if not self.adjoint:
            read, written = set(program.reads), set(program.writes)
            # An update reads as well: it is counted with the writes alone.
            return _traffic(sizes, read, written)
        needed = set(made.executable.derivative.after) & set(sizes)
        of = {("ct", k): ct._data.nbytes for k, ct in made.cotangents.items()} | {("p", k): sizes[k] for k in needed}
        # The cotangent of what the launch only adds to stays as it is; others are read and written.
        only_read = {("ct", k) for k in made.cotangents if k in program.writes and k not in _overwritten(program)}
        cotangents = {key for key in of if key[0] == "ct"}
        return _traffic(of, set(of), cotangents - only_read)


def _overwritten(program: Executable) -> set[int]:
    return {k for k, _ in program.fully_overwritten}


def _traffic(sizes: Mapping[Any, int], read: set[Any], written: set[Any]) -> Traffic:
    def total(keys: set[Any]) -> int:
        return sum(size for key, size in sizes.items() if key in keys)

    return Traffic(total(read), total(written), total(read & written))


def _forget(program: Executable) -> None:
    for known in (program.accumulations, program._grouped, program.fits, program.grids):
        known.clear()


def planned(launch: Launch, processors: int) -> Plan:
    """Return how a launch runs on a number of processors, as diffkern decides."""
    with as_processors(processors):
        _forget(PackedLaunch(launch.kernel, launch.dim, list(launch.arguments), None, launch.blocks).executable)
        made = launch.operation()
        if launch.adjoint:
            _forget(made.launch.adjoint(frozenset(made.cotangents)))
            made = launch.operation()
            if isinstance(made.accumulation, Sorted):
                for _ in range(2):  # an array of indices is sorted when it is met again
                    made.execute()
            found = _of_adjoint(made)
            _forget(made.launch.adjoint(frozenset(made.cotangents)))
            return found
        found = _of_forward(made)
        _forget(made.executable)
        return found


def grown(launch: Launch, processors: int, times: int) -> Plan:
    """Return how a launch with that multiple of its threads would run, with what these add to of the same size."""
    with as_processors(processors):
        made = launch.operation()
        packed = made.launch if launch.adjoint else made
        dims = (packed.dims[0] * times, *packed.dims[1:])
        program = packed.adjoint(frozenset(made.cotangents)) if launch.adjoint else packed.executable
        cut, copied = program.cut(dims, launch.blocks), 0
        way, colours, count = "plain", 1, cut.chunks
        if launch.adjoint and not program.blockwise:
            found = program.derivative.schedule(dims, program.cost, program.lane_counts, made._sizes(), False)
            way = "atomic" if found is None else "private" if found.private else "plain"
            if found is not None:
                cut, colours = found.cut, found.colours
                copied = sum(_rounded(made.cotangents[k]._data.nbytes) for k in found.private)
        elif program._added is not None:
            sizes = [made.arrays[k]._data for k in program.manifest.added]
            in_groups = cut_groups(dims, program.cost, program.lane_counts, sum(held.size for held in sizes))
            way = "atomic" if in_groups is None else "private"
            if in_groups is not None:
                cut, copied = in_groups, sum(_rounded(held.nbytes) for held in sizes)
        count = cut.chunks
        copies = count - 1 if copied else 0
        return Plan(way, cut.n, cut.chunk, count, colours, copies, copied, program, program.grid_of(cut), b"")


def _of_forward(made: PackedLaunch) -> Plan:
    program, grid, arguments = made.executable, made.grid, b"".join(made.parts)
    in_groups = None if program._added is None else program._groups(grid, arguments)
    if in_groups is not None:
        copied = sum(_rounded(made.arrays[k]._data.nbytes) for k in program.manifest.added)
        return _plan("private", program, in_groups, 1, in_groups.count - 1, copied, arguments, made)
    way = "atomic" if program.updates and grid.count > 1 else "plain"
    return _plan(way, program, grid, 1, 0, 0, arguments, made)


def _of_adjoint(made: AdjointLaunch) -> Plan:
    found = made.accumulation
    arguments = made._pack(made.cotangents)
    inner = found.by if isinstance(found, Gathered) else found
    colours, copies, copied = 1, 0, 0
    way = {Atomic: "atomic", Sorted: "sorted", Coloured: "coloured", Private: "private"}.get(type(inner), "plain")
    if isinstance(inner, Coloured):
        colours = 2
    if isinstance(inner, Private):
        colours, copies = inner.colours, inner.chunks - 1
        copied = sum(_rounded(made.cotangents[k]._data.nbytes) for k in inner.private)
    way = "gathered" if isinstance(found, Gathered) else way
    if isinstance(inner, Sorted):
        return _of_sorted(made, inner, arguments)
    return _plan(way, inner.executable, inner.grid, colours, copies, copied, arguments, made)


def _of_sorted(made: AdjointLaunch, found: Sorted, arguments: bytes) -> Plan:
    """Return the plan of the program that stores contributions, if their destinations are sorted."""
    sums = found.sums
    n = made.launch.dims[0]
    orders = [
        _order_of(one.places, sums._arrays, n, made.cotangents[one.cotangent].shape[0])
        for one in sums._plain.manifest.sums
    ]
    program = sums._program()
    if program is None or None in orders:
        return _plan("atomic", found.executable, found.grid, 1, 0, 0, arguments, made)
    pairs = [(one.cotangent, order) for one, order in zip(sums._plain.manifest.sums, orders, strict=True)]
    taken = {k: order.take(made.cotangents[k]) for k, order in pairs}
    packed = made._pack(made.cotangents, {k: held._packed for k, held in taken.items()})
    plan = _plan("sorted", program, program.grid(n), 1, 0, 0, packed, (made, taken))
    return replace(
        plan,
        stored=sum(held._data.nbytes for held in taken.values()),
        places=sum(order.order.places.size for _, order in pairs),
        compared=sum(held._data.nbytes for held in sums._arrays.values()),
    )


def _plan(way: str, program: Executable, grid: Grid, colours: int, copies: int, copied: int, arguments: bytes,
          kept: Any) -> Plan:  # fmt: skip
    count = math.ceil(grid.n / grid.size)
    return Plan(way, grid.n, grid.size, count, colours, copies, copied, program, grid, arguments, kept)


def _rounded(nbytes: int) -> int:
    return -(-nbytes // 64) * 64


def gradients(*arrays: Any, seed: float = 1.0) -> None:
    """Give arrays gradients that are not zero."""
    for held in arrays:
        held.grad = dk.full(held.shape, seed, dtype=held.dtype)
