"""Functions of NVIDIA's mathematical library, each with what it needs and nothing else."""

from __future__ import annotations

import re

import pytest
from conftest import require
from llvmlite import binding as llvm

from diffkern.targets.cuda import libdevice, toolchain

require("cuda.bindings.nvjitlink", "nvidia")


def module(*names: str) -> str:
    return libdevice.functions(names, toolchain.TRIPLE, toolchain.DATA_LAYOUT)


def test_every_function_is_a_module_of_its_own():
    toolchain.machine("sm_90")
    names = [name[1:] for name in libdevice.load() if name.startswith("@__nv_")]
    assert len(names) > 300
    for name in names:
        parsed = llvm.parse_assembly(module(name))
        parsed.verify()
        missing = [f.name for f in parsed.functions if f.is_declaration and f.name.startswith(("__nv_", "__internal"))]
        assert not missing, name


@pytest.mark.parametrize("name", ["__nv_expf", "__nv_sin"])
def test_only_what_it_calls_comes_with_it(name):
    text = module(name)
    defined = set(re.findall(r"^define .*?@(\w+)\(", text, re.MULTILINE))
    assert name in defined
    assert all(other == name or len(re.findall(rf"@{other}\(", text)) > 1 for other in defined)
    assert len(defined) < 5


def test_several_share_what_both_need():
    text = module("__nv_sin", "__nv_cos")
    assert text.count("@__cudart_i2opi_d =") == 1
    llvm.parse_assembly(text).verify()


def test_nothing_asks_whether_to_flush_subnormal_numbers():
    assert "__nvvm_reflect(ptr" in module("__nv_sqrtf")  # what else is asked is left to the compiler
    assert "__nvvm_reflect" not in module("__nv_expf")
