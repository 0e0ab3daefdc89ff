"""Ctrl-C inside a constructor: nothing is printed, and what the driver has given is given back."""

from __future__ import annotations

import gc
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

import diffkern as dk
from diffkern.runtime import cuda
from diffkern.runtime.memory import dlpack

G = "cuda:0"
PLACES = tuple(
    os.path.join(os.path.dirname(cuda.__file__), name) for name in os.listdir(os.path.dirname(cuda.__file__))
)
MAKERS: dict[str, Callable[[], Any]] = {
    "stream": lambda: dk.Stream(G),
    "urgent stream": lambda: dk.Stream(G, priority=-1),
    "event": lambda: dk.Event(G),
    "memory": lambda: dk.empty(7, device=G),
    "zeros": lambda: dk.zeros((3, 5), device=G),
    "nothing": lambda: dk.empty(0, device=G),
    "pinned memory": lambda: dk.zeros(6, device="cpu", pinned=True),
    "memory in another stream": lambda: dk.zeros(4, device=G),
}


@pytest.fixture(autouse=True)
def frozen():
    """Leave what is there already out of the many collections."""
    gc.collect()
    gc.freeze()


def interrupted_at(make: Callable[[], Any], count: int, places: tuple[str, ...]) -> bool:
    """Make something, and interrupt it at its `count`-th line in some files; return whether it came that far."""
    left = [count]

    def trace(frame: types.FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_name == "__del__" or frame.f_code.co_filename not in places:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    made = None  # its finalizer runs undisturbed, when tracing is off
    sys.settrace(trace)
    try:
        made = make()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return made is None


def alive(driver: Any) -> tuple[int, ...]:
    """How many streams, events and pieces of memory the driver has given and has not got back."""
    gc.collect()
    of_device = sum(not block.freed for block in driver._blocks.values())
    return len(driver._time._streams), len(driver._events), of_device, len(driver._pinned)


@pytest.mark.parametrize("what", MAKERS)
def test_at_any_line_of_a_constructor(what, driver, monkeypatch):
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: said.append(told.exc_value))
    make = MAKERS[what]
    scope = dk.ScopedStream(dk.Stream(G)) if what == "memory in another stream" else None
    if scope is not None:
        scope.__enter__()
    try:
        make()
        before, count = alive(driver), 0
        while interrupted_at(make, count, PLACES):
            assert (said, alive(driver)) == ([], before), f"line {count}"
            count += 1
        assert count > 3
        make()  # and the next is as good as ever
    finally:
        if scope is not None:
            scope.__exit__(None, None, None)
    assert alive(driver) == before


def test_at_any_line_of_what_is_taken_from_another_library(monkeypatch):
    """A capsule may be lost then, but nothing is given back twice, and nothing is printed."""
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: said.append(told.exc_value))
    count = 0
    while interrupted_at(lambda: dk.from_dlpack(dk.zeros(3).numpy()), count, (dlpack.__file__,)):
        gc.collect()
        assert said == [], f"line {count}"
        count += 1
    assert count > 3
