"""Memory that a chunk needs while it runs: on the stack if it is little, else from the heap.

In an LLVM function at its entry, :class:`Workspace` gives pointers to blocks, each on cache lines of its own, valid
until the function returns. No block overlaps another one or an array. A stack may be as small as 128 KiB, and an access
beyond its end need not hit the page that guards it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from diffkern.targets.emit.types import I8, I64, PTR, VOID, Builder, i64

__all__ = ["LINE", "Workspace"]

LINE = 64
_ON_STACK = 40 * 1024
"""Bytes on the stack: the states and checkpoints that a thread by itself has by default."""


class Workspace:
    """The blocks of a function.

    Parameters
    ----------
    builder : Builder
        A builder at the entry of the function.
    """

    def __init__(self, builder: Builder) -> None:
        self.b, self._left = builder, _ON_STACK
        self._held: list[Any] = []

    def take(self, nbytes: int) -> Any:
        """Return a pointer to so many bytes; to be called in the entry block."""
        size = -(-nbytes // LINE) * LINE
        if size <= self._left:
            self._left -= size
            slot = self.b.alloca(ir.ArrayType(I64, size // 8))
            slot.align, slot.type = LINE, PTR  # llvmlite still gives ``alloca`` a typed pointer
            return slot
        block = self.b.call(self._room(), [i64(size + LINE)])
        self._held.append(block)
        # malloc aligns to less than a cache line.
        pad = self.b.and_(self.b.sub(i64(0), self.b.ptrtoint(block, I64)), i64(LINE - 1))
        return self.b.gep(block, [pad], inbounds=True, source_etype=I8)

    def release(self) -> None:
        """Free the memory from the heap; to be called where the function returns."""
        for block in self._held:
            self.b.call(_function(self.b.module, "free", VOID, [PTR]), [block])

    def _room(self) -> Any:
        """Return a function that allocates memory from the heap: a test in the entry would end that block."""
        module = self.b.module
        if "room" in module.globals:
            return module.globals["room"]
        made = _function(module, "room", PTR, [I64])
        made.linkage = "internal"
        made.return_value.attributes.add("noalias")
        malloc = _function(module, "malloc", PTR, [I64])
        malloc.return_value.attributes.add("noalias")
        b = ir.IRBuilder(made.append_basic_block("entry"))
        block = b.call(malloc, [made.args[0]])
        with b.if_then(b.icmp_unsigned("==", b.ptrtoint(block, I64), i64(0)), likely=False):
            b.call(module.declare_intrinsic("llvm.trap", (), ir.FunctionType(VOID, [])), [])
            b.unreachable()
        b.ret(block)
        return made


def _function(module: Any, name: str, result: Any, parameters: list[Any]) -> Any:
    known = module.globals.get(name)
    return known if known is not None else ir.Function(module, ir.FunctionType(result, parameters), name)
