"""The checkpoint schedule as an LLVM function: how far to advance before the next snapshot.

Binomial checkpointing (Griewank and Walther, *Algorithm 799: revolve*, ACM TOMS 26, 2000). With ``s`` slots and each
step advanced over at most ``r`` times, ``C(s + r, s)`` steps can be reversed. The twin in Python is
``diffkern.printing.prims.schedule``; both give the same numbers, here by divisions of 32 bits.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from diffkern.targets.emit.types import I32, I64, i32, i64

LIMIT = 2**31 - 1
"""Longer sweeps are scheduled as if they had this many steps, so that every number of them has 32 bits."""

_NAME = "dk_next_checkpoint"


def next_function(module: ir.Module) -> Any:
    """Return ``int64 next(int64 cur, int64 it, int64 free)``, defined in the module on first use.

    The common case, a slot for every step, is inlined. The schedule stays out of line on a processor, because a kernel
    with many loops calls it at many places; on a GPU a call costs the registers of all values that are alive around it.
    """
    known = module.globals.get(_NAME)
    return known if known is not None else _define_next(module)


def _define_next(module: ir.Module) -> Any:
    fn = ir.Function(module, ir.FunctionType(I64, [I64, I64, I64]), _NAME)
    fn.linkage = "internal"
    fn.attributes.add("alwaysinline")
    cur, it, free = fn.args
    b = ir.IRBuilder(fn.append_basic_block("entry"))
    steps = b.add(b.sub(it, cur), i64(1))
    with b.if_then(b.icmp_signed(">=", free, steps)):
        b.ret(b.add(cur, i64(1)))
    with b.if_then(b.icmp_signed("<=", free, i64(0))):
        b.ret(b.add(it, i64(1)))
    # Fewer slots than steps, of which at most LIMIT count.
    n = b.trunc(b.select(b.icmp_signed("<", steps, i64(LIMIT)), steps, i64(LIMIT)), I32)
    s = b.trunc(b.select(b.icmp_signed("<", free, i64(LIMIT)), free, i64(LIMIT)), I32)
    b.ret(b.add(cur, b.zext(b.call(_define_schedule(module), [n, s]), I64)))
    return fn


def _define_schedule(module: ir.Module) -> Any:
    fn = ir.Function(module, ir.FunctionType(I32, [I32, I32]), "dk_checkpoint_split")
    fn.linkage = "internal"
    fn.attributes.add("alwaysinline" if module.triple.startswith("nvptx") else "noinline")
    fn.attributes.add("nounwind")
    n, s = fn.args
    b = ir.IRBuilder(fn.append_basic_block("entry"))
    # A slot for every step: the next snapshot is one step ahead.
    with b.if_then(b.icmp_unsigned(">=", s, n)):
        b.ret(i32(1))
    # With the last slot there is nothing to choose: one snapshot at the last step.
    with b.if_then(b.icmp_unsigned("==", s, i32(1))):
        b.ret(b.sub(n, i32(1)))
    entry = b.block
    loop, done = b.append_basic_block("loop"), b.append_basic_block("done")
    b.branch(loop)
    b.position_at_end(loop)
    # before is C(s + r - 1, s), the steps within reach with r - 1 sweeps; others is C(s + r - 2, s - 1).
    r, before, others = b.phi(I32), b.phi(I32), b.phi(I32)
    # more is C(s + r - 1, s - 1) = before * s / r, the steps that one sweep more adds. It may take 64 bits, but its
    # divisions take 32: the quotient before / r and what is left of it are multiplied by s separately. What is left is
    # less than r, and (r - 1) * s is less than before, for all s and r of at least 2.
    quotient = b.udiv(before, r)
    left = b.sub(before, b.mul(quotient, r))
    more = b.add(b.mul(b.zext(quotient, I64), b.zext(s, I64)), b.zext(b.udiv(b.mul(left, s), r), I64))
    reach = b.add(b.zext(before, I64), more)
    enough = b.icmp_unsigned(">=", reach, b.zext(n, I64))
    r.add_incoming(i32(1), entry)
    r.add_incoming(b.add(r, i32(1)), loop)
    before.add_incoming(i32(1), entry)
    before.add_incoming(b.trunc(reach, I32), loop)
    others.add_incoming(i32(1), entry)
    others.add_incoming(b.trunc(more, I32), loop)
    b.cbranch(enough, done, loop)
    b.position_at_end(done)
    # others are within reach of the other slots with one sweep less. Both numbers lie between 1 and n - 1.
    rest = b.sub(n, others)
    b.ret(b.select(b.icmp_unsigned("<", before, rest), before, rest))
    return fn
