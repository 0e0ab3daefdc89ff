"""Reports of threads: lines of text, and assertions. They touch no array, and adjoints contain none of them.

A text has a field for each value: ``{}`` for the number as Python prints it, ``{:%5.2f}`` for the output of C's
``printf`` with that format. Braces that are not part of a field are doubled, as in :meth:`str.format`.
"""

from __future__ import annotations

import string
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from diffkern.ir.ops.row import Diff, Effect, OpDef, TypeRuleError
from diffkern.ir.types import BOOL, Scalar, Type

__all__ = ["REPORTS", "ROWS", "escaped", "rendered"]

Attrs = Mapping[str, Any]

REPORTS: Final = frozenset({"output", "assertion", "breakpoint"})
"""The operations, by name."""


def escaped(text: str) -> str:
    """Return text escaped for use in a text with fields."""
    return text.replace("{", "{{").replace("}", "}}")


def rendered(text: str, values: Iterable[Any]) -> str:
    """Return a text with its fields filled by the values, which are NumPy scalars."""
    given, parts = iter(values), []
    for literal, field, form, _ in string.Formatter().parse(text):
        parts.append(literal)
        if field is not None:
            value = next(given)
            parts.append(form % value if form else str(value))
    return "".join(parts)


def fields(text: str) -> int:
    """Return the number of fields in a text."""
    return sum(field is not None for _, field, _, _ in string.Formatter().parse(text))


def _write(text: str, *values: Any) -> None:
    sys.stdout.write(rendered(text, values))


def _output(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    for t in types:
        if not isinstance(t, Scalar):
            raise TypeRuleError(f"takes scalars, not {t}")
    if fields(attrs["text"]) != len(types):
        raise TypeRuleError(f"{len(types)} values for {attrs['text']!r}")
    return ()


def _assertion(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    if tuple(types) != (BOOL,):
        raise TypeRuleError(f"needs one bool, not {types}")
    return ()


ROWS = (
    # (*values): writes a text to the standard output
    OpDef("output", "report", None, _output, Effect.REPORT, Diff.ZERO, attrs={"text": str}, twin=_write, cost=20.0),
    # (condition): where it does not hold, a debug program stops with the text. number: it says what a number becomes
    # (): the Python program that is made of a kernel waits for its reader here; compiled programs have none. reached,
    # file, first: it is no call of breakpoint(), but a place that threads reach (a statement, the begin or end of the
    # function, or what comes after a loop), in the function with this first line of this file
    OpDef(
        "breakpoint",
        "report",
        0,
        lambda types, attrs: (),
        Effect.REPORT,
        Diff.ZERO,
        optional={"reached": str, "file": str, "first": int},
    ),
    OpDef(
        "assertion", "report", 1, _assertion, Effect.REPORT, Diff.ZERO, attrs={"text": str}, optional={"number": bool}
    ),
)
