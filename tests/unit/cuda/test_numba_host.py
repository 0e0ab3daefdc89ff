"""``diffkern.cuda`` on the host: arrays, streams, events and devices, on the CPU and on the fake driver."""

from __future__ import annotations

import asyncio
import copy
import pickle
from typing import Any

import numpy as np
import pytest
from conftest import require
from support.fake_driver.driver import FakeDriver

import diffkern as dk
from diffkern import cuda
from diffkern.cuda import arrays, devices, streams
from diffkern.cuda.arrays import DeviceArray, DeviceRecords


@dk.struct
class Body:
    mass: float
    kind: int


@pytest.fixture(params=["cpu", "gpu"])
def where(request: pytest.FixtureRequest) -> str:
    """Each place in turn; the GPU is the fake driver's."""
    if request.param == "gpu":
        request.getfixturevalue("driver")
    return "cuda:0" if request.param == "gpu" else "cpu"


# -- arrays ------------------------------------------------------------------------------------------------------------


def test_to_device_copies(where: str) -> None:
    x = np.arange(12.0).reshape(3, 4)
    d = cuda.to_device(x)
    x[:] = -1.0
    assert isinstance(d, DeviceArray)
    assert str(d.device) == where
    assert (d.shape, d.dtype, d.size, d.ndim, d.nbytes, d.strides) == ((3, 4), np.float64, 12, 2, 96, (32, 8))
    assert d.copy_to_host().tolist() == np.arange(12.0).reshape(3, 4).tolist()


def test_an_array_on_the_device_stays_as_it_is(where: str) -> None:
    d = cuda.to_device(np.ones(3))
    assert cuda.to_device(d) is d
    ours = dk.ones(3, dtype=float, device=where)
    same = cuda.to_device(ours)
    assert isinstance(same, DeviceArray)
    same[0] = 5.0
    assert ours.list() == [5.0, 1.0, 1.0]
    assert type(ours) is dk.array


def test_to_device_into_an_array(where: str) -> None:
    d = cuda.device_array(4)
    assert cuda.to_device(np.arange(4.0), to=d) is d
    assert d.copy_to_host().tolist() == [0, 1, 2, 3]
    assert cuda.to_device(np.zeros(4), to=d, copy=False).copy_to_host().tolist() == [0, 1, 2, 3]
    assert cuda.to_device(np.zeros(4), copy=False).shape == (4,)


@pytest.mark.parametrize("stream", ["default", "made"])
def test_copies_in_both_directions(where: str, stream: str) -> None:
    on: Any = cuda.stream() if stream == "made" else 0
    x = np.arange(6.0).reshape(2, 3)
    d = cuda.to_device(x, stream=on)
    out = np.empty((2, 3))
    assert d.copy_to_host(out, stream=on) is out
    cuda.synchronize()
    assert out.tolist() == x.tolist()
    d.copy_to_device(10 * x, stream=on)
    assert d.copy_to_host(stream=on).tolist() == (10 * x).tolist()
    other = cuda.device_array_like(d)
    other.copy_to_device(d)
    d.copy_to_device(d)
    assert other.copy_to_host().tolist() == (10 * x).tolist()
    columns = np.empty((3, 2), order="F")
    d.T.copy_to_host(columns)
    assert columns.tolist() == (10 * x).T.tolist()


def test_copies_between_unlike_arrays_are_refused() -> None:
    d = cuda.to_device(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"incompatible shape: \(3, 2\) and \(2, 3\)"):
        d.copy_to_host(np.empty((3, 2)))
    with pytest.raises(TypeError, match="incompatible dtype: float32 and float64"):
        d.copy_to_device(np.ones((2, 3), np.float32))


