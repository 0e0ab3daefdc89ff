"""An estimate of how often LLVM's loop vectoriser asks whether a value is uniform, if it interleaves a loop.

:func:`uniform_questions` returns an upper bound for a function, given the ops that are executed ahead of the loop over
threads, as far as the code before optimisation tells.

LLVM 22 decides uniformity when it interleaves (``vputils::isUniformAcrossVFsAndUFs``), for an operation by asking for
each of its operands, and for theirs, without caching: a value that is reached on many paths is queried on each. An
operand that does differ ends the query, so only values computed from uniform ones count, such as ``s[0]`` under a
condition. Elementary functions reach their argument on thousands to billions of paths.

The loops that may be vectorised contain no other loop by then. Each has a variable: the last component of the thread
index, or that of a ``for``. A load differs between lanes if its address moves with this variable, or is itself computed
from such a load. A value computed from it counts as different only where no simplification can make it uniform:
``where(x[i] > x[i], s[0], s[0])`` is ``s[0]``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Set

from diffkern.analysis.affine import AffineForms, tid_term
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.buffer import BUFFER_READS
from diffkern.ir.ops.composite import CONSTRUCTS
from diffkern.ir.ops.memory import ELEMENT_ATOMICS, ELEMENT_LOADS, STACK_READS, THREAD_INDICES
from diffkern.ir.ops.scalar import CASTS, LITERALS, SELECTIONS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Scalar, is_differentiable
from diffkern.ir.views import For, is_loop
from diffkern.process.dataclass import dataclass

__all__ = ["MOST_QUESTIONS", "uniform_questions"]

MOST_QUESTIONS = 20_000.0
"""The most questions that are asked: they take less than a tenth of a second."""

_MOST_TRIPS = 64.0


def uniform_questions(fn: Function, moved: Set[Op] = frozenset(), *, fast_math: bool = False) -> float:
    """Return how many queries there may be about the loop of a function with the most of them.

    Parameters
    ----------
    fn : Function
        The function.
    moved : set of Op, optional
        The ops that are executed ahead of the loop over threads.
    fast_math : bool, optional
        Whether LLVM may simplify as if numbers were real.
    """
    forms = AffineForms(fn)
    return max((_LaneSearch(forms, moved, fast_math).of(loop) for loop in _innermost(fn, moved, forms)), default=0.0)


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop that LLVM may vectorise: its regions, and the term for its variable in affine forms."""

    regions: Sequence[Region]
    variable: object


def _innermost(fn: Function, moved: Set[Op], forms: AffineForms) -> Iterator[_Loop]:
    """Iterate over the loops that contain no other once those of constant trips are unrolled and others hoisted."""
    # Without inner loops the loop over threads itself is the innermost.
    top = [op for op in fn.body.ops if op not in moved]
    if not _holds_loop(top, forms):
        yield _Loop([fn.body], tid_term(fn.tid_arity - 1))
    for op in walk(fn.body):
        if is_loop(op) and not _holds_loop(_within(op), forms):
            yield _Loop(op.regions, For(op).index if op.name == "for" else None)


def _within(op: Op) -> Iterator[Op]:
    return (inner for region in op.regions for inner in region.ops)


def _holds_loop(ops: Iterable[Op], forms: AffineForms) -> bool:
    """Return whether a loop that is not unrolled is among ops or inside of them."""
    return any(
        op.name == "while" or op.name == "for" and _trips(op, forms) is None or _holds_loop(_within(op), forms)
        for op in ops
    )


def _trips(op: Op, forms: AffineForms) -> float | None:
    """Return the trips of a counted loop, if they are constant."""
    lo, hi, step = map(forms.of, For(op).bounds)
    distance = hi - lo
    if not distance.is_constant or not step.is_constant:
        return None
    return float(len(range(0, distance.const, step.const))) if step.const else 0.0


