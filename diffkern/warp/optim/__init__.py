"""Warp's optimizers: those of :mod:`diffkern.optim`."""

from __future__ import annotations

from diffkern.optim import LBFGS, SGD, Adam

__all__ = ["LBFGS", "SGD", "Adam"]
