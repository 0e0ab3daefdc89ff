"""Programs on a GPU.

A :class:`CudaExecutable` is made of an artifact and a device, and has the calls of
:class:`diffkern.runtime.launch.program.Executable`. The argument block is the CPU's, byte for byte: it is what the
driver copies as the kernel's parameters. Debug programs get a record in device memory, which is read after each launch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from diffkern.cache.manifest import StoredArtifact
from diffkern.contracts import abi
from diffkern.contracts.argument_block import gpu_header, header, with_status, zeroed_bits
from diffkern.errors import CudaError, LaunchError
from diffkern.runtime.cuda.context import CudaDevice
from diffkern.runtime.cuda.driver import FunctionAttribute
from diffkern.runtime.cuda.exact_sums import ExactSums, KernelLaunch
from diffkern.runtime.cuda.memory import allocate
from diffkern.runtime.cuda.preconditions import ArrayRules
from diffkern.runtime.cuda.stream import current_stream
from diffkern.runtime.cuda.transfer import download
from diffkern.runtime.launch.checked import error_of, stamp_counts
from diffkern.runtime.launch.grid_checks import check_alone, check_axes
from diffkern.runtime.launch.output import empty_buffer, show
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.schedule import (
    USUAL,
    WITHOUT_BLOCKS,
    Blocks,
    ChunkGrid,
    Grid,
    check_whole_blocks,
    cut,
    cut_blocks,
)
from diffkern.runtime.native.device import DeviceStep, launch_step
from diffkern.runtime.native.replay import Steps

__all__ = ["CudaExecutable", "ReportingCudaExecutable", "executable"]

_STATIC_SHARED = 48 << 10
_WAVES = 8
_CHOICES = 256
_MOST = 2**31


class CudaExecutable(Executable):
    """A program on one GPU.

    Parameters
    ----------
    device : CudaDevice
        The device it runs on.
    entry : Entry
        Its artifact.
    kernel : str, optional
        The kernel's name, for messages.
    careful : callable, optional
        Returns the program for launches in which an array that is written overlaps another one, if this one is only for
        launches without.
    """

    __slots__ = (
        "_adds_up", "_careful", "_choices", "_elements", "_exact", "_grids", "_needed", "_resident", "_rules",
        "_shared", "_threads", "gpu", "tiled", "title", "zeroed",
    )  # fmt: skip

    def __init__(
        self,
        device: CudaDevice,
        entry: StoredArtifact,
        kernel: str = "",
        careful: Callable[[], CudaExecutable] | None = None,
    ) -> None:
        manifest = entry.manifest
        self.title = manifest.title or entry.symbols[0]
        try:
            function = device.function(entry)
            super().__init__(function, 0, manifest)
            self.device = self.gpu = device
            self._shared = manifest.gpu.dynamic_shared_bytes if manifest.gpu else 0
            self._needed = max(self._shared, manifest.gpu.shared_bytes if manifest.gpu else 0)
            with device.active:
                if self._needed > _STATIC_SHARED:
                    self._allow_shared()
                limit = device.driver.function_attribute(function, FunctionAttribute.MAX_THREADS_PER_BLOCK)
            self._exact = ExactSums(device, entry, self.layout, self.title) if manifest.exact else None
        except CudaError as error:
            raise error.under(self.title) from None
        # The compiler may have been promised a limit that is lower than the function's own.
        self._threads = min([limit, *(manifest.launch_bounds or ())[:1]])
        self.tiled = manifest.tiled
        self._elements = manifest.gpu.elements if manifest.gpu else 1
        self.zeroed = tuple([manifest.params[k].of for k in manifest.gpu.zeroed]) if manifest.gpu else ()
        self._adds_up = self.sites > 0 or any(c.kind == "reduce" for c in manifest.conflicts.values())
        self._grids: dict[Any, Grid] = {}
        self._resident: dict[int, int] = {}
        self._rules = ArrayRules(kernel or self.title, manifest, self.layout)
        self._careful = careful
        self._choices: dict[tuple[int, ...], CudaExecutable] = {}

    def _allow_shared(self) -> None:
        """Request more shared memory than a block has by default."""
        most = self.gpu.max_shared_memory_per_block
        if self._needed > most:
            raise LaunchError(
                f"{self.title} needs {self._needed} bytes of shared memory for each block; {self.gpu} has {most}",
                remedy="use smaller tiles or local arrays",
            )
        driver = self.gpu.driver
        driver.set_function_attribute(self.address, FunctionAttribute.MAX_DYNAMIC_SHARED, self._shared)

    # -- grids -------------------------------------------------------------------------------------------------------

    def grid(self, dim: Any, blocks: Blocks = USUAL) -> Grid:
        """Return the grid of a launch over `dim`, with a number of threads in a block and a limit of blocks."""
        dims = self.dims_of(dim, blocks)
        check_axes(self.manifest.tid_arity, dims)
        check_alone(self.manifest, dims)
        if self.blockwise:
            self._check_blocks(dims, blocks)
        key = dims, blocks
        found = self._grids.get(key)
        if found is None:
            found = self._grid(cut(dims, self.cost), blocks, dims)
            if len(self._grids) >= 256:
                self._grids.clear()
            self._grids[key] = found
        # As on the CPU, by what the checks have made of the dimensions: an integer, or a tuple of them.
        if blocks in WITHOUT_BLOCKS and not self.tiled:
            if len(self.grids) >= 256:
                self.grids.clear()
            self.grids[dim if type(dim) is int else dims] = found
        return found

    def _check_blocks(self, dims: tuple[int, ...], blocks: Blocks) -> None:
        block_dim = blocks.block_dim or self.block_dim
        check_whole_blocks(dims, self.manifest.tid_arity, block_dim, self.manifest.rows)

    def threads_of(self, blocks: Blocks) -> int:
        """Return the threads of a block, as its kernel sees them: one where a block works on tiles as a thread."""
        return 1 if self.tiled else self._threads_of_block(blocks)

    def _threads_of_block(self, blocks: Blocks) -> int:
        return blocks.block_dim or (self.block_dim if self.blockwise else min(self.block_dim, self._threads))

    def grid_of(self, c: ChunkGrid, blocks: Blocks = USUAL) -> Grid:
        """Return the grid of the threads of a cut."""
        dims = c.dims[: max(self.manifest.tid_arity, 1)]
        if self.blockwise:
            self._check_blocks(dims, blocks)
        return self._grid(c, blocks, dims)

    def _grid(self, c: ChunkGrid, blocks: Blocks, dims: tuple[int, ...]) -> Grid:
        threads = self._threads_of_block(blocks)
        if self.manifest.block_dim_fixed and threads != self.block_dim:
            raise ValueError(
                f"its program is for blocks of exactly {self.block_dim} threads, and the launch has "
                f"block_dim={threads}: launch it with block_dim={self.block_dim}"
            )
        if not 1 <= threads <= self._threads:
            raise ValueError(f"block_dim is a number of threads from 1 to {self._threads} here, not {threads}")
        if self.blockwise and -(-c.n // threads) > _MOST:
            raise ValueError("a GPU takes up to 2**31 blocks of threads that work together: launch several times")
        # Blocks that work on tiles are what is launched; else it is threads.
        count = max(1, c.n if self.tiled else -(-c.n // (threads * self._elements)))
        if self._adds_up:
            # Every block adds to the sums once: as many blocks as the GPU keeps busy are enough.
            count = min(count, _WAVES * self._fitting(threads))
        # A grid has fewer than 2**31 threads; in a launch of more each of them goes round.
        count = min(count, abi.CUDA_GRID_THREADS // threads - 1, blocks.max_blocks or count)
        return Grid(c.n, threads, count, *self._header(c, threads, dims, count))

    def _header(self, c: ChunkGrid, threads: int, dims: tuple[int, ...], count: int) -> tuple[tuple[int, ...], bytes]:
        """Return the extents of a launch, and its header."""
        if self.manifest.gpu is not None:
            # Programs that take several elements a thread do not ask, but the one for arrays that share memory, which
            # takes single elements, is launched with the same grid and header.
            at_once = count * (1 if self.tiled else threads)
            return c.dims, gpu_header(c.dims, self.manifest.tid_arity, at_once)
        # The CPU's program, for a driver that runs those.
        if not self.blockwise:
            return c.dims, header(c.dims)
        # It counts blocks, and the last extent is their size.
        blocks = cut_blocks(dims, self.manifest.tid_arity, threads, self.cost)
        return blocks.dims[:-1], header(blocks.dims, threads)

    def bits_of_zeros(self, grid: Grid, known: Collection[int]) -> int:
        # A thread that is repeated finds what it has added.
        if max(grid.dims[self.manifest.tid_arity :], default=1) > 1:
            return 0
        return zeroed_bits(self.zeroed, known)

    def _fitting(self, threads: int) -> int:
        """Return the number of blocks that run on the GPU at once."""
        found = self._resident.get(threads)
        if found is None:
            with self.gpu.active:
                each = self.gpu.driver.occupancy(self.address, threads, self._shared)
            found = self._resident[threads] = max(1, each * self.gpu.sm_count)
        return found

    # -- which program -----------------------------------------------------------------------------------------------

    def check(self, pack: Callable[[], bytes | None]) -> None:
        """Raise a LaunchError if the code does not take these arguments."""
        arguments = pack()
        if arguments is not None:
            self._rules.check(self._rules.fields(arguments))

    def chosen(self, arguments: bytes | memoryview) -> CudaExecutable:
        """Return the program for these arguments: another one if an array that is written overlaps another array.

        Raises
        ------
        LaunchError
            As :meth:`check`.
        """
        fields = self._rules.fields(arguments)
        # Comparing all pairs of arrays takes long, and a program is mostly launched with the same arrays.
        found = self._choices.get(fields)
        if found is None:
            self._rules.check(fields)
            found = self if self._careful is None or self._rules.distinct(fields) else self._careful()
            if len(self._choices) >= _CHOICES:
                self._choices.clear()
            self._choices[fields] = found
        return found

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, grid: Grid, arguments: bytes) -> None:
        """Submit a launch to the current stream of the device."""
        program = self.chosen(arguments)
        if grid.n:
            program.enqueue(grid, grid.header + arguments)

    def run_chosen(self, grid: Grid, arguments: bytes) -> None:
        """Submit a launch on arguments that this program was chosen for."""
        if grid.n:
            self.enqueue(grid, grid.header + arguments)

    def enqueue(self, grid: Grid, block: bytes | bytearray) -> None:
        """Submit a launch to the current stream of the device; the driver copies the block."""
        threads = grid.size
        if threads > self._threads:
            raise LaunchError(
                f"{self.title}: block_dim is at most {self._threads} here, not {threads}",
                remedy="launch with fewer threads in a block",
            )
        device = self.gpu
        device.recent.append(self.title)
        launches = [KernelLaunch(self.address, grid.count, threads, self._shared, bytes(block))]
        rows = None
        if self._exact is not None:
            launches, rows = self._exact.around(*launches)
        stream = current_stream(device)
        for launch in launches:
            self._submit(launch, stream.cuda_stream)
        del rows  # what frees it comes after these launches
        if device.followers:
            device.follow(stream)

    def _submit(self, launch: KernelLaunch, stream: int) -> None:
        function, blocks, threads, shared, block = launch
        port = self.gpu.port
        if port is not None:
            port.launch((function, blocks, threads, shared, stream), block, self.title)
            return
        try:
            with self.gpu.active:
                self.gpu.driver.launch(function, blocks, threads, shared, stream, block)
        except CudaError as error:
            raise error.under(self.title) from None

    def run_blocks(self, grid: Grid, arguments: list[bytes], colours: int) -> None:
        """Run with one argument block."""
        (block,) = arguments
        self.run(grid, block)

    def steps(self, grid: Grid, arguments: bytes, colours: int = 1) -> Steps | None:
        """Return the launch in native code, None where the driver is called from Python."""
        # The memory of exact sums is a launch's own.
        if self.gpu.port is None or self._exact is not None:
            return None
        return self.chosen(arguments)._step(grid, self.block(grid, arguments)) if grid.n else []

    def _step(self, grid: Grid, block: bytearray) -> list[DeviceStep] | None:
        port = self.gpu.port
        if port is None or grid.size > self._threads:  # the launch says so
            return None
        return [launch_step(port, self.address, grid.count, grid.size, self._shared, block, self.title)]

    def block(self, grid: Grid, arguments: bytes) -> bytearray:
        """Return the argument block for a launch that repeats."""
        return bytearray(grid.header + arguments)


class ReportingCudaExecutable(CudaExecutable):
    """A debug program, or one that prints, on one GPU."""

    __slots__ = ()

    def steps(self, grid: Grid, arguments: bytes, colours: int = 1) -> Steps | None:
        """Return None: its reports are read after each launch."""
        return None

    def block(self, grid: Grid, arguments: bytes) -> bytearray:
        """Return an empty block: every launch has a record of its own."""
        return bytearray()

    def run(self, grid: Grid, arguments: bytes) -> None:
        """Run with a fresh record, and wait.

        Raises
        ------
        KernelRuntimeError
            If a thread caused an error.
        """
        program = self.chosen(arguments)
        if program is not self:
            program.run(grid, arguments)
            return
        if not grid.n:
            return
        device = self.gpu
        if device.is_capturing:
            debug = self.manifest.checks is not None
            what = "is a debug program" if debug else "prints"
            raise LaunchError(
                f"{self.title} {what}: what it reports is looked at after each launch, so it cannot be captured",
                remedy="capture with dk.config.mode = 'release'" if debug else "print outside of what is captured",
            )
        # Whatever is looked at below has to stay until the launch has ended.
        stamps = [self._zeros(count) for count in stamp_counts(self.manifest, arguments, grid.dims)]
        record, memory = self._zeros(abi.RECORD_STAMPS + len(stamps)) or (None, None)
        assert record is not None
        assert memory is not None
        printed = self._buffer() if self.manifest.outputs else None
        addresses = np.array([0 if s is None else s[1].address for s in (printed, *stamps)], np.int64)
        # The words behind the record's fields: the buffer of the output, then the stamps of each array.
        self._upload(addresses, memory.address + 8 * abi.RECORD_OUTPUT)
        self.enqueue(grid, with_status(grid.header, memory.address) + arguments)
        # Waits for the launch: all that it wrote is there afterwards.
        found = download(device, record)
        if printed is not None:
            show(self.manifest, download(device, printed[0]))
        if found[abi.RECORD_CODE]:
            raise error_of(self.manifest, [int(field) for field in found], grid.dims)

    def run_chosen(self, grid: Grid, arguments: bytes) -> None:
        """Run with a fresh record, and wait, as :meth:`run`."""
        self.run(grid, arguments)

    def _buffer(self) -> tuple[Any, Any]:
        """Return an empty buffer for what threads print."""
        empty = empty_buffer()
        made = self._zeros(len(empty))
        assert made is not None
        self._upload(empty[: abi.OUTPUT_TEXTS], made[1].address)
        return made

    def _upload(self, words: np.ndarray[Any, Any], address: int) -> None:
        with self.gpu.active:
            stream = current_stream(self.gpu).cuda_stream
            self.gpu.driver.copy_to_device(address, words.ctypes.data, words.nbytes, stream)

    def _zeros(self, count: int) -> tuple[Any, Any] | None:
        return allocate(self.gpu, (count,), np.dtype(np.int64), True) if count else None


def executable(
    device: CudaDevice,
    entry: StoredArtifact,
    kernel: str = "",
    careful: Callable[[], CudaExecutable] | None = None,
) -> CudaExecutable:
    """Return a program on a device, from its artifact; the parameters are :class:`CudaExecutable`'s."""
    made = ReportingCudaExecutable if entry.manifest.reports else CudaExecutable
    return made(device, entry, kernel, careful)
