"""The CUDA target: a function of the IR to PTX and a cubin.

In: any function the verifier accepts, and the symbol it is to have. Out: a :class:`~diffkern.targets.target.Compiled`
whose kernel takes the argument block of ``diffkern.abi`` by value. No GPU and no driver is needed.

PTX is made by LLVM, or where matrix products of a library are to be inlined by NVIDIA's compilers, which read the same
module. In both cases the cubin is assembled from the one PTX that is kept.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from diffkern.ad.loops import StackBudget
from diffkern.analysis.blocks import SHARED_BYTES
from diffkern.analysis.tile_products import TileProduct
from diffkern.errors import CompileError
from diffkern.interrupts import interruptible
from diffkern.ir.nodes import Function, Value, walk
from diffkern.ir.passes import Pass
from diffkern.ir.stages import BLOCKS, CUDA, PROGRAM
from diffkern.ir.types import Array
from diffkern.lower.composites import expand_composites
from diffkern.lower.cuda_plan import finalize_updates
from diffkern.lower.tiles.block import lower_tiles_for_blocks
from diffkern.manifest import Conflict, GpuResources
from diffkern.opt.cse import eliminate_common
from diffkern.opt.dce import eliminate
from diffkern.opt.siblings import hoist_common
from diffkern.printing.cuda import to_cuda_python
from diffkern.targets.cuda import toolchain
from diffkern.targets.cuda.body import called
from diffkern.targets.cuda.cubin import declared_local_bytes, resources
from diffkern.targets.cuda.kernel import CudaModule, alignment, emit_kernel
from diffkern.targets.cuda.math import PREFIX
from diffkern.targets.cuda.mathdx import SHARED_LIMIT, Product
from diffkern.targets.emit.checks import Checking
from diffkern.targets.emit.types import Isa
from diffkern.targets.target import USUAL, Compiled, ProductLibrary, Settings, Target

__all__ = ["CudaTarget", "target"]

STACK_BYTES = 2 * 1024
TILE_STACK_BYTES = 16 * 1024
"""For loops that carry tiles, and for snapshots of shared memory: in the shared memory of a block."""

_ISA = Isa(toolchain.TRIPLE, toolchain.DATA_LAYOUT, halves=True, signed_halves=True, atomic_bits=32)
_SHARED_LIMIT = {f"sm_{number}": kib << 10 for number, kib in SHARED_LIMIT.items()}
_PRINTED = Settings(may_alias=False)
_LIBRARY = re.compile(rf'declare [^@]*@"?({PREFIX}\w+)')


class CudaTarget(Target):
    """An architecture of NVIDIA's GPUs, ``sm_75`` to ``sm_121``."""

    simt = True
    shared_bytes = SHARED_BYTES

    @property
    def shared_limit(self) -> int:
        """Bytes of shared memory that a launch can ask for, for each block."""
        return _SHARED_LIMIT.get(self.name, SHARED_BYTES)

    def stack_budget(self, given: int | None, slots: int | None) -> StackBudget:
        stack, tiles = given or STACK_BYTES, given or TILE_STACK_BYTES
        return StackBudget(stack, slots, tiles, block_bytes=TILE_STACK_BYTES, thread_bytes=stack)

    def settle(
        self, fn: Function, buffers: Sequence[Value], conflicts: Sequence[Conflict], accumulate: str
    ) -> tuple[Conflict, ...]:
        finalize_updates(fn, buffers, conflicts, accumulate)
        return tuple(conflicts)

    def lowering(self, settings: Settings) -> tuple[Pass, ...]:
        wanted = self._wanted(settings)
        tiles = partial(lower_tiles_for_blocks, limit=self.shared_limit, may_alias=settings.may_alias)
        passes = (
            Pass("tiles", PROGRAM, BLOCKS, partial(tiles, library=wanted) if wanted else tiles),
            Pass("composites", BLOCKS, CUDA, expand_composites),
            # A component that nobody reads would make an atomic operation return its old value, and keep a sum from
            # being added up in the block.
            Pass("dce", CUDA, CUDA, eliminate),
        )
        if settings.checking is not Checking.NONE:
            return passes  # each access stays where the source has it
        return (*passes, Pass("siblings", CUDA, CUDA, hoist_common), Pass("cse", CUDA, CUDA, eliminate_common))

    def _wanted(self, settings: Settings) -> _Wanted | None:
        """Which products are a library's: none where no launch can have the number of threads they are for."""
        library, threads, bounds = settings.products, settings.block_dim, settings.launch_bounds
        if library is None or threads is None or (bounds is not None and threads > bounds[0]):
            return None
        return _Wanted(library, self.name, threads)

    def emit(self, fn: Function, symbol: str, settings: Settings = USUAL) -> CudaModule:
        fn = self.lowered(fn, settings)
        multiplies = any(op.name == "buffer_product" for op in walk(fn.body))
        fixed = fn.threads or (settings.block_dim if multiplies else None)
        if fixed:
            fewest = settings.launch_bounds[1] if settings.launch_bounds else 0
            settings = dataclasses.replace(settings, launch_bounds=(fixed, fewest))
        emit = partial(emit_kernel, fn, symbol, _ISA, settings, arch=self.name, block_dim=fixed)
        kernel = emit()
        if kernel.shared_bytes > SHARED_BYTES and not kernel.dynamic_shared_bytes:
            # With the sums of a block its arrays are more than it has without being asked: the launch asks for them.
            fn.dynamic_shared = True
            kernel = emit()
        dynamic = kernel.dynamic_shared_bytes
        if dynamic and kernel.shared_bytes > self.shared_limit:
            raise CompileError(
                f"the tiles or arrays of kernel {fn.name} take {dynamic} bytes of shared memory and its sums "
                f"{kernel.shared_bytes - dynamic}; a block has {self.shared_limit} on {self.name}",
                loc=fn.loc,
                remedy="use smaller tiles, or a loop over parts of them",
            )
        return kernel

    def compile(self, fn: Function, symbol: str, settings: Settings = USUAL) -> Compiled:
        kernel, arch = self.emit(fn, symbol, settings), self.name
        library = tuple(sorted(set(_LIBRARY.findall(kernel.text))))
        linked = settings.products.obtain(kernel.products) if settings.products and kernel.products else ()

        def optimised() -> Any:
            return toolchain.optimise(kernel.text, arch, library, (symbol,))

        def machine_code() -> tuple[str, bytes]:
            if linked:
                text = toolchain.link([toolchain.ltoir(kernel.module, symbol, arch), *linked], arch, symbol)
            else:
                text = toolchain.ptx(optimised(), arch)
            return text, toolchain.assemble(text, arch, symbol, lineinfo=settings.lineinfo)

        ptx, cubin = interruptible(machine_code)
        return Compiled(
            cubin,
            kernel.symbols,
            lambda: interruptible(lambda: str(optimised())),
            lambda: ptx,
            kernel.sites,
            kernel.check_sites,
            kernel.stamped,
            alignments=tuple(alignment(p.type) if isinstance(p.type, Array) else None for p in fn.params),
            block_dim=kernel.block_dim,
            gpu=_taken(cubin, ptx, kernel),
            files={"kernel.ptx": ptx.encode()},
        )

    def products(self, fn: Function, settings: Settings) -> tuple[Product, ...]:
        wanted = self._wanted(settings)
        if wanted is None:
            return ()
        low = self.lowered(fn, settings)
        found = [called(op, wanted.threads, self.name) for op in walk(low.body) if op.name == "buffer_product"]
        return tuple(dict.fromkeys(found))

    def source(self, fn: Function, header: Sequence[str]) -> str:
        return to_cuda_python(self.lowered(fn, _PRINTED), header=header)

    def warm_up(self) -> None:
        toolchain.warm_up(self.name)


def _taken(cubin: bytes, ptx: str, kernel: CudaModule) -> GpuResources:
    taken = resources(cubin)[kernel.symbols[0]]
    return GpuResources(
        registers=taken.registers,
        stack_bytes=taken.stack_bytes,
        spill_bytes=max(0, taken.stack_bytes - declared_local_bytes(ptx)),
        shared_bytes=taken.shared_bytes + kernel.dynamic_shared_bytes,
        dynamic_shared_bytes=kernel.dynamic_shared_bytes,
        products=tuple(product.symbol for product in kernel.products),
    )


@dataclass(frozen=True)
class _Wanted:
    """Which products are the library's."""

    library: ProductLibrary
    arch: str
    threads: int

    def __call__(self, product: TileProduct) -> bool:
        try:
            Product(**dataclasses.asdict(product), threads=self.threads, arch=self.arch).check()
        except CompileError:
            if self.library.required:
                raise
            return False
        return True


def target(name: str) -> CudaTarget:
    """Return the target of an architecture."""
    return CudaTarget(name)
