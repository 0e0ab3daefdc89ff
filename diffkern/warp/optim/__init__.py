"""Warp's optimizers: those of :mod:`diffkern.optim`."""

from __future__ import annotations

from diffkern.optim import LBFGS, SGD, Adam
from diffkern.warp.optim import linear  # noqa: F401

__all__ = ["LBFGS", "SGD", "Adam"]
