"""Runs in which chunks that would race in an element accumulate in private copies.

``dk_run_copied``, added to a module with the thread pool, gives each chunk but the first copies of some arrays, runs
the
chunks, and adds the copies to the arrays in the order of the chunks: a sum is the same number each time. The chunks are
few: one for each copy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from diffkern.runtime.native.builder import DOUBLE, FLOAT, I32, I64, VOID, Code, Module, Word

__all__ = ["ENTRY_WORDS", "FRESH", "add_copied_runs", "summed"]

# What is copied: 0 number of arrays; then for each array: where it stands in the argument block, number of its axes,
# the kind of its scalars, and how many of them an element has.
ENTRY_WORDS = 4
_OFFSET, _AXES, _KIND, _COMPONENTS = range(0, 32, 8)
_KINDS = ((FLOAT, 4, "f32"), (DOUBLE, 8, "f64"), (I32, 4, "i32"), (I64, 8, "i64"))
_LINE = 64
_SUMMED, _FEWEST = 4096, 64  # elements in a chunk of the sums: they stay in the cache next to the processor
_ADDED = 1 << 15  # numbers that a chunk of the sums adds: where there are many copies, it has fewer elements
_CLEARED = 1 << 16  # bytes in a chunk of those that are set to zero
FRESH = 1 << 25
"""Bytes from which the C library has new pages for a block, which are zero: a chunk's thread is the first to touch its
copies. It clears less, which it may have given out before, in the thread that asks for it.
"""


def summed(copies: int) -> int:
    """Return how many elements a chunk of the sums has."""
    return max(_FEWEST, min(_SUMMED, _ADDED // (copies + 1) // _FEWEST * _FEWEST))


def add_copied_runs(m: Module) -> None:
    """Add ``dk_run_copied`` and the functions that add up."""
    for kind in _KINDS:
        _sum(m, *kind)
    _run(m, _lengths(m))


def _lengths(m: Module) -> Any:
    """``lengths(block, entry)``: the number of scalars in an array."""
    made, c = m.routine("dk_copy_lengths", 2)
    block, entry = made.args
    field, count = c.add(block, c.load(entry, _OFFSET)), c.variable(c.load(entry, _COMPONENTS))
    with c.loop(c.load(entry, _AXES)) as axis:
        # The descriptor at `field` is the address, then the extents.
        count.set(c.mul(count.get(), c.load(field, c.add(c.mul(axis, 8), 8))))
    c.leave(count.get())
    return made


def _item(c: Code, entry: Word) -> Word:
    # Kinds with odd numbers have eight bytes.
    return c.choose(c.compare("==", c.b.and_(c.load(entry, _KIND), c.word(1)), 1), 8, 4)


def _run(m: Module, lengths: Any) -> None:
    """``run_copied(fn, block, size, n, chunk, colours, copied, mark, watch)``: 0, or the status that ended the run."""
    made, c = m.routine("dk_run_copied", 9)
    fn, block, size, n, chunk, colours, copied, mark, watch = made.args
    groups, size_each = c.ceil_div(n, chunk), c.variable(0)
    arrays, entries = c.load(copied), c.add(copied, 8)
    # First pass: the bytes of one set of copies, each rounded to whole cache lines.
    with _each(c, arrays, entries, lengths, block) as (_, _, rounded):
        size_each.set(c.add(size_each.get(), rounded))
    stride = size_each.get()
    # One allocation: the copies of all chunks but the first, then an argument block for every chunk.
    copied_bytes = c.mul(c.sub(groups, 1), stride)
    memory = _memory(c, copied_bytes, c.add(c.mul(groups, size), _LINE))
    with c.when(c.compare("==", memory, 0)):  # one thread does without copies
        with c.loop(groups) as k:
            low = c.mul(k, chunk)
            c.call(fn, [c.b.or_(block, mark), low, c.add(low, c.min(c.sub(n, low), chunk))])
        c.leave(0)
    copies = c.b.and_(c.add(memory, _LINE - 1), c.word(-_LINE))
    blocks, at = c.add(copies, copied_bytes), c.variable(copies)
    _clear(c, copies, copied_bytes)
    # Each chunk gets the argument block with the addresses of its own copies; the first keeps the arrays themselves.
    with c.loop(groups) as k:
        own = c.add(blocks, c.mul(k, size))
        c.copy(own, block, size)
        is_first = c.compare("==", k, 0)
        with c.when(c.b.not_(is_first)), _each(c, arrays, entries, lengths, block) as (entry, _, rounded):
            c.store(at.get(), c.add(own, c.load(entry, _OFFSET)))
            at.set(c.add(at.get(), rounded))
    colour, status, marked = c.variable(0), c.variable(0), c.b.or_(blocks, mark)
    # One colour after the other; the pool returns when all chunks of a colour have ended.
    with c.forever() as stop:
        status.set(c.invoke("dk_pool_groups", fn, marked, size, n, chunk, colour.get(), colours, watch))
        colour.set(c.add(colour.get(), 1))
        stop(c.any(c.compare("!=", status.get(), 0), c.compare(">=", colour.get(), colours)))
    # Where chunks must be long enough for their neighbours to wait, a single one may be left, which has no copy.
    with c.when(c.all(c.compare("==", status.get(), 0), c.compare(">", groups, 1))):
        _add_up(c, copied, lengths, block, copies, stride, groups)
    c.invoke("free", memory)
    c.leave(status.get())


def _memory(c: Code, copied: Word, more: Word) -> Word:
    """Return the address of memory for copies, which is zero if it is new, and for more bytes; 0 without."""
    size, made = c.add(copied, more), c.variable(0)
    with c.either(c.compare(">=", copied, FRESH)) as (new, other):
        with new:
            made.set(c.zeros(size))
        with other:
            made.set(c.memory(size))
    return made.get()


def _clear(c: Code, copies: Word, size: Word) -> None:
    """Set the copies to zero on all threads, unless they are new."""
    with c.when(c.compare("<", size, FRESH)):
        block = c.words(1)
        c.store(copies, block)
        clears = c.address_of(c.module.named("dk_clear_bytes"))
        c.invoke("dk_pool_groups", clears, block, 0, size, _CLEARED, 0, 1, 0)


@contextlib.contextmanager
def _each(c: Code, arrays: Word, entries: Word, lengths: Any, block: Word) -> Iterator[tuple[Word, Word, Word]]:
    """Surround the code for each array: its entry, its number of scalars, and the bytes of a copy."""
    with c.loop(arrays) as k:
        entry = c.add(entries, c.mul(k, 8 * ENTRY_WORDS))
        length = c.invoke(lengths, block, entry)
        yield entry, length, c.mul(c.ceil_div(c.mul(length, _item(c, entry)), _LINE), _LINE)


def _add_up(c: Code, copied: Word, lengths: Any, block: Word, first: Word, stride: Word, groups: Word) -> None:
    """Add the copies to the arrays, on all threads."""
    wanted = c.b.and_(c.div(c.word(_ADDED), groups), c.word(-_FEWEST))
    chunk = c.max(c.min(wanted, _SUMMED), _FEWEST)
    at, sums = c.variable(first), c.words(4)
    with _each(c, c.load(copied), c.add(copied, 8), lengths, block) as (entry, length, rounded):
        target = c.load(c.add(block, c.load(entry, _OFFSET)))
        for field, value in enumerate((target, at.get(), stride, c.sub(groups, 1))):
            c.store(value, sums, 8 * field)
        # Specialized functions for each kind of scalar: the kind is a number in the entry, known only when this runs.
        for kind, (_, _, name) in enumerate(_KINDS):
            with c.when(c.compare("==", c.load(entry, _KIND), kind)):
                adds = c.address_of(c.module.named(f"dk_sum_{name}"))
                c.invoke("dk_pool_groups", adds, sums, 0, length, chunk, 0, 1, 0)
        at.set(c.add(at.get(), rounded))


def _sum(m: Module, kind: Any, size: int, name: str) -> None:
    """``sum({target, first copy, distance, copies}, low, high)``: add the copies of some elements, then add to the
    target.

    They are added into the first copy, one copy after the other: so each is read from one end to the other, as
    processors read ahead, and the first stays in the cache.
    """
    made, c = m.function(f"dk_sum_{name}", VOID, [I64] * 3)
    block, low, high = made.args
    target, first, distance, copies = c.loads(block, 4)
    start, count = c.mul(low, size), c.sub(high, low)
    total = c.add(first, start)
    with c.loop(copies, 1) as k:
        c.add_numbers(total, c.add(total, c.mul(k, distance)), kind, size, count)
    c.add_numbers(c.add(target, start), total, kind, size, count)
    c.b.ret_void()