class _LaneSearch:
    """Walks a loop once.

    Values that differ between lanes are ``own``. The others are ``shared`` if they are computed from more than
    literals; those that are computed in the loop have ``ways``, the number of paths from them to elements that all
    lanes share.
    """

    def __init__(self, forms: AffineForms, moved: Set[Op], fast_math: bool) -> None:
        self.forms, self.moved, self.fast_math = forms, moved, fast_math
        self.variable: object = None
        self.own: set[Value] = set()
        self.inside: set[Value] = set()
        self.shared: set[Value] = set()
        self.ways: dict[Value, float] = {}
        self.constants: set[Value] = set()
        self.questions = 0.0

    def of(self, loop: _Loop) -> float:
        """Return the number of queries about the values of a loop."""
        self.variable = loop.variable
        for region in loop.regions:
            self.own.update(region.params)
            self.region(region)
        return self.questions

    def region(self, region: Region) -> None:
        for op in region.ops:
            if op in self.moved:
                continue
            if op.name == "for":
                self.unrolled(op)
                continue
            for sub in op.regions:
                self.region(sub)
            if op.name in LITERALS:
                self.constants.update(op.results)
            elif op.regions:
                for k, result in enumerate(op.results):
                    self.choice(result, op.operands, [sub.yields[k] for sub in op.regions])
            elif op.name in SELECTIONS:
                self.choice(op.result, op.operands[:1], op.operands[1:])
            elif op.name in ELEMENT_LOADS | STACK_READS | BUFFER_READS:
                # A load at an address that moves with the loop differs between lanes, and ends the question.
                moves = any(self.moves(v) or self.gathered(v) for v in op.operands[1:])
                self.enter(op.result, own=moves, shared=True, ways=1.0)
            else:
                self.computed(op)

    def choice(self, result: Value, conditions: Sequence[Value], arms: Sequence[Value]) -> None:
        """Enter a value that may turn out to be one of some others."""
        own = any(v in self.own for v in arms) and all(v in self.own or v in self.constants for v in arms)
        self.enter(result, own, *self.share((*conditions, *arms)))

    def computed(self, op: Op) -> None:
        if op.operands and self.constants.issuperset(op.operands):
            self.constants.update(op.results)
            return
        shared, ways = self.share(op.operands)
        # The expansion of an elementary function multiplies the paths to its argument.
        own = lookup(op.name).ways
        ways = own if own == math.inf else ways * own
        for result in op.results:
            self.enter(result, self.differs(op, result), shared, ways)

    def differs(self, op: Op, result: Value) -> bool:
        """Return whether the result of an op differs between lanes however LLVM simplifies it."""
        is_integer = isinstance(result.type, Scalar) and result.type.is_integer
        if op.name in THREAD_INDICES or (is_integer and self.moves(result)):
            return self.moves(result)
        if op.name in ELEMENT_ATOMICS:
            return True
        if len(op.operands) == 1 or lookup(op.name).ways == math.inf:
            return any(v in self.own for v in op.operands)
        if op.name in CONSTRUCTS:
            return self.own.issuperset(op.operands)
        exact = not self.fast_math and not op.attrs.get("reassoc") and is_differentiable(result.type)
        return exact and any(v in self.own for v in op.operands)

    def share(self, values: Sequence[Value]) -> tuple[bool, float]:
        """Return whether any of some values is shared, and the paths to elements through all of them."""
        outside = any(v not in self.inside and v not in self.constants and v not in self.own for v in values)
        return outside or any(v in self.shared for v in values), sum(self.ways.get(v, 0.0) for v in values)

    def enter(self, value: Value, own: bool, shared: bool, ways: float) -> None:
        self.inside.add(value)
        if own:
            self.own.add(value)
        elif shared:
            self.shared.add(value)
            self.ways[value] = ways
            self.questions += ways

    def moves(self, v: Value) -> bool:
        """Return whether an index changes with the loop's variable in each trip."""
        return any(self.term_moves(term) for term in self.forms.of(v).terms)

    def term_moves(self, term: object) -> bool:
        if term == self.variable:
            return True
        op = self.forms.producer.get(term) if isinstance(term, Value) else None
        return op is not None and op.name == "mul" and any(self.moves(v) for v in op.operands)

    def gathered(self, v: Value) -> bool:
        """Return whether an index is an element that differs between lanes, up to a constant offset."""
        terms = [term for term in self.forms.of(v).terms if isinstance(term, Value) and term in self.own]
        made = self.forms.producer.get(terms[0]) if len(terms) == 1 else None
        return made is not None and made.name in ELEMENT_LOADS | CASTS

    def unrolled(self, op: Op) -> None:
        """Enter a loop that is unrolled: carried values form one chain, and each trip multiplies the paths."""
        trips = min(_MOST_TRIPS, _trips(op, self.forms) or 0.0)
        loop = For(op)
        self.constants.add(loop.index)
        for start, param, _, _ in loop.chains:
            self.enter(param, start in self.own, True, 1.0)
        before, self.questions = self.questions, 0.0
        self.region(loop.body)
        factor = max((self.ways.get(v, 0.0) for v in loop.yields), default=0.0)
        # A geometric growth over the trips, in logarithms, as the number itself may overflow.
        copies = math.exp(min(math.log(max(factor, 1.0)) * trips, 500.0))
        copies *= 1.0 + max((self.ways.get(v, 0.0) for v in loop.init), default=0.0)
        self.questions = before + self.questions * max(copies, trips)
        for start, _, end, result in loop.chains:
            self.enter(result, start in self.own and end in self.own, True, copies)
