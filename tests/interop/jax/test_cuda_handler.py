"""The handler for CUDA, called with a frame as XLA would make it, over a driver that works in the host's memory.

Programs are compiled to real cubins for sm_90; what the fake driver launches in their place is the same program for the
CPU, on the very argument block that the driver would copy: both targets have one ABI. Batches run as PTX as well.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import replace

import jax_kernels as k
import numpy as np
import pytest
from conftest import require
from support.ptx import Launch
from support.ptx import launch as interpret
from support.ptx.image import load_image
from support.ptx.programs import allocations_of, ptx_of

require("jax", "cuda.core")

import jax
import jax.numpy as jnp

import diffkern as dk
from diffkern.compiler.specialize import Specialization, load, load_entry
from diffkern.contracts import abi
from diffkern.contracts.argument_block import gpu_header
from diffkern.contracts.options import Variant
from diffkern.interop.jax import cuda, ffi_api, programs
from diffkern.interop.jax.layout import HANDLER, REGISTRY
from diffkern.interop.jax.registry import key_words
from diffkern.ir.types import parse_type

I32, I64, P = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p
KERNEL = ctypes.CFUNCTYPE(None, I64, I64, I64)
STREAM = 0x57EA


class FakeDriver:
    """Memory of the device is memory of the host; launches are recorded, and run by programs for the CPU."""

    def __init__(self):
        self.loaded, self.launches, self.clears, self.copies, self.functions = {}, [], [], [], []
        self.refuse = 0
        self.cpu, self.ptx = {}, {}
        self.allocations = None
        u32 = ctypes.c_uint32
        self.callbacks = (
            ctypes.CFUNCTYPE(I32, I64, u32, u32, u32, u32, u32, u32, u32, I64, I64, I64)(self.launch),
            ctypes.CFUNCTYPE(I32, I64, ctypes.c_uint8, I64, I64)(self.clear),
            ctypes.CFUNCTYPE(I32, I64, I64, I64, I64)(self.copy),
            ctypes.CFUNCTYPE(I32, I64, I64)(self.function),
        )

    def addresses(self):
        return tuple(ctypes.cast(c, P).value for c in self.callbacks)

    def version(self):
        return 13000

    def load(self, image, symbol):
        assert image[:4] == b"\x7fELF"
        self.loaded[len(self.loaded) + 77] = symbol
        return len(self.loaded) + 76

    def launch(self, kernel, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        assert (gy, gz, by, bz, extra, stream) == (1, 1, 1, 1, 0, STREAM)
        if self.refuse:
            return self.refuse
        (block,) = struct.unpack("q", ctypes.string_at(params, 8))
        executable = self.cpu[self.loaded[kernel]]
        _, size = abi.layout([parse_type(p.type) for p in executable.manifest.params])
        content = bytearray(ctypes.string_at(block, size))
        dims = struct.unpack_from("4q", content, abi.DIMS)
        # Its own arithmetic, on the extents of this call.
        assert content[abi.DIMS : abi.HEADER_SIZE] == gpu_header(dims)[abi.DIMS :]
        n = int(np.prod(dims))
        self.launches.append((gx, bx, shared, dims))
        if self.allocations is not None:
            text, room = ptx_of(self.ptx[self.loaded[kernel]])
            interpret(load_image(text), "kernel", Launch(gx, bx, bytes(content), room, seed=1), self.allocations)
            return 0
        # What the CPU's program wants besides: one chunk, and room for its sums.
        sums = np.zeros(max(1, executable.sites), np.int64)
        struct.pack_into("2q", content, abi.CHUNK, n, sums.ctypes.data)
        held = (ctypes.c_char * size).from_buffer(content)
        KERNEL(executable.address)(ctypes.addressof(held), 0, n)
        if executable.sites:
            KERNEL(executable.finish)(ctypes.addressof(held), 0, 1)
        return 0

    def clear(self, at, value, size, stream):
        self.clears.append(size)
        ctypes.memset(at, value, size)
        return 0

    def copy(self, goal, source, size, stream):
        self.copies.append(size)
        ctypes.memmove(goal, source, size)
        return 0

    def function(self, place, kernel):
        self.functions.append(kernel)
        return self.refuse


class Frame:
    """An XLA_FFI_CallFrame and all that it points to."""

    def __init__(self, words, operands, results, stage=ffi_api.STAGE_EXECUTE):
        self.kept, self.error = [], None
        attribute = self.array(np.asarray(words, np.int64))
        call = self.block(struct.pack("iiqq", 5, 0, len(words), attribute))
        attrs = struct.pack("6q", 48, 0, 1, 0, 0, self.pointers([call]))
        args = struct.pack("5q", 40, 0, len(operands), 0, self.pointers([self.buffer(x) for x in operands]))
        rets = struct.pack("5q", 40, 0, len(results), 0, self.pointers([self.buffer(x) for x in results]))
        self.create = ctypes.CFUNCTYPE(P, P)(self.on_error)
        self.get_stream = ctypes.CFUNCTYPE(P, P)(self.on_stream)
        table = np.zeros(30, np.int64)
        table[6], table[10] = (ctypes.cast(f, P).value for f in (self.create, self.get_stream))
        head = struct.pack("4qii", 168, 0, self.array(table), 0xC0, stage, 0)
        self.address = self.block(head + args + rets + attrs + bytes(8))

    def block(self, data):
        held = ctypes.create_string_buffer(data, len(data))
        self.kept.append(held)
        return ctypes.addressof(held)

    def array(self, values):
        self.kept.append(values)
        return values.ctypes.data

    def pointers(self, addresses):
        return self.array(np.array([*addresses, 0], np.int64))

    def buffer(self, x):
        shape = self.array(np.array([*x.shape, 0], np.int64))
        dtype = ffi_api.DATA_TYPES[x.dtype.name]
        return self.block(struct.pack("2qiiqqq", 48, 0, dtype, 0, self.array(x), x.ndim, shape))

    def on_error(self, arguments):
        size, _, message, code = struct.unpack("qqqi", ctypes.string_at(arguments, 28))
        assert size == ffi_api.SIZES["XLA_FFI_Error_Create_Args"]
        self.error = ctypes.string_at(message).decode(), code
        return 0xE0

    def on_stream(self, arguments):
        (context,) = struct.unpack_from("q", ctypes.string_at(arguments, 24), 16)
        assert context == 0xC0
        ctypes.memmove(arguments + 24, struct.pack("q", STREAM), 8)
        return None


class Machine:
    """JAX's view of a GPU: calls are traced for it, and its handler runs them here."""

    def __init__(self):
        self.driver = FakeDriver()
        self.gpu = cuda.ArchitectureGpus(self.driver, 90)
        addresses = self.gpu.registry.addresses()
        self.gpu.registry.attach(addresses[REGISTRY])
        self.handler = ctypes.CFUNCTYPE(P, P)(addresses[HANDLER])
        self.calls = []

    def run(self, name, operands, results, dims, executed=False, **more):
        if executed:
            self.driver.allocations = allocations_of([*operands, *results])
        words = [*key_words(name), more.pop("batched", 0), more.pop("flags", 0)]
        for d in dims:
            words += [*d, 1, 1, 1][:4]
        frame = Frame(words, operands, results, **more)
        answer = self.handler(frame.address)
        assert (answer is None) == (frame.error is None)
        return frame.error


