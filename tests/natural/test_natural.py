"""Kernels as users write them: each has the right derivatives, or is known to be refused; the run prints how many."""

from __future__ import annotations

from collections import Counter

import pytest
from support.selection import is_usual

from . import KERNELS
from .check import HVP, Verdict, check

REFUSED: dict[str, str] = {}
"""Kernels of which a derivative is refused, with a part of the reason."""

FOUND: dict[str, dict[str, Verdict]] = {}


@pytest.mark.parametrize("name", KERNELS)
def test_derivatives(name: str, pytestconfig: pytest.Config):
    """Second derivatives of one kernel in three; of all with --full."""
    found = FOUND[name] = check(KERNELS[name], second=is_usual(name, 3) or pytestconfig.getoption("--full"))
    assert not [v for v in found.values() if v.outcome == "wrong"], found
    refused = [v.reason for v in found.values() if v.outcome == "refused"]
    if name in REFUSED:
        assert refused, "it is not refused"
        assert all(REFUSED[name] in reason for reason in refused)
    else:
        assert not refused


def test_counts(capsys: pytest.CaptureFixture[str]):
    """At most three kernels are refused."""
    assert len(KERNELS) >= 92
    assert len(REFUSED) <= 3
    outcomes = Counter(v.outcome for found in FOUND.values() for v in found.values())
    reasons = Counter(v.reason for found in FOUND.values() for v in found.values() if v.outcome == "refused")
    seconds = sum(HVP in found for found in FOUND.values())
    with capsys.disabled():
        print(f"\n{len(FOUND)} natural kernels, {seconds} with second derivatives: {dict(outcomes)}", *reasons.items())
