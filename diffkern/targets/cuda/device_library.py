"""What generated CUDA source calls besides numba-cuda itself: every primitive under one name, in two forms.

In numba's CUDA simulator (``NUMBA_ENABLE_CUDASIM=1``) a name is the pure Python twin of ``diffkern.printing.prims``. In
compiled kernels it is a device function: mathematics of libdevice for float32 or float64, the rest in Python that
numba-cuda compiles. Both follow the operation table: a zero divisor gives 0, a cast to an integer saturates, NaN is
passed on by ``min`` and ``max``.

Generated source that is looked at but not run does not need this module.
"""

from __future__ import annotations

import builtins
import importlib
import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from diffkern.forks import free_in_child
from diffkern.ops.table import all_ops, lookup
from diffkern.printing import prims

bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float32, float64 = np.float32, np.float64
inf, nan = math.inf, math.nan
magnitude = builtins.abs

SATURATED = {f"saturated_{t.__name__}": t for t in (int8, int16, int32, int64, uint8, uint16, uint32, uint64)}

LIBDEVICE = {
    name: row.library.libdevice for name, row in all_ops().items() if row.library is not None and row.library.libdevice
}
"""The functions of libdevice that operations are."""


def _module(name: str) -> Any:
    """A module of numba's, whose annotations are partial."""
    return importlib.import_module(name)


def _simulated() -> dict[str, Any]:
    """The pure Python twins."""
    names: dict[str, Any] = {n: getattr(prims, n) for n in (*_PORTABLE, "abs", "sign", "irange")}
    names.update({name: lookup(name).twin for name in LIBDEVICE})
    for name, to in SATURATED.items():
        names[name] = lambda x, to=to: prims.cast(x, to)
    names["from_bfloat16"] = lambda bits: (np.asarray(bits, np.uint32) << np.uint32(16)).view(np.float32)[()]
    names["to_bfloat16"] = _to_bfloat16
    names["exchange"] = _exchange
    return names


_EXCHANGING = free_in_child(threading.Lock())


def _exchange(array: Any, index: Any, value: Any) -> Any:
    """Replace an element at once; the simulator's threads are threads of Python."""
    with _EXCHANGING:
        old = array[index]
        array[index] = value
    return old


def _to_bfloat16(value: Any) -> Any:
    """The bits of a float32 rounded to the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = np.asarray(value, np.float32).view(np.uint32)
    if np.isnan(value):
        return np.uint16((bits >> np.uint32(16)) | np.uint32(0x40))
    return np.uint16((bits + ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)) >> np.uint32(16))


# -- what numba-cuda compiles ------------------------------------------------------------------------------------------


def _hypot(x: Any, y: Any) -> Any:
    return math.sqrt(x * x + y * y)


def _isnan(x: Any) -> Any:
    return x != x


def _isinf(x: Any) -> Any:
    return x == inf or x == -inf


def _isfinite(x: Any) -> Any:
    return x - x == 0


def _floordiv(a: Any, b: Any) -> Any:
    return a // b if b != 0 else a * 0


def _mod(a: Any, b: Any) -> Any:
    return a % b if b != 0 else a * 0


_PORTABLE: dict[str, Callable[..., Any]] = {
    "select": prims.select,
    "hypot": _hypot,
    "min": prims.min,
    "max": prims.max,
    "isnan": _isnan,
    "isinf": _isinf,
    "isfinite": _isfinite,
    "floordiv": _floordiv,
    "mod": _mod,
    "next_checkpoint": prims.schedule,
}


def _unary(function: Any) -> Any:
    def call(x: Any) -> Any:
        return function(x)

    return call


def _binary(function: Any) -> Any:
    def call(x: Any, y: Any) -> Any:
        return function(x, y)

    return call


def _device() -> dict[str, Any]:
    """The device functions; they are compiled when a kernel that calls them is."""
    cuda, libdevice, extending = (_module(n) for n in ("numba.cuda", "numba.cuda.libdevice", "numba.cuda.extending"))
    types, overload = cuda.types, extending.overload

    def mathematics(name: str, arity: int | None) -> Any:
        """The function of libdevice for the type of the argument."""
        shape = _binary if arity == 2 else _unary
        stub = shape(None)
        choices = shape(getattr(libdevice, f"{name}f")), shape(getattr(libdevice, name))
        overload(stub, target="cuda")(shape(lambda x, *_: choices[x != types.float32]))
        return stub

    def saturating(to: Any) -> Any:
        low, high = int(np.iinfo(to).min), int(np.iinfo(to).max)
        below, above = float(low), float(high)

        def saturated(x: Any) -> Any:
            if x != x:
                return to(0)
            if x <= below:
                return to(low)
            return to(high) if x >= above else to(x)

        return cuda.jit(device=True)(saturated)

    def from_bfloat16(bits: Any) -> Any:
        return libdevice.int_as_float(int32(int32(bits) << 16))

    def to_bfloat16(value: Any) -> Any:
        bits = uint32(libdevice.float_as_int(value))
        if value != value:
            return uint16((bits >> 16) | 0x40)
        return uint16((bits + ((bits >> 16) & 1) + 0x7FFF) >> 16)

    names: dict[str, Any] = {name: mathematics(called, lookup(name).arity) for name, called in LIBDEVICE.items()}
    names.update({name: cuda.jit(device=True)(f) for name, f in _PORTABLE.items()})
    names.update({name: saturating(to) for name, to in SATURATED.items()})
    names["from_bfloat16"] = cuda.jit(device=True)(from_bfloat16)
    names["to_bfloat16"] = cuda.jit(device=True)(to_bfloat16)
    names.update(_by_type(cuda, libdevice, overload, types), abs=magnitude, irange=range)
    return names


def _by_type(cuda: Any, libdevice: Any, overload: Any, types: Any) -> dict[str, Any]:
    """What depends on the type of an argument and is no function of libdevice."""
    one32, as_bits, as_bits64 = float32(1), libdevice.float_as_int, libdevice.double_as_longlong
    as_float, as_float64 = libdevice.int_as_float, libdevice.longlong_as_double
    sign32, sign64 = libdevice.copysignf, libdevice.copysign

    def sign(x: Any) -> Any:
        raise NotImplementedError("sign")

    def sign_of(x: Any) -> Any:
        if isinstance(x, types.Integer):
            return lambda x: (x > 0) - (x < 0)
        if x == types.float32:
            return lambda x: x if x != x or x == 0 else sign32(one32, x)
        return lambda x: x if x != x or x == 0 else sign64(1.0, x)

    # numba compares signatures with those of the lambdas above, which have no annotations.
    overload(sign, target="cuda")(lambda x: sign_of(x))  # noqa: PLW0108

    def exchange(array: Any, index: Any, value: Any) -> Any:
        raise NotImplementedError("exchange")

    def exchange_in(array: Any, index: Any, value: Any) -> Any:
        if array.dtype == types.float32:
            return lambda array, index, value: as_float(cuda.atomic.exch(array.view(int32), index, as_bits(value)))
        return lambda array, index, value: as_float64(cuda.atomic.exch(array.view(int64), index, as_bits64(value)))

    overload(exchange, target="cuda")(lambda array, index, value: exchange_in(array, index, value))  # noqa: PLW0108
    return {"sign": sign, "exchange": exchange}


globals().update(_simulated() if _module("numba").config.ENABLE_CUDASIM else _device())
