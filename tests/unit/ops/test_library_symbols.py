"""The names that rows give functions of the targets' libraries: each one is there.

A name that no library has would be found by whoever launches a kernel with it, as a symbol that is not defined.
"""

from __future__ import annotations

import ctypes
import ctypes.util

import pytest
from conftest import require
from llvmlite import binding as llvm

from diffkern.ir.ops.table import all_ops
from diffkern.targets.cpu import object_code

NAMED = {name: row.library for name, row in all_ops().items() if row.library is not None}


def rows(library: str) -> list[str]:
    return sorted(name for name, names in NAMED.items() if getattr(names, library))


def missing_in_c(name: str) -> list[str]:
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    return [symbol for symbol in (name, f"{name}f") if not hasattr(libm, symbol)]


def missing_in_libdevice(names: list[str]) -> list[str]:
    from diffkern.targets.cuda import libdevice

    known = libdevice.load()
    return [symbol for symbol in names if f"@__nv_{symbol}" not in known]


def calls_in_assembly(intrinsic: str, arity: int) -> str:
    """The assembly of a function that calls an intrinsic of LLVM."""
    parameters = ", ".join(f"double %x{k}" for k in range(arity))
    module = llvm.parse_assembly(
        f"declare double @llvm.{intrinsic}.f64({', '.join(['double'] * arity)})\n"
        f"define double @f({parameters}) {{\n  %y = call double @llvm.{intrinsic}.f64({parameters})\n"
        "  ret double %y\n}\n"
    )
    return str(object_code.machine().llvm.emit_assembly(module))


@pytest.mark.parametrize("operation", rows("libm"))
def test_the_c_library_has_it(operation):
    assert not missing_in_c(NAMED[operation].libm), operation


@pytest.mark.parametrize("operation", rows("libdevice"))
def test_libdevice_has_it(operation):
    require("cuda.bindings.nvjitlink", "nvidia")
    names = NAMED[operation]
    fast = [f"{names.fast}f"] if names.fast else []
    assert not missing_in_libdevice([names.libdevice, f"{names.libdevice}f", *fast]), operation


@pytest.mark.parametrize("operation", rows("llvm"))
def test_llvm_knows_the_intrinsic(operation):
    text = calls_in_assembly(NAMED[operation].llvm, all_ops()[operation].arity)
    assert f"llvm.{NAMED[operation].llvm}" not in text, operation


def test_names_that_are_nowhere_are_found():
    assert missing_in_c("dk_no_such") == ["dk_no_such", "dk_no_suchf"]
    assert "llvm.dknosuch" in calls_in_assembly("dknosuch", 1)
