"""A kernel that copies two matrices to shared memory, multiplies them by one product, and copies the result back."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from diffkern.targets.cuda import toolchain
from diffkern.targets.cuda.mathdx import ITEMSIZE, Product
from diffkern.targets.cuda.product import emit_product
from diffkern.targets.cuda.registers import special, synchronize

I64 = ir.IntType(64)
SHARED, GLOBAL = ir.PointerType(addrspace=3), ir.PointerType(addrspace=1)
NAME = "product_kernel"


def kernel_module(product: Product, *, add: bool = False, name: str = NAME) -> ir.Module:
    """The module; parameters are the addresses of the three matrices."""
    module = ir.Module(name)
    module.triple, module.data_layout = toolchain.TRIPLE, toolchain.DATA_LAYOUT
    block = ir.PointerType(ir.ArrayType(I64, 3))
    fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [block]), name)
    fn.calling_convention = "ptx_kernel"
    fn.args[0].add_attribute("byval")
    fn.args[0].attributes.align = 8
    b = ir.IRBuilder(fn.append_basic_block("entry"))
    words = b.bitcast(fn.args[0], ir.PointerType())
    sizes = (product.m * product.k, product.k * product.n, product.m * product.n)
    places = []
    for k, (count, dtype) in enumerate(zip(sizes, (product.a, product.b, product.c), strict=True)):
        memory = ir.ArrayType(ir.IntType(8), count * ITEMSIZE[dtype])
        held = ir.GlobalVariable(module, memory, f"{name}_shared.{k}", addrspace=3)
        held.linkage, held.align = "internal", 16
        held.initializer = ir.Constant(memory, ir.Undefined)
        held.type = SHARED
        address = b.load(b.gep(words, [ir.Constant(I64, k)], source_etype=I64), typ=I64)
        places.append((held, b.inttoptr(address, GLOBAL), ir.IntType(8 * ITEMSIZE[dtype]), count))
    for held, array, t, count in places[:2]:
        _copy(b, product, t, count, array, held)
    synchronize(b)
    emit_product(b, product, *(held for held, *_ in places), add=add)
    synchronize(b)
    held, array, t, count = places[2]
    _copy(b, product, t, count, held, array)
    b.ret_void()
    return module


def _copy(b: Any, product: Product, t: Any, count: int, source: Any, target: Any) -> None:
    """Each thread copies every element that is ``threads`` after its last one."""
    thread = b.zext(special(b, "tid.x"), I64)
    before, head = b.block, b.append_basic_block("copy")
    done = b.append_basic_block("copied")
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(I64)
    value = b.load(b.gep(source, [i], source_etype=t), typ=t)
    b.store(value, b.gep(target, [i], source_etype=t))
    following = b.add(i, ir.Constant(I64, product.threads))
    i.add_incoming(thread, before)
    i.add_incoming(following, head)
    b.cbranch(b.icmp_unsigned("<", following, ir.Constant(I64, count)), head, done)
    b.position_at_end(done)