def test_parts_of_arrays(where: str) -> None:
    d = cuda.to_device(np.arange(12.0).reshape(3, 4))
    row = d[1]
    assert isinstance(row, DeviceArray)
    assert row.copy_to_host().tolist() == [4, 5, 6, 7]
    assert d[2, 3] == 11.0
    d[0] = 5.0
    d[1, ::2] = np.array([7.0, 8.0])
    d[2, 1:3] = cuda.to_device(np.array([1.0, 2.0]))
    assert d.copy_to_host().tolist() == [[5, 5, 5, 5], [7, 5, 8, 7], [8, 1, 2, 11]]
    d.setitem((0, 0), 3.0, stream=cuda.stream())
    assert d.getitem((0, 0)) == 3.0


def test_shapes_of_arrays(where: str) -> None:
    d = cuda.to_device(np.arange(12.0).reshape(3, 4))
    assert (d.T.shape, d.T.strides, d.T[3, 0]) == ((4, 3), (8, 32), 3.0)
    assert d.reshape(2, 6)[1, 0] == d.reshape((2, -1))[1, 0] == 6.0
    assert d.ravel().copy_to_host().tolist() == list(range(12))
    assert d.T.ravel(order="F").shape == (12,)
    assert [part.shape for part in d.ravel().split(5)] == [(5,), (5,), (2,)]
    assert d[:1].squeeze().shape == d[:1].squeeze(axis=0).shape == (4,)
    with pytest.raises(ValueError, match="cannot squeeze axis 1"):
        d.squeeze(axis=1)
    assert d.reshape(2, 3, 2).transpose((2, 0, 1)).shape == (2, 2, 3)
    assert (d.is_c_contiguous(), d.is_f_contiguous(), d.T.is_f_contiguous()) == (True, False, True)
    assert d.bind(cuda.stream()) is d
    assert len(d) == 3


def test_arrays_of_fortran_order(where: str) -> None:
    x = np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3))
    d = cuda.to_device(x)
    assert (d.strides, d.flags["F_CONTIGUOUS"]) == (x.strides, True)
    assert d.copy_to_host().tolist() == x.tolist()
    assert cuda.device_array((2, 3), np.int16, order="F").strides == (2, 4)
    assert cuda.device_array_like(np.empty((4, 6))[:, ::2]).flags["C_CONTIGUOUS"]


@pytest.mark.parametrize("dtype", [np.float32, "f4", np.dtype("float32"), dk.float32])
def test_types_of_elements(dtype: Any) -> None:
    assert cuda.device_array(3, dtype).dtype == np.float32
    assert cuda.device_array((2, 2)).dtype == cuda.device_array(3, float).dtype == np.float64
    assert cuda.pinned_array(3, dtype).dtype == np.float32


def test_types_of_numba_name_elements() -> None:
    types = require("numba").types
    assert cuda.device_array(3, types.uint16).dtype == np.uint16


def test_arrays_of_structs(where: str) -> None:
    d = cuda.device_array(2, Body)
    assert isinstance(d, DeviceRecords)
    d.copy_to_device(np.array([(1.5, 2), (3.0, 4)], [("mass", "f4"), ("kind", "i4")]))
    assert d.copy_to_host()["kind"].tolist() == [2, 4]
    assert d.field("mass").copy_to_host().tolist() == [1.5, 3.0]
    assert cuda.device_array_like(d).copy_to_host().dtype == d.copy_to_host().dtype
    with pytest.raises(TypeError, match=r"dk\.struct"):
        cuda.device_array(2, np.dtype([("a", "f4")]))


def test_copies_of_the_object() -> None:
    d = cuda.to_device(np.arange(3.0))
    for made in (pickle.loads(pickle.dumps(d)), copy.copy(d), copy.deepcopy(d)):
        assert isinstance(made, DeviceArray)
        assert made.copy_to_host().tolist() == [0, 1, 2]


