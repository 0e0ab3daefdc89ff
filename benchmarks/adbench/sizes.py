"""The sizes at which the objectives are measured: the suite's small and middle ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, Final

import bundle
import gmm
import hand
import lstm
from case import Data

MODULES: Final[dict[str, ModuleType]] = {"gmm": gmm, "bundle": bundle, "lstm": lstm, "hand": hand}


def _sizes(make: Callable[..., Data], named: dict[str, tuple[Any, ...]]) -> dict[str, Callable[[], Data]]:
    return {name: partial(make, *size) for name, size in named.items()}


CASES: Final[dict[str, Callable[[], Data]]] = {
    **_sizes(gmm.data, {f"gmm d{d} K{k} N{n}": (d, k, n) for d, k, n in (
        (2, 5, 1000), (10, 25, 1000), (32, 50, 1000), (10, 25, 10_000),
    )}),
    **_sizes(bundle.data, {f"bundle n{n} m{m} p{p}": (n, m, p) for n, m, p in (
        (49, 7776, 31_843), (257, 65_132, 225_911),
    )}),
    **_sizes(lstm.data, {f"lstm l{n} c{c}": (n, c) for n, c in ((2, 1024), (4, 1024), (2, 4096), (4, 4096))}),
    **_sizes(hand.data, {f"hand simple c{n}": (n,) for n in (200, 6400)}),
    **_sizes(hand.data, {f"hand complicated c{n}": (n, 544, True) for n in (200, 6400)}),
}  # fmt: skip
"""Inputs by the name of a case, whose first word is the module."""
