"""``wp.ScopedMemoryTracker``: which arrays are made in blocks, and which are left."""

from __future__ import annotations

import gc
import io
import threading

import numpy as np
import pytest

import diffkern.warp as wp
from diffkern.runtime.memory.allocations import tracker


@pytest.fixture(autouse=True)
def _forgotten():
    tracker.clear()
    yield
    assert not tracker.is_on
    tracker.clear()


def test_arrays_are_counted_until_they_are_gone() -> None:
    before = wp.zeros(5, dtype=float)
    with wp.ScopedMemoryTracker("counted", print=False) as scope:
        kept = wp.zeros(100, dtype=float)
        gone = wp.zeros((2, 3), dtype=wp.vec3d)
        view = kept[10:20]
        assert (tracker.count, tracker.live, tracker.now) == (2, 2, 400 + 144)
        del gone
        gc.collect()
        assert (tracker.count, tracker.live, tracker.now, tracker.peak) == (2, 1, 400, 544)
        scope.clear()
        assert (tracker.count, tracker.live, tracker.now, tracker.peak) == (0, 0, 0, 0)
        del kept, view
        gc.collect()
        assert tracker.now == 0
    wp.zeros(3, dtype=float)
    assert tracker.count == 0
    assert before.shape == (5,)


def test_a_report_names_blocks_places_and_types() -> None:
    out = io.StringIO()
    with wp.ScopedMemoryTracker("outer", print=False) as outer:
        small = wp.zeros(32, dtype=wp.float32)
        with wp.ScopedMemoryTracker("inner", print=False):
            large = wp.array(np.ones((600, 2)), dtype=wp.float64)
    outer.report(file=out)
    lines = out.getvalue().splitlines()
    assert lines[0] == "Allocation Tracking Report"
    assert lines[1:3] == ["  Total allocations: 2 (9.5 KiB)", "  Live allocations:  2 (9.5 KiB), at most 9.5 KiB"]
    assert lines[3:5] == ["  outer: 128 B", "  outer/inner: 9.375 KiB"]
    assert "array[float64, 600, 2]" in lines[5]
    assert "test_warp_tracking.py" in lines[5]
    assert lines[5].endswith("outer/inner")
    assert "array[float32, 32]" in lines[6]
    assert "test_a_report_names" in lines[6]
    assert tracker.report("chronological").splitlines()[5:] == [lines[6], lines[5]]
    assert tracker.report(max_items=1).splitlines()[-1] == "    and 1 more"
    with pytest.raises(ValueError, match="chronological"):
        outer.report(sort="name")
    del small, large


def test_blocks_print_their_reports(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    with wp.ScopedMemoryTracker("told", report_func=told.append), wp.ScopedMemoryTracker("off", active=False):
        wp.print_memory_report()
    with wp.ScopedMemoryTracker("printed"):
        pass
    assert told == [tracker.report()]
    assert capsys.readouterr().out == 2 * tracker.report()
    with pytest.raises(RuntimeError, match="ScopedMemoryTracker"):
        wp.print_memory_report()


def test_threads_have_blocks_of_their_own() -> None:
    made = []

    def work(name: str) -> None:
        with wp.ScopedMemoryTracker(name, print=False):
            made.append(wp.zeros(4, dtype=float))

    with wp.ScopedMemoryTracker("main", print=False):
        threads = [threading.Thread(target=work, args=(name,)) for name in ("first", "second")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert "  first: 16 B\n  second: 16 B" in tracker.report()
