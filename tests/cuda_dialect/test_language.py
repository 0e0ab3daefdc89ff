"""What ``cuda.jit`` takes and refuses, which types numbers have, and numba's own objects in kernels."""

from __future__ import annotations

import linecache
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from conftest import require

import diffkern as dk
from diffkern import cuda
from diffkern.compiler.specialize import Specialization
from diffkern.contracts.launch_layout import Layout, lay_out

numba_cuda = require("numba.cuda")
TABLE = np.array([1.0, 2.0, 3.0])


@cuda.jit
def doubled(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


# -- launches ----------------------------------------------------------------------------------------------------------


def test_layouts():
    plain = lay_out((3, 2, 1), (8, 4, 1), together=False)
    assert plain == (Layout(2, (8, 4, 1)), (8, 24))
    together = lay_out((3, 2, 1), (8, 4, 1), together=True)
    assert together == (Layout(2, (8, 4, 1), True), (2, 3, 32))
    assert lay_out((3, 2, 5), (8, 4, 1), together=True) == (Layout(3, (8, 4, 1), True, 2), (10, 3, 32))
    assert lay_out((7, 1, 1), (16, 1, 1), together=True, shared=64) == (Layout(1, (16, 1, 1), True, 0, 64), (112,))


@pytest.mark.parametrize("blocks", [4, (4,), (4, 1), [4, 1, 1], np.int64(4)])
@pytest.mark.parametrize("threads", [8, (8, 1, 1)])
def test_blocks_and_threads_are_numbers_or_tuples(blocks, threads):
    out = np.zeros(30)
    doubled[blocks, threads](np.ones(30), out)
    assert (out == 2).all()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (4, "a launch has blocks and threads, then perhaps a stream and bytes of shared memory, not 4"),
        ((4,), "a launch has blocks and threads"),
        ((), "a launch has blocks and threads"),
        (None, "a launch has blocks and threads"),
        ((4, 0), "a block has 1 to 1024 threads, not 0"),
        ((4, 2048), "a block has 1 to 1024 threads, not 2048"),
        ((4, (32, 64)), "a block has 1 to 1024 threads, not 2048"),
        ((4, 8, 0, 0, 1), "a launch has blocks and threads"),
        (((1, 1, 1, 1), 8), "blocks are one to three numbers"),
        ((4.5, 8), "blocks are one to three numbers"),
        ((-1, 8), "blocks are one to three numbers"),
        ((4, 8, 0, -1), "the size of shared memory is a number of bytes"),
    ],
)
def test_launches_that_are_none(config, message):
    with pytest.raises(dk.LaunchError, match=message) as caught:
        doubled[config]
    assert "write doubled[blocks, threads](…)" in str(caught.value)


@pytest.mark.parametrize("given", [("all",), (None,), (5.0,), (5, 2.5)])
def test_numbers_of_tasks_that_are_none(given):
    with pytest.raises(dk.LaunchError, match="forall takes how many threads to launch"):
        doubled.forall(*given)


def test_a_kernel_is_not_called():
    with pytest.raises(dk.MisuseError, match="needs blocks and threads"):
        doubled(np.ones(3), np.zeros(3))


def test_a_launch_for_a_number_of_tasks():
    out = np.zeros(30)
    doubled.forall(30)(np.ones(30), out)
    assert (out == 2).all()
    assert doubled.forall(1000, tpb=128).blocks == (8, 1, 1)


def test_blocks_of_another_size_are_refused():
    launcher = doubled[4, 8]
    with pytest.raises(dk.LaunchError, match="for blocks of 8 threads, not 16"):
        dk.launch(launcher.kernel, launcher.dim, [np.ones(30)], [np.zeros(30)], block_dim=16)


def test_a_grid_of_no_blocks_runs_nothing():
    out = np.zeros(30)
    doubled[0, 8](np.ones(30), out)
    assert (out == 0).all()


@cuda.jit
def with_room(out):
    start = cuda.blockIdx.x * 6
    out[start + cuda.threadIdx.x] = cuda.blockIdx.x + 1


def test_blocks_may_be_given_more_room_than_they_have_threads():
    out = np.zeros(18)
    with_room[3, 4](out)
    np.testing.assert_array_equal(out.reshape(3, 6), [[k] * 4 + [0] * 2 for k in (1, 2, 3)])


