"""Digests of contiguous memory in native code.

For an address, and a range in bytes that the pool cuts into chunks, there are 64 bits for each chunk. Every step is a
bijection of the state and of the bytes it takes, so that a change within 8 bytes always shows; others are missed with
a probability of about 2**-64.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from diffkern.runtime.native.builder import I32, I64, VOID, Code, Module

__all__ = ["digest_ir"]

_FACTOR = 11400714785074694791
_STATES, _LANES = 4, 4  # states that do not wait for each other, of so many words
_VECTOR = ir.VectorType(I64, _LANES)


def digest_ir() -> str:
    """Return the text of a module with ``dk_digest_bytes``.

    That is a kernel whose block has the source, the target of the digests, and the chunk length.
    """
    m = Module("diffkern.digest")
    made, c = m.function("dk_digest_bytes", VOID, [I64] * 3, is_exported=True)
    block, low, high = made.args
    source, target, chunk = c.loads(block, 3)
    # Different initial values keep lanes apart: words that change places give another digest.
    begins = [[_FACTOR * (_LANES * k + lane + 1) % 2**62 for lane in range(_LANES)] for k in range(_STATES)]
    states = [c.variable(ir.Constant(_VECTOR, begin)) for begin in begins]
    at, size = c.variable(low), 8 * _LANES
    # Four vectors in flight hide the latency of the multiplication.
    with c.forever() as stop:
        end = c.add(at.get(), size * _STATES)
        stop(c.compare(">", end, high))
        for k, state in enumerate(states):
            taken = c.load_unaligned(c.add(source, at.get()), size * k, _VECTOR)
            state.set(_mixed(c, state.get(), taken))
        at.set(end)
    first = states[0].get()
    for state in states[1:]:
        first = _mixed(c, first, state.get())
    total = c.variable(low)
    for lane in range(_LANES):
        total.set(_mixed(c, total.get(), c.b.extract_element(first, I32(lane))))
    # The rest: whole words, then bytes.
    with c.forever() as stop:
        end = c.add(at.get(), 8)
        stop(c.compare(">", end, high))
        total.set(_mixed(c, total.get(), c.load_unaligned(source, at.get())))
        at.set(end)
    with c.loop(high, at.get()) as k:
        total.set(_mixed(c, total.get(), c.load8(source, k)))
    c.store(total.get(), target, c.mul(c.div(low, chunk), 8))
    c.b.ret_void()
    return str(m)


def _mixed(c: Code, state: Any, taken: Any) -> Any:
    """Mix a word, or words, into a state: a bijection of either."""
    is_vector = state.type == _VECTOR
    factor, shift = (ir.Constant(state.type, [n] * _LANES if is_vector else n) for n in (_FACTOR, 29))
    # An odd factor and a xor with a right shift are both invertible modulo 2**64.
    product = c.b.mul(c.b.xor(state, taken), factor)
    return c.b.xor(product, c.b.lshr(product, shift))
