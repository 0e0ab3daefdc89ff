"""Compiling before the first launch, in this process and in several, and for other processors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest

import diffkern as dk
from diffkern.cache.maintenance import artifacts
from diffkern.contracts.platforms import NAMED, runnable
from diffkern.runtime.native.objfile import read_symbols
from diffkern.shipping import ahead as build
from diffkern.shipping import ship

ROOT = Path(__file__).parents[3]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(dk.config, "cache_dir", tmp_path / "cache")
    return tmp_path / "cache"


def kernels(*constants):
    def make(c):
        @dk.kernel
        def scale(x: dk.array(dtype=float), y: dk.array(dtype=float)):
            i = dk.tid()
            y[i] = c * x[i]

        return scale

    return [make(c) for c in constants]


def launched(kernel):
    x, y = dk.ones(2), dk.zeros(2)
    dk.launch(kernel, dim=2, inputs=[x, y])
    return y.numpy()[0]


def test_compiled_kernels_are_in_the_cache_with_their_adjoints(cache, capsys):
    made = kernels(21.5, 22.5)
    dk.compile(*made, processes=1, progress=False)
    assert len([a for a in artifacts(cache) if "scale" in a.title]) == 4
    assert [launched(k) for k in made] == [21.5, 22.5]
    assert capsys.readouterr().err == ""


SEVERAL = """
import numpy as np
import diffkern as dk
from diffkern.compiler import specialize
from diffkern.shipping import ahead


