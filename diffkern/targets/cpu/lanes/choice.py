"""The decision which kernels run in lanes.

For a function for processors: why it cannot run in lanes, how many of them there are, and whether that pays.

Lanes pay where a thread has loops, or accesses memory in branches or at places that it has read. LLVM vectorises
straight-line threads by itself, by the loop over threads, but no loop around another one, nor around accesses that only
some threads make, or of whose addresses it cannot tell whether a later thread's are the same. Whether the cheaper
arithmetic pays is estimated by :mod:`~diffkern.targets.cpu.lanes.estimate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from diffkern.analysis.affine import Affine, AffineForms, Term, tid_term
from diffkern.analysis.liveness import most_alive
from diffkern.analysis.scopes import VaryingValues
from diffkern.analysis.sums import uniform_extremes, uniform_sums, used_values
from diffkern.analysis.uniformity import launch_values
from diffkern.analysis.work import usual_trips, usual_ways
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.buffer import NEW_BUFFERS, PLACES
from diffkern.ir.ops.composite import PARTS
from diffkern.ir.ops.memory import (
    ARRAY_EXTENTS,
    ELEMENT_ATOMICS,
    ELEMENT_LOADS,
    ELEMENTS,
    LAUNCH_INDICES,
    NEW_STACKS,
)
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Array, Mat, Scalar, Vec, scalar_of
from diffkern.ir.views import Access, deciding, is_branch, is_loop
from diffkern.process.dataclass import dataclass
from diffkern.targets.cpu.lanes.estimate import LaneWork
from diffkern.targets.emit.checks import Checking
from diffkern.targets.emit.facts import stack_size
from diffkern.targets.emit.types import Isa
from diffkern.targets.target import Settings

__all__ = ["Choice", "LaneForm", "chosen", "lane_count", "refusal"]

STACK_BYTES = 32 * 1024 * 1024
"""The most memory for the loop stacks and buffers of all lanes."""
LARGEST = 2000
"""Operations beyond which lanes are not taken unasked: their code takes longer to compile, and is in one piece."""
LARGEST_STRAIGHT = 4000
"""The same without loops, where one instruction in place of another takes no longer to compile."""
LONGEST = 12_000
"""The most work of compiling, in operations, for which lanes are taken even where they are asked for."""
GAIN = 1.57
"""The least estimated speed-up for which lanes are used."""
_WORTH_LANES = 10.0
"""The cost of an elementary function, or of as much arithmetic; with less, accesses are all there is."""
_SIDE_BY_SIDE = 4
"""The registers per value of all lanes: operations on different registers need not wait for one another."""
_SEVERAL, _TWO = 1.5, 4.0
"""Numbers of a thread, for each vector register of the processor, up to which they take so many registers, or two; of
more the processor would keep too many in memory."""
_BRIEF = 200
"""Operations up to which a value takes more than two registers, and those in one register two forms of the code."""
_TWO_FORMS = 600
"""Operations up to which a form for several registers may be compiled besides one for what is left."""
_MOST_ALONE = 256
"""The most instructions for what each lane does by itself, where there are several registers."""
_LOOP_OPS, _MATH_OPS, _ALONE_OPS = 50, 20, 5
"""The cost of compiling a loop, an elementary function and the scalar work of a lane, in operations."""
_MOST_BYTES = 256
"""The most that a value of all lanes takes."""
_MASKED_BYTES = 32
"""Registers from this length on are loaded and stored under masks; shorter ones would be so element by element."""
_MASK_REGISTERS = 32
"""Processors with so many vector registers of that length have registers for masks as well."""
_TWICE = 16
"""Operations, for each bit of the number of registers, up to which code for several is compiled for one as well, even
where a mask costs no time: the more registers, the more is computed for nothing with few threads."""
_WITH_LANES = ELEMENTS | PARTS | LAUNCH_INDICES | ARRAY_EXTENTS | NEW_BUFFERS | PLACES


def refusal(fn: Function, lanes: int) -> str | None:
    """Return why a function cannot run in so many lanes, None if it can.

    Elements of tiles are contiguous, so that their loops are vectorised already; those of neighbouring blocks are not,
    and would be loaded and stored lane by lane.
    """
    if fn.tiled:
        return "each is a block that works on tiles"
    if fn.blocks:
        return "each is a whole block of threads"
    if fn.tid_arity == 0:
        return "its threads have no index"
    for op in walk(fn.body):
        if op.name not in _WITH_LANES and lookup(op.name).family not in ("scalar", "stack", "control"):
            return f"{op.name} has no form in lanes"
    if _own_bytes(fn) * lanes > STACK_BYTES:
        return "its threads have too much memory of their own"
    return _waits_for_others(fn) or _looks_at_others(fn)


def _waits_for_others(fn: Function) -> str | None:
    """Return why results of atomic updates depend on more than the order of threads, or a thread may wait for one."""
    used = used_values(fn)
    exchanged = [op for op in walk(fn.body) if op.name in ELEMENT_ATOMICS and op.result in used]
    if not exchanged:
        return None
    inside: set[Op] = set()
    for loop in walk(fn.body):
        if is_loop(loop) and loop not in inside:  # what is in a loop that is in another one has been met
            inside.update(op for region in loop.regions for op in walk(region))
    arrays = [Access(op).array for op in walk(fn.body) if op.name in ELEMENTS]
    # With lanes in lockstep a later trip of one lane would come before an earlier trip of another.
    for op in exchanged:
        if op in inside:
            return "it looks at what an atomic update in a loop returns"
        if arrays.count(Access(op).array) > 1:
            return f"it looks at what an atomic update of {Access(op).array.name} returns, and changes it elsewhere too"
    return None


def _looks_at_others(fn: Function) -> str | None:
    """Return why a thread may read another one's writes: in sequence, threads see the work of earlier ones."""
    accesses: dict[Value, list[Op]] = {}
    # What threads add to an element that nothing else accesses is summed for each chunk.
    summed = set(uniform_sums(fn, launch_values(fn), used_values(fn)))
    for op in walk(fn.body):
        if op.name in ELEMENTS and op not in summed:
            accesses.setdefault(Access(op).array, []).append(op)
    # Lanes are neighbours along the last axis.
    forms, own = AffineForms(fn), tid_term(fn.tid_arity - 1)
    for array, ops in accesses.items():
        # Arrays that are only read, or only written, need no order between lanes.
        if len({op.name in ELEMENT_LOADS for op in ops}) > 1 and _may_meet(ops, forms, own):
            return f"a thread may read what another one writes to {array.name}"
    return None


