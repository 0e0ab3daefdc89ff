"""Output of threads, as LLVM: each text goes as a few words into the buffer that ``diffkern.contracts.abi`` describes.

For an op that prints and its values, code at the builder's position reserves space in the buffer and stores the words
there, or counts that there was none. Every op has a number, in the order of emission.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from diffkern.contracts import abi
from diffkern.ir.nodes import Op
from diffkern.ir.types import Kind, Scalar
from diffkern.targets.emit.checks import Record
from diffkern.targets.emit.types import F64, I64, PTR, Builder, i64

__all__ = ["OutputEmitter"]

_ROOM = "dk_room"


class OutputEmitter:
    """Emits prints.

    Parameters
    ----------
    module, builder
        The place for the code.
    record
        The record of the launch, and the thread.

    Attributes
    ----------
    sites
        The ops that print, in the order of their numbers.
    """

    def __init__(self, module: ir.Module, builder: Builder, record: Record) -> None:
        self.module, self.builder, self.record = module, builder, record
        self.sites: list[Op] = []

    def within(self, builder: Builder, record: Record) -> OutputEmitter:
        """Return an emitter for another function of the program, which goes on with the numbers."""
        made = OutputEmitter(self.module, builder, record)
        made.sites = self.sites
        return made

    def write(self, op: Op, values: Sequence[Any]) -> None:
        """Print a text."""
        b = self.builder
        self.sites.append(op)
        # An entry names its op by number, then the thread; the values follow.
        words = [i64(len(self.sites)), self.record.thread]
        words += [_word(b, v.type, x) for v, x in zip(op.operands, values, strict=True)]
        place = b.call(self._room(), [self.record.pointer, i64(len(words))])
        with b.if_then(b.icmp_unsigned("!=", place, i64(0)), likely=True):
            start = b.inttoptr(place, PTR)
            for k, word in enumerate(words):
                b.store(word, b.gep(start, [i64(k)], source_etype=I64))

    def _room(self) -> Any:
        """Return ``int64 dk_room(ptr record, int64 words)``: the address of so many free words; 0 if there are none."""
        known = self.module.globals.get(_ROOM)
        if known is not None:
            return known
        fn = ir.Function(self.module, ir.FunctionType(I64, [PTR, I64]), _ROOM)
        fn.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            fn.attributes.add(attribute)
        record, words = fn.args
        b = ir.IRBuilder(fn.append_basic_block("entry"))
        with b.if_then(b.icmp_unsigned("==", b.ptrtoint(record, I64), i64(0))):  # the caller takes no reports
            b.ret(i64(0))
        address = b.load(b.gep(record, [i64(abi.RECORD_OUTPUT)], source_etype=I64), typ=I64)
        with b.if_then(b.icmp_unsigned("==", address, i64(0))):
            b.ret(i64(0))
        buffer = b.inttoptr(address, PTR)
        start, size, lost = (
            b.gep(buffer, [i64(k)], source_etype=I64) for k in (abi.OUTPUT_NEXT, abi.OUTPUT_WORDS, abi.OUTPUT_LOST)
        )
        # Space is reserved before it is known to suffice; the reader ignores what lies beyond the end.
        first = b.atomic_rmw("add", start, words, "monotonic")
        with b.if_then(b.icmp_unsigned(">", b.add(first, words), b.load(size, typ=I64))):
            b.atomic_rmw("add", lost, i64(1), "monotonic")
            b.ret(i64(0))
        b.ret(b.add(address, b.mul(first, i64(8))))
        return fn


def _word(b: Builder, t: Any, x: Any) -> Any:
    """Return a number as the bits of an int64."""
    assert isinstance(t, Scalar)
    if t.is_float:
        return b.bitcast(x if x.type == F64 else b.fpext(x, F64), I64)
    if t.bits == 64:
        return x
    return b.sext(x, I64) if t.kind is Kind.INT else b.zext(x, I64)
