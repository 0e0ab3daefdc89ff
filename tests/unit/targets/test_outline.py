"""Long kernels are divided into functions: what LLVM gets has a bound, and computes the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cpu_harness import Compiled
from grad.build import values
from grad.corpus import CASES
from llvmlite import binding as llvm

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import KernelOptions, Variant
from diffkern.ir.nodes import Function
from diffkern.kernels.kernel import Kernel
from diffkern.targets import target_named
from diffkern.targets.cpu import outline_plan as outline

_BLOCK = """
    for k{n} in range(n):
        s = s * 0.5 + x[i]
        if s > 1.0:
            s = s * s - x[i]
        else:
            s = s * 0.75 + 0.125
"""


def long_kernel(loops: int, folder: Path) -> Callable[..., None]:
    """A kernel of so many loops with a branch in each."""
    head = "import diffkern as dk\ndef k(x: dk.array(dtype=float), n: int, y: dk.array(dtype=float)):\n"
    body = "    i = dk.tid()\n    s = x[i]\n" + "".join(_BLOCK.format(n=n) for n in range(loops)) + "    y[i] = s\n"
    path = folder / f"of_{loops}_loops.py"
    path.write_text(head + body)
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    found: Callable[..., None] = names["k"]
    return found


def adjoint_of(loops: int, folder: Path) -> Function:
    function = long_kernel(loops, folder)
    a = np.zeros(1, np.float32)
    types = Kernel(function).argument_types(a, 1, a)
    return Compilation(function, types, Variant(active=frozenset({0, 2}))).fn


def sizes(fn: Function) -> list[int]:
    """Instructions of each function of a kernel's module."""
    module = llvm.parse_assembly(target_named("x86-64-v3", Variant().compiler).emit(fn, "k").text)
    return [sum(len(list(b.instructions)) for b in f.blocks) for f in module.functions if not f.is_declaration]


@pytest.mark.parametrize("loops", [30, pytest.param(60, marks=pytest.mark.full)])
def test_functions_have_a_bound_and_their_number_grows_with_the_kernel(loops: int, tmp_path: Path) -> None:
    few, many = (sizes(adjoint_of(n, tmp_path)) for n in (loops, 2 * loops))
    assert len(many) > len(few) > 4
    assert max(many[1:]) <= 1.2 * max(few[1:]) <= 2000  # the first is the one that calls the others
    assert many[0] <= 2.1 * few[0] <= 4000
    assert sum(many) <= 2.1 * sum(few)


@pytest.mark.parametrize(("loops", "said"), [(10, "vector register"), (60, "would take long to compile")])
def test_long_kernels_run_one_by_one_even_where_lanes_are_asked_for(loops: int, said: str, tmp_path: Path) -> None:
    function, a = long_kernel(loops, tmp_path), np.zeros(1, np.float32)
    variant = Variant(active=frozenset({0, 2}), options=KernelOptions(lanes=True))
    threads = Compilation(function, Kernel(function).argument_types(a, 1, a), variant).threads()
    assert said in threads.partition("\n")[0]


def test_a_short_kernel_stays_in_one_piece(tmp_path: Path) -> None:
    assert len(sizes(adjoint_of(4, tmp_path))) < 5
    for case in list(CASES.values())[:20]:
        types = Kernel(case.function).argument_types(*values(case))
        assert not outline.outline(Compilation(case.function, types).lowered(), frozenset())


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "branches.while_in_for_in_if", "loops.newton_sqrt", "loops.nested_two_slots", "memory.gather_in_loop",
        "memory.heat_2d", "own_arrays.sorted_numbers", "tiles.while_loop", "tiles.power_in_a_loop",
    ],
)  # fmt: skip
def test_parts_compute_what_the_whole_computes(name: str, adjoint: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    types = Kernel(case.function).argument_types(*values(case))
    active = frozenset(range(len(types))) if adjoint else None
    compilation = Compilation(case.function, types, Variant(active=active))
    fn = compilation.fn
    given = case.make()
    rng = np.random.default_rng(1)
    for p in fn.params[len(given) :]:
        primal = given[p.name.removeprefix("ct_")]
        given[p.name] = rng.uniform(0.5, 1.0, np.shape(primal)).astype(np.asarray(primal).dtype)
    results = []
    for limits in ((10_000, 2500, 50), (20, 15, 3)):
        for limit, value in zip(("LARGEST", "PART", "SHORTEST"), limits, strict=True):
            monkeypatch.setattr(outline, limit, value)
        arguments = [np.array(a) if isinstance(a, np.ndarray) else a for a in given.values()]
        compiled = Compiled(fn, lanes=False)
        compiled(arguments, case.dim, chunk=2)
        results.append([a for a in arguments if isinstance(a, np.ndarray)])
    assert outline.outline(compilation.lowered(), frozenset())
    for whole, parts in zip(*results, strict=True):
        np.testing.assert_allclose(whole, parts, rtol=1e-6)  # products and sums fuse elsewhere


@dk.kernel
def tells(x: dk.array(dtype=float), n: int):
    i, j = dk.tid()
    s = x[i]
    print("begin", i, j)
    for k in range(n):
        s = s * 0.5 + x[i]
        if s > 1.0:
            for m in range(j):
                s = s * 0.25
                print("high", i, j, k, m, s)
        else:
            s = s + 2.0
    print("end", i, j, s)


def test_parts_print_what_the_whole_prints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for limit, value in zip(("LARGEST", "PART", "SHORTEST"), (8, 5, 1), strict=True):
        monkeypatch.setattr(outline, limit, value)
    x = dk.array([0.25, 1.0], dtype=float)
    fn = Compilation(tells.func, tells.argument_types(x, 3)).fn
    assert "_part1" in target_named("x86-64-v3", Variant().compiler).emit(fn, "k").text
    dk.launch(tells, (2, 3), [x, 3])
    expected = []
    for i, j in itertools.product(range(2), range(3)):
        s = own = (0.25, 1.0)[i]
        expected.append(f"begin {i} {j}")
        for k in range(3):
            s = s * 0.5 + own
            if s > 1.0:
                for m in range(j):
                    s *= 0.25
                    expected.append(f"high {i} {j} {k} {m} {np.float32(s)!s}")
            else:
                s += 2.0
        expected.append(f"end {i} {j} {np.float32(s)!s}")
    assert capsys.readouterr().out.splitlines() == expected
