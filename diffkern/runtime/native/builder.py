"""Structured programming over llvmlite's builder: words of memory, variables, loops and branches.

Code is appended at the builder's position at the end of a block. All values are 64-bit integers; an address is one too.
Variables live on the stack, and LLVM's optimizer makes registers of them.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from llvmlite import ir

from diffkern.runtime.native.assemble import DATA, SIGNATURES

__all__ = ["DOUBLE", "FLOAT", "I32", "I64", "PTR", "VOID", "Code", "Label", "Module", "Variable", "Word"]

I1, I8, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
PTR = ir.PointerType()
VOID = ir.VoidType()
FLOAT, DOUBLE = ir.FloatType(), ir.DoubleType()
_TYPES = {"v": VOID, "p": PTR, "w": I64, "i": I32, "f": FLOAT, "d": DOUBLE, "b": I1, "c": I8}

_LARGE, _PAGE = 1 << 22, 1 << 16  # bytes from which large pages pay, and of the largest usual page
_MADV_HUGEPAGE = 14
_TOGETHER = 32  # numbers that are added at once, in a few registers: code that is not optimised has but this

Word: TypeAlias = Any
"""An llvmlite value of type ``i64``."""


Label: TypeAlias = Any
"""A block of instructions to go to."""


class Module:
    """Functions and variables of one module."""

    def __init__(self, name: str) -> None:
        self._module = ir.Module(name)

    def __str__(self) -> str:
        return str(self._module)

    def function(self, name: str, result: Any, arguments: Sequence[Any], is_exported: bool = False) -> tuple[Any, Code]:
        """Begin a function; return it, and the object that appends to it."""
        made = ir.Function(self._module, ir.FunctionType(result, arguments), name)
        made.linkage = "" if is_exported else "internal"
        made.attributes.add("uwtable")  # at exit Python ends threads by unwinding their stacks
        return made, Code(made, self)

    def routine(self, name: str, count: int, is_exported: bool = False) -> tuple[Any, Code]:
        """Begin a function that takes `count` words and returns one, as :meth:`function`."""
        return self.function(name, I64, [I64] * count, is_exported)

    def external(self, name: str, result: Any, arguments: Sequence[Any], var_arg: bool = False) -> Any:
        """Declare a function of the C library."""
        return ir.Function(self._module, ir.FunctionType(result, arguments, var_arg=var_arg), name)

    def named(self, name: str) -> Any:
        """Return a function, or a variable, of this module or of those that native code may call."""
        found = self._module.globals.get(name)
        if found is None and name in DATA:
            found = self._variable(ir.GlobalVariable(self._module, I8, name))
        elif found is None:
            result, *arguments = (_TYPES[letter] for letter in SIGNATURES[name])
            found = self.external(name, result, arguments)
        return found

    def room(self, name: str, size: int, align: int = 8) -> None:
        """Reserve zeroed memory for a variable."""
        made = ir.GlobalVariable(self._module, ir.ArrayType(I8, size), name)
        made.linkage, made.align = "internal", align
        made.initializer = ir.Constant(made.value_type, None)
        self._variable(made)

    def exported_word(self, name: str) -> Any:
        """Reserve a word that others find by its name."""
        made = ir.GlobalVariable(self._module, I64, name)
        made.initializer = ir.Constant(I64, 0)
        return self._variable(made)

    def string(self, text: str) -> Any:
        """Return a constant C string."""
        data = bytearray(text.encode() + b"\0")
        made = ir.GlobalVariable(self._module, ir.ArrayType(I8, len(data)), f"text.{len(self._module.globals)}")
        made.linkage, made.global_constant = "internal", True
        made.initializer = ir.Constant(made.value_type, data)
        return self._variable(made)

    @staticmethod
    def _variable(made: Any) -> Any:
        # llvmlite types the address of a variable by its contents; opaque pointers have one type for all.
        made.type = PTR
        return made


class Variable:
    """A word, or another value, on the stack."""

    def __init__(self, code: Code, slot: Any, kind: Any) -> None:
        self._code, self._slot, self._kind = code, slot, kind

    def get(self) -> Any:
        return self._code.b.load(self._slot, typ=self._kind)

    def set(self, value: Word | int) -> None:
        self._code.b.store(self._code.word(value), self._slot)


class Code:
    """Appends instructions to a function."""

    def __init__(self, function: Any, module: Module) -> None:
        self.function = function
        self.module = module
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

    def place(self, base: Word, offset: Word | int = 0) -> Any:
        """Return a pointer at a distance of `offset` bytes."""
        pointer = self.pointer(base)
        is_here = isinstance(offset, int) and offset == 0
        return pointer if is_here else self.b.gep(pointer, [self.word(offset)], source_etype=I8)

    def load(self, base: Word, offset: Word | int = 0) -> Word:
        """Return the word at a distance of `offset` bytes."""
        return self.b.load(self.place(base, offset), typ=I64, align=8)

    def loads(self, base: Word, count: int) -> list[Word]:
        """Return `count` consecutive words."""
        return [self.load(base, 8 * k) for k in range(count)]

    def load_unaligned(self, base: Word, offset: Word | int = 0, kind: Any = I64) -> Any:
        return self.b.load(self.place(base, offset), typ=kind, align=1)

    def load8(self, base: Word, offset: Word | int = 0) -> Word:
        return self.b.zext(self.b.load(self.place(base, offset), typ=I8, align=1), I64)

    def store8(self, value: int, base: Word, offset: Word | int = 0) -> None:
        self.b.store(ir.Constant(I8, value), self.place(base, offset), align=1)

    def load32(self, base: Word, offset: Word | int = 0) -> Word:
        return self.b.zext(self.b.load(self.place(base, offset), typ=I32, align=4), I64)

    def store(self, value: Word | int, base: Word, offset: Word | int = 0) -> None:
        self.b.store(self.word(value), self.place(base, offset), align=8)

    def store32(self, value: Word | int, base: Word, offset: Word | int = 0) -> None:
        narrow = self.b.trunc(self.word(value), I32)
        self.b.store(narrow, self.place(base, offset), align=4)

    def atomic_load(self, base: Word, offset: int = 0, ordering: str = "monotonic") -> Word:
        return self.b.load_atomic(self.place(base, offset), ordering, 8, typ=I64)

    def atomic_store(self, value: Word | int, base: Word, ordering: str = "monotonic") -> None:
        place = self.pointer(base)
        # llvmlite's own method infers the type from a typed pointer, which there is none of here.
        self.b._insert(ir.instructions.StoreAtomicInstr(self.b.block, self.word(value), place, ordering, 8))

    def atomic(self, how: str, base: Word, value: Word | int, ordering: str = "monotonic") -> Word:
        """Change a word atomically (``add``, ``sub``, ``xchg``); return its previous value."""
        return self.b.atomic_rmw(how, self.pointer(base), self.word(value), ordering)

    def bump(self, base: Word, change: int) -> None:
        """Add to a word that no other thread changes meanwhile, though some may read it."""
        self.atomic_store(self.add(self.load(base), change), base)

    def add_numbers(self, to: Word, source: Word, kind: Any, size: int, count: Word) -> None:
        """Add `count` numbers of a kind to those at another place: vectors of them, and the rest one by one."""
        whole = self.b.and_(self.word(count), self.word(-_TOGETHER))
        with self.loop(whole, 0, _TOGETHER) as k:
            self._add(self.add(to, self.mul(k, size)), self.add(source, self.mul(k, size)), kind, size, _TOGETHER)
        with self.loop(count, whole) as k:
            self._add(self.add(to, self.mul(k, size)), self.add(source, self.mul(k, size)), kind, size, 1)

    def _add(self, to: Word, source: Word, kind: Any, size: int, count: int) -> None:
        held = kind if count == 1 else ir.VectorType(kind, count)
        place = self.pointer(to)
        x, y = (self.b.load(p, typ=held, align=size) for p in (place, self.pointer(source)))
        plus = self.b.fadd if kind in (FLOAT, DOUBLE) else self.b.add
        self.b.store(plus(x, y), place, align=size)

    def copy(self, to: Word, source: Word, count: Word | int, overlapping: bool = False) -> None:
        self.invoke(f"llvm.mem{'move' if overlapping else 'cpy'}.p0.p0.i64", to, source, count, 0)

    def clear(self, at: Word, count: Word | int) -> None:
        self.invoke("llvm.memset.p0.i64", at, 0, count, 0)

    def zeros(self, size: Word) -> Word:
        """Return the address of `size` zero bytes, to be passed to ``free``; 0 if there are none."""
        return self._in_large_pages(self.invoke("calloc", size, 1), size)

    def memory(self, size: Word) -> Word:
        """Return the address of `size` bytes, which may be anything, as :meth:`zeros`."""
        return self._in_large_pages(self.invoke("malloc", size), size)

    def _in_large_pages(self, made: Word, size: Word) -> Word:
        if sys.platform == "linux":
            # Large blocks in large pages, as NumPy's are: fewer faults, and addresses that are found sooner.
            with self.when(self.all(self.compare("!=", made, 0), self.compare(">=", size, _LARGE))):
                start = self.b.and_(self.add(made, _PAGE - 1), self.word(-_PAGE))
                self.invoke("madvise", start, self.sub(self.add(made, size), start), _MADV_HUGEPAGE)
        return made

    def variable(self, value: Any = 0) -> Variable:
        value = self.word(value)
        # In the entry block LLVM makes registers of variables, and a loop does not grow the stack.
        with self.b.goto_entry_block():
            slot = self.b.alloca(value.type)
        slot.type = PTR
        made = Variable(self, slot, value.type)
        made.set(value)
        return made

    def words(self, count: Word | int) -> Word:
        """Return the address of `count` words on the stack."""
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

    def all(self, *conditions: Any) -> Any:
        return functools.reduce(self.b.and_, conditions)

    def any(self, *conditions: Any) -> Any:
        return functools.reduce(self.b.or_, conditions)

    def compare(self, how: str, x: Word, y: Word | int) -> Any:
        return self.b.icmp_signed(how, x, self.word(y))

    def choose(self, condition: Any, x: Word | int, y: Word | int) -> Word:
        return self.b.select(condition, self.word(x), self.word(y))

    # -- control -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def loop(self, stop: Word | int, start: Word | int = 0, step: Word | int = 1) -> Iterator[Word]:
        """Surround the body of a loop ``for i in range(start, stop, step)``."""
        b = self.b
        # The counter is a variable on the stack, as blocks of several predecessors would otherwise need phi nodes.
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
        """Surround the body of a loop that ends where the function it yields gets a condition that holds."""
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
        """Surround code that runs only where the condition holds."""
        b = self.b
        then, done = self.function.append_basic_block("then"), self.function.append_basic_block("after")
        b.cbranch(condition, then, done)
        b.position_at_end(then)
        yield
        # The body may have returned from the function.
        if not b.block.is_terminated:
            b.branch(done)
        b.position_at_end(done)

    @contextlib.contextmanager
    def either(self, condition: Any) -> Iterator[tuple[Any, Any]]:
        """Yield two contexts, for code that runs where the condition holds and where it does not."""
        with self.b.if_else(condition) as (then, otherwise):
            yield then, otherwise

    def label(self, name: str) -> Label:
        """Return a label, whose code is written later within :meth:`at`."""
        return self.function.append_basic_block(name)

    @contextlib.contextmanager
    def at(self, label: Label) -> Iterator[None]:
        """Surround the code at a label; it leaves the function."""
        with self.b.goto_block(label):
            yield

    def require(self, condition: Any, otherwise: Label) -> None:
        """Go to a label where the condition does not hold."""
        onward = self.label("onward")
        self.b.cbranch(condition, onward, otherwise)
        self.b.position_at_end(onward)

    def go(self, label: Label) -> None:
        self.b.branch(label)

    def leave(self, value: Any) -> None:
        """Return from the function."""
        self.b.ret(self.word(value))

    def leave_none(self) -> None:
        """Return Python's None from the function."""
        none = self.named("_Py_NoneStruct")
        self.invoke("Py_IncRef", none)
        self.leave(none)

    def named(self, name: str) -> Word:
        """Return the address of a variable."""
        return self.address(self.module.named(name))

    def invoke(self, function: Any, *arguments: Any) -> Any:
        """Call a function of the module, or one of C or Python by its name; addresses and statuses are words."""
        function = self.module.named(function) if isinstance(function, str) else function
        kind = function.function_type
        found = self.b.call(function, [self._passed(x, t) for x, t in zip(arguments, kind.args, strict=True)])
        if kind.return_type == PTR:
            return self.address(found)
        return self.b.zext(found, I64) if kind.return_type == I32 else found

    def _passed(self, value: Any, kind: Any) -> Any:
        if isinstance(value, int):
            return ir.Constant(kind, None if kind == PTR else value)
        if value.type == kind:
            return value
        return self.pointer(value) if kind == PTR else self.b.trunc(value, kind)

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
