"""Coverage of kernels: the same lines and branches as coverage.py finds when the same text runs in Python."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.testing import CoverageWarning, kernel_coverage

coverage = pytest.importorskip("coverage")

TEXTS = {
    "leaving": """
@dk.func
def clip(v: float):
    if v > 1.0:
        return 1.0
    if v < -1.0:
        return -1.0
    return v

@dk.kernel
def work(x: dk.array(dtype=float), y: dk.array(dtype=float), n: int):
    i = dk.tid()
    if i >= n:
        return
    s = float(0.0)
    for k in range(3):
        if k == 2 and x[i] > 100.0:
            s += 7.0
            break
        if x[i] < 0.0:
            continue
        s += clip(x[i])
    while s > 10.0:
        s -= 1.0
    y[i] = s
    if s > 2.5:
        y[i] += 1.0
""",
    "nested": """
@dk.kernel
def work(x: dk.array(dtype=float), y: dk.array(dtype=float), n: int):
    i = dk.tid()
    total = float(0.0)
    for a in range(n):
        for b in range(a):
            if x[i] > 50.0:
                total += 2.0
                break
            elif x[i] < -2.0:
                total -= 1.0
            else:
                total += x[i] * 0.5
        else:
            total += 0.25
        if total > 3.0:
            break
    if total < 0.0:
        y[i] = -1.0
    elif total < 1.0:
        y[i] = 0.0
    elif total < 2.0:
        y[i] = 1.0
    else:
        y[i] = total
""",
    "loops": """
@dk.kernel
def work(x: dk.array(dtype=float), y: dk.array(dtype=float), n: int):
    i = dk.tid()
    k = int(0)
    while k < n:
        k += 1
        if k == 2:
            continue
        if x[i] > 1.5 and k == 3:
            break
        for j in range(k):
            if j > 1:
                y[i] = y[i] + 1.0
    for j in range(0):
        y[i] = 7.0
    while x[i] < -1e9:
        y[i] = 8.0
""",
    "rounds": """
@dk.kernel
def work(x: dk.array(dtype=float), y: dk.array(dtype=float), n: int):
    i = dk.tid()
    for a in range(n):
        y[i] += 1.0
        for b in range(n):
            if x[i] > 1.0:
                break
    k = int(0)
    while k < n:
        k += 1
        while True:
            break
    else:
        y[i] += 2.0
    for a in range(2):
        y[i] += 1.0
        for b in range(n):
            y[i] += 0.5
        else:
            y[i] += 4.0
""",
    "whole": """
@dk.func
def halved(v: float):
    r = v
    while r > 1.0:
        r = r * 0.5
    return r

@dk.func
def sign(v: float):
    if v > 0.0:
        return halved(v)
    else:
        return -halved(-v)

@dk.kernel
def work(x: dk.array(dtype=float), y: dk.array(dtype=float), n: int):
    i = dk.tid()
    for k in range(n):
        if k > 0:
            if x[i] > 150.0:
                return
        y[i] = sign(x[i])
        y[i] = y[i] + sign(0.5)
