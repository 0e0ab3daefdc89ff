"""Reading machine code: from text, from raw bytes, from the cubin's own tables."""

from __future__ import annotations

import os
import stat

import pytest
from conftest import require

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.kernels.kernel import Kernel
from diffkern.process import wheels
from diffkern.targets.cuda import cubin, disassembler
from diffkern.targets.cuda.sass import CLASSES, Instruction, MachineCode, join, parse, parse_raw

require("cuda.bindings.nvjitlink", "nvidia")

TEXT = """\
\t.target\tsm_90
//--------------------- .text.first --------------------------
\t.section\t.text.first,"ax",@progbits
\t.align\t128
        .global         first
first:
.text.first:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/               @P0 EXIT ;
.L_x_1:
        /*0020*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0030*/                   LDG.E R8, desc[UR4][R2.64+0x10] ;
.L_x_2:
        /*0040*/                   DFMA R8, R4, R6, R8 ;
        /*0050*/              @!P1 BRA `(.L_x_2) ;
        /*0060*/                   HFMA2.MMA R3, -RZ, RZ, 0, 0 ;
        /*0070*/                   F2F.F64.F32 R10, R8 ;
        /*0080*/               @P2 BRA `(.L_x_1) ;
        /*0090*/                   REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R8 ;
        /*00a0*/              @UP0 BRA `(.L_x_3) ;
        /*00b0*/                   REDUX.SUM UR6, R8 ;
.L_x_3:
        /*00c0*/                   EXIT ;
.L_x_4:
        /*00d0*/                   BRA `(.L_x_4);
        /*00e0*/                   NOP;
        /*00f0*/                   NOP;
.L_x_5:


//--------------------- .text.second --------------------------
\t.section\t.text.second,"ax",@progbits
.text.second:
        /*0000*/                   MUFU.RCP64H R3, R5 ;
        /*0010*/                   EXIT ;
"""


def test_functions_and_counts() -> None:
    code = parse(TEXT)
    assert list(code) == ["first", "second"]
    first = code["first"]
    assert len(first.instructions) == 13  # without padding
    assert first.instructions[1] == Instruction(0x10, "EXIT", "", "@P0")
    expected = {
        "load": 2,
        "load128": 1,
        "load_constant": 1,
        "float64": 2,
        "atomic": 1,
        "red": 1,
        "atom": 0,
        "shuffle": 1,
        "branch": 3,
        "store": 0,
        "tensor": 0,
        "local": 0,
    }
    assert {name: first.count(name) for name in expected} == expected
    assert code["second"].count("float64") == code["second"].count("special") == 1
    assert first.mnemonics["LDG.E"] == 1


def test_loops_are_the_backward_branches() -> None:
    first = parse(TEXT)["first"]
    assert [(loop.start, loop.end, loop.size, loop.innermost) for loop in first.loops] == [
        (0x20, 0x80, 7, False),
        (0x40, 0x50, 2, True),
    ]
    assert first.within(first.loops[1]).mnemonics == {"DFMA": 1, "BRA": 1}


def test_raw_code_is_split_into_functions() -> None:
    text = """
        /*0000*/                   MOV R1, R2 ;
        /*0010*/              @!P1 BRA 0x0 ;
        /*0020*/                   MOV R1, R2 ;
        /*0030*/              @!P1 BRA 0x20 ;
        /*0040*/                   BRA 0x40;
"""
    one, two = parse_raw(text, [("one", 0x20), ("two", 0x30)])
    assert [loop.size for loop in one.loops] == [2]
    assert [(loop.start, loop.size) for loop in two.loops] == [(0, 2)]
    assert [(i.address, i.target) for i in one.instructions] == [(i.address, i.target) for i in two.instructions]


def test_called_functions_are_laid_behind_the_kernel() -> None:
    functions = parse(TEXT)
    joined = join("second", functions)
    assert [i.opcode for i in joined.instructions[:3]] == ["MUFU.RCP64H", "EXIT", "LDC"]
    assert [i.address for i in joined.instructions[:3]] == [0, 0x10, 0x20]
    assert [loop.size for loop in joined.loops] == [7, 2]


@pytest.mark.parametrize(
    ("opcode", "classes"),
    [
        ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU", {"atomic", "red"}),
        ("ATOMG.E.ADD.STRONG.GPU", {"atomic", "atom"}),
        ("ATOMS.ADD", {"shared", "shared_atomic"}),
        ("LDL.LU", {"local"}),
        ("STG.E.128", {"store", "store128"}),
        ("LDG.E.64.CONSTANT", {"load", "load64", "load_constant"}),
        ("DSETP.GT.AND", {"float64"}),
        ("I2F.F64.S64", {"float64"}),
        ("F2F.F32.F64", {"float64"}),
        ("F2I.FTZ.U32.TRUNC.NTZ", set()),
        ("HMMA.1688.F32", {"tensor"}),
        ("DMMA.884", {"tensor", "float64"}),
        ("DEPBAR.LE", set()),
        ("LDGSTS.E", set()),
        ("BAR.SYNC.DEFER_BLOCKING", {"barrier"}),
        ("CALL.REL.NOINC", {"call"}),
        ("BREAK", set()),
    ],
)
def test_classes(opcode: str, classes: set[str]) -> None:
    code = MachineCode("f", (Instruction(0, opcode, ""),))
    assert {name for name in CLASSES if code.count(name)} == classes