def test_what_arrays_do_not_have() -> None:
    d = cuda.to_device(np.ones(2))
    with pytest.raises(AttributeError, match=r"use \.copy_to_host\(\)"):
        d.to_host()  # type: ignore[attr-defined]
    assert not hasattr(d, "nothing_of_the_kind")
    with pytest.raises(ValueError, match="at least one axis"):
        cuda.to_device(np.array(1.0))
    with pytest.raises(dk.MisuseError, match="contiguous"):
        cuda.device_array(3, strides=(16,))
    with pytest.raises(dk.MisuseError, match="order"):
        cuda.to_device(np.ones((2, 2))).reshape(4, order="F")


def test_gradients(where: str) -> None:
    @dk.kernel
    def square(x, y):  # type: ignore[no-untyped-def]
        i = dk.tid()
        y[i] = x[i] * x[i]

    x = cuda.to_device(np.arange(4.0))
    x.requires_grad = True
    y = cuda.device_array_like(x)
    with dk.Tape() as tape:
        square[4](x, y)
    tape.backward(grads={y: np.ones(4)})
    assert x.grad.numpy().tolist() == [0, 2, 4, 6]


def test_arrays_of_other_libraries(driver: FakeDriver) -> None:
    theirs = dk.array(np.arange(4.0), device="cuda:0")

    class Foreign:
        __cuda_array_interface__ = theirs.__cuda_array_interface__

    assert cuda.is_cuda_array(Foreign())
    for made in (cuda.as_cuda_array(Foreign()), cuda.to_device(Foreign()), cuda.as_cuda_array(theirs)):
        made[0] = made[0] + 1.0
    made = cuda.from_cuda_array_interface(Foreign.__cuda_array_interface__, owner=theirs)
    assert made.copy_to_host().tolist() == [3, 1, 2, 3]
    assert made.__cuda_array_interface__["data"][0] == theirs.ptr


def test_arrays_of_no_device() -> None:
    assert not cuda.is_cuda_array(np.ones(2))
    assert cuda.is_cuda_array(cuda.to_device(np.ones(2)))
    with pytest.raises(TypeError, match="CUDA array interface"):
        cuda.as_cuda_array(np.ones(2))


def test_memory_of_the_host(where: str) -> None:
    for make in (cuda.pinned_array, cuda.mapped_array, cuda.managed_array):
        x = make((2, 3), np.float32, order="F")
        x[:] = 1.0
        assert (x.shape, x.strides, float(x.sum())) == ((2, 3), (4, 8), 6.0)
        assert cuda.to_device(x).copy_to_host().tolist() == x.tolist()
        with pytest.raises(dk.MisuseError, match="contiguous"):
            make((2, 3), np.float32, strides=(1, 1))
    assert cuda.pinned_array_like(np.empty((3, 2), np.int8)).dtype == np.int8
    assert cuda.mapped_array_like(np.empty((3, 2), np.int8)).shape == (3, 2)


def test_memory_of_the_host_for_a_while(where: str) -> None:
    x, y = np.zeros(3), np.ones(3)
    with cuda.pinned(x, y), cuda.mapped(x) as one:
        one[0] = 7.0
    with cuda.mapped(x, y, stream=cuda.stream()) as (first, second):
        second.copy_to_device(first)
    cuda.synchronize()
    assert (x.tolist(), y.tolist()) == ([7, 0, 0], [7, 0, 0])


# -- streams and events ------------------------------------------------------------------------------------------------


def test_streams(where: str) -> None:
    stream = cuda.stream()
    x = np.arange(3.0)
    with stream.auto_synchronize() as same:
        d = cuda.to_device(x, stream)
    assert same is stream
    seen: list[Any] = []
    stream.add_callback(lambda s, status, arg: seen.append((s, status, arg)), d)
    assert seen == [(stream, 0, d)]
    assert (int(stream) != 0) == (where != "cpu")
    assert stream.__cuda_stream__() == (0, int(stream))

    async def wait() -> object:
        return await stream.async_done()

    assert asyncio.run(wait()) is stream
    for default in (cuda.default_stream(), cuda.legacy_default_stream(), cuda.per_thread_default_stream()):
        assert int(default) == 0
        default.synchronize()


