"""Machine code for systems that the tests do not run on: it is made and read back, and nothing of it is executed."""

from __future__ import annotations

import functools

import llvmlite.binding as llvm
import pytest
from compiling import compile_function

import diffkern as dk
from diffkern.compiler import pipeline
from diffkern.frontend.statements import lowering
from diffkern.ir.types import FLOAT32, Array
from diffkern.runtime.native.assemble import EXTERNAL_NAMES
from diffkern.runtime.native.loader import LIBRARY_NAMES
from diffkern.runtime.native.module_ir import runtime_ir
from diffkern.runtime.native.objfile import read_symbols

SYSTEMS = {
    "aarch64-unknown-linux-gnu": ("linux", "aarch64"),
    "arm64-apple-macosx11.0": ("darwin", "arm64"),
    "x86_64-apple-macosx11.0": ("darwin", "x86_64"),
    "x86_64-pc-windows-msvc": ("win32", "AMD64"),
}
"""Triples, with what ``sys.platform`` and ``platform.machine()`` are there."""


def powers(x: dk.array(dtype=float), y: dk.array(dtype=float), total: dk.array(dtype=float)):
    i = dk.tid()
    v = x[i]
    for k in range(i):
        v = dk.pow(dk.abs(v), 1.5) + dk.sin(x[k])
    y[i] = v
    dk.atomic_add(total, 0, v)


@functools.cache
def programs() -> tuple[str, str]:
    """The kernel and its adjoint as LLVM's text, for this machine."""
    primal = pipeline.prepare(lowering.lower(powers, [Array(FLOAT32, 1)] * 3))
    adjoint = pipeline.differentiate(primal, range(3)).fn
    return tuple(compile_function(fn, name).llvm_ir() for fn, name in ((primal, "primal"), (adjoint, "adjoint")))


def emitted(text: str, triple: str) -> bytes:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        machine = llvm.Target.from_triple(triple).create_target_machine(reloc="pic", codemodel="default")
    except RuntimeError:
        pytest.skip(f"this LLVM makes no code for {triple}")
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = triple, str(machine.target_data)
    module.verify()
    return bytes(machine.emit_object(module))


@pytest.mark.parametrize("triple", SYSTEMS)
def test_kernels_and_adjoints_need_what_the_loader_allows(triple):
    for name, text in zip(("primal", "adjoint"), programs(), strict=True):
        table = read_symbols(emitted(text, triple))
        assert table.machine == ("x86_64" if triple.startswith("x86_64") else "aarch64")
        assert name in table.defined
        assert set(table.undefined) <= LIBRARY_NAMES


@pytest.mark.parametrize("triple", [t for t, (system, _) in SYSTEMS.items() if system != "win32"])
def test_the_thread_pool_of_other_systems(triple):
    table = read_symbols(emitted(runtime_ir(64, *SYSTEMS[triple]), triple))
    assert {"dk_pool_run", "dk_pool_configure", "dk_pool_call"} <= table.defined
    assert set(table.undefined) <= EXTERNAL_NAMES | LIBRARY_NAMES
