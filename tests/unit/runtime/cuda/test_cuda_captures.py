"""Captures, diffkern's and those of other libraries: what may not happen in one, and what does not end one."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

import pytest
from runtime_cuda_kernels import accumulate, square
from support.fake_driver.driver import FakeDriver

import diffkern as dk

G = "cuda:0"


@contextlib.contextmanager
def captured_by_others(driver: FakeDriver, blocking: bool = False) -> Iterator[dk.Stream]:
    """Let another library capture a stream, which is the current one of diffkern too; the capture has to come out."""
    device = dk.get_device(G)
    with device.active:
        handle = driver.stream_create(0, not blocking)
        driver.capture_begin(handle)
        stream = dk.Stream(device, cuda_stream=handle, non_blocking=not blocking)
        with dk.ScopedStream(stream, sync_enter=False, sync_exit=False):
            yield stream
        driver.graph_destroy(driver.capture_end(handle))  # raises if the capture was ended on the way


def test_memory_is_not_allocated_in_a_capture_of_others(driver: FakeDriver) -> None:
    dk.zeros(4, device=G)
    for blocking in (False, True):
        with captured_by_others(driver, blocking):
            with pytest.raises(dk.LaunchError, match="another library captures") as info:
                dk.zeros(4, device=G)
            assert "allocate arrays before the capture" in str(info.value)
    with captured_by_others(driver, blocking=True), dk.ScopedStream(dk.get_device(G).null_stream, sync_enter=False):
        with pytest.raises(dk.LaunchError, match="another library captures"):
            dk.zeros(4, device=G)
    assert dk.zeros(4, device=G).list() == [0.0] * 4


def test_arrays_work_in_a_capture_of_others(driver: FakeDriver) -> None:
    """Arrays of another stream: their memory is waited for at once, and no event ties the capture to it."""
    x, y = dk.ones(4, device=G), dk.zeros(4, device=G)
    driver.calls.clear()
    with captured_by_others(driver):
        dk.launch(square, 4, inputs=[x, y, 1.0])
        launched = driver.names()
        assert "stream_wait" in launched
        assert "stream_wait_event" not in launched
    assert driver.launches == []


@pytest.mark.parametrize("blocking", [False, True])
def test_memory_that_is_let_go_in_a_capture_is_freed_later(driver: FakeDriver, blocking: bool) -> None:
    x, y, kept = (dk.zeros(4, device=G) for _ in range(3))
    dk.synchronize()
    with captured_by_others(driver, blocking):
        if not blocking:
            dk.launch(square, 4, inputs=[x, y, 1.0])
        driver.calls.clear()
        del x, y
        gc.collect()
        assert not {"free", "event_record", "stream_wait_event"} & set(driver.names())
    more = dk.zeros(4, device=G)
    gc.collect()
    assert driver.live_bytes == kept._memory.nbytes + more._memory.nbytes


def test_running_out_of_memory_in_a_capture_waits_for_nothing(driver: FakeDriver) -> None:
    x = dk.zeros(64, device=G)
    with dk.record(run=False) as sequence:
        dk.copy(x[::2], x[1::2])  # needs an array on the way
        x[::2].assign([3.0] * 32)
    dk.synchronize()
    sequence.capture()
    driver.calls.clear()
    driver.fail("alloc", code=2)
    with pytest.raises(dk.CudaError, match="inside a capture") as info:
        sequence.capture()
    assert "before the capture begins" in str(info.value)
    assert "synchronize" not in driver.names()
    assert driver.names().count("alloc") == 1


def test_running_out_of_memory_spares_captures_of_others(driver: FakeDriver) -> None:
    """What was freed is waited for stream by stream, since a wait for the device ends every capture."""
    other = dk.Stream(G)
    with dk.ScopedStream(other):
        dk.zeros(4, device=G)
    with captured_by_others(driver):
        with dk.ScopedStream(dk.get_device(G).null_stream, sync_enter=False, sync_exit=False):
            driver.calls.clear()
            driver.fail("alloc", code=2)
            x = dk.zeros(4, device=G)
            assert driver.names().count("stream_wait") == 2
    assert x.list() == [0.0] * 4


def test_the_step_that_ends_a_capture_is_named(driver: FakeDriver) -> None:
    """The driver says so with the next call, whatever that is; each step asks."""
    x, y = dk.ones(4, device=G), dk.zeros(4, device=G)
    with dk.record(run=False) as sequence:
        dk.launch(square, 4, inputs=[x, y, 1.0])
        dk.launch(accumulate, 4, inputs=[x, y, 1.0])
        dk.launch(square, 4, inputs=[y, x, 1.0])
    launch = driver.launch
    count = 0

    def spoiling(*args: object) -> None:
        nonlocal count
        launch(*args)  # type: ignore[arg-type]
        count += 1
        if count == 2:
            with dk.get_device(G).active:
                driver._time.end_captures(driver.current_context())

    driver.launch = spoiling  # type: ignore[method-assign]
    with pytest.raises(dk.CudaError, match=r"step 1 of a graph \(accumulate\)") as info:
        sequence.capture()
    assert info.value.call == "cuStreamGetCaptureInfo"
    assert count == 2
    assert not dk.get_device(G).is_capturing


def test_gradients_that_are_zero_are_set_to_zero_in_a_capture_of_others(driver: FakeDriver) -> None:
    """Whoever launches the graph finds other gradients than there were when it was captured."""
    x, y = (dk.zeros(4, device=G, requires_grad=True) for _ in range(2))
    with dk.Tape() as tape:
        dk.launch(square, 4, inputs=[x, y, 1.0])
    driver.calls.clear()
    tape.zero()
    assert driver.names() == []
    with captured_by_others(driver):
        driver.calls.clear()
        tape.zero()
        assert driver.names().count("fill") == 2
