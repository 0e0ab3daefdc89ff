"""Exported modules in numba's CUDA simulator, where diffkern cannot be imported, against the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import require
from grad.build import lower, values
from grad.corpus import CASES
from support.simulated import kernel_argument

from diffkern.ir.nodes import Function
from diffkern.kernels.kernel import Kernel
from diffkern.shipping.export import export
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import CompiledFunction

require("numba.cuda")

NAMES = (
    "composites.spring_energy",
    "composites.matrix_power",
    "functions.many_functions",
    "loops.while_two_slots",
    "memory.cube_3d",
    "memory.scatter_max",
)

CHILD = """\
import pickle, runpy, sys, warnings

sys.modules["diffkern"] = None
warnings.simplefilter("ignore")
import numpy as np

for path in sys.argv[1:]:
    module = runpy.run_path(path)
    for name, dim, before, after in pickle.load(open(path + ".pickle", "rb")):
        module["launch"](module[name], dim, *before, block_dim=3)
        for found, expected in zip(before, after):
            if isinstance(found, np.ndarray):
                np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4, err_msg=path + " " + name)
"""


class _Noted(CompiledFunction):
    """Runs a program on the CPU and notes what it was given and what it made of it."""

    def __init__(self, fn: Function, calls: list[tuple[Any, ...]]) -> None:
        super().__init__(fn)
        self.name, self.calls = fn.name, calls

    def run(self, dim: Sequence[int], args: Sequence[Any], chunk: int | None = None) -> None:
        given = [np.copy(a) if isinstance(a, np.ndarray) else a for a in args]
        super().run(dim, args, chunk)
        both = ([kernel_argument(t, a) for t, a in zip(self.types, each, strict=True)] for each in (given, args))
        self.calls.append((self.name, tuple(dim), *both))


def write(name: str, directory: Path) -> Path:
    """Write an exported case, and launches of it with their results on the CPU."""
    import pickle

    case = CASES[name]
    calls: list[tuple[Any, ...]] = []
    noting: Callable[[Function], _Noted] = lambda fn: _Noted(fn, calls)  # noqa: E731
    vjp = Vjp(lower(case), **case.options).running(noting, noting)
    point = vjp.arguments(values(case))
    vjp.gradients(case.dim, point, vjp.weights(point, np.random.default_rng(3)))
    path = directory / f"{name.partition('.')[2]}.py"
    path.write_text(export(Kernel(case.function), *values(case), adjoint=True), encoding="utf-8")
    path.with_name(path.name + ".pickle").write_bytes(pickle.dumps(calls))
    return path


def in_simulator(*arguments: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-W", "ignore", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_it_runs_without_diffkern(tmp_path: Path) -> None:
    paths = [write(name, tmp_path) for name in NAMES]
    done = in_simulator("-c", CHILD, *paths)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["composites.spring_energy", "memory.scatter_max"])
def test_its_main_program_runs(tmp_path: Path, name: str) -> None:
    path = tmp_path / "exported.py"
    path.write_text(export(Kernel(CASES[name].function), *values(CASES[name]), adjoint=True).replace("=256)", "=8)"))
    done = in_simulator(path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ct_x\n[")
