"""Exported modules: what is in them, and that numba-cuda compiles them to cubins."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from grad.build import values
from grad.corpus import CASES

import diffkern as dk
from diffkern.cli import command as cli
from diffkern.errors import CompileError
from diffkern.ir.ops.table import all_ops
from diffkern.kernels.kernel import Kernel
from diffkern.printing.standalone import copied
from diffkern.shipping.export import export

LIBRARY = "diffkern.targets.cuda.device_library"


@dk.kernel
def shear(x: dk.array(dtype=dk.vec2), k: float, y: dk.array(dtype=float)):  # type: ignore[valid-type]
    i = dk.tid()
    y[i] = dk.sin(k * x[i][0]) + x[i][1]


def exported(name: str) -> str:
    case = CASES[name]
    return export(Kernel(case.function), *values(case), adjoint=True)


def test_the_programs_are_those_that_are_printed() -> None:
    text = export(shear, adjoint=True, active=["x"])
    for source in (shear.source(target="cuda"), shear.adjoint_source(active=["x"], target="cuda")):
        assert source[source.index("@cuda.jit") :] in text
    assert "ct_k" not in text


def test_it_imports_numba_and_numpy_and_the_standard_library() -> None:
    imported = set()
    for name in ("composites.spring_energy", "functions.many_functions", "loops.while_two_slots", "memory.scatter_max"):
        for node in ast.walk(ast.parse(exported(name))):
            if isinstance(node, ast.Import):
                imported.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                imported.add(str(node.module).partition(".")[0])
    assert imported <= {"llvmlite", "numba", "numpy", *sys.stdlib_module_names}  # llvmlite is a part of numba


def test_what_is_not_called_is_not_copied() -> None:
    text = export(shear)
    assert "def elementary(" in text
    assert "def elementary_of_two(" not in text
    assert "shear_adjoint" not in text


def test_definitions_come_in_an_order_in_which_they_run() -> None:
    found = copied(LIBRARY, ["next_checkpoint", "carry_3", "saturated_int8"])
    text = "\n".join(found.definitions)
    assert text.index("def schedule(") < text.index("next_checkpoint = device(schedule)")
    assert text.index("def device(") < text.index("def carry_3(")
    assert "Any" not in text
    assert "noqa" not in text
    assert "import operator" in found.imports
    with pytest.raises(LookupError, match="defines no 'nothing'"):
        copied(LIBRARY, ["nothing"])


def test_every_function_of_a_row_can_be_exported() -> None:
    names = [name for name, row in all_ops().items() if row.library is not None and row.library.libdevice]
    text = "\n".join(copied(LIBRARY, names).definitions)
    assert all(f"\n{name} = elementary" in text for name in names)
    assert 'asin = elementary("asin", np.arcsin)' in text


def test_arguments_have_names_that_the_module_does_not_need() -> None:
    @dk.kernel
    def named(n: dk.array(dtype=float), random: float, np: dk.array(dtype=dk.mat22)):  # type: ignore[valid-type]
        n[dk.tid()] = random * np[0][0, 0]

    text = export(named, adjoint=True)
    main = text[text.index("if __name__") :]
    assert "n = cuda.to_device(random_1.random(n_1, np.float32))" in main
    assert "np_1 = cuda.to_device(random_1.random((n_1, 4), np.float32))" in main
    assert "launch(named, (n_1,), n, random, np_1)" in main


def test_a_kernel_whose_name_the_module_needs_is_refused() -> None:
    def launch(x: dk.array(dtype=float)):  # type: ignore[valid-type]
        x[dk.tid()] = 1.0

    with pytest.raises(CompileError, match=r"(?s)test_export\.py:\d+.*needs that name.*another name"):
        export(dk.kernel(launch))


def test_more_shared_memory_than_a_launch_has_is_refused() -> None:
    @dk.kernel
    def large(x: dk.array(dtype=float, ndim=2)):  # type: ignore[valid-type]
        t = dk.tile_load(x, shape=(128, 112))
        dk.tile_store(x, dk.tile_transpose(t), offset=(1, 1))

    with pytest.raises(CompileError, match=r"(?s)test_export\.py:\d+.*\d{5} bytes of shared memory.*smaller tiles"):
        export(large)


def test_the_command_writes_a_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.py"
    model.write_text("import diffkern as dk\n\n@dk.kernel\ndef twice(x, y):\n    i = dk.tid()\n    y[i] = 2.0 * x[i]\n")
    out = tmp_path / "out.py"
    types = ["--types", "array1d(float32)", "array1d(float32)"]
    assert cli.main(["export", f"{model}:twice", "--adjoint", "--active", "x", "-o", str(out), *types]) == 0
    assert "def twice_adjoint(dim, x, y, ct_x" in out.read_text()
    assert cli.main(["export", f"{model}:twice", *types]) == 0
    assert "def twice(dim, x, y):" in capsys.readouterr().out
    assert cli.main(["export", f"{model}:twice", "--active", "x", *types]) == 2
    assert "--adjoint" in capsys.readouterr().err
    assert cli.main(["export", f"{model}:twice", "-o", str(tmp_path / "no" / "out.py"), *types]) == 2
    assert "No such file" in capsys.readouterr().err
