"""Tiles by the threads of a block, forward and adjoint, run on the host, against the CPU: for any number of threads."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from grad.build import lower, values
from grad.cases import Case, signed, spread, zeros
from on_host import HostCuda, cpu_harness

import diffkern as dk
from diffkern.analysis.cuda_plan import finalize_updates
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.abi import HEADER_FORMAT
from diffkern.contracts.options import KernelOptions, Variant
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, Region, walk
from diffkern.lower.tiles.block import lower_tiles_for_blocks
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import _pack

f1 = dk.array(dtype=float)
f2 = dk.array(dtype=float, ndim=2)
i1 = dk.array(dtype=int)
v1 = dk.array(dtype=dk.vec3)
v2 = dk.array(dtype=dk.vec3, ndim=2)

CASES: dict[str, Case] = {}
THREADS = (1, 5, 70)


def case(*dim: int, rtol: float = 1e-5, **arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        CASES[name] = Case(name, function, dim, arguments, rtol32=rtol)
        return function

    return enter


class OnHost:
    """A function as emitted for CUDA."""

    threads = 1

    def __init__(self, fn: Function) -> None:
        self.types = tuple(p.type for p in fn.params)
        self.lowered = lower_tiles_for_blocks(clone_function(fn), 1 << 17)
        self.code = HostCuda(self.lowered, grid=2)

    def run(self, dim: Sequence[int], args: Sequence[Any], chunk: int | None = None) -> None:
        header = struct.pack(HEADER_FORMAT, 0, *(*dim, 1, 1, 1)[:4], 0, 0)
        self.code.threads = OnHost.threads
        self.code.launch(header + b"".join(_pack(t, a) for t, a in zip(self.types, args, strict=True)))


def same(found: Any, expected: Any, rtol: float, what: str) -> None:
    if np.asarray(expected).dtype.kind != "f":
        np.testing.assert_array_equal(found, expected, err_msg=what)
        return
    size = float(np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * size, err_msg=what)


@functools.cache
def on_both(name: str) -> tuple[Vjp, Vjp]:
    """The programs of a case for the CPU, and for blocks."""
    vjp = Vjp(lower(CASES[name]), variant=Variant(KernelOptions(stack_bytes=8192), target="sm_90"))

    def adjoint(fn: Function) -> OnHost:
        copy = clone_function(fn)
        count = len(vjp.adjoint.cotangents)
        finalize_updates(copy, copy.params[len(copy.params) - count :], vjp.adjoint.conflicts)
        return OnHost(copy)

    return vjp, vjp.running(OnHost, adjoint)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", sorted(CASES))


def test_agrees_with_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    vjp, blocks = on_both(name)
    outputs = vjp.arguments(values(case))
    vjp.primal_program.run(case.dim, outputs)
    point = vjp.arguments(values(case))
    weights = vjp.weights(point, np.random.default_rng(3))
    expected = vjp.gradients(case.dim, point, weights)
    for threads in THREADS:
        monkeypatch.setattr(OnHost, "threads", threads)
        found = vjp.arguments(values(case))
        blocks.primal_program.run(case.dim, found)
        for what, a, b in zip(vjp.names, found, outputs, strict=True):
            same(a, b, case.rtol32, f"{what} with {threads} threads")
        for i, gradient in blocks.gradients(case.dim, point, weights).items():
            same(gradient, expected[i], case.rtol32, f"the gradient of {vjp.names[i]} with {threads} threads")


def test_no_thread_loops_alone(name: str) -> None:
    """What one thread does alone are single accesses."""
    _, blocks = on_both(name)
    for program in (blocks.primal_program, blocks.adjoint_program):
        for region in alone(program.lowered):  # type: ignore[attr-defined]
            assert not any(op.name in ("for", "while") for op in walk(region))


def alone(fn: Function) -> list[Region]:
    """The branches that one thread alone takes."""
    made = {r: op for op in walk(fn.body) for r in op.results}

    def first(condition: Any) -> bool:
        op = made.get(condition)
        if op is None or op.name != "eq":
            return False
        sides = [made.get(v) for v in op.operands]
        return any(s is not None and s.name == "cast" and made[s.operands[0]].name == "block_thread" for s in sides)

    return [op.regions[0] for op in walk(fn.body) if op.name == "if" and first(op.operands[0])]


# -- reductions --------------------------------------------------------------------------------------------------------


@case(2, x=signed(20, 37), y=zeros(2), z=zeros(2), r=zeros(20), c=zeros(74))
def sums(x: f2, y: f1, z: f1, r: f1, c: f1):
    i = dk.tid()
    t = dk.tile_load(x, shape=(10, 37), offset=(i * 10, 0))
    e = dk.tile_map(dk.sin, t)
    dk.tile_store(y, dk.tile_sum(e * t), offset=i)
    dk.tile_store(r, dk.tile_sum(t * t, axis=1), offset=i * 10)
    dk.tile_store(c, dk.tile_sum(t * t * t, axis=0), offset=i * 37)
    dk.atomic_add(z, i, dk.tile_sum(t)[0])


@case(1, x=spread(11, 40), y=zeros(2), r=zeros(11), c=zeros(40))
def extremes(x: f2, y: f1, r: f1, c: f1):
    t = dk.tile_load(x, shape=(11, 40))
    dk.tile_store(y, dk.tile_min(t * t))
    dk.tile_store(y, dk.tile_max(t), offset=1)
    dk.tile_store(r, dk.tile_min(t, axis=1))
    dk.tile_store(c, dk.tile_max(t * t, axis=0))


@case(1, x=spread(5, 21, 3), y=zeros(2, 3), r=zeros(5, 3))
def extremes_of_vectors(x: v2, y: v1, r: v1):
    t = dk.tile_load(x, shape=(5, 21))
    dk.tile_store(y, dk.tile_min(t))
    dk.tile_store(y, dk.tile_reduce(dk.max, t * 2.0), offset=1)
    dk.tile_store(r, dk.tile_max(t, axis=1))


@case(1, x=lambda rng: rng.integers(0, 3, (9, 51)).astype(np.float32), k=lambda rng: np.zeros(2, np.int32), y=zeros(2))
def ties(x: f2, k: i1, y: f1):
    """Extremes that occur several times: the first of them counts."""
    t = dk.tile_load(x, shape=(9, 51))
    dk.tile_store(k, dk.tile_argmin(t))
    dk.tile_store(k, dk.tile_argmax(dk.tile_transpose(t)), offset=1)
    dk.tile_store(y, dk.tile_max(t))
    dk.tile_store(y, dk.tile_min(t * 2.0), offset=1)


def _with_two_below_zero(rng):
    x = rng.uniform(0.1, 1.0, (9, 51)).astype(np.float32)
    x[4, 17] = x[7, 3] = -1.0
    return x


@case(1, x=_with_two_below_zero, k=lambda rng: np.zeros(2, np.int32))
def positions_of_nan(x: f2, k: i1):
    """NaN comes before all numbers, and the first one before the others."""
    t = dk.tile_map(dk.sqrt, dk.tile_load(x, shape=(9, 51)))
    dk.tile_store(k, dk.tile_argmin(t))
    dk.tile_store(k, dk.tile_argmax(dk.tile_transpose(t)), offset=1)


@case(1, x=signed(6, 30), y=zeros(30), n=np.int32(3))
def sums_in_a_loop(x: f2, y: f1, n: int):
    """What a reduction leaves behind is overwritten by the next one."""
    t = dk.tile_load(x, shape=(6, 30))
    for k in range(n):
        t = t * (1.0 / (1.0 + dk.tile_sum(t * t)[0]))
        t = t + dk.tile_broadcast(dk.tile_sum(t, axis=0), shape=(6, 30)) * 0.1
    dk.tile_store(y, dk.tile_sum(t, axis=0))


@dk.func
def both(a: float, b: float):
    return a + b - 0.1 * a * b


@case(1, x=signed(9, 33, most=0.4), y=zeros(1))
def combined_by_a_function(x: f2, y: f1):
    t = dk.tile_load(x, shape=(9, 33))
    dk.tile_store(y, dk.tile_reduce(both, t * t))


# -- scans and sorts ---------------------------------------------------------------------------------------------------


@case(1, x=signed(7, 41), y=zeros(7, 41), z=zeros(7, 41), w=zeros(12))
def scans(x: f2, y: f2, z: f2, w: f1):
    t = dk.tile_load(x, shape=(7, 41))
    dk.tile_store(y, dk.tile_scan_inclusive(t * t))
    dk.tile_store(z, dk.tile_scan_exclusive(t) * t)
    few = dk.tile_load(x[0], shape=12)
    dk.tile_store(w, dk.tile_scan_exclusive(few * few) + dk.tile_scan_inclusive(few))


@case(1, x=lambda rng: rng.integers(0, 90, 300).astype(np.float32), w=signed(300), y=zeros(300), z=zeros(300))
def sorted_by_exchanges(x: f1, w: f1, y: f1, z: f1):
    keys = dk.tile_load(x, shape=300)
    numbers = dk.tile_load(w, shape=300)
    dk.tile_sort(keys, numbers)
    dk.tile_store(y, keys * keys * dk.tile_arange(300, dtype=float))
    dk.tile_store(z, numbers * keys)


@case(1, x=lambda rng: rng.integers(0, 9, (4, 10)).astype(np.float32), w=signed(4, 10), y=zeros(4, 10), z=zeros(4, 10))
def sorted_by_counting(x: f2, w: f2, y: f2, z: f2):
    keys = dk.tile_load(x, shape=(4, 10))
    numbers = dk.tile_load(w, shape=(4, 10))
    dk.tile_sort(keys, numbers)
    dk.tile_store(y, keys)
    dk.tile_store(z, numbers * numbers)


# -- factors and solves ------------------------------------------------------------------------------------------------


def positive(*shape: int) -> Callable[[np.random.Generator], Any]:
    """Well-conditioned symmetric matrices."""

    def make(rng: np.random.Generator) -> Any:
        m = rng.normal(size=shape)
        return (m @ np.swapaxes(m, -1, -2) / shape[-1] + 2.0 * np.eye(shape[-1])).astype(np.float32)

    return make


@case(1, a=positive(13, 13), y=signed(13), x=zeros(13), f=zeros(13, 13), rtol=1e-4)
def solved_by_a_factor(a: f2, y: f1, x: f1, f: f2):
    factor = dk.tile_cholesky(dk.tile_load(a, shape=(13, 13)))
    dk.tile_store(f, factor)
    dk.tile_store(x, dk.tile_cholesky_solve(factor, dk.tile_load(y, shape=13)))


@case(1, a=positive(9, 9), y=signed(9, 7), x=zeros(9, 7), z=zeros(9, 7), one=zeros(1, 7), rtol=1e-4)
def solved_by_triangles(a: f2, y: f2, x: f2, z: f2, one: f2):
    t = dk.tile_load(a, shape=(9, 9))
    right = dk.tile_load(y, shape=(9, 7))
    dk.tile_store(x, dk.tile_lower_solve(t, right * right))
    dk.tile_store(z, dk.tile_upper_solve(dk.tile_transpose(t) + t, right))
    corner = dk.tile_view(t, offset=(0, 0), shape=(1, 1))
    dk.tile_store(one, dk.tile_lower_solve(corner, dk.tile_view(right, offset=(0, 0), shape=(1, 7))))


# -- groups of neighbours ----------------------------------------------------------------------------------------------


@case(2, 2, x=signed(40, 44), y=zeros(40, 44), z=zeros(44, 40), n=np.int32(0))
def groups_and_edges(x: f2, y: f2, z: f2, n: int):
    """Whole tiles with aligned rows, and tiles at the edges."""
    i, j = dk.tid()
    t = dk.tile_load(x, shape=(24, 24), offset=(i * 24, j * 24 + n))
    dk.tile_store(y, t * t + 1.0, offset=(i * 24, j * 24))
    dk.tile_store(z, dk.tile_transpose(t), offset=(j * 24, i * 24))


@pytest.mark.parametrize("shift", [0, 1, 2])
@pytest.mark.parametrize("columns", [64, 66])
@pytest.mark.parametrize("offset", [0, 4, 5])
def test_vectors_where_memory_is_aligned_and_single_elements_elsewhere(shift: int, columns: int, offset: int) -> None:
    memory = np.arange(20 * columns + shift, dtype=np.float32)
    x = memory[shift:].reshape(20, columns)
    y = np.zeros_like(x)
    host = shifted_on_host()
    for host.threads in (1, 70):
        y[:] = 0
        host.launch(cpu_harness.pack(shifted_ir(), [x, y, np.int32(offset)], (1,), 0, 0))
        expected = np.zeros_like(x)
        expected[2:18, offset : offset + 32] = 2 * x[2:18, offset : offset + 32]
        np.testing.assert_array_equal(y, expected)


@dk.kernel
def shifted(x: f2, y: f2, k: int):
    t = dk.tile_load(x, shape=(16, 32), offset=(2, k))
    dk.tile_store(y, t + t, offset=(2, k))


@functools.cache
def shifted_ir() -> Function:
    return lower_tiles_for_blocks(Compilation(shifted.func, shifted.argument_types()).forward)


@functools.cache
def shifted_on_host() -> HostCuda:
    return HostCuda(shifted_ir())
