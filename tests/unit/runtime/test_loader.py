"""The loader of object code: what it loads, what it refuses, how long it takes."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import struct
import subprocess
import sys
import weakref
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from diffkern.runtime.native import loader
from diffkern.runtime.native.elf import is_possible
from diffkern.runtime.native.loader import (
    ObjectLoadError,
    host_cpu,
    load_code,
    load_object,
    make_target_machine,
    undefined_symbols,
)
from diffkern.runtime.native.objfile import read_symbols

ADD = """
define i64 @{name}(i64 %a) {{
  %r = add i64 %a, {value}
  ret i64 %r
}}
"""

CALLS = """
declare float @sinf(float)
declare double @pow(double, double)
define double @{name}(float %a, double %b) {{
  %s = call float @sinf(float %a)
  %w = fpext float %s to double
  %p = call double @pow(double %w, double %b)
  ret double %p
}}
"""

COSINE = """
declare float @cosf(float)
define float @{name}(float %a) {{
  %r = call float @cosf(float %a)
  ret float %r
}}
"""

UNKNOWN = """
declare void @PyErr_Clear()
declare void @NRT_incref(ptr)
define void @{name}() {{
  call void @PyErr_Clear()
  call void @NRT_incref(ptr null)
  ret void
}}
"""


def compiled(text: str, **fields: object) -> bytes:
    machine = make_target_machine()
    module = llvm.parse_assembly(text.format(**fields))
    module.triple = machine.triple
    return machine.emit_object(module)


def cross_compiled(text: str, triple: str, **fields: object) -> bytes:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError:
        pytest.skip(f"this LLVM makes no code for {triple}")
    module = llvm.parse_assembly(text.format(**fields))
    module.triple = triple
    return target.create_target_machine().emit_object(module)


def call(address: int, argument: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(argument)


def test_a_loaded_function_runs() -> None:
    addresses = load_object(compiled(ADD, name="loader_plain", value=5), ["loader_plain"])
    assert list(addresses) == ["loader_plain"]
    assert call(addresses["loader_plain"], 37) == 42


def test_library_functions_are_bound() -> None:
    address = load_object(compiled(CALLS, name="loader_math"), ["loader_math"])["loader_math"]
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_float, ctypes.c_double)(address)
    assert function(0.5, 2.0) == pytest.approx(0.479425538604203**2, rel=1e-6)


def test_objects_that_define_the_same_name_stay_apart() -> None:
    first = load_object(compiled(ADD, name="loader_same", value=1), ["loader_same"])["loader_same"]
    second = load_object(compiled(ADD, name="loader_same", value=2), ["loader_same"])["loader_same"]
    assert (call(first, 0), call(second, 0)) == (1, 2)


def test_an_object_that_defines_a_library_name_does_not_capture_it() -> None:
    own = load_object(compiled(ADD, name="cosf", value=9), ["cosf"])["cosf"]
    assert call(own, 0) == 9
    address = load_object(compiled(COSINE, name="loader_cos"), ["loader_cos"])["loader_cos"]
    assert ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(address)(0.0) == 1.0


def test_code_is_unloaded_with_its_last_reference() -> None:
    objects = [compiled(ADD, name=f"loader_gone_{k}", value=k) for k in range(40)]
    codes = [load_code(data, [f"loader_gone_{k}"]) for k, data in enumerate(objects)]
    last = codes[-1]
    ends = [weakref.ref(code) for code in codes]
    addresses = [code[f"loader_gone_{k}"] for k, code in enumerate(codes)]
    assert [call(address, 1) for address in addresses] == list(range(1, 41))
    held = _mappings(addresses[:-1])
    codes.clear()
    gc.collect()
    assert [end() for end in ends[:-1]] == [None] * 39
    if sys.platform == "linux":
        assert held > _mappings(addresses[:-1])
    assert call(last["loader_gone_39"], 1) == 40


def _mappings(addresses: list[int]) -> int:
    """How many of some addresses lie in executable memory."""
    if sys.platform != "linux":
        return 0
    ranges = [
        line.split()[0].split("-")
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "x" in line.split()[1]
    ]
    return sum(any(int(low, 16) <= a < int(high, 16) for low, high in ranges) for a in addresses)


def test_undefined_symbols_are_read() -> None:
    assert undefined_symbols(compiled(ADD, name="f", value=1)) == []
    assert undefined_symbols(compiled(CALLS, name="f")) == ["pow", "sinf"]


@pytest.mark.parametrize(
    "triple",
    [
        "x86_64-unknown-linux-gnu",
        "aarch64-unknown-linux-gnu",
        "x86_64-apple-darwin",
        "arm64-apple-darwin",
        "x86_64-pc-windows-msvc",
        "aarch64-pc-windows-msvc",
    ],
)
def test_every_object_format_is_read(triple: str) -> None:
    data = cross_compiled(CALLS, triple, name="kernel_with_a_long_name")
    table = read_symbols(data)
    assert table.machine == ("x86_64" if triple.startswith("x86_64") else "aarch64")
    assert "kernel_with_a_long_name" in table.defined
    assert [name for name in table.undefined if name != "_fltused"] == ["pow", "sinf"]
    for length in range(0, len(data) - 4, 7):
        try:
            shortened = read_symbols(data[:length])
        except ObjectLoadError:
            continue
        # What follows the tables may be cut off without harm to them.
        assert shortened == table


def test_names_outside_the_list_are_refused() -> None:
    with pytest.raises(ObjectLoadError, match="NRT_incref, PyErr_Clear"):
        load_object(compiled(UNKNOWN, name="loader_unknown"), ["loader_unknown"])


def test_names_on_the_list_must_resolve() -> None:
    with pytest.raises(ObjectLoadError, match=r"NRT_incref.*process does not have"):
        load_object(compiled(UNKNOWN, name="loader_absent"), ["loader_absent"], allow={"NRT_incref", "PyErr_Clear"})


def test_a_function_must_be_defined_by_the_object_itself() -> None:
    with pytest.raises(ObjectLoadError, match="does not define sinf, other"):
        load_object(compiled(CALLS, name="loader_own"), ["loader_own", "sinf", "other"])


@pytest.mark.parametrize(
    "data",
    [b"", b"\x7fELF", b"not an object at all" * 20, b"\x7fELF\x02\x01" + bytes(500), b"\xcf\xfa\xed\xfe" + bytes(90)],
)
def test_foreign_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ObjectLoadError, match="object"):
        load_object(data, ["f"])


def test_truncated_objects_are_refused() -> None:
    data = compiled(CALLS, name="loader_cut")
    for length in range(0, len(data), 11):
        with pytest.raises(ObjectLoadError):
            load_object(data[:length], ["loader_cut"])


@pytest.mark.skipif(sys.platform != "linux", reason="makes an ELF object")
def test_objects_of_another_machine_are_refused() -> None:
    data = bytearray(compiled(ADD, name="loader_other", value=1))
    struct.pack_into("<H", data, 18, 62 if platform.machine() == "aarch64" else 183)
    with pytest.raises(ObjectLoadError, match="cannot be loaded on"):
        load_object(bytes(data), ["loader_other"])


def test_many_objects_are_loaded() -> None:
    objects = [compiled(ADD, name=f"loader_many_{k}", value=k) for k in range(200)]
    addresses = [load_object(data, [f"loader_many_{k}"])[f"loader_many_{k}"] for k, data in enumerate(objects)]
    assert [call(address, 0) for address in addresses] == list(range(200))


def test_the_processor_is_described() -> None:
    name, features = host_cpu()
    names = [feature[1:] for feature in features.split(",") if feature]
    assert name
    assert names == sorted(names)
    assert all(feature[0] in "+-" for feature in features.split(",") if feature)


def test_llvm_is_asked_once_about_a_processor_and_numba_never(tmp_path: Path) -> None:
    program = """
import sys
from diffkern.runtime.native import loader, pool
assert "llvmlite" not in sys.modules
print(*loader.host_cpu(), "llvmlite.binding" in sys.modules)
assert not {"numba", "sympy"} & set(sys.modules)
"""
    environment = {**os.environ, "DIFFKERN_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", program], check=True, timeout=60, env=environment, capture_output=True, text=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert [(line[:-1], line[-1]) for line in said] == [
        ([*host_cpu()], "True"),
        ([*host_cpu()], str(not is_possible())),
    ]


def test_the_list_holds_functions_of_the_c_library_only() -> None:
    assert not [name for name in loader.LIBRARY_NAMES if name.startswith(("Py", "NRT", "numba"))]
