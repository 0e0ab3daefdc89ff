"""Docstrings of built-in functions: parameters, result and derivative of each, with an example.

The docstring of a built-in is made, when it is first asked for, from its name, its signature and its row: that of an
operation, or that of a function of several. A row of an operation need not state an entry: types, derivative and an
example with its value follow from the rest of the row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from diffkern.ir.ops.function import NONE, FunctionRow, Subject
from diffkern.ir.ops.row import Diff, Entry, OpDef, TypeRuleError
from diffkern.ir.types import BOOL, FLOAT64, INT32, UINT32, Scalar

__all__ = ["PRELUDE", "described", "entry_of", "family_of"]

PRELUDE: Final = """\
@dk.kernel
def example(
    x: dk.array(dtype=float), y: dk.array(dtype=float),
    p: dk.array(dtype=int), q: dk.array(dtype=int),
    w: dk.array(dtype=dk.vec3), e: dk.array(dtype=dk.mat33),
    a: dk.array2d(dtype=float), b: dk.array2d(dtype=float), c: dk.array2d(dtype=float),
    grid: dk.uint64, tree: dk.uint64, mesh: dk.uint64, volume: dk.uint64,
):
    i = dk.tid()
    u = w[i] + dk.vec3(1.0, 2.0, 3.0)
    v = dk.vec3(0.5, x[i], 2.0)
    m = dk.matrix_from_rows(u, v, dk.vec3(0.0, 1.0, 4.0))
    k = dk.transpose(m)
