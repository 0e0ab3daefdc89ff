"""LLVM modules in the dialects of libNVVM, instruction by instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llvmlite import ir

from diffkern.targets.cuda.dialect import convert

F32, I32, I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
PTR, GLOBAL = ir.PointerType(), ir.PointerType(addrspace=1)
Body = Callable[[ir.IRBuilder, Any, Any], object]


def text(body: Body, *, typed: bool) -> str:
    """A kernel whose body is built from a pointer to global memory and a float."""
    module = ir.Module("k")
    module.triple = "nvptx64-nvidia-cuda"
    block = ir.PointerType(ir.ArrayType(I64, 9))
    fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [block]), "k")
    fn.calling_convention = "ptx_kernel"
    fn.args[0].add_attribute("byval")
    fn.args[0].attributes.align = 8
    b = ir.IRBuilder(fn.append_basic_block("entry"))
    place = b.gep(fn.args[0], [ir.Constant(I64, 56)], inbounds=True, source_etype=ir.IntType(8))
    body(b, b.load(place, typ=GLOBAL, name="p"), ir.Constant(F32, 2.0))
    b.ret_void()
    return convert(module, "k", typed=typed)


def lines(body: Body, *, typed: bool = True) -> list[str]:
    """What the body becomes."""
    code = [" ".join(line.split()) for line in text(body, typed=typed).partition("entry:\n")[2].splitlines()]
    first = next(k for k, line in enumerate(code) if line.startswith('%"p" = ')) + 1
    return code[first : code.index("ret void")]


def fabs(b: ir.IRBuilder, _: Any, x: Any) -> None:
    b.call(b.module.declare_intrinsic("llvm.fabs", [F32]), [x], name="a")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            lambda b, p, x: b.load(p, typ=F32, name="x", align=4),
            ['%".C" = bitcast i8 addrspace(1)* %"p" to float addrspace(1)*',
             '%"x" = load float, float addrspace(1)* %".C", align 4'],
        ),
        (
            lambda b, p, x: b.store(x, p, align=4),
            ['%".C" = bitcast i8 addrspace(1)* %"p" to float addrspace(1)*',
             'store float 0x4000000000000000, float addrspace(1)* %".C", align 4'],
        ),
        (
            lambda b, p, x: b.gep(p, [ir.Constant(I64, 3)], inbounds=True, source_etype=F32, name="q"),
            ['%".C" = bitcast i8 addrspace(1)* %"p" to float addrspace(1)*',
             '%"q" = getelementptr inbounds float, float addrspace(1)* %".C", i64 3',
             '%".D" = bitcast float addrspace(1)* %"q" to i8 addrspace(1)*'],
        ),
        (
            lambda b, p, x: b.atomic_rmw("add", p, ir.Constant(I32, 1), "monotonic", name="o"),
            ['%".C" = bitcast i8 addrspace(1)* %"p" to i32 addrspace(1)*',
             '%"o" = atomicrmw add i32 addrspace(1)* %".C", i32 1 monotonic'],
        ),
        (lambda b, p, x: b.fneg(x, name="n", flags=("contract",)),
         ['%"n" = fsub contract float 0x8000000000000000, 0x4000000000000000']),
        (lambda b, p, x: b.alloca(F32, name="s"), ['%"s" = alloca float', '%".C" = bitcast float* %"s" to i8*']),
        (fabs, ['%"a" = call float @"__nv_fabsf"(float 0x4000000000000000)']),
    ],
)  # fmt: skip
def test_instructions_with_typed_pointers(body: Body, expected: list[str]) -> None:
    found, names = lines(body), iter("CD")
    for line in list(found):
        name = line.partition(" = ")[0]
        if name.startswith('%".'):
            by = f'%".{next(names)}"'
            found = [other.replace(name, by) for other in found]
    assert found == expected


def test_opaque_pointers_stay() -> None:
    (line,) = lines(lambda b, p, x: b.load(p, typ=F32, name="x", align=4), typed=False)
    assert line == '%"x" = load float, ptr addrspace(1) %"p", align 4'


def test_the_kernel_is_marked_and_kept() -> None:
    old = text(lambda b, p, x: None, typed=True)
    assert 'define void @"k"([9 x i64]* byval align 8' in old
    assert '{ void ([9 x i64]*)* @"k", !"kernel", i32 1 }' in old
    assert '[i8* bitcast (void ([9 x i64]*)* @"k" to i8*)], section "llvm.metadata"' in old
    new = text(lambda b, p, x: None, typed=False)
    assert '{ ptr @"k", !"kernel", i32 1 }' in new
    assert '@"llvm.used" = appending global [1 x ptr] [ptr bitcast (ptr @"k" to ptr)]' in new


def test_conversions_that_saturate_become_functions() -> None:
    def body(b: ir.IRBuilder, _: Any, x: Any) -> None:
        name = "llvm.fptosi.sat.i32.f32"
        b.call(ir.Function(b.module, ir.FunctionType(I32, [F32]), name), [x], name="c")

    found = text(body, typed=True)
    assert '%"c" = call i32 @"dk_fptosi.sat.i32.f32"(float 0x4000000000000000)' in found
    assert 'define internal i32 @"dk_fptosi.sat.i32.f32"(float %x)' in found
    assert "llvm.fptosi" not in found
