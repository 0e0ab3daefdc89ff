"""Accumulation in cotangents that several threads add to: one value, and the one place where it is chosen.

An :class:`Accumulation` is a program with its chunks and what keeps these from racing. :func:`choose` takes the
programs that an adjoint could run and the shape of the launch, for launches, tapes, records and PyTorch alike.
Functions of JAX choose in native code, by the rules that plans are made by here too
(:mod:`diffkern.runtime.launch.partition`).
"""

from __future__ import annotations

from array import array as words
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Protocol

from diffkern.ir.structs import Struct
from diffkern.ir.types import scalar_of
from diffkern.process.dataclass import dataclass
from diffkern.runtime.accumulate.copies import Copies
from diffkern.runtime.accumulate.sorting import Sorting
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Assign
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.schedule import USUAL, Blocks, Grid, Plan, cut
from diffkern.runtime.memory.device import CPU
from diffkern.runtime.native import pool
from diffkern.runtime.native.replay import Steps, copied

__all__ = [
    "NOTHING", "Accumulation", "Atomic", "Candidates", "Coloured", "Gathered", "Pack", "Plain", "Private", "Sorted",
    "choose",
]  # fmt: skip

NOTHING: Mapping[int, bytes] = MappingProxyType({})


class Pack(Protocol):
    """A function that makes the argument block without its header, with other bytes in place of some cotangents."""

    def __call__(self, cotangents: Mapping[int, array], own: Mapping[int, bytes] = ..., /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Accumulation:
    """The program of an adjoint and its threads.

    Attributes
    ----------
    executable
        The program.
    grid
        Its threads, in chunks.
    private
        Parameters whose cotangent every chunk accumulates in a copy of its own.
    cleared
        Cotangents that are set to zero behind the program.
    """

    executable: Executable
    grid: Grid
    private: tuple[int, ...] = field(default=(), init=False)
    cleared: tuple[array, ...] = field(default=(), init=False)

    def run(self, cotangents: Mapping[int, array], pack: Pack) -> None:
        """Run the adjoint.

        Parameters
        ----------
        cotangents : mapping of int to array
            At least those that there are copies of.
        pack : callable
            Makes the argument block.
        """
        self.executable.run(self.grid, pack(cotangents))

    def steps(self, cotangents: Mapping[int, array], pack: Pack) -> Steps | None:
        """Return native steps that do what :meth:`run` does, or None if there are none."""
        return self.executable.steps(self.grid, pack(cotangents), 1)

    def runner(self, cotangents: Mapping[int, array]) -> Callable[[bytes], object] | None:
        """Return what runs colours or copies on packed arguments, for cotangents of these types; None without them."""
        return None


class Plain(Accumulation):
    """Threads add plainly: no two of different chunks add to one element."""

    __slots__ = ()


class Atomic(Accumulation):
    """Threads add atomically wherever they may meet."""

    __slots__ = ()


class Coloured(Accumulation):
    """Threads add plainly, and neighbouring chunks run at different times: only these may meet."""

    __slots__ = ()

    def run(self, cotangents: Mapping[int, array], pack: Pack) -> None:
        if self.grid.n:
            self.executable.run_blocks(self.grid, [pack(cotangents)], 2)

    def steps(self, cotangents: Mapping[int, array], pack: Pack) -> Steps | None:
        return self.executable.steps(self.grid, pack(cotangents), 2)

    def runner(self, cotangents: Mapping[int, array]) -> Callable[[bytes], object] | None:
        if not self.grid.n:
            return None
        return lambda arguments: self.executable.run_blocks(self.grid, [arguments], 2)


@dataclass(frozen=True, slots=True)
class Private(Accumulation):
    """Each chunk adds to copies of its own of some cotangents, which are added up in order.

    Attributes
    ----------
    colours
        2 where neighbouring chunks may still meet in the other cotangents, else 1.
    chunks
        The number of chunks, the first of which adds to the cotangents themselves.
    """

    private: tuple[int, ...]
    colours: int
    chunks: int

    def run(self, cotangents: Mapping[int, array], pack: Pack) -> None:
        count = self.chunks - 1
        if (run := self.runner(cotangents)) is not None:
            run(pack(cotangents))
            return
        # Native code cannot add up these types or layouts; Python makes the copies and a block of arguments for each
        # chunk.
        copies = {k: Copies(cotangents[k], count) for k in self.private}
        own = ({k: copy.packed[group] for k, copy in copies.items()} for group in range(count))
        self.executable.run_blocks(self.grid, [pack(cotangents), *(pack(cotangents, of) for of in own)], self.colours)
        for copy in copies.values():
            copy.add_up()

    def steps(self, cotangents: Mapping[int, array], pack: Pack) -> Steps | None:
        whole = self._copied(cotangents)
        return None if whole is None else self.executable.copied_steps(self.grid, pack(cotangents), self.colours, whole)

    def runner(self, cotangents: Mapping[int, array]) -> Callable[[bytes], object] | None:
        # A debug program is watched by Python, chunk by chunk.
        is_native = self.executable.manifest.checks is None and bool(pool.functions())
        whole = self._copied(cotangents) if is_native else None
        if whole is None:
            return None

        def run(arguments: bytes) -> None:
            steps = self.executable.copied_steps(self.grid, arguments, self.colours, whole)
            assert steps is not None
            for step in steps:
                step.run()  # type: ignore[union-attr]  # of the CPU

        return run

    def _copied(self, cotangents: Mapping[int, array]) -> words[int] | None:
        """Return a description of the cotangents for native code; None if it cannot add up their copies."""
        executable = self.executable
        places = {of: k for k, (role, of) in enumerate(executable.layout.entries) if role == "cotangent"}
        found = []
        for index in self.private:
            ct = cotangents[index]
            if isinstance(ct._element, Struct) or not ct._data.flags.c_contiguous:
                return None
            scalar = scalar_of(ct._element)
            if scalar.bits not in (32, 64):
                return None
            components = ct._element.itemsize // scalar.itemsize
            found.append((executable.layout.fields[places[index]].offset, ct.ndim, scalar, components))
        return copied(found)


@dataclass(frozen=True, slots=True)
class Sorted(Accumulation):
    """Contributions are stored and summed by sorted destinations where these stay the same, else added atomically.

    Attributes
    ----------
    sums
        The sums. Each launch looks whether its destinations are sorted, and else adds atomically.
    """

    sums: Sorting

    def run(self, cotangents: Mapping[int, array], pack: Pack) -> None:
        if not self.sums.run(pack):
            self.executable.run(self.grid, pack(cotangents))

    def steps(self, cotangents: Mapping[int, array], pack: Pack) -> Steps | None:
        return None  # each launch looks at the destinations


@dataclass(frozen=True, slots=True)
class Gathered(Accumulation):
    """Each thread computes what others would add to its own elements.

    Attributes
    ----------
    cleared
        Cotangents that several threads read, and that cannot be consumed before all of them have.
    by
        How the gathering program accumulates in the other cotangents.
    clearing
        The program that clears what only some threads consume; None where there is none.
    """

    cleared: tuple[array, ...]
    by: Accumulation
    clearing: Accumulation | None = None

    def run(self, cotangents: Mapping[int, array], pack: Pack) -> None:
        self.by.run(cotangents, pack)
        self.clear(cotangents, pack)

    def clear(self, cotangents: Mapping[int, array], pack: Pack) -> None:
        """Clear the cotangents that the gathering program has read, after it."""
        for ct in self.cleared:
            Assign(ct, 0).execute()
        if self.clearing is not None:
            self.clearing.run(cotangents, pack)

    def steps(self, cotangents: Mapping[int, array], pack: Pack) -> Steps | None:
        found, behind = self.by.steps(cotangents, pack), [Assign(ct, 0).steps() for ct in self.cleared]
        if self.clearing is not None:
            behind.append(self.clearing.steps(cotangents, pack))
        if not found or not behind:
            return found
        return None if None in behind else [*found, *(step for steps in behind for step in steps or ())]


class Candidates:
    """The programs that an adjoint could run: here only those that add to the cotangents themselves.

    Parameters
    ----------
    plain : Executable
        The one that accumulates plainly. On a GPU it has atomics where its threads race in the usual launches.
    atomic : callable
        Returns the one that accumulates atomically.
    """

    __slots__ = ("atomic", "plain")

    def __init__(self, plain: Executable, atomic: Callable[[], Executable]) -> None:
        self.plain, self.atomic = plain, atomic

    def gathering(self) -> tuple[Executable, Sequence[array], Executable | None] | None:
        """Return the one whose threads gather, the cotangents to clear behind it, and the program that clears others.

        None if it may not run.
        """
        return None

    def sums(self) -> Sorting | None:
        """Return the sums by sorted destinations; None if there are none."""
        return None


def choose(
    candidates: Candidates,
    dims: tuple[int, ...],
    shapes: tuple[tuple[int, ...], ...],
    sizes: Callable[[], Mapping[int, int]],
    shared: bool = False,
    blocks: Blocks = USUAL,
) -> Accumulation:
    """Return how an adjoint accumulates.

    Parameters
    ----------
    candidates : Candidates
        The programs.
    dims : tuple of int
        The launch's dimensions.
    shapes : tuple of tuple
        The shape of each cotangent.
    sizes : callable
        Returns the number of scalars of each, by parameter.
    shared : bool, optional
        Whether cotangents share memory, or one of them has one element several times.
    blocks : Blocks, optional
        Threads of a block and limit of blocks.

    Raises
    ------
    ValueError
        If the program cannot be launched in such blocks.
    """
    if (gathering := candidates.gathering()) is not None:
        program, cleared, behind = gathering
        by = _added(program, candidates.atomic, dims, shapes, sizes, shared, blocks)
        # Where it needs atomics after all, gathering has no advantage left.
        if not isinstance(by, Atomic):
            clearing = None
            if behind is not None:
                clearing = _added(behind, candidates.atomic, dims, shapes, sizes, shared, blocks)
            return Gathered(by.executable, by.grid, tuple(cleared), by, clearing)
    found = _added(candidates.plain, candidates.atomic, dims, shapes, sizes, shared, blocks)
    # Its threads collide; if no cotangents share memory, sorting by destination may beat atomics.
    if isinstance(found, Atomic) and not shared and (sums := candidates.sums()) is not None:
        return Sorted(found.executable, found.grid, sums)
    return found


def _added(
    plain: Executable,
    atomic: Callable[[], Executable],
    dims: tuple[int, ...],
    shapes: tuple[tuple[int, ...], ...],
    sizes: Callable[[], Mapping[int, int]],
    shared: bool,
    blocks: Blocks,
) -> Accumulation:
    """Return how a program adds plainly, or how the one with atomics runs in its place."""
    is_on_cpu = plain.device is CPU
    if is_on_cpu and plain.blockwise:
        chosen = atomic() if shared else plain
        return _of(chosen, Plan(chosen.cut(dims, blocks)), blocks, is_atomic=shared)
    # The choice depends on nothing but extents and sharing, and is cached because training repeats one launch.
    key = (dims, shared, shapes if is_on_cpu else blocks)
    found: Accumulation | None = plain.accumulations.get(key)
    if found is not None:
        return found
    plan: Plan | None = None
    if is_on_cpu:
        plan = plain.derivative.schedule(dims, plain.cost, plain.lane_counts, sizes(), shared)
        is_atomic = plan is None
    else:
        # A GPU runs all threads at once: there are no chunks to colour, and its plain program has atomics where threads
        # race.
        is_atomic = shared or any(extent > 1 for extent in dims[plain.derivative.axes :])
    chosen = atomic() if is_atomic else plain
    made = _of(chosen, plan or Plan(cut(dims, chosen.cost, chosen.lane_counts)), blocks, is_atomic)
    plain.remember(key, made)
    return made


def _of(executable: Executable, plan: Plan, blocks: Blocks, is_atomic: bool) -> Accumulation:
    grid = executable.grid_of(plan.cut, blocks)
    if is_atomic:
        return Atomic(executable, grid)
    if plan.private:
        return Private(executable, grid, plan.private, plan.colours, plan.cut.chunks)
    return (Plain if plan.colours == 1 else Coloured)(executable, grid)
