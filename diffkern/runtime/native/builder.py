"""A little structured programming over llvmlite's builder: words of memory, variables, loops and branches.

In: a builder at the end of a block. Out: code appended to it. All values are 64-bit integers; an address is one too.
Variables live on the stack, and LLVM's optimiser makes registers of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from llvmlite import ir

__all__ = ["I32", "I64", "PTR", "VOID", "Code", "Variable", "Word"]

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
PTR = ir.PointerType()
VOID = ir.VoidType()

Word: TypeAlias = Any
"""An llvmlite value of type ``i64``."""


class Variable:
    """A word on the stack."""

    def __init__(self, code: Code, slot: Any) -> None:
        self._code, self._slot = code, slot

    def get(self) -> Word:
        return self._code.b.load(self._slot, typ=I64)

    def set(self, value: Word | int) -> None:
        self._code.b.store(self._code.word(value), self._slot)


class Code:
    """Appends instructions to a function."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.b = ir.IRBuilder(function.append_basic_block("entry"))

    # -- words and memory ----------------------------------------------------------------------------------------------

    def word(self, value: Word | int) -> Word:
        return ir.Constant(I64, value) if isinstance(value, int) else value

    def address(self, pointer: Any) -> Word:
        return self.b.ptrtoint(pointer, I64)

    def address_of(self, function: Any) -> Word:
        return self.b.ptrtoint(_Callee(function, function.function_type), I64)

    def pointer(self, address: Word) -> Any:
        return self.b.inttoptr(address, PTR)

    def load(self, base: Word, offset: Word | int = 0) -> Word:
        """The word at a distance of `offset` bytes."""
        return self.b.load(self.pointer(self.add(base, offset)), typ=I64, align=8)

    def load32(self, base: Word, offset: Word | int = 0) -> Word:
        return self.b.zext(self.b.load(self.pointer(self.add(base, offset)), typ=I32, align=4), I64)

    def store(self, value: Word | int, base: Word, offset: Word | int = 0) -> None:
        self.b.store(self.word(value), self.pointer(self.add(base, offset)), align=8)

    def store32(self, value: Word | int, base: Word, offset: Word | int = 0) -> None:
        narrow = self.b.trunc(self.word(value), I32)
        self.b.store(narrow, self.pointer(self.add(base, offset)), align=4)

    def variable(self, value: Word | int = 0) -> Variable:
        with self.b.goto_entry_block():
            slot = self.b.alloca(I64)
        slot.type = PTR
        made = Variable(self, slot)
        made.set(value)
        return made

    def words(self, count: Word | int) -> Word:
        """The address of that many words on the stack."""
        # Only what has a size known here may stand in the entry block, and only there is it allocated once in a loop.
        with self.b.goto_entry_block() if isinstance(count, int) else contextlib.nullcontext():
            slot = self.b.alloca(I64, size=self.word(count))
            slot.align = 64
            slot.type = PTR
            return self.address(slot)

    # -- arithmetic ----------------------------------------------------------------------------------------------------

    def add(self, x: Word, y: Word | int) -> Word:
        return x if isinstance(y, int) and y == 0 else self.b.add(x, self.word(y))

    def sub(self, x: Word, y: Word | int) -> Word:
        return self.b.sub(x, self.word(y))

    def mul(self, x: Word, y: Word | int) -> Word:
        return self.b.mul(x, self.word(y))

    def div(self, x: Word, y: Word | int) -> Word:
        return self.b.udiv(x, self.word(y))

    def ceil_div(self, x: Word, y: Word | int) -> Word:
        return self.div(self.sub(self.add(x, y), 1), y)

    def max(self, x: Word, y: Word | int) -> Word:
        return self.choose(self.compare(">", x, y), x, y)

    def min(self, x: Word, y: Word | int) -> Word:
        return self.choose(self.compare("<", x, y), x, y)

    def compare(self, how: str, x: Word, y: Word | int) -> Any:
        return self.b.icmp_signed(how, x, self.word(y))

    def choose(self, condition: Any, x: Word | int, y: Word | int) -> Word:
        return self.b.select(condition, self.word(x), self.word(y))

    # -- control -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def loop(self, stop: Word | int, start: Word | int = 0, step: Word | int = 1) -> Iterator[Word]:
        """Around the body of a loop ``for i in range(start, stop, step)``."""
        b = self.b
        i = self.variable(start)
        head, body, done = (self.function.append_basic_block(n) for n in ("head", "body", "done"))
        b.branch(head)
        b.position_at_end(head)
        now = i.get()
        b.cbranch(self.compare("<", now, stop), body, done)
        b.position_at_end(body)
        yield now
        i.set(self.add(now, step))
        b.branch(head)
        b.position_at_end(done)

    @contextlib.contextmanager
    def forever(self) -> Iterator[Callable[[Any], None]]:
        """Around the body of a loop that ends where the function it is given gets a condition that holds."""
        b = self.b
        body, done = self.function.append_basic_block("again"), self.function.append_basic_block("done")
        b.branch(body)
        b.position_at_end(body)

        def stop(condition: Any) -> None:
            onward = self.function.append_basic_block("onward")
            b.cbranch(condition, done, onward)
            b.position_at_end(onward)

        yield stop
        b.branch(body)
        b.position_at_end(done)

    @contextlib.contextmanager
    def when(self, condition: Any) -> Iterator[None]:
        """Around what happens only where the condition holds."""
        b = self.b
        then, done = self.function.append_basic_block("then"), self.function.append_basic_block("after")
        b.cbranch(condition, then, done)
        b.position_at_end(then)
        yield
        if not b.block.is_terminated:
            b.branch(done)
        b.position_at_end(done)

    @contextlib.contextmanager
    def either(self, condition: Any) -> Iterator[tuple[Any, Any]]:
        """Two contexts, for what happens where the condition holds and where it does not."""
        with self.b.if_else(condition) as (then, otherwise):
            yield then, otherwise

    def leave(self, value: Any) -> None:
        """Return from the function."""
        self.b.ret(value)

    def call(self, address: Word, arguments: Sequence[Any], result: Any = VOID) -> Any:
        """Call the function at an address."""
        kind = ir.FunctionType(result, [a.type for a in arguments])
        return self.b.call(_Callee(self.pointer(address), kind), arguments)


class _Callee:
    """An opaque pointer to a function, with the signature that llvmlite asks for."""

    def __init__(self, pointer: Any, kind: Any) -> None:
        self.type = PTR
        self.function_type = kind
        self.get_reference = pointer.get_reference
