"""The machine code of a kernel leaves memory with the last thing that can run it."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import itertools
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.compiler import specialize

SOURCE = """
import diffkern as dk

@dk.kernel
def scaled(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * x[i] * {factor}.0

@dk.kernel
def slow(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    a = x[i]
    for _ in range(200000):
        a = a * 0.5 + {factor}.0
    y[i] = a
"""

_numbers = itertools.count(1000)


@pytest.fixture
def made(tmp_path: Path) -> Callable[[], tuple[ModuleType, int]]:
    """Make a module of kernels that no other test has, and the number in them."""

    def make() -> tuple[ModuleType, int]:
        factor = next(_numbers)
        path = tmp_path / f"unloaded_{factor}.py"
        path.write_text(SOURCE.format(factor=factor))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module, factor

    return make


@pytest.fixture
def loaded() -> Callable[[], list[weakref.ref[Any]]]:
    """Return what was loaded since the test began, with the code, weakly."""
    gc.collect()
    before = set(specialize._loaded)

    def found() -> list[weakref.ref[Any]]:
        names = set(specialize._loaded) - before
        programs = [specialize._loaded[name] for name in names]
        return [weakref.ref(program.code) for program in programs]

    return found


def gone(codes: list[weakref.ref[Any]]) -> bool:
    assert codes
    gc.collect()
    return all(code() is None for code in codes)


def arrays() -> tuple[dk.array, dk.array]:
    return dk.array(np.arange(8, dtype=np.float32), requires_grad=True), dk.zeros(8, requires_grad=True)


def squares(factor: int) -> np.ndarray:
    return np.arange(8, dtype=np.float32) ** 2 * factor


def test_with_the_kernel(made, loaded):
    module, factor = made()
    x, y = arrays()
    dk.launch(module.scaled, 8, [x], [y])
    codes = loaded()
    assert not gone(codes)
    np.testing.assert_allclose(y.numpy(), squares(factor))
    del module
    assert gone(codes)


def test_with_a_tape_whose_adjoint_needs_it(made, loaded):
    module, factor = made()
    x, y = arrays()
    with dk.Tape() as tape:
        dk.launch(module.scaled, 8, [x], [y])
    del module
    gc.collect()
    tape.backward(grads={y: dk.ones(8)})
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.arange(8) * factor)
    codes = loaded()
    del tape
    assert gone(codes)


@pytest.mark.parametrize("adjoint", [False, True])
def test_with_a_record(made, loaded, adjoint):
    module, factor = made()
    x, y = arrays()
    y.grad.fill_(1.0)
    record = dk.launch(module.scaled, 8, [x], [y], record_cmd=True)
    if adjoint:
        record = record.adjoint()
    record.launch()
    codes = loaded()
    del module
    gc.collect()
    record.launch()
    if adjoint:
        assert np.isfinite(x.grad.numpy()).all()
    else:
        np.testing.assert_allclose(y.numpy(), squares(factor))
    assert not gone(codes)
    del record
    assert gone(codes)


def test_with_a_sequence(made, loaded):
    module, factor = made()
    x, y = arrays()
    with dk.record() as sequence:
        dk.launch(module.scaled, 8, [x], [y])
    codes = loaded()
    del module
    y.zero_()
    gc.collect()
    sequence.replay()
    np.testing.assert_allclose(y.numpy(), squares(factor))
    assert not gone(codes)
    del sequence
    assert gone(codes)


@pytest.mark.parametrize("recorded", [False, True])
def test_with_work_that_a_stream_has_not_done(made, loaded, recorded):
    module, factor = made()
    x, y = arrays()
    stream = dk.Stream("cpu")
    with dk.ScopedStream(stream):
        dk.launch(module.slow, 8, [x], [y])
    dk.synchronize()
    y.zero_()
    codes = loaded()
    with dk.ScopedStream(stream):
        for _ in range(3):
            if recorded:
                record = dk.launch(module.slow, 8, [x], [y], record_cmd=True)
                record.launch()
                del record
            else:
                dk.launch(module.slow, 8, [x], [y])
    del module
    gc.collect()
    dk.synchronize()
    np.testing.assert_allclose(y.numpy(), 2.0 * factor, rtol=1e-5)
    del stream
    assert gone(codes)


def test_it_is_loaded_again_when_the_kernel_is_back(made, loaded):
    module, factor = made()
    x, y = arrays()
    path = module.__file__
    dk.launch(module.scaled, 8, [x], [y])
    codes = loaded()
    del module
    assert gone(codes)
    spec = importlib.util.spec_from_file_location("again", path)
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    y.zero_()
    dk.launch(again.scaled, 8, [x], [y])
    np.testing.assert_allclose(y.numpy(), squares(factor))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_mapping_is_left(made):
    def mappings() -> int:
        gc.collect()
        return len(Path("/proc/self/maps").read_text().splitlines())

    x, y = arrays()

    def use() -> None:
        module, _ = made()
        dk.launch(module.scaled, 8, [x], [y])

    use()
    before = mappings()
    for _ in range(12):
        use()
    assert mappings() - before < 8  # it was more than one of each kernel


USED = """
import ctypes, gc, importlib.util, sys
from pathlib import Path
import numpy as np
import diffkern as dk

class Numbers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena b c d mapped f g used h i".split()]

ask = ctypes.CDLL(None).mallinfo2
ask.restype = Numbers
x, y = dk.array(np.arange(8, dtype=np.float32)), dk.zeros(8)

def use(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    dk.launch(module.scaled, 8, [x], [y])

def used():
    gc.collect()
    found = ask()
    return found.used + found.mapped

paths = sorted(Path(sys.argv[1]).glob("*.py"))
for first_time in (True, False):
    for path in paths[:8]:
        use(path)
    before = used()
    for path in paths[8:]:
        use(path)
    print((used() - before) / len(paths[8:]))
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="asks glibc")
def test_the_memory_of_kernels_that_are_gone_is_given_back(tmp_path: Path):
    """What remains of each, if it was compiled and if it came from the cache; it was 92 kB and 9 kB."""
    (tmp_path / "kernels").mkdir()
    for k in range(56):
        (tmp_path / "kernels" / f"k{k:02d}.py").write_text(SOURCE.format(factor=k + 2))
    env = {**os.environ, "DIFFKERN_CACHE_DIR": str(tmp_path / "cache"), "DIFFKERN_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", USED, str(tmp_path / "kernels")], env=env, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    compiled, loaded = map(float, run.stdout.split())
    assert compiled < 20_000
    assert loaded < 20_000
