"""Kernels become cubins for every architecture, without a driver."""

from __future__ import annotations

import re

import pytest
from compiling import by_numba, compile_function
from conftest import require

import diffkern as dk
from diffkern.analysis.conflicts import use_atomics
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.targets.cuda import disassembler
from diffkern.targets.cuda.cubin import resources

require("cuda.bindings.nvjitlink", "nvidia")

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


@dk.kernel
def spring(
    x: dk.array(dtype=dk.vec3),
    edges: dk.array(dtype=dk.vec2i),
    rest: dk.array(dtype=float),
    energy: dk.array(dtype=float),
):
    e = dk.tid()
    i, j = edges[e][0], edges[e][1]
    stretch = dk.length(x[i] - x[j]) - rest[e]
    dk.atomic_add(energy, 0, 0.5 * stretch * stretch)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_forward_and_adjoint_become_cubins(arch: str) -> None:
    types = spring.argument_types()
    forward = Compilation(spring.func, types, Variant(target=arch)).build("forward")
    active = frozenset({0, 2, 3})
    adjoint = Compilation(spring.func, types, Variant(target=arch, active=active)).build("adjoint")
    for program, name in ((forward, b"forward"), (adjoint, b"adjoint")):
        assert program.object_code.startswith(b"\x7fELF")
        assert name in program.object_code
        assert program.symbols == (name.decode(),)
        assert program.manifest.target == arch


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_lto_code_links_to_the_same_kernel(arch: str) -> None:
    d = Compilation(spring.func, spring.argument_types(), Variant(active=frozenset({0, 2, 3}), target=arch)).adjoint
    use_atomics(d.fn, d.buffers)
    compiled = compile_function(d.fn, "adjoint", arch)
    linked = by_numba(d.fn, "adjoint", arch)
    assert resources(linked).keys() == {"adjoint"}
    own, other = resources(compiled.code)["adjoint"], resources(linked)["adjoint"]
    assert other.stack_bytes == own.stack_bytes == 0
    assert other.parameter_bytes == own.parameter_bytes
    assert other.shared_bytes == own.shared_bytes


