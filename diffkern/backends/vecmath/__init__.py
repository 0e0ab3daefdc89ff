"""Vectorisable elementary functions."""

from diffkern.backends.vecmath.approx import NAMES, declare, evaluate

__all__ = ["NAMES", "declare", "evaluate"]
