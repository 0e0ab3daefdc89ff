"""Rows of the table of built-in functions: those of numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
from builtin_rows import INTEGERS, NUMBERS, Row, divisor, inside, normal, row, special


def of_one(name: str, oracle: Callable[..., Any], *at: Any, **options: Any) -> Row:
    return row(f"dk.{name}(a)", "number", "number", *at, oracle=oracle, **options)


def of_two(name: str, oracle: Callable[..., Any], *at: Any, **options: Any) -> Row:
    return row(f"dk.{name}(a, b)", "number number", "number", *at, oracle=oracle, **options)


def truncated(x: Any, y: Any) -> Any:
    """The quotient of integers, rounded toward zero."""
    down = x // y
    return down + ((down * y != x) & ((x < 0) != (y < 0))).astype(down.dtype)


def half_away(x: Any) -> Any:
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def smoothstep(a: Any, b: Any, x: Any) -> Any:
    t = np.clip((x - a) / (b - a), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def ones(x: Any) -> int:
    return int(x).__and__((1 << (8 * x.dtype.itemsize)) - 1).bit_count()


POSITIVE, INNER, SHIFT = inside(0.25, 4.0), inside(-0.9, 0.9), inside(0.0, 1.5)
SMALL, LARGE = inside(-8.0, 8.0), inside(-20.0, 20.0)

ELEMENTARY = (
    of_one("sin", np.sin),
    of_one("cos", np.cos),
    of_one("tan", np.tan, INNER),
    of_one("asin", np.arcsin, INNER),
    of_one("acos", np.arccos, INNER),
    of_one("atan", np.arctan),
    of_two("atan2", np.arctan2),
    of_one("sinh", np.sinh),
    of_one("cosh", np.cosh),
    of_one("tanh", np.tanh),
    of_one("asinh", np.arcsinh),
    of_one("acosh", np.arccosh, inside(1.5, 4.0)),
    of_one("atanh", np.arctanh, INNER),
    of_one("exp", np.exp),
    of_one("exp2", np.exp2),
    of_one("expm1", np.expm1),
    of_one("log", np.log, POSITIVE),
    of_one("log2", np.log2, POSITIVE),
    of_one("log10", np.log10, POSITIVE),
    of_one("log1p", np.log1p, POSITIVE),
    of_one("sqrt", np.sqrt, POSITIVE),
    of_one("rsqrt", lambda x: 1.0 / np.sqrt(x), POSITIVE),
    of_one("cbrt", np.cbrt, divisor),
    of_one("erf", math.erf),
    of_one("erfc", math.erfc),
    of_one("gamma", math.gamma, POSITIVE),
    of_one("lgamma", math.lgamma, POSITIVE),
    of_one("digamma", lambda x: float(mpmath.digamma(float(x))), POSITIVE),
    of_two("pow", np.power, POSITIVE, normal),
    of_two("hypot", np.hypot),
    of_two("copysign", np.copysign),
    of_one("degrees", np.degrees),
    of_one("radians", np.radians),
    of_one("floor", np.floor, SMALL),
    of_one("ceil", np.ceil, SMALL),
    of_one("trunc", np.trunc, SMALL),
    of_one("round", half_away, SMALL),
    of_one("rint", np.rint, SMALL),
    of_one("frac", lambda x: x - np.trunc(x), SMALL),
    row("dk.lerp(a, b, c)", "number number number", "number", oracle=lambda a, b, t: a * (1 - t) + b * t),
    row("dk.smoothstep(a, b, c)", "number number number", "number", inside(-2, -1), inside(1, 2), normal,
        oracle=smoothstep),
    *(
        row(f"dk.{name}(a)", "number", "int", special, oracle=getattr(np, name))
        for name in ("isnan", "isinf", "isfinite")
    ),
)  # fmt: skip

OF_ANY_NUMBER = (
    of_one("abs", np.abs, of=NUMBERS),
    of_one("sign", lambda x: np.where(x < 0, -1, 1), of=NUMBERS),
    of_one("step", lambda x: np.where(x < 0, 1, 0), of=NUMBERS),
    of_one("nonzero", lambda x: np.where(x != 0, 1, 0), of=NUMBERS),
    of_one("pos", lambda x: x, of=NUMBERS),
    of_one("neg", np.negative, of=NUMBERS),
    of_one("stop_gradient", lambda x: x, of=NUMBERS, constant=True),
    of_two("add", np.add, of=NUMBERS),
    of_two("sub", np.subtract, of=NUMBERS),
    of_two("mul", np.multiply, of=NUMBERS),
    of_two("div", np.divide, normal, divisor),
    row("dk.div(a, b)", "number number", "real", normal, divisor, oracle=np.divide, of=INTEGERS, form="integers"),
    of_two("floordiv", np.floor_divide, SMALL, divisor, of=NUMBERS),
    of_two("mod", np.remainder, SMALL, divisor, of=NUMBERS),
    of_two("min", np.minimum, of=NUMBERS),
    of_two("max", np.maximum, of=NUMBERS),
    row("dk.max(a, b, c)", "number number number", "number", oracle=max, of=NUMBERS,
        form="three"),
    row("dk.clamp(a, b, c)", "number number number", "number", normal, inside(-0.8, 0.0), inside(0.2, 0.8),
        oracle=lambda x, low, high: min(max(x, low), high), of=NUMBERS),
    row("dk.where(a, b, c)", "bool number number", "number", oracle=np.where, of=NUMBERS),
    row("dk.where(a, b, c)", "number number number", "number", oracle=lambda c, a, b: np.where(c != 0, a, b),
        of=INTEGERS, form="integer condition"),
    row("dk.select(a, b, c)", "bool number number", "number", oracle=lambda c, a, b: np.where(c, b, a), of=NUMBERS),
    row("dk.select(a, b, c)", "number number number", "number", oracle=lambda c, a, b: np.where(c != 0, b, a),
        of=INTEGERS, form="integer condition"),
    *(
        row(f"a {sign} b", "number number", "int", oracle=oracle, of=NUMBERS)
        for sign, oracle in {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
                             "==": operator.eq, "!=": operator.ne}.items()
    ),
    row("a ** 3", "number", "number", oracle=lambda x: x * x * x, of=NUMBERS),
)  # fmt: skip

BITS = (
    of_two("bit_and", np.bitwise_and, of=INTEGERS),
    of_two("bit_or", np.bitwise_or, of=INTEGERS),
    of_two("bit_xor", np.bitwise_xor, of=INTEGERS),
    of_one("invert", np.invert, of=INTEGERS),
    of_two("lshift", np.left_shift, LARGE, SHIFT, of=INTEGERS),
    of_two("rshift", np.right_shift, LARGE, SHIFT, of=INTEGERS),
    row("dk.bit_count(a)", "number", "int", oracle=ones, of=INTEGERS),
    row("dk.unot(a)", "number", "int", oracle=lambda x: x == 0, of=INTEGERS),
)

CASTS = (
    row("dk.cast(dk.cast(a, dk.uint64), number)", "number", "number", oracle=lambda x: x, of=("float64", "int64"),
        constant=True, form="back"),
    row("dk.cast(dk.cast(a, dk.int32), number)", "number", "number", oracle=lambda x: x, of=("uint32",),
        constant=True, form="back from 32 bits"),
)  # fmt: skip

BOOLS = (
    row("dk.unot(a)", "bool", "int", oracle=operator.not_, form="bool", of=("float64",)),
    *(
        row(f"dk.{name}(a, b)", "bool bool", "int", oracle=oracle, form="bool", of=("float64",))
        for name, oracle in {"bit_and": np.logical_and, "bit_or": np.logical_or, "bit_xor": np.logical_xor}.items()
    ),
)

NUMERIC = (*ELEMENTARY, *OF_ANY_NUMBER, *BITS, *CASTS)
