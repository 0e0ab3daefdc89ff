"""The run time on a GPU: what only a real driver can show to be right."""

from __future__ import annotations

import gc
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import require

import diffkern as dk

sys.path.insert(0, str(Path(__file__).parent.parent / "unit" / "runtime" / "cuda"))

from diffkern.testing.gradcheck import gradcheck  # noqa: I001
from gather_runs import RUNS, N, gradients
from runtime_cuda_kernels import accumulate, beyond, countdown, neighbours, square, total

pytestmark = pytest.mark.gpu

G = "cuda:0"


@dk.kernel(mode="debug")
def divides(x: dk.array(dtype=float), n: dk.array(dtype=int)):
    i = dk.tid()
    x[i] = float(7 // n[i])


@dk.kernel(mode="debug")
def steps(x: dk.array(dtype=float), n: dk.array(dtype=int)):
    i = dk.tid()
    for k in range(0, 4, n[i]):
        x[i] += float(k)


@dk.kernel(mode="debug")
def meets(x: dk.array(dtype=float), n: dk.array(dtype=int)):
    i = dk.tid()
    x[n[i]] = float(i)


@pytest.mark.real_gpu
def test_device():
    gpu = dk.get_device(G)
    assert gpu.arch >= 75
    assert gpu.sm_count > 0
    assert 0 < gpu.free_memory <= gpu.total_memory
    assert gpu.target == f"sm_{gpu.arch}"


@pytest.mark.parametrize("dtype", [float, dk.float64, int, dk.uint8, dk.float16, dk.bfloat16, dk.vec3, dk.mat33])
def test_arrays(dtype):
    rng = np.random.default_rng(1)
    here = dk.zeros(1000, dtype=dtype)
    here.assign(rng.integers(0, 100, here.numpy().shape))
    there = here.to(G)
    np.testing.assert_array_equal(there.numpy(), here.numpy())
    np.testing.assert_array_equal(there[10:500:7].numpy(), here.numpy()[10:500:7])
    there[::2] = there[1::2]
    here[::2] = here[1::2]
    np.testing.assert_array_equal(there.numpy(), here.numpy())
    there[5:].zero_()
    assert not there.numpy()[5:].any()


def test_large_launches_and_sums():
    n = (1 << 24) + 3
    x, out = dk.ones(n, device=G), dk.zeros(1, device=G)
    dk.launch(total, n, inputs=[x, out])
    assert out.list() == [float(1 << 24)] or abs(out.list()[0] - n) < 1e-5 * n
    for options in ({"max_blocks": 2}, {"block_dim": 64}, {"block_dim": 1024}):
        y = dk.zeros(n, device=G)
        dk.launch(square, n, inputs=[x, y, 2.0], **options)
        assert (y.numpy() == 2.0).all()


def test_streams():
    x, y, z = dk.full(1 << 20, 3.0, device=G), dk.zeros(1 << 20, device=G), dk.zeros(1 << 20, device=G)
    first, second = dk.Stream(G), dk.Stream(G)
    start, end = dk.Event(G, enable_timing=True), dk.Event(G, enable_timing=True)
    first.record_event(start)
    dk.launch(square, 1 << 20, inputs=[x, y, 1.0], stream=first)
    second.wait_stream(first)
    dk.launch(square, 1 << 20, inputs=[y, z, 1.0], stream=second)
    second.record_event(end)
    assert dk.get_event_elapsed_time(start, end) > 0
    assert (z.numpy() == 81.0).all()


def test_pinned_copies():
    here, back = dk.array(np.arange(1 << 20), dtype=float, pinned=True), dk.zeros(1 << 20, pinned=True)
    there = dk.empty(1 << 20, device=G)
    dk.copy(there, here)
    dk.copy(back, there)
    here.fill_(0.0)
    np.testing.assert_array_equal(back.numpy(), np.arange(1 << 20, dtype=np.float32))


def test_tape_record_and_graph_agree():
    values = np.random.default_rng(3).normal(size=10_000).astype(np.float32)
    found = []
    for device in ("cpu", G):
        x = dk.array(values, device=device, requires_grad=True)
        loss = dk.zeros(1, device=device, requires_grad=True)

        def forward(x=x, loss=loss, device=device):
            y, z = dk.zeros(10_000, device=device), dk.zeros(10_000, device=device)
            dk.launch(square, 10_000, inputs=[x, y, 0.5])
            dk.launch(neighbours, 10_000, inputs=[y, z])
            dk.launch(accumulate, 10_000, inputs=[x, z, 3.0])
            dk.launch(total, 10_000, inputs=[z, loss])

        with dk.Tape() as tape:
            forward()
        tape.backward(loss)
        found.append(x.grad.numpy().copy())
        tape.zero()
        with dk.record(run=False) as sequence:
            loss.zero_()
            forward()
        graph = sequence.adjoint(loss).capture()
        for _ in range(3):
            graph.launch()
        found.append(x.grad.numpy().copy())
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-4, atol=1e-5)


def test_graph_follows_its_parameters():
    x, y = dk.full(100, 2.0, device=G), dk.zeros(100, device=G)
    with dk.record(run=False) as sequence:
        dk.launch(square, 100, inputs=[x, y, 1.0])
    graph = sequence.capture()
    for a in (1.0, 2.5, 4.0):
        sequence.set_param("a", a)
        graph.launch()
        assert (y.numpy() == 4.0 * a).all()


@pytest.mark.parametrize("n", [N, N - 9])
@pytest.mark.parametrize("run", RUNS)
def test_sums_over_all_pairs(run, n):
    """Their adjoint gathers where each thread goes over as many as there are, and scatters elsewhere."""
    for here, there in zip(gradients(run, "cpu", n), gradients(run, G, n), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-3, atol=1e-4)


