"""The arithmetic that every approximation is written in.

Values are of one of five kinds: float32, float64, the integer of the same width as each, and bool. An :class:`Emitter`
does the work on raw values (NumPy arrays, or LLVM values in a block under construction); a :class:`EmittedValue` is a
raw value with its kind and the Python operators, so that a formula reads like one.

Both emitters guarantee that:

- every operation is one IEEE operation, rounded to nearest, and is neither reordered nor merged, except
  :meth:`EmittedValue.mad`, which may be fused: it stands only where a fused result is as good as an unfused one, or the
  same;
- integers wrap; shifts to the right bring in zeros;
- there is no control flow but :meth:`Emitter.rare`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal, Protocol

from diffkern.process.dataclass import dataclass
from diffkern.vecmath.coefficients import TWO_OVER_PI_BITS

Kind = Literal["f32", "f64", "i32", "i64", "bool"]
Raw = Any
"""A raw value of an emitter: it is never looked into by the formulas."""

INT_OF: dict[Kind, Kind] = {"f32": "i32", "f64": "i64"}
FLOAT_OF: dict[Kind, Kind] = {"i32": "f32", "i64": "f64"}
BinaryName = Literal["add", "sub", "mul", "div"]
IntName = Literal["iadd", "isub", "iand", "ior", "ixor", "shl", "shr"]
CompareName = Literal["lt", "le", "eq"]
UnaryName = Literal["neg", "abs", "sqrt"]
LogicName = Literal["and", "or", "xor"]


class Emitter(Protocol):
    """The operations. All but the conversions take and return raw values of the stated kind."""

    fuses: bool
    """True if every :meth:`mad` is fused, so that a formula may rely on its single rounding."""

    def const(self, kind: Kind, value: float) -> Raw:
        """A constant, rounded to the kind."""

    def binary(self, name: BinaryName, kind: Kind, a: Raw, b: Raw) -> Raw:
        """A float operation."""

    def unary(self, name: UnaryName, kind: Kind, a: Raw) -> Raw:
        """A float operation of one operand."""

    def mad(self, kind: Kind, a: Raw, b: Raw, c: Raw) -> Raw:
        """``a * b + c``, fused if the target does that faster."""

    def product_error(self, kind: Kind, a: Raw, b: Raw, product: Raw) -> Raw:
        """``a * b - product`` exactly, where ``product`` is the rounded product (no overflow or underflow within)."""

    def copysign(self, kind: Kind, a: Raw, b: Raw) -> Raw:
        """The magnitude of ``a`` with the sign bit of ``b``."""

    def integer(self, name: IntName, kind: Kind, a: Raw, b: Raw) -> Raw:
        """An integer operation."""

    def compare(self, name: CompareName, kind: Kind, a: Raw, b: Raw) -> Raw:
        """A comparison (ordered: false with a nan; signed for integers), to bool."""

    def logic(self, name: LogicName, a: Raw, b: Raw) -> Raw:
        """A bool operation."""

    def select(self, condition: Raw, a: Raw, b: Raw) -> Raw:
        """``a`` where the condition holds, else ``b``."""

    def to_bits(self, kind: Kind, a: Raw) -> Raw:
        """The bits of a float as the integer of its width."""

    def from_bits(self, kind: Kind, a: Raw) -> Raw:
        """The float with these bits; ``kind`` is the integer's."""

    def widen(self, a: Raw) -> Raw:
        """float32 to float64."""

    def narrow(self, a: Raw) -> Raw:
        """float64 to float32, rounded."""

    def lookup(self, table: str, index: Raw) -> Raw:
        """The float64 at an int64 index of a constant table of :data:`TABLES`; the index must be inside."""

    def rare(self, condition: Raw, name: str, kind: Kind, x: Raw, fast: Raw) -> Raw:
        """``fast``, but the out-of-line function ``name`` of ``x`` where the condition holds."""


