"""The checkpoint schedule as an LLVM function: how far to advance before the next snapshot.

Binomial checkpointing (Griewank and Walther, *Algorithm 799: revolve*, ACM TOMS 26, 2000). With ``s`` slots and each
step advanced over at most ``r`` times, ``C(s + r, s)`` steps can be reversed. The twin in Python is
``diffkern.printing.prims.schedule``; both do the same integer arithmetic.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from diffkern.targets.emit.types import I64, i64

LIMIT = 2**31 - 1
"""Longer sweeps are scheduled as if they had this many steps, so that no product leaves 64 bits."""

_NAME = "dk_next_checkpoint"


def next_function(module: ir.Module) -> Any:
    """``int64 next(int64 cur, int64 it, int64 free)``, defined in the module on first use.

    The common case, a slot for every step, is inlined; the schedule stays out of line, because a kernel with many
    loops calls it at many places.
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
    b.ret(b.add(cur, b.call(_define_schedule(module), [steps, free])))
    return fn


def _define_schedule(module: ir.Module) -> Any:
    fn = ir.Function(module, ir.FunctionType(I64, [I64, I64]), "dk_checkpoint_split")
    fn.linkage = "internal"
    fn.attributes.add("noinline")
    fn.attributes.add("nounwind")
    steps, free = fn.args
    b = ir.IRBuilder(fn.append_basic_block("entry"))

    def least(x: Any, y: Any) -> Any:
        return b.select(b.icmp_signed("<", x, y), x, y)

    def most(x: Any, y: Any) -> Any:
        return b.select(b.icmp_signed(">", x, y), x, y)

    n = least(steps, i64(LIMIT))
    s = most(free, i64(1))
    with b.if_then(b.icmp_signed(">=", s, n)):
        b.ret(i64(1))
    with b.if_then(b.icmp_signed("==", s, i64(1))):
        b.ret(b.sub(n, i64(1)))
    entry = b.block
    loop, done = b.append_basic_block("loop"), b.append_basic_block("done")
    b.branch(loop)
    b.position_at_end(loop)
    # reach(r) = C(s + r, s); before is reach(r - 1). Stops at the first reach >= n.
    r, before = b.phi(I64), b.phi(I64)
    reach = b.sdiv(b.mul(before, b.add(s, r)), r)
    enough = b.icmp_signed(">=", reach, n)
    r.add_incoming(i64(1), entry)
    r.add_incoming(b.add(r, i64(1)), loop)
    before.add_incoming(i64(1), entry)
    before.add_incoming(reach, loop)
    b.cbranch(enough, done, loop)
    b.position_at_end(done)
    # C(s - 1 + r - 1, s - 1) steps are within reach of the other slots with one sweep less.
    others = b.sdiv(b.mul(before, s), b.add(s, b.sub(r, i64(1))))
    m = least(before, b.sub(n, others))
    b.ret(most(i64(1), least(m, b.sub(n, i64(1)))))
    return fn
