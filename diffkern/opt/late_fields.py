"""Load a field of an element behind the branches and loops in front of its first use, in place.

``pole = poles[k]`` loads all fields of a struct at once, but a program may need one of them for a long computation and
the others for what it makes of the result. Numbers that wait for that occupy registers, and are stored on the stack and
loaded again where there are not enough.

A field is moved only where another field of the same element is used before: that load brings the element into the
cache. What the threads do in between must change no memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from diffkern.ir.clone import free_values
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import ELEMENT_LOADS
from diffkern.ir.ops.table import lookup
from diffkern.ir.views import Access
from diffkern.opt.trip_loads import HARMLESS

__all__ = ["load_fields_late"]

Element: TypeAlias = tuple[int, tuple[Value, ...]]


def load_fields_late(fn: Function) -> Function:
    """Move loads of fields behind branches and loops that do not need them."""
    records = {name: number for number, names in enumerate(fn.records) for name in names}
    fields = {p: records[p.name] for p in fn.params if p.name in records}
    if fields:
        _region(fn.body, fields)
    return fn


def _region(region: Region, fields: dict[Value, int]) -> None:
    for op in region.ops:
        for sub in op.regions:
            _region(sub, fields)
    # Positions of branches and loops, which are few.
    blocks = [k for k, op in enumerate(region.ops) if op.regions]
    loads = list(_loads(region.ops, fields))
    if not blocks or len(loads) < 2:
        return
    first = _first_uses(region)
    uses = {k: first.get(region.ops[k].result, len(region.ops)) for k, _ in loads}
    late = {k for k, _ in loads if any(k < block < uses[k] for block in blocks)}
    early = {element for k, element in loads if k not in late}
    moved = {k: uses[k] for k, element in loads if k in late and element in early}
    moved = {k: to for k, to in moved.items() if all(map(_is_harmless, region.ops[k + 1 : to]))}
    if moved:
        region.ops[:] = _placed(region.ops, moved)


def _loads(ops: Sequence[Op], fields: dict[Value, int]) -> Iterator[tuple[int, Element]]:
    """Yield positions of loads of fields, each with the element that it reads."""
    for k, op in enumerate(ops):
        if op.name in ELEMENT_LOADS and Access(op).array in fields:
            yield k, (fields[Access(op).array], tuple(Access(op).index))


def _first_uses(region: Region) -> dict[Value, int]:
    """Return the position of the first op that uses each value."""
    found: dict[Value, int] = {}
    for k, op in enumerate(region.ops):
        for v in (*op.operands, *(v for sub in op.regions for v in free_values(sub))):
            found.setdefault(v, k)
    return found


def _is_harmless(op: Op) -> bool:
    inside = (inner for sub in op.regions for inner in walk(sub))
    return all(lookup(each.name).effect in HARMLESS for each in (op, *inside))


def _placed(ops: Sequence[Op], moved: dict[int, int]) -> Iterator[Op]:
    """Yield ops with those at some positions in front of others."""
    waiting: dict[int, list[Op]] = {}
    for k, to in moved.items():
        waiting.setdefault(to, []).append(ops[k])
    for k, op in enumerate(ops):
        yield from waiting.pop(k, ())
        if k not in moved:
            yield op
    yield from waiting.pop(len(ops), ())
