"""Options of kernels: one definition, which the decorator, its type and the documentation follow."""

from __future__ import annotations

import ast
import inspect
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import numpy as np
import pytest

import diffkern as dk
from diffkern.compiler.specialize import Specialization
from diffkern.contracts.options import KernelOptions, Variant, names

ROOT = Path(dk.__file__).parent
OPTIONS = {option.name: option for option in fields(KernelOptions)}


def body(x: dk.array(dtype=float)):
    x[dk.tid()] = 1.0


def test_the_type_of_the_decorator_has_the_options() -> None:
    tree = ast.parse((ROOT / "kernels" / "decorator.py").read_text(encoding="utf-8"))
    typed = [n.args for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "kernel" and n.args.kwonlyargs]
    (given,) = typed
    said = {a.arg: ast.unparse(a.annotation) for a in given.kwonlyargs if a.annotation is not None}
    assert said == {name: ast.unparse(ast.parse(OPTIONS[name].type)) for name in names("kernel")}
    assert all(isinstance(d, ast.Constant) and d.value is None for d in given.kw_defaults)


def test_signature_and_docstring_have_the_options() -> None:
    signature = inspect.signature(dk.kernel)
    assert tuple(signature.parameters) == ("func", *names("kernel"))
    text = " ".join((dk.kernel.__doc__ or "").split())
    for name in names("kernel"):
        assert f"{name} : " in text
        assert OPTIONS[name].metadata["doc"] in text


def test_the_documentation_has_the_options() -> None:
    page = Path(__file__).parents[2] / "docs" / "kernel_options.rst"
    table = page.read_text(encoding="utf-8").partition("The options\n")[2].partition("\nA kernel's own")[0]
    rows = [row.split("\n     - ") for row in table.split("\n   * - ")[2:]]
    found = {name.strip("`"): (where, text.strip()) for name, where, text in rows}
    assert {name: text for name, (_, text) in found.items()} == {n: o.metadata["doc"] for n, o in OPTIONS.items()}
    for name, (where, _) in found.items():
        assert ("@dk.kernel" in where) == (name in names("kernel"))
        assert ("dk.set_module_options" in where) == (name in names("module"))
        assert ("dk.compile" in where) == (name != "enable_backward")


@pytest.mark.parametrize("options", [{"blockdim": 64}, {"lineinfo": True}, {"may_alias": False}])
def test_no_other_options(options: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=r"a kernel has no option .*; it has enable_backward, "):
        dk.kernel(**options)(body)


def test_options_and_programs_are_values() -> None:
    kernel = dk.kernel(launch_bounds=64)(body)
    assert kernel.options == KernelOptions(launch_bounds=[64, 0])
    with pytest.raises(FrozenInstanceError):
        kernel.options.block_dim = 3
    one, other = (Specialization(kernel.func, kernel.argument_types(), kernel.variant) for _ in range(2))
    assert one == other
    assert {one: 1}[other] == 1
    assert one.with_atomics() != one
    assert one.with_variant(may_alias=False).with_variant(may_alias=True) == one


def test_what_is_not_given_is_none() -> None:
    options = KernelOptions()
    assert all(getattr(options, name) is None for name in OPTIONS)
    assert options.usual_block_dim == dk.kernel(body).block_dim == 256
    assert KernelOptions(launch_bounds=64).usual_block_dim == 64
    of_numpy = KernelOptions(block_dim=np.int64(32), max_registers=np.int32(40), launch_bounds=np.uint8(64))
    assert of_numpy == KernelOptions(block_dim=32, max_registers=40, launch_bounds=64)
    assert type(of_numpy.block_dim) is int
    assert KernelOptions(launch_bounds=(np.int64(64), np.int64(2))) == KernelOptions(launch_bounds=(64, 2))
    assert KernelOptions(launch_bounds=512).usual_block_dim == 256
    assert Variant(KernelOptions(block_dim=32)).block_dim == 32
