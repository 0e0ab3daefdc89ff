"""What all threads share is computed ahead of them, with the same result, and LLVM's vectoriser always comes back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import uniform_kernels as kernels
from cpu_harness import Compiled, i32, load, store, tids
from cpu_harness import kernel as function

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Value
from diffkern.ir.types import FLOAT64, Array
from diffkern.lower.composites import expand_composites
from diffkern.opt.hoist_uniform import Placement, place
from diffkern.printing.executor import run
from diffkern.targets.cpu import kernel as llvm_kernel
from diffkern.targets.cpu.uniform import MOST_QUESTIONS, uniform_questions
from diffkern.targets.emit.checks import Checking
from diffkern.testing import gradcheck

PROGRAM = Path(kernels.__file__)
LIMIT_S = 100
"""Processor time for all kernels; they take a tenth of it, and any of them took hours."""

STARTED = f"""
import resource, runpy
resource.setrlimit(resource.RLIMIT_CPU, ({LIMIT_S}, {LIMIT_S}))
runpy.run_path({str(PROGRAM)!r}, run_name='__main__')
"""


def started(first: str = "") -> subprocess.Popen[str]:
    """A process that executes a statement and the program."""
    return subprocess.Popen([sys.executable, "-c", first + STARTED], stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(sys.platform == "win32", reason="processor time is limited by POSIX")
@pytest.mark.full
def test_they_compile_within_bounds_and_to_the_same_bytes_in_processes_that_hinder_each_other():
    with started() as one, started("import os; os.nice(5)") as other:
        printed = [process.communicate()[0] for process in (one, other)]
    assert one.returncode == other.returncode == 0
    assert len(printed[0].splitlines()) == 2 * (2 * len((*kernels.LINES, *kernels.GRIDS, *kernels.PLAIN)) - 1)
    assert printed[0] == printed[1]


# -- how often the vectoriser may ask --------------------------------------------------------------------------------


def questions(kernel: dk.Kernel, moved: Callable[[Function], Placement] = place) -> float:
    fn = expand_composites(
        Compilation(kernel.func, kernel.argument_types(*kernels.arguments(kernel, "float32"))).forward
    )
    return uniform_questions(fn, moved(fn).moved)


def placed_of(kernel: dk.Kernel) -> Placement:
    found: list[Placement] = []
    questions(kernel, lambda fn: found.append(place(fn)) or found[0])
    return found[0]


@pytest.mark.parametrize("kernel", [*kernels.LINES, *kernels.GRIDS], ids=lambda k: k.name)
def test_what_threads_share_is_asked_for_too_often_where_each_computes_it(kernel):
    assert questions(kernel, lambda fn: Placement()) > MOST_QUESTIONS


@pytest.mark.parametrize("kernel", kernels.PLAIN, ids=lambda k: k.name)
def test_what_is_the_threads_own_is_not_asked_for(kernel):
    assert questions(kernel, lambda fn: Placement()) < MOST_QUESTIONS


def test_only_what_stays_in_the_loop_is_asked_for():
    """In the last of these kernels it is a loop that all threads of a row share."""
    left = {k.name for k in (*kernels.LINES, *kernels.GRIDS) if questions(k) > MOST_QUESTIONS}
    assert left == {"guarded", "in_a_loop", "from_a_written_array", "squares", "same_choice", "rows_and_all"}


@dk.kernel
def neighbours(x, p, y):
    i = dk.tid()
    y[i] = dk.exp(p[i + 1]) * dk.exp(p[x.shape[0] * i]) * dk.exp(p[int(x[i])])


@dk.kernel
def thirds(x, p, y):
    i = dk.tid()
    y[i] = dk.exp(p[i // 3])


@dk.kernel
def inner(x, p, y):
    i = dk.tid()
    for j in range(y.shape[0]):
        y[i + j] += dk.exp(x[j] * p[i + 3 * j])


@dk.kernel
def inner_shared(x, p, y):
    i = dk.tid()
    for j in range(y.shape[0]):
        y[i + j] += dk.exp(x[i]) * p[j]


@dk.kernel
def waiting(x, p, y):
    i = dk.tid()
    a = x[i]
    while a < 10.0:
        a += dk.exp(p[0])
    y[i] = a


@dk.kernel
def behind_a_moved_loop(x, p, y):
    i = dk.tid()
    r = p[1]
    for k in range(int(p[2])):
        r = 0.5 * r + dk.tanh(r)
    y[i] = x[i] * r
    x[i] = dk.exp(-dk.sin(p[0]))


@dk.kernel
def around_a_loop(x, p, y):
    i = dk.tid()
    for k in range(int(p[2])):
        for m in range(k):
            y[i] += p[1] * x[i]
        y[i] += dk.exp(-dk.sin(x[0]))


def test_a_loop_ahead_of_the_threads_leaves_theirs_the_innermost_one():
    assert any(op.name == "for" for op in placed_of(behind_a_moved_loop).chunk)
    assert questions(behind_a_moved_loop) > MOST_QUESTIONS
    assert questions(around_a_loop) < MOST_QUESTIONS


def test_an_element_is_a_threads_own_if_its_address_moves_with_the_loop():
    assert questions(neighbours) == 0
    assert questions(inner) == 0
    for kernel in (thirds, inner_shared, waiting):
        assert questions(kernel) > MOST_QUESTIONS


# -- the same results ------------------------------------------------------------------------------------------------


@pytest.fixture
def by_each_thread(monkeypatch) -> Iterator[Callable[[Function], Compiled]]:
    """Compile a function in which each thread computes everything by itself."""

    def compiled(fn: Function) -> Compiled:
        with monkeypatch.context() as patch:
            patch.setattr(llvm_kernel, "place", lambda fn: Placement())
            return Compiled(fn)

    return compiled


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", [*kernels.LINES, *kernels.GRIDS], ids=lambda k: k.name)
@pytest.mark.parametrize("chunk", [None, 7])
def test_results_are_the_same_to_the_last_bit(kernel, dtype, chunk, by_each_thread):
    fn = next(kernels.functions(kernel, dtype))
    arguments = kernels.arguments(kernel, dtype)
    dim = (5, 20) if kernel in kernels.GRIDS else (20,)
    found = []
    for compiled in (Compiled(fn), by_each_thread(fn)):
        copies = [a.copy() for a in arguments]
        compiled(copies, dim, chunk=chunk)
        found.append(copies[2])
    np.testing.assert_array_equal(*found)


def test_gradients_of_what_threads_share():
    x, p, y = kernels.arguments(kernels.power_of_exp, "float64")
    assert gradcheck(kernels.power_of_exp, 20, [x, np.abs(p) + 0.5, y])
    assert gradcheck(kernels.rows_and_all, (5, 20), kernels.arguments(kernels.rows_and_all, "float64"))


@dk.kernel
def first_element(p, y):
    i = dk.tid()
    y[i] = dk.exp(p[0])


@dk.kernel
def row_element(p, y):
    i, j = dk.tid()
    y[i, j] = dk.exp(p[i])


@dk.kernel
def element_in_a_branch(p, y):
    i = dk.tid()
    if y[i] > 0.0:
        y[i] = dk.exp(p[0])


@dk.kernel
def element_in_a_loop(p, y):
    i = dk.tid()
    for k in range(int(y[i])):
        y[i] = dk.exp(p[k])


class Nowhere:
    """An array of one element as the harness sees one, at address 0: a load from it ends the process."""

    def __init__(self) -> None:
        self.shape, self.strides = (1,), (8,)
        self.ctypes, self.data = self, 0


def compiled_without_memory(kernel: dk.Kernel, y: np.ndarray) -> Compiled:
    return Compiled(Compilation(kernel.func, kernel.argument_types(np.ones(1), y)).forward)


@pytest.mark.parametrize("kernel", [element_in_a_branch, element_in_a_loop], ids=lambda k: k.name)
def test_nothing_is_read_that_no_thread_reads(kernel):
    y = np.zeros(20)
    compiled_without_memory(kernel, y)([Nowhere(), y], 20)
    assert not y.any()


@pytest.mark.parametrize("at", [0, 5, 7])
@pytest.mark.parametrize(("kernel", "dim"), [(first_element, (20,)), (row_element, (4, 5)), (row_element, (0, 5))])
def test_nothing_is_read_if_there_is_no_thread(kernel, dim, at):
    y = np.zeros(dim)
    compiled_without_memory(kernel, y).no_threads([Nowhere(), y], dim, at)


# -- arrays that share memory ----------------------------------------------------------------------------------------


@dk.kernel
def changes_it(x, p, y):
    i = dk.tid()
    y[i] = x[i] + dk.exp(-p[3])


@dk.kernel
def changes_rows(x, p, y):
    i, j = dk.tid()
    y[i, j] = x[i, j] + dk.exp(-p[i]) + dk.sin(p[7])


def shared(kernel: dk.Kernel, reverse: bool) -> list[np.ndarray]:
    memory = np.linspace(0.1, 1.0, 24)
    y = memory[::-1] if reverse else memory
    if kernel is changes_rows:
        return [np.linspace(0, 1, 24).reshape(4, 6), memory, y.reshape(4, 6)]
    return [np.linspace(0, 1, 24), memory[2:], y]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kernel", [changes_it, changes_rows], ids=lambda k: k.name)
def test_threads_find_what_threads_before_them_stored(kernel, reverse):
    """A launch whose arrays share memory runs as a loop over threads would."""
    compiled, python = shared(kernel, reverse), shared(kernel, reverse)
    fn = Compilation(kernel.func, kernel.argument_types(*compiled)).forward
    assert place(fn).reads
    dim = (4, 6) if kernel is changes_rows else (24,)
    Compiled(fn)(compiled, dim)
    run(fn, python, dim)
    np.testing.assert_allclose(compiled[2], python[2], rtol=1e-14)
    apart = [a.copy() for a in shared(kernel, reverse)]
    Compiled(fn)(apart, dim)
    assert not np.allclose(apart[2], compiled[2])


def test_many_arrays_are_not_compared_with_each_other():
    count = llvm_kernel._MOST_COMPARISONS

    def placed(outputs: int) -> Placement:
        def body(b: Builder, p: Value, s: Value, *ys: Value) -> None:
            (i,) = tids(b)
            value = b.mul(load(b, p, i32(b, 0)), b.one("exp", s))
            for y in ys:
                store(b, y, i, value)

        arrays = {f"y{k}": Array(FLOAT64, 1) for k in range(outputs)}
        fn = function({"p": Array(FLOAT64, 1), "s": FLOAT64, **arrays}, body)
        return llvm_kernel._placement(fn, Checking.NONE)

    assert "load" in [op.name for op in placed(count).chunk]
    assert [op.name for op in placed(count + 1).chunk if op.name != "const"] == ["exp"]
