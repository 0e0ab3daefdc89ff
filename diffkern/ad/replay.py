"""Re-execution of the primal inside the adjoint, without its effects.

The adjoint recomputes primal values rather than storing them: every scope of the reverse sweep begins with a copy of
the scope's primal ops, from which dead code elimination removes those that the sweep does not use ("redundant
execution", Schenck et al., SC 2022). The copy never writes the user's arrays; loads from arrays that the kernel
overwrites read the saved entry contents or the final contents, as the dependence analysis allows; a value that neither
of them holds becomes *poison*, and any use of it is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import NoReturn

from diffkern.analysis.dependence import LoadFact, LoadSource
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner
from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.ops.memory import (
    ACCESSES,
    ACCUMULATES,
    ATOMICS,
    ELEMENT_ATOMICS,
    ELEMENT_LOADS,
    LOADS,
    ORDERED_READS,
    PLACE_WRITES,
    STORES,
)
from diffkern.ir.ops.rule import COTANGENT_ARRAYS
from diffkern.ir.ops.scalar import SUMS
from diffkern.ir.types import INT32, Scalar
from diffkern.ir.views import Access, Ruled, While
from diffkern.process.dataclass import dataclass

__all__ = ["Replay", "ReplayContext", "changed_place", "refuse"]

_SIGNS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}


@dataclass(slots=True)
class ReplayContext:
    """The state shared by all replays of one adjoint."""

    facts: dict[Op, LoadFact]
    saved: dict[Value, Value]  # array parameter -> parameter with its entry contents
    logged: Mapping[Op, Value] = field(default_factory=dict)  # a load -> what a log has of its value
    poison: dict[Value, AutodiffError] = field(default_factory=dict)
    lost: dict[Value, Op] = field(default_factory=dict)  # poison -> the load that a log could have
    counters: dict[Op, Value] = field(default_factory=dict)  # a while op -> key of its trip count in environments
    buffers: Mapping[Value, Value] = field(default_factory=dict)  # an array of the primal -> its cotangents
    cotangents: dict[Value, Value | None] = field(default_factory=dict)  # in a derivative written by the user
    checked: dict[Value, LoadFact] = field(default_factory=dict)  # a load that is right if a launch passes checks


def refuse(op: Op) -> NoReturn:
    """Raise the error for a derivative written by the user that has a forbidden effect."""
    raise AutodiffError(op.attrs["text"], loc=op.loc, remedy="a derivative changes dk.adjoint[...] alone")


class Replay(Cloner):
    """A cloner that leaves out effects, redirects loads and counts the trips of ``while`` loops."""

    def __init__(self, builder: Builder, env: dict[Value, Value], context: ReplayContext) -> None:
        super().__init__(builder, env)
        self.context = context

    def op(self, op: Op) -> None:
        with self.b.at(op.loc):
            if op.name == "refused":
                refuse(op)
            elif op.name == "ruled":
                self.ruled(Ruled(op))
            elif op.name in COTANGENT_ARRAYS:
                # An array without a buffer has cotangents that are exactly zero.
                self.context.cotangents[op.result] = self.context.buffers.get(op.operands[0])
            elif op.name in ACCESSES and Access(op).array in self.context.cotangents:
                self.cotangent(op)
            # Stores are left out: the launch has made them already, and repeating one would overwrite later contents.
            elif op.name in STORES | ACCUMULATES | PLACE_WRITES:
                return
            # What the launch read there may have been overwritten by itself.
            elif op.name in ORDERED_READS:
                self.poisoned(op, changed_place(op))
            # An atomic's result cannot be recomputed. It is poisoned instead of refused here, since mostly nothing uses
            # it.
            elif op.name in ATOMICS:
                self.poisoned(op, _atomic_result(op))
            elif op.name in LOADS:
                self.load(op)
            elif op.name == "while":
                self.counted_while(op)
            else:
                super().op(op)

    def ruled(self, call: Ruled) -> None:
        """Set the results of a func with rules of its own: those of its replay, or of its own body without one."""
        found = self.values(call.returned) if call.replay is None else self.inline(call.replay, ())
        self.env.update(zip(call.op.results, found, strict=True))

    def cotangent(self, op: Op) -> None:
        """Copy an access to cotangents in a derivative written by the user; the array may have no buffer of them."""
        access, buffer = Access(op), self.context.cotangents[Access(op).array]
        if op.name in LOADS:
            if buffer is None:
                # Reading cotangents that do not exist gives zero, writing them does nothing.
                self.env[op.result] = self.b.zero(op.result.type)
            else:
                self.emit(op, (buffer, *self.values(access.places)), ())
            return
        if op.name in ATOMICS:
            self.poisoned(op, _atomic_result(op))
        if buffer is None:
            return
        operands = (buffer, *self.values(op.operands[1:]))
        if op.attrs.get("kind") not in SUMS:
            self.emit(op, operands, ())
            return
        value = operands[-1] if op.attrs["kind"] == "add" else self.b.neg(operands[-1])
        if op.name in ELEMENT_ATOMICS:
            # Other threads may add to the same element of a cotangent; "plain" leaves it to the conflict analysis to
            # find that out.
            self.b.op("accumulate", *operands[:-1], value, mode="plain", wrap=access.wrap)
        else:
            self.b.op("tile_accumulate", *operands[:-1], value, mode="plain", **access.along)

    def poisoned(self, op: Op, error: AutodiffError) -> None:
        value = Value(op.result.type, op.result.name)
        self.context.poison[value] = error
        self.env[op.result] = value

    def load(self, op: Op) -> None:
        fact = self.context.facts.get(op)
        # A logged value is right whatever the kernel writes, so it takes precedence.
        if op in self.context.logged:
            self.env[op.result] = self.value(self.context.logged[op])
        elif fact is None or fact.source is LoadSource.FINAL:
            super().op(op)
        # The array has been overwritten since; the value is read from the copy of its entry contents.
        elif fact.source is LoadSource.ENTRY:
            array = self.context.saved[Access(op).array]
            self.emit(op, (array, *self.values(Access(op).places)), ())
        else:
            self.poisoned(op, _lost_value(op, fact))
            if op.name in ELEMENT_LOADS and fact.source is LoadSource.UNKNOWN:
                self.context.lost[self.env[op.result]] = op
        # The load is right only if the launch passes checks; which of these loads survive is known after elimination.
        if fact is not None and (fact.checks or fact.unproved or fact.trusted) and op not in self.context.logged:
            self.context.checked[self.env[op.result]] = fact

    def counted_while(self, op: Op) -> None:
        """Copy a ``while`` with one more carried value, the number of trips made so far."""
        b = self.b
        # The key is shared by all replays of the loop; each environment maps it to the count of its own replay.
        key = self.context.counters.setdefault(op, Value(INT32, "trips"))
        loop = While(op)
        new_cond, new_body = self.region(loop.test), self.region(loop.body)
        new_cond.params = (*new_cond.params, Value(INT32, "trips"))
        count = Value(INT32, "trips")
        new_body.params = (*new_body.params, count)
        with b.into(new_body):
            new_body.yields = (*new_body.yields, b.add(count, b.i32(1)))
        names = [r.name for r in op.results]
        results = b.while_((*self.values(loop.init), b.i32(0)), new_cond, new_body, (*names, "trips"))
        self.env.update(zip(op.results, results[:-1], strict=True))
        self.env[key] = results[-1]


def used_poisons(region: Region, context: ReplayContext) -> list[Value]:
    """Return the poisoned values that a region uses, in order."""
    found: dict[Value, None] = {}
    # Yields are uses too: a poisoned value may leave a region and be used behind it.
    for op in region.ops:
        found.update(dict.fromkeys(v for v in op.operands if v in context.poison))
        for sub in op.regions:
            found.update(dict.fromkeys(used_poisons(sub, context)))
    found.update(dict.fromkeys(v for v in region.yields if v in context.poison))
    return list(found)


def plain_form(op: Op | None) -> str:
    """Return advice, as the end of a remedy, on replacing an atomic update written as an augmented assignment."""
    if op is None or not op.attrs.get("augmented"):
        return ""
    name, sign = Access(op).array.name, _SIGNS[op.attrs["kind"]]
    return (
        f"; {name}[k] {sign}= v is atomic, as the index is not proved to be one thread's own: if it is, write "
        f"{name}[k] = {name}[k] {sign} v"
    )


def _atomic_result(op: Op) -> AutodiffError:
    t, name = op.result.type, f"atomic_{op.attrs['kind'].removeprefix('f')}"
    error = AutodiffError(
        f"the gradient needs the value that {name} returned, which depends on the order of threads",
        loc=op.loc,
        remedy="do not use the returned value in differentiated code, or split the kernel in two launches",
    )  # fmt: skip
    if isinstance(t, Scalar) and t.is_integer and op.name in ELEMENT_ATOMICS:
        error.in_log = "calls"
    return error


def changed_place(op: Op) -> AutodiffError:
    """Return the error for a read of memory that the same kernel writes by an id."""
    return AutodiffError(
        "the gradient needs a value of a volume that the kernel also stores to",
        loc=op.loc,
        remedy="store to another volume than the one that is read, or split the kernel in two launches",
    )


def reading(op: Op, fact: LoadFact) -> str:
    """Describe a load for messages; for ``a[i] *= v`` the source shows the place of the store."""
    name = Access(op).array.name
    updates = fact.store is not None and op.loc is not None and fact.store.loc == op.loc
    return f"this update reads the element of {name} that it writes" if updates else f"this reads {name}"


def _lost_value(op: Op, fact: LoadFact) -> AutodiffError:
    name = Access(op).array.name
    line = f" (line {fact.store.loc.line})" if fact.store is not None and fact.store.loc is not None else ""
    if fact.source is LoadSource.RACING:
        what = reading(op, fact)
        error = AutodiffError(
            f"{what}, which another thread of the same launch may write{line}; the gradient needs the value",
            loc=op.loc,
            remedy=f"read from a copy of {name} or write to another array, in a launch of its own if need be"
            + plain_form(fact.store),
        )
        error.is_race = True
        return error
    error = AutodiffError(
        f"the gradient needs this value of {name}, which the kernel overwrites{line} before and after it is read",
        loc=op.loc,
        remedy="carry the value from iteration to iteration in a variable and write it to the array behind the loop, "
        "or give each iteration an element of its own",
    )
    if op.name in ELEMENT_LOADS:
        error.in_log = "loads"
    return error