def test_events(where: str) -> None:
    start, end = cuda.event(timing=True), cuda.event()
    start.record()
    end.record(cuda.stream())
    end.wait()
    assert cuda.event_elapsed_time(start, end) == start.elapsed_time(end) >= 0.0
    end.synchronize()
    assert end.query()


def test_streams_by_their_handles(driver: FakeDriver) -> None:
    stream = cuda.stream()
    outside = cuda.external_stream(int(stream))
    assert int(outside) == int(stream)
    assert streams.native(stream) is stream.native
    assert getattr(streams.native(int(stream)), "cuda_stream", None) == int(stream)
    assert getattr(streams.native(Handle(int(stream))), "cuda_stream", None) == int(stream)
    assert streams.native(0) is streams.native(None) is None


class Handle:
    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def test_what_is_no_stream() -> None:
    assert int(cuda.external_stream(0)) == 0
    with pytest.raises(dk.MisuseError, match="there is none"):
        cuda.external_stream(1234)
    with pytest.raises(dk.MisuseError, match=r"cuda\.stream\(\)"):
        cuda.to_device(np.ones(2), stream="fast")
    stream = dk.Stream("cpu")
    assert streams.native(stream) is stream


# -- devices -----------------------------------------------------------------------------------------------------------


def test_the_cpu_is_the_device_where_there_is_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert cuda.is_available()
    assert cuda.detect()
    assert "no CUDA device" in capsys.readouterr().out
    assert len(cuda.gpus) == len(cuda.list_devices()) == 1
    device = cuda.get_current_device()
    assert (device.id, device.name, device.compute_capability, device.WARP_SIZE) == (0, b"CPU", (0, 0), 32)
    assert device.MULTIPROCESSOR_COUNT == dk.config.num_threads
    assert device.uuid == "GPU-00000000-0000-0000-0000-000000000000"
    assert cuda.current_context().get_memory_info().total == float("inf")
    assert cuda.select_device(0) == device == cuda.gpus.current
    with pytest.raises(dk.MisuseError, match="there is no device 1: there are 1"):
        cuda.select_device(1)
    cuda.close()
    device.reset()


def test_gpus(two_devices: FakeDriver, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(cuda.gpus) == 2
    assert cuda.detect()
    assert "Found 2 CUDA devices" in capsys.readouterr().out
    with cuda.gpus[1] as context:
        assert context.device == cuda.get_current_device() == cuda.gpus[1]
        assert str(cuda.device_array(2).device) == "cuda:1"
        with cuda.gpus[0]:
            assert str(cuda.device_array(2).device) == "cuda:0"
    assert cuda.get_current_device().id == 0
    free, total = cuda.current_context(1).get_memory_info()
    assert 0 < free <= total
    before = dk.get_device()
    assert cuda.select_device(1).id == cuda.get_current_device().id == 1
    dk.set_device(before)
    cuda.current_context().reset()


def test_what_devices_and_contexts_do_not_say() -> None:
    device = cuda.get_current_device()
    assert device.get_primary_context() == cuda.current_context()
    with pytest.raises(AttributeError, match="does not ask devices for 'PCI_BUS_ID'"):
        _ = device.PCI_BUS_ID
    with pytest.raises(AttributeError, match=r"cuda\.device_array"):
        cuda.current_context().memalloc(8)


def test_the_simulators_variable_chooses_the_cpu(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert devices.place().is_cuda
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    assert devices.place().is_cpu
    assert cuda.to_device(np.ones(2)).device.is_cpu


def test_what_does_nothing() -> None:
    with cuda.defer_cleanup(), cuda.current_context().defer_cleanup():
        pass
    assert cuda.require_context(abs) is abs
    assert arrays.on_device(dk.zeros(2)).nbytes == 8
