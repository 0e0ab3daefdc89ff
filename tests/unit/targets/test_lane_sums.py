"""Sums over lanes: what they are, and that registers are added whole before anything is shuffled within one."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from llvmlite import ir

from diffkern.runtime.native.assemble import _compile
from diffkern.runtime.native.loader import load_object
from diffkern.targets.cpu import object_code
from diffkern.targets.cpu.lanes.builder import LaneBuilder
from diffkern.targets.cpu.lanes.sums import add_up
from diffkern.targets.emit.types import I8, I64, PTR, VOID, TargetModule

NAME = "test_lanes_sums"
TYPES = {np.float32: ir.FloatType(), np.float64: ir.DoubleType(), np.int32: ir.IntType(32)}


def adding(dtype, count, lanes, target="native"):
    """The text of ``add(source, target)``: the sums of so many vectors that lie one after the other."""
    module = TargetModule("test", object_code.machine(target).isa)
    made = ir.Function(module, ir.FunctionType(VOID, [PTR] * 2), NAME)
    b = LaneBuilder(ir.IRBuilder(made.append_basic_block()), lanes)
    (source, to), size = made.args, np.dtype(dtype).itemsize
    values = []
    for k in range(count):
        at = b.plain.gep(source, [ir.Constant(I64, k * lanes * size)], source_etype=I8)
        values.append(b.plain.load(at, typ=b.wide_type(TYPES[dtype]), align=size))
    for k, total in enumerate(add_up(b, values, ())):
        b.plain.store(total, b.plain.gep(to, [ir.Constant(I64, k * size)], source_etype=I8))
    b.plain.ret_void()
    return str(module)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 64])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("dtype", TYPES)
def test_sums(dtype, count, lanes):
    text = adding(dtype, count, lanes)
    add = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2)(load_object(_compile(text, 2), [NAME])[NAME])
    numbers = np.random.default_rng(count).integers(-1000, 1000, (count, lanes)).astype(dtype)
    found = np.full(count + 1, 7, dtype)
    add(numbers.ctypes.data, found.ctypes.data)
    np.testing.assert_array_equal(found[:count], numbers.sum(axis=1))  # whole numbers: exact in any order
    assert found[count] == 7


@pytest.mark.parametrize(
    ("dtype", "register", "count"),
    [(np.float32, 8, 2), (np.float32, 8, 3), (np.float32, 8, 4), (np.float64, 4, 2), (np.float64, 4, 4)],
)
def test_registers_are_added_whole(dtype, register, count):
    """A vector in eight registers is halved until it is in one; only such vectors are interleaved."""
    text = adding(dtype, count, 8 * register, "x86-64-v3")
    shuffles = [tuple(map(int, s)) for s in re.findall(r"shufflevector <(\d+) x \w+>.*<(\d+) x i32>", text)]
    halving = [(n, n // 2) for n in (8 * register, 4 * register, 2 * register) for _ in range(2)]
    assert [s for s in shuffles if s[0] > register] == halving * count