def test_programs_for_launches_of_one_layout_are_one():
    assert doubled[4, 8].kernel is doubled[400, 8].kernel
    assert doubled[4, 8].kernel is not doubled[4, 16].kernel


def test_streams():
    out = np.zeros(30)
    stream = cuda.stream()
    doubled[4, 8, stream](np.ones(30), out)
    stream.synchronize()
    assert (out == 2).all()


# -- cuda.jit ----------------------------------------------------------------------------------------------------------


def test_options():
    @cuda.jit("void(float64[:], float64[::1])", fastmath=True, lineinfo=True, debug=True, max_registers=64, cache=True)
    def kernel(x, out):
        out[cuda.grid(1)] = x[cuda.grid(1)]

    options = kernel.options
    assert (options.fast_math, options.lineinfo, options.mode, options.max_registers) == (True, True, "debug", 64)
    with pytest.raises(dk.KernelRuntimeError, match="index 30 is out of bounds"):
        kernel[4, 8](np.ones(30), np.zeros(30))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"link": ["a.ptx"]}, "does not take link"), ({"nothing": 1}, "has no option 'nothing'"),
     ({"max_registers": 0}, "max_registers is a number of registers")],
)  # fmt: skip
def test_options_that_are_refused(options, message):
    with pytest.raises(dk.MisuseError, match=message):
        cuda.jit(**options)(lambda x: None)


@pytest.mark.parametrize(
    "signature",
    ["void(float64, float32[:])", "(f8, f4[::1])", (numba.float64, numba.float32[:]),
     numba.void(numba.float64, numba.float32[:]), ["void(f8, f4[:])"]],
)  # fmt: skip
def test_signatures(signature):
    @cuda.jit(signature)
    def filled(value, out):
        out[cuda.grid(1)] = value

    out = np.zeros(8, np.float32)
    filled[1, 8](3, out)
    assert (out == 3).all()
    with pytest.raises(dk.LaunchError, match="'out': takes array1d<float32>"):
        filled[1, 8](3, np.zeros(8))


@pytest.mark.parametrize("signature", ["void(float64", "void(quaternion[:])", "void(float64[:]) extra"])
def test_signatures_that_are_none(signature):
    with pytest.raises(dk.MisuseError, match="is no signature of a kernel"):
        cuda.jit(signature)


def test_a_signature_has_the_functions_parameters():
    @cuda.jit("void(float64[:])")
    def two(x, out):
        out[0] = x[0]

    with pytest.raises(dk.MisuseError, match="has 1 parameters, the function 2"):
        two[1, 1](np.ones(1), np.ones(1))


# -- numbers -----------------------------------------------------------------------------------------------------------


@cuda.jit
def of_narrow_integers(a, b, out):
    i = cuda.grid(1)
    out[i, 0] = a[i] * b[i] + a[i]
    out[i, 1] = a[i] - b[i]
    out[i, 2] = a[i] // 3 - b[i] % 7
    out[i, 3] = (a[i] > 10) + (b[i] > 10)
    total = 1
    for k in range(20):
        total *= 7
    out[i, 4] = total
    out[i, 5] = a[i] << 8
    out[i, 6] = a[i] - 200
    out[i, 7] = (a[i] & b[i]) - (b[i] | 5)
    count = 0
    for _ in range(b[i], -3, -2):
        count += 1
    out[i, 8] = count


@pytest.mark.parametrize("first", [np.uint8, np.int8, np.uint32])
@pytest.mark.parametrize("second", [np.uint8, np.int32])
def test_integers_are_computed_with_64_bits(first, second):
    a, b = np.arange(100, 108).astype(first), np.arange(8).astype(second) * 15
    out = np.zeros((8, 9), np.int64)
    of_narrow_integers[1, 8](a, b, out)

    @numba.njit
    def compiled(a, b):
        return (
            a * b + a, a - b, a // 3 - b % 7, (a > 10) + (b > 10), 7**20, a << 8, a - 200, (a & b) - (b | 5),
            len(range(b, -3, -2)),
        )  # fmt: skip

    expected = np.array([[int(n) for n in compiled(x, y)] for x, y in zip(a, b, strict=True)], dtype=object)
    np.testing.assert_array_equal(out, expected.astype(np.int64))


