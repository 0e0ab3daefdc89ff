"""Tensors as arrays and arrays as tensors: one memory, one gradient, one version."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import require

require("torch")

import torch

import diffkern as dk


@dk.kernel
def square(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * x[i]


@dk.kernel
def lengths(p: dk.array(dtype=dk.vec3), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.length(p[i])


@dk.kernel
def total(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    dk.atomic_add(y, 0, x[dk.tid()])


@dk.kernel
def anything(x, y):
    i = dk.tid()
    y[i] = x[i] + x[i]


TYPES = ["bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
         "float32", "float64"]  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_types_both_ways(name):
    dtype, theirs = getattr(dk, name), getattr(torch, name.rstrip("_"))
    assert dk.dtype_to_torch(dtype) == theirs
    assert dk.dtype_from_torch(theirs) == dtype
    t = torch.zeros((2, 3), dtype=theirs)
    a = dk.from_torch(t)
    assert a.dtype == dtype
    assert a.shape == (2, 3)
    assert a.ptr == t.data_ptr()
    back = dk.to_torch(a)
    assert back.dtype == theirs
    assert back.data_ptr() == t.data_ptr()
    a.fill_(1)
    assert (t.view(torch.uint8) != 0).any()
    assert torch.equal(t.view(torch.uint8), back.view(torch.uint8))


def test_types_that_have_no_counterpart():
    with pytest.raises(TypeError, match="float8_e5m2"):
        dk.dtype_from_torch(torch.float8_e5m2)
    with pytest.raises(TypeError, match="float8_e5m2"):
        dk.from_torch(torch.zeros(2, dtype=torch.float8_e5m2))
    with pytest.raises(TypeError, match="float64 is not float32"):
        dk.from_torch(torch.zeros(2, dtype=torch.float64), dtype=float)
    assert dk.dtype_to_torch(dk.mat33d) == torch.float64
    for ours, theirs in ((dk.complex64, torch.complex64), (dk.complex128, torch.complex128)):
        assert dk.dtype_to_torch(ours) == theirs
        assert dk.dtype_from_torch(theirs) == ours
    assert dk.from_torch(torch.zeros(2, dtype=torch.int32), dtype=dk.uint32).dtype == dk.uint32


def test_components_and_strides():
    t = torch.arange(24.0).reshape(4, 2, 3)
    a = dk.from_torch(t, dtype=dk.vec3)
    assert (a.shape, a.dtype) == ((4, 2), dk.vec3)
    part = dk.from_torch(t[::2, 1], dtype=dk.vec3)
    assert part.strides == (48,)
    np.testing.assert_array_equal(part.numpy(), t[::2, 1].numpy())
    assert dk.from_torch(torch.zeros(3), dtype=dk.vec3).shape == (1,)
    assert dk.from_torch(torch.tensor(2.0)).shape == (1,)
    assert tuple(dk.to_torch(part).shape) == (2, 3)
    with pytest.raises(TypeError, match="components"):
        dk.from_torch(torch.zeros(4, 2), dtype=dk.vec3)
    with pytest.raises(TypeError, match="next to each other"):
        dk.from_torch(torch.zeros(3, 4).T, dtype=dk.vec3)
    with pytest.raises(TypeError, match="1 to 4 axes"):
        dk.from_torch(torch.zeros(1, 1, 1, 1, 1))
    with pytest.raises(TypeError, match="sparse"):
        dk.from_torch(torch.zeros(3).to_sparse())


def test_memory_outlives_either_side():
    a = dk.from_torch(torch.full((1000,), 3.0))
    assert (a.numpy() == 3.0).all()
    t = dk.to_torch(dk.full(1000, 4.0))
    assert (t == 4.0).all()


def test_gradients_are_shared_both_ways():
    t = torch.ones(3, requires_grad=True)
    a = dk.from_torch(t)
    assert t.grad is not None
    assert a.grad.ptr == t.grad.data_ptr()
    a.grad.fill_(5.0)
    assert (t.grad == 5.0).all()
    assert dk.from_torch(t, requires_grad=False).grad is None
    given = torch.zeros(3)
    assert dk.from_torch(torch.ones(3), grad=given).grad.ptr == given.data_ptr()
    made = dk.to_torch(dk.ones(3, requires_grad=True))
    assert made.requires_grad
    assert made.is_leaf
    made.sum().backward()
    assert (made.grad == 1.0).all()
    assert not dk.to_torch(dk.ones(3, requires_grad=True), requires_grad=False).requires_grad


def test_autograd_and_tape_add_to_one_gradient():
    t = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    loss = dk.zeros(1)
    y = dk.zeros(3)
    with dk.Tape() as tape:
        dk.launch(square, dim=3, inputs=[t], outputs=[y])
        dk.launch(total, dim=3, inputs=[y], outputs=[loss])
    tape.backward(loss)
    np.testing.assert_allclose(t.grad.numpy(), [2.0, 4.0, 6.0])
    (t * 10).sum().backward()
    np.testing.assert_allclose(t.grad.numpy(), [12.0, 14.0, 16.0])


def test_a_tape_over_tensors_alone():
    t = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y, loss = torch.zeros(3), torch.zeros(1)
    with dk.Tape() as tape:
        dk.launch(square, dim=3, inputs=[t], outputs=[y])
        dk.launch(total, dim=3, inputs=[y], outputs=[loss])
    assert loss.item() == 14.0
    tape.backward(loss)
    np.testing.assert_allclose(t.grad.numpy(), [2.0, 4.0, 6.0])
    tape.zero()
    tape.backward(grads={y: torch.tensor([1.0, 0.0, 2.0])})
    np.testing.assert_allclose(t.grad.numpy(), [2.0, 0.0, 12.0])


def test_views_of_one_tensor_on_a_tape():
    t = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    loss = torch.zeros(1)
    with dk.Tape() as tape:
        dk.launch(total, dim=4, inputs=[t], outputs=[loss])
        dk.launch(total, dim=4, inputs=[t], outputs=[loss])
    tape.backward(loss)
    np.testing.assert_allclose(t.grad.numpy(), [2.0] * 4)


def test_a_change_by_torch_is_noticed():
    t = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y, loss = torch.zeros(3), torch.zeros(1)
    with dk.Tape() as tape:
        dk.launch(square, dim=3, inputs=[t], outputs=[y])
        dk.launch(total, dim=3, inputs=[y], outputs=[loss])
    with torch.no_grad():
        t.mul_(2.0)
    with pytest.raises(dk.LaunchError, match="changed"):
        tape.backward(loss)


def test_a_change_by_a_kernel_is_noticed_by_torch():
    w = torch.ones(3, requires_grad=True)
    x = torch.tensor([1.0, 2.0, 3.0])
    loss = (w * x).sum()  # keeps x
    dk.launch(square, dim=3, inputs=[torch.ones(3)], outputs=[x])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_tensors_that_torch_computed_are_refused():
    t = torch.ones(3, requires_grad=True)
    y = torch.zeros(3)
    with pytest.raises(dk.LaunchError, match=r"parameter 'x'.*dk.torch_function"):
        square[3](t * 2.0, y)
    square[3]((t * 2.0).detach(), y)
    with torch.no_grad():
        square[3](t * 2.0, y)
    assert (y == 4.0).all()
    with dk.Tape(), pytest.raises(dk.LaunchError, match=r"dk\.torch_function"):
        square[3](t * 2.0, y)
    with pytest.raises(TypeError, match="no gradient for a tensor that it computed"):
        dk.from_torch(t * 2.0)


def test_tensors_are_arguments_in_place():
    p, y = torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]]), torch.zeros(2)
    lengths[2](p, y)
    assert y.tolist() == [5.0, 2.0]
    x, out = torch.arange(6.0)[::2], torch.zeros(6)[1::2]
    square[3](x, out)
    assert out.tolist() == [0.0, 4.0, 16.0]
    half, doubled = torch.full((3,), 1.5, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.bfloat16)
    anything[3](half, doubled)
    assert doubled.tolist() == [3.0] * 3
    expanded = torch.tensor([2.0]).expand(3)
    square[3](expanded, y3 := torch.zeros(3))
    assert y3.tolist() == [4.0] * 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.zeros(3, dtype=torch.float64), "float64 is not float32"),
        (torch.zeros(3, device="meta"), "lies on meta"),
        (torch.zeros(3, 2), "array1d<float32>"),
        (torch.zeros(3).to_sparse(), "sparse"),
    ],
)
def test_what_cannot_be_passed_is_refused_before_the_launch(given, message):
    y = torch.ones(3)
    with pytest.raises(dk.KernelError, match=message):
        square[3](given, y)
    assert (y == 1.0).all()


def test_transformed_tensors_are_refused():
    with pytest.raises(dk.LaunchError, match=r"torch\.func"):
        torch.func.grad(lambda x: (square[3](x, torch.zeros(3)), x.sum())[1])(torch.ones(3))


def test_inference_tensors_are_arguments():
    with torch.inference_mode():
        x, y = torch.full((3,), 3.0), torch.zeros(3)
        square[3](x, y)
        assert y.tolist() == [9.0] * 3


def test_to_torch_refuses_what_torch_cannot_hold():
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(TypeError, match="read-only"):
        dk.to_torch(dk.array(frozen, copy=False))
    with pytest.raises(TypeError, match="backwards"):
        dk.to_torch(dk.ones(3)[::-1])

    @dk.struct
    class Ball:
        mass: float

    with pytest.raises(TypeError, match="no tensors of structs"):
        dk.to_torch(dk.zeros(2, dtype=Ball))
    with pytest.raises(TypeError, match="takes an array"):
        dk.to_torch(torch.ones(3))
    with pytest.raises(TypeError, match="takes a tensor"):
        dk.from_torch(np.ones(3))


def test_dlpack_with_torch():
    a = dk.ones((2, 3))
    t = torch.from_dlpack(a)
    t[0, 0] = 5.0
    assert a.numpy()[0, 0] == 5.0
    assert torch.utils.dlpack.from_dlpack(dk.to_dlpack(a)).data_ptr() == a.ptr
    assert dk.from_dlpack(t).ptr == a.ptr
    half = dk.zeros(2, dtype=dk.bfloat16)
    assert torch.from_dlpack(half).dtype == torch.bfloat16


def test_devices_and_streams():
    assert dk.device_to_torch("cpu") == dk.device_to_torch() == "cpu"
    assert dk.device_from_torch("cpu") == dk.get_device("cpu")
    assert dk.device_from_torch(torch.device("cpu")).is_cpu
    assert dk.device_from_torch(torch.device("cpu", 0)) == dk.device_from_torch("cpu:0") == dk.get_device("cpu")
    assert dk.stream_from_torch("cpu").is_default
    done = []
    stream = dk.Stream()
    stream.enqueue(lambda: done.append(1))
    assert dk.stream_to_torch(stream) is None
    assert done == [1]


def test_records_and_streams_take_tensors():
    x, y = torch.arange(3.0), torch.zeros(3)
    record = dk.launch(square, dim=3, inputs=[x], outputs=[y], record_cmd=True)
    record.launch()
    assert y.tolist() == [0.0, 1.0, 4.0]
    other = torch.full((3,), 3.0)
    record.set_param_by_name("x", other)
    record.launch()
    assert y.tolist() == [9.0] * 3
    dk.launch(square, dim=3, inputs=[x], outputs=[y], stream=(s := dk.Stream()))
    s.synchronize()
    assert y.tolist() == [0.0, 1.0, 4.0]


def test_without_torch_the_error_says_what_to_install(monkeypatch):
    import importlib
    import sys

    def missing(name):
        raise ImportError(name)

    from_torch = dk.from_torch  # which is imported when it is asked for
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r'pip install "diffkern\[torch\]"'):
        from_torch(None)


def test_tensors_that_share_memory():
    whole = torch.zeros(6)
    with pytest.raises(dk.LaunchError, match="'x' and 'y' share memory"):
        dk.launch(square, 5, [whole[:5], whole[1:]])
    with pytest.raises(dk.LaunchError, match="'x' and 'y' share memory"):
        dk.launch(square, 5, [dk.from_torch(whole)[:5], whole[1:]])
    whole += 2.0
    dk.launch(square, 3, [whole[::2], whole[1::2]])
    dk.launch(square, 6, [whole, whole])
    assert whole.tolist() == [4.0, 16.0] * 3


def test_tensors_of_what_was_recorded():
    x, y = dk.ones(3), dk.zeros(3)
    with dk.record():
        dk.to_torch(y)
        dk.launch(square, 3, [x, y])
        for read in (dk.to_torch, torch.from_dlpack, torch.as_tensor):
            with pytest.raises(dk.LaunchError, match="is read while work for it is recorded"):
                read(y)
