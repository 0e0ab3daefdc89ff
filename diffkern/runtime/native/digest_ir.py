"""A digest of contiguous memory in native code.

In: an address, and a range in bytes that the pool cuts into chunks. Out: 64 bits for each chunk. Every step is a
bijection of the state and of the bytes it takes, so that a change within 8 bytes always shows; others are missed with
a probability of about 2**-64.
"""

from __future__ import annotations

from diffkern.runtime.native.builder import I64, VOID, Code, Module, Word

__all__ = ["add_digest"]

_FACTOR = 11400714785074694791
_STARTS = (2870177450012600261, 9029957443421411467, 5533983203021451, 67280421310721)


def add_digest(m: Module) -> None:
    """Add ``dk_digest_bytes``, a kernel whose block has source, where the digests go, and the length of a chunk."""
    made, c = m.function("dk_digest_bytes", VOID, [I64] * 3, is_exported=True)
    block, low, high = made.args
    source, goal, chunk = c.loads(block, 3)
    lanes = [c.variable(c.word(start)) for start in _STARTS]
    at = c.variable(low)
    with c.forever() as stop:
        end = c.add(at.get(), 8 * len(lanes))
        stop(c.compare(">", end, high))
        for k, lane in enumerate(lanes):
            lane.set(_mixed(c, lane.get(), c.load_unaligned(c.add(source, at.get()), 8 * k)))
        at.set(end)
    total = c.variable(low)
    for lane in lanes:
        total.set(_mixed(c, total.get(), lane.get()))
    with c.loop(high, at.get()) as k:
        total.set(_mixed(c, total.get(), c.load8(source, k)))
    c.store(total.get(), goal, c.mul(c.div(low, chunk), 8))
    c.b.ret_void()


def _mixed(c: Code, state: Word, taken: Word) -> Word:
    product = c.mul(c.b.xor(state, taken), _FACTOR)
    return c.b.xor(product, c.b.lshr(product, c.word(29)))
