"""Tests that users run on their own kernels: is the gradient right?"""

from __future__ import annotations

from diffkern.testing.gradcheck import GradcheckReport, GradientError, KinkWarning, gradcheck

__all__ = ["GradcheckReport", "GradientError", "KinkWarning", "gradcheck"]
