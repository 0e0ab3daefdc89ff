"""A warp: 32 lanes that execute a function, part at branches and come together again.

Lanes at the same instruction are a :class:`Path`. Of several paths the one furthest back goes on: with the order in
which compilers lay out their code it meets the others. Where an instruction wants lanes that are elsewhere, those that
are there wait; lanes that wait for some that never come are a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .effects import mask_of
from .faults import PtxFault, RaceFault
from .memory import Local, Memory
from .types import BITS, LANES, Lanes, Type

if TYPE_CHECKING:
    from .image import Program
    from .table import Step

__all__ = ["Frame", "Path", "Warp"]

_GARBAGE = 0xDEADBEEFDEADBEEF
_NEVER = 1 << 62


class Path:
    """Lanes that are at one place.

    Attributes
    ----------
    place
        The number of the instruction.
    mask, lanes
        Which lanes, as 32 bools and as their numbers.
    alone
        Whether no other lane of the frame has registers that must be kept.
    waits
        Whether they wait for other lanes.
    """

    __slots__ = ("_lanes", "alone", "mask", "place", "waits")

    def __init__(self, place: int, mask: Lanes) -> None:
        self.place, self.mask = place, mask
        self.alone = self.waits = False
        self._lanes: Any = None

    @property
    def lanes(self) -> Any:
        if self._lanes is None:
            self._lanes = np.flatnonzero(self.mask)
        return self._lanes

    def of(self, chosen: Lanes) -> Path:
        """Those of its lanes that are chosen."""
        return Path(self.place, self.mask & chosen)


class Frame:
    """A call of a function by some lanes: registers, parameters, local memory, and where each lane is."""

    def __init__(self, warp: Warp, program: Program, mask: Lanes, memory: Memory) -> None:
        self.warp, self.program = warp, program
        self.memory = replace(memory, local=Local(program.local_bytes))
        self.registers: list[Lanes] = [_garbage(t) for t in program.function.registers]
        self.parameters: dict[str, np.ndarray[Any, np.dtype[np.uint8]]] = {}
        self.current: Path | None = None
        self.others: dict[int, Path] = {}
        self._next = 0  # how far the current path may go before another one is to go on
        self._arrive(0, mask)

    # -- registers and parameters --------------------------------------------------------------------------------------

    def write(self, slot: int, bits: Lanes, path: Path) -> None:
        """Change a register of some lanes."""
        self.registers[slot] = bits if path.alone else np.where(path.mask, bits, self.registers[slot])

    def parameter(self, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the bytes of a parameter for a call, to be written."""
        if name not in self.parameters:
            self.parameters[name] = np.zeros((LANES, self.program.function.sizes[name]), np.uint8)
        return self.parameters[name]

    # -- paths ---------------------------------------------------------------------------------------------------------

    def _arrive(self, place: int, mask: Lanes) -> None:
        met = self.others.get(place)
        self.others[place] = Path(place, mask if met is None else mask | met.mask)
        self._next = min(self._next, place)

    def _rest(self, gone: Path) -> None:
        """Take lanes out of the current path."""
        assert self.current is not None
        if gone is self.current:
            self.current = None
        else:
            self.current = self.current.of(~gone.mask)
            if not len(self.current.lanes):
                self.current = None

    def go(self, path: Path, place: int) -> None:
        """Let lanes of the current path go on elsewhere."""
        if path is self.current and not self.others:
            path.place = place
            return
        self._rest(path)
        self._arrive(place, path.mask)

    def end(self, path: Path) -> None:
        """Lanes of the current path return."""
        self._rest(path)
        if self.program.function.is_entry:
            self.warp.live &= ~path.mask

    def _choose(self) -> Path | None:
        """Return the path furthest back that does not wait, with the lanes that have come to where it is."""
        current = self.current
        if current is not None:
            if not self.others:
                current.alone = True
                return current
            if current.place < self._next and current.place not in self.others:
                return current
            self._arrive(current.place, current.mask)
        first, *later = sorted(place for place, path in self.others.items() if not path.waits) or [None]
        if first is None:
            self.current = None
            if self.others:
                self._stuck()
            return None
        self._next = later[0] if later else _NEVER
        self.current = self.others.pop(first)
        self.current.alone = not self.others
        return self.current

    def _stuck(self) -> None:
        places = [f"lanes {mask_of(p.lanes):#x} at {self.program.step(p.place).text}" for p in self.others.values()]
        raise PtxFault(f"{self.program.function.name}: lanes wait for others that do not come: {'; '.join(places)}")

    # -- execution -----------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> int:
        """Execute up to so many instructions; return how many are left, where the frame ends, waits or calls."""
        warp = self.warp
        while steps > 0:
            path = self._choose()
            if path is None:
                warp.frames.pop()
                return steps
            step = self.program.step(path.place)
            if step.meets and not self._all_here(step, path):
                path.waits = True
                self.others[path.place] = path
                self.current = None
                continue
            steps -= 1
            self._execute(step, path)
            if warp.frames[-1] is not self or warp.waits_at is not None:
                return steps
        return steps

    def _execute(self, step: Step, path: Path) -> None:
        path.place += 1
        on = path
        if step.guard is not None:
            chosen = path.mask & step.guard(self)
            count = np.count_nonzero(chosen)
            if not count:
                return
            if count < len(path.lanes):
                on = Path(path.place, chosen)
        try:
            step.execute(self, on)
        except RaceFault:
            raise
        except PtxFault as fault:
            raise PtxFault(f"{fault}: {step.text}, in {self.program.function.name}") from None

    def _all_here(self, step: Step, path: Path) -> bool:
        wanted = self.warp.live
        if step.members is not None:
            mask = int(step.members(self)[path.lanes[0]])
            wanted = wanted & np.array([mask >> k & 1 for k in range(LANES)], np.bool_)
        return not (wanted & ~path.mask).any()


