"""A loaded program: addresses of compiled code, and the properties that the launch path needs.

An :class:`Executable` is made of the addresses and the manifest of a forward or adjoint program, and runs over the
threads of a launch on an argument block. It holds no arguments, so that any number of threads may use it at once.
"""

from __future__ import annotations

import ctypes
import math
import operator
from array import array as words
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from diffkern.contracts.argument_block import Layout, Reader, header, with_partials
from diffkern.contracts.manifest import Manifest
from diffkern.ir.types import Array, parse_array_type, parse_type, scalar_of
from diffkern.runtime.launch.derivative import DerivativePlan
from diffkern.runtime.launch.grid_checks import Extents, check_alone, check_axes
from diffkern.runtime.launch.race_checks import Gathering, Races, TakenForGranted
from diffkern.runtime.launch.regions import Regions
from diffkern.runtime.launch.schedule import USUAL, Blocks, ChunkGrid, Grid, cut, cut_blocks, cut_groups, normalize_dim
from diffkern.runtime.memory.device import CPU, Device
from diffkern.runtime.native import pool
from diffkern.runtime.native.replay import Step, Steps, copied

if TYPE_CHECKING:
    from diffkern.errors import AutodiffError
    from diffkern.runtime.native.loader import Code

__all__ = ["Executable"]

# Where CPython keeps the contents of a bytes object: a block is passed to native code without a copy.
_BYTES_OFFSET = bytes.__basicsize__ - 1
# Where release programs would report an error; they have none to report. Debug programs get a word per launch.
_status = ctypes.c_int64(0)
_STATUS_ADDRESS = ctypes.addressof(_status)
_CACHED_DIMS = 256
_FITTING = 4096
_MOST_NUMBERS = 4096
_numbers: dict[bytes, bytes] = {}


