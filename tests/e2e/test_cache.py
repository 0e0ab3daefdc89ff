"""The cache between processes: a warm process compiles nothing and imports no compiler."""

from __future__ import annotations

import json
import os
import shutil
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
heavy = {{"numba", "sympy", "diffkern.compiler.pipeline", "diffkern.ad", "diffkern.targets", "diffkern.printing",
          "diffkern.opt"}}
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


def programs(tmp_path):
    """What the compiled kernels are called; the native code of the run time has no title."""
    found = [json.loads(path.read_text()) for path in (tmp_path / "cache").glob("??/*/manifest.json")]
    return [manifest["program"]["title"] for manifest in found if manifest["program"]]


def test_a_warm_process_imports_no_compiler(tmp_path):
    gradient, heavy = run(tmp_path)
    assert gradient == [0, 2, 4, 6, 8]
    assert "diffkern.compiler.pipeline" in heavy
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
    assert "diffkern.compiler.pipeline" in heavy
    assert run(tmp_path)[1] == []


def test_a_failed_compilation_leaves_no_entry(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(factor="0.5", func="[v for v in v]", comment=""))
    env = environment(tmp_path)
    done = subprocess.run([sys.executable, path], env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "program.py:10" in done.stderr
    assert not programs(tmp_path)
    run(tmp_path)
    assert len(programs(tmp_path)) == 2


HOMELESS = """
import os, pwd, sys, warnings

def unknown(uid):
    raise KeyError(uid)

pwd.getpwuid = unknown
import diffkern as dk

@dk.kernel
def double(y: dk.array(dtype=float)):
    y[dk.tid()] = y[dk.tid()] * 2.0

@dk.kernel
def halve(y: dk.array(dtype=float)):
    y[dk.tid()] = y[dk.tid()] * 0.5

y = dk.ones(3)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for kernel in (double, double, halve):
        dk.launch(kernel, dim=3, inputs=[y])
print(y.numpy().tolist(), len(caught), caught[0].category.__name__, "in memory" in str(caught[0].message))
"""


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="homes of users with numbers")
@pytest.mark.parametrize("chosen", [None, "~no-such-user-as-this/cache"])
def test_without_a_home_programs_are_kept_in_memory(tmp_path, chosen):
    path = tmp_path / "program.py"
    path.write_text(HOMELESS)
    dropped = ("HOME", "XDG_CACHE_HOME", "DIFFKERN_CACHE_DIR")
    env = {**{k: v for k, v in os.environ.items() if k not in dropped}, "PYTHONPATH": PACKAGES}
    if chosen is not None:
        env["DIFFKERN_CACHE_DIR"] = chosen
    done = subprocess.run([sys.executable, path], env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "[2.0, 2.0, 2.0] 1 RuntimeWarning True\n", done.stderr
    assert [found.name for found in tmp_path.iterdir()] == ["program.py"]


SHIPPED = """
import sys, warnings
import diffkern as dk
sys.path.insert(0, sys.argv[2])
import model
dk.load(sys.argv[1])
y = dk.ones(3)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    dk.launch(model.double, dim=3, inputs=[y])
print(y.numpy().tolist(), len(caught), "diffkern.compiler.pipeline" in sys.modules)
"""


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="POSIX permissions")
def test_shipped_programs_that_others_can_write_to_are_not_loaded(tmp_path):
    (tmp_path / "model.py").write_text(
        "import diffkern as dk\n\n@dk.kernel(enable_backward=False)\n"
        "def double(y: dk.array(dtype=float)):\n    y[dk.tid()] = y[dk.tid()] * 2.0\n"
    )
    env, out = environment(tmp_path), tmp_path / "shipped"
    command = ["-m", "diffkern", "compile", "model.py", "--target", "native", "--out", str(out)]
    subprocess.run([sys.executable, *command], env=env, cwd=tmp_path, check=True, capture_output=True)
    assert not [path for path in out.rglob("*") if "lock" in path.name]

    def run_shipped():
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        return subprocess.run(
            [sys.executable, "-c", SHIPPED, out, tmp_path], env=env, capture_output=True, text=True, check=False
        )

    done = run_shipped()
    assert (done.returncode, done.stdout.strip()) == (0, "[2.0, 2.0, 2.0] 0 False"), done.stderr
    for path in out.glob("??/*"):
        path.chmod(0o777)
    done = run_shipped()
    assert done.returncode == 1
    assert "PermissionError" in done.stderr
    assert "others can write to it" in done.stderr
