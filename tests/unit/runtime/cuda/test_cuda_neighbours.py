"""Beside other libraries: their page-locked memory, their current context, their arrays."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from runtime_cuda_kernels import accumulate
from support.fake_driver.driver import FakeDriver, fake_cuda

import diffkern as dk

OTHER = 7  # a context of another library


@pytest.fixture
def two_devices():
    with fake_cuda(2) as driver:
        yield driver


@pytest.mark.parametrize("strided", [False, True])
def test_page_locked_memory_of_others_is_read_before_the_call_returns(driver: FakeDriver, strided: bool) -> None:
    """The driver copies from it beside the program, and its owner does not know of that."""
    theirs = driver.lock_pages(64).view(np.float32)
    theirs[:] = 1.0
    goal = dk.zeros(32, dtype=float, device="cuda:0")[::2] if strided else dk.zeros(16, dtype=float, device="cuda:0")
    goal.assign(theirs)
    theirs[:] = 2.0
    assert goal.list() == [1.0] * 16
    dk.copy(goal, dk.from_numpy(theirs))
    theirs[:] = 3.0
    assert goal.list() == [2.0] * 16
    made = dk.array(theirs, dtype=float, device="cuda:0")
    theirs[:] = 4.0
    assert made.list() == [3.0] * 16


def test_ordinary_memory_is_not_waited_for(driver: FakeDriver) -> None:
    goal = dk.zeros(16, dtype=float, device="cuda:0")
    driver.calls.clear()
    goal.assign(np.ones(16, np.float32))
    assert "stream_synchronize" not in driver.names()
    assert goal.list() == [1.0] * 16


def actions(driver: FakeDriver) -> list[Any]:
    """Things to do with a GPU, each by itself."""
    device = dk.get_device("cuda:1")
    x, y = dk.ones(8, device=device), dk.zeros(8, device=device)
    on_zero = dk.zeros(8, device="cuda:0")
    stream, event = dk.Stream(device), dk.Event(device)
    with dk.ScopedDevice(device):
        dk.capture_begin()
        dk.launch(accumulate, 8, inputs=[x, y, 1.0])
        graph = dk.capture_end()
    record = dk.launch(accumulate, 8, inputs=[x, y, 1.0], record_cmd=True)
    cycle: list[Any] = [dk.zeros(8, device=device)]
    cycle.append(cycle)
    del cycle
    return [
        lambda: dk.zeros(8, device=device),
        lambda: dk.full(8, 3.0, device=device),
        lambda: dk.zeros(8, device="cpu", pinned=True),
        x.numpy,
        x[::2].numpy,
        lambda: x.assign(np.arange(8, dtype=np.float32)),
        lambda: dk.copy(on_zero, x),
        lambda: dk.copy(y[::2], x[1::2]),
        lambda: dk.launch(accumulate, 8, inputs=[x, y, 1.0]),
        record.launch,
        graph.launch,
        lambda: dk.Stream(device),
        lambda: stream.record_event(event),
        lambda: stream.wait_event(event),
        lambda: (event.is_complete, stream.is_complete, event.synchronize(), stream.synchronize()),
        lambda: device.free_memory,
        dk.synchronize,
        gc.collect,
    ]


@pytest.mark.parametrize("current", [OTHER, 1, 0])
def test_the_current_context_is_as_it_was(two_devices: FakeDriver, current: int) -> None:
    for k, action in enumerate(actions(two_devices)):
        two_devices.set_context(current)
        action()
        gc.collect()  # what is let go frees memory, streams and events
        # Where nothing was current, the first device's may be, which CUDA's run time takes by itself.
        assert two_devices.current_context() in ({0, 1} if current == 0 else {current}), k


def test_the_current_context_is_as_it_was_after_an_error(two_devices: FakeDriver) -> None:
    x = dk.zeros(8, device="cuda:1")
    two_devices.set_context(OTHER)
    two_devices.fail("fill", code=1)
    with pytest.raises(dk.CudaError, match="cuMemset"):
        x.fill_(2.0)
    assert two_devices.current_context() == OTHER


def test_a_context_of_another_library_is_not_worked_in(driver: FakeDriver) -> None:
    """Also with one GPU: what another library has made current in between is not taken for diffkern's."""
    x = dk.zeros(8, device="cuda:0")
    driver.set_context(OTHER)
    y = dk.full(8, 2.0, device="cuda:0")
    assert driver.device_of(y.ptr) == 0
    dk.copy(x, y)
    assert x.list() == [2.0] * 8


class Exported:
    """An array of a library that says where its memory is by the address alone."""

    def __init__(self, source: dk.array) -> None:
        self.source = source
        self.__cuda_array_interface__ = {**source.__cuda_array_interface__, "stream": None}


class Misled(Exported):
    """An array whose library counts devices in another way."""

    class device:
        id = 0


@pytest.mark.parametrize("kind", [Exported, Misled])
@pytest.mark.parametrize("ordinal", [0, 1])
def test_arrays_lie_where_their_memory_is(two_devices: FakeDriver, kind: type[Exported], ordinal: int) -> None:
    source = dk.full(4, 5.0, device=f"cuda:{ordinal}")
    taken = dk.array(kind(source), copy=False)
    assert taken.device == f"cuda:{ordinal}"
    assert taken.ptr == source.ptr
    assert taken.list() == [5.0] * 4


def test_an_array_without_elements_is_where_it_says(two_devices: FakeDriver) -> None:
    class Empty:
        class device:
            id = 1

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {"shape": (0,), "typestr": "<f4", "data": (0, False), "version": 3}

    assert dk.array(Empty(), copy=False).device == "cuda:1"
