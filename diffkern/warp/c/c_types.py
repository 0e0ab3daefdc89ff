"""Types of expressions in C: literals, promotions, common types of operands, and conversions.

Expressions in Python, each with the type that C gives it, are converted as C does. A type is the name of a scalar of
``wp``, the text of a vector's type (``vec3<float32>``), or "" where it is not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from diffkern.process.dataclass import dataclass

__all__ = [
    "SCALARS",
    "OtherTextError",
    "Typed",
    "arithmetic",
    "as_kind",
    "bits_of",
    "common",
    "component",
    "literal",
    "promoted",
    "set_to",
]

_BITS: Final[Mapping[str, int]] = {
    "bool": 1, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64, "uint64": 64,
}  # fmt: skip
_FLOATS: Final = ("float32", "float64")
SCALARS: Final = frozenset({*_BITS, *_FLOATS})
_VECTOR: Final = re.compile(r"(?:vec\d+|quat|mat\w+)<(\w+)>")


class OtherTextError(Exception):
    """A text outside of the subset that is translated to Python."""


@dataclass(frozen=True)
class Typed:
    """An expression in Python with its type in C.

    Attributes
    ----------
    code : str
        The expression.
    kind : str
        Its type.
    constant : bool
        True if it consists of literals, which have no type of their own in Python.
    """

    code: str
    kind: str
    constant: bool = False


def promoted(kind: str) -> str:
    """Return the type of an operand after integer promotion: integers narrower than ``int`` become ``int``."""
    return "int32" if _BITS.get(kind, 64) < 32 else kind


def common(first: str, second: str) -> str:
    """Return the common type that both operands of an operator are converted to."""
    # float64 first: if either operand is a double, the other is converted to it.
    for known in reversed(_FLOATS):
        if known in (first, second):
            return known
    # C's usual arithmetic conversions: of equal widths the unsigned type wins, else the wider one.
    first, second = promoted(first), promoted(second)
    if _BITS[first] == _BITS[second]:
        return first if first.startswith("u") else second
    return first if _BITS[first] > _BITS[second] else second


def as_kind(value: Typed, kind: str) -> str:
    """Convert an expression to another type, as an assignment does."""
    if value.kind == kind or kind not in SCALARS:
        return value.code
    if value.kind not in SCALARS:
        if value.kind:
            raise OtherTextError(f"a value of the type {value.kind} is no number")
        return f"wp.{kind}({value.code})"
    if kind == "bool":
        return f"({value.code} != {'0' if value.kind == 'int32' else f'wp.{value.kind}(0)'})"
    # A boolean is promoted to int before it is converted any further.
    if value.kind == "bool" and kind != "int32":
        return f"wp.{kind}(wp.int32({value.code}))"
    return f"wp.{kind}({value.code})"


def arithmetic(operator: str, left: Typed, right: Typed) -> Typed:
    """Apply a binary operator to two values."""
    if operator in ("&&", "||"):
        word = "and" if operator == "&&" else "or"
        return Typed(f"({as_kind(left, 'bool')} {word} {as_kind(right, 'bool')})", "bool")
    if left.kind not in SCALARS or right.kind not in SCALARS:
        return _of_vectors(operator, left, right)
    whole = operator in ("%", "&", "|", "^", "<<", ">>")
    if whole and {left.kind, right.kind} & set(_FLOATS):
        raise OtherTextError(f"{operator} takes integers")
    # The type of a shift is that of its left operand alone.
    shift = operator in ("<<", ">>")
    kind = promoted(left.kind) if shift else common(left.kind, right.kind)
    if left.constant and right.constant:  # in Python they would have no width
        left = Typed(f"wp.{left.kind}({left.code})", left.kind)
    code = f"({as_kind(left, kind)} {operator} {as_kind(right, kind)})"
    return Typed(code, "bool" if operator in ("==", "!=", "<", ">", "<=", ">=") else kind)


def component(kind: str) -> str:
    """Return the type of a vector's components; "" for a type that is no vector."""
    found = _VECTOR.fullmatch(kind)
    return found[1] if found else ""


def _of_vectors(operator: str, left: Typed, right: Typed) -> Typed:
    """Apply an operator to two vectors of one type, or to a vector and a scalar of its component type."""
    # Anything else has another meaning in Warp's C++, or none: it is refused rather than guessed.
    same = operator in ("+", "-", "==", "!=") and left.kind == right.kind and component(left.kind)
    scaled = operator in ("*", "/") and component(left.kind) == right.kind != ""
    scaled = scaled or (operator == "*" and component(right.kind) == left.kind != "")
    if not (same or scaled):
        unknown = [value.code for value in (left, right) if not value.kind]
        said = f"the type of {unknown[0]} is not known here" if unknown else f"of {left.kind} and {right.kind}"
        raise OtherTextError(f"the operator {operator}: {said}")
    kind = "bool" if operator in ("==", "!=") else left.kind if component(left.kind) else right.kind
    return Typed(f"({left.code} {operator} {right.code})", kind)


def literal(digits: str, suffix: str) -> Typed:
    """Return an integer literal with the type that C gives it: the first one that can represent it."""
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"
    if octal and re.fullmatch("[0-7]+", digits) is None:
        raise OtherTextError(f"{digits} is no number in base 8")
    if re.fullmatch("u?l{0,2}|l{1,2}u", suffix) is None:
        raise OtherTextError(f"{digits}{suffix} is no number")
    value = int(digits, 8 if octal else 0)
    # The candidates of the C standard, in order. A decimal literal without `u` is never unsigned; a hexadecimal or
    # octal one may be.
    kinds = [k for k in ("int32", "uint32", "int64", "uint64") if "l" not in suffix or k.endswith("64")]
    if "u" in suffix:
        kinds = [k for k in kinds if k[0] == "u"]
    elif digits[0] != "0" or value == 0:
        kinds = [k for k in kinds if k[0] == "i"]
    for kind in kinds:
        if value < 2 ** (_BITS[kind] - (kind[0] == "i")):
            # Python has no literals such as 017.
            shown = str(value) if octal else digits
            return Typed(shown, kind, True) if kind == "int32" else Typed(f"wp.{kind}({shown})", kind)
    raise OtherTextError(f"{digits} is too large for a number in C")


def bits_of(kind: str) -> int:
    """Return the size of a scalar type in bits."""
    return 8 if kind == "bool" else _BITS.get(kind) or int(kind[-2:])


def set_to(value: Typed, kind: str) -> str:
    """Convert a value to a type, with a literal written as one of that type too."""
    return f"wp.{kind}({value.code})" if value.constant and kind in SCALARS - {"bool"} else as_kind(value, kind)
