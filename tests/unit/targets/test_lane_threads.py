"""The loop over threads in lanes: it runs those of a chunk, wherever the chunk begins and ends, and no others."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from compiling import compile_function
from cpu_harness import _ENTRY, pack
from passes_harness import lowered

import diffkern as dk
from diffkern.ir.types import FLOAT32, INT32, Array
from diffkern.runtime.native.loader import load_object
from diffkern.targets.cpu.lanes.choice import Form, chosen
from diffkern.targets.emit.types import Isa
from diffkern.targets.target import Settings

F32, I32 = Array(FLOAT32, 1), Array(INT32, 1)
LAST = 2**31 - 1


def counting(first, most, found):
    i = dk.tid()
    for _k in range(most):
        dk.atomic_add(found, 0, 1)
        dk.atomic_min(found, 1, i - first)
        dk.atomic_max(found, 2, i - first)


@pytest.mark.parametrize("first", [0, 3, LAST - 100])
def test_each_thread_of_a_chunk_runs_once(first):
    fn = lowered(counting, INT32, INT32, I32)
    compiled = compile_function(fn, f"test_lane_chunks_{first}", lanes=True)
    assert compiled.together
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
    assert chosen(fn, Settings(lanes=True), isa).forms == tuple(Form(*form) for form in forms)
    assert chosen(fn, Settings(lanes=False), isa).forms == ()


def test_one_register_has_an_unmasked_loop_besides_where_a_thread_has_none():
    fn = lowered(branching, F32, INT32, F32)
    isa = Isa("x86_64-unknown-linux-gnu", "e", None, True, vector_bytes=256, vector_registers=32)
    assert chosen(fn, Settings(lanes=True), isa).forms == (Form(64, False, False), Form(64, True, True))
