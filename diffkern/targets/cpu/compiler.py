"""The CPU target: a function of the IR to object code.

In: any function the verifier accepts, and the symbol it is to have. Out: a :class:`CompiledObject` whose functions
follow ``diffkern.abi`` and which needs nothing from outside but functions of libm.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, Op, Value
from diffkern.ir.passes import Context, Pass, run
from diffkern.ir.stages import CPU, LOOPS, PROGRAM, SERIAL
from diffkern.lower.composites import expand_composites
from diffkern.lower.fission import to_blocks
from diffkern.lower.tiles.serial import lower_tiles
from diffkern.opt.dce import eliminate
from diffkern.targets.cpu import object_code as target
from diffkern.targets.cpu.kernel import emit_kernel
from diffkern.targets.emit.checks import Checking

__all__ = ["LOWERING", "Checking", "CompiledObject", "compile_function", "target_description"]

LOWERING = (
    Pass("tiles", PROGRAM, LOOPS, lower_tiles),
    Pass("blocks", LOOPS, SERIAL, to_blocks),
    Pass("composites", SERIAL, CPU, expand_composites),
    Pass("dce", CPU, CPU, eliminate),
)
"""The passes from a program to the form in which it is compiled."""


@dataclass(frozen=True)
class CompiledObject:
    """A compiled kernel.

    Attributes
    ----------
    object_code : bytes
        A relocatable object of the platform's format.
    symbols : tuple of str
        The kernel's function, then ``<symbol>_finish`` if it has partial sums.
    sites : int
        8-byte partial sums that each chunk writes.
    llvm_ir : str
        The optimised LLVM code.
    check_sites : tuple of Op
        What is checked while running; the number of a site is its position here.
    stamped : tuple of Value
        The array parameters in which the writing threads are noted, in the order of the record.
    """

    object_code: bytes
    symbols: tuple[str, ...]
    sites: int
    _source: str
    _weight: int
    _target: target.Target
    _questions: float
    check_sites: tuple[Op, ...] = ()
    stamped: tuple[Value, ...] = ()

    @functools.cached_property
    def llvm_ir(self) -> str:
        return target.optimised_text(self._source, self._weight, self._target, self._questions)

    def asm(self) -> str:
        """The assembly, for reading."""
        return target.assembly(self.llvm_ir, self._target)


def compile_function(
    fn: Function,
    symbol: str,
    *,
    fast_math: bool = False,
    noalias: bool = False,
    target_name: str = "native",
    checking: Checking = Checking.NONE,
) -> CompiledObject:
    """Compile a function, by default for this machine.

    Parameters
    ----------
    fn : Function
        A verified function; it is not changed.
    symbol : str
        The name of the compiled function. The same function and symbol give the same bytes in every process.
    fast_math : bool, optional
        Let LLVM reassociate and assume that no value is NaN or infinite. Without it only a product and a sum may be
        fused, and sums into uniform addresses have no fixed order within a chunk.
    noalias : bool, optional
        Promise that no two array parameters overlap, which drops the checks before vector loops.
    target_name : str, optional
        The processor: ``native``, ``x86-64-v2``, ``x86-64-v3``, ``x86-64-v4`` or ``aarch64``.
    checking : Checking, optional
        Which mistakes the code looks for while it runs; see ``diffkern.abi`` for how it reports them.

    Raises
    ------
    CompileError
        If an operation has no form on this target.
    """
    t = target.target(target_name)
    fn = run(LOWERING, clone_function(fn), Context(verify=checking is not Checking.NONE))
    kernel = emit_kernel(
        fn,
        symbol,
        triple=t.triple,
        data_layout=t.data_layout,
        fast_math=fast_math,
        noalias=noalias,
        fma=t.fma,
        halves=target.converts_halves(t),
        checking=checking,
        vector_bytes=target.vector_bytes(t),
    )
    code = target.object_code(target.optimise(kernel.text, kernel.weight, t, kernel.questions), t)
    return CompiledObject(
        code,
        kernel.symbols,
        kernel.sites,
        kernel.text,
        kernel.weight,
        t,
        kernel.questions,
        kernel.check_sites,
        kernel.stamped,
    )


def target_description() -> dict[str, str]:
    """The target and the compilers' versions: what a cache key must hold besides the program."""
    return target.description()
