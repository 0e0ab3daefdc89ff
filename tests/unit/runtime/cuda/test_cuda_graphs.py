"""Graphs: capture, launches with other parameters, conditions; and what cannot be captured."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from runtime_cuda_kernels import accumulate, beyond, countdown, square, total
from support.fake_driver.driver import fake_cuda

import diffkern as dk

G = "cuda:0"


@pytest.mark.parametrize("device", ["cpu", G])
def test_capture(driver, device):
    x, y = dk.full(4, 2.0, device=device), dk.zeros(4, device=device)
    with dk.ScopedCapture(device) as capture:
        dk.launch(square, 4, inputs=[x, y, 1.0])
        dk.copy(x, y)
    assert capture.graph.device == device
    assert x.list() == [2.0] * 4
    dk.capture_launch(capture.graph)
    assert x.list() == [4.0] * 4
    dk.capture_launch(capture.graph)
    assert x.list() == [16.0] * 4
    assert "2 steps" in repr(capture.graph)
    stream = dk.Stream(device)
    capture.graph.launch(stream)
    stream.synchronize()
    assert x.list() == [256.0] * 4


def test_a_graph_is_one_call(driver):
    x, y = dk.ones(4, device=G), dk.zeros(4, device=G)
    dk.capture_begin()
    for _ in range(5):
        dk.launch(accumulate, 4, inputs=[x, y, 1.0])
    y[:2].fill_(3.0)
    graph = dk.capture_end()
    assert graph.nodes == 6
    dk.synchronize()
    driver.calls.clear()
    graph.launch()
    names = [name for name in driver.names() if name != "set_context"]
    assert names == ["graph_launch"]
    assert y.list() == [3.0, 3.0, 5.0, 5.0]


@pytest.mark.parametrize("device", ["cpu", G])
def test_parameters_of_a_graph(driver, device):
    x, y = dk.full(4, 2.0, device=device), dk.zeros(4, device=device)
    with dk.record(run=False) as sequence:
        dk.launch(square, 4, inputs=[x, y, 1.0])
    graph = sequence.capture()
    graph.launch()
    assert y.list() == [4.0] * 4
    sequence.set_param("a", 3.0)
    graph.launch()
    assert y.list() == [12.0] * 4
    sequence[0].set_dim(2)
    y.zero_()
    graph.launch()
    assert y.list() == [12.0, 12.0, 0.0, 0.0]
    if device == G:
        assert driver.names().count("graph_instantiate") == 1
        assert driver.names().count("graph_update") == 2


@pytest.mark.parametrize("device", ["cpu", G])
def test_gradients_in_a_graph(driver, device):
    x = dk.array([1.0, 2.0, 3.0], dtype=float, device=device, requires_grad=True)
    loss = dk.zeros(1, device=device, requires_grad=True)
    with dk.ScopedCapture(device) as capture:
        tape = dk.Tape()
        with tape:
            loss.zero_()
            y = dk.zeros(3, device=device)  # no gradient of its own: the sweep has a temporary one
            dk.launch(square, 3, inputs=[x, y, 2.0])
            dk.launch(total, 3, inputs=[y, loss])
        tape.zero()
        tape.backward(loss)
    for _ in range(3):
        capture.graph.launch()
        assert loss.list() == [28.0]
        assert x.grad.list() == [4.0, 8.0, 12.0]


@pytest.mark.parametrize("device", ["cpu", G])
def test_zeros_in_a_graph_are_zero_each_time(driver, device):
    x, out = dk.ones(4, device=device), dk.zeros(1, device=device)
    with dk.ScopedCapture(device) as capture:
        sums = dk.zeros(1, device=device)
        dk.launch(total, 4, inputs=[x, sums])
        dk.copy(out, sums)
    for _ in range(2):
        capture.graph.launch()
        assert out.list() == [4.0]


@pytest.mark.parametrize("device", ["cpu", G])
def test_while(driver, device):
    left, x = dk.full(1, 5, dtype=int, device=device), dk.ones(1, device=device)

    def body(factor):
        for _ in range(factor):
            dk.launch(countdown, 1, inputs=[left, x])

    with dk.ScopedCapture(device) as capture:
        dk.capture_while(left, body, factor=1)
        dk.copy(out := dk.zeros(1, device=device), x)
    assert x.list() == [1.0]
    capture.graph.launch()
    assert (left.list(), x.list(), out.list()) == ([0], [32.0], [32.0])
    capture.graph.launch()
    assert x.list() == [32.0]
    left.fill_(2)
    capture.graph.launch()
    assert out.list() == [128.0]
    left.fill_(3)
    dk.capture_while(left, body, factor=1)  # outside a capture: at once
    assert x.list() == [1024.0]


@pytest.mark.parametrize("device", ["cpu", G])
def test_a_graph_follows_parameters_of_a_body(driver, device):
    left, x, other = (dk.zeros(1, dtype=kind, device=device) for kind in (int, float, float))
    with dk.ScopedCapture(device) as body:
        dk.launch(countdown, 1, inputs=[left, x])
    with dk.ScopedCapture(device) as capture:
        left.fill_(2)
        x.fill_(1.0)
        other.fill_(1.0)
        dk.capture_while(left, body.graph)
    capture.graph.launch()
    assert (x.list(), other.list()) == ([4.0], [1.0])
    body.graph.sequence.set_param("x", other)
    capture.graph.launch()
    assert (x.list(), other.list()) == ([1.0], [4.0])
    capture.graph.sequence.set_param("x", x)
    capture.graph.launch()
    assert (x.list(), other.list()) == ([4.0], [1.0])


@pytest.mark.parametrize("device", ["cpu", G])
def test_if(driver, device):
    flag, x = dk.zeros(1, dtype=int, device=device), dk.zeros(2, device=device)
    with dk.ScopedCapture(device) as capture:
        dk.capture_if(flag, lambda: x.fill_(1.0), lambda: x.fill_(2.0))
    capture.graph.launch()
    assert x.list() == [2.0, 2.0]
    flag.fill_(7)
    capture.graph.launch()
    assert x.list() == [1.0, 1.0]
    with dk.ScopedCapture(device) as outer:
        dk.capture_if(flag, capture.graph)
    x.zero_()
    outer.graph.launch()
    assert x.list() == [1.0, 1.0]


def test_conditions_are_checked(driver):
    x = dk.zeros(1, dtype=int, device=G)
    with pytest.raises(TypeError, match="one int32"):
        dk.capture_while(dk.zeros(1, device=G), lambda: None)
    with pytest.raises(TypeError, match="a function or a graph"):
        dk.capture_while(x, 3)
    with pytest.raises(dk.LaunchError, match="does nothing to arrays"):
        dk.capture_if(x, lambda: None)
    with dk.Tape(), dk.record(run=False), pytest.raises(dk.LaunchError, match="has no adjoint"):
        dk.capture_if(x, lambda: x.fill_(1))


def test_drivers_without_conditional_nodes():
    with fake_cuda(conditional=False):
        flag = dk.ones(1, dtype=int, device=G)
        with dk.record(run=False) as sequence:
            dk.capture_if(flag, lambda: flag.fill_(3))
        with pytest.raises(dk.LaunchError, match=r"has no conditional nodes in graphs; they came with CUDA 12\.4"):
            sequence.capture()
        sequence.replay()  # asks the array instead
        assert flag.list() == [3]


def test_reading_inside_a_capture_is_refused(driver):
    x = dk.zeros(2, device=G)
    with dk.ScopedCapture(G):
        x.fill_(1.0)
        with pytest.raises(dk.LaunchError, match="is read while work for it is captured"):
            x.numpy()
    assert x.list() == [0.0, 0.0]


def test_mixed_devices_are_refused(driver):
    x, y = dk.zeros(2, device=G), dk.zeros(2)
    with dk.record(run=False) as sequence:
        x.fill_(1.0)
        y.fill_(1.0)
    with pytest.raises(dk.LaunchError, match=r"step 0 \(fill\) is on cuda:0, step 1 \(fill\) on cpu"):
        sequence.capture()


def test_debug_programs_are_refused(driver):
    x = dk.zeros(2, device=G)
    with dk.record(run=False) as sequence:
        dk.launch(beyond, 1, inputs=[x, x])
    with pytest.raises(dk.LaunchError, match="debug program"):
        sequence.capture()
    assert not dk.get_device(G).is_capturing
    x.fill_(1.0)
    assert x.list() == [1.0, 1.0]


def test_copies_to_the_host(driver):
    x = dk.zeros(3, device=G)
    pinned, plain = dk.zeros(3, pinned=True), dk.zeros(3)
    source = dk.array([1.0, 2.0, 3.0], dtype=float)
    with dk.ScopedCapture(G) as capture:
        dk.copy(x, source)
        dk.copy(pinned, x)
    capture.graph.launch()
    assert pinned.list() == [1.0, 2.0, 3.0]
    source.fill_(4.0)
    capture.graph.launch()
    assert pinned.list() == [4.0] * 3
    with pytest.raises(dk.LaunchError, match="ordinary host memory"), dk.ScopedCapture(G):
        dk.copy(plain, x)


def test_a_graph_keeps_its_arrays(driver):
    x, y = dk.ones(4, device=G), dk.zeros(4, device=G)
    with dk.ScopedCapture(G) as capture:
        dk.copy(y[::2], x[::2])
        y[1::2].assign(np.array([5.0, 6.0], np.float32))
    del x
    gc.collect()
    capture.graph.launch()
    assert y.list() == [1.0, 5.0, 1.0, 6.0]
    del capture, y
    gc.collect()
    assert driver.live_bytes == 0
    assert "graph_exec_destroy" in driver.names()


def test_captures_begin_and_end(driver):
    with pytest.raises(RuntimeError, match="no capture has begun"):
        dk.capture_end()
    with dk.record(), pytest.raises(RuntimeError, match="no capture has begun"):
        dk.capture_end()
    with pytest.raises(TypeError, match="a graph is needed"):
        dk.capture_launch(3)
    with pytest.raises(ValueError, match="no device"):
        dk.capture_begin("cuda:5")


def test_graphs_inside_a_tape(driver):
    x = dk.ones(2, device=G, requires_grad=True)
    y = dk.zeros(2, device=G, requires_grad=True)
    with dk.ScopedCapture(G) as capture:
        dk.launch(square, 2, inputs=[x, y, 3.0])
    with dk.Tape() as tape:
        capture.graph.launch()
    tape.backward(grads={y: np.ones(2, np.float32)})
    assert x.grad.list() == [6.0, 6.0]
