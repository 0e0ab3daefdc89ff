"""Numbers made of literals alone: which type they get.

While a kernel is lowered, a value that has been made of literals and integers alone has the type ``WEAK_FLOAT`` or
``WEAK_INT`` (:mod:`terms`) and is cast where it is combined with a number of a type. Afterwards the body is rewritten
without weak types: values that an operation, a branch or a loop makes one number are of one type, float64 if any of
them is cast to float64 and float32 otherwise; integers have 64 bits if any is cast to such a type or does not fit in
int32. So a literal in a float64 kernel has all its digits, whatever it went through on the way, and a float32 kernel
computes in float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from diffkern.errors import KernelTypeError, Loc
from diffkern.frontend.terms.terms import WEAK
from diffkern.ir import types as T
from diffkern.ir.clone import substitute
from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.ops.composite import CONSTRUCTS
from diffkern.ir.ops.scalar import CASTS, LITERALS
from diffkern.ir.views import For, If, While, is_branch

__all__ = ["fits", "resolve_weak"]


def fits(number: int, t: T.Scalar) -> bool:
    """Return whether an integer lies in the range of an integer type."""
    if t.kind is T.Kind.UINT:
        return 0 <= number < 1 << t.bits
    return -(1 << (t.bits - 1)) <= number < 1 << (t.bits - 1)


def resolve_weak(body: Region, *, wide: bool = False) -> None:
    """Give every weak value of a lowered body its type; where nothing decides, of 64 bits if `wide`.

    Raises
    ------
    KernelTypeError
        For integers that no type holds together.
    """
    ops = list(_walk(body))
    # Literals are folded where they meet, so there may be none left.
    if not any(v.type in WEAK for v in _values(ops)):
        return
    classes = _TypeClasses()
    for op in ops:
        for values in _equal(op):
            classes.unite([v for v in values if v.type in WEAK])
    demanded, numbers = _demands(ops, classes)
    types = {
        v: T.with_scalar(v.type, _float(wide or classes.find(v) in demanded))
        if _is_float(v)
        else _integer(wide or classes.find(v) in demanded, numbers.get(classes.find(v), ()))
        for v in _values(ops)
        if v.type in WEAK
    }
    for v, t in types.items():
        v.type = t
    _retype(body, ops)


class _TypeClasses:
    """Values that have one type: union-find."""

    def __init__(self) -> None:
        self._parent: dict[Value, Value] = {}

    def find(self, v: Value) -> Value:
        root = v
        while (above := self._parent.get(root)) is not None:
            root = above
        # Paths are made short, so that long chains of ops are found in one step later.
        while v is not root:
            self._parent[v], v = root, self._parent[v]
        return root

    def unite(self, values: Sequence[Value]) -> None:
        for v in values[1:]:
            a, b = self.find(values[0]), self.find(v)
            if a is not b:
                self._parent[b] = a


def _walk(region: Region) -> Iterator[Op]:
    """Yield all ops, also those in the functions of maps."""
    for op in region.ops:
        yield op
        for sub in _regions(op):
            yield from _walk(sub)


def _regions(op: Op) -> tuple[Region, ...]:
    body = op.attrs.get("body")
    return (*op.regions, body) if isinstance(body, Region) else op.regions


def _values(ops: Iterable[Op]) -> Iterator[Value]:
    """Yield everything that is defined."""
    for op in ops:
        yield from op.results
        for sub in _regions(op):
            yield from sub.params


def _equal(op: Op) -> list[Sequence[Value]]:
    """Return groups of values of an op that have one type."""
    # A cast is where two types meet, so it joins nothing.
    if op.name in CASTS:
        return []
    if is_branch(op):
        return [*If(op).choices]
    if op.name == "for":
        return [(*For(op).bounds, For(op).index), *For(op).chains]
    if op.name == "while":
        return [*While(op).chains]
    if (inner := op.attrs.get("body")) is not None:
        return list(zip(op.operands, inner.params, strict=False))
    # An op may take an integer and a float, as a power does; each kind is a class.
    floats, integers = ([v for v in (*op.operands, *op.results) if _is_float(v) is kind] for kind in (True, False))
    return [floats, integers]


def _is_float(v: Value) -> bool:
    return T.is_complex(v.type) or (isinstance(v.type, T.Scalar) and v.type.is_float)


def _demands(ops: Iterable[Op], classes: _TypeClasses) -> tuple[set[Value], dict[Value, list[tuple[int, Loc | None]]]]:
    """Return the classes that are cast to a type of 64 bits, and the integer literals of each."""
    wide: set[Value] = set()
    numbers: dict[Value, list[tuple[int, Loc | None]]] = {}
    for op in ops:
        if op.name in CASTS and op.operands[0].type in WEAK:
            source, to = op.operands[0], op.result.type
            # A weak integer that is cast to float64 need not have 64 bits itself.
            if isinstance(to, (T.Scalar, T.Vec)) and _bits(to) == 64 and T.scalar_of(to).is_float == _is_float(source):
                wide.add(classes.find(source))
        elif op.name in LITERALS and op.result.type in WEAK and not _is_float(op.result):
            numbers.setdefault(classes.find(op.result), []).append((int(op.attrs["value"]), op.loc))
    return wide, numbers


def _bits(t: T.Element) -> int:
    return T.scalar_of(t).bits


def _float(wide: bool) -> T.Scalar:
    return T.FLOAT64 if wide else T.FLOAT32


def _integer(wide: bool, numbers: Sequence[tuple[int, Loc | None]]) -> T.Scalar:
    # Only the literals are looked at: what is computed of them may overflow as elsewhere.
    for t in (T.INT64,) if wide else (T.INT32, T.INT64):
        if all(fits(number, t) for number, _ in numbers):
            return t
    if all(fits(number, T.UINT64) for number, _ in numbers):
        return T.UINT64
    number, loc = max(numbers, key=lambda pair: pair[0])
    raise KernelTypeError(
        f"no integer type holds {number} and the negative numbers it is combined with",
        loc=loc,
        remedy="convert one of them, as in dk.uint64(...)",
    )


def _retype(body: Region, ops: Iterable[Op]) -> None:
    """Let attributes name the types of the results, and remove casts from a type to itself."""
    same: dict[Value, Value] = {}
    for op in ops:
        if op.name in LITERALS | CONSTRUCTS and op.attrs["type"] in WEAK:
            op.attrs = {**op.attrs, "type": op.result.type}
        elif op.name in CASTS:
            op.attrs = {**op.attrs, "to": op.result.type}
            if op.operands[0].type == op.result.type:
                same[op.result] = op.operands[0]
        elif is_branch(op):
            op.attrs = {**op.attrs, "types": tuple(r.type for r in op.results)}
    # A cast is removed before its result is replaced, or it would become its own operand.
    for region in (body, *(r for op in ops for r in _regions(op))):
        region.ops[:] = [op for op in region.ops if not (op.name in CASTS and op.result in same)]
    # Names are for messages, and the cast's may be the variable's.
    _keep_names(same)
    substitute(body, same)
    for op in ops:
        if isinstance(inner := op.attrs.get("body"), Region):
            substitute(inner, same)


def _keep_names(same: dict[Value, Value]) -> None:
    for result, source in same.items():
        if result.name and not source.name:
            source.name = result.name
