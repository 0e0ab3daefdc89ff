"""Recompute in this thread the values that another thread computes in its trip of a loop over all threads.

Given the ops of thread ``i`` up to the loop, and those of its trip ``j``, :class:`Exchange` emits the values that
thread ``j`` computes in its trip ``i``: a copy of the ops in which the thread index and the loop index are swapped. Ops
that depend on neither are not copied. For differences like ``x[j] - x[i]`` the copy is the negative, which products and
sums propagate, so that most of the computation of a symmetric pair exists already. Signs are moved only where that is
exact but for the sign of a zero, and no op for which this sign matters gets such a value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from diffkern.analysis.uniformity import recomputable
from diffkern.ir.builder import Builder
from diffkern.ir.clone import free_values
from diffkern.ir.nodes import Op, Region, Value, walk
from diffkern.ir.ops.composite import BILINEAR, BY_DIVISOR, CONSTRUCTS, PARTS, PRODUCTS
from diffkern.ir.ops.memory import ELEMENT_LOADS, THREAD_INDICES
from diffkern.ir.ops.scalar import CASTS, DIFFERENCES, JUMPS, NEGATIVES, SELECTIONS, SUMS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Mat, Scalar, Vec, scalar_of
from diffkern.ir.views import Access, If, is_branch
from diffkern.opt.cse import freeze

__all__ = ["Exchange", "Signed"]

Signed = tuple[Value, bool]
"""A value, and whether its negative is meant."""

_PRODUCTS = frozenset({"cw_mul"}) | PRODUCTS | BY_DIVISOR  # quotients may become products by reciprocals
_PARTS = NEGATIVES | CASTS | PARTS | SELECTIONS
_ROUNDED_ALIKE = frozenset({"load", "const", "abs", "min", "max", "sqrt", *_PRODUCTS, *_PARTS})


class Exchange:
    """The copy of the ops of one pair of threads, made as the ops are given in program order.

    Parameters
    ----------
    thread, index
        The thread index and the index of the loop.
    readable
        Whether the result of a load does not depend on when it is executed.
    wanted
        The accumulations whose values are wanted.

    Attributes
    ----------
    before, body
        The new ops that go in front of the loop, and those that go at the end of its body.
    found
        For each wanted accumulation the value for the exchanged pair; zero where thread ``j`` would not reach it in
        trip ``i``. None where it cannot be computed.
    """

    def __init__(self, thread: Value, index: Value, readable: Callable[[Op], bool], wanted: Sequence[Op]) -> None:
        self.before, self.body = Region(), Region()
        self.found: dict[Op, Signed | None] = dict.fromkeys(wanted)
        self._readable = readable
        self._b = Builder(self.body)
        self._nested = 0
        self._outside: set[Value] = {thread}
        self._known: dict[Hashable, tuple[Value, ...]] = {}
        self._signed: dict[Value, Signed] = {}
        self._alike: set[Value] = set()  # floats whose copies are rounded alike
        self._products: set[Value] = set()
        # What a value is for the pair exchanged; None where it cannot be had, itself without an entry.
        self._exact: dict[Value, Value | None] = {}
        self._exact[index] = self._cast(thread, index)
        self._exact[thread] = self._cast(index, thread)
        self._thread = self._exact[thread]

    def run(self, params: Iterable[Value], outer: Sequence[Op], loop: Region, carried: Iterable[Value]) -> None:
        """Copy the ops that the wanted accumulations need.

        Parameters
        ----------
        params
            The parameters of the function.
        outer
            The ops in front of the loop.
        loop
            Its body.
        carried
            Its carried values that differ from trip to trip.
        """
        self._outside.update(params)
        # What thread j carries into its trip i is unknown here: this thread executes only its own trips.
        self._exact.update(dict.fromkeys(carried))
        # All ops are recorded first, those of the loop too: the exchanged copy often equals an op further down, as x[j]
        # - x[i] does for both threads.
        for op in (*outer, *loop.ops):
            self._note(op)
        # Ops in front of the loop are copied with the loop index as the thread index, so most land in the loop's body;
        # only those without the index stay outside.
        for op in outer:
            self._outside.update(op.results)
            self._op(op)
        self.found.update(self._ops(loop.ops))

    # -- values ------------------------------------------------------------------------------------------------------

    def _of(self, v: Value) -> Value | None:
        return self._exact.get(v, v)

    def _sign(self, v: Value) -> Signed:
        """Return the value for the exchanged pair that is right but for the sign of a zero."""
        if v in self._signed:
            return self._signed[v]
        exact = self._of(v)
        assert exact is not None
        return exact, False

    def _cast(self, v: Value, like: Value) -> Value:
        assert isinstance(like.type, Scalar)
        if v.type == like.type:
            return v
        return self._emit("cast", (v,), {"to": like.type})

    def _note(self, op: Op) -> None:
        """Make an existing op available for reuse by equal ones."""
        if not op.regions and self._is_repeatable(op):
            self._known.setdefault(_key(op.name, op.operands, op.attrs), op.results)

    def _is_repeatable(self, op: Op) -> bool:
        return recomputable(op) or (op.name in ELEMENT_LOADS and self._readable(op))

    def _emit(self, name: str, operands: tuple[Value, ...], attrs: Mapping[str, Any]) -> Value:
        # The key has the operands' identities: an op that exists in the program, or was copied before, is not emitted
        # twice.
        key = _key(name, operands, attrs)
        known = self._known.get(key)
        if known is not None:
            return known[0]
        # An op on values from outside of the loop is hoisted, unless it stands under a condition: executing it
        # speculatively could load out of bounds.
        is_outside = not self._nested and self._outside.issuperset(operands)
        with self._b.into(self.before if is_outside else self._b.region):
            results = self._b.op(name, *operands, **attrs)
        if is_outside:
            self._outside.update(results)
        self._known[key] = results
        return results[0]

    # -- ops ---------------------------------------------------------------------------------------------------------

    def _ops(self, ops: Iterable[Op]) -> dict[Op, Signed | None]:
        """Copy ops; return the values of the wanted accumulations in them."""
        found: dict[Op, Signed | None] = {}
        for op in ops:
            if op in self.found:
                value = Access(op).value
                found[op] = None if self._of(value) is None else self._sign(value)
            elif is_branch(op) and any(inner in self.found for inner in walk_all(op)):
                found.update(self._branch(op))
            else:
                self._op(op)
        return found

    def _op(self, op: Op) -> None:
        if op.name in THREAD_INDICES:
            self._exact[op.result] = self._thread
        elif is_branch(op):
            self._branch(op)
        elif op.regions or not self._is_repeatable(op) or len(op.results) != 1:
            self._exact.update(dict.fromkeys(op.results))
        else:
            self._simple(op)

    def _is_alike(self, v: Value) -> bool:
        return v in self._alike or not _is_float(v)

    def _note_rounding(self, op: Op) -> None:
        """Note whether a copy of an op is rounded as the op is: a product and the sum it goes into may be fused."""
        # LLVM may contract a product and a sum to a fused multiply-add in one of the two copies and not in the other,
        # so sums of products count as rounded differently.
        if op.name in _PRODUCTS or (op.name in _PARTS and not self._products.isdisjoint(op.operands)):
            self._products.add(op.result)
        is_sum = op.name in SUMS and self._products.isdisjoint(op.operands)
        if (is_sum or op.name in _ROUNDED_ALIKE) and all(map(self._is_alike, op.operands)):
            self._alike.add(op.result)

    def _simple(self, op: Op) -> None:
        self._note_rounding(op)
        operands = [self._of(v) for v in op.operands]
        known = tuple(v for v in operands if v is not None)
        if len(known) < len(operands):
            self._exact[op.result] = None
            return
        with self._b.at(op.loc):
            # An op whose operands do not change under the exchange is the same value for both threads and is reused.
            if not self._nested and known == op.operands:
                return  # the same for both
            pairs = [self._sign(v) for v in op.operands]
            even = _even(op, pairs)
            # A rounding difference of the last bit could make the pair take different branches, or round to different
            # integers. Then the pair would not be counted symmetrically, so such a value is not exchanged.
            if (even or known) != op.operands and _jumps(op) and not all(map(self._is_alike, op.operands)):
                self._exact[op.result] = None
                return
            self._exact[op.result] = self._emit(op.name, even or known, op.attrs)
            if even is None and any(pair != (v, False) for pair, v in zip(pairs, known, strict=True)):
                signed = self._with_signs(op, known, pairs)
                if signed is not None:
                    self._signed[op.result] = signed
            elif op.name in DIFFERENCES and scalar_of(op.result.type).is_float:
                # b - a exists already and is exactly -(a - b) in IEEE arithmetic, but for the sign of a zero.
                turned = self._known.get(_key("sub", (known[1], known[0]), op.attrs))
                if turned is not None:
                    self._signed[op.result] = turned[0], True

    def _with_signs(self, op: Op, exact: tuple[Value, ...], pairs: list[Signed]) -> Signed | None:
        """Return the result for operands with signs, None where the signs cannot be propagated."""
        values, signs = tuple(v for v, _ in pairs), [sign for _, sign in pairs]
        if op.name in NEGATIVES:
            return values[0], not signs[0]
        if op.name in SUMS:
            # Subtraction negates its second operand: fold that into the operand's sign.
            return self._sum(values, (signs[0], signs[1] != (op.name in DIFFERENCES)))
        if op.name in BILINEAR:
            return self._emit(op.name, values, op.attrs), signs[0] != signs[1]
        if op.name in BY_DIVISOR:
            # The divisor keeps its exact value: with a sign moved out of it, a zero divisor would give an infinity of
            # the other sign.
            return self._emit(op.name, (values[0], exact[1]), op.attrs), signs[0]
        if lookup(op.name).parity < 0 or (op.name in CONSTRUCTS and len(set(signs)) == 1):
            return self._emit(op.name, values, op.attrs), signs[0]
        return None

    def _sum(self, values: tuple[Value, ...], signs: tuple[bool, bool]) -> Signed:
        a, b = values
        if signs[0] == signs[1]:
            return self._emit("add", (a, b), {}), signs[0]
        # With different signs the sum is a difference, whose negative may exist already.
        turned = self._known.get(_key("sub", (b, a), {}))
        if turned is not None:
            return turned[0], signs[1]
        return self._emit("sub", (a, b), {}), signs[0]

    def _branch(self, op: Op) -> dict[Op, Signed | None]:
        """Copy an ``if`` as far as its results can be computed, with the values that the wanted accumulations in it
        add.
        """
        wanted = [inner for inner in walk_all(op) if inner in self.found]
        condition = self._of(If(op).condition)
        # Which branch thread j takes in its trip i is unknown, and so is all that the branch computes.
        if condition is None:
            self._exact.update(dict.fromkeys(op.results))
            return dict.fromkeys(wanted)
        if not wanted and not self._nested and self._is_shared(op):
            return {}
        copies, yields = [], []
        for region in op.regions:
            copy, added = self._region(region)
            copies.append(copy)
            yields.append((added, [self._of(v) for v in region.yields]))
        places = [k for k in range(len(op.results)) if all(own[k] is not None for _, own in yields)]
        results = [op.results[k] for k in places]
        self._exact.update(dict.fromkeys(op.results))
        # An accumulation is lost if one arm cannot compute it: a partial sum would be wrong.
        lost = {acc for added, _ in yields for acc, value in added.items() if value is None}
        sums = [acc for acc in wanted if acc not in lost]
        for copy, (added, own) in zip(copies, yields, strict=True):
            given = [v for k in places if (v := own[k]) is not None]
            with self._b.into(copy), self._b.at(op.loc):
                given += [self._plain(added.get(acc), acc) for acc in sums]
            copy.yields = tuple(given)
        found: dict[Op, Signed | None] = dict.fromkeys(lost)
        if not results and not sums:
            # An if that yields nothing is dead here: its side effects are those of the accumulations, which are summed
            # instead.
            return found
        with self._b.at(op.loc):
            made = self._b.if_(condition, copies[0], copies[1])
        self._exact.update(zip(results, made[: len(results)], strict=True))
        found.update((acc, (v, False)) for acc, v in zip(sums, made[len(results) :], strict=True))
        return found

    def _region(self, region: Region) -> tuple[Region, dict[Op, Signed | None]]:
        copy, known = Region(), dict(self._known)
        self._nested += 1
        with self._b.into(copy):
            added = self._ops(region.ops)
        self._nested -= 1
        # Ops emitted inside of the branch do not dominate what follows it, so they are forgotten at its end.
        self._known = known
        return copy, added

    def _plain(self, value: Signed | None, acc: Op) -> Value:
        """Return the contribution of a branch as a value, with its sign applied."""
        if value is None:
            return self._b.zero(Access(acc).value.type)
        return self._b.neg(value[0]) if value[1] else value[0]

    def _is_shared(self, op: Op) -> bool:
        """Return whether an ``if`` is the same for both threads of the pair."""
        inner = [x for x in walk_all(op) if x is not op]
        if not all(is_branch(x) or self._is_repeatable(x) for x in inner):
            return False
        used = [*op.operands, *(v for region in op.regions for v in free_values(region))]
        return all(self._of(v) is v for v in used)


def walk_all(op: Op) -> Iterable[Op]:
    """Iterate over an op and those in its regions."""
    yield op
    for region in op.regions:
        yield from walk(region)


def _is_float(v: Value) -> bool:
    return isinstance(v.type, (Scalar, Vec, Mat)) and scalar_of(v.type).is_float


def _jumps(op: Op) -> bool:
    """Return whether a different rounding of a float operand may change the result by more than rounding, as in
    comparisons.
    """
    return any(map(_is_float, op.operands)) and (op.name in JUMPS or not _is_float(op.result))


def _even(op: Op, pairs: list[Signed]) -> tuple[Value, ...] | None:
    """Return the operands without their signs, where the signs do not affect the result in the last bit; else None."""
    is_even = lookup(op.name).parity > 0 or (lookup(op.name).definite and op.operands[0] is op.operands[1])
    return tuple(v for v, _ in pairs) if is_even else None


def _key(name: str, operands: tuple[Value, ...], attrs: Mapping[str, Any]) -> Hashable:
    if lookup(name).commutative:
        operands = tuple(sorted(operands, key=id))  # only the grouping matters, not the order
    return name, operands, tuple(sorted((k, freeze(v)) for k, v in attrs.items()))
