"""The rows of the table that convert numbers: ``cvt`` between all types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .floats import flushed, limited, rounded
from .opcode import Opcode, Row
from .types import BITS, Lanes, Type, bfloat16_bits

__all__ = ["ROWS"]

_WHOLE: dict[str, Callable[[Any], Any]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _bounds(t: Type) -> tuple[int, int]:
    return (-(1 << t.bits - 1), (1 << t.bits - 1) - 1) if t.kind == "s" else (0, (1 << t.bits) - 1)


def _between_integers(op: Opcode, a: Lanes) -> Lanes:
    """Keep the low bits, or stay at the nearest limit with ``.sat``."""
    t = op.types[0]
    if "sat" in op.parts:
        least, most = _bounds(t)
        return np.array([min(max(int(x), least), most) for x in a], t.dtype)
    return a.astype(t.dtype)


def _whole(op: Opcode, a: Lanes) -> Lanes:
    mode = next((part for part in _WHOLE if part in op.parts), None)
    return _WHOLE[mode](a) if mode else a


def _to_integer(op: Opcode, a: Lanes) -> Lanes:
    """Numbers out of range go to the nearest limit. NaN is 0, or the highest bit where either side has 64 bits."""
    source, t = op.types[1], op.types[0]
    least, most = _bounds(t)
    of_nan = 1 << t.bits - 1 if source.name == "f64" or t.size == 8 else 0

    def one(x: float) -> int:
        if np.isnan(x):
            return of_nan
        return most if x >= most else least if x <= least else int(x)

    bits = [one(x) & ((1 << t.bits) - 1) for x in _whole(op, flushed(op, a).astype(np.float64))]
    return np.array(bits, BITS[t.size]).view(t.dtype)


def _from_integer(op: Opcode, a: Lanes) -> Lanes:
    """Every integer is exact in extended precision."""
    return rounded(op.types[0], a.astype(np.longdouble) if a.itemsize == 8 else a.astype(np.float64), op.rounding)


def _between_floats(op: Opcode, a: Lanes) -> Lanes:
    wide = _whole(op, flushed(op, a)).astype(np.float64)
    return limited(op, flushed(op, rounded(op.types[0], wide, op.rounding)))


def _to_pair(op: Opcode, high: Lanes, low: Lanes) -> Lanes:
    """Two float32 to a pair of halves; the first operand is the upper one."""
    both = np.stack([low, high], axis=-1)
    bits = both.astype(np.float16).view(np.uint16) if op.types[0].name == "f16x2" else bfloat16_bits(both)
    return np.ascontiguousarray(bits).view(np.uint32)[:, 0]


_INTEGER = "u8|u16|u32|u64|s8|s16|s32|s64"

ROWS = [
    Row(f"cvt{{.sat}}.({_INTEGER}).({_INTEGER})", _between_integers, takes="t", gives="d"),
    Row(f"cvt.(rni|rzi|rmi|rpi){{.ftz}}{{.sat}}.({_INTEGER}).<float>", _to_integer, takes="t", gives="d"),
    Row(f"cvt.<round>{{.sat}}.<float>.({_INTEGER})", _from_integer, takes="t", gives="d"),
    Row("cvt{.(rn|rz|rm|rp|rni|rzi|rmi|rpi)}{.ftz}{.sat}.<float>.<float>", _between_floats, takes="t", gives="d"),
    Row("cvt.rn.<pair>.f32", _to_pair, takes="t t", gives="d"),
]
