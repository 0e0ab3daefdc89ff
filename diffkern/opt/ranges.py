"""Range analysis of integers, which clears the ``wrap`` flag of indices that are proved not to be negative; in place.

A negative index counts from the end, as in Python, which costs a comparison per access and hides from LLVM and from the
conflict analysis that neighbouring threads touch neighbouring elements. The analysis keeps lower bounds of integer
values, refined by the conditions of enclosing ``if`` and ``while`` ops (``i > 0``, ``i != 0``, their conjunctions and
negations) and by loop bounds.

Integers wrap around at the width of their type, so a sum or product of non-negative numbers counts as non-negative only
where upper bounds exclude that. Sums and products that are used directly as an index are the exception: targets compute
them exactly, except for unsigned integers and those of 8 and 16 bits.
"""

from __future__ import annotations

from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.memory import ELEMENTS
from diffkern.ir.ops.scalar import AFFINE_PAIRS, AT_LEAST, BOUNDS, DIFFERENCES, LESS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Kind, Scalar, is_exact_index
from diffkern.ir.views import Access, For, If, Loop, While, is_branch, literal


class Facts(dict[Value, int]):
    """Lower bounds of values at one place of the program, and upper bounds where they are below the type's."""

    def __init__(self) -> None:
        super().__init__()
        self.high: dict[Value, int] = {}

    def fork(self) -> Facts:
        """Return a copy for a nested region."""
        copy = Facts()
        copy.update(self)
        copy.high = dict(self.high)
        return copy


_REFINED = AFFINE_PAIRS | BOUNDS
"""Ops that targets compute without wrapping in an index, so that the bounds of a register do not apply."""
_DEPTH = 6
_LAST_THREAD = 2**31 - 2  # each extent of a launch is below 2**31


def clear_wraps(fn: Function, *, bounds: bool = False) -> Function:
    """Set ``wrap`` to False on each index that is proved to be at least 0.

    With ``bounds`` the bounds of a ``for`` are refined in its body too: the stop is greater than the start there.
    """
    Ranges(bounds).region(fn.body, Facts())
    return fn


