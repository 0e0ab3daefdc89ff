"""Checks in compiled code: what the record holds, and that code without checks has no trace of them."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest
from compiling import compile_function
from cpu_harness import kernel, load, store, tids

from diffkern.contracts import abi
from diffkern.ir.types import FLOAT32, INT32, UINT64, Array
from diffkern.runtime.native.loader import load_object
from diffkern.targets.emit.checks import Checking

F1, F2 = Array(FLOAT32, 1), Array(FLOAT32, 2)
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def run(fn, args, dims, checking=Checking.MEMORY, stamped=True):
    """Run all threads; returns the record."""
    code = compile_function(fn, f"checked_{fn.name}_{run.serial}", checking=checking)
    run.serial += 1
    addresses = load_object(code.code, code.symbols)
    position = {p: k for k, p in enumerate(fn.params)}
    stamps = [np.zeros(args[position[p]].size, np.int64) for p in code.stamped]
    record = np.zeros(abi.RECORD_STAMPS + len(stamps), np.int64)
    if stamped:
        record[abi.RECORD_STAMPS :] = [s.ctypes.data for s in stamps]
    block = struct.pack(abi.HEADER_FORMAT, record.ctypes.data, *(*dims, 1, 1, 1)[:4], int(np.prod(dims)), 0)
    for a in args:
        block += struct.pack(f"{1 + 2 * a.ndim}q", a.ctypes.data, *a.shape, *a.strides)
    buffer = ctypes.create_string_buffer(block)
    _ENTRY(addresses[code.symbols[0]])(ctypes.addressof(buffer), 0, int(np.prod(dims)))
    return record


run.serial = 0


def copy_shifted(shift):
    def body(b, x, y):
        (i,) = tids(b)
        store(b, y, i, load(b, x, b.add(i, b.const(shift, INT32)), wrap=True))

    return kernel({"x": F1, "y": F1}, body, name="copy")


def test_code_without_checks_has_no_trace_of_them():
    fn = copy_shifted(1)
    plain = compile_function(fn, "same")
    checked = compile_function(fn, "same", checking=Checking.ALL)
    again = compile_function(fn, "same", checking=Checking.NONE)
    assert plain.code == again.code
    assert plain.llvm_ir() == again.llvm_ir()
    assert plain.check_sites == ()
    assert plain.stamped == ()
    assert "dk_report" not in plain.llvm_ir()
    assert "dk_report" in checked.llvm_ir()
    assert [op.name for op in checked.check_sites] == ["load", "store"]


def test_record_of_an_index_outside():
    x, y = np.arange(4, dtype=np.float32), np.full(4, 9, np.float32)
    record = run(copy_shifted(1), [x, y], (4,))
    assert record[: abi.RECORD_STAMPS].tolist() == [abi.OUT_OF_BOUNDS, 0, 3, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0]
    np.testing.assert_array_equal(y, [1, 2, 3, 0])


def test_the_first_mistake_stays():
    x, y = np.arange(4, dtype=np.float32), np.zeros(2, np.float32)
    record = run(copy_shifted(-6), [x, y], (4,))
    assert record[abi.RECORD_THREAD] == 0
    assert record[abi.RECORD_INDEX] == -6


def test_indices_that_wrap():
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    assert not run(copy_shifted(-4), [x, y], (4,))[: abi.RECORD_STAMPS].any()
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(("dims", "thread"), [((3, 5), 5 + 2), ((3, 5, 2), (5 + 2) * 2), ((3, 5, 2, 2), (5 + 2) * 4)])
def test_flattened_thread_index(dims, thread):
    def body(b, x):
        i, j = tids(b, 2)
        here = b.one("and", b.one("eq", i, b.i32(1)), b.one("eq", j, b.i32(2)))
        store(b, x, i, b.select(here, b.i32(77), j), b.const(1.0, FLOAT32))

    x = np.zeros((3, 5), np.float32)
    record = run(kernel({"x": F2}, body, tid=2), [x], dims, stamped=False)
    assert record[:6].tolist() == [abi.OUT_OF_BOUNDS, 0, thread, 0, 1, 77]
    assert record[abi.RECORD_SHAPE : abi.RECORD_SHAPE + 2].tolist() == [3, 5]


def test_unsigned_index_of_full_width():
    def body(b, x):
        store(b, x, b.const(2**64 - 1, UINT64), b.const(1.0, FLOAT32))

    x = np.zeros(3, np.float32)
    assert run(kernel({"x": F1}, body, tid=0), [x], (1,))[abi.RECORD_CODE] == abi.OUT_OF_BOUNDS
    assert not x.any()


def test_stamps_name_both_threads():
    def body(b, x):
        (i,) = tids(b)
        store(b, x, b.one("mod", i, b.i32(3)), b.cast(i, FLOAT32))

    fn = kernel({"x": F1}, body)
    x = np.full(3, 9, np.float32)
    record = run(fn, [x], (4,))
    assert record[: abi.RECORD_INDEX + 1].tolist() == [abi.TWO_WRITERS, 0, 3, 0, 0]
    np.testing.assert_array_equal(x, [0, 1, 2])
    assert run(fn, [x], (4,), stamped=False)[abi.RECORD_CODE] == 0


def test_integer_arithmetic_is_checked_on_demand():
    def body(b, x, y):
        (i,) = tids(b)
        store(b, y, i, b.one("floordiv", b.i32(7), load(b, x, i)))

    fn = kernel({"x": Array(INT32, 1), "y": Array(INT32, 1)}, body)
    x = np.array([1, 0], np.int32)
    assert run(fn, [x, x.copy()], (2,))[abi.RECORD_CODE] == 0
    record = run(fn, [x, x.copy()], (2,), Checking.ALL)
    assert record[abi.RECORD_CODE] == abi.ZERO_DIVISION
    assert record[abi.RECORD_THREAD] == 1
