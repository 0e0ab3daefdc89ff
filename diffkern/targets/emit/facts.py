"""Facts about a function that emission needs before it starts.

For a function without composite mathematics, :func:`analyse` finds the values that are needed as exact 64-bit indices,
the sites that are summed per chunk, the size of the loop stacks, and the literals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from diffkern.analysis.sums import needed_for, uniform_sums, used_values
from diffkern.analysis.uniformity import launch_values
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.buffer import NEW_BUFFERS
from diffkern.ir.ops.memory import ELEMENTS, NEW_STACKS
from diffkern.ir.ops.scalar import CASTS, LITERALS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Scalar, Stack, is_exact_index
from diffkern.ir.views import Access
from diffkern.process.dataclass import dataclass

__all__ = ["FunctionFacts", "analyse", "invariant_ops", "stack_size", "used_values"]


@dataclass(slots=True)
class FunctionFacts:
    """Facts about a function.

    Attributes
    ----------
    invariant
        Values that are the same for every thread, each with the op that computes it (None for a parameter).
    exact
        Integer results from which an index is computed: they are computed once more in 64 bits, where nothing wraps.
    reduced
        ``atomic`` and ``accumulate`` ops whose address is the same for all threads: summed per chunk.
    extremes
        Minima and maxima of such an address that are taken per chunk, if a target does so.
    stack_bytes
        Bytes of loop stacks per nesting level; stacks of one level are never alive together.
    buffers
        The thread's memory for its tiles.
    literals
        The different floating-point literals, each of which a vectorised loop keeps in a register or on the stack.
    """

    invariant: dict[Value, Op | None] = field(default_factory=dict)
    exact: set[Value] = field(default_factory=set)
    reduced: list[Op] = field(default_factory=list)
    extremes: list[Op] = field(default_factory=list)
    stack_bytes: dict[int, int] = field(default_factory=dict)
    buffers: list[Value] = field(default_factory=list)
    literals: set[float] = field(default_factory=set)


def analyse(fn: Function) -> FunctionFacts:
    """Collect the facts."""
    facts = FunctionFacts()
    ops = list(walk(fn.body))
    for op in ops:
        # Each literal of a vectorised loop occupies a register or is loaded from the stack.
        if op.name in LITERALS and op.attrs["type"].is_float:
            facts.literals.add(op.attrs["value"])
        elif op.name in NEW_BUFFERS:
            facts.buffers.append(op.result)
        elif op.name in NEW_STACKS:
            t = op.attrs["type"]
            facts.stack_bytes[t.level] = max(facts.stack_bytes.get(t.level, 0), stack_size(t))
    facts.exact = _exact(ops)
    facts.invariant = launch_values(fn)
    # Summed per chunk: such an address would otherwise be updated atomically by every thread.
    facts.reduced = uniform_sums(fn, facts.invariant, used_values(fn))
    return facts


def stack_size(t: Stack) -> int:
    """Return the bytes of a loop stack: per field a block of all slots, padded to 8 bytes."""
    return sum((f.itemsize * t.slots + 7) // 8 * 8 for f in t.fields)


def _exact(ops: Iterable[Op]) -> set[Value]:
    wanted: set[Value] = set()
    exact: set[Value] = set()
    # From uses to definitions, so that an index makes the sums and products before it exact as well.
    for op in reversed(list(ops)):
        if op.name in ELEMENTS:
            wanted.update(Access(op).index)
        elif lookup(op.name).affine or op.name in CASTS:
            (result,) = op.results
            if result in wanted and all(is_exact_index(v.type) for v in (result, *op.operands)):
                # A narrowing cast wraps, so the value before it is not the index.
                if op.name in CASTS and _bits(result) < _bits(op.operands[0]):
                    continue
                exact.add(result)
                wanted.update(op.operands)
    return exact


def _bits(v: Value) -> int:
    return v.type.bits if isinstance(v.type, Scalar) else 0


def invariant_ops(op: Op, facts: FunctionFacts) -> list[Op]:
    """Return the ops that compute the indices of an access, definitions before uses."""
    return needed_for(op, facts.invariant)
