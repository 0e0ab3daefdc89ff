"""What is measured of an objective: the value alone, and the value with its derivative."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Data = dict[str, Any]
Results = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """One library's way to compute an objective.

    Attributes
    ----------
    name
        The library.
    forward
        Computes the value.
    derivative
        Computes value and derivative.
    results
        What `derivative` computed last, under names that all libraries share.
    """

    name: str
    forward: Callable[[], object]
    derivative: Callable[[], object]
    results: Callable[[], Results]


def difference(found: Results, expected: Results) -> float:
    """Return the largest difference of two results, each relative to the largest number of its array.

    Raises
    ------
    AssertionError
        If names or shapes differ, or a number is not finite.
    """
    assert found.keys() == expected.keys(), (sorted(found), sorted(expected))
    worst = 0.0
    for name, right in expected.items():
        left = np.asarray(found[name])
        assert left.shape == right.shape, (name, left.shape, right.shape)
        assert np.isfinite(left).all(), name
        assert np.isfinite(right).all(), name
        worst = max(worst, float(np.abs(left - right).max() / np.abs(right).max()))
    return worst
