"""The interface of a target: the way from IR to machine code for one kind of processor.

A function as differentiation or the optimiser leaves it becomes a :class:`CompiledKernel`. The counterpart at run time,
which distinguishes its artifacts from those of others and says what can run them, is a
:class:`diffkern.contracts.platforms.Platform`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

from diffkern.ad.loops import StackBudget
from diffkern.contracts.manifest import Conflict, GpuResources
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, Op, Value
from diffkern.ir.passes import Pass, PassOptions, run
from diffkern.process.dataclass import dataclass
from diffkern.targets.emit.checks import Checking
from diffkern.targets.emit.kernel import KernelModule

if TYPE_CHECKING:
    from diffkern.targets.cuda.mathdx import Product

__all__ = ["USUAL", "CompiledKernel", "ProductLibrary", "Settings", "Target"]


@dataclass(frozen=True)
class ProductLibrary:
    """The source of the code of matrix products of tiles.

    Attributes
    ----------
    obtain : callable
        Gives the LTO code of each of some products.
    required : bool
        Whether a product that the library does not have is an error; else it is loops.
    """

    obtain: Callable[[Sequence[Product]], Sequence[bytes]]
    required: bool = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The inputs of a program's compilation besides its function and its target.

    Attributes
    ----------
    fast_math : bool
        Let the compiler reassociate, and on a GPU assume that no value is NaN or infinite. Without it only a product
        and a sum may be fused, and sums into uniform addresses have no fixed order within a chunk.
    fuse_fp : bool
        Whether a product and a sum may be fused at all.
    lanes : bool, optional
        Whether neighbouring threads run in one vector register of a processor, where they can; by default where that is
        likely to pay.
    checking : Checking
        The errors that the code looks for while it runs; see ``diffkern.contracts.abi`` for how it reports them.
    may_alias : bool
        Whether array parameters may overlap. False promises to a GPU's program that no two do.
    launched : bool
        Whether only launches run the program, which check how its arrays overlap; not so for functions that other code
        calls, and for printed source.
    lineinfo : bool
        Keep the source lines for profilers of GPUs.
    launch_bounds : (int, int), optional
        The most threads a block will have, and the fewest blocks that are to fit a multiprocessor (0: no wish).
    max_registers : int, optional
        The most registers that a thread of a GPU may have.
    private_copies : bool
        Whether groups of threads of a processor may add to copies of their own where they add to elements anywhere.
    block_dim : int, optional
        The number of threads of every block, if matrix products of tiles are to be a library's.
    products : ProductLibrary, optional
        The source of the code of matrix products; without one, products are loops.
    exact_sums : bool
        Whether floats that threads of a GPU add to elements are added up exactly, so that their order has no say.
    """

    fast_math: bool = False
    fuse_fp: bool = True
    lanes: bool | None = None
    checking: Checking = Checking.NONE
    may_alias: bool = True
    launched: bool = True
    lineinfo: bool = False
    launch_bounds: tuple[int, int] | None = None
    max_registers: int | None = None
    private_copies: bool = True
    block_dim: int | None = None
    products: ProductLibrary | None = None
    exact_sums: bool = False

    @property
    def context(self) -> PassOptions:
        """The context in which passes run: functions of checking programs are verified between passes."""
        return PassOptions(verify=self.checking is not Checking.NONE)


USUAL = Settings()