def test_while_node():
    left, x = dk.full(1, 5, dtype=int, device=G), dk.ones(1, device=G)
    with dk.ScopedCapture(G) as capture:
        dk.capture_while(left, lambda: dk.launch(countdown, 1, inputs=[left, x]))
    capture.graph.launch()
    assert x.list() == [32.0]


def test_debug():
    x, y = dk.zeros(4, device=G), dk.zeros(4, device=G)
    with pytest.raises(dk.KernelRuntimeError, match=r"thread 3: index 4 is out of bounds for axis 0 of array 'x'"):
        dk.launch(beyond, 4, inputs=[x, y])


@pytest.mark.parametrize("kernel", [divides, steps, meets], ids=lambda k: k.name)
def test_mistakes_that_debug_mode_finds(kernel):
    x, n = dk.zeros(8, device=G), dk.zeros(8, dtype=int, device=G)
    with pytest.raises(dk.KernelRuntimeError) as there:
        dk.launch(kernel, 8, inputs=[x, n])
    with pytest.raises(dk.KernelRuntimeError) as here:
        dk.launch(kernel, 8, inputs=[dk.zeros(8), dk.zeros(8, dtype=int)])
    # Which of several threads is told of is the hardware's choice.
    assert re.sub(r"\d+", "", str(there.value)) == re.sub(r"\d+", "", str(here.value))


def test_gradcheck():
    x, y = np.linspace(0.5, 1.5, 9, dtype=np.float32), np.zeros(9, np.float32)
    gradcheck(square, 9, [x, y, 2.0], device=G)


def test_overlapping_arrays():
    x, y = dk.array(np.arange(65), dtype=float, device=G), dk.zeros(64, device=G)
    dk.launch(square, 64, inputs=[x[:64], y, 1.0])
    np.testing.assert_array_equal(y.numpy(), np.arange(64, dtype=np.float32) ** 2)
    dk.launch(square, 64, inputs=[x[:64], x[:64], 1.0])
    np.testing.assert_array_equal(x.numpy()[:64], np.arange(64, dtype=np.float32) ** 2)


@pytest.mark.parametrize("options", [{"block_dim": 64}, {"launch_bounds": (96, 2)}, {"block_dim": 1024}])
def test_blocks_of_the_kernels_own(options):
    kernel = dk.kernel(**options)(square.func)
    x, y = dk.full(1000, 3.0, device=G), dk.zeros(1000, device=G)
    kernel[1000](x, y, 2.0)
    assert y.list() == [18.0] * 1000


def test_branches_of_a_graph():
    """Many independent chains, joined at the end: whatever the GPU runs side by side, the sums are right."""
    n, out = 1 << 16, dk.zeros(1, device=G)
    chains = [(dk.full(n, float(k + 1), device=G), dk.zeros(n, device=G)) for k in range(8)]
    with dk.record(run=False) as sequence:
        out.zero_()
        for x, y in chains:
            dk.launch(square, n, inputs=[x, y, 1.0])
            dk.launch(accumulate, n, inputs=[y, x, 1.0])
            dk.launch(square, n, inputs=[y, x, 0.5])
        for x, _ in chains:
            dk.launch(total, n, inputs=[x, out])
    graph = sequence.capture()
    for _ in range(3):
        for k, (x, _) in enumerate(chains):
            x.fill_(float(k + 1))
        graph.launch()
        wanted = n * sum(0.5 * (k + 1) ** 4 for k in range(8))
        assert abs(out.list()[0] - wanted) < 1e-5 * wanted


def test_copies_between_gpus():
    if len(dk.get_cuda_devices()) < 2:
        pytest.skip("there is one GPU")
    held = np.random.default_rng(2).normal(size=(300, 7)).astype(np.float32)
    x, y = dk.array(held, device=G), dk.zeros((300, 7), device="cuda:1")
    dk.copy(y, x)
    np.testing.assert_array_equal(y.numpy(), held)
    dk.copy(y[::2], x[1::2])
    np.testing.assert_array_equal(y.numpy()[::2], held[1::2])
    assert x.to("cuda:1").to("cpu").list() == x.list()


def test_the_interfaces_of_other_libraries():
    """DLPack and ``__cuda_array_interface__``, one memory from both sides."""
    x = dk.array(np.arange(8.0), dtype=float, device=G)
    seen = dk.from_dlpack(x)
    seen.fill_(2.0)
    assert x.list() == [2.0] * 8
    y = dk.zeros(8, device=G)
    theirs = type("Theirs", (), {"__cuda_array_interface__": y.__cuda_array_interface__})()
    dk.launch(square, 8, inputs=[x, theirs, 1.0])
    assert y.list() == [4.0] * 8


@pytest.mark.real_gpu
def test_memory_is_given_back():
    gpu = dk.get_device(G)
    held = dk.zeros(1 << 26, device=G)
    dk.synchronize()
    before = gpu.free_memory
    del held
    gc.collect()
    for _ in range(64):  # the pool takes the same memory again
        dk.zeros(1 << 26, device=G)
    dk.synchronize()
    assert gpu.free_memory >= before - (1 << 28)


@pytest.mark.real_gpu  # CuPy calls NVIDIA's driver itself
def test_other_libraries():
    cupy = require("cupy")
    x = dk.array(np.arange(8.0), dtype=float, device=G)
    seen = cupy.asarray(x)
    seen *= 2
    assert x.list() == list(np.arange(8.0) * 2)
    y = cupy.zeros(8, dtype=cupy.float32)
    dk.launch(square, 8, inputs=[x, y, 1.0])
    dk.synchronize()
    np.testing.assert_array_equal(y.get(), (np.arange(8.0) * 2) ** 2)
