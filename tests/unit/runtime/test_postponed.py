"""Work that is put off: who looks waits for it, in whatever thread, and another way to do it is taken once."""

from __future__ import annotations

import gc
import signal
import threading
import time

import pytest

from diffkern.runtime.memory.queue import drain, postponed
from diffkern.runtime.native.slow_path import slow_path_flags


@pytest.fixture(autouse=True)
def nothing_pending():
    drain()
    yield
    drain()
    assert not postponed.work
    assert not slow_path_flags.word[0]


def test_it_runs_in_order_before_anybody_looks():
    done: list[int] = []
    for k in range(3):
        postponed.put(done, lambda k=k: done.append(k))
    assert (done, postponed.is_all(done, 3), postponed.is_all(done, 2)) == ([], True, False)
    assert slow_path_flags.word[0]
    drain()
    assert done == [0, 1, 2]


def test_another_owners_work_comes_first():
    done: list[str] = []
    postponed.put("first", lambda: done.append("first"))
    postponed.put("second", lambda: done.append("second"))
    assert done == ["first"]


def test_another_way_replaces_the_work():
    done: list[str] = []

    def together() -> bool:
        done.append("together")
        return True

    postponed.put(done, lambda: done.append("alone"))
    assert not postponed.join("another owner", together)
    assert postponed.join(done, together)
    drain()
    assert done == ["together"]
    assert not postponed.join(done, together)


def test_another_way_may_refuse():
    done: list[str] = []
    postponed.put(done, lambda: done.append("alone"))
    assert not postponed.join(done, lambda: False)
    assert done == ["alone"]


def test_an_error_ends_the_work_and_is_raised_once():
    def fails() -> None:
        raise ValueError("spoiled")

    done: list[str] = []
    postponed.put(done, fails)
    postponed.put(done, lambda: done.append("after"))
    with pytest.raises(ValueError, match="spoiled"):
        drain()
    drain()
    assert done == []


def test_other_threads_wait_until_another_way_has_ended():
    done: list[str] = []
    begun, found = threading.Event(), list[list[str]]()

    def together() -> bool:
        begun.set()
        time.sleep(0.05)
        done.append("together")
        return True

    def look() -> None:
        begun.wait()
        drain()
        found.append([*done])

    thread = threading.Thread(target=look)
    thread.start()
    postponed.put(done, lambda: done.append("alone"))
    assert postponed.join(done, together)
    thread.join()
    assert found == [["together"]]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_a_signal_handler_may_look_at_any_moment():
    done: list[int] = []
    lost: list[int] = []

    def handler(*_: object) -> None:
        before = [*postponed.work]
        drain()
        lost.extend(1 for run in before if run in postponed.work)

    old = signal.signal(signal.SIGALRM, handler)
    try:
        for k in range(300):
            signal.setitimer(signal.ITIMER_REAL, 1e-5 + 1e-6 * (k % 90))
            postponed.put(done, lambda: done.append(1))
            postponed.put(done, lambda: done.append(1))
            if k % 2:
                postponed.join(done, lambda: not done.extend([1, 1]))
            else:
                drain()
            signal.setitimer(signal.ITIMER_REAL, 0)
            drain()
            assert len(done) == 2 * (k + 1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert lost == []


def test_no_finalizer_looks_in_the_middle():
    class Cycle:
        def __init__(self) -> None:
            self.own = self

        def __del__(self) -> None:
            drain()
            found.append(len(done))

    done: list[int] = []
    found: list[int] = []
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(3):
            postponed.put(done, lambda: [Cycle() for _ in range(50)] and done.append(1))
        drain()
    finally:
        gc.set_threshold(*threshold)
    assert gc.isenabled()
    gc.collect()
    assert set(found) == {3}
