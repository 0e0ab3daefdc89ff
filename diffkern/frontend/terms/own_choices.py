"""Variables that stand for one or another array of the thread.

An array of the thread is a variable that holds a tile, so that no value of the IR can stand for it. A choice among some
of them is a number instead: which one it is. An access reads all of them and takes the element of the right one, or
changes the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import OwnChoice, Term, Val
from diffkern.ir.nodes import Value
from diffkern.ir.types import INT32, Array, Tile

__all__ = ["chosen", "exists", "extent", "number", "of", "tests", "tile"]


def of(cx: Context, base: Value) -> tuple[Value, ...]:
    """Return the arrays of the thread that one may be."""
    choice = cx.own_choices.get(base)
    return (base,) if choice is None else choice.bases


def exists(cx: Context, base: Value) -> bool:
    """Return whether an array of the thread has been made where the lowering stands."""
    return all(cx.cells.get(one) in cx.env for one in of(cx, base))


def tile(cx: Context, base: Value) -> Value:
    """Return the tile that an array of the thread holds now."""
    term: Term | None = cx.env[cx.cells[base]].term
    assert isinstance(term, Val)
    return term.value


def chosen(cx: Context, bases: tuple[Value, ...], number: Value) -> Value:
    """Return the array that stands for that one of some arrays which a number tells."""
    t = bases[0].type
    assert isinstance(t, Array)
    base = Value(replace(t))
    cx.own_choices[base] = OwnChoice(number, bases)
    return base


def number(cx: Context, base: Value, bases: Sequence[Value]) -> Value:
    """Return which of some arrays one is that stands for one of them."""
    choice = cx.own_choices.get(base)
    if choice is None:
        return cx.b.i32(bases.index(base))
    if choice.bases == tuple(bases):
        return choice.number
    found = cx.b.i32(bases.index(choice.bases[0]))
    for one, test in zip(choice.bases[1:], tests(cx, choice)[1:], strict=True):
        found = cx.b.select(test, cx.b.i32(bases.index(one)), found)
    return found


def tests(cx: Context, choice: OwnChoice) -> list[Value]:
    """Return for each array whether it is the one."""
    return [cx.b.one("eq", choice.number, cx.b.const(k, INT32)) for k in range(len(choice.bases))]


def extent(cx: Context, base: Value, axis: int) -> Callable[[], Value]:
    """Return the function that emits the length of an axis."""

    def emit() -> Value:
        bases = of(cx, base)
        lengths = [_shape(cx, one)[axis] for one in bases]
        found = cx.b.i32(lengths[0])
        if len(set(lengths)) > 1:
            for n, test in zip(lengths[1:], tests(cx, cx.own_choices[base])[1:], strict=True):
                found = cx.b.select(test, cx.b.i32(n), found)
        cx.nonneg.add(found)
        return found

    return emit


def _shape(cx: Context, base: Value) -> tuple[int, ...]:
    t = tile(cx, base).type
    assert isinstance(t, Tile)
    return t.shape