@dk.kernel
def sums(x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float), n: int):
    i = dk.tid()
    s = 0.0
    for k in range(n):
        s += x[i, k] / y[i]
    y[i] = s


def cubin_of(kernel: Kernel, arch: str) -> bytes:
    return Compilation(kernel.func, kernel.argument_types(), Variant(target=arch)).build("sums").object_code


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_a_cubin_read_in_two_ways(arch: str) -> None:
    made = cubin_of(sums, arch)
    assert cubin.architecture(made) == arch
    (raw,) = disassembler.codes([made])
    named = parse(disassembler.disassemble(made))
    assert list(raw) == list(named)
    for name in raw:
        assert [(i.address, i.opcode, i.guard) for i in raw[name].instructions] == [
            (i.address, i.opcode, i.guard) for i in named[name].instructions
        ]
    assert raw["sums"].loops == named["sums"].loops
    assert raw["sums"].loops
    taken = cubin.resources(made)["sums"]
    assert taken.code_bytes >= 16 * len(raw["sums"].instructions)
    assert 8 <= taken.registers <= 255
    assert (taken.stack_bytes, taken.shared_bytes) == (0, 0)
    assert taken.parameter_bytes == 56 + 5 * 8 + 3 * 8 + 8  # header, x, y, n


@dk.kernel
def total(x: dk.array(dtype=float), out: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(out, 0, x[i])


def test_shared_memory_is_the_programs_own() -> None:
    sizes = {arch: cubin.resources(cubin_of(total, arch))["sums"].shared_bytes for arch in ("sm_75", "sm_90", "sm_120")}
    assert len(set(sizes.values())) == 1, sizes
    assert 0 < sizes["sm_90"] < 1024


def test_several_cubins_keep_their_order() -> None:
    made = [cubin_of(sums, arch) for arch in ("sm_90", "sm_75", "sm_90")]
    read = disassembler.codes(made)
    opcodes = [[i.opcode for i in code["sums"].instructions] for code in read]
    assert opcodes[0] == opcodes[2] != opcodes[1]


def test_what_is_no_cubin() -> None:
    for data in (b"", b"\x7fELF\x02\x01" + bytes(100)):
        with pytest.raises(ValueError, match="not a cubin"):
            cubin.resources(data)


def test_declared_local_memory() -> None:
    ptx = "\t.local .align 8 .b8 \t__local_depot0[1032];\n .local .f32 one;\n.reg .b64 %SP;\n// .local .b8 x[8];"
    assert cubin.declared_local_bytes(ptx) == 1036


@pytest.fixture
def original():
    return next(wheels.places("nvdisasm"))


@pytest.fixture
def no_tools(monkeypatch, tmp_path):
    monkeypatch.setattr(wheels, "places", lambda name: iter(()))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    disassembler.find_disassembler.cache_clear()
    yield tmp_path
    disassembler.find_disassembler.cache_clear()


def test_a_missing_disassembler_is_named(no_tools) -> None:
    with pytest.raises(dk.CompileError, match=r'(?s)nvdisasm.*pip install "diffkern\[cuda\]"'):
        disassembler.find_disassembler()


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH", "PATH"])
def test_a_toolkits_disassembler_is_found(no_tools, monkeypatch, variable) -> None:
    tool = no_tools / "bin" / disassembler._NAME
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    if variable != "PATH":
        monkeypatch.setenv("PATH", "")
        monkeypatch.setenv(variable, str(no_tools))
    assert disassembler.find_disassembler() == (str(tool),)


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_a_wheels_tool_needs_no_permission_to_run(original, no_tools, monkeypatch) -> None:
    tool = no_tools / "bin" / "nvdisasm"
    tool.parent.mkdir()
    tool.write_bytes(original.read_bytes())
    tool.chmod(stat.S_IRUSR)
    monkeypatch.setattr(disassembler, "_places", lambda: iter([tool]))
    monkeypatch.setattr(os, "access", lambda path, mode: path != tool and os.path.exists(path))
    disassembler.find_disassembler.cache_clear()
    loader, program = disassembler.find_disassembler()
    assert (program, "ld" in loader) == (str(tool), True)
    assert "sums" in disassembler.disassemble(cubin_of(sums, "sm_75"))
