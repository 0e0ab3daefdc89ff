"""print, printf, assert and the expect functions: what launches write to the standard output."""

import contextlib
import io
import subprocess
import sys

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp

NAME = "captured"
Vec = dk.array(dtype=dk.float32)


def printed(kernel, dim, *inputs, launch=dk.launch):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        launch(kernel, dim=dim, inputs=list(inputs))
    return out.getvalue()


@dk.kernel
def shows(x: dk.array(dtype=float)):
    i = dk.tid()
    print("x", i, x[i], x[i] > 1.0, NAME)
    dk.printf("%5.2f|%-4d|%s|%%|%x|%e\n", x[i], i, NAME, -i, x[i])
    print(f"{{i}}={i:03d} x={x[i]:.3f}", (i, 2.5), end="|\n", sep=";")


def test_numbers_and_text():
    x = dk.array([0.1, 2.0], dtype=float)
    assert printed(shows, 2, x).splitlines() == [
        "x 0 0.1 False captured",
        " 0.10|0   |captured|%|0|1.000000e-01",
        "{i}=000 x=0.100;(0, 2.5)|",
        "x 1 2.0 True captured",
        " 2.00|1   |captured|%|ffffffff|2.000000e+00",
        "{i}=001 x=2.000;(1, 2.5)|",
    ]


@dk.kernel
def composites(x: dk.array(dtype=float)):
    print(dk.vec3(x[0], 0.5, 1.0 / 3.0), dk.mat22(x[0], 2.0, 3.0, 4.0))


@wp.kernel
def composites_of_warp(x: wp.array(dtype=float)):
    print(wp.vec3(x[0], 0.5, 1.0 / 3.0))
    print(wp.mat22(x[0], 2.0, 3.0, 4.0))
    print(1.0 / 3.0)
    print(x[0] / 3.0)


def test_composites_in_both_dialects():
    x = dk.array([1.0], dtype=float)
    assert printed(composites, 1, x) == "[1.0, 0.5, 0.33333334] [[1.0, 2.0],\n [3.0, 4.0]]\n"
    assert printed(composites_of_warp, 1, x) == "1 0.5 0.333333\n1 2\n3 4\n0.333333\n0.333333\n"


TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]


def of_type(name):
    t = getattr(dk, name)

    @dk.kernel
    def kernel(x: dk.array(dtype=t)):
        for k in range(len(x)):
            print(x[k])

    return kernel


@pytest.mark.parametrize("name", TYPES)
def test_every_type(name):
    kind = np.dtype(name)
    info = np.iinfo(kind) if kind.kind in "iu" else np.finfo(kind)
    values = np.array([info.min, info.max, 17], kind)
    assert printed(of_type(name), 1, dk.array(values)).split() == [str(v) for v in values]


@dk.kernel
def many(x: dk.array(dtype=float)):
    i = dk.tid()
    for k in range(2):
        if x[i] > 0.0:
            print(i, k)


def test_the_order_is_that_of_the_threads():
    n = 20_000
    dk.config.output_bytes, before = 1 << 22, dk.config.output_bytes
    try:
        lines = printed(many, n, dk.ones(n, dtype=float)).splitlines()
    finally:
        dk.config.output_bytes = before
    assert lines == [f"{i} {k}" for i in range(n) for k in range(2)]


def test_what_does_not_fit_is_counted():
    dk.config.output_bytes, before = 10 * 4 * 8, dk.config.output_bytes
    try:
        lines = printed(many, 50, dk.ones(50, dtype=float)).splitlines()
    finally:
        dk.config.output_bytes = before
    assert len(lines) == 11
    assert "90 texts printed by forward of many" in lines[-1]
    assert "did not fit into 320 bytes; dk.config.output_bytes" in lines[-1]
    with pytest.raises(ValueError, match="number of bytes"):
        dk.config.output_bytes = -1


@dk.kernel
def blocks(y: dk.array(dtype=float)):
    i = dk.tid()
    s = dk.shared_array(shape=4, dtype=dk.float32)
    t = dk.thread_index()
    s[t] = float(i)
    dk.syncthreads()
    print("block", dk.block_index(), "thread", t, s[3 - t])
    y[i] = s[3 - t]


def test_threads_of_blocks():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        dk.launch(blocks, dim=8, inputs=[dk.zeros(8, dtype=float)], block_dim=4)
    expected = [f"block {i // 4} thread {i % 4} {float(i // 4 * 4 + 3 - i % 4)}" for i in range(8)]
    assert out.getvalue().splitlines() == expected