@cuda.jit
def in_doubles(n, out, narrow):
    i = cuda.grid(1)
    step = 1.0 / n
    x = i * step
    count = 0
    while x < 0.75:
        x += step / 3
        count += 1
    out[i] = x
    narrow[i] = count


def test_what_has_no_type_of_its_own_is_computed_in_float64():
    out, narrow = np.zeros(8), np.zeros(8, np.float32)
    in_doubles[1, 8](8, out, narrow)
    expected = np.zeros(8)
    for i in range(8):
        x = i * (1.0 / 8)
        while x < 0.75:
            x += (1.0 / 8) / 3
        expected[i] = x
    np.testing.assert_array_equal(out, expected)


def test_pythons_numbers_are_of_64_bits_and_take_the_type_of_float32_arrays():
    @cuda.jit
    def scaled(a, n, x, out):
        i = cuda.grid(1)
        out[i] = a * x[i] + n

    x = np.linspace(0, 1, 8)
    out = np.zeros(8)
    scaled[1, 8](0.1, 2**40, x, out)
    np.testing.assert_array_equal(out, 0.1 * x + 2**40)
    launcher = scaled[1, 8]
    text = launcher.kernel.ir(0.1, 3, x.astype(np.float32), x.astype(np.float32))
    assert "mul" in text
    assert "float64" not in text.split("mul")[1].splitlines()[0]


def test_stores_convert():
    @cuda.jit
    def stored(x, whole, flags):
        i = cuda.grid(1)
        whole[i] = x[i] * 10
        flags[i] = x[i]

    x = np.array([0.0, 0.39, -0.39, 1.25])
    whole, flags = np.zeros(4, np.int32), np.zeros(4, np.bool_)
    stored[1, 4](x, whole, flags)
    assert whole.tolist() == [0, 3, -3, 12]
    assert flags.tolist() == [False, True, True, True]


# -- numba's own objects -----------------------------------------------------------------------------------------------


@numba_cuda.jit(device=True)
def square_of(x):
    return x * x


@numba.njit
def cube_of(x):
    return x * x * x


@numba_cuda.jit
def reversed_squares(x, out):
    held = numba_cuda.shared.array(16, numba.float64)
    t = numba_cuda.threadIdx.x
    i = numba_cuda.grid(1)
    held[t] = square_of(x[i]) + cube_of(x[i])
    numba_cuda.syncthreads()
    out[i] = numba.float32(held[numba_cuda.blockDim.x - 1 - t])


def test_a_kernel_of_numba_is_a_kernel():
    kernel = dk.kernel(reversed_squares)
    x = np.arange(32.0)
    out = np.zeros(32)
    kernel[2, 16](x, out)
    expected = (x**2 + x**3).reshape(2, 16)[:, ::-1].ravel()
    np.testing.assert_array_equal(out, expected)
    given, result = dk.array(x, requires_grad=True), dk.zeros(32, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        kernel[2, 16](given, result)
    tape.backward(grads={result: dk.ones(32, dtype=dk.float64)})
    np.testing.assert_allclose(given.grad.numpy(), 2 * x + 3 * x**2)


def test_a_kernel_of_numbas_simulator_is_a_kernel(tmp_path):
    code = """
import numpy as np
import support.simulator_lock
from numba import cuda, float64
import diffkern as dk

@cuda.jit(device=True)
def square(x):
    return x * x

@cuda.jit
def kernel(x, out):
    held = cuda.shared.array(8, float64)
    held[cuda.threadIdx.x] = square(x[cuda.grid(1)])
    cuda.syncthreads()
    out[cuda.grid(1)] = held[7 - cuda.threadIdx.x]

x, here, there = np.arange(16.0), np.zeros(16), np.zeros(16)
kernel[2, 8](x, there)
dk.kernel(kernel)[2, 8](x, here)
print((here == there).all())
"""
    file = tmp_path / "simulated.py"
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(tests)}
    file.write_text(code)
    done = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True", done.stderr


