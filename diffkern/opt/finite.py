"""Numeric checks at run time: an assertion behind each operation that may produce an infinity or a NaN.

:func:`watch_numbers` inserts, in place, assertions that fail where a number is not finite although it was computed from
finite numbers (for a NaN: from numbers that are not NaN). So the assertion that fails is at the origin, not at a
consequence, and an infinity that the kernel writes or is given is not an error. Elements of tiles are checked where a
thread takes them out.
"""

from __future__ import annotations

from typing import Final

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.memory import ATOMICS
from diffkern.ir.types import Array, Mat, Scalar, Type, Vec, scalar_of

__all__ = ["watch_numbers"]

INFINITE: Final = "becomes infinite"
NAN: Final = "becomes nan"
READ: Final = "is nan where it is read"

_CALLED: Final = {"add": "the sum", "sub": "the difference", "mul": "the product", "div": "the quotient"}

_PASSED_ON: Final = frozenset("abs const construct extract insert neg select stack_get transpose".split())
"""Operations whose result is one of their operands, or was looked at when it was kept."""


def watch_numbers(fn: Function) -> Function:
    """Insert the assertions."""
    _FiniteWatch().region(fn.body)
    return fn


class _FiniteWatch:
    def __init__(self) -> None:
        self.b = Builder()

    def region(self, region: Region) -> None:
        ops, region.ops = region.ops, []
        with self.b.into(region):
            for op in ops:
                for sub in op.regions:
                    self.region(sub)
                region.ops.append(op)
                if not op.regions and op.name not in _PASSED_ON:
                    with self.b.at(op.loc):
                        self.watch(op)

    def watch(self, op: Op) -> None:
        """Assert that the results of an op are finite if its inputs are."""
        inputs = [part for v in op.operands if _is_number(v.type) for part in self.b.components(v)]
        for result in op.results:
            if _is_number(result.type):
                for k, part in enumerate(self.b.components(result)):
                    self.component(op, _name(op, result, k), part, inputs)

    def component(self, op: Op, name: str, value: Value, inputs: list[Value]) -> None:
        b = self.b
        b.op(
            "assertion",
            b.one("not", self.made("isnan", value, inputs)),
            text=f"{name} {NAN if inputs else READ}",
            number=True,
        )
        # Loads have no inputs, so only NaN is reported for them.
        if inputs and op.name not in ATOMICS:  # an infinity that was there before may be meant
            finite = b.one("not", self.made("isinf", value, inputs, "isfinite"))
            b.op("assertion", finite, text=f"{name} {INFINITE}", number=True)

    def made(self, question: str, value: Value, inputs: list[Value], before: str = "") -> Value:
        """Return whether a predicate holds for a value, and did not hold for the values it was computed from."""
        found = self.b.one(question, value)
        for v in inputs:
            held = self.b.one(before, v) if before else self.b.one("not", self.b.one(question, v))
            found = self.b.one("and", found, held)
        return found


def _is_number(t: Type) -> bool:
    return isinstance(t, (Scalar, Vec, Mat)) and scalar_of(t).is_float


def _name(op: Op, result: Value, k: int) -> str:
    """Return the name of a result in messages: the user's variable, an element of an array, or the operation."""
    array = op.operands[0] if op.operands and isinstance(op.operands[0].type, Array) else None
    if result.name:
        name = result.name
    elif array is not None:
        name = f"an element of {array.name or 'a shared array'}"
    else:
        name = _CALLED.get(op.name, f"the result of {op.name}")
    return name if isinstance(result.type, Scalar) else f"component {k} of {name}"
