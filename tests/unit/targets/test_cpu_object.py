"""The object code: what it exports and needs, that it is reproducible and vectorised, and how long it takes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from compiling import compile_function
from cpu_harness import Compiled, kernel, load, store, tids

from diffkern.errors import CompileError
from diffkern.ir.nodes import Region, Value
from diffkern.ir.ops.table import all_ops, lookup
from diffkern.ir.types import FLOAT32, INT32, Array, Mat, Vec
from diffkern.runtime.native.loader import LIBRARY_NAMES
from diffkern.runtime.native.objfile import read_symbols
from diffkern.targets.cpu.kernel import emit_kernel
from diffkern.targets.cpu.object_code import machine
from diffkern.targets.target import Settings

F1, F2 = Array(FLOAT32, 1), Array(FLOAT32, 2)

MATH = [row.name for row in all_ops().values() if row.elementary]


def axpy():
    def body(b, x, y, a):
        (i,) = tids(b)
        store(b, y, i, b.add(b.mul(a, load(b, x, i)), load(b, y, i)))

    return kernel({"x": F1, "y": F1, "a": FLOAT32}, body)


def stencil():
    def body(b, u, v):
        i, j = tids(b, 2)
        one, zero = b.i32(1), b.i32(0)
        n, m = b.one("shape", u, axis=0), b.one("shape", u, axis=1)
        inside = b.one("gt", i, zero)
        for cond in (
            b.one("lt", i, b.sub(n, one)),
            b.one("gt", j, zero),
            b.one("lt", j, b.sub(m, one)),
        ):
            inside = b.one("and", inside, cond)
        then = Region()
        with b.into(then):
            total = b.add(load(b, u, b.sub(i, one), j), load(b, u, b.add(i, one), j))
            total = b.add(total, b.add(load(b, u, i, b.sub(j, one)), load(b, u, i, b.add(j, one))))
            store(b, v, i, j, b.mul(total, b.const(0.25, FLOAT32)))
        b.if_(inside, then, Region())

    return kernel({"u": F2, "v": F2}, body, tid=2)


def summing():
    def body(b, x, total):
        (i,) = tids(b)
        b.op("accumulate", total, b.i32(0), load(b, x, i), mode="reduce", wrap=(False,))

    return kernel({"x": F1, "total": F1}, body)


def long_kernel(n):
    def body(b, x, y):
        (i,) = tids(b)
        v = load(b, x, i)
        for k in range(n // 2):
            v = b.add(b.mul(v, b.const(1 + k / 4096, FLOAT32)), b.const(k / 64, FLOAT32))
        store(b, y, i, v)

    return kernel({"x": F1, "y": F1}, body)


def packed(fn, **options):
    """Whether the code has packed single-precision arithmetic."""
    asm = compile_function(fn, "k", **options).assembly()
    if not re.search(r"x86_64|i[3-6]86", machine().isa.triple):
        pytest.skip("reads x86 assembly")
    return bool(re.search(r"v?(?:fm\w+|add|mul)ps\b", asm))


@pytest.mark.parametrize("build", [axpy, stencil, summing], ids=lambda f: f.__name__)
def test_simple_kernels_are_vectorised(build):
    assert packed(build())


def test_fast_math_reassociates_a_loop():
    def body(b, x, y, n):
        (i,) = tids(b)
        r = Region(params=(Value(INT32, "k"), Value(FLOAT32, "s")))
        with b.into(r):
            r.yields = (b.add(r.params[1], load(b, x, r.params[0])),)
        (s,) = b.for_(b.i32(0), n, b.i32(1), [b.const(0.0, FLOAT32)], r)
        store(b, y, i, s)

    fn = kernel({"x": F1, "y": F1, "n": INT32}, body)
    assert not packed(fn)
    assert packed(fn, fast_math=True)


@pytest.mark.lanes_choice("it looks for the one addition of threads one by one")
def test_fast_math_on_processors_assumes_no_finite_numbers():
    def body(b, x, y):
        (i,) = tids(b)
        store(b, y, i, b.add(load(b, x, i), load(b, x, i)))

    fn = kernel({"x": F1, "y": F1}, body)
    text = emit_kernel(fn, "k", machine().isa, Settings(fast_math=True)).text
    (line,) = [line for line in text.splitlines() if "fadd" in line]
    assert "reassoc" in line
    assert not {"fast", "nnan", "ninf"} & set(line.split())


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_two_choices_by_one_test_stay_in_vector_registers(target):
    def body(b, x, y, n):
        (i,) = tids(b)
        r = Region(params=(Value(INT32, "k"), Value(FLOAT32, "c")))
        with b.into(r):
            k, c = r.params
            v, zero = load(b, x, k), b.const(0.0, FLOAT32)
            is_zero = b.one("eq", c, zero)
            store(b, x, k, b.select(is_zero, zero, b.mul(c, c)))
            r.yields = (b.add(c, b.select(is_zero, zero, b.mul(c, v))),)
        (c,) = b.for_(b.i32(0), n, b.i32(1), [load(b, y, i)], r)
        store(b, y, i, c)

    fn = kernel({"x": F1, "y": F1, "n": INT32}, body)
    assert not re.search("ucomiss|kmov", compile_function(fn, "k", target).assembly())
    x, y = np.array([2.0, np.inf, 3.0], np.float32), np.array([-0.0, 1.0], np.float32)
    for k, (carried, stored) in enumerate([(0.0, [0.0, 0.0, 0.0]), (np.inf, [1.0, 9.0, np.inf])]):
        args = [x.copy(), y[k : k + 1].copy(), 2 + k]
        Compiled(fn)(args, 1)
        np.testing.assert_array_equal(args[1], [carried])
        np.testing.assert_array_equal(args[0][: 2 + k], stored[: 2 + k])


def test_the_object_exports_its_symbols_alone():
    compiled = compile_function(summing(), "dk_abc")
    assert compiled.symbols == ("dk_abc", "dk_abc_finish")
    assert compiled.sites == 1
    assert set(read_symbols(compiled.code).defined) == set(compiled.symbols)


@pytest.mark.parametrize("op", [*MATH, "mod", "floordiv", "round", "floor"])
def test_only_library_functions_are_left_open(op):
    def body(b, x, y):
        (i,) = tids(b)
        v = load(b, x, i)
        attrs = {"order": 2} if op == "polygamma" else {}
        store(b, y, i, b.one(op, *[v] * lookup(op).arity, **attrs))

    needs = read_symbols(compile_function(kernel({"x": F1, "y": F1}, body), "k").code).undefined
    assert set(needs) <= LIBRARY_NAMES


def test_the_bytes_do_not_depend_on_what_was_compiled_before():
    first = compile_function(stencil(), "k").code
    compile_function(summing(), "k")
    assert compile_function(stencil(), "k").code == first


def test_the_bytes_do_not_depend_on_the_process():
    code = (
        "import sys, hashlib; sys.path[:0] = sys.argv[1:]\n"
        "from test_cpu_object import *\n"
        "for f in (summing, axpy, stencil): o = compile_function(f(), 'k')\n"
        "print(hashlib.sha256(o.code).hexdigest())"
    )
    out = {
        subprocess.run(
            [sys.executable, "-c", code, *(str(Path(__file__).parents[k]) for k in (0, 2))],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(out) == 1


def test_a_matrix_too_large_to_invert_is_refused():
    m = Mat(FLOAT32, 7, 7)

    def body(b, x):
        (i,) = tids(b)
        store(b, x, i, b.one("inverse", load(b, x, i)))

    with pytest.raises(CompileError, match="inverse of a 7×7 matrix"):
        compile_function(kernel({"x": Array(m, 1)}, body), "k")


def test_compiling_takes_work_in_proportion_to_the_length():
    """Eight times the length takes at most twelve times as many calls of functions, and as much text for LLVM."""

    def work(n):
        fn, calls = long_kernel(n), 0

        def count(frame, event, argument):
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        try:
            compiled = compile_function(fn, "k")
        finally:
            sys.setprofile(None)
        return calls, len(compiled.llvm_ir())

    compile_function(axpy(), "warm")
    (calls, text), (more_calls, more_text) = work(500), work(4000)
    assert more_calls < 12 * calls
    assert more_text < 12 * text


def test_composites_need_no_memory():
    v = Vec(FLOAT32, 3)

    def body(b, x, y):
        (i,) = tids(b)
        store(b, y, i, b.one("normalize", b.one("cross", load(b, x, i), load(b, y, i))))

    assert "alloca" not in compile_function(kernel({"x": Array(v, 1), "y": Array(v, 1)}, body), "k").llvm_ir()
