"""Streams and events on the CPU: order, waiting, errors, and the same results as without."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import diffkern as dk
from tests.unit.runtime.test_records import add_up, floats, run_in_threads, scale


def test_work_of_a_stream_runs_in_order_and_looking_waits():
    stream, y = dk.Stream(), dk.zeros(3)
    x = floats(1, 2, 3)
    for a in range(50):
        dk.launch(scale, 3, [x, float(a)], [y], stream=stream)
    assert y.numpy().tolist() == [49, 196, 441]
    assert stream.is_complete


def test_a_slow_stream_runs_beside_the_program():
    stream, gate = dk.Stream(), threading.Event()
    stream.enqueue(gate.wait)
    y = dk.zeros(1)
    dk.launch(scale, 1, [floats(3), 1.0], [y], stream=stream)
    assert not stream.is_complete
    assert y._data[0] == 0
    gate.set()
    stream.synchronize()
    assert y._data[0] == 9


def test_arguments_are_those_of_the_time_of_the_launch():
    stream, gate = dk.Stream(), threading.Event()
    x, y, z = floats(3), dk.zeros(1), dk.zeros(1)
    record = dk.launch(scale, 1, [x, 1.0], [y], stream=stream, record_cmd=True)
    assert record.stream is stream
    stream.enqueue(gate.wait)
    record.launch()
    record.set_param_by_name("a", 2.0)
    record.set_param_by_name("y", z)
    record.launch()
    gate.set()
    dk.synchronize()
    assert (y._data[0], z._data[0]) == (9, 18)


def test_the_default_stream_waits_for_the_others():
    stream, x, y, total = dk.Stream(), floats(1, 2), dk.zeros(2), dk.zeros(1)
    stream.enqueue(lambda: time.sleep(0.05))
    with dk.ScopedStream(stream) as current:
        assert dk.get_stream() is current is stream
        scale[2](x, 1.0, y)
    assert dk.get_stream() is not stream
    add_up[2](y, total)
    assert total._data[0] == 5


def test_events_order_streams_and_tell_times():
    first, second = dk.Stream(), dk.Stream()
    x, y, total = floats(1, 2), dk.zeros(2), dk.zeros(1)
    start = first.record_event()
    first.enqueue(lambda: time.sleep(0.05))
    dk.launch(scale, 2, [x, 1.0], [y], stream=first)
    event = first.record_event(dk.Event())
    second.wait_event(event)
    dk.launch(add_up, 2, [y], [total], stream=second)
    second.synchronize()
    assert event.is_complete
    assert total._data[0] == 5
    assert dk.get_event_elapsed_time(start, event) >= 50
    with pytest.raises(RuntimeError, match="recorded"):
        dk.get_event_elapsed_time(dk.Event(), event)
    assert dk.Event().is_complete
    dk.Event().synchronize()


def test_the_functions_of_the_current_stream():
    stream, other = dk.Stream(), dk.Stream()
    gate = threading.Event()
    other.enqueue(gate.wait)
    done = other.record_event()
    with dk.ScopedStream(stream, sync_enter=False, sync_exit=True):
        dk.wait_event(done)
        mark = dk.record_event()
        assert not mark.is_complete
        gate.set()
    assert mark.is_complete
    dk.wait_stream(stream)
    dk.synchronize_event(mark)
    dk.synchronize_stream(stream)
    dk.synchronize_stream()
    dk.synchronize_device("cpu")
    dk.set_stream(stream)
    assert dk.get_stream() is stream
    dk.set_stream(stream)
    default = dk.Stream.__new__(dk.Stream)
    default._queue, default.is_default = stream._queue, True
    dk.set_stream(default)
    assert dk.get_stream().is_default


def test_sequences_and_tapes_on_streams():
    stream, x, y, loss = dk.Stream(), floats(1, 2, grad=True), dk.zeros(2), dk.zeros(1)
    with dk.record() as sequence:
        loss.zero_()
        scale[2](x, 2.0, y)
        add_up[2](y, loss)
    both = sequence.adjoint(loss)
    gate = threading.Event()
    stream.enqueue(gate.wait)
    both.replay(stream=stream)
    threading.Timer(0.05, gate.set).start()
    both.set_param("a", 1.0)  # waits for the replay that is in the queue
    assert loss.numpy()[0] == 10
    both.replay(stream)
    assert x.grad.numpy().tolist() == [2, 4]
    x.grad.zero_()
    with dk.ScopedStream(stream):
        with dk.Tape() as tape:
            loss.zero_()
            scale[2](x, 1.0, y)
            add_up[2](y, loss)
        tape.backward(loss)
    assert x.grad.numpy().tolist() == [2, 4]


def test_an_error_in_a_stream_is_raised_by_who_waits():
    stream = dk.Stream()

    def fail():
        raise ZeroDivisionError

    stream.enqueue(fail)
    with pytest.raises(ZeroDivisionError):
        stream.synchronize()
    stream.synchronize()
    with pytest.raises(TypeError, match=r"dk\.Stream"):
        dk.launch(scale, 1, [floats(1), 1.0], [dk.zeros(1)], stream=1)


def test_copies_and_assignments_wait_and_keep_the_order():
    stream, x, y = dk.Stream(), floats(1, 2), dk.zeros(2)
    with dk.ScopedStream(stream):
        scale[2](x, 1.0, y)
        dk.copy(x, y)
        y.fill_(7.0)
        x.assign(np.array([5, 5], np.float32))
        scale[2](x, 1.0, y)
    assert x.numpy().tolist() == [5, 5]
    assert y.numpy().tolist() == [25, 25]


def test_streams_of_several_threads():
    ys = [dk.zeros(100) for _ in range(4)]

    def work(k):
        stream = dk.Stream()
        with dk.ScopedStream(stream):
            for a in range(50):
                scale[100](dk.ones(100), float(a + k), ys[k])
        stream.synchronize()

    run_in_threads(work, 4)
    assert [y.numpy()[0] for y in ys] == [49, 50, 51, 52]


# -- errors ------------------------------------------------------------------------------------------------------------


def failed(stream):
    """A stream with an error that nobody was told of, and the event behind it."""

    def fail():
        raise ZeroDivisionError("of the stream")

    stream.enqueue(fail)
    event = stream.record_event()
    return event


def drained(stream):
    while not stream.is_complete:
        time.sleep(0)


LOOKS = {
    "event": lambda stream, event: event.synchronize(),
    "synchronize_event": lambda stream, event: dk.synchronize_event(event),
    "stream": lambda stream, event: stream.synchronize(),
    "all": lambda stream, event: dk.synchronize(),
    "device": lambda stream, event: dk.synchronize_device("cpu"),
    "launch": lambda stream, event: scale[1](floats(1), 1.0, dk.zeros(1)),
    "array": lambda stream, event: dk.zeros(1).numpy(),
    "default": lambda stream, event: dk.wait_event(event),
    "elapsed": lambda stream, event: dk.get_event_elapsed_time(event, event),
}


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("look", LOOKS)
def test_an_error_is_told_once_to_whoever_looks_first(look, late):
    stream = dk.Stream()
    event = failed(stream)
    if late:
        drained(stream)
    with pytest.raises(ZeroDivisionError, match="of the stream"):
        LOOKS[look](stream, event)
    for each in LOOKS.values():
        each(stream, event)
    assert event.is_complete
    y = dk.zeros(1)
    dk.launch(scale, 1, [floats(3), 1.0], [y], stream=stream)
    assert y.numpy().tolist() == [9]


def test_what_stands_behind_an_error_does_not_run_and_what_comes_after_the_telling_does():
    stream, ran = dk.Stream(), []
    event = failed(stream)
    stream.enqueue(lambda: ran.append("behind"))
    last = stream.record_event()
    with pytest.raises(ZeroDivisionError) as caught:
        last.synchronize()
    if hasattr(caught.value, "add_note"):
        assert caught.value.__notes__ == ["this ended work on a stream; one piece of work behind it did not run"]
    stream.enqueue(lambda: ran.append("after"))
    stream.synchronize()
    event.synchronize()
    assert ran == ["after"]


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_an_error_passes_from_stream_to_stream(late):
    first, second, third, gate, ran = dk.Stream(), dk.Stream(), dk.Stream(), threading.Event(), []
    first.enqueue(gate.wait)
    event = failed(first)
    second.wait_event(event)
    second.enqueue(lambda: ran.append("second"))
    third.wait_stream(second)
    third.enqueue(lambda: ran.append("third"))
    gate.set()
    if late:
        drained(third)
    with pytest.raises(ZeroDivisionError):
        third.synchronize()
    for stream in (first, second, third):
        stream.synchronize()
    dk.synchronize()
    assert not ran
    for stream in (first, second, third):
        stream.enqueue(lambda: ran.append("again"))
    dk.synchronize()
    assert ran == ["again"] * 3


def test_a_stream_that_waits_for_an_error_of_the_past_is_told():
    stream = dk.Stream()
    event = failed(stream)
    drained(stream)
    other = dk.Stream()
    with pytest.raises(ZeroDivisionError):
        other.wait_event(event)
    other.wait_event(event)
    other.synchronize()


def test_the_error_of_a_stream_that_was_forgotten_is_told():
    failed(dk.Stream())
    with pytest.raises(ZeroDivisionError):
        dk.synchronize()
    dk.synchronize()


def test_a_failed_launch_on_a_stream_is_told_by_its_event():
    @dk.kernel(mode="debug")
    def outside(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = x[i + 5]

    stream, x, y = dk.Stream(), floats(1, 2), dk.zeros(2)
    dk.launch(outside, 2, [x], [y], stream=stream)
    event = stream.record_event()
    with pytest.raises(dk.KernelRuntimeError, match="out of bounds"):
        event.synchronize()
    dk.synchronize()


def test_work_of_a_stream_may_look_at_arrays():
    """It comes after the work before it, and waits for no queue: not for its own, which would never end."""
    stream, other, y, seen = dk.Stream(), dk.Stream(), dk.zeros(1), []
    dk.launch(scale, 1, [floats(3), 1.0], [y], stream=stream)
    stream.enqueue(lambda: seen.append(y.numpy().tolist()))
    stream.enqueue(lambda: scale[1](floats(2), 1.0, y))
    other.wait_stream(stream)
    other.enqueue(lambda: seen.append(y.list()))
    other.synchronize()
    assert seen == [[9], [4]]


# -- scopes ------------------------------------------------------------------------------------------------------------


def test_a_scope_of_no_stream_does_nothing():
    outer = dk.Stream()
    with dk.ScopedStream(None) as current:
        assert current is None
        assert dk.get_stream().is_default
    with dk.ScopedStream(outer), dk.ScopedStream(None, sync_enter=True, sync_exit=True):
        assert dk.get_stream() is outer
    assert dk.get_stream().is_default
    with pytest.raises(TypeError, match=r"dk\.Stream or None"):
        dk.ScopedStream("cpu")


def test_a_scope_may_be_entered_again():
    first, second = dk.Stream(), dk.Stream()
    scope = dk.ScopedStream(first)
    with scope:
        with dk.ScopedStream(second), scope:
            assert dk.get_stream() is first
            with scope:
                assert dk.get_stream() is first
            assert dk.get_stream() is first
        assert dk.get_stream() is first
    assert dk.get_stream().is_default
    with scope:
        assert dk.get_stream() is first
    assert dk.get_stream().is_default
