"""What a new process loads: with the import of the package, and until its kernels from the cache have a gradient."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import diffkern
from diffkern.runtime.native.elf import is_possible

ROOT = Path(diffkern.__file__).parent

IMPORT = "import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"

PROGRAM = """
import sys, json
import numpy as np
import diffkern as dk

@dk.struct
class Spring:
    stiffness: dk.float32
    rest: dk.vec3

@dk.func
def length(v: dk.vec3):
    return dk.sqrt(dk.dot(v, v) + 1e-6)

@dk.func
def energy(s: Spring, x: dk.vec3):
    return s.stiffness * length(x - s.rest)

@dk.kernel
def forces(x: dk.array(dtype=dk.vec3), s: Spring, loss: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(loss, 0, energy(s, x[i]))

@dk.kernel
def squares(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    y[dk.tid()] = x[dk.tid()] * x[dk.tid()]

def gradient(kernel, x, *more):
    out = dk.zeros(x.shape if kernel is squares else 1, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, dim=len(x), inputs=[x, *more], outputs=[out])
    out.grad.fill_(1.0)
    tape.backward()
    return x.grad.numpy().tolist()

spring = Spring()
spring.stiffness, spring.rest = 2.0, dk.vec3(1.0, 0.0, 0.0)
found = [
    gradient(squares, dk.array(np.arange(4, dtype=np.float32), dtype=float, requires_grad=True)),
    gradient(forces, dk.array(np.eye(3, dtype=np.float32), dtype=dk.vec3, requires_grad=True), spring),
]
print(json.dumps([sorted(sys.modules), found]))
"""

# The most modules of the package that may be loaded, counted exactly: who needs one more in each process raises the
# number, and who has found one that is not needed lowers it.
# Ten of Warp's are modules of older releases, which have no file.
MOST_BY_IMPORT = {"diffkern": 143, "diffkern.warp": 155, "diffkern.cuda": 154}
MOST_BY_START = 201

# What compiling needs alone, in the package and beside it.
COMPILING = (
    "ad", "analysis", "compiler.compilation", "compiler.passes", "compiler.pipeline", "frontend.builtins",
    "frontend.statements", "library", "lower", "opt", "printing", "targets", "vecmath",
)  # fmt: skip
HEAVY = ("numba", "sympy", "scipy", "torch", "jax", "matplotlib", "IPython", "difflib", "uuid", "asyncio")


def printed(arguments: list[str], cache: Path) -> Any:
    environment = {**os.environ, "DIFFKERN_CACHE_DIR": str(cache)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=120)
    return json.loads(done.stdout.splitlines()[-1])


def own(modules: list[str]) -> list[str]:
    return [name for name in modules if name.partition(".")[0] == "diffkern"]


def unwanted(modules: list[str], names: tuple[str, ...]) -> list[str]:
    return [name for name in modules if any(name == one or name.startswith(f"{one}.") for one in names)]


@pytest.mark.parametrize("module", MOST_BY_IMPORT)
def test_an_import_loads_few_modules(module: str, tmp_path: Path) -> None:
    modules = printed(["-c", IMPORT.format(module=module)], tmp_path)
    heavy = (*HEAVY, "llvmlite", *(f"diffkern.{part}" for part in (*COMPILING, "frontend", "runtime.records")))
    assert unwanted(modules, heavy) == []
    assert len(own(modules)) <= MOST_BY_IMPORT[module], own(modules)


def test_kernels_in_the_cache_run_without_the_compiler(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    built, gradients = printed([str(program)], tmp_path / "cache")
    modules, again = printed([str(program)], tmp_path / "cache")
    assert unwanted(built, ("diffkern.compiler.pipeline", "llvmlite")) != []  # the first process has compiled
    assert gradients == again
    assert again[0] == [0.0, 2.0, 4.0, 6.0]
    heavy = (*HEAVY, *["llvmlite"] * is_possible(), *(f"diffkern.{part}" for part in COMPILING))
    assert unwanted(modules, heavy) == []
    assert len(own(modules)) <= MOST_BY_START, own(modules)


def test_dataclasses_are_those_of_the_house() -> None:
    standard = re.compile(r"^\s*(from dataclasses import .*\bdataclass\b|@dataclasses\.dataclass)", re.MULTILINE)
    found = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if standard.search(path.read_text())]
    # Errors are below the processes, in the order of layers.
    assert sorted(found) == ["errors.py", "process/dataclass.py"]