class Executable:
    """A compiled program in memory.

    Parameters
    ----------
    address, finish : int
        Addresses of its functions: the kernel, and the one that adds up partial sums.
    manifest : Manifest
        The program's manifest.
    code : Code, optional
        The owner of the functions' memory.

    Attributes
    ----------
    address, finish : int
        Addresses of the kernel function and of the one that adds up partial sums (0 without).
    code : Code or None
        The machine code, where it is in memory for this program alone: it stays there as long as it is referenced, so
        that callers of an address in it who do not hold this program have to keep it.
    sites : int
        Number of uniform addresses that are accumulated to.
    updates : bool
        Whether the program can be told that its run is alone, and then makes plain updates of atomic ones.
    blockwise : bool
        Whether threads of a block work together, so that a launch is whole blocks.
    writes, reads : tuple of int
        Parameters whose elements are stored or updated, and read.
    uses : tuple of int
        Those of both kinds.
    fully_overwritten : tuple of (int, int)
        Those that a launch over their shape overwrites as a whole, each with its number of axes.
    by_id : bool
        Whether it looks up objects of the host by their ids.
    changes : bool
        Whether it writes to the memory of such objects.
    writes_elements : bool
        Whether it writes to arrays in elements of arrays.
    is_in_place : bool
        Whether a parameter is both read and written.
    may_share : bool
        Whether it matters that its arrays share memory: one is written, and there is another.
    disjoint : bytes
        The arguments of the last launch that passed the check for that.
    deciding : callable
        Returns of the bytes of a launch's leaves those that its checks depend on: of arrays, and not of numbers.
    values : tuple of int
        The other leaves.
    fits : dict
        The grids of launches on apart arrays that have passed all checks, by their deciding bytes; of an adjoint what
        was chosen for them.
    by_hand : dict
        What is known of adjoints that were launched by hand, by deciding bytes, dimensions and gradients.
    is_plain, is_usual : bool
        Whether all that is known of its launches is known by their arguments; and whether tapes keep nothing but the
        launch, as it reads nothing that it overwrites.
    is_told : bool
        The same as `is_plain`, where numbers that decide which elements a launch touches are among its deciding bytes.
    keeps_nothing : bool
        Of an adjoint: whether nothing has to be kept before its launch, or looked at, though that is not usual.
    taken : dict
        What tapes know of its launches, by the parameters that carry gradients.
    distinct : tuple of (int, int)
        Pairs of parameters that it takes for different memory, so that a launch which gives them one array takes the
        program in which they are merged.
    layout : Layout
        The layout of its argument block.
    contiguous_cotangents : frozenset of int
        Parameters whose cotangent must be contiguous.
    device : Device
        The device it runs on.
    block_dim : int
        Threads of a block where a launch does not say.
    grids : dict
        The grids of launches without block options, by their dimensions: an integer, or a tuple of them.
    extents : Extents or None
        The check of the shapes of a launch, None where none is needed.
    regions : Regions
        The elements of its arrays that a launch touches.
    races : Races or None
        Of an adjoint: the check of the numbers of a launch, None where none is needed.
    gathering : Gathering or None
        Of an adjoint: the condition under which its gathering variant may run; None where there is none.
    sorts : bool
        Of an adjoint: whether there is another program of it whose contributions can be added up by destinations.
    granted : TakenForGranted or None
        Of an adjoint: where it takes for granted that one thread stores to an element; None where that is certain.
    stampers : dict
        Of an adjoint: the programs that stamp, by the arrays for which they are asked; None where there is none.
    stamped : dict
        Of an adjoint: what stamps have shown of launches, by what decides about that: whether several threads store to
        one element, the same value, or an error that names two threads.
    looks_ahead : bool
        Whether a tape has to know the adjoint before it runs a launch.
    sweeps : dict
        Of an adjoint: the choices made for launches of one shape.
    """

    zeroed: tuple[int, ...] = ()
    """Of an adjoint on a GPU: the parameters whose cotangents it need not read where they are known to be zero."""

    __slots__ = (
        "__weakref__",
        "_added",
        "_block_offset",
        "_derivative",
        "_grouped",
        "_sizes",
        "accumulations",
        "address",
        "block_dim",
        "blockwise",
        "by_hand",
        "by_id",
        "changes",
        "code",
        "contiguous_cotangents",
        "cost",
        "deciding",
        "device",
        "disjoint",
        "distinct",
        "extents",
        "finish",
        "fits",
        "fully_overwritten",
        "gathering",
        "granted",
        "grids",
        "is_in_place",
        "is_plain",
        "is_told",
        "is_usual",
        "keeps_nothing",
        "lane_counts",
        "layout",
        "looks_ahead",
        "manifest",
        "may_share",
        "races",
        "reads",
        "regions",
        "sites",
        "sorts",
        "stamped",
        "stampers",
        "taken",
        "updates",
        "uses",
        "values",
        "writes",
        "writes_elements",
    )  # fmt: skip

    def __init__(self, address: int, finish: int, manifest: Manifest, code: Code | None = None) -> None:
        self.address = address
        self.code = code
        self.device: Device = CPU
        self.finish = finish
        self.manifest = manifest
        self.sites = manifest.sites
        self.cost = manifest.cost
        self.lane_counts = manifest.lane_counts
        self.blockwise = manifest.blockwise
        self.updates = manifest.updates
        self._added: words[int] | None = None
        self._sizes: tuple[Reader, list[tuple[int, int]]] | None = None
        self._grouped: dict[tuple[Grid, int], Grid | None] = {}
        self._block_offset = _BYTES_OFFSET + self.updates
        self.by_id = manifest.by_id
        self.changes = manifest.changes
        self.block_dim = manifest.block_dim
        self.reads = manifest.reads
        self.writes = manifest.writes
        self.writes_elements = not set(manifest.pointing).isdisjoint(self.writes)
        self.uses = tuple(sorted({*self.reads, *self.writes}))
        self.fully_overwritten = tuple(
            (k, axes) for k in self.writes if (axes := manifest.params[k].fully_overwritten) is not None
        )
        self.is_in_place = not set(self.reads).isdisjoint(self.writes)
        self.may_share, self.disjoint = bool(self.writes) and len(self.uses) > 1, b""
        self.distinct = manifest.distinct
        self.grids: dict[Any, Grid] = {}
        self.layout = Layout(manifest)
        self.contiguous_cotangents = frozenset(
            p.of for p in manifest.params if p.role == "cotangent" and parse_array_type(p.type).layout == "C"
        )
        if manifest.added:
            self._note_added(manifest)
        self._derivative: DerivativePlan | None = None
        self.accumulations: dict[Any, Any] = {}
        self.extents = Extents(manifest, self.layout) if manifest.accesses else None
        self.regions = Regions(manifest)
        self.races = Races(manifest) if manifest.races else None
        is_certain = not (manifest.stores or manifest.trusted or manifest.unproved)
        self.granted = None if is_certain else TakenForGranted(manifest)
        self.stampers: dict[tuple[int, ...], Executable | None] = {}
        self.stamped: dict[tuple[object, ...], bool | AutodiffError] = {}
        self.looks_ahead = manifest.log is not None or self.is_in_place or manifest.scatters
        self.is_told = not (
            self.by_id or self.writes_elements or self.changes or manifest.log is not None or manifest.scatters
            or manifest.searches or manifest.pointing
        )  # fmt: skip
        self.is_plain = self.is_told and not self.regions.are_known
        self.is_usual = self.is_plain and not self.is_in_place
        self.keeps_nothing = is_certain and not (manifest.saved or manifest.log or manifest.races)
        own = [parse_type(p.type) for p in manifest.params if p.role == "param"]
        arrays = [k for k, t in enumerate(own) if isinstance(t, Array)]
        self.values = tuple([k for k in range(len(own)) if k not in arrays])
        # Where regions are known they depend on numbers.
        self.deciding: Callable[[list[bytes]], tuple[bytes, ...]] = (
            _picking_numbers(arrays, self.values) if self.regions.are_known and self.values else _picking(arrays)
        )
        self.fits: dict[Any, Any] = {}
        self.by_hand: dict[Any, Any] = {}
        self.taken: dict[int, Any] = {}
        self.gathering = Gathering(manifest) if manifest.gather is not None else None
        self.sorts = bool(manifest.sums)

    def _note_added(self, manifest: Manifest) -> None:
        """Note the arrays of which chunks may have private copies."""
        types = [parse_array_type(manifest.params[k].type) for k in manifest.added]
        sizes = [(t.ndim, t.dtype.itemsize // scalar_of(t.dtype).itemsize) for t in types]
        self._sizes = self.layout.shapes(zip(manifest.added, (axes for axes, _ in sizes), strict=True)), sizes
        self._added = copied(
            (self.layout.fields[k].offset, t.ndim, scalar_of(t.dtype), components)
            for k, t, (_, components) in zip(manifest.added, types, sizes, strict=True)
        )

    @property
    def derivative(self) -> DerivativePlan:
        """The residuals that an adjoint reads and the cotangents that it accumulates into."""
        if self._derivative is None:
            self._derivative = DerivativePlan.of(self.manifest)
        return self._derivative

    def name_of(self, index: int) -> str:
        """Return the name of a parameter of the program; a field of a struct has dots in it."""
        return self.manifest.params[index].name

    def bits_of_zeros(self, grid: Grid, known: Collection[int]) -> int:
        """Return the bits of a GPU's header that say which cotangents are zero, given those of which it is known."""
        return 0

    def grid(self, dim: Any, blocks: Blocks = USUAL) -> Grid:
        """Return the grid of a launch over `dim`; the threads of a block count where they work together.

        Raises
        ------
        ValueError
            If `dim` is not a launch dimension.
        LaunchError
            If it does not have the axes that the kernel asks for.
        """
        if self.blockwise:
            return self.grid_of(self._cut_of(dim, blocks))
        # Only what was checked is a key, and equal keys are not always equally good: 2.0 == 2. Launches of tiles are
        # looked up by no integer, as each has to be asked what it counts.
        is_plain = type(dim) is int and not (blocks.tiled or self.manifest.tiled)
        key = dim = dim if is_plain else self.dims_of(dim, blocks)
        found = self.grids.get(key)
        if found is None:
            found = self.grid_of(self._cut_of(dim))
            if len(self.grids) >= _CACHED_DIMS:
                self.grids.clear()
            self.grids[key] = found
        return found

    def _cut_of(self, dim: Any, blocks: Blocks = USUAL) -> ChunkGrid:
        dims = self.dims_of(dim, blocks)
        check_axes(self.manifest.tid_arity, dims)
        check_alone(self.manifest, dims)
        return self.cut(dims, blocks)

    def dims_of(self, dim: Any, blocks: Blocks = USUAL) -> tuple[int, ...]:
        """Return the extents of a launch.

        Where a launch counts blocks and the kernel asks for the threads in them, these are the last extent.

        Raises
        ------
        ValueError
            If `dim` is not a launch dimension.
        """
        dims = normalize_dim(dim)
        if blocks.tiled and self.manifest.tid_arity == len(dims) + 1:
            return (*dims, self.threads_of(blocks))
        return dims

    def threads_of(self, blocks: Blocks) -> int:
        """Return the threads of a block, as its kernel sees them: one where a block works on tiles as a thread."""
        return blocks.block_dim or self.block_dim if self.blockwise else 1

    def cut(self, dims: tuple[int, ...], blocks: Blocks = USUAL) -> ChunkGrid:
        """Return the chunks of a launch, whole blocks where threads work together.

        Raises
        ------
        ValueError
            If it is not whole blocks.
        """
        if not self.blockwise:
            return cut(dims, self.cost, self.lane_counts)
        block_dim = blocks.block_dim or self.block_dim
        return cut_blocks(dims, self.manifest.tid_arity, block_dim, self.cost)

    def grid_of(self, c: ChunkGrid, blocks: Blocks = USUAL) -> Grid:
        """Return the grid of a cut; `blocks` is for GPUs."""
        # Where threads work together the last extent is how many of them.
        dims = c.dims[:-1] if self.blockwise else c.dims
        return Grid(c.n, c.chunk, c.chunks, dims, header(c.dims, c.chunk, _STATUS_ADDRESS))

    def is_settled_by(self, adjoint: Executable) -> bool:
        """Return whether tapes that know the adjoint of its launches keep nothing but these."""
        return self.is_usual or (self.is_told and adjoint.keeps_nothing)

    def check(self, pack: Callable[[], bytes | None]) -> None:
        """Raise a LaunchError if the code does not take these arguments; the CPU's takes all.

        `pack` returns the packed arguments, None where they are not yet made.
        """

    def chosen(self, arguments: bytes) -> Executable:
        """Return the program for these arguments: on a GPU there may be several."""
        return self

    def remember(self, key: Any, found: object) -> None:
        """Cache the choice for launches of one shape."""
        if len(self.accumulations) >= _CACHED_DIMS:
            self.accumulations.clear()
        self.accumulations[key] = found

    @property
    def is_free(self) -> bool:
        """True if the numbers of a launch decide nothing about this adjoint of it."""
        are_free = self.gathering is None or not self.gathering.arguments
        return are_free and self.races is None and self.granted is None

    def fit(self, key: Any, found: object) -> None:
        """Remember what launches with the same deciding bytes need not look for."""
        if len(self.fits) >= _FITTING:
            self.fits.clear()
        self.fits[key] = found

    def run(self, grid: Grid, arguments: bytes) -> None:
        """Run all threads of a launch; `arguments` are the packed parameters without the header."""
        n = grid.n
        if n == 0:
            return
        if self._added is not None and (in_groups := self._groups(grid, arguments)) is not None:
            for step in self._steps(in_groups, arguments, 1, self._added):
                step.run()
            return
        # Partial sums need a buffer for each launch, and their own second pass.
        if self.sites:
            self.run_blocks(grid, [arguments], colours=1)
            return
        # The bytes object itself is the block: its contents lie at a fixed offset from its id, and it is alive during
        # the call.
        block = grid.header + arguments
        pool.entry(self.address, id(block) + self._block_offset, 0, n, grid.size, 0, 1)

    def run_chosen(self, grid: Grid, arguments: bytes) -> None:
        """Run all threads of a launch on arguments that this program was chosen for."""
        self.run(grid, arguments)

    def steps(self, grid: Grid, arguments: bytes, colours: int = 1) -> Steps | None:
        """Return a run in native code, on one argument block, or None if Python has to watch it."""
        in_groups = None if self._added is None else self._groups(grid, arguments)
        return self._steps(in_groups or grid, arguments, colours, None if in_groups is None else self._added)

    def copied_steps(self, grid: Grid, arguments: bytes, colours: int, copied: words[int]) -> Steps | None:
        """Return a native run in which each chunk has copies of some arrays, under the conditions of :meth:`steps`.

        The copies are described by :func:`diffkern.runtime.native.replay.copied`.
        """
        return self._steps(grid, arguments, colours, copied)

    def _steps(self, grid: Grid, arguments: bytes, colours: int, copied: words[int] | None) -> list[Step]:
        n, chunk, chunks = grid.n, grid.size, grid.count
        if n == 0:
            return []
        block = bytearray(grid.header + arguments)
        sums = (chunks * self.sites, self.finish, chunks) if self.sites else (0, 0, 0)
        return [Step(self.address, block, n, chunk, colours, *sums, self.code, self.updates, copied)]

    def _groups(self, grid: Grid, arguments: bytes) -> Grid | None:
        """Return the grid with a chunk for each group of threads that has copies of what the program adds to.

        None where they do not pay: the program then adds atomically, or one thread runs it.
        """
        if grid.count == 1 or self._sizes is None or pool.num_threads() == 1 or not pool.functions():
            return None
        extents, total, at = self._sizes[0](arguments), 0, 0
        for axes, components in self._sizes[1]:
            total += math.prod(extents[at : at + axes]) * components
            at += axes
        key = grid, total
        if key not in self._grouped:
            if len(self._grouped) >= _CACHED_DIMS:
                self._grouped.clear()
            threads = math.prod(grid.dims) // grid.n if self.blockwise else 0
            found = cut_groups(grid.dims, self.cost, self.lane_counts, total, threads)
            self._grouped[key] = None if found is None else self.grid_of(found)
        return self._grouped[key]

    def block(self, grid: Grid, arguments: bytes) -> bytearray:
        """Return the argument block of a launch that repeats without native steps: on the CPU there is none."""
        return bytearray()

    def run_blocks(self, grid: Grid, arguments: list[bytes], colours: int) -> None:
        """Run with one argument block for all chunks or one for each, all at once or in two colours."""
        head, partials = grid.header, None
        if self.sites:
            partials = np.empty(grid.count * self.sites, dtype=np.int64)
            head = with_partials(head, partials.ctypes.data)
        blocks = b"".join([head + packed for packed in arguments])
        address = id(blocks) + _BYTES_OFFSET
        # With one block for all, every chunk reads the same one: a stride of 0.
        stride = len(head) + len(arguments[0]) if len(arguments) > 1 else 0
        # The pool returns when all chunks of a colour have ended, so that chunks next to each other never overlap in
        # time.
        for colour in range(colours):
            pool.run(self.address, address + self.updates, stride, grid.n, grid.size, colour, colours)
        if partials is not None:
            # One chunk of its own: finish(block, 0, chunks).
            pool.run(self.finish, address, 0, grid.count, grid.count)


def _picking_numbers(places: list[int], numbers: tuple[int, ...]) -> Callable[[list[bytes]], tuple[bytes, ...]]:
    """Return the same for arrays and numbers; equal numbers are the same bytes."""
    arrays = _picking(places)

    def pick(parts: list[bytes]) -> tuple[bytes, ...]:
        if len(_numbers) > _MOST_NUMBERS:
            _numbers.clear()
        return *arrays(parts), *[_numbers.setdefault(parts[k], parts[k]) for k in numbers]

    return pick


def _picking(places: list[int]) -> Callable[[list[bytes]], tuple[bytes, ...]]:
    """Return what picks some of the bytes of a launch's leaves."""
    if len(places) > 1:
        return operator.itemgetter(*places)
    return lambda parts: tuple([parts[k] for k in places])
