"""LLVM text in the dialects of libNVVM, line by line."""

from __future__ import annotations

import pytest

from diffkern.targets.cuda.dialect import convert

MODULE = """; ModuleID = "k"
target triple = "nvptx64-nvidia-cuda"
target datalayout = "e-p6:32:32"

define ptx_kernel void @"k"(ptr byval([9 x i64]) align 8 %".1") nounwind
{
entry:
  %".3" = getelementptr inbounds i8, ptr %".1", i64 56
  %".4" = load ptr addrspace(1), ptr %".3"
  LINE
  ret void
}

declare float @"llvm.fabs.f32"(float %".1")
"""


def lines(line: str, *, typed: bool = True) -> list[str]:
    """What a line of the kernel becomes."""
    text = convert(MODULE.replace("LINE", line), "k", typed=typed)
    body = text.partition("entry:\n")[2].partition("  ret void")[0].splitlines()
    return [x.strip() for x in body[4 if typed else 2 :]]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            '%"x" = load float, ptr addrspace(1) %".4", align 4, !invariant.load !0',
            [
                '%"x.of5" = bitcast i8 addrspace(1)* %".4" to float addrspace(1)*',
                '%"x" = load float, float addrspace(1)* %"x.of5", align 4, !invariant.load !0',
            ],
        ),
        (
            '%"q" = getelementptr inbounds float, ptr addrspace(1) %".4", i64 %"i"',
            [
                '%"q.of5" = bitcast i8 addrspace(1)* %".4" to float addrspace(1)*',
                '%"q.at" = getelementptr inbounds float, float addrspace(1)* %"q.of5", i64 %"i"',
                '%"q" = bitcast float addrspace(1)* %"q.at" to i8 addrspace(1)*',
            ],
        ),
        ('%"n" = fneg contract float %"x"', ['%"n" = fsub contract float -0.0, %"x"']),
        (
            '%"o" = atomicrmw add ptr addrspace(1) %".4", i32 %"v" monotonic',
            [
                '%"o.of5" = bitcast i8 addrspace(1)* %".4" to i32 addrspace(1)*',
                '%"o" = atomicrmw add i32 addrspace(1)* %"o.of5", i32 %"v" monotonic',
            ],
        ),
        ('%"a" = call float @"llvm.fabs.f32"(float %"x")', ['%"a" = call float @"__nv_fabsf"(float %"x")']),
        ('%"s" = alloca float', ['%"s.slot" = alloca float', '%"s" = bitcast float* %"s.slot" to i8*']),
        ('%"d" = fadd float %"x", %"x", !dbg !7', ['%"d" = fadd float %"x", %"x"']),
    ],
)
def test_lines_with_typed_pointers(line: str, expected: list[str]) -> None:
    assert lines(line) == expected


def test_a_store_casts_its_address() -> None:
    cast, store = lines('store float %"v", ptr addrspace(1) %".4", align 4')
    name = cast.split(" = ")[0]
    assert cast == f'{name} = bitcast i8 addrspace(1)* %".4" to float addrspace(1)*'
    assert store == f'store float %"v", float addrspace(1)* {name}, align 4'


def test_opaque_pointers_stay() -> None:
    line = '%"x" = load float, ptr addrspace(1) %".4", align 4'
    assert lines(line, typed=False) == [line]


def test_the_kernel_is_marked_and_kept() -> None:
    old = convert(MODULE.replace("LINE", ""), "k", typed=True)
    assert 'define void @"k"([9 x i64]* byval align 8' in old
    assert '!{void ([9 x i64]*)* @"k", !"kernel", i32 1}' in old
    assert '[1 x i8*] [i8* bitcast (void ([9 x i64]*)* @"k" to i8*)], section "llvm.metadata"' in old
    new = convert(MODULE.replace("LINE", ""), "k", typed=False)
    assert '!{ptr @"k", !"kernel", i32 1}' in new
    assert '@llvm.used = appending global [1 x ptr] [ptr @"k"]' in new


def test_conversions_that_saturate_become_functions() -> None:
    declared = 'declare i32 @"llvm.fptosi.sat.i32.f32"(float %".1")\n'
    line = '%"c" = call i32 @"llvm.fptosi.sat.i32.f32"(float %"x")'
    text = convert(MODULE.replace("LINE", line) + declared, "k", typed=True)
    assert '%"c" = call i32 @"dk_fptosi.sat.i32.f32"(float %"x")' in text
    assert 'define internal i32 @"dk_fptosi.sat.i32.f32"(float %x)' in text
    assert "llvm.fptosi" not in text
