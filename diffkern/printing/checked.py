"""A function of the IR as a numba-cuda kernel that checks for errors at run time.

A function in its compiled form for CUDA becomes source as :mod:`diffkern.printing.cuda` prints it, with one more
parameter ``record``, the record of ``diffkern.contracts.abi``: an access that is an error is skipped, and a skipped
load gives 0. The checks are those that debug programs by LLVM have.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffkern.contracts import abi
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.memory import ELEMENT_STORES, ELEMENTS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import SHARED, Array, Scalar, Type, scalar_of
from diffkern.ir.views import Access, For
from diffkern.printing.cuda import CudaWriter
from diffkern.printing.cuda_memory import as_tuple
from diffkern.printing.expression import ATOM, Expr
from diffkern.printing.python import import_lines

__all__ = ["CHECKS", "CheckedWriter"]

CHECKS = "diffkern.targets.cuda.device_checks"


class CheckedWriter(CudaWriter):
    """Writes a kernel with checks.

    Parameters
    ----------
    fn : Function
        The kernel.
    arithmetic : bool
        Whether to check divisions of integers by zero and ranges with step zero, too.

    Attributes
    ----------
    sites : list of Op
        The ops that are checked, in the order of the numbers.
    stamps : list of Value
        The array parameters with plain stores, in the order of their slots.
    """

    def __init__(self, fn: Function, *, arithmetic: bool) -> None:
        super().__init__(fn)
        self.arithmetic = arithmetic
        self.sites: list[Op] = []
        self.stamps: list[Value] = []
        self.checks: set[str] = set()
        self.record = self.names.fresh("record")
        # The record comes before the kernel's own parameters, as the entry passes it.
        self.parameters = (self.record,)
        self.number = self.names.fresh("thread")
        self.allowed: dict[Op, str] = {}

    def imports(self) -> list[str]:
        return [*super().imports(), import_lines(CHECKS, sorted(self.checks))] if self.checks else super().imports()

    def begin_thread(self) -> None:
        self.emit(f"{self.number} = {self.prim('int64')}({self.thread})")

    # -- checks --------------------------------------------------------------------------------------------------------

    def check(self, name: str) -> str:
        self.checks.add(name)
        return name

    def site(self, op: Op) -> str:
        """Return the record, the number of a place, and the thread, as arguments."""
        self.sites.append(op)
        return f"{self.record}, {len(self.sites) - 1}, {self.number}"

    def report(self, code: int, op: Op, wrong: str) -> None:
        self.sites.append(op)
        arguments = f"{self.record}, {code}, {len(self.sites) - 1}, {self.number}, {wrong}"
        self.emit(f"{self.check('reported')}({arguments})", op)

    def op(self, op: Op, region: Region, position: int) -> None:
        if op.name in ELEMENTS:
            self.access(op, region, position)
            return
        if op.name == "assertion":
            self.report(abi.ASSERTION, op, f"not {self.exprs[op.operands[0]].within(ATOM)}")
            return
        super().op(op, region, position)
        if self.arithmetic and op.attrs.get("range_step"):
            self.report(abi.ZERO_STEP, op, self.exprs[op.result].text)

    def access(self, op: Op, region: Region, position: int) -> None:
        """Write an access that is executed if its element exists, and a store if no other thread stores there."""
        name = self.names.fresh("allowed")
        self.emit(f"{name} = {self.question(op)}", op)
        # A load stays an expression, which gives zero where the access is not allowed.
        if op.results and self.is_used(op.result):
            self.allowed[op] = name
            super().op(op, region, position)
            return
        # A statement without a result is guarded as a whole.
        self.emit(f"if {name}:")
        self.depth += 1
        before = len(self.lines)
        super().op(op, region, position)
        # The access may have been folded into another statement, or be dead.
        if len(self.lines) == before:
            self.emit("pass")
        self.depth -= 1

    def question(self, op: Op) -> str:
        view = Access(op)
        t = view.array.type
        assert isinstance(t, Array)
        wide = self.prim("int64")
        index = as_tuple([f"{wide}({(self.exprs[v].bare or self.exprs[v]).text})" for v in view.index])
        wraps = as_tuple([str(bool(wrap)) for wrap in view.wrap])
        array = self.exprs[view.array].text
        shape = as_tuple([f"{wide}({array}.shape[{k}])" for k in range(t.ndim)])
        if not view.index:
            return "True"
        # Two threads of a block may store to a shared element in different phases, so only other stores are stamped.
        if op.name in ELEMENT_STORES and t.layout != SHARED:
            if view.array not in self.stamps:
                self.stamps.append(view.array)
            slot = self.stamps.index(view.array)
            return f"{self.check('alone')}({self.site(op)}, {index}, {wraps}, {shape}, {slot})"
        return f"{self.check('within')}({self.site(op)}, {index}, {wraps}, {shape})"

    def element(self, t: Type, parts: Sequence[str], op: Op) -> Expr:
        name = self.allowed.get(op)
        if name is None:
            return super().element(t, parts, op)
        zero = self.constant(scalar_of(t), 0).text
        # A conditional expression, so that the element is not read where the check has failed.
        return super().element(t, [f"({part} if {name} else {zero})" for part in parts], op)

    def formula(self, op: Op) -> Expr:
        if self.arithmetic and lookup(op.name).divides and _is_integer(op.operands[1]):
            divisor = self.exprs[op.operands[1]]
            # A literal divisor other than zero needs no check.
            if divisor.literal is None or divisor.text.strip("()-") == "0":
                self.report(abi.ZERO_DIVISION, op, f"{divisor.within(5)} == 0")
        return super().formula(op)

    def loop_for(self, op: Op, region: Region, position: int) -> None:
        step = self.exprs[For(op).step]
        if self.arithmetic and not op.attrs.get("ahead") and step.literal is None:
            self.report(abi.ZERO_STEP, op, f"{step.within(5)} == 0")
        super().loop_for(op, region, position)

    def goes_on(self, condition: Expr) -> Expr:
        # A skipped access may be what the loop waits for.
        return Expr(f"{condition.within(ATOM)} and {self.check('none_found')}({self.record})", 0)


def _is_integer(v: Value) -> bool:
    return isinstance(v.type, Scalar) and v.type.is_integer