@dk.kernel
def squares(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    v = x[i] * x[i]
    print("v", v)
    dk.expect_near(v, x[i], 100.0)
    y[i] = v


def test_adjoints_print_nothing():
    x = dk.array([1.0, 3.0], dtype=float, requires_grad=True)
    y = dk.zeros(2, dtype=float, requires_grad=True)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        with dk.Tape() as tape:
            dk.launch(squares, dim=2, inputs=[x, y])
        tape.backward(grads={y: dk.ones(2, dtype=float)})
    assert out.getvalue() == "v 1.0\nv 9.0\n"
    assert x.grad.numpy().tolist() == [2.0, 6.0]
    assert "output(" not in squares.adjoint_source(x, y)


def test_records_and_sequences():
    x, y = dk.array([1.0, 3.0], dtype=float), dk.zeros(2, dtype=float)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        record = dk.launch(squares, dim=2, inputs=[x, y], record_cmd=True)
        record.launch()
        with dk.record() as sequence:
            dk.launch(squares, dim=1, inputs=[x, y])
        sequence.replay()
    assert out.getvalue() == "v 1.0\nv 9.0\n" + "v 1.0\n" * 2


@dk.kernel
def expects(x: dk.array(dtype=float), n: dk.array(dtype=dk.vec2i)):
    i = dk.tid()
    dk.expect_eq(x[i], 1.0)
    dk.expect_neq(x[i], 1.0)
    dk.expect_near(dk.vec2(x[i], 1.0), dk.vec2(1.5), tolerance=0.75)
    dk.expect_eq(n[i], dk.vec2i(1, 2))
    dk.expect_eq(x[i] > 1.0, True)
    dk.expect_eq(dk.mat22(x[i]), dk.mat22(1.0))


def test_expectations():
    n = dk.array([[1, 2]], dtype=dk.vec2i)
    one = printed(expects, 1, dk.array([1.0], dtype=float), n)
    assert [line.partition(" failed")[0] for line in one.splitlines()] == [
        "dk.expect_neq(x[i], 1.0)",
        "dk.expect_eq(x[i] > 1.0, True)",
    ]
    nan = printed(expects, 1, dk.array([np.nan], dtype=float), n)
    assert [line.partition(" failed")[0] for line in nan.splitlines() if "failed" in line] == [
        "dk.expect_eq(x[i], 1.0)",
        "dk.expect_near(dk.vec2(x[i], 1.0), dk.vec2(1.5), tolerance=0.75)",
        "dk.expect_eq(x[i] > 1.0, True)",
        "dk.expect_eq(dk.mat22(x[i]), dk.mat22(1.0))",
    ]
    assert "dk.expect_eq(x[i], 1.0) failed: nan is not 1.0 in kernel expects\n" in nan


def small(x: dk.array(dtype=float)):
    i = dk.tid()
    assert x[i] < 2.0, "x is small"
    assert x[i] > -1.0
    x[i] = x[i] + 1.0


def test_assertions_are_for_debug_programs():
    debug, release = dk.kernel(mode="debug")(small), dk.kernel(mode="release")(small)
    x = dk.array([0.0, 1.0, 2.0], dtype=float)
    with pytest.raises(dk.KernelRuntimeError, match="thread 2: the assertion fails: x is small") as caught:
        dk.launch(debug, dim=3, inputs=[x])
    assert caught.value.loc.file.endswith("test_output.py")
    with pytest.raises(dk.KernelRuntimeError, match=r"thread 0: the assertion fails: x\[i\] > -1.0"):
        dk.launch(debug, dim=1, inputs=[dk.array([-5.0], dtype=float)])
    dk.launch(release, dim=3, inputs=[dk.array([9.0, 9.0, 9.0], dtype=float)])
    assert "assert" not in release.source(x)


def test_the_process_writes_at_once(tmp_path):
    """Text of kernels and of Python stands in the order in which it was written, also in a pipe."""
    program = tmp_path / "program.py"
    program.write_text(
        "import diffkern as dk\n"
        "@dk.kernel\n"
        "def k(n: int):\n"
        "    dk.printf('kernel %d\\n', n)\n"
        "print('one')\n"
        "dk.launch(k, dim=1, inputs=[2])\n"
        "print('three')\n"
        "dk.printf('host %lld\\n', 4)\n"
        "dk.expect_eq(1, 2)\n"
    )
    found = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["one", "kernel 2", "three", "host 4", "expect_eq failed: 1 is not 2"]


def test_in_python():
    x = dk.array([0.25], dtype=float)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        dk.testing.run_in_python(shows, 1, [x])
    assert out.getvalue().startswith("x 0 0.25 False captured\n 0.25|0   |captured|%|0|2.500000e-01\n")


@dk.func
def noisy(x: float):
    print(x)
    return x * x


def test_a_func_that_prints_has_no_derivative_on_the_host():
    assert noisy(2.0) == 4.0
    with pytest.raises(dk.KernelError, match="noisy prints or asserts"):
        noisy.grad(2.0)


def test_on_a_gpu_the_texts_go_into_a_buffer():
    """Compiled for a GPU without one."""
    ptx = dk.compile(shows, Vec, target="sm_90").ptx
    assert "dk_room" in ptx
    assert "atom" in ptx
    plain = dk.compile(composites, Vec, target="sm_90")
    assert plain.manifest.outputs[0].text.startswith("[{}, {}, {}]")
    with pytest.raises(dk.CompileError, match="no form for what 'shows' prints"):
        dk.compile(dk.kernel(compiler="numba")(shows.func), Vec, target="sm_90")
    assert "print('x', " in shows.source(Vec, target="cuda")
