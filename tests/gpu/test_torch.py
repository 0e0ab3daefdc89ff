"""PyTorch's tensors on a GPU: tests of the CPU whose place does not matter, and streams, graphs, DLPack."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import require

require("torch")

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "interop" / "torch"))

import test_function
from test_cuda import square, total
from test_function import compiled, eager, same, tensor, wave64

import diffkern as dk

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Error detected in:UserWarning"),
]

# They are collected here once more, for tensors that PyTorch makes on the GPU.
_ANYWHERE = [
    "a_changed_argument_that_is_not_contiguous", "a_map", "a_module_that_learns",
    "a_scalar_tensor_has_a_gradient", "a_second_backward_gives_the_same", "an_empty_tensor",
    "a_kernel_of_outputs_alone",
    "arguments_that_are_changed", "autocast_brings_tensors_to_the_annotated_type", "batches",
    "dynamic_shapes_compile_once", "functional_gradients", "gathers", "gradcheck",
    "gradients_given_are_not_changed", "halves", "inductor",
    "integers_have_no_gradient_and_outputs_begin_as_zeros", "kernels_without_annotations", "many_threads",
    "neighbours_and_weights_in_two_dimensions", "one_result_that_is_not_used", "one_tensor_for_two_parameters",
    "second_derivatives", "strided_and_expanded_tensors",
    "vectors_and_vectors_by_value",
]  # fmt: skip
globals().update({f"test_{name}": getattr(test_function, f"test_{name}") for name in _ANYWHERE})

G = "cuda:0"
N = 1 << 20


@pytest.fixture(autouse=True)
def on_gpu():
    if not torch.cuda.is_available():
        pytest.skip("this build of PyTorch has no CUDA")
    torch.set_default_device(G)
    yield
    torch.set_default_device(None)


@pytest.fixture(params=[eager, compiled], ids=["eager", "compiled"])
def how(request):
    yield request.param
    torch._dynamo.reset()


@pytest.mark.parametrize(
    "name", ["int8", "int16", "int32", "int64", "uint8", "bool_", "float16", "bfloat16", "float32", "float64"]
)
def test_one_memory_both_ways(name):
    t = torch.zeros((2, 3), dtype=getattr(torch, name.rstrip("_")))
    a = dk.from_torch(t)
    assert (a.dtype, str(a.device), a.ptr) == (getattr(dk, name), G, t.data_ptr())
    back = dk.to_torch(a)
    assert (back.device, back.dtype, back.data_ptr()) == (t.device, t.dtype, t.data_ptr())
    a.fill_(1)
    assert (t == 1).all()


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_dlpack(version):
    a = dk.array([1.0, 2.0, 3.0], dtype=float, device=G)
    seen = torch.from_dlpack(a.__dlpack__(stream=torch.cuda.current_stream().cuda_stream or 1, max_version=version))
    seen *= 2.0
    assert a.list() == [2.0, 4.0, 6.0]
    t = torch.arange(6.0).reshape(2, 3)
    b = dk.from_dlpack(t, dtype=dk.vec3)
    assert (b.shape, b.ptr, str(b.device)) == ((2,), t.data_ptr(), G)
    torch.testing.assert_close(torch.as_tensor(b), t)  # by __cuda_array_interface__


def test_launches_take_tensors():
    x, y, s = torch.rand(N), torch.zeros(N), torch.zeros(1)
    for _ in range(3):
        x += 1.0
        dk.launch(square, N, inputs=[x, y])
        torch.testing.assert_close(y, x * x)
    dk.launch(total, N, inputs=[x, s])
    torch.testing.assert_close(s[0], x.sum(), rtol=1e-4, atol=0.0)


def test_launches_wait_for_pytorchs_streams_and_they_for_launches():
    side = torch.cuda.Stream()
    x, y = torch.zeros(N), torch.zeros(N)
    torch.cuda.synchronize()
    for k in range(20):
        with torch.cuda.stream(side):
            torch.cuda._sleep(1_000_000)
            x.fill_(float(k))
            dk.launch(square, N, inputs=[x, y])
            assert (y == float(k * k)).all()


def test_functions_run_on_pytorchs_stream():
    f = dk.torch_function(wave64)
    side = torch.cuda.Stream()
    x = tensor(N)
    torch.cuda.synchronize()
    for k in range(10):
        with torch.cuda.stream(side):
            torch.cuda._sleep(1_000_000)
            z = x * float(k)
            found = f(z, 0.7)
            torch.testing.assert_close(found, torch.sin(0.7 * z) * z)
            (gradient,) = torch.autograd.grad(found.sum(), x)
            wanted = k * (torch.sin(0.7 * z) + 0.7 * z * torch.cos(0.7 * z))
            torch.testing.assert_close(gradient, wanted.detach())


def test_memory_of_side_streams_is_not_handed_out_early():
    side = dk.Stream(G)
    y = dk.zeros(N, device=G)
    f = torch.full((N,), 3.0)
    torch.cuda.synchronize()
    with torch.cuda.stream(dk.stream_to_torch(side)):
        torch.cuda._sleep(10_000_000)
    dk.launch(square, N, inputs=[f, y], stream=side)
    del f
    torch.full((N,), -7.0)  # would take the same memory
    side.synchronize()
    assert (y.numpy() == 9.0).all()


def test_streams_both_ways():
    theirs = torch.cuda.Stream()
    mine = dk.stream_from_torch(theirs)
    assert mine.cuda_stream == theirs.cuda_stream
    assert dk.stream_to_torch(mine).cuda_stream == theirs.cuda_stream
    with torch.cuda.stream(theirs):
        assert dk.stream_from_torch(G).cuda_stream == theirs.cuda_stream
    assert dk.stream_from_torch(G).is_default
    made = dk.Stream(G)
    assert dk.stream_to_torch(made).cuda_stream == made.cuda_stream


def test_pytorchs_graphs_take_calls():
    f = dk.torch_function(wave64)
    x = tensor(1000, grad=False)
    warm = torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        f(x, 0.7)
    torch.cuda.current_stream().wait_stream(warm)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = f(x, 0.7)
    for k in range(3):
        x.fill_(float(k))
        graph.replay()
        torch.testing.assert_close(y, torch.sin(0.7 * x) * x)


def test_a_number_from_another_device_gets_its_gradient_there():
    f = dk.torch_function(wave64)
    a = torch.tensor(0.7, dtype=torch.float64, device="cpu", requires_grad=True)
    x = tensor(50, grad=False)
    f(x, a).sum().backward()
    assert a.grad.device.type == "cpu"
    torch.testing.assert_close(a.grad, (x * x * torch.cos(0.7 * x)).sum().cpu())


def test_the_same_as_pytorch_on_a_large_tensor(how):
    f = dk.torch_function(wave64)
    same(lambda x: f(x, 0.7), lambda x: torch.sin(0.7 * x) * x, tensor(N), how=how)
