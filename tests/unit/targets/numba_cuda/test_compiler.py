"""The second compiler for CUDA: how it is chosen, what it is given, and that its artifacts depend on nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import require
from support.fake_driver.driver import fake_cuda
from support.ptx.programs import PtxProgram

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.compiler.specialize import Specialization, artifact_key
from diffkern.contracts.options import Variant
from diffkern.errors import CompileError, MisuseError
from diffkern.targets import target_named
from diffkern.targets.cuda import architecture
from diffkern.targets.cuda.compiler import CudaTarget
from diffkern.targets.cuda.cubin import resources
from diffkern.targets.numba_cuda import compiler
from diffkern.targets.numba_cuda.compiler import NumbaCudaTarget

require("cuda.bindings.nvjitlink", "cuda.bindings.nvvm", "numba_cuda")

f1 = dk.array(dtype=float)


def body(x: f1, y: f1, a: float, n: dk.array(dtype=dk.int32)):
    i = dk.tid()
    y[i] = dk.sin(a * x[i]) / y[i]
    dk.atomic_add(n, 0, 1)


kernel = dk.kernel(body)
by_numba = dk.kernel(compiler="numba")(body)


def test_there_are_two() -> None:
    assert type(target_named("sm_90")) is type(target_named("sm_90", "llvm")) is CudaTarget
    assert type(target_named("sm_90", "numba")) is NumbaCudaTarget
    assert target_named("native", "numba") is target_named("native")


def test_a_misspelt_compiler_is_an_error() -> None:
    wanted = "is 'llvm' or 'numba', not 'nvcc'"
    with pytest.raises(MisuseError, match=f"compiler {wanted}"):
        dk.kernel(compiler="nvcc")(body)
    with pytest.raises(MisuseError, match=f"cuda_compiler {wanted}"):
        dk.config.cuda_compiler = "nvcc"
    with pytest.raises(MisuseError, match=f"compiler {wanted}"):
        dk.compile(kernel, target="sm_90", compiler="nvcc")
    environment = {**os.environ, "DIFFKERN_CUDA_COMPILER": "nvcc"}
    command = [sys.executable, "-c", "import diffkern"]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stderr
    assert f"cuda_compiler {wanted}" in said


def test_the_nearest_choice_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (kernel.variant.compiler, by_numba.variant.compiler) == ("llvm", "numba")
    monkeypatch.setattr(dk.config, "cuda_compiler", "numba")
    assert kernel.variant.compiler == "numba"
    assert dk.kernel(compiler="llvm")(body).variant.compiler == "llvm"


def test_the_environment_chooses() -> None:
    environment = {**os.environ, "DIFFKERN_CUDA_COMPILER": "numba"}
    command = [sys.executable, "-c", "import diffkern; print(diffkern.config.cuda_compiler)"]
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout == "numba\n"


def keys(target: str) -> list[str]:
    types = kernel.argument_types()
    return [artifact_key(Specialization(k.func, types, k.variant).fields(), target) for k in (kernel, by_numba)]


def test_artifacts_for_gpus_have_keys_of_their_own() -> None:
    assert len(set(keys("sm_90"))) == 2
    assert len(set(keys("native"))) == len(set(keys("host"))) == 1


def test_the_key_has_the_versions_of_the_compilers() -> None:
    fields = dk.compile(by_numba, target="sm_90")._entry.ingredients
    assert {"numba", "numba_cuda", "llvmlite", "nvidia_nvvm", "nvidia_nvjitlink"} <= set(fields)
    assert fields["compiler for GPUs"] == "numba"
    assert dk.compile(kernel, target="sm_90")._entry.ingredients["compiler for GPUs"] == "llvm"


@pytest.mark.parametrize("adjoint", [False, True])
def test_what_is_compiled_is_what_is_shown(adjoint: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for where a launch's program clears cotangents, which relies on arrays that do not overlap."""
    monkeypatch.setattr(architecture, "overwrite_late", lambda fn: fn)
    given: list[str] = []
    before = compiler.to_llvm

    def seen(source: str, *args: Any, **options: Any) -> Any:
        given.append(source)
        return before(source, *args, **options)

    monkeypatch.setattr(compiler, "to_llvm", seen)

    @dk.kernel(compiler="numba")
    def shown(x: f1, y: f1):
        i = dk.tid()
        y[i] = x[i] * x[i]

    dk.compile(shown, target="sm_90", adjoint=adjoint)
    show = shown.adjoint_source if adjoint else shown.source
    text = show(target="cuda")
    assert given == [text[text.index("from numba") :]]


CHILD = """
import hashlib, sys
import test_compiler as t
from numba import cuda
if sys.argv[1] == "other":  # another history: other functions of numba's, and other kernels, before
    shared = cuda.jit(device=True)(lambda x: x + 1)
    t.dk.compile(t.other, target="sm_80", compiler="numba")
    t.dk.compile(t.by_numba, target="sm_80", adjoint=True)
for adjoint in (True, False):
    made = t.dk.compile(t.by_numba, target="sm_90", adjoint=adjoint)
    print(made.symbol, hashlib.sha256(made.cubin + made.ptx.encode()).hexdigest())
"""


