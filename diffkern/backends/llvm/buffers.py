"""Buffers of a thread in LLVM: where they live, their elements, and matrix products of them.

In: the buffers of a function and the LLVM function around its threads. Out: a pointer per buffer, valid for the whole
chunk. Small buffers lie on the stack; what is beyond :data:`STACK_BYTES` in total comes from the heap, once a chunk, so
that no tile can overrun a stack. Each lies on cache lines of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from diffkern.backends.llvm.memory import component, element_size
from diffkern.backends.llvm.types import I8, I64, PTR, VOID, Builder, from_memory, i64, memory_type, to_memory
from diffkern.ir.nodes import Value
from diffkern.ir.types import Buffer, scalar_of

STACK_BYTES = 48 * 1024
LINE = 64


class Scratch:
    """The memory of a function's buffers."""

    def __init__(self, module: Any, builder: Builder, buffers: Sequence[Value]) -> None:
        self.module, self.b = module, builder
        self.pointers: dict[Value, Any] = {}
        self.block: Any = None
        left = STACK_BYTES
        heap: list[tuple[Value, int]] = []
        for v in sorted(buffers, key=_bytes):
            size = _bytes(v)
            if size <= left:
                left -= size
                slot = builder.alloca(ir.ArrayType(I8, size))
                slot.align = LINE
                slot.type = PTR
                self.pointers[v] = slot
            else:
                heap.append((v, size))
        if heap:
            self._from_heap(heap)

    def _from_heap(self, heap: Sequence[tuple[Value, int]]) -> None:
        b = self.b
        malloc = self._function("malloc", PTR, [I64])
        malloc.return_value.attributes.add("noalias")
        total = sum(size for _, size in heap)
        self.block = b.call(malloc, [i64(total + LINE)])
        missing = b.icmp_unsigned("==", b.ptrtoint(self.block, I64), i64(0))
        with b.if_then(missing, likely=False):
            b.call(self.module.declare_intrinsic("llvm.trap", (), ir.FunctionType(VOID, [])), [])
            b.unreachable()
        start = b.ptrtoint(self.block, I64)
        pad = b.and_(b.sub(i64(0), start), i64(LINE - 1))
        base = b.gep(self.block, [pad], inbounds=True, source_etype=I8)
        offset = 0
        for v, size in heap:
            self.pointers[v] = b.gep(base, [i64(offset)], inbounds=True, source_etype=I8)
            offset += size

    def release(self) -> None:
        """Give back what came from the heap; called where the function returns."""
        if self.block is not None:
            self.b.call(self._function("free", VOID, [PTR]), [self.block])

    def _function(self, name: str, result: Any, parameters: list[Any]) -> Any:
        known = self.module.globals.get(name)
        return known if known is not None else ir.Function(self.module, ir.FunctionType(result, parameters), name)


def _bytes(v: Value) -> int:
    assert isinstance(v.type, Buffer)
    return -(-v.type.itemsize // LINE) * LINE


def _element(b: Builder, t: Buffer, base: Any, index: Any) -> Any:
    size = element_size(t.dtype)
    flat = index if size == 1 else b.mul(index, i64(size), flags=("nsw",))
    return b.gep(base, [flat], inbounds=True, source_etype=memory_type(scalar_of(t)))


def get(b: Builder, t: Buffer, base: Any, index: Any) -> list[Any]:
    """The components of an element of a buffer."""
    s, pointer = scalar_of(t), _element(b, t, base, index)
    parts = range(element_size(t.dtype))
    return [from_memory(b, s, b.load(component(b, s, pointer, k), typ=memory_type(s))) for k in parts]


def put(b: Builder, t: Buffer, base: Any, index: Any, values: Sequence[Any]) -> None:
    """Write the components of an element of a buffer."""
    s, pointer = scalar_of(t), _element(b, t, base, index)
    for k, value in enumerate(values):
        b.store(to_memory(b, s, value), component(b, s, pointer, k))
