"""What a GPU's code takes for granted of a launch: looked at before it, and another program taken where it can be."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
from conftest import require
from runtime_cuda_kernels import Particle, drift, neighbours, square, total
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern.cache.manifest import StoredArtifact
from diffkern.cache.store import Store
from diffkern.compiler import specialize, stores
from diffkern.contracts.argument_block import Layout
from diffkern.contracts.manifest import GpuResources, Manifest, ProgramParameter
from diffkern.errors import LaunchError
from diffkern.runtime.cuda.preconditions import ArrayRules
from diffkern.runtime.cuda.program import executable
from diffkern.runtime.launch.schedule import Blocks
from diffkern.shipping.ship import compile_ahead

G = "cuda:0"


class Foreign:
    """Memory of another library on the GPU, at an offset in bytes."""

    def __init__(self, held, offset=0):
        found = dict(held.__cuda_array_interface__)
        found["data"] = (found["data"][0] + offset, False)
        found["shape"] = (found["shape"][0] - (1 if offset else 0), *found["shape"][1:])
        self.__cuda_array_interface__ = found
        self.held = held


def programs(driver):
    dk.synchronize()
    return [launched.name for launched in driver.launches]


# -- overlaps ----------------------------------------------------------------------------------------------------------


def test_overlapping_arrays_have_a_program_of_their_own(driver):
    x, y = dk.ones(65, device=G), dk.zeros(64, device=G)
    dk.launch(square, 64, inputs=[x[:64], y, 2.0])
    loaded = driver.names().count("load_module")
    dk.launch(square, 64, inputs=[x[:64], x[:64], 2.0])
    with pytest.raises(LaunchError, match="'x' and 'y' share memory"):
        dk.launch(square, 64, inputs=[x[:64], x[1:], 2.0])
    dk.launch(square, 32, inputs=[x[:32], x[32:64], 3.0])
    apart, same, halves = programs(driver)
    assert driver.names().count("load_module") == loaded + 1
    assert same != apart == halves


def test_arrays_that_are_only_read_may_overlap(driver):
    x, y = dk.ones(64, device=G), dk.zeros(64, device=G)
    dk.launch(square, 64, inputs=[y, x, 2.0])
    dk.launch(three, 64, inputs=[x, x, y])
    assert driver.names().count("load_module") == 2
    dk.launch(three, 64, inputs=[x, y, x])
    assert driver.names().count("load_module") == 3


@dk.kernel
def pick(x: dk.array(dtype=float), index: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[index[i]]


@dk.kernel
def three(a: dk.array(dtype=float), b: dk.array(dtype=float), c: dk.array(dtype=float)):
    i = dk.tid()
    c[i] = a[i] + b[i]


def test_interleaved_elements_do_not_overlap(driver):
    x = dk.ones(64, device=G)
    dk.launch(square, 32, inputs=[x[::2], x[1::2], 2.0])
    dk.launch(square, 32, inputs=[x[::2], x[::2], 2.0])
    first, second = programs(driver)
    assert first != second


def test_records_look_again_when_an_array_is_set(driver):
    x, y = dk.ones(64, device=G), dk.zeros(64, device=G)
    record = dk.launch(square, 64, inputs=[x, y, 2.0], record_cmd=True)
    for given in (y, x, y):
        record.set_param_by_name("y", given)
        record.set_param_by_name("a", 1.5)
        record.launch()
    record.set_params([y, y, 1.0])
    record.launch()
    first, second, third, fourth = programs(driver)
    assert first == third != second == fourth
    assert struct.unpack_from("f", driver.launches[1].block, len(driver.launches[1].block) - 8) == (1.5,)


def test_adjoint_with_gradients_in_one_array(driver):
    x, y = dk.ones(64, device=G), dk.zeros(64, device=G)
    apart, together = (dk.zeros(64, device=G), dk.ones(64, device=G)), dk.ones(64, device=G)
    given = {"inputs": [x], "outputs": [y], "adjoint": True}
    dk.launch(neighbours, 64, **given, adj_inputs=[apart[0]], adj_outputs=[apart[1]])
    record = dk.launch(neighbours, 64, **given, adj_inputs=[apart[0]], adj_outputs=[apart[1]], record_cmd=True)
    record.launch()
    first, second = programs(driver)
    assert first == second
    with pytest.raises(LaunchError, match="share memory"):
        dk.launch(neighbours, 64, **given, adj_inputs=[together], adj_outputs=[together])


def test_adjoint_whose_gradients_overlap(driver):
    """Two inputs share a gradient: their threads meet, and the program may not take the arrays for separate."""
    a, b, c = (dk.ones(64, device=G) for _ in range(3))
    given = {"inputs": [a, b], "outputs": [c], "adjoint": True}
    for second in (dk.zeros(64, device=G), None):
        first, of_c = dk.zeros(64, device=G), dk.ones(64, device=G)
        second = first if second is None else second
        dk.launch(three, 64, **given, adj_inputs=[first, second], adj_outputs=[of_c])
        assert first.list() == [2.0 if second is first else 1.0] * 64
    apart, together = programs(driver)
    assert apart != together


def test_a_machine_with_shipped_programs_compiles_nothing(tmp_path, monkeypatch):
    """Whatever lies where: launches, gradients, gradients that are shared, copies and sums of parts of arrays."""
    require("cuda.bindings.nvjitlink")
    compile_ahead([three, pick], ["sm_90"], tmp_path, processes=1)
    monkeypatch.setattr(stores, "_directories", [Store(tmp_path)])
    monkeypatch.setattr(specialize, "_entries", {})
    monkeypatch.setattr(specialize, "build_entry", None)
    with fake_cuda(target="sm_90") as driver:
        x, y, z = (dk.ones(64, device=G, requires_grad=True) for _ in range(3))
        dk.launch(three, 64, inputs=[x, x, y])
        dk.launch(three, 64, inputs=[x, y, y], record_tape=False)
        first, second = programs(driver)
        assert first != second
        for inputs in ([x, y, z], [x, x, z]):
            with dk.Tape() as tape:
                dk.launch(three, 64, inputs=inputs)
            tape.backward(grads={z: dk.ones(64, device=G)})
        assert len(set(programs(driver)[-4::2])) == 1
        assert len(set(programs(driver)[-3::2])) == 2
        index = dk.zeros(64, dtype=int, device=G)
        with dk.Tape() as tape:
            dk.launch(pick, 64, inputs=[x, index, y])
        tape.backward(grads={y: dk.ones(64, device=G)})
        dk.copy(x[::2], y[:32])
        x[::2].fill_(3.0)


def test_fields_of_structs_do_not_overlap(driver):
    p = dk.zeros(8, dtype=Particle, device=G)
    before = driver.names().count("load_module")
    dk.launch(drift, 8, inputs=[p])
    dk.synchronize()
    assert driver.names().count("load_module") == before + 1


# -- where arrays begin ------------------------------------------------------------------------------------------------


@dk.kernel
def scaled(x: dk.array(dtype=dk.vec4), y: dk.array(dtype=dk.vec4)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


def test_misaligned_memory_is_refused():
    require("cuda.bindings.nvjitlink")
    with fake_cuda(target="sm_90") as driver:
        x, y = dk.zeros(9, dtype=dk.vec4, device=G), dk.zeros(9, dtype=dk.vec4, device=G)
        odd = Foreign(dk.zeros((9, 4), device=G), 4)
        message = r"kernel 'scaled', parameter 'x': .* 16 bytes at a time.*no multiple of 16"
        with pytest.raises(LaunchError, match=message) as raised:
            dk.launch(scaled, 8, inputs=[odd, y])
        assert "clone" in str(raised.value)
        with pytest.raises(LaunchError, match=message):
            dk.launch(scaled, 8, inputs=[odd, y], device=G)
        with pytest.raises(LaunchError, match=message):
            dk.launch(scaled, 8, inputs=[odd, y], record_cmd=True)
        record = dk.launch(scaled, 8, inputs=[x, y], record_cmd=True)
        with pytest.raises(LaunchError, match=message):
            record.set_param_by_name("x", odd)
        with pytest.raises(LaunchError, match=message):
            record.set_params([odd, y])
        assert record.arrays["x"] is x
        record.launch()
        dk.synchronize()
        assert [launched.blocks for launched in driver.launches] == [1]
        given = {"inputs": [x[:8]], "outputs": [y[:8]], "adjoint": True}
        fine = dk.zeros(8, dtype=dk.vec4, device=G)
        with pytest.raises(LaunchError, match=r"the adjoint|'scaled', parameter '\w+' \(cotangent\)"):
            dk.launch(scaled, 8, **given, adj_inputs=[odd], adj_outputs=[fine])
        dk.launch(scaled, 8, **given, adj_inputs=[fine], adj_outputs=[dk.zeros(8, dtype=dk.vec4, device=G)])
        dk.synchronize()
        assert len(driver.launches) == 2


def test_refused_launch_changes_no_version():
    require("cuda.bindings.nvjitlink")
    with fake_cuda(target="sm_90"):
        y = dk.zeros(9, dtype=dk.vec4, device=G)
        before = y._memory.now
        with pytest.raises(LaunchError):
            scaled[8](Foreign(dk.zeros((9, 4), device=G), 4), y)
        assert y._memory.now == before


# -- grids -------------------------------------------------------------------------------------------------------------


X = ProgramParameter("x", "array1d<float32,C>", "param", 0, 0)
FACTS = Manifest(1, 1.0, (X,), reads=(0,), writes=(0,), target="sm_90", title="forward of made_up")


def made(**more):
    entry = StoredArtifact(b"\x7fELF", ("made_up",), program=replace(FACTS, **more))
    return executable(dk.get_device(G), entry, "made_up")


def made_with_shared_memory(total, dynamic):
    return made(gpu=GpuResources(20, 0, 0, shared_bytes=total << 10, dynamic_shared_bytes=dynamic << 10))


@pytest.fixture
def noted():
    with fake_cuda(target="sm_90") as driver:
        yield driver


def test_grid_has_no_more_threads_than_can_be_counted(noted):
    for dim in (2**31 - 1, (2**30, 2**20)):
        for threads in (1, 96, 256, 1024):
            arity = len(dim) if isinstance(dim, tuple) else 1
            grid = made(tid_arity=arity).grid(dim, Blocks(threads))
            assert grid.size == threads
            assert 1 <= grid.count * threads <= 2**31


def test_program_for_one_size_of_blocks(noted):
    program = made(block_dim=128, block_dim_fixed=True)
    assert program.grid(1000, Blocks(128)).size == 128
    assert program.grid(1000).size == program.grid(1000, Blocks(max_blocks=2)).size == 128
    with pytest.raises(ValueError, match=r"exactly 128 threads.*block_dim=64.*block_dim=128"):
        program.grid(1000, Blocks(64))


def test_dynamic_shared_memory(noted):
    program = made_with_shared_memory(101, dynamic=100)
    assert ("set_function_attribute", (program.address, 8, 100 << 10)) in noted.calls
    program.run(program.grid(1000), struct.pack("3q", 256, 1000, 4))
    dk.synchronize()
    assert noted.launches[0].shared == 100 << 10
    made_with_shared_memory(47, dynamic=40)
    assert noted.names().count("set_function_attribute") == 1
    made_with_shared_memory(50, dynamic=40)  # with the static memory more than there is unasked
    assert noted.names().count("set_function_attribute") == 2
    with pytest.raises(LaunchError, match=rf"needs {228 << 10} bytes of shared memory.* has {227 << 10}"):
        made_with_shared_memory(228, dynamic=220)


def test_forward_sums_are_capped():
    require("cuda.bindings.nvjitlink")
    with fake_cuda(target="sm_90") as driver:
        x, out = dk.ones(1 << 20, device=G), dk.zeros(1, device=G)
        dk.launch(total, 1 << 20, inputs=[x, out])
        dk.launch(square, 1 << 20, inputs=[x, dk.zeros(1 << 20, device=G), 1.0])
        dk.synchronize()
        assert [launched.blocks for launched in driver.launches] == [
            8 * 8 * 4,
            (1 << 20) // (4 * 256),
        ]  # four elements a thread


# -- kernels without arrays --------------------------------------------------------------------------------------------


@dk.kernel
def nothing():
    i = dk.tid()
    i = i + 1


@dk.kernel
def of_numbers(a: float, b: int):
    i = dk.tid()
    a = a * float(b + i)


def test_kernels_without_arrays_run_where_they_are_told(driver):
    dk.launch(nothing, 4, device=G)
    dk.launch(of_numbers, 4, inputs=[1.0, 2], device=G)
    with dk.ScopedDevice(G):
        dk.launch(nothing, 4)
        of_numbers[4](1.0, 2)
    assert len(programs(driver)) == 4
    dk.launch(nothing, 4)
    dk.launch(nothing, 4, device="cpu")
    of_numbers[4](1.0, 2)
    assert len(programs(driver)) == 4


def test_records_without_arrays_stay_where_they_are(driver):
    record = dk.launch(of_numbers, 4, inputs=[1.0, 2], device=G, record_cmd=True)
    for value in (2.0, np.float32(3.0), 4):
        record.set_param_by_name("a", value)
        record.launch()
    record.set_params([5.0, 1])
    record.launch()
    dk.synchronize()
    assert record.device == dk.get_device(G)
    found = [struct.unpack_from("f", launched.block, 56)[0] for launched in driver.launches]
    assert found == [2.0, 3.0, 4.0, 5.0]
    empty = dk.launch(nothing, 4, device=G, record_cmd=True)
    empty.launch()
    assert len(programs(driver)) == 5


# -- the rules themselves ----------------------------------------------------------------------------------------------


def rules(*types, writes=(1,)):
    params = tuple(ProgramParameter(f"p{k}", t, "param", k, k) for k, t in enumerate(types))
    manifest = Manifest(1, 1.0, params, writes=writes)
    return ArrayRules("k", manifest, Layout(manifest))


def test_rules_against_numpy():
    """Wherever the rules call two arrays apart, NumPy finds no byte that they share; and the other way round."""
    rng = np.random.default_rng(3)
    found = rules("array2d<float32,A>", "array2d<vec2<float32>,A>")
    memory = np.zeros(400, np.uint8)
    agreed = 0
    for _ in range(400):
        arrays = []
        for shape in ((), (2,)):
            start, rows, columns = 4 * rng.integers(0, 40), *rng.integers(0, 4, 2)
            strides = (4 * int(rng.integers(4, 10)), 8 * int(rng.integers(1, 3)), *([4] if shape else []))
            arrays.append(np.ndarray((rows, columns, *shape), np.float32, memory, int(start), strides))
        fields = [n for a in arrays for n in (a.ctypes.data, *a.shape[:2], *a.strides[:2])]
        apart, shared = found.distinct(fields), np.shares_memory(*arrays)
        assert not (apart and shared)
        agreed += apart != shared
    assert agreed > 350


def test_rules_read_values_between_arrays():
    found = rules("mat3x3<float64>", "array1d<vec3<float32>,C>", "bool", "vec3<float16>", "array2d<bool,A>")
    block = struct.pack("=72x 3q 8x 8x 5q", 1, 2, 12, 4, 5, 6, 7, 8)
    assert found.fields(block) == (1, 2, 12, 4, 5, 6, 7, 8)
