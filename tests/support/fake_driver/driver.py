"""A CUDA driver in host memory: whole programs run on ``cuda:0`` where there is no GPU.

In: the calls of :class:`diffkern.runtime.cuda.driver.Driver`. Out: bytes that really move and kernels that really run,
by way of the CPU's program of the same specialization on the same argument block. Work is queued and runs as late as
possible, and of what may run next always the youngest first, so that a missing wait shows as wrong contents every time.
New memory holds garbage, freed memory becomes garbage, and every call can be made to fail. What a GPU does to
performance, and what its compiler does to a kernel, is not seen here.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

from diffkern.runtime.cuda.devices import use_driver
from diffkern.runtime.cuda.driver import Attribute, FunctionAttribute, PoolValue
from diffkern.runtime.cuda.images import nearest
from diffkern.targets.cuda.cubin import architecture

from .base import Function, Launched, call
from .executed import executor, ptx_executor
from .memory import FakeMemory
from .native import FakeEntries
from .streams import FakeStreams

__all__ = ["FakeDriver", "Launched", "fake_cuda"]

PTX_SINCE = {
    (8, 0): 12000, (8, 1): 12010, (8, 2): 12020, (8, 3): 12030, (8, 4): 12040, (8, 5): 12050, (8, 6): 12070,
    (8, 7): 12080, (8, 8): 12090, (9, 0): 13000, (9, 1): 13010, (9, 2): 13020, (9, 3): 13030, (9, 4): 13040,
    (9, 5): 13050,
}  # fmt: skip
"""The CUDA that each version of PTX came with."""
_OTHERS = 8
"""Contexts that libraries other than diffkern may have made; no device's memory or streams belong to them."""
_PTX_TARGET, _PTX_VERSION = "sm_90", 13050

Run = Literal["cpu", "ptx"]
"""What a launch runs: the CPU's program, or the PTX that the driver was given."""