def _garbage(t: Type) -> Lanes:
    if t.kind == "pred":
        return np.ones(LANES, np.bool_)
    return np.full(LANES, _GARBAGE & ((1 << t.bits) - 1), BITS[t.size])


class Warp:
    """A warp of a block.

    Parameters
    ----------
    program
        The kernel.
    threads
        The numbers of its threads in the block, one for each lane; lanes beyond the block's end have none.
    live
        Which lanes have threads.
    special
        The values of special registers that all lanes share.
    """

    def __init__(self, program: Program, first: int, count: int, shared_by_all: dict[str, int], memory: Memory) -> None:
        self.threads = np.arange(first, first + LANES, dtype=np.uint32)
        self.live: Lanes = self.threads < count
        self._registers = {name: np.full(LANES, value, np.uint32) for name, value in shared_by_all.items()}
        self.waits_at: tuple[int, int | None, str] | None = None
        self.steps = 0
        self.frames = [Frame(self, program, self.live.copy(), memory)]

    def special(self, name: str) -> Lanes:
        """The lanes of a special register."""
        if name == "%tid.x":
            return self.threads
        if name == "%laneid":
            return self.threads & np.uint32(LANES - 1)
        if name.startswith("%lanemask_"):
            return _lane_masks(name.removeprefix("%lanemask_"))
        if name in ("%clock", "%clock64", "%globaltimer"):
            return np.full(LANES, self.steps, np.uint64)
        if name not in self._registers:
            raise PtxFault(f"there is no special register {name}")
        return self._registers[name]

    @property
    def runs(self) -> bool:
        """Whether it can go on now."""
        return bool(self.frames) and self.waits_at is None

    def run(self, steps: int) -> None:
        """Execute up to so many instructions."""
        left = steps
        while left > 0 and self.runs:
            left = self.frames[-1].run(left)
        self.steps += steps - left

    def wait(self, barrier: int, count: int | None, text: str) -> None:
        """Wait at a barrier of the block for a number of threads; None: for all."""
        if count is not None and (count <= 0 or count % LANES):
            raise PtxFault(f"a barrier of {count} threads, which are not whole warps")
        self.waits_at = barrier, count, text

    def call(self, caller: Frame, path: Path, name: str, given: Sequence[str], results: Sequence[str]) -> None:
        """Let the lanes of a path call a function."""
        program = caller.program.image.program(name)
        frame = Frame(self, program, path.mask.copy(), caller.memory)
        for parameter, source in zip(program.function.parameters, given, strict=True):
            frame.parameters[parameter.name] = caller.parameter(source)
        for result, goal in zip(program.function.results, results, strict=True):
            # The caller's own bytes: other lanes may have their results there.
            frame.parameters[result.name] = caller.parameter(goal)
        self.frames.append(frame)


def _lane_masks(relation: str) -> Lanes:
    masks = {
        "eq": [1 << k for k in range(LANES)],
        "lt": [(1 << k) - 1 for k in range(LANES)],
        "le": [(2 << k) - 1 for k in range(LANES)],
        "gt": [0xFFFFFFFF & ~((2 << k) - 1) for k in range(LANES)],
        "ge": [0xFFFFFFFF & ~((1 << k) - 1) for k in range(LANES)],
    }
    return np.array(masks[relation], np.uint32)
