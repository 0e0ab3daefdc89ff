"""The CUDA target: a function of the IR to PTX and a cubin.

In: any function the verifier accepts, and the symbol it is to have. Out: a :class:`CudaObject` whose kernel takes the
argument block of ``diffkern.abi`` by value.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import llvmlite

from diffkern.analysis.blocks import shared_bytes
from diffkern.analysis.tile_products import TileProduct
from diffkern.errors import CompileError
from diffkern.interrupts import interruptible
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.passes import Context, run
from diffkern.lower.tiles.block import SHARED_BYTES
from diffkern.targets.cuda import toolchain
from diffkern.targets.cuda.body import called
from diffkern.targets.cuda.kernel import emit_kernel
from diffkern.targets.cuda.lowering import lowering
from diffkern.targets.cuda.math import PREFIX
from diffkern.targets.cuda.mathdx import SHARED_LIMIT, Product
from diffkern.targets.emit.checks import Checking

_SHARED_LIMIT = {f"sm_{number}": kib << 10 for number, kib in SHARED_LIMIT.items()}


def shared_limit(arch: str) -> int:
    """Bytes of shared memory that a launch can ask for, for each block."""
    return _SHARED_LIMIT.get(arch, SHARED_BYTES)


@dataclass(frozen=True)
class ProductLibrary:
    """Where the code of matrix products of tiles comes from.

    Attributes
    ----------
    obtain : callable
        Gives the LTO code of each of some products.
    required : bool
        Whether a product that the library does not have is an error; else it is loops.
    """

    obtain: Callable[[Sequence[Product]], Sequence[bytes]]
    required: bool = False


@dataclass(frozen=True)
class CudaObject:
    """A compiled kernel.

    Attributes
    ----------
    cubin : bytes
        Machine code for one architecture.
    ptx : str
        The code it was made of.
    symbols : tuple of str
        The kernel's name.
    shared_bytes : int
        Static shared memory of a block.
    check_sites : tuple of Op
        What is checked while running; the number of a site is its position here.
    stamped : tuple of Value
        The array parameters in which the writing threads are noted, in the order of the record.
    sites : int
        Number of sums that every block adds to memory once.
    dynamic_shared_bytes : int
        Shared memory of a block that the launch has to ask for, beyond the static ``shared_bytes``.
    block_dim : int or None
        The only number of threads in a block for which the code is right; None if any is.
    products : tuple of Product
        The matrix products that are linked in, in program order.
    """

    cubin: bytes
    ptx: str
    symbols: tuple[str, ...]
    shared_bytes: int
    arch: str
    launch_bounds: tuple[int, int] | None
    _source: str
    _library: tuple[str, ...]
    check_sites: tuple[Op, ...] = ()
    stamped: tuple[Value, ...] = ()
    sites: int = 0
    dynamic_shared_bytes: int = 0
    block_dim: int | None = None
    products: tuple[Product, ...] = ()

    @functools.cached_property
    def llvm_ir(self) -> str:
        """The optimised LLVM code."""
        return interruptible(lambda: str(toolchain.optimise(self._source, self.arch, self._library, self.symbols)))

    @functools.cached_property
    def ltoir(self) -> bytes:
        """The kernel as LTO code, for linking with other such code."""
        return interruptible(lambda: toolchain.ltoir(self._source, self.symbols[0], self.arch))


def compile_function(
    fn: Function,
    symbol: str,
    *,
    arch: str = "sm_90",
    fast_math: bool = False,
    checking: Checking = Checking.NONE,
    lineinfo: bool = False,
    launch_bounds: tuple[int, int] | None = None,
    may_alias: bool = True,
    link_with: Sequence[bytes] = (),
    block_dim: int | None = None,
    products: ProductLibrary | None = None,
) -> CudaObject:
    """Compile a function for a GPU; no GPU and no driver is needed.

    Parameters
    ----------
    fn : Function
        A verified function; it is not changed.
    symbol : str
        The name of the kernel. The same function and symbol give the same bytes in every process.
    arch : str, optional
        The architecture, ``sm_75`` to ``sm_120``.
    fast_math : bool, optional
        Let the compiler reassociate and assume that no value is NaN or infinite.
    checking : Checking, optional
        Which mistakes the code looks for while it runs; see ``diffkern.abi`` for how it reports them.
    lineinfo : bool, optional
        Keep the source lines for profilers.
    launch_bounds : (int, int), optional
        The most threads a block will have, and the fewest blocks that are to fit a multiprocessor (0: no wish).
    may_alias : bool, optional
        Whether array parameters may overlap. False promises that no two do.
    link_with : sequence of bytes, optional
        LTO code of functions that the kernel calls; it is inlined.
    block_dim : int, optional
        How many threads every block will have, where matrix products of tiles are to be a library's.
    products : ProductLibrary, optional
        Where the code of matrix products comes from; without, products are loops.

    Raises
    ------
    CompileError
        If an operation has no form on this target, or the CUDA compilers are not installed.
    """
    limit = shared_limit(arch)
    if block_dim is not None and launch_bounds is not None and block_dim > launch_bounds[0]:
        block_dim = None  # no launch can have it
    wanted = {} if products is None or block_dim is None else {"library": _Wanted(products, arch, block_dim)}
    checked = checking is not Checking.NONE
    passes = lowering(limit, may_alias=may_alias, checked=checked, **wanted)
    fn = run(passes, clone_function(fn), Context(verify=checked))
    fixed = fn.threads or (block_dim if any(op.name == "buffer_product" for op in walk(fn.body)) else None)
    if fixed:
        launch_bounds = (fixed, launch_bounds[1] if launch_bounds else 0)
    emit = functools.partial(
        emit_kernel,
        fn,
        symbol,
        triple=toolchain.TRIPLE,
        data_layout=toolchain.DATA_LAYOUT,
        fast_math=fast_math,
        noalias=not may_alias,
        checking=checking,
        launch_bounds=launch_bounds,
        lineinfo=lineinfo,
        arch=arch,
        block_dim=fixed,
    )
    kernel = emit()
    if kernel.shared_bytes > SHARED_BYTES and not fn.dynamic_shared:
        # With the sums of a block its arrays are more than it has without being asked: the launch asks for them.
        fn.dynamic_shared = True
        kernel = emit()
    dynamic = shared_bytes(fn) if fn.dynamic_shared else 0
    if dynamic and kernel.shared_bytes > limit:
        raise CompileError(
            f"the tiles or arrays of kernel {fn.name} take {dynamic} bytes of shared memory and its sums "
            f"{kernel.shared_bytes - dynamic}; a block has {limit} on {arch}",
            loc=fn.loc,
            remedy="use smaller tiles, or a loop over parts of them",
        )
    if products is not None and kernel.products:
        link_with = [*link_with, *products.obtain(kernel.products)]
    text = kernel.text
    library = tuple(sorted(set(re.findall(rf'declare [^@]*@"?({PREFIX}\w+)', text))))

    def machine_code() -> tuple[str, bytes]:
        code = toolchain.ptx(toolchain.optimise(text, arch, library, (symbol,)), arch)
        inputs = [toolchain.ltoir(text, symbol, arch), *link_with] if link_with else [code]
        return code, toolchain.link(inputs, arch, symbol, lineinfo=lineinfo)

    code, cubin = interruptible(machine_code)
    return CudaObject(
        cubin,
        code,
        (symbol,),
        kernel.shared_bytes - dynamic,
        arch,
        launch_bounds,
        kernel.text,
        library,
        kernel.check_sites,
        kernel.stamped,
        kernel.sites,
        dynamic_shared_bytes=dynamic,
        block_dim=fixed,
        products=kernel.products,
    )


def products_of(fn: Function, arch: str, block_dim: int, library: ProductLibrary) -> tuple[Product, ...]:
    """The products that :func:`compile_function` will ask the library for, without compiling anything."""
    wanted = _Wanted(library, arch, block_dim)
    low = run(lowering(shared_limit(arch), wanted), clone_function(fn))
    found = [called(op, block_dim, arch) for op in walk(low.body) if op.name == "buffer_product"]
    return tuple(dict.fromkeys(found))


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


@functools.cache
def target_description() -> dict[str, str]:
    """The compilers' versions: what a cache key must hold besides the program and the architecture."""
    return {"llvmlite": llvmlite.__version__, **toolchain.versions()}
