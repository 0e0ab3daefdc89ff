"""Comparison of the ingredients of two artifact keys.

The ingredients of two keys, as their manifests give them, make the lines of a report that names each ingredient that
differs and shows where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

__all__ = ["differences", "nearest", "shown"]

_WIDTH = 96
_BEFORE = 24


def differences(a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    """Return the report: for each ingredient that differs its name, and both values from where they differ."""
    return [line for label in _labels(a, b) if a.get(label) != b.get(label) for line in _difference(label, a, b)]


def nearest(of: Mapping[str, str], among: Mapping[str, Mapping[str, str]]) -> str | None:
    """Return the name of the set of ingredients with the fewest differences, None unless these are fewer than half."""
    best, fewest = None, len(of) // 2 + 1
    # A set that shares too little is about another kernel, and a report about it would be as long as both.
    for name, other in among.items():
        count = sum(of.get(label) != other.get(label) for label in _labels(of, other))
        if count < fewest:
            best, fewest = name, count
    return best


def shown(text: str) -> str:
    """Return `text` on one line, cut where it is long."""
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}… ({len(text)} characters)"


def _labels(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[str]:
    yield from a
    yield from (label for label in b if label not in a)


def _difference(label: str, a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[str]:
    yield f"{label}:"
    if label not in a or label not in b:
        yield f"  - {shown(a[label]) if label in a else '(not there)'}"
        yield f"  + {shown(b[label]) if label in b else '(not there)'}"
        return
    x, y = a[label], b[label]
    start = 0
    while start < min(len(x), len(y)) and x[start] == y[start]:
        start += 1
    # Long values, such as sources, are shown from shortly before the first difference.
    start = max(0, start - _BEFORE) if max(len(x), len(y)) > _WIDTH else 0
    mark = "…" if start else ""
    yield f"  - {mark}{shown(x[start:])}"
    yield f"  + {mark}{shown(y[start:])}"
