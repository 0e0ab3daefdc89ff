"""The CUDA target: a function of the IR to PTX and a cubin.

Any function that the verifier accepts, with the symbol it is to have, becomes a
:class:`~diffkern.targets.target.CompiledKernel` whose kernel takes the argument block of ``diffkern.contracts.abi`` by
value. No GPU and no driver is needed.

LLVM makes PTX, and the cubin is assembled from the PTX that is kept. Kernels that call a library are compiled by
:mod:`diffkern.targets.numba_cuda`.
"""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from typing import Any

from diffkern.analysis.blocks import SHARED_BYTES
from diffkern.errors import CompileError
from diffkern.ir.nodes import Function
from diffkern.ir.types import Array
from diffkern.lower.pointed import arrays_at_addresses
from diffkern.process.interrupts import interruptible
from diffkern.targets.cuda import toolchain
from diffkern.targets.cuda.architecture import CudaArchitecture, taken
from diffkern.targets.cuda.kernel import CudaModule, alignment, emit_kernel
from diffkern.targets.cuda.math import PREFIX
from diffkern.targets.cuda.registers import exchange_half
from diffkern.targets.emit.types import Isa
from diffkern.targets.target import USUAL, CompiledKernel, Settings

__all__ = ["CudaTarget", "target"]

_ISA = Isa(
    toolchain.TRIPLE,
    toolchain.DATA_LAYOUT,
    halves=True,
    signed_halves=True,
    atomic_bits=32,
    exchange_bits=16,
    exchange=exchange_half,
)
_LIBRARY = re.compile(rf'declare [^@]*@"?({PREFIX}\w+)')


class CudaTarget(CudaArchitecture):
    """An architecture of NVIDIA's GPUs, by LLVM."""

    adds_exactly = True

    def pointed(self, fn: Function) -> Function:
        return arrays_at_addresses(fn)

    def emit(self, fn: Function, symbol: str, settings: Settings = USUAL) -> CudaModule:
        fn = self.lowered(fn, settings)
        # A kernel whose threads hold numbers of tiles is right for one block size only, which bounds its registers too.
        fixed = fn.threads or None
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

    def compile(self, fn: Function, symbol: str, settings: Settings = USUAL) -> CompiledKernel:
        kernel, arch = self.emit(fn, symbol, settings), self.name
        # Only the functions of libdevice that the text declares are linked in.
        library = tuple(sorted(set(_LIBRARY.findall(kernel.text))))

        def optimised() -> Any:
            return toolchain.optimise(kernel.text, arch, library, kernel.symbols)

        # Both in one interruptible step: the PTX that is kept must be the one the cubin comes from.
        def machine_code() -> tuple[str, bytes]:
            text = toolchain.ptx(optimised(), arch)
            return text, toolchain.assemble(text, arch, symbol, lineinfo=settings.lineinfo)

        ptx, cubin = interruptible(machine_code)
        return CompiledKernel(
            cubin,
            kernel.symbols,
            lambda: interruptible(lambda: str(optimised())),
            lambda: ptx,
            kernel.sites,
            kernel.check_sites,
            kernel.stamped,
            alignments=tuple(alignment(p.type) if isinstance(p.type, Array) else None for p in fn.params),
            block_dim=kernel.block_dim,
            gpu=taken(
                cubin,
                ptx,
                kernel.symbols[0],
                kernel.dynamic_shared_bytes,
                elements=kernel.elements,
                zeroed=kernel.zeroed,
            ),
            files={"kernel.ptx": ptx.encode()},
            outputs=kernel.outputs,
            exact=kernel.exact,
        )


def target(name: str) -> CudaTarget:
    """Return the target of an architecture."""
    return CudaTarget(name)