@pytest.fixture
def machine(monkeypatch):
    made = Machine()
    monkeypatch.setattr(cuda, "present", lambda: made.gpu)
    original = programs._on_gpu

    def on_gpu(gpu, kernel, generation, specialization):
        program = original(gpu, kernel, generation, specialization)
        symbol = made.driver.loaded[program.code.kernel]
        # The CPU's form of the same program.
        made.driver.cpu[symbol] = load(specialization)
        made.driver.ptx[symbol] = specialization.for_arrays_apart().compilation("sm_90").fn
        return program

    kept = programs.keep

    def keep(call, used, gpu=None):
        name = kept(call, used, gpu)
        if gpu is not None:
            made.calls.append((name, call))
        return name

    monkeypatch.setattr(programs, "_on_gpu", on_gpu)
    monkeypatch.setattr(programs, "keep", keep)
    return made


def lowered(function, *args):
    """The program that JAX would compile for a GPU."""
    return jax.jit(function).trace(*args).lower(lowering_platforms=("cuda",)).as_text()


def test_forward(machine):
    f = dk.jax_kernel(k.wave)
    x, y, a = np.linspace(-1, 2, 1000, dtype=np.float32), np.ones(1000, np.float32), np.float32(2.0)
    text = lowered(f, jnp.asarray(x), jnp.asarray(y), jnp.float32(2.0))
    ((name, _),) = machine.calls
    assert str(key_words(name)[0]) in text
    out = np.full(1000, 7, np.float32)
    assert machine.run(name, [x, y, np.array(a)], [out], [(1000,)]) is None
    np.testing.assert_allclose(out, np.sin(2 * x), rtol=1e-5, atol=1e-6)
    assert machine.driver.launches == [(1, 256, 0, (1000, 1, 1, 1))]  # a thread takes four elements
    assert machine.driver.clears == []  # it is overwritten as a whole


