"""Errors of the driver: each becomes an exception that names the call, and nothing is left half done."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from runtime_cuda_kernels import accumulate, square

import diffkern as dk

G = "cuda:0"


def test_kinds():
    assert issubclass(dk.CudaError, RuntimeError)
    assert issubclass(dk.CudaError, dk.KernelError)


def _everything():
    """Use each call of the driver that a program can reach."""
    x, y = dk.array(np.arange(4.0), dtype=float, device=G), dk.zeros(4, device=G)
    dk.launch(square, 4, inputs=[x, y, 1.0])
    stream = dk.Stream(G)
    event = stream.record_event()
    dk.get_device(G).null_stream.wait_event(event)
    dk.copy(x, y)
    pinned = dk.zeros(4, pinned=True)
    dk.copy(pinned, x)
    pinned.numpy()
    with dk.ScopedCapture(G) as capture:
        dk.copy(x, y)
        dk.capture_if(flag := dk.ones(1, dtype=int, device=G), lambda: flag.fill_(2))
    capture.graph.launch()
    stream.synchronize()
    dk.synchronize()
    x.numpy()


_CALLS = (
    "primary_context set_context alloc free fill copy copy_to_device copy_to_host load_module function launch "
    "function_attribute stream_create stream_synchronize event_create event_record event_synchronize "
    "stream_wait_event alloc_host capture_begin capture_end graph_instantiate graph_launch graph_destroy "
    "conditional_handle conditional_body set_condition synchronize"
).split()


@pytest.mark.parametrize("call", _CALLS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what a destructor meets
def test_every_call_can_fail(driver, call):
    driver.fail(call, code=1)
    met = None
    try:
        _everything()
    except dk.CudaError as error:
        met = error
    if call == "free":
        assert met is None  # in a destructor, where Python reports it
    else:
        assert met is not None
        assert met.code == 1
        assert met.call in str(met)
    del met
    assert call in driver.names()
    gc.collect()
    _everything()  # and afterwards all is well


def test_message_names_kernel_and_call(driver):
    x, y = dk.zeros(4, device=G), dk.zeros(4, device=G)
    driver.fail("launch", code=1)
    with pytest.raises(dk.CudaError, match=r"forward of square\(.*cuLaunchKernel failed: CUDA_ERROR_INVALID_VALUE"):
        dk.launch(square, 4, inputs=[x, y, 1.0])
    driver.fail("load_module", code=209)
    with pytest.raises(dk.CudaError, match=r"accumulate.*cuModuleLoadData") as info:
        dk.launch(accumulate, 4, inputs=[x, y, 1.0])
    assert "another architecture" in str(info.value)


def test_sticky_errors_name_what_was_launched(driver):
    x, y = dk.zeros(4, device=G), dk.zeros(4, device=G)
    dk.launch(square, 4, inputs=[x, y, 1.0])
    driver.fail("synchronize", code=700)
    with pytest.raises(dk.CudaError) as info:
        dk.synchronize()
    assert "kernels launched before on cuda:0, last one first: forward of square(" in str(info.value)
    assert "start a new process" in str(info.value)
    with pytest.raises(dk.CudaError, match="ILLEGAL_ADDRESS"):
        y.numpy()
    del x, y
    gc.collect()  # the context is gone: freeing says nothing more


def test_out_of_memory_is_tried_twice(driver):
    dk.zeros(4, device=G)
    driver.fail("alloc", code=2)
    x = dk.zeros(4, device=G)
    assert x.list() == [0.0] * 4
    driver.fail("alloc", code=2)
    driver.fail("alloc", code=2)
    with pytest.raises(dk.CudaError, match="4000 bytes were asked for on cuda:0"):
        dk.zeros(1000, device=G)


def test_a_failed_capture_leaves_the_device_usable(driver):
    x, y = dk.ones(4, device=G), dk.zeros(4, device=G)
    with dk.record(run=False) as sequence:
        dk.launch(square, 4, inputs=[x, y, 1.0])
    driver.fail("launch", code=1)
    with pytest.raises(dk.CudaError, match="cuLaunchKernel"):
        sequence.capture()
    assert not dk.get_device(G).is_capturing
    sequence.capture().launch()
    assert y.list() == [1.0] * 4


def test_fake_notices_wrong_use(driver):
    x = dk.zeros(4, device=G)
    ptr = x.ptr
    driver.set_context(1)
    with pytest.raises(dk.CudaError, match="cuMemcpyDtoDAsync"):
        driver.copy(ptr, ptr + 8, 16, 0)
    del x
    gc.collect()
    with pytest.raises(dk.CudaError, match="cuMemFreeAsync"):
        driver.free(ptr, 0)
    with pytest.raises(dk.CudaError, match="cuStreamSynchronize"):
        driver.stream_synchronize(12345)
    stream, other = driver.stream_create(0, True), driver.stream_create(0, True)
    driver.capture_begin(stream)
    with pytest.raises(dk.CudaError, match="CAPTURE_UNSUPPORTED"):
        driver.stream_synchronize(stream)
    with pytest.raises(dk.CudaError, match="CAPTURE_INVALIDATED"):
        driver.capture_end(stream)
    driver.capture_begin(stream)
    event = driver.event_create(False)
    driver.event_record(event, stream)
    driver.stream_wait_event(other, event)
    held = driver.alloc(4, 0)
    driver.fill(held, b"\0", 4, other)
    with pytest.raises(dk.CudaError, match="CAPTURE_UNJOINED"):
        driver.capture_end(stream)
    blocking = driver.stream_create(0, False)
    driver.capture_begin(blocking)
    with pytest.raises(dk.CudaError, match="CAPTURE_IMPLICIT"):
        driver.fill(held, b"\0", 4, 0)
    with pytest.raises(dk.CudaError, match="CAPTURE_UNSUPPORTED"):
        driver.capture_begin(0)