""",
}
VALUES = (0.5, -3.0, 2.0, 200.0, 0.1)


class PythonNames:
    """What the texts need of diffkern, in plain Python."""

    def __init__(self) -> None:
        self.thread = 0
        self.kernel = self.func = lambda f: f

    def tid(self) -> int:
        return self.thread

    def array(self, dtype: Any) -> Any:
        return dtype


def loaded(text: str, path: Path, names: Any) -> dict[str, Any]:
    path.write_text(text, encoding="utf-8")
    module = types.ModuleType(path.stem)
    module.__dict__["dk"] = names
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module.__dict__


def in_python(text: str, path: Path, threads: range, n: int) -> tuple[set[tuple[int, int]], np.ndarray[Any, Any]]:
    names = PythonNames()
    work = loaded(text, path, names)["work"]
    measured = coverage.Coverage(branch=True, data_file=None, include=[str(path)], config_file=False)
    y = np.zeros(len(VALUES), np.float32)
    measured.start()
    try:
        for names.thread in threads:
            work([np.float32(v) for v in VALUES], y, n)
    finally:
        measured.stop()
    return set(measured.get_data().arcs(str(path)) or ()), y


@pytest.mark.parametrize("name", TEXTS)
def test_arcs_are_those_of_coverage_py(name: str, tmp_path: Path) -> None:
    if coverage.Coverage.current() is not None:
        pytest.skip("one measurement of coverage.py at a time")
    path = tmp_path / f"{name}.py"
    work = loaded(TEXTS[name], path, dk)["work"]
    for count, n in itertools.product((1, 2, 5), (0, 4)):
        expected, values = in_python(TEXTS[name], path, range(count), n)
        x, y = dk.array(VALUES, dtype=float), dk.zeros(5)
        with kernel_coverage() as covered:
            dk.launch(work, dim=count, inputs=[x, y, n])
        assert np.array_equal(y.numpy(), values)
        assert covered.arcs() == {str(path): expected}, (count, n)
        assert covered.lines() == {str(path): {line for arc in expected for line in arc if line > 0}}


@dk.kernel
def branches(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    if x[i] > 0.0:
        y[i] = 1.0
    else:
        y[i] = 2.0


FIRST = branches.func.__code__.co_firstlineno  # of the decorator
POSITIVE, NEGATIVE = FIRST + 4, FIRST + 6


def lines(covered: kernel_coverage) -> set[int]:
    return covered.lines().get(__file__, set())


def test_tapes_records_and_sequences() -> None:
    x, y = dk.array([-1.0], dtype=float, requires_grad=True), dk.zeros(1, requires_grad=True)
    record = dk.launch(branches, dim=1, inputs=[x, y], record_cmd=True)
    with dk.record() as sequence:
        dk.launch(branches, dim=1, inputs=[x, y])
    with kernel_coverage() as covered:
        record.launch()
    assert lines(covered) == {FIRST + 2, FIRST + 3, NEGATIVE}
    with kernel_coverage() as covered:
        x.fill_(1.0)
        sequence.replay()
    assert lines(covered) == {FIRST + 2, FIRST + 3, POSITIVE}
    with kernel_coverage() as covered, dk.Tape() as tape:
        dk.launch(branches, dim=1, inputs=[x, y])
    tape.backward(y)
    assert lines(covered) == {FIRST + 2, FIRST + 3, POSITIVE}
    # Behind the block nothing is noted.
    x.fill_(-1.0)
    dk.launch(branches, dim=1, inputs=[x, y])
    assert NEGATIVE not in lines(covered)
    assert y.numpy()[0] == 2.0


def test_threads_that_work_together() -> None:
    @dk.kernel
    def reversed_in_blocks(x: dk.array(dtype=float)):
        i = dk.tid()
        shared = dk.shared_array(64, dtype=float)
        k = i % 64
        shared[k] = x[i]
        dk.syncthreads()
        if i >= 64:
            x[i] = shared[63 - k]

    x = dk.array(np.arange(128, dtype=np.float32))
    with kernel_coverage() as covered:
        dk.launch(reversed_in_blocks, dim=128, inputs=[x], block_dim=64)
    first = reversed_in_blocks.func.__code__.co_firstlineno
    assert lines(covered) == set(range(first + 2, first + 9))
    assert np.array_equal(x.numpy(), np.r_[0:64, 127:63:-1])


def test_what_is_not_covered_says_so() -> None:
    volume = dk.Volume.load_from_numpy(np.ones((8, 8, 8), np.float32), bg_value=0.0)

    @dk.kernel
    def stored(id: dk.uint64):
        dk.volume_store_f(id, 1, 1, 1, 5.0)

    with pytest.warns(CoverageWarning, match="'stored' are not covered: it writes to a volume"), kernel_coverage() as c:
        dk.launch(stored, dim=1, inputs=[volume.id])
    assert not c.lines()


def test_source_chooses_files(tmp_path: Path) -> None:
    x, y = dk.ones(1), dk.zeros(1)
    with kernel_coverage(source=[tmp_path]) as other, kernel_coverage(source=[Path(__file__).parent]) as own:
        dk.launch(branches, dim=1, inputs=[x, y])
    assert not other.lines()
    assert lines(own) == {FIRST + 2, FIRST + 3, POSITIVE}


@pytest.mark.parametrize("branch", [False, True])
def test_data_file(branch: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if coverage.Coverage.current() is not None:
        pytest.skip("one measurement of coverage.py at a time")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".coveragerc").write_text(f"[run]\nbranch = {branch}\n", encoding="utf-8")
    x, y = dk.ones(1), dk.zeros(1)
    with kernel_coverage() as covered:
        dk.launch(branches, dim=1, inputs=[x, y])
    covered.save()
    combined = coverage.Coverage()
    combined.combine([str(tmp_path)])
    combined.load()
    data = combined.get_data()
    assert data.has_arcs() is branch
    assert set(data.lines(__file__) or ()) == {FIRST + 2, FIRST + 3, POSITIVE}


MODULE = """import diffkern as dk


@dk.kernel
def one(x: dk.array(dtype=float)):
    i = dk.tid()
    if x[i] > 2.0:
        x[i] = 0.0


def test_one():
    dk.launch(one, dim=1, inputs=[dk.ones(1)])
"""
# What pytest-cov does: it measures the loop that runs the tests, and saves the data when it ends.
MEASURED = """import coverage
import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop():
    measured = coverage.Coverage(branch=True, include=["*/test_one.py", "*/conftest.py"])
    measured.start()
    try:
        return (yield)
    finally:
        measured.stop()
        measured.save()
"""


def session(folder: Path) -> None:
    (folder / "test_one.py").write_text(MODULE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "diffkern.testing.kernel_coverage", "-p", "no:cacheprovider"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE", "COV_"))}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_plugin_of_pytest(tmp_path: Path) -> None:
    session(tmp_path)
    (file,) = tmp_path.glob(".coverage*")
    data = coverage.CoverageData(str(file))
    data.read()
    assert file.name.startswith(".coverage.kernels.")
    assert set(data.lines(str(tmp_path / "test_one.py")) or ()) == {6, 7}


def test_plugin_adds_to_a_measurement_of_the_session(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(MEASURED, encoding="utf-8")
    session(tmp_path)
    (file,) = tmp_path.glob(".coverage*")
    data = coverage.CoverageData(str(file))
    data.read()
    assert file.name == ".coverage"
    # Line 12 is Python's, the others those of the kernel.
    assert set(data.arcs(str(tmp_path / "test_one.py")) or ()) >= {(-4, 6), (6, 7), (7, -4)}
    assert {6, 7, 12} <= set(data.lines(str(tmp_path / "test_one.py")) or ())
