"""The CUDA target by way of numba-cuda: a function of the IR to readable source, LTO code, PTX and a cubin.

It has the interface of :mod:`diffkern.targets.cuda.compiler`: the same passes, argument block and facts. The compiled
text is the printed one. Numba-cuda makes LLVM modules from it, libNVVM LTO code from these, and nvJitLink inlines
matrix products of a library into that. The cubin is assembled from the PTX that is kept.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from diffkern.analysis.cuda_plan import cuda_plan, dynamic_shared_bytes, sum_bytes
from diffkern.errors import CompileError
from diffkern.ir.nodes import Function, walk
from diffkern.ir.ops.buffer import BUFFER_PRODUCTS
from diffkern.ir.types import Array, Type
from diffkern.printing.checked import CheckedWriter
from diffkern.printing.cuda import to_cuda_python
from diffkern.printing.python import function_name
from diffkern.printing.tiles import library_products
from diffkern.process.dataclass import dataclass
from diffkern.process.interrupts import interruptible
from diffkern.targets.cuda import toolchain
from diffkern.targets.cuda.architecture import CudaArchitecture, called, taken
from diffkern.targets.cuda.kernel import alignment
from diffkern.targets.emit.checks import Checking
from diffkern.targets.emit.kernel import KernelModule, float_flags
from diffkern.targets.numba_cuda.bindings import to_llvm
from diffkern.targets.numba_cuda.entry import entry_of
from diffkern.targets.target import USUAL, CompiledKernel, Settings

__all__ = ["NumbaCudaTarget", "canonical", "target", "without_old_values"]

COMPILED_FOR = "sm_75"
"""The architecture of LTO code: nvJitLink accepts it for every later one."""

TAKE_LLVM = 'take compiler="llvm"'


class NumbaCudaTarget(CudaArchitecture):
    """An architecture of NVIDIA's GPUs, by numba-cuda."""

    def emit(self, fn: Function, symbol: str, settings: Settings = USUAL) -> PrintedProgram:
        low = self.lowered(fn, settings)
        _check(low, settings)
        multiplies = any(op.name in BUFFER_PRODUCTS for op in walk(low.body))
        fixed = low.threads or (settings.block_dim if multiplies else None)
        plan = cuda_plan(low)
        dynamic = dynamic_shared_bytes(low, plan)
        if dynamic and dynamic + sum_bytes(plan) > self.shared_limit:
            raise CompileError(
                f"the tiles or arrays of kernel {fn.name} take {dynamic} bytes of shared memory and its sums "
                f"{sum_bytes(plan)}; a block has {self.shared_limit} on {self.name}",
                loc=fn.loc,
                remedy="use smaller tiles, or a loop over parts of them",
            )
        if settings.checking is Checking.NONE:
            return PrintedProgram(to_cuda_python(low), (symbol,), len(plan.sums), (), (), low, fixed, dynamic)
        writer = CheckedWriter(low, arithmetic=settings.checking is Checking.ALL)
        text = writer.module()
        sites, stamps = tuple(writer.sites), tuple(writer.stamps)
        return PrintedProgram(text, (symbol,), len(plan.sums), sites, stamps, low, fixed, dynamic)

    def compile(self, fn: Function, symbol: str, settings: Settings = USUAL) -> CompiledKernel:
        printed = self.emit(fn, symbol, settings)
        low, bounds = printed.fn, settings.launch_bounds
        if printed.block_dim:
            bounds = (printed.block_dim, bounds[1] if bounds else 0)
        # The licence is one for all operations here.
        fuse = settings.fuse_fp and not low.unfused and not any(op.attrs.get("as_written") for op in walk(low.body))
        licence = float_flags(low, fast_math=settings.fast_math)
        types, flags = tuple(p.type for p in low.params), tuple(f for f in licence if fuse or f != "contract")
        multiplied = {
            name: called(op, settings.block_dim or 0, self.name) for name, op in library_products(low).items()
        }
        products = tuple(multiplied.values())
        linked = settings.products.obtain(products) if settings.products and products else ()
        named = tuple((name, (one.symbol, one.c == "float64")) for name, one in multiplied.items())

        def machine_code() -> tuple[str, str, bytes]:
            # Everything the result depends on is an argument, since it is cached.
            made = _lto_code(
                printed.text,
                function_name(low),
                types,
                symbol,
                flags,
                bounds,
                settings.max_registers,
                not settings.may_alias,
                fuse,
                named,
                settings.checking is not Checking.NONE,
            )
            ptx = without_old_values(toolchain.link([made.code, *linked], self.name, symbol, fuse=fuse))
            return made.text, ptx, toolchain.assemble(ptx, self.name, symbol)

        text, ptx, cubin = interruptible(machine_code)
        return CompiledKernel(
            cubin,
            (symbol,),
            lambda: text,
            lambda: ptx,
            printed.sites,
            printed.check_sites,
            printed.stamped,
            alignments=tuple(alignment(t) if isinstance(t, Array) else None for t in types),
            block_dim=printed.block_dim,
            gpu=taken(cubin, ptx, symbol, printed.dynamic_shared_bytes, products),
            files={"kernel.ptx": ptx.encode()},
        )


