"""The whole corpus, forward and adjoint, as machine code for five architectures. No GPU is needed."""

from __future__ import annotations

import json

import pytest
from conftest import require
from corpus import SAMPLES

from diffkern.contracts.manifest import GpuResources, Manifest, ProgramParameter
from diffkern.targets.cuda.sass import Instruction, MachineCode

from . import recorded, rules
from .programs import ARCHITECTURES, Program, programs, read

require("cuda.bindings.nvjitlink", "nvidia")

USUAL = ("sm_75", "sm_90")
"""Architectures whose code is read by default; of each it takes some 20 seconds."""

BOUNDARY = (
    "device.sine",
    "device.four_at_once",
    "device.double_loss",
    "memory.gather",
    "memory.square_in_place",
    "composites.n_body",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arch", [arch if arch in USUAL else pytest.param(arch, marks=pytest.mark.full) for arch in ARCHITECTURES]
)
def test_architecture(arch: str) -> None:
    made = programs(arch)
    problems = [text for program in made for text in rules.broken(program)] + recorded.check(arch, made)
    assert not problems, f"{len(problems)} on {arch}:\n" + "\n".join(problems)


def test_arrays_that_may_overlap_are_not_read_through_the_read_only_path() -> None:
    made = read((SAMPLES[name], "forward", {"target": "sm_90", "may_alias": True}) for name in BOUNDARY)
    assert any(rules.read_only(program) for program in made)
    assert [p.name for p in made if p.sample.real == "float32" and p.code.count("load_constant")] == []


def program(
    name: str, direction: str, *opcodes: str, spill_bytes: int = 0, stack_bytes: int = 0, reads: tuple[int, ...] = ()
) -> Program:
    """A program as the rules see it."""
    code = MachineCode("kernel", tuple(Instruction(16 * k, opcode, "") for k, opcode in enumerate(opcodes)))
    vectors = tuple(ProgramParameter(f"p{k}", "array1d<vec4<float32>,C>", "param", k, k) for k in range(2))
    taken = GpuResources(20, stack_bytes, spill_bytes, 0)
    return Program(SAMPLES[name], direction, code, Manifest(1, 1.0, vectors, reads, (1,), gpu=taken))


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (program("branches.if_else", "forward", "F2F.F64.F32"), "float64 instructions: F2F.F64.F32"),
        (program("device.double_loss", "forward", "SHFL.DOWN", "RED.E.STRONG.GPU"), "no float64 instruction"),
        (program("branches.if_else", "adjoint", spill_bytes=8), "8 bytes spilled"),
        (program("loops.product", "adjoint", spill_bytes=8), "8 bytes spilled"),
        (program("branches.if_else", "adjoint", stack_bytes=8), "8 bytes of stack"),
        (program("branches.if_else", "adjoint", "LDL"), "1 accesses"),
        (program("branches.if_else", "adjoint", "REDG.E.ADD.STRONG.GPU"), "1 atomics where no two"),
        (program("memory.scatter_add", "forward"), "no atomic where"),
        (program("memory.gather", "adjoint"), "no atomic where"),
        (program("memory.scatter_max", "adjoint"), "no atomic where"),
        (program("device.sine", "adjoint", "REDG.E.ADD.STRONG.GPU"), "the cotangent of a is added up without"),
        (
            program("memory.scatter_add", "forward", "ATOMG.E.ADD.STRONG.GPU"),
            "1 atomics wait for a value that nobody reads",
        ),
        (program("memory.scatter_add", "forward", "REDG.E.ADD.STRONG.SM"), "another scope than the device: REDG.E.ADD"),
        (
            program("memory.scatter_add", "forward", "REDG.E.ADD.STRONG.SYS"),
            "another scope than the device: REDG.E.ADD",
        ),
        (program("memory.uniform_loss", "forward", "REDG.E.ADD.STRONG.GPU"), "what all threads add to one element"),
        (program("device.four_at_once", "forward", "LDG.E", "STG.E.128"), "no 128-bit load"),
        (program("device.four_at_once", "forward", "LDG.E.128", "STG.E"), "no 128-bit store"),
        (program("memory.gather", "forward", "LDG.E", reads=(0,)), "no load through the read-only path"),
    ],
)
def test_every_rule_can_be_broken(made: Program, problem: str) -> None:
    (text,) = rules.broken(made)
    assert text.startswith(made.name)
    assert problem in text


@pytest.mark.parametrize(
    "made",
    [
        program("branches.if_else", "forward", "LDG.E.CONSTANT", "FFMA", "STG.E", reads=(0,)),
        program("loops.product", "adjoint", "LDL", "STL", stack_bytes=1024),
        program("device.sine", "adjoint", "SHFL.DOWN", "REDG.E.ADD.STRONG.GPU"),
        program("memory.square_in_place", "forward", "LDG.E", reads=[1]),
        program("device.four_at_once", "forward", "LDG.E.128.CONSTANT", "STG.E.128", reads=(0,)),
    ],
)
def test_what_no_rule_forbids(made: Program) -> None:
    assert rules.broken(made) == []


def test_the_record_notices_what_changed() -> None:
    record = json.loads(
        recorded.as_text(
            {"compilers": {"llvmlite": "1", "nvidia-nvvm": "2"}, "programs": {"a forward": [20, 100], "gone": [1, 2]}}
        )
    )
    same = {"a forward": [20, 100], "gone": [1, 2]}
    assert list(recorded.compare(record, same, {"llvmlite": "1", "nvidia-nvvm": "3"})) == []
    assert list(
        recorded.compare(record, {"a forward": [20, 99], "new": [1, 1]}, {"llvmlite": "1", "nvidia-nvvm": "3"})
    ) == [
        "gone: only recorded",
        "new: only found",
        "a forward: 20 registers and 100 instructions are recorded, 20 and 99 found",
    ]
    assert list(recorded.compare(record, {**same, "a forward": [24, 110]}, {"llvmlite": "2"})) == []
    assert len(list(recorded.compare(record, {**same, "a forward": [24, 150]}, {"llvmlite": "2"}))) == 1
    assert len(list(recorded.compare(record, {**same, "a forward": [30, 100]}, {"llvmlite": "2"}))) == 1
