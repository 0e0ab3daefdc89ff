"""The loader of ELF objects that needs no linker: what it places where, and what it leaves to LLVM."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest

from diffkern.runtime.native import cpuid, elf, loader
from diffkern.runtime.native.loader import load_code, make_target_machine

pytestmark = pytest.mark.skipif(not elf.is_possible(), reason="the loader is for Linux on x86-64")

COUNTER = """
@count = internal global i64 40
@zeros = internal global [5000 x i64] zeroinitializer, align 64
@table = internal constant [3 x double] [double 1.5, double 2.5, double 3.5]
@chosen = internal constant ptr @second
declare double @pow(double, double)
define internal i64 @second(i64 %by) {
  %old = load i64, ptr @count
  %new = add i64 %old, %by
  store i64 %new, ptr @count
  store i64 %new, ptr getelementptr ([5000 x i64], ptr @zeros, i64 0, i64 4999)
  ret i64 %new
}
define i64 @counted(i64 %by) {
  %f = load volatile ptr, ptr @chosen
  %r = call i64 %f(i64 %by)
  ret i64 %r
}
define double @powered(i64 %k) {
  %p = getelementptr [3 x double], ptr @table, i64 0, i64 %k
  %x = load double, ptr %p
  %n = load i64, ptr getelementptr ([5000 x i64], ptr @zeros, i64 0, i64 4999)
  %e = sitofp i64 %n to double
  %r = call double @pow(double %x, double %e)
  ret double %r
}
"""

OUTSIDE = """
@inside = global i64 7
declare double @pow(double, double)
declare double @fmod(double, double)
define double @chosen(i64 %k) {
  %c = icmp sgt i64 %k, 0
  %f = select i1 %c, ptr @pow, ptr @fmod
  %r = call double %f(double 7.0, double 2.0)
  %i = load i64, ptr @inside
  %d = sitofp i64 %i to double
  %m = call double @fmod(double %d, double 4.0)
  %s = fadd double %r, %m
  ret double %s
}
"""

LOCAL = """
@mine = internal thread_local global i64 3
define i64 @counted(i64 %by) {
  %a = load i64, ptr @mine
  %r = add i64 %a, %by
  ret i64 %r
}
"""


def compiled(text: str, machine: Any = None) -> bytes:
    module = llvm.parse_assembly(text)
    machine = machine or make_target_machine()
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return bytes(machine.emit_object(module))


def machine(model: str) -> Any:
    """Return a machine for objects whose references are of 64 bits (``large``), or of 32."""
    make_target_machine()  # LLVM knows the processor from here on
    target = llvm.Target.from_triple(llvm.get_process_triple())
    if model == "large":
        return target.create_target_machine(codemodel="large", reloc="static")
    return target.create_target_machine(codemodel="small", reloc="pic")


def called(address: int, argument: int, result: Any = ctypes.c_int64) -> Any:
    return ctypes.CFUNCTYPE(result, ctypes.c_int64)(address)(argument)


def mapped(address: int) -> str:
    """Return what the system allows at an address; an empty text where nothing is."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, allowed, *_ = line.split()
        first, end = (int(word, 16) for word in place.split("-"))
        if first <= address < end:
            return allowed
    return ""


@pytest.fixture
def no_linker(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("LLVM's linker was asked")

    monkeypatch.setattr(loader, "_link", refused)


@pytest.mark.usefixtures("no_linker")
@pytest.mark.parametrize("model", ["large", "small"])
def test_each_object_has_its_own_variables_and_what_it_points_at(model: str) -> None:
    data = compiled(COUNTER, machine(model))
    codes = [load_code(data, ["counted", "powered"]) for _ in range(2)]
    assert [called(codes[0]["counted"], 1) for _ in range(3)] == [41, 42, 43]
    assert called(codes[1]["counted"], -38) == 2
    assert [called(codes[1]["powered"], k, ctypes.c_double) for k in range(3)] == [2.25, 6.25, 12.25]
    assert mapped(codes[0]["counted"]) == "r-xp"


@pytest.mark.usefixtures("no_linker")
@pytest.mark.parametrize("model", ["large", "small"])
def test_functions_of_others_are_called_and_pointed_at(model: str) -> None:
    code = load_code(compiled(OUTSIDE, machine(model)), ["chosen"])
    assert [called(code["chosen"], k, ctypes.c_double) for k in (1, 0)] == [49.0 + 3.0, 1.0 + 3.0]


@pytest.mark.usefixtures("no_linker")
def test_memory_is_given_back_with_the_last_reference() -> None:
    code = load_code(compiled(COUNTER), ["counted"])
    address = code["counted"]
    assert mapped(address)
    del code
    gc.collect()
    assert not mapped(address)


def test_constants_cannot_be_written_and_variables_not_be_run() -> None:
    placed = elf.place(compiled(COUNTER), ["counted"], {"pow": 1})
    assert placed is not None
    found = [mapped(placed[1].base + k * elf._PAGE) for k in range(3)]
    assert found == ["r-xp", "r--p", "rw-p"]


def test_what_needs_a_linker_is_left_to_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    data = compiled(LOCAL)
    assert elf.place(data, ["counted"], {}) is None
    # An address that is missing.
    assert elf.place(compiled(OUTSIDE, machine("small")), ["chosen"], {"pow": 1}) is None
    assert elf.place(compiled(OUTSIDE, machine("large")), ["chosen"], {"pow": 1}) is None
    # A system may forbid memory that was written to be run.
    monkeypatch.setattr(elf, "_protect", lambda *_: False)
    assert elf.place(compiled(COUNTER), ["counted"], {"pow": 1}) is None


def test_the_processor_says_the_same_on_each_core_and_llvm_of_it_what_is_kept() -> None:
    cores = os.sched_getaffinity(0)
    try:
        said = set()
        for core in cores:
            os.sched_setaffinity(0, {core})
            said.add(cpuid.identity())
    finally:
        os.sched_setaffinity(0, cores)
    (identity,) = said
    assert identity is not None
    assert len(identity) > 100
    assert loader.host_cpu() == loader._ask_host_cpu()


def test_a_processor_is_found_again_only_as_what_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[bytes, bytes] = {}
    monkeypatch.setattr(loader, "_memory", (kept.get, kept.__setitem__))
    asked = loader.host_cpu.__wrapped__
    assert asked() == loader._ask_host_cpu()
    ((identity, _),) = kept.items()
    kept[identity] = b"cpu +a,-b"
    assert asked() == ("cpu", "+a,-b")
    kept[identity] = b"cpu "
    assert asked() == ("cpu", "")
    monkeypatch.setattr(loader, "identity", lambda: None)
    assert asked() == loader._ask_host_cpu()
