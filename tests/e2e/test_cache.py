"""The cache between processes: a warm process compiles nothing and imports no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import diffkern

PACKAGES = str(Path(diffkern.__file__).parents[1])
PROGRAM = """
import sys
import numpy as np
import diffkern as dk

FACTOR = {factor}

@dk.func
def twice(v):
    return {func}

@dk.kernel
def energy(x: dk.array(dtype=float), loss: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(loss, 0, FACTOR * twice(x[i]) * x[i]){comment}

x = dk.array(np.arange(5, dtype=np.float32), requires_grad=True)
loss = dk.zeros(1, requires_grad=True)
with dk.Tape() as tape:
    energy[5](x, loss)
tape.backward(loss)
print(x.grad.numpy().tolist())
heavy = {{"numba", "sympy", "diffkern.pipeline", "diffkern.ad", "diffkern.backends", "diffkern.codegen",
          "diffkern.passes"}}
print(sorted(heavy & set(sys.modules)))
"""


def run(tmp_path, name="program.py", seed="0", **changes):
    """Run the program and return its gradient and the heavy modules it imported."""
    values = {"factor": "0.5", "func": "2.0 * v", "comment": "", **changes}
    path = tmp_path / name
    path.write_text(PROGRAM.format(**values))
    env = environment(tmp_path, PYTHONHASHSEED=seed)
    done = subprocess.run([sys.executable, "-W", "error", path], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    gradient, heavy = done.stdout.splitlines()
    return eval(gradient), eval(heavy)  # printed by the program above


def environment(tmp_path, **more):
    return {**os.environ, "DIFFKERN_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": PACKAGES, **more}


def artifacts(tmp_path):
    return {path.parent.name: path.read_bytes() for path in (tmp_path / "cache").glob("??/*/kernel.o")}


def test_a_warm_process_imports_no_compiler(tmp_path):
    gradient, heavy = run(tmp_path)
    assert gradient == [0, 2, 4, 6, 8]
    assert "diffkern.pipeline" in heavy
    cold = artifacts(tmp_path)
    gradient, heavy = run(tmp_path, name="elsewhere.py", seed="1", comment="  # a comment")
    assert gradient == [0, 2, 4, 6, 8]
    assert heavy == []
    assert artifacts(tmp_path) == cold


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"factor": "0.25"}, [0, 1, 2, 3, 4]),
        ({"func": "3.0 * v"}, [0, 3, 6, 9, 12]),
        ({"factor": "1"}, [0, 4, 8, 12, 16]),
    ],
)
def test_a_change_gives_the_new_result(tmp_path, change, expected):
    run(tmp_path)
    gradient, _ = run(tmp_path, **change)
    assert gradient == expected
    assert run(tmp_path, **change)[1] == []


def test_the_same_program_gives_the_same_artifacts(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    run(tmp_path / "a", seed="1")
    run(tmp_path / "b", seed="2")
    assert artifacts(tmp_path / "a") == artifacts(tmp_path / "b")


def test_a_damaged_artifact_is_built_again(tmp_path):
    run(tmp_path)
    for path in (tmp_path / "cache").glob("??/*/kernel.o"):
        path.write_bytes(path.read_bytes()[:-100])
    gradient, heavy = run(tmp_path)
    assert gradient == [0, 2, 4, 6, 8]
    assert "diffkern.pipeline" in heavy
    assert run(tmp_path)[1] == []


def test_a_failed_compilation_leaves_no_entry(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(factor="0.5", func="[v for v in v]", comment=""))
    env = environment(tmp_path)
    done = subprocess.run([sys.executable, path], env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "program.py:10" in done.stderr
    assert not artifacts(tmp_path)