@dataclass(frozen=True)
class CompiledKernel:
    """A compiled kernel.

    Attributes
    ----------
    code : bytes
        The machine code as a file: a relocatable object, or a cubin.
    symbols : tuple of str
        The kernel's function, then ``<symbol>_finish`` if a launch on a processor has partial sums.
    llvm_ir : callable
        Returns the optimised LLVM code as text.
    assembly : callable
        Returns the assembly as text: a processor's, or the PTX that the cubin was made from.
    sites : int
        Sums into uniform addresses: 8-byte partial sums that each chunk writes, or that each block adds to memory.
    check_sites : tuple of Op
        The ops that are checked at run time; the number of a site is its position here.
    stamped : tuple of Value
        The array parameters in which the writing threads are noted, in the order of the record.
    alignments : tuple of (int or None)
        For each parameter the bytes of which an array's address has to be a multiple; None if any address will do.
    block_dim : int or None
        The only number of threads in a block for which the code is right; None if any is.
    gpu : GpuResources or None
        The resources it takes on a GPU.
    files : mapping of str to bytes
        Further artifacts that are kept, by file name.
    outputs : tuple of Op
        The ops that print; the number of a place is its position here.
    updates : bool
        Whether the code turns atomic updates into plain ones where it is told that its launch is alone.
    added : tuple of int
        Parameters that threads only add to, at any element, if there are no other atomic updates.
    faster : float
        The factor by which a thread's work shrinks because several run in a vector register.
    lane_counts : tuple of int
        The numbers of threads that run in vector registers, larger ones first; empty if they run one by one.
    exact : tuple of int
        Parameters whose elements are added up exactly (:mod:`diffkern.contracts.exact_sums`).
    """

    code: bytes
    symbols: tuple[str, ...]
    llvm_ir: Callable[[], str]
    assembly: Callable[[], str]
    sites: int
    check_sites: tuple[Op, ...]
    stamped: tuple[Value, ...]
    alignments: tuple[int | None, ...]
    block_dim: int | None = None
    gpu: GpuResources | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    outputs: tuple[Op, ...] = ()
    updates: bool = False
    added: tuple[int, ...] = ()
    faster: float = 1.0
    lane_counts: tuple[int, ...] = ()
    exact: tuple[int, ...] = ()


@dataclass(frozen=True)
class Target(ABC):
    """A kind of processor to compile for.

    Attributes
    ----------
    name : str
        As in the key: ``native``, ``x86-64-v3``, ``sm_90``.
    simt : bool
        Whether the threads of a block run at one time. Else a block is a loop, or where it works on tiles one thread.
    shared_bytes : int or None
        Bytes of shared memory that a kernel has without asking; None without a limit.
    adds_exactly : bool
        Whether it has exact sums.
    """

    name: str
    simt: ClassVar[bool]
    adds_exactly: ClassVar[bool] = False
    shared_bytes: ClassVar[int | None]

    @abstractmethod
    def stack_budget(self, given: int | None, slots: int | None) -> StackBudget:
        """Return the memory for the states of loops: the target's own, or bytes or slots that a kernel is given."""

    @abstractmethod
    def finalize(
        self, fn: Function, buffers: Sequence[Value], conflicts: Sequence[Conflict], accumulate: str
    ) -> tuple[Conflict, ...]:
        """Set the modes of an adjoint's accumulations, in place; return the conflicts left to the run time."""

    @abstractmethod
    def lowering(self, settings: Settings) -> tuple[Pass, ...]:
        """Return the passes from a program to the form that is emitted."""

    def lowered(self, fn: Function, settings: Settings) -> Function:
        """Return a copy of a program in the form that is emitted."""
        # A copy, as the same function may be lowered for several targets and settings.
        return run(self.lowering(settings), clone_function(fn), settings.context)

    @abstractmethod
    def emit(self, fn: Function, symbol: str, settings: Settings = USUAL) -> KernelModule:
        """Return the compiler's input for a function, which is not changed.

        Raises
        ------
        CompileError
            If an operation has no form on this target.
        """

    @abstractmethod
    def compile(self, fn: Function, symbol: str, settings: Settings = USUAL) -> CompiledKernel:
        """Compile a function; the same function, symbol and settings give the same bytes in every process.

        Raises
        ------
        CompileError
            As :meth:`emit`, and if a compiler is not installed.
        """

    @abstractmethod
    def source(self, fn: Function, header: Sequence[str]) -> str:
        """Return a program, which is not changed, as readable Python."""

    def products(self, fn: Function, settings: Settings) -> tuple[Product, ...]:
        """Return the products that :meth:`compile` will ask the library for, without compiling anything."""
        return ()

    def threads(self, fn: Function, settings: Settings) -> str:
        """Return a description of how the threads of a program run."""
        return "each thread is one of the machine's"

    def warm_up(self) -> None:  # noqa: B027
        """Load the compilers, so that processes forked from this one have them."""