@dataclass(frozen=True)
class EmittedValue:
    """A raw value, its kind and its emitter."""

    e: Emitter
    kind: Kind
    raw: Raw

    def like(self, raw: Raw, kind: Kind | None = None) -> EmittedValue:
        """Return a raw value as a value of the same emitter."""
        return EmittedValue(self.e, kind or self.kind, raw)

    def const(self, value: float) -> EmittedValue:
        """Return a constant of the same kind."""
        return self.like(self.e.const(self.kind, value))

    def _lift(self, other: EmittedValue | float) -> Raw:
        return other.raw if isinstance(other, EmittedValue) else self.e.const(self.kind, other)

    def _binary(self, name: BinaryName, as_int: IntName | None, other: EmittedValue | float) -> EmittedValue:
        if self.kind in FLOAT_OF:
            if as_int is None:
                raise TypeError(f"{name} is not defined on {self.kind}")
            return self.like(self.e.integer(as_int, self.kind, self.raw, self._lift(other)))
        return self.like(self.e.binary(name, self.kind, self.raw, self._lift(other)))

    def __add__(self, other: EmittedValue | float) -> EmittedValue:
        return self._binary("add", "iadd", other)

    def __sub__(self, other: EmittedValue | float) -> EmittedValue:
        return self._binary("sub", "isub", other)

    def __mul__(self, other: EmittedValue | float) -> EmittedValue:
        return self._binary("mul", None, other)

    def __truediv__(self, other: EmittedValue | float) -> EmittedValue:
        return self._binary("div", None, other)

    def __radd__(self, other: float) -> EmittedValue:
        return self.const(other) + self

    def __rsub__(self, other: float) -> EmittedValue:
        return self.const(other) - self

    def __rmul__(self, other: float) -> EmittedValue:
        return self.const(other) * self

    def __rtruediv__(self, other: float) -> EmittedValue:
        return self.const(other) / self

    def __neg__(self) -> EmittedValue:
        return self.like(self.e.unary("neg", self.kind, self.raw))

    def __abs__(self) -> EmittedValue:
        return self.like(self.e.unary("abs", self.kind, self.raw))

    def sqrt(self) -> EmittedValue:
        """Return the square root, correctly rounded."""
        return self.like(self.e.unary("sqrt", self.kind, self.raw))

    def mad(self, factor: EmittedValue | float, addend: EmittedValue | float) -> EmittedValue:
        """Return ``self * factor + addend``, fused or not."""
        return self.like(self.e.mad(self.kind, self.raw, self._lift(factor), self._lift(addend)))

    def copysign(self, sign: EmittedValue) -> EmittedValue:
        """Return the magnitude of ``self`` with the sign bit of ``sign``."""
        return self.like(self.e.copysign(self.kind, self.raw, sign.raw))

    def __lt__(self, other: EmittedValue | float) -> EmittedValue:
        return self.like(self.e.compare("lt", self.kind, self.raw, self._lift(other)), "bool")

    def __le__(self, other: EmittedValue | float) -> EmittedValue:
        return self.like(self.e.compare("le", self.kind, self.raw, self._lift(other)), "bool")

    def __gt__(self, other: EmittedValue | float) -> EmittedValue:
        return self.like(self.e.compare("lt", self.kind, self._lift(other), self.raw), "bool")

    def __ge__(self, other: EmittedValue | float) -> EmittedValue:
        return self.like(self.e.compare("le", self.kind, self._lift(other), self.raw), "bool")

    def eq(self, other: EmittedValue | float) -> EmittedValue:
        """Return whether the two are equal; false with a nan."""
        return self.like(self.e.compare("eq", self.kind, self.raw, self._lift(other)), "bool")

    def is_nan(self) -> EmittedValue:
        """Return whether the value is a nan."""
        return ~self.eq(self)

    def __and__(self, other: EmittedValue | int) -> EmittedValue:
        if self.kind == "bool":
            return self.like(self.e.logic("and", self.raw, self._lift(other)))
        return self.like(self.e.integer("iand", self.kind, self.raw, self._lift(other)))

    def __or__(self, other: EmittedValue | int) -> EmittedValue:
        if self.kind == "bool":
            return self.like(self.e.logic("or", self.raw, self._lift(other)))
        return self.like(self.e.integer("ior", self.kind, self.raw, self._lift(other)))

    def __xor__(self, other: EmittedValue | int) -> EmittedValue:
        if self.kind == "bool":
            return self.like(self.e.logic("xor", self.raw, self._lift(other)))
        return self.like(self.e.integer("ixor", self.kind, self.raw, self._lift(other)))

    def __invert__(self) -> EmittedValue:
        return self ^ 1 if self.kind == "bool" else self ^ -1

    def __lshift__(self, count: int) -> EmittedValue:
        return self.like(self.e.integer("shl", self.kind, self.raw, self._lift(count)))

    def __rshift__(self, count: int) -> EmittedValue:
        return self.like(self.e.integer("shr", self.kind, self.raw, self._lift(count)))

    def select(self, a: EmittedValue | float, b: EmittedValue | float) -> EmittedValue:
        """Return ``a`` where ``self`` (a bool) holds, else ``b``; one of the two must be a Value."""
        model = a if isinstance(a, EmittedValue) else b
        if not isinstance(model, EmittedValue):
            raise TypeError("select needs at least one Value among its two choices")
        return model.like(self.e.select(self.raw, model._lift(a), model._lift(b)))

    def bits(self) -> EmittedValue:
        """Return the bits of a float as the integer of its width."""
        return self.like(self.e.to_bits(self.kind, self.raw), INT_OF[self.kind])

    def from_bits(self) -> EmittedValue:
        """Return the float with these bits."""
        return self.like(self.e.from_bits(self.kind, self.raw), FLOAT_OF[self.kind])

    def widen(self) -> EmittedValue:
        """Return a float32 as a float64."""
        return self.like(self.e.widen(self.raw), "f64")

    def narrow(self) -> EmittedValue:
        """Return a float64 rounded to a float32."""
        return self.like(self.e.narrow(self.raw), "f32")

    def lookup(self, table: str) -> EmittedValue:
        """Return the float64 of a constant table at this int64 index."""
        return self.like(self.e.lookup(table, self.raw), "f64")

    def rare(self, condition: EmittedValue, name: str, fast: EmittedValue) -> EmittedValue:
        """Return ``fast``, but the out-of-line function ``name`` of this value where the condition holds."""
        return fast.like(self.e.rare(condition.raw, name, self.kind, self.raw, fast.raw))


