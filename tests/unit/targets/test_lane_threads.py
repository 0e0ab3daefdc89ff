"""The loop over threads in lanes: it runs those of a chunk, wherever the chunk begins and ends, and no others."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from compiling import compile_function
from cpu_harness import _ENTRY, pack
from passes_harness import lowered

import diffkern as dk
from diffkern.compiler import pipeline
from diffkern.ir.types import FLOAT32, INT32, Array
from diffkern.runtime.native.loader import load_object
from diffkern.targets.cpu import object_code
from diffkern.targets.cpu.lanes.choice import LaneForm, chosen
from diffkern.targets.emit.types import Isa
from diffkern.targets.target import Settings

F32, F32_2, I32 = Array(FLOAT32, 1), Array(FLOAT32, 2), Array(INT32, 1)
LAST = 2**31 - 1


def counting(first, most, found):
    i = dk.tid()
    for k in range(most):
        # Not a sum for the whole chunk, which would need memory of the launch's: the place is not known before.
        dk.atomic_add(found, k // most, 1)
        dk.atomic_min(found, 1, i - first)
        dk.atomic_max(found, 2, i - first)


@pytest.mark.parametrize("first", [0, 3, LAST - 100])
def test_each_thread_of_a_chunk_runs_once(first):
    fn = lowered(counting, INT32, INT32, I32)
    compiled = compile_function(fn, f"test_lane_chunks_{first}", lanes=True)
    assert compiled.lane_counts
    entry = _ENTRY(load_object(compiled.code, compiled.symbols)[compiled.symbols[0]])
    for lo, hi in ((0, 0), (5, 5), (0, 1), (2, 9), (0, 8), (0, 32), (1, 66), (3, 100)):
        found = np.array([0, 1000, -1], np.int32)
        block = ctypes.create_string_buffer(pack(fn, [first, 1, found], (LAST,), LAST, 0))
        entry(ctypes.addressof(block), first + lo, first + hi)
        assert found.tolist() == ([hi - lo, lo, hi - 1] if lo < hi else [0, 1000, -1])


def looping(x, n, y):
    i = dk.tid()
    s = x[i]
    for _k in range(n):
        s = s * s + x[i]
    y[i] = s


def diverging(x, n, y):
    i = dk.tid()
    s = x[i]
    while s < 10.0:
        s = s * s + x[i]
    y[i] = s


def branching(x, n, y):
    i = dk.tid()
    if x[i] > 0.0:
        y[i] = x[i]


@pytest.mark.parametrize(
    ("function", "vector_bytes", "forms"),
    [
        (looping, 32, [(32, False, False), (8, True, True)]),
        (diverging, 32, [(8, True, False)]),
        (branching, 32, [(32, False, False), (8, True, True)]),
        (looping, 16, [(16, False, False), (4, False, True)]),
        (diverging, 16, [(4, False, False)]),
    ],
)
def test_threads_that_are_left_run_under_a_mask_where_registers_have_masks(function, vector_bytes, forms):
    fn = lowered(function, F32, INT32, F32)
    isa = Isa("x86_64-unknown-linux-gnu", "e", None, True, vector_bytes=vector_bytes, vector_registers=32)
    own = vector_bytes // 4
    assert chosen(fn, Settings(lanes=True), isa).forms == tuple(LaneForm(n, own, *more) for n, *more in forms)
    assert chosen(fn, Settings(lanes=False), isa).forms == ()


def test_one_register_has_an_unmasked_loop_besides_where_a_thread_has_none():
    fn = lowered(branching, F32, INT32, F32)
    isa = Isa("x86_64-unknown-linux-gnu", "e", None, True, vector_bytes=256, vector_registers=32)
    assert chosen(fn, Settings(lanes=True), isa).forms == (LaneForm(64, 64, False, False), LaneForm(64, 64, True, True))


def test_one_register_where_a_thread_holds_many_numbers_and_there_is_but_one():
    fn = lowered(looping, F32, INT32, F32)
    isa = Isa("x86_64-unknown-linux-gnu", "e", None, True, vector_bytes=256, vector_registers=1)
    assert chosen(fn, Settings(lanes=True), isa).registers == 1


def looping_along_rows(x, n, y):
    i, j = dk.tid()
    s = x[i]
    for _k in range(n):
        s = s * s + x[i]
    y[i, j] = s


def gathering_along_rows(x, n, y):
    i, j = dk.tid()
    s = x[i]
    for k in range(n):
        s = s * s + x[j * j + k]
    y[i, j] = s


def adding_along_rows(x, n, y):
    i, j = dk.tid()
    for k in range(n):
        y[i, j] += x[k]


@pytest.mark.parametrize(
    ("function", "vector_bytes", "by_itself"),
    [
        (looping, 32, False),
        (looping_along_rows, 32, False),
        (gathering_along_rows, 32, True),
        (adding_along_rows, 32, True),
        (gathering_along_rows, 16, False),
    ],
)
def test_a_row_of_one_thread_runs_by_itself_where_a_mask_costs_time(function, vector_bytes, by_itself):
    """Without masks, one thread does so in any case."""
    fn = lowered(function, F32, INT32, F32 if function is looping else F32_2)
    isa = Isa("x86_64-unknown-linux-gnu", "e", None, True, vector_bytes=vector_bytes, vector_registers=32)
    found = chosen(fn, Settings(lanes=True), isa)
    assert found.by_itself == by_itself
    assert (", and rows of one thread without:" in str(found)) == by_itself


def some_shifted(x, y, n):
    i = dk.tid()
    for k in range(n):
        if i > 2:
            y[i - 3] = x[i - 3, k]


def all_shifted(x, y, n):
    i = dk.tid()
    for k in range(n):
        if n > 2:
            y[i] = x[i, k]


@pytest.mark.parametrize(("function", "expected"), [(some_shifted, False), (all_shifted, True)])
def test_the_first_lane_may_be_off_and_its_element_outside_the_array(function, expected, monkeypatch):
    texts, optimise = [], object_code.optimise
    monkeypatch.setattr(object_code, "optimise", lambda text, *more: texts.append(text) or optimise(text, *more))
    fn = pipeline.optimise(lowered(function, F32_2, F32, INT32))
    compile_function(fn, f"test_lane_bounds_{function.__name__}", "x86-64-v3", lanes=True)
    (text,) = texts
    assert "llvm.masked.store" in text
    assert ("getelementptr inbounds float" in text) == expected
