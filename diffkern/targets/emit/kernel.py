"""The function of a kernel: the skeleton that all targets share. What differs between them are its hooks.

In: a function that has been lowered for the target, and the settings of the program. Out: the LLVM function that runs
all threads it is called for, and what must be known of the module besides its text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from diffkern import abi
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.targets.emit.checks import Checking, Checks
from diffkern.targets.emit.frame import Frame
from diffkern.targets.emit.function import BodyEmitter
from diffkern.targets.emit.output import Output
from diffkern.targets.emit.record import Record
from diffkern.targets.emit.types import PTR

__all__ = ["KernelFrame", "KernelModule", "float_flags", "without_estimates"]


@dataclass(frozen=True, slots=True)
class KernelModule:
    """A kernel as a compiler is given it.

    Attributes
    ----------
    text : str
        The LLVM module.
    symbols : tuple of str
        The functions that are visible from outside.
    sites : int
        Number of sums into uniform addresses.
    check_sites : tuple of Op
        What is checked while running; the number of a site is its position here.
    stamped : tuple of Value
        The array parameters in which the writing threads are noted, in the order of the record.
    outputs : tuple of Op
        What prints; the number of a place is its position here.
    """

    text: str
    symbols: tuple[str, ...]
    sites: int
    check_sites: tuple[Op, ...]
    stamped: tuple[Value, ...]
    outputs: tuple[Op, ...] = field(default=(), kw_only=True)


_FAST = ("reassoc", "nsz", "arcp", "contract", "afn")
"""Fast mathematics with NaN and infinities: a test that depends on one goes one way or the other, not anywhere."""


def float_flags(fn: Function, *, fast_math: bool) -> tuple[str, ...]:
    """LLVM's flags for floating point.

    A replayed value that is compared with a stored one must be the same to the last bit, so there is none then.
    """
    if fn.unfused:
        return ()
    return _FAST if fast_math else ("contract",)


def without_estimates(function: Any, flags: tuple[str, ...]) -> None:
    """Have LLVM divide by square roots with the processor's instructions, under any flags.

    Its own form of a quotient by a root in fast mathematics is an estimate with a step of Newton's method: NaN where
    the root is 0 or infinite, and wrong or infinite for subnormal numbers, depending on the processor.
    """
    if "arcp" in flags:
        # llvmlite's list of attributes lacks those with a value, hence set.add
        set.add(function.attributes, '"reciprocal-estimates"="none"')


class KernelFrame(Frame, ABC):
    """A function of a kernel that runs threads.

    Attributes
    ----------
    record
        Where threads report, and which thread it is; None in release programs that print nothing.
    checks
        What looks for errors at run time; None in release programs.
    output
        What prints; None where nothing is printed.
    """

    record: Record | None = None
    checks: Checks | None = None
    output: Output | None = None

    def emit(self, checking: Checking) -> None:
        """Emit all of the function."""
        self.watch(checking)
        stacks, sums = self.stacks(), self.accumulators()
        body = self.thread()
        body.sums, body.stacks = sums, stacks
        body.record, body.checks, body.output = self.record, self.checks, self.output
        for _ in self.threads(body):
            body.region(self.fn.body)
        self.finish(sums)
        self.builder.ret_void()

    def watch(self, checking: Checking) -> None:
        """Begin what reports, where something does."""
        prints = any(op.name == "output" for op in walk(self.fn.body))
        if checking is Checking.NONE and not prints:
            return
        self.record = Record(self.builder.inttoptr(self.header(abi.STATUS), PTR))
        if checking is not Checking.NONE:
            self.checks = Checks(checking, self.module, self.builder, self.record)
        if prints:
            self.output = Output(self.module, self.builder, self.record)

    @abstractmethod
    def thread(self) -> BodyEmitter:
        """Return what emits the code of a thread, with the memory that it needs."""

    @abstractmethod
    def threads(self, body: BodyEmitter) -> Iterator[None]:
        """Emit the loops around a thread; stop once, where the thread's code belongs, with its index known.

        It does not stop where all threads run in lanes, whose code it emits itself.
        """

    @abstractmethod
    def finish(self, sums: dict[int, list[Any]]) -> None:
        """Emit what follows the loops: what becomes of the sums into uniform addresses."""

    def note(self, thread: Any) -> None:
        """Note the flattened index of the thread, for what it reports."""
        if self.record is not None:
            self.record.thread = thread

    @property
    def checked(self) -> tuple[tuple[Op, ...], tuple[Value, ...]]:
        """The sites of the checks, and the parameters in which writers are noted."""
        return ((), ()) if self.checks is None else (tuple(self.checks.sites), tuple(self.checks.stamps))

    @property
    def printed(self) -> tuple[Op, ...]:
        """What prints, in the order of the numbers."""
        return () if self.output is None else tuple(self.output.sites)
