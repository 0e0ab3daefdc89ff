"""The common part of the compilers for CUDA: limits, passes, and the resources of a cubin.

A function of the IR, and the settings of a program, give the form that is emitted or printed for an architecture of
NVIDIA's GPUs, the products of tiles that a library computes in it, and the readable source.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

from diffkern.ad.loops import StackBudget
from diffkern.analysis.blocks import SHARED_BYTES
from diffkern.analysis.cuda_plan import finalize_updates
from diffkern.analysis.tile_products import TileProduct
from diffkern.contracts.manifest import Conflict, GpuResources
from diffkern.errors import CompileError
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.buffer import BUFFER_PRODUCTS
from diffkern.ir.passes import Pass, run
from diffkern.ir.stages import BLOCKS, CUDA, PROGRAM
from diffkern.lower.component_loads import load_components
from diffkern.lower.component_stores import store_components
from diffkern.lower.composites import expand_composites
from diffkern.lower.marks import mark_as_written
from diffkern.lower.pointed import elements_at_addresses
from diffkern.lower.polygammas import expand_polygammas
from diffkern.lower.tiles.block import lower_tiles_for_blocks
from diffkern.opt.clears import overwrite_late
from diffkern.opt.cse import eliminate_common
from diffkern.opt.dce import eliminate
from diffkern.opt.fold import decide
from diffkern.opt.hoist import hoist_common
from diffkern.printing.cuda import to_cuda_python
from diffkern.process.dataclass import dataclass
from diffkern.targets.cuda import toolchain
from diffkern.targets.cuda.cubin import declared_local_bytes, resources
from diffkern.targets.cuda.mathdx import SHARED_LIMIT, Product
from diffkern.targets.emit.checks import Checking
from diffkern.targets.target import ProductLibrary, Settings, Target

__all__ = ["CudaArchitecture", "called", "taken"]

STACK_BYTES = 2 * 1024
TILE_STACK_BYTES = 16 * 1024
"""For loops that carry tiles, and for snapshots of shared memory: in the shared memory of a block."""

_SHARED_LIMIT = {f"sm_{number}": kib << 10 for number, kib in SHARED_LIMIT.items()}
_PRINTED = Settings(may_alias=False, launched=False)


class CudaArchitecture(Target):
    """An architecture of NVIDIA's GPUs, ``sm_75`` to ``sm_121``."""

    simt = True
    shared_bytes = SHARED_BYTES

    @property
    def shared_limit(self) -> int:
        """The shared memory that a launch can request for each block, in bytes."""
        return _SHARED_LIMIT.get(self.name, SHARED_BYTES)

    def stack_budget(self, given: int | None, slots: int | None) -> StackBudget:
        stack, tiles = given or STACK_BYTES, given or TILE_STACK_BYTES
        return StackBudget(stack, slots, tiles, block_bytes=TILE_STACK_BYTES, thread_bytes=stack)

    def finalize(
        self, fn: Function, buffers: Sequence[Value], conflicts: Sequence[Conflict], accumulate: str
    ) -> tuple[Conflict, ...]:
        finalize_updates(fn, buffers, conflicts, accumulate)
        return tuple(conflicts)

    def lowering(self, settings: Settings) -> tuple[Pass, ...]:
        return self._lowering(settings, self.pointed)

    def _lowering(self, settings: Settings, pointed: Callable[[Function], Function]) -> tuple[Pass, ...]:
        wanted = self._wanted(settings)
        tiles = partial(lower_tiles_for_blocks, limit=self.shared_limit, may_alias=settings.may_alias)
        # Tiles become blocks of threads first: what follows sees only arrays, loops and barriers.
        passes = (
            Pass("tiles", PROGRAM, BLOCKS, partial(tiles, library=wanted) if wanted else tiles),
            Pass("decided", BLOCKS, BLOCKS, decide),
            Pass("polygammas", BLOCKS, BLOCKS, expand_polygammas),
            Pass("component-loads", BLOCKS, BLOCKS, load_components),
            Pass("component-stores", BLOCKS, BLOCKS, store_components),
            Pass("composites", BLOCKS, CUDA, expand_composites),
            Pass("pointed", CUDA, CUDA, pointed),
            # A component that is not read would make an atomic operation return its old value, and keep a sum from
            # being added up in the block.
            Pass("dce", CUDA, CUDA, eliminate),
        )
        written = Pass("as-written", CUDA, CUDA, mark_as_written)
        if settings.checking is not Checking.NONE:
            return (*passes, written)  # each access stays where the source has it
        shared = (Pass("siblings", CUDA, CUDA, hoist_common), Pass("cse", CUDA, CUDA, eliminate_common))
        # Stores may be delayed only over accesses that are known not to overlap.
        are_apart = settings.launched and not settings.may_alias
        apart = (Pass("overwrites", CUDA, CUDA, overwrite_late),) if are_apart else ()
        return (*passes, *shared, *apart, written)

    def pointed(self, fn: Function) -> Function:
        """Lower accesses of arrays in elements of arrays, in place."""
        return elements_at_addresses(fn)

    def _wanted(self, settings: Settings) -> _Wanted | None:
        """Return a test for products of a library: none where no launch can have their number of threads."""
        library, threads, bounds = settings.products, settings.block_dim, settings.launch_bounds
        # The library's code is made for one block size, which has to be known and allowed.
        if library is None or threads is None or (bounds is not None and threads > bounds[0]):
            return None
        return _Wanted(library, self.name, threads)

    def products(self, fn: Function, settings: Settings) -> tuple[Product, ...]:
        wanted = self._wanted(settings)
        if wanted is None:
            return ()
        low = self.lowered(fn, settings)
        found = [called(op, wanted.threads, self.name) for op in walk(low.body) if op.name in BUFFER_PRODUCTS]
        return tuple(dict.fromkeys(found))

    def source(self, fn: Function, header: Sequence[str]) -> str:
        passes = self._lowering(_PRINTED, elements_at_addresses)
        return to_cuda_python(run(passes, clone_function(fn), _PRINTED.context), header=header)

    def warm_up(self) -> None:
        toolchain.warm_up(self.name)


