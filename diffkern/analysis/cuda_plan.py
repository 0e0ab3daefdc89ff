"""The memory plan of a GPU launch, made once for both the LLVM code and the readable source.

From a function, and for an adjoint from the results of ``analysis.conflicts`` about its cotangents, :func:`cuda_plan`
makes a :class:`CudaPlan` with the form of each update of an array element:

``PLAIN``   load, add, store: no other thread of the launch touches the element
``SUM``     the address is the same for all threads: each thread adds up its own, the block adds those up, and one
            atomic addition per block goes to memory
``RED``     an atomic whose old value is not read
``ATOMIC``  an atomic whose old value is read

On a GPU there are no chunks that run in order, so neither two colours nor private copies help: updates that may race
are atomic.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence, Set

from diffkern.analysis.blocks import SHARED_BYTES, blockwise_op, is_simt, shared_bytes
from diffkern.analysis.conflicts import use_atomics
from diffkern.analysis.shared_updates import finalize_shared_updates
from diffkern.analysis.sums import needed_for, uniform_sums, used_values
from diffkern.analysis.uniformity import launch_values
from diffkern.contracts.manifest import Conflict
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ACCUMULATES, ELEMENT_ACCUMULATES, ELEMENT_ATOMICS
from diffkern.ir.types import Array, Element, scalar_of, value_type
from diffkern.ir.views import Access
from diffkern.process.dataclass import dataclass

__all__ = ["CudaPlan", "UpdateWay", "cuda_plan", "dynamic_shared_bytes", "finalize_updates", "sum_bytes", "update_of"]


_WARPS = 32
"""The most that a block has."""


class UpdateWay(enum.Enum):
    """The ways in which a thread changes an element that has to be read first."""

    PLAIN = "plain"
    SUM = "sum"
    RED = "red"
    ATOMIC = "atomic"


@dataclass(frozen=True, slots=True)
class CudaPlan:
    """The decisions about one function.

    Attributes
    ----------
    sums
        The ops whose values each thread adds up for itself, in program order.
    updates
        The form of each ``atomic`` and ``accumulate`` op.
    invariant
        Values that are the same for all threads, definitions before uses, each with its op (None for a parameter).
    blockwise
        Whether threads of a block cooperate (barriers, shared arrays): a launch is then whole blocks of one size, and a
        block's threads walk the grid together.
    """

    sums: tuple[Op, ...]
    updates: Mapping[Op, UpdateWay]
    invariant: Mapping[Value, Op | None]
    blockwise: bool

    def address_ops(self, op: Op) -> list[Op]:
        """Return the ops that compute the address of a sum once more after the threads' loop."""
        return needed_for(op, dict(self.invariant))


def finalize_updates(
    fn: Function, buffers: Sequence[Value], conflicts: Sequence[Conflict], accumulate: str = "plain"
) -> None:
    """Set the modes of an adjoint's accumulations to those that are safe on a GPU, in place.

    Parameters
    ----------
    fn
        An adjoint after ``analyse_conflicts``.
    buffers, conflicts
        Its cotangent parameters and the conflict of each.
    accumulate
        ``"atomic"`` if the launch invalidates the analysis: buffers overlap, a stride is 0, or the launch has more axes
        than the kernel asks for.
    """
    summed = {Access(op).array for op in walk(fn.body) if op.name in ACCUMULATES and op.attrs["mode"] == "reduce"}
    racing = [
        b
        for b, c in zip(buffers, conflicts, strict=True)
        # A block that has ended adds its sum while other blocks still run.
        if accumulate == "atomic" or c.kind in ("bounded", "general") or b in summed
    ]
    use_atomics(fn, racing)
    if is_simt(fn):
        finalize_shared_updates(fn)


def cuda_plan(fn: Function) -> CudaPlan:
    """Return the decisions about a function whose modes are final."""
    invariant, used = launch_values(fn), used_values(fn)
    sums = tuple(uniform_sums(fn, invariant, used))
    updates: dict[Op, UpdateWay] = {}
    for op in walk(fn.body):
        update = update_of(op, used)
        if update is not None:
            updates[op] = update
    # Sums override what update_of has found for the same ops.
    updates.update(dict.fromkeys(sums, UpdateWay.SUM))
    return CudaPlan(sums, updates, invariant, blockwise_op(fn) is not None)


def update_of(op: Op, used: Set[Value]) -> UpdateWay | None:
    """Return the form of an update that is not a sum; None for other ops.

    Parameters
    ----------
    op
        Any op of a function whose modes are final.
    used
        The values that are read.
    """
    if op.name in ELEMENT_ACCUMULATES:
        return UpdateWay.PLAIN if op.attrs["mode"] == "plain" else UpdateWay.RED
    if op.name in ELEMENT_ATOMICS:
        return UpdateWay.ATOMIC if op.result in used else UpdateWay.RED
    return None


def summed_type(op: Op) -> Element:
    """Return the type in which the values of an update are added up."""
    array = Access(op).array.type
    assert isinstance(array, Array)
    return value_type(array.dtype)


def sum_bytes(plan: CudaPlan) -> int:
    """Return the shared memory for the readable kernel's block sums: a number for each warp and type."""
    return sum(_WARPS * s.itemsize for s in {scalar_of(summed_type(op)) for op in plan.sums})


def dynamic_shared_bytes(fn: Function, plan: CudaPlan) -> int:
    """Return the shared memory that a launch of the readable kernel requests: 0 if static arrays suffice."""
    taken = shared_bytes(fn)
    return taken if fn.dynamic_shared or taken + sum_bytes(plan) > SHARED_BYTES else 0
