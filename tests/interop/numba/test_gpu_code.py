"""Funcs, their derivatives and threads of kernels in functions that numba.cuda.jit compiles; no GPU is needed."""

from __future__ import annotations

import numba_funcs as funcs
import numpy as np
import pytest
from conftest import require
from numba_funcs import CASES

import diffkern as dk

require("numba.cuda", "cuda.bindings")

from numba import cuda, njit
from numba.cuda.core.errors import TypingError
from numba.cuda.types import float32, int32, void

from diffkern.targets.cuda import disassembler, toolchain
from diffkern.targets.numba_cuda.bindings import compiling_for

ONE, TWO, WHOLE = float32[::1], float32[:, ::1], int32[::1]
STACKS = {"counted_loop", "while_loop", "left_early"}
"""Their loops keep states for the way back."""


def compiled(function, *types, arch=(9, 0), **options):
    """The PTX and the instructions of a kernel that numba-cuda compiles."""
    with compiling_for(arch):  # functions between the kernel and diffkern's are compiled for the device that is there
        ptx, _ = cuda.compile(function, void(*types), cc=arch, output="ptx", device=False, abi="numba", **options)
    (found,) = disassembler.codes([toolchain.assemble(ptx, f"sm_{arch[0]}{arch[1]}", "kernel")])
    (kernel,) = (code for name, code in found.items() if "kernel" in name)
    return ptx, kernel.mnemonics, [name for name in found if "kernel" not in name]


def calls(ptx):
    return [line for line in ptx.splitlines() if line.strip().startswith(("call", "{ // callseq"))]


def kernel_of(func, integer, count):
    """A kernel that takes the gradient at points whose coordinates are columns."""
    if count == 1:

        def kernel(x, out):
            i = cuda.grid(1)
            if i < out.shape[0]:
                out[i] = func.grad(x[i])

    elif integer:

        def kernel(x, n, out):
            i = cuda.grid(1)
            if i < out.shape[0]:
                out[i] = func.grad(x[i], n[i])

    else:

        def kernel(x, y, out):
            i = cuda.grid(1)
            if i < out.shape[0]:
                value, (dx, dy) = func.vjp(x[i], y[i], 1.0)
                out[i] = value * dx * dy

    return kernel


@pytest.mark.parametrize("name", sorted(set(CASES) - {"annotated"}))
def test_gradients_are_inlined(name):
    point = CASES[name].points[0]
    columns = [ONE if isinstance(x, float) else WHOLE for x in point]
    ptx, instructions, others = compiled(kernel_of(CASES[name].func, WHOLE in columns, len(point)), *columns, ONE)
    assert not calls(ptx)
    assert all(other.startswith("__cuda_sm") for other in others)  # of an exact division or square root
    if name not in STACKS:
        assert not [m for m in instructions if m.startswith(("STL", "LDL"))]
    assert not [m for m in instructions if "F64" in m or m.startswith(("DADD", "DMUL", "DFMA"))]


def test_fastmath_holds_in_what_is_called():
    kernel = kernel_of(funcs.two_quotients, False, 2)
    _, exact, others = compiled(kernel, ONE, ONE, ONE)
    _, fast, none = compiled(kernel, ONE, ONE, ONE, fastmath=True)
    assert others
    assert not none
    assert sum(fast.values()) < sum(exact.values())


@pytest.mark.parametrize("arch", [(8, 0), (12, 0)])
def test_tuples_arrays_and_functions_between(arch):
    between = njit(lambda p, q: funcs.distance.grad(p, q)[:2])

    def kernel(p, table, out):
        i = cuda.grid(1)
        if i < out.shape[0]:
            a, b = between((p[i, 0], p[i, 1], p[i, 2]), (table[0], table[1], table[2]))
            m = ((a[0], a[1]), (b[0], b[1]))
            (w, s), (dm, dv) = funcs.transformed.vjp(m, (a[2], b[2]), (np.float32(1), np.float32(0)), np.float32(1))
            out[i] = w[0] + s + dm[1][0] + dv[1] + funcs.interpolated.grad(table, out[i])

    ptx, instructions, _ = compiled(kernel, TWO, ONE, ONE, arch=arch)
    assert not calls(ptx)
    assert not [m for m in instructions if m.startswith(("STL", "LDL"))]


def test_threads_of_kernels():
    def kernel(p, edges, energy, ct_p, ct_energy):
        i = cuda.grid(1)
        if i < edges.shape[0]:
            funcs.stretch.thread(i, p, edges, energy)
            funcs.stretch.thread_adjoint(i, p, edges, energy, ct_p, None, ct_energy)

    ptx, instructions, _ = compiled(kernel, TWO, int32[:, ::1], ONE, TWO, ONE)
    assert not calls(ptx)
    assert sum(n for m, n in instructions.items() if m.startswith(("RED", "ATOM"))) == 1 + 6

    def two_axes(x, y, z, ct_x, ct_z):
        i, j = cuda.grid(2)
        if i < x.size and j < y.size:
            funcs.outer.thread_adjoint((i, j), x, y, z, ct_x, None, ct_z)

    compiled(kernel_named(two_axes), ONE, ONE, TWO, ONE, TWO)


def kernel_named(function):
    """Let a function have the name by which its code is found."""
    function.__qualname__ = function.__name__ = "kernel"
    return function


def test_numba_cuda_says_what_diffkern_says():
    def kernel(x):
        funcs.product.grad(x[0])

    with pytest.raises(TypingError, match=r"numba_funcs.py:\d+: product takes 2 arguments \(x, y\), not 1"):
        compiled(kernel, ONE)

    def whole(x):
        funcs.diffuse(x)

    with pytest.raises(TypingError, match="diffuse is a kernel"):
        compiled(whole, ONE)


def test_kernels_that_numba_cuda_would_keep_on_disk_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    @cuda.jit(cache=True)
    def kernel(x):
        x[0] = funcs.of_one.grad(x[0])

    from diffkern.targets.numba_cuda.bindings import compiling_for

    with (
        compiling_for((9, 0)),
        pytest.raises(TypingError, match=r"cache=True.*of_one.grad.*\nhelp: leave cache=True out"),
    ):
        kernel.compile_device((ONE,))


def test_both_compilers_in_one_process():
    def kernel(x):
        x[0] = both.grad(x[0])

    @dk.func
    def both(x):
        return x * x

    compiled(kernel, ONE)
    assert njit(lambda x: both.grad(2.0 * x))(1.5) == 6.0
    compiled(kernel, ONE, arch=(8, 0))