def _may_meet(ops: Sequence[Op], forms: AffineForms, own: Term) -> bool:
    """Return whether one lane may write an element of an array that another one accesses."""

    def is_own(index: Affine) -> bool:
        """Return whether an index differs between lanes, and between nothing else."""
        fixed = all(isinstance(t, tuple) and t[0] == "tid" or forms.invariant(t) for t in index.terms)
        return own in index.terms and fixed

    def apart(a: Affine, b: Affine) -> bool:
        """Return whether two indices of different lanes are never the same."""
        # Of two constants one may be counted from the end.
        known = a.is_constant and b.is_constant and min(a.const, b.const) >= 0
        return a.const != b.const if known else a == b and is_own(a)

    written: dict[tuple[Value, ...], bool] = {}
    for op in ops:
        index = tuple(Access(op).index)
        written[index] = written.get(index, False) or op.name not in ELEMENT_LOADS
    places = [([forms.of(v) for v in index], writes) for index, writes in written.items()]
    # Most often there is an axis of lanes, on which all accesses of a lane are at one place.
    if any(is_own(a[0]) and all(form == a[0] for form in a) for a in zip(*(place for place, _ in places), strict=True)):
        return False
    return any(
        (writes or also) and not any(map(apart, first, second))
        for k, (first, writes) in enumerate(places)
        for second, also in places[k:]
    )


def lane_count(fn: Function, vector_bytes: int) -> int:
    """Return how many threads fit a vector register: as many as elements of the widest floating-point type."""
    types = {id(v.type): v.type for op in walk(fn.body) for v in (*op.operands, *op.results)}
    scalars = {scalar_of(t) for t in types.values() if isinstance(t, (Scalar, Vec, Mat, Array))}
    return vector_bytes // max([4, *(s.itemsize for s in scalars if s.is_float)])