class Ranges:
    """Walks through a function with the known bounds of its integers."""

    def __init__(self, bounds: bool = False) -> None:
        self.bounds = bounds
        self.producer: dict[Value, Op] = {}
        self.ends: dict[Op, tuple[Facts, Facts]] = {}  # what is known at the end of the branches of an if

    def region(self, region: Region, facts: Facts) -> None:
        for op in region.ops:
            for r in op.results:
                self.producer[r] = op
            bound = self.op(op, facts)
            if bound is not None:
                facts[op.result] = bound

    def op(self, op: Op, facts: Facts) -> int | None:
        """Visit an op; return the lower bound of its single integer result where one is known."""
        if op.name in ELEMENTS:
            self.access(op, facts)
        elif is_branch(op):
            return self.visit_if(op, facts)
        elif op.name == "for":
            self.visit_for(op, facts)
        elif op.name == "while":
            self.loop(While(op), facts, facts.fork())
        else:
            for sub in op.regions:
                self.region(sub, facts.fork())
        if len(op.results) == 1 and isinstance(op.result.type, Scalar) and op.result.type.is_integer:
            return self.bound(op, facts)
        return None

    def access(self, op: Op, facts: Facts) -> None:
        index = Access(op).index
        wrap = tuple(w and not self.nonnegative(v, facts) for v, w in zip(index, Access(op).wrap, strict=True))
        op.attrs = {**op.attrs, "wrap": wrap}
        self.inside(index, facts)

    def inside(self, index: tuple[Value, ...], facts: Facts) -> None:
        """Note that the indices of an access are less than an extent."""
        # The access would have failed otherwise, so what follows it may rely on that.
        for v in index:
            if self.high(v, facts) > _LAST_THREAD:
                facts.high[v] = _LAST_THREAD

    def nonnegative(self, v: Value, facts: Facts) -> bool:
        low = self.deep(v, facts, _DEPTH, exact=True)
        return low is not None and low >= 0

    def deep(self, v: Value, facts: Facts, depth: int, *, exact: bool) -> int | None:
        """Return the bound of a value under the facts that hold here, which may be higher than where it was computed.

        With ``exact`` the value is an index, whose sums and products do not wrap around in most types.
        """
        known = facts.get(v)
        if isinstance(v.type, Scalar) and v.type.kind is Kind.UINT:
            known = max(0, known or 0)
        exact = exact and is_exact_index(v.type)
        op = self.producer.get(v)
        if exact and op is not None and op.name == "abs" and self.high_of_type(v) >= _LAST_THREAD:
            return max(0, known or 0)  # the least number of 32 bits and more is outside of every array
        if depth and op is not None and op.name in _REFINED:
            through = exact and op.name not in BOUNDS
            # Conditions passed since the operands were computed may have raised their bounds, so the sum is computed
            # again.
            a, b = (self.deep(x, facts, depth - 1, exact=through) for x in op.operands)
            computed = self.arithmetic(op, a, b, facts, exact=through)
            if computed is not None:
                return computed if known is None else max(known, computed)
        return known

    def low(self, v: Value, facts: Facts) -> int | None:
        """Return a lower bound of an integer as it is in its register, None if there is only that of its type."""
        return self.deep(v, facts, _DEPTH, exact=False)

    def high(self, v: Value, facts: Facts, depth: int = 4) -> int:
        """Return an upper bound of an integer as it is in its register."""
        assert isinstance(v.type, Scalar)
        limit = (1 << (v.type.bits - (v.type.kind is Kind.INT))) - 1
        limit = min(limit, facts.high.get(v, limit))
        op = self.producer.get(v)
        if op is None or depth == 0:
            return limit
        match op.name:
            case "const":
                return int(op.attrs["value"])
            case "tid":
                return min(limit, _LAST_THREAD)
            case "min":
                return min(limit, *(self.high(x, facts, depth - 1) for x in op.operands))
            case "max":
                return min(limit, max(self.high(x, facts, depth - 1) for x in op.operands))
            case "mod":
                divisor = self.constant(op.operands[1])
                return min(limit, divisor - 1) if divisor is not None and divisor > 0 else limit
            case "cast" if _keeps_value(op) and _is_integer(op.operands[0]):
                return min(limit, self.high(op.operands[0], facts, depth - 1))
            case "add" | "sub":
                return min(limit, self.high_sum(op, facts, depth))
            case _:
                return limit

    def high_sum(self, op: Op, facts: Facts, depth: int) -> int:
        """Return an upper bound of a sum with a constant, or of a difference, of a number known not to be negative."""
        x, c = op.operands[0], self.constant(op.operands[1])
        # The sum may have wrapped around below.
        if facts.get(x, -1) < 0:
            return 1 << 64
        if c is None:
            less = op.name in DIFFERENCES and facts.get(op.operands[1], -1) >= 0
            return self.high(x, facts, depth - 1) if less else 1 << 64
        top = self.high(x, facts, depth - 1) + (c if op.name == "add" else -c)
        return top if top <= self.high_of_type(x) else 1 << 64

    @staticmethod
    def high_of_type(v: Value) -> int:
        assert isinstance(v.type, Scalar)
        return (1 << (v.type.bits - (v.type.kind is Kind.INT))) - 1

    def constant(self, v: Value) -> int | None:
        number = literal(self.producer.get(v))
        return None if number is None else int(number)

    def lower(self, v: Value, facts: Facts, otherwise: int) -> int:
        known = facts.get(v)
        if known is not None:
            return known
        if isinstance(v.type, Scalar) and v.type.kind is Kind.UINT:
            return 0
        return otherwise

    def bound(self, op: Op, facts: Facts) -> int | None:
        def low(k: int) -> int | None:
            v = op.operands[k]
            if isinstance(v.type, Scalar) and v.type.kind is Kind.UINT:
                return max(0, facts.get(v, 0))
            return facts.get(v)

        match op.name:
            case "const":
                return int(op.attrs["value"])
            case "cast":
                return low(0) if _keeps_value(op) else None
            case "add" | "mul" | "min" | "max" | "floordiv" | "and" | "or" | "xor" | "shr" | "sub":
                return self.arithmetic(op, low(0), low(1), facts, exact=False)
            case "mod":
                b = low(1)
                return 0 if b is not None and b >= 0 else None
            case "select":
                a, b = low(1), low(2)
                return min(a, b) if a is not None and b is not None else None
            case "abs":
                least = low(0)  # the absolute value of the least number of a type is that number
                return 0 if least is not None and least > ~self.high_of_type(op.result) else None
            case "load" | "atomic":
                t = op.result.type
                return 0 if isinstance(t, Scalar) and t.kind is Kind.UINT else None
            case name:
                return lookup(name).least

    def arithmetic(self, op: Op, a: int | None, b: int | None, facts: Facts, *, exact: bool) -> int | None:
        """Return the bound of an operation on values with the bounds ``a`` and ``b``."""
        if op.name == "max":
            known = [x for x in (a, b) if x is not None]
            return max(known) if known else None
        if op.name in DIFFERENCES:
            c = self.constant(op.operands[1])
            if a is None:
                return None
            if c is None:
                return self.difference(op, a, b, facts, exact=exact)
            fits = c >= 0 and a - c >= -self.high_of_type(op.result)
            return a - c if exact or fits or self.fits(op, facts) else None
        if a is None or b is None:
            return None
        if op.name == "add":
            return a + b if exact or self.fits(op, facts) else None
        if op.name == "min":
            return min(a, b)
        if a < 0 or b < 0 or (op.name == "mul" and not exact and not self.fits(op, facts)):
            return None
        return 0

    def difference(self, op: Op, a: int, b: int | None, facts: Facts, *, exact: bool) -> int | None:
        """Return a lower bound of a difference, from an upper bound of the subtrahend and the lower bound ``a``."""
        y = op.operands[1]
        made = self.producer.get(y)
        top = self.high(y, facts)
        if top >= self.high_of_type(y) or (exact and made is not None and lookup(made.name).affine):
            return None
        in_range = b is not None and b >= 0 and a - top >= -self.high_of_type(op.result)
        return a - top if exact or in_range else None

    def fits(self, op: Op, facts: Facts) -> bool:
        """Return whether a sum, difference or product cannot exceed the greatest value of its type."""
        x, y = (self.high(v, facts) for v in op.operands)
        c = self.constant(op.operands[1])
        if op.name in DIFFERENCES:
            return c is not None and x - c <= self.high_of_type(op.result)
        total = x + y if op.name == "add" else x * y
        return total <= self.high_of_type(op.result)

    def visit_if(self, op: Op, facts: Facts) -> int | None:
        then, orelse = facts.fork(), facts.fork()
        view = If(op)
        # Each branch may rely on the condition or its negation.
        self.assume(view.condition, True, then)
        self.assume(view.condition, False, orelse)
        self.region(view.then, then)
        self.region(view.orelse, orelse)
        # Kept for conditions that are themselves results of this if; see assume_branches.
        self.ends[op] = (then, orelse)
        for r, a, b in view.choices:
            low_a, low_b = then.get(a), orelse.get(b)
            if low_a is not None and low_b is not None:
                facts[r] = min(low_a, low_b)
            if _is_integer(r):
                facts.high[r] = max(self.high(a, then), self.high(b, orelse))
        return facts.get(op.results[0]) if len(op.results) == 1 else None

    def visit_for(self, op: Op, facts: Facts) -> None:
        loop, inner = For(op), facts.fork()
        step = self.constant(loop.step)
        if step is not None:
            up = step > 0
            first, last = (loop.start, loop.stop) if up else (loop.stop, loop.start)
            start = facts.get(first)
            if start is not None:
                # Counting down, the first value is excluded: range(n, a, -1) stops at a + 1.
                inner[loop.index] = start if up else start + 1
            inner.high[loop.index] = self.high(last, facts) - up
            if self.bounds and start is not None:
                inner[last] = max(facts.get(last, start + 1), start + 1)
        self.loop(loop, facts, inner)

    def loop(self, loop: Loop, facts: Facts, inner: Facts) -> None:
        """Visit a loop: carried values keep the bound of their initial value if the body then yields no less."""
        # Optimistic fixpoint: assume the initial bounds hold in every trip, and drop those that the body does not keep.
        guess = {k: facts[v] for k, v in enumerate(loop.init) if v in facts}
        while True:
            trial = inner.fork()
            trial.update({loop.carried[k]: low for k, low in guess.items()})
            if isinstance(loop, While):
                trial.update({loop.tested[k]: low for k, low in guess.items()})
                self.region_without_flags(loop.test, trial)
                self.assume(loop.condition, True, trial)
                for p, q in zip(loop.tested, loop.carried, strict=True):
                    if p in trial:
                        trial[q] = max(trial[p], trial.get(q, trial[p]))
                    if p in trial.high:
                        trial.high[q] = trial.high[p]
            self.region_without_flags(loop.body, trial)
            # A carried value whose new value may be lower loses its bound, which may invalidate others: try again.
            kept = {k: low for k, low in guess.items() if trial.get(loop.yields[k], low - 1) >= low}
            if kept == guess:
                break
            guess = kept
        if isinstance(loop, While):
            # The first execution of the test sees the initial values, without the condition that the body relies on.
            start = facts.fork()
            start.update({loop.tested[k]: low for k, low in guess.items()})
            self.region(loop.test, start)
        # Only now are flags cleared, under bounds that are proved.
        self.region(loop.body, trial)
        facts.update({loop.results[k]: low for k, low in guess.items()})

    def region_without_flags(self, region: Region, facts: Facts) -> None:
        """Propagate bounds only: flags must not be cleared under an assumption that may still be refuted."""
        probe = _Probe(self.bounds)
        probe.producer, probe.ends = self.producer, self.ends
        probe.region(region, facts)

    def assume(self, cond: Value, truth: bool, facts: Facts) -> None:
        """Refine bounds by a condition known to be true or false."""
        op = self.producer.get(cond)
        if op is None:
            return
        if op.name == "not":
            self.assume(op.operands[0], not truth, facts)
        elif op.name == "and" and truth or op.name == "or" and not truth:
            for v in op.operands:
                self.assume(v, truth, facts)
        elif is_branch(op) and len(op.results) == 1:
            self.assume_branches(op, truth, facts)
        elif negated := lookup(op.name).negated:
            name = op.name if truth else negated
            a, b = op.operands
            self.compare(name, a, b, facts)
            # Each comparison is also read from right to left.
            self.compare(lookup(name).mirrored, b, a, facts)

    def assume_branches(self, op: Op, truth: bool, facts: Facts) -> None:
        """Refine bounds by a short-circuit ``and``/``or``: an if that yields a constant on the other side."""
        for taken, other in ((0, 1), (1, 0)):
            constant = literal(self.producer.get(op.regions[other].yields[0]))
            if constant is not None and bool(constant) is not truth:
                self.assume(If(op).condition, taken == 0, facts)
                self.assume(op.regions[taken].yields[0], truth, facts)
                for v, high in self.ends[op][taken].high.items():
                    facts.high[v] = min(high, facts.high.get(v, high))

    def compare(self, name: str, x: Value, y: Value, facts: Facts) -> None:
        if not _is_integer(x):
            return
        # Upper bounds are recorded for strict and weak comparisons, as they exclude that sums wrap around.
        if name in LESS:
            top = self.high(y, facts) - (name == "lt")
            facts.high[x] = min(top, facts.high.get(x, top))
        low = facts.get(y)
        if low is None:
            return
        current = self.lower(x, facts, low - 1)
        if name == "gt":
            facts[x] = max(current, low + 1)
        elif name in AT_LEAST:
            facts[x] = max(current, low)
        # x != c with x >= c means x > c.
        elif name == "ne" and self.constant(y) is not None and facts.get(x) == low:
            facts[x] = low + 1


def _is_integer(v: Value) -> bool:
    return isinstance(v.type, Scalar) and v.type.is_integer


def _keeps_value(op: Op) -> bool:
    """Return whether a cast is between integers and the target holds every non-negative value of the source."""
    source, to = op.operands[0].type, op.result.type
    if not (isinstance(source, Scalar) and isinstance(to, Scalar)) or source.is_float:
        return False
    if source.kind is Kind.BOOL:
        return True
    return to.bits - (to.kind is Kind.INT) >= source.bits - (source.kind is Kind.INT)


class _Probe(Ranges):
    def access(self, op: Op, facts: Facts) -> None:
        self.inside(Access(op).index, facts)
