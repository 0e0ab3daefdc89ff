"""The primitives of generated CUDA source in compiled kernels: device functions of numba-cuda.

In: nothing. Out: :func:`primitives`, by name; they are compiled when a kernel that calls them is.
"""

from __future__ import annotations

import builtins
import importlib
import math
from typing import Any

import numpy as np

from diffkern.ops.table import lookup
from diffkern.targets.cuda.device_portable import LIBDEVICE, PORTABLE, SATURATED, carries

__all__ = ["primitives"]

int32, int64 = np.int32, np.int64
uint16, uint32, uint64 = np.uint16, np.uint32, np.uint64
float32 = np.float32
inf = math.inf


def _module(name: str) -> Any:
    """A module of numba's, whose annotations are partial."""
    return importlib.import_module(name)


def primitives() -> dict[str, Any]:
    """Return the primitives by name."""
    cuda, libdevice, extending = (_module(n) for n in ("numba.cuda", "numba.cuda.libdevice", "numba.cuda.extending"))
    names: dict[str, Any] = {
        name: _mathematics(cuda, libdevice, extending.overload, called, lookup(name).arity)
        for name, called in LIBDEVICE.items()
    }
    functions = {**PORTABLE, **{name: _saturating(to) for name, to in SATURATED.items()}, **_bfloat16(libdevice)}
    functions.update(carries(uint32, _quotient(extending.intrinsic)))
    names.update({name: cuda.jit(device=True)(f) for name, f in functions.items()})
    names.update(_of_floats(cuda, libdevice, extending.overload), **_of_indices(cuda.types, extending.overload))
    return names


def _unary(function: Any) -> Any:
    def call(x: Any) -> Any:
        return function(x)

    return call


def _binary(function: Any) -> Any:
    def call(x: Any, y: Any) -> Any:
        return function(x, y)

    return call


def _mathematics(cuda: Any, libdevice: Any, overload: Any, name: str, arity: int | None) -> Any:
    """The function of libdevice for the type of the argument."""
    shape = _binary if arity == 2 else _unary
    stub = shape(None)
    choices = shape(getattr(libdevice, f"{name}f")), shape(getattr(libdevice, name))
    overload(stub, target="cuda")(shape(lambda x, *_: choices[x != cuda.types.float32]))
    return stub


def _saturating(to: Any) -> Any:
    low, high = int(np.iinfo(to).min), int(np.iinfo(to).max)
    below, above = float(low), float(high)

    def saturated(x: Any) -> Any:
        if x != x:
            return to(0)
        if x <= below:
            return to(low)
        return to(high) if x >= above else to(x)

    return saturated


def _bfloat16(libdevice: Any) -> dict[str, Any]:
    def from_bfloat16(bits: Any) -> Any:
        return libdevice.int_as_float(int32(int32(bits) << 16))

    def to_bfloat16(value: Any) -> Any:
        bits = uint32(libdevice.float_as_int(value))
        if value != value:
            return uint16((bits >> 16) | 0x40)
        return uint16((bits + ((bits >> 16) & 1) + 0x7FFF) >> 16)

    return {"from_bfloat16": from_bfloat16, "to_bfloat16": to_bfloat16}


def _quotient(intrinsic: Any) -> Any:
    """The division of unsigned integers by one that is not 0, which numba would ask for each time."""

    def quotient(context: Any, x: Any, y: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.udiv(*values)

        return x(x, x), codegen

    return intrinsic(quotient)


def _of_floats(cuda: Any, libdevice: Any, overload: Any) -> dict[str, Any]:
    """What depends on the type of an argument and is no function of libdevice."""
    types = cuda.types
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
    return {"sign": sign, "exchange": exchange, "abs": builtins.abs}


def _of_indices(types: Any, overload: Any) -> dict[str, Any]:
    """Indices and loops that numba would make signed or wide."""

    def at(place: Any) -> Any:
        raise NotImplementedError("at")

    def unsigned(place: Any) -> Any:
        to = uint32 if place.bitwidth <= 32 else uint64
        return lambda place: to(place)  # noqa: PLW0108

    overload(at, target="cuda")(lambda place: unsigned(place))  # noqa: PLW0108

    def irange(lo: Any, hi: Any, step: Any = 1) -> Any:
        raise NotImplementedError("irange")

    def loop(lo: Any, hi: Any, step: Any) -> Any:
        """In the type of the bounds, which those of them that are literals do not have."""
        typed = [t for t in (lo, hi, step) if isinstance(t, types.Integer) and not isinstance(t, types.IntegerLiteral)]
        wide = any(t.bitwidth > 32 or (t.bitwidth == 32 and not t.signed) for t in typed)
        to = uint64 if any(t.bitwidth > 32 and not t.signed for t in typed) else int64 if wide else int32
        return lambda lo, hi, step=1: range(to(lo), to(hi), to(step))

    overload(irange, target="cuda", prefer_literal=True)(lambda lo, hi, step=1: loop(lo, hi, step))
    return {"at": at, "irange": irange, "index": uint32}
