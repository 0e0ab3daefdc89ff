"""Elimination of redundant and dead steps of a sequence when it is replayed.

From the operations of a sequence on the CPU and their native forms follow the forms to run. A launch is dropped if its
adjoint can do it as well, since that recomputes what the launch computes anyway. A fill is dropped if the next step
that touches its array overwrites it: another fill, a copy, a launch. How an adjoint is fitted to cotangents that were
set just before it is described in :mod:`diffkern.runtime.accumulate.adjoint_seeding`. The operations stay as they are
recorded, for everything that inspects them, cuts the sequence or runs it another way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.accumulate.adjoint_seeding import AdjointPlace, Change, as_run_by, fit_adjoint, is_same
from diffkern.runtime.accumulate.known_zeros import meet
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Assign, Copy, Operation
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.native.replay import Step, Steps

__all__ = ["folded", "looks_elsewhere"]

_LESS_WORK = 0.95
"""A program for a launch and its adjoint is taken if it does less than so much of the work of the two."""
_AS_LITTLE = 1.1
"""Times the cost of the two that the program may have where only their threads run in lanes: no cost counts that it
goes through memory once.
"""
_MOST_WAITING = 32
"""Launches that are looked at again with each operation behind them."""


def folded(operations: Sequence[Operation], forms: Sequence[Steps]) -> list[Steps]:
    """Return the native forms to run in place of those of the operations.

    Parameters
    ----------
    operations
        All on the CPU, in the order in which they run.
    forms
        The native form of each.
    """
    made = list(forms)
    if any(looks_elsewhere(operation) for operation in operations):
        return made
    # Joining comes first: an adjoint that runs the launch too reads the launch's arrays at its own place in the
    # sequence, which decides whether fills and copies in front of it can be dropped.
    joint = _joint(operations, made)
    seen = _Next(operations)
    changes: dict[int, dict[int, Change]] = defaultdict(dict)
    for index, operation in enumerate(operations):
        # Memory of other libraries is seen by them between replays.
        if not isinstance(operation, (Assign, Copy)) or operation.goal._memory.foreign:
            continue
        # Only the very next access counts: if something reads the array before it is overwritten, the fill is needed.
        following = seen.after(index, operation.goal._memory)
        if following is None:
            continue
        other = operations[following]
        if isinstance(operation, Assign) and _overwrites(other, operation.goal):
            made[index] = []
        elif isinstance(other, AdjointLaunch):
            changes[following][index] = operation
    for index, found in changes.items():
        fit_adjoint(AdjointPlace(operations, index, found, joint.get(index)), made)
    return made


def looks_elsewhere(operation: Operation) -> bool:
    """Return whether an operation may touch arrays that it does not name."""
    launch = operation.launch if isinstance(operation, AdjointLaunch) else operation
    if isinstance(launch, PackedLaunch):
        return launch.executable.by_id
    return any(looks_elsewhere(item.operation) for part in operation.sequences for item in part._program.items)


class _Next:
    """The next operation to touch some memory, directly or as another object over the same bytes (DLPack, buffers)."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        touched = [{a._memory for a in (*operation.reads(), *operation.writes())} for operation in operations]
        everything = {memory for memories in touched for memory in memories}
        foreign = {memory for memory in everything if memory.foreign}
        # Memory that another library handed back is an object of its own, although its bytes may be diffkern's.
        under = {memory: [own for own in everything - foreign if _is_over(memory, own)] for memory in foreign}
        self._touching: dict[Memory, list[int]] = defaultdict(list)
        for index, memories in enumerate(touched):
            for memory in memories.union(*(under[m] for m in memories & foreign)):
                self._touching[memory].append(index)

    def after(self, index: int, memory: Memory) -> int | None:
        following = self._touching[memory]
        place = following.index(index) + 1
        return following[place] if place < len(following) else None


def _is_over(one: Memory, other: Memory) -> bool:
    """Return whether two memories have bytes in common."""
    return one.address < other.address + other.nbytes and other.address < one.address + one.nbytes


def _overwrites(operation: Operation, held: array) -> bool:
    """Return whether an operation overwrites a whole array without reading it."""
    if held._memory in {a._memory for a in operation.reads()} or meet([held], list(operation.reads())):
        return False
    if isinstance(operation, PackedLaunch):
        dims, params = operation.dims, operation.executable.manifest.params
        written = [a for a in operation.writes() if a._memory is held._memory]
        # `fully_overwritten` is the number of axes if a launch over the array's shape stores to every element.
        whole = [
            a
            for p, a in zip(params, operation.arrays, strict=False)
            if a is not None and p.fully_overwritten == len(dims)
        ]
        return len(written) == 1 and held.shape == dims and any(a is written[0] and is_same(a, held) for a in whole)
    return isinstance(operation, (Assign, Copy)) and is_same(operation.goal, held)


def _joint(operations: Sequence[Operation], forms: list[Steps]) -> dict[int, Executable]:
    """Make adjoints run their launches as well, and return the joint program by the adjoint's position."""
    found: dict[int, Executable] = {}
    waiting: dict[PackedLaunch, int] = {}  # launches that may still be put off, with their places
    for index, operation in enumerate(operations):
        if isinstance(operation, AdjointLaunch) and (first := waiting.pop(operation.launch, None)) is not None:
            program = _program_of_both(operation, forms[first], forms[index])
            if program is not None:
                found[index] = program
                forms[index] = as_run_by(program, forms[index])
                forms[first] = []
        # A launch is put off until its adjoint, so that every step in between has to commute with it.
        for launch in [launch for launch in waiting if not _may_change_places(launch, operation)]:
            del waiting[launch]
        if isinstance(operation, PackedLaunch) and operation.log is None:
            waiting[operation] = index
            # Bounded, as otherwise a sequence of n launches takes n * n comparisons.
            if len(waiting) > _MOST_WAITING:
                del waiting[next(iter(waiting))]
    return found


def _may_change_places(launch: PackedLaunch, following: Operation) -> bool:
    """Return whether a launch commutes with the operation that follows it."""
    reads, writes = list(launch.reads()), list(launch.writes())
    others = list(following.writes())
    return not (meet(writes, [*following.reads(), *others]) or meet(reads, others))


def _program_of_both(adjoint: AdjointLaunch, launched: Steps, swept: Steps) -> Executable | None:
    """Return a program that runs a launch and its adjoint, if there is one that is less work than the two."""
    launch, executable, active = adjoint.launch, adjoint.executable, frozenset(adjoint.cotangents)
    own = launch.executable
    work = executable.manifest.joint
    # A program that reports errors reports those of the launch at the launch's position, and has to run there.
    if work is None or work > _LESS_WORK or launch.merged or adjoint.contents or own.manifest.reports:
        return None
    if len(launched) != 1 or len(swept) != 1 + len(adjoint.accumulation.cleared):
        return None  # nothing to run
    step = launched[0]
    if not isinstance(step, Step) or step.copied is not None:
        return None
    form = adjoint.form
    if launch.adjoint(active, form) is not executable:
        return None  # with atomic additions
    program = launch.adjoint(active, form._replace(joint=True))
    # Threads that have to run one after the other cost nothing; joined, they may be fewer in a register.
    in_lanes = bool(own.lane_counts or executable.lane_counts) and not program.lane_counts
    most = (own.cost + executable.cost) * (_AS_LITTLE if in_lanes else 1.0)
    return program if 0.0 < program.cost < most else None