def test_a_launch_of_tiles_counts_blocks(machine):
    lowered(dk.jax_kernel(k.cubes_of_tiles, launch_dims=6, output_dims=48), jnp.ones(48))
    ((name, _),) = machine.calls
    x, out = np.linspace(-1, 2, 48, dtype=np.float32), np.zeros(48, np.float32)
    assert machine.run(name, [x], [out], [(6,)]) is None
    np.testing.assert_allclose(out, x**3, rtol=1e-5)
    assert machine.driver.launches == [(6, 256, 0, (6, 1, 1, 1))]


def test_blocks_of_threads_are_refused(machine):
    with pytest.raises(dk.LaunchError, match="works in blocks of threads, which calls from JAX have on the CPU alone"):
        lowered(dk.jax_kernel(k.turned_in_blocks), jnp.ones(512))
    assert not machine.calls


def test_part_of_an_output_is_cleared_first(machine):
    lowered(dk.jax_kernel(k.wave, launch_dims=10, output_dims=20), jnp.ones(20), jnp.ones(20), 1.0)
    ((name, _),) = machine.calls
    out = np.full(20, 7, np.float32)
    machine.run(name, [np.ones(20, np.float32)] * 2 + [np.ones((), np.float32)], [out], [(10,)])
    assert machine.driver.clears == [80]
    np.testing.assert_allclose(out[10:], 0)


def test_gradient(machine):
    f = dk.jax_kernel(k.wave)
    n = 500
    x, y = np.linspace(-1, 2, n, dtype=np.float32), np.linspace(1, 3, n, dtype=np.float32)
    lowered(jax.grad(lambda x, y, a: f(x, y, a)[0].sum(), argnums=(0, 1, 2)), jnp.asarray(x), jnp.asarray(y), 1.5)
    name, call = machine.calls[-1]
    assert call.name == "adjoint of wave"
    arrays = iter([x, y, np.ones(n, np.float32)])
    operands = [np.array(1.5, np.float32) if b.rank == 0 else next(arrays) for b in call.operands]
    results = [np.full((1,) if i == 2 else (n,), 9, np.float32) for i in range(4)]
    assert machine.run(name, operands, results, [(n,)]) is None
    expected = jax.grad(lambda x, y, a: (jnp.sin(a * x) * y).sum(), argnums=(0, 1, 2))(x, y, 1.5)
    for got, want in zip(results, expected, strict=False):
        np.testing.assert_allclose(got.reshape(np.shape(want)), want, rtol=1e-4, atol=1e-5)


def test_batch_is_a_loop_over_launches(machine):
    lowered(dk.jax_kernel(k.smooth), jnp.ones(12))
    ((name, _),) = machine.calls
    xs = np.sin(np.arange(60, dtype=np.float32)).reshape(5, 12)
    out = np.empty_like(xs)
    assert machine.run(name, [xs], [out], [(12,)], batched=1, flags=1) is None
    assert len(machine.driver.launches) == 5
    left, right = xs[:, [0, *range(11)]], xs[:, [*range(1, 12), 11]]
    np.testing.assert_allclose(out, (left * xs + right) / 12, rtol=1e-5)


def test_a_batch_of_arrays_and_numbers_is_one_launch(machine):
    f = dk.jax_kernel(k.wave)
    xs, y, scales = np.sin(np.arange(60, dtype=np.float32)).reshape(5, 12), np.ones(12, np.float32), np.arange(5.0)
    scales = scales.astype(np.float32)
    lowered(jax.vmap(lambda x, y, a: f(x, y, a)[0], (0, None, 0)), xs, y, scales)
    name, _ = machine.calls[-1]
    for executed in (False, True):
        out = np.empty_like(xs)
        assert machine.run(name, [xs, y, scales], [out], [(5, 12)], executed) is None
        np.testing.assert_allclose(out, np.sin(scales[:, None] * xs), rtol=1e-5, atol=1e-6)
    assert [dims for *_, dims in machine.driver.launches] == [(5, 12, 1, 1)] * 2


