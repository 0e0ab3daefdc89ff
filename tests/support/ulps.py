"""Errors of elementary functions in units in the last place: samples of arguments, and true values by mpmath."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from conftest import require

from diffkern import vecmath

mpmath = require("mpmath")
Array = npt.NDArray[Any]
TABLE = Path(__file__).parents[2] / "docs" / "generated" / "elementary_errors.inc"
BINARY = ("atan2", "pow")
MPMATH: dict[str, Callable[..., Any]] = {
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.power(2, x),
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x) / mpmath.ln(2),
    "log10": mpmath.log10,
    "log1p": mpmath.log1p,
    "pow": mpmath.power,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "asinh": mpmath.asinh,
    "acosh": mpmath.acosh,
    "atanh": mpmath.atanh,
    "asin": mpmath.asin,
    "acos": mpmath.acos,
    "atan": mpmath.atan,
    "atan2": mpmath.atan2,
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
}
DOMAIN: dict[str, Callable[[float], bool]] = {
    "log": lambda x: x > 0,
    "log2": lambda x: x > 0,
    "log10": lambda x: x > 0,
    "log1p": lambda x: x > -1,
    "acosh": lambda x: x >= 1,
    "asin": lambda x: abs(x) <= 1,
    "acos": lambda x: abs(x) <= 1,
    "atanh": lambda x: abs(x) < 1,
    "sqrt": lambda x: x > 0,
    "rsqrt": lambda x: x > 0,
}
# Beyond 10^4 these are 0, a constant or infinite, which mpmath would work out in all its digits.
SATURATED = ("exp", "exp2", "expm1", "sinh", "cosh", "tanh", "erf", "erfc")
HARD = [
    *(0.5, 0.4375, 0.6875, 0.6, 1.0, 1.0000001, 0.9999999, 1.5, 2.0, 3.0, 3.92, 5.9, 88.72, 89.0, 104.0, 709.78, 710.4),
    *(745.1, 1023.9, 1074.5, 127.99, 149.5, math.pi, math.pi / 2, math.pi / 4, 355.0, 1048575.0, 1048577.0, 1e5, 1e22),
    *(1e-5, 1e-20, 1e-39, 1e-45, 5e-324, 2.2250738585072014e-308, 1e300, 1.7976931348623157e308, 3.4e38),
    # The float64 and the float32 that are closest to a multiple of pi/2.
    *(6381956970095103.0 * 2.0**797, 16367173.0 * 2.0**72),
]


def samples(dtype: str, count: int, seed: int) -> Array:
    """Finite numbers: all magnitudes, the usual ones, those around 1, around multiples of pi/2, and hard ones."""
    rng = np.random.default_rng(seed)
    unsigned = np.uint32 if dtype == "float32" else np.uint64
    bits = rng.integers(0, np.iinfo(unsigned).max, count, dtype=unsigned, endpoint=True).view(dtype)
    signs = rng.choice([-1.0, 1.0], count)
    parts = [
        np.array(HARD),
        -np.array(HARD),
        bits[np.isfinite(bits)].astype(np.float64),
        signs * np.exp2(rng.uniform(-30, 30, count)),
        signs * (1 + rng.uniform(-1, 1, count) * np.exp2(rng.uniform(-20, 0, count))),
        rng.uniform(-1, 1, count),
        rng.uniform(-10, 10, count),
        rng.uniform(-110, 110, count),
        rng.uniform(-1080, 1030, count),
        np.round(rng.uniform(-6e5, 6e5, count)) * (np.pi / 2),
    ]
    with np.errstate(all="ignore"):
        x = np.concatenate(parts).astype(dtype)
    return x[np.isfinite(x) & (x != 0)]


def arguments(name: str, dtype: str, count: int, seed: int = 1) -> tuple[Array, ...]:
    """Samples inside the domain; for pow, mostly pairs whose result is finite."""
    x = samples(dtype, count, seed)
    if name in DOMAIN:
        x = x[[DOMAIN[name](float(v)) for v in x]]
    if name not in BINARY:
        return (x,)
    rng = np.random.default_rng(seed + 1)
    if name != "pow":
        return x, rng.permutation(x)
    base = np.abs(x)
    base = base[base != 1]
    limits = (-1074.0, 1024.0) if dtype == "float64" else (-149.0, 128.0)
    with np.errstate(all="ignore"):
        y = (rng.uniform(*limits, base.size) / np.log2(base.astype(np.float64))).astype(dtype)
    fine = np.isfinite(y) & (y != 0)
    return base[fine], y[fine]


def errors_in_ulp(name: str, args: tuple[Array, ...], got: Array) -> Array:
    """The distance from the true value in units in the last place of the true value."""
    info = np.finfo(got.dtype)
    out = np.empty(got.size)
    # pow with a result near 1 and sums such as 1 + tiny need more than the significand.
    with mpmath.workprec(200):
        largest = mpmath.mpf(float(info.max)) * (1 + mpmath.mpf(float(info.eps)) / 4)
        for i, value in enumerate(got):
            point = [mpmath.mpf(float(a[i])) for a in args]
            if name in SATURATED and abs(point[0]) > 1e4:
                point[0] = mpmath.sign(point[0]) * 10**4
            if name in ("sin", "cos", "tan"):
                with mpmath.workprec(1300):
                    true = MPMATH[name](*point)
            else:
                true = MPMATH[name](*point)
            if abs(true) > largest:
                out[i] = 0.0 if float(value) == math.copysign(math.inf, true) else math.inf
                continue
            exponent = max(int(mpmath.frexp(true)[1]) - 1, int(info.minexp)) if true else int(info.minexp)
            out[i] = abs(mpmath.mpf(float(value)) - true) / mpmath.ldexp(1, exponent - info.nmant)
    return out


_NUMPY = {
    "pow": "power", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh",
}  # fmt: skip


def wide_errors(name: str, args: tuple[Array, ...], got: Array) -> Array:
    """As :func:`errors_in_ulp`, fast, against NumPy in a wider type, whose own error does not count."""
    info, wide = np.finfo(got.dtype), np.float64 if got.dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        given = [a.astype(wide) for a in args]
        if name == "rsqrt":
            true = 1 / np.sqrt(given[0])
        elif name in ("erf", "erfc"):  # NumPy has none; that of float64 is good for float32
            true = vecmath.evaluate(name, *given)
        else:
            true = getattr(np, _NUMPY.get(name, name))(*given)
        overflow = np.abs(true) > wide(info.max) * (1 + wide(2.0) ** -(info.nmant + 2))
        exponent = np.maximum(np.frexp(np.where(overflow | (true == 0), 1, true))[1] - 1, info.minexp)
        errors = np.abs(got.astype(wide) - true) / np.ldexp(wide(1), exponent - info.nmant)
        infinite = np.where(got.astype(wide) == np.copysign(np.inf, true), 0, np.inf)
        found: Array = np.where(np.isnan(got) & ~np.isnan(true), np.inf, np.where(overflow, infinite, errors))
    return found


def numbers_of_float32(step: int) -> Iterator[Array]:
    """One in ``step`` of all numbers of float32, infinite ones and NaNs included, in arrays of some millions."""
    chunk = step * 2**22
    for start in range(0, 2**32, chunk):
        yield np.arange(start, min(start + chunk, 2**32), step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def stated_errors() -> dict[str, dict[str, float]]:
    """What the documentation says of each type and function; ``tools/elementary_errors.py`` wrote it."""
    rows = re.findall(r"``(\w+)``\n     - ([\d.]+)\n     - ([\d.]+)\n", TABLE.read_text(encoding="utf-8"))
    return {dtype: {name: float(errors[k]) for name, *errors in rows} for k, dtype in enumerate(("float32", "float64"))}