@dk.kernel
def elementary(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    v = x[i]
    y[i] = dk.sin(v) / dk.cos(v) + dk.sqrt(v) * dk.exp(v) + dk.log(v) + dk.pow(v, y[i]) + dk.tan(v) + dk.rsqrt(v)


def test_fast_math_takes_the_approximate_instructions() -> None:
    fn = Compilation(elementary.func, elementary.argument_types()).forward
    precise, fast = (compile_function(fn, "k", "sm_90", fast_math=flag) for flag in (False, True))
    for instruction in ("sin.approx", "cos.approx", "div.full", "sqrt.approx", "ex2.approx", "lg2.approx"):
        assert instruction in fast.assembly(), instruction
    assert "sin.approx" not in precise.assembly()
    assert ".f64" not in precise.assembly()
    assert ".local" not in precise.assembly()
    linked = by_numba(fn, "k", fast_math=True)
    assert resources(linked)["k"].stack_bytes == 0


def test_lines_of_the_source_reach_the_code() -> None:
    fn = Compilation(spring.func, spring.argument_types()).forward
    plain, lined = (compile_function(fn, "k", "sm_90", lineinfo=flag) for flag in (False, True))
    first = spring.func.__code__.co_firstlineno
    found = {int(n) for n in re.findall(r"\.loc\s+1 (\d+)", lined.assembly())}
    assert len([line for line in found if first < line < first + 12]) >= 3
    assert ".loc" not in plain.assembly()
    assert b"debug_line" in lined.code
    assert b"debug_line" not in plain.code


def test_launch_bounds_reach_the_code() -> None:
    fn = Compilation(spring.func, spring.argument_types()).forward
    compiled = compile_function(fn, "k", "sm_90", launch_bounds=(256, 2))
    assert ".maxntid 256" in compiled.assembly()
    assert ".minnctapersm 2" in compiled.assembly()
    assert by_numba(fn, "k", launch_bounds=(256, 2))


def test_the_same_function_gives_the_same_bytes() -> None:
    fn = Compilation(spring.func, spring.argument_types()).forward
    assert compile_function(fn, "k", "sm_90").code == compile_function(fn, "k", "sm_90").code


@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
@pytest.mark.parametrize("dtype", [dk.int8, dk.uint16, dk.float16, dk.bfloat16])
def test_narrow_atomics(dtype: type, arch: str) -> None:
    """16 bits are exchanged, which the assembler takes for every architecture; 8 bits are a part of them."""

    @dk.kernel
    def scatter(x, y):
        i = dk.tid()
        dk.atomic_add(y, x.shape[0] - 1 - i, x[i])

    fn = Compilation(scatter.func, scatter.argument_types(*[dk.array(dtype=dtype)] * 2), Variant(target=arch)).forward
    made = compile_function(fn, "scatter", arch)
    assert "atom" in made.assembly()
    assert set(re.findall(r"atom\S*\.cas\.\w+", made.assembly())) == {"atom.relaxed.gpu.global.cas.b16"}
    linked = by_numba(fn, "scatter", arch)
    (functions,) = disassembler.codes([linked])
    assert functions["scatter"].count("atomic")


@pytest.mark.parametrize(
    ("dtype", "arch", "update"),
    [(dk.float16, "sm_75", "F16x2"), (dk.float16, "sm_90", "F16x2"), (dk.bfloat16, "sm_90", "BF16_?x2")],
)
def test_halves_are_added_without_a_loop(dtype: type, arch: str, update: str) -> None:
    @dk.kernel
    def scatter(k, x, y):
        i = dk.tid()
        dk.atomic_add(y, k[i], x[i])

    compiled = dk.compile(scatter, [dk.array(dtype=t) for t in (int, float, dtype)], target=arch)
    assert any(re.match(rf"REDG?\.E\.ADD\.{update}", name) for name in compiled.instructions)


def test_floats_of_16_bits_are_converted_by_the_hardware() -> None:
    @dk.kernel
    def double(x: dk.array(dtype=dk.float16)):
        i = dk.tid()
        x[i] = x[i] * 2.0

    assert any(re.match("H(ADD|MUL)2", name) for name in dk.compile(double, target="sm_90").instructions)
    assert "vcvtph2ps" in dk.compile(double, target="x86-64-v3").asm
    assert "vcvtph2ps" not in dk.compile(double, target="x86-64-v2").asm


def test_number_of_sums_is_known() -> None:
    types = spring.argument_types()
    forward = Compilation(spring.func, types, Variant(target="sm_90")).build("forward")
    assert forward.manifest.sites == 1
    assert (forward.manifest.resources.dynamic_shared_bytes, forward.manifest.block_dim_fixed) == (0, False)
    assert forward.manifest.resources.shared_bytes == resources(forward.object_code)["forward"].shared_bytes == 32 * 4


@dk.kernel
def vector_sums(
    x: dk.array(dtype=dk.vec3), k: dk.array(dtype=int), total: dk.array(dtype=dk.vec3), bins: dk.array(dtype=dk.vec3)
):
    i = dk.tid()
    dk.atomic_add(total, 0, x[i])
    dk.atomic_sub(bins, k[i], x[i])


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_vectors_are_added_as_numbers_are(arch: str) -> None:
    """What all threads add to one element is summed over the block, and no atomic waits for a value nobody reads."""
    made = Compilation(vector_sums.func, vector_sums.argument_types(), Variant(target=arch)).build("kernel")
    code = made.files["kernel.ptx"].decode()
    assert made.manifest.sites == 1
    assert len(re.findall(r"\bred\.", code)) == (5 if arch == "sm_90" else 6)  # two numbers at once
    assert code.count("shfl.") >= 15
    assert not re.findall(r"atom\.(?!shared)", code)


def test_vectors_are_added_as_numbers_are_on_a_cpu() -> None:
    made = Compilation(vector_sums.func, vector_sums.argument_types()).build("kernel")
    assert made.manifest.sites == 3


@dk.kernel
def ticket(x: dk.array(dtype=dk.vec3), total: dk.array(dtype=dk.vec3), y: dk.array(dtype=float)):
    i = dk.tid()
    before = dk.atomic_add(total, 0, x[i])
    y[i] = before[1]


def test_a_component_that_is_read_makes_it_an_atomic_with_a_result() -> None:
    made = Compilation(ticket.func, ticket.argument_types(), Variant(target="sm_90")).build("kernel")
    assert made.manifest.sites == 0
    assert "atom." in made.files["kernel.ptx"].decode()
