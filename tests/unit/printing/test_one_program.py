"""What is printed for a target is the program that is compiled for it: both come from one function of the IR.

But for where a launch's program for a GPU clears cotangents: it relies on arrays that do not overlap, which nobody
looks at where printed source runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from block_corpus import BLOCKS
from grad.build import values
from grad.corpus import CASES

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.compiler.specialize import Specialization
from diffkern.contracts.options import Variant
from diffkern.errors import CompileError
from diffkern.ir.nodes import Function
from diffkern.ir.printer import to_text
from diffkern.kernels.kernel import Kernel
from diffkern.printing import cuda as printing
from diffkern.targets.cpu import compiler as processor
from diffkern.targets.cuda import architecture, compiler


class _SeenError(Exception):
    pass


def seen(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, run: Callable[[], Any]) -> str:
    """The text of the function with which `run` calls `where.name`, which is not executed; or why it is refused."""

    def stop(*given: Any, **_: Any) -> None:
        raise _SeenError(to_text(next(one for one in given if isinstance(one, Function))))

    with monkeypatch.context() as patch:
        patch.setattr(where, name, stop)
        with pytest.raises((_SeenError, CompileError)) as caught:
            run()
    return str(caught.value)


def both(monkeypatch: pytest.MonkeyPatch, kernel: Kernel, types: tuple[Any, ...], direction: str) -> tuple[str, str]:
    """The printed and the compiled function for a GPU."""
    known = kernel.argument_types(*types)
    active = kernel._active(known, None) if direction == "adjoint" else None
    variant = replace(kernel.variant, active=active, block_dim=kernel.block_dim, may_alias=False)
    wanted = Specialization(kernel.func, known, variant).compilation("sm_90")
    show = kernel.adjoint_source if direction == "adjoint" else kernel.source
    printed = seen(monkeypatch, printing, "CudaWriter", lambda: show(*types, target="cuda"))
    with monkeypatch.context() as patch:
        patch.setattr(architecture, "overwrite_late", lambda fn: fn)
        return printed, seen(monkeypatch, compiler, "emit_kernel", lambda: wanted.build("kernel"))


@pytest.mark.parametrize("direction", ["forward", "adjoint"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_the_printed_program_is_the_compiled_one(name: str, direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    kernel = Kernel(case.function)
    printed, compiled = both(monkeypatch, kernel, values(case), direction)
    assert printed == compiled


@pytest.mark.parametrize("direction", ["forward", "adjoint"])
@pytest.mark.parametrize("name", sorted(set(BLOCKS) - {"histograms"}))
def test_so_it_is_where_threads_work_together(name: str, direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = BLOCKS[name].kernel
    printed, compiled = both(monkeypatch, kernel, kernel.argument_types(), direction)
    assert printed == compiled


@dk.kernel
def long_recurrence(x: dk.array(dtype=float), n: int, y: dk.array(dtype=float)):
    i = dk.tid()
    v = x[i]
    for _ in range(n):
        v = dk.sin(v) * v
    y[i] = v


def test_the_states_of_a_loop_are_those_that_a_gpu_keeps() -> None:
    """A thread of a GPU has less memory for them than one of a CPU."""
    gpu, processor = long_recurrence.adjoint_source(target="cuda"), long_recurrence.adjoint_source()
    assert "cuda.local.array(128, float32)" in gpu
    assert "Stack(2048)" in processor
    assert "2048" not in gpu


@dk.kernel(block_dim=64)
def neighbours(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    shared = dk.shared_array(64, dtype=float)
    shared[dk.thread_index()] = x[i] * x[i // 2]
    dk.syncthreads()
    y[i] = shared[63 - dk.thread_index()]


def test_of_a_cpu_too(monkeypatch: pytest.MonkeyPatch) -> None:
    types = neighbours.argument_types()
    wanted = Compilation(neighbours.func, types, Variant(active=neighbours._active(types, None)))
    printed = seen(monkeypatch, processor, "to_python", neighbours.adjoint_source)
    assert printed == seen(monkeypatch, processor.CpuTarget, "compile", lambda: wanted.build("kernel"))
