"""The function of a kernel: the skeleton that all targets share, with hooks for their differences.

For a function that has been lowered for the target, and the settings of the program, it emits the LLVM function that
runs all threads it is called for, and collects the facts about the module that its text does not show.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from diffkern.contracts import abi
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.process.dataclass import dataclass
from diffkern.targets.emit.checks import CheckEmitter, Checking, Record
from diffkern.targets.emit.frame import Frame
from diffkern.targets.emit.function import BodyEmitter
from diffkern.targets.emit.output import OutputEmitter
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
        The ops that are checked at run time; the number of a site is its position here.
    stamped : tuple of Value
        The array parameters in which the writing threads are noted, in the order of the record.
    outputs : tuple of Op
        The ops that print; the number of a place is its position here.
    """

    text: str
    symbols: tuple[str, ...]
    sites: int
    check_sites: tuple[Op, ...]
    stamped: tuple[Value, ...]
    outputs: tuple[Op, ...] = field(default=(), kw_only=True)


_FAST = ("reassoc", "nsz", "arcp", "contract", "afn")
"""Fast mathematics with NaN and infinities: a test that depends on one goes one way or the other, not anywhere."""


def float_flags(fn: Function, *, fast_math: bool, fuse: bool = True) -> tuple[str, ...]:
    """Return LLVM's flags for floating point; without `fuse` products and sums are rounded by themselves.

    A replayed value that is compared with a stored one must be the same to the last bit, so there are none then.
    """
    if fn.unfused:
        return ()
    flags = _FAST if fast_math else ("contract",)
    return flags if fuse else tuple([flag for flag in flags if flag != "contract"])


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
        The record of reports, and the current thread; None in release programs that print nothing.
    checks
        Emits the checks at run time; None in release programs.
    output
        Emits prints; None if nothing is printed.
    """

    record: Record | None = None
    checks: CheckEmitter | None = None
    output: OutputEmitter | None = None

    def emit(self, checking: Checking) -> None:
        """Emit the whole function."""
        self.watch(checking)
        # Stacks and accumulators are allocated at the entry, before any loop.
        stacks, sums = self.stacks(), self.accumulators()
        body = self.thread()
        body.sums, body.stacks = sums, stacks
        body.record, body.checks, body.output = self.record, self.checks, self.output
        # The target's loops are emitted around the body; leaving the iteration closes them.
        for _ in self.threads(body):
            body.region(self.fn.body)
        self.finish(sums)
        self.builder.ret_void()

    def watch(self, checking: Checking) -> None:
        """Set up the record, if anything reports."""
        # Release programs without prints do not even read the record's address.
        prints = any(op.name == "output" for op in walk(self.fn.body))
        if checking is Checking.NONE and not prints:
            return
        self.record = Record(self.builder.inttoptr(self.header(abi.STATUS), PTR))
        if checking is not Checking.NONE:
            self.checks = CheckEmitter(checking, self.module, self.builder, self.record)
        if prints:
            self.output = OutputEmitter(self.module, self.builder, self.record)

    @abstractmethod
    def thread(self) -> BodyEmitter:
        """Return the emitter of a thread's code, with the memory that it needs."""

    @abstractmethod
    def threads(self, body: BodyEmitter) -> Iterator[None]:
        """Emit the loops around a thread; yield once, where the thread's code belongs, with its index known.

        It does not yield if all threads run in lanes, whose code it emits itself.
        """

    @abstractmethod
    def finish(self, sums: dict[int, list[Any]]) -> None:
        """Emit the code behind the loops: the sums into uniform addresses are added up."""

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
        """The ops that print, in the order of their numbers."""
        return () if self.output is None else tuple(self.output.sites)
