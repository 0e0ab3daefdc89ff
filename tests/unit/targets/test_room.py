"""Memory of a chunk: how much of it may lie on the stack, and what becomes of the rest."""

from __future__ import annotations

import pytest
from llvmlite import ir

from diffkern.targets.emit.workspace import Workspace

SMALLEST_STACK = 128 << 10  # of a thread that musl makes
VOID = ir.VoidType()


@pytest.mark.parametrize(
    ("sizes", "kept"), [([32 << 10, 8 << 10], 40 << 10), ([2 << 20], 0), ([8 * (32 << 10), 200, 64], 256 + 64)]
)
def test_large_blocks_come_from_the_heap_and_go_back(sizes, kept):
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(VOID, []), "f")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    room = Workspace(builder)
    for size in sizes:
        room.take(size)
    room.release()
    builder.ret_void()
    reserved = [i.allocated_type.count * 8 for b in function.blocks for i in b.instructions if i.opname == "alloca"]
    assert sum(reserved) == kept <= SMALLEST_STACK // 2
    missing = len(sizes) - len(reserved)
    assert str(function).count('@"free"') == str(function).count('@"room"') == missing