def test_functions_of_numba_are_functions():
    function = dk.func(square_of)
    assert function(3.0) == 9.0

    @dk.kernel
    def native(x: dk.array(dtype=float), out: dk.array(dtype=float)):
        i = dk.tid()
        out[i] = function(x[i]) + cube_of(x[i])

    out = np.zeros(4, np.float32)
    native[4](np.arange(4, dtype=np.float32), out)
    assert out.tolist() == [0.0, 2.0, 12.0, 36.0]


def test_a_device_function_is_no_kernel():
    with pytest.raises(dk.MisuseError, match="square_of is a device function"):
        dk.kernel(square_of)


def test_options_of_a_kernel_of_numba_count():
    @numba_cuda.jit(fastmath=True, lineinfo=True)
    def kernel(x):
        x[0] = 1.0

    options = dk.kernel(kernel).options
    assert (options.fast_math, options.lineinfo) == (True, True)
    assert dk.kernel(kernel, enable_backward=False).options.enable_backward is False


def test_a_kernel_may_be_called_as_a_function():
    @cuda.jit
    def added(x, i, value):
        x[i] += value

    @cuda.jit
    def outer(x):
        added(x, cuda.grid(1), 2.0)

    x = np.zeros(8)
    outer[1, 8](x)
    assert (x == 2).all()


def test_names_imported_one_by_one():
    from diffkern.cuda import atomic, grid, threadIdx

    @cuda.jit
    def kernel(out):
        atomic.add(out, grid(1) - threadIdx.x, 1)

    out = np.zeros(16, np.int32)
    kernel[2, 8](out)
    assert out.tolist() == [8, *[0] * 7, 8, *[0] * 7]


def test_numba_is_not_imported():
    code = "import sys, diffkern.cuda; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# -- what the key knows ------------------------------------------------------------------------------------------------


def key_of(kernel, *types):
    return Specialization(kernel.func, kernel.argument_types(*types), kernel.variant).fields()


def test_the_key_knows_the_layout_and_the_contents_of_constants():
    def make(table):
        @cuda.jit
        def kernel(out):
            i = cuda.grid(1)
            out[i] = cuda.const.array_like(table)[i % 3]

        return kernel

    out = np.zeros(8)
    first, second = make(TABLE), make(TABLE + 1)
    assert key_of(first[1, 8].kernel, out) == key_of(make(TABLE.copy())[1, 8].kernel, out)
    assert key_of(first[1, 8].kernel, out) != key_of(second[1, 8].kernel, out)
    assert key_of(first[1, 8].kernel, out) != key_of(first[1, (4, 2)].kernel, out)
    for kernel, expected in ((first, [1.0, 2.0, 3.0, 1.0]), (second, [2.0, 3.0, 4.0, 2.0])):
        kernel[1, 4](out)
        assert out[:4].tolist() == expected


# -- refusals ----------------------------------------------------------------------------------------------------------


def refused(kernel, *arguments, launch=(1, 32)):
    with pytest.raises(dk.KernelError) as caught:
        kernel[launch](*arguments)
    return caught.value


def test_the_spelling_in_a_native_kernel():
    @dk.kernel
    def native(x: dk.array(dtype=float)):
        x[cuda.grid(1)] = 1.0

    with pytest.raises(dk.KernelTypeError, match="numba's spelling, in a kernel made by @dk") as caught:
        native[4](np.zeros(4, np.float32))
    assert "@cuda.jit" in caught.value.remedy


