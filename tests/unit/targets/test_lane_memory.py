"""Neighbouring elements in lanes: which numbers are loaded, in vectors that stay vectors, and where they come to."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from conftest import require
from llvmlite import ir

from diffkern.ir.types import FLOAT32, FLOAT64, Vec
from diffkern.runtime.native.assemble import _compile
from diffkern.runtime.native.loader import load_object
from diffkern.targets.cpu.lanes import memory
from diffkern.targets.cpu.lanes.builder import LaneBuilder
from diffkern.targets.emit.types import I1, I8, I64, PTR, VOID

NAME = "test_lanes_load"
NUMPY = {FLOAT32: np.float32, FLOAT64: np.float64}


def loading(scalar, count, lanes, masked):
    """The text of ``load(source, mask, target)``: each component of the lanes' elements, one after the other."""
    module = ir.Module("test")
    made = ir.Function(module, ir.FunctionType(VOID, [PTR] * 3), NAME)
    b = LaneBuilder(ir.IRBuilder(made.append_basic_block()), lanes)
    source, mask, target = made.args
    on = b.plain.trunc(b.plain.load(mask, typ=b.wide_type(I8), align=1), b.wide_type(I1)) if masked else None
    element = scalar if count == 1 else Vec(scalar, count)
    for part in memory.load(b, element, memory.LanePlaces(source, True), on):
        b.plain.store(part, target, align=scalar.itemsize)
        target = b.plain.gep(target, [ir.Constant(I64, lanes * scalar.itemsize)], source_etype=I8)
    b.plain.ret_void()
    return str(module)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("lanes", [4, 8, 32])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("scalar", [FLOAT32, FLOAT64])
def test_components_of_neighbours_are_loaded_and_nothing_behind_them(scalar, count, lanes, masked):
    text = loading(scalar, count, lanes, masked)
    lengths = {int(n) for n in re.findall(r"<(\d+) x (?:float|double)>", text)}
    assert all(n & (n - 1) == 0 for n in lengths), lengths
    load = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(load_object(_compile(text, 2), [NAME])[NAME])
    rng = np.random.default_rng(count)
    source = rng.normal(size=(lanes, count)).astype(NUMPY[scalar])
    on = rng.integers(0, 2, lanes).astype(np.uint8)
    found = np.full((count + 1, lanes), 7, NUMPY[scalar])
    load(source.ctypes.data, on.ctypes.data, found.ctypes.data)
    expected = np.where(on[:, None], source, 0) if masked else source
    np.testing.assert_array_equal(found[:count], expected.T)
    assert (found[count] == 7).all()


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_lanes_that_are_off_load_nothing(count):
    """The elements of the first lanes that are off, and of all behind the last that is on, do not exist."""
    mmap = require("mmap")
    page, lanes = mmap.PAGESIZE, 8
    pages = mmap.mmap(-1, 3 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    protect = getattr(ctypes.CDLL(None), "mprotect", None)
    if protect is None:
        pytest.skip("no mprotect")
    text = loading(FLOAT32, count, lanes, True)
    load = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(load_object(_compile(text, 2), [NAME])[NAME])
    inside = 3
    for forward in (True, False):
        hidden = start + (2 * page if forward else 0)
        assert protect(ctypes.c_void_p(hidden), ctypes.c_size_t(page), 0) == 0
        size = 4 * count * inside
        first = start + 2 * page - size if forward else start + page - 4 * count * (lanes - inside)
        ctypes.memset(start + page, 0, page)
        on = np.array([k < inside if forward else k >= lanes - inside for k in range(lanes)], np.uint8)
        found = np.full((count, lanes), 7, np.float32)
        load(first, on.ctypes.data, found.ctypes.data)
        assert protect(ctypes.c_void_p(hidden), ctypes.c_size_t(page), 3) == 0
        assert (found == 0).all()


def moving(scalar, count, lanes, step, masked):
    """The text of ``move(source, mask, target, step)``: what lies in steps from `source` on comes to `target` so.

    The step is the one that is given, or a literal.
    """
    module = ir.Module("test")
    made = ir.Function(module, ir.FunctionType(VOID, [PTR, PTR, PTR, I64]), NAME)
    b = LaneBuilder(ir.IRBuilder(made.append_basic_block()), lanes)
    source, mask, target, given = made.args
    on = b.plain.trunc(b.plain.load(mask, typ=b.wide_type(I8), align=1), b.wide_type(I1)) if masked else None
    element = scalar if count == 1 else Vec(scalar, count)
    apart = given if step is None else ir.Constant(I64, step)
    parts = memory.load(b, element, memory.LanePlaces(source, False, step=apart), on)
    memory.store(b, element, memory.LanePlaces(target, False, step=apart), parts, on)
    b.plain.ret_void()
    return str(module)


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("lanes", [4, 8, 32])
@pytest.mark.parametrize("count", [1, 3, 9])
@pytest.mark.parametrize("rows", [2, -3])
def test_elements_in_steps_are_moved_and_no_others(rows, count, lanes, masked, literal):
    step = 4 * count * rows
    text = moving(FLOAT32, count, lanes, step if literal else None, masked)
    move = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(load_object(_compile(text, 2), [NAME])[NAME])
    rng = np.random.default_rng(count)
    source = rng.normal(size=(lanes * abs(rows), count)).astype(np.float32)
    on = rng.integers(0, 2, lanes).astype(np.uint8)
    found, first = np.zeros_like(source), 0 if rows > 0 else len(source) - 1
    move(source[first:].ctypes.data, on.ctypes.data, found[first:].ctypes.data, step)
    expected = np.zeros_like(source)
    moved = [first + k * rows for k in range(lanes) if on[k] or not masked]
    expected[moved] = source[moved]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("masked", [False, True])
def test_parts_of_neighbours_are_in_the_array_where_all_lanes_are_on(masked):
    assert ("getelementptr inbounds" in loading(FLOAT32, 3, 8, masked)) == (not masked)