class FakeDriver(FakeStreams, FakeMemory, FakeEntries):
    """A driver for tests.

    Parameters
    ----------
    devices : int, optional
        How many devices it has.
    target : str, optional
        What the devices are: this processor, so that programs can run; with ``sm_90`` they are compiled for such a GPU,
        or the nearest, and launches are noted only.
    conditional : bool, optional
        Whether graphs can have conditional nodes.
    seed : int, optional
        Lets any piece of work be the next that may run, by chance, instead of the youngest.
    native : bool, optional
        Whether native code may call it.
    version : int, optional
        The CUDA that it supports, 13000 for 13.0: it takes no newer machine code and PTX.
    run : {"cpu", "ptx"}, optional
        With ``"ptx"`` the devices are of `target`, ``sm_90`` by default; the driver takes PTX alone, and launches
        interpret it (:mod:`support.ptx`).
    races : bool, optional
        Whether a race in an interpreted launch is a fault.

    Attributes
    ----------
    calls : list of (str, tuple)
        All calls, in order.
    launches : list of Launched
        All launches that were not captured, and those of graphs when they ran.
    entries : EntryPoints or None
        Its functions for native code; None has all calls made by way of Python.
    """

    def __init__(
        self,
        devices: int = 1,
        target: str = "native",
        conditional: bool = True,
        seed: int | None = None,
        native: bool = True,
        version: int = 13000,
        run: Run = "cpu",
        races: bool = True,
    ) -> None:
        if run == "ptx":
            target, version = _PTX_TARGET if target == "native" else target, max(version, _PTX_VERSION)
        super().__init__(devices, target, conditional, seed, version)
        FakeEntries.__init__(self, native)
        self._interprets, self._races = run == "ptx", races
        self._kept: dict[int, int] = {}
        self._most: dict[int, int] = {}
        self._launch_seeds = itertools.count(seed or 0)

    # -- devices and contexts ----------------------------------------------------------------------------------------

    def version(self) -> int:
        return self._version

    def device_count(self) -> int:
        return self._devices

    def device_name(self, ordinal: int) -> str:
        return f"fake GPU {ordinal}"

    def device_uuid(self, ordinal: int) -> str:
        return f"GPU-00000000-0000-0000-0000-{ordinal:012d}"

    def device_attribute(self, ordinal: int, attribute: int) -> int:
        known = {
            Attribute.MAX_THREADS_PER_BLOCK: 1024, Attribute.MAX_SHARED_PER_BLOCK: 48 << 10, Attribute.WARP_SIZE: 32,
            Attribute.CLOCK_RATE: 1_000_000, Attribute.SM_COUNT: 4, Attribute.UNIFIED_ADDRESSING: 1,
            Attribute.PCI_BUS_ID: ordinal, Attribute.COMPUTE_MAJOR: self._arch // 10,
            Attribute.COMPUTE_MINOR: self._arch % 10, Attribute.MAX_SHARED_OPT_IN: 227 << 10,
            Attribute.MEMORY_POOLS: 1, Attribute.MEMORY_CLOCK_RATE: 1_000_000, Attribute.MEMORY_BUS_WIDTH: 1024,
        }  # fmt: skip
        return known.get(Attribute(attribute), 0)

    def total_memory(self, ordinal: int) -> int:
        return 1 << 30

    def target(self, ordinal: int) -> str:
        return self._target if self._target == "native" else nearest(self._arch)

    @property
    def _arch(self) -> int:
        return 90 if self._target == "native" else int(self._target.removeprefix("sm_"))

    @call
    def primary_context(self, ordinal: int) -> int:
        if not 0 <= ordinal < self._devices:
            raise self._failure("primary_context", 1)
        return ordinal + 1

    @call
    def set_context(self, context: int) -> None:
        if not 0 <= context <= self._devices + _OTHERS:
            raise self._failure("set_context", 1)
        self._current.context = context

    def current_context(self) -> int:
        return int(getattr(self._current, "context", 0))

    @call
    def synchronize(self) -> None:
        if self._time.end_captures(self._context()):
            raise self._failure("synchronize", 900)
        self._time.finish(self._context())

    @call
    def profile(self, collect: bool) -> None:
        self._context()

    def pool_value(self, ordinal: int, attribute: int) -> int:
        if attribute == PoolValue.RELEASE_THRESHOLD:
            return self._kept.get(ordinal, 1 << 28)
        used = sum(block.nbytes for block in self._blocks.values() if block.owner == ordinal + 1 and not block.freed)
        self._most[ordinal] = max(used, self._most.get(ordinal, 0))  # of the moments at which it is asked
        return used if attribute == PoolValue.USED_NOW else self._most[ordinal]

    @call
    def pool_keeps(self, ordinal: int, nbytes: int) -> None:
        self._kept[ordinal] = nbytes

    @call
    def memory_info(self) -> tuple[int, int]:
        used = sum(block.nbytes for block in self._blocks.values() if not block.freed)
        return (1 << 30) - used, 1 << 30

    def can_access_peer(self, ordinal: int, peer: int) -> bool:
        return ordinal != peer

    @call
    def enable_peer(self, ordinal: int, peer: int) -> None:
        pass

    # -- programs ----------------------------------------------------------------------------------------------------

    @call
    def load_module(self, image: bytes) -> int:
        if self._target != "native":
            self._check_image(image)
        handle = self._handle()
        self._modules[handle] = bytes(image)
        return handle

    def _check_image(self, image: bytes) -> None:
        """Raise unless an image is for the devices and this driver, by the rules that NVIDIA states."""
        if image == b"\x7fELF" and not self._interprets:
            return  # a test made it up
        if image[:4] == b"\x7fELF" and self._interprets:
            raise self._failure("load_module", 209)
        if image[:4] == b"\x7fELF":
            number = int(architecture(image).removeprefix("sm_"))
            fits = number // 10 == self._arch // 10 and number <= self._arch
            if self._version < 13000 and image[8] >= 8:
                raise self._failure("load_module", 200)
            if not fits or (number != self._arch and {number, self._arch} & {72, 87, 101, 110}):
                raise self._failure("load_module", 209)
            return
        found = re.search(rb"\.version (\d+)\.(\d+)\s+\.target sm_(\d+)", image)
        if found is None or image[-1:] != b"\0":
            raise self._failure("load_module", 218)
        major, minor, number = map(int, found.groups())
        if PTX_SINCE[major, minor] > self._version:
            raise self._failure("load_module", 222)
        if number > self._arch:
            raise self._failure("load_module", 209)

    @call
    def unload_module(self, module: int) -> None:
        del self._modules[module]

    @call
    def function(self, module: int, name: str) -> int:
        run: Callable[[Launched], None] | None = None
        if self._interprets:
            seed = partial(next, self._launch_seeds)
            run = ptx_executor(self._modules[module], name, self._allocation_at, seed, self._races)
        elif self._target == "native":
            execute = executor(self._modules[module], name)

            def run(launched: Launched) -> None:
                execute(launched.block)

        handle = self._handle()
        self._functions[handle] = Function(name, run)
        return handle

    @call
    def function_attribute(self, function: int, attribute: int) -> int:
        known = {FunctionAttribute.MAX_THREADS_PER_BLOCK: 1024, FunctionAttribute.REGISTERS: 32}
        chosen = FunctionAttribute(attribute)
        return self._attributes.get((function, attribute), known.get(chosen, 0))

    @call
    def set_function_attribute(self, function: int, attribute: int, value: int) -> None:
        if attribute == FunctionAttribute.MAX_DYNAMIC_SHARED and value > 227 << 10:
            raise self._failure("set_function_attribute", 1)
        self._attributes[function, attribute] = value

    @call
    def occupancy(self, function: int, threads: int, shared: int) -> int:
        return min(2048 // threads, 32, (227 << 10) // shared if shared else 32)

    @call
    def launch(self, function: int, blocks: int, threads: int, shared: int, stream: int, block: bytes) -> None:
        found = self._functions.get(function)
        allowed = self._attributes.get((function, FunctionAttribute.MAX_DYNAMIC_SHARED), 48 << 10)
        if found is None or not 1 <= blocks < 2**31 or not 1 <= threads <= 1024 or shared > allowed:
            raise self._failure("launch", 1)
        launched = Launched(found.name, blocks, threads, shared, stream, bytes(block))

        words = struct.unpack_from(f"{len(block) // 8}q", block)

        def run() -> None:
            self._check_alive(found.name, words)
            self.launches.append(launched)
            if found.run is not None:
                found.run(launched)

        self._enqueue("launch", stream, "kernel", run, launched)


@contextlib.contextmanager
def fake_cuda(
    devices: int = 1,
    target: str = "native",
    conditional: bool = True,
    seed: int | None = None,
    native: bool = True,
    version: int = 13000,
    run: Run = "cpu",
    races: bool = True,
) -> Iterator[FakeDriver]:
    """Run the block with a fake driver; the one before is back afterwards."""
    driver = FakeDriver(devices, target, conditional, seed, native, version, run, races)
    before = use_driver(driver)
    try:
        yield driver
    finally:
        use_driver(before)
