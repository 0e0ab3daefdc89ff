"""A counting sort of places by destinations, and sums by it, in native code.

There are kernels for the thread pool, each for a range of destinations or of places: ``dk_sort_count`` and
``dk_sort_place``, two steps of a stable sort, and ``dk_sorted_sum_f32_3`` and the like, which add up the numbers of
each
destination in order and then add the sum to it. A chunk of either touches no other's elements, so that the results do
not depend on the partition of the range.
"""

from __future__ import annotations

from typing import Any

from diffkern.runtime.native.builder import DOUBLE, FLOAT, I64, VOID, Code, Module, Word

__all__ = ["sorting_ir"]

_INT = 4
_AHEAD = 24  # places whose numbers are on their way from memory


def sorting_ir(most: int) -> str:
    """Return the module's text; `most` is the number of scalars of an element that are added up at once."""
    m = Module("diffkern.sorting")
    _count(m)
    _place(m)
    for kind, size in ((FLOAT, 4), (DOUBLE, 8)):
        for width in range(1, most + 1):
            _sum(m, kind, size, f"dk_sorted_sum_f{8 * size}_{width}", width)
    return str(m)


def _count(m: Module) -> None:
    """``count({keys, starts, number of keys}, low, high)``: count the keys from low to high, two places further on."""
    made, c = m.function("dk_sort_count", VOID, [I64] * 3, is_exported=True)
    block, low, high = made.args
    keys, starts, count = c.loads(block, 3)
    with c.loop(count) as k:
        key = _int(c, keys, k)
        with c.when(_within(c, key, low, high)):
            at = c.add(starts, c.mul(c.add(key, 2), _INT))
            c.store32(c.add(c.load32(at), 1), at)
    c.b.ret_void()


def _place(m: Module) -> None:
    """``place({keys, starts, number of keys, places}, low, high)``: the places of the keys from low to high, by key.

    The start of a key's places is one place further on, and is raised with each of them.
    """
    made, c = m.function("dk_sort_place", VOID, [I64] * 3, is_exported=True)
    block, low, high = made.args
    keys, starts, count, places = c.loads(block, 4)
    with c.loop(count) as k:
        key = _int(c, keys, k)
        with c.when(_within(c, key, low, high)):
            at = c.add(starts, c.mul(c.add(key, 1), _INT))
            now = c.load32(at)
            c.store32(k, places, c.mul(now, _INT))
            c.store32(c.add(now, 1), at)
    c.b.ret_void()


def _within(c: Code, key: Word, low: Word, high: Word) -> Any:
    return c.all(c.compare(">=", key, low), c.compare("<", key, high))


def _int(c: Code, ints: Word, k: Word) -> Word:
    return c.load32(ints, c.mul(k, _INT))


def _sum(m: Module, kind: Any, size: int, name: str, width: int) -> None:
    """``sum({starts, places, numbers, target, destinations, components, first}, low, high)``: add up components.

    The destinations are those whose places begin from low to high, so that chunks of places are equal work.
    """
    made, c = m.function(name, VOID, [I64] * 3, is_exported=True)
    block, low, high = made.args
    starts, places, numbers, target, count, components, first = c.loads(block, 7)
    last = c.sub(_int(c, starts, count), 1)
    distance, shift = c.mul(components, size), c.mul(first, size)
    numbers, target = c.add(numbers, shift), c.add(target, shift)
    at = c.variable(_first_from(c, starts, count, low))
    with c.forever() as stop:
        stop(c.compare(">=", at.get(), count))
        begin, end = _int(c, starts, at.get()), _int(c, starts, c.add(at.get(), 1))
        stop(c.compare(">=", begin, high))
        with c.when(c.compare("<", begin, end)):
            totals = [c.variable(kind(0.0)) for _ in range(width)]
            for total in totals:
                total.set(kind(0.0))
            # Summed in a register and in the order of the places: the same number each time, and one store per
            # destination.
            with c.loop(end, begin) as k:
                # Numbers are read in the order of destinations, a random order in memory, so that they are fetched in
                # advance.
                ahead = _int(c, places, c.min(c.add(k, _AHEAD), last))
                c.invoke("llvm.prefetch.p0", c.add(numbers, c.mul(ahead, distance)), 0, 3, 1)
                source = c.add(numbers, c.mul(_int(c, places, k), distance))
                for j, total in enumerate(totals):
                    total.set(c.b.fadd(total.get(), c.b.load(c.place(source, j * size), typ=kind, align=size)))
            goal = c.add(target, c.mul(at.get(), distance))
            for j, total in enumerate(totals):
                held = c.place(goal, j * size)
                c.b.store(c.b.fadd(c.b.load(held, typ=kind, align=size), total.get()), held, align=size)
        at.set(c.add(at.get(), 1))
    c.b.ret_void()


def _first_from(c: Code, starts: Word, count: Word, low: Word) -> Word:
    """Return the first destination whose places do not begin before this one."""
    left, right = c.variable(0), c.variable(count)
    with c.forever() as stop:
        stop(c.compare(">=", left.get(), right.get()))
        middle = c.div(c.add(left.get(), right.get()), 2)
        is_before = c.compare("<", _int(c, starts, middle), low)
        after = c.add(middle, 1)
        left.set(c.choose(is_before, after, left.get()))
        right.set(c.choose(is_before, right.get(), middle))
    return left.get()
