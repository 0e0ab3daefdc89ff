"""Optimizers: Adam, AdamW, stochastic gradient descent, L-BFGS, and clipping of gradients."""

from __future__ import annotations

from diffkern.optim.first_order import SGD, Adam, AdamW, clip_grad_norm, clip_grad_value
from diffkern.optim.lbfgs import LBFGS

__all__ = ["LBFGS", "SGD", "Adam", "AdamW", "clip_grad_norm", "clip_grad_value"]