@dataclass(frozen=True, slots=True)
class LaneForm:
    """A loop over threads in lanes.

    Attributes
    ----------
    threads : int
        The number of threads that run together.
    lanes : int
        How many of them run in one vector register.
    masked : bool
        Whether fewer do as well, under a mask, so that none remains.
    rest : bool
        Whether it only runs the threads that another form has left.
    """

    threads: int
    lanes: int
    masked: bool
    rest: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """The way in which the threads of a kernel run.

    Attributes
    ----------
    lanes : int
        The number that run in a vector register; 1 if they run one by one.
    faster : float
        The estimated factor by which lanes reduce the work of a thread.
    why : str
        The reason, for reports.
    registers : int
        The number of registers side by side that first take as many threads each.
    masked : bool
        Whether threads that do not fill a register run in lanes; else they run one by one.
    always : bool
        Whether all threads do so under the mask that this takes, in one form.
    by_itself : bool
        Whether a row of one thread runs without lanes.
    uniformity : Uniformity, optional
        The values that differ between lanes, if threads run in lanes.
    """

    lanes: int
    faster: float
    why: str
    registers: int = 1
    masked: bool = False
    always: bool = False
    by_itself: bool = False
    uniformity: VaryingValues | None = field(default=None, repr=False, compare=False)

    @property
    def groups(self) -> tuple[int, ...]:
        """The threads that run together: as long as there are so many left, then as many of the next."""
        if self.always:
            return (self.registers * self.lanes,)
        return tuple(sorted({n * self.lanes for n in (1, self.registers)} - {1}, reverse=True))

    @property
    def forms(self) -> tuple[LaneForm, ...]:
        """The loops over threads in lanes, one after the other."""
        # Without masks the last threads run one by one.
        if not self.masked:
            return tuple(LaneForm(n, self.lanes, masked=False, rest=k > 0) for k, n in enumerate(self.groups))
        if self.always:
            return (LaneForm(self.registers * self.lanes, self.lanes, masked=True, rest=False),)
        whole = LaneForm(self.registers * self.lanes, self.lanes, masked=False, rest=False)
        return whole, LaneForm(self.lanes, self.lanes, masked=True, rest=True)

    def __str__(self) -> str:
        if self.lanes == 1:
            return f"threads do not run in lanes: {self.why}"
        where = f"{self.registers} vector registers" if self.registers > 1 else "a vector register"
        rows = ", and rows of one thread without" if self.by_itself else ""
        return f"{self.lanes * self.registers} threads run in {where}{rows}: {self.why}"


def chosen(fn: Function, settings: Settings, isa: Isa) -> Choice:
    """Return how the threads of a kernel run."""
    # The widest type decides, so that values of all types fit whole registers.
    lanes = lane_count(fn, isa.vector_bytes)
    if settings.lanes is False:
        return Choice(1, 1.0, "lanes=False")
    # A report has to name one thread, and no later one may have had effects.
    if settings.checking is not Checking.NONE:
        return Choice(1, 1.0, "the program says which thread is in error")
    why = refusal(fn, lanes)
    if why is not None:
        return Choice(1, 1.0, why)
    ops = list(walk(fn.body))
    # Cheap reasons first: the estimate below walks the function and computes uniformity.
    if not settings.lanes and (why := _seldom_pays(ops)) is not None:
        return Choice(1, 1.0, why)
    work = LaneWork(fn, lanes, fast_math=bool(settings.fast_math))
    if not settings.lanes and _is_left_to_llvm(work, ops):
        return Choice(1, 1.0, "it has no loop, and the loop over threads is left to LLVM")
    gain = work.gain()
    why = "lanes=True" if settings.lanes else f"less work by a factor of {gain:.1f}, by estimate"
    if not settings.lanes and gain <= GAIN:
        return Choice(1, 1.0, f"{why}, which is too little")
    if _too_many(work, ops):
        return Choice(1, 1.0, f"{len(ops)} operations would take long to compile")
    registers, masked = _side_by_side(work, ops, isa), isa.vector_bytes >= _MASKED_BYTES
    always = masked and _in_one_form(work, ops, registers, isa)
    by_itself = masked and fn.tid_arity > 1 and _one_costs_more(work, ops, always=always and registers > 1)
    return Choice(lanes, max(1.0, gain), why, registers, masked, always, by_itself, work.uniformity)


def _one_costs_more(work: LaneWork, ops: Sequence[Op], *, always: bool) -> bool:
    """Return whether one thread in several lanes takes longer than without lanes.

    Under a mask it executes the work of each lane, waits for its own stores before it loads them again, and fills as
    many registers as many threads would.
    """
    return always or any(map(work.pieces, ops)) or any(map(work.writes_run, _innermost(work.fn.body)))


def _in_one_form(work: LaneWork, ops: Sequence[Op], registers: int, isa: Isa) -> bool:
    """Return whether one form under a mask serves for all threads.

    With several registers that costs a launch of few threads time, above all for work that each lane does by itself;
    rows of a launch with several axes may all be as short. It costs others none if there are registers for masks, and
    no trip loads what the one before it wrote under a mask, which is not forwarded then.
    """
    if registers == 1:
        return len(ops) > _BRIEF or any(map(work.pieces, ops)) or any(map(is_loop, ops))
    if len(ops) > _TWO_FORMS:
        return True
    # Where trips add up over lanes, each sum is of numbers that are 0 in lanes that are off.
    if any(map(work.adds_in_trips, ops)):
        return False
    # Short code may as well exist twice: a fast form for whole groups and a masked one for the rest.
    few = _TWICE * registers.bit_length()
    if work.fn.tid_arity > 1 or isa.vector_registers < _MASK_REGISTERS or len(ops) <= few:
        return False
    return not any(work.pieces(op) or work.writes_run(op) for op in _innermost(work.fn.body))