"""
"""The code in front of examples that are lines of a kernel."""


_STEP: Final = "0 everywhere."
"""The derivative of what is constant between jumps."""

_KINDS: Final[Mapping[frozenset[Scalar], str]] = {
    frozenset({FLOAT64}): "float",
    frozenset({INT32, FLOAT64}): "float or signed int",
    frozenset({INT32, UINT32, FLOAT64}): "float or int",
    frozenset({INT32, UINT32}): "int",
    frozenset({BOOL, INT32, UINT32}): "int or bool",
    frozenset({BOOL}): "bool",
}


def entry_of(name: str, signature: str, row: OpDef | FunctionRow | None, host: Callable[..., Any] | None) -> Entry:
    """Return the entry of a built-in, as its row states it or as it follows from the row."""
    if isinstance(row, FunctionRow):
        return row.entry
    known = row.built_in.entry if row is not None and row.built_in is not None else None
    return known or _of_row(name, signature, row, host)


def family_of(name: str, row: OpDef | FunctionRow | None) -> Subject:
    """Return the family of a built-in."""
    assert row is not None, name
    if isinstance(row, FunctionRow):
        return row.family
    if row.family == "composite":
        return Subject.COMPOSITES
    # By what it takes: bits and logic take no floats.
    return Subject.SCALARS if FLOAT64 in _accepted(row) else Subject.INTEGERS


def described(name: str, signature: str, doc: str, entry: Entry) -> str:
    """Return the docstring of a built-in from its entry.

    Parameters
    ----------
    name, signature, doc : str
        Its name, its parameters, and what it does.
    entry : Entry
        The entry of the reference.
    """
    parts = [f"{name}({signature})", doc]
    if entry.takes:
        parts.append(_section("Parameters", *entry.takes.split("; ")))
    if entry.returns:
        parts.append(_section("Returns", entry.returns))
    kinks = f"\n\nAt kinks: {entry.kinks}" if entry.kinks else ""
    parts.append(_section("Notes", f"Derivative: {entry.derivative}{kinks}"))
    parts.append(_section("Examples", *_example(entry.example)))
    return "\n\n".join(parts)


def _section(title: str, *lines: str) -> str:
    return "\n".join((title, "-" * len(title), *lines))


def _example(text: str) -> Iterator[str]:
    if text.startswith(">>>"):
        yield from text.splitlines()
        return
    yield ".. code-block:: python"
    yield ""
    # A line in the entry has several statements, which are shown below one another.
    yield from (f"    {line}" for line in text.split("; "))


def _of_row(name: str, signature: str, row: OpDef | None, host: Callable[..., Any] | None) -> Entry:
    assert row is not None, f"the row of {name} states no entry"
    assert host is not None, f"the row of {name} states no entry"
    kinds = _accepted(row)
    also = row.built_in.also if row.built_in is not None else ""
    return Entry(
        f"{signature} : {_KINDS[frozenset(kinds)]}{', ' if also else ''}{also}",
        _result(row, kinds),
        _derivative(row, signature.split(", "), kinds),
        _value(name, row.arity or 0, host, kinds),
        _kinks(row),
    )


def _kinks(row: OpDef) -> str:
    said = row.built_in.kinks if row.built_in is not None else ""
    kept = "A cotangent that is exactly zero stays zero there."
    return f"{said} {kept}" if said and row.singular is not None and row.singular.guarded else said


def _accepted(row: OpDef) -> list[Scalar]:
    """Return the kinds of numbers that an operation takes, each by one of its types."""

    # The type rule itself is asked, so that the reference cannot disagree with the compiler.
    def takes(t: Scalar) -> bool:
        try:
            row.infer([t] * (row.arity or 0), {})
        except TypeRuleError:
            return False
        return True

    return [t for t in (BOOL, INT32, UINT32, FLOAT64) if takes(t)]


def _result(row: OpDef, kinds: Sequence[Scalar]) -> str:
    # The last kind is the widest: a float where floats are taken.
    (result,) = row.infer([kinds[-1]] * (row.arity or 0), {})
    return "bool" if result == BOOL else "float" if kinds == [FLOAT64] else "Of the same type."


def _derivative(row: OpDef, names: Sequence[str], kinds: Sequence[Scalar]) -> str:
    (result,) = row.infer([kinds[-1]] * (row.arity or 0), {})
    if not row.partials:
        return _STEP if FLOAT64 in (result, *kinds) and row.diff is Diff.ZERO and result == FLOAT64 else NONE
    formulas = [_named(_exception_last(formula), names) for formula in row.partials]
    by_name = (f"{formula} with respect to {name}" for formula, name in zip(formulas, names, strict=True))
    said = formulas[0] if len(formulas) == 1 else ", ".join(by_name)
    where = ", where r is the result" if any("r" in _words(formula) for formula in formulas) else ""
    return f"{said}{where}."


def _exception_last(formula: str) -> str:
    # `a if c else b` reads in prose as `b (a where c)`.
    special, _, usual = formula.rpartition(" else ")
    value, _, where = special.partition(" if ")
    return f"{usual} ({value} where {where})" if special else usual


def _words(formula: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in formula).split()


def _named(formula: str, names: Sequence[str]) -> str:
    """Return a formula in x and y with the names of the signature, and constants by name."""
    known = {"0.6931471805599453": "log(2)", "2.302585092994046": "log(10)", "1.1283791670955126": "(2/sqrt(pi))"}
    for number, word in known.items():
        formula = formula.replace(number, word)
    # Word by word: a plain replacement of `x` would hit `exp`.
    new = dict(zip("xy", names, strict=False))
    pieces = itertools.groupby(formula, lambda c: c.isalnum() or c == "_")
    return "".join(new.get(piece, piece) for piece in ("".join(group) for _, group in pieces))


def _value(name: str, arity: int, host: Callable[..., Any], kinds: Sequence[Scalar]) -> str:
    """Return a call with numbers that are in the function's domain, and its result."""
    floats, ints, flags = (0.5, 1.5), (6, 3), (True, False)
    # Some domains exclude one order of the two numbers, such as acosh and acos: the second is tried as well.
    for numbers in [floats, floats[::-1]] if FLOAT64 in kinds else [ints if INT32 in kinds else flags]:
        given = numbers[:arity]
        try:
            found = host(*given)
        except (ValueError, ArithmeticError):
            continue
        if not isinstance(found, float) or math.isfinite(found):
            return f">>> dk.{name}({', '.join(map(repr, given))})\n{found!r}"
    raise AssertionError(f"dk.{name} has no value at {floats}")