@dk.kernel
def other(x: f1, y: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    y[i] = dk.normalize(y[i]) * x[i] + dk.vec3(dk.sin(x[i]), dk.min(x[i], 1.0), 0.0)


def test_the_bytes_depend_on_the_key_alone(tmp_path: Path) -> None:
    found = set()
    for k, history in enumerate(("none", "other")):
        environment = {**os.environ, "DIFFKERN_CACHE_DIR": str(tmp_path / history), "PYTHONHASHSEED": str(k + 1)}
        environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[3])])
        command = [sys.executable, "-W", "ignore", "-c", CHILD, history]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        found.add(ended.stdout)
    (lines,) = found
    assert len(lines.splitlines()) == 2


def test_a_launch_sees_no_difference() -> None:
    g = "cuda:0"
    with fake_cuda(target="sm_90") as driver:
        x, y = (dk.array(np.ones(100, np.float32), device=g, requires_grad=True) for _ in range(2))
        n = dk.zeros(1, dtype=dk.int32, device=g)
        with dk.Tape() as tape:
            dk.launch(by_numba, 100, inputs=[x, y, 2.0, n])
        tape.backward(grads={y: np.ones(100, np.float32)})
        dk.synchronize()
        images = [args[0] for name, args in driver.calls if name == "load_module"]
        assert len(images) == len(driver.launches) == 2
        for image, launched in zip(images, driver.launches, strict=True):
            assert resources(image)[launched.name].parameter_bytes == len(launched.block)


@dk.kernel(compiler="numba")
def large(x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float, ndim=2)):
    i = dk.tid()
    t = dk.tile_load(x, shape=(128, 128), offset=(i * 128, 0))
    dk.tile_store(y, dk.tile_transpose(t), offset=(i * 128, 0))


def test_a_launch_asks_for_the_shared_memory_that_a_block_does_not_have() -> None:
    made = dk.compile(large, target="sm_90")
    assert made.manifest.gpu == replace(
        made.manifest.gpu, shared_bytes=128 * 128 * 4, dynamic_shared_bytes=128 * 128 * 4
    )
    assert re.search(r"\.extern \.shared \.align 16 \.b8 \w+\[\]", made.ptx)
    assert not re.search(r"^\.shared|(st|ld)\.(f|b|u)\d+", made.ptx, re.MULTILINE)  # generic accesses are slower


@dk.kernel(compiler="numba")
def full(x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float, ndim=2), total: f1):
    i = dk.tid()
    t = dk.tile_load(x, shape=(128, 128), offset=(i * 128, 0))
    dk.tile_store(y, dk.tile_transpose(t), offset=(i * 128, 0))
    total[0] += x[i, 0]


def test_arrays_and_sums_that_a_block_cannot_have_together_are_refused_with_a_line() -> None:
    with pytest.raises(CompileError, match=r"(?s)test_compiler\.py:.*65536 bytes of shared memory and its sums 128"):
        dk.compile(full, target="sm_75")


def test_registers_are_limited() -> None:
    limited = dk.compile(kernel, target="sm_90", compiler="numba", adjoint=True, max_registers=24)
    assert ".maxnreg 24" in limited.ptx
    assert limited.registers <= 24


def test_a_numpy_that_it_does_not_know_is_named() -> None:
    """It is imported with functions that a later NumPy has removed."""
    program = (
        "import numpy\n"
        "vars(numpy).pop('row_stack', None)\n"
        "from diffkern.targets.numba_cuda.bindings import numba\n"
        "numba()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"CompileError: numba-cuda does not work with NumPy {np.__version__}" in ended.stderr
    assert 'pip install "diffkern[cuda]"' in ended.stderr


@dk.kernel
def by_axes(x: dk.array(dtype=float, ndim=3), y: dk.array(dtype=float, ndim=3)):
    i, j, k = dk.tid()
    y[i, j, k] = x[i, j, k] + float((i * 16 + j) * 16 + k)


def test_no_index_is_found_by_division() -> None:
    """Multipliers come from the launch, with an axis of one element, and in rounds of a small grid."""
    program = PtxProgram(Compilation(by_axes.func, by_axes.argument_types(), Variant(target="sm_90")).fn, "numba")
    assert re.findall(r"\s(?:div|rem)\.\w+", dk.compile(by_axes, target="sm_90", compiler="numba").ptx) == []
    for dims, blocks, block_dim in (((3, 5, 7), None, 32), ((4, 1, 9), 2, 3), ((1, 11, 2), 1, 5)):
        x, y = np.ones(dims, np.float32), np.zeros(dims, np.float32)
        program.blocks, program.block_dim = blocks, block_dim
        program.run(dims, [x, y])
        i, j, k = np.indices(dims)
        np.testing.assert_array_equal(y, 1 + (i * 16 + j) * 16 + k)