def taken(
    cubin: bytes,
    ptx: str,
    symbol: str,
    dynamic_shared_bytes: int = 0,
    products: Sequence[Product] = (),
    elements: int = 1,
    zeroed: Sequence[int] = (),
) -> GpuResources:
    """Return the resources a kernel takes on a GPU, from its cubin and the PTX it was assembled from."""
    # Local memory that the PTX declares is arrays; the rest of the stack frame is spilled registers.
    found = resources(cubin)[symbol]
    declared = -(-declared_local_bytes(ptx) // 8) * 8  # a frame is made of so many bytes
    return GpuResources(
        registers=found.registers,
        stack_bytes=found.stack_bytes,
        spill_bytes=max(0, found.stack_bytes - declared),
        shared_bytes=found.shared_bytes + dynamic_shared_bytes,
        dynamic_shared_bytes=dynamic_shared_bytes,
        products=tuple(product.symbol for product in products),
        elements=elements,
        zeroed=tuple(zeroed),
    )


def called(op: Op, threads: int, arch: str) -> Product:
    """Return the product of the library that a ``buffer_product`` calls."""
    known = {name: value for name, value in op.attrs.items() if name != "add"}
    return Product(**known, threads=threads, arch=arch)


@dataclass(frozen=True)
class _Wanted:
    """A test which products are the library's."""

    library: ProductLibrary
    arch: str
    threads: int

    def __call__(self, product: TileProduct) -> bool:
        try:
            # Whether the library has the product is decided by its own check, which also knows the architecture's
            # limits.
            Product(**dataclasses.asdict(product), threads=self.threads, arch=self.arch).check()
        except CompileError:
            if self.library.required:
                raise
            return False
        return True
