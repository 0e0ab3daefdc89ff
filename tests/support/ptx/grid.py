"""A launch: the warps of all blocks take turns of random length, so that what nothing orders happens in any order.

In: a loaded module, a kernel's name, a grid, the bytes of its parameters, and the memory it may touch. Out: that
memory, changed. The same seed gives the same order.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np

from .faults import PtxFault
from .image import Image, Program
from .memory import Allocations, Memory, Shared
from .races import BlockWatch, LaunchWatch
from .types import LANES
from .warp import Warp

__all__ = ["Launch", "launch"]

_RESIDENT = 32
_LONGEST_TURN = 64.0


@dataclass(frozen=True)
class Launch:
    """A launch.

    Attributes
    ----------
    blocks, threads
        The grid: a number of blocks of a number of threads.
    parameters
        The bytes of the kernel's parameters, each aligned to its size.
    shared_bytes
        The shared memory that it asks for, beyond what the kernel declares.
    seed
        What decides on turns.
    resident
        How many blocks take turns at once.
    races
        Whether a race is a fault.
    names
        For messages, arrays that it is given: their first bytes, those after them, and their names.
    """

    blocks: int
    threads: int
    parameters: bytes
    shared_bytes: int = 0
    seed: int = 0
    resident: int = _RESIDENT
    races: bool = True
    names: tuple[tuple[int, int, str], ...] = ()


class Block:
    """A block of threads that runs."""

    def __init__(self, program: Program, number: int, asked: Launch, memory: Memory, watch: LaunchWatch | None) -> None:
        ones = {f"%{name}.{axis}": 1 for name in ("ntid", "nctaid") for axis in "xyz"}
        zeros = {f"%{name}.{axis}": 0 for name in ("tid", "ctaid") for axis in "xyz"}
        given = {"%ntid.x": asked.threads, "%nctaid.x": asked.blocks, "%ctaid.x": number}
        given["%dynamic_smem_size"] = asked.shared_bytes
        values = _parameters(program, asked.parameters)
        self.warps = []
        firsts = range(0, asked.threads, LANES)
        self._watch = BlockWatch(watch, number, len(firsts)) if watch is not None else None
        for k, first in enumerate(firsts):
            registers = {**ones, **zeros, **given, "%warpid": k}
            own = replace(memory, watch=self._watch.warps[k]) if self._watch is not None else memory
            warp = Warp(program, first, asked.threads, registers, own)
            warp.frames[0].parameters.update(values)
            self.warps.append(warp)

    def ready(self) -> list[Warp]:
        """Return the warps that can go on, after opening a barrier where all that it waits for have come."""
        found = [warp for warp in self.warps if warp.runs]
        if len(found) < len(self.warps):
            found += self._opened()
        return found

    @property
    def ended(self) -> bool:
        return not any(warp.frames for warp in self.warps)

    def _opened(self) -> list[Warp]:
        """Let go on what waits at a complete barrier."""
        waiting: dict[int, list[Warp]] = {}
        for warp in self.warps:
            if warp.waits_at is not None:
                waiting.setdefault(warp.waits_at[0], []).append(warp)
        opened = []
        for number, warps in waiting.items():
            counts = {warp.waits_at[1] for warp in warps if warp.waits_at is not None}
            if len(counts) > 1:
                raise PtxFault(f"barrier {number} is used with different numbers of threads: {counts}")
            if _threads(warps, whole=None not in counts) >= (counts.pop() or _threads(self.warps)):
                opened += warps
                if self._watch is not None:
                    self._watch.join(self.warps.index(warp) for warp in warps)
        for warp in opened:
            warp.waits_at = None
        return opened

    def stuck(self) -> PtxFault:
        """The fault of a block none of whose warps can go on."""
        places = sorted({str(warp.waits_at[2]) for warp in self.warps if warp.waits_at is not None})
        return PtxFault(f"the warps of a block wait for each other: at {'; '.join(places)}")


def _threads(warps: list[Warp], whole: bool = False) -> int:
    """The threads that have not ended; a barrier with a number of threads counts whole warps."""
    return sum(LANES if whole else int(np.count_nonzero(warp.live)) for warp in warps)


def _parameters(program: Program, data: bytes) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.uint8]]]:
    """The kernel's parameters in the bytes of a launch, which all lanes share."""
    found, offset = {}, 0
    for p in program.function.parameters:
        offset = -(-offset // p.align) * p.align
        each = np.frombuffer(data[offset : offset + p.size], np.uint8)
        found[p.name] = np.broadcast_to(each, (LANES, len(each)))
        offset += p.size
    if offset != len(data):
        raise PtxFault(f"{program.function.name} takes {offset} bytes of parameters and is given {len(data)}")
    return found


def launch(image: Image, name: str, asked: Launch, allocations: Allocations) -> int:
    """Run a launch to its end; return how many instructions its warps executed.

    Raises
    ------
    PtxFault
        If it does what the hardware forbids or leaves undefined.
    """
    program, chance = image.program(name), random.Random(asked.seed)
    most = program.function.limits.get("maxntid")
    if most is not None and asked.threads > most:
        raise PtxFault(f"a block of {asked.threads} threads, where {name} allows {most}")
    allocations.begin(image.spans, asked.races)
    watch = LaunchWatch(image.sites, asked.names) if asked.races else None
    waiting = list(range(asked.blocks))
    chance.shuffle(waiting)
    running: list[Block] = []
    steps = 0
    with np.errstate(all="ignore"):
        while waiting or running:
            while waiting and len(running) < asked.resident:
                shared = Shared(image.shared_bytes + asked.shared_bytes, asked.races)
                running.append(Block(program, waiting.pop(), asked, Memory(allocations, shared, chance), watch))
            place = chance.randrange(len(running))
            block = running[place]
            ready = block.ready()
            if ready:
                warp = chance.choice(ready)
                # As many short turns as long ones: a turn may end between any two instructions, or run far ahead.
                warp.run(int(_LONGEST_TURN ** chance.random()))
            elif block.ended:
                steps += sum(warp.steps for warp in block.warps)
                running.pop(place)
            else:
                raise block.stuck()
    return steps
