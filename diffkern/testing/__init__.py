"""Checks that users run on their own kernels: of gradients, races and finite values. Also running kernels as Python."""

from __future__ import annotations

from diffkern.testing.bisect import WrongDerivative, bisect_gradient
from diffkern.testing.gradcheck import GradcheckReport, GradientError, KinkWarning, gradcheck
from diffkern.testing.horizon import horizon
from diffkern.testing.horizon_report import Horizon, HorizonReport
from diffkern.testing.kernel_coverage import CoverageWarning, kernel_coverage
from diffkern.testing.nonfinite import assert_finite, find_nonfinite
from diffkern.testing.races import Race, RaceError, Side, find_races, verify_races
from diffkern.testing.stepping import run_in_python

__all__ = [
    "CoverageWarning",
    "GradcheckReport",
    "GradientError",
    "Horizon",
    "HorizonReport",
    "KinkWarning",
    "Race",
    "RaceError",
    "Side",
    "WrongDerivative",
    "assert_finite",
    "bisect_gradient",
    "find_nonfinite",
    "find_races",
    "gradcheck",
    "horizon",
    "kernel_coverage",
    "run_in_python",
    "verify_races",
]