def test_a_batch_of_gradients_is_one_launch(machine):
    lowered(jax.vmap(jax.grad(lambda x: dk.jax_kernel(k.smooth)(x)[0].sum())), jnp.ones((5, 12)))
    name, call = machine.calls[-1]
    assert call.name == "adjoint of smooth"
    xs, ct = np.cos(np.arange(60, dtype=np.float32)).reshape(5, 12), np.ones((5, 12), np.float32)
    operands = [xs if i == 0 else ct for i in range(len(call.operands))]

    def total(x):
        at = jnp.arange(12)
        return ((x[jnp.maximum(at - 1, 0)] * x + x[jnp.minimum(at + 1, 11)]) / 12).sum()

    for executed in (False, True):
        results = [np.zeros((5, 12), np.float32) for _ in call.results]
        assert machine.run(name, operands, results, [(5, 12)], executed) is None
        np.testing.assert_allclose(results[0], jax.vmap(jax.grad(total))(xs), rtol=1e-4, atol=1e-5)
    assert [dims for *_, dims in machine.driver.launches] == [(5, 12, 1, 1)] * 2


def test_in_out_is_copied_unless_aliased(machine):
    lowered(dk.jax_kernel(k.square, in_out_argnames="y"), jnp.ones(50))
    ((name, _),) = machine.calls
    y, out = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    machine.run(name, [y], [out], [(50,)])
    np.testing.assert_allclose(out, np.arange(50.0) ** 2)
    assert machine.driver.copies == [200]
    machine.run(name, [y], [y], [(50,)])
    np.testing.assert_allclose(y, np.arange(50.0) ** 2)
    assert machine.driver.copies == [200]


def test_symbolic_dims_come_from_an_operand(machine):
    lowered(dk.jax_kernel(k.smooth), jnp.ones(12))
    ((name, _),) = machine.calls
    x, out = np.ones(9, np.float32), np.zeros(9, np.float32)
    assert machine.run(name, [x, np.zeros((0, 9), np.int8)], [out], []) is None
    assert machine.driver.launches == [(1, 256, 0, (9, 1, 1, 1))]


def test_extents_that_indices_do_not_reach_are_errors(machine):
    """As of a launch from Python; only an empty one may have them."""
    lowered(dk.jax_kernel(k.smooth), jnp.ones(12))
    ((name, _),) = machine.calls
    x, out, large = np.ones(9, np.float32), np.zeros(9, np.float32), 2**31
    for dims, operands in (((large,), ()), ((3, large + 5), ()), ((), [np.zeros((0, large), np.int8)])):
        message, code = machine.run(name, [x, *operands], [out], [dims] if dims else [])
        assert code == ffi_api.ERROR_CODES["INVALID_ARGUMENT"]
        assert message.startswith("diffkern: smooth: each extent of a launch is at least 0 and less than 2**31, not 21")
    assert machine.driver.launches == []
    assert machine.run(name, [x], [out], [(0, large)]) is None
    assert machine.run(name, [x, np.zeros((0, 0, large), np.int8)], [out], []) is None
    assert machine.driver.launches == []


def test_launch_dims_of_a_large_array_are_refused_while_jax_traces():
    with pytest.raises(dk.LaunchError, match=r"an extent of them is 2147483648; each is less than 2\*\*31"):
        jax.eval_shape(dk.jax_kernel(k.smooth), jax.ShapeDtypeStruct((2**31,), jnp.float32))


def test_kernels_are_loaded_before_execution(machine):
    lowered(dk.jax_kernel(k.smooth), jnp.ones(12))
    ((name, _),) = machine.calls
    x, out = np.ones(12, np.float32), np.zeros(12, np.float32)
    assert machine.run(name, [x], [out], [(12,)], stage=ffi_api.STAGE_INITIALIZE) is None
    assert machine.driver.functions == [77]
    assert machine.driver.launches == []
    machine.driver.refuse = 201
    error = machine.run(name, [x], [out], [(12,)], stage=ffi_api.STAGE_INITIALIZE)
    assert error == ("diffkern: smooth: the CUDA driver refused it with error 201", ffi_api.ERROR_CODES["INTERNAL"])


