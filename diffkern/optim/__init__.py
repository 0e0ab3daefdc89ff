"""Optimizers, clipping of gradients, and minimizers with derivatives. Linear systems are in ``optim.linear``."""

from __future__ import annotations

from diffkern.optim.argmin import argmin
from diffkern.optim.first_order import SGD, Adam, AdamW, clip_grad_norm, clip_grad_value
from diffkern.optim.lbfgs import LBFGS

__all__ = ["LBFGS", "SGD", "Adam", "AdamW", "argmin", "clip_grad_norm", "clip_grad_value"]