def _innermost(region: Region) -> Iterator[Op]:
    """Iterate over the ops that are usually executed most often: in innermost loops of several trips."""
    for loop in filter(_repeats, _usual(region)):
        inside = [op for sub in loop.regions for op in _usual(sub)]
        if not any(map(_repeats, inside)):
            yield from inside


def _usual(region: Region) -> Iterator[Op]:
    """Iterate over all ops of a region except those in regions that are rarely entered."""
    for op in region.ops:
        yield op
        for sub in usual_ways(op):
            yield from _usual(sub)


def _repeats(op: Op) -> bool:
    return is_loop(op) and usual_trips(op) > 1


def _too_many(work: LaneWork, ops: Sequence[Op]) -> bool:
    """Return whether the code in lanes, which is in one piece, would take long to compile."""
    length = len(ops) + _LOOP_OPS * sum(map(is_loop, ops)) + _ALONE_OPS * work.lanes * sum(map(work.pieces, ops))
    length += _MATH_OPS * sum(lookup(op.name).elementary for op in ops)
    return length > LONGEST


def _side_by_side(work: LaneWork, ops: Sequence[Op], isa: Isa) -> int:
    """Return how many registers may hold a value of all lanes.

    Uniform work is then done for more lanes, and they do not wait for one another's results. Lanes that make different
    numbers of trips wait for the slowest, so there is only one register for these. Work that each lane does by itself
    is code for each of them. Where a loop adds to elements that all lanes share, more registers make adding up over
    lanes and updating memory cheaper for each thread. Fewer registers are used if the values would not fit.
    """
    if len(ops) > LARGEST or any(is_loop(op) and not work.varying.isdisjoint(deciding(op)) for op in ops):
        return 1
    if not any(map(is_loop, ops)) and any(map(work.pieces, ops)):
        return 1
    # A part of the registers, so that accumulators, operands and addresses fit as well.
    adds = any(map(work.adds_in_trips, ops))
    many = isa.vector_registers >= _MASK_REGISTERS
    count = isa.vector_registers // (2 if many else 4) if adds else _SIDE_BY_SIDE
    most = _MOST_BYTES * 2 if adds and many else _MOST_BYTES
    count = min(count, max(1, most // isa.vector_bytes))
    alive = most_alive(work.fn, work.varying.__contains__) / isa.vector_registers
    if alive > _SEVERAL or len(ops) > _BRIEF:
        count = max(1, min(count // 2, 2)) if alive <= _TWO else 1
    alone, own = work.lanes * sum(map(work.pieces, ops)), work.lanes * _own_bytes(work.fn)
    while count > 1 and (own * (count + 1) > STACK_BYTES or alone * count > _MOST_ALONE):
        count //= 2
    return count


def _own_bytes(fn: Function) -> int:
    """Return the memory that each thread has of its own."""
    total = 0
    for op in walk(fn.body):
        if op.name in NEW_STACKS:
            total += stack_size(op.attrs["type"])
        elif op.name in NEW_BUFFERS:
            total += op.attrs["type"].itemsize
    return total


def _seldom_pays(ops: Sequence[Op]) -> str | None:
    """Return why lanes are not taken unasked, whatever they are estimated to gain; None if there is no reason."""
    most = LARGEST if any(map(is_loop, ops)) else LARGEST_STRAIGHT
    return f"{len(ops)} operations would take long to compile" if len(ops) > most else None


def _is_left_to_llvm(work: LaneWork, ops: Sequence[Op]) -> bool:
    """Return whether LLVM makes vectors of the loop over threads: of straight code with accesses that keep in step.

    Elements of many components keep it from that, and addresses that are not affine in the thread's index: these cost
    where there is more to do than to load and store.
    """
    if any(map(is_loop, ops)) or any(map(_keeps_memory, ops)) or _takes_extremes(work.fn):
        return False
    computed = sum(lookup(op.name).cost for op in ops if op.name not in ELEMENTS)
    return not any(work.is_wide(op) or (computed >= _WORTH_LANES and work.is_scattered(op)) for op in ops)


def _keeps_memory(op: Op) -> bool:
    """Return whether an op is a branch that accesses memory, which keeps LLVM from vectorising."""
    return is_branch(op) and any(inner.name in ELEMENTS for region in op.regions for inner in walk(region))


def _takes_extremes(fn: Function) -> bool:
    """Return whether threads share a minimum or maximum of floats, which LLVM does not vectorise: it may be NaN."""
    found = uniform_extremes(fn, launch_values(fn), used_values(fn))
    return any(scalar_of(Access(op).array.type).is_float for op in found)
