"""The function of a kernel: the skeleton that all targets share. What differs between them are its hooks.

In: a function that has been lowered for the target, and the settings of the program. Out: the LLVM function that runs
all threads it is called for, and what must be known of the module besides its text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from diffkern import abi
from diffkern.ir.nodes import Function, Op, Value
from diffkern.targets.emit.checks import Checking, Checks
from diffkern.targets.emit.frame import Frame
from diffkern.targets.emit.function import BodyEmitter

__all__ = ["KernelFrame", "KernelModule", "float_flags"]


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
    """

    text: str
    symbols: tuple[str, ...]
    sites: int
    check_sites: tuple[Op, ...]
    stamped: tuple[Value, ...]


def float_flags(fn: Function, *, fast_math: bool) -> tuple[str, ...]:
    """LLVM's flags for floating point.

    A replayed value that is compared with a stored one must be the same to the last bit, so there is none then.
    """
    return () if fn.unfused else ("fast",) if fast_math else ("contract",)


class KernelFrame(Frame, ABC):
    """A function of a kernel that runs threads.

    Attributes
    ----------
    checks
        What looks for errors at run time; None in release programs.
    """

    checks: Checks | None = None

    def emit(self, checking: Checking) -> None:
        """Emit all of the function."""
        if checking is not Checking.NONE:
            self.checks = Checks(checking, self.module, self.builder, self.header(abi.STATUS))
        stacks, sums = self.stacks(), self.accumulators()
        body = self.thread()
        body.sums, body.stacks, body.checks = sums, stacks, self.checks
        for _ in self.threads(body):
            body.region(self.fn.body)
        self.finish(sums)
        self.builder.ret_void()

    @abstractmethod
    def thread(self) -> BodyEmitter:
        """Return what emits the code of a thread, with the memory that it needs."""

    @abstractmethod
    def threads(self, body: BodyEmitter) -> Iterator[None]:
        """Emit the loops around a thread; stop once, where the thread's code belongs, with its index known."""

    @abstractmethod
    def finish(self, sums: dict[int, list[Any]]) -> None:
        """Emit what follows the loops: what becomes of the sums into uniform addresses."""

    def note(self, thread: Any) -> None:
        """Tell the checks the flattened index of the thread."""
        if self.checks is not None:
            self.checks.thread = thread

    @property
    def checked(self) -> tuple[tuple[Op, ...], tuple[Value, ...]]:
        """The sites of the checks, and the parameters in which writers are noted."""
        return ((), ()) if self.checks is None else (tuple(self.checks.sites), tuple(self.checks.stamps))