def make(c):
    @dk.kernel
    def scale(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = c * x[i]

    return scale


def refuse(*_):
    raise AssertionError("compiled in the process that asked")


made = [make(c) for c in (31.5, 32.5, 33.5)]
specialize.build_entry = refuse
dk.compile(*made, processes=2, progress=True)
for kernel in made:
    y = dk.zeros(1, dtype=float)
    dk.launch(kernel, dim=1, inputs=[np.float32([1.0])], outputs=[y])
    print(y.numpy()[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems compile in one process")
def test_several_processes_compile_and_show_how_far_they_are(tmp_path):
    # In a process of its own: one that has threads, or JAX from another test, does not fork.
    program = tmp_path / "several.py"
    program.write_text(SEVERAL, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DIFFKERN_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "6/6" in done.stderr
    assert done.stdout.split() == ["31.5", "32.5", "33.5"]


def test_no_fork_beside_jax(monkeypatch):
    monkeypatch.setattr(build.threading, "active_count", lambda: 1)
    monkeypatch.setattr(build.sys, "platform", "linux")
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    assert build._may_fork()
    monkeypatch.setitem(sys.modules, "jax", types.ModuleType("jax"))
    assert not build._may_fork()


def test_no_fork_beside_other_threads():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert not build._may_fork()
    finally:
        stop.set()
        thread.join()


def test_types_and_active_parameters(cache):
    @dk.kernel
    def free(x, y, a):
        i = dk.tid()
        y[i] = a * x[i] + 0.75

    floats = dk.array(dtype=float)
    dk.compile((free, floats, floats, float), active=["x", "y", "a"], progress=False)
    found = {a.ingredients["direction"] for a in artifacts(cache) if "free" in a.title}
    assert found == {"forward", "adjoint [0, 1, 2] plain"}
    with pytest.raises(dk.KernelError, match=r"without annotations(?s:.+)dk.compile\(\(kernel, type"):
        dk.compile(free)
    with pytest.raises(TypeError, match="takes kernels"):
        dk.compile(len)


def test_one_that_fails_keeps_nobody_from_being_compiled(cache):
    @dk.kernel
    def wrong(x: dk.array(dtype=float)):
        x[0] = undefined_name  # noqa: F821

    (good,) = kernels(41.5)
    with pytest.raises(dk.KernelError, match="undefined_name"):
        dk.compile(wrong, good, progress=False, processes=1)
    assert {a.title.partition("(")[0].rpartition(".")[2] for a in artifacts(cache) if "scale" in a.title} == {"scale"}


def test_force_load_takes_the_annotated_kernels_of_a_module(cache):
    @dk.kernel
    def free(x):
        x[0] = 1.0

    module = types.ModuleType("a_module")
    (module.scale,) = kernels(51.5)
    module.free = free
    dk.force_load(module)
    assert {a.title.partition(" ")[0] for a in artifacts(cache) if "scale" in a.title} == {"forward", "adjoint"}
    assert not [a for a in artifacts(cache) if "free" in a.title]


def test_ahead_of_time_for_every_target(tmp_path):
    made = kernels(61.5)
    targets = ["native", *NAMED]
    assert ship.compile_ahead(made, targets, tmp_path / "out", processes=1) == 3 * len(targets)
    machines = {
        a.target: read_symbols((a.place / "kernel.o").read_bytes()).machine for a in artifacts(tmp_path / "out")
    }
    assert {t: machines[t] for t in NAMED} == {t: level.machine for t, level in NAMED.items()}
    library = dk.load(tmp_path / "out")
    assert library.targets[0] == "host"
    assert len(library.programs) == 3


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_every_target_that_runs_here_gives_the_right_result(tmp_path, name, cache, monkeypatch):
    if name not in ship.runnable_targets():
        pytest.skip("not this machine's")

    @dk.kernel
    def wave(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = dk.sin(x[i]) * dk.exp(-x[i]) + dk.atan2(x[i], 3.0)

    ship.compile_ahead([wave], [name], tmp_path / "out", processes=1)
    library = dk.load(tmp_path / "out")
    assert library.targets == (name,)
    monkeypatch.setattr("diffkern.compiler.specialize.build_entry", lambda *_: pytest.fail("compiled"))
    monkeypatch.setattr("diffkern.compiler.specialize._loaded", {})
    at = np.linspace(-3.0, 1000.0, 4097, dtype=np.float32)
    x, y = dk.array(at), dk.zeros(at.size)
    dk.launch(wave, dim=at.size, inputs=[x, y])
    expected = np.sin(at.astype(float)) * np.exp(-at.astype(float)) + np.arctan2(at.astype(float), 3.0)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_a_shipped_adjoint_comes_with_those_for_threads_that_race(tmp_path, cache, monkeypatch):
    @dk.kernel
    def pick(x: dk.array(dtype=float), index: dk.array(dtype=int), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = 3.0 * x[index[i]]

    assert ship.compile_ahead([pick], ["native"], tmp_path / "least", programs="least", processes=1) == 2
    assert ship.compile_ahead([pick], ["native"], tmp_path / "out", processes=1) == 4
    for form in ("with atomics", "sums sorted"):
        assert [a.title.endswith(form) for a in artifacts(tmp_path / "out")].count(True) == 1
    dk.load(tmp_path / "out")
    monkeypatch.setattr("diffkern.compiler.specialize.build_entry", lambda *_: pytest.fail("compiled"))
    monkeypatch.setattr("diffkern.compiler.specialize._loaded", {})
    # Copies of so large a gradient for each group of threads would cost more than the work.
    x, y = dk.zeros(1 << 20, requires_grad=True), dk.zeros(1 << 16, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(pick, 1 << 16, inputs=[x, dk.zeros(1 << 16, dtype=int), y])
    tape.backward(grads={y: dk.ones(1 << 16)})
    assert x.grad.numpy()[0] == 3.0 * (1 << 16)


def test_targets_that_are_refused(tmp_path):
    with pytest.raises(dk.CompileError, match=r"no target 'pentium'(?s:.+)take one of cpu"):
        ship.compile_ahead(kernels(1.5), ["pentium"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_directory_without_anything_for_this_machine(tmp_path):
    with pytest.raises(FileNotFoundError):
        dk.load(tmp_path / "absent")
    with pytest.raises(dk.CompileError, match="has nothing"):
        dk.load(tmp_path)


def test_a_directory_of_another_version_is_told(tmp_path, monkeypatch):
    ship.compile_ahead(kernels(71.5), ["native"], tmp_path / "out", processes=1)
    monkeypatch.setattr(ship, "compiler_digest", lambda: b"other")
    with pytest.warns(RuntimeWarning, match="another version"):
        dk.load(tmp_path / "out")


def test_which_targets_a_processor_runs(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    v3 = NAMED["x86-64-v3"].needs
    assert runnable(lambda: ("x", ",".join(f"+{f}" for f in v3))) == ["x86-64-v3", "x86-64-v2"]
    assert runnable(lambda: ("x", "-avx2")) == []
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert runnable(lambda: ("x", "")) == ["aarch64"]


def test_settings_of_the_program(tmp_path, monkeypatch):
    before = dk.config.num_threads
    dk.config.num_threads = 2
    assert dk.config.num_threads == 2
    dk.config.num_threads = before
    monkeypatch.setattr(dk.config, "cache_dir", str(tmp_path))
    assert dk.config.cache_dir == tmp_path
    assert str(tmp_path) in repr(dk.config)
    with pytest.raises(ValueError, match="release"):
        dk.config.mode = "fast"
    assert os.environ.get("DIFFKERN_CACHE_DIR")