def test_a_barrier_that_threads_may_miss():
    @cuda.jit
    def kernel(x, n):
        i = cuda.grid(1)
        if i >= n:
            return
        x[i] = 1.0
        cuda.syncthreads()

    assert "some threads of a block may miss this barrier" in str(refused(kernel, np.zeros(32), 20))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x[cuda.grid(4)] = 0", "takes the number of axes: 1, 2 or 3"),
        ("x[cuda.warp] = 0", "cuda has no attribute 'warp'"),
        ("a = cuda.shared.array(n, np.float64)", "is known when the kernel is compiled"),
        ("a = cuda.shared.array(0, np.float64)", "the launch has no dynamic shared memory"),
        ("a = cuda.shared.array(8)", "takes a shape and a dtype"),
        ("a = cuda.shared.array(8, x)", "is no dtype"),
        ("cuda.atomic.add(x, 0)", "takes an array, an index and a value"),
        ("cuda.atomic.add(x, (0, 0), 1.0)", "got 2 indices for an array with 1 axis"),
        ("cuda.atomic.inc(x, 0, 3)", "on elements of type float64"),
        ("cuda.atomic.cas(x, 0, 1.0, 2.0)", "on elements of type float64"),
        ("x[0] = cuda.shfl_sync(0xff, x[0], 0)", "of a part of a warp"),
        ("cuda.threadfence()", "orders accesses between threads that do not wait"),
        ("x[0] = cuda.popc(x[0])", "of float64"),
    ],
)
def test_calls_that_are_refused(body, message, tmp_path):
    file = tmp_path / "refused.py"
    file.write_text(f"import numpy as np\nfrom diffkern import cuda\n@cuda.jit\ndef kernel(x, n):\n    {body}\n")
    namespace = {}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    error = refused(namespace["kernel"], np.zeros(32), 20)
    assert message in str(error)
    assert error.loc.line >= 5


def test_a_barrier_that_no_launch_could_be_laid_out_for():
    @cuda.jit
    def kernel(x):
        module = cuda
        module.syncthreads()
        x[0] = 1.0

    kernel[1, 32](np.zeros(32))
    assert "is reached by way of a variable" in str(refused(kernel, np.zeros(32), launch=(1, (8, 4))))


def test_a_function_that_begins_to_work_together_lays_launches_out_anew():
    namespace = {"cuda": cuda, "np": np}

    def define(text):
        exec_in_file(text, namespace)

    define("@cuda.jit(device=True)\ndef value(x, i, j):\n    return x[j, i]\n")
    define(
        "@cuda.jit\ndef kernel(x, out):\n    i, j = cuda.grid(2)\n"
        "    out[j, i] = value(x, i, j) + 100 * cuda.blockIdx.y + cuda.threadIdx.y\n"
    )
    kernel = namespace["kernel"]
    x = np.arange(32.0).reshape(4, 8)
    y = np.arange(4)[:, None]
    for scale in (1.0, 2.0):
        out = np.zeros((4, 8))
        kernel[(2, 2), (4, 2)](x, out)
        np.testing.assert_array_equal(out, scale * x + 100 * (y // 2) + y % 2)
        define(
            "@cuda.jit(device=True)\ndef value(x, i, j):\n    held = cuda.shared.array((2, 4), np.float64)\n"
            "    held[1 - cuda.threadIdx.y, cuda.threadIdx.x] = 2 * x[j, i]\n    cuda.syncthreads()\n"
            "    return held[1 - cuda.threadIdx.y, cuda.threadIdx.x]\n"
        )


_files = iter(range(1000))


def exec_in_file(text, namespace):
    """Run a text of which kernels find their source."""
    name = f"<cuda dialect {next(_files)}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    exec(compile(text, name, "exec"), namespace)


def test_dynamic_memory_has_one_type():
    @cuda.jit
    def kernel(x):
        a = cuda.shared.array(0, np.float64)
        b = cuda.shared.array(0, np.int32)
        a[0] = b[0]

    assert "is an array of float64 elsewhere, and of int32 here" in str(
        refused(kernel, np.zeros(32), launch=(1, 32, 0, 256))
    )


def test_the_most_registers_of_a_thread():
    require("nvidia.cu13")

    @cuda.jit(max_registers=40)
    def kernel(x):
        x[cuda.grid(1)] = 1.0

    for compiler in ("llvm", "numba"):
        made = dk.compile((kernel[1, 8].kernel, np.zeros(8)), target="sm_90", compiler=compiler)
        assert ".maxnreg 40" in made.ptx


def test_names_say_what_they_are():
    assert repr(cuda.atomic.add) == "<cuda.atomic.add(array, index, value)>"
    assert cuda.grid.__doc__.startswith("cuda.grid(ndim)")
    assert pickle.loads(pickle.dumps(cuda.atomic.add)) is cuda.atomic.add
    with pytest.raises(dk.KernelError, match="can only be called inside a kernel"):
        cuda.grid(1)