def test_errors_of_the_driver_are_errors_of_xla(machine):
    lowered(dk.jax_kernel(k.smooth), jnp.ones(12))
    ((name, _),) = machine.calls
    machine.driver.refuse = 719
    message, _ = machine.run(name, [np.ones(12, np.float32)], [np.ones(12, np.float32)], [(12,)])
    assert "719" in message


def test_mistaken_calls_are_errors(machine):
    lowered(dk.jax_kernel(k.smooth), jnp.ones(12))
    ((name, _),) = machine.calls
    x = np.ones(12, np.float32)
    assert "is not known in this process" in machine.run("ab" * 32, [x], [x], [(12,)])[0]
    assert "takes 1 operands, not 2" in machine.run(name, [x, x], [x], [(12,)])[0]
    assert "gives 1 results, not 0" in machine.run(name, [x], [], [(12,)])[0]
    assert "rank 2" in machine.run(name, [x.reshape(3, 4)], [x], [(12,)])[0]
    assert "data type 12" in machine.run(name, [x.astype(np.float64)], [x], [(12,)])[0]
    assert "wrong number of launch dims" in machine.run(name, [x], [x], [(12,), (12,)])[0]
    assert machine.driver.launches == []


def test_the_handler_says_that_it_may_be_captured(machine):
    metadata = np.zeros(6, np.int64)
    extension = np.array([24, 1, 0, metadata.ctypes.data], np.int64)
    frame = np.zeros(22, np.int64)
    frame[0], frame[1] = 168, extension.ctypes.data
    assert machine.handler(frame.ctypes.data) is None
    content = metadata.tobytes()
    assert struct.unpack_from("ii", content, 8 + 16) == (0, 1)
    assert struct.unpack_from("i", content, 32) == (ffi_api.COMMAND_BUFFER_COMPATIBLE,)


def test_by_reference_programs_do_the_same():
    """On the CPU: values through pointers, against values in the block."""
    keys = ("array1d<float32,C>", "array1d<float32,C>", "float32", "array1d<float32,C>")
    types = tuple(dk.kernel(k.wave.func).argument_types())
    assert tuple(map(str, types)) == keys
    executable = load(Specialization(k.wave.func, types, Variant(by_reference=True)))
    assert executable.manifest.params[2].type == "array1d<float32,C>"
    x, y = (np.linspace(-1, 2, 100, dtype=np.float32) for _ in range(2))
    a, out = np.array([1.5], np.float32), np.zeros(100, np.float32)
    packed = b"".join(struct.pack("3q", v.ctypes.data, v.size, 4) for v in (x, y, a, out))
    executable.run(executable.grid(100), packed)
    np.testing.assert_allclose(out, np.sin(1.5 * x) * y, rtol=1e-5)


@pytest.mark.gpu
def test_on_a_gpu():
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")
    f = dk.jax_kernel(k.wave)
    x, y = jnp.linspace(-1, 2, 100_000), jnp.ones(100_000)
    loss = jax.jit(jax.value_and_grad(lambda x, y, a: (f(x, y, a)[0] ** 2).sum(), argnums=(0, 1, 2)))
    reference = jax.value_and_grad(lambda x, y, a: ((jnp.sin(a * x) * y) ** 2).sum(), argnums=(0, 1, 2))
    for _ in range(3):
        for p, q in zip(jax.tree.leaves(loss(x, y, 1.5)), jax.tree.leaves(reference(x, y, 1.5)), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("options", "threads"), [({"block_dim": 64}, 64), ({"launch_bounds": (96, 4)}, 96)])
