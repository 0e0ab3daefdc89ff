"""Numbers with tangents in plain Python, and vectors, matrices and structs of them: forward mode by overloading.

It shares nothing with diffkern, neither rules nor types. What has no derivative (whole numbers, conditions) is
Python's. Values never change in place; what assigns to a component makes another value.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mpmath
import numpy as np

__all__ = ["Dual", "Mat", "Vec", "functions", "put"]

_D = np.float64


class Dual:
    """A number and its tangent."""

    __slots__ = ("change", "value")

    def __init__(self, value: Any, change: Any = 0.0) -> None:
        self.value, self.change = _D(value), _D(change)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, (Vec, Mat)):
            return NotImplemented
        other = lifted(other)
        return Dual(self.value + other.value, self.change + other.change)

    __radd__ = __add__

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.change)

    def __pos__(self) -> Dual:
        return self

    def __sub__(self, other: Any) -> Dual:
        return self + -lifted(other)

    def __rsub__(self, other: Any) -> Dual:
        return lifted(other) + -self

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, (Vec, Mat)):
            return NotImplemented
        other = lifted(other)
        return Dual(self.value * other.value, self.value * other.change + self.change * other.value)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Dual:
        other = lifted(other)
        quotient = self.value / other.value
        return Dual(quotient, (self.change - quotient * other.change) / other.value)

    def __rtruediv__(self, other: Any) -> Dual:
        return lifted(other) / self

    def __floordiv__(self, other: Any) -> Dual:
        return Dual(np.floor_divide(self.value, lifted(other).value))

    def __rfloordiv__(self, other: Any) -> Dual:
        return lifted(other) // self

    def __mod__(self, other: Any) -> Dual:
        other = lifted(other)
        turns = np.floor_divide(self.value, other.value)
        return Dual(np.mod(self.value, other.value), self.change - turns * other.change)

    def __rmod__(self, other: Any) -> Dual:
        return lifted(other) % self

    def __pow__(self, other: Any) -> Dual:
        return power(self, lifted(other))

    def __rpow__(self, other: Any) -> Dual:
        return power(lifted(other), self)

    def __int__(self) -> int:
        return math.trunc(self.value)

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < lifted(other).value)

    def __le__(self, other: Any) -> bool:
        return bool(self.value <= lifted(other).value)

    def __gt__(self, other: Any) -> bool:
        return bool(self.value > lifted(other).value)

    def __ge__(self, other: Any) -> bool:
        return bool(self.value >= lifted(other).value)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == lifted(other).value)

    __hash__ = None  # type: ignore[assignment]


def lifted(x: Any) -> Dual:
    """A number as one with a tangent."""
    return x if isinstance(x, Dual) else Dual(x)


class _Components:
    """What vectors and matrices have in common: components in row-major order."""

    __slots__ = ("parts",)

    def __init__(self, *parts: Any) -> None:
        self.parts = tuple(map(lifted, parts))

    def __iter__(self) -> Iterator[Dual]:
        return iter(self.parts)

    def _each(self, act: Callable[..., Any], *others: Any) -> Any:
        return type(self)(*map(act, self.parts, *others))

    def __add__(self, other: Any) -> Any:
        return self._each(lambda a, b: a + b, other.parts)

    def __sub__(self, other: Any) -> Any:
        return self._each(lambda a, b: a - b, other.parts)

    def __neg__(self) -> Any:
        return self._each(lambda a: -a)

    def __truediv__(self, other: Any) -> Any:
        return self._each(lambda a: a / other)

    def __rmul__(self, other: Any) -> Any:
        return self._each(lambda a: a * other)


class Vec(_Components):
    """A vector."""

    __slots__ = ()

    def __mul__(self, other: Any) -> Any:
        return self._each(lambda a: a * other)

    def __getitem__(self, k: int) -> Dual:
        return self.parts[k]

    def replaced(self, k: int, value: Any) -> Vec:
        """The vector with another component."""
        parts = list(self.parts)
        parts[k] = lifted(value)
        return Vec(*parts)

    def __getattr__(self, name: str) -> Dual:
        return self.parts["xyzw".index(name)]


class Mat(_Components):
    """A square matrix."""

    __slots__ = ()

    @property
    def rows(self) -> list[tuple[Dual, ...]]:
        """Its rows."""
        n = math.isqrt(len(self.parts))
        return [self.parts[n * k : n * k + n] for k in range(n)]

    def __getitem__(self, at: tuple[int, int]) -> Dual:
        return self.rows[at[0]][at[1]]

    def replaced(self, at: tuple[int, int], value: Any) -> Mat:
        """The matrix with another component."""
        rows = [list(row) for row in self.rows]
        rows[at[0]][at[1]] = lifted(value)
        return Mat(*(part for row in rows for part in row))

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Vec):
            return Vec(*(_dot(row, other.parts) for row in self.rows))
        if isinstance(other, Mat):
            columns = list(zip(*other.rows, strict=True))
            return Mat(*(_dot(row, column) for row in self.rows for column in columns))
        return self._each(lambda a: a * other)

    __matmul__ = __mul__


def put(whole: Any, path: Sequence[tuple[str, Any]], value: Any) -> Any:
    """What `whole` is after an assignment to what a path leads to; arrays change, everything else is made anew."""
    if not path:
        return value
    (kind, key), rest = path[0], path[1:]
    if isinstance(whole, np.ndarray):
        whole[key] = put(whole[key] if rest else None, rest, value)
        return whole
    old = whole[key] if kind == "item" else getattr(whole, key)
    new = put(old, rest, value)
    if kind == "item":
        return whole.replaced(key, new)
    if isinstance(whole, Vec):
        return whole.replaced("xyzw".index(key), new)
    made = copy.copy(whole)
    setattr(made, key, lifted(new) if isinstance(old, Dual) else new)
    return made


# -- functions ---------------------------------------------------------------------------------------------------------


def _dot(a: Sequence[Dual], b: Sequence[Dual]) -> Dual:
    total = Dual(0.0)
    for x, y in zip(a, b, strict=True):
        total = total + x * y
    return total


def _smooth(value: Callable[[Any], Any], slope: Callable[[Any, Any], Any]) -> Callable[[Any], Dual]:
    """A function of one number, by its value and its slope at ``x`` with value ``y``."""

    def found(x: Any) -> Dual:
        x = lifted(x)
        y = value(x.value)
        return Dual(y, slope(x.value, y) * x.change if x.change else 0.0)

    return found


def power(x: Any, y: Any) -> Dual:
    """``x ** y``."""
    x, y = lifted(x), lifted(y)
    value = np.power(x.value, y.value)
    change = y.value * np.power(x.value, y.value - 1.0) * x.change if x.change else 0.0
    return Dual(value, change + (value * np.log(x.value) * y.change if y.change else 0.0))


def _atan2(y: Any, x: Any) -> Dual:
    y, x = lifted(y), lifted(x)
    square = x.value**2 + y.value**2
    return Dual(np.arctan2(y.value, x.value), (x.value * y.change - y.value * x.change) / square)


def _hypot(x: Any, y: Any) -> Dual:
    return _SMOOTH["sqrt"](x * x + y * y)


def _copysign(x: Any, y: Any) -> Dual:
    x, y = lifted(x), lifted(y)
    value = np.copysign(x.value, y.value)
    return Dual(value, x.change if np.signbit(value) == np.signbit(x.value) else -x.change)


def _least(a: Any, b: Any) -> Any:
    if isinstance(a, Vec):
        return Vec(*map(_least, a, b))
    return a if a <= b else b


def _greatest(a: Any, b: Any) -> Any:
    if isinstance(a, Vec):
        return Vec(*map(_greatest, a, b))
    return a if a >= b else b


def _abs(x: Any) -> Any:
    if not isinstance(x, Dual):
        return abs(x)
    return Dual(abs(x.value), np.sign(x.value) * x.change)


def _length(v: Vec) -> Dual:
    return _SMOOTH["sqrt"](_dot(v.parts, v.parts))


def _cross(a: Vec, b: Vec) -> Vec:
    (a0, a1, a2), (b0, b1, b2) = a, b
    return Vec(a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0)


def _determinant(m: Mat) -> Dual:
    def of(rows: list[tuple[Dual, ...]]) -> Dual:
        if len(rows) == 1:
            return rows[0][0]
        total = Dual(0.0)
        for k, head in enumerate(rows[0]):
            minor = of([(*row[:k], *row[k + 1 :]) for row in rows[1:]])
            total = total + (head * minor if k % 2 == 0 else -(head * minor))
        return total

    return of(m.rows)


def _smoothstep(low: Any, high: Any, x: Any) -> Any:
    t = _least(_greatest((x - lifted(low)) / (lifted(high) - low), Dual(0.0)), Dual(1.0))
    return t * t * (3.0 - 2.0 * t)


def _polygamma(order: int, x: float) -> float:
    return float(mpmath.psi(order, x))


_LN2, _LN10 = math.log(2.0), math.log(10.0)
_SMOOTH: dict[str, Callable[[Any], Dual]] = {
    "sin": _smooth(np.sin, lambda x, y: np.cos(x)),
    "cos": _smooth(np.cos, lambda x, y: -np.sin(x)),
    "tan": _smooth(np.tan, lambda x, y: 1.0 + y * y),
    "asin": _smooth(np.arcsin, lambda x, y: 1.0 / np.sqrt(1.0 - x * x)),
    "acos": _smooth(np.arccos, lambda x, y: -1.0 / np.sqrt(1.0 - x * x)),
    "atan": _smooth(np.arctan, lambda x, y: 1.0 / (1.0 + x * x)),
    "sinh": _smooth(np.sinh, lambda x, y: np.cosh(x)),
    "cosh": _smooth(np.cosh, lambda x, y: np.sinh(x)),
    "tanh": _smooth(np.tanh, lambda x, y: 1.0 - y * y),
    "asinh": _smooth(np.arcsinh, lambda x, y: 1.0 / np.sqrt(x * x + 1.0)),
    "acosh": _smooth(np.arccosh, lambda x, y: 1.0 / np.sqrt(x * x - 1.0)),
    "atanh": _smooth(np.arctanh, lambda x, y: 1.0 / (1.0 - x * x)),
    "exp": _smooth(np.exp, lambda x, y: y),
    "exp2": _smooth(np.exp2, lambda x, y: y * _LN2),
    "expm1": _smooth(np.expm1, lambda x, y: y + 1.0),
    "log": _smooth(np.log, lambda x, y: 1.0 / x),
    "log2": _smooth(np.log2, lambda x, y: 1.0 / (x * _LN2)),
    "log10": _smooth(np.log10, lambda x, y: 1.0 / (x * _LN10)),
    "log1p": _smooth(np.log1p, lambda x, y: 1.0 / (1.0 + x)),
    "sqrt": _smooth(np.sqrt, lambda x, y: 0.5 / y),
    "rsqrt": _smooth(lambda x: 1.0 / np.sqrt(x), lambda x, y: -0.5 * y / x),
    "cbrt": _smooth(np.cbrt, lambda x, y: 1.0 / (3.0 * y * y)),
    "erf": _smooth(math.erf, lambda x, y: 2.0 / math.sqrt(math.pi) * np.exp(-x * x)),
    "erfc": _smooth(math.erfc, lambda x, y: -2.0 / math.sqrt(math.pi) * np.exp(-x * x)),
    "gamma": _smooth(math.gamma, lambda x, y: y * _polygamma(0, x)),
    "lgamma": _smooth(math.lgamma, lambda x, y: _polygamma(0, x)),
    "digamma": _smooth(lambda x: _polygamma(0, x), lambda x, y: _polygamma(1, x)),
    "floor": _smooth(np.floor, lambda x, y: 0.0),
    "sign": _smooth(np.sign, lambda x, y: 0.0),
    "frac": _smooth(lambda x: x - np.trunc(x), lambda x, y: 1.0),
    "degrees": _smooth(np.degrees, lambda x, y: 180.0 / math.pi),
    "radians": _smooth(np.radians, lambda x, y: math.pi / 180.0),
}


def _wrapped(bits: int, signed: bool) -> Callable[[Any], int]:
    def cast(x: Any) -> int:
        low = int(x) & ((1 << bits) - 1)
        return low - (1 << bits) if signed and low >> (bits - 1) else low

    return cast


def _update(choose: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def update(array: np.ndarray, *given: Any) -> Any:
        *at, value = given
        old = array[tuple(at)]
        array[tuple(at)] = choose(old, value)
        return old

    return update


def functions() -> dict[str, Any]:
    """What programs call, by name."""
    found: dict[str, Any] = {
        **_SMOOTH,
        "pow": power, "atan2": _atan2, "hypot": _hypot, "copysign": _copysign, "abs": _abs, "smoothstep": _smoothstep,
        "min": _least, "max": _greatest, "where": lambda c, a, b: a if c else b,
        "clamp": lambda x, low, high: _least(_greatest(x, low), high),
        "lerp": lambda a, b, t: a * (1.0 - t) + b * t,
        "dot": lambda a, b: _dot(a.parts, b.parts), "length": _length, "length_sq": lambda v: _dot(v.parts, v.parts),
        "normalize": lambda v: v / _length(v), "cross": _cross,
        "cw_mul": lambda a, b: Vec(*(x * y for x, y in zip(a, b, strict=True))),
        "outer": lambda a, b: Mat(*(x * y for x in a for y in b)), "determinant": _determinant,
        "transpose": lambda m: Mat(*(part for column in zip(*m.rows, strict=True) for part in column)),
        "trace": lambda m: sum((row[k] for k, row in enumerate(m.rows)), Dual(0.0)),
        "float64": lambda x: x if isinstance(x, Dual) else Dual(float(x)), "static": lambda x: x,
        "zeros": lambda n, dtype: Vec(*(dtype(0.0) for _ in range(n))),
        **{f"{u}int{bits}": _wrapped(bits, not u) for bits in (8, 16, 32, 64) for u in ("", "u")},
        "atomic_add": _update(lambda old, value: old + value), "atomic_sub": _update(lambda old, value: old - value),
        "atomic_min": _update(_least), "atomic_max": _update(_greatest),
    }  # fmt: skip
    found |= {f"vec{n}d": Vec for n in (2, 3, 4)}
    found |= {f"mat{n}{n}d": Mat for n in (2, 3, 4)}
    return found