@dataclass(frozen=True)
class _Lto:
    """LTO code and the LLVM modules it was made from."""

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
    max_registers: int | None,
    no_alias: bool,
    fuse: bool,
    products: tuple[tuple[str, tuple[str, bool]], ...],
    checked: bool,
) -> _Lto:
    """Compile a printed program as far as all architectures have in common, once for several of them."""
    made = to_llvm(
        text,
        name,
        entry_of(types, record=checked),
        architecture=(int(COMPILED_FOR[3:-1]), int(COMPILED_FOR[-1])),
        flags=flags,
        launch_bounds=bounds,
        max_registers=max_registers,
        no_alias=no_alias,
        alignments={k: alignment(t) for k, t in enumerate(types) if isinstance(t, Array)},
        products=dict(products),
    )
    modules = canonical(made.texts, made.kernel, symbol)
    return _Lto(toolchain.lto_code(modules, symbol, COMPILED_FOR, fuse=fuse), "\n".join(modules))


@dataclass(frozen=True, slots=True)
class PrintedProgram(KernelModule):
    """A program as numba-cuda is given it.

    Attributes
    ----------
    fn : Function
        The printed function.
    block_dim : int or None
        The only number of threads in a block for which it is right; None if any is.
    dynamic_shared_bytes : int
        The shared memory that a launch has to request.
    """

    fn: Function
    block_dim: int | None
    dynamic_shared_bytes: int


def _check(fn: Function, settings: Settings) -> None:
    """Refuse programs that have no form here."""
    remedy = TAKE_LLVM if settings.products is None else "leave it out, or take enable_mathdx_gemm=False"
    printing = next((op for op in walk(fn.body) if op.name == "output"), None)
    if printing is not None:
        raise CompileError(f"numba-cuda has no form for what {fn.name!r} prints", loc=printing.loc, remedy=remedy)
    if settings.lineinfo and settings.products is None:  # a program with a library's products has no other compiler
        raise CompileError(f"numba-cuda does not know the source lines of {fn.name!r}", loc=fn.loc, remedy=TAKE_LLVM)


def target(name: str) -> NumbaCudaTarget:
    """Return the target of an architecture."""
    return NumbaCudaTarget(name)


# -- atomic operations without old values ------------------------------------------------------------------------------
# Replaces ``atom`` by ``red`` in atomic operations whose old value is not read.
#
# It changes PTX with one kernel. Numba's atomic functions return the old value, and the assembler waits for it even if
# no instruction reads it.


_ATOMIC = re.compile(
    r"^(\s*(?:@!?%p\d+ )?)atom((?:\.\w+)*\.(?:add|min|max|and|or|xor|inc|dec)\.\w+)\s+(%\w+), ", re.MULTILINE
)
_REGISTER = re.compile(r"%\w+")


def without_old_values(ptx: str) -> str:
    """Return the text with reductions where an old value is not read."""
    # A register that occurs only once in the text is written and never read.
    uses = Counter(_REGISTER.findall(ptx))

    def quiet(match: re.Match[str]) -> str:
        return f"{match[1]}red{match[2]} \t" if uses[match[3]] == 1 else match[0]

    return _ATOMIC.sub(quiet, ptx)


# -- names of symbols --------------------------------------------------------------------------------------------------
# Names in the modules that numba-cuda makes, made to depend on nothing but the program.
#
# Numba numbers functions and shared arrays over the whole process and keeps modules in sets, so that names and order
# depend on earlier compilations. From LLVM modules as text, of which one has the kernel, ``canonical`` gives the
# modules that the kernel needs in the order in which they refer to one another, with names numbered from the kernel
# on.


_NAME = re.compile(r'@(?:"((?:[^"\\]|\\.)*)"|([\w.$]+))')
_DEFINED = re.compile(r'^(?:define [^@\n]*|(?=@))@(?:"((?:[^"\\]|\\.)*)"|([\w.$]+))', re.MULTILINE)
_COMMENTS = re.compile(r"^;.*\n", re.MULTILINE)
_ENVIRONMENT = re.compile(r'^@"_ZN08NumbaEnv[^\n]*\n', re.MULTILINE)
"""A variable for the interpreter, which nothing on a GPU reads."""


def canonical(modules: Sequence[str], kernel: str, symbol: str, kept: Mapping[str, str] | None = None) -> list[str]:
    """Return the modules in their order, with their names.

    Parameters
    ----------
    modules : sequence of str
        LLVM modules as text.
    kernel : str
        The kernel's name in one of them.
    symbol : str
        The kernel's new name.
    kept : mapping, optional
        More names that are given.
    """
    texts = [_ENVIRONMENT.sub("", _COMMENTS.sub("", text)) for text in modules]
    homes = {a or b: k for k, text in enumerate(texts) for a, b in _DEFINED.findall(text)}
    # Breadth first from the kernel, so that the order follows from the program alone.
    order, waiting = [], [homes[kernel]]
    names: dict[str, str] = {kernel: symbol, **(kept or {})}
    while waiting:
        home = waiting.pop(0)
        if home in order:
            continue
        order.append(home)
        for a, b in _NAME.findall(texts[home]):
            name = a or b
            if name in homes and not name.startswith("llvm."):
                names.setdefault(name, f"{symbol}_{len(names)}")
                waiting.append(homes[name])

    def renamed(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return f'@"{names[name]}"' if name in names else match[0]

    return [_NAME.sub(renamed, texts[home]) for home in order]