def test_blocks_are_the_kernels_own(machine, options, threads):
    f = dk.jax_kernel(dk.kernel(**options)(k.wave.func))
    x, y = np.linspace(-1, 2, 1000, dtype=np.float32), np.ones(1000, np.float32)
    jax.jit(jax.grad(lambda x: f(x, jnp.asarray(y), jnp.float32(2.0))[0].sum())).trace(jnp.asarray(x)).lower(
        lowering_platforms=("cuda",)
    )
    name = machine.calls[0][0]
    out = np.zeros(1000, np.float32)
    assert machine.run(name, [x, y, np.array(2.0, np.float32)], [out], [(1000,)]) is None
    np.testing.assert_allclose(out, np.sin(2 * x), rtol=1e-5, atol=1e-6)
    assert machine.driver.launches == [(-(-1000 // (4 * threads)), threads, 0, (1000, 1, 1, 1))]
    assert {code.threads for code in machine.gpu._loaded.values()} == {threads}


def test_grids_have_no_more_threads_than_can_be_counted(machine):
    f = dk.jax_kernel(k.wave)
    lowered(f, jnp.ones(4), jnp.ones(4), jnp.float32(2.0))
    (code,) = machine.gpu._loaded.values()
    assert code.blocks * code.threads <= 2**31 - code.threads


def test_what_cannot_be_launched_is_refused_while_tracing(machine, monkeypatch):
    entry = programs.load_entry

    def greedy(specialization, target):
        found = entry(specialization, target)
        taken = replace(found.manifest.resources, registers=72)
        return replace(found, program=replace(found.manifest, gpu=taken))

    monkeypatch.setattr(programs, "load_entry", greedy)
    given = jnp.ones(4), jnp.ones(4), jnp.float32(2.0)
    with pytest.raises(dk.LaunchError, match=r"takes 72 registers .* blocks of 1024(?s:.+)launch_bounds=1024"):
        lowered(dk.jax_kernel(dk.kernel(block_dim=1024)(k.wave.func)), *given)
    lowered(dk.jax_kernel(dk.kernel(block_dim=512)(k.wave.func)), *given)


def test_exact_sums_are_refused_while_tracing(machine):
    @dk.kernel(deterministic=True)
    def scatter(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i // 2] += x[i]

    with pytest.raises(dk.LaunchError, match=r"'.*scatter' is deterministic.*exact sums(?s:.+)leave deterministic out"):
        lowered(dk.jax_kernel(scatter), jnp.ones(4))


def test_programs_rely_on_arrays_that_are_apart(machine, monkeypatch):
    made, entry = [], programs.load_entry

    def noted(specialization, target):
        made.append(specialization.variant.may_alias)
        return entry(specialization, target)

    monkeypatch.setattr(programs, "load_entry", noted)
    f = dk.jax_kernel(k.decay, in_out_argnames="y", num_outputs=2)
    lowered(jax.grad(lambda y: f(y, 0.5)[0].sum()), jnp.ones(50))
    assert set(made) == {False}
    assert {call.name for _, call in machine.calls} == {"decay", "adjoint of decay"}


@dk.kernel
def shifted(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] + 1.0


class Older(FakeDriver):
    """A driver of CUDA 12, which takes no machine code of CUDA 13."""

    def __init__(self, version, refusal=200):
        super().__init__()
        self._version, self._refusal, self.tried = version, refusal, []

    def version(self):
        return self._version

    def load(self, image, symbol):
        self.tried.append("cubin" if image[:4] == b"\x7fELF" else "ptx")
        if self.tried[-1] == "cubin":
            raise dk.CudaError("cuLibraryLoadData failed", code=self._refusal)
        return 77


@pytest.mark.parametrize(
    ("driver", "arch", "tried"),
    [(Older(12090), 90, ["ptx"]), (Older(13000, 209), 90, ["cubin", "ptx"]), (Older(13000), 130, ["ptx"])],
)
def test_the_driver_compiles_what_it_cannot_run(driver, arch, tried):
    entry = load_entry(Specialization(shifted.func, shifted.argument_types()), "sm_90")
    assert cuda.ArchitectureGpus(driver, arch).code(entry).kernel == 77
    assert driver.tried == tried


def test_drivers_that_cannot_compile_it_are_named():
    entry = load_entry(Specialization(shifted.func, shifted.argument_types()), "sm_90")
    with pytest.raises(dk.CudaError, match=r"supports CUDA 12\.0.*needs CUDA 12\.1"):
        cuda.ArchitectureGpus(Older(12000), 90).code(entry)
    with pytest.raises(dk.CudaError, match="cuLibraryLoadData"):
        cuda.ArchitectureGpus(Older(13000, refusal=2), 90).code(entry)
