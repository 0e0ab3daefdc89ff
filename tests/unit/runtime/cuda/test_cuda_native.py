"""Launches, records, sequences and graphs in native code: the same calls, checks and errors as by way of Python."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from runtime_cuda_kernels import accumulate, neighbours, square
from support.fake_driver.driver import FakeDriver, fake_cuda

import diffkern as dk
from diffkern.runtime.cuda.memory import DeviceMemory
from diffkern.runtime.native.replay import DEVICE

G = "cuda:0"
OTHER = 7  # a context of another library
WAYS = ("native", "python")


def cuda(way: str, devices: int = 1) -> Any:
    """A fake driver whose functions native code calls, or Python."""
    return fake_cuda(devices, native=way == "native")


@pytest.fixture(params=WAYS)
def driver(request: pytest.FixtureRequest) -> Iterator[FakeDriver]:
    with cuda(request.param) as made:
        yield made


def ready() -> dict[str, Callable[[], None]]:
    """Return what launches something, made and run once."""
    x, y, z = (dk.full(8, k, dtype=float, device=G, requires_grad=True) for k in (1.0, 2.0, 3.0))

    def steps() -> None:
        dk.launch(square, 8, inputs=[x, y, 2.0])
        y.fill_(1.5)
        dk.copy(z, y)
        dk.copy(z[::2], x[::2])
        dk.launch(accumulate, 8, inputs=[x, z, 1.0], block_dim=64)
        dk.launch(neighbours, 8, inputs=[z, y])

    with dk.record(run=False) as sequence:
        steps()
    record = dk.launch(square, 8, inputs=[x, y, 2.0], record_cmd=True)
    stream = dk.Stream(G)
    found: dict[str, Callable[[], None]] = {
        "launch": lambda: dk.launch(square, 8, inputs=[x, y, 2.0]),
        "record": record.launch,
        "record on a stream": lambda: record.launch(stream),
        "adjoint": record.adjoint().launch,
        "sequence": sequence.replay,
        "sequence on a stream": lambda: sequence.replay(stream),
        "graph": sequence.capture().launch,
    }
    for run in found.values():
        run()
    dk.synchronize()
    return found


def said_by(driver: FakeDriver, run: Callable[[], None]) -> tuple[str, int, str | None]:
    """Return what the error says that something raises."""
    with pytest.raises(dk.CudaError) as caught:
        run()
    # Of fills the fake driver knows one name.
    return str(caught.value).replace("cuMemsetD32Async", "cuMemsetD8Async"), caught.value.code, caught.value.remedy


def test_the_driver_is_called_in_the_same_way() -> None:
    seen: dict[str, list[Any]] = {}
    for way in WAYS:
        with cuda(way) as driver:
            for name, run in ready().items():
                driver.calls.clear()
                driver.launches.clear()
                run()
                run()
                names = driver.names()
                dk.synchronize()
                assert names, name
                if name != "graph":
                    assert all((launched.stream != 0) == ("stream" in name) for launched in driver.launches)
                launched = [launched._replace(block=b"", stream=0) for launched in driver.launches]
                seen.setdefault(name, []).append((names, launched))
    for name, (native, python) in seen.items():
        assert native == python, name


@pytest.mark.parametrize(("call", "code"), [("launch", 1), ("set_context", 201), ("fill", 400)])
def test_errors_say_the_same(call: str, code: int) -> None:
    said: dict[str, list[Any]] = {}
    for way in WAYS:
        with cuda(way) as driver:
            for name, run in ready().items():
                if (call == "fill" and "sequence" not in name) or (call == "launch" and name == "graph"):
                    continue
                driver.set_context(OTHER if call == "set_context" else 1)
                driver.fail(call, code)
                said.setdefault(name, []).append(said_by(driver, run))
                driver.set_context(1)
                run()
    for name, (native, python) in said.items():
        assert native == python, name


@pytest.mark.parametrize("name", ["launch", "record", "sequence"])
def test_a_broken_context_says_the_same(name: str) -> None:
    said = []
    for way in WAYS:
        with cuda(way) as driver:
            run = ready()[name]
            driver.fail("launch", 700)
            said.append(said_by(driver, run))
            said.append(list(dk.get_device(G).recent))  # type: ignore[attr-defined]  # of a GPU
    assert said[:2] == said[2:]
    assert "start a new process" in str(said[0])


def test_an_error_of_a_graph(driver: FakeDriver) -> None:
    run = ready()["graph"]
    driver.fail("graph_launch", 1)
    with pytest.raises(dk.CudaError, match=r"^cuGraphLaunch failed: CUDA_ERROR_INVALID_VALUE \(1\)"):
        run()
    run()


def test_an_error_of_the_first_question(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ready()["record"]

    def current_context() -> int:
        raise driver._failure("cuCtxGetCurrent", 201)

    with monkeypatch.context() as patched:
        patched.setattr(driver, "current_context", current_context)
        with pytest.raises(dk.CudaError, match=r"square.*: cuCtxGetCurrent failed: CUDA_ERROR_INVALID_CONTEXT"):
            run()
    run()


def test_a_step_behind_an_error_is_not_begun(driver: FakeDriver) -> None:
    run = ready()["sequence"]
    driver.launches.clear()
    driver.fail("launch", 1, after=1)
    with pytest.raises(dk.CudaError, match=r"cuLaunchKernel failed"):
        run()
    dk.synchronize()
    assert len(driver.launches) == 1


def test_the_context_before_is_current_again(driver: FakeDriver) -> None:
    for name, run in ready().items():
        for context in (OTHER, 1, 0):
            driver.set_context(context)
            driver.calls.clear()
            run()
            assert driver.current_context() == (context or 1), name
            if context == 1:
                assert "set_context" not in driver.names()


def test_no_context_stays_none_on_another_device() -> None:
    with cuda("native", devices=2) as driver:
        x = dk.zeros(4, device="cuda:1")
        record = dk.launch(accumulate, 4, inputs=[x, x.contiguous(), 1.0], record_cmd=True)
        driver.set_context(0)
        record.launch()
        assert driver.current_context() == 0
        driver.set_context(1)
        record.launch()
        assert driver.current_context() == 1


def test_another_librarys_capture_is_not_entered() -> None:
    """A blocking stream that captures keeps the default stream from being used; the driver says so."""
    said: dict[str, list[Any]] = {}
    for way in WAYS:
        with cuda(way) as driver:
            for name, run in ready().items():
                if "stream" in name:
                    continue
                driver.set_context(1)
                theirs = driver.stream_create(0, False)
                driver.capture_begin(theirs)
                said.setdefault(name, []).append(said_by(driver, run))
                driver.graph_destroy(driver.capture_end(theirs))
                run()
    for name, (native, python) in said.items():
        assert native == python, name
        assert native[1] == 906


def test_records_are_native_and_look_at_what_is_current(driver: FakeDriver) -> None:
    x, y = (dk.full(4, 2.0, device=G, requires_grad=True) for _ in range(2))
    record = dk.launch(square, 4, inputs=[x, y, 1.0], record_cmd=True)
    assert bool(record._record.plan.flags & DEVICE) == (driver.entries is not None)
    with dk.record(run=False) as sequence:
        record.launch()
    driver.launches.clear()
    with dk.Tape() as tape:
        record.launch()
    assert len(sequence) == 1
    tape.backward(grads={y: np.ones(4, np.float32)})
    stream = dk.Stream(G)
    with dk.ScopedStream(stream):
        record.launch()
    dk.synchronize()
    assert driver.launches[-1].stream == stream.cuda_stream
    record.release()
    with pytest.raises(dk.LaunchError, match="released"):
        record.launch()


def test_streams_that_wait_for_the_next_launch(driver: FakeDriver) -> None:
    run = ready()["record"]
    device: Any = dk.get_device(G)
    stream = dk.Stream(G)
    device.let_follow(stream)
    driver.calls.clear()
    run()
    assert [name for name in driver.names() if name != "set_context"][:4] == [
        "launch", "event_create", "event_record", "stream_wait_event",
    ]  # fmt: skip
    driver.calls.clear()
    run()
    assert driver.names() == ["launch"]
    assert len(device.followers) == 0


def test_arrays_live_as_long_as_the_record(driver: FakeDriver) -> None:
    x, y = dk.full(4, 3.0, device=G), dk.zeros(4, device=G)
    record = dk.launch(square, 4, inputs=[x, y, 1.0], record_cmd=True)
    with dk.record(run=False) as sequence:
        dk.launch(square, 4, inputs=[x, y, 2.0])
    graph = sequence.capture()
    del x, sequence
    gc.collect()
    record.launch()
    assert y.list() == [9.0] * 4
    graph.launch()
    assert y.list() == [18.0] * 4
    del record, graph, y
    gc.collect()
    assert driver.live_bytes == 0


def test_a_replay_on_a_stream_comes_behind_its_arrays_and_they_outlive_it(driver: FakeDriver) -> None:
    device: Any = dk.get_device(G)
    stream = device.new_stream()
    x, y = dk.full(4, 3.0, device=G), dk.zeros(4, device=G)
    with dk.record(run=False) as sequence:
        dk.launch(square, 4, inputs=[x, y, 1.0])
    sequence.replay(stream)
    other = dk.full(4, 2.0, device=G)
    sequence[0].set_param_by_name("x", other)
    with dk.ScopedStream(stream, sync_enter=False):
        sequence.replay()
    del sequence, x, other
    gc.collect()
    stream.synchronize()
    assert y.list() == [4.0] * 4


def test_versions_count_every_launch(driver: FakeDriver) -> None:
    for name in ("record", "sequence", "graph"):
        x, y = dk.ones(4, device=G), dk.zeros(4, device=G)
        with dk.record(run=False) as sequence:
            dk.launch(accumulate, 4, inputs=[x, y, 1.0])
        run: Any = {
            "record": dk.launch(accumulate, 4, inputs=[x, y, 1.0], record_cmd=True),
            "sequence": sequence,
            "graph": sequence.capture(),
        }[name]
        for k in range(3):
            before = x._memory.now, y._memory.now
            run.replay() if name == "sequence" else run.launch()
            assert (x._memory.now, y._memory.now) == (before[0], before[1] + 1), (name, k)
        before = y._memory.now
        del run, sequence
        gc.collect()
        assert y._memory.now == before


class Counted(DeviceMemory):
    """The memory of a library that counts changes itself."""

    __slots__ = ()
    is_counted = True


def test_libraries_that_count_changes_are_told(driver: FakeDriver) -> None:
    x, y, z = (dk.ones(4, device=G) for _ in range(3))
    y._memory.__class__ = z._memory.__class__ = Counted
    with dk.record(run=False) as sequence:
        dk.launch(accumulate, 4, inputs=[x, y, 1.0])
    record = dk.launch(accumulate, 4, inputs=[x, y, 1.0], record_cmd=True)
    graph = sequence.capture()
    for run in (record.launch, sequence.replay, graph.launch) * 2:
        before = y._memory.version
        run()
        assert y._memory.version == before + 1
    other = dk.launch(accumulate, 4, inputs=[x, x.contiguous(), 1.0], record_cmd=True)
    other.set_param_by_name("y", z)
    sequence.set_param("y", z)
    for run in (other.launch, sequence.replay, graph.launch):
        before = z._memory.version
        run()
        assert z._memory.version == before + 1


def test_a_tape_notices_a_graph(driver: FakeDriver) -> None:
    x = dk.full(3, 2.0, device=G, requires_grad=True)
    y = dk.zeros(3, device=G, requires_grad=True)
    with dk.record(run=False) as sequence:
        x.fill_(5.0)
    graph = sequence.capture()
    graph.launch()
    with dk.Tape() as tape:
        dk.launch(square, 3, inputs=[x, y, 1.0])
    tape.backward(grads={y: np.ones(3, np.float32)})
    assert x.grad.list() == [10.0] * 3
    with dk.Tape() as tape:
        dk.launch(square, 3, inputs=[x, y, 1.0])
    graph.launch()
    with pytest.raises(dk.LaunchError, match="changed outside the tape"):
        tape.backward(grads={y: np.ones(3, np.float32)})


def test_graphs_follow_every_change_of_their_parameters(driver: FakeDriver) -> None:
    x, y = dk.full(4, 2.0, device=G), dk.zeros(4, device=G)
    with dk.record(run=False) as sequence:
        dk.launch(square, 4, inputs=[x, y, 1.0])
        dk.launch(accumulate, 4, inputs=[y, y.contiguous(), 0.0])
    first, part = sequence.capture(), sequence[:1].capture()
    again = sequence.capture()

    def each() -> list[float]:
        found = []
        for graph in (first, part, again):
            y.zero_()
            graph.launch()
            found.append(y.list()[0])
        return found

    assert each() == [4.0] * 3
    sequence[0].set_param_by_name("a", 2.0)
    assert each() == [8.0] * 3
    sequence[0].set_param_by_name("a", np.float32(3.0))
    assert each() == [12.0] * 3
    sequence[0].set_param_by_name("x", dk.full(4, 3.0, device=G))
    assert each() == [27.0] * 3
    other = dk.zeros(4, device=G)
    sequence.set_param("y", other, kernel=square)
    first.launch()
    assert other.list() == [27.0] * 4
    before = other._memory.now, y._memory.now
    first.launch()
    assert (other._memory.now, y._memory.now - before[1]) == (before[0] + 1, y._memory.now - before[1])
    sequence[0].set_dim(2)
    other.zero_()
    part.launch()
    assert other.list() == [27.0, 27.0, 0.0, 0.0]


def test_an_array_that_overlaps_gets_its_program(driver: FakeDriver) -> None:
    whole = dk.full(8, 2.0, device=G)
    record = dk.launch(square, 4, inputs=[dk.full(4, 3.0, device=G), whole[4:], 1.0], record_cmd=True)
    record.launch()
    record.set_param_by_name("x", whole[4:])
    record.launch()
    assert whole.list() == [2.0] * 4 + [81.0] * 4


def test_threads(driver: FakeDriver) -> None:
    x, y = dk.full(4, 1.0, device=G), dk.zeros(4, device=G)
    record = dk.launch(square, 4, inputs=[x, y, 1.0], record_cmd=True)
    before = y._memory.now
    driver.launches.clear()
    failed: list[BaseException] = []

    def launch() -> None:
        try:
            for _ in range(100):
                record.launch()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=launch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for k in range(200):
        record.set_param_by_name("a", float(k % 2 + 1))
    for thread in threads:
        thread.join()
    dk.synchronize()
    assert not failed
    assert len(driver.launches) == 400
    assert {np.frombuffer(launched.block[-8:], np.float32)[0] for launched in driver.launches} <= {1.0, 2.0}
    if driver.entries is not None:
        assert y._memory.now == before + 400


def test_launches_of_nothing(driver: FakeDriver) -> None:
    x = dk.zeros(4, device=G)
    record = dk.launch(accumulate, 0, inputs=[x, x.contiguous(), 1.0], record_cmd=True)
    driver.calls.clear()
    record.launch()
    assert driver.names() == []
