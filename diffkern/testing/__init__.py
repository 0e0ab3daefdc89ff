"""Tests that users run on their own kernels: is the gradient right? And a look inside: kernels run as Python."""

from __future__ import annotations

from diffkern.testing.gradcheck import GradcheckReport, GradientError, KinkWarning, gradcheck
from diffkern.testing.stepping import run_in_python

__all__ = ["GradcheckReport", "GradientError", "KinkWarning", "gradcheck", "run_in_python"]
