"""The tools for debugging find nothing in the kernels of the corpus, but where there is something."""

from __future__ import annotations

import numpy as np
import pytest
from block_corpus import BLOCKS
from support.selection import one_in

import diffkern as dk
from diffkern.errors import KernelTypeError
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.testing import bisect_gradient, find_nonfinite, find_races, verify_races

from .build import values
from .corpus import CASES

NOT_FINITE = {
    "branches.overflow_before_the_choice": "growth becomes infinite",
    "branches.quotient_before_the_loop": "inverse becomes infinite",
    "functions.zero_to_a_power": "becomes infinite",  # the logarithm in the derivative
}
"""Cases in which a number is infinite, if only where it is not used."""

LAUNCHED = [name for name in CASES if not CASES[name].options]


OF_INDICES = ("tiles.by_indices", "tiles.slices_by_indices")


@pytest.mark.parametrize("name", one_in(24, sorted(LAUNCHED)))
def test_numbers_stay_finite(name: str) -> None:
    case = CASES[name]
    kernel = dk.kernel(case.function)
    found = find_nonfinite(kernel, case.dim, given(kernel, values(case)))
    assert (found is not None) is (name in NOT_FINITE), found
    assert found is None or NOT_FINITE[name] in found.text


@pytest.mark.parametrize("name", one_in(24, sorted(CASES)))
def test_no_races(name: str) -> None:
    case = CASES[name]
    kernel = dk.kernel(case.function)
    if name in OF_INDICES:
        with pytest.raises(KernelTypeError, match="the elements of another one"):
            find_races(kernel, case.dim, given(kernel, values(case)))
    else:
        verify_races(kernel, case.dim, given(kernel, values(case)))


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.full) for name in sorted(CASES)])
def test_no_line_is_wrong(name: str) -> None:
    case = CASES[name]
    kernel = dk.kernel(case.function)
    assert bisect_gradient(kernel, case.dim, given(kernel, values(case))) is None


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_no_races_in_blocks(name: str) -> None:
    case = BLOCKS[name]
    verify_races(case.kernel, case.dim, case.arguments(), block_dim=case.block_dim)


def given(kernel: dk.Kernel, args: list) -> list:
    """Arguments as a launch takes them: vectors by value are no arrays."""
    pairs = zip(args, (p.annotation for p in kernel.parameters), strict=True)
    by_value = (isinstance(a, np.ndarray) and not isinstance(t, (ArrayAnnotation, type(None))) for a, t in pairs)
    return [dk.types.vector(len(a), a.dtype)(*a) if whole else a for a, whole in zip(args, by_value, strict=True)]
