"""Private copies of cotangents in a handler: chunks that would race in an element accumulate separately.

For the launch of an adjoint in which threads may race anywhere, given its buffers and number of threads, the code
emitted here decides how many groups of chunks work on copies of their own, makes their argument blocks, and afterwards
sums the copies up in order, so that a gradient is the same number each time. :mod:`diffkern.runtime.launch.partition`
decides on them, as it does for tapes.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from diffkern.interop.jax import layout
from diffkern.interop.jax.frame import DESCRIPTION, FrameModule
from diffkern.process.dataclass import dataclass
from diffkern.runtime.native.builder import DOUBLE, FLOAT, I64, VOID, Code, Variable, Word

__all__ = ["CopiesModule", "Decision"]

_LINE = 64


@dataclass(frozen=True)
class Decision:
    """The execution plan of a launch, while its code is made.

    Attributes
    ----------
    program, chunk, colours
        The program that runs, the length of its chunks, the number of colours.
    everywhere
        Whether threads race in all cotangents, because several have one index.
    copies
        The address of the copies; 0 without.
    size
        Bytes of all the copies of one group.
    groups
        How many groups of threads there are, each but the first with copies; 0 without.
    """

    program: Variable
    chunk: Variable
    colours: Variable
    everywhere: Variable
    copies: Variable
    size: Variable
    groups: Variable


class CopiesModule(FrameModule):
    """The part of the module for the CPU that gives chunks private copies."""

    add_up: Any

    @abstractmethod
    def place(self, c: Code, context: Word, description: Word, index: Word, element: Word) -> tuple[Word, Word, Word]:
        """Return address and bytes of a buffer's element of the batch, and the buffer."""

    def adding(self) -> Any:
        """Emit ``add_up(target, source, bytes, item)``: add numbers of 4 or 8 bytes to others."""
        made, c = self.function("add_up", VOID, [I64] * 4)
        target, source, size, item = made.args
        with c.either(c.compare("==", item, 4)) as (single, double):
            for context, kind, width in ((single, FLOAT, 4), (double, DOUBLE, 8)):
                with context:
                    c.add_numbers(target, source, kind, width, c.div(size, width))
        c.b.ret_void()
        return made

    @contextlib.contextmanager
    def shared(
        self, c: Code, context: Word, step: Word, element: Word, everywhere: Word
    ) -> Iterator[tuple[Word, Word, Word, Word]]:
        """Loop over the cotangents in which threads may race; yield each one's entry, address, bytes, and bytes rounded
        up.
        """
        entries = c.add(step, c.load(step, layout.LAUNCH_COPIES))
        with c.loop(c.load(step, layout.LAUNCH_COTANGENTS)) as k:
            entry = c.add(entries, c.mul(k, layout.COPY_BYTES))
            flags = c.b.and_(c.load(entry, layout.COPY_FLAGS), c.word(layout.RACES))
            with c.when(c.compare("!=", c.b.or_(flags, everywhere), 0)):
                index = c.load(entry, layout.COPY_BUFFER)
                address, size, _ = self.place(c, context, c.load(context, DESCRIPTION), index, element)
                # Whole cache lines, so that two groups' copies never share one.
                yield entry, address, size, c.mul(c.ceil_div(size, _LINE), _LINE)

    def price(self, c: Code, context: Word, step: Word, element: Word, d: Decision) -> tuple[Word, Word]:
        """Return how many scalars the copies would have, and whether copies are possible; `d.size`
        becomes their bytes.
        """
        able, copied = c.variable(1), c.variable(0)
        d.size.set(0)
        with self.shared(c, context, step, element, d.everywhere.get()) as (entry, _, size, rounded):
            allowed = c.b.and_(c.load(entry, layout.COPY_FLAGS), c.word(layout.COPYABLE))
            # One cotangent that cannot be copied rules copies out for the whole launch.
            able.set(c.choose(c.compare("!=", allowed, 0), able.get(), 0))
            copied.set(c.add(copied.get(), c.div(size, c.load(entry, layout.COPY_ITEM))))
            d.size.set(c.add(d.size.get(), rounded))
        return copied.get(), able.get()

    def blocks(
        self, c: Code, context: Word, step: Word, element: Word, block: Word, count: Word, d: Decision
    ) -> tuple[Word, Word]:
        """Return the chunks' argument blocks, and their distance in bytes: one block for all if there are no copies."""
        first, stride = c.variable(block), c.variable(0)
        with c.when(c.compare("!=", d.copies.get(), 0)):
            size = c.load(step, layout.LAUNCH_BLOCK)
            blocks = c.words(c.div(c.mul(count, size), 8))
            at = c.variable(d.copies.get())
            with c.loop(count) as k:
                own = c.add(blocks, c.mul(k, size))
                c.copy(own, block, size)
                # The first group works on the cotangents themselves.
                has_copy, where = c.compare(">", k, 0), d.everywhere.get()
                with c.when(has_copy), self.shared(c, context, step, element, where) as (entry, _, _, rounded):
                    c.store(at.get(), c.add(own, c.load(entry, layout.COPY_OFFSET)))
                    at.set(c.add(at.get(), rounded))
            # A stride of 0 gives all chunks one block.
            first.set(blocks)
            stride.set(size)
        return first.get(), stride.get()

    def together(self, c: Code, context: Word, step: Word, element: Word, count: Word, d: Decision) -> None:
        """Add the copies to the cotangents, and free their memory."""
        with c.when(c.compare("!=", d.copies.get(), 0)):
            at = c.variable(d.copies.get())
            with self.shared(c, context, step, element, d.everywhere.get()) as (entry, address, size, rounded):
                item = c.load(entry, layout.COPY_ITEM)
                # In the order of the groups, so that the sum is the same in every run.
                with c.loop(c.sub(count, 1), 1) as k:
                    other = c.add(at.get(), c.mul(k, d.size.get()))
                    c.b.call(self.add_up, [at.get(), other, size, item])
                c.b.call(self.add_up, [address, at.get(), size, item])
                at.set(c.add(at.get(), rounded))
            # The copies are one allocation.
            c.invoke("free", d.copies.get())