Double = tuple[EmittedValue, EmittedValue]
"""An unevaluated sum of a value and a much smaller one."""


def polynomial(z: EmittedValue, coefficients: Sequence[float]) -> EmittedValue:
    """Evaluate a polynomial by Horner's rule, lowest coefficient first, with :meth:`EmittedValue.mad`."""
    total = z.const(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total.mad(z, coefficient)
    return total


def two_sum(a: EmittedValue, b: EmittedValue) -> Double:
    """Return the rounded sum and its exact error (Knuth)."""
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def fast_two_sum(a: EmittedValue, b: EmittedValue) -> Double:
    """Return the rounded sum and its exact error, for ``|a| >= |b|`` or ``a == 0`` (Dekker)."""
    total = a + b
    return total, b - (total - a)


def two_product(a: EmittedValue, b: EmittedValue) -> Double:
    """Return the rounded product and its exact error."""
    product = a * b
    return product, a.like(a.e.product_error(a.kind, a.raw, b.raw, product.raw))


def double_product(a: Double, b: Double) -> Double:
    """Return the product of two doubles, to about 2^-104 relative."""
    high, low = two_product(a[0], b[0])
    return fast_two_sum(high, low + (a[0] * b[1] + a[1] * b[0]))


_ROUNDERS: dict[Kind, float] = {"f32": 12582912.0, "f64": 6755399441055744.0}
_MANTISSA: dict[Kind, int] = {"f32": 23, "f64": 52, "i32": 23, "i64": 52}
_BIAS: dict[Kind, int] = {"f32": 127, "f64": 1023, "i32": 127, "i64": 1023}


def mantissa_bits(kind: Kind) -> int:
    """Return the number of stored significand bits."""
    return _MANTISSA[kind]


def exponent_bias(kind: Kind) -> int:
    """Return the bias of the stored exponent."""
    return _BIAS[kind]


def round_with_bits(x: EmittedValue, factor: float = 1.0) -> tuple[EmittedValue, EmittedValue]:
    """Round ``x * factor`` to an integral float (below 2^22 or 2^51), and an integer with it in its low half."""
    magic = _ROUNDERS[x.kind]
    shifted = x + magic if factor == 1.0 else x.mad(factor, magic)
    return shifted - magic, shifted.bits()


def exp2_integer(n: EmittedValue) -> EmittedValue:
    """Return 2^n for an integral float ``n`` within the range of normal exponents."""
    return _exp2_low(round_with_bits(n)[1], n.kind)


def scale(x: EmittedValue, n: EmittedValue) -> EmittedValue:
    """Return ``x * 2^n`` with one rounding, for an integral float ``n`` as far as twice the normal exponents."""
    return scale_by_bits(x, round_with_bits(n)[1])


def scale_by_bits(x: EmittedValue, n: EmittedValue) -> EmittedValue:
    """Scale as :func:`scale` does, with ``n`` in the low half of an integer from :func:`round_with_bits`."""
    half = n >> 1
    return x * _exp2_low(half, x.kind) * _exp2_low(n - half, x.kind)


def _exp2_low(n: EmittedValue, kind: Kind) -> EmittedValue:
    """Return 2^n for the integer in the lowest bits; the bits above them are shifted out."""
    return ((n + _BIAS[kind]) << _MANTISSA[kind]).from_bits()


def clamp(x: EmittedValue, low: float, high: float) -> EmittedValue:
    """Return ``x`` limited to [low, high]; a nan stays."""
    return clamp_above((x < low).select(low, x), high)


def clamp_above(x: EmittedValue, high: float) -> EmittedValue:
    """Return ``x`` limited to at most ``high``; a nan stays."""
    return (x > high).select(high, x)


Formula = Callable[..., EmittedValue]
"""Values of one kind to a value of that kind."""


def in_float64(formula: Callable[[EmittedValue, bool], EmittedValue]) -> Formula:
    """Return a function for either type from a formula in float64 and the flag ``short`` (for a float32 result)."""

    def either(x: EmittedValue) -> EmittedValue:
        return formula(x.widen(), True).narrow() if x.kind == "f32" else formula(x, False)

    either.__doc__ = formula.__doc__
    return either


# -- constant tables ---------------------------------------------------------------------------------------------------
# Of float64, computed with exact integer arithmetic when first needed: the same on every machine, because no
# floating-point function of the machine is used. TABLES maps a name to a function that returns the table.


PAYNE_HANEK_FIRST = 1021
"""The stored exponent of the first row: rows begin at magnitude 1/4."""
PAYNE_HANEK_PARTS = 4
_FRACTION_BITS = 1344


@functools.cache
def payne_hanek() -> tuple[float, ...]:
    """Return 2/pi times the power of two of each stored exponent, modulo a full turn, in four parts.

    Row ``e`` stands for ``m * 2^(e-1023)`` with ``1 <= m < 2`` and 53 bits of m. Its parts add up to ``2^52 *
    (2^(e-1075) * 2/pi mod 4)``, with the residue taken in [-2, 2): m times the sum is congruent, modulo 4, to the
    argument in quarter turns.
    """
    modulus = 1 << (_FRACTION_BITS + 2)
    rows: list[float] = []
    for stored in range(PAYNE_HANEK_FIRST, 2048):
        shift = stored - 1075
        # 2^shift * 2/pi in units of 2^-(1344 + 64): the 64 keeps the bits of the rows with a negative shift.
        scaled = TWO_OVER_PI_BITS << (64 + shift)
        residue = scaled % (modulus << 64)
        if residue >= modulus << 63:
            residue -= modulus << 64
        rest = Fraction(residue, 1 << (_FRACTION_BITS + 64 - 52))
        for _ in range(PAYNE_HANEK_PARTS):
            part = float(rest)
            rows.append(part)
            rest -= Fraction(part)
    return tuple(rows)


TABLES: dict[str, Callable[[], tuple[float, ...]]] = {"payne_hanek": payne_hanek}
