"""Tensors on a GPU, with a driver that keeps its memory in the host: places, streams, order, gradients, mistakes."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from conftest import require

require("torch")

import torch
from torch_places import claim_cuda

import diffkern as dk

G = "cuda:0"


@dk.kernel
def square(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * x[i]


@dk.kernel
def total(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    dk.atomic_add(y, 0, x[dk.tid()])


@dk.kernel
def ramp(n: int, y: dk.array(dtype=float)):
    y[dk.tid()] = float(n) * float(dk.tid())


@pytest.fixture
def torch_on_gpu(driver, monkeypatch):
    return claim_cuda(monkeypatch)


@pytest.fixture
def later(driver, monkeypatch):
    return claim_cuda(monkeypatch, at_once=False)


def pairs(driver):
    """Which streams waited for which, in order: events are told apart by when they were recorded."""
    recorded, found = {}, []
    for name, args in driver.calls:
        if name == "event_record":
            recorded[args[0]] = args[1]
        elif name == "stream_wait_event":
            found.append((args[0], recorded[args[1]]))
        elif name == "launch":
            found.append(("launch", args[4]))
    return found


# -- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["int8", "int64", "uint8", "bool_", "float16", "bfloat16", "float32", "float64"])
def test_one_memory_both_ways(torch_on_gpu, name):
    t = torch.ones((2, 3), dtype=getattr(torch, name.rstrip("_")))
    a = dk.from_torch(t)
    assert (a.dtype, a.shape, str(a.device), a.ptr) == (getattr(dk, name), (2, 3), G, t.data_ptr())
    back = dk.to_torch(a)
    assert (back.data_ptr(), back.dtype, tuple(back.shape)) == (t.data_ptr(), t.dtype, (2, 3))
    assert dk.from_torch(t)._memory is a._memory


def test_components_strides_and_parts(torch_on_gpu):
    t = torch.arange(24.0).reshape(4, 2, 3)
    for _ in range(2):  # the second time what is known of such tensors is used
        part = dk.from_torch(t[::2, 1], dtype=dk.vec3)
        assert (part.shape, part.strides, part.ptr) == ((2,), (48,), t[:, 1].data_ptr())
        assert part._range == (part.ptr, part.ptr + 60)
        assert dk.from_torch(t[0, 0], dtype=dk.vec3).shape == (1,)
    with pytest.raises(TypeError, match="next to each other"):
        dk.from_torch(torch.zeros(3, 4).T, dtype=dk.vec3)
    assert dk.from_torch(torch.zeros(0, 3)).shape == (0, 3)


def test_gradients_are_shared(torch_on_gpu):
    t = torch.arange(4.0).requires_grad_()
    y, loss = dk.zeros(4, device=G, requires_grad=True), dk.zeros(1, device=G, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(square, 4, inputs=[t, y])
        dk.launch(total, 4, inputs=[y, loss])
    tape.backward(loss)
    dk.synchronize()
    assert t.grad.tolist() == [0.0, 2.0, 4.0, 6.0]
    assert dk.from_torch(t).grad.ptr == t.grad.data_ptr()


def test_versions_are_shared(torch_on_gpu):
    x, y = torch.ones(4), torch.zeros(4)
    before = y._version
    dk.launch(square, 4, inputs=[x, y])
    assert y._version == before + 1
    with torch.inference_mode():
        z = torch.zeros(4)
        dk.launch(square, 4, inputs=[x, z])
        assert z.tolist() == [1.0] * 4


# -- launches --------------------------------------------------------------------------------------------------------


def test_launches_take_tensors(torch_on_gpu, driver):
    x, y = torch.arange(4.0), torch.zeros(4)
    for k in range(3):
        x += 1.0
        dk.launch(square, 4, inputs=[x, y])
        assert y.tolist() == [(v + k + 1) ** 2 for v in range(4)]
    assert len(driver.launches) == 3
    mixed = dk.zeros(4, device=G)
    dk.launch(square, 4, inputs=[x, mixed])
    np.testing.assert_array_equal(mixed.numpy(), y.numpy())
    with pytest.raises(dk.LaunchError, match="the array is on cpu, that of 'x' on cuda:0"):
        dk.launch(square, 4, inputs=[x, dk.zeros(4)])


def test_launches_are_in_order_with_pytorchs_stream(later, driver):
    x, y = torch.arange(4.0), torch.zeros(4)
    dk.launch(square, 4, inputs=[x, y])
    assert pairs(driver) == [("launch", 0)]  # PyTorch's stream is the same
    side = dk.Stream(G)
    later.stream = side.cuda_stream
    driver.calls.clear()
    dk.launch(square, 4, inputs=[x, y])
    s = later.stream
    assert pairs(driver) == [(0, s), (0, s), ("launch", 0), (s, 0), (s, 0)]
    driver.calls.clear()
    dk.launch(square, 4, inputs=[dk.zeros(4, device=G), dk.zeros(4, device=G)])
    assert pairs(driver) == [("launch", 0)]  # the next one has nothing to do with it
    driver.calls.clear()
    with dk.ScopedStream(dk.stream_from_torch(G), sync_enter=False):
        dk.launch(square, 4, inputs=[x, y])
    assert pairs(driver) == [("launch", s)]
    for recording in (dk.Tape, lambda: dk.record(run=False)):
        with recording(), pytest.raises(dk.LaunchError, match="ScopedStream"):
            dk.launch(square, 4, inputs=[x, y])
    dk.synchronize()


def test_side_streams_hold_memory_of_pytorchs_allocator(later):
    x, y = torch.arange(4.0), torch.zeros(4)
    side = dk.Stream(G)
    dk.launch(square, 4, inputs=[x, y], stream=side)
    assert sorted(later.recorded) == sorted([(x.data_ptr(), side.cuda_stream), (y.data_ptr(), side.cuda_stream)])
    dk.launch(square, 4, inputs=[x, y], stream=side)
    assert len(later.recorded) == 2
    dk.synchronize()
    assert y.tolist() == [0.0, 1.0, 4.0, 9.0]


# -- functions -------------------------------------------------------------------------------------------------------


def test_functions_run_on_pytorchs_stream(torch_on_gpu, driver):
    f = dk.torch_function(square)
    x = torch.arange(4.0).requires_grad_()
    side = dk.Stream(G)
    torch_on_gpu.stream = side.cuda_stream
    loss = f(x).sum()
    torch_on_gpu.stream = 0
    loss.backward()
    assert pairs(driver) == [("launch", side.cuda_stream), ("launch", 0)]
    assert dk.get_stream(G).is_default
    assert x.grad.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_a_function_of_numbers_runs_where_pytorch_makes_tensors(torch_on_gpu, driver):
    f = dk.torch_function(ramp, launch_dims=4)
    assert f(2).tolist() == [0.0, 2.0, 4.0, 6.0]
    assert len(driver.launches) == 1


def test_more_axes_than_the_kernel_asks_for(torch_on_gpu):
    f = dk.torch_function(square, launch_dims=(4, 3), output_dims=4)
    with pytest.raises(dk.LaunchError, match=r"dim=\(4, 3\) is a grid of 2 axes"):
        f(torch.arange(4.0).requires_grad_())


def test_debug_programs(torch_on_gpu, monkeypatch):
    monkeypatch.setattr(dk.config, "mode", "debug")
    x = torch.ones(3)
    assert dk.torch_function(square)(x).tolist() == [1.0] * 3
    with pytest.raises(dk.KernelRuntimeError, match="index 3 is out of bounds"):
        dk.torch_function(square, launch_dims=4, output_dims=4)(x)


# -- streams and mistakes --------------------------------------------------------------------------------------------


def test_streams_both_ways(torch_on_gpu):
    assert dk.stream_from_torch(G) is dk.get_device(G).null_stream
    mine = dk.Stream(G)
    assert dk.stream_to_torch(mine) == mine.cuda_stream
    torch_on_gpu.stream = mine.cuda_stream
    theirs = dk.stream_from_torch(torch.device(G))
    assert theirs.cuda_stream == mine.cuda_stream
    assert dk.stream_from_torch(G) is theirs
    assert dk.device_to_torch(dk.device_from_torch("cuda:0")) == G
    assert dk.stream_from_torch("cpu").device.is_cpu


def test_arrays_wait_for_pytorch_and_pytorch_for_arrays(later, driver):
    side = dk.Stream(G)
    later.stream = side.cuda_stream
    dk.from_torch(torch.zeros(4))
    assert pairs(driver) == [(0, side.cuda_stream)]


def test_without_such_a_gpu(torch_on_gpu, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "device", property(lambda t: torch.device("cuda", 5)))
    with pytest.raises(ValueError, match="no device 'cuda:5'"):
        dk.from_torch(torch.zeros(3))
    with pytest.raises(dk.LaunchError, match="no device 'cuda:5'"):
        dk.torch_function(square)(torch.zeros(3))
    monkeypatch.setattr(torch.Tensor, "device", property(lambda t: torch.device("meta")))
    with pytest.raises(TypeError, match="no kernel runs"):
        dk.from_torch(torch.zeros(3))


# -- what is remembered of arguments -----------------------------------------------------------------------------------


def test_remembered_arguments_follow_their_tensor():
    x, y = torch.ones(4), torch.zeros(4)
    for values in ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]):
        dk.launch(square, 4, inputs=[x, y])
        x.data = torch.tensor(values)
        dk.launch(square, 4, inputs=[x, y])
        assert y.tolist() == [v * v for v in values]
    x.resize_(2)
    dk.launch(square, 2, inputs=[x, y])
    with pytest.raises(dk.LaunchError, match="float64 is not float32"):
        dk.launch(square, 2, inputs=[x.double(), y])
    x.requires_grad_()
    dk.launch(square, 2, inputs=[x, y])
    with pytest.raises(dk.LaunchError, match="break that chain"):
        dk.launch(square, 2, inputs=[x * 1.0, y])


def test_remembered_arguments_do_not_accumulate():
    from diffkern.interop.torch import passed

    y = torch.zeros(4)
    gc.collect()
    before = len(passed._passed)
    for _ in range(100):
        dk.launch(square, 4, inputs=[torch.ones(4), y])
    gc.collect()
    assert len(passed._passed) <= before + 1
