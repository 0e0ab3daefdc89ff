"""Launches on a GPU: the bytes the driver gets, the grid, where things run, and what is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from conftest import require
from runtime_cuda_kernels import Pair, accumulate, beyond, neighbours, reversed_blocks, scale, square, total
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern.contracts import abi
from diffkern.runtime.accumulate.adjoint import AdjointLaunch

G = "cuda:0"


def test_argument_block(driver):
    x, y = dk.zeros(1000, device=G), dk.zeros(1000, device=G)
    dk.launch(square, 1000, inputs=[x, y, 2.5])
    dk.synchronize()
    (launched,) = driver.launches
    header = struct.unpack_from(abi.HEADER_FORMAT, launched.block)
    assert header == (0, 1000, 1, 1, 1, 0, 0)
    assert struct.unpack_from("3q3qf", launched.block, abi.HEADER_SIZE) == (x.ptr, 1000, 4, y.ptr, 1000, 4, 2.5)
    assert len(launched.block) == abi.HEADER_SIZE + 8 * 7
    assert (launched.blocks, launched.threads, launched.shared, launched.stream) == (4, 256, 0, 0)
    assert launched.name.startswith("dk_")


def test_block_is_that_of_the_cpu(driver):
    """The same packing for both, but for the addresses and the chunks."""
    record = dk.launch(square, 15, inputs=[dk.zeros(15), dk.zeros(15), 2.5], record_cmd=True)
    here = record._record._compiled.block
    x, y = dk.zeros(15, device=G), dk.zeros(15, device=G)
    dk.launch(square, 15, inputs=[x, y, 2.5])
    dk.synchronize()
    there = driver.launches[0].block
    assert len(here) == len(there)
    assert here[abi.DIMS : abi.CHUNK] == there[abi.DIMS : abi.CHUNK]
    assert here[abi.HEADER_SIZE + 8 : abi.HEADER_SIZE + 24] == there[abi.HEADER_SIZE + 8 : abi.HEADER_SIZE + 24]
    assert here[-8:] == there[-8:]


@pytest.mark.parametrize(
    ("dim", "options", "grid"),
    [
        (1, {}, (1, 256)),
        (257, {}, (2, 256)),
        ((64, 64), {"block_dim": 128}, (32, 128)),
        (10_000, {"max_blocks": 3}, (3, 256)),
        (10_000, {"max_blocks": 1000, "block_dim": 1024}, (10, 1024)),
    ],
)
def test_grid(driver, dim, options, grid):
    n = int(np.prod(dim))
    x, y = dk.ones(n, device=G), dk.zeros(n, device=G)
    dk.launch(square, dim if isinstance(dim, int) else n, inputs=[x, y, 2.0], **options)
    dk.synchronize()
    assert (driver.launches[0].blocks, driver.launches[0].threads) == grid
    assert (y.numpy() == 2.0).all()


def test_sums_take_no_more_blocks_than_fit(driver):
    x, out = dk.ones(1 << 20, device=G), dk.zeros(1, device=G)
    dk.launch(total, 1 << 20, inputs=[x, out])
    assert out.list() == [float(1 << 20)]
    assert driver.launches[0].blocks == 8 * 8 * 4  # waves, blocks on a multiprocessor, multiprocessors


@pytest.mark.parametrize("wrong", [-1, 1025, 2048])
def test_block_dim_is_checked(driver, wrong):
    x, y = dk.zeros(4, device=G), dk.zeros(4, device=G)
    with pytest.raises(dk.LaunchError, match="from 1 to 1024"):
        dk.launch(square, 4, inputs=[x, y, 1.0], block_dim=wrong)
    with pytest.raises(dk.LaunchError, match="integers"):
        dk.launch(square, 4, inputs=[x, y, 1.0], max_blocks=1.5)
    dk.synchronize()
    assert driver.launches == []


def test_empty_launches(driver):
    x, y = dk.zeros(0, device=G), dk.zeros(0, device=G)
    dk.launch(square, 0, inputs=[x, y, 1.0])
    dk.launch(square, 0, inputs=[x, y, 1.0], record_cmd=True).launch()
    dk.synchronize()
    assert driver.launches == []


def test_numba_style(driver):
    x, y = dk.ones(8, device=G), dk.zeros(8, device=G)
    square[8](x, y, 3.0)
    assert y.list() == [3.0] * 8


def test_devices_do_not_mix(two_devices):
    x, y = dk.zeros(4, device="cuda:0"), dk.zeros(4, device="cuda:1")
    with pytest.raises(dk.LaunchError, match=r"parameter 'y': the array is on cuda:1, that of 'x' on cuda:0"):
        dk.launch(square, 4, inputs=[x, y, 1.0])
    with pytest.raises(dk.LaunchError, match=r"parameter 'y': the array is on cpu, that of 'x' on cuda:0"):
        dk.launch(square, 4, inputs=[x, np.zeros(4, np.float32), 1.0])
    with pytest.raises(dk.LaunchError, match=r"parameter 'x': the array is on cuda:0, and the launch on cuda:1"):
        dk.launch(square, 4, inputs=[x, x, 1.0], device="cuda:1")
    with pytest.raises(dk.LaunchError, match=r"parameter 'x': the array is on cuda:0, and the launch on cpu"):
        dk.launch(square, 4, inputs=[x, x, 1.0], device="cpu")
    record = dk.launch(square, 4, inputs=[x, dk.zeros(4, device="cuda:0"), 1.0], record_cmd=True)
    with pytest.raises(dk.LaunchError, match="on cuda:1"):
        record.set_param_by_name("y", y)
    assert two_devices.launches == []


@dk.kernel
def without_arrays(a: float):
    i = dk.tid()
    if a < 0.0:
        print(i)


def test_a_launch_without_arrays_runs_where_it_says(two_devices):
    with dk.ScopedDevice("cuda:0"):
        dk.launch(without_arrays, 4, inputs=[1.0], device="cpu")
        assert two_devices.launches == []
        dk.launch(without_arrays, 4, inputs=[1.0], device="cuda:1")
        dk.launch(without_arrays, 4, inputs=[1.0])
    dk.launch(without_arrays, 4, inputs=[1.0], device="cuda:0")
    dk.launch(without_arrays, 4, inputs=[1.0])
    dk.synchronize()
    assert len(two_devices.launches) == 3


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_a_tape_takes_launches_that_name_their_device(two_devices, device):
    x, y = dk.full(4, 3.0, device=device, requires_grad=True), dk.zeros(4, device=device, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(square, 4, inputs=[x, y, 1.0], device=device)
    tape.backward(grads={y: dk.ones(4, device=device)})
    assert x.grad.list() == [6.0] * 4


def test_each_device_has_its_program(two_devices):
    for name in ("cuda:0", "cuda:1"):
        x, y = dk.full(4, 3.0, device=name), dk.zeros(4, device=name)
        dk.launch(square, 4, inputs=[x, y, 1.0], device=name)
        assert y.list() == [9.0] * 4
    assert two_devices.names().count("load_module") == 2


def test_programs_of_a_driver_end_with_it():
    for _ in range(2):
        with fake_cuda() as driver:
            y = dk.zeros(3, device=G)
            dk.launch(square, 3, inputs=[dk.ones(3, device=G), y, 2.0])
            assert y.list() == [2.0] * 3
            assert "load_module" in driver.names()


def test_arrays_of_other_libraries(driver):
    class Foreign:
        def __init__(self, held):
            self.__cuda_array_interface__ = held.__cuda_array_interface__

    x, y = dk.full(5, 2.0, device=G), dk.zeros(5, device=G)
    dk.launch(square, 5, inputs=[Foreign(x), Foreign(y), 1.0])
    assert y.list() == [4.0] * 5
    with pytest.raises(dk.LaunchError, match=r"parameter 'x'.*not float32"):
        dk.launch(square, 5, inputs=[Foreign(dk.zeros(5, dtype=int, device=G)), y, 1.0])


def test_structs_with_arrays(two_devices):
    pair = Pair(dk.ones(3, device=G), dk.zeros(3, device=G), 4.0)
    dk.launch(scale, 3, inputs=[pair])
    assert pair.y.list() == [4.0] * 3
    pair.x = dk.ones(3, device="cuda:1")
    with pytest.raises(dk.LaunchError, match=r"parameter 'p': the struct holds arrays of several devices"):
        dk.launch(scale, 3, inputs=[pair])


def test_adjoint_launch(driver):
    rng = np.random.default_rng(0)
    values = rng.normal(size=50).astype(np.float32)
    grads = {}
    for device in ("cpu", G):
        x = dk.array(values, device=device)
        y, gx, gy = dk.zeros_like(x), dk.zeros_like(x), dk.ones_like(x)
        ga = dk.zeros(1, device=device)
        dk.launch(square, 50, [x], [y, 2.0], [gx], [gy, ga], adjoint=True)
        grads[device] = gx.numpy(), gy.numpy(), ga.numpy()
    for here, there in zip(*grads.values(), strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-5)
    with pytest.raises(dk.LaunchError, match=r"parameter 'x'.*its gradient is on cpu, and the launch on cuda:0"):
        dk.launch(square, 50, [x], [y, 2.0], [dk.zeros(50)], [gy, ga], adjoint=True)


def test_strided_gradients(driver):
    whole = dk.zeros(20, device=G)
    x, y = dk.ones(10, device=G), dk.zeros(10, device=G)
    dk.launch(square, 10, [x], [y, 3.0], [whole[::2]], [dk.ones(10, device=G), None], adjoint=True)
    np.testing.assert_array_equal(whole.numpy(), [6.0, 0.0] * 10)


def test_gradients_that_share_memory_add_up(driver):
    x, shared = dk.ones(6, device=G), dk.zeros(6, device=G)
    y = dk.zeros(6, device=G)
    dk.launch(neighbours, 6, [x], [y], [shared], [dk.ones(6, device=G)], adjoint=True)
    np.testing.assert_array_equal(shared.numpy(), [1, 1, 2, 2, 1, 1])


def test_debug_programs_say_what_went_wrong(driver):
    x, y = dk.zeros(4, device=G), dk.zeros(4, device=G)
    with pytest.raises(dk.KernelRuntimeError) as info:
        dk.launch(beyond, 4, inputs=[x, y])
    text = str(info.value)
    assert "kernel 'beyond', thread 3: index 4 is out of bounds for axis 0 of array 'x' with shape (4,)" in text
    assert info.value.loc.file.endswith("runtime_cuda_kernels.py")
    dk.launch(beyond, 3, inputs=[x, y])
    record = dk.launch(beyond, 4, inputs=[x, y], record_cmd=True)
    with pytest.raises(dk.KernelRuntimeError, match="thread 3"):
        record.launch()


def test_launches_without_arrays_need_a_device(driver):
    @dk.kernel
    def nothing(a: float):
        a + 1.0

    dk.launch(nothing, 4, inputs=[1.0])
    dk.synchronize()
    assert driver.launches == []
    dk.launch(nothing, 4, inputs=[1.0], device=G)
    with dk.ScopedDevice(G):
        dk.launch(nothing, 4, inputs=[1.0])
    dk.synchronize()
    assert len(driver.launches) == 2


def test_versions(driver):
    x, y = dk.ones(3, device=G), dk.zeros(3, device=G)
    before = y._memory.now, x._memory.now
    dk.launch(accumulate, 3, inputs=[x, y, 1.0])
    assert y._memory.now == before[0] + 1
    assert x._memory.now == before[1]


def test_kernels_that_work_in_blocks(driver):
    x, y = dk.array(np.arange(96.0), dtype=float, device=G), dk.zeros(96, device=G)
    dk.launch(reversed_blocks, 96, inputs=[x, y], block_dim=32)
    np.testing.assert_array_equal(y.numpy(), np.arange(96).reshape(3, 32)[:, ::-1].reshape(-1))
    assert (driver.launches[0].blocks, driver.launches[0].threads) == (3, 32)
    with pytest.raises(dk.LaunchError, match="not whole blocks"):
        dk.launch(reversed_blocks, 95, inputs=[x, y], block_dim=32)


def test_cubins_and_their_parameters():
    """With a GPU's target the driver gets a real cubin, whose kernel takes just the bytes that are passed."""
    require("cuda.bindings.nvjitlink", "numba_cuda")
    from diffkern.targets.cuda.cubin import resources

    with fake_cuda(target="sm_90") as driver:
        x = dk.zeros(100, device=G, requires_grad=True)
        y = dk.zeros(100, device=G, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(square, 100, inputs=[x, y, 2.0])
        tape.backward(grads={y: np.ones(100, np.float32)})
        dk.synchronize()
        images = [args[0] for name, args in driver.calls if name == "load_module"]
        assert len(images) == len(driver.launches) == 2
        for image, launched in zip(images, driver.launches, strict=True):
            assert image[:4] == b"\x7fELF"
            assert resources(image)[launched.name].parameter_bytes == len(launched.block)


def test_arguments_of_an_adjoint_by_hand_are_packed_once(driver, monkeypatch):
    """What its check was given is what is launched; a record packs those of its time."""
    packed, pack = [], AdjointLaunch._pack
    monkeypatch.setattr(AdjointLaunch, "_pack", lambda self, *given: packed.append(pack(self, *given)) or packed[-1])
    x, y = dk.array(np.arange(8, dtype=np.float32), device=G), dk.zeros(8, device=G)
    gx, gy = dk.zeros(8, device=G), dk.ones(8, device=G)
    dk.launch(square, 8, [x], [y, 2.0], [gx], [gy, None], adjoint=True)
    assert len({id(one) for one in packed}) == 1
    assert gx.list() == [4.0 * k for k in range(8)]
    record = dk.launch(square, 8, [x], [y, 2.0], [gx], [dk.ones(8, device=G), None], adjoint=True, record_cmd=True)
    record.set_param_at_index(2, 3.0)
    gx.zero_()
    record.launch()
    assert gx.list() == [6.0 * k for k in range(8)]
