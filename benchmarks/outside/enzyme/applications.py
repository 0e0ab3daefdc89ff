"""Imports every module of applications, so that the table is whole."""

from . import lbm, lulesh  # noqa: F401
from .application import APPLICATIONS

__all__ = ["APPLICATIONS"]
