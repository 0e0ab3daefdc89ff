"""Imports every module of simulators, so that the table is whole."""

from . import billiards, bodies, electric, grids, mpm, springs, volume, walkers  # noqa: F401
from .simulation import SIMULATIONS

__all__ = ["SIMULATIONS"]
