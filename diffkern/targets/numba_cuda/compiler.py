"""The CUDA target by way of numba-cuda: a function of the IR to readable source, LTO code, PTX and a cubin.

In and out as of :mod:`diffkern.targets.cuda.compiler`: the same passes, argument block and facts. What is compiled is
the text that is printed. Numba-cuda makes LLVM modules of it, libNVVM LTO code of these, and nvJitLink inlines matrix
products of a library into that. The cubin is assembled from the PTX that is kept.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from diffkern.analysis.blocks import SHARED_BYTES, shared_bytes
from diffkern.errors import CompileError
from diffkern.interrupts import interruptible
from diffkern.ir.nodes import Function, walk
from diffkern.ir.types import Array, Type
from diffkern.lower.cuda_plan import cuda_plan
from diffkern.printing.cuda import library_products, to_cuda_python
from diffkern.printing.python import function_name
from diffkern.targets.cuda import toolchain
from diffkern.targets.cuda.architecture import CudaArchitecture, taken
from diffkern.targets.cuda.body import called
from diffkern.targets.cuda.kernel import alignment
from diffkern.targets.emit.checks import Checking
from diffkern.targets.emit.kernel import KernelModule, float_flags
from diffkern.targets.numba_cuda.bindings import to_llvm
from diffkern.targets.numba_cuda.entry import entry_of
from diffkern.targets.numba_cuda.ptx import without_old_values
from diffkern.targets.numba_cuda.symbols import canonical
from diffkern.targets.target import USUAL, Compiled, Settings

__all__ = ["NumbaCudaTarget", "target"]

COMPILED_FOR = "sm_75"
"""What LTO code is made for: nvJitLink takes it for every later architecture."""

TAKE_LLVM = 'take compiler="llvm"'


class NumbaCudaTarget(CudaArchitecture):
    """An architecture of NVIDIA's GPUs, by numba-cuda."""

    def emit(self, fn: Function, symbol: str, settings: Settings = USUAL) -> Printed:
        low = self.lowered(fn, settings)
        _check(low, settings)
        multiplies = any(op.name == "buffer_product" for op in walk(low.body))
        fixed = low.threads or (settings.block_dim if multiplies else None)
        sites = len(cuda_plan(low).sums)
        return Printed(to_cuda_python(low), (symbol,), sites, (), (), low, fixed)

    def compile(self, fn: Function, symbol: str, settings: Settings = USUAL) -> Compiled:
        printed = self.emit(fn, symbol, settings)
        low, bounds = printed.fn, settings.launch_bounds
        if printed.block_dim:
            bounds = (printed.block_dim, bounds[1] if bounds else 0)
        types, flags = tuple(p.type for p in low.params), float_flags(low, fast_math=settings.fast_math)
        fuse = not low.unfused
        multiplied = {
            name: called(op, settings.block_dim or 0, self.name) for name, op in library_products(low).items()
        }
        products = tuple(multiplied.values())
        linked = settings.products.obtain(products) if settings.products and products else ()
        named = tuple((name, (one.symbol, one.c == "float64")) for name, one in multiplied.items())

        def machine_code() -> tuple[str, str, bytes]:
            made = _lto_code(
                printed.text, function_name(low), types, symbol, flags, bounds, not settings.may_alias, fuse, named
            )
            ptx = without_old_values(toolchain.link([made.code, *linked], self.name, symbol, fuse=fuse))
            return made.text, ptx, toolchain.assemble(ptx, self.name, symbol)

        text, ptx, cubin = interruptible(machine_code)
        return Compiled(
            cubin,
            (symbol,),
            lambda: text,
            lambda: ptx,
            printed.sites,
            (),
            (),
            alignments=tuple(alignment(t) if isinstance(t, Array) else None for t in types),
            block_dim=printed.block_dim,
            gpu=taken(cubin, ptx, symbol, 0, products),
            files={"kernel.ptx": ptx.encode()},
        )


@dataclass(frozen=True)
class _Lto:
    """LTO code and the LLVM modules it was made of."""

    code: bytes
    text: str


@functools.lru_cache(maxsize=16)
def _lto_code(
    text: str,
    name: str,
    types: tuple[Type, ...],
    symbol: str,
    flags: tuple[str, ...],
    bounds: tuple[int, int] | None,
    no_alias: bool,
    fuse: bool,
    products: tuple[tuple[str, tuple[str, bool]], ...],
) -> _Lto:
    """Compile a printed program as far as all architectures have in common, once for those that are asked for."""
    made = to_llvm(
        text,
        name,
        entry_of(types),
        architecture=(int(COMPILED_FOR[3:-1]), int(COMPILED_FOR[-1])),
        flags=flags,
        launch_bounds=bounds,
        no_alias=no_alias,
        alignments={k: alignment(t) for k, t in enumerate(types) if isinstance(t, Array)},
        products=dict(products),
    )
    modules = canonical(made.texts, made.kernel, symbol)
    return _Lto(toolchain.lto_code(modules, symbol, COMPILED_FOR, fuse=fuse), "\n".join(modules))


@dataclass(frozen=True, slots=True)
class Printed(KernelModule):
    """A program as numba-cuda is given it.

    Attributes
    ----------
    fn : Function
        What was printed.
    block_dim : int or None
        The only number of threads in a block for which it is right; None if any is.
    """

    fn: Function
    block_dim: int | None


def _check(fn: Function, settings: Settings) -> None:
    """Refuse what has no form here."""
    size = shared_bytes(fn)
    if size > SHARED_BYTES:
        raise CompileError(
            f"the tiles or arrays of kernel {fn.name} take {size} bytes of shared memory; with numba-cuda a block has "
            f"{SHARED_BYTES}",
            loc=fn.loc,
            remedy=f"{TAKE_LLVM}, or use smaller tiles",
        )
    if settings.checking is not Checking.NONE:
        raise CompileError(
            f"numba-cuda has no form for the checks of debug mode in {fn.name!r}", loc=fn.loc, remedy=TAKE_LLVM
        )
    if settings.lineinfo:
        raise CompileError(f"numba-cuda does not know the source lines of {fn.name!r}", loc=fn.loc, remedy=TAKE_LLVM)
    if settings.max_registers is not None:
        raise CompileError(f"numba-cuda does not take max_registers for {fn.name!r}", loc=fn.loc, remedy=TAKE_LLVM)


def target(name: str) -> NumbaCudaTarget:
    """Return the target of an architecture."""
    return NumbaCudaTarget(name)
