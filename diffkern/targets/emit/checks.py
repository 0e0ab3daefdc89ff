"""The checks of debug programs at run time, as LLVM; ``diffkern.contracts.abi`` describes the record they report in.

For an op and the values it works on, a check emits code at the builder's position that reports an error, if it is the
first of the launch, and for an access returns whether it may happen. Every place that can report has a number, in the
order of emission.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from diffkern.contracts import abi
from diffkern.ir.nodes import Op, Value
from diffkern.ir.ops.memory import ELEMENT_STORES
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import HELD, SHARED, Array, Scalar
from diffkern.ir.views import Access
from diffkern.process.dataclass import dataclass
from diffkern.targets.emit.memory import ArrayRef, wrap_index
from diffkern.targets.emit.types import I1, I64, PTR, VOID, Builder, i64

_REPORT = "dk_report"


class Checking(enum.Enum):
    """The errors that a program looks for."""

    NONE = "none"
    MEMORY = "memory"  # indices, and two threads that store to one element
    ALL = "all"  # and integer division by zero, and ranges with step zero


class CheckEmitter:
    """Emits checks.

    Parameters
    ----------
    checking
        The checks to emit.
    module, builder
        The place for the code.
    record
        The record of the launch, and the thread.

    Attributes
    ----------
    sites
        The ops that are checked, in the order of their numbers.
    stamps
        The array parameters with plain stores; their position here is that of their stamps in the record.
    """

    def __init__(self, checking: Checking, module: ir.Module, builder: Builder, record: Record) -> None:
        self.checking, self.module, self.builder = checking, module, builder
        self.record, self.noted = record.pointer, record
        self.sites: list[Op] = []
        self.stamps: list[Value] = []

    @property
    def thread(self) -> Any:
        """The flattened index of the thread."""
        return self.noted.thread

    def access(self, op: Op, array: ArrayRef, indices: Sequence[Any]) -> Any:
        """Check an access; return whether it is to happen."""
        b = self.builder
        site = self._site(op)
        wrap = op.attrs.get("wrap", (False,) * len(indices))
        position = [wrap_index(b, i, n) if w else i for i, n, w in zip(indices, array.shape, wrap, strict=True)]
        inside: Any = ir.Constant(I1, 1)
        for i, n in zip(position, array.shape, strict=True):
            inside = b.and_(inside, b.icmp_unsigned("<", i, n))  # a negative index is a huge unsigned one
        within, outside, done = (b.append_basic_block(name) for name in ("within", "outside", "checked"))
        # The report is out of line, so that the usual path stays short.
        b.cbranch(inside, within, outside)
        b.position_at_end(outside)
        self._report(abi.OUT_OF_BOUNDS, site, indices=indices, shape=array.shape)
        b.branch(done)
        b.position_at_end(within)
        # Only an existing element has a stamp.
        alone = self._stamp(op, site, array, indices, position) if _is_stamped(op) else ir.Constant(I1, 1)
        end = b.block
        b.branch(done)
        b.position_at_end(done)
        allowed = b.phi(I1)
        allowed.add_incoming(ir.Constant(I1, 0), outside)
        allowed.add_incoming(alone, end)
        return allowed

    def arithmetic(self, op: Op, args: Sequence[Any], result: Any) -> None:
        """Check a scalar op that was emitted."""
        if self.checking is not Checking.ALL:
            return
        if op.attrs.get("range_step"):
            self._report_if(result, abi.ZERO_STEP, op)
        elif lookup(op.name).divides and _is_integer(op.operands[1]):
            self._report_zero(args[1], abi.ZERO_DIVISION, op)

    def step(self, op: Op, step: Any) -> None:
        """Check the step of a ``for`` loop."""
        if self.checking is Checking.ALL:
            self._report_zero(step, abi.ZERO_STEP, op)

    def assertion(self, op: Op, holds: Any) -> None:
        """Check an assertion."""
        if self.checking is not Checking.NONE:
            self._report_if(self.builder.not_(holds), abi.ASSERTION, op)

    def none_found(self) -> Any:
        """Return whether no thread has found an error so far."""
        b = self.builder
        return b.icmp_unsigned("==", b.load_atomic(self.record, "monotonic", 8, typ=I64), i64(0))

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _site(self, op: Op) -> int:
        self.sites.append(op)
        return len(self.sites) - 1

    def _stamp(self, op: Op, site: int, array: ArrayRef, indices: Sequence[Any], position: Sequence[Any]) -> Any:
        """Leave the thread's stamp on an element; return whether no other thread's was there."""
        b = self.builder
        parameter = Access(op).array
        if parameter not in self.stamps:
            self.stamps.append(parameter)
        slot = self._field(self.record, abi.RECORD_STAMPS + self.stamps.index(parameter))
        stamps = b.load(slot, typ=I64)
        before = b.block
        test, done = b.append_basic_block("stamp"), b.append_basic_block("stamped")
        # A launch without stamps has a null address here.
        b.cbranch(b.icmp_unsigned("!=", stamps, i64(0)), test, done)
        b.position_at_end(test)
        flat: Any = i64(0)
        for i, n in zip(position, array.shape, strict=True):
            flat = b.add(b.mul(flat, n), i)
        own = b.add(self.thread, i64(1))
        element = b.gep(b.inttoptr(stamps, PTR), [flat], source_etype=I64)
        # Exchanged atomically, so that of two threads at least one sees the other's stamp.
        old = b.atomic_rmw("xchg", element, own, "monotonic")
        other = b.and_(b.icmp_unsigned("!=", old, i64(0)), b.icmp_unsigned("!=", old, own))
        with b.if_then(other):
            self._report(abi.TWO_WRITERS, site, b.sub(old, i64(1)), indices, array.shape)
        alone = b.not_(other)
        end = b.block
        b.branch(done)
        b.position_at_end(done)
        result = b.phi(I1)
        result.add_incoming(ir.Constant(I1, 1), before)
        result.add_incoming(alone, end)
        return result

    def _report_zero(self, value: Any, code: int, op: Op) -> None:
        # A literal divisor other than zero needs no test.
        if not (isinstance(value, ir.Constant) and value.constant != 0):
            self._report_if(self.builder.icmp_unsigned("==", value, ir.Constant(value.type, 0)), code, op)

    def _report_if(self, condition: Any, code: int, op: Op) -> None:
        with self.builder.if_then(condition):
            self._report(code, self._site(op))

    def _report(
        self, code: int, site: int, other: Any = None, indices: Sequence[Any] = (), shape: Sequence[Any] = ()
    ) -> None:
        index, extent = ([*values, *(i64(0),) * abi.MAX_DIMS][: abi.MAX_DIMS] for values in (indices, shape))
        fields = [i64(code), i64(site), self.thread, i64(0) if other is None else other, *index, *extent]
        self.builder.call(self._report_function(), [self.record, *fields])

    def _field(self, record: Any, k: int) -> Any:
        return self.builder.gep(record, [i64(k)], source_etype=I64)

    def _report_function(self) -> Any:
        """Return ``void dk_report(ptr record, int64 fields...)``: fill in the record unless another thread has."""
        known = self.module.globals.get(_REPORT)
        if known is not None:
            return known
        fn = ir.Function(self.module, ir.FunctionType(VOID, [PTR, *[I64] * abi.RECORD_ERROR]), _REPORT)
        fn.linkage = "internal"
        for attribute in ("noinline", "cold", "nounwind"):
            fn.attributes.add(attribute)
        record, *fields = fn.args
        b = ir.IRBuilder(fn.append_basic_block("entry"))
        # The first thread to exchange the code owns the record; later errors are dropped.
        claimed = b.cmpxchg(record, i64(0), fields[abi.RECORD_CODE], "monotonic", "monotonic")
        with b.if_then(b.extract_value(claimed, 1)):
            for k, value in enumerate(fields):
                if k != abi.RECORD_CODE:
                    b.store(value, b.gep(record, [i64(k)], source_etype=I64))
        b.ret_void()
        return fn


def _is_stamped(op: Op) -> bool:
    """Return whether two threads must not both execute an op: a plain store to an array of the launch."""
    t = op.operands[0].type
    return op.name in ELEMENT_STORES and isinstance(t, Array) and t.layout not in (SHARED, HELD)


def _is_integer(v: Value) -> bool:
    return isinstance(v.type, Scalar) and v.type.is_integer


# -- the record of a launch's threads ----------------------------------------------------------------------------------
# The record in which the threads of a program report, and the thread whose code is being emitted.
#
# It is found by the header of the argument block, and shared by ``checks`` and ``output``.


@dataclass(slots=True)
class Record:
    """The record of a launch, as ``diffkern.contracts.abi`` describes it.

    Attributes
    ----------
    pointer
        Its address.
    thread
        Flattened index of the thread, a 64-bit value.
    """

    pointer: Any
    thread: Any = None
