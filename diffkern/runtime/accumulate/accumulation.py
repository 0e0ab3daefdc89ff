"""The execution of a launch's adjoint: its program, chunks, and private copies of cotangents.

A :class:`Sweep` is chosen for an adjoint program that accumulates plainly, and a launch; it is the same for launches,
tapes and PyTorch, and is decided once for launches of one shape.
"""

from __future__ import annotations

from array import array as words
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from diffkern.ir.structs import Struct
from diffkern.ir.types import scalar_of
from diffkern.runtime.accumulate.copies import Copies
from diffkern.runtime.arrays.array import array
from diffkern.runtime.launch.grid import Grid
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.schedule import USUAL, Blocks, Plan, cut
from diffkern.runtime.memory.device import CPU
from diffkern.runtime.native import pool
from diffkern.runtime.native.replay import copied

__all__ = ["NOTHING", "Sweep", "choose", "copied_of"]

NOTHING: Mapping[int, bytes] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Sweep:
    """The program and schedule of an adjoint.

    Attributes
    ----------
    executable
        Its program.
    plan
        The schedule that keeps its accumulations from racing.
    grid
        Its threads.
    """

    executable: Executable
    plan: Plan
    grid: Grid

    def run(self, cotangents: Mapping[int, array], pack: Callable[[Mapping[int, bytes]], bytes]) -> None:
        """Run the adjoint: on copies of cotangents that are then added up, or on the cotangents.

        Parameters
        ----------
        cotangents : mapping of int to array
            At least those that the plan has copies of.
        pack : callable
            Returns the argument block without its header, with the given bytes in place of some cotangents.
        """
        plan = self.plan
        if not plan.private:
            if plan.colours == 1:
                self.executable.run(self.grid, pack(NOTHING))
            elif plan.cut.n:
                self.executable.run_blocks(self.grid, [pack(NOTHING)], plan.colours)
            return
        # The first chunk adds to the cotangents themselves, and only the others need copies.
        count = plan.cut.chunks - 1
        if (whole := copied_of(self.executable, plan, cotangents)) is not None:
            steps = self.executable.copied_steps(self.grid, pack(NOTHING), plan.colours, whole)
            if steps is not None and pool.functions():
                for step in steps:
                    step.run()  # type: ignore[union-attr]  # of the CPU
                return
        # Native code cannot add up these types or layouts; Python makes the copies and a block of arguments for each
        # chunk.
        copies = {k: Copies(cotangents[k], count) for k in plan.private}
        own = ({k: copy.packed[group] for k, copy in copies.items()} for group in range(count))
        self.executable.run_blocks(self.grid, [pack(NOTHING), *map(pack, own)], plan.colours)
        for copy in copies.values():
            copy.add_up()


def copied_of(executable: Executable, plan: Plan, cotangents: Mapping[int, array]) -> words[int] | None:
    """Return a description of private cotangents for native code; None if it cannot add up their copies."""
    places = {of: k for k, (role, of) in enumerate(executable.layout.entries) if role == "cotangent"}
    found = []
    for index in plan.private:
        ct = cotangents[index]
        if isinstance(ct._element, Struct) or not ct._data.flags.c_contiguous:
            return None
        scalar = scalar_of(ct._element)
        if scalar.bits not in (32, 64):
            return None
        components = ct._element.itemsize // scalar.itemsize
        found.append((executable.layout.fields[places[index]].offset, ct.ndim, scalar, components))
    return copied(found)


def choose(
    plain: Executable,
    atomic: Callable[[], Executable],
    dims: tuple[int, ...],
    shapes: tuple[tuple[int, ...], ...],
    sizes: Callable[[], Mapping[int, int]],
    shared: bool = False,
    blocks: Blocks = USUAL,
) -> Sweep:
    """Return the sweep of an adjoint: with the program that accumulates plainly, or with the one with atomics.

    Parameters
    ----------
    plain : Executable
        The adjoint that accumulates plainly. On a GPU it knows where its threads race, unless buffers or dims are
        special.
    atomic : callable
        Returns the one with atomics.
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
    derivative = plain.derivative
    if plain.device is CPU and plain.blockwise:
        chosen = atomic() if shared else plain
        return _sweep(chosen, Plan(chosen.cut(dims, blocks)), blocks)
    key = (dims, shared, shapes if plain.device is CPU else blocks)
    found = plain.sweeps.get(key)
    if found is not None:
        return found
    if plain.device is CPU:
        plan = derivative.schedule(dims, plain.cost, plain.lane_counts, sizes(), shared)
        chosen = plain if plan is not None else atomic()
    else:
        plan = None
        # A GPU runs all threads at once: there are no chunks to colour, and its plain program has atomics where threads
        # race.
        chosen = atomic() if shared or any(extent > 1 for extent in dims[derivative.axes :]) else plain
    found = _sweep(chosen, plan or Plan(cut(dims, chosen.cost, chosen.lane_counts)), blocks)
    plain.remember(key, found)
    return found


def _sweep(executable: Executable, plan: Plan, blocks: Blocks) -> Sweep:
    return Sweep(executable, plan, executable.grid_of(plan.cut, blocks))
