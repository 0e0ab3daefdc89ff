"""Streams and events: what is in order, what is not, and that a missing wait shows."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest
from runtime_cuda_kernels import square

import diffkern as dk

G = "cuda:0"


@pytest.fixture
def arrays(driver):
    return dk.full(8, 3.0, device=G), dk.zeros(8, device=G), dk.zeros(8, device=G)


def test_work_is_late(driver, arrays):
    x, y, _ = arrays
    dk.launch(square, 8, inputs=[x, y, 1.0])
    assert driver.pending
    assert driver.launches == []
    dk.synchronize()
    assert not driver.pending
    assert len(driver.launches) == 1


def test_a_missing_wait_shows(driver, arrays):
    x, y, z = arrays
    first, second = dk.Stream(G), dk.Stream(G)
    dk.synchronize()
    dk.launch(square, 8, inputs=[x, y, 1.0], stream=first)
    dk.launch(square, 8, inputs=[y, z, 1.0], stream=second)
    dk.synchronize()
    assert z.list() == [0.0] * 8  # the second ran first: nothing said that it must not
    dk.launch(square, 8, inputs=[x, y, 2.0], stream=first)
    second.wait_stream(first)
    dk.launch(square, 8, inputs=[y, z, 1.0], stream=second)
    dk.synchronize()
    assert z.list() == [324.0] * 8


def test_events(driver, arrays):
    x, y, z = arrays
    first, second = dk.Stream(G), dk.Stream(G)
    dk.synchronize()
    dk.launch(square, 8, inputs=[x, y, 1.0], stream=first)
    event = first.record_event()
    assert not event.is_complete or not driver.pending
    second.wait_event(event)
    dk.launch(square, 8, inputs=[y, z, 1.0], stream=second)
    second.synchronize()
    assert event.is_complete
    assert z.list() == [81.0] * 8
    event.synchronize()
    assert dk.Event(G).is_complete
    with pytest.raises(ValueError, match="an event of cuda:0 is needed"):
        first.record_event(dk.Event("cpu"))
    with pytest.raises(ValueError, match="records events of the CPU"):
        dk.Stream("cpu").record_event(dk.Event(G))


def test_default_stream_waits_for_the_others_and_they_for_it(driver, arrays):
    x, y, z = arrays
    other = dk.Stream(G)
    dk.launch(square, 8, inputs=[x, y, 1.0], stream=other)
    dk.launch(square, 8, inputs=[y, z, 1.0])
    dk.launch(square, 8, inputs=[z, y, 1.0], stream=other)
    assert y.list() == [6561.0] * 8


def test_the_default_stream_may_be_asked_for_while_another_one_is_current(driver, arrays):
    x, y, _ = arrays
    with dk.ScopedStream(dk.Stream(G)):
        dk.launch(square, 8, inputs=[x, y, 1.0], stream=dk.get_device(G).null_stream)
    dk.synchronize_device(G)
    assert driver.launches[0].stream == 0


def test_scoped_stream(driver, arrays):
    x, y, _ = arrays
    gpu = dk.get_device(G)
    with dk.ScopedStream(dk.Stream(G), sync_exit=True) as stream:
        assert gpu.stream is stream
        assert dk.get_stream(G) is stream
        assert dk.get_stream().is_default  # the CPU's
        dk.launch(square, 8, inputs=[x, y, 1.0])
    assert gpu.stream is gpu.null_stream
    dk.synchronize_device(G)
    assert driver.launches[0].stream == stream.cuda_stream
    gpu.stream = stream
    assert dk.get_stream(G) is stream
    gpu.stream = gpu.null_stream
    dk.synchronize_stream(stream)
    with pytest.raises(ValueError, match="is not a stream of cpu"):
        dk.set_stream(stream, "cpu")


def test_streams_and_devices_go_together(two_devices):
    x, y = dk.ones(4, device="cuda:0"), dk.zeros(4, device="cuda:0")
    with pytest.raises(dk.LaunchError, match="is not one of cuda:0"):
        dk.launch(square, 4, inputs=[x, y, 1.0], stream=dk.Stream("cuda:1"))
    with pytest.raises(dk.LaunchError, match="is not one of cuda:0"):
        dk.launch(square, 4, inputs=[x, y, 1.0], stream=dk.Stream("cpu"))
    two_devices.calls.clear()
    other = dk.Stream("cuda:1", priority=-99)
    assert other.device == "cuda:1"
    assert other.priority == -5
    assert ("set_context", (2,)) in two_devices.calls


def test_times(driver):
    start, end = dk.Event(G, enable_timing=True), dk.Event(G, enable_timing=True)
    stream = dk.Stream(G)
    stream.record_event(start)
    stream.record_event(end)
    assert dk.get_event_elapsed_time(start, end) > 0
    plain = stream.record_event()
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        dk.get_event_elapsed_time(start, plain)
    with pytest.raises(RuntimeError, match="once both have been recorded"):
        dk.get_event_elapsed_time(start, dk.Event(G))
    with pytest.raises(ValueError, match="different devices"):
        dk.get_event_elapsed_time(dk.Stream("cpu").record_event(), end)


def test_streams_of_the_cpu_wait_for_a_gpu(driver, arrays):
    x, y, _ = arrays
    here, there = dk.Stream("cpu"), dk.Stream(G)
    dk.launch(square, 8, inputs=[x, y, 1.0], stream=there)
    here.wait_event(there.record_event())
    seen = []
    here.enqueue(lambda: seen.append(driver.pending))
    here.synchronize()
    assert len(driver.launches) == 1
    there.wait_event(here.record_event())


def test_new_memory_is_there_on_any_stream(driver):
    first, second = dk.Stream(G), dk.Stream(G)
    with dk.ScopedStream(first):
        x = dk.full(8, 5.0, device=G)
    y = dk.empty(8, device=G)
    dk.launch(square, 8, inputs=[x, y, 1.0], stream=second)
    second.synchronize()
    assert y.list() == [25.0] * 8


def test_memory_is_freed_after_the_last_stream_that_used_it(driver):
    first, second = dk.Stream(G), dk.Stream(G)
    y = dk.empty(8, device=G)
    with dk.ScopedStream(first):
        x = dk.full(8, 5.0, device=G)
    dk.launch(square, 8, inputs=[x, y, 1.0], stream=second)
    del x
    gc.collect()
    frees = [args for name, args in driver.calls if name == "free"]
    assert frees == [(frees[0][0], first.cuda_stream)]
    first.synchronize()  # frees, and only after the launch on the other stream
    second.synchronize()
    assert y.list() == [25.0] * 8


def test_is_complete_makes_progress(driver, arrays):
    x, y, _ = arrays
    stream = dk.Stream(G)
    dk.launch(square, 8, inputs=[x, y, 1.0], stream=stream)
    rounds = 0
    while not stream.is_complete:
        rounds += 1
    assert rounds > 0
    assert len(driver.launches) == 1


def test_same_program_on_both_devices(driver):
    results = []
    for device in ("cpu", G):
        with dk.ScopedDevice(device):
            x, y = dk.array(np.arange(16.0), dtype=float), dk.zeros(16)
            stream = dk.Stream()
            with dk.ScopedStream(stream):
                dk.launch(square, 16, inputs=[x, y, 2.0])
                event = dk.record_event()
                dk.copy(x, y)
            dk.wait_event(event)
            dk.launch(square, 16, inputs=[y, x, 0.5])
            dk.synchronize_stream(stream)
            results.append((x.numpy().copy(), y.numpy().copy()))
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("non_blocking", [False, True])
@pytest.mark.parametrize("captured", [False, True])
def test_a_stream_is_destroyed_after_the_memory_that_is_freed_in_its_order(driver, monkeypatch, non_blocking, captured):
    """Objects of a collected cycle are finalized in any order."""
    said = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: said.append(told.exc_value))

    class Model:
        def __init__(self):
            self.stream, self.other = (dk.Stream(G, non_blocking=non_blocking) for _ in range(2))
            with dk.ScopedStream(self.stream):
                self.made = dk.zeros(8, device=G)
            with dk.ScopedStream(self.other):
                self.made.fill_(2.0)
            self.itself = self

    Model()
    if captured:  # what is left is freed behind the capture
        with dk.ScopedCapture(G):
            gc.collect()
        gc.collect()
    else:
        gc.collect()
    names = driver.names()
    assert said == []
    assert names.count("free") == names.count("alloc") > 0
    assert names.count("stream_destroy") >= 2
    assert names.index("stream_destroy") > len(names) - 1 - names[::-1].index("free")


def test_a_stream_without_memory_is_destroyed_at_once(driver):
    stream = dk.Stream(G)
    with dk.ScopedStream(stream):
        made = dk.zeros(8, device=G)
    driver.calls.clear()
    del made
    assert driver.names().count("free") == 1
    assert "stream_destroy" not in driver.names()
    del stream
    assert driver.names().count("stream_destroy") == 1


def test_a_failed_allocation_keeps_no_stream(driver):
    stream = dk.Stream(G)
    driver.fail("alloc", code=1)
    with dk.ScopedStream(stream), pytest.raises(dk.CudaError):
        dk.zeros(8, device=G)
    del stream
    assert driver.names().count("stream_destroy") == 1
