"""The checks that debug programs call besides the primitives, which report in the record of ``diffkern.contracts.abi``.

A check takes the record, the number of the place in the source, the thread, and the checked values, and returns whether
all is well. The first thread that finds an error fills the record in. As in
:mod:`diffkern.targets.cuda.device_library`, each works in compiled kernels and in numba's CUDA simulator.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numba import cuda

from diffkern.contracts import abi
from diffkern.targets.cuda.device_library import SIMULATED, device, updating

if not SIMULATED:
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

CODE, SITE, THREAD, OTHER = abi.RECORD_CODE, abi.RECORD_SITE, abi.RECORD_THREAD, abi.RECORD_OTHER
INDEX, SHAPE, STAMPS = abi.RECORD_INDEX, abi.RECORD_SHAPE, abi.RECORD_STAMPS
OUT_OF_BOUNDS, TWO_WRITERS = abi.OUT_OF_BOUNDS, abi.TWO_WRITERS

if SIMULATED:

    def claimed(record: Any, code: Any) -> Any:
        """Return whether this is the first error of the launch."""
        with updating:
            first = record[CODE] == 0
            if first:
                record[CODE] = code
        return first

    def exchanged(address: Any, k: Any, value: Any) -> Any:
        """Replace the k-th of the int64 numbers at an address and return the old one."""
        with updating:
            place = ctypes.c_int64.from_address(int(address) + 8 * int(k))
            old, place.value = place.value, int(value)
        return np.int64(old)

else:

    @device
    def claimed(record: Any, code: Any) -> Any:
        """Return whether this is the first error of the launch."""
        return cuda.atomic.cas(record, CODE, 0, code) == 0

    @intrinsic
    def exchanged(context: Any, address: Any, k: Any, value: Any) -> Any:
        """Replace the k-th of the int64 numbers at an address and return the old one."""

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            place = builder.inttoptr(values[0], ir.IntType(64).as_pointer())
            return builder.atomic_rmw("xchg", builder.gep(place, [values[1]]), values[2], "monotonic")

        return types.int64(types.int64, types.int64, types.int64), emit


@device
def none_found(record: Any) -> Any:
    """Return whether no thread has found an error so far."""
    return record[CODE] == 0


@device
def report(record: Any, code: Any, site: Any, thread: Any, other: Any) -> Any:
    """Fill in the record; return whether this is the first error."""
    first = claimed(record, code)
    if first:
        record[SITE] = site
        record[THREAD] = thread
        record[OTHER] = other
    return first


@device
def reported(record: Any, code: Any, site: Any, thread: Any, wrong: Any) -> Any:
    """Report an error if something is wrong."""
    if wrong:
        report(record, code, site, thread, 0)


@device
def place_of(index: Any, length: Any, wraps: Any) -> Any:
    """Return a subscript that may count from the end as one that does not."""
    return index + length if wraps and index < 0 else index


@device
def report_access(record: Any, code: Any, site: Any, thread: Any, other: Any, index: Any, shape: Any) -> Any:
    """Report an error of an access."""
    if report(record, code, site, thread, other):
        for k in range(len(index)):
            record[INDEX + k] = index[k]
            record[SHAPE + k] = shape[k]


@device
def within(record: Any, site: Any, thread: Any, index: Any, wraps: Any, shape: Any) -> Any:
    """Return whether an element exists."""
    for k in range(len(index)):
        place = place_of(index[k], shape[k], wraps[k])
        if place < 0 or place >= shape[k]:
            report_access(record, OUT_OF_BOUNDS, site, thread, 0, index, shape)
            return False
    return True


@device
def alone(record: Any, site: Any, thread: Any, index: Any, wraps: Any, shape: Any, slot: Any) -> Any:
    """Return whether an element exists that no other thread stores to, for the array whose stamps are in a slot."""
    if not within(record, site, thread, index, wraps, shape):
        return False
    stamps = record[STAMPS + slot]
    if stamps == 0:
        return True
    flat = np.int64(0)
    for k in range(len(index)):
        flat = flat * shape[k] + place_of(index[k], shape[k], wraps[k])
    old = exchanged(stamps, flat, thread + 1)
    if old == 0 or old == thread + 1:
        return True
    report_access(record, TWO_WRITERS, site, thread, old - 1, index, shape)
    return False
