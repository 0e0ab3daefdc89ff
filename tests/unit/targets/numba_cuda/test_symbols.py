"""Names that numba numbers become names that count from the kernel on."""

from __future__ import annotations

import re

from diffkern.targets.numba_cuda.compiler import canonical

MODULES = """
; ModuleID = "b$N"
define linkonce_odr i32 @"bN"() {
  %".1" = call i32 @"cN"()
  ret i32 %".1"
}
-----
@"_ZN08NumbaEnvN" = common global i8* null
define void @"kN"() {
  call void @"llvm.nvvm.barrier0"()
  %".1" = call i32 @"bN"()
  store i32 1, i32 addrspace(3)* @"smem_N"
  ret void
}
@"smem_N" = addrspace(3) global i32 undef
@"llvm.used" = global [1 x i8*] [@"kN"]
-----
define linkonce_odr i32 @"unusedN"() {
  ret i32 0
}
-----
define linkonce_odr i32 @"cN"() {
  %".1" = call float @"__nv_sinf"(float 0.0)
  ret i32 0
}
"""


def modules(n: int) -> list[str]:
    return [text.lstrip() for text in re.sub(r"N\b", str(n), MODULES).split("-----")]


def test_names_and_order_are_those_of_the_program() -> None:
    first, second = canonical(modules(3), "k3", "kernel"), canonical(modules(11)[::-1], "k11", "kernel")
    assert first == second
    text = "".join(first)
    assert [part.partition("@")[2].partition("(")[0] for part in first] == ['"kernel"', '"kernel_1"', '"kernel_3"']
    assert '@"kernel_2" = addrspace(3)' in text
    assert all(name in text for name in ('@"llvm.used"', '@"__nv_sinf"', '@"llvm.nvvm.barrier0"'))
    assert "unused" not in text
    assert ";" not in text
