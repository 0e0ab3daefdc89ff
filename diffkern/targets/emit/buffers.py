"""Buffers of a thread in LLVM: their memory, their elements, and matrix products of them.

For the buffers of a function and the LLVM function around its threads, :class:`Scratch` has a pointer per buffer, valid
for the whole chunk. Small buffers are on the stack; beyond :data:`STACK_BYTES` in total they come from the heap, once a
chunk, so that no tile can overrun a stack. Each lies on cache lines of its own. Every access is tagged with its buffer:
no two buffers overlap, and no array reaches into one, so that loops over them are vectorised without a test of
addresses.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from llvmlite import ir

from diffkern.ir.nodes import Value
from diffkern.ir.types import Buffer, scalar_of
from diffkern.targets.emit.memory import ArrayRef, component, element_size
from diffkern.targets.emit.types import I8, I64, PTR, VOID, Builder, from_memory, i64, memory_type, to_memory

STACK_BYTES = 48 * 1024
LINE = 64


class Scratch:
    """The memory of a function's buffers."""

    def __init__(
        self,
        module: Any,
        builder: Builder,
        buffers: Sequence[Value],
        stack_bytes: float = STACK_BYTES,
        line: int = LINE,
    ) -> None:
        self.module, self.b = module, builder
        self.pointers: dict[Value, Any] = {}
        self.block: Any = None
        domain = module.add_metadata(["buffers"]) if buffers else None
        self._scopes = {v: module.add_metadata([f"buffer {k}", domain]) for k, v in enumerate(buffers)}
        self._tags: dict[tuple[Value, ...], tuple[Any, Any]] = {}
        left = stack_bytes
        heap: list[tuple[Value, int]] = []
        # The smallest first: most buffers then fit on the stack.
        for v in sorted(buffers, key=_bytes):
            size = -(-_type(v).itemsize // line) * line
            if size <= left:
                left -= size
                slot = builder.alloca(ir.ArrayType(I8, size))
                slot.align = line
                slot.type = PTR
                self.pointers[v] = slot
            else:
                heap.append((v, size))
        if heap:
            self._from_heap(heap)

    def _from_heap(self, heap: Sequence[tuple[Value, int]]) -> None:
        b = self.b
        malloc = self._function("malloc", PTR, [I64])
        # The memory is fresh, so it cannot overlap anything; vectorisation relies on that.
        malloc.return_value.attributes.add("noalias")
        total = sum(size for _, size in heap)
        self.block = b.call(malloc, [i64(total + LINE)])
        # Out of memory: there is no way to report it from here, and running on would corrupt memory.
        missing = b.icmp_unsigned("==", b.ptrtoint(self.block, I64), i64(0))
        with b.if_then(missing, likely=False):
            b.call(self.module.declare_intrinsic("llvm.trap", (), ir.FunctionType(VOID, [])), [])
            b.unreachable()
        start = b.ptrtoint(self.block, I64)
        # malloc aligns to 16 bytes only, so the block is rounded up to a cache line by hand.
        pad = b.and_(b.sub(i64(0), start), i64(LINE - 1))
        base = b.gep(self.block, [pad], inbounds=True, source_etype=I8)
        offset = 0
        for v, size in heap:
            self.pointers[v] = b.gep(base, [i64(offset)], inbounds=True, source_etype=I8)
            offset += size

    def tag(self, instruction: Any, *used: Value) -> Any:
        """Declare that an instruction accesses these buffers and nothing else."""
        if used not in self._tags:
            own = self.module.add_metadata([self._scopes[v] for v in dict.fromkeys(used)])
            others = self.module.add_metadata([s for v, s in self._scopes.items() if v not in used])
            self._tags[used] = own, others
        own, others = self._tags[used]
        instruction.set_metadata("alias.scope", own)
        instruction.set_metadata("noalias", others)
        return instruction

    def apart_from(self, arrays: Mapping[Value, ArrayRef]) -> dict[Value, ArrayRef]:
        """Return the arrays, with the knowledge that they overlap no buffer."""
        if not self._scopes:
            return dict(arrays)
        out = {}
        for p, a in arrays.items():
            own, others = a.scopes or (None, None)
            known = () if others is None else others.operands
            # An array keeps what was known of it before, and is outside of all buffers as well.
            every = self.module.add_metadata([*known, *self._scopes.values()])
            out[p] = dataclasses.replace(a, scopes=(own, every))
        return out

    def seen_from(self, builder: Builder, pointers: dict[Value, Any]) -> Scratch:
        """Return the same memory for the code of another function, which has other pointers to some of the buffers."""
        other = copy.copy(self)
        other.b, other.pointers = builder, pointers
        return other

    def get(self, v: Value, index: Any) -> list[Any]:
        """Return the components of an element of a buffer."""
        t, s, pointer = _type(v), scalar_of(v.type), self._element(v, index)
        parts = (component(self.b, s, pointer, k) for k in range(element_size(t.dtype)))
        return [from_memory(self.b, s, self.tag(self.b.load(p, typ=memory_type(s)), v)) for p in parts]

    def put(self, v: Value, index: Any, values: Sequence[Any]) -> None:
        """Write the components of an element of a buffer."""
        s, pointer = scalar_of(v.type), self._element(v, index)
        for k, value in enumerate(values):
            self.tag(self.b.store(to_memory(self.b, s, value), component(self.b, s, pointer, k)), v)

    def _element(self, v: Value, index: Any) -> Any:
        size = element_size(_type(v).dtype)
        flat = index if size == 1 else self.b.mul(index, i64(size), flags=("nsw",))
        return self.b.gep(self.pointers[v], [flat], inbounds=True, source_etype=memory_type(scalar_of(v.type)))

    def release(self) -> None:
        """Free the memory from the heap; called where the function returns."""
        if self.block is not None:
            self.b.call(self._function("free", VOID, [PTR]), [self.block])

    def _function(self, name: str, result: Any, parameters: list[Any]) -> Any:
        known = self.module.globals.get(name)
        return known if known is not None else ir.Function(self.module, ir.FunctionType(result, parameters), name)


def _type(v: Value) -> Buffer:
    assert isinstance(v.type, Buffer)
    return v.type


def _bytes(v: Value) -> int:
    return -(-_type(v).itemsize // LINE) * LINE
