"""Which indices cannot be negative? Clears the ``wrap`` flag of accesses where that is proved; in place.

A negative index counts from the end, as in Python, which costs a comparison per access and hides from LLVM and from
the conflict analysis that neighbouring threads touch neighbouring elements. The analysis keeps lower bounds of integer
values, refined by the conditions of enclosing ``if`` and ``while`` ops (``i > 0``, ``i != 0``, their conjunctions and
negations) and by loop bounds.
"""

from __future__ import annotations

from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.types import Kind, Scalar

Facts = dict[Value, int]

_MIRROR = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_REFINED = frozenset({"add", "sub", "mul", "min", "max"})
_DEPTH = 6
_NEGATE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


def clear_wraps(fn: Function) -> Function:
    """Set ``wrap`` to False on each index that is proved to be at least 0."""
    _Ranges().region(fn.body, {})
    return fn


class _Ranges:
    def __init__(self) -> None:
        self.producer: dict[Value, Op] = {}

    def region(self, region: Region, facts: Facts) -> None:
        for op in region.ops:
            for r in op.results:
                self.producer[r] = op
            bound = self.op(op, facts)
            if bound is not None:
                facts[op.result] = bound

    def op(self, op: Op, facts: Facts) -> int | None:
        """Visit an op; returns the lower bound of its single integer result where one is known."""
        if op.name in ("load", "store", "atomic", "accumulate"):
            self.access(op, facts)
        elif op.name == "if":
            return self.visit_if(op, facts)
        elif op.name == "for":
            self.visit_for(op, facts)
        elif op.name == "while":
            self.visit_while(op, facts)
        if len(op.results) == 1 and isinstance(op.result.type, Scalar) and op.result.type.is_integer:
            return self.bound(op, facts)
        return None

    def access(self, op: Op, facts: Facts) -> None:
        index = op.operands[1:] if op.name == "load" else op.operands[1:-1]
        wrap = tuple(w and not self.nonnegative(v, facts) for v, w in zip(index, op.attrs["wrap"], strict=True))
        op.attrs = {**op.attrs, "wrap": wrap}

    def nonnegative(self, v: Value, facts: Facts) -> bool:
        low = self.deep(v, facts, _DEPTH)
        return low is not None and low >= 0

    def deep(self, v: Value, facts: Facts, depth: int) -> int | None:
        """The bound of a value under the facts that hold here, which may be more than where it was computed."""
        known = facts.get(v)
        if isinstance(v.type, Scalar) and v.type.kind is Kind.UINT:
            known = max(0, known or 0)
        op = self.producer.get(v)
        if depth and op is not None and op.name in _REFINED:
            computed = self.arithmetic(op, *(self.deep(x, facts, depth - 1) for x in op.operands))
            if computed is not None:
                return computed if known is None else max(known, computed)
        return known

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
            case "tid" | "shape":
                return 0
            case "cast":
                return low(0) if _keeps_value(op) else None
            case "add" | "mul" | "min" | "max" | "floordiv" | "and" | "or" | "xor" | "shr" | "sub":
                return self.arithmetic(op, low(0), low(1))
            case "mod":
                b = low(1)
                return 0 if b is not None and b >= 0 else None
            case "select":
                a, b = low(1), low(2)
                return min(a, b) if a is not None and b is not None else None
            case "abs":
                return 0
            case "load" | "atomic":
                t = op.result.type
                return 0 if isinstance(t, Scalar) and t.kind is Kind.UINT else None
            case _:
                return None

    def arithmetic(self, op: Op, a: int | None, b: int | None) -> int | None:
        if op.name == "max":
            known = [x for x in (a, b) if x is not None]
            return max(known) if known else None
        if op.name == "sub":
            constant = self.producer.get(op.operands[1])
            if a is not None and constant is not None and constant.name == "const":
                return a - int(constant.attrs["value"])
            return None
        if a is None or b is None:
            return None
        if op.name == "add":
            return a + b
        if op.name == "min":
            return min(a, b)
        return 0 if a >= 0 and b >= 0 else None

    def visit_if(self, op: Op, facts: Facts) -> int | None:
        then, orelse = dict(facts), dict(facts)
        self.assume(op.operands[0], True, then)
        self.assume(op.operands[0], False, orelse)
        self.region(op.regions[0], then)
        self.region(op.regions[1], orelse)
        for r, a, b in zip(op.results, op.regions[0].yields, op.regions[1].yields, strict=True):
            low_a, low_b = then.get(a), orelse.get(b)
            if low_a is not None and low_b is not None:
                facts[r] = min(low_a, low_b)
        return facts.get(op.results[0]) if len(op.results) == 1 else None

    def visit_for(self, op: Op, facts: Facts) -> None:
        (body,) = op.regions
        inner = dict(facts)
        step = self.producer.get(op.operands[2])
        if step is not None and step.name == "const":
            up = int(step.attrs["value"]) > 0
            start = facts.get(op.operands[0] if up else op.operands[1])
            if start is not None:
                inner[body.params[0]] = start if up else start + 1
        self.loop(op, body, body.params[1:], op.operands[3:], facts, inner)

    def visit_while(self, op: Op, facts: Facts) -> None:
        cond, body = op.regions
        self.loop(op, body, body.params, op.operands, facts, dict(facts), cond)

    def loop(
        self,
        op: Op,
        body: Region,
        params: tuple[Value, ...],
        init: tuple[Value, ...],
        facts: Facts,
        inner: Facts,
        cond: Region | None = None,
    ) -> None:
        """Carried values keep the bound of their initial value if the body, assuming it, yields no less."""
        guess = {k: facts[v] for k, v in enumerate(init) if v in facts}
        while True:
            trial = dict(inner)
            trial.update({params[k]: low for k, low in guess.items()})
            if cond is not None:
                trial.update({cond.params[k]: low for k, low in guess.items()})
                self.region_without_flags(cond, trial)
                self.assume(cond.yields[0], True, trial)
                for p, q in zip(cond.params, body.params, strict=True):
                    if p in trial:
                        trial[q] = max(trial[p], trial.get(q, trial[p]))
            self.region_without_flags(body, trial)
            kept = {k: low for k, low in guess.items() if trial.get(body.yields[k], low - 1) >= low}
            if kept == guess:
                break
            guess = kept
        if cond is not None:
            self.region(cond, {**facts, **{cond.params[k]: low for k, low in guess.items()}})
        self.region(body, trial)
        facts.update({op.results[k]: low for k, low in guess.items()})

    def region_without_flags(self, region: Region, facts: Facts) -> None:
        """Propagate bounds only: flags must not be cleared under an assumption that may still fall."""
        probe = _Probe()
        probe.producer = self.producer
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
        elif op.name == "if" and len(op.results) == 1:
            self.assume_branches(op, truth, facts)
        elif op.name in _MIRROR:
            name = op.name if truth else _NEGATE[op.name]
            a, b = op.operands
            self.compare(name, a, b, facts)
            self.compare(_MIRROR[name], b, a, facts)

    def assume_branches(self, op: Op, truth: bool, facts: Facts) -> None:
        """A short-circuit ``and``/``or``: an if that yields a constant on the side not evaluated."""
        for taken, other in ((0, 1), (1, 0)):
            constant = self.producer.get(op.regions[other].yields[0])
            if constant is not None and constant.name == "const" and bool(constant.attrs["value"]) is not truth:
                self.assume(op.operands[0], taken == 0, facts)
                self.assume(op.regions[taken].yields[0], truth, facts)

    def compare(self, name: str, x: Value, y: Value, facts: Facts) -> None:
        low = facts.get(y)
        if low is None or not (isinstance(x.type, Scalar) and x.type.is_integer):
            return
        current = self.lower(x, facts, low - 1)
        if name == "gt":
            facts[x] = max(current, low + 1)
        elif name in ("ge", "eq"):
            facts[x] = max(current, low)
        elif name == "ne":
            constant = self.producer.get(y)
            if constant is not None and constant.name == "const" and facts.get(x) == low:
                facts[x] = low + 1


def _keeps_value(op: Op) -> bool:
    """Whether a cast is between integers and the target holds every non-negative value of the source."""
    source, to = op.operands[0].type, op.result.type
    if not (isinstance(source, Scalar) and isinstance(to, Scalar)) or source.is_float:
        return False
    if source.kind is Kind.BOOL:
        return True
    return to.bits - (to.kind is Kind.INT) >= source.bits - (source.kind is Kind.INT)


class _Probe(_Ranges):
    def access(self, op: Op, facts: Facts) -> None:
        return
