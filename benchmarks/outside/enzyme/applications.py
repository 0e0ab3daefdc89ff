"""Imports every module of applications, so that the table is whole."""

from . import bude, lbm, lulesh, rsbench, xsbench  # noqa: F401
from .application import APPLICATIONS

__all__ = ["APPLICATIONS"]
